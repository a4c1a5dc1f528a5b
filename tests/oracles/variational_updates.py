"""Every update of the variational laws, one at a time, and how far each lowers the oracle's bound.

A right update never lowers it but by rounding. The functions are looked up in the library's modules
when they are called, so that a broken copy can take a module's place (``install``).
"""

from __future__ import annotations

import importlib
import sys
import types
from functools import cached_property

import numpy as np
from statistical.mutants import mutate

from oracles import variational as oracle
from oracles.variational_problems import LIKELIHOODS, problem
from thali.engines.ascent import bound, moves, state
from thali.likelihoods import feature_posteriors as features
from thali.likelihoods.feature_posteriors import NonnegativeFeatures
from thali.priors.stick_frequencies import Sticks, TaylorSticks


class Watch:
    """The largest fall of the bound, relative to it, by each kind of update."""

    def __init__(self, given):
        self.given, self.falls = given, {}
        self.value = given.by_oracle()

    def after(self, name, before=None):
        """Look at the bound after an update; ``before`` where it is not the last one seen."""
        now = self.given.by_oracle()
        self.note(name, (now - (self.value if before is None else before)) / abs(now))
        self.value = now

    def told(self, name):
        """That the state knows its own bound."""
        self.note(f"bound after {name}", -abs(self.given.bound / self.value - 1.0))

    def note(self, name, gain):
        self.falls[name] = max(self.falls.get(name, -np.inf), -float(gain))


def every_update(given):
    """Make every update of a problem's laws, once each, and watch."""
    watch = Watch(given)
    each_bit(given, watch)
    whole_rows(given, watch)
    each_of_features(given, watch)
    given.features = given.features.updated(
        given.statistics(), given.hyper["sigma_x"], given.hyper["sigma_a"]
    )
    watch.after("features")
    sticks(given, watch)
    hyperparameters(given, watch)
    given.frequencies = given.frequencies.updated(
        given.statistics().counts, len(given.X), given.hyper["alpha"]
    )
    watch.after("frequencies")
    state.in_order(given, given.statistics())
    watch.after("order")
    return watch.falls


def whole_iterations(given, count):
    """Local and global steps in turn, and changes of whole features, as the engine has them."""
    watch, rng = Watch(given), np.random.default_rng(0)
    for _ in range(count):
        state.iterate(given)
        watch.after("iteration")
        watch.told("iteration")
    for move in (moves.drop_features, moves.join_features, moves.add_feature):
        move(given, *([rng] if move.__name__ == "add_feature" else []))
        watch.after(move.__name__)
        watch.told(move.__name__)
    given.births = moves.SURE  # so that several are tried
    moves.add_features(given, rng)
    watch.after("add_features")
    watch.told("add_features")
    return watch.falls


def each_bit(given, watch):
    """ν_nk, and its amount, one feature at a time; rows do not know of each other."""
    from thali.kernels import expected_rows as kernel

    law = given.law()
    seen = (~np.isnan(given.X)).astype(float)
    k = given.k
    mean, outer = (each[..., :k, :] for each in oracle.moments(law))
    outer = outer[:, :, :k]
    Q = np.einsum("nd,dkl->nkl", seen, outer)
    B = np.nan_to_num(given.X) @ mean.T
    odds, precision = given.frequencies.log_odds(), 1.0 / given.hyper["sigma_x"] ** 2
    for i in range(k):
        before = oracle.of_rows(given.law())
        R = B - np.einsum("nk,nkl->nl", given.rows.weights(), Q)
        one = slice(i, i + 1)
        at = (
            np.ascontiguousarray(R[:, one]), np.ascontiguousarray(Q[:, one, one]), odds[one],
            precision,
        )  # fmt: skip
        nu, rest = given.rows.nu[:, one].copy(), (1, 1e-3, np.zeros(1))
        if given.rows.slab is None:
            kernel.expect_bits(*at, nu, *rest)
        else:
            held = [each[:, one].copy() for each in given.rows.amounts]
            laplace = given.rows.slab == "laplace"
            others = R[:, i] + given.rows.weights()[:, i] * Q[:, i, i]
            kernel.expect_amounts(*at, laplace, nu, *held, *rest)
            exact = oracle.amounts(precision * Q[:, i, i], precision * others, given.rows.slab)
            scale = 1.0 + np.abs(others) * precision
            scale *= scale  # digits lost where the exponents are large
            for mine, theirs, truth in zip(given.rows.amounts, held, exact, strict=True):
                mine[:, i] = theirs[:, 0]
                watch.note("law of amounts", -np.max(np.abs(theirs[:, 0] - truth) / scale))
        given.rows.nu[:, i] = nu[:, 0]
        gain = oracle.of_rows(given.law()) - before
        watch.note("bits", gain.min() / abs(watch.value))
    watch.after("bits")


def whole_rows(given, watch):
    given.backend.local_step(given.data, given.rows, given.globals())
    watch.after("rows")


def each_of_features(given, watch):
    """Each nonnegative feature's law by itself."""
    if not isinstance(given.features, NonnegativeFeatures):
        return
    from thali.kernels import expected_features as kernel

    found, sigma_x = given.statistics(), given.hyper["sigma_x"]
    width, rate = given.features.prior_law(given.hyper["sigma_a"])
    C = found.C if found.C.ndim == 3 else found.C[None]
    for i in range(len(found.T)):
        mu, s, phi = (getattr(given.features, name).copy() for name in ("mu", "s", "phi"))
        others = np.einsum("dj,jd->d", np.delete(C[:, i], i, axis=1) * np.ones((len(phi.T), 1)),
                           np.delete(phi, i, axis=0))  # fmt: skip
        one = slice(i, i + 1)
        kernel.expect_nonnegative(
            np.ascontiguousarray(C[:, one, one]), (found.T[i] - others)[None],
            mu[one], s[one], phi[one], sigma_x, (sigma_x / width) ** 2, rate * sigma_x**2, 1,
        )  # fmt: skip
        given.features = type(given.features).of(mu, s)
        watch.after("one feature")


def sticks(given, watch):
    """τ given q_k, then q_k given τ, round by round; or the whole update."""
    found, alpha = given.statistics(), given.hyper["alpha"]
    if isinstance(given.frequencies, Sticks) and not isinstance(given.frequencies, TaylorSticks):
        for _ in range(3):
            law = given.law()
            shares = oracle.best_shares(law.tau)
            counts = given.frequencies.padded(found.counts)
            tau = given.frequencies.turned(counts, found.n, alpha, 1)
            before = oracle.bound(law.but(shares=shares))
            fixed = oracle.bound(law.but(tau=tau, shares=shares))
            watch.note("τ given q_k", (fixed - before) / abs(before))
            watch.note("q_k", (oracle.bound(law.but(tau=tau)) - fixed) / abs(before))
            given.frequencies = type(given.frequencies)(tau)
            watch.after("τ")
    given.frequencies = given.frequencies.updated(found.counts, found.n, alpha)
    watch.after("frequencies")


def hyperparameters(given, watch):
    hyper, laws, found = given.hyper, given.model.hyperpriors, given.statistics()
    hyper["alpha"] = bound.best_mass(laws["alpha"], given.frequencies, hyper["alpha"])
    watch.after("α")
    squares = features.expected_squares(found, given.features)
    hyper["sigma_x"] = bound.best_scale(laws["sigma_x"], squares, found.entries, hyper["sigma_x"])
    watch.after("σ_x")
    hyper["sigma_a"] = bound.best_scale(
        laws["sigma_a"], given.features.squares(), given.features.phi.size, hyper["sigma_a"]
    )
    watch.after("σ_a")


def random_problems(rng, count):
    """Of all kinds, in an order that mixes them, with sizes at random."""
    kinds = [
        (likelihood, *prior, joint, gaps)
        for gaps in (False, True)
        for joint in (True, False)
        for prior in (("ibp", "multinomial"), ("beta_bernoulli", "multinomial"), ("ibp", "taylor"))
        for likelihood in LIKELIHOODS
    ]
    for i in range(count):
        n, d, k = (int(rng.integers(1, most + 1)) for most in (12, 6, 5))
        yield problem(rng, *kinds[29 * i % len(kinds)], n, d, k, room=int(rng.integers(0, 3)))


# ---- broken copies ------------------------------------------------------------------------------
METHODS = types.FunctionType | classmethod | property | cached_property


def install(patch, module, changes):
    """Let every module of the library, and these tests, use a broken copy of one."""
    original, broken = importlib.import_module(module), mutate(module, changes)
    if module.startswith("thali.kernels."):
        folder_of, name = module.rsplit(".", 1)
        patch.setitem(sys.modules, module, broken)
        patch.setattr(importlib.import_module(folder_of), name, broken)
        return
    for name, mine in vars(original).items():
        if getattr(mine, "__module__", "") != module:
            continue
        theirs = getattr(broken, name)
        if isinstance(mine, type):
            for method, body in vars(theirs).items():
                if isinstance(body, METHODS) and not (method.startswith("__")):
                    patch.setattr(mine, method, body)
        else:
            users = [m for key, m in sys.modules.items() if key.startswith("thali") and m]
            for user in users:
                if vars(user).get(name) is mine:
                    patch.setattr(user, name, theirs)
