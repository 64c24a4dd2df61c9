"""The logarithm of the modified Bessel function I of any order and argument, with gradients."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from typing import Any

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput

_LARGE = 20.0  # the order from which the expansion is used
_TERMS = 13


def log_bessel_i(order: float | Tensor, x: Any, scaled: bool = False) -> Tensor:
    r"""The logarithm of the modified Bessel function of the first kind.

    .. math:: \log I_\nu(x), \qquad \text{scaled: } \log\big(e^{-x} I_\nu(x)\big)

    The uniform expansion for large order (Olver, 1954; DLMF 10.41.3) at an order of at least 20, then the
    recurrence downward, which is stable. Computed in float64; relative error of I about 1e-13 while the
    logarithm is of order one. Differentiable in both arguments.

    order: at least 0. x: at least 0, broadcast with order.

    >>> log_bessel_i(0.5, torch.tensor(1.0, dtype=torch.float64)).exp()  # sqrt(2 / pi) sinh(1)
    tensor(0.9377, dtype=torch.float64)
    """
    x = torch.as_tensor(x, dtype=None if isinstance(x, Tensor) else torch.float64)
    wide = x.double()
    nu = torch.as_tensor(order, dtype=torch.float64, device=x.device)
    if bool((wide.detach() < 0).any()) or bool((nu.detach() < 0).any()):
        raise InvalidInput("log_bessel_i: order and x must not be negative")
    excess, _ = _log_excess(nu, wide)
    grown = torch.xlogy(nu, 0.5 * wide) - torch.lgamma(nu + 1) + excess
    return (grown if scaled else grown + wide).to(x.dtype)


def log_excess(order: float | Tensor, x: Tensor) -> Tensor:
    r"""What I has beyond its leading power, scaled: finite and smooth down to x = 0.

    .. math:: \log\big(\Gamma(\nu + 1) (x/2)^{-\nu} e^{-x} I_\nu(x)\big)
    """
    return _log_excess(torch.as_tensor(order, dtype=torch.float64, device=x.device), x.double())[0].to(x.dtype)


def bessel_ratio(order: float | Tensor, x: Tensor) -> Tensor:
    r"""The ratio of two neighboring Bessel functions, which is 0 at 0 and tends to 1.

    .. math:: A(x) = I_{\nu+1}(x) / I_\nu(x)

    >>> bessel_ratio(0.5, torch.tensor(2.0, dtype=torch.float64))  # coth 2 - 1/2
    tensor(0.5373, dtype=torch.float64)
    """
    wide = x.double()
    nu = torch.as_tensor(order, dtype=torch.float64, device=x.device)
    _, quotient = _log_excess(nu, wide)
    return (0.5 * wide / (nu + 1) * quotient).to(x.dtype)


def ratio_slope(order: float | Tensor, x: Tensor, ratio: Tensor) -> Tensor:
    """The derivative of ``bessel_ratio`` in x, given its value (Amos, 1974)."""
    nu = torch.as_tensor(order, dtype=x.dtype, device=x.device)
    tiny = x < 1e-8
    safe = torch.where(tiny, 1.0, x)
    return torch.where(tiny, 0.5 / (nu + 1), 1 - ratio.square() - (2 * nu + 1) / safe * ratio)


def _log_excess(nu: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """The scaled logarithm h of order nu, and exp(h of nu + 1 − h of nu)."""
    steps = max(0, math.ceil(_LARGE - float(nu.detach().min())))
    high = nu + steps
    h = _expansion(high, x)
    quotient = (_expansion(high + 1, x) - h).exp()
    quarter = 0.25 * x.square()
    for _ in range(steps):
        # I of order m − 1 is I of order m + 1 plus 2 m / x times I of order m
        factor = 1 + quarter / (high * (high + 1)) * quotient
        quotient = 1 / factor
        h = h + factor.log()
        high = high - 1
    return h, quotient


def _expansion(mu: Tensor, x: Tensor) -> Tensor:
    z = x / mu
    root = torch.sqrt(1 + z.square())
    p = 1 / root
    total = torch.zeros_like(p * mu)
    for polynomial in reversed(_polynomials()):
        value = torch.zeros_like(p)
        for coefficient in reversed(polynomial):
            value = value * p + coefficient
        total = total / mu + value
    rise = z.square() / (1 + root)  # root − 1
    return (
        mu * (1 / (root + z) - 1)  # root − 1 − z, without cancellation
        - mu * torch.log1p(0.5 * rise)
        - 0.5 * root.log()
        + total.log()
        + _stirling(mu)
    )


def _stirling(mu: Tensor) -> Tensor:
    """log Γ(mu + 1) beyond Stirling's formula, for mu of at least 20."""
    r = 1 / mu.square()
    return (1 / 12 - r * (1 / 360 - r * (1 / 1260 - r * (1 / 1680 - r * (1 / 1188 - r * 691 / 360360))))) / mu


@cache
def _polynomials() -> list[list[float]]:
    """Coefficients of u_0, u_1, ... in rising powers of p (DLMF 10.41.9), exact before rounding."""
    found, u = [], [Fraction(1)]
    for _ in range(_TERMS):
        found.append([float(c) for c in u])
        following = [Fraction(0)] * (len(u) + 3)
        for k, c in enumerate(u):
            following[k + 1] += c * (Fraction(k, 2) + Fraction(1, 8 * (k + 1)))
            following[k + 3] -= c * (Fraction(k, 2) + Fraction(5, 8 * (k + 3)))
        u = following
    return found
