"""Every single update of the variational laws raises the bound, and broken ones do not."""

from __future__ import annotations

import numpy as np
import pytest
from oracles.variational_updates import every_update, random_problems, whole_iterations

ROUNDING = 1e-9  # of the bound, that an update may lower it by


def falls(rng, count):
    """How far each update lowers the bound, relative to it: (kind, fall) of random problems."""
    for given in random_problems(rng, count):
        yield from every_update(given).items()
        yield from whole_iterations(given, 4).items()


@pytest.mark.parametrize("count", [8, pytest.param(100, marks=pytest.mark.slow)])
def test_no_update_lowers_the_bound(count, rng):
    found = {}
    for name, fall in falls(rng, count):
        found[name] = max(found.get(name, -np.inf), fall)
    kinds = {
        "bits", "rows", "law of amounts", "one feature", "features", "τ given q_k", "q_k", "τ",
        "frequencies", "α", "σ_x", "σ_a", "order",
    }  # fmt: skip
    for name in ("iteration", "drop_features", "join_features", "add_feature", "add_features"):
        kinds |= {name, f"bound after {name}"}
    assert found.keys() == kinds
    assert max(found.values()) < ROUNDING, found
