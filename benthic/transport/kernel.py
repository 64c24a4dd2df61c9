"""The kernel exp((f + g - C) / epsilon) of entropic transport: its products, and steps in the log domain."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from benthic.transport.costs import Block, Cost, Matrix, entries, row_blocks

Scale = Callable[[Tensor, slice], Tensor]


class Range(NamedTuple):
    """Exponents of a dtype: beyond ``clip`` an entry of K is cut off, beyond ``safe`` a scaling is absorbed."""

    clip: float
    safe: float


RANGES = {torch.float32: Range(69.0, 20.0), torch.float64: Range(600.0, 150.0)}
_TINY = 1 << 13  # entries of a matrix below which a CPU multiplies a batch of them faster in one call


@dataclass(frozen=True)
class Problem:
    """Masses a (B, n) and b (B, m), a cost, the strength of the entropy and of the marginals."""

    a: Tensor
    b: Tensor
    cost: Cost
    epsilon: float
    rho: float | None = None

    @property
    def kappa(self) -> float:
        """How much of an update of a potential is kept: one if marginals must hold."""
        return 1.0 if self.rho is None else self.rho / (self.rho + self.epsilon)


def times(E: Tensor, v: Tensor) -> Tensor:
    """(B, n, m) times (B, m) is (B, n)."""
    if len(E) == 1:
        return torch.mv(E[0], v[0]).unsqueeze(0)
    if E.is_cpu and E[0].numel() > _TINY:
        return torch.stack([torch.mv(one, vector) for one, vector in zip(E, v, strict=True)])
    return torch.bmm(E, v.unsqueeze(-1)).squeeze(-1)


class Kernel:
    """K with absorbed potentials: stored when it is given or small, else made by blocks in each product."""

    def __init__(self, problem: Problem, f: Tensor, g: Tensor) -> None:
        self.problem = problem
        batch, n, self.m = problem.cost.shape
        limit = entries(f.device)
        self.parts = list(row_blocks(n, batch * self.m, limit))
        stored = isinstance(problem.cost, Matrix) or batch * n * self.m <= limit
        self._blocks = list(row_blocks(n, batch * self.m, entries(f.device, stored=True)))
        self._K = f.new_empty(batch, n, self.m) if stored else None
        self._scratch: Tensor | None = None
        if stored and (not f.is_cpu or len(self._blocks) == 1):
            self.parts = [slice(0, n)]
        self.absorb(f, g)

    def absorb(self, f: Tensor, g: Tensor) -> None:
        """Make K from other potentials, in the same memory."""
        self.f, self.g = f, g
        self._make = _clipped(self.problem.cost.logits(f, g, self.problem.epsilon), RANGES[f.dtype].clip)
        for part in self._blocks if self._K is not None else ():
            self._make(part, self._K[:, part])

    def rows(self, part: slice) -> Tensor:
        """(B, r, m) some rows of K, good until the next call."""
        if self._K is not None:
            return self._K[:, part]
        if self._scratch is None:
            self._scratch = self.f.new_empty(len(self.f), self.parts[0].stop, self.m)
        return self._make(part, self._scratch[:, : part.stop - part.start])

    def apply(self, v: Tensor) -> Tensor:
        """K v."""
        if self._K is not None:
            return times(self._K, v)
        return torch.cat([times(self.rows(part), v) for part in self.parts], -1)

    def apply_transposed(self, u: Tensor) -> Tensor:
        """Kᵀ u."""
        if self._K is not None:
            return times(self._K.transpose(-1, -2), u)
        return sum(times(self.rows(part).transpose(-1, -2), u[:, part]) for part in self.parts)

    def sweep(self, beta: Tensor, scale: Scale) -> tuple[Tensor, Tensor, Tensor]:
        """K beta, the new alpha and Kᵀ alpha, reading every row of K once. scale: from K beta of some rows to alpha."""
        if len(self.parts) == 1:
            E = self.rows(self.parts[0])
            r = times(E, beta)
            alpha = scale(r, self.parts[0])
            return r, alpha, times(E.transpose(-1, -2), alpha)
        r, alpha = torch.empty_like(self.f), torch.empty_like(self.f)
        s = torch.zeros_like(self.g)
        for part in self.parts:
            E = self.rows(part)
            r[:, part] = found = times(E, beta)
            alpha[:, part] = scaled = scale(found, part)
            s += times(E.transpose(-1, -2), scaled)
        return r, alpha, s


def _clipped(block: Block, clip: float) -> Block:
    return lambda part, out: block(part, out).clamp_(-clip, clip).exp_()


class Side:
    """How one marginal turns a product with K into the scaling that meets it."""

    def __init__(self, masses: Tensor, potential: Tensor, problem: Problem) -> None:
        self.masses, self.potential = masses, potential
        self.kappa, self.epsilon = problem.kappa, problem.epsilon
        if self.kappa != 1:
            self.log_weight = masses.log() - (1 - self.kappa) / self.epsilon * potential

    def scale(self, product: Tensor, part: slice = slice(None)) -> Tensor:
        """Scaling from K beta: masses / product, tempered if the marginal is relaxed."""
        if self.kappa == 1:
            return self.masses[:, part] / product
        return (self.log_weight[:, part] - self.kappa * product.log()).exp()

    def absorbed(self, product: Tensor) -> Tensor:
        """The potential that the product stands for."""
        return self.kappa * (self.potential - self.epsilon * product.log())


def log_step(problem: Problem, g: Tensor) -> tuple[Tensor, Tensor]:
    """One Sinkhorn iteration by log-sum-exp: f from g, then g from f; blocks of rows in one pass each."""
    f = soft_rows(problem, g)
    return f, soft_columns(problem, f)


def soft_rows(problem: Problem, g: Tensor) -> Tensor:
    r"""Return f_i = -kappa eps log sum_j b_j exp((g_j - C_ij) / eps)."""
    eps, (batch, n, m) = problem.epsilon, problem.cost.shape
    block = problem.cost.logits(g.new_zeros(batch, n), g + eps * problem.b.log(), eps)
    parts = row_blocks(n, batch * m, entries(g.device))
    return -problem.kappa * eps * torch.cat([torch.logsumexp(block(part), -1) for part in parts], -1)


def soft_columns(problem: Problem, f: Tensor) -> Tensor:
    """Like ``soft_rows`` for g, with a running maximum over blocks of rows."""
    eps, (batch, n, m) = problem.epsilon, problem.cost.shape
    top, total = f.new_full((batch, m), -math.inf), f.new_zeros(batch, m)
    block = problem.cost.logits(f + eps * problem.a.log(), f.new_zeros(batch, m), eps)
    for part in row_blocks(n, batch * m, entries(f.device)):
        z = block(part)
        higher = torch.maximum(top, z.amax(-2))
        shift = torch.where(higher == -math.inf, 0.0, higher)  # rows without mass so far
        total = total * (top - shift).exp() + z.sub_(shift.unsqueeze(-2)).exp_().sum(-2)
        top = higher
    return -problem.kappa * eps * (top + total.log())


def hard_start(problem: Problem) -> tuple[Tensor, Tensor]:
    """Potentials by minima in place of soft minima: no row or column of K that has mass vanishes."""
    batch, n, m = problem.cost.shape
    f, g = torch.zeros_like(problem.a), torch.full_like(problem.b, -math.inf)
    parts = list(row_blocks(n, batch * m, entries(problem.a.device, stored=isinstance(problem.cost, Matrix))))
    if isinstance(problem.cost, Matrix) and bool((problem.a > 0).all()) and bool((problem.b > 0).all()):
        f = problem.cost.values.amin(-1)
        for part in parts:
            g = torch.maximum(g, (f[:, part, None] - problem.cost.values[:, part]).amax(-2))
        return f, -g
    off_b = torch.where(problem.b > 0, 0.0, -math.inf).to(problem.b)
    block = problem.cost.logits(f, off_b, 1.0)
    f = -torch.cat([block(part).amax(-1) for part in parts], -1)
    block = problem.cost.logits(torch.where(problem.a > 0, f, -math.inf), torch.zeros_like(g), 1.0)
    for part in parts:
        g = torch.maximum(g, block(part).amax(-2))
    return f, -g


def without_mass(problem: Problem, f: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    """Potentials at points without mass, by the rule that the others obey."""
    f = torch.where(problem.a > 0, f, soft_rows(problem, g))
    return f, torch.where(problem.b > 0, g, soft_columns(problem, f))
