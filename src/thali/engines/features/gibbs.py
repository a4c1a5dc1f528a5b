r"""Collapsed Gibbs sampling of a feature matrix Z, with A integrated out.

As in Griffiths and Ghahramani (2005). A step is a few attempts at a change of whole columns
(``kernels.column_moves``), one sweep over all bits and all rows' own features, O(N(K² + KD)), then
the hyperparameters: α given [Z] (conjugate for the IBP), and σ_x, σ_a given Z, each evaluation of
whose density costs O(K) through the eigenvalues of ZᵀZ.

Any prior with tables of potentials will do; the finite sampler is this engine × BetaBernoulli.

Where entries of X are missing the state's data are ``Augmented`` by draws of them: the sweep draws
each row's bits and missing entries together (``kernels/masked_rows.py``), α and the σ's are drawn
given the completed data, and a step ends with A, given Z and what was observed, and then all
missing entries afresh: by the likelihood's ``augment``, or by compiled code that draws the same
(``kernels/masked_columns.py``). The log joint is that of the observed entries alone, with A
integrated out column by column.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from thali.data import Augmented, Data
from thali.engines.base import Drawn, Info
from thali.engines.compiled_laws import laws_of
from thali.engines.features.columns import move_columns
from thali.engines.features.planning import moves_every, sweeps_a_call
from thali.engines.features.state import FeatureState, augmented, begin, total_square
from thali.hyperparameters import Values
from thali.likelihoods.base import Scaled
from thali.likelihoods.gaussian_scales import scales_without_features
from thali.likelihoods.gibbs_updates import LatentGaussians
from thali.likelihoods.masked_columns import gaps_of
from thali.model import Model
from thali.priors.base import PredictsRow
from thali.starts import Start
from thali.structures.features import FeatureTables, counts_from_gram, with_row_sums

if TYPE_CHECKING:
    from thali.kernels.collapsed_rows import Report
    from thali.kernels.gaussian_row import Scales
    from thali.kernels.hyperparameter_steps import Laws


def several(
    rng: np.random.Generator,
    model: Model,
    data: Data,
    state: FeatureState,
    most: int,
    keep: bool,
    moves: int,
    sigma_step: str,
) -> list[Drawn]:
    """Sweeps up to the next moves on columns, in one call of compiled code where it can update the
    hyperparameters too; one sweep where it cannot."""
    values = model.likelihood_values(state.hyper)
    scales = scales_of(model, values, state.data)
    if state.prior is None:
        state.prior = cast(PredictsRow, model.prior_at(state.hyper))
    tables = state.prior.tables(data.n)
    laws = laws_at(model, data, state, sigma_step)
    turn = moves_every(data)
    count = min(most, turn - state.sweep % turn, sweeps_a_call(state)) if laws.here else 1
    try:
        if moves and state.sweep % turn == 0:
            move_columns(rng, state, tables, scales, moves * turn)
        scalars, bits = sweep(rng, state, tables, scales, laws, count, keep)
    except (np.linalg.LinAlgError, ZeroDivisionError):
        raise ValueError(
            f"Features are nearly equal and the noise sigma_x={scales.sigma_x:.3g} is so "
            f"small beside sigma_a={scales.sigma_a:.3g} that double precision cannot tell "
            "them apart; give a larger sigma_x, or let both be inferred."
        ) from None
    state.sweep += count
    if laws.here:
        return drawn_by(model, data, state, scalars, bits if keep else None)
    info = update(rng, model, data, state, tables, values, sigma_step)
    drift = float(scalars[0, 6])
    packed = model.structure.pack(state.latent) if keep else None
    return [Drawn(info._replace(drift=drift), packed, dict(state.parameters))]


def drawn_by(
    model: Model,
    data: Data,
    state: FeatureState,
    scalars: np.ndarray,
    packed: np.ndarray | None,
) -> list[Drawn]:
    """What compiled code did, sweep by sweep; the state's hyperparameters are the last ones."""
    drawn: list[Drawn] = []
    prior, likelihood = model.labels["prior"], model.labels["likelihood"]
    labels = [prior.get("alpha"), likelihood["sigma_x"], likelihood["sigma_a"]]
    inferred = model.hyperpriors
    bits, n_bytes = packed, -(-data.n // 8)
    for k, evidence, log_prior, *numbers, drift in scalars.tolist():
        hyper = dict(state.hyper)
        for label, number in zip(labels, numbers, strict=True):
            if label is not None and label in inferred:
                hyper[label] = number
        latent = None
        if bits is not None:
            size = n_bytes * int(k)
            latent, bits = bits[:size].reshape(n_bytes, int(k)), bits[size:]
        drawn.append(Drawn(Info(int(k), evidence + log_prior, hyper, drift), latent, {}))
    if drawn[-1].info.hyper != state.hyper:
        state.hyper.update(drawn[-1].info.hyper)
        state.prior = None
    return drawn


def update(
    rng: np.random.Generator,
    model: Model,
    data: Data,
    state: FeatureState,
    tables: FeatureTables,
    values: Values,
    sigma_step: str,
) -> Info:
    """The hyperparameters after a sweep, where compiled code cannot see to them."""
    hyper, k = state.hyper, state.n_components
    counts = counts_from_gram(data.n, state.rows.C[:k, :k])
    counts = with_row_sums(counts, tables, state.rows.Z[:, :k])
    model.prior.resample(rng, model.prior_values(hyper), counts)
    hold = state.sweep <= state.hold_sigma
    if not isinstance(model.likelihood, LatentGaussians):  # whose latents go along with the scales
        evidence = scales_without_features(
            rng,
            cast(Scaled, model.likelihood),
            state.rows.C[:k, :k].copy(),
            state.rows.T[:k],
            total_square(state.data),
            data.n,
            data.d,
            values,
            sigma_step,
            hold=hold,
            scale=float(np.sqrt(data.mean_square)),
        )
    if model.likelihood.augments(data):
        Z = state.latent
        state.data, state.parameters, evidence = augmented(rng, model, state.data, Z, hyper, hold)
        state.rows.T[:k] = Z.T.astype(float) @ state.X
    state.prior = cast(PredictsRow, model.prior_at(hyper))
    return Info(k, evidence + state.prior.log_prob_counts(counts), dict(hyper), 0.0)


def laws_at(model: Model, data: Data, state: FeatureState, sigma_step: str) -> Laws:
    """How compiled code updates the hyperparameters, if it can."""
    squares = 0.0 if isinstance(state.data, Augmented) else total_square(state.data)
    held = state.hold_sigma - state.sweep
    return laws_of(model, data, state.hyper, squares, held, sigma_step == "slice")


def sweep(
    rng: np.random.Generator,
    state: FeatureState,
    tables: FeatureTables,
    scales: Scales,
    laws: Laws,
    count: int,
    keep: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """A few passes of the compiled kernel; returns what it says of each."""
    from thali.kernels import collapsed_rows as kernel
    from thali.kernels.new_features import MOST_NEW

    data, k = state.data.given, state.n_components
    report: Report
    gaps = gaps_of(data)
    complete = gaps is None
    X = state.X if complete else state.X.copy()  # in which it draws
    squares = state.data.squares if complete else None
    plan = kernel.Plan(count, state.sweep, keep, 0)
    state.rows, report, scalars, packed = kernel.sweeps(
        rng, X, squares, gaps, state.rows, k, tables, scales, laws, plan, None
    )
    state.n_components = int(report.n_components)
    if not complete:
        state.data = Augmented(X, source=data, latent=state.data.whole)
    if report.refused >= 0 and tables.new_log_weight > np.log(0.1 * MOST_NEW):
        own = {} if state.prior is None else state.prior.start()
        mass = ", ".join(f"{name}={value:.3g}" for name, value in own.items())
        raise ValueError(
            f"With {mass} the prior gives a row more than "
            f"{np.exp(tables.new_log_weight):.3g} features of its own; give a smaller alpha, "
            "or let it be inferred."
        )
    if report.refused >= 0:
        raise ValueError(
            f"Row {int(report.refused)} is so far from what features of scale sigma_a="
            f"{scales.sigma_a:.3g} can make that it asks for more than {MOST_NEW} of "
            "its own; give a larger sigma_a, let it be inferred, or look at that row."
        )
    return scalars, packed


def scales_of(model: Model, hyper: Values, data: Data) -> Scales:
    """The likelihood's numbers as kernels read them; the noise of latent Gaussians is one."""
    from thali.kernels.gaussian_row import Scales

    noise = 1.0 if isinstance(model.likelihood, LatentGaussians) else hyper["sigma_x"]
    return Scales(noise, hyper["sigma_a"], float(data.d))


def rehearse(part: str, model: Model, missing: bool, sigma_step: str) -> None:
    """One call of what ``part`` names, on next to no data: so that it is compiled."""
    rng = np.random.default_rng(0)
    n = cast(PredictsRow, model.prior).rows_described or 2
    X = np.ones((n, 2))
    X[0, 0] = np.nan if missing else 0.0
    data = Data.of(X)
    state = begin(rng, model, data, Start(part, np.eye(n, 2, dtype=bool), model.start(data)))
    scales = scales_of(model, model.likelihood_values(state.hyper), state.data)
    tables = cast(PredictsRow, model.prior_at(state.hyper)).tables(data.n)
    if part == "moves":
        move_columns(rng, state, tables, scales, 0)
    else:
        laws = laws_at(model, data, state, sigma_step)
        sweep(rng, state, tables, scales, laws, 0, False)
