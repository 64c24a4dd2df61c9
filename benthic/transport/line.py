"""Transport on the line: sorting solves it, for any order p."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.transport import checks


class Discrete(NamedTuple):
    """Points (..., k) on the line or (k, d), and their masses (..., k)."""

    points: Tensor
    masses: Tensor


def root(value: Tensor, p: float) -> Tensor:
    """The p-th root with gradient zero, not infinite, where the value is zero.

    >>> root(torch.tensor([0.0, 8.0]), 3)
    tensor([0., 2.])
    """
    positive = value > 0
    return torch.where(positive, torch.where(positive, value, 1.0).pow(1 / p), 0.0)


def _couple(x: Tensor, y: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The monotone coupling: points of x and y beside each other and the mass that moves between them, (..., k)."""
    batch = torch.broadcast_shapes(x.shape[:-1], y.shape[:-1], a.shape[:-1], b.shape[:-1])
    levels, points = [], []
    for values, masses in ((x, a), (y, b)):
        values, order = values.expand(*batch, values.shape[-1]).sort(-1)
        points.append(values)
        levels.append(masses.expand(*batch, masses.shape[-1]).gather(-1, order).cumsum(-1))
    merged = torch.cat(levels, -1).sort(-1).values
    start = torch.cat([torch.zeros_like(merged[..., :1]), merged[..., :-1]], -1)
    width, middle = merged - start, ((merged + start) / 2).detach()
    found = [
        value.gather(-1, torch.searchsorted(level.detach().contiguous(), middle).clamp(max=value.shape[-1] - 1))
        for value, level in zip(points, levels, strict=True)
    ]
    return found[0], found[1], width


def _inputs(where: str, x: Any, y: Any, a: Any, b: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    x = checks.tensor(where, "x", x)
    y = checks.tensor(where, "y", y, x)
    if x.ndim == 0 or y.ndim == 0:
        raise InvalidInput(f"{where}: x and y need shape (..., n) and (..., m); a single number was given")
    return x, y, checks.masses(where, "a", a, x.shape[-1], x), checks.masses(where, "b", b, y.shape[-1], x)


def wasserstein_1d(x: Any, y: Any, p: float = 1, a: Any = None, b: Any = None) -> Tensor:
    r"""Wasserstein distance between samples on the line, from their quantile functions.

    .. math:: W_p = \Bigl(\int_0^1 |F^{-1}(u) - G^{-1}(u)|^p \, du\Bigr)^{1/p}

    Villani, 2003, theorem 2.18. For p = 1 alone this equals the area between the distribution functions.

    x: (..., n), y: (..., m) samples. a, b: their masses, None is uniform. p: at least 1; ``math.inf`` is the longest
    move (of a mass above rounding). Returns (...), differentiable in samples and masses.

    >>> wasserstein_1d([0.0, 1.0, 3.0], [5.0, 6.0, 8.0])
    tensor(5., dtype=torch.float64)
    """
    p = checks.order("wasserstein_1d", p, infinite=True)
    x, y, a, b = _inputs("wasserstein_1d", x, y, a, b)
    plain = a.ndim == b.ndim == 1 and len(a) == len(b) and not (a.requires_grad or b.requires_grad)
    if plain and bool((a == a[0]).all() & (b == b[0]).all()):
        return _norm((x.sort(-1).values - y.sort(-1).values).abs(), a, p)
    left, right, width = _couple(x, y, a, b)
    return _norm((left - right).abs(), width, p)


def _norm(moved: Tensor, width: Tensor, p: float) -> Tensor:
    if math.isinf(p):
        negligible = 16 * torch.finfo(width.dtype).eps
        return torch.where(width > negligible, moved, 0.0).amax(-1)
    top = moved.detach().amax(-1, keepdim=True)  # out of the power, so that a large p does not overflow
    top = torch.where(top > 0, top, 1.0)
    return top.squeeze(-1) * root((width * (moved / top) ** p).sum(-1), p)


def wasserstein_from_cdf(F: Any, G: Any, x: Any, steps: bool = False, p: float = 1) -> Tensor:
    r"""Wasserstein-1 distance from two distribution functions on a grid.

    .. math:: W_1 = \int |F(x) - G(x)| \, dx

    Only p = 1 has this form. F, G: (..., k) values on the increasing grid x: (k,), or functions of x. Between grid
    points the functions are lines (the integral is exact for those, crossings included), or constant with ``steps``.

    >>> x = torch.linspace(0, 3, 7)
    >>> wasserstein_from_cdf(lambda x: x.clamp(0, 1), lambda x: (x - 2).clamp(0, 1), x)
    tensor(2.)
    """
    if p != 1:
        raise InvalidInput(
            f"wasserstein_from_cdf: p is {p}; distribution functions give p = 1, take quantiles for others"
        )
    x = checks.tensor("wasserstein_from_cdf", "x", x)
    if x.ndim != 1 or len(x) < 2 or bool((x.diff() <= 0).any()):
        raise InvalidInput("wasserstein_from_cdf: x must be an increasing grid of at least two numbers")
    F, G = (
        checks.tensor("wasserstein_from_cdf", name, value(x) if callable(value) else value, x)
        for name, value in (("F", F), ("G", G))
    )
    if F.shape[-1:] != x.shape or G.shape[-1:] != x.shape:
        shapes = f"{tuple(F.shape)} and {tuple(G.shape)}"
        raise InvalidInput(
            f"wasserstein_from_cdf: F and G have shapes {shapes} on a grid of {len(x)}; sizes must match"
        )
    gap = (F - G).abs()
    left, right = gap[..., :-1], gap[..., 1:]
    if steps:
        return (left * x.diff()).sum(-1)
    crossed = (F - G)[..., :-1] * (F - G)[..., 1:] < 0
    both = left + right
    cell = torch.where(crossed, (left**2 + right**2) / torch.where(both > 0, both, 1.0), both)
    return (cell * x.diff()).sum(-1) / 2


def wasserstein_between(P: Any, Q: Any, p: float = 2, nodes: int = 2001) -> Tensor:
    r"""Wasserstein distance between two distributions on the line that have ``icdf``, by quadrature.

    The integral of :math:`|F^{-1} - G^{-1}|^p` over (0, 1) by the double-exponential rule, which bears the endpoints
    where quantiles grow without bound (Takahasi and Mori, 1974). About ten digits in float64 while moments well above
    p exist; five where p is odd and the quantile functions cross.

    P, Q: ``torch.distributions`` of one variable, batches broadcast. Differentiable in their parameters.

    >>> from torch.distributions import Normal
    >>> zero, one = torch.zeros((), dtype=torch.float64), torch.ones((), dtype=torch.float64)
    >>> wasserstein_between(Normal(zero, one), Normal(zero + 3, one + 4))
    tensor(5.0000, dtype=torch.float64)
    """
    p = checks.order("wasserstein_between", p)
    shape = torch.broadcast_shapes(P.batch_shape, Q.batch_shape)
    if len(P.event_shape) or len(Q.event_shape):
        raise InvalidInput("wasserstein_between: distributions of one variable are needed; use sliced or sinkhorn")
    like = next((v for v in vars(P).values() if isinstance(v, Tensor) and v.is_floating_point()), torch.zeros(()))
    t = torch.linspace(-4, 4, nodes, dtype=torch.float64, device=like.device)
    grow = math.pi / 2 * t.sinh()
    u, weight = torch.sigmoid(2 * grow), math.pi / 4 * t.cosh() / grow.cosh() ** 2 * (t[1] - t[0])
    edge = torch.finfo(like.dtype).eps
    inside = (u >= edge) & (u <= 1 - edge)
    u, weight = (v[inside].to(like).reshape(-1, *[1] * len(shape)) for v in (u, weight))
    moved = _quantile(P, u, "P") - _quantile(Q, u, "Q")
    return root((weight * moved.abs() ** p).sum(0), p)


def _quantile(law: Any, u: Tensor, name: str) -> Tensor:
    try:
        return law.icdf(u)
    except NotImplementedError as error:
        kind = type(law).__name__
        message = f"wasserstein_between: {name} ({kind}) has no icdf; draw samples and use wasserstein_1d"
        raise InvalidInput(message) from error


def displacement_1d(x: Any, y: Any, t: float, a: Any = None, b: Any = None) -> Discrete:
    """Points and masses on the way from x to y at time t, (..., n + m); mass moves by rank.

    McCann, 1997. x: (..., n), y: (..., m) samples with masses a, b (None is uniform). 0 <= t <= 1.

    >>> displacement_1d([0.0, 1.0], [2.0, 5.0], 0.5).points
    tensor([1., 1., 3., 3.], dtype=torch.float64)
    """
    if not 0 <= float(t) <= 1:
        raise InvalidInput(f"displacement_1d: t is {t}; a time between 0 and 1 is needed")
    left, right, width = _couple(*_inputs("displacement_1d", x, y, a, b))
    return Discrete((1 - t) * left + t * right, width)


def barycenter_1d(samples: Sequence[Any], weights: Any = None, masses: Sequence[Any] | None = None) -> Discrete:
    r"""The Wasserstein-2 barycenter of samples on the line: the mean of their quantile functions.

    .. math:: \bar F^{-1}(u) = \sum_k w_k F_k^{-1}(u)

    Agueh and Carlier, 2011. samples: k samples (n_k,). weights: (k,), None is equal. masses: k masses (n_k,).
    Returns points and masses, sorted; differentiable in the samples.

    >>> barycenter_1d([[0.0, 2.0], [4.0, 10.0]])
    Discrete(points=tensor([2., 6.], dtype=torch.float64), masses=tensor([0.5000, 0.5000], dtype=torch.float64))
    """
    if not len(samples):
        raise InvalidInput("barycenter_1d: there are no samples; at least one is needed")
    first = checks.tensor("barycenter_1d", "sample 0", samples[0])
    values = [checks.tensor("barycenter_1d", f"sample {k}", sample, first) for k, sample in enumerate(samples)]
    given = masses if masses is not None else [None] * len(values)
    if any(v.ndim != 1 for v in values) or len(given) != len(values):
        raise InvalidInput("barycenter_1d: every sample needs shape (n_k,) and, where masses are given, its own masses")
    weight = checks.masses("barycenter_1d", "weights", weights, len(values), first)
    mass = [
        checks.masses("barycenter_1d", f"masses {k}", w, len(v), first)
        for k, (w, v) in enumerate(zip(given, values, strict=True))
    ]
    if masses is None and all(len(v) == len(first) for v in values):
        return Discrete(sum(w * v.sort().values for w, v in zip(weight, values, strict=True)), mass[0])
    return _merged(values, mass, weight)


def _merged(values: list[Tensor], mass: list[Tensor], weight: Tensor) -> Discrete:
    orders = [value.argsort() for value in values]
    levels = [m[order].cumsum(0) for m, order in zip(mass, orders, strict=True)]
    merged = torch.cat(levels).sort().values
    start = torch.cat([merged.new_zeros(1), merged[:-1]])
    keep = merged - start > 16 * torch.finfo(merged.dtype).eps
    width, middle = (merged - start)[keep], ((merged + start) / 2)[keep].detach()
    points = sum(
        w * value[order][torch.searchsorted(level.detach(), middle).clamp(max=len(value) - 1)]
        for w, value, order, level in zip(weight, values, orders, levels, strict=True)
    )
    return Discrete(points, width)
