"""Small pictures that overlap: x_n = Σ_k z_nk a_k + noise, each a_k a binary image.

The 6×6 images are those of Griffiths and Ghahramani (2005), used again by Anand (2015, figure 1);
the 4×4 blocks follow Rai and Daumé (2011, section 6.2); the bars follow Földiák (1990).
"""

import numpy as np

from thali.datasets.dataset import (
    Dataset,
    RandomState,
    check_counts,
    check_scales,
    check_shares,
    check_size,
    superpose,
)
from thali.settings import generator

# One figure in each quadrant: a cross, a box, a stair and a T.
FIGURES = (
    ".c.bbb"
    "cccb.b"
    ".c.bbb"
    "s..ttt"
    "ss..t."
    "sss.t."
)  # fmt: skip


def images(n: int = 100, sigma_x: float = 0.5, random_state: RandomState = 0) -> Dataset:
    """Noisy 6×6 pictures made of a cross, a box, a stair and a T.

    Each of the four is present in a picture with probability 1/2, independently.

    Parameters
    ----------
    n : int
        Number of pictures.
    sigma_x : float
        Standard deviation of the noise; the features themselves have height 1.
    random_state : int, Generator or None
        Seed.

    Examples
    --------
    >>> from thali import datasets
    >>> data = datasets.images()
    >>> data.X.shape, data.A.shape, data.image_shape
    ((100, 36), (4, 36), (6, 6))
    >>> data.A[0].reshape(6, 6)[:3, :3].astype(int)
    array([[0, 1, 0],
           [1, 1, 1],
           [0, 1, 0]])
    """
    check_counts("images", n=n)
    check_size("images", n, 36, 4)
    check_scales("images", sigma_x=sigma_x)
    rng = generator("images", random_state)
    Z = rng.random((n, 4)) < 0.5
    A = np.array([[pixel == figure for pixel in FIGURES] for figure in "cbst"], float)
    return superpose(rng, Z, A, sigma_x, "four 6x6 images", (6, 6))


def blocks(n: int = 20, sigma_x: float = 0.1, random_state: RandomState = 0) -> Dataset:
    """Twenty 4×4 pictures made of four blocks, after Rai and Daumé (2011), section 6.2.

    The paper does not print its four pictures; here they are the 2×2 blocks of the four quadrants.
    Each is present with probability 1/2, so Z is not a draw from the Indian buffet process,
    as in the paper.

    Examples
    --------
    >>> from thali import datasets
    >>> data = datasets.blocks()
    >>> data.X.shape, data.Z.shape, data.sigma_x
    ((20, 16), (20, 4), 0.1)
    """
    check_counts("blocks", n=n)
    check_size("blocks", n, 16, 4)
    check_scales("blocks", sigma_x=sigma_x)
    rng = generator("blocks", random_state)
    Z = rng.random((n, 4)) < 0.5
    A = np.asarray(np.kron(np.eye(4).reshape(4, 2, 2), np.ones((1, 2, 2))).reshape(4, 16), float)
    return superpose(rng, Z, A, sigma_x, "4x4 blocks", (4, 4))


def bars(
    n: int = 200,
    size: int = 5,
    p: float = 0.25,
    sigma_x: float = 0.25,
    random_state: RandomState = 0,
) -> Dataset:
    """Pictures of horizontal and vertical bars: 2·size features on size×size pixels.

    Bars cross, so features overlap; where two meet their heights add.
    All rows together make the same picture as all columns together,
    so A has rank 2·size − 1 and a single picture can have two explanations.

    Parameters
    ----------
    n : int
        Number of pictures.
    size : int
        Height and width in pixels.
    p : float
        Probability of each bar.
    sigma_x : float
        Standard deviation of the noise.
    random_state : int, Generator or None
        Seed.

    Examples
    --------
    >>> from thali import datasets
    >>> data = datasets.bars(n=50, size=3)
    >>> data.X.shape, data.Z.shape
    ((50, 9), (50, 6))
    >>> data.A[:, :3].astype(int)        # the top row of pixels in each of the six features
    array([[1, 1, 1],
           [0, 0, 0],
           [0, 0, 0],
           [1, 0, 0],
           [0, 1, 0],
           [0, 0, 1]])
    """
    check_counts("bars", n=n, size=size)
    check_size("bars", n, int(size) ** 2, 2 * int(size))
    check_shares("bars", p=p)
    check_scales("bars", sigma_x=sigma_x)
    rng = generator("bars", random_state)
    Z = rng.random((n, 2 * size)) < p
    one = np.ones(size)
    A = np.concatenate([np.kron(np.eye(size), one), np.kron(one, np.eye(size))])
    return superpose(rng, Z, A, sigma_x, f"{size}x{size} bars", (size, size))
