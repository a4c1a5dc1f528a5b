"""Uncollapsed Gibbs sampling in blocks of rows: exact for any number of blocks, and not by luck.

Every likelihood and prior with two blocks is on the ladder (``test_ladder``); here one, two and
three blocks are held to enumeration on three and four rows, with mutants that must fail: rows that
are not held, and blocks that create features as if there were no others.
"""

from __future__ import annotations

import pytest
from statistical import test_enumeration
from statistical.budget import TESTS, alarms, judge
from statistical.mutants import mutate
from statistical.test_ladder import install

import thali
from thali.engines import uncollapsed_gibbs

BLOCKS = (1, 2, 3)
CASES = ("N=3 ibp α~Gamma", "N=4 ibp α=1", "N=3 two_parameter α=3", "N=4 finite α=3")


def check(name, blocks, seed, sweeps):
    engine = thali.UncollapsedGibbs(row_blocks=blocks)
    return test_enumeration.check(test_enumeration.CASES[name], seed, sweeps, engine=engine)


@pytest.mark.parametrize("blocks", BLOCKS)
@pytest.mark.parametrize("name", CASES)
def test_blocks_agree_with_enumeration(name, blocks, seed):
    judge("row_blocks", check(name, blocks, seed, sweeps=2000))


@pytest.mark.slow
@pytest.mark.parametrize("blocks", BLOCKS)
@pytest.mark.parametrize("name", CASES)
def test_blocks_agree_with_enumeration_closely(name, blocks, seed):
    judge("row_blocks", check(name, blocks, seed, sweeps=15_000))


@pytest.mark.parametrize(
    "hold",
    [
        "order.place[n] == order.first[k]",  # those before the first may take the feature
        "order.place[n] < order.first[k]",  # the first one may drop it
    ],
)
def test_rows_that_are_not_held_are_caught(hold, monkeypatch, seed):
    old = "order.place[n] <= order.first[k]"
    install(monkeypatch, "thali.kernels.bit_prior", [(old, hold)])
    assert alarms(check("N=4 ibp α=1", 2, seed, sweeps=3000))


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        (  # two blocks create features in a finite prior's last room at once
            "N=3 finite α=3",
            "capacity=room_left(tables.capacity, more)",
            "capacity=room_left(tables.capacity, more - int(block is not opened[0]))",
        ),
        (  # own features are told by what one block's rows did alone
            "N=4 ibp α=1",
            "(cast(Turned, block.turned).m - m for block in opened)",
            "(cast(Turned, block.turned).m - m for block in opened[:1])",
        ),
    ],
    ids=["room", "own"],
)
def test_a_block_that_does_as_it_likes_is_caught(name, old, new, monkeypatch, seed):
    broken = mutate("thali.engines.features.row_blocks", [(old, new)])
    monkeypatch.setattr(uncollapsed_gibbs, "update_in_blocks", broken.update_in_blocks)
    assert alarms(check(name, 2, seed, sweeps=3000))


def test_an_unchanged_copy_raises_no_alarm(monkeypatch, seed):
    same = mutate("thali.engines.features.row_blocks", [])
    monkeypatch.setattr(uncollapsed_gibbs, "update_in_blocks", same.update_in_blocks)
    assert not alarms(check("N=4 ibp α=1", 2, seed, sweeps=3000))


def test_the_budget_counts_these_tests():
    assert TESTS["row_blocks"] == 2 * len(CASES) * len(BLOCKS)
