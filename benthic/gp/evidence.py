"""The marginal likelihood of Gaussian-process regression with its gradient, and leave-one-out predictions."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from benthic.gp.factor import Factor
from benthic.kernels.gram import Gram
from benthic.kernels.kernel import Kernel


class LeaveOneOut(NamedTuple):
    """What the other rows say about each row.

    mean, std: (n,) or (n, k), of the noisy target. log_density: of the target there, the same shape.
    """

    mean: Tensor
    std: Tensor
    log_density: Tensor


class Evidence:
    r"""The log marginal likelihood of targets as a function of the kernel's parameters.

    .. math::

        \log p(y) &= -\tfrac12 y^T K^{-1} y - \tfrac12 \log |K| - \tfrac n2 \log 2\pi \\
        \partial_j \log p(y) &= \tfrac12 \operatorname{tr}\bigl((\alpha \alpha^T - K^{-1})\, \partial_j K\bigr),
        \qquad \alpha = K^{-1} y

    Rasmussen & Williams, 2006, equations 2.30 and 5.9. Columns of Y share the kernel and their terms add.

    kernel: its structure; White parts are noise. X: (n, d) float64. Y: (n, k). noise: a number or (n,), added to the
    diagonal.

    >>> from benthic.kernels import RBF, White
    >>> X = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    >>> value, gradient = Evidence(RBF(1.0) + White(0.1), X, X).value_and_gradient()
    >>> round(value, 4)
    -2.4051
    """

    def __init__(self, kernel: Kernel, X: Tensor, Y: Tensor, noise: float | Tensor = 0.0) -> None:
        self.kernel, self.X, self.Y, self.noise = kernel, X, Y, noise
        self.gram = Gram(kernel, X)

    def factor(self, theta: Tensor | None = None) -> Factor:
        """The factor of K with the noise on its diagonal."""
        K = self.gram.matrix(theta)
        K.diagonal().add_(self.noise)
        return Factor(K, "Evidence")

    def value_and_gradient(self, theta: Tensor | None = None, gradient: bool = True) -> tuple[float, Tensor]:
        """The value at the logarithms ``theta``, and the gradient (p,), float64 on the CPU."""
        factor = self.factor(theta)
        alpha = factor.solve(self.Y)
        n, k = self.Y.shape
        value = -0.5 * float((self.Y * alpha).sum()) - 0.5 * k * (factor.log_determinant() + n * math.log(2 * math.pi))
        if not gradient:
            return value, torch.zeros(0, dtype=torch.float64)
        G = factor.inverse_()
        G.addmm_(alpha, alpha.T, beta=-k)
        return value, 0.5 * self.gram.pull(G)

    def leave_one_out(self, theta: Tensor | None = None) -> LeaveOneOut:
        r"""Prediction of every target from all the others, without fitting n times.

        .. math:: \mu_i = y_i - \alpha_i / [K^{-1}]_{ii}, \qquad \sigma_i^2 = 1 / [K^{-1}]_{ii}

        Rasmussen & Williams, 2006, equation 5.12.
        """
        factor = self.factor(theta)
        alpha = factor.solve(self.Y)
        precision = factor.inverse_().diagonal()[:, None]
        mean, std = self.Y - alpha / precision, precision.rsqrt().expand_as(self.Y)
        density = -0.5 * ((self.Y - mean) / std).square() - std.log() - 0.5 * math.log(2 * math.pi)
        return LeaveOneOut(mean, std, density)
