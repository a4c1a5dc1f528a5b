"""Calls that are wrong by far get one sentence of ours, at once: beyond floats, beyond memory."""

import io
import json
import zipfile
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import thali
from thali import datasets, machine
from thali.cli.commands import run
from thali.data import Data
from thali.data.checks import refuse_beyond_memory
from thali.data.sparse import singular_values
from thali.data.tables import read_table
from thali.engines.capabilities import missing_capabilities
from thali.model import Model
from thali.registry import ENGINES, LIKELIHOODS, PRIORS, speaking_of
from thali.run.choices import choose_engine
from thali.settings import (
    MOST,
    Settings,
    number_from_zero,
    positive_number,
    settings_of,
    shown,
    whole_number,
)
from thali.structures.features import FEATURES

HUGE = 10**400  # no float is so large
VERY_HUGE = 10**5000  # nor does Python write it out
QUICK = thali.CollapsedGibbs(sweeps=2, chains=1, init="empty")
X = np.random.default_rng(0).standard_normal((10, 3))
PICTURES = datasets.images(n=15, sigma_x=0.1)


def refused(error, words, call):
    """The call is refused in one line of no great length that has these words."""
    with pytest.raises(error) as caught:
        call()
    said = str(caught.value)
    assert words in said
    assert "\n" not in said
    assert len(said) < 400


# ------------------------------------------------------------------- integers beyond all floats


@pytest.mark.parametrize(
    "table",
    [
        [[1, 2], [HUGE, 3]],
        [[1, 2.5], [-HUGE, None]],
        np.array([[1, 2], [VERY_HUGE, 3]], object),
        pd.DataFrame({"a": [1, HUGE], "b": [2, 3]}),
        np.ma.masked_array(np.array([[1, 2], [HUGE, 3]], object), mask=[[0, 1], [0, 0]]),
        [[1, 2], [Fraction(HUGE), 3]],
    ],
)
def test_an_entry_beyond_all_floats_is_named_with_row_and_column(table):
    words = "at row 1, column 0, beyond the range of real numbers in 64 bits; divide X by its scale"
    refused(ValueError, words, lambda: Data.of(table))
    refused(
        ValueError,
        words,
        lambda: thali.LatentFeatures(likelihood="linear_gaussian", engine=QUICK).fit(table),
    )


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: thali.IBP(alpha=HUGE), "IBP: alpha must be at most 1e+15, not a number of about"),
        (lambda: thali.BetaBernoulli(alpha=HUGE), "BetaBernoulli: alpha must be at most 1e+305"),
        (lambda: thali.TwoParameterIBP(beta=HUGE), "TwoParameterIBP: beta must be at most 1e+305"),
        (lambda: thali.LinearGaussian(sigma_x=HUGE), "LinearGaussian: sigma_x must be at most"),
        (lambda: thali.SparseFactor(sigma_a=HUGE), "SparseFactor: sigma_a must be at most"),
        (lambda: thali.NoisyOr(p=HUGE), "NoisyOr: p must be at most"),
        (lambda: thali.Gamma(shape=HUGE), "Gamma: shape must be at most 1e+305"),
        (lambda: thali.InverseGamma(scale=VERY_HUGE), "InverseGamma: scale must be at most 1e+305"),
        (lambda: thali.Variational(tol=HUGE), "Variational: tol must be at most 1e+305"),
        (lambda: thali.IBP(alpha=-HUGE), "IBP: alpha must be positive and finite, not a number of"),
        (
            lambda: thali.LatentFeatures(likelihood="linear_gaussian", engine=QUICK).fit(
                X, time_budget=HUGE
            ),
            "fit: time_budget must be at most 1e+305, not a number of about 401 digits.",
        ),
    ],
)
def test_a_setting_beyond_all_floats_is_named(call, words):
    refused(ValueError, words, call)


@pytest.mark.parametrize("value", [1, 1e-3, 1e3, 1e6, 1e14, np.float32(2.0), np.int64(7)])
def test_numbers_of_any_use_are_taken(value):
    assert positive_number("part", "name", value) == value
    assert thali.IBP(alpha=value).alpha == value
    assert thali.LinearGaussian(sigma_x=value).sigma_x == value


@pytest.mark.parametrize("value", ["5", b"5", "much", None, True, [1.0]])
def test_text_is_no_number(value):
    refused(TypeError, "part: name must be a ", lambda: positive_number("part", "name", value))
    refused(TypeError, "part: name must be a ", lambda: number_from_zero("part", "name", value))


def test_a_number_from_zero_on():
    assert number_from_zero("part", "name", 0) == 0.0
    for value in (-1e-9, float("nan"), float("inf")):
        words = f"part: name must be 0 or positive, and finite, not {value!r}."
        refused(ValueError, words, lambda value=value: number_from_zero("part", "name", value))


def test_what_a_message_shows_of_a_value_is_short():
    assert shown(10**26) == "100000000000000000000000000"
    assert shown(VERY_HUGE) == "a number of about 5,001 digits"
    assert shown(Fraction(VERY_HUGE)) == "a Fraction"
    assert len(shown(np.zeros(1000))) <= 100


# --------------------------------------------------------------- hyperparameters beyond all bounds


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: thali.IBP(alpha=1e308), "IBP: alpha must be at most 1e+15, not 1e+308."),
        (lambda: thali.TwoParameterIBP(1e308, 2.0), "TwoParameterIBP: alpha must be at most 1e+15"),
        (lambda: thali.TwoParameterIBP(2.0, 1e308), "TwoParameterIBP: beta must be at most 1e+305"),
        (lambda: thali.BetaBernoulli(alpha=1e308), "BetaBernoulli: alpha must be at most 1e+305"),
        (lambda: thali.Gamma(shape=1e308), "Gamma: shape must be at most 1e+305, not 1e+308."),
        (lambda: thali.Beta(1.0, 1e308), "Beta: b must be at most 1e+305, not 1e+308."),
        (lambda: thali.LinearGaussian(1e308), "LinearGaussian: sigma_x must be at most 1e+305"),
        (
            lambda: thali.IBP(alpha=thali.Gamma(1e100, 1.0)),
            "IBP: alpha is Gamma(shape=1e+100, rate=1.0), whose center is 1e+100; it must be",
        ),
        (
            lambda: thali.LinearGaussian(thali.Gamma(1e-200, 1e200)),
            "whose center is 0; it must be positive",
        ),
    ],
)
def test_a_hyperparameter_beyond_all_bounds_is_refused_where_it_is_given(call, words):
    refused(ValueError, words, call)


@pytest.mark.parametrize("hyperprior", [thali.Gamma, thali.InverseGamma, thali.Beta])
@pytest.mark.parametrize("numbers", [(1e305, 1e305), (1e305, 1.0), (1.0, 1e305), (1e-300, 1.0)])
def test_a_hyperprior_that_is_taken_has_a_density(hyperprior, numbers):
    made = hyperprior(*numbers)
    for value in (1e-300, 0.5, 1e300):
        assert not np.isnan(made.log_density(value))


@pytest.mark.parametrize(
    ("prior", "n", "words"),
    [
        (thali.IBP(alpha=1e15), 5, "IBP.sample: 5 rows with alpha=1e+15 have about 2.79e+15 feat"),
        (thali.TwoParameterIBP(1e14, 1e9), 5, "rows with alpha=1e+14, beta=1e+09 have about 6e+14"),
        (thali.BetaBernoulli(1e300, 10**15), 5, "BetaBernoulli.sample: 5 rows with alpha=1e+300"),
        (
            thali.IBP(alpha=2.0),
            10**14,
            "more than memory holds; use a smaller alpha, or fewer rows",
        ),
    ],
)
def test_a_sample_beyond_memory_is_refused(rng, prior, n, words):
    refused(ValueError, words, lambda: prior.sample(rng, n))


def test_a_flat_hyperprior_of_the_mass_is_refused_where_it_draws_too_much():
    prior = thali.IBP(thali.InverseGamma(0.001, 0.001))
    rng = np.random.default_rng(0)
    refused(ValueError, "more than memory holds", lambda: [prior.sample(rng, 3) for _ in range(9)])


def test_unused_features_beyond_memory_are_refused(rng):
    words = "IBP: alpha=1e+14 means about 6.93e+13 unused features in a sweep"
    refused(ValueError, words, lambda: thali.IBP(1e14).unused_frequencies(rng, 5, 0, 0.5))
    assert len(thali.IBP(2.0).unused_frequencies(rng, 5, 0, 0.5)) < 50


@pytest.mark.parametrize("name", ["sigma_x", "sigma_a"])
@pytest.mark.parametrize(("value", "words"), [(1e200, "overflows"), (1e-200, "vanishes")])
def test_a_fixed_scale_whose_square_is_no_number_is_refused_at_fit(name, value, words):
    for cls in (thali.LinearGaussian, thali.NonnegativeLinearGaussian, thali.SparseFactor):
        said = f"{cls.__name__}: {name}={value:.3g} is so "
        likelihood = cls(**{name: value})
        refused(ValueError, said, lambda made=likelihood: made.resolve(Data.of(np.zeros((2, 2)))))
        refused(ValueError, words, lambda made=likelihood: made.resolve(Data.of(X)))


def test_a_density_with_noise_whose_square_overflows_is_refused():
    likelihood = thali.LinearGaussian(sigma_x=1e200, sigma_a=1.0)
    words = "LinearGaussian: sigma_x=1e+200 is so large that its square overflows"
    refused(ValueError, words, lambda: likelihood.log_marginal(X, np.ones((10, 1))))


@pytest.mark.parametrize(
    "engine",
    [
        QUICK,
        thali.UncollapsedGibbs(sweeps=2, chains=1, init="empty"),
        thali.ParticleFilter(n_particles=3),
    ],
    ids=lambda engine: type(engine).__name__,
)
def test_every_sampler_names_an_alpha_that_asks_for_too_many_features(engine):
    model = thali.LatentFeatures(
        thali.IBP(1e6), likelihood="linear_gaussian", engine=engine, random_state=0
    )
    refused(ValueError, "With alpha=1e+06 the prior gives a row more than", lambda: model.fit(X))


def test_a_truncation_beyond_memory_names_the_alpha_that_asks_for_it():
    engine = thali.Variational(n_init=1, init="empty")
    model = thali.LatentFeatures(
        thali.IBP(1e6), likelihood="linear_gaussian", engine=engine, random_state=0
    )
    words = "The truncation that alpha=1e+06 asks for has 131,072 features"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine, "physical_memory", lambda: 8 << 30)
        refused(MemoryError, words, lambda: model.fit(X))


# ----------------------------------------------------------------------------------- data sets

COUNTS = {
    "images": ("n",),
    "blocks": ("n",),
    "bars": ("n", "size"),
    "noisy_nonnegative": ("n", "d", "k"),
    "planted": ("n", "d", "k"),
    "draw": ("n", "d"),
}
SCALES = {"images": ("sigma_x",), "blocks": ("sigma_x",), "bars": ("sigma_x",)}
SCALES |= {"noisy_nonnegative": ("sigma_x",), "planted": ("sigma_x", "sigma_a")}
SHARES = {"bars": ("p",), "noisy_nonnegative": ("p", "density"), "planted": ("p",)}


def made(maker, **numbers):
    if maker == "draw":
        parts = thali.IBP(2.0), thali.LinearGaussian(0.5, 1.0)
        return datasets.draw(*parts, **numbers)
    return getattr(datasets, maker)(**numbers)


def pairs(table):
    return [(maker, name) for maker, names in table.items() for name in names]


@pytest.mark.parametrize(("maker", "name"), pairs(COUNTS))
def test_a_wrong_number_of_rows_columns_or_features_is_named(maker, name):
    for value in (-1, 0):
        words = f"{maker}: {name} must be at least 1, not {value}."
        refused(ValueError, words, lambda value=value: made(maker, **{name: value}))
    for value in (1.5, 3.0, "3", float("nan"), None, True):
        words = f"{maker}: {name} must be a whole number, not {value!r}."
        refused(TypeError, words, lambda value=value: made(maker, **{name: value}))
    refused(ValueError, f"{maker}: {name} must be at most", lambda: made(maker, **{name: 10**26}))
    refused(MemoryError, "GB of memory, more than", lambda: made(maker, **{name: 10**14}))
    assert made(maker, **{name: np.int32(2)}).X.size


@pytest.mark.parametrize(("maker", "name"), pairs(SCALES))
def test_a_wrong_scale_is_named(maker, name):
    for value in (-1.0, float("nan"), float("inf")):
        words = f"{maker}: {name} must be 0 or positive, and finite, not {value!r}."
        refused(ValueError, words, lambda value=value: made(maker, **{name: value}))
    refused(ValueError, f"{maker}: {name} must be at most", lambda: made(maker, **{name: 1e200}))
    refused(TypeError, f"{maker}: {name} must be a number", lambda: made(maker, **{name: "1"}))
    assert np.isfinite(made(maker, n=3, **{name: 0}).X).all()  # data without noise are data


@pytest.mark.parametrize(("maker", "name"), pairs(SHARES))
def test_a_wrong_probability_is_named(maker, name):
    for value in (-0.1, 0, float("nan")):
        words = f"{maker}: {name} must be positive and finite, not {value!r}."
        refused(ValueError, words, lambda value=value: made(maker, **{name: value}))
    words = f"{maker}: {name} is a probability: at most 1, not 1.5."
    refused(ValueError, words, lambda: made(maker, **{name: 1.5}))
    refused(TypeError, f"{maker}: {name} must be a positive", lambda: made(maker, **{name: "a"}))
    made(maker, n=3, **{name: 1.0})


# ------------------------------------------------------------------------------ sparse and huge


@pytest.mark.parametrize("shape", [(10**9, 5), (5, 10**9), (10**7, 10**7)])
def test_a_huge_sparse_matrix_with_next_to_no_entries_is_refused_at_once(shape):
    given = sp.coo_array(([1.0, 2.0], ([0, 1], [1, 0])), shape=shape)
    words = "columns, but only 2 entries are given: nearly all rows or columns are empty. Leave"
    for engine in ("auto", "maximization_expectation", "variational", "collapsed_gibbs"):
        refused(
            ValueError,
            words,
            lambda e=engine: thali.LatentFeatures(likelihood="linear_gaussian", engine=e).fit(
                given
            ),
        )


def test_the_command_line_says_the_same_of_a_file(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    sp.save_npz("wide.npz", sp.coo_array((5, 10**9)))
    refused(ValueError, "but only 0 entries are given", lambda: read_table("wide.npz"))
    assert run(["fit", "wide.npz"]) == 2
    assert "but only 0 entries are given" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["wide.npz"]


def test_a_sparse_matrix_beyond_memory_is_refused_before_it_is_looked_at(monkeypatch):
    given = sp.coo_array((np.ones(2000), (np.arange(2000), np.zeros(2000, int))), (10**6, 5))
    refuse_beyond_memory(given)
    monkeypatch.setattr("thali.data.checks.physical_memory", lambda: 2**24)
    words = "with a single feature they need 0 GB of memory, more than the 0 GB here. Use fewer"
    refused(
        MemoryError, words, lambda: thali.LatentFeatures(likelihood="linear_gaussian").fit(given)
    )


def test_random_projections_beyond_memory_are_refused(monkeypatch):
    given = sp.csr_array(sp.eye_array(3000, 2500))
    monkeypatch.setattr("thali.data.sparse.physical_memory", lambda: 2**20)
    refused(MemoryError, "to find where to begin takes", lambda: singular_values(given))


@pytest.mark.filterwarnings("ignore::thali.DiscreteData")
def test_a_large_sparse_matrix_with_entries_is_not_refused():
    rng = np.random.default_rng(0)
    at = rng.integers(20_000, size=90_000), rng.integers(1_400, size=90_000)
    given = sp.coo_array((np.ones(90_000), at), shape=(20_000, 1_400))
    engine = thali.MaximizationExpectation(truncation=1, n_init=1, max_iter=1, init="empty")
    assert (
        thali.LatentFeatures(likelihood="linear_gaussian", engine=engine, random_state=0)
        .fit(given)
        .X_.shape
        == given.shape
    )


# ------------------------------------------------------------------------- whole numbers, too large


@pytest.mark.parametrize("name", [*ENGINES, *PRIORS])
def test_no_whole_number_of_a_part_may_be_beyond_all_use(name):
    cls = (ENGINES if name in ENGINES else PRIORS)[name]
    for setting, said in settings_of(cls).items():
        if "int" in said.kinds:
            words = f"{cls.__name__}: {setting} must be at most {said.maximum:,}, not 1"
            refused(ValueError, words, lambda s=setting: cls(**{s: 10**26}))
            words = words.replace(", not 1", ", not a number of about 401 digits.")
            refused(ValueError, words, lambda s=setting: cls(**{s: HUGE}))


@pytest.mark.filterwarnings("ignore::thali.DegenerateFit")  # it is stopped at once
def test_many_sweeps_are_no_mistake():
    assert thali.CollapsedGibbs(sweeps=10**6).sweeps == 10**6
    engine = thali.CollapsedGibbs(sweeps=10**9, chains=1, init="empty")
    model = thali.LatentFeatures(likelihood="linear_gaussian", engine=engine, random_state=0).fit(
        X, time_budget=0.05
    )
    assert model.stopped_ == "time budget"
    assert whole_number("part", "name", MOST, 0) == MOST
    assert thali.BetaBernoulli(n_components=10**9).n_components == 10**9


def test_particles_beyond_memory_are_refused_before_anything_is_drawn():
    model = thali.LatentFeatures(
        likelihood="linear_gaussian", engine=thali.ParticleFilter(n_particles=10**15)
    )
    refused(MemoryError, "1,000,000,000,000,000 particles of 4 features", lambda: model.fit(X))


def test_factors_beyond_memory_are_refused():
    made = thali.evaluation.BayesianNMF(n_components=10**15)
    refused(MemoryError, "BayesianNMF has 1,000,000,000,000,000", lambda: made.fit(np.abs(X)))


def test_the_command_line_refuses_too_many_sweeps_in_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    np.savetxt("data.csv", X, delimiter=",")
    for option, words in (
        (["--sweeps", "1" + 26 * "0"], "--sweeps: sweeps must be at most 1,000,000,000,000,000"),
        (["--chains", "1" + 26 * "0"], "--chains: chains must be at most 10,000, not 1000"),
        (["--alpha", "1e308"], "IBP: alpha must be at most 1e+15, not 1e+308."),
        (["--alpha", "nan"], "IBP: alpha must be positive and finite, not nan."),
    ):
        assert run(["fit", "data.csv", *option]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(f"error: {words}")
    assert [path.name for path in tmp_path.iterdir()] == ["data.csv"]


# ------------------------------------------------------------------------------------ saved models


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The parts of two files: of draws, and of a distribution with a population."""
    folder = tmp_path_factory.mktemp("saved")
    engines = {
        "draws": thali.CollapsedGibbs(sweeps=4, chains=1, init=PICTURES.Z),
        "q": thali.MaximizationExpectation(n_init=1, max_iter=2, init=PICTURES.Z),
    }
    found = {}
    for name, engine in engines.items():
        model = thali.LatentFeatures(
            likelihood="linear_gaussian", engine=engine, random_state=0
        ).fit(PICTURES.X)
        assert model.n_components_ > 0
        model.save(folder / name)
        with zipfile.ZipFile(folder / name) as archive:
            found[name] = {part: archive.read(part) for part in archive.namelist()}
    return found


def written(folder, parts):
    path = folder / "m.thali"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return path


def with_entry(parts, name, at, value):
    """The parts with one entry of an array replaced."""
    array = np.load(io.BytesIO(parts[name])).copy()
    array[at] = value
    buffer = io.BytesIO()
    np.save(buffer, array)
    return {**parts, name: buffer.getvalue()}


def with_meta(parts, change):
    meta = json.loads(parts["thali.json"])
    change(meta)
    return {**parts, "thali.json": json.dumps(meta).encode()}


DAMAGED = "m.thali is damaged: its contents do not fit together ("


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 1e300])
@pytest.mark.parametrize("column", ["n_components", "alpha", "sigma_x", "sigma_a"])
@pytest.mark.parametrize("kind", ["draws", "q"])
def test_a_file_with_a_scalar_that_no_run_records_is_damaged(saved, tmp_path, kind, column, value):
    names = json.loads(saved[kind]["thali.json"])["fit"]["names"]
    for array in ("scalars", "population") if kind == "q" else ("scalars",):
        at = (-1, names.index(column))
        path = written(tmp_path, with_entry(saved[kind], f"chain0_{array}.npy", at, value))
        said = f"{DAMAGED}{column} is {value:g} in row"
        refused(ValueError, said, lambda path=path: thali.load(path))


@pytest.mark.parametrize("value", [np.inf, 1e300, -1e300])
def test_a_file_with_a_log_joint_beyond_all_bounds_is_damaged(saved, tmp_path, value):
    path = written(tmp_path, with_entry(saved["draws"], "chain0_scalars.npy", (0, 1), value))
    refused(ValueError, f"{DAMAGED}log_joint is {value:g} in row 0", lambda: thali.load(path))


@pytest.mark.parametrize(
    ("array", "value", "words"),
    [
        ("mean.npy", np.inf, "mean has a number that is infinite"),
        ("mean.npy", 1e300, "mean has a number beyond all bounds"),
        ("extra_nu.npy", np.inf, "extra_nu has a number that is infinite"),
        ("chain0_with_A.npy", np.inf, "chain0_with_A has a number that is infinite"),
        ("chain0_weights.npy", 1e300, "chain0_weights sum to 1e+300, not to 1"),
        ("chain0_weights.npy", -1.0, "chain0_weights has a number that is no weight"),
    ],
)
def test_a_file_with_an_entry_that_is_no_number_is_damaged(saved, tmp_path, array, value, words):
    parts = saved["q"]
    at = (0,) * np.load(io.BytesIO(parts[array])).ndim
    path = written(tmp_path, with_entry(parts, array, at, value))
    refused(ValueError, DAMAGED + words, lambda: thali.load(path))


def inside(*keys):
    """Set a value deep in the plain part of a file."""

    def change(meta, value):
        for key in keys[:-1]:
            meta = meta[key]
        meta[keys[-1]] = value

    return change


@pytest.mark.parametrize("value", [float("inf"), 1e300, HUGE, -1])
@pytest.mark.parametrize(
    "keys",
    [
        ("fit", "burn_in"),
        ("fit", "sweeps"),
        ("fitted", "engine", "chains"),
        ("fitted", "prior", "alpha"),
    ],
)
def test_a_file_with_a_plain_number_beyond_all_bounds_is_damaged(saved, tmp_path, keys, value):
    path = written(tmp_path, with_meta(saved["draws"], lambda m: inside(*keys)(m, value)))
    refused(ValueError, DAMAGED, lambda: thali.load(path))


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("seed",), 1e300),
        (("seed",), -1),
        (("fit", "seconds"), float("inf")),
        (("fit", "drift"), [HUGE]),
        (("fit", "log_evidence"), [float("inf")]),
    ],
)
def test_a_file_with_an_impossible_record_is_damaged(saved, tmp_path, keys, value):
    path = written(tmp_path, with_meta(saved["draws"], lambda m: inside(*keys)(m, value)))
    refused(ValueError, DAMAGED, lambda: thali.load(path))


@pytest.mark.parametrize("kind", ["draws", "q"])
def test_a_sound_file_is_opened(saved, tmp_path, kind):
    model = thali.load(written(tmp_path, saved[kind]))
    assert np.isfinite(model.score(PICTURES.X))
    unknown = with_entry(saved[kind], "chain0_scalars.npy", (0, 1), np.nan)
    assert thali.load(written(tmp_path, unknown)).n_components_ == model.n_components_


# ------------------------------------------------------------------------------ "auto" and the data


@pytest.mark.parametrize("likelihood", speaking_of(LIKELIHOODS, FEATURES))
def test_auto_takes_the_first_engine_that_takes_the_data(likelihood):
    model = Model(thali.IBP(), LIKELIHOODS[likelihood]())
    plain = choose_engine("auto", model)
    assert type(choose_engine("auto", model, missing=True)) is type(plain)  # which takes them
    takes = likelihood in ("linear_gaussian", "nonnegative_linear_gaussian")
    expected = thali.MaximizationExpectation if takes else type(plain)
    assert type(choose_engine("auto", model, sparse=True)) is expected
    assert not missing_capabilities(expected, model)
    assert choose_engine(QUICK, model, sparse=True) is QUICK
    estimator = thali.LatentFeatures(likelihood=likelihood)
    assert estimator.__sklearn_tags__().input_tags.sparse == takes
    assert estimator.__sklearn_tags__().input_tags.allow_nan


def test_auto_passes_over_an_engine_that_cannot_deal_with_gaps(monkeypatch):
    model = Model(thali.IBP(), thali.LinearGaussian())
    monkeypatch.setattr(thali.CollapsedGibbs, "masked", False)
    assert isinstance(choose_engine("auto", model), thali.CollapsedGibbs)
    assert isinstance(choose_engine("auto", model, missing=True), thali.UncollapsedGibbs)


def test_auto_fits_sparse_data_and_tells_with_what():
    given = sp.csr_array(np.where(X > 1.0, X, 0.0))
    model = thali.LatentFeatures(likelihood="linear_gaussian", random_state=0).fit(given)
    assert isinstance(model.engine_, thali.MaximizationExpectation)
    assert sp.issparse(model.X_)
    assert model.transform(given).shape == (10, model.n_components_)
    assert model.engine == "auto"


def test_auto_refuses_sparse_data_of_a_model_that_cannot_take_them():
    for call in (
        lambda: thali.LatentFeatures(likelihood="noisy_or").fit(sp.csr_array(X > 1.0)),
        lambda: thali.LatentFeatures(likelihood="sparse_factor").fit(sp.csr_array(X)),
    ):
        refused(TypeError, "X is a sparse matrix, which", call)
    centered = thali.LatentFeatures(likelihood="linear_gaussian", center=True)
    refused(ValueError, "which center=True would make dense", lambda: centered.fit(sp.csr_array(X)))


def test_the_command_line_chooses_by_the_data_too(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    sp.save_npz("tags.npz", sp.csr_array(np.where(X > 1.0, X, 0.0)))
    assert run(["fit", "tags.npz", "--seed", "0", "--sweeps", "5"]) == 2
    said = capsys.readouterr().err
    assert "maximization-expectation (chosen by auto) has no such setting" in said
    monkeypatch.setattr("thali.cli.fitting.write_outputs", lambda *_: None)  # which takes seconds
    assert run(["fit", "tags.npz", "--seed", "0"]) == 0
    assert (
        "Chosen: MaximizationExpectation, since it takes sparse matrices" in capsys.readouterr().out
    )


def test_every_part_is_one_of_settings():
    """So that what is tested of settings above is tested of all parts."""
    assert all(issubclass(cls, Settings) for cls in (*ENGINES.values(), *PRIORS.values()))


@pytest.mark.filterwarnings("ignore::thali.DiscreteData")
def test_features_that_copy_a_table_of_zeros_and_ones_are_called_so(rng):
    """Five columns of coins: nothing is shared, and noise goes to nothing."""
    X = (rng.random((60, 5)) < 0.5).astype(float)
    engine = thali.CollapsedGibbs(sweeps=150, chains=1)
    with pytest.warns(thali.DegenerateFit) as told:
        thali.LatentFeatures(
            likelihood="linear_gaussian", engine=engine, random_state=0, progress=False
        ).fit(X)
    assert any(w.category is thali.NoiseCollapsed and "noisy_or" in str(w.message) for w in told)
