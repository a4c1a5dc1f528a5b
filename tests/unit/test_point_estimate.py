"""The point estimate: matching, the majority, and no more expected loss than any draw has."""

import itertools

import numpy as np

from thali.structures.feature_estimate import match_columns, point_estimate


def loss_by_hand(Z, draw):
    """The least Hamming distance over all matchings, by trying them all (padded with zeros)."""
    k = max(Z.shape[1], draw.shape[1])
    a = np.pad(Z.astype(int), ((0, 0), (0, k - Z.shape[1])))
    b = np.pad(draw.astype(int), ((0, 0), (0, k - draw.shape[1])))
    return min(np.abs(a - b[:, list(p)]).sum() for p in itertools.permutations(range(k)))


def test_matching_is_the_best_of_all_permutations(seed):
    rng = np.random.default_rng(seed)
    for _ in range(30):
        a = rng.random((5, rng.integers(0, 5))) < 0.5
        b = rng.random((5, rng.integers(0, 5))) < 0.5
        assert match_columns(a.astype(float), b.astype(float))[2] == loss_by_hand(a, b)


def test_estimate_has_no_more_expected_loss_than_the_best_draw(seed):
    rng = np.random.default_rng(seed)
    truth = rng.random((12, 4)) < 0.5
    draws = []
    for _ in range(25):
        noisy = truth ^ (rng.random(truth.shape) < 0.08)
        extra = np.zeros((12, rng.integers(0, 2)), bool)
        extra[: min(1, extra.size)] = True
        draw = np.column_stack([noisy, extra])[:, rng.permutation(4 + extra.shape[1])]
        draws.append(draw)
    estimate = point_estimate(draws, rng.random(25))
    losses = [np.mean([loss_by_hand(d, other) for other in draws]) for d in draws]
    mine = np.mean([loss_by_hand(estimate.latent, other) for other in draws])
    assert mine <= min(losses)
    assert np.isclose(mine, estimate.loss)
    assert loss_by_hand(estimate.latent, truth) == 0


def test_probabilities_are_shares_of_matched_draws():
    a = np.array([[1, 0], [1, 0], [0, 1]], bool)
    b = a.copy()
    b[0, 1] = True
    estimate = point_estimate([a, a[:, ::-1], b[:, ::-1], a], np.zeros(4))
    assert np.allclose(estimate.probabilities, [[1.0, 0.25], [1.0, 0.0], [0.0, 1.0]])


def test_draws_without_features():
    empty = np.zeros((3, 0), bool)
    one = np.ones((3, 1), bool)
    assert point_estimate([empty, empty, one], np.zeros(3)).latent.shape == (3, 0)
    assert point_estimate([empty, one, one], np.zeros(3)).latent.shape == (3, 1)


def test_a_draw_that_stands_there_often_counts_as_often():
    a, b = np.array([[1], [0], [1]], bool), np.array([[1], [1], [0]], bool)
    copies = [a, b.copy(), b.copy(), a.copy(), b.copy()]
    same = [a, b, b, a, b]  # the same objects, looked at once
    one, other = point_estimate(copies, np.zeros(5)), point_estimate(same, np.zeros(5))
    assert (one.latent == other.latent).all()
    assert np.allclose(one.probabilities, other.probabilities)
    assert one.loss == other.loss


def test_distances_of_many_rows_are_exact():
    many = np.ones((1_000_001, 17), np.float32)
    assert match_columns(many, many)[2] == 0.0
