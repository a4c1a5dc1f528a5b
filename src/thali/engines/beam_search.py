r"""Search for the matrix of highest posterior probability (Rai and Daumé III 2011).

Candidates are matrices of the first rows in a queue with the best first, A integrated out (or, if
it cannot be, binary and at its best: section 8, ``thali.engines.search.forms``):

    score(Z⁰) = log P(X⁰ | Z⁰) + bound of log P([Z]) + what the rows to come may add

The best is taken out and followed by every row it may have next. The first whole matrix to be taken
out is the answer. If no score is below the best that the candidate can become (``admissible``) and
no candidate was dropped that might have been better, it is the posterior's mode, and the search
says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np

from thali.data import Data
from thali.engines.base import Info, Population, Search
from thali.engines.search import orders, prior_bounds
from thali.engines.search.best_first import BestFirst
from thali.engines.search.forms import form_of, heuristic_for, log_target
from thali.engines.search.heuristics import NAMES as HEURISTICS
from thali.engines.search.heuristics import heuristic
from thali.likelihoods.base import Parameters, SearchRows
from thali.model import Model
from thali.priors.base import PredictsRow, Sequential
from thali.registry import ENGINES
from thali.settings import Settings, check_settings, setting
from thali.starts import Start, check_init
from thali.structures.features import feature_counts

EXPANSIONS = ("auto", "all", "within")
CHUNK = 64  # candidates taken from the queue in one step, at most
SETTLED = 1e-6  # of log probability: a pass of polishing that gains less is the last
MOVED = 1e-3  # of a hyperparameter, relative: for less, another search is not worth while
ROUNDING = 1e-9  # relative, of a log probability


@dataclass
class Answer:
    """A whole matrix, its rows in the order of the data, with hyperparameters."""

    Z: np.ndarray
    hyper: dict[str, Any]
    value: float  # the log joint and the logarithms of the laws of hyperparameters
    parameters: Parameters = field(default_factory=dict)  # those that are kept


@dataclass
class State:
    """A search on its way, or what is left to polish of its answer."""

    hyper: dict[str, Any]
    best: Answer  # so far
    order: np.ndarray
    search: BestFirst | None = None  # None once it is over
    seed: int = 0  # of what a heuristic draws for that search
    polishing: Answer | None = None
    passes: int = 0  # searches that are over
    searched: dict[str, Any] = field(default_factory=dict)  # hyperparameters of the last one
    enqueued: int = 0
    dequeued: int = 0
    bound: float = np.inf  # of all matrices, by the last search
    proven: bool = False
    finished: bool = False
    drift: float = 0.0
    at: tuple[int, float] = (0, -np.inf)  # K and log joint, as last seen
    own: tuple[int, float] = (0, -np.inf)  # of the best that searches came to, starts left out


@ENGINES.register("beam_search")
@dataclass(frozen=True)
class BeamSearch(Settings, Search):
    """Best-first search for the most probable Z, row by row, with a bounded queue.

    Parameters
    ----------
    width : int or None, default 20
        The most candidates in the queue. None is any number.
    heuristic : str, default "auto"
        What rows to come are taken to add: "inadmissible" (a dish of their own; what "auto" is
        where features are integrated out), "trivial" (nothing; what "auto" is where they are not),
        "cluster", "neighbor", "neighbors_or", or "admissible", a bound: then ``proven_optimal_``
        may come out true, as it must with ``width=None`` and ``expansion="all"``.
    expansion : {"auto", "all", "within"}, default "auto"
        Which rows may follow: "all" 2^K of them, or those that a beam "within" the row finds.
        "auto" looks at all up to 10 features.
    order : {"random", "given", "farthest_first"}, default "random"
        The order in which the search goes through the rows.
    prior_bound : {"convex", "paper", "so_far"}, default "convex"
        The bound of the prior of what a candidate can become.
    most_new : int, optional
        The most dishes that a row opens. By default any number, or 8 where features are not
        integrated out.
    neighbors : int, default 3
        How many rows the heuristic "neighbors_or" looks at.
    passes : int, default 2
        The most searches: where ``polish`` changes hyperparameters, the search is repeated with
        the new ones.
    polish : bool, default True
        Whether bits and inferred hyperparameters of the answer are changed while that helps.
    n_init : int, default 4
        How many searches are made, in other orders of the rows; the best answer is kept.
    init : str, array of shape (n, K), or fitted model, default "race"
        A start to improve on: its name, a matrix Z, or the answer of another model. "race" is the
        first start that suits the likelihood. Its Z, polished, is the answer if the search finds
        none that is better, and candidates that cannot become better are dropped.

    Examples
    --------
    >>> import thali
    >>> X = thali.datasets.images(n=60, random_state=0).X
    >>> model = thali.LatentFeatures(engine=BeamSearch(width=5), random_state=0).fit(X)
    >>> model.n_components_, model.proven_optimal_
    (4, False)
    """

    width: int | None = setting(20, help="Most candidates in the queue", minimum=1)
    heuristic: str = setting(
        "auto", help="What rows to come are taken to add", choices=("auto", *HEURISTICS)
    )
    expansion: str = setting("auto", help="Rows that may follow", choices=EXPANSIONS)
    order: str = setting("random", help="Order of the rows", choices=orders.NAMES)
    prior_bound: str = setting(
        "convex", help="Bound of the prior to come", choices=prior_bounds.NAMES
    )
    most_new: int | None = setting(None, help="Most new features of a row", minimum=0)
    neighbors: int = setting(3, help="Rows that the heuristic neighbors-or looks at", minimum=1)
    passes: int = setting(2, help="Most searches, each with better hyperparameters", minimum=1)
    polish: bool = setting(True, help="Change the answer while that helps")
    n_init: int = setting(4, help="Runs from other starts, of which the best is kept", minimum=1)
    init: Any = setting("race", help="Where to begin")

    needs_prior: ClassVar[tuple[type, ...]] = (PredictsRow, Sequential)
    needs_likelihood: ClassVar[tuple[type, ...]] = (SearchRows,)
    unit: ClassVar[str] = "step"
    races: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_settings(self)
        object.__setattr__(self, "init", check_init(type(self), self.init))

    @classmethod
    def greedy(cls, **settings: Any) -> Self:
        """Greedy search (section 6.7): each row in turn as is best for the rows up to it.

        >>> BeamSearch.greedy().width
        1
        """
        fixed = {"width": 1, "heuristic": "trivial", "prior_bound": "so_far"}
        return cls(**{**fixed, **settings})

    @property
    def chains(self) -> int:
        return self.n_init

    def steps(self, data: Data) -> int:
        """More than there can be: it is finished when it is."""
        return 10**9

    # beginning

    def begin(self, rng: np.random.Generator, model: Model, data: Data, start: Start) -> State:
        """A start as the answer to improve on, polished if that is asked for."""
        heuristic_for(self.heuristic, model)  # or a refusal, before anything is done
        hyper = dict(start.hyper)
        Z = start.latent[:, start.latent.any(axis=0)]
        best = self._answer(model, data, Z, form_of(model).begin(model, data, Z, hyper), hyper)
        state = State(hyper, best, orders.row_order(self.order, data.reduced, rng))
        if self.polish:
            state.polishing = best
        else:
            self._begin_search(rng, model, data, state)
        return state

    def _begin_search(
        self, rng: np.random.Generator, model: Model, data: Data, state: State
    ) -> None:
        state.seed = int(rng.integers(2**31))
        state.searched = dict(state.hyper)
        self._search(model, data, state)

    def _search(self, model: Model, data: Data, state: State) -> None:
        """Begin a search at the state's hyperparameters, with its seed."""
        problem = form_of(model).problem(model, data, state.order, state.hyper, self.prior_bound)
        rng, name = np.random.default_rng(state.seed), heuristic_for(self.heuristic, model)
        future = heuristic(name, problem, rng, self.neighbors)
        bounded = future.admissible and self.prior_bound != "so_far"
        state.search = BestFirst(
            problem,
            future,
            width=self.width,
            expansion=self.expansion,
            most_new=-1 if self.most_new is None else self.most_new,
            floor=self._floor(model, data, state) if bounded else -np.inf,
        )

    def _floor(self, model: Model, data: Data, state: State) -> float:
        """A score below which no candidate can become better than the best answer so far."""
        value = self._log_joint(model, data, state.best, state.hyper)
        return value - ROUNDING * (1.0 + abs(value))

    def _answer(
        self,
        model: Model,
        data: Data,
        Z: np.ndarray,
        parameters: Parameters,
        hyper: dict[str, Any],
    ) -> Answer:
        value = log_target(model, data, Z, parameters, hyper)
        return Answer(Z, dict(hyper), value, parameters)

    def _log_joint(
        self, model: Model, data: Data, answer: Answer, hyper: dict[str, Any] | None = None
    ) -> float:
        """The log joint of an answer, at its own hyperparameters or at others."""
        hyper = answer.hyper if hyper is None else hyper
        return float(form_of(model).log_joint(model, data, answer.Z, answer.parameters, hyper))

    # a step

    def step(self, rng: np.random.Generator, model: Model, data: Data, state: State) -> Info:
        """Some candidates of the search, or one pass of polishing."""
        if state.finished:
            pass
        elif state.polishing is not None:
            self._polish(rng, model, data, state, state.polishing)
        else:
            assert state.search is not None
            self._advance(rng, model, data, state, state.search)
        if state.finished:
            state.at = state.own
        k, log_joint = state.at
        return Info(k, log_joint, dict(state.hyper), state.drift)

    def _advance(
        self, rng: np.random.Generator, model: Model, data: Data, state: State, search: BestFirst
    ) -> None:
        """Take some candidates; after the last, see what is known of the answer."""
        if not search.advance(CHUNK):
            state.at = self._so_far(search)
            return
        state.enqueued += search.queue.enqueued
        state.dequeued += search.queue.dequeued
        state.search, state.passes = None, state.passes + 1
        found, doubt = state.best, -np.inf
        if search.answer is not None:
            Z = np.zeros((data.n, search.answer.k), bool)
            Z[state.order] = search.answer.matrix()
            parameters, doubt = form_of(model).answer(search.problem, search.answer)
            found = self._answer(model, data, Z, parameters, state.hyper)
        self._settle(model, state, search, max(search.bound, doubt), found)
        if self.polish and not state.proven and found is not state.best:
            state.polishing = found
        else:
            self._take(model, data, state, found)
            state.finished = True

    def _so_far(self, search: BestFirst) -> tuple[int, float]:
        """K and the log joint of the rows of the candidate last taken."""
        last = search.last
        counts = feature_counts(last.matrix())
        return last.k, last.evidence + search.problem.prior.log_prob_counts(counts)

    def _settle(
        self, model: Model, state: State, search: BestFirst, bound: float, found: Answer
    ) -> None:
        """Whether nothing that was dropped, of at most ``bound``, is better than the answer."""
        best = max(state.best.value, found.value)
        exact = search.heuristic.admissible and self.prior_bound != "so_far"
        fixed = not model.hyperpriors  # else it bounds nothing at other hyperparameters
        state.bound = float(max(bound, best)) if exact and fixed else np.inf
        state.proven = reached(state.bound, best)

    def _polish(
        self, rng: np.random.Generator, model: Model, data: Data, state: State, answer: Answer
    ) -> None:
        """One pass; after the last, another search if there is to be one."""
        Z, parameters, hyper, gain = form_of(model).improve(
            rng, model, data, answer.Z, answer.parameters, answer.hyper
        )
        state.polishing = Answer(Z, hyper, answer.value + gain, parameters)
        state.hyper = hyper
        state.at = Z.shape[1], self._log_joint(model, data, state.polishing)
        if gain > SETTLED:
            return
        answer, state.polishing = state.polishing, None
        self._take(model, data, state, answer)
        before, now = state.searched, state.best.hyper
        moved = not before or any(abs(now[k] / before[k] - 1.0) > MOVED for k in now)
        if moved and state.passes < self.passes:
            self._begin_search(rng, model, data, state)
        else:
            state.finished = True

    def _take(self, model: Model, data: Data, state: State, answer: Answer) -> None:
        """Make an answer the best one if it is."""
        if state.passes > 0:
            log_joint = self._log_joint(model, data, answer)
            state.own = max(state.own, (answer.Z.shape[1], log_joint), key=lambda own: own[1])
        if answer.value >= state.best.value:
            state.best = answer
        state.hyper = dict(state.best.hyper)

    def finished(self, state: State) -> bool:
        """Whether another step would change nothing."""
        return state.finished

    # ending

    def population(
        self, rng: np.random.Generator, model: Model, data: Data, state: State
    ) -> Population:
        """The answer alone; a search that was stopped first goes straight to its end."""
        if state.search is not None:
            search = state.search
            search.hurry()
            while not state.finished and state.search is search:
                self._advance(rng, model, data, state, search)
        if state.polishing is not None:
            self._take(model, data, state, state.polishing)
        best = state.best
        log_joint = self._log_joint(model, data, best)
        scalars = np.array([[best.Z.shape[1], log_joint, *best.hyper.values()]])
        kept = [best.parameters] if best.parameters else []
        return Population(np.ones(1), scalars, [np.packbits(best.Z, axis=0)], float("nan"), kept)

    def known(self, state: State) -> dict[str, np.ndarray]:
        """What the search can say of its answer."""
        return {
            "proven": np.array(state.proven),
            "bound": np.array(state.bound),
            "enqueued": np.array(state.enqueued),
            "dequeued": np.array(state.dequeued),
        }

    def together(self, model: Model, states: list[State]) -> tuple[int, dict[str, np.ndarray]]:
        """Which of several restarts has the best answer, and what all of them know of it.

        A bound that one search has found is a bound of all matrices, whoever has the answer.
        """
        best = int(np.argmax([state.best.value for state in states]))
        value, each = states[best].best.value, [self.known(state) for state in states]
        bound = max(value, min(float(known["bound"]) for known in each))
        known = {"proven": np.array(reached(bound, value)), "bound": np.array(bound)}
        return best, {**each[best], **known}

    # files

    def to_arrays(self, state: State) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """The state as arrays and plain values; candidates by their rows."""
        arrays = {"order": state.order}
        numbers: dict[str, Any] = {name: getattr(state, name) for name in PLAIN}
        numbers |= {"hyper": dict(state.hyper), "at": list(state.at), "own": list(state.own)}
        for name in ("best", "polishing"):
            answer = getattr(state, name)
            if answer is not None:
                arrays[name] = np.packbits(answer.Z, axis=0)
                arrays |= {f"{name}_with_{at}": kept for at, kept in answer.parameters.items()}
                numbers[name] = [answer.hyper, answer.value]
        if state.search is not None:
            queued, numbers["queue"] = state.search.to_arrays()
            arrays |= queued
        return arrays, numbers

    def from_arrays(
        self, model: Model, data: Data, arrays: dict[str, np.ndarray], numbers: dict[str, Any]
    ) -> State:
        """The state that ``to_arrays`` saved."""

        def answer(name: str) -> Answer:
            Z = np.unpackbits(arrays[name], axis=0, count=data.n).astype(bool)
            prefix = f"{name}_with_"
            kept = {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}
            return Answer(Z, dict(numbers[name][0]), numbers[name][1], kept)

        state = State(dict(numbers["hyper"]), answer("best"), arrays["order"])
        for name in PLAIN:
            setattr(state, name, numbers[name])
        state.at, state.own = tuple(numbers["at"]), tuple(numbers["own"])
        if "polishing" in arrays:
            state.polishing = answer("polishing")
        if "queue" in numbers:
            self._search(model, data, state)
            assert state.search is not None
            state.search.from_arrays(arrays, numbers["queue"])
        return state


def reached(bound: float, value: float) -> bool:
    """Whether a value is as high as its bound, but for rounding."""
    return bool(bound <= value + ROUNDING * (1.0 + abs(value)))


PLAIN = (
    "seed",
    "passes",
    "searched",
    "enqueued",
    "dequeued",
    "bound",
    "proven",
    "finished",
    "drift",
)
