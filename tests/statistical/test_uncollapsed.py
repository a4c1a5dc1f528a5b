"""Uncollapsed Gibbs sampling up the ladder: enumeration, prior recovery, Geweke, and mutants.

Both ways to find new features, parameters integrated out and slice, for the three priors. The
checks are those of the collapsed sampler; both must agree with the same enumeration.
"""

from __future__ import annotations

import sys

import pytest
from statistical import test_enumeration, test_geweke, test_prior_recovery
from statistical.budget import TESTS, alarms, judge
from statistical.mutants import mutate

import thali
import thali.kernels

WAYS = ("integrated", "slice")
TINY = (
    "N=2 ibp α=3",
    "N=3 ibp α~Gamma",
    "N=2 two_parameter α=3",
    "N=3 two_parameter α=0.5",
    "N=2 finite α~Gamma",
    "N=4 finite α=3",
    "N=2 ibp σ inferred",
)
FLAT = ("ibp α=3", "two_parameter β=2.5 α~Gamma", "finite α~Gamma")
JOINT = ("ibp", "two_parameter", "finite")


def engine(way):
    return thali.UncollapsedGibbs(new_features=way)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", TINY)
def test_sampler_agrees_with_enumeration(name, way, seed):
    case = test_enumeration.CASES[name]
    judge("uncollapsed", test_enumeration.check(case, seed, sweeps=2000, engine=engine(way)))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", FLAT)
def test_a_flat_likelihood_gives_back_the_prior(name, way, seed):
    spec = test_prior_recovery.CASES[name]
    walk = test_prior_recovery.walk(spec, seed, sweeps=3000, engine=engine(way))
    judge("uncollapsed", test_prior_recovery.p_values(spec, *walk))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", JOINT)
def test_engine_and_forward_simulation_agree(name, way, seed):
    case = test_geweke.CASES[name]
    judge("uncollapsed", test_geweke.geweke_p_values(seed, case, 4000, engine=engine(way)))


def install(patch, module, changes, folder):
    copy = mutate(module, changes, folder)
    patch.setitem(sys.modules, module, copy)
    patch.setattr(thali.kernels, module.rsplit(".", 1)[1], copy)


def test_own_dishes_taken_for_bits_are_caught(tmp_path, monkeypatch, seed):
    """A dish without other takers is sampled like any other, with the odds of one taker."""
    old = "return prior.log_odds[others] if others > 0 else np.nan"
    prior = mutate(
        "thali.kernels.bit_prior", [(old, "return prior.log_odds[max(others, 1)]")], tmp_path
    )
    monkeypatch.setitem(sys.modules, "thali.kernels.bit_prior", prior)
    install(monkeypatch, "thali.kernels.given_features", [], tmp_path)
    case = test_enumeration.CASES["N=2 ibp α=3"]
    assert alarms(test_enumeration.check(case, seed, sweeps=3000, engine=engine("integrated")))


def test_a_slice_without_its_weight_is_caught(tmp_path, monkeypatch, seed):
    """The factor 1/π* of the slice level left out."""
    old = "value += np.log(smallest) - np.log(min(smallest, pi))"
    prior = mutate("thali.kernels.bit_prior", [(old, "value += 0.0")], tmp_path)
    monkeypatch.setitem(sys.modules, "thali.kernels.bit_prior", prior)
    install(monkeypatch, "thali.kernels.given_features", [], tmp_path)
    case = test_enumeration.CASES["N=2 ibp α=3"]
    assert alarms(test_enumeration.check(case, seed, sweeps=3000, engine=engine("slice")))


def test_the_budget_counts_these_tests():
    assert TESTS["uncollapsed"] == len(WAYS) * (len(TINY) + len(FLAT) + len(JOINT))
