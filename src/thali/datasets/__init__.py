"""Data sets with a known answer, generated from a seed.

X = Z A + E: a `Dataset` carries the planted Z and A beside X. Documents: a `Corpus` carries the
planted topics and their shares.
"""

from thali.datasets.corpora import Corpus, topics
from thali.datasets.dataset import Dataset
from thali.datasets.designs import draw, noisy_nonnegative, planted
from thali.datasets.pictures import bars, blocks, images

__all__ = [
    "Corpus",
    "Dataset",
    "bars",
    "blocks",
    "draw",
    "images",
    "noisy_nonnegative",
    "planted",
    "topics",
]
