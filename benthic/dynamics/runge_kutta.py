"""One explicit Runge–Kutta step: a pure function of the point it starts from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from functools import lru_cache
from typing import NamedTuple, Self

import torch
from torch import Tensor

from benthic.dynamics.control import Control, root_mean_square
from benthic.dynamics.tableau import Tableau

PackedField = Callable[[Tensor, Tensor], Tensor]
Slopes = Tensor | Sequence[Tensor]


class Weights(NamedTuple):
    """The numbers of a tableau as tensors: rows of a, b, the error weights and the interpolant (q, s)."""

    a: tuple[Tensor, ...]
    b: Tensor
    error: Tensor | None
    dense: Tensor | None


@lru_cache(maxsize=64)
def weights_of(tableau: Tableau, dtype: torch.dtype, device: torch.device) -> Weights:
    """The tableau in this dtype on this device."""

    def tensor(values: Sequence[float] | None) -> Tensor | None:
        return None if values is None else torch.tensor(values, dtype=dtype, device=device)

    rows = tuple(torch.tensor(row, dtype=dtype, device=device) for row in tableau.a)
    b = torch.tensor(tableau.b, dtype=dtype, device=device)
    dense = None
    if tableau.dense is not None:
        dense = torch.tensor(tableau.dense, dtype=dtype, device=device).T.contiguous()
    return Weights(rows, b, tensor(tableau.error), dense)


class Step(NamedTuple):
    """What one step found: the new state, the slopes of the stages, and the local error if it is known already."""

    y: Tensor
    slopes: Slopes
    error: Tensor | None = None


class Method:
    """A tableau at work on one field: how slopes are combined, with gradients or without.

    field: of packed states. like: a state, for shape, dtype and device. rows: whether every row has its own
    time and step. graph: whether gradients are recorded. Holds numbers only; the state is all in the arguments.
    """

    def __init__(self, tableau: Tableau, field: PackedField, like: Tensor, *, rows: bool, graph: bool) -> None:
        self.tableau, self.field, self.rows, self.graph = tableau, field, rows, graph
        self.real = like.abs().dtype if like.is_complex() else like.dtype
        self.device = like.device
        self.weights = weights_of(tableau, like.dtype, like.device)

    def recording(self) -> Self:
        """The same method, recording gradients."""
        other = copy(self)
        other.graph = True
        return other

    def time(self, t: float | Tensor) -> Tensor:
        """A time as the field sees it: a tensor that broadcasts against the state."""
        return t if isinstance(t, Tensor) else torch.full((), t, dtype=self.real, device=self.device)

    def slope(self, t: float | Tensor, y: Tensor) -> Tensor:
        """The field at a point."""
        return self.field(self.time(t), y)

    def step(self, t: float | Tensor, h: float | Tensor, y: Tensor, first: Tensor) -> Step:
        """One step of size h from (t, y), where the slope is ``first``."""
        tableau = self.tableau
        slopes: Slopes
        if self.graph:
            slopes = [first]
        else:
            slopes = torch.empty((tableau.stages, *y.shape), dtype=y.dtype, device=y.device)
            slopes[0] = first
        there = y
        for i in range(1, tableau.stages):
            there = self._combine(y, slopes, i, tableau.a[i], self.weights.a[i], h)
            found = self.field(self.time(t + tableau.c[i] * h), there)
            if isinstance(slopes, Tensor):
                slopes[i] = found
            else:
                slopes.append(found)
        if not tableau.reuses_last:
            there = self._combine(y, slopes, tableau.stages, tableau.b, self.weights.b, h)
        return Step(there, slopes)

    def attempt(self, t: float, h: float, y: Tensor, first: Tensor, control: Control) -> tuple[Step, Tensor]:
        """A step, and its error as a multiple of what the control allows, ()."""
        step = self.step(t, h, y, first)
        with torch.no_grad():
            scale = control.atol + control.rtol * torch.maximum(y.detach().abs(), step.y.detach().abs())
            return step, (control.norm or root_mean_square)(self.error(step, h) / scale)

    @torch.no_grad()
    def error(self, step: Step, h: float | Tensor) -> Tensor:
        """The estimated local error of a step."""
        slopes = step.slopes if isinstance(step.slopes, Tensor) else torch.stack(list(step.slopes))
        error = (slopes.reshape(len(slopes), -1).T @ self.weights.error).view_as(step.y)
        return error * h

    def polynomial(self, y: Tensor, step: Step, first: Tensor, last: Tensor, h: float | Tensor) -> Tensor:
        """Q (q, *shape) with y(t + θh) ≈ y + h (Q₁ θ + Q₂ θ² + ...)."""
        if self.weights.dense is not None:
            slopes = step.slopes if isinstance(step.slopes, Tensor) else torch.stack(list(step.slopes))
            return torch.tensordot(self.weights.dense, slopes, 1)
        rise = (step.y - y) / h
        return torch.stack([first, 3 * rise - 2 * first - last, first + last - 2 * rise])

    def _combine(
        self, y: Tensor, slopes: Slopes, count: int, row: Sequence[float], weights: Tensor, h: float | Tensor
    ) -> Tensor:
        """Y + h · (weighted sum of the first ``count`` slopes)."""
        if isinstance(slopes, Tensor):
            flat = slopes[:count].reshape(count, -1).T
            if self.rows:
                return torch.addcmul(y, torch.mv(flat, weights).view_as(y), h)
            return torch.addmv(y.reshape(-1), flat, weights, alpha=h).view_as(y)
        if self.rows:
            return y + h * sum(slope * weight for slope, weight in zip(slopes, row, strict=True) if weight)
        for slope, weight in zip(slopes, row, strict=True):
            if weight:
                y = torch.add(y, slope, alpha=weight * h)
        return y
