"""Inducing points: the collapsed bound, where to put them, and predictions from them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.gp.naming import split_noise
from benthic.kernels.kernel import Kernel

_JITTER = 1e-8  # share of the mean diagonal that is added to the kernel matrix of inducing points


class Inducing(NamedTuple):
    r"""What is known at inducing points: :math:`u = L v`, :math:`v \sim N(m, R R^T)`, with L the factor of K(Z, Z).

    Z: (m, d). mean: (k, m). root: (k, m, m) lower triangular, or (1, m, m) where all outputs share it.
    """

    Z: Tensor
    mean: Tensor
    root: Tensor


def whitened(kernel: Kernel, Z: Tensor, X: Tensor) -> Tensor:
    """The factor of K(Z, Z), inverted, times K(Z, X): (m, n), differentiable."""
    Kuu = kernel._matrix(Z, Z, None)
    jitter = _JITTER * Kuu.diagonal().mean()
    L = torch.linalg.cholesky(Kuu + jitter * torch.eye(len(Z), dtype=Z.dtype, device=Z.device))
    white: Tensor = torch.linalg.solve_triangular(L, kernel._matrix(Z, X, None), upper=False)
    return white


def collapsed_bound(kernel: Kernel, X: Tensor, Y: Tensor, Z: Tensor, noise: Any = 0.0) -> Tensor:
    r"""A lower bound on the log marginal likelihood from inducing points, the best one over all q(u).

    .. math:: \log N\bigl(y \mid 0,\, Q + \sigma^2 I\bigr) - \frac{1}{2 \sigma^2} \operatorname{tr}(K - Q),
        \qquad Q = K_{fu} K_{uu}^{-1} K_{uf}

    Titsias, 2009. Equal to the log marginal likelihood when Z is X. Differentiable in the kernel's parameters and Z.

    kernel: with White parts for the noise. X: (n, d). Y: (n, k). Z: (m, d). noise: added to the variance of White.
    Returns a scalar, summed over the columns of Y.

    >>> from benthic.kernels import RBF, White
    >>> X = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    >>> round(float(collapsed_bound(RBF(1.0) + White(0.1), X, X, X)), 4)
    -2.4051
    """
    latent, sigma2 = _noisy(kernel, noise)
    sigma2 = sigma2.to(X)
    A = whitened(latent, Z, X) / sigma2.sqrt()
    B = torch.eye(len(Z), dtype=X.dtype, device=X.device) + A @ A.T
    LB = torch.linalg.cholesky(B)
    c = torch.linalg.solve_triangular(LB, A @ Y, upper=False) / sigma2.sqrt()
    n, k = Y.shape
    fit = 0.5 * (c.square().sum() - Y.square().sum() / sigma2)
    volume = k * (LB.diagonal().log().sum() + 0.5 * n * (sigma2.log() + math.log(2 * math.pi)))
    slack = 0.5 * k * (latent._paired(X, X, same=True).sum() / sigma2 - A.square().sum())
    bound: Tensor = fit - volume - slack
    return bound


def _noisy(kernel: Kernel, noise: Any) -> tuple[Kernel, Tensor]:
    latent, sigma2 = split_noise(kernel)
    sigma2 = sigma2 + torch.as_tensor(noise, dtype=torch.float64, device=sigma2.device)
    if latent is None:
        raise InvalidInput("collapsed_bound: the kernel is noise alone; add a kernel that ties rows together")
    if sigma2.ndim or not float(sigma2.detach()) > 0:
        raise InvalidInput(
            "collapsed_bound: inducing points need one noise variance above zero; add White() to the kernel, or give a "
            "positive number as alpha"
        )
    return latent, sigma2


def optimal_inducing(kernel: Kernel, X: Tensor, Y: Tensor, Z: Tensor, noise: Any = 0.0) -> Inducing:
    """The q(u) that attains the collapsed bound."""
    with torch.no_grad():
        latent, sigma2 = _noisy(kernel, noise)
        A = whitened(latent, Z, X)
        B = torch.eye(len(Z), dtype=X.dtype, device=X.device) + A @ A.T / float(sigma2)
        LB = torch.linalg.cholesky(B)
        mean = torch.cholesky_solve(A @ Y, LB).T / float(sigma2)
        # The inverse of B as R R^T with R lower triangular.
        root = torch.linalg.cholesky(torch.cholesky_inverse(LB))
        return Inducing(Z, mean.contiguous(), root[None])


def inducing_moments(kernel: Kernel, at: Inducing, X: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance of the latent values at X, each (k, n), differentiable; the kernel without White parts."""
    A = whitened(kernel, at.Z, X)  # (m, n)
    mean = at.mean @ A
    spread = (at.root.mT @ A).square().sum(1)  # (k or 1, n)
    own = kernel._paired(X, X, same=True) - A.square().sum(0)
    return mean, (own + spread).clamp(min=1e-12).expand_as(mean)


def inducing_covariance(kernel: Kernel, at: Inducing, X: Tensor) -> tuple[Tensor, Tensor]:
    """Mean (k, n) and covariance (k, n, n) of the latent values at X."""
    A = whitened(kernel, at.Z, X)
    half = at.root.mT @ A
    own = kernel._matrix(X, X, 0) - A.T @ A
    return at.mean @ A, (own + half.mT @ half).expand(len(at.mean), -1, -1)


def greedy_inducing(kernel: Kernel, X: Tensor, count: int) -> Tensor:
    r"""Rows at which the others leave the most variance open, one after the other: places, (m,).

    The pivots of a Cholesky factorization (Fine & Scheinberg, 2001); Burt, Rasmussen & van der Wilk, 2020, use them
    as inducing points. Ends early when nothing is left open. Costs n m².

    >>> from benthic.kernels import RBF
    >>> greedy_inducing(RBF(1.0), torch.tensor([[0.0], [0.1], [5.0]]), 2)
    tensor([0, 2])
    """
    with torch.no_grad():
        left = kernel._paired(X, X, same=False).clone()
        rows = X.new_zeros(count, len(X))
        picked: list[int] = []
        floor = 1e-10 * float(left.max())
        for i in range(min(count, len(X))):
            j = int(left.argmax())
            if float(left[j]) <= floor:
                break
            row = kernel._matrix(X[j : j + 1], X, None)[0] - rows[:i, j] @ rows[:i]
            rows[i] = row / left[j].sqrt()
            left.sub_(rows[i].square()).clamp_(min=0)
            left[j] = 0.0
            picked.append(j)
        return torch.tensor(picked, dtype=torch.long, device=X.device)
