r"""Distances of two samples with the influence of every row on them, so that a bootstrap needs no second computation.

A metric is a function of the weights of the rows. To first order

.. math:: m(w) \approx m + \frac1n \sum_i (w_i - 1)\, \psi_i

with :math:`\psi_i` the influence of a row (Efron, 1982, chapter 6). Resampled rows are whole weights :math:`w_i`, so a
thousand resamples of every metric of every model are one product of matrices, and the same resamples serve all models.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from benthic.base.seeds import generator
from benthic.distributions.distances import frechet

_TINY = 1e-12


class Rowwise(NamedTuple):
    """A metric of a real sample (n rows) and a made one (m rows), and the influence of each row, (n,) and (m,)."""

    value: float
    of_real: Tensor
    of_made: Tensor


class Overlap(NamedTuple):
    """The four numbers of ``benthic.metrics.prdc``, each with its influences."""

    precision: Rowwise
    recall: Rowwise
    density: Rowwise
    coverage: Rowwise


def frechet_rows(X: Tensor, Y: Tensor) -> Rowwise:
    """The squared Fréchet distance of the normal laws fitted to both (Heusel et al., 2017).

    X: (n, d), Y: (m, d), more rows than columns.

    >>> x = torch.tensor([[0.0], [2.0]], dtype=torch.float64)
    >>> frechet_rows(x, x + 3).value
    9.0
    """
    means, centered = [side.mean(0) for side in (X, Y)], [side - side.mean(0) for side in (X, Y)]
    spreads = [side.T @ side / (len(side) - 1) for side in centered]
    with torch.enable_grad():
        parts = [part.clone().requires_grad_() for part in (means[0], spreads[0], means[1], spreads[1])]
        value = frechet((parts[0], parts[1]), (parts[2], parts[3]), squared=True)
        slopes = torch.autograd.grad(value, parts)
    found = [
        _less_mean(side @ slope + ((side @ curve) * side).sum(1))
        for side, slope, curve in zip(centered, slopes[::2], slopes[1::2], strict=True)
    ]
    return Rowwise(float(value.detach()), *found)


def kernel_rows(X: Tensor, Y: Tensor) -> Rowwise:
    """The unbiased squared discrepancy under the cubic kernel (Bińkowski et al., 2018); see ``kernel_distance``.

    >>> x = torch.linspace(-1, 1, 50, dtype=torch.float64)[:, None]
    >>> kernel_rows(x, x + 1).value > 0.1
    True
    """
    d = X.shape[1]
    return _discrepancy(*((a @ b.T / d + 1) ** 3 for a, b in ((X, X), (Y, Y), (X, Y))))


def energy_rows(X: Tensor, Y: Tensor) -> Rowwise:
    r"""The energy distance (Székely & Rizzo, 2013), unbiased: zero only if the laws are the same.

    .. math:: 2 E\|x - y\| - E\|x - x'\| - E\|y - y'\|

    >>> x = torch.linspace(-1, 1, 50, dtype=torch.float64)[:, None]
    >>> round(energy_rows(x, x + 10).value, 1)
    18.7
    """
    return _discrepancy(*(-torch.cdist(a, b) for a, b in ((X, X), (Y, Y), (X, Y))))


def _discrepancy(XX: Tensor, YY: Tensor, XY: Tensor) -> Rowwise:
    """The unbiased squared discrepancy from the kernels of all pairs, (n, n), (m, m) and (n, m)."""
    n, m = XY.shape
    of_x = (XX.sum(1) - XX.diagonal()) / (n - 1) - XY.mean(1)
    of_y = (YY.sum(1) - YY.diagonal()) / (m - 1) - XY.mean(0)
    return Rowwise(float(of_x.mean() + of_y.mean()), 2 * _less_mean(of_x), 2 * _less_mean(of_y))


def wasserstein_rows(X: Tensor, Y: Tensor, directions: int = 64, seed: int = 0) -> Rowwise:
    r"""The sliced Wasserstein distance of order 1, the mean over directions of the area between distribution functions.

    .. math:: E_\theta\, W_1(\theta^\top X, \theta^\top Y)

    X: (n, d), Y: (m, d). directions: how many, by seed.

    >>> x = torch.arange(4.0, dtype=torch.float64)[:, None]
    >>> wasserstein_rows(x, x + 1).value
    1.0
    """
    d = X.shape[1]
    normal = torch.randn(directions if d > 1 else 1, d, generator=generator(seed, "slices"), dtype=torch.float64)
    theta = torch.nn.functional.normalize(normal, dim=1).to(X.device)
    n, m = len(X), len(Y)
    points, at = (theta @ torch.cat([X, Y]).T).sort(1)  # (k, n + m)
    first = (at < n).double()
    gap = (first / n - (1 - first) / m).cumsum(1)[:, :-1]  # F - G between neighbors
    gap = torch.where(gap.abs() < 1e-12, 0.0, gap)
    step = points.diff(dim=1)
    # a row at x moves W1, the integral of |F - G|, by that of the sign of F - G over what lies above x
    above = torch.nn.functional.pad((gap.sign() * step).flip(1).cumsum(1).flip(1), (0, 1))
    moved = torch.zeros_like(points).scatter_(1, at, above).mean(0)
    return Rowwise(float((gap.abs() * step).sum(1).mean()), _less_mean(moved[:n]), -_less_mean(moved[n:]))


def marginal_rows(X: Tensor, Y: Tensor, groups: tuple[slice, ...], categorical: np.ndarray) -> Rowwise:
    """The mean over columns of Kolmogorov and Smirnov's distance, or of total variation for categories.

    X, Y: (n, d), equally many encoded rows. groups: columns of the matrix that are one column of the data.
    categorical: (d,) whether those are the values of a category.

    >>> x = torch.arange(3.0, dtype=torch.float64)[:, None]
    >>> marginal_rows(x, x + 5, (slice(0, 1),), np.array([False])).value
    1.0
    """
    value, of_x, of_y = 0.0, X.new_zeros(len(X)), X.new_zeros(len(Y))
    for group in groups:
        if categorical[group.start]:
            gap = X[:, group].mean(0) - Y[:, group].mean(0)
            value += float(gap.abs().sum() / 2)
            of_x += X[:, group] @ gap.sign() / 2
            of_y -= Y[:, group] @ gap.sign() / 2
            continue
        x, y = X[:, group.start], Y[:, group.start]
        points = torch.cat([x, y]).sort().values
        below = [torch.searchsorted(side.sort().values, points, right=True).double() / len(side) for side in (x, y)]
        gap = below[0] - below[1]
        at = int(gap.abs().argmax())
        value += float(gap[at].abs())
        of_x += gap[at].sign() * (x <= points[at])
        of_y -= gap[at].sign() * (y <= points[at])
    count = len(groups)
    return Rowwise(value / count, _less_mean(of_x) / count, _less_mean(of_y) / count)


def association_rows(X: Tensor, Y: Tensor, groups: tuple[slice, ...]) -> Rowwise:
    """The mean absolute difference of correlations over pairs of columns of the matrix that are different data columns.

    >>> x = torch.tensor([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]], dtype=torch.float64)
    >>> association_rows(x, x * torch.tensor([1.0, -1.0]), (slice(0, 1), slice(1, 2))).value
    2.0
    """
    mask = X.new_ones(X.shape[1], X.shape[1])
    for group in groups:
        mask[group, group] = 0
    (A, R), (B, S) = _standard(X), _standard(Y)
    pairs = max(float(mask.sum()), 1.0)
    signs = torch.sign(R - S) * mask / pairs
    value = float(((R - S).abs() * mask).sum() / pairs)
    return Rowwise(value, _of_correlations(A, R, signs), -_of_correlations(B, S, signs))


def _standard(X: Tensor) -> tuple[Tensor, Tensor]:
    """Columns of mean 0 and variance 1, zero where a column does not vary, and their correlations."""
    centered = X - X.mean(0)
    spread = centered.square().mean(0).sqrt()
    Z = torch.where(spread > _TINY, centered / spread.clamp_min(_TINY), 0.0)
    return Z, Z.T @ Z / len(Z)


def _of_correlations(Z: Tensor, R: Tensor, signs: Tensor) -> Tensor:
    """Influences on a weighted sum of correlations: z_j z_k - r_jk (z_j² + z_k²) / 2 for each pair."""
    return ((Z @ signs) * Z).sum(1) - Z.square() @ (signs * R).sum(1)


def detection_rows(X: Tensor, Y: Tensor, seed: int = 0) -> Rowwise:
    r"""How well boosted trees tell two samples apart: the area under their curve, on rows they were not fitted on.

    .. math:: P\big(s(y) > s(x)\big) + \tfrac12 P\big(s(y) = s(x)\big)

    One half if the laws are the same (Lopez-Paz & Oquab, 2017). Half of each sample fits, and has no influence; the
    influence of a judged row is the share of the other sample that it beats (Sen, 1960; DeLong et al., 1988).

    >>> x = torch.arange(40.0, dtype=torch.float64)[:, None]
    >>> detection_rows(x, x + 1000).value
    1.0
    """
    from benthic.trees import GradientBoostingClassifier

    n, m = len(X) // 2, len(Y) // 2
    order = [torch.randperm(len(side), generator=generator(seed, "detection")) for side in (X, Y)]
    (fit_x, judge_x), (fit_y, judge_y) = (
        at.split([size, len(at) - size]) for at, size in zip(order, (n, m), strict=True)
    )
    model = GradientBoostingClassifier(max_iter=50, random_state=seed)
    model.fit(torch.cat([X[fit_x], Y[fit_y]]).numpy(), np.repeat([0, 1], [n, m]))
    a, b = (torch.as_tensor(model.predict_proba(side.numpy())[:, 1]) for side in (X[judge_x], Y[judge_y]))
    beaten = (b > a[:, None]).double() + (b == a[:, None]).double() / 2  # (real, made)
    of_x, of_y = X.new_zeros(len(X)), X.new_zeros(len(Y))
    of_x[judge_x] = _less_mean(beaten.mean(1)) * len(X) / len(judge_x)
    of_y[judge_y] = _less_mean(beaten.mean(0)) * len(Y) / len(judge_y)
    return Rowwise(float(beaten.mean()), of_x, of_y)


def overlap_rows(X: Tensor, Y: Tensor, k: int = 5, around: Tensor | None = None) -> Overlap:
    """Precision, recall, density and coverage; see ``benthic.metrics.prdc``.

    The influences keep the radii of the balls as they are. around: (n,) radii of X, where they are known already.

    >>> x = torch.arange(10.0, dtype=torch.float64)[:, None]
    >>> overlap_rows(x, x + 100).coverage.value
    0.0
    """
    k = min(k, len(X) - 1, len(Y) - 1)
    D = torch.cdist(X, Y, compute_mode="donot_use_mm_for_euclid_dist")
    around_x, around_y = radii(X, k) if around is None else around, radii(Y, k)
    inside, within, beside = around_x[:, None] >= D, around_x[:, None] > D, around_y >= D
    return Overlap(
        _covered(inside.T),
        _flipped(_covered(beside)),
        _counted(within.T.double() / k),
        _flipped(_covered(within)),
    )


def radii(X: Tensor, k: int = 5) -> Tensor:
    """(n,) distances to the k-th nearest other row."""
    D = torch.cdist(X, X, compute_mode="donot_use_mm_for_euclid_dist").fill_diagonal_(math.inf)
    return D.kthvalue(min(k, len(X) - 1), dim=1).values


def _covered(holds: Tensor) -> Rowwise:
    """The share of rows (m) held by any of (n) others; of_made are the rows, of_real the others."""
    met = holds.any(1).double()
    alone = (holds & (holds.sum(1, keepdim=True) == 1)).double().sum(0) / len(met)  # held by nobody else
    return Rowwise(float(met.mean()), _less_mean(alone * (holds.shape[1] - 1)), _less_mean(met))


def _counted(holds: Tensor) -> Rowwise:
    return Rowwise(float(holds.sum() / len(holds)), _less_mean(holds.sum(0)), _less_mean(holds.sum(1)))


def _flipped(found: Rowwise) -> Rowwise:
    return Rowwise(found.value, found.of_made, found.of_real)


def _less_mean(values: Tensor) -> Tensor:
    return values - values.mean()
