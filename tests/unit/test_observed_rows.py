"""Rows with missing entries given A: the products that bits are drawn from, and the books kept."""

from __future__ import annotations

import numpy as np
import pytest

import thali
from thali.data import Augmented, Data
from thali.kernels.bit_prior import BitPrior
from thali.kernels.given_features import odds_of_column, turn_bits
from thali.kernels.observed_rows import observed_gram
from thali.kernels.sparse_factor import turn_entries
from thali.likelihoods.gibbs_updates import GibbsState, Turned
from thali.likelihoods.observed_rows import observed_products
from thali.structures.features import FeatureTables

HYPER = {"alpha": 1.0, "sigma_x": 0.4, "sigma_a": 1.0}


def some_place(rng, n=25, k=4, d=9, amounts=False):
    """Rows of which all, a few, most and no entries were observed; X has nonsense in the gaps."""
    Z = (rng.random((n, k)) < 0.5).astype(np.uint8)
    Z[0], Z[1] = 1, 1
    A = rng.normal(size=(k, d))
    S = Z * (rng.laplace(size=(n, k)) if amounts else 1.0)
    X = S @ A + 0.4 * rng.normal(size=(n, d))
    mask = rng.random((n, d)) < rng.choice([0.2, 0.8], n)[:, None]
    mask[0], mask[1] = True, False
    parameters = {"A": A, "S": S} if amounts else {"A": A}
    data = Augmented(np.where(mask, X, 1e3), source=Data(np.where(mask, X, np.nan), mask))
    return GibbsState(data, Z, parameters, dict(HYPER))


def slow_log_odds(place, W, n, k, value=1.0):
    """log N(x_o; w with w_k = value) − log N(x_o; w with w_k = 0), by the residuals in full."""
    x, seen, A = place.data.X[n], place.observed[n], place.parameters["A"]
    logs = []
    for at in (value, 0.0):
        w = W[n].astype(float)
        w[k] = at
        logs.append(-0.5 * np.square((x - w @ A)[seen]).sum() / HYPER["sigma_x"] ** 2)
    return logs[0] - logs[1]


def log_odds_of(R, diagonal, W, n, k, value=1.0):
    """The same from a row's products: value·b − value²·g/2 with b = R_k + w_k g, over σ_x²."""
    b = R[n, k] + W[n, k] * diagonal[k]
    return (value * b - 0.5 * value**2 * diagonal[k]) / HYPER["sigma_x"] ** 2


@pytest.mark.parametrize("amounts", [False, True])
def test_log_odds_are_those_of_the_observed_entries(amounts, rng):
    """Before a pass and after it, when R has followed every change through the row's own G_o."""
    place = some_place(rng, amounts=amounts)
    A, Z = place.parameters["A"], place.bits
    W = place.parameters["S"] if amounts else Z
    R, G, gaps = observed_products(place, W, A)
    prior = BitPrior(np.zeros(25), Z.sum(axis=0, dtype=np.int64), np.zeros(0))
    before = Z.copy()
    for turn in range(3):
        for n in range(len(Z)):
            found = observed_gram(G, gaps, n)
            part = A[:, place.observed[n]]
            np.testing.assert_allclose(found, part @ part.T, rtol=1e-10, atol=1e-10)
            for k in range(len(A)):
                value = 1.0 if not amounts else 0.7 - 1.5 * turn
                wanted = slow_log_odds(place, W, n, k, value)
                assert log_odds_of(R, gaps.diagonals[n], W, n, k, value) == pytest.approx(
                    wanted, rel=1e-8, abs=1e-8
                )
        if amounts:
            turn_entries(rng, R, G, gaps, Z, W, prior, HYPER["sigma_x"], True)
        else:
            turn_bits(rng, R, G, gaps, Z, prior, HYPER["sigma_x"])
    assert (Z != before).any()
    np.testing.assert_array_equal(prior.m, Z.sum(axis=0))


KINDS = {
    "linear_gaussian": thali.LinearGaussian(0.4, 1.0),
    "nonnegative": thali.NonnegativeLinearGaussian(0.4, 1.0),
    "sparse_factor": thali.SparseFactor("laplace", 0.4, 1.0),
}


@pytest.mark.parametrize("capacity", [-1, 6, 9])
@pytest.mark.parametrize("name", KINDS)
def test_own_dishes_keep_the_books(name, capacity, rng):
    """No empty columns, features for all, shared ones as they were, no more than there is room."""
    likelihood, tables = KINDS[name], FeatureTables(np.zeros(25), 0.0, capacity)
    for _ in range(20):
        place = some_place(rng, amounts=name == "sparse_factor")
        if name == "nonnegative":
            place.parameters["A"] = np.abs(place.parameters["A"])
        own = np.zeros((25, 2), np.uint8)
        own[1, 0] = own[5, 1] = 1
        place.bits = np.ascontiguousarray(np.concatenate([place.bits, own], axis=1))
        new = likelihood.new_parameters(rng, place.data, 2, HYPER)
        place.parameters = {
            key: np.concatenate([value, new[key] if key == "A" else own * new[key]], axis=at)
            for (key, value), at in zip(place.parameters.items(), (0, 1), strict=False)
        }
        m = place.bits.sum(axis=0, dtype=np.int64)
        shared, A = place.bits[:, m > 1], place.parameters["A"][m > 1]
        likelihood.update_own(rng, place, tables, Turned(m))
        k, (Z, found) = shared.shape[1], (place.bits, place.parameters["A"])
        assert Z.dtype == np.uint8
        np.testing.assert_array_equal(Z[:, :k], shared)
        assert (Z[:, k:].sum(axis=0) == 1).all()
        np.testing.assert_array_equal(found[:k], A)
        assert found.shape == (Z.shape[1], 9)
        assert capacity < 0 or Z.shape[1] <= capacity
        if "S" in place.parameters:
            assert ((place.parameters["S"] != 0.0) == Z).all()


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("way", ["integrated", "slice"])
def test_what_was_drawn_in_the_gaps_is_not_looked_at(name, way, rng):
    """Two states that differ there alone make the same step, with the same numbers drawn."""
    from thali.model import Model
    from thali.starts import Start

    place = some_place(rng, amounts=True)
    data = place.data.given
    model = Model(thali.IBP(alpha=1.0), KINDS[name])
    engine = thali.UncollapsedGibbs(new_features=way)
    found = []
    for shift in (0.0, 50.0):
        generator = np.random.default_rng(0)
        state = engine.begin(generator, model, data, Start("given", place.bits, dict(HYPER)))
        X = np.where(place.observed, state.data.X, shift - state.data.X)
        state.data = Augmented(X, source=data)
        for _ in range(3):
            info = engine.step(generator, model, data, state)
        found.append((info.log_joint, state.data.X))
    assert found[0][0] == found[1][0]
    np.testing.assert_array_equal(found[0][1], found[1][1])


@pytest.mark.parametrize("name", ["linear_gaussian", "sparse_factor"])
def test_the_law_of_the_noise_is_cut_off_by_what_was_observed(name, rng):
    """σ_x begun below the least noise is raised to it: a share of 1 or so, not of 1e3 in gaps."""
    for at, raised in ((0.002, False), (1e-5, True)):
        place = some_place(rng, amounts=name == "sparse_factor")
        place.hyper["sigma_x"] = at
        seen = []

        class Watched(thali.InverseGamma):
            def log_density(self, value, seen=seen):
                seen.append(value)
                return super().log_density(value)

        KINDS[name].replace(sigma_x=Watched(1.0, 1.0)).update_parameters(rng, place, hold=False)
        assert (seen[0] > 1.01 * at) == raised  # where the slice step begins


def test_odds_of_a_dish_that_all_rows_have_are_not_read_beyond_the_table():
    """A row without it cannot be: what lies behind the N entries is never looked up."""
    behind = np.arange(7.0)
    on, off = np.full(2, np.inf), np.full(2, np.nan)
    prior = BitPrior(behind[:6], np.array([6, 5]), np.zeros(0))
    for dish in range(2):
        odds_of_column(prior, dish, on, off)
    assert on.tolist() == [5.0, 4.0]
    assert np.isnan(off[0])
    assert off[1] == 5.0
