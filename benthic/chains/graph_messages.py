r"""Messages between discrete variables on a graph: exact on trees, by iteration on graphs with loops.

A pairwise Markov random field over variables with up to k states has

.. math:: \log p(x) = \sum_i \theta_i(x_i) + \sum_{(i, j)} \theta_{ij}(x_i, x_j) - \log Z

A message is what one side of an edge has to say about the variable on the other, with everything behind it summed
out (or maximized over). A chain is a tree in which every level has one variable; ``benthic.chains.messages`` is this
very recursion, written for steps that share one table.

Everywhere unary is (B, d, k), pairwise (m, k, k) or (B, m, k, k) with the first variable of an edge first, and
variables with fewer than k states have ``NEVER`` in place of those they lack.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from benthic.base.errors import InvalidInput

NEVER = -1e12  # the log-probability of a state that cannot be; finite, so that differences stay numbers

Reduce = Callable[[Tensor, int], Tensor]


def log_sum(values: Tensor, axis: int) -> Tensor:
    """Messages of sum-product."""
    return values.logsumexp(axis)


def largest(values: Tensor, axis: int) -> Tensor:
    """Messages of max-product."""
    return values.amax(axis)


class Level(NamedTuple):
    """Variables of one depth of a forest, their parents, and the edges to them.

    flipped: where the edge names the parent first.
    """

    children: Tensor
    parents: Tensor
    edges: Tensor
    flipped: Tensor


class Beliefs(NamedTuple):
    """What a run of messages found.

    log_partition: (B,) log Z, exact on trees, Bethe's approximation elsewhere; the largest log-weight for max-product.
    nodes: (B, d, k) and edges: (B, m, k, k) marginal probabilities, or max-marginals (the largest log-weight with
    these states held). converged: (B,), iterations, residual: the last change of a message.
    """

    log_partition: Tensor
    nodes: Tensor
    edges: Tensor
    converged: Tensor
    iterations: int
    residual: float


@dataclass(frozen=True)
class Graph:
    """Undirected edges (m, 2) between n variables, each pair once and none with itself.

    >>> path = Graph.of(3, [(0, 1), (2, 1)])
    >>> path.is_forest, len(path.levels), path.colors
    (True, 2, [[0, 2], [1]])
    """

    n: int
    edges: Tensor

    @classmethod
    def of(cls, n: int, edges: Any) -> Graph:
        """From pairs of numbers below ``n``, checked."""
        pairs = np.asarray(edges if len(edges) else np.zeros((0, 2)))
        if pairs.ndim != 2 or pairs.shape[1] != 2 or not np.array_equal(pairs, pairs.astype(np.int64)):
            raise InvalidInput(f"edges have shape {pairs.shape}; they are pairs of whole numbers (m, 2)")
        pairs = pairs.astype(np.int64)
        if len(pairs) and (pairs.min() < 0 or pairs.max() >= n):
            raise InvalidInput(f"an edge names variable {int(pairs.max())}; variables are 0 to {n - 1}")
        if (pairs[:, 0] == pairs[:, 1]).any():
            loop = int(pairs[(pairs[:, 0] == pairs[:, 1]).argmax(), 0])
            raise InvalidInput(f"an edge joins variable {loop} with itself; drop it")
        seen = np.unique(np.sort(pairs, 1), axis=0)
        if len(seen) < len(pairs):
            raise InvalidInput(f"{len(pairs) - len(seen)} edges are named twice; name each pair once")
        return cls(n, torch.from_numpy(pairs))

    @cached_property
    def neighbors(self) -> list[list[tuple[int, int]]]:
        """For every variable the variables beside it and the edges to them."""
        around: list[list[tuple[int, int]]] = [[] for _ in range(self.n)]
        for edge, (i, j) in enumerate(self.edges.tolist()):
            around[i].append((j, edge))
            around[j].append((i, edge))
        return around

    @cached_property
    def _walk(self) -> tuple[list[int], list[list[tuple[int, int, int]]]]:
        """Roots, and (child, parent, edge) of every depth, breadth first; edges that close loops are left out."""
        seen, roots, layers = [False] * self.n, [], []
        for root in range(self.n):
            if seen[root]:
                continue
            seen[root] = True
            roots.append(root)
            layer, depth = [root], 0
            while layer:
                found = []
                for parent in layer:
                    for child, edge in self.neighbors[parent]:
                        if not seen[child]:
                            seen[child] = True
                            found.append((child, parent, edge))
                if found and depth == len(layers):
                    layers.append([])
                if found:
                    layers[depth].extend(found)
                layer, depth = [child for child, _, _ in found], depth + 1
        return roots, layers

    @property
    def roots(self) -> list[int]:
        """One variable of every connected part."""
        return self._walk[0]

    @property
    def is_forest(self) -> bool:
        """Whether there are no loops."""
        return len(self.edges) == self.n - len(self.roots)

    @cached_property
    def levels(self) -> list[Level]:
        """The depths of the forest below its roots, from the top."""
        out = []
        for layer in self._walk[1]:
            child, parent, edge = (torch.tensor(part) for part in zip(*layer, strict=True))
            out.append(Level(child, parent, edge, self.edges[edge, 0] == parent))
        return out

    @cached_property
    def colors(self) -> list[list[int]]:
        """Variables in groups without an edge inside, greedily, so that each group can be drawn at once."""
        color: list[int] = [-1] * self.n
        order = range(self.n) if self._regular else sorted(range(self.n), key=lambda i: -len(self.neighbors[i]))
        for i in order:
            taken = {color[j] for j, _ in self.neighbors[i]}
            color[i] = next(c for c in range(self.n + 1) if c not in taken)
        return [[i for i in range(self.n) if color[i] == c] for c in range(max(color, default=-1) + 1)]

    @property
    def _regular(self) -> bool:
        """Whether no variable has more than four neighbors, as on a grid, where the given order is best."""
        return all(len(around) <= 4 for around in self.neighbors)

    def both_ways(self, pairwise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Every edge in both directions: sources (2m,), targets (2m,), tables (..., 2m, k source, k target)."""
        ends = self.edges.to(pairwise.device)
        tables = torch.cat([pairwise, pairwise.transpose(-1, -2)], -3)
        return torch.cat([ends[:, 0], ends[:, 1]]), torch.cat([ends[:, 1], ends[:, 0]]), tables


def grid_edges(height: int, width: int) -> np.ndarray:
    """(m, 2) the edges of a picture: every pixel with those beside and below it, in reading order.

    >>> grid_edges(2, 2).tolist()
    [[0, 1], [2, 3], [0, 2], [1, 3]]
    """
    place = np.arange(height * width).reshape(height, width)
    across = np.stack([place[:, :-1].ravel(), place[:, 1:].ravel()], 1)
    down = np.stack([place[:-1].ravel(), place[1:].ravel()], 1)
    return np.concatenate([across, down])


def _oriented(pairwise: Tensor, level: Level) -> Tensor:
    """(..., c, k child, k parent) the tables of the edges of one level."""
    tables = pairwise[..., level.edges.to(pairwise.device), :, :]
    flipped = level.flipped.to(pairwise.device)[:, None, None]
    return torch.where(flipped, tables.transpose(-1, -2), tables)


def _upward(unary: Tensor, pairwise: Tensor, graph: Graph, reduce: Reduce) -> tuple[Tensor, list[Tensor], Tensor]:
    """Beliefs with all that is below summed in (B, d, k), the messages of each level, and log Z (B,)."""
    _check_forest(graph)
    belief, messages = unary, []
    for level in reversed(graph.levels):
        below = belief[:, level.children.to(unary.device)]
        message = reduce(below[..., None] + _oriented(pairwise, level), -2)  # (B, c, k parent)
        belief = belief.index_add(1, level.parents.to(unary.device), message)
        messages.append(message)
    roots = torch.tensor(graph.roots, device=unary.device)
    return belief, messages[::-1], reduce(belief[:, roots], -1).sum(1)


def tree_messages(unary: Tensor, pairwise: Tensor, graph: Graph, reduce: Reduce = log_sum) -> Beliefs:
    """Exact marginals (or max-marginals, with ``largest``) of a forest by one pass up and one down (Pearl, 1982).

    >>> chain = Graph.of(2, [(0, 1)])
    >>> found = tree_messages(torch.zeros(1, 2, 2), torch.tensor([[[1.0, 0.0], [0.0, 1.0]]]), chain)
    >>> float(found.log_partition.exp() - (2 * torch.e + 2)) < 1e-5, found.nodes[0, 0].tolist()
    (True, [0.5, 0.5])
    """
    up, messages, total = _upward(unary, pairwise, graph, reduce)
    belief, (n, _, k) = up, unary.shape
    edges = unary.new_zeros(n, len(graph.edges), k, k)
    for level, message in zip(graph.levels, messages, strict=True):
        tables = _oriented(pairwise, level)
        cavity = belief[:, level.parents.to(unary.device)] - message  # the parent without this child
        belief = belief.index_add(1, level.children.to(unary.device), reduce(cavity[..., None, :] + tables, -1))
        joint = up[:, level.children.to(unary.device)][..., None] + tables + cavity[..., None, :]
        flipped = level.flipped.to(unary.device)[:, None, None]
        edges = edges.index_copy(1, level.edges.to(unary.device), torch.where(flipped, joint.transpose(-1, -2), joint))
    if reduce is log_sum:
        belief, edges = belief.softmax(-1), edges.flatten(2).softmax(-1).reshape(edges.shape)
    return Beliefs(total, belief, edges, torch.ones(n, dtype=torch.bool, device=unary.device), 2, 0.0)


def tree_states(
    unary: Tensor, pairwise: Tensor, graph: Graph, noise: torch.Generator | None = None
) -> tuple[Tensor, Tensor]:
    """One state for every variable (B, d): the most probable, or with ``noise`` an exact draw; and the log Z (B,).

    Without noise the second is the log-weight of the states found (Viterbi on a tree).
    """
    up, _, total = _upward(unary, pairwise, graph, largest if noise is None else log_sum)
    states = torch.zeros(unary.shape[:2], dtype=torch.int64, device=unary.device)
    roots = torch.tensor(graph.roots, device=unary.device)
    states[:, roots] = pick(up[:, roots], noise)
    for level in graph.levels:
        children, tables = level.children.to(unary.device), _oriented(pairwise, level)
        tables = tables.expand(len(unary), *tables.shape[-3:])
        above = states[:, level.parents.to(unary.device)][:, :, None, None].expand(-1, -1, tables.shape[-2], 1)
        states[:, children] = pick(up[:, children] + tables.gather(-1, above)[..., 0], noise)
    return states, total


def pick(weights: Tensor, noise: torch.Generator | None) -> Tensor:
    """(...) from log-weights (..., k) the largest, or a draw by Gumbel's trick."""
    if noise is None:
        return weights.argmax(-1)
    uniform = torch.rand(weights.shape, generator=noise, dtype=torch.float64).clamp(1e-300, 1 - 1e-16)
    return (weights - (-uniform.log()).log().to(weights.device)).argmax(-1)


def loopy_messages(
    unary: Tensor,
    pairwise: Tensor,
    graph: Graph,
    reduce: Reduce = log_sum,
    *,
    damping: float = 0.5,
    max_iter: int = 200,
    tol: float = 1e-6,
) -> Beliefs:
    r"""Marginals of a graph with loops by passing messages until they stand still; exact on trees.

    Every message is replaced by a mean of the old (weight ``damping``) and the new one, in logarithms, until none
    changes by ``tol``. log Z is Bethe's (Yedidia, Freeman & Weiss, 2003):

    .. math:: \sum_i E[\theta_i] + \sum_{ij} E[\theta_{ij}] + \sum_{ij} H(b_{ij}) - \sum_i (n_i - 1) H(b_i)
    """
    source, target, tables = graph.both_ways(pairwise)
    m, (n, _, k) = len(graph.edges), unary.shape
    messages = unary.new_zeros(n, 2 * m, k)
    back = torch.arange(2 * m, device=unary.device).roll(m)
    change, steps = unary.new_zeros(n), 0
    while m and steps < max_iter:
        steps += 1
        belief = unary.index_add(1, target, messages)
        cavity = belief[:, source] - messages[:, back]
        fresh = reduce(cavity[..., None] + tables, -2)
        fresh = fresh - fresh.amax(-1, keepdim=True)
        change = (fresh - messages).abs().flatten(1).amax(1)
        messages = damping * messages + (1 - damping) * fresh
        if float(change.max()) < tol:
            break
    belief = unary.index_add(1, target, messages)
    cavity = belief[:, source] - messages[:, back]
    joint = cavity[:, :m, :, None] + tables[..., :m, :, :] + cavity[:, m:, None, :]
    converged, residual = change < tol, float(change.max()) if n else 0.0
    if reduce is not log_sum:
        states = belief.argmax(-1)
        return Beliefs(log_weight(unary, pairwise, graph, states), belief, joint, converged, steps, residual)
    nodes, edges = belief.softmax(-1), joint.flatten(2).softmax(-1).reshape(joint.shape)
    return Beliefs(_bethe(unary, pairwise, graph, nodes, edges), nodes, edges, converged, steps, residual)


def _bethe(unary: Tensor, pairwise: Tensor, graph: Graph, nodes: Tensor, edges: Tensor) -> Tensor:
    degree = torch.bincount(graph.edges.flatten(), minlength=graph.n).to(nodes)
    energy = (nodes * unary.clamp(min=NEVER)).flatten(1).sum(1) + (edges * pairwise).flatten(1).sum(1)
    single = torch.special.entr(nodes).sum(-1)
    return energy + torch.special.entr(edges).flatten(1).sum(1) - (single * (degree - 1)).sum(1)


def log_weight(unary: Tensor, pairwise: Tensor, graph: Graph, states: Tensor) -> Tensor:
    """(B,) the log-probability of states (B, d) up to log Z."""
    first, second = graph.edges.to(states.device).unbind(1)
    alone = unary.expand(len(states), -1, -1).gather(2, states[..., None]).flatten(1).sum(1)
    places = torch.arange(len(graph.edges), device=states.device)
    if pairwise.ndim == 4:
        rows = torch.arange(len(states), device=states.device)[:, None]
        return alone + pairwise[rows, places, states[:, first], states[:, second]].sum(1)
    return alone + pairwise[places, states[:, first], states[:, second]].sum(1)


def _check_forest(graph: Graph) -> None:
    if not graph.is_forest:
        raise InvalidInput(
            f"the graph has loops ({len(graph.edges)} edges, a forest on {graph.n} variables in {len(graph.roots)} "
            f"parts has {graph.n - len(graph.roots)}); use loopy_messages or eliminate"
        )
