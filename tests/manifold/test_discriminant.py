"""Linear discriminant analysis beside scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import discriminant_analysis
from sklearn.covariance import ledoit_wolf
from sklearn.datasets import load_breast_cancer, load_iris, load_wine

from benthic.manifold import LinearDiscriminantAnalysis

pytestmark = pytest.mark.spec("H-04")


@pytest.mark.parametrize("load", [load_iris, load_wine, load_breast_cancer], ids=["iris", "wine", "cancer"])
@pytest.mark.parametrize("shrinkage", [None, 0.3])
def test_the_same_as_scikit_learn(load, shrinkage):
    X, y = load(return_X_y=True)
    X = (X - X.mean(0)) / X.std(0)
    ours = LinearDiscriminantAnalysis(shrinkage=shrinkage).fit(X, y)
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


@pytest.mark.parametrize("load", [load_iris, load_wine, load_breast_cancer], ids=["iris", "wine", "cancer"])
def test_automatic_shrinkage_knows_no_units(load):
    """Ledoit and Wolf's share is scikit-learn's on the standardized residuals, and answers are near its own."""
    X, y = load(return_X_y=True)
    model = LinearDiscriminantAnalysis(shrinkage="auto").fit(X, y)
    rest = X - model.means_[y]
    assert model.shrinkage_ == pytest.approx(ledoit_wolf(rest / rest.std(0), assume_centered=True)[1], rel=1e-9)
    units = 10.0 ** np.arange(-6, X.shape[1] - 6)
    other = LinearDiscriminantAnalysis(shrinkage="auto").fit(X * units, y)
    np.testing.assert_allclose(other.predict_proba(X * units), model.predict_proba(X), atol=1e-7)
    theirs = discriminant_analysis.LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto").fit(X, y)
    assert abs(model.score(X, y) - theirs.score(X, y)) < 0.02


@pytest.mark.parametrize("shrinkage", [None, "auto", 0.1])
@pytest.mark.parametrize("value", [0.1, 1 / 3, 1e8 / 3])
def test_constant_columns_change_nothing(shrinkage, value):
    """The mean of a constant rounds, so gaps of 1e-17 remain, which are no spread."""
    X, y = load_iris(return_X_y=True)
    model = LinearDiscriminantAnalysis(shrinkage=shrinkage).fit(np.column_stack([X, np.full(len(X), value)]), y)
    if shrinkage != 0.1:  # a fixed share goes by the mean variance of all columns
        alone = LinearDiscriminantAnalysis(shrinkage=shrinkage).fit(X, y)
        np.testing.assert_allclose(model.coef_[:, :4], alone.coef_, rtol=1e-9)
    np.testing.assert_allclose(model.coef_[:, 4], 0.0, atol=1e-9)


@pytest.mark.parametrize("shrinkage", [None, "auto", 0.1])
def test_no_spread_within_classes(shrinkage):
    y = np.repeat([0, 1], [5, 15])
    model = LinearDiscriminantAnalysis(shrinkage=shrinkage).fit(np.full((20, 3), 0.1), y)
    np.testing.assert_allclose(model.predict_proba(np.ones((1, 3))), [[0.25, 0.75]])
    with pytest.raises(ValueError, match="no column varies within a class"):
        LinearDiscriminantAnalysis(shrinkage=shrinkage).fit(np.eye(2)[y], y)


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
