"""Steps as CUDA graphs: their kernels are launched together, and the host does not wait for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from benthic.dynamics.control import Control
from benthic.dynamics.joint import Piece, Trials, initial_step
from benthic.dynamics.runge_kutta import Method, PackedField, Step
from benthic.dynamics.tableau import Tableau

# t, h, y and the first slope, to the next state, all slopes and the error ratio
Attempt = Callable[[Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]

_AHEAD = 16  # attempts between two looks at how far they came
_BYTES = 2**28  # what these may hold


def capture(function: Callable[[], Any], device: torch.device) -> tuple[torch.cuda.CUDAGraph, Any]:
    """A function of static tensors as a graph, and the static tensors it returns."""
    side = torch.cuda.Stream(device)
    side.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(side):
        for _ in range(3):  # libraries choose their kernels and workspaces before the capture
            function()
    torch.cuda.current_stream(device).wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        returned = function()
    return graph, returned


class CapturedStep:
    """A function of (t, h, y, first) as a graph."""

    def __init__(self, function: Attempt, y: Tensor) -> None:
        real = y.abs().dtype
        self.inputs = [torch.zeros((), dtype=real, device=y.device) for _ in range(2)]
        self.inputs += [torch.zeros_like(y) for _ in range(2)]
        with torch.no_grad():
            self.graph, self.outputs = capture(lambda: function(*self.inputs), y.device)

    def __call__(self, *arguments: Tensor) -> tuple[Tensor, ...]:
        """Copies in, one launch, copies out."""
        for place, value in zip(self.inputs, arguments, strict=True):
            place.copy_(value)
        self.graph.replay()
        return tuple(output.clone() for output in self.outputs)


def controlled(attempt: Attempt, field: PackedField, tableau: Tableau, control: Control) -> Callable[..., Any]:
    """An attempt with the choice of the next step, as a function of tensors.

    It takes the clock (4,) of t, h, the last error ratio and the end, the state and its slope; it returns these
    after the attempt, what it found (the state and slopes it tried) and its log (4,): t, h, error ratio, reached.
    """
    order, whole = tableau.error_order + 1, not tableau.reuses_last

    def advance(clock: Tensor, y: Tensor, first: Tensor) -> tuple[Tensor, ...]:
        t, h, before, end = clock.unbind()
        sign = torch.sign(end - t)
        landing = sign * (t + 1.01 * h - end) >= 0
        h = torch.where(landing, end - t, h)
        real = y.abs().dtype
        there, slopes, error = attempt(t.to(real), h.to(real), y, first)
        ratio = error.to(clock.dtype)
        good = ratio <= 1
        reached = torch.where(landing, end, t + h)
        last = field(reached.to(real), there) if whole else slopes[-1]
        following = torch.stack(
            [
                torch.where(good, reached, t),
                h * control.factors(ratio, before, order),
                torch.where(good, ratio.clamp(min=1e-4), before),
                end,
            ]
        )
        log = torch.stack([t, h, ratio, reached])
        return following, torch.where(good, there, y), torch.where(good, last, first), there, slopes, last, log

    return advance


class Trial(NamedTuple):
    """What one attempt found, and its log, still on the device."""

    y: Tensor
    slopes: Tensor
    last: Tensor
    log: Tensor


class Loop:
    """Controlled attempts, each from where the last one ended, without a word from the host."""

    def __init__(self, advance: Callable[..., Any], y: Tensor) -> None:
        self.clock = torch.tensor([0.0, 0.0, 1.0, 0.0], dtype=torch.float64, device=y.device)
        self.y, self.first = torch.zeros_like(y), torch.zeros_like(y)

        def work() -> Trial:
            clock, y, first, *found = advance(self.clock, self.y, self.first)
            self.clock.copy_(clock)
            self.y.copy_(y)
            self.first.copy_(first)
            return Trial(*found)

        with torch.no_grad():
            self.graph, self.trial = capture(work, y.device)

    def begin(self, t: float, h: float, end: float, y: Tensor, first: Tensor) -> None:
        """Go to where a solve begins."""
        self.clock.copy_(torch.tensor([t, h, 1.0, end], dtype=torch.float64))
        self.y.copy_(y)
        self.first.copy_(first)

    def attempt(self) -> Trial:
        """One more attempt; its tensors belong to the caller."""
        self.graph.replay()
        return Trial(*(x.clone() for x in self.trial))


def with_captured_control(
    loop: Loop,
    method: Method,
    y: Tensor,
    first: Tensor,
    span: tuple[float, float],
    control: Control,
    *,
    size: float | None,
    max_steps: int,
) -> Iterator[Piece]:
    """The steps of ``joint.with_control``; the host looks at them once in a while."""
    t, end = span
    h = abs(initial_step(method, y, first, t, end, control) if size is None else size)
    loop.begin(t, h if end > t else -h, end, y, first)
    room = max(1, _BYTES // (y.numel() * y.element_size() * (method.tableau.stages + 2)))
    trials = Trials(method.tableau.name, end, max_steps)
    ahead = 1
    while t != end:
        found = [loop.attempt() for _ in range(ahead)]
        for trial, log in zip(found, torch.stack([trial.log for trial in found]).tolist(), strict=True):
            t, h, ratio, reached = log
            if t == end:
                break
            if not trials.accept(t, h, ratio):
                continue
            yield Piece(t, h, reached, y, Step(trial.y, trial.slopes), first, trial.last, trials.rejected)
            trials.next()
            t, y, first = reached, trial.y, trial.last
        ahead = max(1, min(_AHEAD, room, round(abs(end - t) / max(abs(h), 1e-300))))


class Pullback:
    """The gradient of one step as a graph, from where the step ends to where it began.

    pull: from (t, h, y, adjoint) to the adjoint before the step and the gradients of the parameters, whose
    sums over the calls are kept.
    """

    def __init__(self, pull: Callable[..., tuple[Tensor, ...]], y: Tensor, parameters: Sequence[Tensor]) -> None:
        real = y.abs().dtype
        self.t, self.h = (torch.zeros((), dtype=real, device=y.device) for _ in range(2))
        self.y, self.adjoint = torch.zeros_like(y), torch.zeros_like(y)
        self.sums = [torch.zeros_like(p) for p in parameters]

        def work() -> None:
            adjoint, *found = pull(self.t, self.h, self.y, self.adjoint)
            self.adjoint.copy_(adjoint)
            for total, part in zip(self.sums, found, strict=True):
                total.add_(part)

        with torch.no_grad():
            self.graph, _ = capture(work, y.device)

    def begin(self) -> None:
        """Forget the sums of another sweep."""
        for total in self.sums:
            total.zero_()

    def __call__(self, t: float, h: float, y: Tensor, adjoint: Tensor) -> Tensor:
        """The adjoint where the step began; it is overwritten by the next call."""
        self.t.fill_(t)
        self.h.fill_(h)
        self.y.copy_(y)
        self.adjoint.copy_(adjoint)
        self.graph.replay()
        return self.adjoint
