"""Convergence of chains, as ArviZ computes it: R-hat and effective sample sizes of scalars."""

import warnings
from types import ModuleType

import numpy as np


def import_arviz() -> ModuleType:
    """ArviZ, without the daily notice it prints about its next version."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        import arviz
    return arviz


def summarize(what: str, values: np.ndarray) -> float:
    """ArviZ's "rhat" or "ess" of (chains, draws), without compiling anything for it."""
    arviz = import_arviz()
    Numba = arviz.utils.Numba
    compiled, Numba.numba_flag = Numba.numba_flag, False
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # few draws or constant chains: the answer is NaN
            return float(getattr(arviz, what)(values))
    finally:
        Numba.numba_flag = compiled


def rhat_and_ess(values: np.ndarray) -> dict[str, float]:
    """R-hat and bulk effective sample size of (chains, draws), NaN where undefined."""
    rhat = ess = float("nan")
    if values.shape[1] >= 4 and np.ptp(values) > 0:
        ess = summarize("ess", values)
        if values.shape[0] > 1:
            rhat = summarize("rhat", values)
    return {"rhat": rhat, "ess": ess}
