"""How long a chain remembers: the autocorrelation of a scalar along it.

    ρ(l) = Σ_{t>l} (v_t − v̄)(v_{t−l} − v̄) / Σ_t (v_t − v̄)²,   averaged over chains

as Welling and others (2012, figure 5) show it for the number of features.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray


def autocorrelation(series: ArrayLike, lags: int = 100) -> NDArray[np.float64]:
    """Autocorrelation at lags 0, 1, …, ``lags`` of a scalar in one chain or several.

    Chains are centered on the mean of them all, so that chains that never meet show as correlation
    that does not fall. A scalar that never changes has no autocorrelation: NaN.

    Parameters
    ----------
    series : array of shape (draws,) or (chains, draws)
        Such as ``model.history_["n_components"]`` without its burn-in.
    lags : int
        The largest lag; at most one less than the number of draws is used.

    Examples
    --------
    >>> from thali.evaluation import autocorrelation
    >>> autocorrelation([1, 2, 3, 2, 1, 2, 3, 2], lags=2).round(2).tolist()
    [1.0, 0.0, -0.75]
    """
    values = np.atleast_2d(np.asarray(series, dtype=np.float64))
    if values.ndim != 2 or values.shape[1] == 0:
        raise ValueError(f"series has shape {np.shape(series)}: give (draws,) or (chains, draws).")
    if not np.isfinite(values).all():
        raise ValueError("series holds values that are not finite.")
    if lags < 0:
        raise ValueError(f"lags must be 0 or more, not {lags}.")
    draws = values.shape[1]
    most = min(int(lags), draws - 1)
    centered = values - values.mean()
    power = np.abs(np.fft.rfft(centered, n=2 * draws, axis=1)) ** 2  # padded: no wrapping around
    products = np.fft.irfft(power, axis=1)[:, : most + 1].sum(axis=0)
    variance = float(np.square(centered).sum())
    return products / variance if variance > 0.0 else np.full(most + 1, np.nan)
