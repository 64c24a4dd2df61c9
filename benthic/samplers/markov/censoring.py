"""Stationary laws by elimination of states, without a subtraction: every entry is right to its last digits."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benthic.base.errors import InvalidInput

_BIG = 2.0**500
_MANY_NEIGHBORS = 8192


def gth(P: Tensor) -> Tensor:
    r"""Stationary law of an irreducible chain by censoring one state after the other.

    .. math:: p_{ij} \leftarrow p_{ij} + p_{ik}\, p_{kj} / \textstyle\sum_{l < k} p_{kl}, \quad i, j < k

    Grassmann, Taksar and Heyman, 1985. Each entry has a small *relative* error, however small it is
    (O'Cinneide, 1993). P: (n, n), dense. Returns (n,) in float64. Takes :math:`2 n^3 / 3` operations.

    >>> gth(torch.tensor([[0.9, 0.1], [0.3, 0.7]], dtype=torch.float64))
    tensor([0.7500, 0.2500], dtype=torch.float64)
    """
    A = P.detach().to(torch.float64).clone()
    n = len(A)
    for k in range(n - 1, 0, -1):
        A[:k, k] /= A[k, :k].sum()
        A[:k, :k].addr_(A[:k, k], A[k, :k])
    law = torch.zeros(n, dtype=torch.float64, device=A.device)
    law[0] = 1
    for k in range(1, n):
        law[k] = law[:k] @ A[:k, k]
        if k % 16 == 0:
            law[: k + 1] /= law[: k + 1].max()  # what is 1e300 times smaller than the rest may go to zero
    return law / law.sum()


def bandwidth(P: Any) -> tuple[np.ndarray, int]:
    """An order of the states that brings the entries of P near the diagonal, and how far the farthest then is.

    Cuthill and McKee, 1969, reversed. P: SciPy sparse (n, n). A state with very many neighbors is at least half of
    them wide in any order, so none is looked for.
    """
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    pattern = (P + P.T).tocsr()
    if np.diff(pattern.indptr).max(initial=0) > _MANY_NEIGHBORS:
        return np.arange(P.shape[0]), P.shape[0]
    order = reverse_cuthill_mckee(pattern, symmetric_mode=True).astype(np.int64)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    rows = np.repeat(place, np.diff(P.indptr))
    return order, int(np.abs(rows - place[P.indices]).max(initial=0))


def banded_gth(P: Any, order: np.ndarray, width: int) -> np.ndarray:
    """The elimination of :func:`gth` inside a band, in O(n width squared); laws over any range of magnitudes.

    P: SciPy sparse (n, n), irreducible. order, width: from :func:`bandwidth`. Returns (n,).

    >>> import scipy.sparse
    >>> P = scipy.sparse.csr_matrix([[0.5, 0.5, 0], [0.25, 0.5, 0.25], [0, 0.5, 0.5]])
    >>> banded_gth(P, *bandwidth(P))
    array([0.25, 0.5 , 0.25])
    """
    n = P.shape[0]
    place = np.empty_like(order)
    place[order] = np.arange(n)
    rows, columns = np.repeat(place, np.diff(P.indptr)), place[P.indices]
    band = np.zeros((n, 2 * width + 1))
    band[rows, width + columns - rows] = P.data
    mantissa, shifts = _compiled()(band, width, _BIG)
    if mantissa[0] < 0:
        raise InvalidInput("MarkovChain.stationary: the ways back underflow; the chain is reducible to rounding")
    law = np.empty(n)
    law[order] = np.ldexp(mantissa, (500 * (shifts - shifts.max())).astype(np.int64))
    return law / law.sum()


def _eliminate(band: np.ndarray, width: int, big: float) -> tuple[np.ndarray, np.ndarray]:
    """Mantissas and numbers of shifts by ``big`` of the unnormalized law; a first mantissa of -1 tells of failure."""
    n = len(band)
    mantissa, shifts, recent = np.ones(n), np.zeros(n), np.ones(n)
    for k in range(n - 1, 0, -1):
        low = max(0, k - width)
        out = 0.0
        for j in range(low, k):
            out += band[k, width + j - k]
        if not out > 0:
            mantissa[0] = -1.0
            return mantissa, shifts
        for i in range(low, k):
            share = band[i, width + k - i] / out
            band[i, width + k - i] = share
            if share > 0:
                for j in range(low, k):
                    band[i, width + j - i] += share * band[k, width + j - k]
    shift = 0.0
    for k in range(1, n):
        low = max(0, k - width)
        value = 0.0
        for j in range(low, k):
            value += recent[j] * band[j, width + k - j]
        recent[k], mantissa[k], shifts[k] = value, value, shift
        largest = recent[low : k + 1].max()
        if largest > big or largest < 1 / big:
            factor = 1 / big if largest > big else big
            shift += 1.0 if largest > big else -1.0
            recent[low : k + 1] *= factor
    return mantissa, shifts


@cache
def _compiled() -> Any:
    import numba

    return numba.njit(cache=True)(_eliminate)
