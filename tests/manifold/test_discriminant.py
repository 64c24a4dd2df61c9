"""Linear discriminant analysis beside scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import discriminant_analysis
from sklearn.datasets import load_breast_cancer, load_iris, load_wine

from benthic.manifold import LinearDiscriminantAnalysis

pytestmark = pytest.mark.spec("H-04")


@pytest.mark.parametrize("load", [load_iris, load_wine, load_breast_cancer], ids=["iris", "wine", "cancer"])
@pytest.mark.parametrize("shrinkage", [None, "auto", 0.3])
def test_the_same_as_scikit_learn(load, shrinkage):
    X, y = load(return_X_y=True)
    X = (X - X.mean(0)) / X.std(0)
    ours = LinearDiscriminantAnalysis(shrinkage=shrinkage).fit(X, y)
    if shrinkage == "auto":  # scikit-learn shrinks each class on its own scale; here the pooled covariance is shrunk
        assert 0 < ours.shrinkage_ < 1 and ours.score(X, y) > 0.93
        return
    theirs = discriminant_analysis.LinearDiscriminantAnalysis(
        solver="svd" if shrinkage is None else "lsqr", shrinkage=shrinkage
    ).fit(X, y)
    if shrinkage is None:
        np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-8)
        np.testing.assert_allclose(np.abs(ours.transform(X)), np.abs(theirs.transform(X)), rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(ours.explained_variance_ratio_, theirs.explained_variance_ratio_, atol=1e-9)
        np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=1e-6, atol=1e-8)
    assert (ours.predict(X) == theirs.predict(X)).mean() > 0.99


def test_codes_have_unit_spread_within_classes():
    X, y = load_wine(return_X_y=True)
    codes = LinearDiscriminantAnalysis().fit(X, y).transform(X)
    within = sum((codes[y == k] - codes[y == k].mean(0)).T @ (codes[y == k] - codes[y == k].mean(0)) for k in range(3))
    np.testing.assert_allclose(within / len(X), np.eye(2), atol=1e-8)


def test_priors_move_the_boundary():
    X, y = load_breast_cancer(return_X_y=True)
    even = LinearDiscriminantAnalysis(priors=[0.5, 0.5]).fit(X, y).decision_function(X)
    odd = LinearDiscriminantAnalysis(priors=[0.9, 0.1]).fit(X, y).decision_function(X)
    np.testing.assert_allclose(even - odd, np.log(9), rtol=1e-6)


def test_files_are_summed_up(tmp_path):
    X, y = load_iris(return_X_y=True)
    path = tmp_path / "iris.csv"
    np.savetxt(path, np.column_stack([X, y]), delimiter=",", header="a,b,c,d,y", comments="", fmt="%.17g")
    read = LinearDiscriminantAnalysis(trainer={"batch_size": 33, "verbose": False}).fit(path, "y")
    np.testing.assert_allclose(read.coef_, LinearDiscriminantAnalysis().fit(X, y).coef_, rtol=1e-7)


def test_classes_without_spread_in_a_column_and_more_columns_than_rows():
    X, y = load_iris(return_X_y=True)
    wide = np.column_stack([X, np.ones(len(X)), X[:, 0]])
    model = LinearDiscriminantAnalysis().fit(wide, y)
    assert model.score(wide, y) > 0.97
    few = np.random.default_rng(0).normal(size=(20, 50))
    assert LinearDiscriminantAnalysis(shrinkage="auto").fit(few, np.arange(20) % 2).score(few, np.arange(20) % 2) == 1.0


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"n_components": 3}, "cannot be larger than min"),
        ({"n_components": 0}, "n_components is 0"),
        ({"shrinkage": 2.0}, "shrinkage is 2.0"),
        ({"priors": [0.5, 0.5]}, "priors must be 3 numbers"),
    ],
)
def test_bad_settings_are_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        LinearDiscriminantAnalysis(**settings).fit(*load_iris(return_X_y=True))
