"""Gradient descent, heavy ball and Nesterov's method on many rows: the plain methods the theory speaks of."""

from __future__ import annotations

import torch
from torch import Tensor

from benthic.optim.descend_rows import Ledger
from benthic.optim.objective import Batch
from benthic.optim.record import GRADIENT, MAX_ITER, NON_FINITE, REASONS, Minimum


class _Rows:
    """The rows still on their way: present and previous point, step, age since the last restart."""

    def __init__(self, start: Tensor, step: float | None) -> None:
        n = len(start)
        self.X, self.before, self.place = start, start, start
        self.value, self.gradient = start.new_full((n,), torch.inf), torch.zeros_like(start)
        self.ceiling = start.new_full((n,), torch.inf)
        self.step = start.new_full((n,), step or 0.0)
        self.age = torch.zeros(n, dtype=torch.long, device=start.device)
        self.iterations = torch.zeros(n, dtype=torch.long, device=start.device)

    def keep(self, rows: Tensor) -> None:
        """Go on with these rows alone."""
        for name, part in vars(self).items():
            setattr(self, name, part[rows])


def first_order(
    objective: Batch,
    start: Tensor,
    *,
    kind: str,
    step: float | None,
    momentum: float | None,
    tol: float,
    max_iter: int,
    path: bool = False,
) -> Minimum:
    r"""From starts (B, d) by one gradient an iteration.

    .. math::

        \text{gradient:}\quad & x_{t+1} = x_t - \eta \nabla f(x_t) \\
        \text{heavy ball:}\quad & x_{t+1} = x_t - \eta \nabla f(x_t) + \beta (x_t - x_{t-1}) \\
        \text{Nesterov:}\quad & x_{t+1} = z_t - \eta \nabla f(z_t), \quad z_t = x_t + \beta_t (x_t - x_{t-1})

    Polyak, 1964; Nesterov, 1983. Without ``step`` it is one over the largest ratio of gradient change to step
    seen so far, and a row whose value rises (for the heavy ball, which swings, above where it began) goes back,
    halves its step and forgets its momentum (O'Donoghue & Candès, 2015). Without ``momentum``: 0.9 for the heavy
    ball, t/(t + 3) for Nesterov.

    kind: "gradient", "heavy_ball" or "nesterov".
    """
    ledger, rows, visited = Ledger(start), _Rows(start, step), [start]
    if step is None:
        rows.step = _first_step(objective, start)
    while len(rows.X):
        value, gradient = objective(rows.place)
        if step is None:
            _adapt(rows, value, gradient, kind)
        else:
            rows.value, rows.gradient = value, gradient
        if _settle(ledger, objective, rows, tol, max_iter):
            continue
        _advance(rows, kind, momentum)
        if path:
            visited.append(rows.X)
    record = ledger.record()
    return record if not path else Minimum(**{**vars(record), "path": torch.stack(visited)})


def _first_step(objective: Batch, start: Tensor) -> Tensor:
    """One over the curvature along the gradient."""
    _, gradient = objective(start)
    length = gradient.norm(dim=1, keepdim=True).clamp(min=torch.finfo(start.dtype).tiny)
    reach = torch.finfo(start.dtype).eps ** 0.5 * start.norm(dim=1, keepdim=True).clamp(min=1.0)
    _, ahead = objective(start - reach * gradient / length)
    bend = (ahead - gradient).norm(dim=1, keepdim=True) / reach
    return torch.where(bend > 0, 1.0 / bend, 1.0 / length.clamp(min=1.0))[:, 0]


def _adapt(rows: _Rows, value: Tensor, gradient: Tensor, kind: str) -> None:
    """Take the new place or go back, and shorten steps that are longer than one over the curvature seen."""
    first = rows.iterations == 0
    limit = rows.ceiling if kind == "heavy_ball" else rows.value
    worse = ~first & ~(value <= limit + 10 * torch.finfo(value.dtype).eps * limit.abs()) & (rows.age > 0)
    broken = ~first & ~(value.isfinite() & gradient.isfinite().all(1))
    back = worse | broken
    moved = (rows.place - rows.before).norm(dim=1)
    bend = (gradient - rows.gradient).norm(dim=1) / moved
    seen = ~first & ~broken & (moved > 0)
    shorter = torch.where(seen, torch.minimum(rows.step, 1.0 / bend), rows.step)
    rows.step = torch.where(back, 0.5 * shorter, shorter)
    wide = back[:, None]
    rows.place, rows.X = torch.where(wide, rows.before, rows.place), torch.where(wide, rows.before, rows.X)
    rows.value = torch.where(back, rows.value, value)
    rows.gradient = torch.where(wide, rows.gradient, gradient)
    rows.age = torch.where(back, 0, rows.age)
    rows.ceiling = torch.where(rows.age == 0, rows.value, rows.ceiling)


def _advance(rows: _Rows, kind: str, momentum: float | None) -> None:
    step = rows.step[:, None]
    X, place = rows.X, rows.place
    fall = step * rows.gradient
    if kind == "nesterov":
        new = place - fall
        beta = (rows.age / (rows.age + 3.0)).to(X.dtype) if momentum is None else torch.full_like(rows.step, momentum)
        rows.place, rows.X = new + torch.where(rows.age > 0, beta, 0.0)[:, None] * (new - X), new
        rows.before = place
    else:
        beta = 0.0 if kind == "gradient" else (0.9 if momentum is None else momentum)
        drift = torch.where((rows.age > 0)[:, None], beta * (X - rows.before), 0.0)
        rows.X = rows.place = X - fall + drift
        rows.before = X
    rows.age = rows.age + 1
    rows.iterations = rows.iterations + 1


def _settle(ledger: Ledger, objective: Batch, rows: _Rows, tol: float, max_iter: int) -> bool:
    """Write finished rows down; whether there were any."""
    norm = rows.gradient.abs().amax(1)
    reason = torch.full_like(rows.iterations, -1)
    reason[rows.iterations >= max_iter] = REASONS.index(MAX_ITER)
    reason[norm <= tol] = REASONS.index(GRADIENT)
    reason[~(norm.isfinite() & rows.value.isfinite())] = REASONS.index(NON_FINITE)
    over = reason >= 0
    if not bool(over.any()):
        return False
    where = objective.rows[over]
    ledger.write(where, rows.place[over], rows.value[over], rows.gradient[over], rows.iterations[over])
    ledger.reason[where], ledger.evaluations[where] = reason[over], objective.evaluations[where]
    left = (~over).nonzero()[:, 0]
    objective.keep(left)
    rows.keep(left)
    return not len(left)
