"""Rows that are not in memory: files, memory maps, Dask's collections, blocks that come by turns.

A ``Source`` is rows of numbers that are read when they are asked for, a block at a time; ``opened``
makes one of whatever names such rows, and leaves alone what is in memory. ``FarData`` are the data
of a source: what is known of them was found in one pass (``Survey``), and nothing of size N×D is
ever held.
"""

from thali.data.elsewhere.blocks import RowBlocks
from thali.data.elsewhere.data import FarData
from thali.data.elsewhere.opening import opened
from thali.data.elsewhere.source import Source

__all__ = ["FarData", "RowBlocks", "Source", "opened"]
