r"""log P(X), all else integrated out, by annealed importance sampling (Neal 2001), from both ends.

With targets P(Z) P(parameters | Z) f_β, f_0 = 1 and f_1 = P(X | Z, parameters)
(``likelihoods/tempered.py``), and 0 = β_0 < β_1 < … < β_T = 1, a run begins with a draw of
hyperparameters, Z and parameters from the prior and lets the data in by degrees:

    log w = Σ_t log f_{β_{t+1}}(state_t) − log f_{β_t}(state_t),      E[w] = P(X),

where state_t comes from state_{t−1} by a step that leaves the target of β_t invariant: one of Gibbs
sampling at the numbers that stand for β_t, and slice steps on the likelihood's hyperparameters.
E[w] = P(X) for any number of steps. With too few of them, runs come late to where the posterior is,
and log mean w is then likely below log P(X): by Markov's inequality it is above log P(X) + c with
probability at most e^{−c}.

A run that begins with a draw from the posterior and goes the other way has E[1/w] = 1/P(X), so that
−log mean 1/w is likely above log P(X), as far as the draws are from the posterior (Grosse,
Ghahramani and Adams 2015). Where the two ends are apart, so many steps do not tell.

Parameters that can be integrated out given the others are, in f: a step then begins with a draw of
them given the rest. Of the prior nothing is needed but draws and steps.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import cast

import numpy as np

from thali.data import Data
from thali.engines.base import AnyEngine
from thali.engines.uncollapsed_gibbs import UncollapsedGibbs
from thali.hyperparameters import (
    Hyperprior,
    Values,
    slice_step,
    slice_step_of_probability,
    slice_step_of_real,
)
from thali.likelihoods.base import GaussianRows, Parameters
from thali.likelihoods.gibbs_updates import GibbsState
from thali.likelihoods.tempered import Densities, Tempered
from thali.model import Model
from thali.priors.base import FeaturePrior, PredictsRow, weighs_rows
from thali.results.evidence import Evidence, evidence_of
from thali.results.feature_draws import Draw
from thali.run.choices import choose_engine
from thali.run.progress import Progress
from thali.starts import Start

NOTHING = 1e-100  # the β that stands for 0: f is 1 to the last digit, and σ_x/√β a number
ALWAYS = 2**62  # steps for which an engine holds the scales: they are drawn here
POWER = 3.0  # β_t = (t/T)³: small at first, where the prior's draws are far from the data
STEPS = (100, 600)  # the fewest and the most that are made unless told otherwise
EFFECTIVE = 4.0  # runs: where fewer count, and nothing is known from above, a warning
APART = 1.0  # how far ends may be apart without one, besides twice the error


def default_steps(data: Data) -> int:
    """More for larger data, up to a limit: 20 √(ND)."""
    return int(np.clip(20.0 * np.sqrt(data.n * data.d), *STEPS))


@dataclass
class Annealed:
    """A state on its way between prior and posterior; ``hyper`` are numbers as they are, not as
    they stand for a temperature. ``parameters`` are empty where the engine integrates them out."""

    rng: np.random.Generator
    model: Model
    data: Data
    engine: AnyEngine
    Z: np.ndarray
    parameters: Parameters
    hyper: Values
    densities: Densities = field(init=False)

    def __post_init__(self) -> None:
        self._look()

    @classmethod
    def from_prior(
        cls, rng: np.random.Generator, model: Model, data: Data, engine: AnyEngine
    ) -> Annealed:
        """A draw from the prior."""
        Z, own = cast(FeaturePrior, model.prior).sample_with_hyper(rng, data.n)
        hyper = model.start(data)
        hyper |= {label: law.sample(rng) for label, law in model.hyperpriors.items()}
        hyper |= {model.labels["prior"][name]: value for name, value in own.items()}
        parameters, likelihood = {}, cast(Tempered, model.likelihood)
        if isinstance(engine, UncollapsedGibbs):
            values = model.likelihood_values(hyper)
            parameters = likelihood.new_parameters(rng, data, Z.shape[1], values)
        return cls(rng, model, data, engine, Z, parameters, hyper)

    @classmethod
    def from_draw(
        cls, rng: np.random.Generator, model: Model, data: Data, engine: AnyEngine, draw: Draw
    ) -> Annealed:
        """A draw of the posterior."""
        kept = isinstance(engine, UncollapsedGibbs)
        parameters = {"A": draw.A, **draw.parameters} if kept else {}
        return cls(rng, model, data, engine, draw.Z, parameters, dict(draw.hyper))

    def log_f(self, beta: float) -> float:
        """log f_β and the log density of the parameters."""
        likelihood = cast(Tempered, self.model.likelihood)
        warm = likelihood.tempered(self.data, self.model.likelihood_values(self.hyper), beta)
        return self.densities(warm.hyper) + warm.log_factor

    def step(self, beta: float) -> None:
        """One that leaves the target of β invariant."""
        rng, model, data = self.rng, self.model, self.data
        likelihood = cast(Tempered, model.likelihood)
        warm = dict(self.hyper)
        own = likelihood.tempered(data, model.likelihood_values(self.hyper), beta).hyper
        model.likelihood_values(warm).update(own)
        parameters = {}
        if self.parameters:
            place = self._state(model.likelihood_values(warm))
            parameters = likelihood.redrawn(rng, data, place)
        start = Start("annealed", self.Z, warm, ALWAYS, parameters)
        state = self.engine.begin(rng, model, data, start)
        self.engine.step(rng, model, data, state)
        self.Z = state.latent
        if self.parameters:
            self.parameters = state.parameters
        now = getattr(state, "all_hyper", state.hyper)
        self.hyper.update({label: now[label] for label in model.labels["prior"].values()})
        self._look()
        self._scales(beta)

    def _scales(self, beta: float) -> None:
        """Slice steps on the likelihood's hyperparameters."""
        own = self.model.likelihood_values(self.hyper)
        width = min(1.0, 3.0 / np.sqrt(1.0 + 2.0 * beta * self.data.n * self.data.d))
        for name in self.model.labels["likelihood"]:
            law = getattr(self.model.likelihood, name)
            if not isinstance(law, Hyperprior):
                continue

            def target(value: float, name: str = name, law: Hyperprior = law) -> float:
                before, own[name] = own[name], value
                found = law.log_density(value) + self.log_f(beta)
                own[name] = before
                return found

            if law.real:
                own[name] = slice_step_of_real(self.rng, own[name], target, 1.0)
            elif law.probability:
                own[name] = slice_step_of_probability(self.rng, own[name], target, 1.0)
            else:
                own[name] = slice_step(self.rng, own[name], target, width)

    def _state(self, values: Values) -> GibbsState:
        bits = np.ascontiguousarray(self.Z, np.uint8)
        return GibbsState(self.data, bits, self.parameters, values)

    def _look(self) -> None:
        """Take up where Z and the parameters are now."""
        state = self._state(self.model.likelihood_values(self.hyper))
        self.densities = cast(Tempered, self.model.likelihood).log_densities(self.data, state)


def annealed(chain: Annealed, betas: Sequence[float]) -> Iterable[float]:
    """What each change of β adds to the logarithm of the weight; a step between two of them."""
    for before, beta in pairwise(betas):
        yield chain.log_f(beta) - chain.log_f(before)
        if beta != betas[-1]:
            chain.step(beta)


def evidence(
    seed: int,
    model: Model,
    data: Data,
    draws: Sequence[Draw] = (),
    *,
    n_runs: int = 16,
    steps: int | None = None,
    progress: bool | str = "auto",
) -> Evidence:
    """log P(X) from so many runs of so many steps; from above, by as many as there are draws."""
    from threadpoolctl import threadpool_limits

    from thali.run.compiling import watching

    refuse(model, data)
    collapsed = isinstance(model.likelihood, GaussianRows)
    engine = choose_engine("collapsed_gibbs" if collapsed else "uncollapsed_gibbs")
    steps = steps or default_steps(data)
    up = [NOTHING, *((np.arange(1, steps + 1) / steps) ** POWER).tolist()]
    seeds = [np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(n_runs)]
    others = [np.random.default_rng(s) for s in np.random.SeedSequence((seed, 1)).spawn(len(draws))]
    logs: list[float] = []
    with (
        Progress(progress) as bar,
        watching(bar.compiling),
        threadpool_limits(limits=1, user_api="blas"),
    ):
        for r in range(n_runs + len(draws)):
            if r < n_runs:
                chain, betas = Annealed.from_prior(seeds[r], model, data, engine), up
            else:
                rng, draw = others[r - n_runs], draws[r - n_runs]
                chain, betas = Annealed.from_draw(rng, model, data, engine, draw), up[::-1]
            total = 0.0
            for t, added in enumerate(annealed(chain, betas)):
                total += added
                bar.count("evidence", r * steps + t, (n_runs + len(draws)) * steps)
            logs.append(total)
    found = evidence_of(np.array(logs[:n_runs]))
    if draws:
        found = found._replace(upper=-evidence_of(np.array(logs[n_runs:])).estimate)
    warn(found)
    return found


def refuse(model: Model, data: Data) -> None:
    """Say why the evidence of a model cannot be had, where it cannot."""
    prior, likelihood = type(model.prior).__name__, type(model.likelihood).__name__
    why = ""
    if not isinstance(model.prior, PredictsRow):
        why = f"{prior} does not tell the distribution of a row given the others"
    elif weighs_rows(model.prior):
        what = "weighs the number of features of a row" if model.prior.linear else "has features"
        why = f"{prior} {what}, and its normalizer is not known"
    elif not isinstance(model.likelihood, Tempered):
        why = f"{likelihood} cannot be let in by degrees (it is not Tempered)"
    elif data.sparse:
        why = "the data are a sparse matrix, from which no sampler works"
    if why:
        raise ValueError(f"The evidence cannot be estimated: {why}.")


def warn(found: Evidence) -> None:
    """Say so where the estimate is likely below the truth."""
    gap, runs = found.upper - found.estimate, len(found.runs)
    few = found.effective_runs < min(EFFECTIVE, 0.5 * runs)
    if runs < 2 or not (few if np.isnan(gap) else gap > APART + 2.0 * found.error):
        return
    above = f", and runs from the posterior say {found.upper:.1f}" if np.isfinite(gap) else ""
    warnings.warn(
        f"The evidence is uncertain: of {runs} runs {found.effective_runs:.1f} count in "
        f"effect for the estimate {found.estimate:.1f}{above}. It is likely below the truth, by "
        "more than its error; use more steps, or fewer rows.",
        RuntimeWarning,
        stacklevel=4,
    )
