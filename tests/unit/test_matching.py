"""Matching undoes permutations, says what is left over, and agrees with brute force."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from thali.evaluation import match_assignments, match_features


def test_a_permutation_is_undone(rng: np.random.Generator) -> None:
    truth = rng.normal(size=(6, 40))
    order = rng.permutation(6)
    match = match_features(truth, 3.0 * truth[order] + 1.0)
    assert np.array_equal(order[match.pairs[:, 1]], match.pairs[:, 0])
    assert match.correlations == pytest.approx(np.ones(6))
    assert match.unmatched_truth.size == 0
    assert match.unmatched_found.size == 0


def test_a_mirrored_feature_matches_with_its_sign(rng: np.random.Generator) -> None:
    truth = rng.normal(size=(3, 50))
    found = truth.copy()
    found[1] *= -1.0
    match = match_features(truth, found)
    assert match.pairs.tolist() == [[0, 0], [1, 1], [2, 2]]
    assert match.correlations == pytest.approx([1.0, -1.0, 1.0])


@pytest.mark.parametrize(("k_true", "k_found"), [(3, 5), (5, 3), (0, 4), (4, 0), (0, 0)])
def test_leftovers_are_named(rng: np.random.Generator, k_true: int, k_found: int) -> None:
    features = rng.normal(size=(5, 20))
    match = match_features(features[:k_true], features[:k_found])
    both = min(k_true, k_found)
    assert match.pairs.tolist() == [[k, k] for k in range(both)]
    assert match.unmatched_truth.tolist() == list(range(both, k_true))
    assert match.unmatched_found.tolist() == list(range(both, k_found))


def test_constant_rows(rng: np.random.Generator) -> None:
    varying = rng.normal(size=20)
    truth = np.stack([np.full(20, 0.1), varying, np.zeros(20)])
    found = np.stack([np.zeros(20), varying, np.full(20, -7.3)])
    match = match_features(truth, found)
    assert match.pairs.tolist() == [[0, 2], [1, 1], [2, 0]]
    assert match.correlations == pytest.approx([-1.0, 1.0, 0.0])
    alone = match_features(varying[None], np.ones((1, 20)))
    assert alone.correlations.tolist() == [0.0]


def test_scale_does_not_matter(rng: np.random.Generator) -> None:
    truth = rng.normal(size=(2, 30))
    for scale in (1e-300, 1e-150, 1e150, 1e300):
        assert match_features(truth, truth * scale).correlations == pytest.approx([1.0, 1.0])


def test_features_agree_with_brute_force(rng: np.random.Generator) -> None:
    truth, found = rng.normal(size=(4, 6)), rng.normal(size=(4, 6))
    table = np.abs(np.corrcoef(truth, found)[:4, 4:])
    best = max(table[range(4), order].sum() for order in permutations(range(4)))
    assert np.abs(match_features(truth, found).correlations).sum() == pytest.approx(best)


@pytest.mark.parametrize(("k_true", "k_found"), [(4, 4), (4, 2), (2, 4), (0, 3), (3, 0)])
def test_assignments_agree_with_brute_force(
    rng: np.random.Generator, k_true: int, k_found: int
) -> None:
    Z_true = rng.random((9, k_true)) < 0.4
    Z = rng.random((9, k_found)) < 0.4
    size = max(k_true, k_found)
    a, b = np.zeros((2, 9, size), dtype=bool)
    a[:, :k_true], b[:, :k_found] = Z_true, Z
    best = min(int((a != b[:, list(order)]).sum()) for order in permutations(range(size)))
    match = match_assignments(Z_true, Z)
    assert match.distance == best
    assert len(match.pairs) == min(k_true, k_found)


def test_equal_assignments_have_distance_zero(rng: np.random.Generator) -> None:
    Z = rng.random((50, 6)) < 0.3
    order = rng.permutation(6)
    match = match_assignments(Z, Z[:, order])
    assert match.distance == 0
    assert np.array_equal(Z[:, match.pairs[:, 0]], Z[:, order][:, match.pairs[:, 1]])


@pytest.mark.parametrize(
    ("function", "first", "second", "message"),
    [
        (match_features, np.ones((2, 3)), np.ones((2, 4)), "same variables"),
        (match_features, np.ones(3), np.ones((2, 3)), "must be a matrix"),
        (match_features, np.full((1, 3), np.nan), np.ones((2, 3)), "not finite"),
        (match_assignments, np.ones((2, 3)), np.ones((3, 3)), "same observations"),
        (match_assignments, np.full((2, 3), 0.5), np.ones((2, 3)), "other than 0 and 1"),
    ],
)
def test_bad_input_is_refused(function, first, second, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=message):
        function(first, second)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20)
