"""Normal laws of a latent code, with a diagonal or a full covariance, as the outputs of an encoder."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

_LOG_2PI = math.log(2 * math.pi)
LOW, HIGH = -14.0, 8.0  # of log-variances


class Diagonal(NamedTuple):
    """N(mean, diag exp(log_var)), both (..., d)."""

    mean: Tensor
    log_var: Tensor

    def place(self, noise: Tensor) -> Tensor:
        """z = μ + σ ε for standard normal ε, (..., d) with any more leading dimensions."""
        return self.mean + torch.exp(0.5 * self.log_var) * noise

    def log_prob_of_noise(self, noise: Tensor) -> Tensor:
        """log q(z) at z = ``place(noise)``."""
        return -0.5 * (noise.square() + (self.log_var + _LOG_2PI)).sum(-1)

    def log_prob(self, z: Tensor) -> Tensor:
        """log q(z)."""
        return -0.5 * ((z - self.mean).square() * torch.exp(-self.log_var) + (self.log_var + _LOG_2PI)).sum(-1)

    def kl_terms(self) -> Tensor:
        """KL(q ‖ N(0, I)) of each coordinate."""
        return 0.5 * (self.mean.square() + self.log_var.exp() - 1.0 - self.log_var)

    def kl(self) -> Tensor:
        """KL(q ‖ N(0, I)) of each row."""
        return self.kl_terms().sum(-1)

    def detach(self) -> Diagonal:
        """The same law, through which no gradient flows."""
        return Diagonal(self.mean.detach(), self.log_var.detach())


class Full(NamedTuple):
    """N(mean, L Lᵀ) with a lower triangular L (..., d, d), whose diagonal is exp(log_diagonal)."""

    mean: Tensor
    factor: Tensor
    log_diagonal: Tensor

    def place(self, noise: Tensor) -> Tensor:
        """z = μ + L ε."""
        return self.mean + (self.factor @ noise[..., None]).squeeze(-1)

    def log_prob_of_noise(self, noise: Tensor) -> Tensor:
        """log q(z) at z = ``place(noise)``."""
        return -0.5 * (noise.square() + _LOG_2PI).sum(-1) - self.log_diagonal.sum(-1)

    def log_prob(self, z: Tensor) -> Tensor:
        """log q(z)."""
        gap = (z - self.mean)[..., None]
        factor = self.factor.expand(*gap.shape[:-1], gap.shape[-2])
        return self.log_prob_of_noise(torch.linalg.solve_triangular(factor, gap, upper=False).squeeze(-1))

    def kl_terms(self) -> Tensor:
        """Terms that add up to KL(q ‖ N(0, I)); row j of L belongs to coordinate j."""
        return 0.5 * (self.mean.square() + self.factor.square().sum(-1) - 1.0) - self.log_diagonal

    def kl(self) -> Tensor:
        """KL(q ‖ N(0, I)) of each row."""
        return self.kl_terms().sum(-1)

    def detach(self) -> Full:
        """The same law, through which no gradient flows."""
        return Full(self.mean.detach(), self.factor.detach(), self.log_diagonal.detach())


Posterior = Diagonal | Full


def outputs_needed(latent_dim: int, covariance: str) -> int:
    """How many numbers an encoder gives for a code of this size.

    >>> outputs_needed(3, "diagonal"), outputs_needed(3, "full")
    (6, 9)
    """
    return 2 * latent_dim if covariance in ("diagonal", "flow") else 2 * latent_dim + latent_dim * (latent_dim - 1) // 2


def posterior_of(outputs: Tensor, latent_dim: int, covariance: str) -> Posterior:
    """The law that outputs of an encoder stand for: mean, log-variances and, when full, entries below the diagonal."""
    mean, log_var = outputs[..., :latent_dim], outputs[..., latent_dim : 2 * latent_dim].clamp(LOW, HIGH)
    if covariance in ("diagonal", "flow"):  # of a flow, the law that its map begins with
        return Diagonal(mean, log_var)
    factor = torch.diag_embed(torch.exp(0.5 * log_var))
    rows, columns = torch.tril_indices(latent_dim, latent_dim, -1, device=outputs.device)
    factor[..., rows, columns] = outputs[..., 2 * latent_dim :]
    return Full(mean, factor, 0.5 * log_var)
