"""Gaussians under transport: everything in closed form or by a short fixed point."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.transport import checks
from benthic.transport.line import root


class GaussianLaw(NamedTuple):
    """Mean (..., d) and covariance (..., d, d)."""

    mean: Tensor
    covariance: Tensor


class _Root(torch.autograd.Function):
    """The square root of a positive semidefinite matrix; its gradient solves a Sylvester equation."""

    @staticmethod
    def forward(ctx: Any, A: Tensor) -> Tensor:
        """Half powers of the eigenvalues, those below zero by rounding taken as zero."""
        values, vectors = torch.linalg.eigh(A)
        roots = values.clamp_min(0).sqrt()
        ctx.save_for_backward(roots, vectors)
        return (vectors * roots.unsqueeze(-2)) @ vectors.mT

    @staticmethod
    def backward(ctx: Any, of_root: Tensor) -> Tensor:
        """X with S X + X S = G."""
        roots, vectors = ctx.saved_tensors
        sums = roots.unsqueeze(-1) + roots.unsqueeze(-2)
        inner = vectors.mT @ of_root @ vectors
        solved = torch.where(sums > 0, inner / torch.where(sums > 0, sums, 1.0), 0.0)
        found = vectors @ solved @ vectors.mT
        return (found + found.mT) / 2


def _laws(where: str, mean: Any, covariance: Any, like: Tensor | None = None) -> GaussianLaw:
    covariance = checks.tensor(where, "covariance", covariance, like)
    mean = checks.tensor(where, "mean", mean, covariance)
    d = covariance.shape[-1]
    if covariance.ndim < 2 or covariance.shape[-2] != d or mean.ndim < 1 or mean.shape[-1] != d:
        shapes = f"mean {tuple(mean.shape)} and covariance {tuple(covariance.shape)}"
        raise InvalidInput(f"{where}: {shapes} do not fit; (..., d) and (..., d, d) are needed")
    eps = torch.finfo(covariance.dtype).eps
    scale = covariance.detach().abs().amax((-1, -2))
    if bool(((covariance - covariance.mT).detach().abs().amax((-1, -2)) > 1e3 * eps * scale).any()):
        raise InvalidInput(f"{where}: a covariance is not symmetric; (A + A.T) / 2 is")
    if bool((torch.linalg.eigvalsh(covariance.detach())[..., 0] < -1e3 * eps * d * scale).any()):
        raise InvalidInput(f"{where}: a covariance has a negative eigenvalue; it must be positive semidefinite")
    return GaussianLaw(mean, (covariance + covariance.mT) / 2)


def bures_wasserstein(mean_a: Any, cov_a: Any, mean_b: Any, cov_b: Any) -> Tensor:
    r"""Wasserstein-2 distance between two Gaussians.

    .. math:: W_2^2 = \lVert m_a - m_b \rVert^2
        + \operatorname{tr}\bigl(A + B - 2 (A^{1/2} B A^{1/2})^{1/2}\bigr)

    Dowson and Landau, 1982; Takatsu, 2011. means: (..., d), covariances: (..., d, d), singular ones allowed.
    Returns (...), differentiable (gradients in singular directions are taken as zero). A distance below about the
    square root of rounding is lost in the difference of traces.

    >>> eye = torch.eye(2)
    >>> bures_wasserstein([0.0, 0.0], eye, [3.0, 0.0], 9 * eye) ** 2
    tensor(17.0000)
    """
    mean_a, A = _laws("bures_wasserstein", mean_a, cov_a)
    mean_b, B = _laws("bures_wasserstein", mean_b, cov_b, A)
    if A.shape[-1] != B.shape[-1]:
        raise InvalidInput(f"bures_wasserstein: dimensions {A.shape[-1]} and {B.shape[-1]} differ; they must match")
    half = _Root.apply(A)
    cross = _Root.apply(half @ B @ half)
    trace = (A.diagonal(dim1=-2, dim2=-1) + B.diagonal(dim1=-2, dim2=-1) - 2 * cross.diagonal(dim1=-2, dim2=-1)).sum(-1)
    return root((mean_a - mean_b).square().sum(-1) + trace.clamp_min(0), 2)


def gaussian_map(cov_a: Any, cov_b: Any) -> Tensor:
    r"""The matrix (..., d, d) that moves one centered Gaussian onto another at least cost.

    .. math:: M = A^{-1/2} (A^{1/2} B A^{1/2})^{1/2} A^{-1/2}, \qquad M A M = B

    cov_a: (..., d, d) positive definite. cov_b: (..., d, d).

    >>> gaussian_map(torch.eye(2), 4 * torch.eye(2))
    tensor([[2., 0.],
            [0., 2.]])
    """
    cov_a = checks.tensor("gaussian_map", "covariance", cov_a)
    A = _laws("gaussian_map", cov_a[..., 0] * 0, cov_a).covariance
    B = checks.tensor("gaussian_map", "covariance", cov_b, A)
    B = _laws("gaussian_map", B[..., 0] * 0, B).covariance
    half = _definite_root("gaussian_map", A)
    cross = _Root.apply(half @ B @ half)
    moved = torch.linalg.solve(half, torch.linalg.solve(half, cross).mT)
    return (moved + moved.mT) / 2


def _definite_root(where: str, A: Tensor) -> Tensor:
    values = torch.linalg.eigvalsh(A.detach())
    if bool((values[..., 0] <= torch.finfo(A.dtype).eps * A.shape[-1] * values[..., -1]).any()):
        raise InvalidInput(f"{where}: a covariance is singular; add a small multiple of the identity to it")
    return _Root.apply(A)


def gaussian_displacement(mean_a: Any, cov_a: Any, mean_b: Any, cov_b: Any, t: float) -> GaussianLaw:
    r"""The Gaussian on the shortest way from one to another at time t.

    .. math:: \Sigma_t = \bigl((1 - t) I + t M\bigr) A \bigl((1 - t) I + t M\bigr)

    McCann, 1997, example 1.7. cov_a: positive definite. 0 <= t <= 1.

    >>> eye = torch.eye(1)
    >>> gaussian_displacement([0.0], eye, [2.0], 9 * eye, 0.5).covariance
    tensor([[4.]])
    """
    if not 0 <= float(t) <= 1:
        raise InvalidInput(f"gaussian_displacement: t is {t}; a time between 0 and 1 is needed")
    mean_a, A = _laws("gaussian_displacement", mean_a, cov_a)
    mean_b, B = _laws("gaussian_displacement", mean_b, cov_b, A)
    step = (1 - t) * torch.eye(A.shape[-1], dtype=A.dtype, device=A.device) + t * gaussian_map(A, B)
    return GaussianLaw((1 - t) * mean_a + t * mean_b, step @ A @ step)


def gaussian_barycenter(
    means: Any, covariances: Any, weights: Any = None, tol: float | None = None, max_iter: int = 500
) -> GaussianLaw:
    r"""The Wasserstein-2 barycenter of Gaussians, itself a Gaussian.

    .. math:: S \leftarrow S^{-1/2} \Bigl(\sum_k w_k (S^{1/2} A_k S^{1/2})^{1/2}\Bigr)^2 S^{-1/2}

    The fixed point of Álvarez-Esteban et al., 2016, until S moves by less than ``tol`` of its size (None: near the
    rounding of the dtype). means: (k, d), covariances: (k, d, d) positive definite, weights: (k,), None is equal.

    >>> eye = torch.eye(1)
    >>> gaussian_barycenter([[0.0], [2.0]], torch.stack([eye, 9 * eye]))
    GaussianLaw(mean=tensor([1.]), covariance=tensor([[4.0000]]))
    """
    means, covs = _laws("gaussian_barycenter", means, covariances)
    if covs.ndim != 3 or means.shape != covs.shape[:2]:
        shapes = f"{tuple(means.shape)} and {tuple(covs.shape)}"
        raise InvalidInput(
            f"gaussian_barycenter: means and covariances have shapes {shapes}; (k, d) and (k, d, d) are needed"
        )
    weights = checks.masses("gaussian_barycenter", "weights", weights, len(covs), covs)
    _definite_root("gaussian_barycenter", covs)
    tol = 100 * torch.finfo(covs.dtype).eps if tol is None else tol
    w = weights[:, None, None]
    S = (w * covs).sum(0)
    for _ in range(max_iter):
        half = _Root.apply(S)
        middle = (w * _Root.apply(half @ covs @ half)).sum(0)
        moved = torch.linalg.solve(half, middle)  # S^{-1/2} M, and M S^{-1/2} is its transpose
        new = moved @ moved.mT
        change = (new - S).detach().abs().amax()
        S = new
        if bool(change <= tol * S.detach().abs().amax()):
            break
    return GaussianLaw((weights[:, None] * means).sum(0), S)
