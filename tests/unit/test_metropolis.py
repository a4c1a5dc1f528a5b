"""Single moves: gains against densities written out, bad input, files, refusals."""

import numpy as np
import pytest

import thali
from thali.data import Data
from thali.engines.metropolis import Moving
from thali.kernels import moving_rows
from thali.kernels.compiling import kernel
from thali.model import Model
from thali.starts import Start

Z = np.array([[1, 0, 1], [1, 1, 0], [0, 1, 0], [0, 1, 0]], bool)
LIKELIHOODS = {
    "linear": thali.LinearGaussian(0.7, 1.3),
    "nonnegative": thali.NonnegativeLinearGaussian(0.7, 1.3),
    "laplace": thali.SparseFactor("laplace", 0.7, 1.3),
    "gaussian": thali.SparseFactor("gaussian", 0.7, 1.3),
    "noisy or": thali.NoisyOr(0.1, 0.7, 0.3),
}
QUICK = thali.Metropolis(sweeps=20, chains=1)


@kernel
def gain_of(rows, n, f, on):
    return moving_rows.gain(rows, n, f, on)


@kernel
def loss_of(rows, n, f, drawn):
    return moving_rows.loss(rows, n, f, drawn)


@kernel
def turn(rng, rows, n, f, on):
    if on:
        moving_rows.turn_off(rows, n, f)
    else:
        moving_rows.turn_on(rows, rng, n, f, False)


def opened(name, gaps, rng):
    """A chain's state with its rows ready to be moved, and the likelihood at its numbers."""
    likelihood = LIKELIHOODS[name]
    A = likelihood.sample_features(rng, 3, 5)
    X = likelihood.sample(rng, Z, A)
    if gaps:
        X[0, 1] = X[1, 0] = X[3, 4] = np.nan
    model, data = Model(thali.IBP(alpha=1.0), likelihood), Data.of(X)
    state = QUICK.begin(rng, model, data, Start("given", Z, model.start(data)))
    return Moving(rng, model, state, model.prior, False), state, data


def density(name, state, data, bits, parameters):
    """log P(X_obs | Z, parameters) of the whole table."""
    W = bits * parameters["S"] if "S" in parameters else bits
    return LIKELIHOODS[name].log_likelihood(data, W, parameters["A"])


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("name", LIKELIHOODS)
def test_what_a_bit_gains_is_what_the_density_gains(name, gaps, rng):
    moving, state, data = opened(name, gaps, rng)
    for n, f in ((0, 0), (3, 0), (2, 1), (0, 1)):
        on = bool(state.bits[n, f])
        with_it, without = state.bits.astype(float), state.bits.astype(float)
        with_it[n, f], without[n, f] = 1.0, 0.0

        def at(bits, s=None, n=n, f=f):
            own = {key: value.copy() for key, value in state.parameters.items()}
            if s is not None:
                own["S"][n, f] = s
            return density(name, state, data, bits, own)

        base = at(without)
        if "S" in state.parameters:  # the amount integrated out, on a grid
            s = np.linspace(-60.0, 60.0, 60_001)
            slab = np.exp(-np.abs(s)) / 2 if name == "laplace" else np.exp(-0.5 * s**2) / 2.5066283
            middle = np.array([at(with_it, value) - base for value in (0.0, 1.0, -1.0)])
            q, p = 0.5 * (middle[1] - middle[2]), -(middle[1] + middle[2])  # a parabola in s
            wanted = np.log(np.trapezoid(slab * np.exp(q * s - 0.5 * p * s**2), s))
        else:
            wanted = at(with_it) - base
        assert gain_of(moving.rows, n, f, on) == pytest.approx(wanted, abs=1e-5, rel=1e-5)


@kernel
def propose_to(rng, rows, n, f, drawn):
    return moving_rows.propose(rows, rng, n, f, drawn)


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_new_features_come_from_their_posterior_given_what_was_observed(name, rng):
    """And from their prior where a row was not observed, whatever was drawn there."""
    rows = opened(name, True, rng)[0].rows
    field = rows.E if hasattr(rows, "E") else rows.X
    field[0, 1] = 1 if field.dtype == np.uint8 else 30.0  # not observed: nobody looks at it
    drawn = np.empty((6000, 5))
    given = np.empty(6000)
    for s in range(6000):
        propose_to(rng, rows, 0, 3, False)
        drawn[s], given[s] = rows.A[3], rows.S[0, 3] if name in ("laplace", "gaussian") else 1.0
    if name == "noisy or":
        assert abs(drawn[:, 1].mean() - 0.3) < 5.0 * np.sqrt(0.21 / 6000)
        gains = rows.logs[rows.C[0] + 1, rows.X[0]] - rows.logs[rows.C[0], rows.X[0]]
        odds = 0.3 / 0.7 * np.exp(gains)
        wanted = odds / (1.0 + odds)
    else:
        share = given * 1.3**2 / (0.7**2 + given**2 * 1.3**2)
        wanted = np.array([(share * rows.E[0, d]).mean() for d in range(5)])
        spread = 1.3 * np.abs(drawn[:, 1]).std() if name == "nonnegative" else drawn[:, 1].std()
        assert abs(np.square(drawn[:, 1]).mean() - 1.3**2) < 6.0 * spread**2 / np.sqrt(1500)
    if name != "nonnegative":
        seen = [0, 2, 3, 4]
        error = drawn.std(axis=0) / np.sqrt(6000)
        assert (np.abs(drawn.mean(axis=0) - wanted) < 5.0 * error + 1e-12)[seen].all()


@pytest.mark.parametrize("name", ["linear", "nonnegative", "noisy or"])
def test_what_a_feature_of_one_row_is_worth(name, rng):
    """Given its parameters it is a ratio of likelihoods, and integrated out its mean over them."""
    moving, state, data = opened(name, True, rng)
    bits, without = state.bits.astype(float), state.bits.astype(float)
    without[0, 2] = 0.0
    given = density(name, state, data, bits, state.parameters)
    given -= density(name, state, data, without, state.parameters)
    assert loss_of(moving.rows, 0, 2, True) == pytest.approx(given, abs=1e-9)
    ratios = []
    for _ in range(4000):
        own = {"A": state.parameters["A"].copy()}
        own["A"][2] = LIKELIHOODS[name].sample_features(rng, 1, 5)[0]
        ratios.append(density(name, state, data, bits, own))
    ratios = np.exp(np.array(ratios) - density(name, state, data, without, state.parameters))
    found, error = np.exp(loss_of(moving.rows, 0, 2, False)), ratios.std() / np.sqrt(len(ratios))
    assert abs(found - ratios.mean()) < 5.0 * error


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_turning_a_bit_there_and_back_changes_nothing(name, rng):
    moving, state, _ = opened(name, False, rng)
    before = [np.array(value) for value in moving.rows if isinstance(value, np.ndarray)]
    turn(rng, moving.rows, 3, 0, False)
    turn(rng, moving.rows, 3, 0, True)
    after = [value for value in moving.rows if isinstance(value, np.ndarray)]
    for a, b in zip(before, after, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)
    moving.close()
    assert np.array_equal(state.bits, Z)


def squared(m, n):
    return [m.sum() ** 2]


def rows_alike(m, n):
    return [float((n > 0).sum())]


PLAIN = thali.FlexibleIBP.from_expectations(m=1.5 / np.arange(1, 13), n_rows=12)


def data_of(rng):
    return rng.normal(size=(12, 4)) + 3.0 * (rng.random((12, 1)) < 0.5)


@pytest.mark.filterwarnings("ignore::thali.DegenerateFit")  # it is stopped in its burn-in
def test_auto_takes_it_where_the_prior_has_features(rng, tmp_path):
    prior, X = PLAIN.replace(features=squared, weights=(-0.3,)), data_of(rng)
    model = thali.LatentFeatures(
        likelihood="linear_gaussian", prior=prior, random_state=0, progress=False
    )
    model.set_params(engine="auto").fit(X, time_budget=1.0)
    assert type(model.engine_) is thali.Metropolis
    for engine in (thali.CollapsedGibbs(), thali.UncollapsedGibbs(), thali.Variational()):
        with pytest.raises(ValueError, match=r"Metropolis\.$"):
            thali.LatentFeatures(likelihood="linear_gaussian", prior=prior, engine=engine).fit(X)
    with pytest.raises(ValueError, match="New rows cannot be predicted"):
        model.score(X[:2])
    assert not model.prior_.normalized
    model.report(tmp_path / "report.html")
    assert "without the prior’s normalizer" in (tmp_path / "report.html").read_text("utf-8")
    with pytest.raises(TypeError, match="cannot be saved"):
        model.save("nowhere.thali")


def test_features_pull_the_number_of_features_down(rng):
    X = rng.normal(size=(12, 3)) * 0.1
    mean = {}
    for weight in (0.0, -2.0):
        prior = PLAIN.replace(features=squared, weights=(weight,))
        flat = thali.LinearGaussian(30.0, 0.01)
        engine = thali.Metropolis(sweeps=150, chains=1, init="empty", moves=60)
        model = thali.LatentFeatures(prior, flat, engine, random_state=0, progress=False).fit(X)
        mean[weight] = np.mean(model.history_["n_components"])
    assert mean[-2.0] < 1.0 < mean[0.0]


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_a_state_goes_on_from_arrays_as_if_it_had_not_stopped(name, rng):
    _, state, data = opened(name, True, rng)
    model = Model(thali.IBP(alpha=1.0), LIKELIHOODS[name])
    QUICK.step(rng, model, data, state)
    again = QUICK.from_arrays(model, data, *QUICK.to_arrays(state))
    one, two = (np.random.default_rng(5) for _ in range(2))
    for _ in range(3):
        a, b = QUICK.step(one, model, data, state), QUICK.step(two, model, data, again)
        assert a == b
    assert np.array_equal(state.bits, again.bits)


def test_an_answer_without_probability_is_called_so(rng):
    """A chain that begins with two features, and moves too few to leave them."""
    prior = PLAIN.replace(features=lambda m, n: [-np.inf if m.sum() > 1 else 0.0], weights=(1.0,))
    init = np.zeros((12, 2), bool)
    init[:6, 0] = init[6:, 1] = True
    engine = thali.Metropolis(sweeps=2, chains=1, init=init, moves=1)
    with pytest.warns(RuntimeWarning, match="probability zero"):
        thali.LatentFeatures(
            prior, likelihood="linear_gaussian", engine=engine, random_state=0, progress=False
        ).fit(10.0 * init @ rng.normal(size=(2, 4)))


WRONG = [
    (lambda: PLAIN.replace(weights=(1.0,)), ValueError, "give both"),
    (lambda: PLAIN.replace(features=3, weights=(1.0,)), TypeError, "function of"),
    (lambda: PLAIN.replace(features=squared, weights=(1.0, 2.0)), ValueError, "gives 1 numbers"),
    (lambda: PLAIN.replace(features=squared, weights=(np.nan,)), ValueError, "finite"),
    (
        lambda: PLAIN.replace(features=lambda m, n: [m[0] ** 2], weights=(0.1,)),
        ValueError,
        "no normalizer",
    ),
    (
        lambda: PLAIN.replace(features=lambda m, n: [m[-1] ** 1.5], weights=(0.1,)),
        ValueError,
        "no normalizer",
    ),
    (lambda: thali.Metropolis(block=0), ValueError, "block"),
    (lambda: thali.Metropolis(new_features="slice"), ValueError, "new_features"),
]


@pytest.mark.parametrize("case", range(len(WRONG)))
def test_wrong_features_are_refused(case):
    make, kind, words = WRONG[case]
    with pytest.raises(kind, match=words):
        make()


def test_features_that_do_not_grow_without_end_are_taken():
    for weight in (-3.0, 0.3):
        assert not PLAIN.replace(features=rows_alike, weights=(weight,)).linear
    assert PLAIN.replace(features=squared, weights=(-1.0,)).weights == (-1.0,)


def test_draws_and_the_normalizer_heed_features(rng):
    prior = thali.FlexibleIBP((0.2, -0.4), None, squared, (-0.4,))
    drawn = np.array([prior.sample(rng, 2).shape[1] for _ in range(100)])
    plain = prior.replace(features=None, weights=())
    k = np.arange(40)
    mass = plain.expected_counts(2).sum()
    logs = k * np.log(mass) - np.cumsum(np.log(np.maximum(k, 1))) - 0.4 * k**2
    law = np.exp(logs) / np.exp(logs).sum()
    mean, deviation = law @ k, np.sqrt(law @ k**2 - (law @ k) ** 2)
    assert abs(drawn.mean() - mean) < 5.0 * deviation / 10.0
    estimate, error = prior.log_normalizer(2)
    assert abs(estimate - (np.log(np.exp(logs).sum()) - mass)) < 5.0 * error
    far = prior.replace(weights=(-400.0,), column_potentials=(2.0, 1.0))
    with pytest.raises(NotImplementedError, match="chain"):
        far.sample(rng, 2)
