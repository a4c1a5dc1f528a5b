"""The parts of the moves on whole columns, each against a slow and obvious version of itself."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from oracles import features as oracles

import thali
from thali.data import Data
from thali.engines.features.columns import column_tables
from thali.model import Model
from thali.starts import Start

SIGMA_X, SIGMA_A = 0.7, 1.1
MODEL = Model(thali.IBP(alpha=2.0), thali.LinearGaussian(SIGMA_X, SIGMA_A))


def columns_of(prior, n):
    from thali.kernels.column_moves import ColumnPrior

    tables = prior.tables(n)
    return ColumnPrior(*column_tables(tables, n), tables.capacity, tables.row_potentials)


def scales_of(d):
    from thali.kernels.gaussian_row import Scales

    return Scales(SIGMA_X, SIGMA_A, float(d))


def state_of(Z, X, rng):
    """Arrays for Z in the order given."""
    from thali.kernels.maintained_rows import swap_features

    data = Data.of(X)
    state = thali.CollapsedGibbs().begin(rng, MODEL, data, Start("given", Z, {}))
    order = [
        next(j for j in range(Z.shape[1]) if np.array_equal(state.latent[:, j], column))
        for column in Z.T
    ]
    for a in range(len(order)):
        swap_features(state.rows, len(order), a, order[a])
        order = [a if j == order[a] else (order[a] if j == a else j) for j in order]
    return state.rows, data


def distinct_columns(rng, n, k):
    """A matrix of k different columns, none empty."""
    while True:
        Z = rng.random((n, k)) < 0.5
        if Z.any(axis=0).all() and len(np.unique(Z, axis=1).T) == k:
            return Z


@pytest.mark.parametrize("d", [3, 12])
def test_evidence_of_two_matrices_differs_as_their_densities_do(d, rng):
    from thali.kernels.column_moves import log_evidence

    X = rng.normal(size=(8, d))
    scales = scales_of(d)
    found, wanted = [], []
    for k in (0, 1, 3, 5):
        Z = rng.random((8, k)) < 0.5
        bits, reduced = Z.astype(float), Data.of(X).reduced
        found.append(log_evidence(bits.T @ bits, bits.T @ reduced, k, scales))
        wanted.append(oracles.log_marginal(X, Z, SIGMA_X, SIGMA_A))
    assert np.allclose(np.diff(found), np.diff(wanted), rtol=0, atol=1e-8)


def test_the_law_of_a_column_is_that_of_the_buffet():
    """Σ_m C(N, m) e^{λ_m} is the expected number of features, α H_N."""
    _, sums, log_mass = column_tables(thali.IBP(alpha=3.0).tables(7), 7)
    assert np.exp(log_mass) == pytest.approx(3.0 * oracles.harmonic(7), rel=1e-12)
    shares = np.diff(sums, prepend=0.0) / sums[-1]
    assert shares == pytest.approx(1.0 / np.arange(1, 8) / oracles.harmonic(7), rel=1e-12)


@pytest.mark.parametrize(
    "prior", [thali.IBP(alpha=3.0), thali.BetaBernoulli(alpha=3.0, n_components=5)], ids=str
)
def test_arrays_stay_right_through_thousands_of_attempts(prior, rng):
    from thali.kernels.column_moves import SHARES, column_moves

    Z = rng.random((6, 3)) < 0.4
    data = Data.of(0.7 * rng.normal(size=(6, 2)))
    columns = columns_of(prior, 6)
    state = thali.CollapsedGibbs().begin(rng, MODEL, data, Start("given", Z, {}))
    rows, k = state.rows, state.n_components
    total = np.zeros(4, int)
    for _ in range(300):
        rows, k, taken = column_moves(rng, data.reduced, rows, k, columns, scales_of(2), 10, SHARES)
        total += taken
        bits = rows.Z[:, :k].astype(float)
        assert not rows.Z[:, k:].any()
        assert bits.any(axis=0).all()
        assert k <= (5 if columns.capacity >= 0 else 100)
        assert np.array_equal(rows.C[:k, :k], bits.T @ bits)
        assert np.array_equal(rows.m[:k], bits.sum(axis=0))
        assert np.allclose(rows.T[:k], bits.T @ data.reduced, rtol=0, atol=1e-10)
    assert (total > 10).all()  # every kind was taken


def test_codes_without_a_column_are_drawn_by_fit(rng):
    """Over all choices of at most two flips a row, P ∝ exp(−‖x − z'μ‖²/2σ²), by brute force."""
    from thali.kernels.column_proposals import code_anew

    n, k = 4, 4
    Z = distinct_columns(rng, n, k)
    Z[:2, k - 1], Z[2:, k - 1] = True, False  # two rows have the last column
    X = rng.normal(size=(n, 3))
    rows, data = state_of(Z, X, rng)
    scales = scales_of(3)
    bits = rows.Z[:, :k].astype(float)
    r = (SIGMA_X / SIGMA_A) ** 2
    mu = np.linalg.solve(bits.T @ bits + r * np.eye(k), bits.T @ data.reduced)[: k - 1]
    members = np.flatnonzero(bits[:, k - 1])
    choices = [(-1, -1), *((i, -1) for i in range(k - 1))]
    choices += [(j, i) for i, j in combinations(range(k - 1), 2)]

    def log_weight(row, flips):
        z = bits[row, : k - 1].copy()
        for i in flips:
            if i >= 0:
                z[i] = 1.0 - z[i]
        return -np.sum((data.reduced[row] - z @ mu) ** 2) / (2 * SIGMA_X**2)

    total = 0.0
    for chosen in product(choices, repeat=len(members)):
        flips = np.full((n, 2), -1, np.int64)
        flips[members] = chosen
        found = code_anew(rng, data.reduced, rows, k, scales, flips, False)
        wanted = sum(
            log_weight(row, c) - np.logaddexp.reduce([log_weight(row, o) for o in choices])
            for row, c in zip(members, chosen, strict=True)
        )
        assert found == pytest.approx(wanted, abs=1e-8)
        total += np.exp(found)
    assert total == pytest.approx(1.0, abs=1e-8)
    flips = np.full((n, 2), -1, np.int64)
    drawn = code_anew(rng, data.reduced, rows, k, scales, flips, True)
    assert drawn == code_anew(rng, data.reduced, rows, k, scales, flips, False)


@pytest.mark.parametrize("k", [0, 1, 2, 3])
def test_the_urns_probabilities_sum_to_one(k, rng):
    from thali.kernels.column_proposals import flips_from_urn

    Z = np.zeros((4, k + 1), np.uint8)
    Z[[0, 1, 3], k] = 1
    patterns = [(-1, -1), *((i, -1) for i in range(k))]
    patterns += [(j, i) for i, j in combinations(range(k), 2)]
    total = 0.0
    for chosen in product(patterns, repeat=3):
        flips = np.zeros((4, 2), np.int64)
        flips[[0, 1, 3]] = chosen
        total += np.exp(flips_from_urn(rng, Z, k, flips, False))
    assert total == pytest.approx(1.0, abs=1e-10)
    flips = np.zeros((4, 2), np.int64)
    drawn = flips_from_urn(rng, Z, k, flips, True)
    assert drawn == flips_from_urn(rng, Z, k, flips, False)
    assert {tuple(flips[i]) for i in (0, 1, 3)} <= set(patterns)


@pytest.mark.parametrize("k", [0, 2])
def test_the_residues_probabilities_sum_to_one(k, rng):
    from thali.kernels.column_proposals import residue_column

    Z = distinct_columns(rng, 5, k) if k else np.zeros((5, 0), bool)
    rows, data = state_of(Z, rng.normal(size=(5, 3)), rng)
    scales = scales_of(3)
    for seed in range(5):
        total = 0.0
        for bits in product((0, 1), repeat=5):
            v = np.array(bits, np.uint8)
            if v[seed]:
                total += np.exp(residue_column(rng, data.reduced, rows, k, scales, seed, v, False))
        assert total == pytest.approx(1.0, abs=1e-8)
        v = np.zeros(5, np.uint8)
        drawn = residue_column(rng, data.reduced, rows, k, scales, seed, v, True)
        assert v[seed]
        assert drawn == residue_column(rng, data.reduced, rows, k, scales, seed, v, False)


def test_a_column_split_at_random_is_joined_again(seed):
    """A plain chain keeps both halves of a split feature; a few moves make one of them."""
    planted = thali.datasets.planted(n=200, d=30, k=3, random_state=0)
    rng = np.random.default_rng(seed)
    half = rng.random(200) < 0.5
    split = np.column_stack([planted.Z[:, :2], planted.Z[:, 2] & half, planted.Z[:, 2] & ~half])

    def features_after(moves):
        engine = thali.CollapsedGibbs(sweeps=60, burn_in=59, chains=1, init=split, moves=moves)
        return thali.LatentFeatures(
            likelihood="linear_gaussian", engine=engine, random_state=seed, progress=False
        ).fit(planted.X)

    assert features_after(0).n_components_ == 4
    assert features_after(5).n_components_ == 3


@pytest.mark.parametrize(
    "settings", [{"moves": -1}, {"moves": 2.5}, {"anneal": -1}, {"anneal": 10, "init": "ica"}]
)
def test_bad_settings_are_refused(settings):
    with pytest.raises((ValueError, TypeError), match=r"CollapsedGibbs: (moves|anneal)"):
        thali.CollapsedGibbs(**settings)


@pytest.mark.parametrize("init", ["prior", "empty"])
def test_annealing_leaves_no_trace(init, seed):
    """The noise of the first recorded sweep is the start's, and the chain is as long as asked."""
    planted = thali.datasets.planted(n=80, d=12, k=3, random_state=0)
    engine = thali.CollapsedGibbs(sweeps=20, chains=2, init=init, anneal=30)
    model = thali.LatentFeatures(
        likelihood="linear_gaussian", engine=engine, random_state=seed, progress=False
    ).fit(planted.X)
    assert model.history_["sigma_x"].shape == (2, 20)
    assert (model.history_["sigma_x"] < 1.0).all()
    assert model.history_["n_components"].min() > 0


def test_the_melting_scale_is_that_of_the_main_direction(rng):
    from thali.likelihoods.gaussian_scales import melting_scale

    for shape in ((9, 4), (4, 9)):
        X = rng.normal(size=shape)
        wanted = np.linalg.norm(X, 2) / np.sqrt(shape[0])
        assert melting_scale(Data.of(X)) == pytest.approx(wanted, rel=1e-10)
