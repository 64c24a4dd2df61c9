"""How much points belong together: Gaussian weights of neighbors whose widths give each row the same perplexity."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benthic.base.errors import InvalidInput

_STEPS = 64  # halvings of the bracket of a width: more than a double has digits
_WIDE = 3  # neighbors taken for each unit of perplexity; those beyond weigh less than e^-3 of the nearest


def conditional(square: Tensor, perplexity: float) -> Tensor:
    r"""Probabilities of neighbors from squared distances (n, k), each row with the asked perplexity.

    .. math:: p_{j|i} \propto e^{-\beta_i d_{ij}^2}, \qquad 2^{H(p_{\cdot|i})} = \text{perplexity}

    The inverse width β of each row is found by bisection (van der Maaten & Hinton, 2008). A row whose neighbors are
    all equally far gives all the same probability, whatever was asked.

    >>> p = conditional(torch.tensor([[1.0, 2.0, 3.0, 4.0]]), 2.0)
    >>> round(float(torch.exp(-(p * p.log()).sum())), 6)
    2.0
    """
    n, k = square.shape
    if not 1 <= perplexity < k:
        raise InvalidInput(
            f"perplexity is {perplexity:g} and there are {k} neighbors; it must be at least 1 and less than so many"
        )
    gaps = (square - square.amin(1, keepdim=True)).double()
    scale = gaps.mean(1, keepdim=True).clamp(min=1e-300)
    gaps = gaps / scale
    low, high = gaps.new_full((n, 1), -60.0), gaps.new_full((n, 1), 60.0)  # of the logarithm of the inverse width
    target = math.log(perplexity)
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        wide = _entropy(gaps, middle.exp()) > target
        low, high = torch.where(wide, middle, low), torch.where(wide, high, middle)
    return torch.softmax(-(0.5 * (low + high)).exp() * gaps, 1)


def _entropy(gaps: Tensor, beta: Tensor) -> Tensor:
    log = torch.log_softmax(-beta * gaps, 1)
    return -(log.exp() * log).sum(1, keepdim=True)


def neighbors_for(perplexity: float, n: int) -> int:
    """How many neighbors stand for all of n rows at a perplexity."""
    return min(n - 1, math.ceil(_WIDE * perplexity) + 1)


def symmetric(index: Tensor, probability: Tensor) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(p_j|i + p_i|j) / 2n as the arrays of a sparse matrix: starts of rows, columns, values.

    index, probability: (n, k) neighbors and their conditional probabilities.
    """
    from scipy.sparse import csr_array

    n, k = index.shape
    values = probability.double().cpu().numpy().ravel() / (2 * n)
    columns = index.cpu().numpy().ravel()
    one_way: Any = csr_array((values, columns, np.arange(0, n * k + 1, k)), shape=(n, n))
    both = csr_array(one_way + one_way.T)
    both.sort_indices()
    return both.indptr.astype(np.int64), both.indices.astype(np.int32), both.data
