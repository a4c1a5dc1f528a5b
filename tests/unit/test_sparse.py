"""Sparse input: the same answers as from the dense matrix, and the dense matrix is never made."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from resuming import check_resuming

import thali
from thali.cli.commands import run
from thali.data import Data, sparse
from thali.engines.capabilities import missing_capabilities, takes_sparse
from thali.model import Model
from thali.plots.reading import explained_by
from thali.registry import ENGINES, LIKELIHOODS, PRIORS, speaking_of
from thali.structures.features import FEATURES

LINEAR = ("linear_gaussian", "nonnegative_linear_gaussian")
FORMATS = (sp.csr_matrix, sp.csc_array, sp.coo_array)
OPTIMISERS = (thali.MaximizationExpectation, thali.Variational)
SHORT = {"truncation": 5, "max_iter": 25}


def problem(n=60, d=30, k=3, seed=0):
    """X with three features of a few columns each, its zeros exact; and the Z that made it."""
    rng = np.random.default_rng(seed)
    Z = rng.random((n, k)) < 0.4
    A = (rng.random((k, d)) < 0.2) * (1.0 + rng.random((k, d)))
    X = Z @ A
    return np.where(X > 0.0, X + 0.1 * rng.standard_normal(X.shape), 0.0), Z


X, Z = problem()


def fitted(X, likelihood="nonnegative_linear_gaussian", engine=None, **options):
    engine = engine or thali.MaximizationExpectation(init=Z, **SHORT)
    return thali.LatentFeatures("ibp", likelihood, engine, random_state=0, **options).fit(X)


@pytest.fixture
def no_dense(monkeypatch):
    """Every way that SciPy has to make a sparse matrix dense fails."""

    def refuse(self, *args, **kwargs):
        raise AssertionError(f"a sparse matrix of shape {self.shape} was made dense")

    for cls in {c for kind in FORMATS for c in kind.__mro__ if c.__module__.startswith("scipy")}:
        for name in ("toarray", "todense", "__array__"):
            if name in vars(cls):
                monkeypatch.setattr(cls, name, refuse)


# ------------------------------------------------------------------------------- the same answer


@pytest.mark.parametrize("likelihood", LINEAR)
@pytest.mark.parametrize("engine", OPTIMISERS)
def test_sparse_and_dense_give_the_same_answer_from_the_same_start(engine, likelihood):
    settings = engine(init=Z, **SHORT)
    dense = fitted(X, likelihood, settings)
    for make in FORMATS:
        model = fitted(make(X), likelihood, settings)
        assert np.array_equal(model.Z_, dense.Z_)
        assert np.isclose(model.elbo_, dense.elbo_, rtol=1e-8)
        assert np.isclose(model.log_joint_, dense.log_joint_, rtol=1e-8)
        assert np.allclose(model.components_, dense.components_, atol=1e-8)


@pytest.mark.parametrize("likelihood", LINEAR)
def test_blocks_of_rows_side_by_side_give_the_same_answer(likelihood):
    big, Zs = problem(n=5000, d=12)
    settings = thali.MaximizationExpectation(init=Zs, n_init=1, truncation=4, max_iter=6)
    dense, model = (fitted(x, likelihood, settings) for x in (big, sp.csr_array(big)))
    assert np.array_equal(model.Z_, dense.Z_)
    assert np.isclose(model.elbo_, dense.elbo_, rtol=1e-8)


@pytest.mark.parametrize("init", ["columns", "prior", "empty"])
def test_starts_from_a_sparse_matrix_are_those_from_the_dense_one(init):
    from thali.registry import STARTS

    model = Model(thali.IBP(), thali.LinearGaussian())
    found = []
    for x in (X, sp.coo_array(X)):
        data = Data.of(x)
        found.append(STARTS[init](np.random.default_rng(0), model.resolve(data), data))
    dense, other = found
    assert other.hyper == pytest.approx(dense.hyper, rel=1e-6)
    assert np.array_equal(dense.latent, other.latent)


@pytest.mark.parametrize("table", [X, X.T])
def test_scores_on_main_directions_are_those_of_the_centered_matrix(table):
    U, s, _ = np.linalg.svd(table - table.mean(axis=0), full_matrices=False)
    found = sparse.leading_scores(np.random.default_rng(0), sp.csr_array(table), 3)
    assert np.allclose(np.abs(found), np.abs(U[:, :3] * s[:3]))
    assert np.allclose(sparse.singular_values(sp.csr_array(table)), s, atol=1e-6)


def test_independent_components_of_some_rows_find_the_features(monkeypatch):
    from thali.starts import sources
    from thali.starts.ica import ica_start

    monkeypatch.setattr(sources, "SOME_ROWS", 300)
    big, planted = problem(n=500)
    data = Data.of(sp.csr_array(big))
    model = Model(thali.IBP(), thali.LinearGaussian()).resolve(data)
    Z = ica_start(np.random.default_rng(0), model, data).latent
    agree = (Z[:, :, None] == planted[:, None, :]).mean(axis=0).max(axis=0)
    assert (agree > 0.95).all()


@pytest.mark.parametrize("likelihood", LINEAR)
def test_scores_and_probabilities_of_sparse_rows(likelihood):
    model = fitted(sp.csr_array(X), likelihood)
    new = problem(seed=1)[0]
    for rows in (sp.csc_matrix(new), sp.coo_array(new)):
        assert np.isclose(model.score(rows), model.score(new), rtol=1e-10)
        assert np.allclose(model.predict_proba(rows), model.predict_proba(new))
        assert np.array_equal(model.transform(rows), model.transform(new))
    assert model.inverse_transform(model.transform(sp.csr_array(new))).shape == new.shape


def test_probabilities_of_rows_with_more_features_than_can_be_summed(monkeypatch):
    from thali.results import summed_bits

    model = fitted(sp.csr_array(X))
    exact = model.predict_proba(sp.csr_array(X))
    monkeypatch.setattr(summed_bits, "SUMMED", 0)
    sampled = model.predict_proba(sp.csr_array(X))
    assert np.abs(sampled - exact).mean() < 0.02


def test_a_model_without_features_scores_sparse_rows():
    nothing = sp.csr_array((6, 4))
    for likelihood in LINEAR:
        model = fitted(nothing, likelihood, thali.MaximizationExpectation())
        assert model.n_components_ == 0
        assert np.isclose(model.score(sp.csr_array(np.eye(4))), model.score(np.eye(4)))


def test_pieces_of_a_stream_may_be_sparse():
    models = []
    for make in (np.asarray, sp.csr_array):
        model = thali.LatentFeatures(
            likelihood="linear_gaussian",
            engine=thali.Variational(**SHORT, init=Z[:30]),
            random_state=0,
        )
        model.partial_fit(make(X[:30])).partial_fit(make(X[30:]))
        models.append(model)
    dense, other = models
    assert other.n_rows_seen_ == 60
    assert np.allclose(other.components_, dense.components_, atol=1e-8)
    assert np.isclose(other.score(sp.csr_array(X)), dense.score(X))


def test_a_sparse_data_frame_keeps_its_names():
    frame = pd.DataFrame.sparse.from_spmatrix(
        sp.csr_matrix(X), columns=[f"c{i}" for i in range(30)]
    )
    model = fitted(frame)
    assert sp.issparse(model.X_)
    assert list(model.feature_names_in_)[:2] == ["c0", "c1"]
    assert np.array_equal(model.Z_, fitted(X).Z_)


# ------------------------------------------------------------------------------- never made dense


@pytest.mark.parametrize("likelihood", LINEAR)
@pytest.mark.parametrize("engine", OPTIMISERS)
def test_no_step_makes_it_dense(no_dense, tmp_path, likelihood, engine):
    model = fitted(sp.csr_array(X), likelihood, engine(**SHORT))  # a race of all starts
    rows = sp.csc_array(problem(seed=1)[0])
    model.score(rows)
    model.transform(rows)
    list(model.draws())
    explained_by(model)
    model.save(tmp_path / "m.thali")
    assert np.array_equal(thali.load(tmp_path / "m.thali").Z_, model.Z_)
    assert takes_sparse(model.engine_, model.fit_.model)


@pytest.mark.filterwarnings("ignore::thali.DiscreteData")
def test_memory_stays_far_below_that_of_the_dense_matrix():
    n, d = shape = (8000, 20_000)  # 1.3 GB
    rng = np.random.default_rng(0)
    planted = rng.random((n, 2)) < 0.3
    rows, which = np.nonzero(planted)
    columns = rng.integers(5, size=(len(rows), 3)) + 5 * which[:, None]
    wide = sp.csr_array((np.ones(columns.size), (np.repeat(rows, 3), columns.ravel())), shape=shape)
    engine = thali.MaximizationExpectation(truncation=2, max_iter=3)
    tracemalloc.start()
    model = fitted(wide, engine=engine)
    model.transform(wide)
    explained_by(model)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert model.n_components_ > 0
    assert peak < 0.2 * 8 * n * d


def test_the_spectrum_of_a_large_matrix_comes_from_random_projections(monkeypatch):
    exact = np.linalg.svd(X - X.mean(axis=0), compute_uv=False)
    monkeypatch.setattr(sparse, "GRAM", 10)
    monkeypatch.setattr(sparse, "LEADING", 8)
    found = sparse.singular_values(sp.csr_array(X))
    assert len(found) == len(exact)
    assert np.allclose(found[:3], exact[:3], rtol=1e-3)
    assert np.isclose(np.square(found).sum(), np.square(exact).sum(), rtol=0.05)
    scores = sparse.leading_scores(np.random.default_rng(0), sp.csr_array(X), 3)
    assert np.allclose(np.linalg.norm(scores, axis=0), exact[:3], rtol=1e-3)


# ------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("likelihood", speaking_of(LIKELIHOODS, FEATURES))
def test_the_declarations_decide_who_takes_it(engine, likelihood):
    model = Model(PRIORS["ibp"](), LIKELIHOODS[likelihood]())
    if missing_capabilities(ENGINES[engine], model):
        return
    estimator = thali.LatentFeatures(likelihood=likelihood, engine=engine)
    takes = takes_sparse(ENGINES[engine], model)
    assert takes == (engine in ("variational", "maximization_expectation") and likelihood in LINEAR)
    assert estimator.__sklearn_tags__().input_tags.sparse == takes
    if not takes:
        with pytest.raises(TypeError, match=r"sparse matrix, which .*X\.toarray\(\)") as caught:
            estimator.fit(sp.csr_array(X > 1.0))
        able = "MaximizationExpectation, Variational" if likelihood in LINEAR else "none"
        assert f"Engines that can with {LIKELIHOODS[likelihood].__name__}: {able};" in str(
            caught.value
        )


def test_other_engines_refuse_sparse_rows_too():
    model = thali.LatentFeatures(
        likelihood="linear_gaussian",
        engine=thali.CollapsedGibbs(sweeps=4, chains=1),
        random_state=0,
    )
    model.fit(X)
    for ask in (model.score, model.transform):
        with pytest.raises(TypeError, match="which CollapsedGibbs cannot work from"):
            ask(sp.csr_array(X))


def test_rows_of_a_model_of_data_with_gaps_must_be_dense():
    gaps = X.copy()
    gaps[0, 0] = np.nan
    with pytest.raises(TypeError, match=r"missing entries.*X\.toarray\(\)"):
        fitted(gaps, "linear_gaussian").score(sp.csr_array(X))


def test_centering_is_refused():
    with pytest.raises(ValueError, match="center=True would make dense"):
        fitted(sp.csr_array(X), center=True)
    model = thali.LatentFeatures(likelihood="linear_gaussian", engine="variational", center=True)
    assert not model.__sklearn_tags__().input_tags.sparse


def changed(value):
    bad = sp.lil_array(X)
    bad[3, 4] = value
    return bad.tocsc()


def filled_with_ones():
    return pd.DataFrame({"a": pd.arrays.SparseArray([1, 1, 2], fill_value=1)})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (changed(np.nan), "1 entries NaN, the first at row 3, column 4. Missing entries need a d"),
        (changed(-np.inf), "X contains infinity: 1 entries, the first at row 3, column 4"),
        (changed(1e300), "whose squares overflow; divide X by its scale first"),
        (sp.csr_array(1e-200 * X), "divide X by its scale first"),
        (sp.csr_array((0, 3)), r"0 sample\(s\)"),
        (sp.csr_array((3, 0)), r"0 feature\(s\)"),
        (sp.csr_array(X.astype(complex)), "Complex data not supported"),
        (sp.coo_array(X[0]), r"X must be a table of 2 dimensions \(rows x columns\), not 1"),
        (filled_with_ones(), "leaves out something else than 0; make it dense"),
    ],
)
def test_bad_sparse_input_is_refused_in_words(given, words):
    with pytest.raises((ValueError, TypeError), match=words):
        fitted(given, engine=thali.MaximizationExpectation(**SHORT))


def test_indices_that_point_elsewhere_are_refused():
    broken = sp.csr_array(X)
    broken.indices[0] = 1000
    with pytest.raises(ValueError, match="indices"):
        fitted(broken)


def test_entries_given_twice_are_added_and_zeros_dropped_from_a_copy():
    twice = sp.coo_array(([1.0, 2.0, 0.0], ([0, 0, 1], [1, 1, 0])), shape=(4, 3))
    model = fitted(twice, engine=thali.MaximizationExpectation())
    assert model.X_.nnz == 1
    assert model.X_[0, 1] == 3.0
    assert twice.nnz == 3


@pytest.mark.parametrize("kind", ["csr", "csc", "coo"])
@pytest.mark.parametrize(("value", "total"), [(np.int8(100), 300.0), (np.True_, 1.0)])
def test_the_sum_of_entries_given_twice_is_the_same_in_every_format(kind, value, total):
    data, at = np.full(3, value), ([0, 0, 0], [1, 1, 1])
    given = {
        "coo": lambda: sp.coo_array((data, at), shape=(4, 3)),
        "csr": lambda: sp.csr_array((data, [1, 1, 1], [0, 3, 3, 3, 3]), shape=(4, 3)),
        "csc": lambda: sp.csc_array((data, [0, 0, 0], [0, 0, 3, 3]), shape=(4, 3)),
    }[kind]()
    assert Data.of(given).X[0, 1] == total
    assert given.nnz == 3


def test_there_is_nothing_to_impute():
    with pytest.raises(ValueError, match="fitted to a sparse matrix, which has no missing entries"):
        fitted(sp.csr_array(X)).impute()


def test_a_sparse_matrix_of_assignments_is_refused_in_words():
    model = fitted(X)
    with pytest.raises(TypeError, match=r"Z is a sparse matrix .* Z\.toarray\(\)"):
        model.inverse_transform(sp.csr_array(model.Z_.astype(float)))


@pytest.mark.filterwarnings("ignore::thali.DiscreteData")
def test_empty_columns_and_rows_and_integers_are_fine():
    wide = np.column_stack([X, np.zeros(len(X))])
    wide[5] = 0.0
    model = fitted(sp.csr_array(wide))
    assert np.allclose(model.components_[:, -1], 0.0, atol=0.1)
    assert not model.Z_[5].any()
    bits = (X > 1.0).astype(np.int8)
    assert np.array_equal(fitted(sp.csr_matrix(bits)).Z_, fitted(bits).Z_)


def test_another_number_of_columns_is_refused():
    with pytest.raises(ValueError, match="X has 29 features, but LatentFeatures is expecting 30"):
        fitted(sp.csr_array(X)).transform(sp.csr_array(X[:, 1:]))


# ------------------------------------------------------------------------------- files


def test_a_fit_saved_and_loaded_answers_the_same(tmp_path):
    model = fitted(sp.csc_array(X), "linear_gaussian")
    model.save(tmp_path / "m.thali")
    again = thali.load(tmp_path / "m.thali")
    assert sp.issparse(again.X_)
    assert (again.X_ != model.X_).nnz == 0
    assert again.log_joint_ == model.log_joint_
    assert again.score(sp.csr_array(X)) == model.score(sp.csr_array(X))
    assert "left over" in again.report(tmp_path / "r.html").read_text(encoding="utf-8")


def test_a_stopped_fit_goes_on(tmp_path, monkeypatch):
    engine = thali.MaximizationExpectation(init="empty", truncation=5)

    def make():
        return thali.LatentFeatures("ibp", LINEAR[1], engine, random_state=0)

    path = tmp_path / "c.thali"
    check_resuming(make, sp.csr_array(X), path, monkeypatch, at=5)
    make().fit(sp.csc_matrix(X), checkpoint=path, resume=True)  # the same data
    with pytest.raises(ValueError, match="belongs to another run: the data differs"):
        make().fit(sp.csr_array(np.roll(X, 1, axis=1)), checkpoint=path, resume=True)


def test_the_command_line_fits_a_sparse_file(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    sp.save_npz("tags.npz", sp.csr_matrix(X))
    engine = ["--engine", "maximization-expectation", "--truncation", "4"]
    assert run(["fit", "tags.npz", *engine, "--seed", "0", "--out", "out"]) == 0
    assert "tags.npz: 60 x 30" in capsys.readouterr().out
    model = thali.load("out/model.thali")
    assert sp.issparse(model.X_)
    assert (tmp_path / "out" / "report.html").exists()
    assert run(["fit", "tags.npz", "--engine", "collapsed-gibbs", "--out", "other"]) == 2
    said = capsys.readouterr().err
    assert "X is a sparse matrix, which CollapsedGibbs cannot work from" in said
    assert not (tmp_path / "other").exists()
