"""Descent from one start: a direction from a metric, a strong-Wolfe search along it, until the gradient is small."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from benthic.optim.metrics import Metric
from benthic.optim.objective import Objective, Vector
from benthic.optim.record import GRADIENT, LINE_SEARCH, MAX_ITER, NON_FINITE, PRECISION, Minimum
from benthic.optim.wolfe import ROUNDING, Wolfe

PATIENCE = 100
SUFFICIENT = 1e-4


class _Floor:
    """Whether a descent only turns rounding over: decreases below the last digit, and no smaller gradient for long."""

    def __init__(self, eps: float) -> None:
        self.eps, self.least, self.waited = eps, math.inf, 0

    def reached(self, predicted: float, value: float, norm: float) -> bool:
        """To be asked once an iteration."""
        if predicted > self.eps * abs(value):
            return False
        self.least, self.waited = (norm, 0) if norm < 0.9 * self.least else (self.least, self.waited + 1)
        return self.waited > PATIENCE


class _Place(NamedTuple):
    point: Vector
    value: float
    gradient: Vector


def descend(
    objective: Objective, start: Vector, metric: Metric, *, tol: float, max_iter: int, curvature: float, path: bool
) -> Minimum:
    """From a flat start (d,) along the metric's directions.

    A search that fails is tried once more along the plain gradient; if that fails too, the descent ends.
    """
    finfo = torch.finfo if isinstance(start, Tensor) else np.finfo
    eps = float(finfo(start.dtype).eps)
    rounding = ROUNDING * eps**0.5
    place = _Place(start, *objective(start))
    visited = [start] if path else None
    norm, reason, iteration, floor = _size(place.gradient, tol), MAX_ITER, 0, _Floor(eps)
    while not norm <= tol:
        finite = math.isfinite(norm) and math.isfinite(place.value)
        if not finite or iteration >= max_iter:
            reason = MAX_ITER if finite else NON_FINITE
            break
        noise = rounding * abs(place.value)
        direction, slope = metric.direction(place.gradient)
        wanted, predicted = direction, -0.5 * slope
        if floor.reached(predicted, place.value, norm):
            reason = PRECISION
            break
        found = _search(objective, place, direction, slope, metric.fresh, noise, curvature) if slope < 0 else None
        if found is None and not metric.fresh:
            metric.reset()
            direction = -place.gradient
            slope = -float(direction.dot(direction))
            found = _search(objective, place, direction, slope, True, noise, curvature)
        if found is None:
            lost = predicted <= noise or float(abs(wanted).max()) <= 4 * eps * float(abs(place.point).max())
            reason = PRECISION if lost else LINE_SEARCH
            break
        metric.learn(found.point, place.point, found.gradient, place.gradient)
        place, norm, iteration = found, _size(found.gradient, tol), iteration + 1
        if visited is not None:
            visited.append(place.point)
    else:
        reason = GRADIENT
    gradient = torch.as_tensor(place.gradient).reshape(objective.shape)
    return Minimum(
        torch.as_tensor(place.point).reshape(objective.shape),
        place.value,
        gradient,
        _largest(gradient),
        iteration,
        objective.evaluations,
        reason == GRADIENT,
        reason,
        None if visited is None else torch.stack([*map(torch.as_tensor, visited)]).view(-1, *objective.shape),
    )


def _search(
    objective: Objective, place: _Place, direction: Vector, slope: float, fresh: bool, noise: float, curvature: float
) -> _Place | None:
    """Where the search along the ray ends; None if it finds no step."""
    step, search = 1.0, None
    if fresh:  # the length of the gradient says nothing of that of the step
        step = min(1.0, 1.0 / math.sqrt(-slope))
    while True:
        trial = place.point + step * direction if step != 1.0 else place.point + direction
        value, gradient = objective(trial)
        along = float(gradient.dot(direction))
        if value <= place.value + SUFFICIENT * step * slope and abs(along) <= -curvature * slope:
            return _Place(trial, value, gradient)  # both conditions hold, which is so at most first trials
        search = search or Wolfe(place.value, slope, step, noise, SUFFICIENT, curvature)
        if search.accepts(value, along):
            return _Place(trial, value, gradient)
        search = search.next(value, along)
        if search.exhausted:
            return None
        step = search.step


def _size(gradient: Vector, tol: float) -> float:
    """The largest entry where it matters; far from ``tol`` the Euclidean norm, which is cheaper, stands for it."""
    norm = math.sqrt(float(gradient.dot(gradient)))
    if tol < norm <= tol * math.sqrt(len(gradient)) or not math.isfinite(norm):
        return _largest(torch.as_tensor(gradient))
    return norm


def _largest(gradient: Tensor) -> float:
    return torch.linalg.vector_norm(gradient, torch.inf).item()
