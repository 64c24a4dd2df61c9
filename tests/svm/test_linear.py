"""Linear machines against scikit-learn's LIBLINEAR and the kernel solver."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn.svm
from sklearn.exceptions import ConvergenceWarning

from benthic.base.errors import InvalidInput
from benthic.svm import SVC, LinearSVC
from tests.svm.problems import standard

pytestmark = pytest.mark.spec("F-05")


@pytest.mark.parametrize("name", ["iris", "wine", "breast_cancer", "digits"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_weights_are_those_of_liblinear(name, loss):
    X, y = standard(name, 500)
    settings = {"loss": loss, "C": 0.1, "max_iter": 50_000}
    ours = LinearSVC(**settings, tol=1e-9, random_state=0).fit(X, y)
    peer = sklearn.svm.LinearSVC(**settings, tol=1e-9, dual=True, random_state=0).fit(X, y)
    np.testing.assert_allclose(ours.decision_function(X), peer.decision_function(X), atol=2e-6)
    np.testing.assert_allclose(ours.intercept_, peer.intercept_, atol=2e-6)
    assert (ours.certificate_["gap"] >= 0).all() and ours.certificate_["relative_gap"].max() < 1e-7


def test_newton_and_coordinate_descent_end_at_the_same_place():
    X, y = standard("breast_cancer")
    newton = LinearSVC(dual=False).fit(X, y)
    descent = LinearSVC(dual=True, tol=1e-10, max_iter=20_000, random_state=0).fit(X, y)
    np.testing.assert_allclose(newton.coef_, descent.coef_, atol=1e-7)
    assert newton.certificate_["relative_gap"][0] < 1e-12


def test_more_columns_than_rows():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 200)), np.arange(30) % 2
    ours = LinearSVC(dual=False).fit(X, y)
    peer = sklearn.svm.LinearSVC(tol=1e-10, dual=True, max_iter=100_000).fit(X, y)
    np.testing.assert_allclose(ours.coef_, peer.coef_, atol=1e-7)


def test_a_large_column_makes_the_intercept_free():
    # the penalty of the intercept vanishes as its column grows, which leaves the problem that SVC solves
    X, y = standard("wine")
    X, y = X[:130], y[:130]
    linear = LinearSVC(loss="hinge", intercept_scaling=30.0, tol=1e-9, max_iter=200_000, random_state=0).fit(X, y)
    kernel = SVC(kernel="linear").fit(X, y)
    np.testing.assert_allclose(linear.coef_, kernel.coef_, atol=2e-3)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_integer_weights_equal_repeated_rows(loss):
    X, y = standard("wine")
    weight = np.random.default_rng(0).integers(0, 4, len(X))
    for balance in (None, "balanced"):
        model = LinearSVC(loss=loss, tol=1e-12, C=0.1, max_iter=100_000, class_weight=balance, random_state=0)
        one = model.fit(X, y, sample_weight=weight).decision_function(X)
        two = model.fit(np.repeat(X, weight, 0), np.repeat(y, weight)).decision_function(X)
        np.testing.assert_allclose(one, two, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_class_weights_are_those_of_the_rows_in_every_problem(loss):
    """LIBLINEAR weighs only the class that is told from the rest; with weights by row it solves the same problem."""
    X, y = standard("wine")
    factors = {0: 2, 1: 1, 2: 3}
    weight = np.array([factors[label] for label in y])
    settings = {"loss": loss, "C": 0.1, "max_iter": 100_000, "random_state": 0}
    ours = LinearSVC(**settings, tol=1e-10, class_weight=factors).fit(X, y).decision_function(X)
    peer = sklearn.svm.LinearSVC(**settings, tol=1e-10, dual=True).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(ours, peer.decision_function(X), atol=2e-6)
    copies = LinearSVC(**settings, tol=1e-10).fit(np.repeat(X, weight, 0), np.repeat(y, weight))
    np.testing.assert_allclose(ours, copies.decision_function(X), atol=2e-6)


def test_one_seed_gives_one_result_and_no_global_state_moves():
    X, y = standard("iris")
    before = np.random.get_state()[1].copy()
    fits = [LinearSVC(loss="hinge", C=0.01, random_state=3).fit(X, y).coef_ for _ in range(2)]
    np.testing.assert_array_equal(*fits)
    np.testing.assert_array_equal(np.random.get_state()[1], before)


def test_a_stopped_descent_says_so():
    X, y = standard("breast_cancer")
    with pytest.warns(ConvergenceWarning, match="stopped after 2 passes"):
        LinearSVC(loss="hinge", max_iter=2, random_state=0).fit(X, y)


def test_no_probabilities_are_pretended():
    X, y = standard("iris")
    model = LinearSVC().fit(X, y)
    assert not hasattr(model, "predict_proba")
    assert "duality gap" in model.summary() and model.plot().axes
    assert "score of 1" in LinearSVC().fit(X[:100], y[:100]).plot().axes[0].get_xlabel()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"C": np.inf}, r"C is inf.*SVC\(kernel='linear', C=inf\)"),
        ({"loss": "hing"}, "did you mean 'hinge'"),
        ({"penalty": "l1"}, "penalty is 'l1'"),
        ({"multi_class": "crammer_singer"}, "use 'ovr'"),
        ({"dual": "yes"}, "dual is 'yes'"),
        ({"loss": "hinge", "dual": False}, "use dual=True"),
        ({"max_iter": 0}, "max_iter is 0"),
        ({"fit_intercept": 2}, "fit_intercept is 2"),
        ({"class_weight": {9: 1.0}}, "class_weight names 9"),
    ],
)
def test_settings_that_mean_nothing(settings, words):
    X, y = standard("iris")
    with pytest.raises(InvalidInput, match=f"LinearSVC.fit: .*{words}"):
        LinearSVC(**settings).fit(X, y)
