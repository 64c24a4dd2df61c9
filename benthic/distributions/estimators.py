"""Entropy, divergence and mutual information from samples alone, each with an error bar."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.base.estimate import Estimate
from benthic.base.seeds import generator, np_generator, seed_of
from benthic.base.settings import is_whole
from benthic.distributions.neighbors import count_within, enough, kth_distance, no_ties

_PARTS, _ROUNDS, _RESAMPLES = 10, 4, 200


def entropy_knn(X: Tensor, k: int, where: str = "entropy") -> float:
    r"""Differential entropy of (n, d) draws from the distances ε to their k-th neighbors.

    .. math:: \psi(n) - \psi(k) + \log c_d + \frac{d}{n} \sum_i \log \epsilon_i

    Kozachenko & Leonenko, 1987; c_d is the volume of the unit ball.
    """
    enough(len(X), k, where)
    distance = no_ties(kth_distance(X, None, k), k, where)
    return _psi(len(X)) - _psi(k) + _log_ball(X.shape[1]) + X.shape[1] * _mean(distance.log())


def cross_entropy_knn(X: Tensor, Y: Tensor, k: int, where: str = "cross_entropy") -> float:
    """Cross-entropy of the law of X (n, d) relative to that of Y (m, d), from distances of X's rows into Y."""
    enough(len(Y) + 1, k, where)
    distance = no_ties(kth_distance(X, Y, k), k, where)
    return math.log(len(Y)) - _psi(k) + _log_ball(X.shape[1]) + X.shape[1] * _mean(distance.log())


def kl_knn(X: Tensor, Y: Tensor, k: int, where: str = "kl") -> float:
    r"""KL of the law of X (n, d) from that of Y (m, d) by distances ρ within X and ν into Y.

    .. math:: \frac{d}{n} \sum_i \log \frac{\nu_i}{\rho_i} + \log \frac{m}{n - 1}

    Wang, Kulkarni & Verdú, 2009.
    """
    enough(min(len(X), len(Y) + 1), k, where)
    near = no_ties(kth_distance(X, None, k), k, where)
    far = no_ties(kth_distance(X, Y, k), k, where)
    return X.shape[1] * _mean(far.log() - near.log()) + math.log(len(Y) / (len(X) - 1))


def affinity_knn(X: Tensor, Y: Tensor, k: int, where: str = "hellinger") -> float:
    """The Bhattacharyya coefficient, the integral of √(pq), of the laws of X and Y (Póczos & Schneider, 2011)."""
    enough(min(len(X), len(Y) + 1), k, where)
    near = no_ties(kth_distance(X, None, k), k, where)
    far = no_ties(kth_distance(X, Y, k), k, where)
    bias = math.exp(2 * math.lgamma(k) - math.lgamma(k + 0.5) - math.lgamma(k - 0.5))
    ratio = 0.5 * (X.shape[1] * (near.log() - far.log()) + math.log((len(X) - 1) / len(Y)))
    return bias * _mean(ratio.exp())


def mutual_information_knn(X: Tensor, Y: Tensor, k: int, where: str = "mutual_information") -> float:
    r"""Mutual information of paired continuous draws (n, a) and (n, b).

    .. math:: \psi(k) + \psi(n) - \langle \psi(n_x + 1) + \psi(n_y + 1) \rangle

    Kraskov, Stögbauer & Grassberger, 2004, their first estimator: n_x counts the draws that are nearer in X
    than the k-th neighbor is in both, by the largest coordinate.
    """
    enough(len(X), k, where)
    radius = no_ties(kth_distance(torch.cat((X, Y), 1), None, k, math.inf), k, where)
    inner = [torch.special.digamma(count_within(part, radius).double() + 1) for part in (X, Y)]
    return _psi(k) + _psi(len(X)) - _mean(inner[0] + inner[1])


def mutual_information_mixed(X: Tensor, labels: Tensor, k: int, where: str = "mutual_information") -> float:
    """Mutual information of continuous draws (n, d) and labels (n,) (Ross, 2014); labels seen once are left out.

    Where a label has k draws or fewer, all its other draws count as neighbors.
    """
    counts = torch.bincount(labels)
    kept = counts[labels] > 1
    X, labels = X[kept], labels[kept]
    enough(len(X), 1, where)
    radius = torch.empty(len(X), dtype=X.dtype, device=X.device)
    used = (counts - 1).clamp(max=k)
    for label in torch.unique(labels).tolist():
        own = labels == label
        radius[own] = kth_distance(X[own], None, int(used[label]), math.inf)
    around = count_within(X, no_ties(radius, k, where)) + 1
    inner = [torch.special.digamma(part.double()) for part in (used[labels], counts[labels], around)]
    return _psi(len(X)) + _mean(inner[0] - inner[1] - inner[2])


def mutual_information_counts(x: Tensor, y: Tensor) -> Estimate:
    r"""Mutual information of two columns of labels (n,), corrected for the bias of counting.

    .. math:: \hat I + \frac{K_x + K_y - K_{xy} - 1}{2n}

    Miller, 1955, with K the number of occupied cells; the error bar is the jackknife's over the n draws.
    """
    n, cells = len(x), torch.stack((x, y), 1)
    pairs, joint = torch.unique(cells, dim=0, return_counts=True)
    rows, columns = torch.bincount(x)[pairs[:, 0]], torch.bincount(y)[pairs[:, 1]]
    sums = [_plus(torch.bincount(x)).sum(), _plus(torch.bincount(y)).sum(), _plus(joint).sum()]
    kinds = len(torch.unique(x)) + len(torch.unique(y)) - len(joint)
    value = _from_sums(sums, kinds, n)
    if n < 3:
        return Estimate(float(value), math.nan)
    # leaving out one draw of a cell changes one term of each sum
    without = [s - _plus(c) + _plus(c - 1) for s, c in zip(sums, (rows, columns, joint), strict=True)]
    fewer = kinds - (rows == 1).double() - (columns == 1).double() + (joint == 1).double()
    left = _from_sums(without, fewer, n - 1)
    spread = (joint * (left - (joint * left).sum() / n).square()).sum()
    return Estimate(float(value), math.sqrt((n - 1) / n * float(spread)))


def entropy_counts(labels: Tensor) -> Estimate:
    """Entropy of labels (n,) with Miller's correction (K − 1)/2n, and the jackknife's error bar."""
    n, counts = len(labels), torch.bincount(labels)
    counts = counts[counts > 0]
    whole = _plus(counts).sum()
    value = math.log(n) - whole / n + (len(counts) - 1) / (2 * n)
    if n < 2:
        return Estimate(float(value), math.nan)
    left = math.log(n - 1) - (whole - _plus(counts) + _plus(counts - 1)) / (n - 1)
    left = left + (len(counts) - (counts == 1).double() - 1) / (2 * (n - 1))
    spread = (counts * (left - (counts * left).sum() / n).square()).sum()
    return Estimate(float(value), math.sqrt((n - 1) / n * float(spread)))


def from_labels(function: Callable[[Tensor, Tensor], Tensor], x: Tensor, y: Tensor, seed: int | None) -> Estimate:
    """A divergence of the frequencies of two sets of labels, with a bootstrap error bar.

    function: from tables (..., K) and (..., K) to (...).
    """
    rows, labels = torch.unique(torch.cat((x, y)), dim=0, return_inverse=True)
    pair = [torch.bincount(part, minlength=len(rows)).double() / len(part) for part in labels.split((len(x), len(y)))]
    rng = np_generator(seed_of(seed), "labels")
    drawn = [
        torch.from_numpy(rng.multinomial(len(part), p.cpu().numpy(), _RESAMPLES)) / len(part)
        for part, p in zip((x, y), pair, strict=True)
    ]
    values = function(*drawn)
    finite = bool(torch.isfinite(values).all())
    return Estimate(float(function(*pair)), float(values.std()) if finite else math.nan)


def with_error(
    estimate: Callable[..., float], samples: list[Tensor], smallest: int, paired: bool, seed: int | None
) -> Estimate:
    """The estimate on all draws, with an error bar from its spread over disjoint parts of them.

    The variance of such estimators falls as 1/n, so that of B parts is B times that of the whole
    (Holmes & Nemenman, 2019). smallest: the least number of draws of a part; below two parts the error is NaN.
    """
    value = estimate(*samples)
    parts = min(_PARTS, min(len(sample) for sample in samples) // max(1, smallest))
    if parts < 2:
        return Estimate(value, math.nan)
    variances, base = [], seed_of(seed)
    for turn in range(_ROUNDS):
        cut = _cut(samples, parts, paired, generator(base, "parts", turn))
        values = torch.tensor([estimate(*part) for part in zip(*cut, strict=True)], dtype=torch.float64)
        variances.append(float(values.var()) / parts)
    return Estimate(value, math.sqrt(sum(variances) / _ROUNDS))


def quantile_labels(x: Tensor, bins: int | None, where: str) -> Tensor:
    """Cells of equal count for a column of measurements (n,): labels from 0, about five draws a pair of cells."""
    if bins is None:
        bins = max(2, min(64, round(math.sqrt(len(x) / 5))))
    if not is_whole(bins, 1):
        raise InvalidInput(f"{where}: bins is {bins!r}; it must be a whole number of cells, at least 1")
    x = x.contiguous()
    order = x.sort().values
    inner = order[torch.arange(1, bins, device=x.device) * len(x) // bins] if bins > 1 else order[:0]
    return torch.unique(torch.searchsorted(inner, x, right=True), return_inverse=True)[1]


def _cut(samples: list[Tensor], parts: int, paired: bool, gen: torch.Generator) -> list[tuple[Tensor, ...]]:
    out, order = [], None
    for sample in samples:
        if order is None or not paired:
            order = torch.randperm(len(sample), generator=gen)
        out.append(sample[order.to(sample.device)].tensor_split(parts))
    return out


def _from_sums(sums: list[Tensor], kinds: Tensor | int, n: int) -> Tensor:
    return math.log(n) + (sums[2] - sums[0] - sums[1]) / n + (kinds - 1) / (2 * n)


def _plus(counts: Tensor) -> Tensor:
    """c log c, 0 at 0."""
    return torch.xlogy(counts.double(), counts.double())


def _psi(count: int) -> float:
    return float(torch.special.digamma(torch.tensor(float(count), dtype=torch.float64)))


def _log_ball(d: int) -> float:
    return 0.5 * d * math.log(math.pi) - math.lgamma(0.5 * d + 1)


def _mean(values: Tensor) -> float:
    return float(values.double().mean())
