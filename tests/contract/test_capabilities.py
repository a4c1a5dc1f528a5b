"""Every engine × prior × likelihood: the declarations decide, and what they allow runs."""

import itertools
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.special import gammaln

import thali
from thali.data import Data
from thali.engines.capabilities import missing_capabilities
from thali.engines.topics.state import state_of
from thali.likelihoods.base import Collapsed, FeatureLikelihood
from thali.likelihoods.gaussian_clusters import GaussianClusters
from thali.likelihoods.gibbs_updates import GibbsState
from thali.model import Model
from thali.priors.base import FeaturePrior
from thali.registry import ENGINES, LIKELIHOODS, PRIORS, speaking_of
from thali.results.fit import VariationalFit
from thali.run.choices import check_engine
from thali.settings import Settings
from thali.structures.features import FEATURES, Features
from thali.structures.grouped_partitions import GROUPED_PARTITIONS
from thali.structures.partitions import PARTITIONS

SMALL = {  # settings of a short run
    "particle_filter": {"n_particles": 30, "passes": 2},
    "variational": {"truncation": 4, "max_iter": 20},
    "maximization_expectation": {"truncation": 4, "max_iter": 20},
    "beam_search": {"width": 3, "n_init": 1},
}
GRID = list(
    itertools.product(ENGINES, speaking_of(PRIORS, FEATURES), speaking_of(LIKELIHOODS, FEATURES))
)
OF_PARTITIONS = list(
    itertools.product(
        ENGINES, speaking_of(PRIORS, PARTITIONS), speaking_of(LIKELIHOODS, PARTITIONS)
    )
)
OF_TOPICS = list(
    itertools.product(
        ENGINES,
        speaking_of(PRIORS, GROUPED_PARTITIONS),
        speaking_of(LIKELIHOODS, GROUPED_PARTITIONS),
    )
)
OTHERWISE = {  # priors that describe so many rows
    "flexible_partition": thali.FlexiblePartition(tuple(gammaln(np.arange(1.0, 13.0)))),
    "flexible_ibp": thali.FlexibleIBP.from_expectations(m=[1.0, 1.0, 1.0, 1.0], n_rows=12),
}


@pytest.mark.parametrize(("engine", "prior", "likelihood"), GRID)
def test_every_allowed_combination_runs_and_reports_its_log_joint(engine, prior, likelihood):
    own = OTHERWISE.get(prior) or PRIORS[prior]()
    model = Model(own, LIKELIHOODS[likelihood]())
    if missing_capabilities(ENGINES[engine], model):
        with pytest.raises(ValueError, match="cannot run"):
            check_engine(ENGINES[engine](), model)
        return
    X = thali.datasets.images(n=12, random_state=0).X
    if likelihood in ("noisy_or", "probit"):
        X = (X > 0.5).astype(float)
    if likelihood == "poisson":
        X = np.rint(np.abs(4.0 * X))
    fitted = thali.LatentFeatures(
        own,
        likelihood,
        ENGINES[engine](**SMALL.get(engine, {"sweeps": 6, "chains": 2})),
        random_state=0,
    ).fit(X)
    if isinstance(fitted.fit_, VariationalFit):
        check_law(fitted)
        return
    best = fitted.best_
    fixed = Model(fitted.prior_, fitted.likelihood_).at(best.hyper)
    if isinstance(fixed.likelihood, Collapsed):
        assert np.isclose(fixed.log_joint(X, best.Z), best.log_joint, rtol=1e-10)
    else:
        parameters = {"A": best.A, **best.parameters}
        place = GibbsState(Data(X), best.Z, parameters, best.hyper)
        density = fixed.likelihood.log_density(place)
        assert np.isclose(density + fixed.prior.log_prob(best.Z), best.log_joint, rtol=1e-10)
    assert best.A.shape == (best.Z.shape[1], X.shape[1])


@pytest.mark.parametrize(("engine", "prior", "likelihood"), OF_PARTITIONS)
def test_every_allowed_combination_of_clusters_runs_too(engine, prior, likelihood):
    own = OTHERWISE.get(prior) or PRIORS[prior]()
    model = Model(own, LIKELIHOODS[likelihood]())
    if missing_capabilities(ENGINES[engine], model):
        with pytest.raises(ValueError, match="cannot run"):
            check_engine(ENGINES[engine](), model)
        return
    X = thali.datasets.images(n=12, random_state=0).X[:, ::6]
    if not issubclass(LIKELIHOODS[likelihood], GaussianClusters):
        X = (X > 0.5).astype(float)
    settings = ENGINES[engine](**SMALL.get(engine, {"sweeps": 6, "chains": 2}))
    fitted = thali.LatentPartition(own, likelihood, settings, random_state=0).fit(X)
    assert fitted.labels_.shape == (12,)
    assert np.isfinite(fitted.log_joint_)
    if not isinstance(fitted.fit_, VariationalFit):
        best = fitted.best_
        fixed = Model(fitted.prior_, fitted.likelihood_).at(best.hyper)
        assert np.isclose(fixed.log_joint(X, best.labels), best.log_joint, rtol=1e-10)


@pytest.mark.parametrize(("engine", "prior", "likelihood"), OF_TOPICS)
def test_every_allowed_combination_of_topics_runs_too(engine, prior, likelihood):
    model = Model(PRIORS[prior](), LIKELIHOODS[likelihood]())
    if missing_capabilities(ENGINES[engine], model):
        with pytest.raises(ValueError, match="cannot run"):
            check_engine(ENGINES[engine](), model)
        return
    X = np.random.default_rng(0).poisson(0.7, (12, 8))
    settings = ENGINES[engine](sweeps=6, chains=2)
    fitted = thali.TopicModel(prior, likelihood, settings, random_state=0).fit(X)
    assert fitted.document_topics_.shape == (12, fitted.n_components_)
    assert fitted.transform(X).shape == (12, fitted.n_components_)
    fit = fitted.fit_
    for draw in fit.draws():  # what is maintained is what there is
        state = state_of(fit.model, fit.data, draw.latent, fit.hyper_of(draw.scalars))
        at = fit.model.at(state.hyper)
        value = at.prior.log_prob_counts(state.counts())
        value += at.likelihood.log_marginal_of(state.word_counts())
        assert np.isclose(value, draw.scalars["log_joint"], rtol=1e-10)


def check_law(fitted):
    """A variational result has no best draw, and the log joint of its answer."""
    assert fitted.assignment_probabilities_.shape == fitted.Z_.shape == (12, fitted.n_components_)
    assert np.isfinite([fitted.elbo_, fitted.log_joint_]).all()
    parameters = {"A": fitted.components_, **{"S": getattr(fitted, "amounts_", None)}}
    fixed = Model(fitted.prior_, fitted.likelihood_).at(fitted.fit_.mean_hyper())
    if isinstance(fixed.likelihood, Collapsed):
        assert np.isclose(fixed.log_joint(fitted.X_, fitted.Z_), fitted.log_joint_, rtol=1e-10)
    else:
        place = GibbsState(
            Data(fitted.X_), fitted.Z_.astype(np.uint8), parameters, fitted.fit_.mean_hyper()
        )
        density = fixed.likelihood.log_density(place)
        assert np.isclose(density + fixed.prior.log_prob(fitted.Z_), fitted.log_joint_, rtol=1e-10)


@dataclass(frozen=True)
class Bare(Settings, FeaturePrior):
    """A prior that declares no capability."""

    def at(self, **numbers):
        return self

    def start(self):
        return {}

    def sample(self, rng, n):
        return np.zeros((n, 0), bool)

    def log_prob(self, Z):
        return 0.0

    def log_prob_counts(self, counts):
        return 0.0

    def resample(self, rng, hyper, counts):
        pass


def test_a_refusal_says_what_is_missing_and_what_would_work():
    with pytest.raises(ValueError, match="CollapsedGibbs cannot run Bare × LinearGaussian: it nee"):
        thali.LatentFeatures(likelihood="linear_gaussian", prior=Bare()).fit(np.ones((3, 2)))
    with pytest.raises(ValueError, match="PredictsRow, which Bare does not have"):
        thali.LatentFeatures(likelihood="linear_gaussian", prior=Bare()).fit(np.ones((3, 2)))


def test_mismatched_structures_are_refused():
    class Partitions(Features):
        name = "partitions"

    class OfPartitions(FeatureLikelihood):
        structure = Partitions()

        def at(self, **numbers):
            return self

        def resolve(self, data):
            return self

        def start(self, data):
            return {}

    with pytest.raises(ValueError, match="prior on features but OfPartitions needs partitions"):
        Model(thali.IBP(), OfPartitions())


@pytest.mark.parametrize(
    ("part", "value", "words"),
    [
        ("prior", "ipb", "Did you mean 'ibp'"),
        ("likelihood", "gaussian", "use one of linear_gaussian"),
        ("engine", "colapsed_gibbs", "Did you mean 'collapsed_gibbs'"),
        ("prior", 3, "is not a prior"),
        ("engine", 3, "is not an engine"),
        ("prior", thali.IBP, r"prior=IBP is a class; write IBP\(\), with brackets"),
        ("likelihood", thali.LinearGaussian, r"write LinearGaussian\(\), with brackets"),
        ("engine", thali.CollapsedGibbs, r"write CollapsedGibbs\(\), with brackets"),
        ("prior", thali.LinearGaussian(), r"is not a prior but a likelihood: .* thali.IBP\(\)"),
        ("likelihood", thali.IBP(), "is not a likelihood but a prior"),
        ("engine", thali.IBP(), "is not an engine"),
        ("likelihood", thali.CollapsedGibbs(), "is not a likelihood: use one of"),
    ],
)
def test_unknown_parts_are_named(part, value, words):
    model = thali.LatentFeatures(**{part: value})
    assert model.get_params()[part] is value  # and so can be looked at
    with pytest.raises((ValueError, TypeError), match=words):
        model.fit(np.ones((3, 2)))


def test_a_setting_of_a_class_is_refused_with_words():
    with pytest.raises(TypeError, match=r"write IBP\(\), with brackets"):
        thali.LatentFeatures(likelihood="linear_gaussian", prior=thali.IBP).set_params(
            prior__alpha=2.0
        )
