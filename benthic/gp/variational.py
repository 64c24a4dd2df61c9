"""Inducing points trained on minibatches, for any number of rows and for targets that are not Gaussian."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from benthic.data.batch import Batch
from benthic.gp.naming import split_noise
from benthic.gp.sparse import Inducing, inducing_moments
from benthic.kernels.kernel import Kernel

_POINTS = 20  # of the Gauss-Hermite rule


class Likelihood(ABC):
    """How targets come from latent values."""

    @abstractmethod
    def expected(self, mean: Tensor, variance: Tensor, y: Tensor, noise: Tensor) -> Tensor:
        """Expected log-likelihood of y (k, n) when the latent values are normal, (k, n)."""


class Gaussian(Likelihood):
    """The latent value plus normal noise."""

    def expected(self, mean: Tensor, variance: Tensor, y: Tensor, noise: Tensor) -> Tensor:
        """In closed form."""
        return -0.5 * (torch.log(2 * math.pi * noise) + ((y - mean).square() + variance) / noise)


class Bernoulli(Likelihood):
    """Zero or one, with the latent value as log-odds."""

    def expected(self, mean: Tensor, variance: Tensor, y: Tensor, noise: Tensor) -> Tensor:
        """By Gauss-Hermite quadrature."""
        places, weights = hermite(mean)
        sign = (2 * y - 1)[..., None]
        values = mean[..., None] + variance.sqrt()[..., None] * places
        return -(softplus(-sign * values) * weights).sum(-1)


def hermite(like: Tensor, points: int = _POINTS) -> tuple[Tensor, Tensor]:
    """Places and weights of the Gauss-Hermite rule for the standard normal law."""
    places, weights = np.polynomial.hermite_e.hermegauss(points)
    return torch.as_tensor(places).to(like), torch.as_tensor(weights / weights.sum()).to(like)


class Variational(nn.Module):
    r"""A normal law of the values at inducing points, and the bound on the evidence that it gives.

    .. math:: \sum_i \mathbb{E}_{q(f_i)} \log p(y_i \mid f_i) - \mathrm{KL}\bigl(q(u) \,\|\, p(u)\bigr)

    Hensman, Fusi & Lawrence, 2013; Hensman, Matthews & Ghahramani, 2015, for other likelihoods. The law is that of
    :math:`v = L^{-1} u`, so its prior is standard normal. Outputs share kernel and inducing points.

    kernel: the first one, with White parts for the noise. at: where to begin, roots for each output. rows: of all data.
    free: which logarithms of the parameters are learned. noise: added to the variance of White parts.
    """

    start: Tensor
    free: Tensor

    def __init__(
        self, kernel: Kernel, at: Inducing, likelihood: Likelihood, rows: int, free: Tensor, noise: float = 0.0
    ) -> None:
        super().__init__()
        self._kernel, self._likelihood, self._rows, self._noise = kernel, likelihood, rows, noise
        self.register_buffer("start", kernel.theta.to(at.Z.device))
        self.register_buffer("free", free.to(at.Z.device))
        k = len(at.mean)
        roots = at.root.expand(k, -1, -1)
        self.theta = nn.Parameter(kernel.theta.to(at.Z.device))
        self.Z = nn.Parameter(at.Z.clone())
        self.mean = nn.Parameter(at.mean.clone())
        self.low = nn.Parameter(roots.tril(-1).clone())
        self.log_diagonal = nn.Parameter(roots.diagonal(dim1=-2, dim2=-1).clamp(min=1e-10).log().clone())

    def kernel(self) -> Kernel:
        """The kernel as it is now."""
        return self._kernel.with_theta(torch.where(self.free, self.theta, self.start))

    def inducing(self) -> Inducing:
        """The law of the inducing values as it is now."""
        return Inducing(self.Z, self.mean, self.low.tril(-1) + torch.diag_embed(self.log_diagonal.exp()))

    def divergence(self, at: Inducing) -> Tensor:
        """From the law of v to the standard normal one."""
        size = self.log_diagonal.numel()
        squares = at.root.square().sum() + at.mean.square().sum()
        return 0.5 * (squares - size) - self.log_diagonal.sum()

    def objective(self, batch: Batch) -> Tensor:
        """Minus the bound, in the share of a batch of all rows. batch.y: (b, k)."""
        kernel, at = self.kernel(), self.inducing()
        latent, noise = split_noise(kernel)
        mean, variance = inducing_moments(latent if latent is not None else kernel, at, batch.X)
        y = batch.y.reshape(len(batch.X), -1).T if batch.y is not None else mean
        fit = self._likelihood.expected(mean, variance, y, noise.to(mean) + self._noise)
        return self.divergence(at) * (len(batch.X) / self._rows) - fit.sum()
