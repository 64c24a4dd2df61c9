"""Distances between all pairs of two sets of points, right also where points nearly coincide."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.base.errors import nearest as hint
from benthic.base.seeds import generator, seed_of
from benthic.kernels.points import as_pair, as_points, blocks
from benthic.kernels.products import manhattan_matrix, root, squared_matrix

__all__ = ["METRICS", "blocks", "median_distance", "pairwise", "squared_distances"]

METRICS = (
    "euclidean",
    "sqeuclidean",
    "manhattan",
    "chebyshev",
    "minkowski",
    "cosine",
    "mahalanobis",
    "hamming",
)


def squared_distances(X: Any, Y: Any = None) -> Tensor:
    r"""Squared Euclidean distances between all rows of X and all rows of Y.

    .. math:: D_{ij} = \|x_i - y_j\|^2

    Wide data goes through one matrix product of centered points, and pairs so close that the product cancels are
    subtracted directly, so near pairs have correct digits. Differentiable twice, and by ``torch.func``.

    X: (..., n, d). Y: (..., m, d); X itself when None. Returns (..., n, m).

    >>> squared_distances([[0.0, 0.0], [3.0, 4.0]], [[0.0, 1e-9]])
    tensor([[1.0000e-18],
            [2.5000e+01]], dtype=torch.float64)
    """
    X, Y = as_pair("squared_distances", X, X if Y is None else Y, batched=True)
    return squared_matrix(X, Y)


def pairwise(
    X: Any,
    Y: Any = None,
    metric: str = "euclidean",
    *,
    p: float = 3.0,
    covariance: Any = None,
    precision: Any = None,
) -> Tensor:
    r"""Distances between all rows of X and all rows of Y.

    - "euclidean" and "sqeuclidean";
    - "manhattan", "chebyshev" and "minkowski": :math:`(\sum_k |x_k - y_k|^p)^{1/p}` for p = 1, infinity and ``p``;
    - "cosine": one minus the cosine of the angle, accurate also for nearly parallel rows;
    - "mahalanobis": :math:`\sqrt{(x - y)^\top \Sigma^{-1} (x - y)}`, with ``covariance`` or ``precision``
      (Mahalanobis, 1936); the covariance of all rows of X and Y when neither is given;
    - "hamming": the share of columns that differ.

    X: (..., n, d). Y: (..., m, d); X itself when None. Returns (..., n, m); the slope at coinciding points is 0.

    >>> pairwise([[0.0, 0.0]], [[3.0, 4.0]]), pairwise([[0.0, 0.0]], [[3.0, 4.0]], "manhattan")
    (tensor([[5.]], dtype=torch.float64), tensor([[7.]], dtype=torch.float64))
    """
    if metric not in METRICS:
        raise InvalidInput(
            f"pairwise: metric is {metric!r}; it must be one of {', '.join(METRICS)}{hint(str(metric), METRICS)}"
        )
    X, Y = as_pair("pairwise", X, X if Y is None else Y, batched=True)
    if metric == "mahalanobis":
        X, Y = _whitened(X, Y, covariance, precision)
    elif covariance is not None or precision is not None:
        raise InvalidInput(f"pairwise: metric is {metric!r}; covariance and precision belong to 'mahalanobis'")
    return _FORMS[metric](X, Y, p)


def median_distance(X: Any, max_points: int = 1000, seed: int | None = 0) -> Tensor:
    """The median distance between two different rows: a length scale that suits most data.

    X: (n, d). max_points: a random subset of so many rows stands for all. seed: of that subset.
    Returns a scalar without gradient; where more than half of the pairs coincide, the mean of the other distances.

    >>> median_distance([[0.0], [1.0], [3.0]])
    tensor(2., dtype=torch.float64)
    """
    X = as_points("median_distance", X).detach()
    if len(X) > max_points:
        source = generator(seed_of(seed), "median_distance", device=X.device)
        X = X[torch.randperm(len(X), generator=source, device=X.device)[:max_points]]
    above = torch.ones(len(X), len(X), dtype=torch.bool, device=X.device).triu(1)
    distances = root(squared_matrix(X, X))[above]
    positive = distances[distances > 0]
    if not len(positive):
        raise InvalidInput("median_distance: all points coincide; give the length scale yourself")
    middle = distances.median()
    return middle if float(middle) > 0 else positive.mean()


def coordinates(
    X: Tensor, Y: Tensor, metric: str, covariance: Any = None, precision: Any = None
) -> tuple[Tensor, Tensor] | None:
    """Coordinates in which this metric orders points as the Euclidean distance does; None where there are none."""
    if metric in ("euclidean", "sqeuclidean"):
        return X, Y
    if metric == "cosine":
        return _directions(X, Y)
    if metric == "mahalanobis":
        return _whitened(X, Y, covariance, precision)
    return None


def _directions(X: Tensor, Y: Tensor) -> tuple[Tensor, Tensor]:
    for name, rows in (("X", X), ("Y", Y)):
        if bool((rows.detach() == 0).all(-1).any()):
            raise InvalidInput(f"pairwise: {name} has a row of zeros, which has no direction; drop it or add a column")
    return tuple(rows / torch.linalg.vector_norm(rows, dim=-1, keepdim=True) for rows in (X, Y))


def _minkowski(X: Tensor, Y: Tensor, p: float) -> Tensor:
    if not p > 0:
        raise InvalidInput(f"pairwise: p is {p}; the power of a Minkowski distance must be positive")
    return torch.cdist(X, Y, p=float(p))


_FORMS: dict[str, Callable[[Tensor, Tensor, float], Tensor]] = {
    "euclidean": lambda X, Y, p: root(squared_matrix(X, Y)),
    "mahalanobis": lambda X, Y, p: root(squared_matrix(X, Y)),
    "sqeuclidean": lambda X, Y, p: squared_matrix(X, Y),
    "manhattan": lambda X, Y, p: manhattan_matrix(X, Y),
    "chebyshev": lambda X, Y, p: torch.cdist(X, Y, p=torch.inf),
    "minkowski": _minkowski,
    "cosine": lambda X, Y, p: squared_matrix(*_directions(X, Y)) / 2,
    "hamming": lambda X, Y, p: torch.cdist(X, Y, p=0.0) / X.shape[-1],
}


def covariance_of(X: Tensor, Y: Tensor) -> Tensor:
    """The covariance (d, d) of all rows of both."""
    rows = torch.cat([X.reshape(-1, X.shape[-1]), Y.reshape(-1, Y.shape[-1])])
    if len(rows) < 2:
        raise InvalidInput("pairwise: one point has no covariance; give covariance or precision for 'mahalanobis'")
    return torch.cov(rows.T).reshape(X.shape[-1], X.shape[-1])


def _whitened(X: Tensor, Y: Tensor, covariance: Any, precision: Any) -> tuple[Tensor, Tensor]:
    """Coordinates in which the Mahalanobis distance is the Euclidean one."""
    if covariance is not None and precision is not None:
        raise InvalidInput("pairwise: covariance and precision are both given; one of them determines the other")
    if precision is not None:
        factor = _factor("precision", precision, X)
        return X @ factor, Y @ factor
    factor = _factor("covariance", covariance_of(X, Y) if covariance is None else covariance, X)
    return tuple(torch.linalg.solve_triangular(factor, rows.mT, upper=False).mT for rows in (X, Y))


def _factor(name: str, matrix: Any, X: Tensor) -> Tensor:
    matrix = torch.as_tensor(matrix, dtype=X.dtype, device=X.device)
    d = X.shape[-1]
    if matrix.shape != (d, d):
        raise InvalidInput(f"pairwise: {name} has shape {tuple(matrix.shape)}; ({d}, {d}) is needed for {d} columns")
    gap = (matrix - matrix.mT).abs().max()
    if not bool(gap <= 1e3 * torch.finfo(X.dtype).eps * matrix.abs().max()):
        raise InvalidInput(f"pairwise: {name} is not symmetric; take (A + A.T) / 2 if rounding is to blame")
    factor, failed = torch.linalg.cholesky_ex(matrix)
    if bool(failed):
        raise InvalidInput(f"pairwise: {name} is not positive definite; add a little to its diagonal")
    return factor
