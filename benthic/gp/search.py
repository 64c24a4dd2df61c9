"""The search for hyper-parameters: a few rows first, then all of them, from one start or several."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.optim.minimizer import minimize
from benthic.optim.record import Minimum

# theta -> value to maximize and its gradient, over the first so many rows of a fixed random order
Objective = Callable[[Tensor], tuple[float, Tensor]]
Loss = Callable[[Tensor], tuple[Tensor, Tensor]]
Level = Callable[[int], Objective]

_SMALLEST = 400  # rows below which there is no coarser level
_FACTOR = 4  # rows of a level are so many times those of the one before
_STEP = 1e-3  # of the difference quotients that give the curvature
_FIRST = math.log(2.0)  # the longest first step from one level to the next
_SPREAD = math.log(30.0)  # restarts lie within this factor of the start


class Found(NamedTuple):
    """theta: logarithms at the maximum. value: there. evaluations: with the number of rows of each. converged."""

    theta: Tensor
    value: float
    evaluations: dict[int, int]
    converged: bool


class Box:
    r"""A smooth map from all vectors to those between bounds, nearly the identity until close to them.

    .. math:: \theta = c + h\, x\, (1 + x^8)^{-1/8}, \qquad x = (u - c) / h

    low, high: (p,).
    """

    def __init__(self, low: Tensor, high: Tensor) -> None:
        self.center, self.half = 0.5 * (low + high), 0.5 * (high - low).clamp(min=1e-300)

    def inside(self, u: Tensor) -> Tensor:
        """The point between the bounds."""
        x = ((u - self.center) / self.half).clamp(-1e6, 1e6)
        return self.center + self.half * x * (1 + x**8) ** -0.125

    def outside(self, theta: Tensor) -> Tensor:
        """The inverse of ``inside``; bounds themselves are moved in a little."""
        share = ((theta - self.center) / self.half).clamp(-0.999, 0.999)
        return self.center + self.half * share * (1 - share**8) ** -0.125

    def slope(self, u: Tensor) -> Tensor:
        """The derivative of ``inside``."""
        x = ((u - self.center) / self.half).clamp(-1e6, 1e6)
        return (1 + x**8) ** -1.125


def maximize(
    level: Level,
    rows: int,
    start: Tensor,
    bounds: tuple[float, float],
    *,
    free: Tensor | None = None,
    restarts: int = 0,
    tol: float = 1e-3,
    max_iter: int = 200,
    rng: np.random.Generator | None = None,
) -> Found:
    """The theta (p,) that maximizes an objective of ``rows`` rows.

    L-BFGS on a quarter of the rows (of a quarter, ...) finds the region, at a small part of the cost; the
    curvature there is the first metric on the next level, which then needs few evaluations. Restarts are compared
    on the coarsest level. bounds: factors on the start. free: (p,) bool, which entries move.
    """
    free = torch.ones(len(start), dtype=torch.bool) if free is None else free
    if not bool(free.any()):
        return Found(start, level(rows)(start)[0], {rows: 1}, True)
    problem = _Problem(level, start, free, bounds)
    sizes = levels_of(rows)
    loss = problem.loss(sizes[0])
    begins = [start[free]] + [start[free] + _offset(rng, int(free.sum())) for _ in range(restarts)]
    best = _lowest(loss, [problem.box.outside(begin) for begin in begins], _tolerance(tol, sizes[0], rows), max_iter)
    for before, size in pairwise(sizes):
        root = _curvature(loss, best.point, best.gradient).mul_((before / size) ** 0.5)
        loss = problem.loss(size)
        best = _polished(loss, best.point, root, _tolerance(tol, size, rows), max_iter)
    value = float(best.value)
    if not math.isfinite(value):
        raise InvalidInput("the marginal likelihood is not finite near the start; scale X and y, or raise alpha")
    converged = bool(best.converged) or "precision" in best.reason
    return Found(problem.theta(best.point), -value, problem.counts, converged)


class _Problem:
    """The losses of all levels as functions of unbounded coordinates of the free entries."""

    def __init__(self, level: Level, start: Tensor, free: Tensor, bounds: tuple[float, float]) -> None:
        self.level, self.start, self.free = level, start, free
        self.box = Box(start[free] + math.log(bounds[0]), start[free] + math.log(bounds[1]))
        self.counts: dict[int, int] = {}

    def theta(self, u: Tensor) -> Tensor:
        """All logarithms, from coordinates of the free ones."""
        theta = self.start.clone()
        theta[self.free] = self.box.inside(u)
        return theta

    def loss(self, size: int) -> Loss:
        """Minus the objective of so many rows; the last evaluation is remembered, as minimizers ask for it again."""
        objective = self.level(size)
        seen: list[tuple[Tensor, Tensor, Tensor]] = []

        def loss(u: Tensor) -> tuple[Tensor, Tensor]:
            if not seen or not torch.equal(seen[0][0], u):
                self.counts[size] = self.counts.get(size, 0) + 1
                # an error at the very start is the user's to see; elsewhere it bounds the search
                value, gradient = (_guarded if seen else _plain)(objective, self.theta(u))
                slope = -gradient[self.free] * self.box.slope(u)
                seen[:] = [(u.clone(), torch.tensor(-value, dtype=torch.float64), slope)]
            return seen[0][1], seen[0][2]

        return loss


def _lowest(loss: Loss, starts: Sequence[Tensor], tol: float, max_iter: int) -> Minimum:
    """The best of the minima from several starts; those where the loss is not finite are left out."""
    found = [
        minimize(loss, u, value_and_gradient=True, tol=tol, max_iter=max_iter)
        for u in starts
        if math.isfinite(float(loss(u)[0]))
    ]
    if not found:
        raise InvalidInput("the marginal likelihood is not finite at the start; scale X and y, or raise alpha")
    return min(found, key=lambda one: float(one.value) if math.isfinite(float(one.value)) else math.inf)


def _tolerance(tol: float, size: int, rows: int) -> float:
    """Coarse levels need not be exact."""
    return tol if size == rows else max(tol, 1e-2)


def levels_of(rows: int) -> Sequence[int]:
    """Numbers of rows from coarse to all.

    >>> levels_of(20000)
    [1250, 5000, 20000]
    """
    sizes = [rows]
    while sizes[0] // _FACTOR >= _SMALLEST:
        sizes.insert(0, sizes[0] // _FACTOR)
    return sizes


def _plain(objective: Objective, theta: Tensor) -> tuple[float, Tensor]:
    return objective(theta)


def _guarded(objective: Objective, theta: Tensor) -> tuple[float, Tensor]:
    """The objective, or minus infinity where its matrices have no factor."""
    try:
        value, gradient = objective(theta)
    except (InvalidInput, torch.linalg.LinAlgError):
        return -math.inf, torch.zeros_like(theta)
    return value, gradient


def _offset(rng: np.random.Generator | None, size: int) -> Tensor:
    rng = rng or np.random.default_rng(0)
    return torch.from_numpy(rng.uniform(-_SPREAD, _SPREAD, size))


def _curvature(loss: Loss, point: Tensor, gradient: Tensor) -> Tensor:
    """A root of the inverse Hessian by differences of gradients, made positive definite, (p, p)."""
    columns = []
    for i in range(len(point)):
        moved = point.clone()
        moved[i] += _STEP
        columns.append((loss(moved)[1] - gradient) / _STEP)
    H = torch.stack(columns)
    if not bool(torch.isfinite(H).all()):
        return torch.eye(len(point), dtype=point.dtype)
    values, vectors = torch.linalg.eigh(0.5 * (H + H.T))
    size = values.abs().clamp(min=max(3e-2 * float(values.abs().max()), 1e-6))
    root: Tensor = vectors / size.sqrt()
    return root


def _polished(loss: Loss, point: Tensor, root: Tensor, tol: float, max_iter: int) -> Minimum:
    """The minimum from a good start, in coordinates in which the Hessian is near the identity."""
    slope = root.T @ loss(point)[1]
    longest = float((root @ slope).abs().max())
    # The first trial is then the Newton step, or what of it moves no parameter by more than a factor of two.
    size = max(1.0, float(slope.norm()) * min(1.0, _FIRST / max(longest, 1e-300)))
    root = root * size

    def turned(z: Tensor) -> tuple[Tensor, Tensor]:
        value, gradient = loss(point + root @ z)
        return value, root.T @ gradient

    found = minimize(turned, torch.zeros_like(point), value_and_gradient=True, tol=tol * size, max_iter=max_iter)
    gradient = torch.linalg.solve(root.T, found.gradient)
    return replace(found, point=point + root @ found.point, gradient=gradient)
