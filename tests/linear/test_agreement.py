"""Logistic regression beside scikit-learn's, and the conditions of optimality it must meet."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.linear_model import LogisticRegression as Peer
from sklearn.preprocessing import StandardScaler

import benthic

pytestmark = pytest.mark.spec("F-02")
LOADERS = {"binary": load_breast_cancer, "three classes": load_iris, "wine": load_wine}


def data(name):
    X, y = LOADERS[name](return_X_y=True)
    return StandardScaler().fit_transform(X), y


def peer(X, y, sample_weight=None, **params):
    """scikit-learn's answer at a tight tolerance."""
    l1_ratio = params.get("l1_ratio", 0.0)
    solver = {"solver": "saga", "max_iter": 200_000, "tol": 1e-9, "random_state": 0}
    if l1_ratio == 0:
        solver = {"solver": "newton-cholesky", "max_iter": 1000, "tol": 1e-12}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Peer(**solver, **params).fit(X, y, sample_weight=sample_weight)


@pytest.mark.parametrize("name", LOADERS)
@pytest.mark.parametrize("solver", ["newton", "lbfgs", "auto"])
@pytest.mark.parametrize(
    "params", [{}, {"C": 0.01}, {"C": 100.0}, {"fit_intercept": False}, {"class_weight": "balanced"}]
)
def test_l2_agrees(name, solver, params):
    X, y = data(name)
    theirs = peer(X, y, **params)
    ours = benthic.LogisticRegression(solver=solver, tol=1e-9, max_iter=2000, **params).fit(X, y)
    scale = np.abs(theirs.coef_).max()
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-6 * scale)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-6 * scale)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-6)
    assert ours.coef_.shape == theirs.coef_.shape and ours.intercept_.shape == theirs.intercept_.shape


@pytest.mark.parametrize("solver", ["newton", "lbfgs"])
def test_sample_weights_agree(solver):
    X, y = data("three classes")
    weight = np.random.default_rng(0).uniform(0, 2, len(y))
    theirs = peer(X, y, weight, C=3.0)
    ours = benthic.LogisticRegression(C=3.0, solver=solver, tol=1e-9, max_iter=500).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-6)


def test_without_a_penalty_the_likelihood_alone_decides():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y = (X @ [1.0, -1.0, 0.5] + rng.logistic(size=400) > 0.3).astype(int)
    theirs = peer(X, y, C=np.inf)
    for solver in ("newton", "lbfgs"):
        ours = benthic.LogisticRegression(C=np.inf, solver=solver, tol=1e-9).fit(X, y)
        np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-6)


def objective(model, X, y, C, l1_ratio):
    """C times the summed loss plus the penalty, as scikit-learn defines it."""
    log_p = np.log(model.predict_proba(X))[np.arange(len(y)), np.searchsorted(model.classes_, y)]
    w = model.coef_
    return -C * log_p.sum() + l1_ratio * np.abs(w).sum() + 0.5 * (1 - l1_ratio) * np.square(w).sum()


@pytest.mark.parametrize("name", ["binary", "three classes"])
@pytest.mark.parametrize("l1_ratio", [1.0, 0.5])
def test_l1_and_elastic_net_are_no_worse_and_meet_the_subgradient_condition(name, l1_ratio):
    X, y = data(name)
    C = 0.1
    ours = benthic.LogisticRegression(C=C, l1_ratio=l1_ratio, tol=1e-8).fit(X, y)
    theirs = peer(X, y, C=C, l1_ratio=l1_ratio)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=3e-6)
    assert objective(ours, X, y, C, l1_ratio) <= objective(theirs, X, y, C, l1_ratio) * (1 + 1e-12)
    P = ours.predict_proba(X)
    hot = (np.asarray(y)[:, None] == ours.classes_).astype(float)
    gradient = C * (P - hot).T @ X
    gradient = gradient[1:] if len(ours.coef_) == 1 else gradient
    smooth, w = gradient + (1 - l1_ratio) * ours.coef_, ours.coef_
    np.testing.assert_allclose(smooth[w != 0], -l1_ratio * np.sign(w[w != 0]), atol=1e-7 * C * len(X))
    assert (np.abs(smooth[w == 0]) <= l1_ratio + 1e-7 * C * len(X)).all()
    assert 0 < (w == 0).sum() < w.size


@pytest.mark.parametrize("l1_ratio", [0.0, 1.0])
def test_an_integer_weight_is_a_repeated_row(l1_ratio):
    X, y = data("three classes")
    weight = np.random.default_rng(0).integers(0, 4, len(y))
    settings = {"C": 0.5, "l1_ratio": l1_ratio}
    weighted = benthic.LogisticRegression(**settings).fit(X, y, sample_weight=weight)
    repeated = benthic.LogisticRegression(**settings).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-7)
    np.testing.assert_allclose(weighted.intercept_, repeated.intercept_, atol=1e-7)


def test_separable_data_stay_finite_and_odds_point_the_right_way():
    X = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    model = benthic.LogisticRegression(C=1e3).fit(X, [0, 0, 1, 1])
    assert np.isfinite(model.coef_).all() and model.coef_[0, 0] > 0
    assert model.decision_function([[5.0]])[0] > 0 > model.decision_function([[-5.0]])[0]
    np.testing.assert_allclose(
        model.decision_function(X), np.log(model.predict_proba(X)[:, 1] / model.predict_proba(X)[:, 0]), rtol=1e-6
    )


def test_warm_start_begins_where_it_ended():
    X, y = data("wine")
    model = benthic.LogisticRegression(warm_start=True, solver="lbfgs").fit(X, y)
    first = int(model.n_iter_[0])
    assert int(model.fit(X, y).n_iter_[0]) < first


@pytest.mark.parametrize("steps", [1, 4, 7])
def test_a_stopped_descent_resumes_to_the_same_bits(tmp_path, steps):
    X, y = data("wine")
    whole = benthic.LogisticRegression(solver="lbfgs", tol=1e-8, max_iter=500).fit(X, y)
    checkpoint = {"folder": str(tmp_path), "every_steps": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        benthic.LogisticRegression(
            solver="lbfgs", tol=1e-8, max_iter=500, trainer={"steps": steps, "checkpoint": checkpoint}
        ).fit(X, y)
    trainer = {"checkpoint": checkpoint, "resume": True}
    resumed = benthic.LogisticRegression(solver="lbfgs", tol=1e-8, max_iter=500, trainer=trainer).fit(X, y)
    np.testing.assert_array_equal(resumed.coef_, whole.coef_)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"C": -1.0}, "C is -1.0; it must be positive"),
        ({"l1_ratio": 2.0}, "l1_ratio is 2.0"),
        ({"solver": "newtom"}, "did you mean 'newton'"),
        ({"solver": "newton", "l1_ratio": 1.0}, "l1_ratio=0"),
        ({"solver": "proximal-newton"}, "is for l1_ratio > 0"),
        ({"class_weight": {7: 2.0}}, "class_weight names 7"),
        ({"max_iter": 0}, "max_iter is 0"),
    ],
)
def test_wrong_settings_say_what_would_work(params, words):
    with pytest.raises(ValueError, match=f"LogisticRegression.fit: .*{words}"):
        benthic.LogisticRegression(**params).fit(*data("wine"))
