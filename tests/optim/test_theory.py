"""Constants against eigenvalues and data, and the rates of gradient descent on problems that satisfy them."""

from __future__ import annotations

import math

import pytest
import torch

from benthic.optim import (
    check_gradient_descent,
    extreme_eigenvalues,
    least_squares_constants,
    logistic_constants,
    minimize,
    pl_constant,
    quadratic_constants,
    smoothness,
    strong_convexity,
)
from tests.optim.problems import D, logistic, quadratic, random_points, rosenbrock, saddle

pytestmark = pytest.mark.spec("D-04")


def least_squares(n=30, d=8, rank=5, seed=0):
    """Rows of low rank: not strongly convex, and PL with the smallest curvature that is not zero."""
    g = torch.Generator().manual_seed(seed)
    X = torch.randn(n, rank, dtype=D, generator=g) @ torch.randn(rank, d, dtype=D, generator=g)
    y = torch.randn(n, dtype=D, generator=g)
    residual = y - X @ torch.linalg.lstsq(X, y[:, None], driver="gelsd").solution[:, 0]
    return X, lambda w: 0.5 * ((X @ w - y) ** 2).mean(), 0.5 * float((residual**2).mean())


def test_quadratics_have_the_constants_of_their_matrix():
    A, b, f = quadratic(12, 3)
    values = torch.linalg.eigvalsh(A)
    assert smoothness(f, b) == pytest.approx(float(values[-1]), rel=1e-10)
    assert strong_convexity(f, b) == pytest.approx(float(values[0]), rel=1e-7)
    exact = quadratic_constants(A)
    assert (exact.L, exact.mu) == (pytest.approx(float(values[-1])), pytest.approx(float(values[0])))
    assert exact.pl == exact.mu


def test_curvature_down_counts_for_smoothness_and_against_convexity():
    point = torch.zeros(2, dtype=D)
    assert smoothness(saddle, point) == pytest.approx(2.0)
    assert strong_convexity(saddle, point) == pytest.approx(-1.0)


def test_a_ball_has_more_curvature_than_its_center():
    center = torch.tensor([0.3, 0.1], dtype=D)
    at_center, in_ball = smoothness(rosenbrock, center), smoothness(rosenbrock, center, radius=1.0, samples=60)
    truth = max(
        float(
            torch.linalg.eigvalsh(
                torch.func.hessian(rosenbrock)(center + r * torch.tensor([math.cos(a), math.sin(a)], dtype=D))
            )
            .abs()
            .max()
        )
        for r in (0.0, 0.5, 1.0)
        for a in torch.linspace(0, 2 * math.pi, 30).tolist()
    )
    assert at_center < in_ball <= truth * 1.001
    assert in_ball > 0.8 * truth  # sixty points of a disc come near its edge
    hessian = torch.func.hessian(rosenbrock)(center)
    assert at_center == pytest.approx(float(torch.linalg.eigvalsh(hessian).abs().max()), rel=1e-10)


def test_few_lanczos_steps_find_the_ends_of_a_large_spectrum():
    d = 2000
    values = torch.linspace(1.0, 100.0, d, dtype=D)
    values[-1], values[0] = 200.0, -50.0
    low, high = extreme_eigenvalues(lambda v: values * v, torch.zeros(d, dtype=D), steps=40)
    assert high == pytest.approx(200.0, rel=1e-6) and low == pytest.approx(-50.0, rel=1e-6)


def test_least_squares_constants_are_those_of_the_hessian():
    X, f, _ = least_squares()
    w = random_points(1, 8)[0]
    values = torch.linalg.eigvalsh(torch.func.hessian(f)(w))
    found = least_squares_constants(X)
    assert pytest.approx(float(values[-1])) == found.L and found.mu == 0.0
    assert found.pl == pytest.approx(float(values[3]))  # rank 5 of 8
    ridged = least_squares_constants(X, ridge=0.25)
    assert (ridged.L, ridged.mu, ridged.pl) == (pytest.approx(found.L + 0.25), pytest.approx(0.25), pytest.approx(0.25))
    assert least_squares_constants(X[:3]).mu == 0.0  # fewer rows than columns


def test_the_logistic_bound_is_reached_at_the_origin_and_nowhere_exceeded():
    X, _, loss = logistic(ridge=0.05)
    L = logistic_constants(X, ridge=0.05).L
    assert smoothness(loss, torch.zeros(12, dtype=D)) == pytest.approx(L, rel=1e-9)
    assert smoothness(loss, torch.zeros(12, dtype=D), radius=3.0) <= L * (1 + 1e-9)
    assert strong_convexity(loss, torch.ones(12, dtype=D)) >= 0.05


def test_the_pl_constant_of_samples_bounds_the_exact_one_from_above():
    X, f, minimum = least_squares()
    exact = least_squares_constants(X).pl
    sampled = pl_constant(f, random_points(300, 8), minimum)
    assert exact <= sampled * (1 + 1e-9) and sampled < 20 * exact
    # along the eigenvector of that curvature the inequality is an equality
    values, vectors = torch.linalg.eigh(X.T @ X / len(X))
    floor = minimize(f, torch.zeros(8, dtype=D), "newton").point
    assert pl_constant(f, (floor + vectors[:, 3])[None], minimum) == pytest.approx(float(values[3]), rel=1e-6)


def problem(name):
    """f, start, L, mu of the PL inequality, minimum."""
    if name == "quadratic":
        A, b, f = quadratic(10, 2)
        constants = quadratic_constants(A)
        return f, torch.ones(10, dtype=D), constants.L, constants.mu, -0.5 * float(b @ torch.linalg.solve(A, b))
    if name == "rank-deficient least squares":
        X, f, minimum = least_squares()
        constants = least_squares_constants(X)
        return f, torch.ones(8, dtype=D), constants.L, constants.pl, minimum
    X, _, loss = logistic(ridge=0.05)
    constants = logistic_constants(X, 0.05)
    return loss, torch.ones(12, dtype=D), constants.L, constants.pl, None


NAMES = ["quadratic", "rank-deficient least squares", "logistic"]


@pytest.mark.parametrize("name", NAMES)
def test_the_rates_hold_where_their_assumptions_do(name):
    f, x0, L, mu, minimum = problem(name)
    check = check_gradient_descent(f, x0, L, mu=mu, minimum=minimum, steps=400)
    assert check.decreases and check.gradient_holds and check.value_holds and check.holds
    assert len(check.gap) == 401
    for epsilon in (1.0, 0.1, 0.01):
        measured, bound = check.steps_to(epsilon)
        assert measured is None or measured <= bound
        assert bound == math.ceil(2 * L * float(check.gap[0]) / epsilon**2)
    assert check.steps_to(0.1)[0] is not None


def test_the_bounds_are_as_written():
    f, x0, L, mu, minimum = problem("quadratic")
    check = check_gradient_descent(f, x0, L, mu=mu, minimum=minimum, steps=5)
    gap = float(f(x0)) - minimum
    for t in range(1, 6):
        assert float(check.squares_bound[t]) == pytest.approx(2 * L * gap / t)
        assert float(check.gap_bound[t]) == pytest.approx((1 - mu / L) ** t * gap)
    g = torch.func.grad(f)(x0)
    assert float(check.squares[0]) == pytest.approx(float(g @ g))
    assert float(check.gap[1]) == pytest.approx(float(f(x0 - g / L)) - minimum)


def test_linear_convergence_slows_down_to_exactly_the_smallest_curvature():
    # started along that eigenvector the gap falls by (1 - mu/L)² a step
    A, _, _ = quadratic(6, 1)
    values, vectors = torch.linalg.eigh(A)
    check = check_gradient_descent(
        lambda x: 0.5 * x @ A @ x, vectors[:, 0], float(values[-1]), mu=1.0, minimum=0.0, steps=30
    )
    ratio = float(check.gap[20] / check.gap[19])
    assert ratio == pytest.approx((1 - float(values[0] / values[-1])) ** 2, rel=1e-9)
    assert check.holds


def test_constants_that_do_not_fit_are_found_out():
    f, x0, L, mu, minimum = problem("quadratic")
    steep = check_gradient_descent(f, x0, 0.4 * L, mu=mu, minimum=minimum, steps=50)
    assert not steep.holds and not steep.decreases
    fast = check_gradient_descent(f, x0, L, mu=0.5 * L, minimum=minimum, steps=50)
    assert fast.value_holds is False and fast.gradient_holds and not fast.holds


def test_without_mu_there_is_one_bound_and_one_panel():
    check = check_gradient_descent(rosenbrock, torch.tensor([0.5, 0.2], dtype=D), 2000.0, steps=200)
    assert check.gap_bound is None and check.value_holds is None and check.holds  # smooth enough, and not convex
    assert len(check.plot().axes) == 1
    f, x0, L, mu, minimum = problem("quadratic")
    assert len(check_gradient_descent(f, x0, L, mu=mu, minimum=minimum, steps=20).plot().axes) == 2
