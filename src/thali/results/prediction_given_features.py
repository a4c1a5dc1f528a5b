r"""New rows given features that are kept: the probabilities of their bits, and their density.

    log p(x) = log Σ_z p(x | z, parameters) Π_k π_k^{z_k} (1−π_k)^{1−z_k}

with π_k = m_k/(N+1) or the like from the prior's tables, summed over all 2^K rows of bits up to
``SUMMED`` features (``summed_bits``). Beyond, and where a row's amounts cannot be integrated out,
the density is estimated or refused (``filtered_rows``), and the probabilities are shares of Gibbs
sweeps that begin under more noise. Each copy of a row may stay in the mode where the noise fell:
for nonnegative features much alike the shares are off by more than 0.1 on average in one small
problem of twenty (and by 0.13 at most).

A row has features among those that are kept; new ones of its own are left out. Its answer is the
same in whatever company it comes: each row is sampled by itself, from the same random numbers.
"""

from typing import cast

import numpy as np

from thali.data import Data
from thali.data.sparse import row_squares
from thali.hyperparameters import Values
from thali.likelihoods.base import Masked, Parameters
from thali.likelihoods.gibbs_updates import GibbsState, GibbsUpdates
from thali.likelihoods.table import TableLikelihood
from thali.model import Model
from thali.results import filtered_rows, prediction_of_tables
from thali.results.summed_bits import can_sum, summed

COPIES = 8  # of a row, sampled side by side
SWEEPS = 25  # over the bits of each copy that count, and as many before them that do not
HEAT = 8.0  # of σ_x at the first sweep, 1 at the first that counts


def probabilities(
    model: Model, hyper: Values, parameters: Parameters, odds: np.ndarray, new: Data
) -> np.ndarray:
    """P(z_k = 1 | x) of new rows, (n, K); their prior log odds are ``odds``."""
    new, parameters = in_span(new, parameters)
    fixed = cast(Masked, model.likelihood_at(hyper))
    if can_sum(fixed, len(odds)):
        return summed(fixed, parameters, odds, new)[0]
    if isinstance(fixed, TableLikelihood):
        return prediction_of_tables.probabilities(model, hyper, parameters, odds, new)
    return sampled(model, hyper, parameters, odds, new)


def log_densities(
    model: Model,
    hyper: Values,
    parameters: Parameters,
    odds: np.ndarray,
    new: Data,
    particles: int | None = None,
) -> np.ndarray:
    """log p(x) of new rows, (n,); ``particles`` are those of an estimate."""
    fixed = cast(Masked, model.likelihood_at(hyper))
    within, parameters = in_span(new, parameters)
    if can_sum(fixed, len(odds)):
        logs = summed(fixed, parameters, odds, within)[1]
    else:
        logs = filtered_rows.rows_given_features(
            *(model, hyper, parameters, odds, within), particles=particles
        ).log_densities
    if not new.sparse:
        return logs
    # what a row has outside the span of the features is noise, whatever its bits
    outside = row_squares(new.X) - np.square(within.X).sum(axis=1)
    dimensions, variance = new.d - within.d, model.likelihood_values(hyper)["sigma_x"] ** 2
    logs -= 0.5 * (dimensions * np.log(2.0 * np.pi * variance) + outside / variance)
    return logs


def in_span(new: Data, parameters: Parameters) -> tuple[Data, Parameters]:
    """A sparse X and its features A as their coordinates in the span of A, at most K columns.

    Given Aᵀ = QR, XQ and AQ have the same products XAᵀ and AAᵀ, which are all that bits depend on
    under ``TakesSparse``. A dense X stays as it is.
    """
    if not new.sparse:
        return new, parameters
    A = parameters["A"]
    Q = np.linalg.qr(A.T)[0] if len(A) else np.zeros((A.shape[1], 1))
    return Data(np.asarray(new.X @ Q)), {"A": np.ascontiguousarray(A @ Q)}


def sampled(
    model: Model, hyper: Values, parameters: Parameters, odds: np.ndarray, new: Data
) -> np.ndarray:
    """Shares of Gibbs sweeps in which each bit is on, the features' parameters held fixed."""
    pi = 1.0 / (1.0 + np.exp(-odds))
    axes = cast(GibbsUpdates, model.likelihood).axes
    found = np.empty((new.n, len(odds)))
    for i, (x, seen) in enumerate(zip(new.X, new.seen, strict=True)):
        if not seen.any():
            found[i] = pi
            continue
        shown = {  # of parameters with a row for each feature, the columns that the row shows
            name: np.ascontiguousarray(value[:, seen])
            for name, value in parameters.items()
            if axes[name] == 0
        }
        likelihood, values = cast(GibbsUpdates, model.likelihood).of_columns(
            seen, model.likelihood_values(hyper)
        )
        found[i] = share_of_sweeps(likelihood, x[seen], shown, values, pi)
    return found


def share_of_sweeps(
    likelihood: GibbsUpdates, x: np.ndarray, parameters: Parameters, hyper: Values, pi: np.ndarray
) -> np.ndarray:
    """How often each bit of a complete row is on, their prior probabilities being π."""
    from thali.kernels.bit_prior import BitPrior

    rng, k = np.random.default_rng(0), len(pi)
    copies = Data(np.tile(x, (COPIES, 1)))
    values = dict(hyper)
    own = likelihood.new_parameters(rng, copies, k, values)  # those of each row are the copies' own
    bits = (rng.random((COPIES, k)) < pi).astype(np.uint8)  # apart, so as to find more modes
    state = GibbsState(copies, bits, {**own, **parameters}, values)
    total = np.zeros(k)
    counts = np.full(k, 2 * COPIES + 2, np.int64)  # in use whatever the copies do
    for i in range(2 * SWEEPS):
        if "sigma_x" in values:  # at first more noise, under which copies go from mode to mode
            heat = HEAT ** max(0.0, 1.0 - i / SWEEPS)
            state.hyper = {**values, "sigma_x": heat * values["sigma_x"]}
        likelihood.update_bits(rng, state, BitPrior(np.zeros(0), counts, pi))
        if i >= SWEEPS:
            total += state.bits.mean(axis=0)
    return total / SWEEPS
