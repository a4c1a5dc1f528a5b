"""Each closed form is where a numerical optimizer ends, on the oracle's bound."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from oracles import variational as oracle
from oracles.variational_problems import problem
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, logit, logsumexp

import thali
from thali.engines.ascent import bound
from thali.likelihoods import feature_posteriors as features
from thali.priors import stick_frequencies as sticks_module

CLOSE = 1e-5


def climb(target, begin):
    """The place of a maximum, from ``begin``, without derivatives of ours."""
    best = np.asarray(begin, float)
    for _ in range(2):
        best = minimize(
            lambda u: -target(u), best, method="BFGS", jac="3-point", options={"gtol": 1e-7}
        ).x
    return best


def on_line(target, center, width=12.0):
    return minimize_scalar(
        lambda u: -target(u),
        bounds=(center - width, center + width),
        method="bounded",
        options={"xatol": 1e-10},
    ).x


def apart(a, b):
    return float(np.max(np.abs(np.asarray(a) - b) / (1.0 + np.abs(b))))


# ---- rows ---------------------------------------------------------------------------------------
def of_bits(given):
    """ν of each entry, all others as they are."""
    from thali.kernels import expected_rows as kernel

    law, worst = given.law(), 0.0
    mean, outer = oracle.moments(law)
    seen = (~np.isnan(given.X)).astype(float)
    Q = np.einsum("nd,dkl->nkl", seen, outer)
    R = np.nan_to_num(given.X) @ mean.T - np.einsum("nk,nkl->nl", law.nu, Q)
    odds = given.frequencies.log_odds()
    for n, i in np.ndindex(law.nu.shape):
        nu = law.nu[n : n + 1, i : i + 1].copy()
        kernel.expect_bits(
            R[n : n + 1, i : i + 1].copy(), Q[n : n + 1, i : i + 1, i : i + 1].copy(),
            odds[i : i + 1], given.hyper["sigma_x"] ** -2, nu, 1, 1e-3, np.zeros(1),
        )  # fmt: skip

        def target(u, n=n, i=i):
            changed = law.nu.copy()
            changed[n, i] = expit(u)
            return oracle.of_rows(law.but(nu=changed))[n]

        worst = max(worst, apart(nu, expit(on_line(target, logit(law.nu[n, i]), 40.0))))
    return worst


def of_amounts(given):
    """q(s | z = 1) as weights of a grid of amounts, and ν with it: one entry."""
    from thali.kernels import expected_rows as kernel

    law, slab = given.law(), given.rows.slab
    mean, outer = oracle.moments(law)
    precision, Q = given.hyper["sigma_x"] ** -2, outer.sum(axis=0)
    W = given.rows.weights()
    R = given.X @ mean.T - W @ Q
    s = np.linspace(-12.0, 12.0, 4001)
    log_p = oracle.log_slab(s, slab) + np.log(s[1] - s[0])
    nu = law.nu[:1, :1].copy()
    held = [each[:1, :1].copy() for each in given.rows.amounts]
    odds = given.frequencies.log_odds()
    kernel.expect_amounts(
        R[:1, :1].copy(), Q[None, :1, :1].copy(), odds[:1], precision, slab == "laplace", nu,
        *held, 1, 1e-3, np.zeros(1),
    )  # fmt: skip

    def moments(at):  # a family of densities on the grid that has the best one in it, and others
        log_q = log_p + at[0] * s + at[1] * s**2 + at[2] * np.abs(s) + at[3] * s**3 / 50.0
        q = np.exp(log_q - logsumexp(log_q))
        return q @ s, q @ s**2, q @ (log_q - logsumexp(log_q) - log_p)

    def changed(at):
        first, second, cost = moments(at)
        parts = {"first": law.first.copy(), "second": law.second.copy()}
        parts |= {"divergence": law.divergence.copy(), "nu": law.nu.copy()}
        values = {"first": first, "second": second, "divergence": cost, "nu": expit(at[4])}
        for name, value in values.items():
            parts[name][0, 0] = value
        return law.but(**parts)

    best = climb(lambda at: oracle.of_rows(changed(at))[0], [0.0, -0.5, 0.0, 0.0, 0.0])
    found = np.array([*moments(best), expit(best[4])])
    return apart([float(each[0, 0]) for each in (*held, nu)], found)


# ---- features -----------------------------------------------------------------------------------
def of_gaussian_features(given):
    """φ and V, by Cholesky factors where they are joint."""
    k, d = given.features.phi.shape
    joint, gaps = given.features.joint, given.features.V.ndim == 3
    lower = np.tril_indices(k)
    blocks = d if gaps else 1

    def unpack(u):
        phi, rest = u[: k * d].reshape(k, d), u[k * d :].reshape(blocks, -1)
        if not joint:
            return phi, np.array([np.diag(np.exp(2.0 * each)) for each in rest])
        L = np.zeros((blocks, k, k))
        L[:, lower[0], lower[1]] = rest
        i = np.arange(k)
        L[:, i, i] = np.exp(L[:, i, i])
        return phi, L @ np.swapaxes(L, 1, 2)

    def target(u):
        phi, V = unpack(u)
        return oracle.bound(given.law().but(phi=phi, V=np.broadcast_to(V, (d, k, k))))

    size = k * d + blocks * (len(lower[0]) if joint else k)
    phi, V = unpack(climb(target, np.zeros(size)))
    new = given.features.updated(given.statistics(), given.hyper["sigma_x"], given.hyper["sigma_a"])
    return max(apart(new.phi, phi), apart(new.V, V if gaps else V[0]))


def of_nonnegative_features(given):
    """(μ, s) of each entry of each feature in turn, through their moments."""
    from thali.kernels import expected_features as kernel

    k, d = given.features.phi.shape
    mu, s, phi = (getattr(given.features, name).copy() for name in ("mu", "s", "phi"))
    sigma_x, (width, rate) = (
        given.hyper["sigma_x"],
        given.features.prior_law(given.hyper["sigma_a"]),
    )
    r, pull = (sigma_x / width) ** 2, rate * sigma_x**2
    found = given.statistics()
    C = found.C if found.C.ndim == 3 else found.C[None]
    kernel.expect_nonnegative(np.ascontiguousarray(C), found.T, mu, s, phi, sigma_x, r, pull, 1)
    law, worst = given.law(), 0.0
    for i, e in np.ndindex(k, d):

        def target(u, i=i, e=e):
            mine, own = law.mu.copy(), law.s.copy()
            mine[i, e], own[i, e] = u[0], np.exp(u[1])
            return oracle.bound(law.but(mu=mine, s=own))

        u = climb(target, [law.mu[i, e], np.log(law.s[i, e])])
        best, ours = (
            np.array(oracle.truncated(*each))
            for each in ((u[0], np.exp(u[1])), (mu[i, e], s[i, e]))
        )
        worst = max(worst, apart(ours, best))
        law.mu[i, e], law.s[i, e] = mu[i, e], s[i, e]  # the next is best given this one
    return worst


# ---- frequencies and hyperparameters ------------------------------------------------------------
def of_frequencies(given):
    """τ, given q_k where sticks have them."""
    law, found = given.law(), given.statistics()
    shares = oracle.best_shares(law.tau)

    def target(u):
        return oracle.bound(law.but(tau=np.exp(u).reshape(-1, 2), shares=shares))

    alpha = given.hyper["alpha"]
    if given.infinite:
        tau = given.frequencies.closed_form(found.counts, found.n, alpha)
    else:
        tau = given.frequencies.updated(found.counts, found.n, alpha).tau
    return apart(tau, np.exp(climb(target, np.zeros(law.tau.size))).reshape(-1, 2))


def of_shares(given):
    """q_k(y): each row a law of y ≤ k."""
    law = given.law()
    k = len(law.tau)
    lower = np.tril_indices(k)

    def unpack(u):
        logits = np.full((k, k), -np.inf)
        logits[lower] = u
        return np.exp(logits - logsumexp(logits, axis=1, keepdims=True))

    best = unpack(climb(lambda u: oracle.bound(law.but(shares=unpack(u))), np.zeros(len(lower[0]))))
    ours = sticks_module.shares(sticks_module.first_breaks(law.tau))
    return max(apart(ours, best), apart(given.frequencies.log_off(), oracle.jensen(law.tau, best)))


LAWS = {
    "gamma": thali.Gamma(2.5, 1.5),
    "inverse gamma": thali.InverseGamma(2.5, 1.5),
}


def of_mass(given, kind):
    def target(u):
        a = float(np.exp(u))
        return oracle.bound(given.law().but(alpha=a)) + oracle.log_density_of_scale(
            a, kind, 2.5, 1.5
        )

    ours = bound.best_mass(LAWS[kind], given.frequencies, given.hyper["alpha"])
    return apart(ours, np.exp(on_line(target, 0.0, 6.0)))


def of_scale(given, name, kind):
    def target(u):
        value = float(np.exp(u))
        density = oracle.log_density_of_scale(value, kind, 2.5, 1.5)
        return oracle.bound(given.law().but(**{name: value})) + density

    found = given.statistics()
    if name == "sigma_x":
        sums, size = (features.expected_squares(found, given.features), 0.0), found.entries
    else:
        sums, size = given.features.of_scale(), given.features.phi.size
    ours = bound.best_scale(LAWS[kind], sums[0], size, given.hyper[name], sums[1])
    return apart(ours, np.exp(on_line(target, 0.0, 6.0)))


def distances(rng, gaps):
    """How far each closed form lies from the optimizer's answer, one after the other."""

    def of(likelihood, prior="ibp", **more):
        return problem(rng, likelihood, prior, gaps=gaps, n=3, d=2, k=2, **more)

    yield "ν", of_bits(of("gaussian"))
    yield "ν of nonnegative features", of_bits(of("nonnegative"))
    yield "φ and V, joint", of_gaussian_features(of("gaussian"))
    yield "φ and V, factorized", of_gaussian_features(of("gaussian", joint=False))
    yield "φ and V with amounts", of_gaussian_features(of("laplace slab"))
    yield "nonnegative features", of_nonnegative_features(of("nonnegative"))
    yield "exponential features", of_nonnegative_features(of("exponential"))
    for kind, name in product(LAWS, ("sigma_x", "sigma_a")):
        yield f"{name} ~ {kind}", of_scale(of("laplace slab"), name, kind)
        yield f"{name} ~ {kind}, a ≥ 0", of_scale(of("nonnegative"), name, kind)
        yield f"{name} ~ {kind}, exponential a", of_scale(of("exponential"), name, kind)
    if gaps:
        return  # what follows knows nothing of the data
    yield "τ given q_k", of_frequencies(of("gaussian"))
    yield "τ", of_frequencies(of("gaussian", "beta_bernoulli"))
    yield "q_k", of_shares(problem(rng, "gaussian", "ibp", k=3))
    yield "amounts, laplace", of_amounts(of("laplace slab"))
    yield "amounts, gaussian", of_amounts(of("gaussian slab"))
    for kind in LAWS:
        yield f"α ~ {kind}", of_mass(of("gaussian"), kind)
        yield f"α ~ {kind}, finite", of_mass(of("gaussian", "beta_bernoulli"), kind)


@pytest.mark.parametrize("gaps", [pytest.param(False, marks=pytest.mark.slow), True])
def test_closed_forms_are_optima(gaps, rng):
    found = dict(distances(rng, gaps))
    assert max(found.values()) < CLOSE, {k: v for k, v in found.items() if v > CLOSE}


def test_the_taylor_sticks_end_at_an_optimum(rng):
    """No τ near theirs is better, on their own bound (which the oracle's truth lies above)."""
    for _ in range(4):
        given = problem(rng, "gaussian", "ibp", "taylor", k=3)
        found, alpha = given.statistics(), given.hyper["alpha"]
        law = given.frequencies.updated(found.counts, found.n, alpha)

        def gain(u, found=found, alpha=alpha):
            tau = np.exp(u).reshape(-1, 2)
            return sticks_module.TaylorSticks(tau).gain(found.counts, found.n, alpha)

        begin = np.log(law.tau).ravel()
        better = climb(gain, begin)
        assert gain(better) - gain(begin) < 1e-7 * abs(gain(begin))
