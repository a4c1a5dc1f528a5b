"""Where an engine begins: a start is a matrix Z and numbers for the hyperparameters.

A start registers itself under its name in ``thali.registry.STARTS``.

One file a start: ``prior``, ``empty``, ``ica``, ``sparse_ica``, ``columns``, ``patterns`` (for
noisy-or), ``given`` (a matrix or a fitted model), and ``race``, which tries several, changes them,
and lets the log joint decide; ``anneal`` leads from one of them to another by letting the noise
fall.
"""

from thali.registry import import_family
from thali.starts.anneal import anneal, melting_scale
from thali.starts.base import (
    Start,
    blind_names,
    check_init,
    contenders,
    start,
    start_names,
    suitable,
)
from thali.starts.columns import columns_start
from thali.starts.empty import empty_start
from thali.starts.given import given_start
from thali.starts.ica import ica_start
from thali.starts.patterns import patterns_start
from thali.starts.prior import prior_start
from thali.starts.race import Finish, different, perturb, rank
from thali.starts.sparse_ica import sparse_ica_start

import_family(__name__, __path__)

__all__ = [
    "Finish",
    "Start",
    "anneal",
    "blind_names",
    "check_init",
    "columns_start",
    "contenders",
    "different",
    "empty_start",
    "given_start",
    "ica_start",
    "melting_scale",
    "patterns_start",
    "perturb",
    "prior_start",
    "rank",
    "sparse_ica_start",
    "start",
    "start_names",
    "suitable",
]
