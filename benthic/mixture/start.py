"""Where EM starts: clusters of a sample of the rows, or what the user gives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.cluster.seeding import Sorted, assign, random_rows, sort_rows, start_clusters
from benthic.mixture.parameters import Gaussians, covariance_shape

WAYS = ("kmeans++", "kmeans", "random")
ALIASES = {"k-means++": "kmeans++", "random_from_data": "random"}  # as scikit-learn spells them
_ROUNDS = {"kmeans++": 3, "kmeans": 100}
SAMPLE_ROWS = 1 << 15  # enough to find clusters in
_BLOCK_ROWS = 1 << 13


class Given(NamedTuple):
    """What the user fixes of the start, each None or in float64: (k,), (k, d) and by covariance type."""

    weights: Tensor | None = None
    means: Tensor | None = None
    precisions: Tensor | None = None


class Columns(NamedTuple):
    """Mean and variance of each column over its observed values, (d,) each, in float64."""

    mean: Tensor
    variance: Tensor


def columns_of(X: Tensor, weight: Tensor | None) -> Columns:
    """Moments of columns with gaps; a column without a single value is refused."""
    total, mean, variance = torch.zeros(3, X.shape[1], dtype=torch.float64, device=X.device)
    for rows, w in _observed(X, weight):
        total += w.sum(0)
        mean += (w * rows).sum(0)
    if not bool((total > 0).all()):
        column = int((total == 0).nonzero()[0])
        raise InvalidInput(f"column {column} of X has no observed value; drop it")
    mean /= total
    for rows, w in _observed(X, weight):
        variance += (w * (rows - mean).square()).sum(0)
    return Columns(mean.cpu(), (variance / total).cpu())


def _observed(X: Tensor, weight: Tensor | None) -> Iterator[tuple[Tensor, Tensor]]:
    """Blocks of rows with zero in gaps, and what each value counts, zero in gaps."""
    for start in range(0, len(X), _BLOCK_ROWS):
        rows = X[start : start + _BLOCK_ROWS].double()
        counts = (~torch.isnan(rows)).double()
        if weight is not None:
            counts *= weight[start : start + _BLOCK_ROWS, None]
        yield rows.nan_to_num(0.0), counts


class Plan(NamedTuple):
    """How to start: components, covariance type, one of ``WAYS``, what is added to variances, what is given."""

    k: int
    kind: str
    how: str
    reg_covar: float
    given: Given


class Starter:
    """Makes the start of each restart from rows X (n, d), NaN for gaps, with weights (n,) or None."""

    def __init__(self, X: Tensor, weight: Tensor | None, columns: Columns, plan: Plan) -> None:
        self.columns, self.plan = columns, plan
        self._scale = torch.where(columns.variance > 0, columns.variance, 1.0).sqrt()
        if bool(torch.isnan(X.sum())):
            X = torch.where(torch.isnan(X), columns.mean.to(X), X)
        rows = sort_rows(X, weight, limit=SAMPLE_ROWS)
        self.rows = Sorted(((rows.X.cpu().double() - columns.mean) / self._scale), rows.weight.cpu())

    def __call__(self, rng: np.random.Generator) -> Gaussians:
        """One start, in float64 on the CPU."""
        centers = self._centers(rng)
        weights, means, covariances = self._moments(centers)
        weights = weights if self.plan.given.weights is None else self.plan.given.weights
        means = means * self._scale + self.columns.mean if self.plan.given.means is None else self.plan.given.means
        if self.plan.given.precisions is not None:
            return Gaussians.of_precisions(self.plan.kind, weights, means, self.plan.given.precisions)
        return Gaussians.of_covariances(self.plan.kind, weights, means, self._shape(covariances))

    def _centers(self, rng: np.random.Generator) -> Tensor:
        """Centers (k, d) in standard units."""
        if self.plan.given.means is not None:
            return (self.plan.given.means - self.columns.mean) / self._scale
        if self.plan.how == "random":
            return random_rows(self.rows, self.plan.k, rng)
        return start_clusters(self.rows, self.plan.k, rng, _ROUNDS[self.plan.how])

    def _moments(self, centers: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Weights, means and covariances (k, d, d) of the rows nearest to each center, in standard units.

        Small clusters borrow from the spread within all of them, as if they had d + 1 rows more.
        """
        X, weight = self.rows
        d = X.shape[1]
        if self.plan.how == "random" and self.plan.given.means is None:
            spread = (weight[:, None] * X).T @ X / weight.sum()  # every component begins as wide as the data
            equal = torch.full((self.plan.k,), 1 / self.plan.k, dtype=torch.float64)
            return equal, centers, spread.expand(self.plan.k, d, d)
        labels = assign(X, centers)
        count = torch.zeros(self.plan.k, dtype=torch.float64).index_add_(0, labels, weight)
        sums = torch.zeros(self.plan.k, d, dtype=torch.float64).index_add_(0, labels, weight[:, None] * X)
        means = torch.where(count[:, None] > 0, sums / count.clamp(min=1e-300)[:, None], centers)
        scatter = self._scatter(labels, means)
        pooled = scatter.sum(0) / weight.sum()
        extra = d + 1
        covariances = (scatter + extra * pooled) / (count[:, None, None] + extra)
        return (count + 1) / (count + 1).sum(), means, covariances

    def _scatter(self, labels: Tensor, means: Tensor) -> Tensor:
        """Sums of squares and products about the mean of each cluster, (k, d, d)."""
        X, weight = self.rows
        parts = []
        for j, mean in enumerate(means):
            members = labels == j
            rows = X[members] - mean
            parts.append((weight[members][:, None] * rows).T @ rows)
        return torch.stack(parts)

    def _shape(self, covariances: Tensor) -> Tensor:
        """Covariances in data units and the shape of the kind, with ``reg_covar`` on the diagonal."""
        least = 1e-12 * torch.where(self.columns.variance > 0, self.columns.variance, 1.0)
        matrices = covariances * (self._scale[:, None] * self._scale)
        matrices = matrices + torch.diag(least + self.plan.reg_covar)
        if self.plan.kind == "full":
            return matrices
        if self.plan.kind == "tied":
            return matrices.mean(0)
        variances = matrices.diagonal(dim1=1, dim2=2)
        return variances if self.plan.kind == "diag" else variances.mean(1)


def read_given(weights: Any, means: Any, precisions: Any, *, k: int, d: int, kind: str) -> Given:
    """The user's start, checked."""
    shapes = {"weights_init": (k,), "means_init": (k, d), "precisions_init": covariance_shape(kind, k, d)}
    values = dict(zip(shapes, (weights, means, precisions), strict=True))
    checked = {name: _read(name, value, shapes[name]) for name, value in values.items()}
    w = checked["weights_init"]
    if w is not None and (bool((w < 0).any()) or abs(float(w.sum()) - 1) > 1e-6):
        raise InvalidInput(f"weights_init sums to {float(w.sum()):.6g}; weights are >= 0 and sum to 1")
    p = checked["precisions_init"]
    if p is not None and kind in ("full", "tied") and not torch.allclose(p, p.mT):
        raise InvalidInput("precisions_init is not symmetric; pass inverses of covariance matrices")
    return Given(*checked.values())


def _read(name: str, value: Any, shape: tuple[int, ...]) -> Tensor | None:
    if value is None:
        return None
    array = value.detach().cpu().numpy() if isinstance(value, Tensor) else value
    tensor = torch.from_numpy(np.array(array, dtype=np.float64))
    if tensor.shape != shape:
        raise InvalidInput(f"The parameter {name!r} should have the shape of {shape}, but got {tuple(tensor.shape)}")
    if not bool(torch.isfinite(tensor).all()):
        raise InvalidInput(f"{name} contains NaN or infinity")
    return tensor
