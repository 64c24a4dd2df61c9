"""Gradients of a solve without its graph: recomputed step by step, or by the adjoint equation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.func import functional_call

from benthic.dynamics.collect import Reading, Record
from benthic.dynamics.control import root_mean_square
from benthic.dynamics.packing import Field, Packing
from benthic.dynamics.runge_kutta import Method

Run = Callable[[Method, Tensor, Record], Any]


@dataclass(frozen=True)
class Problem:
    """What a gradient needs of a solve.

    method: without gradients. run: solves it, given a state, into a record. times: that were requested.
    budget: how many states may be stored. back: solves a packed problem backward, for the adjoint.
    augmented: from parameters to the field of the adjoint. pullback: likewise to the gradient of a step in one call,
    where there is one.
    """

    method: Method
    run: Run
    times: Sequence[float]
    budget: int
    back: Callable[..., Any]
    augmented: Callable[[Sequence[Tensor]], Field]
    pullback: Callable[[Tensor, Sequence[Tensor]], Any] | None = None

    @property
    def with_graph(self) -> Method:
        """The same method, recording gradients."""
        return self.method.recording()


class Checkpointed(torch.autograd.Function):
    r"""Backpropagation through the steps taken, each computed again from a stored state.

    At most ``budget`` states are stored at a time on each level of recursion, evenly among the steps; with n
    steps there are log n / log budget levels, and as many extra evaluations of every step.
    Griewank, 1992; the even placement of Chen et al., 2016.
    """

    @staticmethod
    def forward(ctx: Any, problem: Problem, record: Record, y: Tensor, *parameters: Tensor) -> Tensor:
        """The requested states (m, *shape)."""
        problem.run(problem.method, y, record)
        ctx.problem, ctx.trace, ctx.stored = problem, record.trace, record.stored
        ctx.save_for_backward(*parameters)
        return torch.stack(record.states)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients to the first state and the parameters."""
        sweep = _Sweep(ctx.problem, ctx.trace, ctx.saved_tensors, gradient)
        ends = [*list(ctx.stored)[1:], len(ctx.trace)]
        for begin, end in zip(reversed(list(ctx.stored)), reversed(ends), strict=True):
            sweep.over(begin, end, ctx.stored[begin])
        return None, None, sweep.adjoint + gradient[0], *(total.clone() for total in sweep.sums)


class _Sweep:
    """The backward pass so far: the adjoint of the state, and sums of gradients to parameters."""

    def __init__(
        self, problem: Problem, trace: Sequence[Reading], parameters: Sequence[Tensor], gradient: Tensor
    ) -> None:
        self.method, self.budget, self.trace = problem.with_graph, problem.budget, trace
        self.parameters, self.gradient = tuple(parameters), gradient
        self.adjoint = torch.zeros_like(gradient[0])
        self.pullback = None if problem.pullback is None else problem.pullback(gradient[0], self.parameters)
        if self.pullback is not None:
            self.pullback.begin()
        self.sums = [torch.zeros_like(p) for p in parameters] if self.pullback is None else self.pullback.sums

    def over(self, begin: int, end: int, y: Tensor) -> None:
        """Steps begin to end, of which the first starts at y."""
        stride = max(1, -(-(end - begin) // max(self.budget, 2)))
        states, last = {begin: y}, begin + (end - begin - 1) // stride * stride
        for i in range(begin, last):
            y = self._forward(i, y)
            if (i + 1 - begin) % stride == 0:
                states[i + 1] = y
        for i in reversed(states):
            if stride == 1:
                self._backward(i, states[i])
            else:
                self.over(i, min(i + stride, end), states[i])

    @torch.no_grad()
    def _forward(self, i: int, y: Tensor) -> Tensor:
        reading = self.trace[i]
        return self.method.step(reading.t, reading.h, y, self.method.slope(reading.t, y)).y

    def _backward(self, i: int, y: Tensor) -> None:
        """One step: its outputs are the next state and the requested states inside it."""
        reading = self.trace[i]
        if self.pullback is not None and all(theta == 1.0 for _, theta in reading.inside):
            for place, _ in reading.inside:
                self.adjoint = self.adjoint + self.gradient[place]
            self.adjoint = self.pullback(reading.t, reading.h, y, self.adjoint)
            return
        with torch.enable_grad():
            y = y.detach().requires_grad_()
            outputs, places = reading.replay(self.method, y)
            gradients = [self.adjoint, *(self.gradient[place] for place in places)]
            found = torch.autograd.grad(outputs, (y, *self.parameters), gradients, allow_unused=True)
        self.adjoint = found[0] if found[0] is not None else torch.zeros_like(y)
        for total, part in zip(self.sums, found[1:], strict=True):
            if part is not None:
                total += part


class Adjoint(torch.autograd.Function):
    r"""The continuous adjoint: an equation solved backward beside the state, in memory that depth does not change.

    .. math:: \dot a = -a^T \frac{\partial f}{\partial y}, \qquad
              \frac{dL}{d\theta} = \int_{t_0}^{t_1} a^T \frac{\partial f}{\partial \theta} dt

    Pontryagin et al., 1962; Chen et al., 2018. With the seminorm the integral is left out of the error
    estimate (Kidger, Chen & Lyons, 2021).
    """

    @staticmethod
    def forward(ctx: Any, problem: Problem, record: Record, y: Tensor, *parameters: Tensor) -> Tensor:
        """The requested states (m, *shape)."""
        problem.run(problem.method, y, record)
        states = torch.stack(record.states)
        ctx.problem = problem
        ctx.save_for_backward(states, *parameters)
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients to the first state and the parameters."""
        states, *parameters = ctx.saved_tensors
        problem: Problem = ctx.problem
        adjoint = gradient[-1]
        sums = [torch.zeros_like(p, dtype=states.dtype) for p in parameters]
        augmented = problem.augmented(parameters)
        for i in range(len(problem.times) - 1, 0, -1):
            begin = (states[i], adjoint, *sums)
            span = problem.times[i], problem.times[i - 1]
            _, adjoint, *sums = problem.back(augmented, begin, span, states[i].numel())
            adjoint = adjoint + gradient[i - 1]
        return None, None, adjoint, *(_as(total, p.dtype) for total, p in zip(sums, parameters, strict=True))


def _as(x: Tensor, dtype: torch.dtype) -> Tensor:
    """The tensor in another dtype; of complex numbers the real parts, if that one is real."""
    return (x if dtype.is_complex or not x.is_complex() else x.real).to(dtype)


def functional(field: Field, packing: Packing, parameters: Sequence[Tensor]) -> Callable[..., Tensor] | None:
    """The packed field as a function (t, y, *values of the parameters); None if they are not those of a module."""
    known = dict(field.named_parameters()) if isinstance(field, torch.nn.Module) else {}
    names = {id(parameter): name for name, parameter in known.items()}
    if not isinstance(field, torch.nn.Module) or any(id(parameter) not in names for parameter in parameters):
        return None
    chosen = [names[id(parameter)] for parameter in parameters]

    def call(t: Tensor, y: Tensor, *values: Tensor) -> Tensor:
        given = dict(zip(chosen, values, strict=True))
        return packing.wrap(lambda t, state: functional_call(field, given, (t, state)))(t, y)

    return call


class Augmented:
    """The field of (state, adjoint, integrals), of which the state is packed.

    field: as it was given. packing: of its states. parameters: whose gradients are integrated. pure: write it as a
    function of its parameters if they are those of a module, as a compiler needs it; ``compiles`` says if it was done.
    """

    def __init__(self, field: Field, packing: Packing, parameters: Sequence[Tensor], *, pure: bool = False) -> None:
        self.field, self.packing, self.wanted = field, packing, list(parameters)
        self.call = functional(field, packing, parameters) if pure else None
        self.compiles = self.call is not None

    def parameters(self) -> list[Tensor]:
        """All tensors besides the state that the slopes depend on, as far as they are known."""
        own = list(self.field.parameters()) if isinstance(self.field, torch.nn.Module) else []
        return [*own, *self.wanted]

    def __call__(self, t: Tensor, state: Any) -> tuple[Tensor, ...]:
        """Slopes of the state, its adjoint and the integrals."""
        y, adjoint = state[0], state[1]
        if self.call is None:
            return self._recorded(t, y, adjoint)
        slope, pull = torch.func.vjp(partial(self.call, t), y, *[p.detach() for p in self.wanted])
        return (slope, *[gradient.to(y.dtype) for gradient in pull(-adjoint)])

    def _recorded(self, t: Tensor, y: Tensor, adjoint: Tensor) -> tuple[Tensor, ...]:
        with torch.enable_grad():
            y = y.detach().requires_grad_()
            slope = self.packing.wrap(self.field)(t, y)
            found = torch.autograd.grad(slope, (y, *self.wanted), -adjoint, allow_unused=True)
        whole = [torch.zeros_like(x) if g is None else g for g, x in zip(found, (y, *self.wanted), strict=True)]
        return (slope.detach(), *(gradient.to(slope.dtype) for gradient in whole))


@dataclass(frozen=True)
class Seminorm:
    """The root mean square of the state and its adjoint only, ``count`` entries each."""

    count: int

    def __call__(self, packed: Tensor) -> Tensor:
        """One number of scaled errors."""
        return root_mean_square(packed[: 2 * self.count])
