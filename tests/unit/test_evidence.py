"""``model.evidence()``: what it returns, keeps and refuses; its numbers are judged elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import thali
from thali.data import Data
from thali.likelihoods.linear_gaussian import LinearGaussian
from thali.likelihoods.tempered import Tempered
from thali.model import Model
from thali.results.evidence import evidence_of
from thali.run import evidence as module

X = thali.datasets.images(n=5, random_state=0).X[:, ::12]
FEW = {"n_runs": 4, "steps": 5, "reverse_runs": 2}


def fitted(prior="ibp", likelihood="linear_gaussian", X=X, **settings):
    engine = thali.UncollapsedGibbs(sweeps=30, chains=1)
    return thali.LatentFeatures(
        prior, likelihood, engine, random_state=0, progress=False, **settings
    ).fit(X)


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    monkeypatch.setattr(module, "warn", lambda found: None)


@pytest.mark.parametrize(
    "likelihood", ["linear_gaussian", "nonnegative_linear_gaussian", "sparse_factor", "noisy_or"]
)
@pytest.mark.parametrize(
    "prior", [thali.LearnedIBP(), thali.SmoothIBP(power=1.0)], ids=["learned", "smooth"]
)
def test_every_likelihood_with_priors_that_infer(prior, likelihood):
    values = (X > 0.5).astype(float) if likelihood == "noisy_or" else X
    found = fitted(prior, likelihood, values).evidence(**FEW)
    assert np.isfinite([found.estimate, found.error, found.upper, *found.runs]).all()


def test_it_is_computed_once_and_forgotten_by_the_next_fit(monkeypatch):
    asked = []
    answer = evidence_of(np.array([-3.0, -3.5]))

    def counted(self, **settings):
        asked.append(settings)
        return answer

    monkeypatch.setattr(thali.LatentFeatures, "evidence", counted)
    model = fitted()
    assert not asked  # not before it is asked for
    assert (model.log_evidence_, model.log_evidence_error_) == answer[:2]
    assert asked == [{}]
    assert model.fit(X).log_evidence_ == answer.estimate
    assert asked == [{}, {}]


def test_a_seed_fixes_the_answer():
    model = fitted()
    first, again = (model.evidence(**FEW) for _ in range(2))
    assert first.runs.tolist() == again.runs.tolist()
    other = model.evidence(**FEW, random_state=1)
    assert first.estimate != other.estimate


def test_a_particle_filter_keeps_its_own():
    engine = thali.ParticleFilter(n_particles=20)
    model = thali.LatentFeatures(likelihood="linear_gaussian", engine=engine, random_state=0).fit(X)
    assert model.log_evidence_ == model.fit_.log_evidence
    assert np.isnan(model.log_evidence_error_)


def test_expected_numbers_that_were_given_are_no_part_of_the_prior(rng):
    Z, hyper = thali.LearnedIBP(2.0, expected=np.full(3, 1e9)).sample_with_hyper(rng, 3)
    assert Z.shape[1] < 100
    assert hyper["alpha"] == 2.0
    assert hyper["expected"].shape == (3,)


def test_what_cannot_be_had_is_refused():
    with pytest.raises(ValueError, match="normalizer is not known"):
        fitted(thali.FlexibleIBP((0.0,) * 5, (0.0, 0.5, 0.2))).evidence()
    model = Model(thali.IBP(1.0), LinearGaussian(1.0, 1.0))
    with pytest.raises(ValueError, match="sparse matrix"):
        module.refuse(model, Data.of(scipy.sparse.csr_array(X)))
    with pytest.raises(ValueError, match="at least 1"):
        fitted().evidence(n_runs=0)


def test_a_likelihood_that_is_not_tempered_is_refused(monkeypatch):
    monkeypatch.setattr(module, "Tempered", type("Other", (Tempered,), {}))
    model = Model(thali.IBP(1.0), LinearGaussian(1.0, 1.0))
    with pytest.raises(ValueError, match="LinearGaussian cannot be let in by degrees"):
        module.refuse(model, Data.of(X))


def test_the_error_grows_where_one_run_is_all():
    alike, rng = np.array([-3.0, -3.2, -2.9, -3.1]), np.random.default_rng(0)
    w = np.exp(alike)
    delta = w.std(ddof=1) / w.mean() / 2.0
    assert abs(evidence_of(alike).error - delta) < 0.05 * delta
    apart = np.append(rng.normal(-50.0, 1.0, size=15), -30.0)
    assert evidence_of(apart).error > 10.0
    assert evidence_of(apart).effective_runs < 1.01
    assert np.isnan(evidence_of(np.array([-1.0])).error)


def test_an_uncertain_answer_says_so(monkeypatch):
    monkeypatch.undo()
    with pytest.warns(RuntimeWarning, match=r"of 16 runs 1.0 count .* likely below the truth"):
        module.warn(evidence_of(np.append(np.full(15, -50.0), -30.0)))
    with pytest.warns(RuntimeWarning, match=r"posterior say -10.0"):
        module.warn(evidence_of(np.full(16, -50.0))._replace(upper=-10.0))
    module.warn(evidence_of(np.full(16, -50.0))._replace(upper=-49.5))


def test_nothing_is_seen_at_first_and_all_at_last():
    """f_0 = 1 and f_1 = P(X | Z, parameters), for every likelihood."""
    rng = np.random.default_rng(0)
    for name in ("linear_gaussian", "nonnegative_linear_gaussian", "sparse_factor", "noisy_or"):
        values = (X > 0.5).astype(float) if name == "noisy_or" else X
        model, data = fitted("ibp", name, values).fit_.model, Data.of(values)
        hyper = model.start(data)
        engine = thali.UncollapsedGibbs()
        chain = module.Annealed.from_prior(rng, model, data, engine)
        chain.hyper.update(hyper)
        first = chain.log_f(module.NOTHING)
        chain.data = Data.of(1.0 - values if name == "noisy_or" else values + 5.0)
        chain._look()
        assert np.isclose(first, chain.log_f(module.NOTHING), atol=1e-6)  # whatever the data
        assert np.isclose(chain.log_f(1.0), chain.densities(chain.hyper))


def test_a_bayes_factor_of_few_draws_is_refused():
    X = thali.datasets.images(n=10, random_state=0).X
    engine = thali.CollapsedGibbs(sweeps=12, chains=1)
    one, other = (
        thali.LatentFeatures(
            thali.IBP(alpha=a),
            likelihood="linear_gaussian",
            engine=engine,
            random_state=0,
            progress=False,
        )
        for a in (1.0, 2.0)
    )
    with pytest.raises(ValueError, match="20 or more"):
        thali.evaluation.log_bayes_factor(one.fit(X), other.fit(X))


def test_models_without_evidence_have_no_such_attribute():
    X = thali.datasets.images(n=8, random_state=0).X
    prior = thali.FlexibleIBP.from_expectations(m=[1.0, 0.5], n_rows=8).replace(
        row_potentials=(0.0, 0.1)
    )
    engine = thali.CollapsedGibbs(sweeps=4, chains=1)
    model = thali.LatentFeatures(
        prior, likelihood="linear_gaussian", engine=engine, random_state=0, progress=False
    ).fit(X)
    assert not hasattr(model, "log_evidence_")
    with pytest.raises(ValueError, match="weighs the number"):
        model.evidence()
