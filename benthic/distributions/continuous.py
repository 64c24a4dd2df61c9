"""Exponential families of real numbers."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from benthic.distributions.exponential import Family, Support, natural_by_newton

_EPS, _TINY = torch.finfo(torch.float64).eps, 1e-300
_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


class Normal(Family):
    """Mean and variance both free: T(x) = (x, x²), η = (μ/v, −1/2v)."""

    name = "normal"
    support = Support()
    reference = (0.0, -0.5)

    def statistics(self, x: Tensor) -> Tensor:
        """See ``Family``."""
        return torch.stack((x, x.square()), -1)

    def log_base(self, x: Tensor) -> Tensor:
        """See ``Family``."""
        return torch.full_like(x, -_HALF_LOG_TWO_PI)

    def log_partition(self, eta: Tensor) -> Tensor:
        """See ``Family``."""
        return -eta[..., 0].square() / (4 * eta[..., 1]) - 0.5 * torch.log(-2 * eta[..., 1])

    def domain(self, eta: Tensor) -> Tensor:
        """See ``Family``."""
        return super().domain(eta) & (eta[..., 1] < 0)

    def natural(self, expected: Tensor, start: Tensor | None = None) -> Tensor:
        """See ``Family``; a variance that cannot be told from rounding is lifted above it."""
        mean, square = expected[..., 0], expected[..., 1]
        variance = (square - mean.square()).maximum(16 * _EPS * square + _TINY)
        return torch.stack((mean / variance, -0.5 / variance), -1)

    def mean(self, eta: Tensor) -> Tensor:
        """See ``Family``."""
        return -0.5 * eta[..., 0] / eta[..., 1]

    def draw(self, eta: Tensor, generator: torch.Generator) -> Tensor:
        """See ``Family``."""
        noise = torch.randn(eta.shape[:-1], generator=generator, dtype=eta.dtype)
        return self.mean(eta) + noise * (-0.5 / eta[..., 1]).sqrt()

    def parameters(self, eta: Tensor) -> dict[str, Tensor]:
        """Mean and variance."""
        return {"mean": self.mean(eta), "variance": -0.5 / eta[..., 1]}

    def units(self, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of the columns."""
        mean = _average(x, weight)
        deviation = _average((x - mean).square(), weight).sqrt()
        return mean, torch.where(deviation > 0, deviation, 1.0)

    def in_units(self, eta: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
        """See ``Family``."""
        precision = eta[..., 1] / scale.square()
        mean = shift + scale * (-0.5 * eta[..., 0] / eta[..., 1])
        return torch.stack((-2 * precision * mean, precision), -1)


class LogNormal(Family):
    """The logarithm is normal: T(x) = (log x, log² x), η = (μ/v, −1/2v)."""

    name = "lognormal"
    support = Support(0.0, open=True)
    reference = (0.0, -0.5)
    _log = Normal()  # the law of log x

    def statistics(self, x: Tensor) -> Tensor:
        """See ``Family``."""
        return self._log.statistics(x.log())

    def log_base(self, x: Tensor) -> Tensor:
        """See ``Family``."""
        return -x.log() - _HALF_LOG_TWO_PI

    def log_partition(self, eta: Tensor) -> Tensor:
        """See ``Family``."""
        return self._log.log_partition(eta)

    def domain(self, eta: Tensor) -> Tensor:
        """See ``Family``."""
        return self._log.domain(eta)

    def natural(self, expected: Tensor, start: Tensor | None = None) -> Tensor:
        """See ``Family``."""
        return self._log.natural(expected)

    def mean(self, eta: Tensor) -> Tensor:
        """See ``Family``."""
        return torch.exp(self._log.mean(eta) - 0.25 / eta[..., 1])

    def draw(self, eta: Tensor, generator: torch.Generator) -> Tensor:
        """See ``Family``."""
        return self._log.draw(eta, generator).exp()

    def parameters(self, eta: Tensor) -> dict[str, Tensor]:
        """Mean and variance of the logarithm."""
        return {f"log_{name}": value for name, value in self._log.parameters(eta).items()}

    def units(self, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """The geometric mean as scale."""
        scale = _average(x.log(), weight).exp()
        return torch.zeros_like(scale), scale

    def in_units(self, eta: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
        """See ``Family``."""
        return self._log.in_units(eta, scale.log(), torch.ones_like(scale))

    def normal_view(self, x: Tensor) -> Tensor:
        """The logarithm."""
        return x.log()


class Exponential(Family):
    """Waiting times: T(x) = x, η = −rate."""

    name = "exponential"
    support = Support(0.0)
    reference = (-1.0,)

    def statistics(self, x: Tensor) -> Tensor:
        """See ``Family``."""
        return x[..., None]

    def log_base(self, x: Tensor) -> Tensor:
        """See ``Family``."""
        return torch.zeros_like(x)

    def log_partition(self, eta: Tensor) -> Tensor:
        """See ``Family``."""
        return -torch.log(-eta[..., 0])

    def domain(self, eta: Tensor) -> Tensor:
        """See ``Family``."""
        return super().domain(eta) & (eta[..., 0] < 0)

    def natural(self, expected: Tensor, start: Tensor | None = None) -> Tensor:
        """See ``Family``."""
        return -1 / expected.clamp(min=_TINY)

    def mean(self, eta: Tensor) -> Tensor:
        """See ``Family``."""
        return -1 / eta[..., 0]

    def draw(self, eta: Tensor, generator: torch.Generator) -> Tensor:
        """See ``Family``."""
        level = torch.rand(eta.shape[:-1], generator=generator, dtype=eta.dtype)
        return torch.log1p(-level) / eta[..., 0]

    def parameters(self, eta: Tensor) -> dict[str, Tensor]:
        """The rate."""
        return {"rate": -eta[..., 0]}

    def units(self, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """The mean as scale."""
        return _mean_as_scale(x, weight)

    def in_units(self, eta: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
        """See ``Family``."""
        return eta / scale[..., None]

    def normal_view(self, x: Tensor) -> Tensor:
        """The cube root (Wilson & Hilferty, 1931)."""
        return x.pow(1 / 3)


class Gamma(Family):
    """Shape a and rate b: T(x) = (log x, x), η = (a, −b), h(x) = 1/x."""

    name = "gamma"
    support = Support(0.0, open=True)
    reference = (1.0, -1.0)

    def statistics(self, x: Tensor) -> Tensor:
        """See ``Family``."""
        return torch.stack((x.log(), x), -1)

    def log_base(self, x: Tensor) -> Tensor:
        """See ``Family``."""
        return -x.log()

    def log_partition(self, eta: Tensor) -> Tensor:
        """See ``Family``."""
        return torch.lgamma(eta[..., 0]) - eta[..., 0] * torch.log(-eta[..., 1])

    def domain(self, eta: Tensor) -> Tensor:
        """See ``Family``."""
        return super().domain(eta) & (eta[..., 0] > 0) & (eta[..., 1] < 0)

    def natural(self, expected: Tensor, start: Tensor | None = None) -> Tensor:
        """Newton, from the nearly exact shape of Minka, 2002."""
        mean = expected[..., 1].clamp(min=_TINY)
        gap = (mean.log() - expected[..., 0]).clamp(min=1e-12)  # log E[x] − E[log x], positive by Jensen
        shape = (3 - gap + torch.sqrt((gap - 3).square() + 24 * gap)) / (12 * gap)
        consistent = torch.stack((mean.log() - gap, mean), -1)
        return natural_by_newton(self, consistent, torch.stack((shape, -shape / mean), -1))

    def mean(self, eta: Tensor) -> Tensor:
        """See ``Family``."""
        return -eta[..., 0] / eta[..., 1]

    def draw(self, eta: Tensor, generator: torch.Generator) -> Tensor:
        """See ``Family``."""
        return -_log_gamma_draw(eta[..., 0], generator).exp() / eta[..., 1]

    def parameters(self, eta: Tensor) -> dict[str, Tensor]:
        """Shape and rate."""
        return {"shape": eta[..., 0], "rate": -eta[..., 1]}

    def units(self, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """The mean as scale."""
        return _mean_as_scale(x, weight)

    def in_units(self, eta: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
        """See ``Family``."""
        return torch.stack((eta[..., 0], eta[..., 1] / scale), -1)

    def normal_view(self, x: Tensor) -> Tensor:
        """The cube root (Wilson & Hilferty, 1931)."""
        return x.pow(1 / 3)


class Beta(Family):
    """Shares: T(x) = (log x, log(1 − x)), η = (α, β), h(x) = 1/(x(1 − x))."""

    name = "beta"
    support = Support(0.0, 1.0, open=True)
    reference = (1.0, 1.0)

    def statistics(self, x: Tensor) -> Tensor:
        """See ``Family``."""
        return torch.stack((x.log(), torch.log1p(-x)), -1)

    def log_base(self, x: Tensor) -> Tensor:
        """See ``Family``."""
        return -x.log() - torch.log1p(-x)

    def log_partition(self, eta: Tensor) -> Tensor:
        """See ``Family``."""
        return torch.lgamma(eta).sum(-1) - torch.lgamma(eta.sum(-1))

    def domain(self, eta: Tensor) -> Tensor:
        """See ``Family``."""
        return super().domain(eta) & (eta > 0).all(-1)

    def natural(self, expected: Tensor, start: Tensor | None = None) -> Tensor:
        """Newton, from the geometric means of x and 1 − x (Johnson, Kotz & Balakrishnan, 1995, chapter 25)."""
        if start is None:
            geometric = expected.exp()
            start = 0.5 * (1 + geometric / (1 - geometric.sum(-1, keepdim=True)).clamp(min=1e-12))
        return natural_by_newton(self, expected, start)

    def mean(self, eta: Tensor) -> Tensor:
        """See ``Family``."""
        return eta[..., 0] / eta.sum(-1)

    def draw(self, eta: Tensor, generator: torch.Generator) -> Tensor:
        """See ``Family``."""
        logs = _log_gamma_draw(eta, generator)
        return torch.sigmoid(logs[..., 0] - logs[..., 1])

    def parameters(self, eta: Tensor) -> dict[str, Tensor]:
        """Alpha and beta."""
        return {"alpha": eta[..., 0], "beta": eta[..., 1]}

    def normal_view(self, x: Tensor) -> Tensor:
        """The arcsine of the square root (Anscombe, 1948)."""
        return torch.asin(x.sqrt())


def _average(x: Tensor, weight: Tensor) -> Tensor:
    """Weighted mean of each column (n, c) over its observed values, 0 where there is none."""
    share = weight[:, None] * ~torch.isnan(x)
    return (share * x.nan_to_num(0.0)).sum(0) / share.sum(0).clamp(min=_TINY)


def _mean_as_scale(x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    mean = _average(x, weight)
    return torch.zeros_like(mean), torch.where(mean > 0, mean, 1.0)


def _log_gamma_draw(shape: Tensor, generator: torch.Generator) -> Tensor:
    """The logarithm of a gamma variable of rate 1; it does not underflow where the shape is small."""
    level = 1 - torch.rand(shape.shape, generator=generator, dtype=shape.dtype)
    # G(a) has the law of G(a + 1) U^(1/a) (Marsaglia & Tsang, 2000)
    return torch._standard_gamma(shape + 1, generator=generator).log() + level.log() / shape
