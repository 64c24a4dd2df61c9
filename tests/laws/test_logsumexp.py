"""The gradient of log-sum-exp is the softmax, its Hessian diag(p) - ppᵀ, and it is convex."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import approx_fprime
from scipy.special import logsumexp, softmax

from benthic.data.batch import Batch
from benthic.linear.scores import first_order, mirror, respond, second_order, spread, with_ones

pytestmark = pytest.mark.spec("F-02")
RNG = np.random.default_rng(0)


def test_the_gradient_is_the_softmax():
    z = RNG.normal(size=5)
    np.testing.assert_allclose(approx_fprime(z, logsumexp, 1e-7), softmax(z), atol=1e-6)
    leaf = torch.tensor(z, requires_grad=True)
    torch.logsumexp(leaf, 0).backward()
    np.testing.assert_allclose(leaf.grad.numpy(), softmax(z), rtol=1e-12)


def test_the_hessian_is_positive_semidefinite_and_annihilates_constants():
    z = torch.tensor(RNG.normal(size=5))
    H = torch.autograd.functional.hessian(lambda v: torch.logsumexp(v, 0), z)
    p = torch.softmax(z, 0)
    torch.testing.assert_close(H, torch.diag(p) - p[:, None] * p)
    assert float(torch.linalg.eigvalsh(H).min()) > -1e-15
    assert float((H @ torch.ones(5, dtype=H.dtype)).abs().max()) < 1e-15


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("intercept", [True, False])
def test_sums_over_a_block_are_the_derivatives_of_the_loss(classes, intercept):
    n, d = 30, 3
    X = torch.tensor(RNG.normal(size=(n, d)))
    y = torch.tensor(RNG.integers(0, classes, n))
    weight = torch.tensor(RNG.random(n))
    rows = 1 if classes == 2 else classes
    theta = torch.tensor(RNG.normal(size=(rows, d + intercept)))

    def loss(flat: torch.Tensor) -> torch.Tensor:
        return (respond(flat.reshape(theta.shape), X, y).losses * weight).sum()

    sums, P = first_order(theta, Batch(X, y, weight))
    (gradient,) = torch.autograd.grad(loss(leaf := theta.reshape(-1).clone().requires_grad_()), leaf)
    torch.testing.assert_close(sums["gradient"].reshape(-1), gradient)
    hessian = torch.autograd.functional.hessian(loss, theta.reshape(-1))
    torch.testing.assert_close(mirror(second_order(P, with_ones(X, intercept), weight)), hessian)
    curvature = spread(P, weight)
    assert float(torch.linalg.eigvalsh(curvature).min()) > -1e-12
