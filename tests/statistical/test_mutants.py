"""Deliberately broken samplers must be caught, by the very checks that the right one passes.

Each mutant is the library's own source with a line or two changed (``mutants.py``), known mistakes
of public programs among them.  The enumeration check and Geweke's test are run on it with the
thresholds of the suite, and must raise an alarm; an unchanged copy must not.
"""

from __future__ import annotations

import pytest
from statistical import mutants, test_enumeration, test_geweke
from statistical.budget import alarms
from statistical.mutants import KERNEL, install_kernel, mutate, update_in_python
from statistical.test_ladder import install

import thali

TIGHT = test_enumeration.CASES["N=2 ibp α=3"]
FOUR_ROWS = test_enumeration.CASES["N=4 ibp α=1"]
ALPHA_INFERRED = test_enumeration.CASES["N=4 ibp α~Gamma"]
SIGMA_INFERRED = test_enumeration.CASES["N=2 ibp σ inferred"]
JOINT = test_geweke.CASES["ibp"]


def ibp_mutant(changes, alpha):
    law = thali.Gamma(*alpha) if isinstance(alpha, tuple) else alpha
    broken = vars(mutate("thali.priors.buffet", changes).Buffet)
    methods = {name: own for name, own in broken.items() if not name.startswith("__")}
    return type("IBP", (thali.IBP,), methods)(alpha=law)


@pytest.mark.parametrize(
    "name", ["SINGLETONS_AS_BITS", pytest.param("AT_MOST_ONE_NEW", marks=pytest.mark.slow)]
)
def test_enumeration_and_geweke_catch_a_broken_kernel(name, monkeypatch, seed):
    install_kernel(monkeypatch, mutate(KERNEL, getattr(mutants, name)))
    assert alarms(test_enumeration.check(TIGHT, seed, sweeps=2000))
    assert alarms(test_geweke.geweke_p_values(seed, JOINT, test_geweke.DRAWS))


def test_enumeration_catches_odds_off_by_one(seed):
    """P(z = 1) = m/(N+1) in place of m/N."""
    prior = ibp_mutant(mutants.ODDS_OFF_BY_ONE, FOUR_ROWS.prior.alpha)
    assert alarms(test_enumeration.check(FOUR_ROWS, seed, sweeps=2000, prior=prior))


@pytest.mark.slow
def test_geweke_catches_odds_off_by_one(seed):
    prior = ibp_mutant(mutants.ODDS_OFF_BY_ONE, test_geweke.ALPHA)
    assert alarms(test_geweke.geweke_p_values(seed, JOINT, test_geweke.DRAWS, prior=prior))


@pytest.mark.parametrize("where", ["compiled", "python"])
def test_enumeration_catches_alpha_drawn_from_sums(where, monkeypatch, seed):
    """α ~ Gamma(a + Σm, b + N) in place of Gamma(a + K, b + H_N)."""
    if where == "compiled":
        install_kernel(monkeypatch, mutate(KERNEL, mutants.ALPHA_FROM_SUMS_COMPILED))
        assert alarms(test_enumeration.check(ALPHA_INFERRED, seed, sweeps=6000))
        return
    update_in_python(monkeypatch)
    prior = ibp_mutant(mutants.ALPHA_FROM_SUMS, ALPHA_INFERRED.prior.alpha)
    assert alarms(test_enumeration.check(ALPHA_INFERRED, seed, sweeps=6000, prior=prior))


@pytest.mark.slow
def test_geweke_catches_alpha_drawn_from_sums(monkeypatch, seed):
    """A hard one: E[Σm | α] = αN, so all first moments stay right; only α² and αK tell."""
    install_kernel(monkeypatch, mutate(KERNEL, mutants.ALPHA_FROM_SUMS_COMPILED))
    assert alarms(test_geweke.geweke_p_values(seed, JOINT, draws=150_000))


def forget_the_jacobian(monkeypatch, where):
    from thali.likelihoods import gaussian_scales

    if where == "compiled":
        install(monkeypatch, "thali.kernels.scale_steps", mutants.NO_JACOBIAN_COMPILED)
        return
    update_in_python(monkeypatch)
    broken = mutate("thali.hyperparameters.steps", mutants.NO_JACOBIAN)
    monkeypatch.setattr(gaussian_scales, "slice_step", broken.slice_step)


@pytest.mark.parametrize("where", ["compiled", "python"])
def test_enumeration_catches_a_forgotten_jacobian(where, monkeypatch, seed):
    """σ sampled on the log scale with the density of σ itself."""
    forget_the_jacobian(monkeypatch, where)
    assert alarms(test_enumeration.check(SIGMA_INFERRED, seed, sweeps=2000))


def test_geweke_catches_a_forgotten_jacobian(monkeypatch, seed):
    forget_the_jacobian(monkeypatch, "compiled")
    assert alarms(test_geweke.geweke_p_values(seed, JOINT, test_geweke.DRAWS))


def test_an_unchanged_copy_of_the_prior_raises_no_alarm(seed):
    prior = ibp_mutant([], ALPHA_INFERRED.prior.alpha)
    assert not alarms(test_enumeration.check(ALPHA_INFERRED, seed, sweeps=2000, prior=prior))


@pytest.mark.slow
def test_an_unchanged_copy_of_the_kernel_raises_no_alarm(monkeypatch, seed):
    install_kernel(monkeypatch, mutate(KERNEL, []))
    assert not alarms(test_enumeration.check(TIGHT, seed, sweeps=2000))
    assert not alarms(test_geweke.geweke_p_values(seed, JOINT, test_geweke.DRAWS))
