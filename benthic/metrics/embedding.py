"""How far a map of rows can be trusted."""

from __future__ import annotations

from typing import Any

import numpy as np

from benthic.base.errors import InvalidInput
from benthic.base.estimate import Estimate, mean_of
from benthic.metrics.rows import plain

_PAIRS = 1 << 24  # distances held at once


def trustworthiness(X: Any, Z: Any, neighbors: int = 5) -> Estimate:
    r"""How few neighbors on a map Z (n, k) are strangers in the data X (n, d): 1 is perfect, 0.5 is chance.

    .. math:: 1 - \frac{2}{n k (2n - 3k - 1)} \sum_i \sum_{j \in N_k(i)} \max(0,\, r(i, j) - k)

    with r(i, j) the rank of j among the neighbors of i in the data. Venna & Kaski, 2001. neighbors: k, less than half
    of n. The standard error is over rows.

    >>> trustworthiness([[0.0], [1.0], [2.0], [3.0]], [[0.0], [1.0], [2.0], [3.0]], 1)
    Estimate(value=1.0, stderr=0.0)
    """
    X, Z = (np.asarray(plain(part), dtype=np.float64).reshape(len(part), -1) for part in (X, Z))
    n, k = len(X), neighbors
    if len(Z) != n:
        raise InvalidInput(f"trustworthiness: X has {n} rows and Z has {len(Z)}; they must be the same rows")
    if not 1 <= k < n / 2:
        raise InvalidInput(
            f"trustworthiness: neighbors is {k} with {n} rows; it must be at least 1 and less than {n / 2}"
        )
    lost = np.empty(n)
    step = max(1, _PAIRS // n)
    for top in range(0, n, step):
        rows = np.arange(top, min(top + step, n))
        near, there = (_squared(part, rows) for part in (Z, X))
        chosen = np.argpartition(near, k - 1, axis=1)[:, :k]
        far = np.take_along_axis(there, chosen, axis=1)  # (b, k)
        rank = (there[:, None, :] < far[:, :, None]).sum(2) + 1
        lost[rows] = np.maximum(rank - k, 0).sum(1)
    return mean_of(1 - lost * 2 / (k * (2 * n - 3 * k - 1)))


def _squared(X: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Squared distances of some rows to all, infinite to themselves."""
    squares = np.square(X).sum(1)
    D = np.maximum(squares[rows, None] + squares[None, :] - 2 * X[rows] @ X.T, 0.0)
    D[np.arange(len(rows)), rows] = np.inf
    return D
