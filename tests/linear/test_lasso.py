"""Lasso and elastic net: agreement, optimality, duality gaps, paths."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import sklearn.linear_model as peer
import torch
from sklearn.exceptions import ConvergenceWarning

import benthic
from benthic.base.errors import InvalidInput
from benthic.linear import enet_path, lasso_path
from tests.linear.problems import DIABETES, houses, sparse_problem

pytestmark = pytest.mark.spec("F-01")
TALL, WIDE = sparse_problem(300, 40), sparse_problem(60, 200)
SETS = {"diabetes": (DIABETES, 0.3), "houses": (houses(), 0.05), "tall": (TALL, 0.1), "wide": (WIDE, 0.1)}
RNG = np.random.default_rng(0)


def objective(X, y, model, alpha, ratio):
    residual = y - X @ model.coef_ - model.intercept_
    penalty = ratio * np.abs(model.coef_).sum() + 0.5 * (1 - ratio) * (model.coef_**2).sum()
    return 0.5 * (residual**2).mean() + alpha * penalty


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("ratio", [1.0, 0.4])
@pytest.mark.parametrize("precompute", [True, False])
@pytest.mark.parametrize("positive", [False, True])
def test_the_optimum_is_that_of_scikit_learn(name, ratio, precompute, positive):
    (X, y), alpha = SETS[name]
    settings = {"l1_ratio": ratio, "tol": 1e-12, "max_iter": 100_000, "positive": positive}
    ours = benthic.ElasticNet(alpha, precompute=precompute, **settings).fit(X, y)
    theirs = peer.ElasticNet(alpha, **settings).fit(X, y)
    assert objective(X, y, ours, alpha, ratio) <= objective(X, y, theirs, alpha, ratio) * (1 + 1e-10)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-6 * max(np.abs(theirs.coef_).max(), 1e-3))
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("tol", [1e-3, 1e-9])
def test_the_gap_is_a_certificate(name, tol):
    (X, y), alpha = SETS[name]
    model = benthic.Lasso(alpha, tol=tol, max_iter=100_000).fit(X, y)
    A, z = X - X.mean(0), y - y.mean()
    residual, n = z - A @ model.coef_, len(y)
    dual = residual * min(1.0, alpha * n / np.abs(A.T @ residual).max())  # a feasible dual point
    primal = 0.5 * residual @ residual + alpha * n * np.abs(model.coef_).sum()
    gap = primal - (0.5 * z @ z - 0.5 * (z - dual) @ (z - dual))
    np.testing.assert_allclose(model.dual_gap_, gap / n, rtol=1e-3, atol=1e-13 * (z @ z))
    assert -1e-12 * (z @ z) <= gap <= tol * (z @ z) * (1 + 1e-6)


def test_optimality_conditions_hold_and_lasso_is_a_case_of_the_net():
    X, y = WIDE
    model = benthic.Lasso(0.2, tol=1e-14, max_iter=100_000).fit(X, y)
    slope = (X - X.mean(0)).T @ (y - model.predict(X)) / len(y)
    on = model.coef_ != 0
    np.testing.assert_allclose(slope[on], 0.2 * np.sign(model.coef_[on]), atol=1e-6)
    assert (np.abs(slope[~on]) <= 0.2 + 1e-6).all() and 0 < on.sum() < len(y)
    net = benthic.ElasticNet(0.2, l1_ratio=1.0, tol=1e-14, max_iter=100_000).fit(X, y)
    np.testing.assert_array_equal(net.coef_, model.coef_)
    assert model.sparse_coef_.nnz == on.sum()


def test_without_l1_it_is_ridge_and_without_penalty_least_squares():
    X, y = TALL
    net = benthic.ElasticNet(0.3, l1_ratio=0.0).fit(X, y)
    np.testing.assert_allclose(net.coef_, benthic.Ridge(0.3 * len(y)).fit(X, y).coef_, rtol=1e-10)
    plain = benthic.LinearRegression().fit(X, y)
    np.testing.assert_allclose(benthic.Lasso(0.0).fit(X, y).coef_, plain.coef_, rtol=1e-10)
    by_sums = benthic.ElasticNet(0.3, l1_ratio=0.0).partial_fit(X, y)
    np.testing.assert_allclose(by_sums.coef_, net.coef_, rtol=1e-9)


def test_weights_repeat_rows_and_targets_stand_alone():
    X, y = TALL
    weight = RNG.integers(0, 4, len(y))
    settings = {"alpha": 0.1, "tol": 1e-12}
    weighted = benthic.Lasso(**settings).fit(X, y, sample_weight=weight)
    repeated = benthic.Lasso(**settings).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-7)
    both = benthic.Lasso(**settings).fit(X, np.column_stack([y, X[:, 1]]))
    np.testing.assert_allclose(both.coef_[0], benthic.Lasso(**settings).fit(X, y).coef_, atol=1e-12)
    assert both.dual_gap_.shape == both.n_iter_.shape == (2,) and both.predict(X).shape == (len(y), 2)


def test_a_file_gives_what_memory_gives(tmp_path):
    X, y = houses()
    np.save(tmp_path / "rows.npy", np.column_stack([X, y]))
    source = benthic.data.scan(tmp_path / "rows.npy", target=X.shape[1])
    settings = {"alpha": 0.05, "tol": 1e-12, "max_iter": 10_000}
    streamed = benthic.Lasso(**settings, trainer={"batch_size": 300}).fit(source)
    np.testing.assert_allclose(streamed.coef_, benthic.Lasso(**settings).fit(X, y).coef_, atol=1e-8)


def test_a_warm_start_begins_at_the_last_solution():
    X, y = WIDE
    model = benthic.Lasso(0.1, warm_start=True).fit(X, y)
    first = model.n_iter_
    assert model.fit(X, y).n_iter_ <= 1 < first
    with pytest.raises(InvalidInput, match="warm_start needs the 200 features"):
        model.fit(X[:, :7], y)


def test_too_few_sweeps_are_said():
    with pytest.warns(ConvergenceWarning, match="Lasso.fit: coordinate descent stopped after 2 sweeps"):
        benthic.Lasso(0.001, max_iter=2, tol=1e-12).fit(*WIDE)
    with pytest.warns(ConvergenceWarning, match="lasso_path: .* of 5 penalties"):
        lasso_path(*WIDE, n_alphas=5, max_iter=2, tol=1e-12)


# -- paths ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [TALL, WIDE], ids=["tall", "wide"])
@pytest.mark.parametrize("ratio", [1.0, 0.5])
def test_a_path_is_that_of_scikit_learn(data, ratio):
    X, y = data
    A, z = X - X.mean(0), y - y.mean()
    ours = enet_path(X, y, l1_ratio=ratio, n_alphas=20, eps=1e-2, tol=1e-10, max_iter=50_000)
    alphas, coefs, _ = peer.enet_path(A, z, l1_ratio=ratio, alphas=20, eps=1e-2, tol=1e-10, max_iter=50_000)
    np.testing.assert_allclose(ours.alphas, alphas, rtol=1e-10)
    np.testing.assert_allclose(ours.coefs, coefs, atol=2e-4)
    assert (ours.gaps <= 1e-10 * (z @ z) / len(z) * (1 + 1e-6)).all() and not ours.coefs[:, 0].any()
    np.testing.assert_allclose(ours.intercepts, y.mean() - X.mean(0) @ ours.coefs, rtol=1e-12)
    plain = enet_path(A, z, l1_ratio=ratio, n_alphas=20, eps=1e-2, tol=1e-10, max_iter=50_000, fit_intercept=False)
    np.testing.assert_allclose(plain.coefs, ours.coefs, atol=1e-8)


def test_a_path_goes_through_the_single_fits():
    X, y = TALL
    path = lasso_path(X, y, alphas=[0.5, 0.01, 0.1], tol=1e-12)
    assert path.alphas.tolist() == [0.5, 0.1, 0.01]
    for alpha, coef in zip(path.alphas, path.coefs.T, strict=True):
        np.testing.assert_allclose(coef, benthic.Lasso(alpha, tol=1e-12).fit(X, y).coef_, atol=1e-7)


@pytest.mark.parametrize("precompute", [True, False])
def test_on_orthogonal_columns_the_lasso_shrinks_by_alpha(precompute):
    A = np.linalg.qr(RNG.normal(size=(50, 6)))[0] * np.sqrt(50)
    y = A @ np.array([3.0, -2.0, 1.0, 0.5, 0.0, 0.0])
    path = lasso_path(A, y, alphas=[0.7], fit_intercept=False, precompute=precompute, tol=1e-14)
    np.testing.assert_allclose(path.coefs[:, 0], [2.3, -1.3, 0.3, 0, 0, 0], atol=1e-10)


def test_positive_paths_tensors_and_pictures():
    X, y = TALL
    path = lasso_path(torch.tensor(X), torch.tensor(y), positive=True, n_alphas=10)
    assert isinstance(path.coefs, torch.Tensor) and bool((path.coefs >= 0).all()) and path.coefs.shape == (40, 10)
    figure = path.plot([f"c{j}" for j in range(40)])
    assert len(figure.axes[0].lines) == 41


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"alphas": [0.1, -1.0]}, "alphas must be positive"),
        ({"eps": 2.0}, "eps is 2.0"),
        ({"n_alphas": 0}, "n_alphas 0"),
        ({"l1_ratio": 0.5}, "use enet_path"),
    ],
)
def test_paths_refuse(settings, words):
    with pytest.raises(InvalidInput, match=f"lasso_path: .*{words}"):
        lasso_path(*TALL, **settings)


def test_paths_refuse_data():
    X, y = TALL
    with pytest.raises(InvalidInput, match="l1_ratio is 0"):
        enet_path(X, y, l1_ratio=0)
    with pytest.raises(InvalidInput, match="y has shape"):
        lasso_path(X, y[:-1])
    with pytest.raises(InvalidInput, match="NaN"):
        lasso_path(np.where(np.arange(40) == 7, np.nan, X), y)
    with pytest.raises(InvalidInput, match="X has shape"):
        lasso_path(X[:, 0], y)


def test_columns_that_do_not_vary_and_targets_that_do_not():
    X, y = TALL
    X = X.copy()
    X[:, 3] = 5.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for precompute in (True, False):
            assert benthic.Lasso(0.01, precompute=precompute).fit(X, y).coef_[3] == 0
            assert not benthic.Lasso(0.1, precompute=precompute).fit(X, np.ones(len(y))).coef_.any()
