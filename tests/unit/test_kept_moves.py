"""Fewer features by what a stream kept: which go, what is estimated, and broken variants."""

import numpy as np
import pytest
from statistical.mutants import mutate

import thali
from thali.backends.block import Block
from thali.backends.rows import Rows
from thali.data import Data
from thali.engines.ascent import kept_moves, stream
from thali.engines.ascent.kept_moves import Change
from thali.estimators.streaming import stream_of
from thali.evaluation import match_features

A = np.random.default_rng(5).standard_normal((4, 12))
NOISE = 0.3
MODULE = "thali.engines.ascent.kept_moves"


def rows(n, seed, noise=NOISE):
    rng = np.random.default_rng(seed)
    Z = rng.random((n, 4)) < 0.4
    return Z, Z @ A + noise * rng.standard_normal((n, 12))


# rows as they are planted: which columns they have in place of the true ones, and their features
def twin(rng, Z):
    return np.column_stack([Z, Z[:, 0]])


def halves(rng, Z):
    some = rng.random(len(Z)) < 0.5
    return np.column_stack([Z[:, 0] & some, Z[:, 1:], Z[:, 0] & ~some])


def dead(rng, Z):
    return np.column_stack([Z, np.arange(len(Z)) == 3])


def total(rng, Z):
    """Rows with both of two features have a third in their place."""
    both = Z[:, 0] & Z[:, 1]
    return np.column_stack([Z[:, 0] & ~both, Z[:, 1] & ~both, Z[:, 2:], both])


def undone(rng, Z):
    """Some rows have a feature too many, and one that takes it away again."""
    wrong = ~Z[:, 0] & (rng.random(len(Z)) < 0.4)
    return np.column_stack([Z[:, 0] | wrong, Z[:, 1:], wrong])


def nothing(rng, Z):
    return Z


PLANTED = {each.__name__: each for each in (twin, halves, dead, total, undone, nothing)}


def planted(which, likelihood="linear_gaussian", gaps=False, prior="ibp", soft=False, noise=NOISE):
    """A stream of one piece whose rows have what was planted, all else at its best for them."""
    rng = np.random.default_rng(8)
    Z, X = rows(300, 1, noise)
    if likelihood == "nonnegative_linear_gaussian":
        X = Z @ np.abs(A) + noise * rng.standard_normal(X.shape)
    if gaps:
        X = np.where(rng.random(X.shape) < 0.15, np.nan, X)
    engine = thali.Variational(truncation=8, n_init=1, init=Z, max_iter=40)
    model = thali.LatentFeatures(prior, likelihood, engine, random_state=0, progress=False).fit(X)
    found = stream_of(model.fit_)
    state, bits = found.state, PLANTED[which](rng, Z)
    nu = np.where(bits, 0.97, 0.02) if soft else bits.astype(float)
    slab = state.rows.slab
    state.rows = Rows.of(nu, slab, None if slab is None else np.where(bits, 1.0, 0.0))
    while len(state.features.phi) < state.k:
        state.features = state.features.grown()
    settle(state)
    found.statistics = state.found
    return found


def settle(state):
    """Globals at their best for the rows as they are."""
    state.found = state.backend.tally(state.data, state.rows)
    for _ in range(30):
        state.fit_globals(state.found)
    state.bound = state.value(state.found)


CASES = [
    *((which, "linear_gaussian", False, "ibp") for which in PLANTED),
    *((which, "linear_gaussian", True, "ibp") for which in ("twin", "halves", "total", "nothing")),
    *((which, "linear_gaussian", False, "beta_bernoulli") for which in ("halves", "nothing")),
    *((which, "nonnegative_linear_gaussian", False, "ibp") for which in ("twin", "halves", "dead")),
    *((which, "sparse_factor", False, "ibp") for which in ("halves", "dead")),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: " ".join(map(str, case)))
def test_what_was_planted_goes_and_nothing_else(case):
    which, likelihood, gaps, prior = case
    prior = thali.BetaBernoulli(n_components=8) if prior == "beta_bernoulli" else prior
    found = planted(which, likelihood, gaps, prior)
    state = found.state
    before, k = state.bound, state.k
    assert k == 4 + (which != "nothing")
    assert kept_moves.fewer_features(state, stream.MORE) == (which != "nothing")
    assert state.k == 4
    assert state.bound > before or which == "nothing"
    assert len(state.features.phi) == len(state.found.counts) == 4
    true = np.abs(A) if likelihood == "nonnegative_linear_gaussian" else A
    if likelihood != "sparse_factor":
        assert (match_features(true, state.features.phi).correlations > 0.99).all()


@pytest.mark.parametrize("which", ["twin", "halves", "dead", "total", "undone"])
@pytest.mark.parametrize("gaps", [False, True])
def test_what_is_estimated_is_what_rows_so_changed_leave(which, gaps):
    """To rounding where no other feature of the rows that change is uncertain."""
    found = planted(which, gaps=gaps)
    state = found.state
    assert kept_moves.fewer_features(state)
    check_against_rows(state, exact=which != "total")


def check_against_rows(state, exact):
    told, of_rows = state.found, state.backend.tally(state.data, state.rows)
    size = np.abs(of_rows.C).max(), np.abs(of_rows.T).max()
    near = 1e-9 if exact else 0.05
    np.testing.assert_allclose(told.C, of_rows.C, atol=near * size[0])
    np.testing.assert_allclose(told.T, of_rows.T, atol=near * size[1])
    np.testing.assert_allclose(told.counts, of_rows.counts, atol=near * size[0])
    assert told.squares == of_rows.squares
    value = state.value(of_rows)
    assert state.bound == pytest.approx(value, abs=1e-6 if exact else 30.0)


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("which", PLANTED)
def test_no_change_that_is_made_lowers_the_bound(which, soft):
    state = planted(which, soft=soft).state
    for _ in range(10):
        before, k = state.bound, state.k
        if not kept_moves._best_change(state, stream.MORE):
            break
        assert state.k == k - 1
        assert state.bound > before
        assert state.bound == pytest.approx(state.value(state.found), rel=1e-12)
    assert state.rows.k == state.k


def independent(gaps, n=4000):
    """Rows whose features are independent of each other, as the estimate takes them to be."""
    rng = np.random.default_rng(3)
    found = planted("nothing", gaps=gaps)
    state = found.state
    bits = rng.random((n, 4)) < [0.5, 0.3, 0.6, 0.4]
    X = bits @ A + NOISE * rng.standard_normal((n, 12))
    if gaps:
        X = np.where(rng.random(X.shape) < 0.2, np.nan, X)
    data = Data.of(X)
    state.data, state.rows = state.backend.hold(data, Rows.of(bits.astype(float)), "float64")
    settle(state)
    return state


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("switch", [(0, 1, 0, 0), (0, -1, 0, 0), (0, 1, -1, 0), (0, 1, 1, 1)])
def test_of_independent_features_the_estimate_is_near_whatever_is_switched(gaps, switch):
    """n_c = 2000, so that products of shares are right to about 2%."""
    state = independent(gaps)
    change = Change(0, np.array(switch))
    told = kept_moves.after(state, state.found, change)
    rows = state.rows.switched(0, change.switch)
    of_rows = state.backend.tally(state.data, rows)
    n = state.rows.n
    np.testing.assert_allclose(told.counts, of_rows.counts, atol=(2e-3 if gaps else 1e-9) * n)
    np.testing.assert_allclose(told.C, of_rows.C, atol=0.03 * np.abs(of_rows.C).max())
    np.testing.assert_allclose(told.T, of_rows.T, atol=0.05 * np.abs(of_rows.T).max())


def test_a_feature_that_later_rows_pay_for_stays():
    """Of a few rows with much noise the bound would rather be without; ten times as many pay."""
    found = planted("nothing", noise=1.0)
    state = found.state
    state.found = found.statistics.mixed(0.06, found.statistics, 0.0)
    state.found = state.fit_globals(state.found)
    state.bound = state.value(state.found)
    alone = state.copy()
    assert kept_moves.fewer_features(alone)
    assert not kept_moves.fewer_features(state, stream.MORE)
    assert (alone.k, state.k) == (1, 4)


# ---- streams ------------------------------------------------------------------------------------
def absorbed(which, moves=True, pieces=4):
    """A stream that begins with what was planted and goes on; features at its end."""
    found = planted(which)
    with pytest.MonkeyPatch.context() as patch:
        if not moves:
            patch.setattr(stream, "fewer_features", lambda state, more: False)
        for seed in range(pieces):
            piece = Block.of(Data.of(rows(60, 20 + seed)[1]), "float64")
            found.absorb(np.random.default_rng(seed), piece, None, 0.7, 1.0)
    return found


@pytest.mark.parametrize("which", ["twin", "halves", "dead", "total", "undone"])
def test_a_stream_ends_with_the_features_that_there_are(which):
    found = absorbed(which)
    assert found.state.k == found.state.rows.k == len(found.statistics.counts) == 4
    assert (match_features(A, found.state.features.phi).correlations > 0.99).all()
    assert absorbed(which, moves=False).state.k == 5


def streamed(pieces, total=None):
    engine = thali.Variational(truncation=12, n_init=1)
    model = thali.LatentFeatures(
        likelihood="linear_gaussian", engine=engine, random_state=0, progress=False
    )
    for piece in pieces:
        model.partial_fit(piece, total_samples=total)
    return model


@pytest.mark.parametrize("total", [None, 600])
def test_small_pieces_find_what_the_whole_does(total, monkeypatch):
    """Pieces of fifteen rows leave doubles and sums behind where no feature ever goes."""
    X, new = rows(600, 100)[1], rows(300, 7)[1]
    pieces = np.array_split(X, 40)
    whole = streamed([X])
    model = streamed(pieces, total)
    assert model.n_components_ == whole.n_components_ == 4
    assert model.score(new) > whole.score(new) - (0.1 if total is None else 0.2)
    assert (match_features(A, model.components_).correlations > 0.98).all()
    assert model.assignment_probabilities_.shape == (15, 4)
    if total is None:
        monkeypatch.setattr(stream, "fewer_features", lambda state, more: False)
        assert streamed(pieces, total).n_components_ > 4


# ---- broken variants ----------------------------------------------------------------------------
MUTANTS = {
    "whatever the bound says": (
        "if trial is not None and trial.bound > state.bound",
        "if trial is not None",
    ),
    "rows of the one that goes not added": (
        "of_rows[0][..., k] * found.T[c] +",
        "0.0 * found.T[c] +",
    ),
    "their products left where they were": ("    C += change_C\n", "    C += 0.0 * change_C\n"),
    "rows that had both counted twice": (
        "(change.switch[switched] > 0) - overall[switched]",
        "(change.switch[switched] > 0) * 1.0",
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_variant_is_caught(name):
    broken = mutate(MODULE, [MUTANTS[name]])
    caught = []
    for which in ("nothing", "halves", "undone"):
        state = planted(which).state
        try:
            changed = broken.fewer_features(state)
            assert changed == (which != "nothing")
            assert state.k == 4
            check_against_rows(state, exact=True)
        except AssertionError:
            caught.append(which)
    assert caught
