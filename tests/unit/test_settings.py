"""Settings are values: equal when their fields are, with a hash to match."""

from dataclasses import dataclass

import numpy as np
import pytest
from sklearn.base import clone

import thali
from thali.settings import Settings, check_settings, positive_number, setting, settings_of

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


@dataclass(frozen=True)
class Declared(Settings):
    """One setting of each kind."""

    count: int = setting(2, help="A number", minimum=1)
    least: int | None = setting(None, help="A number, or none", minimum=0)
    size: float = setting(1.0, help="A positive number")
    share: float = setting(0.5, help="A number from zero on", minimum=0.0)
    step: str = setting("big", help="A word", choices=("big", "very_small"))
    sure: bool = setting(True, help="Yes or no")
    plain: int = -5  # declares nothing, so that nothing is checked

    def __post_init__(self):
        check_settings(self)


def test_settings_are_described_by_their_fields():
    said = settings_of(Declared)
    assert list(said) == ["count", "least", "size", "share", "step", "sure", "plain"]
    assert said["least"].kinds == {"int", "None"}
    assert (said["step"].default, said["step"].choices) == ("big", ("big", "very_small"))
    assert said["plain"].help == ""


def test_good_settings_are_kept_and_words_spelled_with_underscores():
    made = Declared(3, 0, 2.5, 0.0, "very-small", False, -7)
    assert made.get_params() == {
        "count": 3, "least": 0, "size": 2.5, "share": 0.0, "step": "very_small", "sure": False,
        "plain": -7,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        ({"count": 0}, ValueError, "Declared: count must be at least 1, not 0."),
        ({"count": 1.5}, TypeError, "Declared: count must be a whole number, not 1.5."),
        ({"count": None}, TypeError, "Declared: count must be a whole number, not None."),
        ({"least": -1}, ValueError, "Declared: least must be at least 0, not -1."),
        ({"size": 0}, ValueError, "Declared: size must be positive and finite, not 0."),
        ({"share": -0.1}, ValueError, "Declared: share must be at least 0, not -0.1."),
        ({"share": float("nan")}, ValueError, "Declared: share must be at least 0, not nan."),
        ({"step": "small"}, ValueError, "Declared: step must be 'big' or 'very_small', not 'sm"),
        ({"step": 3}, ValueError, "Declared: step must be 'big' or 'very_small', not 3."),
        ({"sure": 1}, TypeError, "Declared: sure must be True or False, not 1."),
    ],
)
def test_wrong_settings_are_refused_in_a_sentence(wrong, error, words):
    with pytest.raises(error, match=words):
        Declared(**wrong)


def test_what_a_class_says_of_itself_is_no_setting():
    with pytest.raises(ValueError, match=r"no setting 'masked'; it has sweeps, .*, anneal\.$"):
        thali.CollapsedGibbs().replace(masked=True)
