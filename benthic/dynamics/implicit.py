"""Steps whose stages are solved for: Newton's method with one matrix a step, for stiff problems."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from benthic.dynamics.concrete import number
from benthic.dynamics.control import Control, root_mean_square
from benthic.dynamics.runge_kutta import Method, PackedField, Step
from benthic.dynamics.tableau import Tableau

_TRIES = 12
_ENOUGH = 1e-3  # of the tolerance: how exactly a stage is solved


class Solver(NamedTuple):
    """LU factors of I − hγJ, with J the Jacobian of the field where the step begins."""

    lu: Tensor
    pivots: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        """(I − hγJ)⁻¹ x for a state x of any shape."""
        return torch.linalg.lu_solve(self.lu, self.pivots, x.reshape(-1, 1)).view_as(x)


class ImplicitMethod(Method):
    r"""A method with implicit stages at work on one field.

    .. math:: k_i = f\big(t_i,\; y + h \textstyle\sum_{j<i} a_{ij} k_j + h \gamma k_i\big)

    Each stage is found by simplified Newton steps; a step where they do not converge has no finite state, so that
    the control tries a shorter one. Gradients come from the implicit function theorem: one more Newton step, in
    which only the field is differentiated. The matrix is dense, so states should have at most some hundred entries.
    """

    def __init__(self, tableau: Tableau, field: PackedField, like: Tensor, *, graph: bool, control: Control) -> None:
        super().__init__(tableau, field, like, rows=False, graph=graph)
        self.control = control

    def step(self, t: float, h: float, y: Tensor, first: Tensor) -> Step:
        """One step of size h from (t, y), where the slope is ``first``."""
        tableau = self.tableau
        solver = self._solver(t, h, y.detach())
        scale = self.control.atol + self.control.rtol * y.detach().abs()
        slopes, there = [first], y
        for i in range(1, tableau.stages):
            base = y
            for slope, weight in zip(slopes, tableau.a[i], strict=True):
                base = torch.add(base, slope, alpha=weight * h) if weight else base
            found = self._stage(t + tableau.c[i] * h, h * tableau.diagonal, base, slopes[-1], solver, scale)
            slopes.append(found)
            there = torch.add(base, found, alpha=h * tableau.diagonal)
        return Step(there, slopes)

    @torch.no_grad()
    def _solver(self, t: float, h: float, y: Tensor) -> Solver:
        time = self.time(t)
        jacobian = torch.func.jacrev(lambda x: self.field(time, x.view_as(y)).reshape(-1))(y.reshape(-1))
        eye = torch.eye(len(jacobian), dtype=jacobian.dtype, device=jacobian.device)
        return Solver(*torch.linalg.lu_factor(eye - h * self.tableau.diagonal * jacobian))

    def _stage(self, t: float, reach: float, base: Tensor, guess: Tensor, solver: Solver, scale: Tensor) -> Tensor:
        """The slope k with k = f(t, base + reach · k)."""
        time = self.time(t)
        norm = self.control.norm or root_mean_square
        slope, start, before = guess.detach(), base.detach(), math.inf
        with torch.no_grad():
            for _ in range(_TRIES):
                change = solver(self.field(time, start + reach * slope) - slope)
                slope = slope + change
                size = number(norm(reach * change / scale))
                rate = size / before if math.isfinite(before) else 1.0
                if size == 0.0 or (rate < 1 and size * rate / (1 - rate) < _ENOUGH):
                    break
                if not rate < 2:
                    return torch.full_like(base, torch.nan)
                before = size
            else:
                return torch.full_like(base, torch.nan)
        if not self.graph:
            return slope
        return slope + solver(self.field(time, base + reach * slope) - slope)
