"""Loss, gradient and curvature sums against finite differences, autograd and dense algebra."""

from __future__ import annotations

import pytest
import torch

from benthic.data.batch import Batch
from benthic.linear.kronecker import kronecker, moment_sums, moments_of
from benthic.linear.positive import factor
from benthic.linear.scores import first_order, mirror, probabilities, second_order, spread, with_ones

pytestmark = pytest.mark.spec("F-02")


def problem(classes, intercept, n=60, d=4, seed=0):
    generator = torch.Generator().manual_seed(seed)
    rows = 1 if classes == 2 else classes
    X = torch.randn(n, d, dtype=torch.float64, generator=generator)
    y = torch.randint(classes, (n,), generator=generator)
    weight = torch.rand(n, dtype=torch.float64, generator=generator) * 3
    theta = torch.randn(rows, d + int(intercept), dtype=torch.float64, generator=generator)
    return theta, Batch(X, y, weight)


def loss_by_hand(theta, batch, intercept):
    scores = with_ones(batch.X, intercept) @ theta.T
    if len(theta) == 1:
        scores = torch.cat([torch.zeros_like(scores), scores], 1)
    return (batch.weight * torch.nn.functional.cross_entropy(scores, batch.y, reduction="none")).sum()


CASES = [(2, True), (2, False), (3, True), (5, False)]


@pytest.mark.parametrize(("classes", "intercept"), CASES)
def test_the_gradient_is_the_slope_of_the_loss(classes, intercept):
    theta, batch = problem(classes, intercept)
    sums, _ = first_order(theta, batch)
    torch.testing.assert_close(sums["loss"], loss_by_hand(theta, batch, intercept))
    step = 1e-5
    for index in [(0, 0), (len(theta) - 1, theta.shape[1] - 1), (0, 2)]:
        move = torch.zeros_like(theta)
        move[index] = step
        above, below = (first_order(theta + sign * move, batch)[0]["loss"] for sign in (1, -1))
        # error of a central difference: step² f''' / 6 + rounding / step, both below 1e-7 of sums near 100
        assert float((above - below) / (2 * step)) == pytest.approx(float(sums["gradient"][index]), abs=1e-6)


@pytest.mark.parametrize(("classes", "intercept"), CASES)
def test_curvature_is_the_second_derivative(classes, intercept):
    theta, batch = problem(classes, intercept)
    P = first_order(theta, batch)[1]
    ours = mirror(second_order(P, with_ones(batch.X, intercept), batch.weight))
    dense = torch.autograd.functional.hessian(
        lambda flat: loss_by_hand(flat.reshape(theta.shape), batch, intercept), theta.reshape(-1)
    )
    torch.testing.assert_close(ours, dense, rtol=1e-9, atol=1e-9)


def test_curvature_does_not_depend_on_how_rows_are_cut(monkeypatch):
    theta, batch = problem(5, True, n=500)
    P, X = first_order(theta, batch)[1], with_ones(batch.X, True)
    whole = second_order(P, X, batch.weight)
    monkeypatch.setattr("benthic.linear.scores._CHUNK", 1)
    torch.testing.assert_close(second_order(P, X, batch.weight), whole, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sums_are_kept_in_double_precision(dtype):
    theta, (X, y, weight) = problem(3, True)
    sums, P = first_order(theta, Batch(X.to(dtype), y, weight.to(dtype)))
    assert {value.dtype for value in sums.values()} == {torch.float64}
    assert P.dtype == dtype
    assert spread(P, None).dtype == second_order(P, X.to(dtype), None).dtype == torch.float64


def test_probabilities_add_up_and_odds_are_linear():
    for classes in (2, 4):
        theta, batch = problem(classes, True)
        P = probabilities(theta, batch.X)
        torch.testing.assert_close(P.sum(1), torch.ones(len(P), dtype=torch.float64))
        torch.testing.assert_close(P.log(), probabilities(theta, batch.X, log=True))
        odds = (P[:, -1] / P[:, 0]).log()
        direction = theta[-1] - theta[0] if classes > 2 else theta[0]
        torch.testing.assert_close(odds, with_ones(batch.X, True) @ direction)


@pytest.mark.parametrize(("classes", "intercept"), CASES)
def test_the_preconditioner_solves_its_kronecker_product(classes, intercept):
    """Where probabilities do not depend on the row, the approximation is the Hessian itself."""
    theta, batch = problem(classes, intercept, n=400)
    theta = torch.zeros_like(theta)
    if intercept:
        theta[:, -1] = torch.linspace(-1, 1, len(theta), dtype=torch.float64)
    batch = batch._replace(X=batch.X * torch.tensor([1.0, 1e-3, 1e3, 1.0]) + 5.0, weight=None)
    l2, n = 1e-3, len(batch.X)
    P = first_order(theta, batch)[1]
    hessian = mirror(second_order(P, with_ones(batch.X, intercept), None)) / n
    ridge = torch.full((theta.shape[1],), l2, dtype=torch.float64)
    if intercept:
        ridge[-1] = 0
    hessian += torch.diag(ridge.repeat(len(theta)))
    guess = kronecker(moments_of(moment_sums(batch, len(theta)), intercept), spread(P, None) / n, l2)
    right = torch.randn(theta.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    right -= right.mean(0) if len(theta) > 1 else 0.0  # gradients have mean zero over classes
    solution = guess.solve(right)
    torch.testing.assert_close((hessian @ solution.reshape(-1)).reshape(theta.shape), right, rtol=1e-6, atol=1e-6)


def test_singular_and_badly_scaled_systems_are_solved():
    scales = torch.logspace(-9, 9, 6, dtype=torch.float64)
    base = torch.randn(40, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    base[:, 3] = base[:, 2]  # a column twice
    base[:, 5] = 0.0
    A = (base * scales).T @ (base * scales)
    right = A @ torch.ones(6, dtype=torch.float64)
    found = factor(A).solve(right)
    assert bool(torch.isfinite(found).all())
    torch.testing.assert_close((A @ found) / scales, right / scales, rtol=1e-9, atol=1e-9)
