r"""Density and tails of standard stable laws by one quadrature that is accurate everywhere.

Zolotarev's integral in the form of Nolan, 1997: with d the distance of x from the point ζ = −β tan(πα/2),

.. math:: f(x) = \frac{\alpha}{\pi |\alpha - 1| d} \int g e^{-g} d\theta, \qquad
    g = d^{\alpha/(\alpha-1)} V(\theta)

where V rises from one end of an interval of length L to the other. With y the distance from the low end,

.. math:: |1-\alpha| \log V = c + m \log\sin(m y) + |1-\alpha| \log\sin(|1-\alpha| y + \omega)
    - M \log\sin(M y + \omega)

for m = min(α, 1), M = max(α, 1), so one formula serves both sides of α = 1. Two things make the sum exact to
rounding. First, y = L / (1 + exp(−s)), which resolves both ends. Second, the nodes are uniform in
T = s + log V(s): then s and log g change by less than one when T does, the integrand is smooth on the scale of
one however sharp its peak, and the trapezoidal rule converges exponentially. The nodes do not depend on x, so
one table of them serves every point. All terms are positive, so far tails keep their digits.

Within 0.004 of α = 1 the logarithms are interpolated in α, in which these laws (in the S0 form) are analytic.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from benthic.distributions.stable_curve import FAR, Shape, Table, log_v_of, nodes_for, shape_of, table_of, windows_of

NEAR = 0.004  # |α − 1| below which the laws are interpolated in α
_STEEP = 16.0  # of log g, at its least over the angle
_BLOCK = 4_000_000  # numbers in one block of work


class Parts(NamedTuple):
    """Logarithms of the density, of the lower and of the upper tail, all of the shape of x."""

    density: Tensor
    lower: Tensor
    upper: Tensor


def log_parts(
    x: Tensor, alpha: Tensor, beta: Tensor, step: float = 0.25, tails: bool = True, centered: bool = False
) -> Parts:
    """Density and tails of standard stable laws in the S0 form.

    x: (n, b) points. alpha, beta: (b,) one law a column. step: of the trapezoidal rule; the relative error is
    about exp(−π² / step), so 0.25 is exact to rounding. tails: False leaves them out (they are not a number then).
    centered: x is counted from ζ, as in the S1 form; not for α within 0.004 of 1.
    """
    if centered:
        return _direct(x, alpha, beta, step, tails)
    close = (alpha.detach() - 1).abs() < NEAR
    if not bool(close.any()):
        return _direct(x - _zeta(alpha, beta), alpha, beta, step, tails)
    if bool(close.all()):
        return _interpolated(x, alpha, beta, step, tails)
    near, far = close.nonzero().squeeze(1), (~close).nonzero().squeeze(1)
    first = _interpolated(x[:, near], alpha[near], beta[near], step, tails)
    second = _direct(x[:, far] - _zeta(alpha[far], beta[far]), alpha[far], beta[far], step, tails)
    order = torch.argsort(torch.cat([near, far]))
    return Parts(*(torch.cat([a, b], 1)[:, order] for a, b in zip(first, second, strict=True)))


def _interpolated(x: Tensor, alpha: Tensor, beta: Tensor, step: float, tails: bool, count: int = 8) -> Parts:
    """Through equally spaced points in α, none of which is nearer to 1 than the rule for the others allows."""
    points = 1 + NEAR * (2 * torch.arange(count, device=x.device, dtype=x.dtype) + 1 - count)
    gap = points[:, None] - points[None, :] + torch.eye(count, dtype=x.dtype, device=x.device)
    away = (alpha[None, None, :] - points[None, :, None]).expand(count, count, -1)  # (i, j, b)
    own = torch.eye(count, dtype=torch.bool, device=x.device)[:, :, None]
    weights = torch.where(own, 1.0, away / gap[:, :, None]).prod(1)  # (i, b)
    n, b = x.shape
    wide = x[:, None, :].expand(n, count, b).reshape(n, -1)
    alphas, betas = points.repeat_interleave(b), beta.repeat(count)
    found = _direct(wide - _zeta(alphas, betas), alphas, betas, step, tails)
    nearest = (alpha.detach()[None, :] - points[:, None]).abs().argmin(0)
    return Parts(*(_combined(part.reshape(n, count, b), weights, nearest) for part in found))


def _combined(logs: Tensor, weights: Tensor, nearest: Tensor) -> Tensor:
    """The interpolated logarithm; where it is steep beyond all floats, that of the nearest point."""
    steep = (logs.detach() < -2e4).any(1)
    safe = torch.where(steep[:, None, :], 0.0, logs)
    plain = logs.gather(1, nearest[None, None, :].expand(len(logs), 1, -1)).squeeze(1)
    return torch.where(steep, plain, (safe * weights).sum(1))


def _zeta(alpha: Tensor, beta: Tensor) -> Tensor:
    return -beta * torch.tan(0.5 * math.pi * alpha)


def _direct(gap: Tensor, alpha: Tensor, beta: Tensor, step: float, tails: bool) -> Parts:
    b = len(alpha)
    right = gap.detach() >= 0
    # the left side of a law is the right side of its mirror image: 2b shapes serve both
    shape = shape_of(alpha.repeat(2), torch.cat([beta, -beta]))
    row = torch.arange(b, device=gap.device).expand(gap.shape) + torch.where(right, 0, b)  # (n, b)
    # beyond d^α = exp(500) only the leading power is left
    limit = 500 / alpha.detach()
    log_d = gap.abs().clamp(min=1e-100).log()
    excess = (log_d - limit).clamp(min=0)
    near = _near(gap, alpha, beta)
    log_d = log_d.minimum(limit).maximum(near.floor)
    shift, loss = _eased(shape, alpha / (alpha - 1) * log_d, row)
    with torch.no_grad():
        s = nodes_for(shape, shift.detach(), row, step)
    table = table_of(shape, s, step)
    density, low, high = _sums(table, shape, shift, row, tails)
    density = density - loss + alpha.log() - math.log(math.pi) - (alpha - 1).abs().log() - log_d - (1 + alpha) * excess
    density = torch.where(near.chosen, near.density, density)
    if not tails:
        density = torch.where(shape.length.squeeze(1)[row] <= 0, -torch.inf, density)
        return Parts(density, low, high)
    parts = _tails(density, low - loss, high, shape, alpha, row, right, alpha * excess)
    lower = (1 - shape.length.squeeze(1)[: len(alpha)] / math.pi).clamp(min=1e-300) + near.mass
    lower = torch.where(near.chosen, lower, 0.5)
    return Parts(
        parts.density,
        torch.where(near.chosen, lower.log(), parts.lower),
        torch.where(near.chosen, torch.log1p(-lower), parts.upper),
    )


def _eased(shape: Shape, shift: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
    """Shifts under which g does not rise above exp(16) everywhere, and the logarithm this saves on a light side."""
    floor = shift + log_v_of(shape, torch.full_like(shape.alpha, -FAR)).squeeze(1)[row]
    over = (floor - _STEEP).clamp(min=0)
    return shift - over, torch.where(over > 0, floor.clamp(max=700).exp() - math.exp(_STEEP), 0.0)


def _tails(
    density: Tensor, low: Tensor, high: Tensor, shape: Shape, alpha: Tensor, row: Tensor, right: Tensor, fall: Tensor
) -> Parts:
    """Tails from the logarithms of the two integrals of exp(−g) and 1 − exp(−g)."""
    below = (alpha < 1).detach().expand(row.shape)
    length = shape.length.squeeze(1)[row]
    far = torch.where(below, high, low) - math.log(math.pi) - fall  # the tail beyond x
    rest = torch.where(below, low, high)
    near = torch.log((1 - length / math.pi).clamp(min=0) + rest.exp() / math.pi)
    empty = length <= 0  # no mass on this side at all
    density = torch.where(empty, -torch.inf, density)
    far, near = torch.where(empty, -torch.inf, far), torch.where(empty, 0.0, near)
    return Parts(density, torch.where(right, near, far), torch.where(right, far, near))


def _sums(table: Table, shape: Shape, shift: Tensor, row: Tensor, tails: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Logarithms of the integrals of g exp(−g), exp(−g) and 1 − exp(−g) over the angle, each (n, b)."""
    first, width = windows_of(table, shape, shift.detach(), row)
    rows = max(1, _BLOCK // (width * row.shape[1]))
    pieces = []
    for k in range(0, len(shift), rows):
        part = slice(k, k + rows)
        pieces.append(_window_sums(table, shape, shift[part], row[part], first[part], width, tails))
    return tuple(torch.cat(piece) for piece in zip(*pieces, strict=True))


def _window_sums(
    table: Table, shape: Shape, shift: Tensor, row: Tensor, first: Tensor, width: int, tails: bool
) -> tuple[Tensor, Tensor, Tensor]:
    at = row.unsqueeze(-1) * table.s.shape[1] + first.unsqueeze(-1) + torch.arange(width, device=row.device)

    def take(values: Tensor) -> Tensor:
        return values.reshape(-1)[at]

    v = (shift.unsqueeze(-1) + take(table.log_v)).clamp(max=700.0)  # (n, b, width)
    kernel = v - v.exp()
    density = torch.logsumexp(kernel + take(table.log_angle), -1)
    if not tails:
        absent = torch.full_like(density, torch.nan)
        return density, absent, absent
    # by parts, the integrals of exp(−g) and 1 − exp(−g) have the same local kernel
    step = kernel + take(table.log_rise)
    low = torch.logsumexp(step + take(table.log_low), -1)
    high = torch.logsumexp(step + take(table.log_high), -1)
    g = v[..., 0].exp()  # what V does not fall below, where it has a floor
    edge = take(table.log_high)[..., 0] + torch.log(-torch.expm1(-g.clamp(min=1e-290)))
    high = torch.logaddexp(high, edge)
    if bool((shape.alpha < 0.5).any()):
        plain = torch.logsumexp(take(table.log_angle) + torch.log(-torch.expm1(-v.clamp(min=-660).exp())), -1)
        high = torch.where((shape.alpha.detach().squeeze(1) < 0.5)[row], plain, high)
    return density, low, high


class _Near(NamedTuple):
    """The power series around ζ: the log-density, the mass between ζ and x, where they hold, the least log d."""

    density: Tensor
    mass: Tensor
    chosen: Tensor
    floor: Tensor


def _near(gap: Tensor, alpha: Tensor, beta: Tensor) -> _Near:
    r"""The density near ζ by its power series, where four terms of it are exact.

    .. math:: f(\zeta + d) = \frac{1}{\pi \alpha} \mathrm{Re} \sum_k \frac{(-i d)^k}{k!}
        \Gamma\Big(\frac{k+1}{\alpha}\Big) (1 + i \zeta)^{-(k+1)/\alpha}
    """
    zeta = _zeta(alpha, beta)
    log_size, angle = -0.5 * torch.log1p(zeta.square()) / alpha, -torch.atan(zeta) / alpha
    ratio = (torch.lgamma(5 / alpha) - torch.lgamma(4 / alpha) + log_size - math.log(4)).detach()
    usable = torch.cos(angle).detach() > 1e-2
    edge = torch.where(usable, math.log(1e-4) - ratio, -torch.inf)
    chosen = gap.detach().abs().clamp(min=1e-300).log() < edge
    d = torch.where(chosen, gap, 0.0)
    base = torch.lgamma(1 / alpha) + log_size
    total, mass = torch.zeros_like(d), torch.zeros_like(d)
    for k in range(4):
        size = (torch.lgamma((k + 1) / alpha) + (k + 1) * log_size - base - math.lgamma(k + 1)).exp()
        term = size * torch.cos((k + 1) * angle - 0.5 * math.pi * k)
        total = total + term * d**k
        mass = mass + term * d ** (k + 1) / (k + 1)
    scale = base - torch.log(math.pi * alpha)
    total = torch.where(chosen, total, 1.0)
    least = torch.where(alpha.detach() < 0.3, -230.0, -70.0)
    return _Near(scale + total.log(), scale.exp() * mass, chosen, (edge - 1).maximum(least))
