r"""Search for the matrix of highest posterior probability (Rai and Daumé III 2011).

Candidates are matrices of the first rows in a queue with the best first, A integrated out (or, if
it cannot be, at its best: section 8, ``thali.engines.search.forms``):

    score(Z⁰) = log P(X⁰ | Z⁰) + bound of log P([Z]) + what the rows to come may add

The best is taken out and followed by every row it may have next. The first whole matrix to be taken
out is the answer. If no score is below the best that the candidate can become (``admissible``) and
no candidate was dropped that might have been better, it is the posterior's mode, and the search
says so.
"""

import time
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np

from thali.data import Data
from thali.engines.base import Info, Population, Search
from thali.engines.chain_settings import MOST_CHAINS
from thali.engines.search import orders, prior_bounds
from thali.engines.search.best_first import BestFirst
from thali.engines.search.candidates import KeptT
from thali.engines.search.choice import form_of
from thali.engines.search.columns import class_of
from thali.engines.search.forms import Answer, Form
from thali.engines.search.heuristics import NAMES as HEURISTICS
from thali.engines.search.heuristics import heuristic
from thali.hyperparameters import Values, as_scalars
from thali.likelihoods.base import MaskedCollapsed
from thali.likelihoods.search_rows import SearchRows
from thali.model import Model
from thali.priors.base import PredictsRow, Sequential
from thali.registry import ENGINES
from thali.settings import Settings, check_settings, setting
from thali.starts import Start, check_init
from thali.structures.features import feature_counts

EXPANSIONS = ("auto", "all", "within")
WIDEST = 10**7  # candidates of a queue that is limited
CHUNK = 64  # candidates taken from the queue in one step, at most
A_MOMENT = 0.1  # seconds for which a search that was stopped goes on, straight to its end,
A_FEW = 4  # by so many candidates at a time
MOVED = 1e-3  # of a hyperparameter, relative: for less, another search is not worth while
ROUNDING = 1e-9  # relative, of a log probability
PLAIN = (  # of a state, what files keep as it is
    "seed", "passes", "searched", "enqueued", "dequeued", "bound", "offset", "proven", "finished",
)  # fmt: skip


@dataclass
class State:
    """A search on its way, or what is left to polish of its answer."""

    hyper: Values
    best: Answer  # so far
    order: np.ndarray
    search: BestFirst[Any] | None = None  # None once it is over
    seed: int = 0  # of what a heuristic draws for that search
    polishing: Answer | None = None
    passes: int = 0  # searches that are over
    searched: Values = field(default_factory=dict)  # hyperparameters of the last one
    enqueued: int = 0
    dequeued: int = 0
    bound: float = np.inf  # of all matrices, by the last search
    offset: float = 0.0  # of the best answer's log joint, from what is maximized
    proven: bool = False
    finished: bool = False
    at: tuple[int, float] = (0, -np.inf)  # K and log joint, as last seen
    own: tuple[int, float] = (0, -np.inf)  # of the best that searches came to, starts left out


@ENGINES.register("beam_search")
@dataclass(frozen=True)
class BeamSearch(Settings, Search[State]):
    """Best-first search for the most probable Z, row by row, with a bounded queue.

    Parameters
    ----------
    width : int or None, default 20
        The most candidates in the queue. None is any number, for few rows: a queue that would take
        half of the memory, shared by the cores, is refused (``MemoryError``).
    heuristic : str, default "auto"
        What rows to come are taken to add: "inadmissible" (a feature of their own; what "auto" is
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
        The most features that a row opens. By default any number, or 8 where features are not
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

    Notes
    -----
    Entries of X may be missing under ``LinearGaussian``: scores and bounds are those of what was
    observed. Memory and time grow with the number of groups of columns that miss the same rows.
    Parameters that cannot be integrated out are kept at their best: those of ``NoisyOr``, the
    features of ``NonnegativeLinearGaussian`` and the amounts of ``SparseFactor``.

    Examples
    --------
    >>> import thali
    >>> X = thali.datasets.images(n=60, random_state=0).X
    >>> model = thali.LatentFeatures(engine=BeamSearch(width=5), random_state=0).fit(X)
    >>> model.n_components_, model.proven_optimal_
    (4, False)
    """

    width: int | None = setting(20, help="Most candidates in the queue", minimum=1, maximum=WIDEST)
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
    n_init: int = setting(
        4,
        help="Runs from other starts, of which the best is kept",
        minimum=1,
        maximum=MOST_CHAINS,
    )
    init: object = setting("race", help="Where to begin")

    needs_prior: ClassVar[tuple[type, ...]] = (PredictsRow, Sequential)
    needs_likelihood: ClassVar[tuple[type, ...]] = (SearchRows,)
    masked: ClassVar[bool] = True
    gaps_need: ClassVar[type] = MaskedCollapsed
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
        form = self.form(model, data)  # or a refusal, before anything is done
        hyper = dict(start.hyper)
        used = np.flatnonzero(start.latent.any(axis=0))
        Z, axes = start.latent[:, used], getattr(model.likelihood, "axes", {})
        given = {
            name: np.moveaxis(np.take(value, used, axis=axes[name]), axes[name], 0)
            for name, value in start.parameters.items()
        }
        best = form.answer(Z, form.parameters(Z, hyper, given), hyper)
        state = State(hyper, best, orders.row_order(self.order, data.filled.reduced, rng))
        state.offset = form.offset(best)
        if self.polish:
            state.polishing = best
        else:
            self._begin_search(rng, form, state)
        return state

    def form(self, model: Model, data: Data) -> Form[Any]:
        """The form of search that suits the likelihood; a heuristic it does not have is refused."""
        return form_of(model, data, self.heuristic)

    def _begin_search(self, rng: np.random.Generator, form: Form[KeptT], state: State) -> None:
        state.seed = int(rng.integers(2**31))
        state.searched = dict(state.hyper)
        state.search = self._search(form, state)

    def _search(self, form: Form[KeptT], state: State) -> BestFirst[KeptT]:
        """A search at the state's hyperparameters, with its seed."""
        problem = form.problem(state.order, state.hyper, self.prior_bound)
        name = form.heuristics[0] if self.heuristic == "auto" else self.heuristic
        future = heuristic(name, problem, np.random.default_rng(state.seed), self.neighbors)
        floor, best = -np.inf, state.best
        if future.admissible and self.prior_bound != "so_far":
            # a score below which no candidate can become better than the best answer so far
            value = float(form.log_joint(best.Z, best.parameters, state.hyper))
            floor = value - ROUNDING * (1.0 + abs(value))
        return BestFirst(
            problem,
            future,
            width=self.width,
            expansion=self.expansion,
            most_new=-1 if self.most_new is None else self.most_new,
            floor=floor,
        )

    # a step

    def step(self, rng: np.random.Generator, model: Model, data: Data, state: State) -> Info:
        """Some candidates of the search, or one pass of polishing."""
        form = self.form(model, data)
        if state.polishing is not None:
            self._polish(rng, form, state, state.polishing)
        elif state.search is not None:
            self._advance(form, state, state.search, CHUNK)
        if state.finished:
            state.at = state.own
        k, log_joint = state.at
        return Info(k, log_joint, dict(state.hyper), 0.0)

    def _advance(
        self, form: Form[KeptT], state: State, search: BestFirst[KeptT], most: int
    ) -> None:
        """Take some candidates; after the last, see what is known of the answer."""
        if not search.advance(most):
            last = search.last  # K and the log joint of its rows
            prior = search.problem.prior.log_prob_counts(feature_counts(last.matrix()))
            state.at = last.k, last.evidence + prior
            return
        self._leave(state, search)
        found, doubt = state.best, -np.inf
        if search.answer is not None:
            Z = np.zeros((form.data.n, search.answer.k), bool)
            Z[state.order] = search.answer.matrix()
            parameters, doubt = form.found(search.problem, search.answer, state.order)
            found = form.answer(Z, parameters, state.hyper)
        best = max(state.best.value, found.value)
        exact = search.heuristic.admissible and self.prior_bound != "so_far"
        fixed = not form.model.hyperpriors  # else it bounds nothing at other hyperparameters
        bound = max(search.bound, doubt)  # of all that was dropped
        state.bound = float(max(bound, best)) if exact and fixed else np.inf
        state.proven = reached(state.bound, best)
        if self.polish and not state.proven and found is not state.best:
            state.polishing = found
        else:
            self._take(form, state, found)
            state.finished = True

    def _leave(self, state: State, search: BestFirst[KeptT]) -> None:
        """The search is over: what it looked at is counted."""
        state.enqueued += search.queue.enqueued
        state.dequeued += search.queue.dequeued
        state.search, state.passes = None, state.passes + 1

    def _polish(
        self, rng: np.random.Generator, form: Form[KeptT], state: State, answer: Answer
    ) -> None:
        """One pass, or where it gains nothing, other columns, unless it is where they were tried
        before; after the last, another search if there is to be one."""
        answer, gain = form.improve(rng, answer)
        again = bool(state.searched) and class_of(answer.Z) == class_of(state.best.Z)
        if not (gain > form.gained or again):
            answer, more = form.rearrange(rng, answer)
            gain += more
        state.polishing, state.hyper = answer, answer.hyper
        state.at = seen(form, answer)
        if gain > form.gained:
            return
        state.polishing = None
        self._take(form, state, answer)
        before, now = state.searched, state.best.hyper
        moved = not before or any(abs(now[k] / before[k] - 1.0) > MOVED for k in now)
        if moved and state.passes < self.passes:
            self._begin_search(rng, form, state)
        else:
            state.finished = True

    def _take(self, form: Form[KeptT], state: State, answer: Answer) -> None:
        """Make an answer the best one if it is."""
        if state.passes > 0:
            state.own = max(state.own, seen(form, answer), key=lambda own: own[1])
        if answer.value >= state.best.value:
            state.best, state.offset = answer, form.offset(answer)
        state.hyper = dict(state.best.hyper)

    def finished(self, state: State) -> bool:
        return state.finished

    # ending

    def population(
        self, rng: np.random.Generator, model: Model, data: Data, state: State
    ) -> Population:
        """The answer alone; a search that was stopped first goes straight to its end, or for a
        moment, and the rows that it has not come to then are coded all at once."""
        form, search = self.form(model, data), state.search
        if search is not None and not search.begun and state.best.Z.any():
            state.search = None  # there is an answer
        elif search is not None:
            search.hurry()
            until = time.monotonic() + A_MOMENT
            while state.search is search and time.monotonic() < until:
                self._advance(form, state, search, A_FEW)
            if state.search is search:
                self._leave(state, search)
                at = search.furthest
                found = form.completed(search.problem, at, state.order, state.hyper)
                self._take(form, state, found)
        if state.polishing is not None:
            self._take(form, state, state.polishing)
        best = state.best
        scalars = np.array([[*seen(form, best), *as_scalars(best.hyper).values()]])
        kept = [best.parameters] if best.parameters else []
        return Population(np.ones(1), scalars, [np.packbits(best.Z, axis=0)], float("nan"), kept)

    def known(self, state: State) -> dict[str, np.ndarray]:
        """What the search can say of its answer."""
        return {
            "proven": np.array(state.proven),
            "bound": np.array(state.bound + state.offset),
            "enqueued": np.array(state.enqueued),
            "dequeued": np.array(state.dequeued),
        }

    def together(self, model: Model, states: list[State]) -> tuple[int, dict[str, np.ndarray]]:
        """Which of several restarts has the best answer, and what all of them know of it.

        A bound that one search has found is a bound of all matrices, whoever has the answer.
        """
        best = int(np.argmax([state.best.value for state in states]))
        value, each = states[best].best.value, [self.known(state) for state in states]
        bound = max(value, min(float(state.bound) for state in states))
        shown = np.array(bound + states[best].offset)
        return best, {**each[best], "proven": np.array(reached(bound, value)), "bound": shown}

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
            state.search = self._search(self.form(model, data), state)
            state.search.from_arrays(arrays, numbers["queue"])
        return state


def seen(form: Form[KeptT], answer: Answer) -> tuple[int, float]:
    """K and the log joint of an answer, as a trace shows them."""
    log_joint = form.log_joint(answer.Z, answer.parameters, answer.hyper) + form.offset(answer)
    return answer.Z.shape[1], float(log_joint)


def reached(bound: float, value: float) -> bool:
    """Whether a value is as high as its bound, but for rounding."""
    return bool(bound <= value + ROUNDING * (1.0 + abs(value)))
