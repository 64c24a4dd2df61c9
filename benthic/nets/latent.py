"""The two networks of a variational autoencoder, with their densities."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benthic.nets.mlp import MLP

Decoder = Literal["gaussian", "bernoulli"]
_LOG_2PI = math.log(2 * math.pi)


class LatentNetwork(nn.Module):
    r"""Encoder q(z|x) = N(μ(x), diag σ²(x)) and decoder p(x|z), with prior p(z) = N(0, I).

    A Gaussian decoder has one learned noise scale a column; a Bernoulli decoder gives logits.
    width: columns of x. hidden: widths of the encoder's hidden layers, mirrored in the decoder.
    noise_floor: smallest noise scale, which keeps the density of a perfectly predictable column finite.
    """

    def __init__(
        self,
        width: int,
        latent_dim: int,
        hidden: Sequence[int],
        nonlinearity: str,
        decoder: Decoder,
        noise_floor: float = 1e-3,
    ) -> None:
        super().__init__()
        self.latent_dim, self.kind = latent_dim, decoder
        self.encoder = MLP([width, *hidden, 2 * latent_dim], nonlinearity)
        self.decoder = MLP([latent_dim, *reversed(hidden), width], nonlinearity)
        self._lowest = math.log(noise_floor)
        if decoder == "gaussian":
            self.log_noise = nn.Parameter(torch.full((width,), -0.7))

    def posterior(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log-variance of q(z|x), (n, latent_dim) each."""
        mean, log_var = self.encoder(x).chunk(2, dim=-1)
        return mean, log_var.clamp(-14.0, 8.0)

    def log_likelihood(self, x: Tensor, z: Tensor) -> Tensor:
        """log p(x|z) of each row; z may have leading sample dimensions, (k, n, latent_dim)."""
        outputs = self.decoder(z)
        if self.kind == "bernoulli":
            logits = outputs
            return -F.binary_cross_entropy_with_logits(logits, x.expand_as(logits), reduction="none").sum(-1)
        log_noise = self._log_noise()
        return -0.5 * (((x - outputs) * torch.exp(-log_noise)).square() + 2 * log_noise + _LOG_2PI).sum(-1)

    def _log_noise(self) -> Tensor:
        return self.log_noise.clamp(min=self._lowest)

    def mean(self, z: Tensor) -> Tensor:
        """E[x|z]."""
        outputs: Tensor = self.decoder(z)
        return torch.sigmoid(outputs) if self.kind == "bernoulli" else outputs

    def emit(self, z: Tensor, generator: torch.Generator) -> Tensor:
        """A draw of x given z; the generator lives on the CPU, so that every device draws the same."""
        mean = self.mean(z)
        if self.kind == "bernoulli":
            return (draw_uniform(mean.shape, mean, generator) < mean).to(mean.dtype)
        return mean + torch.exp(self._log_noise()) * draw_normal(mean.shape, mean, generator)

    def kl(self, mean: Tensor, log_var: Tensor) -> Tensor:
        """KL(q(z|x) ‖ p(z)) of each row, in closed form."""
        return 0.5 * (mean.square() + log_var.exp() - 1.0 - log_var).sum(-1)

    def forward(self, x: Tensor, beta: float = 1.0) -> Tensor:
        """−ELBO of each row from one draw of z, with the KL term weighted by ``beta``."""
        mean, log_var = self.posterior(x)
        z = mean + torch.exp(0.5 * log_var) * torch.randn_like(mean)
        return beta * self.kl(mean, log_var) - self.log_likelihood(x, z)

    def log_ratio(self, x: Tensor, noise: Tensor) -> Tensor:
        """log p(x, z) − log q(z|x) at z = μ + σ·noise; noise: (k, n, latent_dim), result (k, n)."""
        mean, log_var = self.posterior(x)
        z = mean + torch.exp(0.5 * log_var) * noise
        # the normalizing constants of prior and posterior cancel up to the log-variance
        log_prior_over_posterior = 0.5 * (noise.square() + log_var - z.square()).sum(-1)
        return self.log_likelihood(x, z) + log_prior_over_posterior


def draw_normal(shape: Sequence[int], like: Tensor, generator: torch.Generator) -> Tensor:
    """Standard normal numbers in the type and place of ``like``."""
    return torch.randn(tuple(shape), generator=generator, dtype=like.dtype).to(like.device)


def draw_uniform(shape: Sequence[int], like: Tensor, generator: torch.Generator) -> Tensor:
    """Uniform numbers in [0, 1) in the type and place of ``like``."""
    return torch.rand(tuple(shape), generator=generator, dtype=like.dtype).to(like.device)
