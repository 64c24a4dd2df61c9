"""Every row of a batch with its own time and its own step, all in one loop of tensor operations."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from benthic.dynamics.control import Control, root_mean_square_of_rows
from benthic.dynamics.runge_kutta import Method, Step
from benthic.dynamics.solution import SolveError, Statistics


def with_own_steps(
    method: Method,
    y: Tensor,
    first: Tensor,
    times: Sequence[float],
    control: Control,
    *,
    size: float | None,
    max_steps: int,
) -> tuple[Tensor, Statistics]:
    """States (m, n, ...) of rows (n, ...) at the requested times, each row as accurate as if it were alone.

    A row that has arrived waits for the others with steps of no length.
    """
    tableau, order = method.tableau, method.tableau.error_order + 1
    norm = control.norm or root_mean_square_of_rows
    grid = torch.tensor(times, dtype=method.real, device=method.device)
    sign, end = math.copysign(1.0, times[-1] - times[0]), times[-1]
    t = grid[0].expand(len(y))
    h = sign * (_initial_steps(method, y, first, times, control) if size is None else torch.full_like(t, size))
    before, taken, refused = torch.ones_like(t), torch.zeros_like(t), torch.zeros_like(t)
    out = torch.cat([y[None], y.new_zeros((len(times) - 1, *y.shape))])
    evaluations = 1 + (size is None)
    for _ in range(max_steps):
        waiting = t != end
        landing = sign * (t + 1.01 * h - end) >= 0
        h = torch.where(landing, end - t, h)
        step = method.step(_column(t, y), _column(h, y), y, first)
        scale = control.atol + control.rtol * torch.maximum(y.detach().abs(), step.y.detach().abs())
        ratio = norm(method.error(step, _column(h, y)) / scale)
        ok = waiting & (ratio <= 1)
        reached = torch.where(landing, end, t + h)
        last = step.slopes[-1] if tableau.reuses_last else method.slope(_column(reached, y), step.y)
        evaluations += tableau.stages - tableau.reuses_last
        out = _read(method, out, (grid, t, reached, h, ok), (y, step, first, last), sign)
        keep = _column(ok, y)
        y, first = torch.where(keep, step.y, y), torch.where(keep, last, first)
        t, taken, refused = torch.where(ok, reached, t), taken + ok, refused + (waiting & ~ok)
        if bool((t == end).all()):
            statistics = Statistics(int(taken.max()), int(refused.max()), evaluations, "reached the last time")
            return out, statistics
        _refuse_tiny(t, h, waiting & ~ok, ratio)
        h = h * torch.where(waiting, control.factors(ratio, before, order), 1.0)
        before = torch.where(ok, ratio.clamp(min=1e-4), before)
    row = int((t != end).nonzero()[0])
    raise SolveError(
        f"solve: {max_steps} steps took row {row} to t={float(t[row]):.6g} of {end:.6g}; it may be stiff for "
        f"{tableau.name}: loosen rtol and atol, shorten the interval, or allow more max_steps"
    )


def _column(x: Tensor, y: Tensor) -> Tensor:
    """Numbers of rows (n,), shaped to broadcast against rows (n, ...)."""
    return x.reshape(-1, *([1] * (y.dim() - 1)))


def _read(
    method: Method,
    out: Tensor,
    when: tuple[Tensor, Tensor, Tensor, Tensor, Tensor],
    what: tuple[Tensor, Step, Tensor, Tensor],
    sign: float,
) -> Tensor:
    """The answer with the requested states that lie inside accepted steps."""
    grid, t, reached, h, ok = when
    y, step, first, last = what
    inside = ok[:, None] & (sign * (grid - t[:, None]) > 0) & (sign * (grid - reached[:, None]) <= 0)  # (n, m)
    rows, places = inside.nonzero(as_tuple=True)
    if not len(rows):
        return out
    safe = torch.where(h == 0, 1.0, h)
    polynomial = method.polynomial(y, step, first, last, _column(safe, y))[:, rows]  # (q, found, ...)
    theta = (grid[places] - t[rows]) / h[rows]
    moved = sum(_column(h[rows] * theta ** (j + 1), y) * part for j, part in enumerate(polynomial))
    values = torch.where(_column(theta == 1, y), step.y[rows], y[rows] + moved)
    return out.index_put((places, rows), values)


def _refuse_tiny(t: Tensor, h: Tensor, refused: Tensor, ratio: Tensor) -> None:
    tiny = refused & (h.abs() < 1e-14 * t.abs().clamp(min=1.0))
    if not bool(tiny.any()):
        return
    row = int(tiny.nonzero()[0])
    reason = "no step is short enough: the solution may end there, or it is stiff"
    if not math.isfinite(float(ratio[row])):
        reason = "the field or the state is not finite"
    raise SolveError(f"solve: at t={float(t[row]):.6g} of row {row} {reason}")


@torch.no_grad()
def _initial_steps(method: Method, y: Tensor, first: Tensor, times: Sequence[float], control: Control) -> Tensor:
    """First steps (n,) whose errors are about the tolerance; Hairer, Nørsett & Wanner, 1993, section II.4."""
    norm = control.norm or root_mean_square_of_rows
    span, order = times[-1] - times[0], method.tableau.error_order + 1
    scale = control.atol + control.rtol * y.abs()
    size, speed = norm(y / scale), norm(first / scale)
    guess = torch.where(torch.minimum(size, speed) < 1e-5, 1e-6, 0.01 * size / speed).clamp(max=abs(span))
    h = _column(math.copysign(1.0, span) * guess, y)
    bend = norm((method.slope(times[0] + h, y + h * first) - first) / scale) / guess
    steepest = torch.maximum(speed, bend)
    second = torch.where(steepest <= 1e-15, (1e-3 * guess).clamp(min=1e-6), (0.01 / steepest) ** (1 / order))
    found = torch.minimum(100 * guess, second).clamp(max=abs(span))
    return torch.where(torch.isfinite(found), found, guess)
