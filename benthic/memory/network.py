"""Storage, energy and recall of a network of units that are 1 or -1."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from benthic.base.errors import InvalidInput, nearest
from benthic.base.seeds import np_generator, seed_of

STORAGE = ("hebbian", "pseudo-inverse")
DYNAMICS = ("asynchronous", "synchronous")


class Recall(NamedTuple):
    """Where recall ended and how it got there.

    state: (n, d) of 1 and -1. energy: (sweeps + 1, n), before the first and after every sweep. converged: (n,) whether
    nothing moves any more; a synchronous network may go to and fro between two states instead.
    """

    state: Tensor
    energy: Tensor
    converged: Tensor


def store(patterns: Any, storage: str = "hebbian") -> Tensor:
    r"""The weights (d, d) in which patterns (n, d) of 1 and -1 are kept; their diagonal is 0.

    - "hebbian": :math:`W = (\sum_\mu x_\mu x_\mu^\top - n I) / d` (Hopfield, 1982);
    - "pseudo-inverse": the projection :math:`X^+ X` onto the patterns without its diagonal (Personnaz, Guyon &
      Dreyfus, 1986; Kanter & Sompolinsky, 1987), in which up to d linearly independent patterns are fixed points,
      however alike they are.

    >>> store([[1, 1, -1]])
    tensor([[ 0.0000,  0.3333, -0.3333],
            [ 0.3333,  0.0000, -0.3333],
            [-0.3333, -0.3333,  0.0000]], dtype=torch.float64)
    """
    if storage not in STORAGE:
        hint = nearest(str(storage), STORAGE)
        raise InvalidInput(f"store: storage is {storage!r}{hint}; use {' or '.join(map(repr, STORAGE))}")
    X = signs("store", patterns)
    if storage == "hebbian":
        return ((X.T @ X).fill_diagonal_(0.0)) / X.shape[1]
    # Rows that span the patterns, orthonormal; what rounding makes of a zero singular value is left out.
    _, s, V = torch.linalg.svd(X, full_matrices=False)
    basis = V[s > s[0] * max(X.shape) * torch.finfo(X.dtype).eps * 4]
    return (basis.T @ basis).fill_diagonal_(0.0)


def signs(where: str, states: Any) -> Tensor:
    """States (n, d) of 1 and -1 as float64, checked."""
    X = torch.as_tensor(np.asarray(states) if not isinstance(states, Tensor) else states).to(torch.float64)
    if X.ndim != 2 or not X.numel():
        raise InvalidInput(f"{where}: states have shape {tuple(X.shape)}; a row for each pattern, (n, d), is needed")
    if not bool((X.abs() == 1).all()):
        raise InvalidInput(f"{where}: states must be 1 or -1; write 2 * x - 1 for zeros and ones")
    return X


def energy(states: Tensor, W: Tensor, bias: Tensor | None = None) -> Tensor:
    r"""What recall descends, (..., d) to (...).

    .. math:: E(x) = -\tfrac{1}{2} x^\top W x + b^\top x

    >>> energy(torch.tensor([1.0, -1.0]), torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    tensor(1.)
    """
    value = -0.5 * ((states @ W) * states).sum(-1)
    return value if bias is None else value + states @ bias


def recall(
    states: Any,
    W: Tensor,
    bias: Tensor | None = None,
    *,
    dynamics: str = "asynchronous",
    max_sweeps: int = 100,
    seed: int | None = 0,
) -> Recall:
    r"""Let states (n, d) of 1 and -1 run until nothing moves.

    .. math:: x_i \leftarrow \operatorname{sign}\bigl(\textstyle\sum_j W_{ij} x_j - b_i\bigr)

    A unit whose field is 0 stays as it is. Asynchronous: one unit after another, in a random order that is the same for
    all rows, so every flip lowers the energy of a symmetric W with a diagonal of at least 0, and a fixed point is
    reached. Synchronous: all at once, which ends in a fixed point or in a cycle of two (Goles, Fogelman & Pellegrin,
    1985). max_sweeps: visits of every unit. seed: of the orders.

    >>> recall([[1, 1, 1]], store([[1, 1, -1]])).state
    tensor([[ 1.,  1., -1.]], dtype=torch.float64)
    """
    if dynamics not in DYNAMICS:
        hint = nearest(str(dynamics), DYNAMICS)
        raise InvalidInput(f"recall: dynamics is {dynamics!r}{hint}; use {' or '.join(map(repr, DYNAMICS))}")
    X = signs("recall", states)
    W = torch.as_tensor(W).to(X)
    if W.shape != (X.shape[1], X.shape[1]):
        raise InvalidInput(f"recall: W has shape {tuple(W.shape)}; ({X.shape[1]}, {X.shape[1]}) is needed")
    bias = X.new_zeros(X.shape[1]) if bias is None else torch.as_tensor(bias).to(X)
    # Fields are sums of d products; what rounding leaves of a zero must not move a unit.
    still = 8 * torch.finfo(X.dtype).eps * float(W.abs().sum(1).max() + bias.abs().max())
    if dynamics == "synchronous":
        return _together(X, W, bias, max_sweeps, still)
    orders = np_generator(seed_of(seed), "sweeps")
    return _in_turn(X.clone(memory_format=torch.contiguous_format), W, bias, max_sweeps, still, orders)


def _together(X: Tensor, W: Tensor, bias: Tensor, max_sweeps: int, still: float) -> Recall:
    trace = [energy(X, W, bias)]
    before, moved = X, torch.ones(len(X), dtype=torch.bool, device=X.device)
    for _ in range(max_sweeps):
        field = X @ W - bias
        after = torch.where(field.abs() <= still, X, field.sign())
        moved = (after != X).any(1)
        if not bool(moved.any()):
            break
        cycle = not bool((after != before).any(1)[moved].any())
        before, X = X, after
        trace.append(energy(X, W, bias))
        if cycle and len(trace) > 2:
            break
    return Recall(X, torch.stack(trace), ~moved)


def _in_turn(X: Tensor, W: Tensor, bias: Tensor, max_sweeps: int, still: float, orders: np.random.Generator) -> Recall:
    trace = [energy(X, W, bias)]
    active = torch.ones(len(X), dtype=torch.bool, device=X.device)
    for _ in range(max_sweeps):
        order = orders.permutation(X.shape[1])
        fields = X @ W - bias  # anew in every sweep, so that rounding does not add up
        if X.device.type == "cpu":
            from benthic.memory.sweeps import sweep

            flips = sweep(X.numpy(), fields.numpy(), W.contiguous().numpy(), order, still, active.numpy())
        else:
            flips = _sweep(X, fields, W, order, still, active)
        if not flips:
            break
        trace.append(energy(X, W, bias))
    return Recall(X, torch.stack(trace), ~active)


def _sweep(X: Tensor, fields: Tensor, W: Tensor, order: np.ndarray, still: float, active: Tensor) -> int:
    """One visit of every unit, all rows at a time."""
    start = X.clone()
    for i in order.tolist():
        wrong = active & (fields[:, i].abs() > still) & (fields[:, i].sign() != X[:, i])
        change = torch.where(wrong, -2 * X[:, i], 0.0)
        X[:, i] += change
        fields += change[:, None] * W[i]
    moved = (start != X).any(1)
    active &= moved
    return int(moved.sum())
