"""Exact nearest neighbors: by matrix products and groups of columns, by compiled loops, or by a tree of boxes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.base.threads import Crew, one_torch_thread, threads
from benthic.kernels.distances import coordinates, covariance_of, pairwise
from benthic.kernels.grouping import GROUP, by_products, frame, minima_of
from benthic.kernels.points import as_pair, tile

# Reduced distances that compiled loops know, in the order of benthic.kernels.loops.
_KINDS = {"manhattan": 1, "chebyshev": 2, "minkowski": 3, "hamming": 4}
_STRAIGHT = ("euclidean", "sqeuclidean", "cosine", "mahalanobis")  # Euclidean in the right coordinates
_FEW = 1 << 15  # distances up to which a matrix product is not worth its preparation
_HEIGHT = 256  # queries of a tile, which one thread takes at a time
_LEAF = 16  # most points at the end of a branch


def nearest(
    X: Any, Y: Any = None, k: int = 1, metric: Any = "euclidean", *, elements: int | None = None, **options: Any
) -> tuple[Tensor, Tensor]:
    """The k nearest rows of Y for each row of X, by exact search; the (n, m) matrix is never held.

    Euclidean searches go through matrix products, which round. What they cannot rule out is measured directly, so the
    neighbors are those of a search in float64 without products. Of equal distances the lower index comes first.

    X: (n, d). Y: (m, d); when None, the other rows of X. k: how many. metric, options: as in
    :func:`~benthic.kernels.distances.pairwise`, or a function of two tensors (..., d) that returns distances (...).
    elements: entries of a tile. Returns distances (n, k), ascending and differentiable, and indices (n, k).

    >>> nearest([[0.0], [10.0]], [[1.0], [4.0], [9.0]], k=2)[1]
    tensor([[0, 1],
            [2, 1]])
    """
    alone = Y is None
    X, Y = as_pair("nearest", X, X if alone else Y)
    choices = len(Y) - alone
    if not 1 <= k <= choices:
        raise InvalidInput(f"nearest: k is {k} and there are {choices} points to choose from; take 1 to that many")
    if metric == "mahalanobis" and options.get("precision") is None and options.get("covariance") is None:
        options["covariance"] = covariance_of(X, Y)  # of all points, not of a tile
    own = torch.arange(len(X), device=X.device) if alone else None
    _, index = search(X.detach(), Y.detach(), k, metric, own=own, elements=elements, **options)
    height = max(1, tile(len(X), len(Y), elements, X.device)[0])
    values = []
    for top in range(0, len(X), height):
        rows = slice(top, top + height)
        values.append(_measured(X[rows].unsqueeze(-2), Y[index[rows]], metric, options).squeeze(-2))
    value, order = torch.cat(values).sort(dim=1, stable=True)
    return value, index.gather(1, order)


@dataclass(frozen=True)
class Tree:
    """A tree of boxes over points.

    points: (n, d) in the order of the tree. order: (n,) their places in the data. ends: (nodes, 2) first and last row
    of each node. lower, upper: (nodes, d) the boxes.
    """

    points: np.ndarray
    order: np.ndarray
    ends: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


def plant(Y: Tensor, leaf_size: int = _LEAF) -> Tree:
    """A balanced k-d tree over the rows of Y (n, d), for :func:`search`; in the processor's memory.

    leaf_size: the most points at the end of a branch. Bentley, 1975.

    >>> plant(torch.tensor([[0.0], [1.0], [2.0]]), 1).order.tolist()
    [0, 1, 2]
    """
    from benthic.kernels import loops

    points = np.array(Y.detach().cpu().numpy(), order="C")
    depth = 0
    while len(points) > leaf_size << depth:
        depth += 1
    nodes, d = (2 << depth) - 1, points.shape[1]
    lower, upper = np.empty((nodes, d), points.dtype), np.empty((nodes, d), points.dtype)
    order, ends = np.arange(len(points)), np.empty((nodes, 2), np.int64)
    loops.plant(points, order, ends, lower, upper)
    return Tree(points, order, ends, lower, upper)


def search(
    X: Tensor,
    Y: Tensor,
    k: int,
    metric: Any = "euclidean",
    *,
    own: Tensor | None = None,
    tree: Tree | None = None,
    elements: int | None = None,
    n_jobs: int | None = None,
    **options: Any,
) -> tuple[Tensor, Tensor]:
    """The k nearest rows of Y (m, d) for every row of X (n, d): float64 distances (n, k) and indices, no gradient.

    Ordered by distance, then by index. own: (n,) for each row of X a row of Y that does not count. tree: of
    :func:`plant` over Y in the coordinates of the metric, to walk down instead. elements: entries of a tile.
    n_jobs: threads of the compiled loops; None for as many as torch uses. Inputs are checked by the caller.
    """
    p = float(options.get("p", 3.0))
    if metric == "minkowski" and not p > 0:
        raise InvalidInput(f"nearest: p is {p}; the power of a Minkowski distance must be positive")
    name = _simplest(metric, p)
    if name in _STRAIGHT:
        A, B = flat(X, Y, name, options)
        if X.device.type == "cpu":
            found = _by_groups(A, B, k, own, elements, n_jobs) if tree is None else _walk(A, tree, k, 0, p, own, n_jobs)
        else:
            found = _on_device(A, B, k, own, elements)
    elif name in _KINDS and X.device.type == "cpu":
        kind = _KINDS[name]
        A, B = X, Y
        found = _scan(A, B, k, kind, p, own, n_jobs) if tree is None else _walk(A, tree, k, kind, p, own, n_jobs)
    else:
        return _directly(X, Y, k, own, elements, lambda a, b: _measured(a, b, metric, options))
    return _true(found[0], name, p, X.shape[1]), found[1]


def flat(X: Tensor, Y: Tensor, metric: str, options: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """Both in coordinates where this metric orders points as the Euclidean distance does."""
    if metric in ("euclidean", "sqeuclidean"):
        return X, Y
    matrices = {name: options[name] for name in ("covariance", "precision") if options.get(name) is not None}
    found = coordinates(X.double(), Y.double(), metric, **matrices)
    return X if found is None else found[0], Y if found is None else found[1]


def straight(metric: Any, p: float = 3.0) -> bool:
    """Whether a metric is the Euclidean one in some coordinates."""
    return _simplest(metric, p) in _STRAIGHT


def treelike(metric: Any, p: float = 3.0) -> bool:
    """Whether boxes bound this distance, so that a tree finds its neighbors."""
    name = _simplest(metric, p)
    return name in _STRAIGHT or (name in _KINDS and name != "hamming")


def _simplest(metric: Any, p: float) -> Any:
    if metric == "minkowski":
        return {1.0: "manhattan", 2.0: "euclidean", float("inf"): "chebyshev"}.get(float(p), metric)
    return metric


def _true(reduced: Tensor, metric: str, p: float, d: int) -> Tensor:
    """Distances from what the loops return."""
    if metric in ("euclidean", "mahalanobis"):
        return reduced.sqrt()
    if metric == "minkowski":
        return reduced ** (1 / p)
    return reduced / {"cosine": 2, "hamming": d}.get(metric, 1)


def _measured(X: Tensor, Y: Tensor, metric: Any, options: dict[str, Any]) -> Tensor:
    """Distances (..., n, m) by name or by the caller's function."""
    if not callable(metric):
        return pairwise(X, Y, metric, **options)
    found = metric(X.unsqueeze(-2), Y.unsqueeze(-3))
    shape = (*X.shape[:-1], Y.shape[-2])
    if not isinstance(found, Tensor) or tuple(found.shape) != shape:
        got = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
        raise InvalidInput(
            f"nearest: metric returned {got} for points of shapes {tuple(X.unsqueeze(-2).shape)} and "
            f"{tuple(Y.unsqueeze(-3).shape)}; it must reduce the last dimension, to {shape}"
        )
    return found


# ------------------------------------------------------------------------------------------------ on a processor


def _shared(work: Callable[[int, int], Any], n: int, n_jobs: int | None, least: int = 64, most: int = 4096) -> None:
    """Do work(start, stop) for parts of n rows, each in one thread from beginning to end.

    least, most: rows of a part; four parts for each thread where that is possible.
    """
    count = threads(n_jobs, torch.get_num_threads())
    share = min(max(least, -(-n // (4 * count))), most)
    parts = [(start, min(start + share, n)) for start in range(0, n, share)]
    with Crew(min(count, len(parts))) as crew:
        crew.each(lambda part: work(*part), parts)


def _arrays(A: Tensor, B: Tensor, k: int, own: Tensor | None) -> tuple[np.ndarray, ...]:
    """Points of one type as arrays, the rows that do not count, and empty results."""
    dtype = torch.promote_types(A.dtype, B.dtype)
    X, Y = (points.to(dtype).contiguous().numpy() for points in (A, B))
    skip = np.full(len(X), -1) if own is None else own.numpy()
    return X, Y, skip, np.full((len(X), k), np.inf), np.full((len(X), k), len(Y))


def _scan(
    A: Tensor, B: Tensor, k: int, kind: int, p: float, own: Tensor | None, n_jobs: int | None
) -> tuple[Tensor, Tensor]:
    from benthic.kernels import loops

    X, Y, skip, best, where = _arrays(A, B, k, own)
    _shared(lambda start, stop: loops.scan(X, Y, skip, kind, p, best, where, start, stop), len(X), n_jobs)
    return torch.from_numpy(best), torch.from_numpy(where)


def _walk(
    A: Tensor, tree: Tree, k: int, kind: int, p: float, own: Tensor | None, n_jobs: int | None
) -> tuple[Tensor, Tensor]:
    from benthic.kernels import loops

    points = torch.from_numpy(tree.points)
    X, _, skip, best, where = _arrays(A, points, k, own)
    parts = (tree.points.astype(X.dtype, copy=False), tree.order, tree.ends, tree.lower, tree.upper)
    parts = tuple(part.astype(X.dtype, copy=False) if part.dtype.kind == "f" else part for part in parts)
    _shared(lambda start, stop: loops.descend(X, *parts, skip, kind, p, best, where, start, stop), len(X), n_jobs)
    return torch.from_numpy(best), torch.from_numpy(where)


def _by_groups(
    A: Tensor, B: Tensor, k: int, own: Tensor | None, elements: int | None, n_jobs: int | None
) -> tuple[Tensor, Tensor]:
    """Single-precision products bound the distances to groups of points; loops measure those that matter."""
    from benthic.kernels import loops

    groups = len(B) // GROUP
    if len(A) * len(B) <= _FEW or groups < 4 * k:
        return _scan(A, B, k, 0, 2.0, own, n_jobs)
    X, Y, skip, best, where = _arrays(A, B, k, own)
    height = max(1, min(len(X), _HEIGHT, (elements or 1 << 22) // groups))
    width = max(1, min(len(Y), (elements or 1 << 19) // height) // GROUP) * GROUP
    n_jobs = threads(n_jobs, torch.get_num_threads())

    def part(start: int, stop: int) -> None:
        rows = slice(start, stop)
        minima, reach = (found.numpy() for found in minima_of(made, rows, width))
        # The slices are views, so the results land in their rows.
        loops.refine(
            X[rows], Y, skip[rows], minima, reach, made.unit**2, width, GROUP, best[rows], where[rows], 0, stop - start
        )

    with one_torch_thread():
        made = frame(A, B)
        _shared(part, len(X), n_jobs, least=min(16, height), most=height)
    return torch.from_numpy(best), torch.from_numpy(where)


# --------------------------------------------------------------------------------------------------- on a device


def _on_device(A: Tensor, B: Tensor, k: int, own: Tensor | None, elements: int | None) -> tuple[Tensor, Tensor]:
    """Products in halves of single precision, and what they leave in doubt by subtraction."""

    def exactly(a: Tensor, b: Tensor) -> Tensor:
        return torch.cdist(a.double(), b.double(), compute_mode="donot_use_mm_for_euclid_dist").square_()

    if len(B) // GROUP < 4 * k:
        return _directly(A, B, k, own, elements, exactly)
    near, index = by_products(A, B, k, own, elements)
    doubt = torch.nonzero(index[:, 0] < 0).squeeze(1)
    if len(doubt):
        skip = None if own is None else own[doubt]
        near[doubt], index[doubt] = _directly(A[doubt], B, k, skip, elements, exactly)
    return near, index


def _directly(
    X: Tensor,
    Y: Tensor,
    k: int,
    own: Tensor | None,
    elements: int | None,
    distance: Callable[[Tensor, Tensor], Tensor],
) -> tuple[Tensor, Tensor]:
    """All distances, a tile at a time; ordered by distance, then index."""
    if elements is None:
        elements = (1 << 20 if X.device.type == "cpu" else 1 << 26) // X.shape[1]
    height, width = tile(len(X), len(Y), max(1, elements), X.device)
    values, indices = [], []
    for top in range(0, len(X), height):
        rows = X[top : top + height].double()
        best = rows.new_full((len(rows), k), torch.inf)
        index = torch.full((len(rows), k), len(Y), device=X.device)
        for left in range(0, len(Y), width):
            D = distance(rows, Y[left : left + width].double()).double()
            if own is not None:
                _strike(D, own[top : top + height], left)
            best, index = _merged(best, index, D, left)
        values.append(best)
        indices.append(index)
    return torch.cat(values), torch.cat(indices)


def _strike(D: Tensor, own: Tensor, left: int) -> None:
    """Put each row's own column, where it lies in this tile, out of reach."""
    row = torch.nonzero((own >= left) & (own < left + D.shape[1])).squeeze(1)
    D[row, own[row] - left] = torch.inf


def _merged(best: Tensor, index: Tensor, D: Tensor, left: int) -> tuple[Tensor, Tensor]:
    """The first of what was found before and of a tile; earlier columns come first among equals."""
    k = best.shape[1]
    if D.shape[1] > k:
        last = D.topk(k, largest=False).values[:, -1:]
        tied = last == D
        room = k - (last > D).sum(1, keepdim=True)
        keep = (last > D) | (tied & (tied.cumsum(1) <= room))  # exactly k in every row
        column = keep.nonzero()[:, 1].reshape(len(D), k)
    else:
        column = torch.arange(D.shape[1], device=D.device).expand(len(D), -1)
    value = torch.cat([best, D.gather(1, column)], 1)
    column = torch.cat([index, column + left], 1)
    value, order = value.sort(dim=1, stable=True)
    return value[:, :k], column.gather(1, order)[:, :k]
