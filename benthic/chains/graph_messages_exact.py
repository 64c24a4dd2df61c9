"""Exact sums over graphs with loops: variables are eliminated one by one, as long as the tables stay small."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce as fold

import torch
from torch import Tensor

from benthic.chains.graph_messages import Beliefs, Graph, Reduce, largest, log_sum, pick

MOST_CELLS = 1 << 20  # of the largest table


@dataclass(frozen=True)
class Plan:
    """An order of the variables, and the number of cells of the largest table it makes."""

    order: tuple[int, ...]
    cells: int


def plan(graph: Graph, states: list[int], most: int = MOST_CELLS) -> Plan:
    """Eliminate next the variable whose neighbors need the fewest new edges, then the smallest table (min-fill).

    Stops with an empty order where a table exceeds ``most`` cells.

    >>> plan(Graph.of(4, [(0, 1), (1, 2), (2, 3), (3, 0)]), [2, 2, 2, 2]).cells
    8
    """
    around = [{j for j, _ in beside} for beside in graph.neighbors]
    order: list[int] = []
    cells = 1

    def cost(i: int) -> tuple[int, int, int]:
        beside = around[i]
        fill = sum(len(beside - around[a]) - 1 for a in beside)  # every missing edge twice
        return fill, _size(beside, states), i

    costs = {i: cost(i) for i in range(graph.n)}
    while costs:
        chosen = min(costs.values())[2]
        beside = around[chosen]
        cells = max(cells, _size([chosen, *beside], states))
        if cells > most:
            return Plan((), cells)
        for a in beside:
            around[a] |= beside - {a}
            around[a].discard(chosen)
        del costs[chosen]
        order.append(chosen)
        touched = beside.union(*(around[a] for a in beside)) if beside else set()
        costs.update({a: cost(a) for a in touched})
    return Plan(tuple(order), cells)


def _size(variables: Iterable[int], states: list[int]) -> int:
    return fold(lambda a, b: a * b, (states[i] for i in variables), 1)


Factor = tuple[tuple[int, ...], Tensor]  # variables, and a table (B or 1, k, ..., k) with one axis for each


def _join(factors: list[Factor], last: int) -> Factor:
    """One table over all variables of these, with ``last`` on the last axis."""
    variables = (*sorted({v for names, _ in factors for v in names} - {last}), last)
    total = factors[0][1].new_zeros(())
    for names, table in factors:
        axes = [names.index(v) + 1 for v in variables if v in names]
        shape = [table.shape[0], *(table.shape[names.index(v) + 1] if v in names else 1 for v in variables)]
        total = total + table.permute(0, *axes).reshape(shape)
    return variables, total


def _run(
    unary: Tensor, pairwise: Tensor, graph: Graph, order: tuple[int, ...], reduce: Reduce
) -> tuple[Tensor, list[Factor]]:
    """log Z (B,) and, for every variable in order, the table it was summed out of."""
    tables = pairwise if pairwise.ndim == 4 else pairwise[None]
    factors: list[Factor] = [((i,), unary[:, i]) for i in range(graph.n)]
    factors += [((int(i), int(j)), tables[:, e]) for e, (i, j) in enumerate(graph.edges.tolist())]
    total, buckets = unary.new_zeros(len(unary)), []
    for variable in order:
        joined = _join([factor for factor in factors if variable in factor[0]], variable)
        factors = [factor for factor in factors if variable not in factor[0]]
        buckets.append(joined)
        rest = reduce(joined[1], -1)
        if len(joined[0]) == 1:
            total = total + rest
        else:
            factors.append((joined[0][:-1], rest))
    return total, buckets


def eliminate(
    unary: Tensor, pairwise: Tensor, graph: Graph, order: tuple[int, ...], reduce: Reduce = log_sum
) -> Tensor:
    """(B,) log Z by eliminating variables in this order, differentiable (Zhang & Poole, 1994; Dechter, 1999)."""
    return _run(unary, pairwise, graph, order, reduce)[0]


def eliminated_beliefs(unary: Tensor, pairwise: Tensor, graph: Graph, order: tuple[int, ...]) -> Beliefs:
    """Exact marginals: the derivatives of log Z by the log-weights."""
    with torch.enable_grad():
        alone = unary.detach().clone().requires_grad_()
        tables = pairwise if pairwise.ndim == 4 else pairwise[None].expand(len(unary), -1, -1, -1)
        pairs = tables.detach().clone().requires_grad_()
        total = eliminate(alone, pairs, graph, order)
        nodes, edges = torch.autograd.grad(total.sum(), (alone, pairs), allow_unused=True)
    edges = torch.zeros_like(pairs) if edges is None else edges
    done = torch.ones(len(unary), dtype=torch.bool, device=unary.device)
    return Beliefs(total.detach(), nodes, edges, done, 1, 0.0)


def eliminated_states(
    unary: Tensor, pairwise: Tensor, graph: Graph, order: tuple[int, ...], noise: torch.Generator | None = None
) -> tuple[Tensor, Tensor]:
    """(B, d) the most probable states, or with ``noise`` exact draws, and log Z, as in ``tree_states``."""
    total, buckets = _run(unary, pairwise, graph, order, largest if noise is None else log_sum)
    n = len(unary)
    states = torch.zeros(n, graph.n, dtype=torch.int64, device=unary.device)
    rows = torch.arange(n, device=unary.device)
    for variables, table in reversed(buckets):
        index = (rows if len(table) == n else torch.zeros_like(rows), *(states[:, v] for v in variables[:-1]))
        states[:, variables[-1]] = pick(table[index], noise)
    return states, total
