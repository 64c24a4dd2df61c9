"""Mahalanobis, Hausdorff and Fréchet distances against SciPy, closed forms and finite differences."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.linalg import sqrtm
from scipy.spatial.distance import directed_hausdorff
from scipy.spatial.distance import mahalanobis as scipy_mahalanobis
from torch import distributions as td

from benthic.base.errors import InvalidInput
from benthic.distributions import distances
from benthic.distributions.distances import frechet, hausdorff, mahalanobis
from benthic.distributions.information import Samples

pytestmark = pytest.mark.spec("B-05")
D = torch.float64


def randn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=D)


def covariance(*shape, seed=0):
    root = randn(*shape, shape[-1], seed=seed)
    return root @ root.mT + 0.1 * torch.eye(shape[-1], dtype=D)


# --------------------------------------------------------------------------------------------- Mahalanobis


def test_mahalanobis_against_scipy():
    S, x, y = covariance(4), randn(10, 4), randn(10, 4, seed=1)
    expected = [scipy_mahalanobis(a, b, np.linalg.inv(S.numpy())) for a, b in zip(x, y, strict=True)]
    np.testing.assert_allclose(mahalanobis(x, y, S), expected, rtol=1e-10)
    np.testing.assert_allclose(mahalanobis(x, y, S, squared=True), np.square(expected), rtol=1e-10)


def test_points_are_compared_by_their_difference():
    # a formula with (x − μ) and (y − μ) in place of x − y would give 0 for no pair, and change with the origin
    S, x, y, shift = covariance(3), randn(5, 3), randn(5, 3, seed=1), randn(3, seed=2)
    torch.testing.assert_close(mahalanobis(x + shift, y + shift, S), mahalanobis(x, y, S), rtol=1e-12, atol=1e-12)
    assert (mahalanobis(x, x, S) == 0).all()
    torch.testing.assert_close(mahalanobis(x, y, torch.eye(3, dtype=D)), (x - y).norm(dim=-1), rtol=1e-12, atol=0)


def test_distance_from_a_law_is_what_its_density_says():
    law = td.MultivariateNormal(randn(3), covariance(3))
    x = randn(7, 3, seed=3)
    from_density = (2 * (law.log_prob(law.loc) - law.log_prob(x))).sqrt()
    torch.testing.assert_close(mahalanobis(x, law), from_density, rtol=1e-10, atol=1e-12)
    flat = td.Independent(td.Normal(torch.zeros(2, dtype=D), torch.tensor([1.0, 2.0], dtype=D)), 1)
    torch.testing.assert_close(mahalanobis([3.0, 8.0], flat), torch.tensor(5.0, dtype=D))


def test_affine_maps_change_nothing():
    S, x, y, A = covariance(3), randn(5, 3), randn(5, 3, seed=1), randn(3, 3, seed=5)
    moved = mahalanobis(x @ A.T, y @ A.T, A @ S @ A.T)
    torch.testing.assert_close(moved, mahalanobis(x, y, S), rtol=1e-9, atol=1e-9)


def test_mahalanobis_broadcasts_and_differentiates():
    S, x = covariance(2, 3), randn(2, 3, seed=1)
    each = torch.stack([mahalanobis(x[i], torch.zeros(3, dtype=D), S[i]) for i in range(2)])
    torch.testing.assert_close(mahalanobis(x, torch.zeros(3, dtype=D), S), each, rtol=1e-12, atol=1e-12)
    pairs = mahalanobis(randn(4, 1, 3), randn(1, 5, 3), S[0])
    assert pairs.shape == (4, 5)
    root = randn(3, 3).requires_grad_()
    point = randn(2, 3).requires_grad_()
    eye = torch.eye(3, dtype=D)
    assert torch.autograd.gradcheck(lambda p, r: mahalanobis(p, eye[0], r @ r.T + eye), (point, root))
    same = randn(3).requires_grad_()
    assert torch.isfinite(torch.autograd.grad(mahalanobis(same, same.detach(), eye), same)[0]).all()
    assert mahalanobis(torch.ones(2), torch.zeros(2), torch.eye(2)).dtype == torch.float32


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mahalanobis([1.0, 0.0], [0.0, 0.0], [[1.0, 1.0], [1.0, 1.0]]), "covariance of mahalanobis.*singular"),
        (lambda: mahalanobis([1.0, 0.0], [0.0, 0.0], [[1.0, 2.0], [0.0, 1.0]]), "covariance of mahalanobis.*symmetric"),
        (lambda: mahalanobis([1.0, 0.0], [0.0, 0.0], [[1.0, 2.0], [2.0, 1.0]]), "not positive definite"),
        (lambda: mahalanobis([1.0, 0.0], [0.0], [[1.0]]), "last dimension"),
        (lambda: mahalanobis([1.0], [0.0]), "covariance is missing"),
        (
            lambda: mahalanobis([1.0], td.MultivariateNormal(torch.zeros(1), torch.eye(1)), [[1.0]]),
            "its own covariance",
        ),
        (lambda: mahalanobis([1.0], td.Dirichlet(torch.ones(2))), "Dirichlet is not normal"),
    ],
)
def test_mahalanobis_refuses(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()


# ----------------------------------------------------------------------------------------------- Hausdorff


@pytest.mark.parametrize("norm", [1.0, 2.0, math.inf])
@pytest.mark.parametrize(("n", "m", "d"), [(1, 1, 1), (50, 70, 2), (300, 10, 5), (3000, 2000, 3)])
def test_hausdorff_against_all_distances(n, m, d, norm):
    X, Y = randn(n, d), randn(m, d, seed=1)
    table = torch.cdist(X, Y, p=norm, compute_mode="donot_use_mm_for_euclid_dist")
    there, back = table.min(1).values.max(), table.min(0).values.max()
    torch.testing.assert_close(hausdorff(X, Y, directed=True, norm=norm), there, rtol=1e-13, atol=0)
    torch.testing.assert_close(hausdorff(Y, X, directed=True, norm=norm), back, rtol=1e-13, atol=0)
    torch.testing.assert_close(hausdorff(X, Y, norm=norm), torch.maximum(there, back), rtol=1e-13, atol=0)
    if norm == 2:
        assert float(there) == pytest.approx(directed_hausdorff(X, Y)[0], rel=1e-13)


@pytest.mark.parametrize("size", [(64, 2048), (2, 7)])
def test_tiles_find_the_pair_of_scipy(size, monkeypatch):
    monkeypatch.setattr(distances, "_FIRST", size[0])
    monkeypatch.setattr(distances, "_BLOCK", size[1])
    X, Y = randn(401, 3), randn(253, 3, seed=1)
    for A, B in ((X, Y), (Y, X)):
        assert distances._by_tiles(A, B, 2.0) == directed_hausdorff(A, B)[1:]


def test_hausdorff_of_sets_and_norms():
    X, Y, Z = randn(20, 2), randn(25, 2, seed=1), randn(30, 2, seed=2)
    assert hausdorff(X, X[torch.randperm(20, generator=torch.Generator().manual_seed(0))]) == 0
    assert hausdorff(X, Z) <= hausdorff(X, Y) + hausdorff(Y, Z) + 1e-12
    assert hausdorff(X[:5], X, directed=True) == 0 and hausdorff(X[:5], X) > 0
    assert hausdorff([[0.0, 0.0]], [[3.0, 4.0]], norm=1.0) == 7
    assert hausdorff([[0.0, 0.0]], [[3.0, 4.0]], norm=math.inf) == 4


def test_hausdorff_has_a_gradient():
    X, Y = randn(6, 2).requires_grad_(), randn(5, 2, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(hausdorff, (X, Y))


@pytest.mark.parametrize(
    ("X", "Y", "message"),
    [
        (torch.zeros(0, 2), torch.zeros(1, 2), "X has shape"),
        ([1.0, 2.0], [[1.0]], "X has shape"),
        ([[1.0, 2.0]], [[1.0]], "X has 2 coordinates and Y has 1"),
        ([[math.nan]], [[1.0]], "NaN or infinite"),
    ],
)
def test_hausdorff_refuses(X, Y, message):
    with pytest.raises(InvalidInput, match=message):
        hausdorff(X, Y)


# ------------------------------------------------------------------------------------------------- Fréchet


def by_sqrtm(a, A, b, B):
    root = sqrtm(A.numpy() @ B.numpy()).real
    return float((a - b).square().sum() + torch.trace(A) + torch.trace(B)) - 2 * float(np.trace(root))


@pytest.mark.parametrize("d", [1, 2, 5, 20])
def test_frechet_against_scipys_square_root(d):
    a, b, A, B = randn(d), randn(d, seed=1), covariance(d), covariance(d, seed=2)
    assert float(frechet((a, A), (b, B), squared=True)) == pytest.approx(by_sqrtm(a, A, b, B), rel=1e-9)
    laws = td.MultivariateNormal(a, A), td.MultivariateNormal(b, B)
    assert float(frechet(*laws)) == pytest.approx(math.sqrt(by_sqrtm(a, A, b, B)), rel=1e-9)
    torch.testing.assert_close(frechet(*laws), frechet(*laws[::-1]), rtol=1e-12, atol=1e-12)


def test_frechet_of_diagonal_covariances():
    a, b = randn(4).abs(), randn(4, seed=1).abs()
    expected = (a - b).norm()  # the standard deviations are the coordinates
    zero = torch.zeros(4, dtype=D)
    found = frechet((zero, torch.diag(a.square())), (zero, torch.diag(b.square())))
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_frechet_keeps_its_digits_for_equal_and_singular_laws():
    zero, A = torch.zeros(5, dtype=D), covariance(5)
    assert float(frechet((zero, A), (zero, A))) < 1e-13  # a difference of traces would leave 1e-8
    thin = randn(5, 2)
    singular = thin @ thin.T
    assert float(frechet((zero, singular), (zero, singular))) < 1e-13
    point = torch.zeros(5, 5, dtype=D)
    torch.testing.assert_close(frechet((zero, singular), (zero, point)), torch.trace(singular).sqrt())
    # scaling a covariance by s² moves every point by the factor s
    found = frechet((zero, singular), (zero, 4 * singular))
    torch.testing.assert_close(found, torch.trace(singular).sqrt(), rtol=1e-12, atol=1e-12)


def test_frechet_gradients():
    a, b = randn(3).requires_grad_(), randn(3, seed=1).requires_grad_()
    R, S = randn(3, 3).requires_grad_(), randn(3, 3, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(lambda a, R, b, S: frechet((a, R @ R.T), (b, S @ S.T)), (a, R, b, S))
    batch = randn(2, 3, 3).requires_grad_()
    zero = torch.zeros(3, dtype=D)
    assert torch.autograd.gradcheck(lambda r: frechet((zero, r @ r.mT), (b, S @ S.T), squared=True), (batch,))
    # equal eigenvalues, where the derivative of a single eigenvector would not exist
    assert torch.autograd.gradcheck(
        lambda r: frechet((zero, r @ r.T), (b, 2 * torch.eye(3, dtype=D))), (torch.eye(3, dtype=D).requires_grad_(),)
    )
    thin = randn(3, 1).requires_grad_()
    (gradient,) = torch.autograd.grad(frechet((zero, thin @ thin.T), (b, S @ S.T)), thin)
    assert torch.isfinite(gradient).all()


def test_frechet_from_samples():
    X, Y = randn(500, 3), 2 * randn(400, 3, seed=1) + 1
    direct = frechet((X.mean(0), torch.cov(X.T)), (Y.mean(0), torch.cov(Y.T)))
    torch.testing.assert_close(frechet(X, Y), direct, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(frechet(Samples(X), Samples(Y)), direct, rtol=1e-12, atol=1e-12)
    # fewer rows than columns make singular covariances
    few = frechet(randn(3, 8), randn(4, 8, seed=1))
    assert torch.isfinite(few) and few > 0
    assert float(frechet(randn(100_000, 1), 1 + randn(100_000, 1, seed=1))) == pytest.approx(1.0, abs=0.02)


def test_frechet_is_batched():
    A, B = covariance(4, 3), covariance(3, seed=1)
    zero = torch.zeros(3, dtype=D)
    each = torch.stack([frechet((zero, A[i]), (zero, B)) for i in range(4)])
    torch.testing.assert_close(frechet((zero, A), (zero, B)), each, rtol=1e-12, atol=1e-12)
    assert frechet((torch.zeros(2), torch.eye(2)), (torch.ones(2), torch.eye(2))).dtype == torch.float32


@pytest.mark.parametrize(
    ("p", "message"),
    [
        (([0.0, 0.0], [[1.0, 2.0], [2.0, 1.0]]), "positive semidefinite"),
        (([0.0, 0.0], [[1.0, 0.5], [0.0, 1.0]]), "not symmetric"),
        (([0.0, 0.0], [[1.0]]), "are needed"),
        (([0.0], [[1.0]]), "p has 1 dimensions and q has 2"),
        (([0.0],), "a tuple of 1"),
        ([[1.0, 2.0]], "n at least 2"),
        (td.Dirichlet(torch.ones(2)), "Dirichlet is not normal"),
    ],
)
def test_frechet_refuses(p, message):
    with pytest.raises(InvalidInput, match=message):
        frechet(p, ([0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]]))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_on_a_device():
    X, Y = randn(3000, 4), 1 + randn(2500, 4, seed=1)
    for function in (frechet, hausdorff):
        there = function(X.cuda(), Y.cuda())
        assert there.device.type == "cuda"
        torch.testing.assert_close(there.cpu(), function(X, Y), rtol=1e-9, atol=1e-9)
    S = covariance(4)
    torch.testing.assert_close(mahalanobis(X.cuda(), X[0].cuda(), S.cuda()).cpu(), mahalanobis(X, X[0], S))
