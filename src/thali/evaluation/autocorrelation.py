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
    products = products_by_lag(series, lags).sum(axis=0)
    return products / products[0] if products[0] > 0.0 else np.full_like(products, np.nan)


def autocorrelation_time(series: ArrayLike) -> float:
    """The integrated autocorrelation time: so many draws of the chains are worth one.

    τ = 1 + 2 Σ_l ρ(l), summed as long as sums of two neighbors are positive and made to fall
    (Geyer 1992). A chain of few times τ tells too small a τ. NaN where nothing changes.

    Parameters
    ----------
    series : array of shape (draws,) or (chains, draws)
        As for `autocorrelation`.

    Examples
    --------
    >>> import numpy as np
    >>> from thali.evaluation import autocorrelation_time
    >>> draws = np.random.default_rng(0).normal(size=1000)
    >>> round(autocorrelation_time(np.repeat(draws, 10)))  # each is told ten times
    10
    """
    rho = autocorrelation(series, np.shape(series)[-1])
    if len(rho) < 2 or not np.isfinite(rho[0]):
        return float("nan")
    pairs = rho[: len(rho) // 2 * 2].reshape(-1, 2).sum(axis=1)
    ends = np.flatnonzero(pairs <= 0.0)
    pairs = np.minimum.accumulate(pairs[: ends[0] if len(ends) else None])
    return float(2.0 * pairs.sum() - 1.0)


def products_by_lag(series: ArrayLike, lags: int) -> NDArray[np.float64]:
    """Σ_t (v_t − v̄)(v_{t−l} − v̄) of each chain, v̄ the mean of all chains, (chains, lags)."""
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
    products = np.asarray(np.fft.irfft(power, axis=1)[:, : most + 1])
    products[:, 0] = np.square(centered).sum(axis=1)
    return np.where(products[:, :1] > 0.0, products, 0.0)
