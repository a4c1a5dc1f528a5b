"""Data sets with a known answer: X = Z A + E, generated from a seed.

Each function returns a `Dataset` that carries the planted Z and A beside X.
"""

from thali.datasets.dataset import Dataset
from thali.datasets.designs import draw, noisy_nonnegative, planted
from thali.datasets.pictures import bars, blocks, images

__all__ = ["Dataset", "bars", "blocks", "draw", "images", "noisy_nonnegative", "planted"]
