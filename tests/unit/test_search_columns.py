"""Changes of whole columns: what they are said to be worth, and what they find."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from oracles import search as oracle
from oracles.search_problems import CLOSE, KINDS, Case
from oracles.variational_updates import install
from scipy.special import gammaln

import thali
from thali.data import Data
from thali.engines.search import polish
from thali.engines.search.columns import class_of, grown, paired, rearranged
from thali.kernels import grown_columns, paired_columns
from thali.kernels.gaussian_row import Scales
from thali.structures.features import potentials


def problems(rng, count, n=9, d=3, k=4):
    """Cases with a Z of different columns."""
    for i in range(count):
        kind = ("ibp", "two_parameter_ibp")[i % 2]
        prior = oracle.Prior(kind, float(rng.uniform(0.5, 5.0)), 1.4 if "two" in kind else 1.0)
        X = (rng.random((n, 3)) < 0.5) @ rng.normal(size=(3, d)) + 0.5 * rng.normal(size=(n, d))
        Z = np.unique(rng.random((n, k)) < 0.5, axis=1)
        case = Case(X, prior, float(rng.uniform(0.3, 1.5)), float(rng.uniform(0.5, 1.5)))
        yield case, Z[:, Z.any(axis=0)][:, : i % (k + 1)]


def of(case):
    """X, scales and λ, as the kernels take them."""
    data = Data.of(case.X)
    scales = Scales(case.sigma_x, case.sigma_a, float(data.d))
    return data.reduced, scales, potentials(case.of_library.tables(data.n))


def value(case, Z):
    """The log joint, equal columns and empty ones apart."""
    _, times = np.unique(Z, axis=1, return_counts=True)
    return case.log_joint(Z) + float(gammaln(times + 1.0).sum() if Z.shape[1] else 0.0)


def worst_of_grown(rng, count):
    """How far from the truth gains are, and by how much one row less or more would be better along
    the last direction: a column is the best of its order."""
    off = 0.0
    for case, Z in problems(rng, count):
        X, scales, potential = of(case)
        for gain, column in grown(rng, Z, X, scales, potential):
            truth = value(case, np.column_stack([Z, column])) - value(case, Z)
            off = max(off, abs(gain - truth))
    return off


def worst_of_changes(rng, count):
    """How far from the truth the log joints of all changes are, beside that of Z itself."""
    from thali.kernels import paired_columns  # which may be a broken one

    off = 0.0
    for case, Z in problems(rng, count):
        X, scales, potential = of(case)
        real, k = Z.astype(float), Z.shape[1]
        C, T = real.T @ real, real.T @ X
        without = paired_columns.value_without(C, T, scales, potential)
        for a in range(k):
            truth = value(case, np.delete(Z, a, axis=1)) - value(case, Z)
            off = max(off, abs(without[a] - without[k] - truth))
        pairs = np.array([(a, b) for b in range(k) for a in range(b)], int).reshape(-1, 2)
        table = paired_columns.MADE, paired_columns.PARTS
        bits = np.ascontiguousarray(Z, np.uint8)
        found = paired_columns.value_of_pairs(X, bits, C, T, pairs, *table, scales, potential)
        for (p, o), told in np.ndenumerate(found):
            other = paired(Z, pairs[p], paired_columns.CHANGES[o])
            if told == -np.inf:
                assert not other.any(axis=0).all()
                continue
            off = max(off, abs(told - without[k] - value(case, other) + value(case, Z)))
    return off


def test_a_grown_column_is_worth_what_is_said(rng):
    assert worst_of_grown(rng, 30) < CLOSE


def test_other_columns_are_worth_what_is_said(rng):
    assert worst_of_changes(rng, 30) < CLOSE


MUTANTS = {
    "features of others not taken off": (
        grown_columns, "s = r + m - spread", "s = r + m", worst_of_grown,
    ),
    "cross terms left out": (
        grown_columns, "spread += 2.0 * u[j] + M[j, j]", "spread += M[j, j]", worst_of_grown,
    ),
    "what two share counted once": (
        paired_columns, "gram[:] = with_both[a]", "gram[:] = 0.0", worst_of_changes,
    ),
    "sums of what two share left out": (
        paired_columns, " + part[2] * shared[c]", "", worst_of_changes,
    ),
}  # fmt: skip


def noticed(check, rng):
    """Whether a check fails, by its number or by what it asserts on the way."""
    try:
        return not check(rng, 10) < CLOSE
    except AssertionError:
        return True


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_caught(name, monkeypatch, rng):
    module, old, new, check = MUTANTS[name]
    with monkeypatch.context() as plain:
        plain.setattr(numba.config, "DISABLE_JIT", True)
        install(monkeypatch, module.__name__, [(old, new)])
    assert noticed(check, rng)


def test_what_stands_for_a_pair_is_what_is_meant(rng):
    Z = rng.random((40, 3)) < 0.5
    a, b, rest = Z[:, 0], Z[:, 2], Z[:, [1]]
    meant = [
        [a | b], [a, a | b], [b, a | b], [a, a ^ b], [b, a ^ b], [a, a & b], [b, a & b],
        [a, b & ~a], [a & ~b, b], [a & ~b, b & ~a, a & b],
    ]  # fmt: skip
    for change, columns in zip(paired_columns.CHANGES, meant, strict=True):
        assert np.array_equal(
            paired(Z, np.array([0, 2]), change), np.column_stack([rest, *columns])
        )


def test_the_most_probable_come_first_and_each_class_once(rng):
    for case, Z in problems(rng, 10):
        found = list(rearranged(rng, Z, *of(case), -1))
        values = [value(case, other) for other in found]
        assert np.all(np.diff(values) < CLOSE)
        classes = [class_of(other) for other in (Z, *found)]
        assert len(set(classes)) == len(classes)
        few = list(rearranged(rng, Z, *of(case), Z.shape[1]))
        assert max((other.shape[1] for other in few), default=0) <= Z.shape[1]


@pytest.mark.parametrize("kind", KINDS)
def test_a_rearrangement_gains_what_it_says(kind, rng):
    gained = 0
    for _ in range(12):
        prior = oracle.Prior(kind, 1.5, 1.2 if "two" in kind else 1.0, 6)
        truth = rng.random((30, 3)) < 0.4
        X = truth @ rng.normal(size=(3, 6)) + 0.3 * rng.normal(size=(30, 6))
        case = Case(X, prior, 0.3, 1.0)
        form = polish.Integrated(case.model(), Data.of(X))
        for Z in (truth[:, :0], truth[:, :2], truth[:, [0]] | truth[:, [1]]):
            Z = Z[:, Z.any(axis=0)]
            found, gain = form.rearrange(rng, form.answer(Z, {}, {}))
            assert gain >= 0.0
            assert case.log_joint(found.Z) - case.log_joint(Z) == pytest.approx(gain, abs=CLOSE)
            gained += gain > 1.0
    assert gained > 30  # of 36


def fits(n, seed, **settings):
    X = thali.datasets.images(n=n, random_state=seed).X
    engine = thali.BeamSearch(**settings)
    return X, thali.LatentFeatures(engine=engine, random_state=0, progress=False).fit(X)


def test_features_that_the_start_and_the_search_miss_are_found():
    """With few pictures both take two features for one, twice; no change of one bit mends that."""
    X, model = fits(30, 0)
    assert model.log_joint_ > -987.95
    truth = thali.datasets.images(n=30, random_state=0).Z
    assert (
        thali.evaluation.match_assignments(truth, model.Z_).distance <= 3
    )  # of 120 bits: the mode is not the truth
    assert np.isclose(
        model.prior_.at(alpha=model.alpha_).log_prob(model.Z_)
        + thali.LinearGaussian(model.sigma_x_, model.sigma_a_).log_marginal(X, model.Z_),
        model.log_joint_,
    )


def test_without_polishing_columns_stay():
    assert fits(30, 0, polish=False)[1].log_joint_ < -1000.0


def test_columns_are_found_in_what_is_observed(rng):
    data = thali.datasets.images(n=30, random_state=0)
    X = data.X.copy()
    X[rng.random(X.shape) < 0.03] = np.nan
    Z = data.Z.astype(bool)
    model = polish.Model(thali.IBP(1.0), thali.LinearGaussian(0.5, 0.4))
    from thali.engines.search.masked_polish import MaskedIntegrated

    form = MaskedIntegrated(model, Data.of(X))
    answer = form.answer(Z[:, :3], {}, {})
    found, gain = form.rearrange(rng, answer)
    assert gain > 5.0
    assert form.log_joint(found.Z, {}, {}) == pytest.approx(answer.value + gain, abs=1e-6)
