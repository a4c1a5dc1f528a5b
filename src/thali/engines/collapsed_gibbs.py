r"""Collapsed Gibbs sampling, with the components' parameters integrated out.

Of a partition it is in ``engines/clusters/gibbs.py``; here it is of a feature matrix Z, with A
integrated out (Griffiths and Ghahramani 2005).

A step is a few attempts at a change of whole columns (``kernels.column_moves``), one sweep over
all bits and all rows' own features, O(N(K² + KD)), then the hyperparameters: α given [Z] (conjugate
for the IBP), and σ_x, σ_a given Z, each evaluation of whose density costs O(K) through the
eigenvalues of ZᵀZ.

Any prior with tables of potentials will do; the finite sampler is this engine × BetaBernoulli.

Where entries of X are missing the state's data are ``Augmented`` by draws of them: the sweep draws
each row's bits and missing entries together (``kernels/masked_rows.py``), α and the σ's are drawn
given the completed data, and a step ends with A, given Z and what was observed, and then the
likelihood's ``augment``: all missing entries afresh. The log joint is that of the observed entries
alone, with A integrated out column by column.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
from scipy.special import gammaln

from thali.data import Augmented, Data
from thali.engines.base import Drawn, Info, Needs, Sampler
from thali.engines.chain_settings import ChainSettings
from thali.engines.clusters import gibbs as clusters
from thali.engines.clusters.gibbs import ClusterState
from thali.engines.compiled_laws import laws_of
from thali.hyperparameters import Values
from thali.likelihoods.base import Collapsed, GaussianRows, Scaled
from thali.likelihoods.clusters import ConjugateClusters
from thali.likelihoods.gaussian_scales import scales_without_features
from thali.model import Model
from thali.priors.base import PredictsRow
from thali.priors.partition import PredictsLabel
from thali.registry import ENGINES
from thali.settings import setting
from thali.starts import Start, blind_names
from thali.structures.features import FeatureTables, counts_from_gram, potentials, with_row_sums
from thali.structures.partitions import PARTITIONS

if TYPE_CHECKING:
    from thali.kernels.collapsed_rows import Report
    from thali.kernels.gaussian_row import Scales
    from thali.kernels.hyperparameter_steps import Laws
    from thali.kernels.maintained_rows import Rows

TOGETHER = 1_000_000  # entries that the sweeps between two turns of moves on columns may look at
A_CALL = 120_000_000  # multiply-adds of one call of compiled code, where a sweep is not more


@dataclass
class State:
    """What the next sweep needs: the maintained arrays, the hyperparameters, and the count."""

    data: Data  # those given, or ``Augmented`` by draws
    rows: Rows
    n_components: int
    hyper: Values
    sweep: int = 0
    hold_sigma: int = 0  # the scales stay put until this sweep, while features are being born
    prior: PredictsRow | None = None  # the model's at ``hyper``, kept for the next sweep

    @property
    def latent(self) -> np.ndarray:
        """The N×K matrix of the features in use."""
        return np.asarray(self.rows.Z[:, : self.n_components], bool)

    @property
    def X(self) -> np.ndarray:
        """What the rows are made of: reduced, unless entries were drawn into gaps."""
        return kernel_matrix(self.data)


@ENGINES.register("collapsed_gibbs")
@dataclass(frozen=True)
class CollapsedGibbs(ChainSettings, Sampler[State | ClusterState]):
    """Sweeps with the components' parameters integrated out, in several chains.

    Over the bits of a feature matrix, or over the labels of a partition.

    Parameters
    ----------
    sweeps : int, optional
        Sweeps of each chain. By default 1000, but fewer, down to 100, where data and features are
        large, and more, up to 3000, where they are small and starts do not come to agree.
    burn_in : int, optional
        How many of the first sweeps are not kept. By default half of them.
    thin : int, default 1
        One of so many sweeps is kept after burn-in.
    chains : int, default 4
        How many chains run side by side.
    init : str, array of shape (n, K) or (n,), or fitted model, default "race"
        Where chains begin: the name of a start, a matrix Z or a vector of labels, or another
        model's answer. "race" tries the starts that suit the likelihood, for a while each, and goes
        on from the best.
    sigma_step : {"slice", "metropolis"}, default "slice"
        How σ_x and σ_a are sampled: a slice step on log σ, or a uniform step of ±0.05 that is
        accepted or not (Anand 2015). For features only.
    moves : int, default 2
        How often a sweep tries to change whole columns (split, join, turn, drop), or to split or
        merge whole clusters (Jain and Neal 2004). Chains leave modes by these moves that they do
        not leave by single bits or labels. 0 is the plain Gibbs sampler.
    anneal : int, default 0
        How many sweeps under falling noise come before the first sweep of a chain that begins at
        "prior" or "empty" (in a race, of those contenders). They belong to the start and are not
        recorded. For features only.

    Examples
    --------
    >>> CollapsedGibbs(sweeps=200, chains=2).kept
    100
    """

    sigma_step: str = setting(
        "slice", help="How the scales are sampled", choices=("slice", "metropolis")
    )
    moves: int = setting(
        2, help="Tries to change whole columns or clusters, a sweep", minimum=0, maximum=10**6
    )
    anneal: int = setting(
        0, help="Steps under falling noise before the first", minimum=0, maximum=10**7
    )

    needs_prior: ClassVar[Needs] = ((PredictsRow, PredictsLabel),)
    weighs_rows: ClassVar[bool] = True
    for_features: ClassVar[tuple[str, ...]] = ("sigma_step", "anneal")
    needs_likelihood: ClassVar[Needs] = (
        (Collapsed, ConjugateClusters),
        (GaussianRows, ConjugateClusters),
    )
    masked: ClassVar[bool] = True
    auto_rank: ClassVar[int | None] = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.anneal and not (isinstance(self.init, str) and self.init in blind_names()):
            raise ValueError(
                "CollapsedGibbs: anneal melts whatever it begins from, so init must be "
                f"{', '.join(map(repr, blind_names()))}; leave anneal at 0 for another start."
            )

    def begin(
        self, rng: np.random.Generator, model: Model, data: Data, start: Start
    ) -> State | ClusterState:
        """The state at ``start``, arrays made afresh from its value."""
        if model.structure == PARTITIONS:
            self.refuse_what_features_need()
            return clusters.begin(rng, model, data, start)
        return self._begin(rng, model, data, start)

    def annealed(
        self,
        rng: np.random.Generator,
        model: Model,
        data: Data,
        start: Start,
        stopped: Callable[[], bool],
    ) -> Start:
        if model.structure == PARTITIONS:
            self.refuse_what_features_need()
        return super().annealed(rng, model, data, start, stopped)

    def _begin(self, rng: np.random.Generator, model: Model, data: Data, start: Start) -> State:
        from thali.kernels.maintained_rows import rows_of

        Z = start.latent[:, start.latent.any(axis=0)]
        Z = Z[:, rng.permutation(Z.shape[1])]  # the order of columns must carry no information
        hyper = dict(start.hyper)
        at, _ = augmented(rng, model, data, Z, hyper)
        rows = rows_of(Z, kernel_matrix(at))
        return State(at, rows, Z.shape[1], hyper, 0, start.hold_sigma)

    def rehearsals(self, model: Model) -> tuple[str, ...]:
        return ("sweeps", "moves") if self.moves else ("sweeps",)

    def rehearse(self, part: str, model: Model, missing: bool) -> None:
        if model.structure == PARTITIONS:
            clusters.rehearse(part, model, missing)
            return
        rng = np.random.default_rng(0)
        n = cast(PredictsRow, model.prior).rows_described or 2
        X = np.ones((n, 2))
        X[0, 0] = np.nan if missing else 0.0
        data = Data.of(X)
        state = self._begin(
            rng, model, data, Start(part, np.eye(n, 2, dtype=bool), model.start(data))
        )
        scales = scales_of(model.likelihood_values(state.hyper), data)
        tables = cast(PredictsRow, model.prior_at(state.hyper)).tables(data.n)
        if part == "moves":
            self._move_columns(rng, state, tables, scales, 0)
        else:
            laws = self._laws(model, data, state)
            self._sweep(rng, state, tables, scales, laws, 0, False)

    def step(
        self, rng: np.random.Generator, model: Model, data: Data, state: State | ClusterState
    ) -> Info:
        """Moves when it is their turn, one sweep, and one update of every inferred
        hyperparameter."""
        return self.several(rng, model, data, state, 1, keep=False)[0].info

    def several(
        self,
        rng: np.random.Generator,
        model: Model,
        data: Data,
        state: State | ClusterState,
        most: int,
        keep: bool = True,
    ) -> list[Drawn]:
        """Sweeps up to the next moves on columns, in one call of compiled code where it can update
        the hyperparameters too; one sweep where it cannot."""
        if isinstance(state, ClusterState):
            return [clusters.step(rng, model, data, state, self.moves, keep)]
        values = model.likelihood_values(state.hyper)
        scales = scales_of(values, data)
        if state.prior is None:
            state.prior = cast(PredictsRow, model.prior_at(state.hyper))
        tables = state.prior.tables(data.n)
        laws = self._laws(model, data, state)
        turn = moves_every(data)
        count = min(most, turn - state.sweep % turn, sweeps_a_call(state)) if laws.here else 1
        try:
            if self.moves and state.sweep % turn == 0:
                self._move_columns(rng, state, tables, scales, self.moves * turn)
            scalars, bits = self._sweep(rng, state, tables, scales, laws, count, keep)
        except (np.linalg.LinAlgError, ZeroDivisionError):
            raise ValueError(
                f"Features are nearly equal and the noise sigma_x={scales.sigma_x:.3g} is so "
                f"small beside sigma_a={scales.sigma_a:.3g} that double precision cannot tell "
                "them apart; give a larger sigma_x, or let both be inferred."
            ) from None
        state.sweep += count
        if laws.here:
            return self._drawn(model, data, state, scalars, bits if keep else None)
        info = self._update(rng, model, data, state, tables, values)
        drift = float(scalars[0, 6])
        packed = model.structure.pack(state.latent) if keep else None
        return [Drawn(info._replace(drift=drift), packed, {})]

    def _drawn(
        self,
        model: Model,
        data: Data,
        state: State,
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

    def _update(
        self,
        rng: np.random.Generator,
        model: Model,
        data: Data,
        state: State,
        tables: FeatureTables,
        values: Values,
    ) -> Info:
        """The hyperparameters after a sweep, where compiled code cannot see to them."""
        hyper, k = state.hyper, state.n_components
        counts = counts_from_gram(data.n, state.rows.C[:k, :k])
        counts = with_row_sums(counts, tables, state.rows.Z[:, :k])
        model.prior.resample(rng, model.prior_values(hyper), counts)
        evidence = scales_without_features(
            rng,
            cast(Scaled, model.likelihood),
            state.rows.C[:k, :k].copy(),
            state.rows.T[:k],
            total_square(state.data),
            data.n,
            data.d,
            values,
            self.sigma_step,
            hold=state.sweep <= state.hold_sigma,
            scale=float(np.sqrt(data.mean_square)),
        )
        if model.likelihood.augments(data):
            Z = state.latent
            state.data, evidence = augmented(rng, model, state.data, Z, hyper)
            state.rows.T[:k] = Z.T.astype(float) @ state.X
        state.prior = cast(PredictsRow, model.prior_at(hyper))
        return Info(k, evidence + state.prior.log_prob_counts(counts), dict(hyper), 0.0)

    def _laws(self, model: Model, data: Data, state: State) -> Laws:
        """How compiled code updates the hyperparameters, if it can."""
        squares, held = total_square(state.data), state.hold_sigma - state.sweep
        return laws_of(model, data, state.hyper, squares, held, self.sigma_step == "slice")

    def _move_columns(
        self,
        rng: np.random.Generator,
        state: State,
        tables: FeatureTables,
        scales: Scales,
        attempts: int,
    ) -> None:
        """Attempts at changes of whole columns; M and G are left to the sweep to make afresh."""
        from thali.kernels import column_moves as kernel

        prior = kernel.ColumnPrior(
            *column_tables(tables, state.data.n), tables.capacity, tables.row_potentials
        )
        state.rows, state.n_components, _ = kernel.column_moves(
            rng, state.X, state.rows, state.n_components, prior, scales, attempts, kernel.SHARES
        )

    def _sweep(
        self,
        rng: np.random.Generator,
        state: State,
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
        complete = data.observed is None
        X = state.X if complete else state.X.copy()  # in which it draws
        squares = state.data.squares if complete else None
        plan = kernel.Plan(count, state.sweep, keep, 0)
        state.rows, report, scalars, packed = kernel.sweeps(
            rng, X, squares, data.observed, state.rows, k, tables, scales, laws, plan, None
        )
        state.n_components = int(report.n_components)
        if not complete:
            state.data = Augmented(X, source=data)
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

    def level(
        self,
        rng: np.random.Generator,
        model: Model,
        data: Data,
        state: State | ClusterState,
        info: Info,
    ) -> float:
        return (
            clusters.level(model, state, info)
            if isinstance(state, ClusterState)
            else info.log_joint
        )

    def to_arrays(
        self, state: State | ClusterState
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """The state as arrays and plain values; T goes along, so that a resumed chain is bitwise
        the same (M and G are made afresh at each sweep)."""
        if isinstance(state, ClusterState):
            return clusters.to_arrays(state)
        k = state.n_components
        arrays = {"Z": np.packbits(state.rows.Z[:, :k], axis=0), "T": state.rows.T[:k].copy()}
        if isinstance(state.data, Augmented):
            arrays["X"] = state.data.X
        progress = {"k": k, "sweep": state.sweep, "hold": state.hold_sigma}
        return arrays, progress | {"hyper": dict(state.hyper)}

    def from_arrays(
        self, model: Model, data: Data, arrays: dict[str, np.ndarray], numbers: dict[str, Any]
    ) -> State | ClusterState:
        from thali.kernels.maintained_rows import rows_of

        if model.structure == PARTITIONS:
            return clusters.from_arrays(model, data, arrays, numbers)
        Z = np.unpackbits(arrays["Z"], axis=0, count=data.n).astype(bool)
        at = Augmented(arrays["X"], source=data) if "X" in arrays else data
        rows = rows_of(Z, kernel_matrix(at))
        rows.T[: numbers["k"]] = arrays["T"]
        hyper = dict(numbers["hyper"])
        return State(at, rows, numbers["k"], hyper, numbers["sweep"], numbers["hold"])


def moves_every(data: Data) -> int:
    """Sweeps between attempts to change columns, which are then made for all of them at once: so
    calls of compiled code are few where sweeps are short."""
    return int(np.clip(TOGETHER // (data.n * min(data.n, data.d)), 1, 8))


def sweeps_a_call(state: State) -> int:
    """How many sweeps a call of compiled code makes at most: short enough to be interrupted."""
    n, width = state.X.shape
    k = state.n_components + 1
    return int(max(1, A_CALL // (n * k * (width + 8 * k))))


def scales_of(hyper: Values, data: Data) -> Scales:
    """The likelihood's numbers as kernels read them."""
    from thali.kernels.gaussian_row import Scales

    return Scales(hyper["sigma_x"], hyper["sigma_a"], float(data.d))


def column_tables(tables: FeatureTables, n: int) -> tuple[np.ndarray, np.ndarray, float]:
    """λ_m for m = 0 … n (λ_0 = 0), cumulative weights C(n, m) e^{λ_m} from m = 1 on in units of the
    largest, and the logarithm of their sum: the prior of one column.

    >>> from thali import IBP
    >>> potential, _, log_mass = column_tables(IBP(alpha=2.0).tables(2), 2)
    >>> [round(float(np.exp(x)), 6) for x in (*potential[1:], log_mass)]  # 2/2, 2/2; 2 H_2
    [1.0, 1.0, 3.0]
    """
    potential = potentials(tables)
    log_weight = potential[1:] + _log_binomials(n)
    top = log_weight.max()
    sums = np.cumsum(np.exp(log_weight - top))
    return potential, sums, float(top + np.log(sums[-1]))


@lru_cache(maxsize=4)
def _log_binomials(n: int) -> np.ndarray:
    """log C(n, m) for m = 1 … n."""
    m = np.arange(1.0, n + 1.0)
    return np.asarray(gammaln(n + 1.0) - gammaln(m + 1.0) - gammaln(n - m + 1.0))


def kernel_matrix(data: Data) -> np.ndarray:
    """X with gaps filled as it is, any other reduced: the reduction changes with what is drawn."""
    return np.asarray(data.reduced if data.given.observed is None else data.X)


def total_square(data: Data) -> float:
    """Σx² of complete data."""
    return float(data.squares.sum()) if data.given.observed is None else data.total_square


def augmented(
    rng: np.random.Generator, model: Model, data: Data, Z: np.ndarray, hyper: Values
) -> tuple[Data, float]:
    """What was given as the likelihood augments it, A being drawn first; and its log P given Z.

    Data that need nothing come back as they are, and no log P of them: a sweep knows it.
    """
    if not model.likelihood.augments(data.given):
        return data, np.nan
    likelihood = cast(Collapsed, model.likelihood_at(hyper))
    A, evidence = likelihood.draw_features_and_evidence(rng, data, Z)
    return likelihood.augment(rng, data.given, Z, {"A": A}), evidence
