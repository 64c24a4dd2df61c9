"""Descent from many starts at once: every row searches, learns and stops for itself, in common tensor operations."""

from __future__ import annotations

import torch
from torch import Tensor

from benthic.optim.descend import PATIENCE
from benthic.optim.metrics_rows import RowMetric
from benthic.optim.objective import Batch
from benthic.optim.record import GRADIENT, LINE_SEARCH, MAX_ITER, NON_FINITE, PRECISION, REASONS, Minimum
from benthic.optim.wolfe import ROUNDING
from benthic.optim.wolfe_rows import WolfeRows


class Ledger:
    """Where finished rows are written: one entry for every start."""

    def __init__(self, start: Tensor) -> None:
        n = len(start)
        self.point, self.gradient = start.clone(), torch.zeros_like(start)
        self.value = start.new_full((n,), torch.nan)
        self.iterations = torch.zeros(n, dtype=torch.long, device=start.device)
        self.evaluations = torch.zeros_like(self.iterations)
        self.reason = torch.full((n,), REASONS.index(MAX_ITER), device=start.device)

    def write(self, where: Tensor, point: Tensor, value: Tensor, gradient: Tensor, iterations: Tensor) -> None:
        """The present state of the rows ``where`` (indices of starts)."""
        self.point[where], self.value[where], self.gradient[where] = point, value, gradient
        self.iterations[where] = iterations

    def record(self) -> Minimum:
        """All of it as one record."""
        names = tuple(REASONS[code] for code in self.reason.tolist())
        return Minimum(
            self.point,
            self.value,
            self.gradient,
            self.gradient.abs().amax(1),
            self.iterations,
            self.evaluations,
            self.reason == REASONS.index(GRADIENT),
            names,
        )


class _Descent:
    """The rows still on their way. ``alive`` marks those among them that have not finished since the last packing."""

    def __init__(self, objective: Batch, start: Tensor, metric: RowMetric, tol: float, max_iter: int, curvature: float):
        self.objective, self.metric, self.tol, self.max_iter = objective, metric, tol, max_iter
        self.rounding = ROUNDING * torch.finfo(start.dtype).eps ** 0.5
        self.ledger = Ledger(start)
        self.X = start.clone()
        self.value, self.gradient = objective(start)
        self.P, self.slope = torch.zeros_like(start), torch.zeros_like(self.value)
        self.predicted = torch.zeros_like(self.value)
        self.iterations = torch.zeros(len(start), dtype=torch.long, device=start.device)
        self.least, self.waited = torch.full_like(self.value, torch.inf), torch.zeros_like(self.iterations)
        self.alive = torch.ones(len(start), dtype=torch.bool, device=start.device)
        self.search = WolfeRows(self.value, curvature=curvature)
        self._stop_or_turn(self.alive)
        self._pack()

    def tick(self) -> None:
        """One trial of every row, then what follows from it."""
        trial = torch.addcmul(self.X, self.search.step[:, None], self.P)
        value, gradient = self.objective(trial)
        along = (gradient * self.P).sum(1)
        good = self.search.accepts(value, along)
        rejected = (~good & self.alive).nonzero()[:, 0]
        if len(rejected):
            ended = self.search.next(rejected, value[rejected], along[rejected])
            self._fail(rejected[ended])
        self._accept(good & self.alive, trial, value, gradient)
        self._pack()

    def _accept(self, mask: Tensor, trial: Tensor, value: Tensor, gradient: Tensor) -> None:
        self.metric.learn(mask, trial - self.X, gradient - self.gradient)
        wide = mask[:, None]
        self.X, self.gradient = torch.where(wide, trial, self.X), torch.where(wide, gradient, self.gradient)
        self.value = torch.where(mask, value, self.value)
        self.iterations += mask
        self._stop_or_turn(mask)

    def _stop_or_turn(self, mask: Tensor) -> None:
        """Finish rows that are flat, broken or out of steps; give the others a direction."""
        norm = self.gradient.abs().amax(1)
        flat, broken = norm <= self.tol, ~(norm.isfinite() & self.value.isfinite())
        spent, floor = self.iterations >= self.max_iter, self._at_floor(mask, norm)
        over = (mask & (flat | broken | spent | floor)).nonzero()[:, 0]
        if len(over):
            reason = torch.where(spent, REASONS.index(MAX_ITER), REASONS.index(PRECISION))
            reason = torch.where(flat, REASONS.index(GRADIENT), reason)
            reason = torch.where(broken, REASONS.index(NON_FINITE), reason)
            self._finish(over, reason[over])
            mask = mask & self.alive
        P = self.metric.direction(self.gradient)
        slope = (P * self.gradient).sum(1)
        self.P, self.slope = torch.where(mask[:, None], P, self.P), torch.where(mask, slope, self.slope)
        still = P.abs().amax(1) <= 4 * torch.finfo(P.dtype).eps * self.X.abs().amax(1)  # too short to move a point
        self.predicted = torch.where(mask, torch.where(still, 0.0, -0.5 * slope), self.predicted)
        self._begin(mask.nonzero()[:, 0])
        self._fail((mask & ~(slope < 0)).nonzero()[:, 0])

    def _at_floor(self, mask: Tensor, norm: Tensor) -> Tensor:
        """Rows that only turn rounding over; see ``descend``."""
        tiny = mask & (self.predicted <= torch.finfo(norm.dtype).eps * self.value.abs()) & (self.iterations > 0)
        better = norm < 0.9 * self.least
        self.waited = torch.where(tiny, torch.where(better, 0, self.waited + 1), self.waited)
        self.least = torch.where(tiny & better, norm, self.least)
        return self.waited > PATIENCE

    def _begin(self, rows: Tensor) -> None:
        value, slope = self.value[rows], self.slope[rows]
        first = torch.where(self.metric.fresh[rows], (-slope).rsqrt().clamp(max=1.0), 1.0)
        self.search.start(rows, value, slope, first, self.rounding * value.abs())

    def _fail(self, rows: Tensor) -> None:
        """Searches without a step: once more along the gradient, or the end."""
        if not len(rows):
            return
        fresh = self.metric.fresh[rows]
        lost, again = rows[fresh], rows[~fresh]
        tiny = self.predicted[lost] <= self.rounding * self.value[lost].abs()
        self._finish(lost, torch.where(tiny, REASONS.index(PRECISION), REASONS.index(LINE_SEARCH)))
        if len(again):
            self.metric.reset(again)
            self.P[again] = -self.gradient[again]
            self.slope[again] = -(self.gradient[again] ** 2).sum(1)
            self._begin(again)

    def _finish(self, rows: Tensor, reason: Tensor) -> None:
        where = self.objective.rows[rows]
        self.ledger.write(where, self.X[rows], self.value[rows], self.gradient[rows], self.iterations[rows])
        self.ledger.reason[where], self.ledger.evaluations[where] = reason, self.objective.evaluations[where]
        self.alive[rows] = False
        self.search.step[rows] = 0.0

    def _pack(self) -> None:
        """Leave finished rows behind once they are a tenth of all."""
        left = int(self.alive.sum())
        if len(self.alive) - left < 0.1 * len(self.alive):
            return
        rows = self.alive.nonzero()[:, 0]
        self.objective.keep(rows)
        self.metric.keep(rows)
        self.search.keep(rows)
        self.X, self.value, self.gradient = self.X[rows], self.value[rows], self.gradient[rows]
        self.P, self.slope, self.predicted = self.P[rows], self.slope[rows], self.predicted[rows]
        self.iterations, self.alive = self.iterations[rows], self.alive[rows]
        self.least, self.waited = self.least[rows], self.waited[rows]


def descend_rows(
    objective: Batch, start: Tensor, metric: RowMetric, *, tol: float, max_iter: int, curvature: float
) -> Minimum:
    """From starts (B, d), each along its own directions until its own end."""
    descent = _Descent(objective, start, metric, tol, max_iter, curvature)
    while len(descent.alive):
        descent.tick()
    return descent.ledger.record()
