"""Wasserstein distances of two samples, with errors that know that rows are drawn."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.base.estimate import Estimate
from benthic.base.seeds import generator
from benthic.metrics.samples import Features, pair, subset
from benthic.transport.checks import order
from benthic.transport.line import wasserstein_1d
from benthic.transport.program import exact

_HELD = 1 << 22  # projected numbers held at once


def sliced_wasserstein(
    real: Any,
    generated: Any,
    p: float = 2,
    *,
    features: Features | None = None,
    directions: int = 128,
    seed: int = 0,
) -> Estimate:
    r"""The sliced Wasserstein distance of two samples: the p-th root of the mean over directions of p-th powers.

    .. math:: SW_p = \Bigl(\mathbb{E}_{\theta \sim \mathbb{S}^{d-1}} W_p^p(\theta^\top X, \theta^\top Y)\Bigr)^{1/p}

    Bonneel et al., 2015. The error counts the rows of both samples, each with its mean Kantorovich potential over the
    directions as influence (del Barrio & Loubes, 2019), and the random directions. Finite samples of one law are not
    at distance zero: the value is too large by what two halves of the real rows show.

    real: (n, d) or images. generated: (m, d). features: a function of the samples. directions: how many, by seed.

    >>> X = torch.randn(200, 3, generator=torch.Generator().manual_seed(0))
    >>> found = sliced_wasserstein(X[:100], X[100:] + 1)
    >>> abs(found.value - 1) < 4 * found.stderr
    True
    """
    where = "sliced_wasserstein"
    p = order(where, p)
    X, Y = pair(where, real, generated, features)
    if directions < 1:
        raise InvalidInput(f"{where}: directions is {directions}; at least one is needed")
    normal = torch.randn(directions, X.shape[1], generator=generator(seed, where), dtype=torch.float64)
    theta = torch.nn.functional.normalize(normal, dim=1).to(X.device)
    powers, of_x, of_y = [], X.new_zeros(len(X)), X.new_zeros(len(Y))
    for some in theta.split(max(1, _HELD // (len(X) + len(Y)))):
        x, at_x = (some @ X.T).sort(1)
        y, at_y = (some @ Y.T).sort(1)
        powers.append(wasserstein_1d(x, y, p) ** p)
        of_x.index_add_(0, at_x.reshape(-1), _potentials(x, y, p).reshape(-1))
        of_y.index_add_(0, at_y.reshape(-1), _potentials(y, x, p).reshape(-1))
    each = torch.cat(powers)
    chance = float(each.var()) / directions if directions > 1 and X.shape[1] > 1 else 0.0
    return _rooted(each.mean(), p, chance, of_x / directions, of_y / directions)


def exact_wasserstein(
    real: Any,
    generated: Any,
    p: float = 2,
    *,
    features: Features | None = None,
    max_rows: int = 2000,
    seed: int = 0,
) -> Estimate:
    r"""The exact Wasserstein distance of two samples, by an assignment or a linear program.

    .. math:: W_p = \Bigl(\min_T \sum_{ij} T_{ij} \lVert x_i - y_j \rVert^p\Bigr)^{1/p}

    The error takes the dual potentials as the influence of the rows (del Barrio & Loubes, 2019). It is an error about
    the mean value at this n, which is too large, in many dimensions far too large (Dudley, 1969): compare at equal n
    with the value of two halves of the real rows.

    real: (n, d) or images. generated: (m, d). features: a function of the samples. max_rows: time grows as the cube and
    memory as the square of the rows, so larger samples are cut at random, by seed, both to the same number of rows.

    >>> exact_wasserstein([[0.0, 0.0], [0.0, 1.0]], [[3.0, 1.0], [3.0, 0.0]]).value
    3.0
    """
    where = "exact_wasserstein"
    p = order(where, p)
    X, Y = pair(where, real, generated, features)
    if max_rows < 2:
        raise InvalidInput(f"{where}: max_rows is {max_rows}; at least 2 are needed")
    if X.shape[1] == 1:
        return sliced_wasserstein(X, Y, p, directions=1)
    if max(len(X), len(Y)) > max_rows:
        size = min(len(X), len(Y), max_rows)
        X, Y = subset(X, size, seed, "real"), subset(Y, size, seed, "generated")
    found = exact(None, None, torch.cdist(X, Y, compute_mode="donot_use_mm_for_euclid_dist") ** p)
    return _rooted(found.value, p, 0.0, found.f, found.g)


def _potentials(x: Tensor, y: Tensor, p: float) -> Tensor:
    """Kantorovich potentials of sorted x (k, n) against sorted y (k, m), less their mean.

    Neighbors x_i, x_{i+1} share the y at their common quantile, and the potential climbs from one to the other by the
    difference of their costs to it; where two y meet at that quantile, their mean does.
    """
    n, m = x.shape[1], y.shape[1]
    if n == 1:
        return torch.zeros_like(x)
    level = torch.arange(1, n, device=x.device) * m
    upper = level // n
    lower = torch.where(level % n == 0, upper - 1, upper)
    step = 0.0
    for at in (lower, upper):
        shared = y[:, at]
        step = step + ((x[:, 1:] - shared).abs() ** p - (x[:, :-1] - shared).abs() ** p) / 2
    climbed = torch.cat([torch.zeros_like(x[:, :1]), step.cumsum(1)], 1)
    return climbed - climbed.mean(1, keepdim=True)


def _rooted(power: Tensor, p: float, chance: float, *potentials: Tensor) -> Estimate:
    """The p-th root of a cost, its error from that of the cost by the delta method."""
    cost = max(float(power), 0.0)
    value = cost ** (1 / p)
    if any(len(part) < 2 for part in potentials):
        return Estimate(value, math.nan)
    spread = math.sqrt(chance + sum(float(part.var()) / len(part) for part in potentials))
    if p > 1:
        # the root is steep near zero: the error is at most what would carry the cost there
        spread = min(spread * value / (p * cost), spread ** (1 / p)) if cost > 0 else spread ** (1 / p)
    return Estimate(value, spread)
