"""Limited-memory BFGS against exact Hessians and SciPy."""

from __future__ import annotations

import numpy as np
import torch
from scipy.optimize import minimize as scipy_minimize
from scipy.optimize import rosen, rosen_der

from benthic.optim.lbfgs import Memory, minimize


def test_with_enough_pairs_the_inverse_of_a_quadratic_is_exact():
    rng = np.random.default_rng(0)
    A = torch.tensor(rng.normal(size=(4, 4)))
    H = A @ A.T + torch.eye(4, dtype=A.dtype)
    # conjugate steps determine the Hessian
    steps = torch.linalg.eigh(H).eigenvectors.T
    memory = Memory(size=4)
    for step in steps:
        memory = memory.add(step, H @ step)
    g = torch.tensor(rng.normal(size=4))
    torch.testing.assert_close(memory.inverse(g), torch.linalg.solve(H, g))


def test_pairs_without_curvature_are_left_out():
    memory = Memory().add(torch.ones(2), -torch.ones(2))
    assert memory.steps == ()


def test_rosenbrock_is_solved_like_scipy_does():
    def objective(x):
        return float(rosen(x.numpy())), torch.tensor(rosen_der(x.numpy()))

    start = torch.tensor([-1.2, 1.0, 0.5, -0.3], dtype=torch.float64)
    found = minimize(objective, start, tol=1e-8, max_iter=500)
    peer = scipy_minimize(rosen, start.numpy(), jac=rosen_der, method="L-BFGS-B", options={"gtol": 1e-8})
    assert found.converged and found.iterations < 3 * peer.nit
    np.testing.assert_allclose(found.point.numpy(), np.ones(4), atol=1e-6)


def test_a_preconditioner_that_is_the_inverse_hessian_takes_one_step():
    H = torch.diag(torch.tensor([1.0, 1e4], dtype=torch.float64))

    def objective(x):
        return float(0.5 * x @ H @ x), H @ x

    found = minimize(objective, torch.ones(2, dtype=torch.float64), inverse=lambda g: torch.linalg.solve(H, g))
    assert found.iterations == 1 and found.value < 1e-20
