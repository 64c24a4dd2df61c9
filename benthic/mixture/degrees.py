"""Degrees of freedom of Student's t from the sums of an E step."""

from __future__ import annotations

import torch
from torch import Tensor

LEAST, MOST = 0.1, 1000.0  # beyond, a t is a normal law
_ROUNDS = 80  # of bisection: the interval of logarithms ends below rounding


def degrees_from(mean: Tensor) -> Tensor:
    r"""The degrees of freedom that are most likely given the mean of log u − u, by bisection.

    .. math:: \log\frac{\nu}{2} - \psi\Bigl(\frac{\nu}{2}\Bigr) + 1 + E[\log u - u] = 0

    Peel & McLachlan, 2000, equation 29; u is the weight of a row, whose mean and mean logarithm the E step knows.
    mean: (...). The answer lies between 0.1 and 1000.

    >>> half = torch.tensor(2.0, dtype=torch.float64)  # u ~ Gamma(2, 2): E[log u] = psi(2) - log 2
    >>> degrees_from(torch.digamma(half) - half.log() - 1)
    tensor(4., dtype=torch.float64)
    """
    low = torch.full_like(mean, LEAST).log()
    high = torch.full_like(mean, MOST).log()
    for _ in range(_ROUNDS):
        middle = 0.5 * (low + high)
        half = 0.5 * middle.exp()
        above = half.log() - torch.digamma(half) + 1 + mean > 0  # the left side falls, so the root is higher
        low, high = torch.where(above, middle, low), torch.where(above, high, middle)
    return (0.5 * (low + high)).exp()


def expected_log_excess(nu: Tensor, seen: Tensor | int) -> Tensor:
    """E[log u] less log E[u] for a row with ``seen`` observed columns."""
    half = 0.5 * (nu + seen)
    return torch.digamma(half) - half.log()
