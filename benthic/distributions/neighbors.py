"""Distances to nearest neighbors, and counts within them: a tree on the CPU, blocks on a device."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.base.settings import is_whole

_TREE_DIMENSIONS, _BLOCK = 16, 1 << 24


def kth_distance(X: Tensor, Y: Tensor | None, k: int, norm: float = 2.0) -> Tensor:
    """The distance of every row of X (n, d) to its k-th nearest row of Y (m, d), or of X without itself.

    norm: 2 for Euclidean distances, ``math.inf`` for the largest coordinate. Returns (n,).

    >>> kth_distance(torch.tensor([[0.0], [1.0], [3.0]]), None, 1)
    tensor([1., 1., 2.])
    """
    wanted = k + 1 if Y is None else k  # a row is its own nearest neighbor
    Y = X if Y is None else Y.to(X.dtype)
    if _by_tree(X):
        from scipy.spatial import cKDTree

        found = cKDTree(_array(Y)).query(_array(X), k=[wanted], p=norm)[0][:, 0]
        return torch.from_numpy(found).to(X.dtype)
    return torch.cat([_across(x, Y, norm).kthvalue(wanted, dim=1).values for x in _blocks(X, len(Y))])


def count_within(X: Tensor, radius: Tensor) -> Tensor:
    """How many other rows of X (n, d) lie strictly nearer, in the largest coordinate, than radius (n,).

    >>> count_within(torch.tensor([[0.0], [1.0], [3.0]]), torch.tensor([1.0, 1.5, 9.0]))
    tensor([0, 1, 2])
    """
    if X.shape[1] == 1:
        return _count_on_line(X[:, 0].contiguous(), radius)
    if _by_tree(X):
        from scipy.spatial import cKDTree

        inside = np.nextafter(_array(radius), 0.0)
        found = cKDTree(_array(X)).query_ball_point(_array(X), inside, p=math.inf, return_length=True)
        return torch.from_numpy(np.maximum(found - 1, 0))
    parts, start = [], 0
    for x in _blocks(X, len(X)):
        near = _across(x, X, math.inf) < radius[start : start + len(x), None]
        parts.append((near.sum(1) - 1).clamp(min=0))
        start += len(x)
    return torch.cat(parts)


def enough(n: int, k: int, where: str) -> None:
    """Refuse fewer than k + 1 draws, and a k that is not a positive whole number."""
    if not is_whole(k, 1):
        raise InvalidInput(f"{where}: k is {k!r}; it must be a whole number of neighbors, at least 1")
    if n <= k:
        raise InvalidInput(f"{where}: {n} draws have no {k}-th neighbor each; at least {k + 1} are needed")


def no_ties(distance: Tensor, k: int, where: str) -> Tensor:
    """The distances, or a sentence that says that rows are repeated."""
    ties = int((distance == 0).sum())
    if ties:
        raise InvalidInput(
            f"{where}: {ties} draws are repeated more than {k} times, which a continuous law never does; "
            "pass labels as integers, or add noise below the rounding of the data"
        )
    return distance


def _count_on_line(x: Tensor, radius: Tensor) -> Tensor:
    order = x.sort().values
    last = len(x) - 1
    high = torch.searchsorted(order, x + radius)  # the first index that is not near
    low = torch.searchsorted(order, x - radius, right=True)  # the first that is
    # x + radius is rounded; the distances themselves decide about the rows at its edge
    high = high - ((high > 0) & (order[(high - 1).clamp(min=0)] - x >= radius)).long()
    high = high + ((high <= last) & (order[high.clamp(max=last)] - x < radius)).long()
    low = low + ((low <= last) & (x - order[low.clamp(max=last)] >= radius)).long()
    low = low - ((low > 0) & (x - order[(low - 1).clamp(min=0)] < radius)).long()
    return (high - low - 1).clamp(min=0)


def _across(x: Tensor, Y: Tensor, norm: float) -> Tensor:
    """All distances, from differences: inner products lose half of the digits of small ones."""
    return torch.cdist(x, Y, p=norm, compute_mode="donot_use_mm_for_euclid_dist")


def _by_tree(X: Tensor) -> bool:
    return X.device.type == "cpu" and X.shape[1] <= _TREE_DIMENSIONS


def _array(X: Tensor) -> np.ndarray:
    return X.detach().numpy().astype(np.float64)


def _blocks(X: Tensor, width: int) -> Iterator[Tensor]:
    return iter(X.split(max(1, _BLOCK // max(1, width))))
