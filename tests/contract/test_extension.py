"""A prior, a likelihood, an engine and a start that only this file knows work like thali's own.

They register while the tests of this file run, and nothing else is told of them: names, files, the
command line, the trace, the verdict and the report find what they declare.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pytest

import thali
from thali.cli import run
from thali.engines.base import Info, Sampler
from thali.likelihoods.base import Words
from thali.priors.base import FeaturePrior
from thali.registry import ENGINES, LIKELIHOODS, PRIORS, STARTS, Registry, import_family
from thali.settings import Label, Settings, check_settings, hyperparameter, setting
from thali.starts import Start, start


def stripes(rng, model, data):
    """Every other row has the one feature."""
    return Start("toy_stripes", np.arange(data.n)[:, None] % 2 == 0, model.start(data))


@dataclass(frozen=True)
class ToyCoin(Settings, FeaturePrior):
    """Every entry of at most ``most`` columns is on with probability ``kappa``."""

    kappa: float = hyperparameter(0.25, symbol="κ", words="how often a coin falls on heads")
    most: int = setting(3, help="Columns of the toy", minimum=1)

    def __post_init__(self):
        check_settings(self)

    def at(self, **numbers):
        return self.replace(**numbers)

    def start(self):
        return {"kappa": float(self.kappa)}

    def sample(self, rng, n):
        return rng.random((n, self.most)) < self.kappa

    def log_prob(self, Z):
        Z = np.asarray(Z, bool)
        return float(Z.sum() * np.log(self.kappa) + (~Z).sum() * np.log1p(-self.kappa))

    def log_prob_counts(self, counts):
        on = counts.column_sums.sum()
        off = counts.n * len(counts.column_sums) - on
        return float(on * np.log(self.kappa) + off * np.log1p(-self.kappa))

    def resample(self, rng, hyper, counts):
        pass

    def tables(self, n):  # a start asks for the room
        return thali.BetaBernoulli(1.0, self.most).tables(n)


@dataclass(frozen=True)
class ToyGaussian(thali.LinearGaussian):
    """The linear-Gaussian likelihood with a number more, which changes nothing."""

    gamma: float = hyperparameter(0.5, symbol="γ", words="how toy it is")

    starts: ClassVar[tuple[str, ...]] = ("toy_stripes",)
    words: ClassVar[Words] = Words("Each feature is a toy.", "X is made of toys.")

    def start(self, data):
        return {**super().start(data), "gamma": float(self.gamma)}


@dataclass
class ToyState:
    latent: np.ndarray
    hyper: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class ToyEngine(Settings, Sampler):
    """Stays where it began."""

    sweeps: int = setting(10, help="Sweeps of the toy", minimum=1)
    toy_speed: int = setting(1, help="How fast the toy goes", minimum=1)
    chains: int = setting(1, help="Chains of the toy", minimum=1)
    init: Any = setting("race", help="Where to begin")

    races: ClassVar[bool] = False
    measure_label: ClassVar[Label] = Label("toy joint", "how good the toy is")

    def __post_init__(self):
        check_settings(self)

    def steps(self, data):
        return self.sweeps

    def keeps(self, step):
        return True

    def begin(self, rng, model, data, start):
        return ToyState(start.latent, dict(start.hyper))

    def step(self, rng, model, data, state):
        fixed = model.at(state.hyper)
        log_joint = fixed.log_joint(data.X, state.latent)
        return Info(state.latent.shape[1], log_joint, dict(state.hyper), 0.0)

    def to_arrays(self, state):
        return {"Z": state.latent}, {"hyper": state.hyper}

    def from_arrays(self, model, data, arrays, numbers):
        return ToyState(arrays["Z"], numbers["hyper"])


@pytest.fixture(scope="module", autouse=True)
def registered():
    """As decorators would do it, but for these tests only: others go through all parts."""
    start("toy_stripes")(stripes)
    PRIORS.register("toy_coin")(ToyCoin)
    LIKELIHOODS.register("toy_gaussian")(ToyGaussian)
    ENGINES.register("toy_engine")(ToyEngine)
    yield
    for registry in (STARTS, PRIORS, LIKELIHOODS, ENGINES):
        for name in [name for name in registry if name.startswith("toy_")]:
            del registry[name]


@pytest.fixture(scope="module")
def X():
    return thali.datasets.images(n=12, random_state=0).X


@pytest.fixture(scope="module")
def fitted(X):
    return thali.LatentFeatures(
        "toy-coin", "toy_gaussian", ToyEngine(sweeps=6, chains=2), random_state=0
    ).fit(X)


def test_toys_are_found_by_name_and_start_where_they_say(fitted):
    assert isinstance(fitted.prior_, ToyCoin)
    assert isinstance(fitted.likelihood_, ToyGaussian)
    assert fitted.starts_ == ["toy_stripes"] * 2
    assert list(fitted.Z_[:, 0]) == [True, False] * 6


def test_toys_are_saved_and_loaded(fitted, tmp_path):
    fitted.save(tmp_path / "m.thali")
    again = thali.load(tmp_path / "m.thali")
    assert (again.prior_, again.likelihood_) == (fitted.prior_, fitted.likelihood_)
    assert again.engine_ == fitted.engine_
    assert (again.Z_ == fitted.Z_).all()


def test_what_toys_declare_reaches_plots_verdict_and_report(fitted, tmp_path):
    from thali.plots.reading import labels_of
    from thali.report.convergence import scalars

    labels = labels_of(fitted)
    assert list(labels) == ["n_components", "kappa", "sigma_x", "sigma_a", "gamma", "log_joint"]
    assert labels["kappa"] == ("κ", "how often a coin falls on heads")
    assert [line.symbol for line in scalars(fitted)] == ["K", "κ", "σₓ", "σₐ", "γ", "toy joint"]
    titles = [ax.get_title(loc="left") for ax in thali.plots.trace(fitted).axes]
    assert titles == ["K", "κ", "σₓ", "σₐ", "γ", "toy joint"]
    page = fitted.report(tmp_path / "r.html").read_text(encoding="utf-8")
    for words in ("Each feature is a toy.", "X is made of toys.", "κ, σₓ, σₐ, γ", "how toy it is"):
        assert words in page


def test_toys_work_by_name_on_the_command_line(X, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    np.save("x.npy", X)
    names = ["--prior", "toy-coin", "--likelihood", "toy_gaussian", "--engine=toy-engine"]
    own = ["--kappa", "0.5", "--most", "2", "--gamma", "3", "--toy-speed", "4", "--sweeps", "5"]
    assert run(["fit", "x.npy", *names, *own, "--init", "toy_stripes", "-q", "--out", "o"]) == 0
    model = thali.load("o/model.thali")
    assert model.prior_ == ToyCoin(0.5, 2)
    assert model.likelihood_.gamma == 3.0
    assert model.engine_ == ToyEngine(5, toy_speed=4, init="toy_stripes")
    assert run(["fit", "--help"]) == 0
    said = capsys.readouterr().out
    assert "How fast the toy goes (toy-engine: 1)" in said
    assert "How often a coin falls on heads (toy-coin: 0.25)" in said
    assert run(["fit", "x.npy", "--toy-speed", "4"]) == 2
    assert "--toy-speed belongs to --engine toy-engine" in capsys.readouterr().err
    assert run(["fit", "x.npy", "--prior", "toy-coin", "--most", "0"]) == 2
    assert "--most: most must be at least 1, not 0" in capsys.readouterr().err


def test_an_unregistered_class_is_not_made_from_a_file(fitted, tmp_path, monkeypatch):
    fitted.save(tmp_path / "m.thali")
    monkeypatch.delitem(PRIORS, "toy_coin")
    with pytest.raises(ValueError, match="no part is called 'ToyCoin'; import the module"):
        thali.load(tmp_path / "m.thali")


def test_auto_takes_the_able_engine_of_lowest_rank(monkeypatch):
    from thali.model import Model
    from thali.run.choices import choose_engine

    toys = Model(ToyCoin(), ToyGaussian())
    assert isinstance(choose_engine("auto", toys), thali.CollapsedGibbs)  # none can: it refuses
    monkeypatch.setattr(ToyEngine, "auto_rank", 3)
    assert isinstance(choose_engine("auto", toys), ToyEngine)
    monkeypatch.setattr(ToyEngine, "auto_rank", 0)
    usual = Model(thali.IBP(), thali.LinearGaussian())
    assert isinstance(choose_engine("auto", usual), ToyEngine)


def test_a_name_is_given_once_and_a_cell_may_be_run_again():
    registry = Registry("prior")
    registry.register("coin")(ToyCoin)
    registry.register("coin")(ToyCoin)
    with pytest.raises(ValueError, match="'coin' is ToyCoin already; choose another name for IBP"):
        registry.register("coin")(thali.IBP)


def test_a_new_file_of_a_family_is_imported(tmp_path, monkeypatch):
    (tmp_path / "toy_family").mkdir()
    (tmp_path / "toy_family" / "__init__.py").write_text("")
    (tmp_path / "toy_family" / "late.py").write_text(
        "from thali.starts import start\n\n\n@start('toy_late')\ndef late(rng, model, data): ...\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import_family("toy_family", [str(tmp_path / "toy_family")])
    assert STARTS["toy_late"].entries == 1


def test_parts_of_two_families_may_use_one_name(monkeypatch):
    from thali.cli.parts import FIT, Given, part_options

    @dataclass(frozen=True)
    class Shared(ToyEngine):
        """An engine with a setting that priors have too, and one that the command has."""

        alpha: float = setting(2.0, help="Another alpha")
        seed: int = setting(1, help="Another seed", minimum=0)

    monkeypatch.setitem(ENGINES, "toy_shared", Shared)
    options = {option.name: option for option in part_options(FIT, {"seed", "engine"})}
    assert options["alpha"].family == "prior"
    assert list(options["engine_alpha"].owners) == list(options["engine_seed"].owners)
    values = {"prior": "ibp", "engine": "toy-shared", "alpha": 3.0, "engine_alpha": 5.0}
    given = Given(FIT, {"seed", "engine"}, values)
    assert given.part("prior") == thali.IBP(alpha=3.0)
    assert given.engine(None) == Shared(alpha=5.0)
