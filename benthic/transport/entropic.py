"""Entropic optimal transport: Sinkhorn in a form that is stable for any epsilon."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.transport import checks
from benthic.transport.costs import Matrix, PointCloud, entries, row_blocks
from benthic.transport.implicit import Potentials, Value, dual_value
from benthic.transport.kernel import Problem, hard_start, without_mass
from benthic.transport.scaling import Solution, anneal, iterate

_SMALL = 1e-3  # of the largest difference of costs: below it epsilon is reached by scaling
_TOLERANCES = {torch.float32: 1e-5, torch.float64: 1e-9}


@dataclass(frozen=True)
class Transport:
    """Solved entropic transport; leading shapes are those of the batch.

    f: (..., n), g: (..., m) potentials with ⟨a, f⟩ = ⟨b, g⟩ where marginals hold. value: (...) the regularized
    optimum, equal to the dual value. iterations, error, converged: (...) how it ended; the error is a bound on
    the L1 distance between the row sums and a (the columns hold), or the last change of the row sums where
    marginals are relaxed. scaled: whether epsilon was so small that it had to be reached by scaling.
    method: how it was computed.
    """

    f: Tensor
    g: Tensor
    value: Tensor
    a: Tensor
    b: Tensor
    epsilon: float
    iterations: Tensor
    error: Tensor
    converged: Tensor
    scaled: bool
    method: str
    geometry: Matrix | PointCloud = field(repr=False)

    @property
    def plan(self) -> Tensor:
        """T (..., n, m), computed when asked for; rows sum to a, columns to b. Differentiable."""
        return self.rows(slice(None))

    def rows(self, part: slice) -> Tensor:
        """(..., r, m) some rows of the plan."""
        f, a = self.f[..., part, None], self.a[..., part, None]
        cost = self.geometry.rows(part)
        if torch.is_grad_enabled() and any(t.requires_grad for t in (f, a, self.b, cost)):
            return a * ((f + self.g.unsqueeze(-2) - cost) / self.epsilon).exp() * self.b.unsqueeze(-2)
        rows, columns = f / self.epsilon + a.log(), (self.g / self.epsilon + self.b.log()).unsqueeze(-2)
        plan = torch.empty(torch.broadcast_shapes(cost.shape, rows.shape), dtype=f.dtype, device=f.device)
        for block in row_blocks(*plan.shape[-2:], entries(f.device, stored=True)):  # in the cache, in place
            piece = plan[..., block, :]
            torch.sub(columns, cost[..., block, :], alpha=1 / self.epsilon, out=piece)
            piece.add_(rows[..., block, :]).exp_()
        return plan

    @property
    def cost(self) -> Tensor:
        """⟨T, C⟩ (...), without the entropy; by blocks of rows, differentiable."""
        n, m = self.a.shape[-1], self.b.shape[-1]
        parts = row_blocks(n, m * max(1, self.value.numel()), entries(self.f.device))
        if torch.is_grad_enabled() and self.f.requires_grad:
            from torch.utils.checkpoint import checkpoint

            return sum(checkpoint(self._cost_of, part, use_reentrant=False) for part in parts)
        return sum(self._cost_of(part) for part in parts)

    def _cost_of(self, part: slice) -> Tensor:
        return (self.rows(part) * self.geometry.rows(part)).sum((-1, -2))

    def project(self, values: Tensor) -> Tensor:
        """Barycentric projection (..., n, k): the mean of ``values`` (..., m, k) over where each row's mass goes."""
        n, m = self.a.shape[-1], self.b.shape[-1]
        parts = row_blocks(n, m * max(1, self.value.numel()), entries(self.f.device))
        pieces = []
        for part in parts:
            scores = (self.g.unsqueeze(-2) - self.geometry.rows(part)) / self.epsilon + self.b.log().unsqueeze(-2)
            pieces.append(torch.softmax(scores, -1) @ values)
        return torch.cat(pieces, -2)


def sinkhorn(
    a: Any,
    b: Any,
    cost: Any,
    epsilon: float,
    *,
    rho: float | None = None,
    tol: float | None = None,
    max_iter: int = 1000,
    start: tuple[Any, Any] | None = None,
    scaling: bool | None = None,
) -> Transport:
    r"""Entropic optimal transport between two histograms.

    .. math:: \min_T \langle T, C \rangle + \epsilon \, \mathrm{KL}(T \,|\, a \otimes b)
        \quad\text{with}\quad T 1 = a, \; T^\top 1 = b

    With ``rho`` the constraints become penalties, :math:`\rho\,\mathrm{KL}(T 1 | a) + \rho\,\mathrm{KL}(T^\top 1 | b)`,
    and masses need not sum to one. Cuturi, 2013; stabilized scaling as in Schmitzer, 2019; relaxed marginals as in
    Chizat et al., 2018.

    a: (..., n) and b: (..., m) masses; None is uniform. cost: (..., n, m), or a ``PointCloud``, or a pair (X, Y) of
    clouds for squared distances. Leading dimensions broadcast.
    tol: stop when the row sums differ from a by at most this (L1), with over-relaxed steps after the first 60
    iterations (Thibault et al., 2021); None is 1e-5 for float32 and 1e-9 for float64; 0 makes ``max_iter`` plain
    iterations. start: potentials (f, g) of a similar problem. scaling: reach epsilon from a larger one; None does so,
    with a warning, when epsilon is below a thousandth of the largest difference of costs.

    Returns a ``Transport``. Gradients flow from ``value`` (envelope theorem) and from ``f``, ``g``, ``plan``,
    ``cost`` (implicit differentiation) to a, b and the cost or the points.

    >>> found = sinkhorn([0.5, 0.5], [0.5, 0.5], [[0.0, 1.0], [1.0, 0.0]], 0.1)
    >>> found.plan.sum(-1)
    tensor([0.5000, 0.5000], dtype=torch.float64)
    >>> bool(found.converged)
    True
    """
    problem, batch = _prepare(a, b, cost, epsilon, rho)
    tol = _TOLERANCES[problem.a.dtype] if tol is None else float(tol)
    if max_iter < 1:
        raise InvalidInput(f"sinkhorn: max_iter is {max_iter}; at least 1 is needed")
    fixed = Problem(problem.a.detach(), problem.b.detach(), _detached(problem.cost), problem.epsilon, problem.rho)
    with torch.no_grad():
        found, scaled = _solve(fixed, _potentials(start, fixed, batch), tol, int(max_iter), scaling)
    return _record(problem, fixed, found, scaled, batch)


def _detached(cost: Matrix | PointCloud) -> Matrix | PointCloud:
    return cost.rebuilt(*(leaf.detach() for leaf in cost.leaves))


def _prepare(a: Any, b: Any, cost: Any, epsilon: float, rho: float | None) -> tuple[Problem, tuple[int, ...]]:
    """Check everything and flatten the batch to one leading dimension."""
    epsilon = checks.positive("sinkhorn", "epsilon", epsilon)
    rho = None if rho is None else checks.positive("sinkhorn", "rho", rho)
    cost = PointCloud(*cost) if isinstance(cost, tuple) and len(cost) == 2 else cost
    if not isinstance(cost, PointCloud):
        cost = Matrix(checks.tensor("sinkhorn", "cost", cost))
        if cost.values.ndim < 2:
            raise InvalidInput(f"sinkhorn: cost has shape {tuple(cost.values.shape)}; a matrix (n, m) is needed")
    *lead, n, m = cost.shape
    like = cost.leaves[0]
    a = checks.masses("sinkhorn", "a", a, n, like, total=rho is None)
    b = checks.masses("sinkhorn", "b", b, m, like, total=rho is None)
    try:
        batch = torch.broadcast_shapes(tuple(lead), a.shape[:-1], b.shape[:-1])
    except RuntimeError as error:
        shapes = f"a {tuple(a.shape)}, b {tuple(b.shape)} and cost {tuple(cost.shape)}"
        raise InvalidInput(f"sinkhorn: the leading dimensions of {shapes} do not fit together") from error
    leaves = [leaf.expand(*batch, *leaf.shape[-2:]).reshape(-1, *leaf.shape[-2:]) for leaf in cost.leaves]
    a, b = (t.expand(*batch, t.shape[-1]).reshape(-1, t.shape[-1]) for t in (a, b))
    return Problem(a, b, cost.rebuilt(*leaves), epsilon, rho), tuple(batch)


def _potentials(start: Any, problem: Problem, batch: tuple[int, ...]) -> tuple[Tensor, Tensor] | None:
    if start is None:
        return None
    found = []
    for name, values, masses in zip("fg", start, (problem.a, problem.b), strict=True):
        values, size = checks.tensor("sinkhorn", f"start {name}", values, masses).detach(), masses.shape[-1]
        if values.ndim < 1 or values.shape[-1] != size:
            raise InvalidInput(f"sinkhorn: start {name} has shape {tuple(values.shape)}; (..., {size}) is needed")
        found.append(values.expand(*batch, size).reshape(-1, size))
    f, g = found
    if problem.rho is None:  # a large constant between the two would cost digits
        shift = ((problem.a * f).sum(-1, keepdim=True) - (problem.b * g).sum(-1, keepdim=True)) / 2
        f, g = f - shift, g + shift
    return f, g


def _solve(problem: Problem, start: Any, tol: float, max_iter: int, scaling: bool | None) -> tuple[Solution, bool]:
    spread = problem.cost.spread()
    small = problem.epsilon < _SMALL * spread
    scaled = start is None and (small if scaling is None else scaling)
    f, g = start or hard_start(problem)
    if scaled and scaling is None:
        warnings.warn(
            f"sinkhorn: epsilon = {problem.epsilon:g} is below {_SMALL:g} of the largest difference of costs "
            f"({spread:g}), so it is reached by scaling down from a larger one",
            stacklevel=3,
        )
    if scaled:
        found = anneal(problem, f, g, spread, tol, max_iter)
    else:
        found = iterate(problem, f, g, tol, max_iter)
    if bool((problem.a == 0).any()) or bool((problem.b == 0).any()):
        f, g = without_mass(problem, found.f, found.g)
        found = found._replace(f=f, g=g)
    return found, scaled


def _record(problem: Problem, fixed: Problem, found: Solution, scaled: bool, batch: tuple[int, ...]) -> Transport:
    a, b, f, g = problem.a, problem.b, found.f, found.g
    leaves = problem.cost.leaves
    if torch.is_grad_enabled() and any(t.requires_grad for t in (a, b, *leaves)):
        f, g = Potentials.apply(fixed, f, g, a, b, *leaves)
        value = Value.apply(fixed, f, g, a, b, *leaves)
    else:
        value = dual_value(fixed, f, g)
    if problem.rho is None:  # potentials are defined up to a constant: take the symmetric one
        shift = ((a * f).sum(-1, keepdim=True) - (b * g).sum(-1, keepdim=True)) / 2
        f, g = f - shift, g + shift
    shaped = [t.reshape(*batch, t.shape[-1]) for t in (f, g, a, b)]
    ends = [t.reshape(batch) for t in (value, found.iterations, found.error, found.converged)]
    geometry = problem.cost.rebuilt(*(leaf.reshape(*batch, *leaf.shape[-2:]) for leaf in leaves))
    return Transport(
        f=shaped[0],
        g=shaped[1],
        value=ends[0],
        a=shaped[2],
        b=shaped[3],
        epsilon=problem.epsilon,
        iterations=ends[1],
        error=ends[2],
        converged=ends[3],
        scaled=scaled,
        method=found.method,
        geometry=geometry,
    )
