"""What a collapsed sweep makes of rows with missing entries, against the formulas written out."""

from __future__ import annotations

import numpy as np
import pytest

from thali.data import Data
from thali.kernels import masked_columns, masked_rows, observed_rows
from thali.kernels.maintained_rows import refresh, rows_of
from thali.likelihoods.masked_columns import gaps_of

R = 0.2
CLOSE = {"rtol": 1e-8, "atol": 1e-8}


class Place:
    """A row among others, that has features with them and one of its own."""

    def __init__(self, rng, hidden, n=20, k=5, d=12):
        self.Z = (rng.random((n, k)) < 0.5).astype(np.uint8)
        self.Z[:, 4] = 0
        self.Z[0] = [1, 0, 1, 0, 1]
        self.X, self.k, self.d = rng.normal(size=(n, d)), k, d
        self.seen = rng.random(d) >= hidden
        self.rows = rows_of(self.Z, self.X)
        refresh(self.rows, k, R)
        self.means = masked_rows.room_for_means(len(self.rows.m), d)
        masked_rows.means_afresh(self.means, self.rows, k)
        self.x, self.z = self.X[0].copy(), self.rows.Z[0]
        self.gone = np.flatnonzero(~self.seen).astype(np.uint64)

    def left(self):
        """u = M z and V with the row in, and m without it, as ``leave`` has them."""
        M, z = self.rows.M[: self.k, : self.k], self.z[: self.k].astype(float)
        self.rows.m[: self.k] -= z
        u = np.zeros(len(self.rows.m))
        u[: self.k] = M @ z
        return u, 1.0 / (1.0 - z @ u[: self.k])

    def without(self):
        """M and μ of the other rows."""
        Z = self.Z[1:].astype(float)
        M = np.linalg.inv(Z.T @ Z + R * np.eye(self.k))
        return M, M @ Z.T @ self.X[1:]


HIDDEN = [0.0, 0.3, 0.5, 0.8, 1.0]


@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize("written", [False, True])
def test_bits_see_what_was_observed_of_the_row_alone(written, hidden, rng):
    """b, h and the diagonal, through what is missing or what was observed; then after flips."""
    place = Place(rng, hidden)
    k, means, rows = place.k, place.means, place.rows
    u, V = place.left()
    M, mu = place.without()
    zeros, c0 = np.zeros(len(rows.m)), V
    G = np.zeros(rows.G.shape)
    G[:k, :k] = mu @ mu.T  # as if c₁ and c₂ had been added
    if written:
        s = np.zeros(len(rows.m))
        s[:k] = M @ place.z[:k]
        rows.M[:k, :k] = M
        masked_rows.means_without(means, rows, place.x, s, k)
        np.testing.assert_allclose(means.mu[:k], mu, **CLOSE)
        c0 = 0.0
    b, h = np.zeros(len(rows.m)), np.zeros(len(rows.m))
    b[:k], h[:k] = mu @ place.x, mu @ mu.T @ place.z[:k]
    count, fewer = masked_rows.choose(means.at, place.seen, place.gone)
    assert count == min(place.seen.sum(), place.d - place.seen.sum())
    masked_rows.expect(means, means.at, count, place.x, place.z, rows.m, k, u, c0)
    masked_rows.look_away(means, G, count, fewer, k, rows.m, b, h, u, zeros, c0, 0.0, 0.0)
    part = mu[:, place.seen]
    np.testing.assert_allclose(b[:k], part @ place.x[place.seen], **CLOSE)
    np.testing.assert_allclose(h[:k], part @ part.T @ place.z[:k], **CLOSE)
    np.testing.assert_allclose(means.diagonal[:k], np.diag(part @ part.T), **CLOSE)
    masked_rows.turn_unseen(means, G, 1, 1.0, count, fewer, k, h, u, zeros, 0.0, 0.0)
    turned = place.z[:k].astype(float)
    turned[1] += 1.0
    np.testing.assert_allclose(h[:k], part @ part.T @ turned, **CLOSE)


@pytest.mark.parametrize("hidden", [0.3, 0.8, 1.0])
def test_new_entries_of_a_row_that_stays_change_what_is_maintained(hidden, rng):
    """The mean they are drawn from, and T, μ and G as if made afresh."""
    place = Place(rng, hidden)
    k, means, rows, gone = place.k, place.means, place.rows, place.gone
    u, V = place.left()
    _, mu = place.without()
    masked_rows.expect(means, gone, len(gone), place.x, place.z, rows.m, k, u, V)
    wanted = place.z[:k] @ mu[:, ~place.seen]
    np.testing.assert_allclose(means.along[: len(gone)], wanted, **CLOSE)
    change2 = masked_rows.draw_missing(rng, means.along, place.x, gone, 0.5, means.e)[1]
    np.testing.assert_array_equal(place.x[place.seen], place.X[0, place.seen])
    assert change2 == pytest.approx(np.square(place.x - place.X[0]).sum())
    masked_rows.add_entries(rows.T, means.e, place.z, k, gone)
    masked_rows.change_entries(means, rows.G, u, change2, k, gone, np.zeros(len(rows.m)))
    place.X[0] = place.x
    T = place.Z.T.astype(float) @ place.X
    mu = rows.M[:k, :k] @ T
    np.testing.assert_allclose(rows.T[:k], T, **CLOSE)
    np.testing.assert_allclose(means.mu[:k], mu, **CLOSE)
    np.testing.assert_allclose(rows.G[:k, :k], mu @ mu.T, **CLOSE)


def test_a_row_that_changes_leaves_the_means_and_returns_to_them(rng):
    place = Place(rng, 0.3)
    k, means, rows = place.k, place.means, place.rows
    u, V = place.left()
    M, mu = place.without()
    means.before[:k] = place.z[:k]
    masked_rows.take_out_of_means(means, place.x, rows.m, k, u, V)
    np.testing.assert_allclose(means.mu[:k], mu, **CLOSE)
    b = np.zeros(len(rows.m))
    b[:k] = mu[:, place.seen] @ place.x[place.seen]
    masked_rows.add_unseen(means, place.x, k, place.gone, b)
    np.testing.assert_allclose(b[:k], mu @ place.x, **CLOSE)
    z = np.zeros(len(rows.m), np.uint8)
    z[:k] = [0, 1, 1, 0, 1]
    s = np.zeros(len(rows.m))
    s[:k] = M @ z[:k]
    masked_rows.put_into_means(means, place.x, z, k, s, 1.0 + z[:k] @ s[:k])
    Z = place.Z.astype(float)
    Z[0] = z[:k]
    wanted = np.linalg.solve(Z.T @ Z + R * np.eye(k), Z.T @ place.X)
    np.testing.assert_allclose(means.mu[:k], wanted, **CLOSE)


def test_means_follow_features_that_come_and_go(rng):
    means = masked_rows.room_for_means(4, 3)
    means.mu[:3] = rng.normal(size=(3, 3))
    a, b, c = means.mu[:3].copy()
    masked_rows.open_mean(means, 3, 1)
    np.testing.assert_array_equal(means.mu, [a, np.zeros(3), c, b])
    masked_rows.drop_mean(means, 4, 0)
    np.testing.assert_array_equal(means.mu[:3], [b, np.zeros(3), c])
    wider = masked_rows.more_means(means, 6)
    np.testing.assert_array_equal(wider.mu[:3], means.mu[:3])
    masked_rows.open_mean(wider, 3, 3)
    np.testing.assert_array_equal(wider.mu[3], np.zeros(3))


@pytest.mark.parametrize("n", [1, 63, 64, 65, 200])
def test_rows_that_were_observed_are_counted_word_by_word(n, rng):
    Z = (rng.random((n, 7)) < 0.5).astype(np.uint8)
    seen = rng.random((n, 6)) < [1.0, 0.0, 0.9, 0.5, 0.5, 0.1]
    gaps = gaps_of(Data(np.where(seen, 1.0, np.nan), seen))
    bits, found = masked_columns.bits_of(Z, 7), np.zeros((7, 7))
    for c in range(6):
        begin, end = gaps.start[gaps.of_column[c]], gaps.start[gaps.of_column[c] + 1]
        masked_columns.shared_rows(bits, 7, gaps.rows, begin, end, found)
        shown = Z[seen[:, c]].astype(float)
        np.testing.assert_array_equal(found, np.tril(shown.T @ shown))


def test_ones_of_a_word_are_counted(rng):
    words = [0, 1, 2**64 - 1, 2**63, *rng.integers(0, 2**63, 50).tolist()]
    for word in words:
        assert masked_columns.count_ones(np.uint64(word)) == word.bit_count()


@pytest.mark.parametrize("hidden", [0.0, 0.3, 0.8, 1.0])
def test_a_row_of_observed_products_is_that_of_the_whole(hidden, rng):
    """Of bits given A: G_o row by row, and what shared features leave of what was observed."""
    A, X = rng.normal(size=(4, 11)), rng.normal(size=(6, 11))
    seen, Z = rng.random((6, 11)) >= hidden, (rng.random((6, 4)) < 0.5).astype(np.uint8)
    gaps = observed_rows.Gaps(A, seen, seen @ np.square(A).T)
    at, G, shared = np.zeros(11, np.uint64), A @ A.T, np.array([True, False, True, True])
    for n in range(6):
        whole = observed_rows.observed_gram(G, gaps, n)
        count, fewer = observed_rows.shorter_list(seen[n], at)
        for i in range(4):
            r = np.zeros(4)
            observed_rows.take_row(r, -1.0, G, gaps, n, i, at, count, fewer)
            np.testing.assert_allclose(r, whole[i], **CLOSE)
    left = np.where(seen, X - (Z * shared) @ A, 0.0)
    X[~seen] = np.nan  # nobody looks there
    found = observed_rows.observed_squares(X, seen, Z, A, shared)
    np.testing.assert_allclose(found, np.square(left).sum(axis=1), **CLOSE)
