"""Sums and integrals over the support of one-dimensional laws, accurate to rounding where they are smooth."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Binomial, Categorical, Distribution, OneHotCategorical, VonMises

from benthic.distributions.sources import draws, masked_log_prob

_ORDER, _STEPS, _ROUNDS, _MOST_PANELS, _MOST_VALUES = 15, 100, 40, 20_000, 1_000_000
_BLOCK = 1 << 20
_TOLERANCE, _MASS_TOLERANCE, _TAIL_TOLERANCE = 1e-12, 1e-7, 1e-9

Integrand = Callable[[Tensor, list[Tensor]], Tensor]


def total(function: Integrand, laws: list[Distribution]) -> Tensor | None:
    r"""The sum or integral of a function of x and the log-densities over the union of supports.

    .. math:: \int f(x, \log p(x), \log q(x)) \, dx

    Whole numbers are summed over all that carry mass. On the line, panels between quantiles of the laws, and
    growing panels beyond them, are bisected until Gauss's rule of order 15 agrees with itself to 1e-12; an
    integral whose outermost panel still matters is infinite. The value is differentiable in the parameters.

    function: takes x ``(n, *batch)``, or (n, 1, ..., 1), and a list of log-densities, and returns ``(n, *batch)``.
    laws: distributions of scalars, with batch shapes that broadcast.
    Returns ``(*batch)`` in the type of the laws; None where the laws are not one-dimensional, or where a mass of
    one could not be reproduced.
    """
    laws = [Categorical(logits=law.logits) if isinstance(law, OneHotCategorical) else law for law in laws]
    if any(law.event_shape for law in laws):
        return None
    discrete = {bool(law.support.is_discrete) for law in laws}
    if len(discrete) > 1:
        return None
    batch = torch.broadcast_shapes(*(law.batch_shape for law in laws))
    dtype = torch.promote_types(*(law.log_prob(draws(law, 1, 0)).dtype for law in (laws[0], laws[-1])))

    def stacked(x: Tensor) -> Tensor:  # the integrand and, to be checked against one, the densities
        logs = [masked_log_prob(law, x).broadcast_to(len(x), *batch) for law in laws]
        parts = [function(x, logs), *(log.exp() for log in logs)]
        return torch.stack([part.to(torch.float64) for part in parts], -1)

    out = _sum(stacked, laws, batch) if discrete.pop() else _integral(stacked, laws, batch)
    if out is None:
        return None
    missing = float((out[..., 1:].detach() - 1).abs().max())
    within = missing <= _MASS_TOLERANCE + 64 * torch.finfo(dtype).eps  # False for NaN
    return out[..., 0].to(dtype) if within else None


def weighted(log_p: Tensor, value: Tensor) -> Tensor:
    """p · value, and 0 where p vanishes whatever the value there is."""
    p = log_p.exp()
    return torch.where(p > 0, p * torch.where(p > 0, value, 0.0), 0.0)


def _sum(stacked: Callable[[Tensor], Tensor], laws: list[Distribution], batch: torch.Size) -> Tensor | None:
    top = max(_top(law) for law in laws)
    if not top < _MOST_VALUES:
        return None
    device = draws(laws[0], 1, 0).device
    x = torch.arange(int(top) + 1, device=device, dtype=torch.float64)
    return stacked(x.reshape(-1, *[1] * len(batch))).sum(0)


def _top(law: Distribution) -> float:
    """A whole number beyond which the law has no mass that a float64 could tell."""
    if isinstance(law, Binomial):
        return float(law.total_count.max())
    if isinstance(law, Categorical):
        return law.param_shape[-1] - 1
    high = getattr(law.support, "upper_bound", None)
    if high is not None:
        return float(torch.as_tensor(high).max())
    return float((law.mean + 60 * law.stddev + 60).max())


def _integral(stacked: Callable[[Tensor], Tensor], laws: list[Distribution], batch: torch.Size) -> Tensor | None:
    nodes, weights = (torch.from_numpy(part) for part in np.polynomial.legendre.leggauss(_ORDER))
    edges = _edges(laws, batch)
    nodes, weights = nodes.to(edges.device)[:, None], weights.to(edges.device)
    rows = max(1, _BLOCK // (_ORDER * edges.shape[1]))  # panels at a time

    def panels(low: Tensor, high: Tensor) -> Tensor:
        half = 0.5 * (high - low)  # (panels, laws)
        x = low[:, None] + half[:, None] * (1 + nodes)  # (panels, order, laws)
        values = torch.cat([stacked(block.reshape(-1, *batch)) for block in x.split(rows)])
        values = values.reshape(*x.shape, -1)
        out = torch.einsum("o,polk->plk", weights, values) * half[..., None]
        return torch.where(half[..., None] > 0, out, 0.0)  # panels that only fill the table have no width

    with torch.no_grad():
        found = _refine(panels, edges)
    if found is None:
        return None
    low, high = found
    parts = panels(low, high)  # (panels, laws, values)
    out, size = parts.sum(0), parts.detach().abs()
    ends = [torch.where(touch[..., None], size, 0.0).sum(0) for touch in (low == edges[0], high == edges[-1])]
    diverges = torch.maximum(*ends) > _TAIL_TOLERANCE * (1 + out.detach().abs())
    return torch.where(diverges, torch.sign(out.detach()) * math.inf, out).reshape(*batch, -1)


def _refine(panels: Callable[[Tensor, Tensor], Tensor], edges: Tensor) -> tuple[Tensor, Tensor] | None:
    """Panels (p, laws) of which each agrees with the sum of its halves; None where they become too many."""
    low, high = edges[:-1], edges[1:]
    value, done = panels(low, high), []
    scale = 1 + value.nan_to_num(0, 0, 0).sum(0).abs()
    for _ in range(_ROUNDS):
        middle = 0.5 * (low + high)
        left, right = panels(low, middle), panels(middle, high)
        error = ((value - left - right).abs() / scale).amax(-1)
        rough = (error > _TOLERANCE) & (middle > low) & (middle < high) & torch.isfinite(error)
        split = rough.any(1)  # for all laws where one of them needs it
        done.append((low[~split], high[~split]))
        if not bool(split.any()):
            break
        low, high = torch.cat((low[split], middle[split])), torch.cat((middle[split], high[split]))
        value = torch.cat((left[split], right[split]))
        if len(low) > _MOST_PANELS:
            return None
    else:
        done.append((low, high))
    low, high = (torch.cat(side) for side in zip(*done, strict=True))
    return low, high


def _edges(laws: list[Distribution], batch: torch.Size) -> Tensor:
    """Where panels meet, (e, laws): quantiles, ends of supports, and steps that grow or shrink to the outer ends."""
    inner, ends = [], []
    for law in laws:
        sample = draws(law, 512, 0).to(torch.float64)
        sample = sample.reshape(512, *[1] * (len(batch) - sample.ndim + 1), *sample.shape[1:])
        sample = sample.broadcast_to(512, *batch).reshape(512, -1).sort(0).values
        inner.append(_graded(sample[:: 511 // 28]))
        for end in (-math.pi, math.pi) if isinstance(law, VonMises) else _ends(law.support):
            end = torch.as_tensor(end, dtype=torch.float64, device=sample.device)
            ends.append(end.broadcast_to(batch).reshape(1, -1))
    lowest, highest = torch.cat(ends).amin(0), torch.cat(ends).amax(0)
    points = torch.cat((*inner, *ends))
    points = _unique(torch.where((points > lowest) & (points < highest), points, math.nan))
    step = ((points[-1] - points[0]) / 32).clamp(min=1e-300)
    left, right = _towards(points[0], lowest, -step), _towards(points[-1], highest, step)
    return torch.cat((left.flip(0), points, right))


def _graded(quantiles: Tensor) -> Tensor:
    """Quantiles (q, laws), with points that double away from narrow panels into wide ones and outwards."""
    gaps = quantiles.diff(dim=0)
    steps = 2.0 ** torch.arange(48, device=gaps.device, dtype=gaps.dtype)[:, None, None]
    up = quantiles[1:] + gaps * steps  # beyond a panel, by its width
    down = quantiles[:-1] - gaps * steps
    above = torch.cat((quantiles[2:], quantiles[-1:] + 4096 * gaps[-1:]))
    below = torch.cat((quantiles[:1] - 4096 * gaps[:1], quantiles[:-2]))
    up, down = torch.where(up < above, up, math.nan), torch.where(down > below, down, math.nan)
    return torch.cat((quantiles, up.flatten(0, 1), down.flatten(0, 1)))


def _unique(points: Tensor) -> Tensor:
    """Every column sorted, without repeats and NaN, and filled up with its largest value to a common length."""
    order = points.sort(0).values  # NaN last
    again = torch.cat((torch.zeros_like(order[:1], dtype=torch.bool), order[1:] == order[:-1]))
    order = torch.where(again, math.nan, order).sort(0).values
    length = int((~torch.isnan(order)).sum(0).max())
    top = order.nan_to_num(-math.inf).amax(0)
    return torch.where(torch.isnan(order), top, order)[:length]


def _towards(start: Tensor, end: Tensor, step: Tensor) -> Tensor:
    """Points from ``start`` (laws,) on: with steps that grow without end, or shrink to a finite one."""
    powers = 4.0 ** torch.arange(_STEPS, device=start.device, dtype=torch.float64)[:, None]
    bounded = torch.isfinite(end)
    near = torch.where(bounded, end, 0.0)
    shrinking = torch.cat((near - (near - start) / (4 * powers), near[None]))
    growing = start + step * torch.cat((powers, 4 * powers[-1:]))
    return torch.where(bounded, shrinking, growing)


def _ends(support: Any) -> tuple[Any, Any]:
    """The lower and the upper end of a constraint on scalars."""
    base = getattr(support, "base_constraint", None)
    if base is not None:
        return _ends(base)
    return getattr(support, "lower_bound", -math.inf), getattr(support, "upper_bound", math.inf)
