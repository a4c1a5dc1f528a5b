"""Every broken copy still finds the line that it breaks, also those that only slow tests run."""

from __future__ import annotations

import importlib
import inspect

import pytest
from statistical import test_column_moves, test_ladder, test_particle_filter, test_row_densities
from unit import test_hard_mutants, test_search_mutants, test_variational_mutants

UNITS = (test_hard_mutants, test_search_mutants, test_variational_mutants)
PIECES = [
    *((case[0], case[1]) for file in UNITS for case in file.MUTANTS.values()),
    *((test_column_moves.KERNEL, old) for old, _ in test_column_moves.MUTANTS.values()),
    *((case[0], case[2]) for case in test_row_densities.MUTANTS.values()),
    *(
        ("thali.kernels.particle_rows", old)
        for changes in test_particle_filter.KERNELS.values()
        for old, _ in changes
    ),
    *((case[0], old) for case in test_ladder.MUTANTS.values() for old, _ in case[1]),
]


@pytest.mark.parametrize(("module", "old"), PIECES)
def test_the_text_is_there_once(module, old):
    assert inspect.getsource(importlib.import_module(module)).count(old) == 1
