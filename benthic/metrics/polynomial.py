"""The kernel distance of two samples' features: unbiased at any number of rows, with its standard error."""

from __future__ import annotations

import math
from typing import Any

import torch

from benthic.base.errors import InvalidInput
from benthic.base.estimate import Estimate, mean_of
from benthic.kernels.covariance import Polynomial
from benthic.kernels.discrepancy import mmd, mmd_squared
from benthic.metrics.samples import Features, at_least, pair, shuffled


def kernel_distance(
    real: Any,
    generated: Any,
    *,
    features: Features | None = None,
    degree: int = 3,
    gamma: float | None = None,
    offset: float = 1.0,
    block_size: int | None = None,
    seed: int = 0,
    elements: int | None = None,
) -> Estimate:
    r"""The squared maximum mean discrepancy of two samples under a polynomial kernel, unbiased.

    .. math:: k(x, y) = (\gamma\, x^\top y + c)^p, \qquad
        \frac{1}{n(n-1)} \sum_{i \ne j} k(x_i, x_j) + \frac{1}{m(m-1)} \sum_{i \ne j} k(y_i, y_j)
        - \frac{2}{nm} \sum_{ij} k(x_i, y_j)

    Bińkowski et al., 2018; with Inception features it is their KID. It may be negative. All pairs of rows are used, a
    tile at a time, and the error is that of the statistic of all pairs (see ``benthic.kernels.mmd``). With
    ``block_size`` the rows are dealt into blocks, as published: the mean over blocks and its standard error, in time
    proportional to the rows and with a larger error.

    real: (n, d) or images. generated: (m, d). features: a function of the samples. degree: p. gamma: 1/d when None.
    offset: c. block_size: rows of each sample in a block; seed: of the deal. elements: entries of a tile.

    >>> x = torch.linspace(-1, 1, 50)[:, None]
    >>> found = kernel_distance(x, x + 1)
    >>> found.value > 3 * found.stderr
    True
    """
    where = "kernel_distance"
    X, Y = pair(where, real, generated, features)
    at_least(where, 2, "for pairs of different rows", real=X, generated=Y)
    gamma = 1 / X.shape[1] if gamma is None else gamma
    if not gamma > 0 or not math.isfinite(gamma):
        raise InvalidInput(f"{where}: gamma is {gamma}; a positive number is needed, 1/d when left out")
    kernel = Polynomial(degree, gamma**-0.5, offset)
    if block_size is None:
        return mmd(X, Y, kernel, elements=elements)
    count = min(len(X), len(Y)) // max(block_size, 1)
    if block_size < 2 or count < 2:
        raise InvalidInput(
            f"{where}: block_size is {block_size} with {len(X)} and {len(Y)} rows; a block needs at least 2 rows of "
            "each, and at least two blocks are needed"
        )
    X, Y = (
        side[shuffled(len(side), seed, name)[: count * block_size].to(side.device)]
        for name, side in (("real", X), ("generated", Y))
    )
    parts = zip(X.split(block_size), Y.split(block_size), strict=True)
    return mean_of(torch.stack([mmd_squared(x, y, kernel, elements=elements) for x, y in parts]).cpu())
