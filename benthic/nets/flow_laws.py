"""Laws of a latent code by invertible maps: a learned prior, and posteriors that need not be normal."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from benthic.nets.invertible.autoregressive import MaskedAutoregressive
from benthic.nets.invertible.coupling import Coupling
from benthic.nets.invertible.laws import AffineLaw, SplineLaw
from benthic.nets.invertible.linear import LULinear
from benthic.nets.invertible.transform import Chain, Reversal, Transform
from benthic.nets.noise import draw_normal
from benthic.nets.posterior import Diagonal
from benthic.nets.prior import Encode

_LOG_2PI = math.log(2 * math.pi)


class FlowPrior(nn.Module):
    """p(z) of codes as a neural spline flow: coupling layers with mixing between them (Durkan et al., 2019).

    transforms: how many layers. hidden: widths of their networks.
    """

    closed = False

    def __init__(self, latent_dim: int, transforms: int = 4, hidden: tuple[int, ...] = (64, 64)) -> None:
        super().__init__()
        self.latent_dim = latent_dim
        parts: list[Transform] = []
        for _ in range(transforms):
            parts += [LULinear(latent_dim), Coupling(latent_dim, SplineLaw(8, 5.0), hidden)]
        self.flow = Chain(parts)

    def log_prob(self, z: Tensor, encode: Encode) -> Tensor:
        """log p(z) of codes (..., d)."""
        noise, log = self.flow(z.reshape(-1, self.latent_dim))
        found: Tensor = log - 0.5 * (noise.square() + _LOG_2PI).sum(-1)
        return found.reshape(z.shape[:-1])

    def draw(self, n: int, like: Tensor, generator: torch.Generator, encode: Encode) -> Tensor:
        """``n`` codes, (n, d)."""
        found: Tensor = self.flow.inverse(draw_normal((n, self.latent_dim), like, generator))[0]
        return found


def warp(latent_dim: int, transforms: int = 2, hidden: tuple[int, ...] = (64, 64)) -> Transform:
    """The map of a ``Warped`` posterior: inverse autoregressive steps, quick to draw from (Kingma et al., 2016)."""
    parts: list[Transform] = []
    for _ in range(transforms):
        parts += [MaskedAutoregressive(latent_dim, AffineLaw(), hidden, context=2 * latent_dim), Reversal(latent_dim)]
    return Chain(parts)


class Warped:
    """q(z|x): a normal code carried on by an invertible map that is given the normal's mean and log-variance.

    base: N(mean, diag exp(log_var)), both (n, d). flow: from codes of the base to z, such as ``warp`` makes.
    """

    def __init__(self, base: Diagonal, flow: Transform) -> None:
        self.base, self.flow = base, flow
        self._last: tuple[Tensor, Tensor, Tensor] | None = None

    def _context(self, like: Tensor) -> Tensor:
        both = torch.cat([self.base.mean, self.base.log_var], -1)
        return both.expand(*like.shape[:-1], both.shape[-1]).reshape(-1, both.shape[-1])

    def _carried(self, noise: Tensor) -> tuple[Tensor, Tensor]:
        """z and the log-determinant of the map at noise (..., n, d); the last is kept, since it is asked for twice."""
        if self._last is None or self._last[0] is not noise:
            start = self.base.place(noise)
            z, log = self.flow(start.reshape(-1, start.shape[-1]), self._context(start))
            self._last = noise, z.reshape(start.shape), log.reshape(start.shape[:-1])
        return self._last[1], self._last[2]

    @property
    def mean(self) -> Tensor:
        """The code that the mean of the base is carried to."""
        return self.place(torch.zeros_like(self.base.mean))

    def place(self, noise: Tensor) -> Tensor:
        """z for standard normal noise (..., n, d)."""
        return self._carried(noise)[0]

    def log_prob_of_noise(self, noise: Tensor) -> Tensor:
        """log q(z) at z = ``place(noise)``."""
        return self.base.log_prob_of_noise(noise) - self._carried(noise)[1]

    def log_prob(self, z: Tensor) -> Tensor:
        """log q(z), by the inverse of the map."""
        start, log = self.flow.inverse(z.reshape(-1, z.shape[-1]), self._context(z))
        return self.base.log_prob(start.reshape(z.shape)) + log.reshape(z.shape[:-1])
