r"""Linear systems with M-matrices from Markov chains, by algebraic multigrid on aggregates of states.

Strongly joined states are paired, pairs are paired again, and the small chain between aggregates corrects the large
one; two steps of a Krylov method on every level keep the rate independent of the number of states
(Notay, 2010, 2012; for Markov chains De Sterck et al., 2011).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

_COARSEST = 400


@dataclass(frozen=True)
class _Level:
    A: Any  # SciPy compressed rows (n, n)
    diagonal: np.ndarray  # (n,)
    labels: np.ndarray  # (n,) aggregate of each state
    visits: int  # Krylov steps on the next level: one where aggregation does not thin the matrix out

    def product(self, u: np.ndarray, v: np.ndarray) -> float:
        return float(np.dot(u, v / self.diagonal))

    def norm(self, v: np.ndarray) -> float:
        return float(np.sqrt(self.product(v, v)))


class Multigrid:
    """A hierarchy for one matrix with positive diagonal and no positive entries beside it.

    >>> import scipy.sparse
    >>> A = scipy.sparse.diags([-1.0, 2.0, -1.0], [-1, 0, 1], shape=(5, 5)).tocsr()
    >>> Multigrid(A).solve(np.ones(5))[0]
    array([2.5, 4. , 4.5, 4. , 2.5])
    """

    def __init__(self, A: Any) -> None:
        self.levels: list[_Level] = []
        while A.shape[0] > _COARSEST:
            labels = _pairs_of_pairs(A)
            coarse = _collapse(A, labels)
            if coarse.shape[0] > 0.9 * A.shape[0]:
                break
            self.levels.append(_Level(A, A.diagonal(), labels, 2 if coarse.nnz < 0.6 * A.nnz else 1))
            A = coarse
        self.coarsest = _coarsest_solver(A)

    def solve(
        self, b: np.ndarray, tolerance: float = 1e-12, max_iter: int = 200, restart: int = 30
    ) -> tuple[np.ndarray, float]:
        """The solution of A x = b by generalized conjugate residuals, and its residual relative to b.

        Squares are divided by the diagonal, so rare states count as much as frequent ones.
        """
        if not self.levels or not b.any():
            return self.coarsest(b), 0.0
        A, size = self.levels[0], self.levels[0].norm(b)
        x, r = np.zeros_like(b), b.copy()
        directions: list[tuple[np.ndarray, np.ndarray]] = []
        sizes = [size]
        for _ in range(max_iter):
            if sizes[-1] <= tolerance * size or (len(sizes) > 20 and sizes[-1] > 0.5 * sizes[-20]):
                break  # good, or at the end of what rounding allows
            if len(directions) >= restart:
                directions = []
            step = _advance(A, self._cycle(0, r), r, directions)
            if step is None:
                break
            x += step * directions[-1][0]
            r -= step * directions[-1][1]
            sizes.append(A.norm(r))
        return x, A.norm(b - A.A @ x) / size

    def _cycle(self, depth: int, b: np.ndarray) -> np.ndarray:
        """One cycle: smooth, correct on the aggregates, smooth backward."""
        level = self.levels[depth]
        sweep = _compiled()[1]
        x = np.zeros_like(b)
        sweep(level.A.indptr, level.A.indices, level.A.data, level.diagonal, b, x, False)
        rest = np.bincount(level.labels, b - level.A @ x)
        x += self._coarse(depth + 1, rest)[level.labels]
        sweep(level.A.indptr, level.A.indices, level.A.data, level.diagonal, b, x, True)
        return x

    def _coarse(self, depth: int, b: np.ndarray) -> np.ndarray:
        """At most two Krylov steps on a coarser level, preconditioned by its own cycle."""
        if depth == len(self.levels):
            return self.coarsest(b)
        A, x, r = self.levels[depth], np.zeros_like(b), b.copy()
        directions: list[tuple[np.ndarray, np.ndarray]] = []
        for _ in range(self.levels[depth - 1].visits):
            step = _advance(A, self._cycle(depth, r), r, directions)
            if step is None:
                break
            x += step * directions[-1][0]
            r -= step * directions[-1][1]
            if A.norm(r) <= 0.25 * A.norm(b):
                break
        return x


def rough_stationary(columns: Any, x: np.ndarray, coarse: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    r"""One multilevel cycle of aggregation and disaggregation on :math:`x = P^T x`; stays positive.

    The aggregates' own chain is treated in the same way, down to a few hundred states, which ``coarse`` solves:
    magnitudes over many decades are right after one cycle (Horton and Leutenegger, 1994).
    columns: the transpose of P, SciPy sparse (n, n). x: (n,) positive.
    """
    n = len(x)
    if n <= _COARSEST:
        return coarse(columns.toarray().T)
    import scipy.sparse

    A = (scipy.sparse.identity(n, format="csr") - columns).tocsr()
    x = relaxed(A, x)
    flow = columns.multiply(x[None, :]).tocsr()
    labels = _pairs_of_pairs(-flow)
    weight = np.bincount(labels, x)
    count = len(weight)
    if count > 0.9 * n:
        return x
    fine = _collapse(flow, labels)
    between = fine.multiply(1 / fine.sum(0)).tocsr()
    share = rough_stationary(between, weight, coarse)
    if count > _COARSEST and fine.nnz < 0.6 * columns.nnz:
        share = rough_stationary(between, share, coarse)
    return relaxed(A, x * (share / weight)[labels])


def relaxed(A: Any, x: np.ndarray) -> np.ndarray:
    """A law after a forward and a backward Gauss-Seidel sweep on A x = 0, with A the identity less P transposed."""
    x, zero, diagonal = x.copy(), np.zeros_like(x), A.diagonal()
    for backward in (False, True):
        _compiled()[1](A.indptr, A.indices, A.data, diagonal, zero, x, backward)
        x = np.maximum(x, 1e-300)
    return x / x.sum()


def _advance(
    level: _Level, z: np.ndarray, r: np.ndarray, directions: list[tuple[np.ndarray, np.ndarray]]
) -> float | None:
    """Add the direction z, made orthogonal in its image to the earlier ones; its best step, or None at a standstill."""
    image = level.A @ z
    before = level.norm(image)
    for d, q in directions:
        part = level.product(q, image)
        image = image - part * q
        z = z - part * d
    length = level.norm(image)
    if not length > 1e-14 * before:
        return None
    directions.append((z / length, image / length))
    return level.product(directions[-1][1], r)


def _pairs_of_pairs(A: Any) -> np.ndarray:
    """Aggregates of about four states: pair twice by the strongest link in either direction."""
    first = _pair(A)
    return _pair(_collapse(A, first))[first]


def _pair(A: Any) -> np.ndarray:
    both = (A + A.T).tocsr()
    return _compiled()[0](both.indptr, both.indices, both.data)


def _collapse(A: Any, labels: np.ndarray) -> Any:
    import scipy.sparse

    count = int(labels.max()) + 1
    rows = np.repeat(labels, np.diff(A.indptr))
    return scipy.sparse.coo_matrix((A.data, (rows, labels[A.indices])), shape=(count, count)).tocsr()


def _coarsest_solver(A: Any) -> Any:
    """Least squares for a small matrix, whose rows may differ by many decades; a Jacobi step for a large one."""
    diagonal = A.diagonal()
    if A.shape[0] <= 4 * _COARSEST:
        inverse = np.linalg.pinv(A.toarray() / diagonal[:, None], rcond=1e-13)
        return lambda b: inverse @ (b / diagonal)
    return lambda b: b / diagonal


def _match(indptr: np.ndarray, indices: np.ndarray, data: np.ndarray) -> np.ndarray:
    """Greedy matching by the most negative entry; a state without a free neighbor joins its strongest one."""
    n = len(indptr) - 1
    labels = np.full(n, -1, dtype=np.int64)
    count = 0
    for i in range(n):
        if labels[i] >= 0:
            continue
        free, joined, strongest_free, strongest = -1, -1, 0.0, 0.0
        for k in range(indptr[i], indptr[i + 1]):
            j = indices[k]
            if j == i:
                continue
            if labels[j] < 0 and data[k] < strongest_free:
                free, strongest_free = j, data[k]
            elif labels[j] >= 0 and data[k] < strongest:
                joined, strongest = j, data[k]
        if free < 0 and joined >= 0:
            labels[i] = labels[joined]
            continue
        labels[i] = count
        if free >= 0:
            labels[free] = count
        count += 1
    return labels


def _sweep(
    indptr: np.ndarray,
    indices: np.ndarray,
    data: np.ndarray,
    diagonal: np.ndarray,
    b: np.ndarray,
    x: np.ndarray,
    backward: bool,
) -> None:
    """One Gauss-Seidel sweep in place."""
    n = len(b)
    for t in range(n):
        i = n - 1 - t if backward else t
        rest = b[i]
        for k in range(indptr[i], indptr[i + 1]):
            rest -= data[k] * x[indices[k]]
        if diagonal[i] > 0:
            x[i] += rest / diagonal[i]


@cache
def _compiled() -> tuple[Any, Any]:
    import numba

    return numba.njit(cache=True)(_match), numba.njit(cache=True)(_sweep)
