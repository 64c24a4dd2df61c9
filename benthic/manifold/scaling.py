"""Points from distances: classical scaling and the majorization of stress."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor


class Classical(NamedTuple):
    """What classical scaling learned: a linear map from centered squared distances to places.

    places: (n, k). directions: (n, k) eigenvectors over the root of their eigenvalues. means: (n,) mean squared
    distance of each point. mean: of all. values: (n,) all eigenvalues, falling; negative ones tell how far the
    distances are from Euclidean ones.
    """

    places: Tensor
    directions: Tensor
    means: Tensor
    mean: Tensor
    values: Tensor


def classical(D: Tensor, k: int) -> Classical:
    r"""Classical multidimensional scaling of distances D (n, n) into k dimensions.

    .. math:: B = -\tfrac12 J D^{(2)} J = U \Lambda U^T, \qquad Y = U_k \Lambda_k^{1/2}

    Torgerson, 1952; Gower, 1966. Euclidean distances of points in at most k dimensions give back the points, up to a
    rotation and a shift.

    >>> D = torch.tensor([[0.0, 3.0], [3.0, 0.0]], dtype=torch.float64)
    >>> classical(D, 1).places.abs()
    tensor([[1.5000],
            [1.5000]], dtype=torch.float64)
    """
    square = D.double().square()
    means, mean = square.mean(1), square.mean()
    B = -0.5 * (square - means[:, None] - means[None, :] + mean)
    values, vectors = torch.linalg.eigh(0.5 * (B + B.T))
    values, vectors = values.flip(0), vectors.flip(1)
    top, chosen = values[:k].clamp(min=0.0), vectors[:, :k]
    large = chosen.abs().argmax(0, keepdim=True)
    chosen = chosen * chosen.gather(0, large).sign()  # signs are no accident
    kept = top > 1e-12 * max(float(values[0]), math.ulp(0.0))
    inverse = torch.where(kept, 1 / top.clamp(min=math.ulp(0.0)).sqrt(), 0.0)
    return Classical((chosen * top.sqrt()).contiguous(), (chosen * inverse).contiguous(), means, mean, values)


def classical_place(found: Classical, D: Tensor) -> Tensor:
    """Places (m, k) of new points from their distances D (m, n) to the old ones (Gower, 1968)."""
    square = D.double().square()
    B = -0.5 * (square - square.mean(1, keepdim=True) - found.means.to(square) + found.mean.to(square))
    return B @ found.directions.to(square)


def stress(D: Tensor, places: Tensor, weight: Tensor | None = None) -> Tensor:
    """The sum over pairs of squared differences between distances D (n, n) and those of places (n, k)."""
    gaps = (D - torch.cdist(places, places)).square()
    return (gaps if weight is None else weight * gaps).sum() / 2


class Smacof(NamedTuple):
    """Places (n, k), the stress after each step (never rising), and whether it settled."""

    places: Tensor
    path: list[float]
    converged: bool


def smacof(D: Tensor, start: Tensor, *, max_iter: int = 300, tol: float = 1e-6) -> Smacof:
    r"""Metric scaling by majorization: each step minimizes a quadratic that touches the stress from above.

    .. math:: Y \leftarrow \tfrac1n B(Y) Y, \qquad B_{ij} = -\frac{\delta_{ij}}{\|y_i - y_j\|}

    de Leeuw, 1977. D: (n, n). start: (n, k). tol: stop when the stress falls by less than this part of it.
    """
    places, n = start, len(start)
    apart = _apart(places)
    path = [float((D - apart).square().sum()) / 2]
    size = float(D.square().sum()) / 2
    for _ in range(max_iter):
        ratio = torch.where(apart > 0, D / apart.clamp(min=1e-300), 0.0)
        places = (ratio.sum(1, keepdim=True) * places - ratio @ places) / n
        apart = _apart(places)
        now = float((D - apart).square().sum()) / 2
        path.append(now)
        if path[-2] - now <= tol * path[-2] or now <= 1e-24 * size:
            return Smacof(places, path, True)
    return Smacof(places, path, False)


def _apart(places: Tensor) -> Tensor:
    return torch.cdist(places, places, compute_mode="donot_use_mm_for_euclid_dist")


def smacof_place(places: Tensor, D: Tensor, start: Tensor, *, max_iter: int = 300) -> Tensor:
    """Places (m, k) of new points, each by majorization of its own stress to fixed ones (n, k).

    D: (m, n) distances to the fixed ones. start: (m, k).
    """
    new = start
    for _ in range(max_iter):
        apart = torch.cdist(new, places, compute_mode="donot_use_mm_for_euclid_dist")
        ratio = torch.where(apart > 0, D / apart.clamp(min=1e-300), 0.0)
        moved = places.mean(0) + (ratio.sum(1, keepdim=True) * new - ratio @ places) / len(places)
        change = float((moved - new).abs().max())
        new = moved
        if change <= 1e-9 * max(float(D.max()), math.ulp(0.0)):
            break
    return new
