"""Scikit-learn's conventions, to the letter: its own checks, clone, search, pipelines, frames."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import thali

QUICK = thali.CollapsedGibbs(sweeps=30, chains=2)


@pytest.fixture(scope="module")
def X() -> np.ndarray:
    return thali.datasets.images(n=40, random_state=0).X


LAW = thali.Variational(truncation=6, n_init=1, max_iter=30)
CLASSES = "scikit-learn takes whatever has predict_proba and sparse input for a classifier"


def not_for_features(estimator):
    """Checks that want a probability of each of four classes: ours are of features."""
    if not estimator.__sklearn_tags__().input_tags.sparse:
        return {}
    return {f"check_estimator_sparse_{kind}": CLASSES for kind in ("array", "matrix")}


@pytest.mark.filterwarnings("ignore::thali.DegenerateFit")  # of a few sweeps, or clusters
@pytest.mark.filterwarnings("ignore:.*most rows are alone")  # in noise, of 15 sweeps and no seed
@parametrize_with_checks(
    [
        thali.LatentFeatures(likelihood="linear_gaussian", engine=QUICK),
        thali.LatentFeatures(likelihood="linear_gaussian", engine=LAW),
        thali.LatentPartition(engine=thali.CollapsedGibbs(sweeps=15, chains=1)),
        thali.LatentPartition(likelihood="normal_gamma", engine=LAW),
    ],
    expected_failed_checks=not_for_features,
)
def test_check_estimator(estimator, check):
    check(estimator)


class Counts(thali.TopicModel):
    """A topic model whose checks are made with whole numbers: scikit-learn has no tag for counts,
    and rounds the data of what takes categories."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        return tags


AS_FITTED = "fit_transform tells of documents as they were fitted, transform takes them as new"


@parametrize_with_checks(
    [Counts(engine=thali.DirectAssignment(sweeps=4, chains=1, passes=1))],
    expected_failed_checks=lambda estimator: {
        f"check_transformer_{kind}": AS_FITTED for kind in ("general", "data_not_an_array")
    },
)
def test_check_estimator_of_topics(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore::thali.DegenerateFit")  # clusters are no features
@pytest.mark.slow
@parametrize_with_checks([thali.LatentFeatures()], expected_failed_checks=not_for_features)
def test_check_estimator_at_default_settings(estimator, check):
    check(estimator)


def test_grid_search_over_sweeps(X):
    search = GridSearchCV(
        thali.LatentFeatures(likelihood="linear_gaussian", engine=QUICK, random_state=0),
        {"engine__sweeps": [5, 30]},
        cv=2,
    ).fit(X)
    assert search.best_params_["engine__sweeps"] in (5, 30)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_estimator_.engine_.sweeps == search.best_params_["engine__sweeps"]


def test_pipeline_with_a_scaler(X):
    pipeline = make_pipeline(
        StandardScaler(),
        thali.LatentFeatures(likelihood="linear_gaussian", engine=QUICK, random_state=0),
    ).fit(X)
    Z = pipeline.transform(X)
    assert Z.shape == (40, pipeline[-1].n_components_)
    assert pipeline.inverse_transform(Z).shape == X.shape
    assert list(pipeline.get_feature_names_out()) == [
        f"latentfeatures{i}" for i in range(Z.shape[1])
    ]


def test_nested_parameters_replace_the_part_and_leave_others_alone():
    model = thali.LatentFeatures()
    other = clone(model).set_params(prior__alpha=2.0, engine__sweeps=7, likelihood__sigma_x=0.5)
    assert other.prior == thali.IBP(alpha=2.0)
    assert other.engine.sweeps == 7
    assert other.likelihood == thali.LinearGaussian(sigma_x=0.5)
    assert model.prior == "ibp"
    assert clone(other).get_params()["prior__alpha"] == 2.0


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"prior__alhpa": 1.0}, "Did you mean 'alpha'"),
        ({"engine__sweep": 3}, "Did you mean 'sweeps'"),
        ({"scaler__mean": 1.0}, "nested parameters belong to"),
        ({"pior": 1.0}, "Invalid parameter"),
    ],
)
def test_unknown_parameters_are_named(wrong, words):
    with pytest.raises(ValueError, match=words):
        thali.LatentFeatures().set_params(**wrong)


def test_pandas_in_and_out(X):
    frame = pd.DataFrame(X[:, :5], columns=list("abcde"), index=[f"row {i}" for i in range(40)])
    model = thali.LatentFeatures(likelihood="linear_gaussian", engine=QUICK, random_state=0).fit(
        frame
    )
    assert list(model.feature_names_in_) == list("abcde")
    assert model.row_names_[3] == "row 3"
    out = model.set_output(transform="pandas").transform(frame)
    assert list(out.columns) == list(model.get_feature_names_out())
    assert list(out.index) == list(frame.index)


def test_fit_transform_is_fit_then_transform(X):
    model = thali.LatentFeatures(likelihood="linear_gaussian", engine=QUICK, random_state=0)
    Z = model.fit_transform(X)
    assert np.array_equal(Z, model.transform(X))
    assert set(np.unique(Z)) <= {0.0, 1.0}


def test_the_same_seed_gives_the_same_answer_and_another_does_not(X):
    def fit(seed):
        return thali.LatentFeatures(
            likelihood="linear_gaussian", engine=QUICK, random_state=seed
        ).fit(X)

    a, b, c = fit(0), fit(0), fit(1)
    assert np.array_equal(a.history_["log_joint"], b.history_["log_joint"])
    assert not np.array_equal(a.history_["log_joint"], c.history_["log_joint"])
    assert fit(np.random.RandomState(0)).seed_ == fit(np.random.RandomState(0)).seed_


def test_centering_is_undone_on_the_way_out(X):
    model = thali.LatentFeatures(
        likelihood="linear_gaussian", engine=QUICK, center=True, random_state=0
    ).fit(X + 10.0)
    assert np.allclose(model.mean_, X.mean(axis=0) + 10.0)
    assert np.allclose(model.X_, X + 10.0)
    back = model.inverse_transform(model.Z_)
    assert abs(back.mean() - (X + 10.0).mean()) < 0.2
