"""Data that break careless solvers: separable, badly scaled, collinear, wide, ambiguous."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning

import benthic

pytestmark = pytest.mark.spec("F-02")
SOLVERS = [{"solver": "newton"}, {"solver": "lbfgs"}, {"solver": "proximal-newton", "l1_ratio": 0.5}]


def blobs(n, d, classes, seed=0, shift=0.0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % classes
    return rng.normal(size=(n, d)) + shift * rng.normal(size=(classes, d))[y], y


@pytest.mark.parametrize("settings", SOLVERS)
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("C", [1e10, np.inf])
def test_separable_data_stay_finite(settings, classes, C):
    if np.isinf(C) and "l1_ratio" in settings:
        settings = {}
    X, y = blobs(90, 3, classes, shift=20.0)
    model = benthic.LogisticRegression(C=C, **settings).fit(X, y)
    assert np.isfinite(model.coef_).all() and np.isfinite(model.intercept_).all()
    assert np.isfinite(model.predict_log_proba(1e3 * X)).all()
    assert model.score(X, y) == 1.0


@pytest.mark.parametrize("settings", SOLVERS)
def test_columns_constant_repeated_huge_tiny_and_far_from_zero(settings):
    X, y = blobs(300, 6, 2, shift=0.7)
    plain = benthic.LogisticRegression(C=1.0, tol=1e-8, **settings).fit(X, y)
    hard = np.column_stack([X, np.full(300, 3.0)])  # a column the intercept makes up for
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model = benthic.LogisticRegression(C=1.0, tol=1e-8, **settings).fit(hard, y)
        np.testing.assert_allclose(model.predict_proba(hard), plain.predict_proba(X), atol=1e-6)
        moved = X + 1e5 * np.arange(6)
        model = benthic.LogisticRegression(C=1.0, tol=1e-6, **settings).fit(moved, y)
        np.testing.assert_allclose(model.coef_, plain.coef_, atol=1e-5)
        scaled = X * np.array([1e8, 1e-8, 1.0, 1e4, 1e-4, 1.0])
        model = benthic.LogisticRegression(C=1.0, **settings).fit(scaled, y)
        assert np.isfinite(model.coef_).all()


def test_raw_measurements_need_no_scaling():
    """Columns from 1e-3 to 4e3: the preconditioned descent converges where a plain one runs out of steps."""
    X, y = load_breast_cancer(return_X_y=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        newton = benthic.LogisticRegression(solver="newton").fit(X, y)
        descent = benthic.LogisticRegression(solver="lbfgs").fit(X, y)
    np.testing.assert_allclose(descent.predict_proba(X), newton.predict_proba(X), atol=1e-4)


def test_a_working_set_finds_the_few_features_of_wide_data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 2500))
    y = (X[:, :3].sum(1) + 0.3 * rng.normal(size=150) > 0).astype(int)
    model = benthic.LogisticRegression(C=0.3, l1_ratio=1.0, tol=1e-9).fit(X, y)
    coef = model.coef_[0]
    assert set(np.argsort(-np.abs(coef))[:3]) == {0, 1, 2}
    residual = model.predict_proba(X)[:, 1] - y
    gradient = 0.3 * residual @ X
    held = coef != 0
    assert 3 <= held.sum() < 60
    np.testing.assert_allclose(gradient[held], -np.sign(coef[held]), atol=1e-5)
    assert np.abs(gradient[~held]).max() <= 1 + 1e-5
    assert abs(residual.sum()) < 1e-5


def test_no_coefficient_survives_a_strong_penalty():
    X, y = blobs(100, 4, 3, shift=0.3)
    model = benthic.LogisticRegression(C=1e-6, l1_ratio=1.0).fit(X[1:], y[1:])
    assert not model.coef_.any()
    share = np.bincount(y[1:]) / 99
    np.testing.assert_allclose(model.predict_proba(X), np.tile(share, (100, 1)), atol=1e-6)


def test_of_equally_good_l1_solutions_the_same_is_found():
    """With an even number of classes a column may move between its two middle values at no cost."""
    X, y = blobs(800, 5, 4, shift=1.5)
    weight = np.random.default_rng(1).integers(0, 4, 800)
    order = np.random.default_rng(2).permutation(weight.sum())
    weighted = benthic.LogisticRegression(C=5.0, l1_ratio=1.0).fit(X, y, sample_weight=weight)
    repeated = benthic.LogisticRegression(C=5.0, l1_ratio=1.0).fit(
        np.repeat(X, weight, axis=0)[order], np.repeat(y, weight)[order]
    )
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-7)
    assert (np.sort(weighted.coef_, axis=0)[1] <= 0).all() and (np.sort(weighted.coef_, axis=0)[2] >= 0).all()
    assert (weighted.coef_ == 0).any(0).all()


def test_running_out_of_steps_is_said():
    X, y = blobs(200, 5, 3, shift=1.0)
    with pytest.warns(ConvergenceWarning, match=r"newton stopped after 1 steps with a gradient of .* raise max_iter"):
        model = benthic.LogisticRegression(max_iter=1).fit(X, y)
    assert model.n_iter_.tolist() == [1]
