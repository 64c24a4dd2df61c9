"""The curve log V of Zolotarev's integral for stable laws, and nodes spread evenly over what matters of it."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

_REACH = 45.0  # terms below exp(−45) of the largest are left out
FAR = 600.0  # of s; exp(−600) is still a number


class Shape(NamedTuple):
    """What log V depends on, one entry for each of r laws, as columns (r, 1)."""

    alpha: Tensor
    gap: Tensor  # |1 − α|
    least: Tensor  # min(α, 1)
    most: Tensor  # max(α, 1)
    omega: Tensor
    length: Tensor
    constant: Tensor


class Table(NamedTuple):
    """Nodes (r, k) with what the integrals need there; none of it depends on x."""

    s: Tensor
    log_v: Tensor
    log_angle: Tensor  # log of the step in θ
    log_rise: Tensor  # log of the step in log V
    log_low: Tensor  # log y
    log_high: Tensor  # log (L − y)


def shape_of(alpha: Tensor, beta: Tensor) -> Shape:
    """Angles with their differences taken before rounding can."""
    below = (alpha < 1).detach()
    a = 0.5 * math.pi * torch.where(below, alpha, 2 - alpha)
    sine, cosine = a.sin(), a.cos()
    # a + atan(β tan a), and a − atan(β tan a)
    plus = torch.atan2((1 + beta) * sine * cosine, cosine.square() - beta * sine.square())
    minus = torch.atan2((1 - beta) * sine * cosine, cosine.square() + beta * sine.square())
    omega = torch.where(below, minus / alpha, plus)
    length = torch.where(below, plus / alpha, (math.pi - plus) / alpha)
    half = 0.5 * torch.log1p((beta * torch.tan(0.5 * math.pi * alpha)).square())
    parts = (alpha, (1 - alpha).abs(), alpha.clamp(max=1), alpha.clamp(min=1), omega, length)
    return Shape(*(part.unsqueeze(1) for part in (*parts, torch.where(below, half, -half))))


def _angles(shape: Shape, s: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """y, L − y, and the three angles, each replaced by what it lacks of π where that is smaller."""
    y, z = shape.length * torch.sigmoid(s), shape.length * torch.sigmoid(-s)
    first = shape.least * y
    second = shape.gap * y + shape.omega
    second = torch.where(second.detach() > 0.5 * math.pi, shape.most * shape.length - shape.gap * y, second)
    third = torch.where((shape.most * z).detach() < 0.5 * math.pi, shape.most * z, shape.most * y + shape.omega)
    return y, z, first, second, third


def log_v_of(shape: Shape, s: Tensor) -> Tensor:
    """log V at s (r, k)."""
    _, _, first, second, third = _angles(shape, s)
    total = shape.constant + shape.least * _log_sin(first) + shape.gap * _log_sin(second) - shape.most * _log_sin(third)
    return total / shape.gap


def _rise(shape: Shape, s: Tensor) -> Tensor:
    """The derivative of log V in s, positive."""
    y, z, first, second, third = _angles(shape, s)
    turned = (shape.gap * y + shape.omega).detach() > 0.5 * math.pi
    near = (shape.most * z).detach() < 0.5 * math.pi
    total = (
        shape.least.square() / _safe(first.tan())
        + shape.gap.square() * torch.where(turned, -1.0, 1.0) / _safe(second.tan())
        - shape.most.square() * torch.where(near, -1.0, 1.0) / _safe(third.tan())
    )
    slope = total / shape.gap * y * torch.sigmoid(-s)
    return slope.clamp(min=0)


def _safe(value: Tensor) -> Tensor:
    return torch.where(value.abs() < 1e-290, 1e-290, value)


def _log_sin(angle: Tensor) -> Tensor:
    return angle.sin().clamp(min=1e-290).log()


def _root(shape: Shape, level: Tensor) -> Tensor:
    """Where log V has the values (r, k), between −600 and 600."""
    low, high = torch.full_like(level, -FAR), torch.full_like(level, FAR)
    for _ in range(16):  # to within 0.02, which is enough for the ends of a range
        middle = 0.5 * (low + high)
        above = log_v_of(shape, middle) > level
        low, high = torch.where(above, low, middle), torch.where(above, middle, high)
    return 0.5 * (low + high)


def nodes_for(shape: Shape, shift: Tensor, row: Tensor, step: float) -> Tensor:
    """Nodes (r, k), uniform in s + log V(s), over all that matters for shifts (n, b)."""
    rows = len(shape.alpha)
    flat, where = shift.flatten(), row.flatten()
    least = flat.new_full((rows,), torch.inf).scatter_reduce(0, where, flat, "amin")
    most = flat.new_full((rows,), -torch.inf).scatter_reduce(0, where, flat, "amax")
    used = torch.isfinite(least) & (shape.length.squeeze(1) > 0)
    shifts = torch.stack([torch.where(used, least, 0.0), torch.where(used, most, 0.0)], 1)  # (r, 2)
    low, high = _range(shape, shifts)
    low, high = low.amin(1, keepdim=True), high.amax(1, keepdim=True)
    high = torch.where(used.unsqueeze(1), high, low + 1)
    start = low + log_v_of(shape, low)
    count = int(((high + log_v_of(shape, high) - start) / step).max()) + 2
    target = start + step * torch.arange(count, device=shift.device, dtype=shift.dtype)
    return _solved(shape, target, low, high)


def _range(shape: Shape, shift: Tensor) -> tuple[Tensor, Tensor]:
    """The least and largest s that matter for given shifts (r, k)."""
    floor = shift + log_v_of(shape, torch.full_like(shift, -FAR))
    peak = torch.where(floor > 0, -0.5 * floor - 1, _root(shape, -shift))
    low = _root(shape, -_REACH - peak.clamp(min=0) - shift).maximum(peak.clamp(max=0) - _REACH - 15)
    end = peak.clamp(min=0) + _REACH
    cut = torch.logaddexp(floor, torch.full_like(floor, math.log(105.0)))
    # for small α the integral of 1 − exp(−g) is summed as it stands, to where the angle ends
    high = torch.where(shape.alpha < 0.5, end, _root(shape, cut - shift).minimum(end))
    return low.clamp(min=-FAR), high.clamp(max=FAR).maximum(low + 1e-3)


def _solved(shape: Shape, target: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """s with s + log V(s) = target, by Newton's method kept inside a bracket from a coarse grid."""
    share = torch.linspace(0, 1, 1025, dtype=low.dtype, device=low.device)
    grid = low - 1e-6 + (high + 1 - low) * share
    values = (grid + log_v_of(shape, grid)).cummax(1).values.contiguous()
    at = torch.searchsorted(values, target.contiguous()).clamp(1, 1024)
    low, high = grid.gather(1, at - 1), grid.gather(1, at)
    high = torch.where(at == 1024, FAR, high)
    s = low + (grid.gather(1, at) - low) * 0.5
    for _ in range(60):
        miss = s + log_v_of(shape, s) - target
        low, high = torch.where(miss > 0, low, s), torch.where(miss > 0, s, high)
        new = s - miss / (1 + _rise(shape, s))
        new = torch.where((new >= low) & (new <= high), new, 0.5 * (low + high))
        done = (new - s).abs() <= 1e-14 * (1 + s.abs()) * (1 + 1 / shape.gap)
        s = new
        if bool(done.all()):
            break
    return s


def table_of(shape: Shape, s: Tensor, step: float) -> Table:
    """What the integrals need at nodes s (r, k)."""
    rise = _rise(shape, s)
    pace = torch.log1p(rise.detach())  # dT = (1 + rise) ds; a choice of nodes, not part of the law
    weight = math.log(step) - pace
    low, high = torch.nn.functional.logsigmoid(s), torch.nn.functional.logsigmoid(-s)
    log_length = shape.length.clamp(min=1e-300).log()
    return Table(
        s,
        log_v_of(shape, s),
        weight + log_length + low + high,
        weight + rise.clamp(min=1e-300).log(),
        log_length + low,
        log_length + high,
    )


def windows_of(table: Table, shape: Shape, shift: Tensor, row: Tensor) -> tuple[Tensor, int]:
    """The first node that matters for each point, and how many do at most."""
    nodes, log_v = table.s.detach().contiguous(), table.log_v.detach()
    log_v = log_v.cummax(1).values.contiguous()  # sorted even where it is flat to rounding
    last_node = nodes.shape[1] - 1

    def index(values: Tensor, level: Tensor) -> Tensor:
        found = torch.zeros_like(row)
        for r in range(len(values)):
            here = row == r
            found[here] = torch.searchsorted(values[r], level[here])
        return found.clamp(max=last_node)

    floor = shift + log_v[:, 0][row]
    peak = nodes[row, index(log_v, -shift)]
    peak = torch.where(floor > 0, -0.5 * floor - 1, peak)
    lift, drop = peak.clamp(min=0), peak.clamp(max=0)
    first = index(log_v, -_REACH - lift - shift).maximum(index(nodes, drop - _REACH - 15))
    cut = torch.logaddexp(floor, torch.full_like(floor, math.log(105.0)))
    small = (shape.alpha.detach().squeeze(1) < 0.5)[row]
    end = index(nodes, lift + _REACH)
    last = torch.where(small, end, index(log_v, cut - shift).minimum(end))
    first, last = (first - 1).clamp(min=0), (last + 1).clamp(max=last_node)
    last = torch.where(shape.length.detach().squeeze(1)[row] > 0, last, first)  # no mass on that side
    width = int((last - first).max()) + 1
    return first.clamp(max=last_node + 1 - width), width
