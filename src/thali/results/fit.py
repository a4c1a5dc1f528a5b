"""What a run returns: a frozen ``Fit``, one class for each kind of result.

    Draws           chains of equally weighted draws of the posterior
    WeightedDraws   weighted draws, and an estimate of the evidence
    VariationalFit  an approximating distribution, its parameters, and draws of it
    PointFit        one value that a search found, and what is known of it

Functions of a fit (point estimate, prediction, imputation, report) take the kind they can use; no
string tells the kinds apart.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from thali.data import Data
from thali.engines.base import AnyEngine, BoundOptimizer, Sampler, Search, WeightedSampler
from thali.hyperparameters import Value, from_scalars
from thali.model import Model
from thali.results.diagnostics import import_arviz, rhat_and_ess
from thali.results.evidence import evidence_of
from thali.results.trace import ChainTrace, Recorded, chain_arrays, chain_from_arrays, with_prefix
from thali.storage import Json
from thali.structures.base import evenly_spaced

if TYPE_CHECKING:
    from arviz import InferenceData

ARRAYS = dict[str, np.ndarray]
COUNTED = ("enqueued", "dequeued")  # what a search may count
SAVED = ("burn_in", "stopped", "seconds", "sweeps")  # fields that files keep as they are


@dataclass(frozen=True)
class Fit:
    """All chains of a run, what was run, and how it ended.

    ``extra`` holds the arrays that only one kind of result has.
    """

    model: Model  # every "auto" resolved
    data: Data
    engine: AnyEngine
    seed: int
    chains: tuple[ChainTrace, ...]
    burn_in: int
    starts: tuple[str, ...] = ()
    stopped: str = "finished"
    seconds: float = 0.0
    sweeps: int = 0  # planned for each chain
    extra: Mapping[str, np.ndarray] | None = None

    ends_early: ClassVar[bool] = False  # whether chains end when they will
    no_posterior: ClassVar[str] = ""  # why there is none of ArviZ,
    no_diagnostics: ClassVar[str] = ""  # and no R-hat

    # the record

    @property
    def names(self) -> list[str]:
        """The scalars that were recorded: components, the engine's measure, hyperparameters."""
        return self.chains[0].names

    @property
    def drift(self) -> float:
        """The largest relative error that refreshing found in the maintained arrays."""
        return max(chain.drift for chain in self.chains)

    def history(self) -> ARRAYS:
        """Every scalar of every step: name → (chains, steps), cut to the shortest chain.

        Where chains end when they will, shorter ones are shown staying where they ended.
        """
        lengths = [len(chain.scalars) for chain in self.chains]
        steps = max(lengths) if self.ends_early else min(lengths)
        return self._by_name(
            [
                chain.scalars[:steps] + chain.scalars[-1:] * (steps - len(chain.scalars))
                for chain in self.chains
            ]
        )

    def kept(self) -> ARRAYS:
        """The scalars of the kept draws: name → (chains, draws), cut to the shortest chain."""
        chains = [chain for chain in self.chains if chain.kept]  # of restarts only the best has any
        draws = min(len(chain.kept_at) for chain in chains)
        return self._by_name([chain.kept_scalars()[:draws] for chain in chains])

    def _by_name(self, chains: list[list[tuple[float, ...]]]) -> ARRAYS:
        """Each scalar of equally many rows of every chain, (chains, rows)."""
        table = np.array(chains).reshape(len(chains), len(chains[0]), len(self.names))
        return {name: table[:, :, i] for i, name in enumerate(self.names)}

    def after_burn_in(self, name: str) -> np.ndarray:
        """One scalar of the draws, (chains, draws)."""
        return self.kept()[name]

    # draws

    def __len__(self) -> int:
        return sum(len(chain.kept) for chain in self.chains)

    def draws(self) -> Iterator[Recorded]:
        """Every kept draw, chain after chain."""
        return self.picked(range(len(self)))

    def pick(self, indices: Iterable[int]) -> list[Recorded]:
        """Some of ``draws()`` by position; one that is asked for twice is the same object."""
        wanted = list(indices)
        different = sorted(set(wanted))
        found = dict(zip(different, self.picked(different), strict=True))
        return [found[index] for index in wanted]

    def picked(self, indices: Iterable[int]) -> Iterator[Recorded]:
        """Some of ``draws()`` by position, made one after the other."""
        flat = [(chain, i) for chain in self.chains for i in range(len(chain.kept))]
        for chain, i in (flat[index] for index in indices):
            scalars = dict(zip(chain.names, chain.scalars_of(i), strict=True))
            packed, parameters = chain.kept[i]
            latent = self.model.structure.unpack(packed, self.data.n)
            yield Recorded(latent, scalars, parameters)

    def weights(self) -> np.ndarray:
        """The weight of every kept draw, in the order of ``draws()``; they sum to one."""
        return np.full(len(self), 1.0 / len(self))

    def representatives(self, most: int) -> np.ndarray:
        """Positions of at most ``most`` draws that stand for all with equal weight."""
        return evenly_spaced(len(self), most)

    def best(self) -> int:
        """The position of the draw with the highest log joint, in the order of ``draws()``."""
        return int(np.argmax([row[1] for chain in self.chains for row in chain.kept_scalars()]))

    def hyper_of(self, scalars: Mapping[str, float]) -> dict[str, Value]:
        """The hyperparameters among the scalars of a draw."""
        return from_scalars({name: scalars[name] for name in self.names[2:]})

    def means(self) -> dict[str, float]:
        """The posterior mean of each scalar over all kept draws, by weight."""
        table = np.array([row for chain in self.chains for row in chain.kept_scalars()])
        with np.errstate(invalid="ignore"):  # a log joint may be −inf
            middle = table[0] + self.weights() @ (table - table[0])  # exact for a fixed number
        return dict(zip(self.names, middle.tolist(), strict=True))

    def mean_hyper(self) -> dict[str, Value]:
        """The posterior mean of each hyperparameter over all kept draws, by weight."""
        return self.hyper_of(self.means())

    # what people ask of it

    def attributes(self) -> dict[str, object]:
        """What an estimator shows of this kind of result alone, by name."""
        return {}

    def to_arviz(self) -> InferenceData:
        """The kept scalars as ArviZ inference data, dims chain × draw, or a refusal."""
        if self.no_posterior:
            raise ValueError(self.no_posterior)
        kept = self.kept()
        kept["n_components"] = kept["n_components"].astype(int)
        arviz = import_arviz()
        with warnings.catch_warnings():  # chains × draws it is, however few a stop has left
            warnings.filterwarnings("ignore", message="More chains")
            found: InferenceData = arviz.from_dict(posterior=kept)
        return found

    def diagnostics(self) -> dict[str, dict[str, float]]:
        """R-hat and effective sample size of each scalar, or a refusal."""
        if self.no_diagnostics:
            raise ValueError(self.no_diagnostics)
        return {name: rhat_and_ess(values) for name, values in self.kept().items()}

    # files

    def to_arrays(self) -> tuple[ARRAYS, dict[str, Json]]:
        """The record as arrays and JSON-able values."""
        structure, n = self.model.structure, self.data.n
        arrays = {f"extra_{name}": value for name, value in (self.extra or {}).items()}
        for c, chain in enumerate(self.chains):
            own = chain_arrays(structure, chain, n, len(chain.scalars), len(chain.kept))
            own |= {"weights": np.array(chain.weights), "population": np.array(chain.population)}
            arrays |= {f"chain{c}_{name}": value for name, value in own.items()}
        return arrays, {name: getattr(self, name) for name in SAVED} | {
            "result": type(self).__name__,
            "starts": list(self.starts),
            "names": self.names,
            "drift": [chain.drift for chain in self.chains],
            "log_evidence": [chain.log_evidence for chain in self.chains],
        }


class Draws(Fit):
    """Chains of draws with equal weights."""

    def after_burn_in(self, name: str) -> np.ndarray:
        """Every sweep after burn-in, kept or not; all, where a run stopped before its end."""
        values = self.history()[name]
        after = values[:, min(self.burn_in, values.shape[1]) :]
        return after if np.isfinite(after).any() else values


class WeightedDraws(Fit):
    """Draws with weights, and an estimate of log P(X)."""

    no_posterior = (
        "This result is weighted, not draws of a chain; it has no ArviZ posterior. "
        "draws() yields its draws with their weights."
    )

    @property
    def log_evidence(self) -> float:
        """The logarithm of the mean of the chains' estimates of P(X); NaN where one has none."""
        each = np.array([chain.log_evidence for chain in self.chains])
        if not np.isfinite(each).all():
            return float("nan")
        return float(np.logaddexp.reduce(each) - np.log(len(each)))

    def weights(self) -> np.ndarray:
        return np.concatenate([chain.weights for chain in self.chains]) / len(self.chains)

    def representatives(self, most: int) -> np.ndarray:
        """At evenly spaced shares of the weight; a draw of much weight stands for several."""
        shares = (np.arange(most) + 0.5) / most
        return np.minimum(np.searchsorted(np.cumsum(self.weights()), shares), len(self) - 1)

    def attributes(self) -> dict[str, object]:
        each = np.array([chain.log_evidence for chain in self.chains])
        return {
            "log_evidence_": self.log_evidence,
            "log_evidence_error_": evidence_of(each).error,
        }

    def diagnostics(self) -> dict[str, dict[str, float]]:
        """No R-hat; the effective size is that of the weights, 1/Σw²."""
        ess = float(1.0 / np.square(self.weights()).sum())
        return {name: {"rhat": float("nan"), "ess": ess} for name in self.names}


class VariationalFit(Fit):
    """An approximating distribution q, optimized, and draws of it."""

    ends_early = True
    no_posterior = (
        "This result is variational, not draws of a chain; it has no ArviZ posterior. "
        "draws() yields its draws with their weights."
    )
    no_diagnostics = (
        "This result is variational: a distribution that was optimized, not draws of a chain. "
        "It has no R-hat and no effective sample size; elbo_ and history_ tell how it went."
    )

    @property
    def params(self) -> ARRAYS:
        """The parameters of q, and what a stream left behind."""
        return dict(self.extra or {})

    def attributes(self) -> dict[str, object]:
        params = self.params
        hidden = ("bound", "stream")  # what is kept besides the parameters of q
        return {
            "elbo_": float(self.history()["elbo"][:, -1].max()),
            "variational_params_": {
                k: v for k, v in params.items() if k.split("_")[0] not in hidden
            },
            "n_rows_seen_": int(params.get("stream_seen", self.data.n)),
            "elbos_": {k: float(v) for k, v in with_prefix(params, "bound_").items()},
        }

    def best(self) -> int:
        answer = self.model.structure.answer
        beside = "assignment_probabilities_" if answer == "Z_" else "membership_"
        raise ValueError(
            f"This result is variational: it has no best draw. Its answer is {answer}, with "
            f"{beside}, and log_joint_ is the log joint there."
        )


class PointFit(Fit):
    """One value that a search found, and what is known of it."""

    ends_early = True
    no_posterior = (
        "This result is one matrix that a search found, not draws of a chain; it has no "
        "ArviZ posterior. CollapsedGibbs(init=this model) draws from there."
    )
    no_diagnostics = (
        "This result is one matrix that a search found, not draws of a chain. It has no "
        "R-hat and no effective sample size; proven_optimal_ and log_joint_upper_bound_ tell "
        "how good it is, and CollapsedGibbs(init=this model) draws from there."
    )

    def attributes(self) -> dict[str, object]:
        known = self.extra or {}
        return {
            "proven_optimal_": bool(known.get("proven", False)),
            "log_joint_upper_bound_": float(known.get("bound", np.inf)),
            **{f"n_{name}_": int(known[name]) for name in COUNTED if name in known},
        }


FITS: dict[type, type[Fit]] = {  # by what an engine is
    Sampler: Draws,
    WeightedSampler: WeightedDraws,
    BoundOptimizer: VariationalFit,
    Search: PointFit,
}


def fit_class(engine: AnyEngine) -> type[Fit]:
    """The kind of result that an engine leads to."""
    return next(cls for kind, cls in FITS.items() if isinstance(engine, kind))


def fit_from_arrays(
    arrays: Mapping[str, np.ndarray],
    meta: Mapping[str, Any],
    model: Model,
    data: Data,
    engine: AnyEngine,
    seed: int,
) -> Fit:
    """The fit that ``to_arrays`` saved."""
    cls = next(cls for cls in FITS.values() if cls.__name__ == meta["result"])
    chains = []
    for c, (drift, evidence) in enumerate(zip(meta["drift"], meta["log_evidence"], strict=True)):
        own = with_prefix(arrays, f"chain{c}_")
        chain = chain_from_arrays(model.structure, own, meta["names"], drift)
        chain.weights = own["weights"].tolist()
        chain.population = [tuple(row) for row in own["population"].tolist()]
        chain.log_evidence = evidence
        chains.append(chain)
    extra, starts = with_prefix(arrays, "extra_"), tuple(meta["starts"])
    saved = {name: meta[name] for name in SAVED}
    return cls(model, data, engine, seed, tuple(chains), starts=starts, extra=extra, **saved)


def burned(burn_in: int, chains: Sequence[ChainTrace]) -> int:
    """Steps before the first draw that was kept, at most ``burn_in``."""
    return min([burn_in, *(chain.kept_at[0] for chain in chains if chain.kept_at)])
