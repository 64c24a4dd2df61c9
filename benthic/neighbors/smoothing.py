"""Leave-one-out error of kernel smoothing, and the bandwidth that makes it least."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benthic.kernels.kernel import Kernel
from benthic.kernels.products import squared_matrix
from benthic.neighbors.shapes import SHAPES, log_weights, normalized
from benthic.optim.minimizer import minimize

_BLOCK = 1 << 21  # weights held at a time
_GRID = 13  # bandwidths tried before the best is refined
_KEPT = 1 << 23  # squared distances kept between bandwidths
_WIDEST, _NARROWEST = 10.0, 3e-3  # of them, as multiples of the typical distance
_GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True)
class Held:
    """Examples, and those of them that are left out in turn.

    X: (m, d), Y: (m, t), mass: (m,) in float64. rows: (r,) which are left out. share: (r,) how much each counts.
    """

    X: Tensor
    Y: Tensor
    mass: Tensor
    rows: Tensor
    share: Tensor

    @property
    def scale(self) -> Tensor:
        """(t,) the variance of each target, 1 where it is constant."""
        mean = (self.mass @ self.Y) / self.mass.sum()
        variance = (self.mass @ (self.Y - mean).square()) / self.mass.sum()
        return torch.where(variance > 1e-24 * mean.square(), variance, 1.0).clamp_min(1e-300)


def held(X: Tensor, Y: Tensor, mass: Tensor, most: int) -> Held:
    """Leave out all rows, or ``most`` of them where the masses sum to more.

    Those are every so many in lexicographic order, counted by mass, so that a mass of 2 equals a repeated row.
    """
    total = float(mass.sum())
    if total <= most:
        return Held(X, Y, mass, torch.arange(len(X), device=X.device), mass)
    table = torch.cat([Y, X], 1).cpu().numpy()
    order = torch.as_tensor(np.lexsort(table.T[::-1]), device=X.device)
    marks = (torch.arange(most, device=X.device, dtype=mass.dtype) + 0.5) * (total / most)
    place = torch.searchsorted(mass[order].cumsum(0), marks).clamp_max(len(X) - 1)
    rows, counts = order[place].unique(return_counts=True)
    return Held(X, Y, mass, rows, counts.to(mass))


def row_blocks(n: int, m: int) -> Iterator[slice]:
    """Parts of n rows whose weights for m points are held together."""
    height = max(1, _BLOCK // m)
    return (slice(top, min(top + height, n)) for top in range(0, n, height))


def left_out(data: Held, part: slice, log_weight: Tensor, square: Tensor) -> Tensor:
    """Predictions (b, t) for some of the rows left out, without one unit of their own mass.

    log_weight, square: (b, m) of these rows with all points.
    """
    rows = data.rows[part]
    own = torch.arange(len(rows), device=rows.device), rows
    log_mass = data.mass.log()
    rest = (data.mass[rows] - 1).clamp_min(0).log()
    logits = log_weight + log_mass
    logits[own] = log_weight[own] + rest
    square = square.detach().clone()
    square[own] = torch.where(torch.isneginf(rest), torch.inf, square[own])
    return normalized(logits, square, log_mass) @ data.Y


def predicted(kernel: Any, data: Held, scale: Tensor, part: slice) -> Tensor:
    """Predictions (b, t) for some of the rows left out, with bandwidths (d,)."""
    points = data.X / scale
    return left_out(data, part, *log_weights(kernel, points[data.rows[part]], points))


def loo_error(kernel: Any, data: Held, scale: Tensor) -> Tensor:
    """The mean squared error of predicting each row from the others, each target in units of its variance."""
    parts = row_blocks(len(data.rows), len(data.X))
    return sum(_squares(data, part, predicted(kernel, data, scale, part)) for part in parts) / data.share.sum()


def _squares(data: Held, part: slice, guess: Tensor) -> Tensor:
    error = data.Y[data.rows[part]] - guess
    return data.share[part] @ (error.square() / data.scale).mean(1)


def spread(X: Tensor, mass: Tensor) -> Tensor:
    """(d,) standard deviations of the columns; 1 for constant ones."""
    mean = (mass @ X) / mass.sum()
    deviation = ((mass @ (X - mean).square()) / mass.sum()).sqrt()
    return torch.where(deviation > 1e-12 * (1 + mean.abs()), deviation, 1.0)


@torch.no_grad()
def best_scale(kernel: Any, data: Held, tol: float = 1e-3) -> Tensor:
    """(d,) a common multiple of the standard deviations with the least leave-one-out error.

    A grid finds the valley, golden sections (Kiefer, 1953) its ground, to a relative ``tol``.
    """
    base = spread(data.X, data.mass)
    points, total = data.X / base, data.share.sum()
    kept: dict[int, Tensor] = {}

    def weights(part: slice, factor: float) -> tuple[Tensor, Tensor]:
        rows = data.rows[part]
        if isinstance(kernel, Kernel):
            return log_weights(kernel, points[rows] / factor, points / factor)
        square = kept[part.start] if part.start in kept else squared_matrix(points[rows], points)
        if len(data.rows) * len(points) <= _KEPT:
            kept[part.start] = square
        square = square / factor**2
        return SHAPES[kernel](square), square

    def error(at: float) -> float:
        found = 0.0
        for part in row_blocks(len(data.rows), len(points)):
            found += float(_squares(data, part, left_out(data, part, *weights(part, math.exp(at)))))
        return found / float(total)

    middle = math.log(math.sqrt(2 * data.X.shape[1]))
    grid = np.linspace(middle + math.log(_WIDEST), middle + math.log(_NARROWEST), _GRID)
    errors = [error(float(at)) for at in grid]
    best = int(np.argmin(errors))  # of equal ones the widest
    at = golden(error, float(grid[min(best + 1, _GRID - 1)]), float(grid[max(best - 1, 0)]), tol)
    return base * math.exp(at if error(at) < errors[best] else float(grid[best]))


def golden(f: Callable[[float], float], low: float, high: float, tol: float) -> float:
    """The place of the least value of a function with one valley between low and high (Kiefer, 1953).

    >>> round(golden(lambda x: (x - 0.3) ** 2, 0.0, 1.0, 1e-8), 6)
    0.3
    """
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = f(left), f(right)
    while high - low > tol:
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = f(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = f(right)
    return (low + high) / 2


def best_scales(kernel: Any, data: Held, start: Tensor, max_iter: int = 60) -> Tensor:
    """(d,) one bandwidth for each column, by L-BFGS on their logarithms from ``start``."""

    def value_and_gradient(logs: Tensor) -> tuple[Tensor, Tensor]:
        slope, total = torch.zeros_like(logs), torch.zeros((), dtype=logs.dtype, device=logs.device)
        for part in row_blocks(len(data.rows), len(data.X)):
            with torch.enable_grad():
                leaf = logs.detach().clone().requires_grad_()
                value = _squares(data, part, predicted(kernel, data, leaf.exp(), part)) / data.share.sum()
                if value.requires_grad:
                    slope += torch.autograd.grad(value, leaf)[0]
            total += value.detach()
        return total, slope

    found = minimize(value_and_gradient, start.log(), value_and_gradient=True, tol=1e-6, max_iter=max_iter)
    scale = found.point.exp()
    with torch.no_grad():
        better = bool(torch.isfinite(scale).all()) and loo_error(kernel, data, scale) <= loo_error(kernel, data, start)
    return scale if better else start
