"""From data back to equations: the parameters of a known form of dynamics, by least squares."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.dynamics.ode import solve
from benthic.dynamics.packing import Field
from benthic.dynamics.solution import Solution, SolveError
from benthic.optim.minimizer import minimize
from benthic.optim.record import MAX_ITER, Minimum

_GAPS = (1.0, 10.0)  # weights of the gaps between segments, one after another
_ROUNDS = 30
_FAR = 1e3  # so many times the largest state seen is a solution that ran away


@dataclass(frozen=True)
class Recovery:
    """What data say about parameters.

    parameters: of the shape of the first guess. stderr: their standard errors, infinite where the data do not
    decide. covariance: (p, p) of the flat parameters, by Gauss and Newton. initial: the state at the first time,
    (d,) or (k, d). residuals: observed less fitted states, shaped as they were. noise: the standard deviation of
    an observation about the fit (in units of ``scale``). solution: of the recovered equations at the times.
    minimum: how the search ended.
    """

    parameters: Tensor
    stderr: Tensor
    covariance: Tensor
    initial: Tensor
    residuals: Tensor
    noise: float
    solution: Solution
    minimum: Minimum

    def __str__(self) -> str:
        """One line a parameter, then the noise and how the search ended."""
        pairs = zip(self.parameters.flatten().tolist(), self.stderr.flatten().tolist(), strict=True)
        lines = [f"parameter {i}: {value:.6g} ± {error:.2g}" for i, (value, error) in enumerate(pairs)]
        return "\n".join([*lines, f"noise: {self.noise:.3g}", f"search: {self.minimum.reason}"])


def recover(
    field_of: Callable[[Tensor], Field],
    start: Any,
    times: Any,
    states: Any,
    *,
    initial: Any = None,
    segments: int = 1,
    scale: Any = 1.0,
    method: str = "dormand_prince",
    rtol: float = 1e-7,
    atol: float = 1e-7,
    max_steps: int = 1000,
    max_iter: int = 3,
) -> Recovery:
    r"""Parameters of equations of a known form, from trajectories seen with or without noise.

    .. math:: \min_{\theta, z_0} \sum_i \| z(t_i; \theta, z_0) - s_i \|^2, \qquad \dot z = f(t, z; \theta)

    L-BFGS on the sum of squares through the solver, in coordinates in which the Gauss–Newton Hessian is the
    identity, renewed until nothing changes. Standard errors are those of Gauss and Newton.

    field_of: maps parameters to a field (t, z), which takes states (..., d). start: a first guess of the parameters,
    of any shape. times: (m,). states: (m, d), or (k, m, d) of several trajectories at the same times. initial: the
    states (d,) or (k, d) at the first time if they are known exactly (what ``states`` says there is then not used);
    None recovers them too. scale: standard deviations of the noise relative to each other, a number or (d,).
    segments: more than one cuts long or oscillating trajectories in pieces that at first have their own starts and
    are then drawn together (multiple shooting; Bock, 1983), so that a poor guess does not get lost.
    method, rtol, atol, max_steps: of ``solve``. max_iter: iterations between two renewals of the coordinates.

    >>> t = torch.linspace(0, 2, 9, dtype=torch.float64)
    >>> decay = recover(lambda rate: lambda t, z: -rate * z, 1.0, t, 3 * torch.exp(-0.7 * t)[:, None])
    >>> decay.parameters, decay.initial
    (tensor(0.7000, dtype=torch.float64), tensor([3.0000], dtype=torch.float64))
    """
    problem, guess = _problem(field_of, start, times, states, initial, scale)
    problem = replace(problem, options={"method": method, "rtol": rtol, "atol": atol, "max_steps": max_steps})
    m = len(problem.times)
    if segments != int(segments) or not 1 <= segments < m:
        raise InvalidInput(f"recover: segments is {segments!r}; {m} times can be cut in 1 to {m - 1} segments")
    if segments > 1:
        cuts = tuple(round(i * (m - 1) / segments) for i in range(segments + 1))
        pieces = replace(problem, cuts=cuts)
        x = pieces.unknowns(guess)
        for gaps in _GAPS:
            x = _descend(replace(pieces, gaps=gaps), x, max_iter).point
        x = x[: len(problem.unknowns(guess))]
    else:
        x = problem.unknowns(guess)
    return _record(problem, _descend(problem, x, max_iter))


@dataclass(frozen=True)
class _Problem:
    """A least-squares problem over a flat vector: the parameters, then the unknown states where segments begin.

    times: (m,). seen: (m, *batch, d), times first as solutions have them. known: (*batch, d) or None. cuts: the
    numbers of the times where segments begin and end. gaps: the weight of what lies between segments.
    """

    field_of: Callable[[Tensor], Field]
    shape: torch.Size
    times: Tensor
    seen: Tensor
    known: Tensor | None
    scale: Tensor
    options: dict[str, Any]
    cuts: tuple[int, ...]
    gaps: float = 1.0

    def unknowns(self, guess: Tensor) -> Tensor:
        """A first guess of the whole vector: segments begin at what was seen."""
        begin = self.seen[list(self.cuts[:-1])]
        return torch.cat([guess.reshape(-1), (begin if self.known is None else begin[1:]).reshape(-1)])

    def parts(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Parameters, and the states (segments, *batch, d) where segments begin."""
        count = self.shape.numel()
        starts = x[count:].reshape(-1, *self.seen.shape[1:])
        starts = starts if self.known is None else torch.cat([self.known[None], starts])
        return x[:count].reshape(self.shape), starts

    def solution(self, x: Tensor, piece: int = 0) -> Solution:
        """The solution of one segment."""
        parameters, starts = self.parts(x)
        begin, end = self.cuts[piece : piece + 2]
        field, far = self.field_of(parameters), _FAR * self.seen.abs().max()

        def near(t: Tensor, z: Tensor) -> Any:
            if bool((z.detach().abs() > far).any()):
                raise SolveError(f"recover: at t={float(t):.6g} the solution is far from all states; guess nearer")
            return field(t, z)

        return solve(near, starts[piece], self.times[begin : end + 1], **self.options)

    def residuals(self, x: Tensor) -> Tensor:
        """All differences, seen less computed, and the weighted gaps, as one vector."""
        fitted, gaps, starts = [], [], self.parts(x)[1]
        count = len(self.cuts) - 1
        for piece in range(count):
            y = self.solution(x, piece).y
            last = piece == count - 1
            fitted.append(y if last else y[:-1])
            if not last:
                gaps.append(math.sqrt(self.gaps) * (y[-1] - starts[piece + 1]) / self.scale)
        first = 0 if self.known is None else 1
        differences = ((torch.cat(fitted) - self.seen) / self.scale)[first:]
        return torch.cat([part.reshape(-1) for part in (differences, *gaps)])

    def jacobian(self, x: Tensor) -> Tensor:
        """Derivatives of the residuals, (residuals, unknowns)."""
        found: Tensor = torch.autograd.functional.jacobian(self.residuals, x, vectorize=True)
        return found


def _descend(problem: _Problem, x: Tensor, max_iter: int) -> Minimum:
    """L-BFGS in coordinates u with x = x₀ + T u, where T makes the Gauss–Newton Hessian the identity."""
    size = float((problem.seen / problem.scale).norm())
    tol = max(1e-9, 100 * torch.finfo(x.dtype).eps) * max(size, torch.finfo(x.dtype).tiny)
    damping, limit = 1e-2, 1  # far from the minimum, a step at a time
    for _ in range(_ROUNDS):
        center, turn = x, _whitening(problem.jacobian(x), damping)

        def value(u: Tensor, center: Tensor = center, turn: Tensor = turn) -> tuple[Tensor, Tensor]:
            return _half_square(problem, center, turn, u)

        zero = torch.zeros_like(x)
        found = minimize(value, zero, tol=tol, max_iter=limit, value_and_gradient=True, inverse=lambda g: g)
        x = center + turn @ found.point
        if found.reason != MAX_ITER and found.iterations <= 1:
            break
        if found.evaluations > 2 * found.iterations + 1:  # steps were too long: damp them (Marquardt, 1963)
            damping, limit = min(10 * damping, 1.0), 1
        else:
            damping, limit = max(0.1 * damping, 1e-9), max_iter
    return replace(found, point=x)


def _half_square(problem: _Problem, center: Tensor, turn: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
    """Half the sum of squares and its gradient; infinite where the equations have no solution to the last time."""
    leaf = u.detach().requires_grad_()
    try:
        value = 0.5 * problem.residuals(center + turn @ leaf).square().sum()
    except SolveError:
        if not bool(u.any()):
            raise
        return torch.full_like(u[0], math.inf), torch.zeros_like(u)
    (gradient,) = torch.autograd.grad(value, leaf)
    return value.detach(), gradient


def _whitening(jacobian: Tensor, damping: float) -> Tensor:
    """T with Tᵀ (JᵀJ + damping · diag) T = 1."""
    hessian = jacobian.mT @ jacobian
    diagonal = hessian.diagonal()
    floor = torch.finfo(hessian.dtype).eps * diagonal.max() + torch.finfo(hessian.dtype).tiny
    sizes = diagonal.clamp(min=floor).sqrt()
    unit = hessian / sizes[:, None] / sizes + damping * torch.eye(len(sizes), dtype=sizes.dtype, device=sizes.device)
    values, vectors = torch.linalg.eigh(unit)
    turn: Tensor = vectors / values.clamp(min=max(damping, 1e-12)).sqrt() / sizes[:, None]
    return turn


def _record(problem: _Problem, found: Minimum) -> Recovery:
    """The answer with its standard errors."""
    x, count = found.point, problem.shape.numel()
    with torch.no_grad():
        solution = problem.solution(x)
    parameters, starts = problem.parts(x)
    residuals = problem.seen - solution.y
    jacobian = problem.jacobian(x)
    rows, columns = jacobian.shape
    noise = math.sqrt(2 * float(found.value) / max(rows - columns, 1))
    covariance = noise**2 * _inverse(jacobian.mT @ jacobian)[:count, :count]
    return Recovery(
        parameters,
        covariance.diagonal().sqrt().reshape(problem.shape),
        covariance,
        starts[0],
        residuals.movedim(0, -2),
        noise,
        solution,
        found,
    )


def _inverse(hessian: Tensor) -> Tensor:
    """The inverse of a positive semidefinite matrix; infinite variances where it is singular."""
    sizes = hessian.diagonal().clamp(min=torch.finfo(hessian.dtype).tiny).sqrt()
    values, vectors = torch.linalg.eigh(hessian / sizes[:, None] / sizes)
    flat = values < len(values) * 100 * torch.finfo(hessian.dtype).eps * values[-1]
    inverse: Tensor = (vectors / torch.where(flat, torch.inf, values)) @ vectors.mT / sizes[:, None] / sizes
    loose = (vectors[:, flat].square().sum(1) > 1e-6) | (hessian.diagonal() == 0)
    inverse.diagonal()[loose] = torch.inf
    return inverse


def _problem(
    field_of: Callable[[Tensor], Field], start: Any, times: Any, states: Any, initial: Any, scale: Any
) -> tuple[_Problem, Tensor]:
    """The checked problem of one segment, and the first guess."""
    states = states if isinstance(states, Tensor) else torch.as_tensor(states, dtype=torch.float64)
    like = {"dtype": states.dtype, "device": states.device}
    if not states.is_floating_point() or states.dim() not in (2, 3) or not states.numel():
        raise InvalidInput(
            f"recover: states are {tuple(states.shape)} of {states.dtype}; real numbers (m, d) or (k, m, d) are needed"
        )
    times, guess, scale = (torch.as_tensor(given, **like) for given in (times, start, scale))
    m, d = states.shape[-2:]
    if times.shape != (m,) or m < 2:
        raise InvalidInput(f"recover: {m} states at times {tuple(times.shape)}; one time for each, at least two")
    for name, value in (("states", states), ("start", guess), ("scale", scale)):
        if not bool(value.isfinite().all()):
            raise InvalidInput(f"recover: {name} has numbers that are not finite; leave those times out or fill them")
    if scale.shape not in ((), (d,)) or not bool((scale > 0).all()):
        raise InvalidInput(f"recover: scale has shape {tuple(scale.shape)}; one positive number or {d} are needed")
    seen = states.detach().movedim(-2, 0)
    known = None if initial is None else torch.as_tensor(initial, **like).detach()
    if known is not None and (known.shape != seen.shape[1:] or not bool(known.isfinite().all())):
        raise InvalidInput(f"recover: initial has shape {tuple(known.shape)}; finite {tuple(seen.shape[1:])} is needed")
    unknown = guess.numel() + (seen[0].numel() if known is None else 0)
    observed = seen.numel() - (0 if known is None else seen[0].numel())
    if not guess.numel() or observed < unknown:
        raise InvalidInput(f"recover: {observed} observations for {unknown} unknowns; more data or fewer parameters")
    return _Problem(field_of, guess.shape, times, seen, known, scale, {}, (0, m - 1)), guess.detach()
