"""Draws from a field with loops by Gibbs sampling, and its normalizer by annealed importance sampling."""

from __future__ import annotations

from itertools import pairwise as successive

import numpy as np
import torch
from torch import Tensor

from benthic.chains.graph_messages import Graph, log_weight, pick


def local_fields(unary: Tensor, tables: Tensor, source: Tensor, target: Tensor, states: Tensor) -> Tensor:
    """(B, d, k) log-weights of every variable given the states (B, d) of all others.

    tables: (2m, k source, k target), every edge both ways, from ``Graph.both_ways``.
    """
    pull = tables[torch.arange(len(source), device=states.device), states[:, source]]  # (B, 2m, k)
    return unary.expand(len(states), -1, -1).index_add(1, target, pull)


class Sweeper:
    """Gibbs sweeps over all variables (Geman & Geman, 1984).

    On a processor compiled loops visit one variable after the other; elsewhere all variables of one color of the
    graph are drawn at once (Gonzalez et al., 2011).
    """

    def __init__(self, unary: Tensor, pairwise: Tensor, graph: Graph, free: Tensor | None = None) -> None:
        """unary: (1 or B, d, k). free: (B, d) which variables move; all by default."""
        self.unary, self.graph, self.pairwise = unary, graph, pairwise
        self.free = torch.ones(1, graph.n, dtype=torch.bool, device=unary.device) if free is None else free
        self.compiled = unary.device.type == "cpu"
        source, target, tables = graph.both_ways(pairwise)
        if self.compiled:
            order = target.argsort(stable=True)
            counts = torch.bincount(target, minlength=graph.n)
            self._starts = np.concatenate([[0], counts.cumsum(0).numpy()])
            self._beside = source[order].numpy()
            self._tables = tables[order].double().contiguous().numpy()
            self._unary = unary.double().contiguous().numpy()
            return
        self._groups = []
        for color in graph.colors:
            nodes = torch.tensor(color, device=unary.device)
            inside = torch.zeros(graph.n, dtype=torch.bool, device=unary.device)
            inside[nodes] = True
            edges = inside[target].nonzero().squeeze(1)
            place = torch.zeros(graph.n, dtype=torch.int64, device=unary.device)
            place[nodes] = torch.arange(len(nodes), device=unary.device)
            self._groups.append((nodes, source[edges], place[target[edges]], tables[edges]))

    def __call__(self, states: Tensor, noise: torch.Generator, beta: float = 1.0) -> Tensor:
        """One sweep of states (B, d); beta: a factor on the tables of edges."""
        return self._loops(states, noise, beta) if self.compiled else self.by_color(states, noise, beta)

    def _loops(self, states: Tensor, noise: torch.Generator, beta: float) -> Tensor:
        from benthic.chains.random_field_loops import sweep

        moved = states.clone().contiguous()
        uniform = torch.rand(states.shape, generator=noise, dtype=torch.float64).numpy()
        free = self.free.contiguous().numpy()
        sweep(moved.numpy(), self._unary, self._starts, self._beside, self._tables, float(beta), uniform, free)
        return moved

    def by_color(self, states: Tensor, noise: torch.Generator, beta: float = 1.0) -> Tensor:
        """The same by tensor operations."""
        states = states.clone()
        for nodes, source, place, tables in self._groups:
            pull = tables[torch.arange(len(source), device=states.device), states[:, source]] * beta
            weights = self.unary[:, nodes].expand(len(states), -1, -1).index_add(1, place, pull)
            states[:, nodes] = torch.where(self.free[:, nodes], pick(weights, noise), states[:, nodes])
        return states

    def edge_sums(self, states: Tensor) -> Tensor:
        """(B,) what the edges add to the log-weight of states."""
        if not self.compiled:
            return log_weight(torch.zeros_like(self.unary), self.pairwise, self.graph, states)
        from benthic.chains.random_field_loops import edge_sums

        first, second = (part.contiguous().numpy() for part in self.graph.edges.unbind(1))
        tables = self.pairwise.double().contiguous().numpy()
        return torch.from_numpy(edge_sums(states.contiguous().numpy(), first, second, tables))


def annealed_log_partition(
    unary: Tensor, pairwise: Tensor, graph: Graph, noise: torch.Generator, *, chains: int = 256, steps: int = 200
) -> tuple[float, float]:
    """log Z with its standard error, by raising the edges slowly from nothing to their strength (Neal, 2001).

    unary: (1, d, k). The mean of the weights is unbiased for Z, so its logarithm errs a little to the low side.
    """
    gibbs = Sweeper(unary, pairwise, graph)
    states = pick(unary.expand(chains, -1, -1), noise)
    weights = unary.new_zeros(chains)
    for before, beta in successive(torch.linspace(0.0, 1.0, steps + 1).tolist()):
        weights = weights + (beta - before) * gibbs.edge_sums(states)
        states = gibbs(states, noise, beta)
    ratio = (weights - weights.max()).exp()
    start = float(unary.logsumexp(-1).sum())
    value = start + float(weights.max()) + float(ratio.mean().log())
    return value, float(ratio.std() / ratio.mean() / chains**0.5)
