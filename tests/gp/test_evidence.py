"""Evidence, factors and the search: against scikit-learn, torch.distributions, and brute force."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn.gaussian_process import GaussianProcessRegressor as Peer
from sklearn.gaussian_process import kernels as peers

from benthic.base.errors import InvalidInput
from benthic.gp.evidence import Evidence
from benthic.gp.factor import Factor, inverse_of_lower_
from benthic.gp.search import Box, levels_of, maximize
from benthic.kernels import RBF, Matern, White

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = np.column_stack([np.sin(X[:, 0]) + 0.3 * X[:, 1], X[:, 2] * X[:, 1]]) + 0.1 * RNG.normal(size=(60, 2))
ROWS, TARGETS = torch.tensor(X), torch.tensor(Y)
SCALES = [0.8, 1.5, 2.5]

PAIRS = [
    (2.0 * RBF(1.3) + White(0.2), peers.ConstantKernel(2.0) * peers.RBF(1.3) + peers.WhiteKernel(0.2)),
    (
        0.5 * RBF(torch.tensor(SCALES, dtype=torch.float64)) + White(0.05),
        peers.ConstantKernel(0.5) * peers.RBF(SCALES) + peers.WhiteKernel(0.05),
    ),
    (
        2.0 * Matern(1.5, 0.9) + White(0.1),
        peers.ConstantKernel(2.0) * peers.Matern(0.9, nu=1.5) + peers.WhiteKernel(0.1),
    ),
    (
        Matern(0.5, torch.tensor(SCALES, dtype=torch.float64)) + White(0.1),
        peers.Matern(SCALES, nu=0.5) + peers.WhiteKernel(0.1),
    ),
]


@pytest.mark.spec("F-07")
@pytest.mark.parametrize(("kernel", "peer"), PAIRS, ids=lambda k: repr(k)[:40])
@pytest.mark.parametrize("columns", [1, 2])
def test_value_and_gradient_agree_with_scikit_learn(kernel, peer, columns):
    model = Peer(peer, alpha=1e-3, optimizer=None).fit(X, Y[:, :columns])
    value, gradient = model.log_marginal_likelihood(peer.theta, eval_gradient=True)
    mine, slope = Evidence(kernel, ROWS, TARGETS[:, :columns], 1e-3).value_and_gradient()
    assert mine == pytest.approx(value, rel=1e-10)
    np.testing.assert_allclose(slope, gradient, rtol=1e-7, atol=1e-8)


@pytest.mark.spec("F-07")
def test_gradient_agrees_with_differences_for_noise_of_each_row():
    noise = torch.linspace(0.01, 0.5, 60, dtype=torch.float64)
    evidence = Evidence(1.3 * RBF(0.9) * Matern(2.5, 2.0) + White(0.1), ROWS, TARGETS, noise)
    theta = evidence.kernel.theta
    _, slope = evidence.value_and_gradient(theta)
    for i in range(len(theta)):
        step = torch.zeros_like(theta)
        step[i] = 1e-5
        ends = [evidence.value_and_gradient(theta + side * step, gradient=False)[0] for side in (1, -1)]
        assert float(slope[i]) == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-6)


def test_leave_one_out_equals_leaving_out():
    kernel = 2.0 * RBF(1.3) + White(0.2)
    found = Evidence(kernel, ROWS, TARGETS).leave_one_out()
    for i in (0, 17, 59):
        rest = torch.arange(60) != i
        K = kernel(ROWS[rest])
        cross = kernel(ROWS[i : i + 1], ROWS[rest])[0]
        mean = cross @ torch.linalg.solve(K, TARGETS[rest])
        variance = 2.2 - cross @ torch.linalg.solve(K, cross)
        torch.testing.assert_close(found.mean[i], mean, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(found.std[i], variance.sqrt().expand(2), rtol=1e-9, atol=1e-9)
        law = torch.distributions.Normal(mean, variance.sqrt())
        torch.testing.assert_close(found.log_density[i], law.log_prob(TARGETS[i]), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("n", [1, 7, 300, 700])
def test_factor_solves_inverts_and_measures(n):
    A = torch.randn(n, n + 5, generator=torch.Generator().manual_seed(n), dtype=torch.float64)
    K = A @ A.T + torch.eye(n)
    B = torch.randn(n, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    factor = Factor(K.clone())
    torch.testing.assert_close(factor.lower, torch.linalg.cholesky(K))
    assert factor.log_determinant() == pytest.approx(float(torch.logdet(K)), rel=1e-10, abs=1e-10)
    torch.testing.assert_close(factor.solve(B), torch.linalg.solve(K, B), rtol=1e-8, atol=1e-9)
    inverse = torch.linalg.inv(K)
    torch.testing.assert_close(factor.inverse_(), inverse, rtol=1e-7, atol=1e-9)
    torch.testing.assert_close(inverse_of_lower_(torch.linalg.cholesky(K)), inverse, rtol=1e-7, atol=1e-9)


def test_a_singular_matrix_gets_a_little_jitter_and_an_indefinite_one_a_sentence():
    low_rank = torch.ones(50, 50, dtype=torch.float64)
    factor = Factor(low_rank.clone())
    assert 0 < factor.jitter <= 1e-6
    torch.testing.assert_close(factor.lower @ factor.lower.T, low_rank, rtol=0, atol=2e-6)
    with pytest.raises(InvalidInput, match=r"not positive definite on these rows: its matrix has the eigenvalue -"):
        Factor(low_rank - 2 * torch.eye(50))
    with pytest.raises(InvalidInput, match="NaN or infinity"):
        Factor(torch.full((3, 3), torch.nan, dtype=torch.float64))


def test_box_is_smooth_bounded_and_invertible():
    box = Box(torch.tensor([-11.0]), torch.tensor([11.0]))
    u = torch.linspace(-40, 40, 81, dtype=torch.float64)
    inside = box.inside(u)
    assert (inside.abs() <= 11).all() and (inside.diff() >= 0).all()
    middle = u[(u.abs() < 9)]
    torch.testing.assert_close(box.outside(box.inside(middle)), middle, rtol=1e-6, atol=1e-6)
    leaf = u.clone().requires_grad_()
    torch.testing.assert_close(torch.autograd.grad(box.inside(leaf).sum(), leaf)[0], box.slope(u))


def test_levels_quarter_the_rows():
    assert levels_of(399) == [399] and levels_of(2000) == [500, 2000] and levels_of(1599) == [1599]


def test_search_through_levels_finds_what_a_plain_search_finds(monkeypatch):
    monkeypatch.setattr("benthic.gp.search._SMALLEST", 100)
    rng = np.random.default_rng(1)
    rows = torch.tensor(rng.uniform(-2, 2, size=(480, 2)))
    y = torch.sin(2 * rows[:, :1]) * rows[:, 1:] + 0.1 * torch.tensor(rng.normal(size=(480, 1)))
    kernel = 1.0 * RBF(1.0) + White(0.1)

    def level(m):
        return Evidence(kernel, rows[:m], y[:m]).value_and_gradient

    found = maximize(level, 480, kernel.theta, (1e-5, 1e5), tol=1e-2)
    assert found.converged and set(found.evaluations) == {120, 480} and found.evaluations[480] < 15
    plain = maximize(lambda m: level(480), 1, kernel.theta, (1e-5, 1e5), tol=1e-4)
    assert abs(plain.value - found.value) < 1e-4
    torch.testing.assert_close(found.theta, plain.theta, rtol=0, atol=1e-2)


def test_restarts_escape_a_poor_start():
    x = torch.linspace(0, 10, 60, dtype=torch.float64)[:, None]
    y = torch.sin(3 * x) + 0.1 * torch.randn(60, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    kernel = RBF(40.0) + White(1.0)

    def level(m):
        return Evidence(kernel, x, y).value_and_gradient

    rng = np.random.default_rng(0)
    one = maximize(level, 60, kernel.theta, (1e-6, 1e6))
    many = maximize(level, 60, kernel.theta, (1e-6, 1e6), restarts=8, rng=rng)
    assert many.value > one.value + 10
    assert math.exp(float(many.theta[0])) < 3
