r"""What a probability of a binary matrix is the probability of: three ways to see columns as equal.

    left-ordered       a set of columns                               P([Z])
    shifted            K₊ columns in their order, empty ones aside    P([Z]) ∏_h K_h! / K₊!
    first-appearance   columns by the row that is first to have them,
                       those of one row in their order                P([Z]) ∏_h K_h! / ∏_n K_1^(n)!

K_1^(n) columns have row n as their first. A class [Z] holds K₊!/∏_h K_h! of the second, all equally
probable as columns are exchangeable, and ∏_n K_1^(n)!/∏_h K_h! of the third. For the Indian buffet
process they are those of Griffiths and Ghahramani (2005), Reed and Ghahramani (2013, eq. 1), and
the buffet as it is told.
"""

from typing import Any

import numpy as np
from scipy.special import gammaln

from thali.structures.features import feature_counts, used_columns

FORMS = ("left-ordered", "shifted", "first-appearance")


def checked_form(owner: str, form: object) -> str:
    """The form, also by a name with underscores; what is none is refused."""
    name = form.replace("_", "-") if isinstance(form, str) else form
    if not isinstance(name, str) or name not in FORMS:
        known = ", ".join(map(repr, FORMS))
        raise ValueError(f"{owner}.log_prob: form must be one of {known}, not {form!r}.")
    return name


def log_in_form(Z: Any, form: str, log_prob: float) -> float:
    """The log probability in this form, given the left-ordered one.

    >>> round(log_in_form([[1, 1], [0, 1]], "shifted", 0.0), 4)  # one of two orders
    -0.6931
    """
    if form == "left-ordered":
        return log_prob
    used = used_columns(Z)
    told_apart = np.array([used.shape[1]])
    if form == "first-appearance":
        told_apart = np.bincount(used.argmax(axis=0)) if used.shape[1] else told_apart
    equal = feature_counts(used).multiplicities
    return float(log_prob + gammaln(equal + 1.0).sum() - gammaln(told_apart + 1.0).sum())
