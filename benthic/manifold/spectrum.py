"""The leading directions of a table: by its covariance, by a singular value decomposition, by a random sketch."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from benthic.base.settings import is_whole
from benthic.base.threads import standing_crew
from benthic.linalg.low_rank import randomized_svd
from benthic.linalg.scatter import scatter_matrix

SOLVERS = ("auto", "covariance", "full", "randomized")
_WIDE = 3000  # columns up to which a covariance is held and decomposed
_LARGE = 1 << 20  # numbers of a table from which single-precision products are tried
_BLOCK, _NEAR = 2048, 256  # rows of a block, and rows whose mean is amid all
_PARTS = 8  # of the rows, shared by threads
_LEAST, _LEFT = 1e-4, 1e-3  # of the first variance and of all: what single precision tells to three digits


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
    if is_whole(wanted) and max(n, d) > 500 and wanted < 0.2 * min(n, d):
        return "randomized"
    return "full"


def spectrum(X: Tensor, solver: str, count: int | None, seed: int) -> Spectrum | None:
    """The spectrum of rows X (n, d), or None if they have gaps. count: directions that are needed, all if None."""
    if solver == "covariance" and X.device.type == "cpu":
        rows = X.float() if X.dtype != torch.float64 and X.numel() >= _LARGE else X.double()
        found = _of_blocks(rows.detach().numpy())
        if found is None or rows.dtype == torch.float64 or _trusted(found, count):
            return found
    if bool(torch.isnan(X.sum())):
        return None
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


def _of_blocks(X: np.ndarray) -> Spectrum | None:
    """The spectrum by products of blocks of rows about a point amid them, in their precision, added up in double.

    Threads of our own share the rows, with one of NumPy's each: theirs would wait for one another at every block. The
    parts do not depend on how many threads there are. None if there are gaps.
    """
    n, d = X.shape
    near = X[:: max(1, n // _NEAR)].mean(0)
    ends = np.linspace(0, n, _PARTS + 1).astype(int)
    parts: list[tuple[np.ndarray, np.ndarray]] = [(np.zeros(d), np.zeros((d, d)))] * _PARTS

    def work(part: int) -> None:
        parts[part] = _products(X[ends[part] : ends[part + 1]], near)

    with _blas().limit(limits=1, user_api="blas"):
        standing_crew(torch.get_num_threads() if X.size >= _LARGE else 1).each(work, range(_PARTS))
    sums, scatter = sum(part[0] for part in parts), sum(part[1] for part in parts)
    if np.isnan(sums).any():
        return None
    scatter = scatter - np.outer(sums, sums / n)
    return _of_pair(near + sums / n, scatter, float(n))


def _products(X: np.ndarray, near: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The sum of the differences from a point, (d,), and of their products, (d, d)."""
    n, d = X.shape
    memory = np.empty((min(_BLOCK, n), d), X.dtype)
    ones = np.ones(len(memory), X.dtype)
    sums, scatter = np.zeros(d), np.zeros((d, d))
    for start in range(0, n, max(len(memory), 1)):
        block = X[start : start + len(memory)]
        gaps = np.subtract(block, near, out=memory[: len(block)])
        sums += ones[: len(block)] @ gaps
        scatter += gaps.T @ gaps  # of a matrix with itself only one triangle is computed
    return sums, scatter


@cache
def _blas() -> Any:
    """Who decides how many threads the libraries of linear algebra start."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _of_pair(mean: np.ndarray, scatter: np.ndarray, weight: float) -> Spectrum:
    values, vectors = np.linalg.eigh(scatter / max(weight - 1, 1.0))
    values = torch.from_numpy(values[::-1].copy()).clamp(min=0.0)
    directions = torch.from_numpy(vectors[:, ::-1].T.copy())
    return Spectrum(torch.from_numpy(mean), _signed(directions), values, float(values.sum()), weight)


def _trusted(found: Spectrum, count: int | None) -> bool:
    """Whether single precision is enough for the first ``count`` directions and for the variance left over."""
    k = len(found.variances) if count is None else count
    kept, first = float(found.variances[:k].sum()), float(found.variances[0])
    rest = k == len(found.variances) or found.total - kept >= _LEFT * found.total
    return rest and float(found.variances[k - 1]) >= _LEAST * first > 0


def of_scatter(mean: Tensor, scatter: Tensor, weight: float) -> Spectrum:
    """The spectrum of a table whose mean (d,) and scatter about it (d, d) are known."""
    values, vectors = torch.linalg.eigh(scatter / max(weight - 1, 1.0))
    values = values.flip(0).clamp(min=0.0)
    return Spectrum(mean, _signed(vectors.flip(1).T), values, float(values.sum()), weight)


def _signed(directions: Tensor) -> Tensor:
    """Directions whose largest entry (the first of equal ones) is positive, so that signs are no accident."""
    large = directions.abs().argmax(1, keepdim=True)
    return (directions * directions.gather(1, large).sign()).contiguous()
