"""What was observed: the matrix, its missing entries, sparse forms, and the files it comes in."""

from thali.data.augmented import Augmented
from thali.data.matrix import Data, Table

__all__ = ["Augmented", "Data", "Table"]
