"""Inducing points: the bound below the evidence and equal to it at the data, minibatches near the collapsed optimum."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

import benthic
from benthic.data.batch import Batch
from benthic.gp import GaussianProcessRegressor, collapsed_bound, greedy_inducing
from benthic.gp.evidence import Evidence
from benthic.gp.sparse import Inducing, inducing_covariance, inducing_moments, optimal_inducing
from benthic.gp.variational import Bernoulli, Gaussian, Variational, hermite
from benthic.kernels import RBF, White

RNG = np.random.default_rng(0)
X = RNG.uniform(-3, 3, size=(200, 1))
Y = np.sin(2 * X[:, 0]) + 0.2 * RNG.normal(size=200)
ROWS, TARGETS = torch.tensor(X), torch.tensor(np.column_stack([Y, np.cos(X[:, 0])]))
KERNEL = 1.2 * RBF(0.7) + White(0.05)
LATENT = 1.2 * RBF(0.7)


@pytest.mark.spec("F-07")
def test_the_bound_rises_with_points_and_ends_at_the_evidence():
    exact, _ = Evidence(KERNEL, ROWS, TARGETS).value_and_gradient(gradient=False)
    order = greedy_inducing(LATENT, ROWS, 200)
    bounds = [float(collapsed_bound(KERNEL, ROWS, TARGETS, ROWS[order[:m]])) for m in (3, 6, 10, 15)]
    assert (np.diff(bounds) > 0).all() and bounds[-1] < exact
    assert float(collapsed_bound(KERNEL, ROWS, TARGETS, ROWS)) == pytest.approx(exact, abs=1e-3)


@pytest.mark.spec("F-07")
def test_the_bound_is_titsias_formula():
    Z = ROWS[:8]
    Kuf, Kuu = LATENT(Z, ROWS), LATENT(Z)
    Q = Kuf.T @ torch.linalg.solve(Kuu, Kuf)
    law = torch.distributions.MultivariateNormal(torch.zeros(200, dtype=torch.float64), Q + 0.05 * torch.eye(200))
    slack = (1.2 * 200 - Q.diagonal().sum()) / 0.1
    expected = law.log_prob(TARGETS.T).sum() - 2 * slack
    assert float(collapsed_bound(KERNEL, ROWS, TARGETS, Z)) == pytest.approx(float(expected), rel=1e-5)


def test_the_bound_is_differentiable_in_parameters_and_points():
    rows, y = ROWS[:20], TARGETS[:20]

    def value(theta, Z):
        return collapsed_bound(KERNEL.with_theta(theta), rows, y, Z)

    start = (KERNEL.theta.requires_grad_(), torch.linspace(-2, 2, 4, dtype=torch.float64)[:, None].requires_grad_())
    assert torch.autograd.gradcheck(value, start)


@pytest.mark.spec("F-07")
def test_the_optimal_law_with_points_at_the_data_is_the_exact_posterior():
    new = torch.linspace(-3, 3, 25, dtype=torch.float64)[:, None]
    at = optimal_inducing(KERNEL, ROWS, TARGETS, ROWS[greedy_inducing(LATENT, ROWS, 60)])
    K, cross = KERNEL(ROWS), LATENT(new, ROWS)
    mean = cross @ torch.linalg.solve(K, TARGETS)
    cov = LATENT(new) - cross @ torch.linalg.solve(K, cross.T)
    found, variance = inducing_moments(LATENT, at, new)
    torch.testing.assert_close(found.T, mean, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(variance[0], cov.diagonal(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(inducing_covariance(LATENT, at, new)[1][0], cov, rtol=1e-4, atol=1e-5)


@pytest.mark.spec("F-07")
def test_the_minibatch_bound_at_the_optimal_law_is_the_collapsed_bound():
    Z = ROWS[greedy_inducing(LATENT, ROWS, 12)]
    at = optimal_inducing(KERNEL, ROWS, TARGETS, Z)
    network = Variational(KERNEL, at, Gaussian(), 200, torch.ones(3, dtype=torch.bool))
    parts = [float(network.objective(Batch(ROWS[i : i + 50], TARGETS[i : i + 50])).detach()) for i in range(0, 200, 50)]
    assert -sum(parts) == pytest.approx(float(collapsed_bound(KERNEL, ROWS, TARGETS, Z)), rel=1e-6)
    worse = Variational(KERNEL, Inducing(Z, at.mean + 0.1, at.root), Gaussian(), 200, torch.ones(3, dtype=torch.bool))
    assert float(worse.objective(Batch(ROWS, TARGETS)).detach()) > sum(parts)


def test_expected_log_likelihoods_agree_with_quadrature():
    mean, variance = torch.tensor([[0.3, -2.0]]).double(), torch.tensor([[0.5, 3.0]]).double()
    y = torch.tensor([[1.0, 0.0]]).double()
    places, weights = hermite(mean, 100)
    f = mean[..., None] + variance.sqrt()[..., None] * places
    logistic = torch.nn.functional.logsigmoid((2 * y[..., None] - 1) * f) @ weights
    none = torch.zeros((), dtype=torch.float64)
    torch.testing.assert_close(Bernoulli().expected(mean, variance, y, none), logistic, rtol=1e-5, atol=1e-5)
    noise = torch.tensor(0.4, dtype=torch.float64)
    normal = torch.distributions.Normal(f, noise.sqrt()).log_prob(y[..., None]) @ weights
    torch.testing.assert_close(Gaussian().expected(mean, variance, y, noise), normal, rtol=1e-9, atol=1e-9)


@pytest.mark.spec("F-07")
def test_collapsed_regression_approaches_the_exact_one():
    exact = GaussianProcessRegressor(KERNEL).fit(X, Y)
    few = GaussianProcessRegressor(KERNEL, inducing=20).fit(X, Y)
    assert few.method_ == "sgpr" and few.inducing_points_.shape == (20, 1)
    assert few.log_marginal_likelihood_value_ <= exact.log_marginal_likelihood_value_ + 1e-6
    assert few.log_marginal_likelihood_value_ > exact.log_marginal_likelihood_value_ - 0.5
    new = np.linspace(-3, 3, 50)[:, None]
    for mine, other in zip(few.predict(new, return_std=True), exact.predict(new, return_std=True), strict=True):
        np.testing.assert_allclose(mine, other, atol=0.01)
    tight = GaussianProcessRegressor(KERNEL, inducing=6).fit(X, Y)
    moved = GaussianProcessRegressor(KERNEL, inducing=6, learn_inducing=True).fit(X, Y)
    assert moved.log_marginal_likelihood_value_ > tight.log_marginal_likelihood_value_ + 1.0


@pytest.mark.spec("F-07")
def test_minibatches_approach_the_collapsed_optimum(tmp_path):
    collapsed = GaussianProcessRegressor(KERNEL, inducing=20, method="sgpr").fit(X, Y)
    trainer = {"steps": 250, "batch_size": 100, "lr": 0.01, "verbose": False}
    model = GaussianProcessRegressor(KERNEL, inducing=20, method="svgp", trainer=trainer, random_state=0).fit(X, Y)
    at, (latent, noise) = model._inducing(), model._latent()
    network = Variational(model.kernel_, at, Gaussian(), 200, torch.ones(3, dtype=torch.bool), 1e-10)
    bound = -float(network.objective(Batch(ROWS, TARGETS[:, :1])).detach())
    assert latent is not None and noise > 0
    assert collapsed.log_marginal_likelihood_value_ - 3.0 < bound < collapsed.log_marginal_likelihood_value_ + 0.5
    new = np.linspace(-3, 3, 50)[:, None]
    np.testing.assert_allclose(model.predict(new), collapsed.predict(new), atol=0.1)
    loaded = benthic.load(model.save(tmp_path / "svgp.safetensors"))
    np.testing.assert_array_equal(loaded.predict(new, return_std=True)[1], model.predict(new, return_std=True)[1])
    assert model.plot().axes and "inducing points" in model.summary()
    assert model.sample_y(new[:4], 3).shape == (4, 3)


def test_several_outputs_share_the_points():
    for method in ("sgpr", "svgp"):
        model = GaussianProcessRegressor(
            KERNEL, inducing=15, method=method, trainer={"steps": 20, "verbose": False}, random_state=0
        ).fit(X, TARGETS.numpy())
        mean, std = model.predict(X, return_std=True)
        assert mean.shape == std.shape == (200, 2) and model.score(X, TARGETS.numpy()) > 0.9
        assert model.predict(X[:5], return_cov=True)[1].shape == (5, 5, 2)


def test_minibatches_learn_from_a_file(tmp_path):
    path = tmp_path / "rows.csv"
    np.savetxt(path, np.column_stack([X, Y]), delimiter=",", header="x,y", comments="")
    rows = pd.DataFrame(X, columns=["x"])
    model = GaussianProcessRegressor(
        inducing=15, method="svgp", trainer={"steps": 30, "verbose": False}, random_state=0
    ).fit(path, "y")
    whole = GaussianProcessRegressor(method="exact").fit(path, "y")
    assert whole.method_ == "exact" and whole.score(rows, Y) > 0.9 and model.score(rows, Y) > 0.9


def test_greedy_points_stop_when_nothing_is_left():
    rows = torch.tensor([[0.0], [0.0], [1.0], [1.0]])
    assert greedy_inducing(RBF(1.0), rows, 4).tolist() == [0, 2]
