"""Every prior × every likelihood of partitions, up the ladder: enumeration, Geweke, mutants.

    enumeration  P(K|X), pairs that are together, rows alone and E[log hyperparameter | X] over all
                 partitions of five rows, hyperparameters by quadrature; moves on and off
    flat         rows to come alone, of which nothing is known, give back the prior
    joint        Geweke's test with all hyperparameters inferred, each likelihood
    mutants      a hyperparameter step with a factor forgotten; a gap drawn too narrow

Kernels are held to enumeration with numbers for hyperparameters in ``unit/test_cluster_rows``.
"""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp
from statistical.budget import TESTS, alarms, judge, p_value_of_difference, p_value_of_mean, pooled

import thali
from thali.data import Data
from thali.engines.clusters import gibbs
from thali.hyperparameters import Above, Beta, Gamma, Normal
from thali.model import Model
from thali.settings import hyperparameters_of
from thali.starts import Start
from thali.structures.labels import all_partitions, canonical_labels
from thali.structures.partitions import PARTITIONS

N = 5
GRID = 24  # points of a hyperprior, at the middles of as many equal shares
FEW = 14  # the same where there are three hyperparameters
FEWER = 10  # the same where their density takes long
TABLE = (0.5, -0.4, 1.2, 0.3, 2.0)


def bent(m):
    """Two features that are no sums over clusters."""
    return np.array([m.sum() ** 2, m[0] * m[1]])


PRIORS = {
    "dirichlet_process": thali.DirichletProcess(Gamma(1.5, 1.0)),
    "pitman_yor": thali.PitmanYor(Gamma(1.5, 1.0), Beta(1.0, 2.0)),
    "flexible": thali.FlexiblePartition(TABLE),
    "nonlinear": thali.FlexiblePartition(TABLE, bent, (-0.15, 0.4)),
    "smooth": thali.SmoothPartition(Normal(0.0, 1.0), Gamma(4.0, 4.0), Gamma(2.0, 2.0)),
}
GAUSSIAN = {"kappa": Gamma(2.0, 8.0), "scale": Gamma(3.0, 4.0), "mean": 0.3, "spread": (1.0, 2.0)}
LIKELIHOODS = {
    "normal_gamma": thali.NormalGamma(**GAUSSIAN),
    "normal_wishart": thali.NormalWishart(**GAUSSIAN, degrees=Above(Gamma(2.0, 1.0), 3.0)),
    "beta_bernoulli_items": thali.BetaBernoulliItems(Gamma(2.0, 2.0), Gamma(2.0, 2.0)),
    "categorical": thali.Categorical(Gamma(2.0, 2.0), levels=((0, 1, 2), (0, 1))),
    "dirichlet_multinomial": thali.DirichletMultinomial(Gamma(2.0, 2.0)),
}
ROWS = {
    "normal_gamma": [[0.1, 1.0], [0.4, 0.2], [2.6, 3.1], [2.2, 4.0], [-1.5, 0.3]],
    "normal_wishart": [[0.1, 1.0], [0.4, 0.2], [2.6, 3.1], [2.2, 4.0], [-1.5, 0.3]],
    "beta_bernoulli_items": [[1, 0, 1], [1, 0, 1], [0, 1, 1], [0, 1, 0], [1, 1, 1]],
    "categorical": [[0, 0], [0, 0], [2, 1], [2, 1], [1, 1]],
    "dirichlet_multinomial": [[4, 0, 1], [3, 1, 0], [0, 5, 1], [1, 6, 0], [0, 0, 2]],
}
GAP = {"normal_gamma": (2, 1), "normal_wishart": (2, 1), "beta_bernoulli_items": (0, 2)}
GAP |= {"categorical": (1, 0)}
CELLS = [
    (prior, likelihood, gaps, moves)
    for prior, likelihood, gaps in itertools.product(PRIORS, LIKELIHOODS, (False, True))
    if not gaps or likelihood in GAP
    for moves in (0, 3)
]
QUICK = [
    ("dirichlet_process", "normal_gamma", False, 3),
    ("pitman_yor", "categorical", True, 3),
    ("flexible", "dirichlet_multinomial", False, 3),
    ("nonlinear", "normal_gamma", False, 3),
    ("smooth", "beta_bernoulli_items", False, 3),
    ("flexible", "normal_wishart", False, 0),
]


def data_of(likelihood, gaps):
    X = np.array(ROWS[likelihood], float)
    if gaps:
        X[GAP[likelihood]] = np.nan
    return Data.of(X)


def points(part, names, count):
    """A grid of the hyperparameters that are inferred, (points, names): quantiles of their law."""
    shares, each = (np.arange(count) + 0.5) / count, []
    for name in names:
        law = getattr(part, name)
        if isinstance(law, Above):
            excess = law.excess
            each.append(law.bound + stats.gamma.ppf(shares, excess.shape, scale=1 / excess.rate))
        elif isinstance(law, Gamma):
            each.append(stats.gamma.ppf(shares, law.shape, scale=1.0 / law.rate))
        elif isinstance(law, Beta):
            each.append(stats.beta.ppf(shares, law.a, law.b))
        else:
            each.append(stats.norm.ppf(shares, law.mean, law.std))
    return np.array(list(itertools.product(*each)))


def inferred(part):
    return [k for k in hyperparameters_of(part) if not isinstance(getattr(part, k), float)]


def averaged(part, log_density, count=GRID):
    """Over the hyperparameters of a part: log mean densities of all partitions, and means of
    ``seen`` of each hyperparameter given each of them."""
    names = inferred(part)
    if not names:
        return log_density({}), {}
    grid = points(part, names, min(count, FEW) if len(names) > 2 else count)
    logs = np.array([log_density(dict(zip(names, point, strict=True))) for point in grid])
    total = logsumexp(logs, axis=0) - np.log(len(grid))
    weights = np.exp(logs - logsumexp(logs, axis=0))
    return total, {name: weights.T @ seen(grid[:, j]) for j, name in enumerate(names)}


def seen(values):
    """A bounded function of a hyperparameter, which tells apart degrees of freedom too."""
    return np.tanh(np.asarray(values) / 4.0)


EVERY = [np.array(labels) for labels in all_partitions(N)]


@cache
def prior_law(name):
    prior = PRIORS[name]
    counts = [PARTITIONS.counts(labels) for labels in EVERY]

    def log_density(numbers):
        at = prior.at(**numbers) if numbers else prior
        return np.array([at.log_prob_counts(each) for each in counts])

    return averaged(prior, log_density)


@cache
def likelihood_law(name, gaps):
    likelihood, data = LIKELIHOODS[name], data_of(name, gaps)
    likelihood = likelihood.resolve(data)
    if name == "normal_wishart" and gaps:
        return averaged(likelihood, lambda at: without_gap(likelihood.at(**at), data), FEWER)
    each = [likelihood.log_marginal_of(data, labels) for labels in EVERY]
    count = FEWER if name == "normal_wishart" else GRID
    return averaged(likelihood, lambda at: np.array([own(at) for own in each]), count)


def without_gap(likelihood, data):
    """log p(what was observed | partition): the row with a gap comes last to its cluster."""
    (row,), _ = np.nonzero(~data.observed)
    d = data.d
    center, root = likelihood.center(d), likelihood.expected(d, float(likelihood.scale))
    degrees, kappa = likelihood.degrees_for(d), float(likelihood.kappa)
    columns = np.flatnonzero(data.observed[row])
    found = []
    for labels in EVERY:
        others = np.delete(np.arange(N), row)
        total = likelihood.log_marginal(data.X[others], canonical_labels(labels[others]))
        rows = data.X[[i for i in others if labels[i] == labels[row]]] - center
        n = len(rows)
        k, nu, mean = kappa + n, degrees + n, rows.sum(axis=0) / (kappa + n)
        psi = np.diag(root**2) + rows.T @ rows - k * np.outer(mean, mean)
        df = nu - d + 1
        shape = (psi * (k + 1) / (k * df))[np.ix_(columns, columns)]
        x = (data.X[row] - center)[columns]
        found.append(total + stats.multivariate_t.logpdf(x, mean[columns], shape, df))
    return np.array(found)


def walk(engine, model, data, seed, steps):
    rng = np.random.default_rng(seed)
    start = Start("given", np.zeros(N, np.int64), model.start(data))
    state = engine.begin(rng, model, data, start)
    labels, hyper = [], []
    for _ in range(steps):
        drawn = engine.several(rng, model, data, state, 1)[0]
        labels.append(drawn.packed.astype(int))
        hyper.append(drawn.info.hyper)
    return np.array(labels), hyper


def check(prior, likelihood, gaps, moves, seed, steps):
    data = data_of(likelihood, gaps)
    model = Model(PRIORS[prior], LIKELIHOODS[likelihood]).resolve(data)
    labels, hyper = walk(thali.CollapsedGibbs(moves=moves), model, data, seed, steps)
    log_prior, of_prior = prior_law(prior)
    log_likelihood, of_likelihood = likelihood_law(likelihood, gaps)
    logs = log_prior + log_likelihood
    law = np.exp(logs - logsumexp(logs))
    found = {}
    k, every_k = labels.max(axis=1) + 1, np.array([c.max() + 1 for c in EVERY])
    p_of_k = np.array([law[every_k == j].sum() for j in range(1, N + 1)])
    for cell in pooled(p_of_k)[:-1]:
        inside = np.isin(k, np.array(cell) + 1)
        found[f"K in {cell}"] = p_value_of_mean(inside, p_of_k[cell].sum())
    for i, j in ((0, 1), (2, 3), (1, 4)):
        together = np.array([c[i] == c[j] for c in EVERY], float)
        found[f"{i} with {j}"] = p_value_of_mean(labels[:, i] == labels[:, j], law @ together)
    for part, expected in (("prior", of_prior), ("likelihood", of_likelihood)):
        for name, means in expected.items():
            label = model.labels[part][name]
            series = seen([each[label] for each in hyper])
            found[f"E seen {label}"] = p_value_of_mean(series, float(law @ means))
    return found


@pytest.mark.parametrize("cell", [c for c in CELLS if c in QUICK], ids=str)
def test_the_law_is_that_of_all_partitions(cell, seed):
    judge("partition_ladder", check(*cell, seed, 2000))


@pytest.mark.slow
@pytest.mark.parametrize("cell", [c for c in CELLS if c not in QUICK], ids=str)
def test_the_law_is_that_of_all_partitions_slow(cell, seed):
    judge("partition_ladder", check(*cell, seed, 8000))


# ---- the prior given back ------------------------------------------------------------------------


@pytest.mark.parametrize("prior", ["pitman_yor", "flexible", "nonlinear", "smooth"])
def test_rows_to_come_have_the_law_of_the_prior(prior, seed):
    """One row of data, which says nothing of the others, and four to come."""
    data = Data.of([[0.3, 0.1]])
    data = Data(data.X, None, N - 1)
    model = Model(PRIORS[prior], thali.NormalGamma(0.1, 1.0, mean=0.0, spread=1.0))
    rng = np.random.default_rng(seed)
    start = Start("given", np.zeros(1, np.int64), model.start(data))
    engine = thali.CollapsedGibbs(moves=2)
    state = engine.begin(rng, model, data, start)
    k = [engine.several(rng, model, data, state, 1)[0].info.n_components for _ in range(2500)]
    logs, _ = prior_law(prior)
    law, every_k = np.exp(logs - logsumexp(logs)), np.array([c.max() + 1 for c in EVERY])
    p_of_k = np.array([law[every_k == j].sum() for j in range(1, N + 1)])
    found = {
        f"K in {cell}": p_value_of_mean(np.isin(k, np.array(cell) + 1), p_of_k[cell].sum())
        for cell in pooled(p_of_k)[:-1]
    }
    judge("partition_ladder", found)


# ---- Geweke --------------------------------------------------------------------------------------


def simulate(rng, name, likelihood, labels, hyper):
    """X given a partition, the clusters' parameters drawn first."""
    X = np.zeros((len(labels), len(ROWS[name][0])))
    d = X.shape[1]
    for k in range(labels.max() + 1):
        rows = np.flatnonzero(labels == k)
        X[rows] = simulate_cluster(rng, name, likelihood, len(rows), d, hyper)
    return X


def simulate_cluster(rng, name, likelihood, n, d, hyper):
    if name == "normal_gamma":
        tau = rng.gamma(likelihood.shape, 1.0 / likelihood.rates(d, hyper["scale"]))
        mu = likelihood.center(d) + rng.normal(size=d) / np.sqrt(hyper["kappa"] * tau)
        return mu + rng.normal(size=(n, d)) / np.sqrt(tau)
    if name == "normal_wishart":
        psi = np.diag(likelihood.at(degrees=hyper["degrees"]).expected(d, hyper["scale"]) ** 2)
        cov = np.atleast_2d(stats.invwishart.rvs(hyper["degrees"], psi, random_state=rng))
        mu = rng.multivariate_normal(likelihood.center(d), cov / hyper["kappa"])
        return rng.multivariate_normal(mu, cov, size=n)
    if name == "beta_bernoulli_items":
        p = rng.beta(hyper["a"], hyper["b"], size=d)
        return (rng.random((n, d)) < p).astype(float)
    if name == "categorical":
        sizes = [len(own) for own in likelihood.levels]
        chances = [rng.dirichlet(np.full(size, hyper["concentration"])) for size in sizes]
        return np.column_stack([rng.choice(len(p), n, p=p) for p in chances]).astype(float)
    p = rng.dirichlet(np.full(d, hyper["concentration"]))
    return rng.multinomial(3, p, size=n).astype(float)


def statistics(labels, hyper, X):
    sizes = np.bincount(labels)
    names = sorted(hyper)
    return [len(sizes), (sizes == 1).sum(), *(seen(hyper[k]) for k in names), np.tanh(X[0, 0])]


def joint(name, seed, steps, prior="dirichlet_process"):
    rng, likelihood = np.random.default_rng(seed), LIKELIHOODS[name]
    prior, engine = PRIORS[prior], thali.CollapsedGibbs(moves=1)
    likelihood = likelihood.resolve(data_of(name, False))
    model = Model(prior, likelihood)
    forward, backward = [], []
    for _ in range(steps):
        own = {k: getattr(prior, k).sample(rng) for k in inferred(prior)}
        labels = (prior.at(**own) if own else prior).sample(rng, N)
        own |= {k: getattr(likelihood, k).sample(rng) for k in inferred(likelihood)}
        hyper = model.start(data_of(name, False)) | own
        X = simulate(rng, name, likelihood, labels, hyper)
        forward.append(statistics(labels, hyper, X))
    for _ in range(steps):
        data = Data.of(X)
        state = gibbs.state_of(model, data, labels, dict(hyper))
        drawn = engine.several(rng, model, data, state, 1)[0]
        labels, hyper = drawn.packed.astype(int), drawn.info.hyper
        X = simulate(rng, name, likelihood, labels, hyper)
        backward.append(statistics(labels, hyper, X))
    one, other = np.array(forward), np.array(backward)
    return {str(j): p_value_of_difference(one[:, j], other[:, j]) for j in range(one.shape[1])}


JOINT = [
    name
    if name in ("normal_wishart", "categorical")
    else pytest.param(name, marks=pytest.mark.slow)
    for name in LIKELIHOODS
]


@pytest.mark.parametrize("name", JOINT)
def test_the_joint_law_is_kept(name, seed):
    judge("partition_ladder", joint(name, seed, 2000))


@pytest.mark.slow
@pytest.mark.parametrize("prior", [name for name in PRIORS if name != "dirichlet_process"])
def test_the_joint_law_is_kept_under_every_prior(prior, seed):
    judge("partition_ladder", joint("categorical", seed, 2500, prior))


# ---- mutants -------------------------------------------------------------------------------------


def test_a_forgotten_jacobian_is_caught(monkeypatch, seed):
    """Of log s, in the slice step of widths and nearness."""
    from statistical.mutants import mutate

    from thali.kernels import cluster_scales

    broken = mutate("thali.kernels.cluster_scales", [("(law.power + 1.0) * u", "law.power * u")])
    for name in ("draw_width", "draw_nearness"):
        monkeypatch.setattr(cluster_scales, name, getattr(broken, name))
    found = check("dirichlet_process", "normal_gamma", False, 0, seed, 4000)
    assert alarms(found)


@pytest.mark.slow
def test_a_gap_drawn_too_narrow_is_caught(monkeypatch, seed):
    from statistical.mutants import mutate

    from thali.kernels import normal_wishart

    change = [("np.sqrt((1.0 + length) / rng", "0.3 * np.sqrt((1.0 + length) / rng")]
    broken = mutate("thali.kernels.normal_wishart", change)
    monkeypatch.setattr(normal_wishart, "redraw", broken.redraw)
    found = check("dirichlet_process", "normal_wishart", True, 0, seed, 6000)
    assert alarms(found)


def test_moves_that_forget_what_lies_beyond_the_linear_part_are_caught(monkeypatch, seed):
    from statistical.mutants import mutate

    from thali.engines.clusters import gibbs

    change = [("if np.log(1.0 - rng.random()) >= gain:", "if gain == np.inf:")]
    broken = mutate("thali.engines.clusters.gibbs", change)
    monkeypatch.setattr(gibbs, "split_and_merge_near", broken.split_and_merge_near)
    monkeypatch.setitem(PRIORS, "bent", thali.FlexiblePartition(TABLE, bent, (-1.0, 2.0)))
    assert alarms(check("bent", "normal_gamma", False, 20, seed, 1500))


def test_the_grid_is_counted():
    geweke = len(LIKELIHOODS) + len(PRIORS) - 1
    assert TESTS["partition_ladder"] == len(CELLS) + 4 + geweke
    assert set(QUICK) <= set(CELLS)
    assert {cell[0] for cell in QUICK} == set(PRIORS)
    assert {cell[1] for cell in QUICK} == set(LIKELIHOODS)
