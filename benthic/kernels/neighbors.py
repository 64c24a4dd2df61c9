"""Exact nearest neighbors by search over tiles."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.kernels.distances import coordinates, covariance_of, pairwise
from benthic.kernels.points import as_pair, tile

# Columns are compared in groups of so many before the best of them are looked at one by one.
_GROUP = 16


def nearest(
    X: Any, Y: Any = None, k: int = 1, metric: str = "euclidean", *, elements: int | None = None, **options: Any
) -> tuple[Tensor, Tensor]:
    """The k nearest rows of Y for each row of X, by exact search over tiles; the (n, m) matrix is never held.

    Euclidean searches go through matrix products, which round. A few candidates more than k are measured directly,
    and where rounding could still have hidden a neighbor, the row is searched again without products.

    X: (n, d). Y: (m, d); when None, the other rows of X. k: how many. metric, options: as in
    :func:`~benthic.kernels.distances.pairwise`. elements: entries of a tile.
    Returns distances (n, k), ascending and differentiable, and indices (n, k).

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
    with torch.no_grad():
        matrices = {name: options[name] for name in ("covariance", "precision") if name in options}
        both = coordinates(X, Y, metric, **matrices)
        if both is not None:
            center = both[1].mean(0)  # products round least around zero
            both = both[0] - center, both[1] - center
    height, width = _tile(len(X), len(Y), elements, X.device)
    found, values = [], []
    for top in range(0, len(X), height):
        rows = slice(top, min(top + height, len(X)))
        own = torch.arange(rows.start, rows.stop, device=X.device) if alone else None
        with torch.no_grad():
            index = None if both is None else _by_products(both[0][rows], both[1], k, width, own)
            if index is None:
                index = _directly(X[rows], Y, k, width, own, metric, options)
            elif bool((index < 0).any()):
                doubt = (index < 0).any(1)
                index[doubt] = _directly(
                    X[rows][doubt], Y, k, width, None if own is None else own[doubt], metric, options
                )
        near = pairwise(X[rows].unsqueeze(-2), Y[index], metric, **options)  # (b, 1, d), (b, k, d) -> (b, 1, k)
        found.append(index)
        values.append(near.squeeze(-2))
    value, order = torch.cat(values).sort(1)
    return value, torch.cat(found).gather(1, order)


def _tile(n: int, m: int, elements: int | None, device: torch.device) -> tuple[int, int]:
    """Wide tiles, of which the best columns are a small part."""
    height, width = tile(n, m, elements, device)
    stretch = max(1, min(8, height // 64, m // width))
    return max(1, height // stretch), min(m, width * stretch)


def _by_products(A: Tensor, B: Tensor, k: int, width: int, own: Tensor | None) -> Tensor:
    """Indices (b, k) of the nearest rows of B; -1 where rounding of the products leaves a doubt."""
    a2, b2 = A.square().sum(1, keepdim=True), B.square().sum(1)
    # A bound on the rounding of a dot product of d + 2 terms.
    slack = (A.shape[1] + 4) * torch.finfo(A.dtype).eps * (a2 + b2.max())
    count = min(len(B) - (own is not None), 2 * k + 8)
    best = A.new_full((len(A), count), torch.inf)
    index = torch.zeros(len(A), count, dtype=torch.long, device=A.device)
    for left in range(0, len(B), width):
        columns = slice(left, left + width)
        score = torch.addmm(b2[columns], A, B[columns].T, alpha=-2)  # the squared distance less a2
        best, index = _merged(best, index, _without(score, own, left), left)
    apart = (A.unsqueeze(1) - B[index]).square().sum(-1)  # (b, count), subtracted directly
    close, order = apart.sort(1)
    index = index.gather(1, order)[:, :k]
    if count < len(B) - (own is not None):
        beyond = best.max(1, keepdim=True).values + a2 - slack  # no other point is nearer than this
        index = index.masked_fill(close[:, k - 1 : k] > beyond, -1)
    return index


def _directly(
    rows: Tensor, Y: Tensor, k: int, width: int, own: Tensor | None, metric: str, options: dict[str, Any]
) -> Tensor:
    best = rows.new_full((len(rows), k), torch.inf)
    index = torch.zeros(len(rows), k, dtype=torch.long, device=rows.device)
    for left in range(0, len(Y), width):
        D = pairwise(rows, Y[left : left + width], metric, **options)
        best, index = _merged(best, index, _without(D, own, left), left)
    return index


def _without(D: Tensor, own: Tensor | None, left: int) -> Tensor:
    """D with each row's own column, where it lies in this tile, out of reach."""
    if own is not None:
        row = torch.nonzero((own >= left) & (own < left + D.shape[1])).squeeze(1)
        D[row, own[row] - left] = torch.inf
    return D


def _merged(best: Tensor, index: Tensor, D: Tensor, left: int) -> tuple[Tensor, Tensor]:
    """The smallest of what was found before and of a tile."""
    value, column = _smallest(D, min(best.shape[1], D.shape[1]))
    value, column = torch.cat([best, value], 1), torch.cat([index, column + left], 1)
    best, keep = value.topk(best.shape[1], largest=False)
    return best, column.gather(1, keep)


def _smallest(D: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k smallest of every row and their columns: they lie in the k groups with the smallest minima."""
    groups = D.shape[1] // _GROUP
    if groups < 4 * k:
        return D.topk(k, largest=False)
    grid = D[:, : groups * _GROUP].unflatten(1, (_GROUP, groups))
    near = grid.amin(1).topk(k, largest=False, sorted=False).indices.unsqueeze(1)  # (b, 1, k)
    value = grid.gather(2, near.expand(-1, _GROUP, -1)).flatten(1)
    column = (near + groups * torch.arange(_GROUP, device=D.device)[:, None]).flatten(1)
    rest = torch.arange(groups * _GROUP, D.shape[1], device=D.device).expand(len(D), -1)
    value, column = torch.cat([value, D[:, groups * _GROUP :]], 1), torch.cat([column, rest], 1)
    value, keep = value.topk(k, largest=False)
    return value, column.gather(1, keep)
