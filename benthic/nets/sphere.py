"""Latent codes on a sphere: a von Mises–Fisher posterior and the uniform prior."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benthic.base.seeds import drawing, supplied
from benthic.distributions.directional import VonMisesFisher
from benthic.nets.latent import LatentNetwork
from benthic.nets.noise import draw_normal
from benthic.nets.observation import Observation

_SHARPEST = 1e4  # largest concentration, where single precision still tells directions apart


class Directional(NamedTuple):
    """A von Mises–Fisher law on the unit sphere: directions (..., d) and concentrations (...)."""

    direction: Tensor
    concentration: Tensor

    @property
    def mean(self) -> Tensor:
        """The direction, which is the mean pushed back to the sphere."""
        return self.direction

    def law(self) -> VonMisesFisher:
        """As a distribution."""
        return VonMisesFisher(self.direction, self.concentration, validate_args=False)

    def place(self, noise: Tensor) -> Tensor:
        """Codes of the shape of ``noise`` (..., d), decided by it: the same numbers give the same codes."""
        lead = noise.shape[: noise.ndim - self.direction.ndim]
        seed = int(noise.double().flatten()[:64].sum().abs().mul(2**20).remainder(2**31).item())
        with drawing(seed, noise.device):
            return self.law().rsample(lead)

    def log_prob(self, z: Tensor) -> Tensor:
        """log q(z), with respect to area."""
        return self.law().log_prob(z)

    def kl(self) -> Tensor:
        """KL(q ‖ uniform) of each row."""
        return log_area(self.direction.shape[-1]) - self.law().entropy()

    def detach(self) -> Directional:
        """The same law, through which no gradient flows."""
        return Directional(self.direction.detach(), self.concentration.detach())


def directional_of(outputs: Tensor) -> Directional:
    """The law that d + 1 outputs of an encoder stand for: a direction and a concentration."""
    direction = F.normalize(outputs[..., :-1], dim=-1, eps=1e-6)
    return Directional(direction, F.softplus(outputs[..., -1]).clamp(1e-3, _SHARPEST))


def log_area(d: int) -> float:
    r"""The logarithm of the area of the unit sphere in d dimensions, :math:`2 \pi^{d/2} / \Gamma(d/2)`.

    >>> round(log_area(3) - math.log(4 * math.pi), 12)
    0.0
    """
    return math.log(2) + 0.5 * d * math.log(math.pi) - math.lgamma(0.5 * d)


class UniformPrior(nn.Module):
    """Every direction alike; the divergence from it has a closed form."""

    closed = True

    def __init__(self, latent_dim: int) -> None:
        super().__init__()
        self.latent_dim = latent_dim

    def log_prob(self, z: Tensor, encode: object) -> Tensor:
        """log p(z) of codes (..., d), with respect to area."""
        return torch.full(z.shape[:-1], -log_area(self.latent_dim), dtype=z.dtype, device=z.device)

    def draw(self, n: int, like: Tensor, generator: torch.Generator, encode: object) -> Tensor:
        """``n`` codes, (n, d)."""
        return F.normalize(draw_normal((n, self.latent_dim), like, generator), dim=-1)


class SphereNetwork(LatentNetwork):
    """A ``LatentNetwork`` whose codes lie on the unit sphere (Davidson et al., 2018): a direction for every row.

    Nothing pulls codes to the middle, as a normal prior does: near the uniform law they spread over the sphere.
    """

    def __init__(
        self, encoder: nn.Module, decoder: nn.Module, observation: Observation, latent_dim: int, *, masked: bool = False
    ) -> None:
        super().__init__(encoder, decoder, observation, latent_dim, prior=UniformPrior(latent_dim), masked=masked)

    def posterior(self, x: Tensor, c: Tensor | None = None) -> Directional:
        """q(z|x), and q(z|x, c) where there is a condition."""
        return directional_of(self.encoded(x, c))

    def _draw(self, x: Tensor, c: Tensor | None, free: float) -> tuple[Tensor, Tensor]:
        q = self.posterior(x, c)
        kl = q.kl()
        with supplied():
            z = q.law().rsample()
        return z, kl.clamp(min=free * self.latent_dim) if free else kl

    def log_ratio(self, x: Tensor, noise: Tensor, c: Tensor | None = None, *, closed: bool = False) -> Tensor:
        """See ``LatentNetwork``."""
        q = self.posterior(x, c)
        z = q.place(noise)
        fit = self.log_likelihood(x, z, c)
        return fit - q.kl() if closed else fit + self.log_prior(z) - q.log_prob(z)
