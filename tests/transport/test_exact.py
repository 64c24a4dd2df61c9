"""Exact transport beside POT's network simplex, brute force and closed forms."""

from __future__ import annotations

import itertools
import math

import numpy as np
import ot
import pytest
import torch
from torch.autograd import gradcheck

from benthic.transport import exact, wasserstein, wasserstein_1d
from tests.transport.problems import clouds, squared

pytestmark = pytest.mark.spec("B-04")


def assert_optimal(found, a, b, C):
    """Feasible, complementary, and without a duality gap: a proof of optimality."""
    torch.testing.assert_close(found.plan.sum(-1), a, rtol=0, atol=1e-12)
    torch.testing.assert_close(found.plan.sum(-2), b, rtol=0, atol=1e-12)
    assert float(found.plan.min()) >= 0
    slack = C - found.f[..., :, None] - found.g[..., None, :]
    assert float(slack.min()) >= -1e-10 * float(C.abs().max())
    dual = (a * found.f).sum(-1) + (b * found.g).sum(-1)
    torch.testing.assert_close(dual, found.value, rtol=0, atol=1e-10)


@pytest.mark.parametrize(("n", "m"), [(1, 1), (1, 5), (7, 3), (20, 30), (90, 110)])
def test_program_is_that_of_pot(n, m):
    X, Y, a, b = clouds(n, m, 3)
    C = squared(X, Y)
    found = exact(a, b, C)
    torch.testing.assert_close(found.value, ot.emd2(a, b, C), rtol=0, atol=1e-10)
    assert_optimal(found, a, b, C)


def test_assignment_is_that_of_pot_and_of_brute_force():
    X, Y, _, _ = clouds(6, 6)
    C = squared(X, Y)
    found = exact(None, None, C)
    best = min(sum(float(C[i, j]) for i, j in enumerate(order)) for order in itertools.permutations(range(6))) / 6
    assert abs(float(found.value) - best) < 1e-14
    uniform = torch.full((6,), 1 / 6, dtype=torch.float64)
    torch.testing.assert_close(found.value, ot.emd2(uniform, uniform, C), rtol=0, atol=1e-12)
    assert_optimal(found, uniform, uniform, C)


def test_large_assignment_has_valid_potentials():
    X, Y, _, _ = clouds(200, 200)
    uniform = torch.full((200,), 1 / 200, dtype=torch.float64)
    assert_optimal(exact(None, None, squared(X, Y)), uniform, uniform, squared(X, Y))


def test_negative_and_large_costs():
    X, Y, a, b = clouds(9, 11)
    C = squared(X, Y)
    value = ot.emd2(a, b, C)
    torch.testing.assert_close(exact(a, b, C - 5).value, value - 5, rtol=0, atol=1e-10)
    torch.testing.assert_close(exact(a, b, 1e6 * C).value, 1e6 * value, rtol=1e-10, atol=0)
    assert float(exact(a, b, 0 * C).value) == 0


def test_points_without_mass():
    X, Y, a, b = clouds(8, 9)
    a, b = a.clone(), b.clone()
    a[3], b[[0, 5]] = 0, 0
    a, b = a / a.sum(), b / b.sum()
    found = exact(a, b, squared(X, Y))
    assert_optimal(found, a, b, squared(X, Y))
    assert not found.plan[3].any() and torch.isfinite(found.f).all()


def test_batch_is_a_loop():
    problems = [clouds(6, 7, seed=seed) for seed in range(3)]
    a, b = (torch.stack([problem[k] for problem in problems]) for k in (2, 3))
    C = torch.stack([squared(X, Y) for X, Y, _, _ in problems])
    together = exact(a, b, C)
    for k in range(3):
        torch.testing.assert_close(together.value[k], exact(a[k], b[k], C[k]).value)
    assert together.plan.shape == (3, 6, 7)
    assert exact(a[0].float(), b[0].float(), C[0].float()).plan.dtype == torch.float32


def test_gradients_of_the_value():
    X, Y, a, b = clouds(5, 4)

    def solve(la, lb, C):
        return exact(la.softmax(0), lb.softmax(0), C).value

    assert gradcheck(solve, (a.log().requires_grad_(), b.log().requires_grad_(), squared(X, Y).requires_grad_()))


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 3.0])
def test_distance_takes_the_root(p):
    X, Y, a, b = clouds(12, 15, 3)
    truth = ot.emd2(a, b, torch.cdist(X, Y) ** p) ** (1 / p)
    torch.testing.assert_close(wasserstein(X, Y, p, a, b), truth, rtol=0, atol=1e-10)


@pytest.mark.parametrize("p", [1.0, 2.0, 4.0])
def test_distance_of_a_translation_is_its_length(p):
    X, _, a, _ = clouds(15, 1, 3)
    shift = torch.tensor([1.0, -2.0, 2.0], dtype=torch.float64)
    torch.testing.assert_close(
        wasserstein(X, X + shift, p, a, a), torch.tensor(3.0, dtype=torch.float64), rtol=0, atol=1e-9
    )


def test_distance_is_a_metric():
    sets = [clouds(10, 1, seed=seed)[0] for seed in range(3)]
    d = [[float(wasserstein(A, B)) for B in sets] for A in sets]
    assert all(d[i][i] == 0 for i in range(3))
    assert all(abs(d[i][j] - d[j][i]) < 1e-12 and d[i][j] > 0 for i in range(3) for j in range(3) if i != j)
    assert all(d[i][k] <= d[i][j] + d[j][k] + 1e-12 for i, j, k in itertools.product(range(3), repeat=3))


def test_distance_on_the_line_is_by_sorting():
    X, Y, a, b = clouds(9, 11, 1)
    truth = exact(a, b, (X - Y.T).abs() ** 3).value ** (1 / 3)
    torch.testing.assert_close(wasserstein(X, Y, 3, a, b), truth, rtol=0, atol=1e-10)
    torch.testing.assert_close(wasserstein_1d(X[:, 0], Y[:, 0], 3, a, b), truth, rtol=0, atol=1e-10)


def test_gradient_of_the_distance():
    X, Y, _, _ = clouds(5, 5)
    assert gradcheck(wasserstein, (X.requires_grad_(), Y.requires_grad_()))
    same = X.detach().requires_grad_()
    (slope,) = torch.autograd.grad(wasserstein(same, same.detach()), same)
    assert torch.isfinite(slope).all()


@pytest.mark.parametrize("theta", [0.0, 0.3, -1.5])
def test_two_parallel_lines(theta):
    """Mass on the segments x = 0 and x = theta of the plane: KL is infinite, JS is log 2, but W = |theta|."""
    height = torch.linspace(0, 1, 40, dtype=torch.float64)
    lines = [torch.stack([torch.full_like(height, x), height], 1) for x in (0.0, theta)]
    assert abs(float(wasserstein(*lines, p=1)) - abs(theta)) < 1e-12
    assert abs(float(wasserstein(*lines, p=2)) - abs(theta)) < 1e-12
    # on the union of both supports the densities are disjoint unless theta is zero
    p, q = (np.array([1.0, 0.0]), np.array([0.0, 1.0])) if theta else (np.array([0.5, 0.5]),) * 2
    with np.errstate(divide="ignore", invalid="ignore"):
        kl = np.nansum(np.where(p > 0, p * np.log(p / q), 0))
        middle = (p + q) / 2
        js = sum(np.nansum(np.where(r > 0, r * np.log(r / middle), 0)) for r in (p, q)) / 2
    assert (kl == math.inf and abs(js - math.log(2)) < 1e-15) if theta else (kl == 0 and js == 0)
