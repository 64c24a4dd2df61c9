"""Incomplete beta and gamma functions with gradients in every argument, and quantiles from tails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

_TINY = 1e-300
_MOST = 5_000  # terms of a fraction or series; they end much earlier


class _Slope(torch.autograd.Function):
    """A value with a known derivative in x."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, x: Tensor, slope: Tensor) -> Tensor:
        ctx.save_for_backward(slope)
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        (slope,) = ctx.saved_tensors
        return gradients[0], gradients[0] * slope, None


def with_slope(value: Tensor, x: Tensor, slope: Tensor) -> Tensor:
    """``value`` with the derivative ``slope`` in ``x`` besides those that it has; all of one shape.

    >>> x = torch.tensor(2.0, requires_grad=True)
    >>> with_slope(x.detach() ** 3, x, 3 * x**2).backward()
    >>> x.grad
    tensor(12.)
    """
    return _Slope.apply(value, x, slope)


def betainc(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    r"""The regularized incomplete beta function, the distribution function of the beta law.

    .. math:: I_x(a, b) = \frac{1}{B(a, b)} \int_0^x t^{a-1} (1-t)^{b-1} dt

    By continued fraction (DLMF 8.17.22), in float64; relative error near 1e-13 for parameters of moderate
    size. Differentiable in a, b and x.

    >>> betainc(torch.tensor(2.0), torch.tensor(1.0), torch.tensor(0.5))
    tensor(0.2500)
    """
    a, b, x = torch.broadcast_tensors(a, b, x)
    wide = x.double()
    lower, _ = beta_tails(a.double(), b.double(), wide.detach(), 1 - wide.detach())
    inside = wide.clamp(1e-300, 1 - 1e-16)
    density = (a - 1) * inside.log() + (b - 1) * torch.log1p(-inside) - _log_beta(a.double(), b.double())
    return with_slope(lower, wide, density.exp()).to(x.dtype)


def gammainc(a: Tensor, x: Tensor) -> Tensor:
    r"""The regularized lower incomplete gamma function, with a gradient in ``a`` too, which torch lacks.

    .. math:: P(a, x) = \frac{1}{\Gamma(a)} \int_0^x t^{a-1} e^{-t} dt

    By series below a + 1 and continued fraction above (DLMF 8.7.1 and 8.9.2).

    >>> gammainc(torch.tensor(1.0), torch.tensor(2.0))  # 1 - exp(-2)
    tensor(0.8647)
    """
    a, x = torch.broadcast_tensors(a, x)
    wide, shape = x.double(), a.double()
    lower, _ = gamma_tails(shape, wide.detach())
    density = (shape - 1) * wide.clamp(min=_TINY).log() - wide - torch.lgamma(shape)
    return with_slope(lower, wide, density.exp()).to(x.dtype)


def beta_tails(a: Tensor, b: Tensor, x: Tensor, rest: Tensor) -> tuple[Tensor, Tensor]:
    """I_x(a, b) and what it lacks of one, each to full relative accuracy where small. rest: 1 − x."""
    x, rest = x.clamp(_TINY, 1.0), rest.clamp(_TINY, 1.0)
    swap = (x > (a + 1) / (a + b + 2)).detach()
    a1, b1 = torch.where(swap, b, a), torch.where(swap, a, b)
    x1, rest1 = torch.where(swap, rest, x), torch.where(swap, x, rest)
    front = (a1 * x1.log() + b1 * rest1.log() - _log_beta(a1, b1) - a1.log()).exp()
    small = front * _beta_fraction(a1, b1, x1)
    return torch.where(swap, 1 - small, small), torch.where(swap, small, 1 - small)


def gamma_tails(a: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """P(a, x) and Q(a, x), each to full relative accuracy where small."""
    if not a.requires_grad and bool((a <= 20).all()):  # beyond, torch's expansion keeps nine digits only
        return torch.special.gammainc(a, x), torch.special.gammaincc(a, x)
    below = (x < a + 1).detach()
    near = torch.where(below, x, 0.5 * a.detach()).clamp(min=_TINY)  # a harmless value where the other side holds
    far = torch.where(below, a.detach() + 2, x)
    lower = (a * near.log() - near - torch.lgamma(a + 1)).exp() * _gamma_series(a, near)
    upper = (a * far.log() - far - torch.lgamma(a)).exp() * _gamma_fraction(a, far)
    return torch.where(below, lower, 1 - upper), torch.where(below, 1 - lower, upper)


def _log_beta(a: Tensor, b: Tensor) -> Tensor:
    return torch.lgamma(a) + torch.lgamma(b) - torch.lgamma(a + b)


def _beta_fraction(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    """The continued fraction of the incomplete beta function by Lentz's method."""
    c = torch.ones_like(x)
    d = 1 / (1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, _MOST):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        d, c = 1 / (1 + even * d), 1 + even / c
        value = value * d * c
        d, c = 1 / (1 + odd * d), 1 + odd / c
        value = value * d * c
        if m % 8 == 0 and bool(((d * c - 1).abs() < 1e-15).all()):
            break
    return value


def _gamma_series(a: Tensor, x: Tensor) -> Tensor:
    term = torch.ones_like(x + a)
    total = term
    for n in range(1, _MOST):
        term = term * x / (a + n)
        total = total + term
        if n % 8 == 0 and bool((term < 1e-17 * total).all()):
            break
    return total


def _gamma_fraction(a: Tensor, x: Tensor) -> Tensor:
    b = x + 1 - a
    c = torch.full_like(b, 1 / _TINY)
    d = 1 / b
    value = d
    for n in range(1, _MOST):
        push = -n * (n - a)
        b = b + 2
        d, c = 1 / (push * d + b), b + push / c
        value = value * d * c
        if n % 8 == 0 and bool(((d * c - 1).abs() < 1e-15).all()):
            break
    return value


Tails = Callable[[Tensor], tuple[Tensor, Tensor, Tensor]]


def solve_level(tails: Tails, level: Tensor, low: Tensor, high: Tensor, start: Tensor | None = None) -> Tensor:
    """The point at which a distribution function has a value, by Newton's method kept inside a bracket.

    The smaller tail is matched in the logarithm, so levels such as 1e-200 are met to full accuracy.

    tails: maps a point to the lower tail, the upper tail and the density. level: strictly between 0 and 1.
    low, high: a bracket of the answer, of the shape of level.
    """
    with torch.no_grad():
        under = level < 0.5
        target = torch.where(under, level, 1 - level).log()
        point = 0.5 * (low + high) if start is None else start.clamp(low, high)
        for _ in range(400):
            lower, upper, density = tails(point)
            tail = torch.where(under, lower, upper)
            miss = tail.log() - target
            rising = torch.where(under, miss, -miss)  # above zero: the point is too high
            low, high = torch.where(rising > 0, low, point), torch.where(rising > 0, point, high)
            new = point - rising * tail / density
            wild = ~((new > low) & (new < high))
            new = torch.where(wild, 0.5 * (low + high), new)
            new = torch.where(rising == 0, point, new)
            done = ((new - point).abs() <= 1e-15 * point.abs()) | (miss.abs() <= 4e-16)
            point = new
            if bool(done.all()):
                break
        return point


def attach_level(point: Tensor, level: Tensor, lower: Tensor, density: Tensor) -> Tensor:
    """A quantile with its implicit gradient in the level and in what the lower tail depends on."""
    moved = (level - level.detach()) - (lower - lower.detach())
    held = density.detach()
    return point + moved / torch.where(held > 0, held, 1.0)
