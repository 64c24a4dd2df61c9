"""A chain of exponentials above a log-concave density: its mass, draws from it, and how it grows."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput

Function = Callable[[Tensor], Tensor]


class Envelope:
    """The minimum of tangents to concave functions, one function a row.

    x: (rows, j) tangent points in ascending order. h, slope: (rows, j) the functions and their slopes there.
    support: the ends of the line on which the functions live.
    """

    def __init__(self, x: Tensor, h: Tensor, slope: Tensor, support: tuple[float, float]) -> None:
        self.x, self.h, self.slope, self.support = x, h, slope, support
        width, fall = x.diff(dim=-1), slope[:, :-1] - slope[:, 1:]
        # where neighbors meet; parallel tangents meet anywhere between
        meet = (h.diff(dim=-1) - slope[:, 1:] * width) / torch.where(fall > 0, fall, 1.0)
        meet = torch.where(fall > 1e-12 * (1 + slope[:, :-1].abs()), meet, 0.5 * width)
        inner = x[:, :-1] + torch.minimum(meet.clamp(min=0), width)
        ends = torch.tensor(support, dtype=x.dtype, device=x.device).expand(len(x), 2)
        self.edges = torch.cat([ends[:, :1], inner, ends[:, 1:]], -1)  # (rows, j + 1)
        self._log_parts: Tensor | None = None

    def __call__(self, points: Tensor) -> Tensor:
        """The envelope at points (rows, m)."""
        part = torch.searchsorted(self.edges[:, 1:-1].contiguous(), points.contiguous())
        pick = [values.gather(1, part) for values in (self.x, self.h, self.slope)]
        return pick[1] + pick[2] * (points - pick[0])

    def log_parts(self) -> Tensor:
        """(rows, j) logarithms of the mass under each tangent."""
        if self._log_parts is None:
            low, high = self.edges[:, :-1], self.edges[:, 1:]
            top = torch.where(self.slope > 0, high, low)  # the higher end
            reach = self.slope.abs() * (high - low)
            flat = reach < 1e-9
            height = self.h + torch.where(flat, 0.0, self.slope * (torch.where(flat, self.x, top) - self.x))
            steep = torch.log(-torch.expm1(-reach)) - torch.log(self.slope.abs())
            self._log_parts = height + torch.where(flat, torch.log(high - low), steep)
        return self._log_parts

    def log_mass(self) -> Tensor:
        """(rows,) logarithms of the whole mass."""
        return torch.logsumexp(self.log_parts(), -1)

    def draw(self, size: int, source: torch.Generator) -> Tensor:
        """(rows, size) draws from the normalized exponential of the envelope."""
        share = torch.softmax(self.log_parts(), -1)
        total = share.cumsum(-1)
        shape = (2, len(share), size)
        u, v = torch.rand(shape, generator=source, dtype=share.dtype, device=source.device)
        part = torch.searchsorted(total, u * total[:, -1:]).clamp(max=share.shape[-1] - 1)
        low, high = self.edges[:, :-1].gather(1, part), self.edges[:, 1:].gather(1, part)
        slope = self.slope.gather(1, part)
        reach = slope.abs() * (high - low)
        flat = reach < 1e-9
        # the distance from the higher end is exponential, cut at the width of the part
        far = -torch.log1p(v * torch.expm1(-reach)) / torch.where(flat, 1.0, slope.abs())
        away = torch.where(flat, v * torch.where(flat, high - low, 1.0), far)
        x = torch.where(slope > 0, high - away, low + away)
        return torch.minimum(torch.maximum(x, low), high)

    def added(self, x: Tensor, h: Tensor, slope: Tensor) -> Envelope:
        """The envelope with one more tangent a row: x, h, slope (rows, 1); a useless one repeats a neighbor."""
        fine = torch.isfinite(h) & torch.isfinite(slope)
        x, h, slope = (
            torch.where(fine, new, old[:, :1])
            for new, old in zip((x, h, slope), (self.x, self.h, self.slope), strict=True)
        )
        points, order = torch.cat([self.x, x], -1).sort(dim=-1, stable=True)
        heights = torch.cat([self.h, h], -1).gather(1, order)
        slopes = torch.cat([self.slope, slope], -1).gather(1, order)
        return Envelope(points, heights, slopes, self.support)


def knot_values(density: Function, x: Tensor) -> tuple[Tensor, Tensor]:
    """Log density and its slope at points (rows, m)."""
    point = x.detach().requires_grad_(True)
    with torch.enable_grad():
        h = density(point)
        (slope,) = torch.autograd.grad(h.sum(), point)
    return h.detach(), slope.detach()


def starting_knots(
    density: Function,
    rows: int,
    support: tuple[float, float],
    start: Tensor | None,
    device: torch.device,
    tol: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Sorted tangent points whose first slope rises and last slope falls wherever the support has no end."""
    low, high = support
    if not low < high:
        raise InvalidInput(f"adaptive_rejection: the support is ({low:g}, {high:g}); its first end must be the smaller")
    x = start if start is not None else _inside(rows, low, high, device)
    x = x.sort(-1).values
    h, slope = knot_values(density, x)
    for k in range(200):
        wrong_left = ~(slope[:, :1] > 0) & (low == -math.inf)
        wrong_right = ~(slope[:, -1:] < 0) & (high == math.inf)
        if not bool((wrong_left | wrong_right).any()):
            return _usable(x, h, slope, tol)
        reach = 2.0**k
        left = torch.where(wrong_left, x[:, :1] - reach, x[:, :1])
        right = torch.where(wrong_right, x[:, -1:] + reach, x[:, -1:])
        new = torch.cat([left, right], -1)
        values = knot_values(density, new)
        finite = torch.isfinite(values[0]) & torch.isfinite(values[1])
        if not bool(finite.all()):
            break
        # the end that was passed stays, unless its place was taken by a better one
        x = torch.cat([new[:, :1], x[:, 1:-1] if x.shape[-1] > 2 else x[:, :0], new[:, 1:]], -1)
        h = torch.cat([values[0][:, :1], h[:, 1:-1] if h.shape[-1] > 2 else h[:, :0], values[0][:, 1:]], -1)
        slope = torch.cat([values[1][:, :1], slope[:, 1:-1], values[1][:, 1:]], -1)
    raise InvalidInput(
        "adaptive_rejection: no points were found between which the density rises and falls; it does not fall on the "
        "unbounded side, is zero there (give support), or start is needed"
    )


def _inside(rows: int, low: float, high: float, device: torch.device) -> Tensor:
    """A few points in the support."""
    if math.isfinite(low) and math.isfinite(high):
        points = [low + share * (high - low) for share in (0.05, 0.5, 0.95)]
    elif math.isfinite(low):
        points = [low + step for step in (0.1, 1.0, 3.0)]
    elif math.isfinite(high):
        points = [high - step for step in (3.0, 1.0, 0.1)]
    else:
        points = [-1.0, 0.5, 1.0]
    return torch.tensor(points, dtype=torch.float64, device=device).repeat(rows, 1)


def _usable(x: Tensor, h: Tensor, slope: Tensor, tol: float) -> tuple[Tensor, Tensor, Tensor]:
    """Refuse points where the density is zero or its slope rises."""
    if not bool((torch.isfinite(h) & torch.isfinite(slope)).all()):
        bad = x[~(torch.isfinite(h) & torch.isfinite(slope))][0]
        raise InvalidInput(
            f"adaptive_rejection: the density is zero or not a number at x = {float(bad):.6g}; "
            "give support, and start points inside it"
        )
    rises = slope.diff(dim=-1) > tol * (1 + slope[:, 1:].abs())
    if bool(rises.any()):
        row = int(rises.any(-1).to(torch.int64).argmax())
        raise InvalidInput(
            f"adaptive_rejection: the density is not log-concave between {float(x[row, 0]):.6g} and "
            f"{float(x[row, -1]):.6g}; use rejection with a proposal, or a Markov chain"
        )
    return x, h, slope
