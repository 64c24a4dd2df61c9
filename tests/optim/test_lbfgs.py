"""L-BFGS: the secant condition, exactness on quadratics, and a curved valley."""

from __future__ import annotations

import pytest
import torch

from benthic.optim.lbfgs import Memory, minimize

pytestmark = pytest.mark.spec("F-02")


def quadratic(d, condition, seed=0):
    generator = torch.Generator().manual_seed(seed)
    basis = torch.linalg.qr(torch.randn(d, d, dtype=torch.float64, generator=generator)).Q
    A = basis @ torch.diag(torch.logspace(0, condition, d, dtype=torch.float64)) @ basis.T
    b = torch.randn(d, dtype=torch.float64, generator=generator)
    return A, b, lambda x: (float(0.5 * x @ A @ x - b @ x), A @ x - b)


def test_the_inverse_maps_the_last_change_to_the_last_step():
    A, _, _ = quadratic(6, 3)
    memory = Memory(size=3)
    for seed in range(5):
        step = torch.randn(6, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
        memory = memory.add(step, A @ step)
    assert len(memory.steps) == 3
    torch.testing.assert_close(memory.inverse(memory.changes[-1]), memory.steps[-1])


def test_the_two_loops_equal_the_dense_update():
    A, _, _ = quadratic(5, 2)
    memory, H = Memory(), torch.eye(5, dtype=torch.float64) * 0.7
    for seed in range(4):
        s = torch.randn(5, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
        y = A @ s
        memory, rho = memory.add(s, y), 1 / (s @ y)
        V = torch.eye(5, dtype=torch.float64) - rho * torch.outer(y, s)
        H = V.T @ H @ V + rho * torch.outer(s, s)
    gradient = torch.arange(5, dtype=torch.float64)
    torch.testing.assert_close(memory.inverse(gradient, lambda g: 0.7 * g), H @ gradient)


def test_pairs_without_curvature_are_left_out():
    s = torch.tensor([1.0, 0.0])
    assert not Memory().add(s, -s).steps
    assert not Memory().add(s, torch.tensor([0.0, 1.0])).steps


def test_a_perfect_preconditioner_needs_one_step():
    A, b, function = quadratic(30, 6)
    inverse = torch.linalg.inv(A)
    found = minimize(function, torch.zeros_like(b), inverse=lambda g: inverse @ g, tol=1e-6)
    plain = minimize(function, torch.zeros_like(b), tol=1e-6, max_iter=2000)
    assert found.converged
    assert found.iterations <= 3 < plain.iterations
    torch.testing.assert_close(found.point, torch.linalg.solve(A, b), rtol=1e-6, atol=1e-8)


def test_it_follows_the_valley_of_rosenbrock():
    def rosenbrock(x):
        x = x.clone().requires_grad_()
        value = (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()
        (gradient,) = torch.autograd.grad(value, x)
        return float(value.detach()), gradient

    found = minimize(rosenbrock, torch.tensor([-1.2, 1.0, -1.2, 1.0], dtype=torch.float64), tol=1e-8, max_iter=500)
    assert found.converged
    torch.testing.assert_close(found.point, torch.ones(4, dtype=torch.float64), rtol=0, atol=1e-7)


def test_it_says_so_when_it_runs_out_of_steps():
    _, b, function = quadratic(30, 6)
    found = minimize(function, torch.zeros_like(b), max_iter=2)
    assert not found.converged
    assert found.iterations == 2
