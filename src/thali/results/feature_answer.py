r"""The answer of a fit in features: a point estimate of Z, its parameters, and the log joint there.

Where A can be integrated out the parameters are E[A | X, Z] and the log joint is log P(X, [Z]).
Where not, they stand for Gibbs updates of the parameters given Z, and the log joint has them.
"""

from collections.abc import Iterator, Sequence
from functools import singledispatch
from typing import NamedTuple, cast

import numpy as np

from thali.hyperparameters import Values
from thali.likelihoods.base import Collapsed, Parameters
from thali.likelihoods.gibbs_updates import GibbsState, GibbsUpdates
from thali.results.far_answer import far_log_joint
from thali.results.fit import Fit, PointFit, VariationalFit
from thali.results.point_estimate import point_estimate
from thali.results.trace import Recorded
from thali.structures.base import PointEstimate
from thali.structures.feature_estimate import match_columns

UPDATES, FEWEST = 100, 20  # of parameters that have no closed mean, to be averaged:
ENTRIES = 5_000_000  # so many entries are looked at; the more there are, the more each mean tells


class Answer(NamedTuple):
    """The estimate of Z, the parameters that belong to it, and the log joint there."""

    estimate: PointEstimate[np.ndarray]
    parameters: Parameters
    log_joint: float


@singledispatch
def answer(fit: Fit) -> Answer:
    """The estimate from the draws, and its parameters at the posterior mean of the rest."""
    estimate, picked = point_estimate(fit)
    return Answer(estimate, *answer_at(fit, estimate.latent, picked))


@answer.register
def _(fit: PointFit) -> Answer:
    """The value that was found, with the parameters that were found with it."""
    estimate, picked = point_estimate(fit)
    if isinstance(fit.model.likelihood, Collapsed):
        return Answer(estimate, *answer_at(fit, estimate.latent, picked))
    hyper = fit.mean_hyper()
    state, _ = first_state(fit, estimate.latent, picked, hyper)
    state.parameters = {name: value.astype(float) for name, value in state.parameters.items()}
    return Answer(estimate, state.parameters, log_joint_at(fit, estimate.latent, state.parameters))


@answer.register
def _(fit: VariationalFit) -> Answer:
    """Z where ν > ½, ν itself, means of the parameters; of the features in use."""
    params = fit.params
    used = features_in_use(params)
    nu = np.ascontiguousarray(params["nu"][:, used])
    Z = nu > 0.5
    loss = sum(float(np.minimum(column, 1.0 - column).sum()) for column in nu.T)  # nu is large
    parameters = {"A": np.ascontiguousarray(params["phi"][used])}
    if "first" in params:
        parameters["S"] = params["first"][:, used] * Z
    return Answer(PointEstimate(Z, nu, loss), parameters, log_joint_at(fit, Z, parameters))


def answer_at(fit: Fit, Z: np.ndarray, recorded: Sequence[Recorded]) -> tuple[Parameters, float]:
    """The parameters that belong to Z, and the log joint there.

    Where A cannot be integrated out, what stands for Gibbs updates of the parameters given Z
    (``representative``), begun from those of the ``recorded`` draw that is nearest to Z. Begun from
    the prior, with little noise, amounts and features would hold each other far from where they
    fit.
    """
    model, data, hyper = fit.model, fit.data, fit.mean_hyper()
    fixed = model.at(hyper)
    if isinstance(fixed.likelihood, Collapsed):
        parameters = {"A": fixed.likelihood.features(data, Z)}
        return parameters, log_joint_at(fit, Z, parameters)
    likelihood = cast(GibbsUpdates, fixed.likelihood)
    state, rng = first_state(fit, Z, recorded, hyper)
    state.data = likelihood.augment(rng, data, state.bits, state.parameters)

    def updates() -> Iterator[Parameters]:
        kept = int(np.clip(ENTRIES // (data.n * data.d), FEWEST, UPDATES))
        for i in range(kept + kept // 2):
            likelihood.update_parameters(rng, state, hold=True)
            state.data = likelihood.augment(rng, state.data, state.bits, state.parameters)
            if i >= kept // 2:
                yield state.parameters

    own = model.likelihood_values(dict(hyper))
    given = GibbsState(data, state.bits, {}, own)
    parameters = likelihood.representative(given, updates())
    return parameters, log_joint_at(fit, Z, parameters)


def first_state(
    fit: Fit, Z: np.ndarray, recorded: Sequence[Recorded], hyper: Values
) -> tuple[GibbsState, np.random.Generator]:
    """Z with the parameters of the nearest draw, those of the prior where it has none."""
    rng = np.random.default_rng(np.random.SeedSequence((fit.seed, 0)))
    likelihood = cast(GibbsUpdates, fit.model.likelihood_at(hyper))
    own = fit.model.likelihood_values(dict(hyper))
    otherwise = likelihood.new_parameters(rng, fit.data, Z.shape[1], own)
    parameters = nearest(recorded, Z, otherwise, likelihood.axes)
    bits = np.ascontiguousarray(Z, dtype=np.uint8)
    return GibbsState(fit.data, bits, parameters, own), rng


def log_joint_at(fit: Fit, Z: np.ndarray, parameters: Parameters) -> float:
    """log P(X, [Z]), or log P(X, parameters, [Z]) where A cannot be integrated out."""
    if fit.data.far:
        return far_log_joint(fit, Z, parameters)
    hyper = fit.mean_hyper()
    fixed = fit.model.at(hyper)
    if isinstance(fixed.likelihood, Collapsed):
        return fixed.log_joint(fit.data, Z)
    own = fit.model.likelihood_values(dict(hyper))
    state = GibbsState(fit.data, np.ascontiguousarray(Z, np.uint8), parameters, own)
    likelihood = cast(GibbsUpdates, fixed.likelihood)
    return likelihood.log_density(state) + fixed.prior.log_prob(state.bits)


def features_in_use(params: dict[str, np.ndarray]) -> np.ndarray:
    """The features that some row is more likely than not to have, the most frequent first.

    Of a stream, whose rows are gone, those that at least one is expected to have had.
    """
    if "stream_counts" in params:
        counts = params["stream_counts"]
        return np.argsort(-counts, kind="stable")[: int((counts > 0.5).sum())]
    used = np.flatnonzero((params["nu"] > 0.5).any(axis=0))
    return used[np.argsort(-params["nu"][:, used].sum(axis=0), kind="stable")]


def nearest(
    recorded: Sequence[Recorded], Z: np.ndarray, otherwise: Parameters, axes: dict[str, int]
) -> Parameters:
    """The parameters of the recorded draw whose Z is nearest, its columns matched to those of Z.

    Columns that it does not have are those of ``otherwise``.
    """
    real = Z.astype(np.float32)
    matched = [match_columns(real, draw.latent.astype(np.float32)) for draw in recorded]
    best = min(range(len(matched)), key=lambda i: matched[i][2])
    draw, (mine, theirs, _) = recorded[best], matched[best]
    alike = (Z[:, mine] & draw.latent[:, theirs]).any(axis=0)
    found = {}
    for name, value in otherwise.items():
        first = np.moveaxis(value, axes[name], 0).copy()
        first[mine[alike]] = draw.parameters[name][theirs[alike]]
        found[name] = np.ascontiguousarray(np.moveaxis(first, 0, axes[name]))
    return found
