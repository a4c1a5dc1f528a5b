"""The three forms of log P(Z), against enumeration of what each tells apart and against play."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import product

import numpy as np
import pytest
from oracles import features as oracles
from scipy import stats
from statistical.budget import TESTS, judge, p_value_of_counts

import thali

FORMS = ("left-ordered", "shifted", "first-appearance")
PRIORS = {
    "ibp": thali.IBP(alpha=1.3),
    "shared": thali.TwoParameterIBP(alpha=1.3, beta=0.4),
    "finite": thali.BetaBernoulli(alpha=1.3, n_components=4),
    "finite_1": thali.BetaBernoulli(alpha=3.0, n_components=1),
    "truncated": thali.TruncatedIBP(alpha=1.3, max_features=4),
    "smooth": thali.SmoothIBP(alpha=1.5, power=0.5, shift=0.7),
    "learned": thali.LearnedIBP(alpha=2.0, expected=[0.3, 1.1, 0.6]),
    "flexible": thali.FlexibleIBP((0.3, -0.4, 0.6)),
    "rows": thali.FlexibleIBP((0.3, -0.4, 0.6), row_potentials=(0.0, 0.5, -0.3)),
}
PLAYED = {  # priors with a story: α, β, or K of the finite one
    "ibp": (thali.IBP(alpha=1.3), (1.3, 1.0)),
    "ibp_3": (thali.IBP(alpha=3.0), (3.0, 1.0)),
    "shared": (thali.TwoParameterIBP(alpha=1.3, beta=0.4), (1.3, 0.4)),
    "spread": (thali.TwoParameterIBP(alpha=0.8, beta=2.5), (0.8, 2.5)),
    "finite": (thali.BetaBernoulli(alpha=1.3, n_components=5), 5),
    "finite_2": (thali.BetaBernoulli(alpha=3.0, n_components=2), 2),
}
JUDGED = 2 * len(PLAYED)


def test_the_budget_counts_these_tests():
    assert TESTS["forms"] == JUDGED


def first_row(column):
    return column.index(1)


def told_apart(columns, form):
    """The columns, a tuple of tuples, as this form sees them."""
    if form == "left-ordered":
        return tuple(sorted(columns, reverse=True))
    if form == "first-appearance":
        return tuple(sorted(columns, key=first_row))  # stable: those of one row as they stand
    return tuple(columns)


def members(n, k, form):
    """All that this form tells apart of n rows and k features in use."""
    kinds = [h for h in product((0, 1), repeat=n) if any(h)]
    return {told_apart(columns, form) for columns in product(kinds, repeat=k)}


def matrix(columns, n):
    return np.array(columns, int).reshape(-1, n).T


def chances(prior, n, k, form):
    return np.exp([prior.log_prob(matrix(columns, n), form) for columns in members(n, k, form)])


def rows_of(prior):
    return [3] if prior.rows_described == 3 else [1, 2, 3]


@pytest.mark.parametrize("name", PRIORS)
@pytest.mark.parametrize("form", FORMS)
def test_each_form_gives_a_number_of_features_the_same_probability(name, form):
    prior = PRIORS[name]
    for n in rows_of(prior):
        for k in range(1 + min(prior.most_components(n) % 100, 3)):
            wanted = chances(prior, n, k, "left-ordered").sum()
            assert chances(prior, n, k, form).sum() == pytest.approx(wanted, rel=1e-11)


@pytest.mark.parametrize("form", FORMS)
def test_each_form_of_the_process_has_poisson_many_features(form):
    for alpha, beta in ((0.7, 1.0), (2.5, 1.0), (1.3, 0.4)):
        prior = thali.TwoParameterIBP(alpha=alpha, beta=beta)
        for n in (1, 2, 3):
            mean = alpha * sum(beta / (beta + i) for i in range(n))
            for k in range(4):
                found = chances(prior, n, k, form).sum()
                assert found == pytest.approx(stats.poisson.pmf(k, mean), rel=1e-11)


@pytest.mark.parametrize("form", FORMS)
def test_each_form_sums_to_one(form):
    finite = thali.BetaBernoulli(alpha=2.2, n_components=3)
    for n in (1, 2, 3):
        total = sum(chances(finite, n, k, form).sum() for k in range(4))
        assert total == pytest.approx(1.0, abs=1e-12)
    buffet, most = thali.IBP(alpha=0.2), 7
    beyond = stats.poisson.sf(most, 0.3)
    total = sum(chances(buffet, 2, k, form).sum() for k in range(most + 1))
    assert total + beyond == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("name", PRIORS)
def test_a_class_is_as_probable_as_all_that_it_holds(name):
    prior = PRIORS[name]
    k = 1 if name == "finite_1" else 3
    for form in FORMS[1:]:
        sums = defaultdict(list)
        for columns in members(3, k, form):
            sums[told_apart(columns, FORMS[0])].append(prior.log_prob(matrix(columns, 3), form))
        for columns, found in sums.items():
            assert np.ptp(found) < 1e-12  # whatever their order
            whole = np.exp(found).sum()
            assert whole == pytest.approx(np.exp(prior.log_prob(matrix(columns, 3))), rel=1e-11)


def test_the_forms_are_the_published_formulas(rng):
    """Over αᴷ e^{−αH} ∏ (N−m)!(m−1)!/N!, the factors of the notation page."""
    from math import factorial, prod

    alpha, n = 1.7, 4
    for _ in range(20):
        Z = thali.IBP(alpha=alpha).sample(rng, n).astype(int)
        k, m = Z.shape[1], Z.sum(axis=0).tolist()
        common = alpha**k * np.exp(-alpha * oracles.harmonic(n))
        common *= prod(factorial(n - one) * factorial(one - 1) / factorial(n) for one in m)
        columns = [tuple(column) for column in Z.T.tolist()]
        new = Counter(first_row(column) for column in columns)
        factors = {
            "left-ordered": prod(factorial(c) for c in Counter(columns).values()),
            "shifted": factorial(k),
            "first-appearance": prod(factorial(c) for c in new.values()),
        }
        for form, factor in factors.items():
            found = thali.IBP(alpha=alpha).log_prob(Z, form)
            assert found == pytest.approx(np.log(common / factor), abs=1e-10)


def played(rng, n, story):
    """Columns in the order in which the buffet's dishes are opened, or of the finite prior's own
    features, those that no row has left out."""
    if isinstance(story, int):
        alpha = {5: 1.3, 2: 3.0}[story]
        Z = rng.random((n, story)) < rng.beta(alpha / story, 1.0, story)
        return tuple(tuple(column) for column in Z.T.astype(int).tolist() if any(column))
    alpha, beta = story
    columns = []
    for i in range(n):
        for column in columns:
            column.append(int(rng.random() < sum(column) / (beta + i)))
        columns += [[0] * i + [1] for _ in range(rng.poisson(alpha * beta / (beta + i)))]
    return tuple(map(tuple, columns))


@pytest.mark.parametrize("form", FORMS[1:])
@pytest.mark.parametrize("name", PLAYED)
def test_each_form_is_the_law_of_its_story(name, form, seed):
    """Dishes in the order in which they are opened; features in no order that says anything: the
    finite prior's own, or the dishes shuffled."""
    prior, story = PLAYED[name]
    rng, n = np.random.default_rng(seed), 2
    draws = Counter()
    for _ in range(6000):
        columns = played(rng, n, story)
        if form == "shifted" and not isinstance(story, int):
            columns = tuple(columns[i] for i in rng.permutation(len(columns)))
        draws[told_apart(columns, form)] += 1
    kinds = [columns for k in range(5) for columns in sorted(members(n, k, form))]
    p = np.exp([prior.log_prob(matrix(columns, n), form) for columns in kinds])
    found = np.array([draws[columns] for columns in kinds])
    found = np.append(found, draws.total() - found.sum())
    judge("forms", {form: p_value_of_counts(found, p)})


def test_empty_columns_say_nothing_and_no_feature_is_one_matrix():
    prior = thali.IBP(alpha=2.0)
    for form in FORMS:
        none = prior.log_prob(np.zeros((3, 0)), form)
        assert none == pytest.approx(-2.0 * oracles.harmonic(3))
        assert prior.log_prob(np.zeros((3, 2)), form) == none
        some = prior.log_prob([[1, 1], [1, 1]], form)
        assert prior.log_prob([[0, 1, 0, 1], [0, 1, 0, 1]], form) == some
    assert prior.log_prob(np.eye(2), "first_appearance") == prior.log_prob(np.eye(2), FORMS[2])


@pytest.mark.parametrize("form", ["ordered", "", None, 3, ["shifted"]])
def test_a_form_that_is_none_is_refused(form):
    known = "form must be one of 'left-ordered', 'shifted', 'first-appearance', not"
    for prior in PRIORS.values():
        with pytest.raises(ValueError, match=rf"{type(prior).__name__}\.log_prob: {known}"):
            prior.log_prob(np.eye(3), form)
