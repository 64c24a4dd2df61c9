r"""Stabilized scaling: Sinkhorn in plain products with an accuracy of the log domain (Schmitzer, 2019).

The plan is :math:`T_{ij} = \alpha_i K_{ij} \beta_j` with :math:`K_{ij} = e^{(f_i + g_j - C_{ij}) / \epsilon}`.
An iteration costs one product with K and one with its transpose. When a scaling leaves the safe range, it is
absorbed in the potentials f and g and K is made anew; when that does not help, a true log-sum-exp step is made.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from benthic.transport.kernel import RANGES, Kernel, Problem, Side, log_step
from benthic.transport.relaxation import Relaxation

_LONGEST = 10  # iterations between two looks at the error
_PLAIN = 60  # iterations before steps are made longer
_STAGE = 1e-3, 200  # error and iterations that end a stage of epsilon scaling
_STRIKES = 3  # useless absorptions in a row before the log domain is kept


class Solution(NamedTuple):
    """Potentials (B, n) and (B, m) with iterations, error and convergence (B,), and how they were found."""

    f: Tensor
    g: Tensor
    iterations: Tensor
    error: Tensor
    converged: Tensor
    method: str


class _Track:
    """Remembers, problem by problem, the first iterate that met the tolerance."""

    def __init__(self, problem: Problem, f: Tensor, g: Tensor, tol: float) -> None:
        batch = len(problem.a)
        self.f, self.g, self.tol = f, g, tol
        self.iterations = torch.zeros(batch, dtype=torch.long, device=f.device)
        self.error = f.new_full((batch,), math.inf)
        self.converged = torch.zeros(batch, dtype=torch.bool, device=f.device)

    def update(self, f: Tensor, g: Tensor, error: Tensor, count: int) -> None:
        """Take the new iterate where the old one had not converged."""
        going = ~self.converged
        self.f, self.g = torch.where(going[:, None], f, self.f), torch.where(going[:, None], g, self.g)
        self.error = torch.where(going, error, self.error)
        self.iterations = torch.where(going, count, self.iterations)
        self.converged = self.converged | (self.error <= self.tol)

    def solution(self, method: str) -> Solution:
        """What was found."""
        return Solution(self.f, self.g, self.iterations, self.error, self.converged, method)


def iterate(problem: Problem, f: Tensor, g: Tensor, tol: float, max_iter: int) -> Solution:
    """Sinkhorn iterations from potentials until the marginal error is at most ``tol`` everywhere.

    The host looks at error and range every few iterations only, so that a GPU is never kept waiting.
    """
    clip, safe = RANGES[f.dtype]
    track, done, strikes, steps = _Track(problem, f, g, tol), 0, 0, 1
    scalings = _Scalings(problem, f, g)
    relaxation = Relaxation(track.error) if tol > 0 and problem.rho is None else None
    while done < max_iter:
        steps = min(steps, max_iter - done)
        f, g, error, drift = scalings.run(steps, relaxation if done >= _PLAIN else None)
        error = torch.where(drift < 0.9 * clip, error, math.inf)  # an entry that was cut off may have mattered
        done += steps
        track.update(f, g, error, done)
        if relaxation is not None:
            relaxation.look(error, steps)
        finished, drift = torch.stack([track.converged.all().to(drift), drift]).tolist()
        if finished and tol > 0:
            break
        steps = min(2 * steps, _LONGEST)
        if drift <= safe:
            strikes = 0
            continue
        if not drift < 0.9 * clip:  # also if it is not a number
            strikes += 1
            f, g = log_step(problem, torch.where(torch.isfinite(g), g, scalings.kernel.g))
            done, steps = done + 1, 1
            track.update(f, g, torch.full_like(error, math.inf), done)
        if strikes == _STRIKES:
            return _in_logs(problem, f, g, track, done, max_iter)
        scalings.absorb(f, g)
    return track.solution("kernel")


class _Scalings:
    """Scalings around absorbed potentials."""

    def __init__(self, problem: Problem, f: Tensor, g: Tensor) -> None:
        self.problem, self.kernel = problem, Kernel(problem, f, g)
        self._center(f, g)

    def absorb(self, f: Tensor, g: Tensor) -> None:
        """Start again around other potentials."""
        self.kernel.absorb(f, g)
        self._center(f, g)

    def _center(self, f: Tensor, g: Tensor) -> None:
        a, b = self.problem.a, self.problem.b
        self.rows, self.columns = Side(a, f, self.problem), Side(b, g, self.problem)
        self.alpha, self.beta = a, b

    def run(self, steps: int, relaxation: Relaxation | None = None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Some iterations; the potentials they lead to, the error (B,), and the largest exponent of a scaling.

        The last two steps are never relaxed, so that the columns hold and the error is a bound.
        """
        for left in reversed(range(steps)):
            before = self.alpha
            if relaxation is None or left < 2:
                r, self.alpha, s = self.kernel.sweep(self.beta, self.rows.scale)
                self.beta = self.columns.scale(s)
                continue
            relaxed = partial(_relaxed, relaxation, self.rows, before)
            r, self.alpha, s = self.kernel.sweep(self.beta, relaxed)
            self.beta = relaxation.blend(self.beta, self.columns.scale(s))
        # by how much (L1) the row sums still move; for a balanced problem their distance from a
        error = ((self.alpha - before).abs() * r).sum(-1)
        f, g = self.rows.absorbed(r), self.columns.absorbed(s)
        drift = torch.maximum(_drift(f, self.rows), _drift(g, self.columns))
        return f, g, error, drift


def _relaxed(relaxation: Relaxation, side: Side, before: Tensor, product: Tensor, part: slice) -> Tensor:
    return relaxation.blend(before[:, part], side.scale(product, part))


def _drift(potential: Tensor, side: Side) -> Tensor:
    moved = (potential - side.potential).abs() / side.epsilon
    return torch.where(side.masses > 0, moved, 0.0).amax()


def _in_logs(problem: Problem, f: Tensor, g: Tensor, track: _Track, done: int, max_iter: int) -> Solution:
    while done < max_iter:
        before = f
        f, g = log_step(problem, g)
        done += 1
        change = torch.expm1((before - f) / problem.epsilon).abs()
        error = torch.where(problem.a > 0, problem.a * change, 0.0).sum(-1)
        track.update(f, g, error, done)
        if track.tol > 0 and bool(track.converged.all()):
            break
    return track.solution("log-sum-exp")


def anneal(problem: Problem, f: Tensor, g: Tensor, start: float, tol: float, max_iter: int) -> Solution:
    """Iterations with an epsilon that falls by a factor of four from ``start`` to the one asked for.

    Schmitzer, 2019, section 3.2. Every stage starts from the potentials of the one before.
    """
    epsilon, spent = start, 0
    while epsilon > problem.epsilon:
        found = iterate(replace(problem, epsilon=epsilon), f, g, *_STAGE)
        f, g, spent = found.f, found.g, spent + int(found.iterations.max())
        epsilon /= 4
    found = iterate(problem, f, g, tol, max_iter)
    return found._replace(iterations=found.iterations + spent, method=f"epsilon scaling, {found.method}")
