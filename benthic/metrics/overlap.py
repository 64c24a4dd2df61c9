"""How far two samples cover each other: precision, recall, density and coverage by balls around neighbors."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.base.estimate import Estimate
from benthic.base.settings import is_whole
from benthic.kernels.neighbors import search
from benthic.kernels.points import blocks
from benthic.metrics.samples import Features, grouped, jackknife, left_out, pair

_TILE = {"cpu": 1 << 20, "cuda": 1 << 24}
_GATHER = {"cpu": 1 << 18, "cuda": 1 << 24}  # numbers of rows gathered at a time


class PRDC(NamedTuple):
    """Precision and recall (Kynkäänniemi et al., 2019), density and coverage (Naeem et al., 2020)."""

    precision: Estimate
    recall: Estimate
    density: Estimate
    coverage: Estimate


class PrecisionRecall(NamedTuple):
    """Share of generated rows within the real ones' balls, and of real rows within the generated ones'."""

    precision: Estimate
    recall: Estimate


class DensityCoverage(NamedTuple):
    """How many real balls hold a generated row, against k, and the share of real balls that hold one at all."""

    density: Estimate
    coverage: Estimate


def prdc(
    real: Any,
    generated: Any,
    k: int = 5,
    *,
    features: Features | None = None,
    groups: int = 10,
    seed: int = 0,
    elements: int | None = None,
) -> PRDC:
    r"""Precision, recall, density and coverage of a generated sample, each with its standard error.

    With :math:`B(x_i)` the ball around a real row that reaches its k-th nearest other real row,

    .. math:: \text{precision} = \frac1m \sum_j \Big[y_j \in \bigcup_i B(x_i)\Big], \quad
        \text{density} = \frac{1}{km} \sum_{ij} [y_j \in B(x_i)], \quad
        \text{coverage} = \frac1n \sum_i [\exists j: y_j \in B(x_i)]

    and recall is precision with the samples exchanged. Kynkäänniemi et al., 2019; Naeem et al., 2020. As in the
    authors' programs a row on the edge of a ball counts for precision and recall, and does not for density and
    coverage; that matters for copies of real rows alone. All four depend on n, m and k: compare at equal ones.

    The error is a jackknife over both samples that leaves out a group of rows at a time, with the radii that the
    balls then have. It errs upward (Efron & Stein, 1981), for two samples of one law by about a half, and is NaN if a
    sample is too small. All distances are computed in tiles, those at the edge of a ball once more by subtraction, so
    copies count exactly.

    real: (n, d) or images. generated: (m, d). k: neighbors, fewer than rows. features: a function of the samples.
    groups: left out in turn, drawn by seed. elements: entries of a tile.

    >>> X = torch.randn(200, 2, generator=torch.Generator().manual_seed(0))
    >>> found = prdc(X[:100], X[100:] * 0.01)
    >>> found.precision.value, found.recall.value < 0.1
    (1.0, True)
    """
    return _measured("prdc", real, generated, k, features, groups, seed, elements)


def sample_precision_recall(
    real: Any, generated: Any, k: int = 3, *, features: Features | None = None, groups: int = 10, seed: int = 0
) -> PrecisionRecall:
    """Improved precision and recall (Kynkäänniemi et al., 2019); see ``prdc``, k = 3 as in the paper.

    >>> x = torch.arange(10.0)[:, None]
    >>> found = sample_precision_recall(x, x + 100)
    >>> found.precision.value, found.recall.value
    (0.0, 0.0)
    """
    found = _measured("sample_precision_recall", real, generated, k, features, groups, seed, None)
    return PrecisionRecall(found.precision, found.recall)


def density_coverage(
    real: Any, generated: Any, k: int = 5, *, features: Features | None = None, groups: int = 10, seed: int = 0
) -> DensityCoverage:
    """Density and coverage (Naeem et al., 2020); see ``prdc``, k = 5 as in the paper.

    >>> x = torch.arange(10.0)[:, None]
    >>> density_coverage(x, x).coverage.value
    1.0
    """
    found = _measured("density_coverage", real, generated, k, features, groups, seed, None)
    return DensityCoverage(found.density, found.coverage)


def _measured(
    where: str,
    real: Any,
    generated: Any,
    k: int,
    features: Features | None,
    groups: int,
    seed: int,
    elements: int | None,
) -> PRDC:
    X, Y = pair(where, real, generated, features)
    if not is_whole(k, 1):
        raise InvalidInput(f"{where}: k is {k!r}; it must be a whole number of neighbors, at least 1")
    for name, rows in (("real", X), ("generated", Y)):
        if len(rows) <= k:
            raise InvalidInput(f"{where}: {name} has {len(rows)} rows and k is {k}; more rows than k are needed")
    if groups < 2:
        raise InvalidInput(f"{where}: groups is {groups}; at least 2 are needed to leave one out")
    smallest = min(len(X), len(Y))
    enough = smallest >= groups and smallest - math.ceil(smallest / groups) > k
    groups = groups if enough else 1
    of_real, of_made = (grouped(len(rows), groups, seed, rows.device) for rows in (X, Y))
    around_real = _Balls(X, of_real, len(Y), of_made, k, groups)
    around_made = _Balls(Y, of_made, len(X), of_real, k, groups)
    elements = elements or _TILE.get(X.device.type, _TILE["cpu"])
    for rows, columns, D, slack in _tiles(X, Y, elements):
        around_real.count(D, rows.start, columns.start, X, Y, slack)
        around_made.count(D.T, columns.start, rows.start, Y, X, slack)
    return PRDC(
        around_real.covered(enough), around_made.covered(enough), around_real.density(enough), around_real.hit(enough)
    )


def _tiles(X: Tensor, Y: Tensor, elements: int) -> Iterator[tuple[slice, slice, Tensor, float]]:
    """Squared distances by products, and a bound on their rounding."""
    center = X.mean(0)
    A, B = X - center, Y - center
    a2, b2 = A.square().sum(1), B.square().sum(1)
    slack = 4 * (X.shape[1] + 8) * torch.finfo(X.dtype).eps * float(a2.max() + b2.max())
    for rows, columns in blocks(len(A), len(B), elements, X.device):
        D = torch.addmm(a2[rows, None] + b2[columns], A[rows], B[columns].T, alpha=-2)
        yield rows, columns, D, slack


def gaps(X: Tensor, Y: Tensor, i: Tensor, j: Tensor) -> Tensor:
    """Squared distances of chosen pairs by subtraction, the same bits for the same two rows."""
    step = max(1, _GATHER.get(X.device.type, _GATHER["cpu"]) // X.shape[1])
    return torch.cat([(X[a] - Y[b]).square().sum(1) for a, b in zip(i.split(step), j.split(step), strict=True)])


class _Balls:
    """Balls around one sample, and what they hold of the other, as a whole and without each group of centers.

    radii: (n, 1 + G) squared, in column 0 those of all rows. closed, open: (m, 1 + G) balls that hold a row of the
    other sample, with and without their edge. hits: (n, 1 + G) rows each ball holds, open; by_group: those by group.
    """

    def __init__(self, X: Tensor, own: Tensor, m: int, others: Tensor, k: int, groups: int) -> None:
        self.k, self.groups, self.own, self.others = k, groups, own, others
        self.radii = radii_without(X, own, k, groups)
        self.widest = self.radii.amax(1)
        whole = {"dtype": torch.int32, "device": X.device}
        self.closed, self.open = (torch.zeros(m, 1 + groups, **whole) for _ in range(2))
        self.hits = torch.zeros(len(X), 1 + groups, **whole)
        self.by_group = torch.zeros(len(X) * groups, **whole)

    def count(self, D: Tensor, top: int, left: int, X: Tensor, Y: Tensor, slack: float) -> None:
        """Count a tile of squared distances that begins at row ``top`` of X and row ``left`` of Y."""
        near = (self.widest[top : top + len(D)] + slack)[:, None] >= D
        i, j = near.nonzero(as_tuple=True)
        distance = D[i, j]
        i, j = i + top, j + left
        radii = self.radii[i]  # (p, 1 + G)
        unsure = ((distance[:, None] - radii).abs() <= slack).any(1).nonzero().squeeze(1)
        if len(unsure):
            distance[unsure] = gaps(X, Y, i[unsure], j[unsure])
        alive = torch.arange(self.groups, device=D.device) != self.own[i][:, None]
        alive = torch.cat([torch.ones_like(alive[:, :1]), alive], 1)
        inside = ((distance[:, None] <= radii) & alive).int()
        self.closed.index_add_(0, j, inside)
        inside = ((distance[:, None] < radii) & alive).int()
        self.open.index_add_(0, j, inside)
        self.hits.index_add_(0, i, inside)
        self.by_group.index_add_(0, i * self.groups + self.others[j], inside[:, 0])

    def covered(self, errors: bool) -> Estimate:
        """The share of rows of the other sample that lie in a ball."""
        inside = (self.closed > 0).double()
        if not errors:
            return Estimate(float(inside[:, 0].mean()), math.nan)
        return jackknife(inside[:, 0].mean(), inside[:, 1:].mean(0), left_out(inside[:, 0], self.others, self.groups))

    def density(self, errors: bool) -> Estimate:
        """Balls that hold a row of the other sample, over k."""
        held = self.open.double() / self.k
        if not errors:
            return Estimate(float(held[:, 0].mean()), math.nan)
        return jackknife(held[:, 0].mean(), held[:, 1:].mean(0), left_out(held[:, 0], self.others, self.groups))

    def hit(self, errors: bool) -> Estimate:
        """The share of balls that hold a row of the other sample."""
        met = (self.hits > 0).double()
        if not errors:
            return Estimate(float(met[:, 0].mean()), math.nan)
        without = met[:, 1:].sum(0) / (len(met) - torch.bincount(self.own, minlength=self.groups))
        others = self.hits[:, :1] - self.by_group.reshape(len(met), self.groups)
        return jackknife(met[:, 0].mean(), without, (others > 0).double().mean(0))


def radii_without(X: Tensor, own: Tensor, k: int, groups: int) -> Tensor:
    """Squared distances to the k-th nearest other row, and to it without each group of rows, (n, 1 + G)."""
    wanted = min(len(X) - 1, k + k // 2 + 8)
    _, index = search(X, X, wanted, own=torch.arange(len(X), device=X.device))
    rows = torch.arange(len(X), device=X.device).repeat_interleave(wanted)
    squares = gaps(X, X, rows, index.reshape(-1)).reshape(len(X), wanted)
    squares, order = squares.sort(dim=1, stable=True)
    group = own[index.gather(1, order)]
    radii = [squares[:, k - 1]]
    for g in range(groups):
        # of so many neighbors k are left but for one case in millions, where the farthest stands for the k-th
        place = ((group != g).cumsum(1) < k).sum(1, keepdim=True).clamp_max(wanted - 1)
        radii.append(squares.gather(1, place).squeeze(1))
    return torch.stack(radii, 1)
