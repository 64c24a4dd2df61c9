"""Ordinary differential equations: one function that solves them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput, nearest
from benthic.dynamics.collect import Record
from benthic.dynamics.concrete import all_finite, is_transformed
from benthic.dynamics.control import Control
from benthic.dynamics.events import Crossing, Event, Watch
from benthic.dynamics.fast import FastMethod
from benthic.dynamics.gradients import Adjoint, Augmented, Checkpointed, Problem, Seminorm
from benthic.dynamics.implicit import ImplicitMethod
from benthic.dynamics.joint import Piece, with_control, with_fixed_steps
from benthic.dynamics.packing import Field, Packing
from benthic.dynamics.radau import RadauMethod
from benthic.dynamics.rows import with_own_steps
from benthic.dynamics.runge_kutta import Method, PackedField
from benthic.dynamics.solution import Solution, SolveError, Statistics
from benthic.dynamics.tableau import RADAU, Tableau, tableau_of

GRADIENTS = ("steps", "checkpoint", "adjoint")


def solve(
    field: Field,
    y0: Any,
    t: Any,
    *,
    method: str | Tableau = "dormand_prince",
    rtol: float = 1e-6,
    atol: float = 1e-6,
    step: float | None = None,
    adaptive: bool | None = None,
    control: Control | None = None,
    per_row: bool = False,
    dense: bool = False,
    max_steps: int = 10_000,
    events: Sequence[Event] = (),
    gradient: str = "steps",
    parameters: Iterable[Tensor] | None = None,
    budget: int = 64,
    seminorm: bool = True,
    compile: bool = False,
) -> Solution:
    r"""The solution of an initial value problem.

    .. math:: \dot y = f(t, y), \qquad y(t_0) = y_0

    field: f, called with a time () and a state. y0: a tensor, real or complex, or a tuple, list or dictionary of
    tensors. t: times t₀, t₁, ..., rising or falling; the answer has the state at each, read off between the
    steps that the tolerance asks for. Gradients flow to y0, to the times and to whatever the field uses, through
    the steps taken (not through the choice of their sizes).

    method: ``euler``, ``midpoint``, ``heun``, ``rk4``, ``bogacki_shampine``, ``dormand_prince``, ``tsitouras``,
    for stiff problems the implicit ``kvaerno`` and, at tight tolerances, ``radau``; or a ``Tableau``.
    rtol, atol: tolerances of a step, or all of ``control``. step: length of a fixed step, or of the first one if
    steps are controlled. adaptive: whether steps are controlled; by default where the method estimates its error
    and no step is given. dense: keep the solution between steps, for ``solution.at(t)``.
    per_row: every row (the first dimension of all tensors) has its own steps, as if it were solved alone; the
    field then sees a time for each row, shaped to broadcast. max_steps: after so many, controlled solves stop
    with an error. events: see ``Event``; ``solution.events`` has those that happened, and a terminal one is the
    last time of the answer.

    gradient: ``steps`` keeps the graph of every step, which is fastest and allows higher derivatives;
    ``checkpoint`` stores at most ``budget`` states and computes the steps between them again; ``adjoint`` solves
    the adjoint equation backward, in constant memory, to the tolerance of the solver (``seminorm``: without the
    parameters in its error estimate). The last two need to know what to differentiate: the parameters of a module,
    or ``parameters``.

    compile: make each step one compiled call (which takes some seconds at first), captured as a graph on CUDA, where
    the device also chooses the steps and a gradient replays them backward (no higher derivatives then). The field
    must be the same object each time, with nothing in it that depends on values; tensors that it uses beside its
    parameters must stay where they are and are changed in place.

    >>> decay = solve(lambda t, y: -y, torch.ones(1, dtype=torch.float64), [0.0, 1.0])
    >>> decay.last
    tensor([0.3679], dtype=torch.float64)
    """
    tableau = tableau_of(method)
    packing = Packing.of(y0, batch=int(per_row))
    start = packing.pack(y0)
    _check_state(start)
    grid, times = _times(t, start)
    adaptive = tableau.adaptive and step is None if adaptive is None else adaptive
    _check_step(tableau, step, adaptive)
    _check_gradient(gradient, start, per_row, alone=adaptive and not dense and not events)
    packed = Counted(packing.wrap(field))
    begin = start
    if times.requires_grad:
        # As its beginning moves forward in time, the flow moves back along the field.
        start = start - _first_slope(packed, grid[0], start, per_row).detach() * (times[0] - grid[0])
    usual = control or Control(rtol, atol, damping=0.4 if tableau.diagonal else 0.2)
    rule = usual if adaptive else None
    if rule is not None:
        rule.check(times.dtype)
    first = _first_slope(packed, grid[0], start, per_row)
    wanted = torch.is_grad_enabled() and (first.requires_grad or start.requires_grad)
    replayed = compile and start.is_cuda and not (is_transformed(first) or dense or events)
    graph = is_transformed(first) or (wanted and gradient == "steps" and not replayed)
    if compile:
        _check_compile(tableau, per_row)
    fast = (field, packing) if compile else None
    work = _method(tableau, packed, start, per_row, graph, usual, fast)
    if per_row:
        states, statistics = with_own_steps(work, start, first, grid, rule, size=step, max_steps=max_steps)
        states = _follow_times(packed, states, begin, times, grid, per_row)
        return Solution(times, packing.unpack(states), replace(statistics, evaluations=packed.count), packing)
    if events and wanted and not graph:
        raise InvalidInput(f"solve: gradients do not pass an event with gradient={gradient!r}; use gradient='steps'")
    watch = Watch(events, packing, work.time(grid[0]), start) if events else None

    def run(work: Method, y: Tensor, record: Record) -> Crossing | None:
        slope = first if work.graph else first.detach()
        return record.collect(work, y, _pieces(work, y, slope, grid, rule, step, max_steps), grid, watch)

    budget = max_steps if gradient == "steps" else budget  # where steps are replayed, each begins at a stored state
    record = Record(dense, budget if gradient != "adjoint" and wanted else 0)
    end = None
    if graph or not wanted:
        end = run(work, start, record)
        states = torch.stack([begin, *record.states[1:]])
    else:
        back = _backward_solver(tableau, rule, step, max_steps, seminorm, compile)
        function = Adjoint if gradient == "adjoint" else Checkpointed
        hidden = _first_slope(packed, grid[0], start.detach(), per_row).requires_grad
        augmented = work.augmented if isinstance(work, FastMethod) else partial(Augmented, field, packing)
        pullback = work.pullback if isinstance(work, FastMethod) and start.is_cuda else None
        problem = Problem(work, run, grid, budget, back, augmented, pullback)
        states = function.apply(problem, record, start, *_differentiated(field, parameters, hidden))
    states = _follow_times(packed, states, begin, times, grid, per_row)
    times, states, reason = _until(end, times, states)
    inside = (tableau.stages - 1) * (record.steps + record.rejected) if compile else 0  # calls that are not seen
    statistics = Statistics(record.steps, record.rejected, packed.count + inside, reason)
    crossings = [replace(crossing, y=packing.unpack(crossing.y)) for crossing in record.crossings]
    return Solution(
        times, packing.unpack(states), statistics, packing, record.as_dense(times.detach()), tuple(crossings)
    )


class Counted:
    """A field that knows how often it was called."""

    def __init__(self, field: PackedField) -> None:
        self.field, self.count = field, 0

    def __call__(self, t: Tensor, y: Tensor) -> Tensor:
        """The slope."""
        self.count += 1
        return self.field(t, y)


def _method(
    tableau: Tableau,
    field: PackedField,
    y: Tensor,
    per_row: bool,
    graph: bool,
    control: Control,
    fast: tuple[Field, Packing] | None,
) -> Method:
    """The tableau at work. fast: the field as it was given and its packing, where steps are one compiled call."""
    if fast is not None:
        return FastMethod(tableau, field, y, graph=graph, control=control, owner=fast[0], packing=fast[1])
    if not tableau.diagonal:
        return Method(tableau, field, y, rows=per_row, graph=graph)
    if per_row:
        raise InvalidInput(f"solve: {tableau.name} is implicit and solves all rows together; leave per_row out")
    kind = RadauMethod if tableau is RADAU else ImplicitMethod
    return kind(tableau, field, y, graph=graph, control=control)


def _pieces(
    work: Method,
    y: Tensor,
    slope: Tensor,
    grid: Sequence[float],
    rule: Control | None,
    step: float | None,
    max_steps: int,
) -> Iterator[Piece]:
    """The steps from the first time to the last, fixed or controlled."""
    if rule is None:
        return with_fixed_steps(work, y, slope, grid, float(step or math.inf))
    controlled = work.with_control if isinstance(work, FastMethod) else partial(with_control, work)
    return controlled(y, slope, (grid[0], grid[-1]), rule, size=step, max_steps=max_steps)


def _backward_solver(
    tableau: Tableau, rule: Control | None, step: float | None, max_steps: int, semi: bool, fast: bool
) -> Callable[..., Any]:
    """Solves the augmented problem of the adjoint from one time back to another."""

    def back(field: Field, state: Any, span: tuple[float, float], count: int) -> Any:
        options: dict[str, Any] = {"step": step, "adaptive": False}
        if rule is not None:
            options = {"control": replace(rule, norm=Seminorm(count)) if semi and rule.norm is None else rule}
        with torch.no_grad():
            return solve(field, state, span, method=tableau, max_steps=max_steps, compile=fast, **options).last

    return back


def _differentiated(field: Field, parameters: Iterable[Tensor] | None, hidden: bool) -> list[Tensor]:
    """The tensors besides the state that gradients go to."""
    if parameters is None and isinstance(field, torch.nn.Module):
        parameters = field.parameters()
    if parameters is not None:
        return [p for p in parameters if p.requires_grad]
    if hidden:
        raise InvalidInput(
            "solve: the field uses tensors that need gradients, which only gradient='steps' finds by itself (and not "
            "from compiled steps on CUDA); pass an nn.Module, or name them by parameters="
        )
    return []


def _check_state(y: Tensor) -> None:
    if not (y.is_floating_point() or y.is_complex()):
        raise InvalidInput(f"solve: the state has dtype {y.dtype}; it must be a floating-point or complex tensor")
    if not all_finite(y):
        raise InvalidInput("solve: the first state is not finite")


def _times(t: Any, y: Tensor) -> tuple[list[float], Tensor]:
    """The times as numbers and as a tensor (m,)."""
    real = y.abs().dtype if y.is_complex() else y.dtype
    times = t if isinstance(t, Tensor) else torch.as_tensor(t, dtype=torch.float64)
    if times.dim() != 1 or len(times) < 2:
        raise InvalidInput(f"solve: t has shape {tuple(times.shape)}; give at least two times, the first and the last")
    grid: list[float] = times.detach().to(torch.float64).cpu().tolist()
    steps = [b - a for a, b in pairwise(grid)]
    if not (all(x > 0 for x in steps) or all(x < 0 for x in steps)):
        raise InvalidInput("solve: the times must rise or fall strictly, each after the one before")
    return grid, times.to(device=y.device, dtype=real)


def _check_step(tableau: Tableau, step: float | None, adaptive: bool) -> None:
    if adaptive and not tableau.adaptive:
        raise InvalidInput(f"solve: {tableau.name} has no error estimate to control steps by; give step=")
    if not adaptive and step is None:
        raise InvalidInput(f"solve: {tableau.name} takes fixed steps; give their length as step=")
    if step is not None and not (math.isfinite(step) and step > 0):
        raise InvalidInput(f"solve: step={step}; the length of a step must be positive")


def _check_gradient(gradient: str, y: Tensor, per_row: bool, *, alone: bool) -> None:
    if gradient not in GRADIENTS:
        raise InvalidInput(f"solve: gradient={gradient!r}{nearest(gradient, GRADIENTS)}; use {', '.join(GRADIENTS)}")
    if not per_row:
        return
    if y.dim() < 1 or not len(y):
        raise InvalidInput(f"solve: a state {tuple(y.shape)} has no rows to give their own steps")
    if not alone or gradient != "steps":
        raise InvalidInput("solve: per_row goes with controlled steps and gradient='steps', without dense and events")


def _check_compile(tableau: Tableau, per_row: bool) -> None:
    if per_row or tableau.diagonal:
        raise InvalidInput("solve: compile goes with an explicit method, without per_row")


def _slope(field: PackedField, t: float, y: Tensor, per_row: bool) -> Tensor:
    """The field at one time, which is told to every row where rows have their own."""
    real = y.abs().dtype if y.is_complex() else y.dtype
    shape = (len(y), *([1] * (y.dim() - 1))) if per_row else ()
    return field(torch.full(shape, t, dtype=real, device=y.device), y)


def _first_slope(field: PackedField, t: float, y: Tensor, per_row: bool) -> Tensor:
    """The field where the solution begins, after a look at what it returns."""
    slope = _slope(field, t, y, per_row)
    if not isinstance(slope, Tensor) or slope.shape != y.shape or slope.dtype != y.dtype:
        got = f"{tuple(slope.shape)} of {slope.dtype}" if isinstance(slope, Tensor) else type(slope).__name__
        raise InvalidInput(
            f"solve: the field returned {got} for a state {tuple(y.shape)} of {y.dtype}; they must match"
        )
    if not all_finite(slope):
        raise SolveError(f"solve: the field is not finite at the first time, t={t:.6g}")
    return slope


def _until(end: Crossing | None, times: Tensor, states: Tensor) -> tuple[Tensor, Tensor, str]:
    """Times, states and the reason for stopping; an event that ended the solve is the last time."""
    if end is None:
        return times, states, "reached the last time"
    times = times[: len(states)]
    if float(times[-1].detach()) != end.time:
        times, states = torch.cat([times, end.t[None].to(times)]), torch.cat([states, end.y[None]])
    return times, states, f"event {end.event} at t={end.time:.6g}"


def _follow_times(
    field: PackedField, states: Tensor, begin: Tensor, times: Tensor, grid: Sequence[float], per_row: bool
) -> Tensor:
    """States that move along the field when the times at which they are read move."""
    if not times.requires_grad:
        return states
    moved = [begin]
    for i, y in enumerate(states[1:], 1):
        moved.append(y + _slope(field, grid[i], y, per_row).detach() * (times[i] - grid[i]))
    return torch.stack(moved)
