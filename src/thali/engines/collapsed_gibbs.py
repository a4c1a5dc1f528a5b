r"""Collapsed Gibbs sampling of Z, with A integrated out (Griffiths and Ghahramani 2005).

A step is a few attempts at a change of whole columns (``kernels.column_moves``), one sweep over
all bits and all rows' own features, O(N(K² + KD)), then the hyperparameters: α given [Z] (conjugate
for the IBP), and σ_x, σ_a given Z, each evaluation of whose density costs O(K) through the
eigenvalues of ZᵀZ.

Any prior with tables of potentials will do; the finite sampler is this engine × BetaBernoulli.

Where entries of X are missing the state holds draws of them: the sweep draws each row's bits and
missing entries together (``kernels/masked_rows.py``), α and the σ's are drawn given the completed
data, and a step ends with A and then all missing entries afresh, given Z and what was observed.
The log joint is that of the observed entries alone, with A integrated out column by column.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from scipy.special import gammaln

from thali.data import Data
from thali.engines.base import Engine, Info
from thali.engines.chain_settings import ChainSettings
from thali.likelihoods.base import Collapsed, GaussianRows
from thali.likelihoods.gaussian_scales import scales_without_features
from thali.likelihoods.masked_columns import MaskedColumns
from thali.model import Model
from thali.priors.base import PredictsRow
from thali.settings import whole_number
from thali.starts import Start
from thali.structures import FeatureTables, counts_from_gram, potentials, with_row_sums

SUMS_AFRESH = 64  # sweeps after which T = ZᵀX is summed again from the data
ANNEALED = ("prior", "empty", "race")  # starts that know nothing of the data, or try such


@dataclass
class State:
    """What the next sweep needs: the maintained arrays, the hyperparameters, and the count."""

    rows: Any  # kernels.collapsed_rows.Rows
    n_features: int
    hyper: dict[str, float]
    sweep: int = 0
    hold_sigma: int = 0  # the scales stay put until this sweep, while features are being born
    X: Any = None  # the data the rows were made of: reduced, or with missing entries drawn
    squares: Any = None  # ‖x_n‖² of its rows, where X is complete
    columns: Any = None  # likelihoods.masked_columns.MaskedColumns, where entries are missing
    prior: Any = None  # the model's prior at ``hyper``, kept from one sweep to the next

    @property
    def Z(self) -> np.ndarray:
        """The N×K matrix of the features in use."""
        return self.rows.Z[:, : self.n_features].astype(bool)


@dataclass(frozen=True)
class CollapsedGibbs(ChainSettings, Engine):
    """Sweeps over Z with A integrated out, in several chains.

    ``sweeps`` a chain (None: 1000, but fewer, down to 100, where data and features are large), the
    first ``burn_in`` of them (None: half) not kept, then every ``thin``-th kept.
    ``init`` is "race", "ica", "columns", "prior", "empty", a matrix Z, or a fitted model.
    ``sigma_step`` is "slice" (on log σ) or "metropolis" (uniform ±0.05, as Anand 2015).
    ``moves`` attempts a sweep change whole columns (split, join, turn, drop), by which chains leave
    modes that a change of one bit at a time does not leave; 0 is the plain Gibbs sampler.
    ``anneal`` sweeps under falling noise come before the first of a chain that begins at "prior" or
    "empty" (in a race, of those contenders); they belong to the start and are not recorded.

    >>> CollapsedGibbs(sweeps=200, chains=2).kept
    100
    """

    sigma_step: str = "slice"
    moves: int = 2
    anneal: int = 0

    needs_prior: ClassVar[tuple[type, ...]] = (PredictsRow,)
    needs_likelihood: ClassVar[tuple[type, ...]] = (Collapsed, GaussianRows)
    masked: ClassVar[bool] = True
    kind: ClassVar[str] = "draws"

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_number("CollapsedGibbs", "moves", self.moves, 0)
        whole_number("CollapsedGibbs", "anneal", self.anneal, 0)
        if self.sigma_step not in ("slice", "metropolis"):
            raise ValueError(
                "CollapsedGibbs: sigma_step must be 'slice' or 'metropolis', "
                f"not {self.sigma_step!r}."
            )
        if self.anneal and not (isinstance(self.init, str) and self.init in ANNEALED):
            raise ValueError(
                "CollapsedGibbs: anneal melts whatever it begins from, so init must be "
                f"{', '.join(map(repr, ANNEALED))}; leave anneal at 0 for another start."
            )

    def begin(self, rng: np.random.Generator, model: Model, data: Data, start: Start) -> State:
        """The state at ``start``, arrays made afresh from Z."""
        from thali.kernels.maintained_rows import rows_of

        Z = start.Z[:, start.Z.any(axis=0)]
        Z = Z[:, rng.permutation(Z.shape[1])]  # the order of columns must carry no information
        k, hyper = Z.shape[1], dict(start.hyper)
        if data.mask is None:
            X = data.reduced
            return State(rows_of(Z, X), k, hyper, 0, start.hold_sigma, X, data.squares)
        columns = MaskedColumns(data.X, data.patterns)
        X, _ = _completed(rng, model, data, Z, hyper, columns)
        return State(rows_of(Z, X), k, hyper, 0, start.hold_sigma, X, None, columns)

    def step(self, rng: np.random.Generator, model: Model, data: Data, state: State) -> Info:
        """Moves on columns, one sweep, and one update of every inferred hyperparameter."""
        hyper = state.hyper
        if state.prior is None:
            state.prior = model.at(hyper).prior
        tables = state.prior.tables(data.n)
        try:
            if self.moves:
                self._move_columns(rng, data, state, tables)
            report = self._sweep(rng, data, state, tables)
        except (np.linalg.LinAlgError, ZeroDivisionError):
            raise ValueError(
                f"Features are nearly equal and the noise sigma_x={hyper['sigma_x']:.3g} is so "
                f"small beside sigma_a={hyper['sigma_a']:.3g} that double precision cannot tell "
                "them apart; give a larger sigma_x, or let both be inferred."
            ) from None
        state.n_features = k = int(report.n_features)
        state.sweep += 1
        counts = counts_from_gram(data.n, state.rows.C[:k, :k])
        counts = with_row_sums(counts, tables, state.rows.Z[:, :k])
        model.prior.resample(rng, hyper, counts)
        evidence = scales_without_features(
            rng,
            model.likelihood,
            state.rows.C[:k, :k].copy(),
            state.rows.T[:k],
            float((np.square(state.X) if state.squares is None else state.squares).sum()),
            data.n,
            data.d,
            hyper,
            self.sigma_step,
            hold=state.sweep <= state.hold_sigma,
            scale=float(np.sqrt(data.mean_square)),
        )
        if data.mask is not None:
            Z = state.Z
            state.X, evidence = _completed(rng, model, data, Z, hyper, state.columns)
            state.rows.T[:k] = Z.T.astype(float) @ state.X
        state.prior = model.at(hyper).prior
        log_joint = evidence + state.prior.log_prob_counts(counts)
        return Info(k, log_joint, dict(hyper), float(report.drift))

    def _move_columns(
        self, rng: np.random.Generator, data: Data, state: State, tables: FeatureTables
    ) -> None:
        """Attempts at changes of whole columns; S and G are left to the sweep to make afresh."""
        from thali.kernels import column_moves as kernel

        prior = kernel.ColumnPrior(
            *column_tables(tables, data.n), tables.capacity, tables.row_potentials
        )
        scales = scales_of(state.hyper, data)
        state.rows, state.n_features, _ = kernel.column_moves(
            rng, state.X, state.rows, state.n_features, prior, scales, self.moves, kernel.SHARES
        )

    def _sweep(self, rng: np.random.Generator, data: Data, state: State, tables: Any) -> Any:
        """One pass of the compiled kernel; returns its report."""
        from thali.kernels import collapsed_rows as kernel

        hyper, k = state.hyper, state.n_features
        scales = scales_of(hyper, data)
        every = max(256, 8 * k)
        if data.mask is not None:
            from thali.kernels.masked_rows import masked_sweep

            state.rows, report = masked_sweep(
                rng, state.X, data.mask, state.rows, k, tables, scales, every
            )
        else:
            if state.sweep and state.sweep % SUMS_AFRESH == 0:
                state.rows.T[:k] = state.rows.Z[:, :k].T.astype(float) @ state.X
            state.rows, report = kernel.sweep(
                rng, state.X, state.squares, state.rows, k, tables, scales, every, False
            )
        if report.refused >= 0 and tables.new_log_weight > np.log(0.1 * kernel.MOST_NEW):
            raise ValueError(
                f"With alpha={hyper['alpha']:.3g} the prior gives a row more than "
                f"{np.exp(tables.new_log_weight):.3g} features of its own; give a smaller alpha, "
                "or let it be inferred."
            )
        if report.refused >= 0:
            raise ValueError(
                f"Row {int(report.refused)} is so far from what features of scale sigma_a="
                f"{hyper['sigma_a']:.3g} can make that it asks for more than {kernel.MOST_NEW} of "
                "its own; give a larger sigma_a, let it be inferred, or look at that row."
            )
        return report

    def freeze(self, state: State) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """The state as arrays and plain values; T goes along, so that a resumed chain is bitwise
        the same (S and G are made afresh at each sweep)."""
        k = state.n_features
        arrays = {"Z": np.packbits(state.rows.Z[:, :k], axis=0), "T": state.rows.T[:k].copy()}
        if state.columns is not None:
            arrays["missing"] = state.X[~state.columns.mask]
        numbers = {
            "k": k,
            "hyper": dict(state.hyper),
            "sweep": state.sweep,
            "hold": state.hold_sigma,
        }
        return arrays, numbers

    def thaw(
        self, model: Model, data: Data, arrays: dict[str, np.ndarray], numbers: dict[str, Any]
    ) -> State:
        """The state that ``freeze`` saved."""
        from thali.kernels.maintained_rows import rows_of

        Z = np.unpackbits(arrays["Z"], axis=0, count=data.n).astype(bool)
        masked = data.mask is not None
        X = data.X.copy() if masked else data.reduced
        if data.mask is not None:
            X[~data.mask] = arrays["missing"]
        rows = rows_of(Z, X)
        rows.T[: numbers["k"]] = arrays["T"]
        return State(
            rows,
            numbers["k"],
            dict(numbers["hyper"]),
            numbers["sweep"],
            numbers["hold"],
            X,
            None if masked else data.squares,
            MaskedColumns(data.X, data.patterns) if masked else None,
        )


def scales_of(hyper: dict[str, float], data: Data) -> Any:
    """The likelihood's numbers as kernels read them."""
    from thali.kernels.gaussian_row import Scales

    return Scales(hyper["sigma_x"], hyper["sigma_a"], float(data.d))


def column_tables(tables: FeatureTables, n: int) -> tuple[np.ndarray, np.ndarray, float]:
    """λ_m for m = 0 … n (λ_0 = 0), cumulative weights C(n, m) e^{λ_m} from m = 1 on in units of the
    largest, and the logarithm of their sum: the prior's law of one column.

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


def _completed(
    rng: np.random.Generator,
    model: Model,
    data: Data,
    Z: np.ndarray,
    hyper: dict[str, float],
    columns: MaskedColumns,
) -> tuple[np.ndarray, float]:
    """X with A, then its missing entries drawn given Z and the rest; and log P(the rest | Z)."""
    sigma_x, sigma_a = hyper["sigma_x"], hyper["sigma_a"]
    noise = sigma_x * rng.standard_normal((Z.shape[1], data.d))
    A, log_dets, explained = columns.solve(Z, (sigma_x / sigma_a) ** 2, noise)
    evidence = columns.log_evidence(log_dets, explained, Z.shape[1], sigma_x, sigma_a)
    likelihood: Any = model.at(hyper).likelihood
    return likelihood.complete(rng, data, Z, {"A": A}).X, evidence
