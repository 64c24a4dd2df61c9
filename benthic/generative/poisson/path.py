"""Poisson flow as a process of noise: the same solvers run, with noise that has heavy tails."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.base.seeds import drawing, supplied
from benthic.generative.diffusion.process import Time, standard_normal
from benthic.generative.diffusion.processes import AddedNoise

_FAR = 9.0  # squared standard deviations beyond which there are no data


@dataclass(frozen=True)
class PoissonPath(AddedNoise):
    r"""Data as charges in N + D dimensions, seen at the distance :math:`r = \sigma \sqrt D` from their space.

    .. math:: p_r(x \mid y) \propto \big(\|x - y\|^2 + r^2\big)^{-(N + D)/2}, \qquad
        \frac{dx}{d\sigma} = \frac{x - \mathbb{E}[y \mid x]}{\sigma}

    Xu et al., 2023 (PFGM++); D = 1 is the Poisson flow of Xu et al., 2022, whose law at a great distance is that of a
    uniform half-sphere seen from its center. The kernel is Student's law with D degrees of freedom and the scale σ, so
    a growing D leads to :class:`~benthic.generative.diffusion.processes.AddedNoise`. There is no stochastic equation:
    only samplers without noise run.

    dimensions: D. Time is σ.

    >>> PoissonPath(dimensions=1.0).prior_log_prob(torch.zeros(1, 1, dtype=torch.float64)).exp() * 80 * torch.pi
    tensor([1.], dtype=torch.float64)
    """

    dimensions: float = 128.0

    gaussian: ClassVar[bool] = False

    def check(self) -> None:
        """Refuse dimensions that are none."""
        super().check()
        if not (math.isfinite(self.dimensions) and self.dimensions > 0):
            raise InvalidInput(f"PoissonPath: dimensions={self.dimensions}; D is a positive number, 1 or more")

    def radius(self, t: Time) -> Tensor:
        """The distance r from the space of the data."""
        return self.sigma(t) * math.sqrt(self.dimensions)

    def likely_noise(self, x: Tensor, t: Time, sigma_data: float) -> Tensor:
        r"""How much noise there likely is in points (n, \*event), as a standard deviation (n,).

        .. math:: \sqrt{\frac{(D + q)\, \sigma^2 + (\|x\|^2 - 9 N s^2)_+}{D + N}}, \qquad
            q = \frac{\|x\|^2}{s^2 + \sigma^2}

        Student's law is a normal law with a random variance, and this is what a point says of that: the first part
        by how far it is for this σ, the second where data do not lie. For a large D it is σ.
        """
        rows, sigma = x.flatten(1), self.sigma(t)
        squares, size = rows.square().sum(1), rows.shape[1]
        away = squares / (sigma.square() + sigma_data**2)
        outside = torch.relu(squares - _FAR * size * sigma_data**2)
        return (((self.dimensions + away) * sigma.square() + outside) / (self.dimensions + size)).sqrt()

    def draw_noise(self, shape: Sequence[int], like: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Points of Student's law with D degrees of freedom."""
        normal = standard_normal(shape, like, generator)
        gamma = _standard_gamma(0.5 * self.dimensions, len(normal), like, generator)
        scale = (0.5 * self.dimensions / gamma).sqrt()
        return normal * scale.reshape(-1, *([1] * (normal.ndim - 1)))

    def log_kernel(self, squares: Tensor, size: int, t: Time) -> Tensor:
        """The log-density of x given y from the squared distances between them; size: N."""
        freedom, sigma = self.dimensions, self.sigma(t)
        constant = math.lgamma(0.5 * (freedom + size)) - math.lgamma(0.5 * freedom)
        spread = 0.5 * size * (math.log(freedom * math.pi) + 2 * sigma.log())
        return constant - spread - 0.5 * (freedom + size) * torch.log1p(squares / (freedom * sigma.square()))

    def prior_log_prob(self, x: Tensor) -> Tensor:
        """The log-density (n,) of the law that sampling begins with, at points (n, ...)."""
        rows = x.flatten(1)
        return self.log_kernel(rows.square().sum(1), rows.shape[1], self.t_max)


def _standard_gamma(shape: float, count: int, like: Tensor, generator: torch.Generator | None) -> Tensor:
    """Draws (count,) of the gamma law with this shape and the scale 1."""
    if generator is None:
        concentration = torch.full((), shape, dtype=like.dtype, device=like.device)
        rate = torch.ones_like(concentration)  # made there: a captured update copies nothing from the CPU
        with supplied():
            return torch.distributions.Gamma(concentration, rate, validate_args=False).sample((count,))
    seed = int(torch.randint(2**62, (), generator=generator, device=generator.device))
    with drawing(seed):
        law = torch.distributions.Gamma(torch.tensor(shape, dtype=torch.float64), 1.0, validate_args=False)
        return law.sample((count,)).to(like)
