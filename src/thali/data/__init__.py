"""What was observed: the matrix, its missing entries, sparse forms, and the files it comes in."""

from thali.data.matrix import Augmented, Data, Table

__all__ = ["Augmented", "Data", "Table"]
