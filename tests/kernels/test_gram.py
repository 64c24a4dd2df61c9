"""Kernel matrices of fixed rows: values and pulled-back gradients against autograd; kernels in model files."""

from __future__ import annotations

import copy

import pytest
import torch

from benthic.base.decoder import Decoder
from benthic.base.errors import InvalidInput
from benthic.base.tree import Encoder
from benthic.kernels import (
    RBF,
    Constant,
    Gram,
    Laplace,
    Linear,
    LinearNetwork,
    Matern,
    Periodic,
    Polynomial,
    RationalQuadratic,
    White,
)

VECTOR = torch.tensor([1.0, 2.0, 0.5], dtype=torch.float64)
KERNELS = [
    2.0 * RBF(1.3) + White(0.2),
    RBF(VECTOR),
    1.5 * Matern(0.5, 0.7),
    Matern(0.5, VECTOR) + White(0.3),
    Matern(1.5, VECTOR),
    Matern(2.5, VECTOR) * 0.3,
    Matern(2.5, 1.2) * RBF(2.0) * 3.0 + Constant(0.3),
    Periodic(1.2, 2.0) * RBF(2.0) + Linear(2.0) + LinearNetwork(1.3),
    (RBF(1.0) + White(0.1) + Constant(0.4)) * (Constant(0.4) + Constant(2.0)),
    Polynomial(2) + RationalQuadratic(1.0, 2.0),
    Laplace(VECTOR) * Constant(2.0),
    Constant(2.0) + White(0.5),
    Constant(2.0) * Constant(0.5),
]


def points(n=12, d=3, seed=0):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.spec("F-07")
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_matrix_and_pull_agree_with_autograd(kernel):
    X, A = points(), points(12, 12, 1)
    G = A + A.T
    gram, theta = Gram(kernel, X), kernel.theta + 0.1
    K, pulled = gram.matrix(theta), gram.pull(G)
    leaf = theta.clone().requires_grad_()
    direct = kernel.with_theta(leaf)(X)
    (slope,) = torch.autograd.grad((direct * G).sum(), leaf)
    torch.testing.assert_close(K, direct.detach(), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(pulled, slope, rtol=1e-11, atol=1e-11)
    K.zero_()  # the caller's own: the next evaluation must not see it
    torch.testing.assert_close(gram.pull(G), slope, rtol=1e-11, atol=1e-11)


def test_many_columns_take_the_product_way_and_keep_digits():
    X, A = points(60, 30), points(60, 60, 1)
    kernel = RBF(torch.full((30,), 4.0, dtype=torch.float64))
    gram = Gram(kernel, X)
    torch.testing.assert_close(gram.matrix(), kernel(X), rtol=1e-11, atol=1e-12)
    leaf = kernel.theta.requires_grad_()
    (slope,) = torch.autograd.grad((kernel.with_theta(leaf)(X) * (A + A.T)).sum(), leaf)
    torch.testing.assert_close(gram.pull(A + A.T), slope, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_kernels_travel_through_files_and_copies(kernel):
    encoder = Encoder()
    json = encoder.encode(kernel)
    X = points()
    for other in (Decoder(encoder.arrays).decode(json), copy.deepcopy(kernel)):
        assert repr(other) == repr(kernel)
        assert torch.equal(other(X), kernel(X))


@pytest.mark.spec("F-07")
def test_linear_network_is_the_covariance_of_a_random_linear_network():
    X, sigma = points(5, 4), 1.7
    weights = sigma * torch.randn(4, 200_000, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    outputs = X @ weights / 4**0.5
    K = LinearNetwork(sigma**2)(X)
    torch.testing.assert_close(K, sigma**2 / 4 * X @ X.T)
    error = (K.square() + K.diagonal()[:, None] * K.diagonal()).sqrt() / 200_000**0.5  # of a product of two normals
    assert ((outputs @ outputs.T / 200_000 - K).abs() < 5 * error).all()


def test_theta_of_another_length_is_refused():
    with pytest.raises(InvalidInput, match="2 parameters"):
        (2.0 * RBF(1.0)).with_theta(torch.zeros(3))
