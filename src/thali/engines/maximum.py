"""The best value of one number, the others held: of a positive one, or of a probability."""

from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import expit, logit

EDGE = 1e-6  # a probability stays this far from 0 and 1, where its best may be


def best_number(
    target: Callable[[float], float],
    now: float,
    reach: float,
    tolerance: float,
    probability: bool = False,
) -> float:
    """The maximum of ``target`` near ``now``, or ``now`` itself if that is no worse.

    It is looked for up to ``reach`` away on the log scale, or on that of log p/(1−p).

    >>> round(best_number(lambda x: -((x - 2.0) ** 2), 1.0, 3.0, 1e-9), 6)
    2.0
    """
    middle = float(logit(now) if probability else np.log(now))
    low, high = middle - reach, middle + reach
    if probability:
        low, high = max(low, float(logit(EDGE))), min(high, -float(logit(EDGE)))

    def back(at: float) -> float:
        return float(expit(at) if probability else np.exp(at))

    if not low < high:
        return now
    found = minimize_scalar(
        lambda at: -target(back(at)),
        bounds=(low, high),
        method="bounded",
        options={"xatol": tolerance},
    )
    best = back(float(found.x))
    return best if target(best) > target(now) else now
