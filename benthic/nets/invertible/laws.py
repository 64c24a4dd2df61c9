"""Monotone maps of one number, with parameters that a network gives: affine, spline, sums of sigmoids."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from benthic.base.errors import InvalidInput, nearest
from benthic.base.settings import is_real, is_whole, whole
from benthic.nets.invertible.spline import rational_quadratic

_STEEPEST = math.log(1e3)  # of log-scales


class Law:
    """A monotone map z = f(x; raw) of numbers, entry by entry; zeros in raw are nearly the identity.

    outputs: how many parameters a number needs. Both ways return the logarithm of the slope of the way they go.
    """

    outputs: int

    def forward(self, x: Tensor, raw: Tensor) -> tuple[Tensor, Tensor]:
        """z and log dz/dx for x (...) and raw (..., outputs)."""
        raise NotImplementedError

    def inverse(self, z: Tensor, raw: Tensor) -> tuple[Tensor, Tensor]:
        """x and log dx/dz."""
        raise NotImplementedError


class AffineLaw(Law):
    r"""z = exp(s) x + t, with :math:`|s| < \log 1000` by a smooth bound."""

    outputs = 2

    def _scale(self, raw: Tensor) -> tuple[Tensor, Tensor]:
        s = raw[..., 0]
        return s / (1 + s.abs() / _STEEPEST), raw[..., 1]

    def forward(self, x: Tensor, raw: Tensor) -> tuple[Tensor, Tensor]:
        """z and log dz/dx."""
        s, t = self._scale(raw)
        return x * s.exp() + t, s

    def inverse(self, z: Tensor, raw: Tensor) -> tuple[Tensor, Tensor]:
        """x and log dx/dz."""
        s, t = self._scale(raw)
        return (z - t) * torch.exp(-s), -s


class SplineLaw(Law):
    """A rational-quadratic spline of [-bound, bound], the identity outside; see ``rational_quadratic``."""

    def __init__(self, bins: int = 8, bound: float = 5.0, *, fused: bool = True) -> None:
        if not is_whole(bins, 2, 500) or not (is_real(bound) and bound > 0):
            raise InvalidInput(
                f"SplineLaw: bins is {bins!r} and bound {bound!r}; use 2 to 500 bins and a finite bound above 0"
            )
        self.bins, self.bound, self.fused, self.outputs = bins, float(bound), fused, 3 * bins - 1

    def forward(self, x: Tensor, raw: Tensor) -> tuple[Tensor, Tensor]:
        """z and log dz/dx."""
        return rational_quadratic(x, raw, bound=self.bound, fused=self.fused)

    def inverse(self, z: Tensor, raw: Tensor) -> tuple[Tensor, Tensor]:
        """x and log dx/dz."""
        return rational_quadratic(z, raw, bound=self.bound, inverse=True, fused=self.fused)


class SigmoidLaw(Law):
    r"""A monotone network of one hidden layer: the logit of a mixture of sigmoids.

    .. math:: z = \operatorname{logit} \sum_j w_j\, \sigma(a_j x + b_j), \qquad w_j, a_j > 0, \quad \sum_j w_j = 1

    Huang et al., 2018 (deep sigmoidal flow). It has no closed inverse: bisection finds it, and gradients of the
    inverse are those of the implicit function. units: sigmoids.
    """

    def __init__(self, units: int = 8) -> None:
        whole("SigmoidLaw: units", units)
        self.units, self.outputs = units, 3 * units

    def forward(self, x: Tensor, raw: Tensor) -> tuple[Tensor, Tensor]:
        """z and log dz/dx, by logarithms throughout so that tails do not vanish."""
        logits, slopes, shifts = raw.split(self.units, -1)
        a = F.softplus(slopes + _UNIT) + 1e-3
        inner = a * x[..., None] + shifts + _spread(self.units, x)
        log_w = F.log_softmax(logits, -1)
        above, below = F.logsigmoid(inner), F.logsigmoid(-inner)
        log_p, log_q = torch.logsumexp(log_w + above, -1), torch.logsumexp(log_w + below, -1)
        log_rise = torch.logsumexp(log_w + above + below + a.log(), -1)
        return log_p - log_q, log_rise - log_p - log_q

    def inverse(self, z: Tensor, raw: Tensor) -> tuple[Tensor, Tensor]:
        """x and log dx/dz."""
        with torch.no_grad():
            x = bisect(lambda at: self.forward(at, raw)[0], z)
            rise = self.forward(x, raw)[1].exp()
        z_there, _ = self.forward(x, raw)
        step = (z_there - z) / rise  # of Newton, which also carries the gradient
        limit = 1e-3 * (1 + x.abs())  # far out rounding can make slopes vanish, and bisection knows better
        x = x - torch.where(torch.isfinite(step), step, 0.0).clamp(-limit, limit)
        return x, -self.forward(x, raw)[1]


_UNIT = math.log(math.expm1(1.0 - 1e-3))


def _spread(units: int, like: Tensor) -> Tensor:
    """Where the sigmoids begin: spread over the interval in which most numbers lie."""
    if units == 1:
        return like.new_zeros(1)
    return torch.linspace(-2.0, 2.0, units, dtype=like.dtype, device=like.device)


@torch.no_grad()
def bisect(
    function: Callable[[Tensor], Tensor], target: Tensor, reach: float = 8.0, steps: int | None = None
) -> Tensor:
    """x with function(x) = target, entry by entry, for a rising function of tensors like ``target``."""
    low, high = target - reach, target + reach
    for _ in range(60):  # widen until every entry is enclosed
        under, over = function(low) > target, function(high) < target
        if not bool((under | over).any()):
            break
        low, high = torch.where(under, low - (high - low), low), torch.where(over, high + (high - low), high)
    count = steps or (80 if target.dtype == torch.float64 else 40)
    for _ in range(count):
        middle = 0.5 * (low + high)
        rises = function(middle) > target
        low, high = torch.where(rises, low, middle), torch.where(rises, middle, high)
    return 0.5 * (low + high)


LAWS = ("affine", "spline", "sigmoids")


def law_of(name: str, *, bins: int = 8, bound: float = 5.0) -> Law:
    """A law by name: ``affine``, ``spline`` or ``sigmoids``; bins: of splines, or how many sigmoids.

    >>> law_of("spline", bins=4).outputs
    11
    """
    if name == "affine":
        return AffineLaw()
    if name == "spline":
        return SplineLaw(bins, bound)
    if name == "sigmoids":
        return SigmoidLaw(bins)
    raise InvalidInput(f"law {name!r} is unknown{nearest(str(name), LAWS)}; use {', '.join(LAWS)}")
