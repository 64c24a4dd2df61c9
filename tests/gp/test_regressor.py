"""Regression: the same answers and the same optimum as scikit-learn, closed forms, and one sentence for bad input."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import norm
from sklearn.datasets import load_diabetes
from sklearn.gaussian_process import GaussianProcessRegressor as Peer
from sklearn.gaussian_process import kernels as peers

import benthic
from benthic.base.errors import InvalidInput
from benthic.gp import GaussianProcessRegressor
from benthic.kernels import RBF, Kernel, Linear, Matern, Periodic, White

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, size=(80, 2))
Y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * RNG.normal(size=80)
NEW = RNG.uniform(-2.5, 2.5, size=(30, 2))
KERNEL = 1.5 * RBF(0.8) + White(0.05)
PEER = peers.ConstantKernel(1.5) * peers.RBF(0.8) + peers.WhiteKernel(0.05)


@pytest.mark.spec("F-07")
@pytest.mark.parametrize("normalize_y", [False, True])
@pytest.mark.parametrize("columns", [1, 2])
def test_posterior_agrees_with_scikit_learn(normalize_y, columns):
    y = Y if columns == 1 else np.column_stack([Y, np.cos(X[:, 0])])
    mine = GaussianProcessRegressor(KERNEL, alpha=1e-4, optimizer=None, normalize_y=normalize_y).fit(X, y)
    peer = Peer(PEER, alpha=1e-4, optimizer=None, normalize_y=normalize_y).fit(X, y)
    mean, std = mine.predict(NEW, return_std=True)
    expected, spread = peer.predict(NEW, return_std=True)
    np.testing.assert_allclose(mean, expected, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(
        std, spread if spread.ndim == mean.ndim else np.broadcast_to(spread[:, None], mean.shape), rtol=1e-8
    )
    cov = mine.predict(NEW, return_cov=True)[1]
    theirs = peer.predict(NEW, return_cov=True)[1]
    np.testing.assert_allclose(cov, theirs, rtol=1e-7, atol=1e-8)
    assert mine.log_marginal_likelihood_value_ == pytest.approx(peer.log_marginal_likelihood_value_, rel=1e-10)


@pytest.mark.spec("F-07")
@pytest.mark.parametrize(
    ("kernel", "peer"),
    [
        (1.0 * RBF(1.0) + White(0.1), peers.ConstantKernel(1.0) * peers.RBF(1.0) + peers.WhiteKernel(0.1)),
        (
            1.0 * Matern(1.5, torch.ones(2, dtype=torch.float64)) + White(0.1),
            peers.ConstantKernel(1.0) * peers.Matern([1.0, 1.0], nu=1.5) + peers.WhiteKernel(0.1),
        ),
    ],
    ids=["rbf", "matern ard"],
)
def test_the_same_optimum_as_scikit_learn(kernel, peer):
    mine = GaussianProcessRegressor(kernel, tol=1e-4).fit(X, Y)
    other = Peer(peer).fit(X, Y)
    assert mine.log_marginal_likelihood_value_ == pytest.approx(other.log_marginal_likelihood_value_, abs=1e-5)
    np.testing.assert_allclose(mine.kernel_.theta, other.kernel_.theta, atol=2e-3)
    np.testing.assert_allclose(mine.predict(NEW), other.predict(NEW), atol=2e-3)


def test_names_find_the_optimum_of_real_data():
    data, y = load_diabetes(return_X_y=True)
    mine = GaussianProcessRegressor("rbf", normalize_y=True).fit(data, y)
    kernel = peers.ConstantKernel(1.0) * peers.RBF(0.2) + peers.WhiteKernel(0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peer = Peer(kernel, normalize_y=True).fit(data, y)
    assert mine.log_marginal_likelihood_value_ >= peer.log_marginal_likelihood_value_ - 1e-3


def test_log_marginal_likelihood_at_other_parameters_with_gradient():
    mine = GaussianProcessRegressor(KERNEL, optimizer=None).fit(X, Y)
    peer = Peer(PEER, optimizer=None).fit(X, Y)
    theta = mine.kernel_.theta.numpy() + 0.3
    value, gradient = mine.log_marginal_likelihood(theta, eval_gradient=True)
    expected = peer.log_marginal_likelihood(theta, eval_gradient=True)
    assert value == pytest.approx(expected[0], rel=1e-10)
    np.testing.assert_allclose(gradient, expected[1], rtol=1e-7)
    assert mine.log_marginal_likelihood() == pytest.approx(mine.log_marginal_likelihood_value_)


@pytest.mark.spec("F-07")
def test_samples_have_the_moments_of_the_law():
    mine = GaussianProcessRegressor(KERNEL, optimizer=None).fit(X, Y)
    mean, cov = mine.predict(NEW[:5], return_cov=True)
    drawn = mine.sample_y(NEW[:5], 40_000, random_state=1)
    assert drawn.shape == (5, 40_000)
    error = np.sqrt(np.diag(cov) / 40_000)
    assert (np.abs(drawn.mean(1) - mean) < 5 * error).all()
    spread = np.sqrt((cov**2 + np.outer(np.diag(cov), np.diag(cov))) / 40_000)
    assert (np.abs(np.cov(drawn) - cov) < 5 * spread).all()
    prior = GaussianProcessRegressor(RBF(1.0)).sample_y(NEW[:3], 40_000, random_state=0)
    K = RBF(1.0)(NEW[:3]).numpy()
    assert (np.abs(np.cov(prior) - K) < 5 * np.sqrt((K**2 + 1) / 40_000)).all()
    assert GaussianProcessRegressor(RBF(1.0), n_targets=3).sample_y(NEW[:4], 2).shape == (4, 3, 2)


@pytest.mark.spec("F-07")
def test_intervals_cover_what_they_promise():
    rng = np.random.default_rng(3)
    x = rng.uniform(0, 10, size=(1200, 1))
    y = np.sin(x[:, 0]) + 0.3 * rng.normal(size=1200)
    model = GaussianProcessRegressor(1.0 * RBF(1.0) + White(0.1), method="exact").fit(x[:200], y[:200])
    ends = model.predict_interval(x[200:], level=0.8)
    mean, std = model.predict(x[200:], return_std=True)
    np.testing.assert_allclose(ends[:, 1] - mean, norm.ppf(0.9) * std, rtol=1e-6)
    covered = ((ends[:, 0] < y[200:]) & (y[200:] < ends[:, 1])).mean()
    assert abs(covered - 0.8) < 0.06  # 4 standard errors, and the noise is itself learned from 200 rows
    assert model.kernel_.parts[1].variance.item() == pytest.approx(0.09, rel=0.35)  # 3 standard errors of a variance


def test_noise_for_each_row_and_fixed_parameters():
    noise = np.linspace(0.01, 0.3, 80)
    mine = GaussianProcessRegressor(1.0 * RBF(0.7), alpha=noise, optimizer=None).fit(X, Y)
    peer = Peer(peers.ConstantKernel(1.0) * peers.RBF(0.7), alpha=noise, optimizer=None).fit(X, Y)
    np.testing.assert_allclose(mine.predict(NEW), peer.predict(NEW), rtol=1e-7, atol=1e-9)
    held = GaussianProcessRegressor(KERNEL, fixed=("0.1.lengthscale",)).fit(X, Y)
    values = dict(held.kernel_.tensors())
    assert float(values["0.1.lengthscale"]) == pytest.approx(0.8, rel=1e-12)
    assert float(values["1.variance"]) != pytest.approx(0.05, rel=1e-3)
    with pytest.raises(InvalidInput, match="fixed names 'lengthscal'"):
        GaussianProcessRegressor(KERNEL, fixed=("lengthscal",)).fit(X, Y)


def test_leave_one_out_is_in_the_units_of_the_targets():
    mine = GaussianProcessRegressor(KERNEL, optimizer=None, normalize_y=True).fit(X, 100 * Y + 7)
    plain = GaussianProcessRegressor(KERNEL, optimizer=None, normalize_y=True).fit(X, Y)
    np.testing.assert_allclose(mine.leave_one_out().mean, 100 * plain.leave_one_out().mean + 7)
    np.testing.assert_allclose(mine.leave_one_out().log_density, plain.leave_one_out().log_density - np.log(100))


@pytest.mark.parametrize("kernel", [KERNEL, Periodic(1.0, 3.0) * RBF(2.0) + Linear(1.0) + White(0.1), "matern32"])
def test_fitted_kernels_come_back_from_files(kernel, tmp_path):
    model = GaussianProcessRegressor(kernel, ard=True).fit(X, Y)
    loaded = benthic.load(model.save(tmp_path / "gp.safetensors"))
    assert repr(loaded.kernel_) == repr(model.kernel_) and repr(loaded) == repr(model)
    for here, there in zip(model.predict(NEW, return_std=True), loaded.predict(NEW, return_std=True), strict=True):
        np.testing.assert_array_equal(here, there)
    assert torch.equal(loaded.kernel_.theta, model.kernel_.theta)


def test_frames_with_categories_and_pictures():
    frame = pd.DataFrame({"x": X[:, 0], "kind": pd.Categorical(np.where(X[:, 1] > 0, "a", "b"))})
    y = np.sin(2 * X[:, 0]) + 2.0 * (X[:, 1] > 0)
    model = GaussianProcessRegressor().fit(frame, y)
    assert model.score(frame, y) > 0.95 and model.plot().axes
    line = GaussianProcessRegressor().fit(X[:, :1], np.sin(X[:, 0]))
    assert len(line.plot().axes[0].lines) == 2
    assert "log marginal likelihood" in line.summary()


class Sigmoid(Kernel):
    """Not positive definite."""

    def _matrix(self, X, Y, shift, fast=False):
        return torch.tanh(X @ Y.mT - 1)

    def _paired(self, X, Y, same):
        return torch.tanh((X * Y).sum(-1) - 1)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"kernel": Sigmoid()}, "not positive definite on these rows"),
        ({"kernel": "rfb"}, "did you mean 'rbf'"),
        ({"kernel": RBF(torch.ones(5))}, "X has 2 columns"),
        ({"alpha": -1.0}, "not negative"),
        ({"alpha": np.ones(3)}, "one value for each of 80 rows"),
        ({"alpha": np.ones(80), "method": "sgpr", "inducing": 5}, "needs method='exact'"),
        ({"method": "sgpr", "kernel": RBF(1.0), "alpha": 0.0}, "noise variance above zero"),
        ({"method": "sgp"}, "did you mean"),
        ({"method": "exact", "inducing": 5}, "inducing is for methods"),
        ({"optimizer": "adam"}, "use 'lbfgs'"),
        ({"bounds": (2.0, 3.0)}, "around 1"),
        ({"tol": 0.0}, "tol is 0.0"),
        ({"n_restarts_optimizer": -1}, "at least 0"),
    ],
)
def test_unusable_settings(settings, words):
    model = GaussianProcessRegressor(**settings)
    with pytest.raises(InvalidInput, match=words) as caught:
        model.fit(X, Y)
    assert str(caught.value).startswith("GaussianProcessRegressor.fit: ")


def test_a_second_fit_forgets_the_first():
    model = GaussianProcessRegressor(KERNEL, optimizer=None).fit(X, Y)
    model.predict(NEW, return_std=True)
    again = model.fit(X + 1.0, Y).predict(NEW, return_std=True)
    fresh = GaussianProcessRegressor(KERNEL, optimizer=None).fit(X + 1.0, Y).predict(NEW, return_std=True)
    np.testing.assert_array_equal(again, fresh)


def test_equal_rows_without_noise_are_named():
    rows = np.vstack([X, X[3:4]])
    with pytest.raises(InvalidInput, match="rows 3 and 80 of X are equal and there is no noise"):
        GaussianProcessRegressor(RBF(1.0), alpha=0.0).fit(rows, np.append(Y, 0.0))
    assert GaussianProcessRegressor(RBF(1.0), alpha=1e-3).fit(rows, np.append(Y, 0.0)).n_iter_ >= 1


def test_too_many_rows_for_the_exact_method_names_the_memory(monkeypatch):
    monkeypatch.setattr("benthic.gp.estimator.memory_of", lambda device: 1e5)
    with pytest.raises(InvalidInput, match=r"80 rows need about 0 GiB .*inducing=500 for 'sgpr' or 'svgp'"):
        GaussianProcessRegressor(method="exact").fit(X, Y)


def test_answers_that_need_the_exact_method_say_so():
    model = GaussianProcessRegressor(method="sgpr", inducing=10).fit(X, Y)
    with pytest.raises(InvalidInput, match="needs method='exact'"):
        model.leave_one_out()
    with pytest.raises(InvalidInput, match="at most one of return_std and return_cov"):
        model.predict(X, return_std=True, return_cov=True)
    with pytest.raises(InvalidInput, match="between 0 and 1"):
        model.predict_interval(X, level=2.0)
