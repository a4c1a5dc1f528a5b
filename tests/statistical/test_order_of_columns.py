"""The order in which bits are visited must not depend on what the columns are.

Appending a new dish at the end, as textbooks do, couples a column's age with its place; P(K) is
then off by a per cent or two, which takes about a million sweeps to see. The sweeps are driven from
compiled code here, against P(K) by enumeration of the classes [Z].
"""

import itertools

import numpy as np
import pytest
from scipy import stats
from statistical.mutants import KERNEL, mutate

import thali
from thali.data import Data
from thali.kernels.gaussian_row import Scales
from thali.kernels.hyperparameter_steps import ELSEWHERE
from thali.model import Model
from thali.starts import Start

PRIORS = {
    "ibp": thali.IBP(alpha=1.5),
    "finite": thali.BetaBernoulli(alpha=2.0, n_components=3),
}
APPENDED_AT_THE_END = [
    ("at = int(rng.random() * k)", "at = k - 1"),
    ("i = own_feature(rows.m, int(rng.random() * own))", "i = own_feature(rows.m, own - 1)"),
]
SIGMA_X, SIGMA_A = 0.6, 0.9
LIKELIHOOD = thali.LinearGaussian(sigma_x=SIGMA_X, sigma_a=SIGMA_A)
X = np.random.default_rng(1).standard_normal((3, 2)) * 1.2
X[1] = X[0] + 0.3  # two rows nearly alike share dishes, and then the order of columns matters
BATCHES = 100


def exact_law_of_k(prior, most):
    """P(K | X), by enumerating the multisets of the seven columns that three rows can have."""
    model = Model(prior, LIKELIHOOD)
    histories = np.array(list(itertools.product([0, 1], repeat=3)))[1:].astype(bool)
    log_p = np.full(most + 1, -np.inf)
    for k in range(most + 1):
        for chosen in itertools.combinations_with_replacement(range(7), k):
            Z = histories[list(chosen)].T.reshape(3, k)
            log_p[k] = np.logaddexp(log_p[k], model.log_joint(X, Z))
    return np.exp(log_p - np.logaddexp.reduce(log_p))


def smallest_p_value(kernel, prior, sweeps, seed):
    """The smallest of the batch-mean p-values of P(K = k), corrected for their number."""
    data = Data(X)
    rng = np.random.default_rng(seed)

    numbers = {"alpha": 1.0, "sigma_x": SIGMA_X, "sigma_a": SIGMA_A}
    start = Start("empty", np.zeros((3, 0), bool), numbers)
    rows = thali.CollapsedGibbs().begin(rng, Model(prior, LIKELIHOOD), data, start).rows
    tables = prior.tables(3)
    scales = Scales(SIGMA_X, SIGMA_A, 2.0)
    plan = kernel.Plan(sweeps, 0, False, 512)
    _, _, scalars, _ = kernel.sweeps(
        rng, data.reduced, data.squares, None, rows, 0, tables, scales, ELSEWHERE, plan, None
    )
    counts = scalars[:, 0]
    exact = exact_law_of_k(prior, 3 if tables.capacity > 0 else 8)
    p_values = []
    for k in range(4):
        means = (counts == k).reshape(BATCHES, -1).mean(axis=1)
        t = (means.mean() - exact[k]) / (means.std(ddof=1) / np.sqrt(BATCHES))
        p_values.append(2.0 * stats.t.sf(abs(t), BATCHES - 1))
    return 4.0 * min(p_values)


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.slow
def test_a_million_sweeps_agree_with_enumeration(prior, seed):
    from thali.kernels import collapsed_rows

    assert smallest_p_value(collapsed_rows, PRIORS[prior], 1_000_000, seed) > 1e-5


@pytest.mark.slow
def test_new_dishes_at_the_end_are_caught(seed):
    mutant = mutate(KERNEL, APPENDED_AT_THE_END)
    assert smallest_p_value(mutant, PRIORS["finite"], 1_000_000, seed) < 1e-5
