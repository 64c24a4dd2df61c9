"""Support vector regression against scikit-learn, closed forms and its certificate."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn.svm
import torch

from benthic.base.errors import InvalidInput
from benthic.kernels import Matern
from benthic.svm import SVR
from tests.svm.problems import dual_value, rbf, standard

pytestmark = pytest.mark.spec("F-05")


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("C", [1.0, 50.0])
def test_the_dual_and_the_predictions_are_those_of_libsvm(kernel, C):
    X, y = standard("diabetes")
    K = rbf(X, X, 0.1) if kernel == "rbf" else X @ X.T
    settings = {"kernel": kernel, "C": C, "gamma": 0.1, "epsilon": 5.0}
    ours, peer = SVR(**settings).fit(X, y), sklearn.svm.SVR(**settings, tol=1e-8).fit(X, y)
    values = []
    for model in (ours, peer):
        beta = np.zeros(len(X))
        beta[model.support_] = model.dual_coef_[0]
        values.append(dual_value(K, beta, y, 5.0))
    assert values[0] == pytest.approx(values[1], rel=1e-6)
    assert values[0] >= values[1] * (1 - 1e-9)
    # libsvm's kernel values are rounded to 6e-8 and multiplied by up to C each
    np.testing.assert_allclose(ours.predict(X), peer.predict(X), atol=5e-6 * np.abs(y).max())
    np.testing.assert_array_equal(ours.support_, peer.support_)
    if kernel == "linear":
        np.testing.assert_allclose(X @ ours.coef_[0] + ours.intercept_, ours.predict(X), rtol=1e-10)


def test_two_points_in_closed_form():
    # the flattest line through the tubes of (0, 0) and (1, 1): slope 1 - 2 epsilon
    model = SVR(kernel="linear", C=100.0, epsilon=0.1).fit([[0.0], [1.0]], [0.0, 1.0])
    np.testing.assert_allclose(model.predict([[0.0], [1.0], [2.0]]), [0.1, 0.9, 1.7], atol=1e-12)
    wide = SVR(epsilon=2.0).fit([[0.0], [1.0]], [0.0, 1.0])
    assert len(wide.support_) == 0
    np.testing.assert_allclose(wide.predict([[5.0]]), [0.5], atol=1e-12)  # the middle of what the tube allows


def test_the_certificate_and_the_tube():
    X, y = standard("diabetes")
    model = SVR(C=20.0, epsilon=10.0).fit(X, y)
    proof = model.certificate_
    assert proof["gap"][0] >= 0 and proof["relative_gap"][0] < 1e-12 and proof["kkt_violation"][0] < 1e-8
    residual, beta = y - model.predict(X), np.zeros(len(X))
    beta[model.support_] = model.dual_coef_[0]
    inside = np.abs(residual) < 10 - 1e-6
    assert (beta[inside] == 0).all() and np.abs(beta[np.abs(residual) > 10 + 1e-6]).min() == 20.0
    assert "duality gap" in model.summary()


def test_many_rows_with_and_without_shrinking():
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (3200, 2))
    y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=3200)
    fits = [SVR(shrinking=flag, cache_size=20).fit(X, y) for flag in (True, False)]
    assert fits[0].certificate_["dual"][0] == pytest.approx(fits[1].certificate_["dual"][0], rel=1e-5)
    np.testing.assert_allclose(fits[0].predict(X[:200]), fits[1].predict(X[:200]), atol=5e-3)
    assert fits[0].score(X, np.sin(X[:, 0])) > 0.98


def test_integer_weights_equal_repeated_rows():
    X, y = standard("diabetes")
    X, y = X[:150], y[:150]
    weight = np.random.default_rng(0).integers(0, 4, len(X))
    one = SVR(C=5.0).fit(X, y, sample_weight=weight)
    two = SVR(C=5.0).fit(np.repeat(X, weight, 0), np.repeat(y, weight))
    np.testing.assert_allclose(one.predict(X), two.predict(X), rtol=1e-7)


def test_kernel_objects_tensors_and_one_row():
    X, y = standard("diabetes")
    model = SVR(kernel=Matern(2.5, 3.0), C=100.0).fit(torch.tensor(X), torch.tensor(y))
    out = model.predict(torch.tensor(X, dtype=torch.float32))
    assert out.dtype == torch.float32
    np.testing.assert_allclose(out.numpy(), model.predict(X), rtol=1e-3)
    assert SVR().fit([[1.0]], [3.0]).predict([[9.0]]) == pytest.approx([3.0])
    matrix = rbf(X, X, 0.1)
    by_matrix = SVR(kernel="precomputed", C=10.0).fit(matrix, y)
    np.testing.assert_allclose(by_matrix.predict(matrix), SVR(gamma=0.1, C=10.0).fit(X, y).predict(X), rtol=1e-8)


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"epsilon": -1.0}, "epsilon is -1.0"), ({"C": np.inf}, "C is infinite"), ({"degree": 1.5}, "degree is 1.5")],
)
def test_settings_that_mean_nothing(settings, words):
    with pytest.raises(InvalidInput, match=f"SVR.fit: {words}"):
        SVR(**settings).fit([[0.0], [1.0]], [0.0, 1.0])


def test_targets_of_two_columns():
    with pytest.raises(InvalidInput, match="SVR.fit: y should be a 1d array"):
        SVR().fit([[0.0], [1.0]], [[0.0, 1.0], [1.0, 2.0]])


def test_the_pictures():
    X, y = standard("diabetes")
    assert SVR(C=10.0).fit(X, y).plot().axes[0].get_xlabel() == "true"
    assert SVR(C=10.0, epsilon=20.0).fit(X[:, 2:3], y).plot().axes[0].get_xlabel() == "feature"
