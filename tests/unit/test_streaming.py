"""Data in pieces: what is kept of them, what is found, and what is refused."""

import numpy as np
import pytest

import thali
from thali.backends.block import Block
from thali.data import Data
from thali.estimators.streaming import row_bounds, rows_given_globals, stream_of
from thali.evaluation import match_features

A = np.random.default_rng(5).standard_normal((4, 12))


def rows(n, seed, features=4):
    rng = np.random.default_rng(seed)
    Z = rng.random((n, 4)) < 0.4
    Z[:, features:] = False
    return Z @ A + 0.3 * rng.standard_normal((n, 12))


def streamed(pieces, **options):
    engine = thali.Variational(truncation=10, n_init=1)
    model = thali.LatentFeatures(
        likelihood="linear_gaussian", engine=engine, random_state=0, progress=False
    )
    for piece in pieces:
        model.partial_fit(piece, **options)
    return model


@pytest.mark.parametrize("total", [None, 600])
def test_pieces_find_what_the_whole_does(total):
    pieces = [rows(150, seed) for seed in range(4)]
    model = streamed(pieces, total_samples=total)
    whole = thali.LatentFeatures(
        likelihood="linear_gaussian",
        engine=thali.Variational(truncation=10),
        random_state=0,
        progress=False,
    ).fit(np.concatenate(pieces))
    assert model.n_rows_seen_ == 600
    assert model.n_components_ == whole.n_components_ == 4
    assert (match_features(A, model.components_).correlations > 0.99).all()
    assert model.sigma_x_ == pytest.approx(whole.sigma_x_, rel=0.05)


def test_all_rows_count_alike_where_their_number_is_not_known():
    pieces = [rows(100, 0), rows(200, 1), rows(50, 2)]
    law = streamed(pieces).fit_.params
    assert law["stream_n"] == pytest.approx(350.0)
    assert law["stream_entries"] == pytest.approx(350.0 * 12)
    squares = sum(np.square(piece).sum() for piece in pieces)
    assert law["stream_squares"] == pytest.approx(squares)


def test_a_piece_that_calls_for_a_new_feature_gets_one():
    model = streamed([rows(200, 0, features=3), rows(200, 1, features=3), rows(200, 2)])
    assert model.n_components_ == 4
    assert (match_features(A, model.components_).correlations > 0.98).all()


def test_pieces_with_gaps():
    pieces = [rows(150, seed) for seed in range(3)]
    hidden = np.random.default_rng(1).random(pieces[1].shape) < 0.2
    pieces[1] = np.where(hidden, np.nan, pieces[1])
    model = streamed(pieces)
    assert model.n_components_ == 4
    assert model.fit_.params["stream_entries"] == pytest.approx(450 * 12 - hidden.sum())


@pytest.mark.parametrize("likelihood", ["nonnegative_linear_gaussian", "sparse_factor"])
def test_other_likelihoods(likelihood):
    engine = thali.Variational(truncation=8, n_init=1)
    model = thali.LatentFeatures(
        likelihood=likelihood, engine=engine, random_state=0, progress=False
    )
    for seed in range(3):
        model.partial_fit(np.abs(rows(100, seed)))
    assert np.isfinite(model.score(np.abs(rows(20, 9))))
    assert model.transform(np.abs(rows(20, 9))).shape == (20, model.n_components_)


def test_the_rows_parts_of_the_bound_add_up_to_it():
    model = streamed([rows(80, 0), rows(80, 1)])
    stream = stream_of(model.fit_)
    state = stream.state
    X = rows(30, 3)
    X[2, 4] = X[5] = np.nan
    for data in (Data.of(rows(30, 4)), Data.of(X)):
        block = Block.of(data, "float64")
        law = rows_given_globals(stream, block)
        each = row_bounds(stream, block, law)
        found = state.backend.local_step(block, law, state.globals(block), passes=0)
        rest = state.features.gain(state.hyper["sigma_a"])
        rest += state.frequencies.gain_of_mass(state.hyper["alpha"])
        rest += sum(
            each.log_density(state.hyper[name]) for name, each in state.model.hyperpriors.items()
        )
        assert each.sum() + rest == pytest.approx(state.value(found), rel=1e-10)


def test_saved_and_loaded_it_goes_on_as_if_nothing_had_been(tmp_path):
    pieces = [rows(120, seed) for seed in range(3)]
    straight = streamed(pieces)
    model = streamed(pieces[:2])
    model.save(tmp_path / "stream.thali")
    again = thali.load(tmp_path / "stream.thali")
    assert again.n_rows_seen_ == 240
    again.partial_fit(pieces[2])
    assert np.allclose(again.components_, straight.components_)
    assert again.score(pieces[0]) == pytest.approx(straight.score(pieces[0]))


def test_a_fitted_model_goes_on_and_a_new_fit_begins_afresh():
    engine = thali.Variational(truncation=10)
    model = thali.LatentFeatures(
        likelihood="linear_gaussian", engine=engine, random_state=0, progress=False
    ).fit(rows(100, 0))
    assert model.partial_fit(rows(100, 1)).n_rows_seen_ == 200
    assert model.fit(rows(90, 0)).n_rows_seen_ == 90


def test_what_is_refused():
    with pytest.raises(AttributeError) as refused:
        thali.LatentFeatures(likelihood="linear_gaussian", engine="collapsed_gibbs").partial_fit(
            rows(10, 0)
        )
    assert "needs an engine that keeps a distribution" in str(refused.value.__cause__)
    with pytest.raises(ValueError, match="total_samples must be at least 1"):
        streamed([rows(60, 0)], total_samples=0)
    with pytest.raises(ValueError, match="features"):
        streamed([rows(60, 0), rows(60, 1)[:, :5]])
    with pytest.raises(ValueError, match="forgetting must be above"):
        thali.Variational(forgetting=0.4)


@pytest.mark.parametrize("gaps", [False, True])
def test_pieces_without_features(gaps):
    X = np.random.default_rng(0).standard_normal((40, 5))
    X[0, 0] = np.nan if gaps else 0.0
    engine = thali.Variational(truncation=5, n_init=1, init="empty")
    model = thali.LatentFeatures(
        likelihood="linear_gaussian", engine=engine, random_state=0, progress=False
    )
    model.partial_fit(X).partial_fit(X)
    assert model.n_components_ == model.history_["n_components"][0, -1] == 0
    assert model.fit_.params["phi"].shape[0] <= 1
    assert np.isfinite(model.score(X))
    assert model.transform(X).shape == (40, 0)


def test_a_piece_that_fails_leaves_the_model_as_it_was(monkeypatch):
    model = streamed([rows(60, 0), rows(60, 1)])
    before = model.components_.copy()

    def fail(*_):
        raise MemoryError("no room")

    monkeypatch.setattr("thali.estimators.latent_features.answer", fail)
    with pytest.raises(MemoryError, match="no room"):
        model.partial_fit(rows(60, 2))
    monkeypatch.undo()
    assert model.n_rows_seen_ == 120
    assert np.array_equal(model.components_, before)
    assert model.partial_fit(rows(60, 2)).n_rows_seen_ == 180


def test_pieces_are_no_iterations_that_ran_out():
    model = streamed([rows(60, 0)])
    limit = model.history_["elbo"].shape[1] + 1
    engine = thali.Variational(truncation=10, n_init=1, max_iter=limit)
    model = thali.LatentFeatures(
        likelihood="linear_gaussian", engine=engine, random_state=0, progress=False
    )
    for seed in range(3):
        model.partial_fit(rows(60, seed))
    assert model.history_["elbo"].shape[1] > limit
    assert "still rising" not in model.convergence().headline


def test_a_law_of_another_engine_is_no_stream():
    engine = thali.MaximizationExpectation(truncation=8, n_init=1)
    model = thali.LatentFeatures(
        likelihood="linear_gaussian", engine=engine, random_state=0, progress=False
    ).fit(rows(80, 0))
    model.set_params(engine=thali.Variational(truncation=8, n_init=1))
    assert model.partial_fit(rows(60, 1)).n_rows_seen_ == 60
    assert model.partial_fit(rows(60, 2)).n_rows_seen_ == 120
