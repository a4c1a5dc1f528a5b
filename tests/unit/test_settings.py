"""Settings are values: equal when their fields are, with a hash to match."""

from dataclasses import dataclass

import numpy as np
import pytest
from sklearn.base import clone

import thali
from thali.settings import Settings, positive_number

Z = np.array([[1, 0], [1, 1], [0, 1]], bool)


def test_engines_with_the_same_start_are_equal():
    engine = thali.CollapsedGibbs(init=Z)
    again = thali.CollapsedGibbs(init=Z.copy())
    assert engine == again
    assert hash(engine) == hash(again)
    assert engine != thali.CollapsedGibbs(init=~Z)
    assert engine != thali.CollapsedGibbs(init=Z[:2])
    assert engine != thali.CollapsedGibbs()
    assert engine != again.replace(sweeps=5)
    assert engine != thali.UncollapsedGibbs(init=Z)
    assert clone(engine) == engine


def test_laws_and_parts_are_equal_when_their_numbers_are():
    assert thali.Gamma(1, 1) == thali.Gamma(1.0, 1.0)
    assert hash(thali.Gamma(1, 1)) == hash(thali.Gamma(1.0, 1.0))
    assert thali.Gamma(1, 1) != thali.InverseGamma(1, 1)
    assert len({thali.IBP(), thali.IBP(), thali.IBP(alpha=2.0)}) == 2
    assert thali.IBP() != "ibp"


def test_a_class_with_an_equality_of_its_own_keeps_it():
    @dataclass(frozen=True)
    class Loose(Settings):
        number: float

        def __eq__(self, other):
            return True

    assert Loose(1.0) == Loose(2.0)


@pytest.mark.parametrize("value", [True, np.True_, "much", None])
def test_a_positive_number_is_no_truth_value(value):
    with pytest.raises(TypeError, match="fit: time_budget must be a positive number, not "):
        positive_number("fit", "time_budget", value)
