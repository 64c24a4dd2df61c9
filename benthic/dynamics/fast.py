"""Whole steps in one call: compiled on the CPU, captured as a graph on CUDA."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from benthic.base.compiling import compiled
from benthic.dynamics.control import Control, root_mean_square
from benthic.dynamics.packing import Packing
from benthic.dynamics.runge_kutta import Method, PackedField, Step
from benthic.dynamics.tableau import Tableau

# t, h, y and the first slope, to the next state, all slopes and the error ratio
Attempt = Callable[[Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]

_KEPT: OrderedDict[Any, tuple[Any, Attempt]] = OrderedDict()  # the newest last; a field keeps its id while it is here
_MOST = 16


class FastMethod(Method):
    """An explicit method whose step, with its error, is one call that Python does not enter.

    The call is made once for a field, and again for another shape, tolerance or place of its parameters.
    owner: the field as the user gave it, with which the call is kept. packing: of its states.
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
        self.call = call_for(tableau, control, like, graph, owner, packing)

    def attempt(self, t: float, h: float, y: Tensor, first: Tensor, control: Control) -> tuple[Step, Tensor]:
        """A step, and its error as a multiple of what the control allows."""
        there, slopes, ratio = self.call(self.time(t), self.time(h), y, first)
        return Step(there, slopes), ratio


def call_for(tableau: Tableau, control: Control, y: Tensor, graph: bool, owner: Any, packing: Packing) -> Attempt:
    """The call for steps of a field, made now or found among those made before."""
    parameters = owner.parameters() if isinstance(owner, torch.nn.Module) else ()
    places = tuple(p.data_ptr() for p in parameters)
    kind = (y.shape, y.dtype, y.device, str(packing.example))
    key = (id(owner), tableau, graph, control, places, kind)
    if key not in _KEPT:
        plain = _attempt(tableau, packing.wrap(owner), control)
        options = {"dynamic": False, "fullgraph": True}
        captured = y.is_cuda and not graph
        call = Captured(plain, y) if captured else compiled(plain, y.device, "the solve", **options)
        _KEPT[key] = (owner, call)
        if len(_KEPT) > _MOST:
            _KEPT.popitem(last=False)
    _KEPT.move_to_end(key)
    return _KEPT[key][1]


def _attempt(tableau: Tableau, field: PackedField, control: Control) -> Attempt:
    """The step of a tableau and its error ratio as one function of tensors."""
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
        scale = atol + rtol * torch.maximum(y.detach().abs(), there.detach().abs())
        error = h * weighted(off, [slope.detach() for slope in slopes])
        return there, torch.stack(slopes), norm(error / scale)

    return attempt


class Captured:
    """A function of (t, h, y, first) as a CUDA graph: its kernels are launched together, without Python."""

    def __init__(self, function: Attempt, y: Tensor) -> None:
        real = y.abs().dtype
        self.inputs = [torch.zeros((), dtype=real, device=y.device) for _ in range(2)]
        self.inputs += [torch.zeros_like(y) for _ in range(2)]
        side = torch.cuda.Stream(y.device)
        side.wait_stream(torch.cuda.current_stream(y.device))
        with torch.no_grad(), torch.cuda.stream(side):
            for _ in range(3):
                function(*self.inputs)
        torch.cuda.current_stream(y.device).wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(self.graph):
            self.outputs = function(*self.inputs)

    def __call__(self, *arguments: Tensor) -> tuple[Tensor, ...]:
        """Copies in, one launch, copies out."""
        for place, value in zip(self.inputs, arguments, strict=True):
            place.copy_(value)
        self.graph.replay()
        return tuple(output.clone() for output in self.outputs)
