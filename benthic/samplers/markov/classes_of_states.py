"""Communicating classes, their periods, and which of them are left forever."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Structure:
    """How the states of a chain communicate; classes are numbered by their first state.

    labels: (n,) the class of each state. closed: (k,) whether a class cannot be left; on finitely many states a
    closed class is positive recurrent and an open one transient. periods: (k,) greatest common divisor of the
    lengths of all ways back; 0 where there is no way back.
    """

    labels: np.ndarray
    closed: np.ndarray
    periods: np.ndarray

    @property
    def count(self) -> int:
        """How many classes there are."""
        return len(self.closed)

    @cached_property
    def members(self) -> list[np.ndarray]:
        """The states of each class, ascending."""
        order = np.argsort(self.labels, kind="stable")
        return np.split(order, np.cumsum(np.bincount(self.labels, minlength=self.count))[:-1])

    @property
    def recurrent(self) -> np.ndarray:
        """(n,) whether each state is returned to with probability one."""
        return self.closed[self.labels]


def structure_of(P: Any) -> Structure:
    r"""Classes of a sparse matrix by strong components, periods by levels of a search.

    With :math:`d(i)` the level of state i in a breadth-first search of its class, the period is

    .. math:: \gcd \{ d(i) + 1 - d(j) : p(i, j) > 0,\ i \leftrightarrow j \}

    Tarjan, 1972; Denardo, 1977. Time and memory are linear in the number of positive entries.

    >>> import scipy.sparse
    >>> structure_of(scipy.sparse.csr_matrix([[0, 1.0, 0], [1.0, 0, 0], [0.5, 0, 0.5]])).periods
    array([2, 1])
    """
    from scipy.sparse.csgraph import connected_components

    count, found = connected_components(P, directed=True, connection="strong")
    _, first = np.unique(found, return_index=True)
    rank = np.empty(count, dtype=np.int64)
    rank[np.argsort(first)] = np.arange(count)
    labels = rank[found]
    rows = np.repeat(np.arange(P.shape[0]), np.diff(P.indptr))
    inside = labels[rows] == labels[P.indices]
    closed = np.ones(count, dtype=bool)
    closed[labels[rows[~inside]]] = False
    return Structure(labels, closed, _periods(P, labels, rows, inside, count))


def _periods(P: Any, labels: np.ndarray, rows: np.ndarray, inside: np.ndarray, count: int) -> np.ndarray:
    levels = _compiled_levels()(P.indptr, P.indices, labels)
    sources, targets = rows[inside], P.indices[inside]
    gaps = np.abs(levels[sources] + 1 - levels[targets])
    periods = np.zeros(count, dtype=np.int64)
    np.gcd.at(periods, labels[sources], gaps)
    return periods


def _levels(indptr: np.ndarray, indices: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Breadth-first levels of every state inside its class, seen from the first state of the class."""
    n = len(labels)
    levels = np.full(n, -1, dtype=np.int64)
    queue = np.empty(n, dtype=np.int64)
    for root in range(n):
        if levels[root] >= 0:
            continue
        levels[root], queue[0], head, tail = 0, root, 0, 1
        while head < tail:
            i = queue[head]
            head += 1
            for k in range(indptr[i], indptr[i + 1]):
                j = indices[k]
                if levels[j] < 0 and labels[j] == labels[i]:
                    levels[j] = levels[i] + 1
                    queue[tail] = j
                    tail += 1
    return levels


@cache
def _compiled_levels() -> Any:
    import numba

    return numba.njit(cache=True)(_levels)
