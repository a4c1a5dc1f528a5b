"""A backend is one file: one in plain NumPy, below, takes the place of the library's own."""

from __future__ import annotations

from functools import reduce
from itertools import product
from operator import add

import numpy as np
import pytest

import thali
from thali.backends.base import PASSES
from thali.backends.block import Block
from thali.backends.hard_rounds import Crew, in_turn
from thali.backends.local import SMALL, Local
from thali.backends.rows import Rows, pieces_of
from thali.data import Data
from thali.kernels.expected_rows import STILL
from thali.structures.statistics import Statistics


class Plain:
    """Complete data, rows without amounts; pieces of seven rows, the last of them first."""

    def __init__(self):
        self.calls = []

    def hold(self, data, rows, dtype):
        return Block.of(data, dtype), rows

    def parts(self, block, rows):
        for piece in reversed(list(pieces_of(block.n, 7))):
            yield np.asarray(block.X[piece]), rows.nu[piece]

    def local_step(self, block, rows, given, passes=PASSES):
        self.calls.append("local_step")
        steps = [soft(X, nu, given, passes) for X, nu in self.parts(block, rows)]
        return reduce(add, steps)

    def hard_step(self, rng, block, rows, given):
        self.calls.append("hard_step")

        def improve(rng, piece, m, follow):
            return 0.0, hard(block.X[piece], rows.nu[piece], given, m)

        pieces = list(pieces_of(block.n, 7))  # in order: each row knows what those before it took
        return in_turn(rng, rows, pieces, Crew(improve, None, map))

    def tally(self, block, rows):
        self.calls.append("tally")
        return reduce(add, [sums(X, nu) for X, nu in self.parts(block, rows)])

    def residual_scores(self, block, rows, phi, v):
        self.calls.append("residual_scores")
        E = block.X - rows.nu @ phi
        return E @ v, E.T @ (E @ v)

    def row_bounds(self, block, rows, given, none):
        self.calls.append("row_bounds")
        nu, s2, phi = rows.nu, given.sigma_x**2, given.features.phi
        V = given.features.gram[0] - phi @ phi.T
        fit = np.square(block.X - nu @ phi).sum(axis=1) + np.einsum("nk,kl,nl->n", nu, V, nu)
        fit += (nu * (1.0 - nu)) @ np.diagonal(given.features.gram[0])
        prior = nu @ given.odds + none + entropies(nu).sum(axis=1)
        return prior - 0.5 * block.d * np.log(2.0 * np.pi * s2) - 0.5 * fit / s2

    def draw_rows(self, rng, block, rows, given):
        self.calls.append("draw_rows")
        return rng.random(rows.nu.shape) < rows.nu, None


def entropies(p):
    with np.errstate(divide="ignore", invalid="ignore"):
        return -np.nan_to_num(p * np.log(p)) - np.nan_to_num((1.0 - p) * np.log1p(-p))


def sums(X, nu):
    nu = nu.astype(float)
    C = nu.T @ nu
    np.fill_diagonal(C, nu.sum(axis=0))
    return Statistics(
        float(len(X)), nu.sum(axis=0), C, nu.T @ X, float(np.square(X).sum()), float(X.size),
        entropies(nu).sum(axis=0),
    )  # fmt: skip


def soft(X, nu, given, passes):
    """Every feature of all rows at a time; rows that change no more stay."""
    Q = given.features.gram[0]
    R = X @ given.features.phi.T - nu @ Q
    moving = np.ones(len(X), bool)
    for _ in range(passes):
        largest = np.zeros(len(X))
        for i in range(nu.shape[1]):
            x = given.odds[i] + (R[:, i] + (nu[:, i] - 0.5) * Q[i, i]) / given.sigma_x**2
            change = np.where(moving, 1.0 / (1.0 + np.exp(np.minimum(-x, 700.0))) - nu[:, i], 0.0)
            change[np.abs(change) <= STILL] = 0.0
            nu[:, i] += change
            R -= np.outer(change, Q[i])
            largest = np.maximum(largest, np.abs(change))
        moving &= largest >= SMALL
    return sums(X, nu)


def hard(X, Z, given, m):
    """The best of all sets of features, row by row."""
    precision = 1.0 / given.sigma_x**2
    P = precision * given.features.gram[0]
    sets = np.array(list(product([0, 1], repeat=Z.shape[1])))
    pairs = 0.5 * np.einsum("sk,kl,sl->s", sets, P - np.diag(np.diagonal(P)), sets)
    for x, z in zip(X, Z, strict=True):
        others = m - z
        prior = np.where(others > 0, given.log_odds[np.maximum(others, 1)], given.own)
        weights = precision * (given.features.phi @ x) - 0.5 * np.diagonal(P) + prior
        many = (others > 0).sum() + sets @ (others == 0)
        worth = sets @ weights - pairs + given.in_use[many]
        now = worth[(sets == z).all(axis=1)][0]
        if worth.max() > now + 1e-11 * (1.0 + abs(now)):
            m += sets[worth.argmax()] - z
            z[:] = sets[worth.argmax()]
    return sums(X, Z)


def rows_of(seed, n=60):
    rng = np.random.default_rng(seed)
    A = np.random.default_rng(5).gamma(2.0, 1.0, (4, 9))
    return (rng.random((n, 4)) < 0.4) @ A + 0.3 * rng.standard_normal((n, 9))


ENGINES = {
    "local_step": thali.Variational(truncation=6, n_init=1, max_iter=40, init="prior"),
    "hard_step": thali.MaximizationExpectation(
        solver="exact", truncation=6, n_init=2, max_iter=40, init="prior"
    ),
}


@pytest.mark.parametrize("step", ENGINES)
def test_a_backend_of_ones_own_leads_to_the_same_bound(step, monkeypatch):
    """And is all that the engine asks of X: the block it is given can do nothing else."""
    engine, X = ENGINES[step], rows_of(0)

    def fitted():
        return thali.LatentFeatures(
            likelihood="linear_gaussian", engine=engine, random_state=1, progress=False
        ).fit(X)

    model, plain = fitted(), Plain()
    monkeypatch.setattr(type(engine), "backend_for", lambda *_: plain)
    other = fitted()
    assert {step, "tally", "residual_scores"} <= set(plain.calls)
    assert model.n_components_ >= 3
    assert other.history_["elbo"].shape == model.history_["elbo"].shape
    assert np.allclose(other.history_["elbo"], model.history_["elbo"], rtol=1e-10)
    assert np.allclose(other.components_, model.components_, rtol=1e-6, atol=1e-8)
    assert np.array_equal(other.Z_, model.Z_)


def test_so_do_pieces_of_data(monkeypatch):
    engine = ENGINES["local_step"]

    def streamed():
        model = thali.LatentFeatures(
            likelihood="linear_gaussian", engine=engine, random_state=1, progress=False
        )
        return model.fit(rows_of(0)).partial_fit(rows_of(1, 30)).partial_fit(rows_of(2, 20))

    X, model, plain = rows_of(3, 10), streamed(), Plain()
    scores = model.score(X), model.predict_proba(X)
    monkeypatch.setattr(type(engine), "backend_for", lambda *_: plain)
    other = streamed()
    assert other.score(X) == pytest.approx(scores[0], rel=1e-8)
    assert np.allclose(other.predict_proba(X), scores[1], atol=1e-6)
    assert {"local_step", "row_bounds", "draw_rows"} <= set(plain.calls)


@pytest.mark.parametrize("gaps", [False, True])
def test_statistics_of_pieces_add_up_to_those_of_the_whole(gaps, rng):
    X = rng.standard_normal((23, 5))
    X[3, 2] = np.nan if gaps else 1.0
    block, rows = Block.of(Data.of(X), "float64"), Rows.of(rng.random((23, 3)))
    whole = Local().tally(block, rows).arrays()
    for backend in (Local(1, most=4), Local(3, most=4)):
        pieces = backend.tally(block, rows).arrays()
        for name, value in whole.items():
            assert np.allclose(pieces[name], value, rtol=1e-12), name
