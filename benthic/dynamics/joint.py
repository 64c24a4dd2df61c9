"""One time and one step for the whole state: accepted steps, one after another."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from benthic.dynamics.concrete import all_finite, number
from benthic.dynamics.control import Control, root_mean_square
from benthic.dynamics.runge_kutta import Method, Step
from benthic.dynamics.solution import SolveError

_STIFF = "it may be stiff for {name}: loosen rtol and atol, shorten the interval, or allow more max_steps"


class Piece(NamedTuple):
    """An accepted step from (t, y) to ``end``; ``rejected`` trials were too long before it.

    first: the slope where it begins. last: the slope where it ends, None if nobody has asked yet.
    """

    t: float
    h: float
    end: float
    y: Tensor
    step: Step
    first: Tensor
    last: Tensor | None
    rejected: int = 0

    def polynomial(self, method: Method) -> Tensor:
        """The interpolant inside the step, as in ``Method.polynomial``."""
        last = method.slope(self.end, self.step.y) if self.last is None else self.last
        return method.polynomial(self.y, self.step, self.first, last, self.h)


def with_fixed_steps(method: Method, y: Tensor, first: Tensor, times: Sequence[float], size: float) -> Iterator[Piece]:
    """Equal steps of at most ``size`` between each two requested times."""
    slope: Tensor | None = first
    for begin, end in pairwise(times):
        count = max(1, math.ceil(abs(end - begin) / size - 1e-9))
        h = (end - begin) / count
        for i in range(count):
            t = begin + i * h
            slope = method.slope(t, y) if slope is None else slope
            step = method.step(t, h, y, slope)
            last = step.slopes[-1] if method.tableau.reuses_last else None
            yield Piece(t, h, end if i == count - 1 else t + h, y, step, slope, last)
            y, slope = step.y, last
        if not all_finite(y):
            raise SolveError(
                f"solve: the state is not finite between t={begin:.6g} and t={end:.6g} of {method.tableau.name}; "
                "use shorter steps"
            )


def with_control(
    method: Method,
    y: Tensor,
    first: Tensor,
    span: tuple[float, float],
    control: Control,
    *,
    size: float | None,
    max_steps: int,
) -> Iterator[Piece]:
    """Steps as long as the tolerance allows, from one time to another."""
    tableau, order = method.tableau, method.tableau.error_order + 1
    t, end = span
    sign = math.copysign(1.0, end - t)
    h = sign * abs(initial_step(method, y, first, t, end, control) if size is None else size)
    before, steps, rejected, tries = 1.0, 0, 0, 0
    while t != end:
        if tries == max_steps:
            raise SolveError(
                f"solve: {max_steps} steps reached t={t:.6g} of {end:.6g}; " + _STIFF.format(name=tableau.name)
            )
        tries += 1
        landing = sign * (t + 1.01 * h - end) >= 0
        h = end - t if landing else h
        step, error = method.attempt(t, h, y, first, control)
        ratio = number(error)
        if not ratio <= 1.0:
            rejected += 1
            _refuse_tiny(t, h, steps, ratio, tableau.name)
            h *= control.factor(ratio, before, order, rejected=True)
            continue
        reached = end if landing else t + h
        last = step.slopes[-1] if tableau.reuses_last else method.slope(reached, step.y)
        yield Piece(t, h, reached, y, step, first, last, rejected)
        t, y, first = reached, step.y, last
        h *= control.factor(ratio, before, order)
        before, steps, rejected = max(ratio, 1e-4), steps + 1, 0


def _refuse_tiny(t: float, h: float, steps: int, ratio: float, name: str) -> None:
    if abs(h) > 1e-14 * max(1.0, abs(t)):
        return
    where = f"solve: at t={t:.6g}, after {steps} steps of {name},"
    if math.isfinite(ratio):
        raise SolveError(f"{where} no step is short enough: the solution may end there, or " + _STIFF.format(name=name))
    raise SolveError(f"{where} the field or the state is not finite; the solution may end there, or the field overflow")


@torch.no_grad()
def initial_step(method: Method, y: Tensor, first: Tensor, t: float, end: float, control: Control) -> float:
    """A first step whose error is about the tolerance, by one more evaluation.

    Hairer, Nørsett & Wanner, 1993, section II.4.
    """
    norm = control.norm or root_mean_square
    scale = control.atol + control.rtol * y.abs()
    size, speed = number(norm(y / scale)), number(norm(first / scale))
    guess = 1e-6 if min(size, speed) < 1e-5 else 0.01 * size / speed
    guess = min(guess, abs(end - t))
    h = math.copysign(guess, end - t)
    bend = number(norm((method.slope(t + h, y + h * first) - first) / scale)) / guess
    steepest = max(speed, bend)
    if not math.isfinite(steepest):
        return guess
    order = method.tableau.error_order + 1
    second = max(1e-6, 1e-3 * guess) if steepest <= 1e-15 else (0.01 / steepest) ** (1 / order)
    return min(100 * guess, second, abs(end - t))
