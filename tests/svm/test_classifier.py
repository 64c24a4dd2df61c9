"""Support vector classification against scikit-learn, closed forms and the definition of its optimum."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from functools import partial

import numpy as np
import pytest
import sklearn.svm
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

import benthic
from benthic.base.errors import InvalidInput
from benthic.kernels import RBF, Matern, White
from benthic.svm import SVC
from tests.svm.problems import dual_value, rbf, standard

pytestmark = pytest.mark.spec("F-05")


@pytest.mark.parametrize("name", ["iris", "wine", "breast_cancer"])
@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", "sigmoid"])
def test_the_decision_function_is_that_of_libsvm(name, kernel):
    X, y = standard(name)
    settings = {
        "kernel": kernel,
        "coef0": 1.0 if kernel == "poly" else 0.0,
        "gamma": 0.01 if kernel == "sigmoid" else "scale",
    }
    with pytest.warns(UserWarning, match="not positive definite") if kernel == "sigmoid" else nullcontext():
        ours = SVC(**settings, tol=1e-8, decision_function_shape="ovo").fit(X, y)
    peer = sklearn.svm.SVC(**settings, tol=1e-10, decision_function_shape="ovo").fit(X, y)
    # libsvm rounds kernel values to single precision (6e-8), which moves its optimum by as much as 1e-6
    expected = peer.decision_function(X)
    np.testing.assert_allclose(ours.decision_function(X), expected, atol=1e-6 * np.abs(expected).max())
    np.testing.assert_array_equal(ours.predict(X), peer.predict(X))


def test_digits_and_every_fitted_attribute():
    X, y = standard("digits", 600)
    ours, peer = SVC(tol=1e-7).fit(X, y), sklearn.svm.SVC(tol=1e-9).fit(X, y)
    np.testing.assert_allclose(ours.decision_function(X), peer.decision_function(X), atol=2e-6)
    np.testing.assert_array_equal(ours.support_, peer.support_)
    np.testing.assert_array_equal(ours.n_support_, peer.n_support_)
    np.testing.assert_allclose(ours.dual_coef_, peer.dual_coef_, atol=1e-5)
    np.testing.assert_allclose(ours.intercept_, peer.intercept_, atol=1e-5)
    np.testing.assert_array_equal(ours.support_vectors_, peer.support_vectors_)
    linear = [cls(kernel="linear").fit(X, y) for cls in (SVC, sklearn.svm.SVC)]
    assert linear[0].coef_.shape == linear[1].coef_.shape == (45, 64)


@pytest.mark.parametrize("C", [0.1, 1.0, 1000.0])
def test_the_dual_objective_is_at_least_that_of_libsvm(C):
    X, y = standard("breast_cancer")
    z, gamma = np.where(y == 1, 1.0, -1.0), 1 / 30
    K = rbf(X, X, gamma)
    values = []
    for model in (SVC(C=C, gamma=gamma), sklearn.svm.SVC(C=C, gamma=gamma, tol=1e-8)):
        beta = np.zeros(len(X))
        model.fit(X, y)
        beta[model.support_] = model.dual_coef_[0]
        assert abs(beta.sum()) < 1e-8 * C and (np.abs(beta) <= C).all() and (beta * z >= 0).all()
        values.append(dual_value(K, beta, z))
    assert values[0] == pytest.approx(values[1], rel=1e-6)
    assert values[0] >= values[1] * (1 - 1e-9)


def test_two_points_in_closed_form():
    # w = 2 (x1 - x0) / |x1 - x0|^2, both multipliers 2 / |x1 - x0|^2, the boundary in the middle
    X = np.array([[1.0, 2.0], [4.0, 6.0]])
    model = SVC(kernel="linear", C=np.inf).fit(X, ["a", "b"])
    np.testing.assert_allclose(model.coef_, 2 * (X[1:] - X[:1]) / 25, atol=1e-12)
    np.testing.assert_allclose(model.dual_coef_, [[-2 / 25, 2 / 25]], atol=1e-12)
    np.testing.assert_allclose(model.decision_function(X), [-1, 1], atol=1e-12)
    assert model.predict(X).tolist() == ["a", "b"]
    soft = SVC(kernel="linear", C=0.01).fit(X, ["a", "b"])  # both at their bound: the middle of [b_low, b_high]
    np.testing.assert_allclose(soft.coef_, 0.01 * (X[1:] - X[:1]), atol=1e-12)
    np.testing.assert_allclose(soft.decision_function(X.mean(0, keepdims=True)), 0, atol=1e-12)


def test_the_certificate_proves_the_optimum():
    X, y = standard("wine")
    for tol in (1e-1, 1e-3):
        model = SVC(tol=tol, C=10.0).fit(X, y)
        proof = model.certificate_
        assert all(len(part) == 3 for part in proof.values())
        assert (
            (proof["gap"] >= 0).all()
            and (proof["relative_gap"] < 1e-10).all()
            and (proof["kkt_violation"] < 1e-9).all()
        )
    assert "duality gap" in model.summary() and "KKT violation" in model.summary()


def test_a_stopped_solver_has_a_gap_and_says_so():
    X, y = standard("breast_cancer")
    with pytest.warns(ConvergenceWarning, match="stopped after 20 steps"):
        model = SVC(max_iter=20).fit(X, y)
    assert model.certificate_["gap"][0] > 1 and model.fit_status_ == 1


@pytest.mark.parametrize("n", [1400, 3300])
def test_shrinking_changes_nothing_but_time(n):
    # 3300 rows are cached in single precision; 4 MB of cache hold a tenth of them
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 5))
    y = (X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=n) > 0).astype(int)
    K, z = rbf(X, X, 0.2), np.where(y == 1, 1.0, -1.0)
    values = []
    for settings in ({"shrinking": True}, {"shrinking": False}, {"shrinking": True, "cache_size": 4}):
        model = SVC(gamma=0.2, **settings).fit(X, y)
        beta = np.zeros(n)
        beta[model.support_] = model.dual_coef_[0]
        values.append(dual_value(K, beta, z))
        hinge = np.maximum(1 - z * (K @ beta + model.intercept_), 0).sum()
        proof = model.certificate_
        assert proof["relative_gap"][0] < 2e-4 and proof["dual"][0] == pytest.approx(values[-1], rel=1e-6)
        assert proof["primal"][0] == pytest.approx(beta @ K @ beta / 2 + hinge, rel=1e-6)
    np.testing.assert_allclose(values, values[0], rtol=1e-6)


@pytest.mark.parametrize("kernel", ["poly", "linear"])
def test_rows_that_arrive_in_batches_give_the_same(kernel):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(3000, 4))
    y = (X @ [1.0, -1.0, 0.5, 0.0] + 0.5 * rng.normal(size=3000) > 0).astype(int)
    K, z = X @ X.T, np.where(y == 1, 1.0, -1.0)
    K = (0.25 * K + 1) ** 3 if kernel == "poly" else K
    values = []
    for cls in (SVC, sklearn.svm.SVC):
        model = cls(kernel=kernel, gamma=0.25, coef0=1.0).fit(X, y)
        beta = np.zeros(len(X))
        beta[model.support_] = model.dual_coef_[0]
        values.append(dual_value(K, beta, z))
    np.testing.assert_allclose(*values, rtol=1e-6)


def test_a_cache_of_a_few_rows_is_enough():
    X, y = standard("digits", 700)
    roomy, tight = (SVC(kernel="poly", cache_size=size, tol=1e-6).fit(X, y > 4) for size in (200, 0.03))
    np.testing.assert_allclose(tight.decision_function(X), roomy.decision_function(X), atol=1e-5)


def test_integer_weights_equal_repeated_rows():
    X, y = standard("wine")
    weight = np.random.default_rng(0).integers(0, 4, len(X))
    for settings in ({}, {"class_weight": "balanced"}, {"class_weight": {0: 2.0}}, {"kernel": "linear", "C": 0.05}):
        one = SVC(**settings).fit(X, y, sample_weight=weight)
        two = SVC(**settings).fit(np.repeat(X, weight, 0), np.repeat(y, weight))
        np.testing.assert_allclose(one.decision_function(X), two.decision_function(X), rtol=1e-7, atol=1e-8)


def test_weights_and_class_weights_are_those_of_scikit_learn():
    X, y = standard("wine")
    weight = np.random.default_rng(0).uniform(0.1, 2, len(X))
    settings = {"class_weight": {0: 3.0, 2: 0.5}, "gamma": 0.1, "decision_function_shape": "ovo"}
    ours, peer = SVC(**settings).fit(X, y, weight), sklearn.svm.SVC(**settings, tol=1e-9).fit(X, y, weight)
    np.testing.assert_allclose(ours.decision_function(X), peer.decision_function(X), atol=1e-6)


def test_kernels_of_every_kind_agree():
    X, y = standard("iris")
    K = rbf(X, X, 0.25)
    reference = SVC(gamma=0.25).fit(X, y).decision_function(X)
    np.testing.assert_allclose(SVC(kernel="precomputed").fit(K, y).decision_function(K), reference, atol=1e-8)
    calls = SVC(kernel=lambda A, B: rbf(A, B, 0.25)).fit(X, y)
    np.testing.assert_allclose(calls.decision_function(X), reference, atol=1e-8)
    held = SVC(kernel=RBF(2**0.5)).fit(X, y)
    np.testing.assert_allclose(held.decision_function(X), reference, atol=1e-8)
    np.testing.assert_allclose(held.decision_function(torch.tensor(X)).numpy(), reference, atol=1e-8)
    assert SVC(kernel=2.0 * Matern(1.5)).fit(X, y).score(X, y) > 0.95


def test_noise_in_the_kernel_is_the_squared_hinge():
    # K + v I is the dual of slacks squared with price 1 / (2 v), so no multiplier needs a bound
    X, y = standard("iris")
    X, y = X[50:], y[50:]
    v = 0.5
    noisy = SVC(kernel=RBF(1.0) + White(v), C=1e6).fit(X, y)
    K = rbf(X, X, 0.5)
    peer = sklearn.svm.SVC(kernel="precomputed", C=1e6, tol=1e-9).fit(K + v * np.eye(len(X)), y)
    beta = np.zeros(len(X))
    beta[peer.support_] = peer.dual_coef_[0]
    np.testing.assert_allclose(noisy.decision_function(X), K @ beta + peer.intercept_, atol=1e-5)


def test_shapes_of_the_decision_function_and_broken_ties():
    X, y = standard("digits", 300)
    ours, peer = (cls(decision_function_shape="ovr", break_ties=True).fit(X, y) for cls in (SVC, sklearn.svm.SVC))
    assert ours.decision_function(X).shape == (300, 10)
    np.testing.assert_allclose(ours.decision_function(X), peer.decision_function(X), atol=1e-2)
    np.testing.assert_array_equal(ours.predict(X), ours.classes_[ours.decision_function(X).argmax(1)])


@pytest.mark.parametrize("kind", [np.array(["no", "yes"]), np.array([False, True]), np.array(["b", "a"], dtype=object)])
def test_labels_of_every_kind(kind):
    X, y = standard("breast_cancer")
    model = SVC().fit(X, kind[y])
    assert set(model.predict(X).tolist()) == set(kind.tolist()) and model.score(X, kind[y]) > 0.97


def test_single_precision_answers_are_close():
    X, y = standard("digits", 400)
    model = SVC().fit(X, y)
    single = model.decision_function(X.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, model.decision_function(X), atol=2e-4)


def test_a_grid_search_and_a_file(tmp_path):
    X, y = standard("iris")
    search = GridSearchCV(SVC(), {"C": [0.1, 1.0], "kernel": ["rbf", "linear"]}, cv=3).fit(X, y)
    assert search.best_score_ > 0.9
    kernel = partial(rbf, gamma=0.5)
    model = SVC(kernel=kernel).fit(X, y)
    with pytest.raises(benthic.base.errors.ModelFileError, match="leave_out"):
        model.save(tmp_path / "m.safetensors")
    path = model.save(tmp_path / "m.safetensors", leave_out=["kernel"])
    again = benthic.load(path, modules={"kernel": kernel})
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


# -- bad input -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_a_hard_margin_that_does_not_exist_is_refused(kernel):
    X, y = standard("iris")
    X, y = np.concatenate([X[50:], X[50:51]]), np.append(y[50:], 2)  # a row with both labels
    with pytest.raises(InvalidInput, match=r"SVC.fit: C is infinite.*does not separate 1 from 2.*finite C"):
        SVC(C=np.inf, kernel=kernel).fit(X, y)


def test_a_hard_margin_that_exists_is_found():
    X, y = standard("iris")
    model = SVC(C=np.inf, kernel="linear").fit(X[:100], y[:100])
    margins = np.where(y[:100] == 1, 1, -1) * model.decision_function(X[:100])
    assert margins.min() == pytest.approx(1, abs=1e-9) and model.certificate_["relative_gap"][0] < 1e-9
    large = sklearn.svm.SVC(C=1e8, kernel="linear", tol=1e-9).fit(X[:100], y[:100])
    np.testing.assert_allclose(model.coef_, large.coef_, rtol=1e-6)


def test_kernels_that_are_not_positive_definite_are_named():
    X, y = standard("iris")
    K = -rbf(X, X, 0.5)
    with pytest.warns(UserWarning, match=r"not positive definite: .*eigenvalue of -"):
        model = SVC(kernel="precomputed").fit(K, y)
    assert model.positive_definite_ is False


def test_negative_curvature_is_noticed_where_eigenvalues_did_not_look():
    # eigenvalues are those of 500 rows; rows outside of them are made more alike than a row is to itself
    X, y = standard("digits", 600)
    outside = np.setdiff1d(np.arange(600), np.linspace(0, 599, 500).astype(int))
    K = rbf(X, X, 0.02)
    K[np.ix_(outside, outside)] = 1.5
    K[outside, outside] = 1.0
    with pytest.warns(UserWarning, match="not positive definite: two rows have curvature"):
        SVC(kernel="precomputed", max_iter=2000).fit(K, y > 4)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"C": 0.0}, "C is 0.0; it must be positive"),
        ({"C": "1"}, "C is '1'"),
        ({"kernel": "rfb"}, "did you mean 'rbf'"),
        ({"kernel": 3}, "kernel is 3"),
        ({"gamma": -1.0}, "gamma is -1.0"),
        ({"gamma": "scal"}, "gamma is 'scal'"),
        ({"tol": 0}, "tol is 0"),
        ({"cache_size": -1}, "cache_size is -1"),
        ({"max_iter": 0.5}, "max_iter is 0.5"),
        ({"shrinking": 1}, "shrinking is 1"),
        ({"class_weight": {7: 1.0}}, r"class_weight names 7, which is not among the classes \[0, 1, 2\]"),
        ({"class_weight": {0: -1.0}}, "not positive"),
        ({"class_weight": "even"}, "class_weight is 'even'"),
        ({"decision_function_shape": "ova"}, "use 'ovr' or 'ovo'"),
        ({"decision_function_shape": "ovo", "break_ties": True}, "break_ties"),
        ({"kernel": "precomputed"}, "square matrix"),
        ({"kernel": lambda A, B: A @ B.T + A[:, :1]}, "not symmetric"),
        ({"kernel": lambda A, B: A}, "square matrix"),
        ({"kernel": lambda A, B: A @ B.T * np.nan}, "NaN"),
    ],
)
def test_settings_that_mean_nothing(settings, words):
    X, y = standard("iris")
    with pytest.raises(InvalidInput, match=f"SVC.fit: .*{words}"):
        SVC(**settings).fit(X, y)


def test_weights_that_leave_a_class_empty():
    X, y = standard("iris")
    with pytest.raises(InvalidInput, match="leaves no row of class 2"):
        SVC().fit(X, y, sample_weight=(y < 2).astype(float))
    with pytest.raises(InvalidInput, match="only one class, 0"):
        SVC().fit(X, y, sample_weight=(y < 1).astype(float))


def test_features_without_variance():
    X, y = np.ones((20, 3)), np.arange(20) % 2
    model = SVC().fit(X, y)
    assert np.isfinite(model.decision_function(X)).all() and model._gamma == 1.0
    assert SVC(kernel="linear").fit(X, y).certificate_["gap"][0] < 1e-9


@pytest.mark.parametrize("name", ["iris", "breast_cancer", "digits"])
def test_the_picture_shows_the_support_vectors(name):
    X, y = standard(name, 300)
    for columns in (2, X.shape[1]):
        model = SVC().fit(X[:, :columns], y)
        axes = model.plot(X[:, :columns], y).axes[0]
        drawn = sum(len(part.get_offsets()) for part in axes.collections if type(part).__name__ == "PathCollection")
        assert drawn == len(model.support_) + len(X) and "support vectors" in axes.get_title()
    K = rbf(X, X, 0.1)
    assert SVC(kernel="precomputed").fit(K, y).plot().axes[0].lines


@pytest.mark.parametrize("model", [benthic.SVC(), benthic.SVR()])
def test_rows_too_small_for_their_kernel_are_refused(model):
    X = np.random.default_rng(0).normal(size=(40, 3))
    for scale in (1e-160, 1e-300):
        with pytest.raises(ValueError, match="gamma='scale' overflows; rescale X"):
            model.fit(scale * X, X[:, 0] > 0)
    large, small = (model.fit(scale * X, X[:, 0] > 0).predict(scale * X) for scale in (1e150, 1e-150))
    np.testing.assert_allclose(large, small)


def test_a_tolerance_below_rounding_ends_where_arithmetic_does():
    """Slopes of large multipliers are known to some 1e-10, so steps to a violation of 1e-14 went on for ever."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 5)) * 10 ** rng.uniform(-2, 3, 5)  # scales that leave many rows at their bounds
    y = (rng.random(150) < 0.5).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model = benthic.SVC(C=1e4, tol=1e-14).fit(X, y)
    assert model.certificate_["relative_gap"][0] < 1e-10
