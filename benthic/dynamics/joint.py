"""One time and one step for the whole state: loops with fixed and with controlled steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from benthic.dynamics.concrete import all_finite, number
from benthic.dynamics.control import Control, root_mean_square
from benthic.dynamics.runge_kutta import Method
from benthic.dynamics.solution import Dense, SolveError, Statistics

_STIFF = "it may be stiff for {name}: loosen rtol and atol, shorten the interval, or allow more max_steps"


class Reading(NamedTuple):
    """A step that was taken, and what was read from it: places in the answer, and how far into the step."""

    t: float
    h: float
    inside: tuple[tuple[int, float], ...] = ()
    ends: tuple[int, ...] = ()

    def replay(self, method: Method, y: Tensor) -> tuple[list[Tensor], list[int]]:
        """The next state and what was read, from the state y where the step began; and the places."""
        first = method.slope(self.t, y)
        step = method.step(self.t, self.h, y, first)
        outputs, places = [step.y], [place for place, _ in self.inside]
        if self.inside:
            last = step.slopes[-1] if method.tableau.reuses_last else method.slope(self.t + self.h, step.y)
            polynomial = method.polynomial(y, step, first, last, self.h)
            outputs += read(y, self.h, polynomial, [theta for _, theta in self.inside])
        return [*outputs, *(step.y for _ in self.ends)], [*places, *self.ends]


@dataclass
class Record:
    """What a loop has found so far.

    dense: whether pieces are kept. budget: how many states are stored for a gradient; 0 for none. stored: from
    the number of a step to the state where it begins, evenly among the steps.
    """

    dense: bool = False
    budget: int = 0
    states: list[Tensor] = field(default_factory=list)
    pieces: list[tuple[float, float, Tensor, Tensor]] = field(default_factory=list)
    trace: list[Reading] = field(default_factory=list)
    stored: dict[int, Tensor] = field(default_factory=dict)
    stride: int = 1

    def took(self, reading: Reading, y: Tensor) -> None:
        """Remember a step that began at y."""
        if not self.budget:
            return
        if len(self.trace) % self.stride == 0:
            self.stored[len(self.trace)] = y
        self.trace.append(reading)
        if len(self.stored) > self.budget:
            self.stride *= 2
            self.stored = {i: state for i, state in self.stored.items() if i % self.stride == 0}

    def keep(self, t: float, h: float, y: Tensor, polynomial: Tensor) -> None:
        """Remember a piece for dense output."""
        if self.dense:
            self.pieces.append((t, h, y, polynomial))

    def as_dense(self, like: Tensor) -> Dense | None:
        """The pieces as one function of time."""
        if not self.dense:
            return None
        starts, sizes, states, polynomials = zip(*self.pieces, strict=True)
        numbers = [torch.tensor(x, dtype=like.dtype, device=like.device) for x in (starts, sizes)]
        return Dense(*numbers, torch.stack(states), torch.stack(polynomials))


def with_fixed_steps(method: Method, y: Tensor, times: Sequence[float], size: float, record: Record) -> Statistics:
    """Equal steps of at most ``size`` between each two requested times."""
    steps, evaluations = 0, 0
    record.states.append(y)
    slope = None
    for begin, end in pairwise(times):
        count = max(1, math.ceil(abs(end - begin) / size - 1e-9))
        h = (end - begin) / count
        for i in range(count):
            t = begin + i * h
            if slope is None:
                slope, evaluations = method.slope(t, y), evaluations + 1
            step = method.step(t, h, y, slope)
            evaluations += method.tableau.stages - 1
            last = step.slopes[-1] if method.tableau.reuses_last else None
            if record.dense and last is None:
                last, evaluations = method.slope(t + h, step.y), evaluations + 1
            if record.dense:
                record.keep(t, h, y, method.polynomial(y, step, slope, last, h))
            record.took(Reading(t, h, ends=(len(record.states),) if i == count - 1 else ()), y)
            y, slope = step.y, last
        steps += count
        record.states.append(y)
    if not all_finite(y):
        raise SolveError(
            f"solve: the state is not finite after {steps} steps of {method.tableau.name}; use shorter steps"
        )
    return Statistics(steps, 0, evaluations, "reached the last time")


def with_control(
    method: Method,
    y: Tensor,
    first: Tensor,
    times: Sequence[float],
    control: Control,
    record: Record,
    *,
    size: float | None,
    max_steps: int,
) -> Statistics:
    """Steps as long as the tolerance allows; requested times are read off the interpolant."""
    tableau, order = method.tableau, method.tableau.error_order + 1
    norm = control.norm or root_mean_square
    t, end = times[0], times[-1]
    sign = math.copysign(1.0, end - t)
    evaluations = 1
    if size is None:
        size, evaluations = initial_step(method, y, first, t, end, control), 2
    h, before, rejected, steps, waiting = sign * abs(size), 1.0, 0, 0, 1
    record.states.append(y)
    magnitude = y.detach().abs()
    while waiting < len(times):
        if steps + rejected >= max_steps:
            raise SolveError(
                f"solve: {max_steps} steps reached t={t:.6g} of {end:.6g}; " + _STIFF.format(name=tableau.name)
            )
        landing = sign * (t + 1.01 * h - end) >= 0
        h = end - t if landing else h
        step = method.step(t, h, y, first)
        evaluations += tableau.stages - 1
        ahead = step.y.detach().abs()
        scale = control.atol + control.rtol * torch.maximum(magnitude, ahead)
        ratio = number(norm(method.error(step, h) / scale))
        if not ratio <= 1.0:
            rejected += 1
            _refuse_tiny(t, h, steps, ratio, tableau.name)
            h *= control.factor(ratio, before, order, rejected=True)
            continue
        reached = end if landing else t + h
        last = step.slopes[-1]
        if not tableau.reuses_last:
            last, evaluations = method.slope(reached, step.y), evaluations + 1
        arrived, inside = waiting, []
        while arrived < len(times) and sign * (times[arrived] - reached) <= 0:
            arrived += 1
        if record.dense or arrived > waiting + landing:
            polynomial = method.polynomial(y, step, first, last, h)
            record.keep(t, h, y, polynomial)
            inside = [(x - t) / h for x in times[waiting : arrived - landing]]
            record.states.extend(read(y, h, polynomial, inside))
        if landing:
            record.states.append(step.y)
        record.took(Reading(t, h, tuple(enumerate(inside, waiting)), (len(times) - 1,) if landing else ()), y)
        steps, waiting = steps + 1, arrived
        t, y, first, magnitude = reached, step.y, last, ahead
        h *= control.factor(ratio, before, order)
        before = max(ratio, 1e-4)
    return Statistics(steps, rejected, evaluations, "reached the last time")


def read(y: Tensor, h: float, polynomial: Tensor, thetas: Sequence[float]) -> list[Tensor]:
    """States inside a step."""
    degree = len(polynomial)
    found = []
    for theta in thetas:
        powers = torch.tensor([h * theta ** (j + 1) for j in range(degree)], dtype=y.dtype, device=y.device)
        found.append(y + torch.tensordot(powers, polynomial, 1))
    return found


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
