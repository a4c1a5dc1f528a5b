"""The generated data are what their descriptions say, and the same for the same seed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import thali
from thali import datasets
from thali.datasets import Dataset

MAKERS: dict[str, Callable[..., Dataset]] = {
    "images": datasets.images,
    "blocks": datasets.blocks,
    "bars": datasets.bars,
    "noisy_nonnegative": datasets.noisy_nonnegative,
    "planted": datasets.planted,
    "draw": lambda **kwargs: datasets.draw(
        thali.IBP(alpha=2.0), thali.LinearGaussian(sigma_x=0.3, sigma_a=1.0), **kwargs
    ),
}


@pytest.fixture(params=sorted(MAKERS))
def make(request: pytest.FixtureRequest) -> Callable[..., Dataset]:
    return MAKERS[request.param]


def test_shapes_and_types_agree(make: Callable[..., Dataset]) -> None:
    data = make(n=30)
    n, k = data.Z.shape
    assert n == 30
    assert data.A.shape[0] == k
    assert data.X.shape == (30, data.A.shape[1])
    assert data.X.dtype == np.float64
    assert data.A.dtype == np.float64
    assert data.Z.dtype == np.bool_
    if data.image_shape is not None:
        assert np.prod(data.image_shape) == data.X.shape[1]


def test_same_seed_same_data(make: Callable[..., Dataset]) -> None:
    first, again, other = (make(n=30, random_state=seed) for seed in (3, 3, 4))
    assert np.array_equal(first.X, again.X)
    assert np.array_equal(first.Z, again.Z)
    assert first.X.shape != other.X.shape or not np.array_equal(first.X, other.X)


def test_a_generator_is_a_seed_too(make: Callable[..., Dataset]) -> None:
    by_number = make(n=30, random_state=7)
    by_generator = make(n=30, random_state=np.random.default_rng(7))
    assert np.array_equal(by_number.X, by_generator.X)


def test_residual_is_the_stated_noise(make: Callable[..., Dataset]) -> None:
    data = make(n=400)
    residual = data.X - data.Z @ data.A
    # Six standard errors of a mean of squares: sqrt(2 / size) each.
    slack = 6.0 * np.sqrt(2.0 / residual.size)
    assert np.mean(residual**2) == pytest.approx(data.sigma_x**2, rel=slack)
    assert abs(residual.mean()) < 6.0 * data.sigma_x / np.sqrt(residual.size)


@pytest.mark.parametrize(
    ("name", "probability"),
    [("images", 0.5), ("blocks", 0.5), ("bars", 0.25), ("noisy_nonnegative", 0.4)],
)
def test_features_appear_as_often_as_stated(name: str, probability: float) -> None:
    Z = MAKERS[name](n=4000).Z
    standard_error = np.sqrt(probability * (1 - probability) / 4000)
    assert np.all(np.abs(Z.mean(axis=0) - probability) < 6 * standard_error)


def test_the_four_images() -> None:
    pictures = datasets.images(n=1).A.reshape(4, 6, 6)
    assert set(np.unique(pictures)) == {0.0, 1.0}
    assert pictures.sum(axis=(1, 2)).tolist() == [5, 8, 6, 5]
    # one figure in each quadrant, and nothing outside it
    quadrants = [(0, 0), (0, 3), (3, 0), (3, 3)]
    for picture, (row, column) in zip(pictures, quadrants, strict=True):
        assert picture[row : row + 3, column : column + 3].sum() == picture.sum()


def test_the_blocks_tile_the_picture() -> None:
    A = datasets.blocks().A
    assert A.sum(axis=1).tolist() == [4.0] * 4
    assert np.array_equal(A.sum(axis=0), np.ones(16))


def test_bars_cover_each_pixel_twice() -> None:
    data = datasets.bars(n=3, size=4)
    assert np.array_equal(data.A.sum(axis=0), np.full(16, 2.0))
    assert np.linalg.matrix_rank(data.A) == 7


def test_noise_and_density_settings_are_used() -> None:
    data = datasets.noisy_nonnegative(n=50, d=2000, k=10, density=0.3, sigma_x=0.0)
    assert data.A.mean() == pytest.approx(0.3, abs=6 * np.sqrt(0.21 / 20000))
    assert np.array_equal(data.X, data.Z.astype(float) @ data.A)
    assert datasets.planted(n=5, d=5000, sigma_a=2.0).sigma_a == pytest.approx(2.0, rel=0.05)


@pytest.mark.parametrize(
    "prior",
    [
        thali.IBP(alpha=2.0),
        thali.TwoParameterIBP(alpha=2.0, beta=3.0),
        thali.BetaBernoulli(alpha=2.0, n_components=5),
    ],
    ids=lambda prior: type(prior).__name__,
)
def test_draws_work_with_every_prior(prior: thali.IBP) -> None:
    likelihood = thali.LinearGaussian(sigma_x=0.3, sigma_a=1.0)
    data = datasets.draw(prior, likelihood, n=12, d=7, random_state=1)
    assert data.X.shape == (12, 7)
    assert data.sigma_x == 0.3
    assert data.Z.any(axis=0).all()
    assert np.isfinite(prior.log_prob(data.Z) + likelihood.log_marginal(data.X, data.Z))


def test_a_likelihood_without_numbers_is_refused() -> None:
    with pytest.raises((TypeError, ValueError), match="sigma_"):
        datasets.draw(thali.IBP(alpha=2.0), thali.LinearGaussian(), n=5, d=3)
