"""Radau's method of order 5: all three stages solved for together, for stiff problems at tight tolerances."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from benthic.dynamics.concrete import number
from benthic.dynamics.control import Control, root_mean_square
from benthic.dynamics.implicit import Solver
from benthic.dynamics.runge_kutta import Method, PackedField, Step
from benthic.dynamics.tableau import Tableau

_ROOT = math.sqrt(6.0)
_C = ((4 - _ROOT) / 10, (4 + _ROOT) / 10, 1.0)
_A = (
    ((88 - 7 * _ROOT) / 360, (296 - 169 * _ROOT) / 1800, (-2 + 3 * _ROOT) / 225),
    ((296 + 169 * _ROOT) / 1800, (88 + 7 * _ROOT) / 360, (-2 - 3 * _ROOT) / 225),
    ((16 - _ROOT) / 36, (16 + _ROOT) / 36, 1 / 9),
)
_ERROR = ((-13 - 7 * _ROOT) / 3, (-13 + 7 * _ROOT) / 3, -1 / 3)
_REAL = 3 + 3 ** (2 / 3) - 3 ** (1 / 3)  # the real eigenvalue of the inverse of A
_DENSE = (
    (13 / 3 + 7 * _ROOT / 3, 13 / 3 - 7 * _ROOT / 3, 1 / 3),
    (-23 / 3 - 22 * _ROOT / 3, -23 / 3 + 22 * _ROOT / 3, -8 / 3),
    (10 / 3 + 5 * _ROOT, 10 / 3 - 5 * _ROOT, 10 / 3),
)
_TRIES = 10


class RadauMethod(Method):
    r"""The three-stage Radau IIA method at work on one field.

    .. math:: Z_i = h \sum_j a_{ij} f(t + c_j h, y + Z_j), \qquad y(t + h) \approx y + Z_3

    Hairer & Wanner, 1996, section IV.8: order 5, L-stable, with an error estimate of order 3 passed through
    (γ − hJ)⁻¹. The stages are found by simplified Newton steps with one matrix of three times the size of the
    state. Gradients come from the implicit function theorem.
    """

    def __init__(self, tableau: Tableau, field: PackedField, like: Tensor, *, graph: bool, control: Control) -> None:
        super().__init__(tableau, field, like, rows=False, graph=graph)
        self.control = control
        self._matrix = torch.tensor(_A, dtype=like.dtype, device=like.device)
        self._dense = torch.tensor(_DENSE, dtype=like.dtype, device=like.device)
        self._estimate = torch.tensor(_ERROR, dtype=like.dtype, device=like.device)

    def step(self, t: float, h: float, y: Tensor, first: Tensor) -> Step:
        """One step of size h from (t, y), where the slope is ``first``."""
        flat = y.reshape(-1)
        jacobian = self._jacobian(t, y.detach())
        eye = torch.eye(3 * len(flat), dtype=y.dtype, device=y.device)
        solver = Solver(*torch.linalg.lu_factor(eye - torch.kron(h * self._matrix, jacobian)))
        moves = self._stages(t, h, y, solver)
        error = self._error(t, h, y.detach(), first.detach(), moves.detach(), jacobian)
        return Step(y + moves[2].view_as(y), moves.view(3, *y.shape), error)

    def error(self, step: Step, h: float) -> Tensor:
        """The estimated local error of a step."""
        return step.error

    def polynomial(self, y: Tensor, step: Step, first: Tensor, last: Tensor, h: float) -> Tensor:
        """The collocation polynomial through the stages."""
        return torch.tensordot(self._dense, step.slopes, 1) / h

    @torch.no_grad()
    def _jacobian(self, t: float, y: Tensor) -> Tensor:
        time = self.time(t)
        return torch.func.jacrev(lambda x: self.field(time, x.view_as(y)).reshape(-1))(y.reshape(-1))

    def _residual(self, t: float, h: float, flat: Tensor, moves: Tensor, shape: torch.Size) -> Tensor:
        """What Z lacks to be a solution, (3, n)."""
        slopes = [self.field(self.time(t + c * h), (flat + moves[i]).view(shape)).reshape(-1) for i, c in enumerate(_C)]
        return h * self._matrix @ torch.stack(slopes) - moves

    def _stages(self, t: float, h: float, y: Tensor, solver: Solver) -> Tensor:
        """Z (3, n), not finite where Newton's method does not converge."""
        norm = self.control.norm or root_mean_square
        flat, shape = y.reshape(-1), y.shape
        start = flat.detach()
        scale = self.control.atol + self.control.rtol * start.abs()
        enough = max(10 * torch.finfo(self.real).eps / max(self.control.rtol, 1e-300), 1e-6)
        moves, before = torch.zeros((3, len(flat)), dtype=flat.dtype, device=flat.device), math.inf
        with torch.no_grad():
            for _ in range(_TRIES):
                change = solver(self._residual(t, h, start, moves, shape))
                moves = moves + change
                size = number(norm(change / scale))
                rate = size / before if math.isfinite(before) else 1.0
                if size == 0.0 or (rate < 1 and size * rate / (1 - rate) < enough):
                    break
                if not rate < 2:
                    return moves * torch.nan
                before = size
            else:
                return moves * torch.nan
        return moves + solver(self._residual(t, h, flat, moves, shape)) if self.graph else moves

    @torch.no_grad()
    def _error(self, t: float, h: float, y: Tensor, first: Tensor, moves: Tensor, jacobian: Tensor) -> Tensor:
        """The estimate, computed again at the corrected state where it is too large (it is then more careful)."""
        norm = self.control.norm or root_mean_square
        drift = (self._estimate @ moves).view_as(y) / h
        eye = torch.eye(len(jacobian), dtype=y.dtype, device=y.device)
        solver = Solver(*torch.linalg.lu_factor(_REAL / h * eye - jacobian))
        error = solver(first + drift)
        ahead = y + moves[2].view_as(y)
        scale = self.control.atol + self.control.rtol * torch.maximum(y.abs(), ahead.abs())
        if number(norm(error / scale)) > 1:
            error = solver(self.field(self.time(t), y + error) + drift)
        return error
