"""Exponential families of counts."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from benthic.distributions.exponential import Family, Support

_EPS, _TINY = torch.finfo(torch.float64).eps, 1e-300


class Poisson(Family):
    """Counts: T(x) = x, η = log rate."""

    name = "poisson"
    support = Support(0.0, whole=True)
    measure = "mass"
    reference = (0.0,)

    def statistics(self, x: Tensor) -> Tensor:
        """See ``Family``."""
        return x[..., None]

    def log_base(self, x: Tensor) -> Tensor:
        """See ``Family``."""
        return -torch.lgamma(x + 1)

    def log_partition(self, eta: Tensor) -> Tensor:
        """See ``Family``."""
        return eta[..., 0].exp()

    def natural(self, expected: Tensor, start: Tensor | None = None) -> Tensor:
        """See ``Family``."""
        return expected.clamp(min=_TINY).log()

    def mean(self, eta: Tensor) -> Tensor:
        """See ``Family``."""
        return eta[..., 0].exp()

    def draw(self, eta: Tensor, generator: torch.Generator) -> Tensor:
        """See ``Family``."""
        return torch.poisson(self.mean(eta), generator=generator)

    def parameters(self, eta: Tensor) -> dict[str, Tensor]:
        """The rate."""
        return {"rate": self.mean(eta)}

    def normal_view(self, x: Tensor) -> Tensor:
        """The square root (Anscombe, 1948)."""
        return x.sqrt()


class Bernoulli(Family):
    """Zero or one: T(x) = x, η = log p/(1 − p)."""

    name = "bernoulli"
    support = Support(0.0, 1.0, whole=True)
    measure = "mass"
    reference = (0.0,)

    def statistics(self, x: Tensor) -> Tensor:
        """See ``Family``."""
        return x[..., None]

    def log_base(self, x: Tensor) -> Tensor:
        """See ``Family``."""
        return torch.zeros_like(x)

    def log_partition(self, eta: Tensor) -> Tensor:
        """See ``Family``."""
        return torch.nn.functional.softplus(eta[..., 0])

    def natural(self, expected: Tensor, start: Tensor | None = None) -> Tensor:
        """See ``Family``."""
        p = expected.clamp(_TINY, 1 - _EPS)
        return p.log() - torch.log1p(-p)

    def mean(self, eta: Tensor) -> Tensor:
        """See ``Family``."""
        return torch.sigmoid(eta[..., 0])

    def draw(self, eta: Tensor, generator: torch.Generator) -> Tensor:
        """See ``Family``."""
        p = self.mean(eta)
        return (torch.rand(p.shape, generator=generator, dtype=p.dtype) < p).to(p.dtype)

    def parameters(self, eta: Tensor) -> dict[str, Tensor]:
        """The probability of one."""
        return {"p": self.mean(eta)}


class Geometric(Family):
    """Failures before the first success, 0, 1, 2, ...: T(x) = x, η = log(1 − p)."""

    name = "geometric"
    support = Support(0.0, whole=True)
    measure = "mass"
    reference = (-math.log(2.0),)

    def statistics(self, x: Tensor) -> Tensor:
        """See ``Family``."""
        return x[..., None]

    def log_base(self, x: Tensor) -> Tensor:
        """See ``Family``."""
        return torch.zeros_like(x)

    def log_partition(self, eta: Tensor) -> Tensor:
        """See ``Family``."""
        return -torch.log(-torch.expm1(eta[..., 0]))

    def domain(self, eta: Tensor) -> Tensor:
        """See ``Family``."""
        return super().domain(eta) & (eta[..., 0] < 0)

    def natural(self, expected: Tensor, start: Tensor | None = None) -> Tensor:
        """See ``Family``."""
        return -torch.log1p(1 / expected.clamp(min=_TINY))

    def mean(self, eta: Tensor) -> Tensor:
        """See ``Family``."""
        return -eta[..., 0].exp() / torch.expm1(eta[..., 0])

    def draw(self, eta: Tensor, generator: torch.Generator) -> Tensor:
        """See ``Family``."""
        level = torch.rand(eta.shape[:-1], generator=generator, dtype=eta.dtype)
        return torch.floor(torch.log1p(-level) / eta[..., 0])

    def parameters(self, eta: Tensor) -> dict[str, Tensor]:
        """The probability of success."""
        return {"p": -torch.expm1(eta[..., 0])}

    def normal_view(self, x: Tensor) -> Tensor:
        """The square root."""
        return x.sqrt()
