"""How good predictive laws are: intervals, and the distance of a whole law from what came true."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.base.estimate import Estimate
from benthic.metrics.rows import device_of, numbers, same_rows, weighted_mean, weights_of


def interval_coverage(y: Any, lower: Any, upper: Any, sample_weight: Any = None) -> Estimate:
    """The share of rows whose true value lies in its interval, ends included.

    y, lower, upper: (n,) or (n, k).

    >>> interval_coverage([1.0, 2.0, 3.0, 4.0], [0.0, 0.0, 0.0, 0.0], [3.0, 3.0, 3.0, 3.0]).value
    0.75
    """
    truth, low, high, weights = _intervals(y, lower, upper, sample_weight, "interval_coverage")
    return weighted_mean(((low <= truth) & (truth <= high)).double().mean(1), weights)


def interval_width(lower: Any, upper: Any, sample_weight: Any = None) -> Estimate:
    """The mean width of intervals.

    >>> interval_width([0.0, 0.0], [1.0, 3.0]).value
    2.0
    """
    _, low, high, weights = _intervals(lower, lower, upper, sample_weight, "interval_width")
    return weighted_mean((high - low).mean(1), weights)


def interval_score(y: Any, lower: Any, upper: Any, level: float = 0.9, sample_weight: Any = None) -> Estimate:
    r"""Width plus a fine for every miss; least, on average, for the true central interval (Winkler, 1972).

    .. math:: (u - l) + \frac{2}{1 - \mathrm{level}} \bigl((l - y)_+ + (y - u)_+\bigr)

    level: the coverage the intervals claim.

    >>> interval_score([0.0, 2.0], [-1.0, -1.0], [1.0, 1.0], level=0.5).value
    4.0
    """
    if not 0 < level < 1:
        raise InvalidInput(f"interval_score: level is {level}; it must lie between 0 and 1")
    truth, low, high, weights = _intervals(y, lower, upper, sample_weight, "interval_score")
    missed = (low - truth).clamp(min=0) + (truth - high).clamp(min=0)
    return weighted_mean((high - low + 2 / (1 - level) * missed).mean(1), weights)


def crps_samples(y: Any, samples: Any, fair: bool = True, sample_weight: Any = None) -> Estimate:
    r"""Continuous ranked probability score of draws from each row's predictive law.

    .. math:: E|X - y| - \tfrac12 E|X - X'| = \int (F(x) - [x \ge y])^2 \, dx

    y: (n,). samples: (n, m) draws. fair: whether the second mean leaves out a draw beside itself, which makes the
    score of m draws unbiased for that of their law (Ferro, 2014); otherwise it is the score of the empirical law.

    >>> crps_samples([0.0], [[-1.0, 1.0]], fair=False).value
    0.5
    """
    where = "crps_samples"
    n = same_rows(where, y=y, samples=samples)
    device = device_of(y, samples)
    truth, draws = numbers(y, where, "y", device), numbers(samples, where, "samples", device)
    m = draws.shape[-1]
    if truth.shape != (n,) or draws.ndim != 2:
        raise InvalidInput(
            f"{where}: y has shape {tuple(truth.shape)} and samples {tuple(draws.shape)}; (n,) and (n, m)"
        )
    if m < 1 + fair:
        raise InvalidInput(f"{where}: there is {m} draw a row; at least {1 + fair} are needed")
    place = torch.arange(1, m + 1, device=device, dtype=torch.float64)
    # sum over pairs of |x - x'| from sorted draws: 2 sum_i (2 i - m - 1) x_(i)
    apart = 2 * (draws.sort(1).values * (2 * place - m - 1)).sum(1) / (m * (m - 1) if fair else m * m)
    scores = (draws - truth[:, None]).abs().mean(1) - apart / 2
    return weighted_mean(scores, weights_of(sample_weight, n, where, device))


def crps_gaussian(y: Any, mean: Any, std: Any, sample_weight: Any = None) -> Estimate:
    r"""Continuous ranked probability score of Gaussian predictions (Gneiting et al., 2005).

    .. math:: \sigma \Bigl(z (2 \Phi(z) - 1) + 2 \varphi(z) - \pi^{-1/2}\Bigr), \quad z = (y - \mu) / \sigma

    y, mean, std: (n,) or (n, k); a std of zero leaves the absolute error.

    >>> round(crps_gaussian([0.0], [0.0], [1.0]).value, 4)
    0.2337
    """
    where = "crps_gaussian"
    truth, middle, spread, weights = _triple(where, sample_weight, y=y, mean=mean, std=std)
    if bool((spread < 0).any()):
        raise InvalidInput(f"{where}: std has a negative value; it must be zero or more")
    off = truth - middle
    z = off / torch.where(spread > 0, spread, 1.0)
    density = torch.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    score = spread * (z * torch.erf(z / math.sqrt(2)) + 2 * density - 1 / math.sqrt(math.pi))
    return weighted_mean(torch.where(spread > 0, score, off.abs()).mean(1), weights)


def _intervals(y: Any, lower: Any, upper: Any, sample_weight: Any, where: str) -> tuple[Tensor, ...]:
    truth, low, high, weights = _triple(where, sample_weight, y=y, lower=lower, upper=upper)
    if bool((low > high).any()):
        raise InvalidInput(f"{where}: {int((low > high).sum())} lower ends lie above their upper ends; swap them")
    return truth, low, high, weights


def _triple(where: str, sample_weight: Any, **arrays: Any) -> tuple[Tensor, ...]:
    """Three arrays as (n, k) of one shape, and weights."""
    n = same_rows(where, **arrays)
    device = device_of(*arrays.values())
    # an interval may be open where only coverage counts
    ends = ("lower", "upper") if where == "interval_coverage" else ()
    found = [numbers(array, where, name, device, name in ends).reshape(n, -1) for name, array in arrays.items()]
    if len({part.shape for part in found}) > 1:
        said = ", ".join(f"{name} {tuple(part.shape)}" for name, part in zip(arrays, found, strict=True))
        raise InvalidInput(f"{where}: shapes differ: {said}")
    return *found, weights_of(sample_weight, n, where, device)
