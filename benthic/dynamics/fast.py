"""Whole steps in one call: compiled on the CPU, compiled and captured as a graph on CUDA."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import torch
from torch import Tensor

from benthic.base.compiling import compiled
from benthic.dynamics.captured import Attempt, CapturedStep, Loop, Pullback, controlled, with_captured_control
from benthic.dynamics.control import Control, root_mean_square
from benthic.dynamics.gradients import Augmented, functional
from benthic.dynamics.joint import Piece, with_control
from benthic.dynamics.packing import Field, Packing
from benthic.dynamics.runge_kutta import Method, PackedField, Step
from benthic.dynamics.tableau import Tableau

_KEPT: OrderedDict[Any, tuple[Any, Any]] = OrderedDict()  # the newest last; a field keeps its id while it is here
_MOST = 32


class FastMethod(Method):
    """An explicit method whose step, with its error, is one call that Python does not enter.

    Calls are made once for a field, and again for another shape, tolerance or place of its parameters.
    owner: the field as the user gave it, with which calls are kept. packing: of its states.
    """

    def __init__(
        self,
        tableau: Tableau,
        field: PackedField,
        like: Tensor,
        *,
        graph: bool,
        control: Control,
        owner: Any,
        packing: Packing,
    ) -> None:
        super().__init__(tableau, field, like, rows=False, graph=graph)
        self.control, self.owner, self.packing = control, owner, packing
        self.kind = (like.shape, like.dtype, like.device, str(packing.example))
        self.on_cuda = like.is_cuda
        self.call: Attempt | None = None  # that of this solve, once it was looked up

    def recording(self) -> Self:
        """The same method, recording gradients, by a call of its own."""
        other = super().recording()
        other.call = None
        return other

    def attempt(self, t: float, h: float, y: Tensor, first: Tensor, control: Control) -> tuple[Step, Tensor]:
        """A step, and its error as a multiple of what the control allows."""
        there, slopes, ratio = self._call(y)(self.time(t), self.time(h), y, first)
        return Step(there, slopes), ratio

    def step(self, t: float | Tensor, h: float | Tensor, y: Tensor, first: Tensor) -> Step:
        """One step of size h from (t, y), where the slope is ``first``."""
        there, slopes, _ = self._call(y)(self.time(t), self.time(h), y, first)
        return Step(there, slopes)

    def with_control(
        self,
        y: Tensor,
        first: Tensor,
        span: tuple[float, float],
        control: Control,
        *,
        size: float | None,
        max_steps: int,
    ) -> Iterator[Piece]:
        """Controlled steps; on CUDA, without gradients, the device chooses their sizes."""
        if not self.on_cuda or self.graph:
            return with_control(self, y, first, span, control, size=size, max_steps=max_steps)

        def make() -> Loop:
            field = self.packing.wrap(self.owner)
            advance = controlled(attempt_of(self.tableau, field, control), field, self.tableau, control)
            return Loop(self._compiled(advance, y), y)

        loop = self._kept("loop", make, control)
        return with_captured_control(loop, self, y, first, span, control, size=size, max_steps=max_steps)

    def pullback(self, y: Tensor, parameters: Sequence[Tensor]) -> Pullback | None:
        """The gradient of a step on CUDA; None if the parameters are not those of a module."""
        call = functional(self.owner, self.packing, parameters)
        if call is None:
            return None

        def pull(t: Tensor, h: Tensor, y: Tensor, adjoint: Tensor) -> tuple[Tensor, ...]:
            def step(y: Tensor, *values: Tensor) -> Tensor:
                def field(t: Tensor, y: Tensor) -> Tensor:
                    return call(t, y, *values)

                return attempt_of(self.tableau, field, self.control)(t, h, y, field(t, y))[0]

            _, back = torch.func.vjp(step, y, *[p.detach() for p in parameters])
            return back(adjoint)

        key = tuple(id(p) for p in parameters)
        return self._kept("pullback", lambda: Pullback(self._compiled(pull, y), y, parameters), key)

    def augmented(self, parameters: Sequence[Tensor]) -> Augmented:
        """The field of the adjoint equation, the same object each time."""
        key = tuple(id(p) for p in parameters)
        return self._kept("adjoint", lambda: Augmented(self.owner, self.packing, parameters, pure=True), key)

    def _call(self, y: Tensor) -> Attempt:
        """The call for one step, made now or found among those made before."""

        def make() -> Attempt:
            plain = attempt_of(self.tableau, self.packing.wrap(self.owner), self.control)
            call = self._compiled(plain, y)
            return CapturedStep(call, y) if self.on_cuda and not self.graph else call

        if self.call is None:
            self.call = self._kept("step", make, (self.control, self.graph))
        return self.call

    def _compiled(self, call: Callable[..., Any], y: Tensor) -> Callable[..., Any]:
        """The call, compiled unless the field cannot be."""
        if not getattr(self.owner, "compiles", True):
            return call
        return compiled(call, y.device, "the solve", small=True, dynamic=False, fullgraph=True)

    def _kept(self, what: str, make: Callable[[], Any], extra: Any) -> Any:
        parameters = self.owner.parameters() if hasattr(self.owner, "parameters") else ()
        places = tuple(p.data_ptr() for p in parameters)
        key = (id(self.owner), what, self.tableau, places, self.kind, extra)
        if key not in _KEPT:
            _KEPT[key] = (self.owner, make())
            if len(_KEPT) > _MOST:
                _KEPT.popitem(last=False)
        _KEPT.move_to_end(key)
        return _KEPT[key][1]


def attempt_of(tableau: Tableau, field: Field, control: Control) -> Attempt:
    """The step of a tableau and its error ratio as one function of tensors; the ratio is 0 without an estimate."""
    norm = control.norm or root_mean_square
    stages, a, b, c, off = tableau.stages, tableau.a, tableau.b, tableau.c, tableau.error
    whole, atol, rtol = not tableau.reuses_last, control.atol, control.rtol

    def weighted(row: Sequence[float], slopes: list[Tensor]) -> Tensor:
        total = row[0] * slopes[0]
        for i in range(1, len(row)):  # a plain loop: the compiler does not look into generators
            if row[i]:
                total = total + row[i] * slopes[i]
        return total

    def attempt(t: Tensor, h: Tensor, y: Tensor, first: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        slopes, there = [first], y
        for i in range(1, stages):
            there = y + h * weighted(a[i], slopes)
            slopes.append(field(t + c[i] * h, there))
        if whole:
            there = y + h * weighted(b, slopes)
        if off is None:
            return there, torch.stack(slopes), torch.zeros_like(h)
        scale = atol + rtol * torch.maximum(y.detach().abs(), there.detach().abs())
        error = h * weighted(off, [slope.detach() for slope in slopes])
        return there, torch.stack(slopes), norm(error / scale)

    return attempt
