r"""Learning a pairwise Markov random field: the best tree, maximum likelihood, or pseudo-likelihood."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from benthic.chains.graph_messages import NEVER, Graph, tree_messages
from benthic.chains.graph_messages_exact import Plan, eliminate
from benthic.chains.random_field_gibbs import local_fields

_BLOCK = 1 << 22  # numbers of an intermediate table


@dataclass(frozen=True)
class Field:
    """Log-weights of states (v, k), with ``NEVER`` for states a variable lacks, and of edges (m, k, k)."""

    unary: Tensor
    pairwise: Tensor
    graph: Graph


@dataclass(frozen=True)
class Counts:
    """Frequencies with ``alpha`` rows added that are spread evenly over all states.

    codes: (n, v) states. sizes: (v,) how many states each variable has.
    """

    codes: Tensor
    sizes: Tensor
    alpha: float

    @property
    def k(self) -> int:
        """The largest number of states."""
        return int(self.sizes.max())

    @property
    def there(self) -> Tensor:
        """(v, k) which states there are."""
        return torch.arange(self.k, device=self.codes.device) < self.sizes.to(self.codes.device)[:, None]

    def one_hot(self, columns: Tensor) -> Tensor:
        """(n, c, k) indicator of the states of some variables."""
        return torch.nn.functional.one_hot(self.codes[:, columns], self.k).double()

    def single(self) -> Tensor:
        """(v, k) probability of every state."""
        n, v = self.codes.shape
        index = self.codes + self.k * torch.arange(v, device=self.codes.device)
        counts = torch.bincount(index.flatten(), minlength=v * self.k).reshape(v, self.k).double()
        even = self.there / self.sizes.to(counts)[:, None]
        return (counts + self.alpha * even) / (n + self.alpha)

    def pairs(self, edges: Tensor) -> Tensor:
        """(m, k, k) joint probabilities along edges."""
        n, k = len(self.codes), self.k
        first, second = edges.to(self.codes.device).unbind(1)
        out = []
        for part in torch.arange(len(edges), device=self.codes.device).split(max(1, _BLOCK // n)):
            index = self.codes[:, first[part]] * k + self.codes[:, second[part]]
            index = index + k * k * torch.arange(len(part), device=index.device)
            counts = torch.bincount(index.flatten(), minlength=len(part) * k * k).reshape(-1, k, k).double()
            there = self.there[first[part]][:, :, None] & self.there[second[part]][:, None, :]
            out.append((counts + self.alpha * there.double() / there.sum((1, 2), keepdim=True)) / (n + self.alpha))
        return torch.cat(out) if out else torch.zeros(0, k, k, dtype=torch.float64, device=self.codes.device)


def information(counts: Counts) -> Tensor:
    """(v, v) mutual information of all pairs of variables in nats."""
    v, k, n = counts.codes.shape[1], counts.k, len(counts.codes)
    sizes = counts.sizes.to(counts.codes.device).double()
    alone = counts.single()
    out = alone.new_zeros(v, v)
    width = max(1, _BLOCK // max(n * k, v * k * k))
    every = torch.arange(v, device=out.device)
    for part in every.split(width):
        left = counts.one_hot(part).flatten(1)  # (n, c k)
        for other in every.split(width):
            joint = (left.T @ counts.one_hot(other).flatten(1)).reshape(len(part), k, len(other), k).transpose(1, 2)
            there = counts.there[part][:, None, :, None] & counts.there[other][None, :, None, :]
            even = there / (sizes[part][:, None] * sizes[other])[..., None, None]
            joint = (joint + counts.alpha * even) / (n + counts.alpha)
            apart = (alone[part][:, None, :, None] * alone[other][None, :, None, :]).clamp(min=1e-300)
            out[part[:, None], other] = torch.xlogy(joint, joint.clamp(min=1e-300) / apart).sum((2, 3))
    return out


def best_tree(counts: Counts) -> np.ndarray:
    """(v - 1, 2) the edges of the most likely tree: most mutual information (Chow & Liu, 1968)."""
    from scipy.sparse.csgraph import minimum_spanning_tree

    shared = information(counts).cpu().numpy()
    cost = shared.max(initial=0.0) + 1.0 - np.maximum(shared, shared.T)
    np.fill_diagonal(cost, 0.0)
    found = minimum_spanning_tree(cost).tocoo()
    pairs = np.sort(np.stack([found.row, found.col], 1).astype(np.int64), 1)
    return pairs[np.lexsort(pairs.T[::-1])]


def tree_field(counts: Counts, graph: Graph) -> Field:
    r"""The most likely field of a forest, in closed form and with log Z = 0.

    .. math:: p(x) = \prod_i p_i(x_i) \prod_{ij} \frac{p_{ij}(x_i, x_j)}{p_i(x_i)\, p_j(x_j)}
    """
    single, pairs = counts.single(), counts.pairs(graph.edges)
    logs = single.clamp(min=1e-300).log()
    first, second = graph.edges.to(single.device).unbind(1)
    both = counts.there[first][:, :, None] & counts.there[second][:, None, :]
    ratio = pairs.clamp(min=1e-300).log() - logs[first][:, :, None] - logs[second][:, None, :]
    return Field(torch.where(counts.there, logs, NEVER), torch.where(both, ratio, 0.0), graph)


@dataclass(frozen=True)
class Shape:
    """How a vector of weights makes a field: one number for each state, and for each edge a table or one number.

    coupling: ``table`` or ``potts`` (a weight where both ends agree). tied: None, ``edges`` (all edges share theirs)
    or ``all`` (all variables share theirs too).
    """

    there: Tensor
    graph: Graph
    coupling: str
    tied: str | None

    def sizes(self) -> tuple[int, int]:
        """How many numbers the states and the edges take."""
        v, k = self.there.shape
        edges = 1 if self.tied else len(self.graph.edges)
        return (k if self.tied == "all" else v * k), edges * (k * k if self.coupling == "table" else 1)

    def field(self, vector: Tensor) -> Field:
        """The field of these numbers, differentiable."""
        v, k = self.there.shape
        states, edges = vector.split(self.sizes())
        unary = torch.where(self.there, states.reshape(-1, k).expand(v, k), NEVER)
        if self.coupling == "table":
            tables = edges.reshape(-1, k, k)
        else:
            tables = edges[:, None, None] * torch.eye(k, dtype=vector.dtype, device=vector.device)
        return Field(unary, tables.expand(len(self.graph.edges), k, k), self.graph)


def log_z(field: Field, order: Plan | None) -> Tensor:
    """log Z, differentiable: by messages on a forest, by elimination elsewhere."""
    if field.graph.is_forest:
        return tree_messages(field.unary[None], field.pairwise, field.graph).log_partition[0]
    return eliminate(field.unary[None], field.pairwise, field.graph, order.order if order else ())[0]


def most_likely(counts: Counts, shape: Shape, order: Plan | None, max_iter: int, tol: float) -> tuple[Field, int, bool]:
    """Maximum likelihood by L-BFGS: the marginals of the field become those of the data, as far as its shape allows.

    Returns the field, the iterations and whether the gradient vanished.
    """
    single, pairs = counts.single(), counts.pairs(shape.graph.edges)

    def loss(vector: Tensor) -> Tensor:
        field = shape.field(vector)
        seen = (single * torch.where(shape.there, field.unary, 0.0)).sum() + (pairs * field.pairwise).sum()
        return log_z(field, order) - seen

    return _minimum(loss, counts, shape, max_iter, tol)


def most_pseudo_likely(counts: Counts, shape: Shape, max_iter: int, tol: float) -> tuple[Field, int, bool]:
    """Every variable given all others (Besag, 1975), with half of alpha times the squared weights of edges."""
    codes, n = counts.codes, len(counts.codes)
    rows = codes.split(max(1, _BLOCK // max(1, 2 * len(shape.graph.edges) * counts.k)))

    def loss(vector: Tensor) -> Tensor:
        field = shape.field(vector)
        source, target, tables = shape.graph.both_ways(field.pairwise)
        total = vector.new_zeros(())
        for part in rows:
            weights = local_fields(field.unary[None], tables, source, target, part)
            total = total + weights.logsumexp(-1).sum() - weights.gather(2, part[..., None]).sum()
        edges = vector[shape.sizes()[0] :]
        return (total + 0.5 * counts.alpha * edges.square().sum()) / n

    return _minimum(loss, counts, shape, max_iter, tol)


def _minimum(
    loss: Callable[[Tensor], Tensor], counts: Counts, shape: Shape, max_iter: int, tol: float
) -> tuple[Field, int, bool]:
    from benthic.optim.minimizer import minimize

    start = torch.zeros(sum(shape.sizes()), dtype=torch.float64, device=counts.codes.device)
    logs = torch.where(shape.there, counts.single().clamp(min=1e-12).log(), 0.0)
    logs = logs.mean(0) if shape.tied == "all" else logs.flatten()
    start[: len(logs)] = logs
    found = minimize(loss, start, tol=tol, max_iter=max_iter)
    field = shape.field(found.point.detach())
    return (
        Field(field.unary, field.pairwise.contiguous(), field.graph),
        max(1, int(found.iterations)),
        bool(found.converged),
    )
