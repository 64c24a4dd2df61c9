"""The leading directions of a table: by its covariance, by a singular value decomposition, by a random sketch."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from benthic.linalg.low_rank import randomized_svd
from benthic.linalg.scatter import scatter_matrix

SOLVERS = ("auto", "covariance", "full", "randomized")
_WIDE = 3000  # columns up to which a covariance is held and decomposed


class Spectrum(NamedTuple):
    """Principal directions of rows, leading ones first.

    mean: (d,). directions: (m, d), orthonormal rows. variances: (m,). total: the variance of all columns together.
    weight: how many rows they are of. All in float64.
    """

    mean: Tensor
    directions: Tensor
    variances: Tensor
    total: float
    weight: float


def choose_solver(n: int, d: int, wanted: int | float | None) -> str:
    """The quickest solver that gives what is asked for: the covariance if it is much smaller than the table."""
    if d <= _WIDE and n >= 2 * d:
        return "covariance"
    whole = wanted is None or isinstance(wanted, float)
    if not whole and max(n, d) > 500 and wanted < 0.2 * min(n, d):
        return "randomized"
    return "full"


def spectrum(X: Tensor, solver: str, count: int | None, seed: int) -> Spectrum:
    """The spectrum of rows X (n, d). count: directions that are needed, all if None."""
    mean = X.mean(0, dtype=torch.float64)
    if solver == "covariance":
        return of_scatter(mean, scatter_matrix(X, mean), float(len(X)))
    centered = X.double() - mean
    freedom = max(len(X) - 1, 1)
    if solver == "randomized" and count is not None:
        found = randomized_svd(centered, count, power_iterations=4, seed=seed)
        singular, directions = found.S, found.Vh
    else:
        _, singular, directions = torch.linalg.svd(centered, full_matrices=False)
    variance = float(centered.square().sum()) / freedom
    return Spectrum(mean, _signed(directions), singular.square() / freedom, variance, float(len(X)))


def of_scatter(mean: Tensor, scatter: Tensor, weight: float) -> Spectrum:
    """The spectrum of a table whose mean (d,) and scatter about it (d, d) are known."""
    values, vectors = torch.linalg.eigh(scatter / max(weight - 1, 1.0))
    values = values.flip(0).clamp(min=0.0)
    return Spectrum(mean, _signed(vectors.flip(1).T), values, float(values.sum()), weight)


def _signed(directions: Tensor) -> Tensor:
    """Directions whose largest entry (the first of equal ones) is positive, so that signs are no accident."""
    large = directions.abs().argmax(1, keepdim=True)
    return (directions * directions.gather(1, large).sign()).contiguous()
