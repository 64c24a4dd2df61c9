"""Events: when a function of the solution crosses zero, found between the steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.dynamics.concrete import number
from benthic.dynamics.joint import Piece
from benthic.dynamics.packing import Packing
from benthic.dynamics.runge_kutta import Method


@dataclass(frozen=True)
class Event:
    """A function g(t, y) of the time and the state, one number, whose zero is looked for.

    terminal: whether the solve ends there. direction: 1 for zeros passed while g rises, -1 while it falls, 0 for
    both; as seen by the solver, which may go backward in time.
    """

    function: Callable[[Tensor, Any], Tensor]
    terminal: bool = True
    direction: int = 0


@dataclass(frozen=True)
class Crossing:
    """An event that happened: which one, when, and the state there.

    time: a number. t: the same as a tensor (), through which gradients flow. y: the state.
    """

    event: int
    time: float
    t: Tensor
    y: Any
    terminal: bool


class Watch:
    """Looks at each step for events; ``values`` are those at the end of the last step."""

    def __init__(self, events: Sequence[Event], packing: Packing, t: Tensor, y: Tensor) -> None:
        self.events, self.packing = tuple(events), packing
        for event in self.events:
            value = event.function(t, packing.unpack(y))
            if not isinstance(value, Tensor) or value.numel() != 1:
                got = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
                raise InvalidInput(f"solve: an event returned {got}; it must return a tensor with one number")
        self.values = [self._value(event, t, y) for event in self.events]

    def look(self, method: Method, piece: Piece) -> list[Crossing]:
        """Crossings inside a step, the earliest first, none after a terminal one."""
        now = [self._value(event, method.time(piece.end), piece.step.y) for event in self.events]
        hit = [i for i in range(len(now)) if _crosses(self.values[i], now[i], self.events[i].direction)]
        before, self.values = self.values, now
        if not hit:
            return []
        polynomial = piece.polynomial(method)
        found = sorted((self._refine(method, piece, polynomial, i, before[i]), i) for i in hit)
        crossings: list[Crossing] = []
        for theta, i in found:
            crossings.append(self._crossing(method, piece, polynomial, i, theta))
            if crossings[-1].terminal:
                break
        return crossings

    def _value(self, event: Event, t: Tensor, y: Tensor) -> float:
        with torch.no_grad():
            return number(event.function(t, self.packing.unpack(y)))

    def _refine(self, method: Method, piece: Piece, polynomial: Tensor, i: int, before: float) -> float:
        """Where in the step the function is zero, by bisection to the last bit."""
        low, high = 0.0, 1.0
        with torch.no_grad():
            while True:
                middle = 0.5 * (low + high)
                if middle in (low, high):
                    return high
                t, y = self._at(method, piece, polynomial, torch.tensor(middle, dtype=method.real))
                if (self._value(self.events[i], t, y) > 0) == (before > 0):
                    low = middle
                else:
                    high = middle

    def _at(self, method: Method, piece: Piece, polynomial: Tensor, theta: Tensor) -> tuple[Tensor, Tensor]:
        """Time and state at a fraction of the step."""
        theta = theta.to(device=method.device)
        y, power = piece.y, piece.h * theta
        for part in polynomial:
            y, power = y + power * part, power * theta
        return piece.t + piece.h * theta, y

    def _crossing(self, method: Method, piece: Piece, polynomial: Tensor, i: int, place: float) -> Crossing:
        """The crossing; one Newton step, which changes nothing but the gradient, makes its time differentiable."""
        event = self.events[i]
        theta = torch.tensor(place, dtype=method.real, device=method.device)
        if torch.is_grad_enabled() and polynomial.requires_grad:
            leaf = theta.clone().requires_grad_()
            t, y = self._at(method, piece, polynomial, leaf)
            value = event.function(t, self.packing.unpack(y)).reshape(())
            (slope,) = torch.autograd.grad(value, leaf, retain_graph=True)
            t, y = self._at(method, piece, polynomial, theta)
            value = event.function(t, self.packing.unpack(y)).reshape(())
            theta = theta - (value - value.detach()) / slope.detach()
        t, y = self._at(method, piece, polynomial, theta)
        return Crossing(i, float(t.detach()), t, y, event.terminal)


def _crosses(before: float, now: float, direction: int) -> bool:
    if before == 0.0 or (before > 0) == (now > 0):
        return False
    return direction == 0 or (now > before) == (direction > 0)
