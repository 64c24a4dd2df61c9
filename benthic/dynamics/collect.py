"""What is read from steps as they are taken: requested states, pieces between them, states for a gradient."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from benthic.dynamics.events import Crossing, Watch
from benthic.dynamics.joint import Piece
from benthic.dynamics.runge_kutta import Method
from benthic.dynamics.solution import Dense


class Reading(NamedTuple):
    """A step that was taken, and what was read from it: places in the answer, and how far into the step."""

    t: float
    h: float
    inside: tuple[tuple[int, float], ...]

    def replay(self, method: Method, y: Tensor) -> tuple[list[Tensor], list[int]]:
        """The next state and what was read, from the state y where the step began; and the places."""
        first = method.slope(self.t, y)
        step = method.step(self.t, self.h, y, first)
        last = step.slopes[-1] if method.tableau.reuses_last else None
        piece = Piece(self.t, self.h, self.t + self.h, y, step, first, last)
        return [step.y, *states_inside(method, piece, [theta for _, theta in self.inside])], [i for i, _ in self.inside]


def states_inside(method: Method, piece: Piece, thetas: Sequence[float]) -> list[Tensor]:
    """States at fractions of a step; the end of the step is exact."""
    polynomial = piece.polynomial(method) if any(theta != 1.0 for theta in thetas) else None
    found = []
    for theta in thetas:
        if theta == 1.0 or polynomial is None:
            found.append(piece.step.y)
            continue
        powers = [piece.h * theta ** (j + 1) for j in range(len(polynomial))]
        weights = torch.tensor(powers, dtype=piece.y.dtype, device=piece.y.device)
        found.append(piece.y + torch.tensordot(weights, polynomial, 1))
    return found


@dataclass
class Record:
    """What was read so far.

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
    steps: int = 0
    rejected: int = 0
    crossings: list[Crossing] = field(default_factory=list)

    def collect(
        self, method: Method, y: Tensor, pieces: Iterable[Piece], times: Sequence[float], watch: Watch | None = None
    ) -> Crossing | None:
        """Read the requested states from all pieces; stops at a crossing that ends the solve, and returns it."""
        self.states.append(y)
        sign = 1.0 if times[-1] > times[0] else -1.0
        for piece in pieces:
            self.steps, self.rejected = self.steps + 1, self.rejected + piece.rejected
            found = watch.look(method, piece) if watch is not None else []
            self.crossings += found
            final = next((crossing for crossing in found if crossing.terminal), None)
            limit = piece.end if final is None else final.time
            inside = []
            while len(self.states) + len(inside) < len(times):
                ahead = times[len(self.states) + len(inside)]
                if sign * (ahead - limit) > 0:
                    break
                inside.append(1.0 if ahead == piece.end else (ahead - piece.t) / piece.h)
            self._store(Reading(piece.t, piece.h, tuple(enumerate(inside, len(self.states)))), piece.y)
            self.states += states_inside(method, piece, inside)
            if self.dense:
                self.pieces.append((piece.t, piece.h, piece.y, piece.polynomial(method)))
            if final is not None:
                return final
        return None

    def _store(self, reading: Reading, y: Tensor) -> None:
        """Remember a step that began at y; where states exceed the budget, every other one is dropped."""
        if not self.budget:
            return
        if len(self.trace) % self.stride == 0:
            self.stored[len(self.trace)] = y
        self.trace.append(reading)
        if len(self.stored) > self.budget:
            self.stride *= 2
            self.stored = {i: state for i, state in self.stored.items() if i % self.stride == 0}

    def as_dense(self, like: Tensor) -> Dense | None:
        """The pieces as one function of time."""
        if not self.dense:
            return None
        starts, sizes, states, polynomials = zip(*self.pieces, strict=True)
        numbers = [torch.tensor(x, dtype=like.dtype, device=like.device) for x in (starts, sizes)]
        return Dense(*numbers, torch.stack(states), torch.stack(polynomials))
