"""Where clusters start: weighted k-means++ and a few Lloyd iterations, indifferent to the order of rows."""

from __future__ import annotations

import math
import warnings
from typing import NamedTuple

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

_BLOCK_ROWS = 1 << 13


class Sorted(NamedTuple):
    """Rows in an order of their own with their weights, so that a draw depends on neither order nor repetition."""

    X: Tensor
    weight: Tensor


def order_of(X: Tensor) -> Tensor:
    """An order of rows that depends on their numbers alone: by the first column, ties by a fixed projection.

    The projection decides as all the other columns in turn would, with equal rows next to each other, but
    costs one sort however many columns there are.

    >>> order_of(torch.tensor([[1.0, 5.0], [0.0, 9.0], [1.0, 5.0]]))
    tensor([1, 0, 2])
    """
    first = X[:, 0].detach().cpu().numpy()
    order = np.argsort(first, kind="stable")
    if (np.diff(first[order]) == 0).any():
        scale = X.abs().amax(0).double()
        weights = torch.from_numpy(np.random.default_rng(0).normal(size=X.shape[1])).to(scale)
        direction = weights / torch.where(scale > 0, scale, 1.0)
        parts = [block.double() @ direction for block in X.detach().split(_BLOCK_ROWS)]
        order = np.lexsort((torch.cat(parts).cpu().numpy(), first))
    return torch.from_numpy(order).to(X.device)


def sort_rows(X: Tensor, weight: Tensor | None = None, limit: int | None = None) -> Sorted:
    """Rows of positive weight in the order of ``order_of``, thinned to ``limit`` of equal weight if heavier.

    The thinned rows stand at even steps of the cumulative weight, the inverse of its distribution
    function, so an integer weight and a repeated row give the same ones.
    """
    if weight is not None:
        X, weight = X[weight > 0], weight[weight > 0]
    order = order_of(X)
    if weight is None and limit is not None and len(X) > limit:  # the same rows without adding up ones
        chosen = ((torch.arange(limit, dtype=torch.float64) + 0.5) * (len(X) / limit)).ceil().long() - 1
        return Sorted(X[order[chosen]], torch.full((limit,), len(X) / limit, dtype=torch.float64, device=X.device))
    weight = torch.ones(len(X), dtype=torch.float64) if weight is None else weight.cpu().double()[order.cpu()]
    if limit is None or float(weight.sum()) <= limit:
        return Sorted(X[order], weight.to(X.device))
    total = float(weight.sum())
    steps = (torch.arange(limit, dtype=torch.float64) + 0.5) * (total / limit)
    chosen = inverse_cdf(weight, steps)
    return Sorted(
        X[order[chosen.to(order.device)]],
        torch.full((limit,), total / limit, dtype=torch.float64, device=X.device),
    )


def inverse_cdf(weight: Tensor, level: Tensor) -> Tensor:
    """The rows at which the cumulative weight passes ``level``."""
    cumulative = torch.cumsum(weight, 0)
    return torch.searchsorted(cumulative, level.to(cumulative)).clamp_(max=len(weight) - 1)


def random_rows(rows: Sorted, k: int, rng: np.random.Generator) -> Tensor:
    """``k`` rows drawn by weight; those drawn before are avoided while there are others, (k, d)."""
    left = rows.weight.clone()
    chosen = []
    for _ in range(k):
        alive = left if bool((left > 0).any()) else rows.weight
        level = torch.tensor([rng.random() * float(alive.sum())], dtype=torch.float64)
        row = int(inverse_cdf(alive, level))
        chosen.append(row)
        same = (rows.X - rows.X[row]).abs().amax(1) == 0
        left[same] = 0.0
    return rows.X[chosen]


def plus_plus(rows: Sorted, k: int, rng: np.random.Generator) -> Tensor:
    """Centers (k, d) far from one another: each is drawn with probability weight times squared distance.

    Arthur & Vassilvitskii, 2007, with the best of 2 + log k candidates for each center.
    """
    X, weight = rows
    trials = 2 + int(math.log(k))
    first = int(inverse_cdf(weight, torch.tensor([rng.random() * float(weight.sum())], dtype=torch.float64)))
    chosen = [first]
    nearest = _squared_distances(X, X[first : first + 1])[:, 0]
    for _ in range(1, k):
        mass = weight * nearest
        levels = torch.from_numpy(rng.random(trials)) * float(mass.sum())
        candidates = inverse_cdf(mass, levels)
        shrunk = torch.minimum(nearest[:, None], _squared_distances(X, X[candidates]))  # (n, trials)
        best = int((weight @ shrunk.to(weight.dtype)).argmin())
        chosen.append(int(candidates[best]))
        nearest = shrunk[:, best]
    return X[chosen]


def start_clusters(rows: Sorted, k: int, rng: np.random.Generator, iterations: int) -> Tensor:
    """Centers (k, d) by k-means++ and some rounds of Lloyd's; says so where rows differ in fewer than k places."""
    centers = plus_plus(rows, k, rng)
    distinct = len(torch.unique(centers, dim=0))
    if distinct < k:
        warnings.warn(
            f"Number of distinct clusters ({distinct}) found smaller than the number asked for ({k}). "
            "Possibly due to duplicate points in X; use fewer components",
            ConvergenceWarning,
            stacklevel=2,
        )
    return lloyd(rows, centers, iterations)


def lloyd(rows: Sorted, centers: Tensor, iterations: int) -> Tensor:
    """Centers after so many rounds of assigning rows and averaging, or fewer once nothing changes.

    A center that no row is nearest to stays where it is.
    """
    labels: Tensor | None = None
    for _ in range(iterations):
        now = assign(rows.X, centers)
        if labels is not None and bool((now == labels).all()):
            break
        labels = now
        weight = rows.weight.to(rows.X.dtype)[:, None]
        total = torch.zeros_like(centers[:, :1]).index_add_(0, labels, weight)
        sums = torch.zeros_like(centers).index_add_(0, labels, weight * rows.X)
        centers = torch.where(total > 0, sums / torch.where(total > 0, total, 1.0), centers)
    return centers


def assign(X: Tensor, centers: Tensor) -> Tensor:
    """The nearest center of each row, (n,)."""
    return _squared_distances(X, centers).argmin(1)


def _squared_distances(X: Tensor, centers: Tensor) -> Tensor:
    """(n, k) squared Euclidean distances; differences are taken first, so near rows lose no digits."""
    return torch.cdist(X, centers, compute_mode="donot_use_mm_for_euclid_dist").square_()
