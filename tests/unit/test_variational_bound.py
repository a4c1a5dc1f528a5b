"""The variational lower bound against the slow oracle, part by part."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from oracles import variational as oracle
from oracles.features import beta_nodes
from oracles.variational_problems import LIKELIHOODS, problem
from scipy import integrate, stats

from thali.priors.stick_frequencies import Sticks, TaylorSticks

CASES = [
    case
    for case in product(
        LIKELIHOODS,
        (("ibp", "multinomial"), ("ibp", "taylor"), ("beta_bernoulli", "multinomial")),
        (True, False),
        (False, True),
    )
    if not (case[0] in ("nonnegative", "exponential") and case[2])  # those have one law an entry
]


@pytest.mark.parametrize(("likelihood", "prior", "joint", "gaps"), CASES, ids=str)
def test_the_bound_is_what_the_oracle_says(likelihood, prior, joint, gaps, rng):
    for _ in range(3):
        n, d, k = (int(rng.integers(1, most + 1)) for most in (4, 3, 3))
        given = problem(rng, likelihood, *prior, joint, gaps, n, d, k, room=int(rng.integers(0, 2)))
        assert given.by_library() == pytest.approx(given.by_oracle(), rel=1e-8)


def test_the_oracle_knows_its_integrals():
    """Its quadrature against scipy's, and against what is known."""
    for a, b in ((2.0, 3.0), (50.0, 20.0), (5.0, 0.0)):
        v, m = 1.0 / (1.0 + a), b / (1.0 + a)
        divergence = 0.5 * (v + m * m - 1.0 - np.log(v))  # of two normal laws
        assert oracle.amounts(a, b, "gaussian") == pytest.approx((m, v + m * m, divergence))
        whole = [
            sum(
                integrate.quad(
                    lambda s, p=p, a=a, b=b: s**p * np.exp(-abs(s) + b * s - 0.5 * a * s * s), *side
                )[0]
                for side in ((-40.0, 0.0), (0.0, 40.0))
            )
            for p in range(3)
        ]
        m, s2 = whole[1] / whole[0], whole[2] / whole[0]
        divergence = b * m - 0.5 * a * s2 - np.log(0.5 * whole[0])
        assert oracle.amounts(a, b, "laplace") == pytest.approx((m, s2, divergence))
    for mu, s in ((1.0, 0.5), (-3.0, 1.0), (8.0, 0.1)):
        law = stats.truncnorm(-mu / s, np.inf, loc=mu, scale=s)
        first, second, entropy = oracle.truncated(mu, s)
        assert (first, second - first**2) == pytest.approx((law.mean(), law.var()), rel=1e-9)
        here = integrate.quad(lambda a, law=law: -law.pdf(a) * law.logpdf(a), 0.0, mu + 30.0 * s)
        assert entropy == pytest.approx(here[0], rel=1e-7)


def test_the_oracle_knows_the_truth_of_two_sticks():
    tau = np.array([[3.0, 1.4], [1.5, 2.0]])
    (v, p), (u, q) = (beta_nodes(tuple(each), 300) for each in tau)
    both = p @ np.log1p(-np.outer(v, u)) @ q
    first = stats.beta(*tau[0]).expect(lambda x: np.log1p(-x))
    assert oracle.mean_log_off(tau) == pytest.approx((first, both), rel=1e-6)


def test_both_bounds_of_the_sticks_lie_in_order_below_the_truth(rng):
    """J = 0 ≤ Taylor ≤ E[log(1 − π_k)], exact for the first stick."""
    gaps = []
    for _ in range(50):
        tau = rng.gamma(1.0, 3.0, size=(int(rng.integers(1, 5)), 2)) + 0.2
        truth, jensen = oracle.mean_log_off(tau), oracle.jensen(tau, oracle.best_shares(tau))
        plain, taylor = Sticks(tau).log_off(), TaylorSticks(tau).log_off()
        assert plain == pytest.approx(jensen, rel=1e-10)
        assert (taylor >= plain - 1e-12).all()
        assert (taylor <= truth + 1e-9 * np.abs(truth)).all()
        assert taylor[0] == pytest.approx(truth[0], rel=1e-8)
        gaps.append([(truth - taylor)[1:].sum(), (truth - plain)[1:].sum()])
    left, right = np.sum(gaps, axis=0)
    assert left < 0.1 * right  # and tighter by much


def test_the_slopes_of_the_taylor_bound_are_its_derivatives(rng):
    from scipy.optimize import approx_fprime

    for _ in range(5):
        tau = rng.gamma(2.0, 2.0, size=(4, 2)) + 0.5
        counts = rng.uniform(0.0, 6.0, size=4)

        def gain(t, counts=counts):
            return TaylorSticks(t.reshape(-1, 2)).gain(counts, 6.0, 1.3)

        slopes = TaylorSticks(tau).slopes(counts, 6.0, 1.3).ravel()
        assert slopes == pytest.approx(approx_fprime(tau.ravel(), gain, 1e-7), abs=1e-4, rel=1e-4)


def test_a_random_law_gives_no_number_by_accident(rng):
    """The bound moves with each of its arguments: nothing in the comparison is idle."""
    given = problem(rng, "laplace slab", "ibp", gaps=True)
    law, before = given.law(), given.by_oracle()
    changed = {
        "nu": law.nu * 0.9, "tau": law.tau * 1.1, "phi": law.phi * 1.1, "V": law.V * 1.1,
        "first": law.first + 0.1, "second": law.second + 0.1,
        "divergence": law.divergence + 0.1, "alpha": law.alpha * 1.1,
        "sigma_x": law.sigma_x * 1.1, "sigma_a": law.sigma_a * 1.1,
    }  # fmt: skip
    for name, value in changed.items():
        after = oracle.bound(law.but(**{name: value})) + given.densities()
        assert abs(after - before) > 1e-6 * abs(before), name
