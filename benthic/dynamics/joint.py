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
    """Equal steps of at most ``size`` between each two requested times; the states are looked at when all are taken."""
    slope: Tensor | None = first
    reached = []
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
        reached.append(y.detach())
    if all_finite(y):
        return
    where = next(i for i, state in enumerate(reached) if not all_finite(state))
    raise SolveError(
        f"solve: the state is not finite between t={times[where]:.6g} and t={times[where + 1]:.6g} of "
        f"{method.tableau.name}; use shorter steps"
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
    before, trials = 1.0, Trials(tableau.name, end, max_steps)
    while t != end:
        landing = sign * (t + 1.01 * h - end) >= 0
        h = end - t if landing else h
        trials.check(t)
        step, error = method.attempt(t, h, y, first, control)
        ratio = number(error)
        if not trials.accept(t, h, ratio):
            h *= control.factor(ratio, before, order, rejected=True)
            continue
        reached = end if landing else t + h
        last = step.slopes[-1] if tableau.reuses_last else method.slope(reached, step.y)
        yield Piece(t, h, reached, y, step, first, last, trials.rejected)
        trials.next()
        t, y, first = reached, step.y, last
        h *= control.factor(ratio, before, order)
        before = max(ratio, 1e-4)


class Trials:
    """Counts of attempts and of rejected ones, and the errors that end a solve.

    name: of the method. end: where the solve shall end. most: attempts it may take.
    """

    def __init__(self, name: str, end: float, most: int) -> None:
        self.name, self.end, self.most = name, end, most
        self.tries = self.steps = self.rejected = 0

    def check(self, t: float) -> None:
        """Whether another attempt is allowed at t."""
        if self.tries == self.most:
            reached = f"solve: {self.most} steps reached t={t:.6g} of {self.end:.6g}; "
            raise SolveError(reached + _STIFF.format(name=self.name))

    def accept(self, t: float, h: float, ratio: float) -> bool:
        """Whether an attempt from t with its error ratio is good; steps that cannot become shorter are an error."""
        self.check(t)
        self.tries += 1
        if ratio <= 1.0:
            return True
        self.rejected += 1
        if abs(h) > 1e-14 * max(1.0, abs(t)):
            return False
        where = f"solve: at t={t:.6g}, after {self.steps} steps of {self.name},"
        if math.isfinite(ratio):
            why = "no step is short enough: the solution may end there, or " + _STIFF.format(name=self.name)
        else:
            why = "the field or the state is not finite; the solution may end there, or the field overflow"
        raise SolveError(f"{where} {why}")

    def next(self) -> None:
        """After a step was taken."""
        self.steps, self.rejected = self.steps + 1, 0


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
