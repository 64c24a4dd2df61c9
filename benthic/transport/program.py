"""Exact discrete transport: an assignment when all masses are equal, else a linear program."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.transport import checks
from benthic.transport.line import root, wasserstein_1d

_DIRECT = 4096  # variables of a program that is solved as a whole; a larger one by generating columns
_TIGHT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


class Exact(NamedTuple):
    """An optimal plan (..., n, m), its value (...), and dual potentials f (..., n), g (..., m)."""

    plan: Tensor
    value: Tensor
    f: Tensor
    g: Tensor


def exact(a: Any, b: Any, cost: Any) -> Exact:
    r"""Optimal transport without regularization.

    .. math:: \min_{T \ge 0} \langle T, C \rangle \quad\text{with}\quad T 1 = a, \; T^\top 1 = b

    Kantorovich, 1942. With equal masses and n = m it is an assignment (Crouse, 2016, in SciPy); otherwise a
    linear program (HiGHS), large ones by column generation: a few candidate pairs at first, then those that the
    dual potentials prove to be missing.

    a: (..., n), b: (..., m) masses that sum to one, None is uniform. cost: (..., n, m). Leading dimensions broadcast.
    The value is differentiable: the gradient in the cost is the plan, in the masses the potentials.

    >>> found = exact([0.5, 0.5], [0.25, 0.75], [[0.0, 1.0], [1.0, 0.0]])
    >>> found.plan
    tensor([[0.2500, 0.2500],
            [0.0000, 0.5000]], dtype=torch.float64)
    >>> float(found.value)
    0.25
    """
    cost = checks.tensor("exact", "cost", cost)
    if cost.ndim < 2:
        raise InvalidInput(f"exact: cost has shape {tuple(cost.shape)}; a matrix (n, m) is needed")
    n, m = cost.shape[-2:]
    a, b = checks.masses("exact", "a", a, n, cost), checks.masses("exact", "b", b, m, cost)
    try:
        batch = torch.broadcast_shapes(cost.shape[:-2], a.shape[:-1], b.shape[:-1])
    except RuntimeError as error:
        shapes = f"a {tuple(a.shape)}, b {tuple(b.shape)} and cost {tuple(cost.shape)}"
        raise InvalidInput(f"exact: the leading dimensions of {shapes} do not fit together") from error
    cost, a, b = cost.expand(*batch, n, m), a.expand(*batch, n), b.expand(*batch, m)
    arrays = [t.detach().reshape(-1, *t.shape[len(batch) :]).double().cpu().numpy() for t in (a, b, cost)]
    solved = [_solve(*one) for one in zip(*arrays, strict=True)]
    plan, f, g = (torch.from_numpy(np.stack(part)).to(cost) for part in zip(*solved, strict=True))
    plan, f, g = plan.reshape(*batch, n, m), f.reshape(*batch, n), g.reshape(*batch, m)
    # the plan and the potentials are constants: what remains has the gradient of the envelope theorem
    value = (plan * cost).sum((-1, -2)) + (f * (a - a.detach())).sum(-1) + (g * (b - b.detach())).sum(-1)
    return Exact(plan, value, f, g)


def _solve(a: np.ndarray, b: np.ndarray, cost: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Plan and potentials of one problem; points without mass are left out and get their potentials after."""
    rows, columns = np.flatnonzero(a > 0), np.flatnonzero(b > 0)
    inner = cost[np.ix_(rows, columns)]
    scale = max(float(np.abs(inner).max()), np.finfo(float).tiny)
    source, target = a[rows] / a.sum(), b[columns] / b.sum()
    equal = len(rows) == len(columns) and np.ptp(source) < 1e-14 and np.ptp(target) < 1e-14
    solve = _assignment if equal else _program
    small, f_inner = solve(source, target, inner / scale)
    g = (cost[rows] - scale * f_inner[:, None]).min(0)
    f = (cost[:, columns] - g[columns]).min(1)
    shift = (a @ f - b @ g) / 2
    plan = np.zeros_like(cost)
    plan[np.ix_(rows, columns)] = small
    return plan, f - shift, g + shift


def _assignment(a: np.ndarray, b: np.ndarray, cost: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The cheapest permutation, and the potential of the rows by shortest paths (Bellman-Ford) over it."""
    from scipy.optimize import linear_sum_assignment

    rows, columns = linear_sum_assignment(cost)
    matched = cost[rows, columns]
    plan = np.zeros_like(cost)
    plan[rows, columns] = 1 / len(rows)
    f = matched.copy()  # g = 0
    for _ in range(len(rows)):
        g = (cost - f[:, None]).min(0)
        better = matched - g[columns]
        if np.abs(better - f).max() <= 1e-14:
            break
        f = better
    return plan, f


def _program(a: np.ndarray, b: np.ndarray, cost: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    n, m = cost.shape
    chosen = np.ones((n, m), bool) if n * m <= _DIRECT else _candidates(a, b, cost)
    while True:
        i, j = np.nonzero(chosen)
        mass, f, g = _highs(a, b, cost[i, j], i, j)
        reduced = cost - f[:, None] - g
        missing = (reduced < -1e-11) & ~chosen
        if not missing.any():
            plan = np.zeros_like(cost)
            plan[i, j] = np.maximum(mass, 0)
            return plan, f
        chosen |= missing & _lowest(reduced, 3)


def _lowest(values: np.ndarray, count: int) -> np.ndarray:
    """A mask of the few lowest entries of every row and every column."""
    n, m = values.shape
    mask = np.zeros((n, m), bool)
    np.put_along_axis(mask, np.argpartition(values, min(count, m) - 1, axis=1)[:, :count], True, axis=1)
    np.put_along_axis(mask, np.argpartition(values, min(count, n) - 1, axis=0)[:count], True, axis=0)
    return mask


def _candidates(a: np.ndarray, b: np.ndarray, cost: np.ndarray) -> np.ndarray:
    """Cheap pairs, and the north-west staircase, which is always feasible."""
    chosen = _lowest(cost, 8)
    levels = np.sort(np.concatenate([np.cumsum(a), np.cumsum(b)]))
    middle = (levels + np.concatenate([[0.0], levels[:-1]])) / 2
    i = np.searchsorted(np.cumsum(a), middle).clip(max=len(a) - 1)
    j = np.searchsorted(np.cumsum(b), middle).clip(max=len(b) - 1)
    chosen[i, j] = True
    return chosen


def _highs(a: np.ndarray, b: np.ndarray, cost: np.ndarray, i: np.ndarray, j: np.ndarray) -> Any:
    """Masses of the chosen pairs, and the two potentials."""
    from scipy.optimize import linprog
    from scipy.sparse import csc_matrix

    n, k = len(a), len(cost)
    entries = (np.ones(2 * k), np.stack([i, n + j], 1).ravel(), np.arange(0, 2 * k + 1, 2))
    matrix = csc_matrix(entries, shape=(n + len(b), k))
    found = linprog(cost, A_eq=matrix, b_eq=np.concatenate([a, b]), method="highs-ds", options=_TIGHT)
    if found.status != 0:
        raise ArithmeticError(f"exact: the linear program was not solved ({found.message})")
    duals = found.eqlin.marginals
    return found.x, duals[:n], duals[n:]


def wasserstein(X: Any, Y: Any, p: float = 2, a: Any = None, b: Any = None) -> Tensor:
    r"""The exact Wasserstein distance between two point clouds.

    .. math:: W_p = \Bigl(\min_T \sum_{ij} T_{ij} \lVert x_i - y_j \rVert^p\Bigr)^{1/p}

    X: (..., n, d), Y: (..., m, d). a: (..., n), b: (..., m) masses, None is uniform. Differentiable in points and
    masses. In one dimension by sorting, otherwise by ``exact``.

    >>> float(wasserstein([[0.0, 0.0], [0.0, 1.0]], [[3.0, 1.0], [3.0, 0.0]]))
    3.0
    """
    p = checks.order("wasserstein", p)
    X, Y = checks.clouds("wasserstein", X, Y)
    if X.shape[-1] == 1:
        return wasserstein_1d(X.squeeze(-1), Y.squeeze(-1), p, a, b)
    distance = torch.cdist(X, Y, compute_mode="donot_use_mm_for_euclid_dist")
    return root(exact(a, b, distance**p).value, p)
