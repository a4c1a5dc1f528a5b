"""Where an engine begins: a start is a latent value and numbers for the hyperparameters.

A start registers itself under its name in ``thali.registry.STARTS``.

One file a start: ``prior``, ``empty``, ``ica``, ``sparse_ica``, ``columns``, ``patterns`` (for
noisy-or), ``count_ica`` (for counts), ``given`` (a value or a fitted model), and ``race``, which
tries several, changes them, and lets the log joint decide; ``anneal`` leads from one of them to
another by letting the data in by degrees.
"""

from thali.registry import import_family
from thali.starts.anneal import anneal
from thali.starts.base import Start, blind_names, check_init, start, start_names
from thali.starts.empty import empty_start
from thali.starts.given import given_start

import_family(__name__, __path__)

__all__ = ["Start", "anneal", "blind_names", "check_init", "empty_start", "given_start"]
__all__ += ["start", "start_names"]
