"""Gaussians: closed forms, optimality and sampling."""

from __future__ import annotations

import math

import ot
import pytest
import scipy.linalg
import torch
from torch.autograd import gradcheck

from benthic.transport import bures_wasserstein, gaussian_barycenter, gaussian_displacement, gaussian_map

pytestmark = pytest.mark.spec("B-04")
STREAM = torch.Generator().manual_seed(0)


def laws(k, d):
    factors = torch.randn(k, d, d, generator=STREAM, dtype=torch.float64)
    return torch.randn(k, d, generator=STREAM, dtype=torch.float64), factors @ factors.mT + 0.1 * torch.eye(
        d, dtype=torch.float64
    )


def test_distance_is_that_of_scipys_roots_and_of_pot():
    m, S = laws(2, 4)
    A, B = S.numpy()
    half = scipy.linalg.sqrtm(A)
    trace = (A + B - 2 * scipy.linalg.sqrtm(half @ B @ half).real).trace()
    truth = math.sqrt(float((m[0] - m[1]).square().sum()) + trace)
    found = float(bures_wasserstein(m[0], S[0], m[1], S[1]))
    assert abs(found - truth) < 1e-10
    assert abs(found - float(ot.gaussian.bures_wasserstein_distance(m[0], m[1], S[0], S[1]))) < 1e-10


def test_commuting_covariances_compare_deviations():
    s, t = torch.tensor([1.0, 2.0, 0.5]).double(), torch.tensor([3.0, 0.1, 0.5]).double()
    zero = torch.zeros(3).double()
    found = bures_wasserstein(zero, torch.diag(s**2), zero + 1, torch.diag(t**2))
    torch.testing.assert_close(found, (3 + (s - t).square().sum()).sqrt(), rtol=0, atol=1e-12)


def test_singular_covariances():
    zero, line = torch.zeros(2).double(), torch.tensor([[4.0, 0.0], [0.0, 0.0]]).double()
    found = bures_wasserstein(zero, line, zero, torch.zeros(2, 2).double())  # to a point: root of the trace
    torch.testing.assert_close(found, torch.tensor(2.0).double())


def test_batch_is_a_loop():
    m, S = laws(6, 3)
    m, S = m.reshape(2, 3, 3), S.reshape(2, 3, 3, 3)
    found = bures_wasserstein(m[0], S[0], m[1], S[1])
    for k in range(3):
        torch.testing.assert_close(found[k], bures_wasserstein(m[0, k], S[0, k], m[1, k], S[1, k]))
    assert bures_wasserstein(m[0, 0].float(), S[0, 0].float(), m[1, 0], S[1, 0]).dtype == torch.float32


def test_map_carries_one_onto_the_other():
    _, S = laws(2, 4)
    M = gaussian_map(S[0], S[1])
    torch.testing.assert_close(M @ S[0] @ M, S[1], rtol=0, atol=1e-10)
    assert float(torch.linalg.eigvalsh(M)[0]) > 0  # the gradient of a convex function
    # the cost of moving by M is the distance
    moved = torch.eye(4).double() - M
    zero = torch.zeros(4).double()
    torch.testing.assert_close(
        (moved @ S[0] @ moved.mT).trace(), bures_wasserstein(zero, S[0], zero, S[1]) ** 2, rtol=0, atol=1e-9
    )


def test_displacement_runs_at_constant_speed():
    m, S = laws(2, 3)
    whole = bures_wasserstein(m[0], S[0], m[1], S[1])
    at = [gaussian_displacement(m[0], S[0], m[1], S[1], t) for t in (0.0, 0.3, 1.0)]
    torch.testing.assert_close(bures_wasserstein(*at[0], *at[1]), 0.3 * whole, rtol=0, atol=1e-9)
    torch.testing.assert_close(bures_wasserstein(*at[1], *at[2]), 0.7 * whole, rtol=0, atol=1e-9)
    torch.testing.assert_close(at[2].covariance, S[1], rtol=0, atol=1e-10)


def test_barycenter_of_two_lies_on_the_way():
    m, S = laws(2, 3)
    found = gaussian_barycenter(m, S, [0.7, 0.3])
    way = gaussian_displacement(m[0], S[0], m[1], S[1], 0.3)
    torch.testing.assert_close(found.mean, way.mean)
    torch.testing.assert_close(found.covariance, way.covariance, rtol=0, atol=1e-9)


def test_barycenter_solves_its_equation_and_is_that_of_pot():
    m, S = laws(5, 3)
    w = torch.tensor([0.1, 0.3, 0.2, 0.25, 0.15], dtype=torch.float64)
    found = gaussian_barycenter(m, S, w).covariance
    maps = torch.stack([gaussian_map(found, one) for one in S])
    torch.testing.assert_close((w[:, None, None] * maps).sum(0), torch.eye(3).double(), rtol=0, atol=1e-9)
    theirs = ot.gaussian.bures_wasserstein_barycenter(m, S, weights=w, eps=1e-14, num_iter=5000)[1]
    torch.testing.assert_close(found, theirs, rtol=0, atol=1e-8)


def test_gradients():
    m, S = laws(2, 3)
    roots = torch.linalg.cholesky(S).requires_grad_()

    def distance(m, L):
        S = L @ L.mT
        return bures_wasserstein(m[0], S[0], m[1], S[1])

    assert gradcheck(distance, (m.requires_grad_(), roots))
    assert gradcheck(lambda L: gaussian_map(*(L @ L.mT)), roots)
    assert gradcheck(lambda L: gaussian_barycenter(m.detach(), L @ L.mT, max_iter=6, tol=0).covariance, roots)
    eye = torch.eye(3).double().requires_grad_()  # equal eigenvalues, where eigenvectors have no derivative
    zero = torch.zeros(3).double()
    (slope,) = torch.autograd.grad(bures_wasserstein(zero, eye, zero, 4 * torch.eye(3).double()) ** 2, eye)
    torch.testing.assert_close(slope, -torch.eye(3).double())  # I - M
