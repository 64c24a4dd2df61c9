"""How far a generated table is from a real one: column by column, and in how pairs of columns go together."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.base.estimate import Estimate
from benthic.metrics.columns import Side, sides
from benthic.metrics.samples import grouped, jackknife


@dataclass(frozen=True)
class Marginals:
    """Distances of the columns of two tables, each between 0 and 1.

    names: of the columns. kinds: ``KS`` for numbers, ``TV`` for categories. distances: one each. mean: over columns.
    """

    names: tuple[Any, ...]
    kinds: tuple[str, ...]
    distances: tuple[Estimate, ...]
    mean: Estimate

    def __str__(self) -> str:
        rows = zip(self.names, self.kinds, self.distances, strict=True)
        return "\n".join([*(f"{name!s:<20} {kind} {found}" for name, kind, found in rows), f"mean {self.mean}"])


@dataclass(frozen=True)
class Associations:
    """How pairs of columns go together in two tables.

    names: of the columns. real, generated: (c, c) associations. difference: (c, c) of their absolute differences.
    mean: over pairs of different columns.
    """

    names: tuple[Any, ...]
    real: Tensor
    generated: Tensor
    difference: Tensor
    mean: Estimate


def marginal_distances(
    real: Any, generated: Any, *, kinds: Mapping[Any, str] | None = None, groups: int = 10, seed: int = 0
) -> Marginals:
    r"""How far each column of a generated table is from the real one.

    .. math:: \mathrm{KS} = \sup_t |F(t) - G(t)|, \qquad \mathrm{TV} = \tfrac12 \sum_c |p_c - q_c|

    Kolmogorov and Smirnov's distance for numbers and dates, total variation for categories and booleans. A missing
    value counts as a category, or as a number beyond all others. Two finite tables of one law are not at distance
    zero, so compare with two halves of the real table. Errors are jackknives over the rows of both.

    real, generated: frames of any library with the same columns, or arrays (n, d), (m, d) of numbers. kinds: column to
    ``category`` or ``number`` where the guess would be wrong; columns of text are left out. groups: of rows, left out
    in turn, drawn by seed.

    >>> print(marginal_distances([[0.0], [1.0], [2.0]], [[5.0], [6.0], [7.0]]).mean.value)
    1.0
    """
    where = "marginal_distances"
    columns = sides(where, real, generated, kinds)
    groups, of_real, of_made = _groups(where, columns[0], groups, seed)
    values = torch.stack([_marginal(side, of_real, of_made, groups) for side in columns])  # (c, 1 + 2G)
    found = tuple(_estimate(row, groups) for row in values)
    kinds = tuple("TV" if side.levels else "KS" for side in columns)
    return Marginals(tuple(side.name for side in columns), kinds, found, _estimate(values.mean(0), groups))


def association_distances(
    real: Any, generated: Any, *, kinds: Mapping[Any, str] | None = None, groups: int = 10, seed: int = 0
) -> Associations:
    r"""How differently pairs of columns go together in a generated table.

    Two numbers by Pearson's correlation; two categories by Cramér's V,
    :math:`\sqrt{\chi^2 / (n \min(r - 1, c - 1))}` (Cramér, 1946); a number and a category by the correlation ratio,
    :math:`\sqrt{\sum_k n_k (\bar y_k - \bar y)^2 / \sum_i (y_i - \bar y)^2}` (Pearson, 1905). A column that does not
    vary goes with nothing, at 0. Rows that miss a number of the pair are left out; a missing category is a category.

    V and the correlation ratio of few rows are too large, so compare tables of equal n. The error of the mean
    difference is a jackknife over the rows of both. Arguments as in ``marginal_distances``.

    >>> X = torch.tensor([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]])
    >>> association_distances(X, X * torch.tensor([1.0, -1.0])).mean.value
    2.0
    """
    where = "association_distances"
    columns = sides(where, real, generated, kinds)
    if len(columns) < 2:
        raise InvalidInput(f"{where}: there is one column that is not text; at least two are needed for a pair")
    groups, of_real, of_made = _groups(where, columns[0], groups, seed)
    count = len(columns)
    device = columns[0].real.device
    tables = [torch.eye(count, dtype=torch.float64, device=device) for _ in range(2)]
    gaps = []
    for i, j in combinations(range(count), 2):
        a, b = columns[i], columns[j]
        levels = (a.levels, b.levels)
        one = _association(a.real, b.real, levels, of_real, groups)
        other = _association(a.generated, b.generated, levels, of_made, groups)
        for table, found in zip(tables, (one, other), strict=True):
            table[i, j] = table[j, i] = found[0]
        gaps.append(torch.cat([one - other[0], one[0] - other[1:]]).abs())  # (1 + 2G,)
    mean = _estimate(torch.stack(gaps).mean(0), groups)
    return Associations(tuple(side.name for side in columns), *tables, (tables[0] - tables[1]).abs(), mean)


def _groups(where: str, side: Side, groups: int, seed: int) -> tuple[int, Tensor, Tensor]:
    if groups < 2:
        raise InvalidInput(f"{where}: groups is {groups}; at least 2 are needed to leave one out")
    groups = min(groups, len(side.real), len(side.generated))
    return groups, *(grouped(len(part), groups, seed, part.device) for part in (side.real, side.generated))


def _estimate(values: Tensor, groups: int) -> Estimate:
    """From the value of all rows, those without each group of the real ones, and of the generated ones."""
    return jackknife(values[0], values[1 : 1 + groups], values[1 + groups :])


def _without(group: Tensor, groups: int) -> Iterator[Tensor]:
    return (group != g for g in range(groups))


# --------------------------------------------------------------------------------------------------- one column


def _marginal(side: Side, of_real: Tensor, of_made: Tensor, groups: int) -> Tensor:
    """The distance of a column, and without each group of either table, (1 + 2G,)."""
    x, y = side.real, side.generated
    if side.levels:
        p, q = (_shares(part, side.levels, group, groups) for part, group in ((x, of_real), (y, of_made)))
    else:
        x, y = (part.nan_to_num(nan=math.inf) for part in (x, y))
        points = torch.cat([x, y]).unique()
        p, q = (_steps(part, points, group, groups) for part, group in ((x, of_real), (y, of_made)))
    gaps = torch.cat([p - q[:1], p[:1] - q[1:]]).abs()  # (1 + 2G, levels or points)
    return gaps.sum(1) / 2 if side.levels else gaps.amax(1)


def _shares(codes: Tensor, levels: int, group: Tensor, groups: int) -> Tensor:
    """Shares of the categories, of all rows and without each group, (1 + G, levels)."""
    table = torch.bincount(group * levels + codes, minlength=groups * levels).reshape(groups, levels)
    counts = torch.cat([table.sum(0, keepdim=True), table.sum(0) - table]).double()
    return counts / counts.sum(1, keepdim=True)


def _steps(x: Tensor, points: Tensor, group: Tensor, groups: int) -> Tensor:
    """The distribution function at the points, of all rows and without each group, (1 + G, points)."""
    parts = [x, *(x[kept] for kept in _without(group, groups))]
    below = [torch.searchsorted(part.sort().values, points, right=True).double() / len(part) for part in parts]
    return torch.stack(below)


# ------------------------------------------------------------------------------------------------- two columns


def _association(x: Tensor, y: Tensor, levels: tuple[int, int], group: Tensor, groups: int) -> Tensor:
    """The association of two columns, of all rows and without each group, (1 + G,)."""
    if levels[0] and levels[1]:
        return _cramer(x, y, levels, group, groups)
    if not levels[0] and not levels[1]:
        return _pearson(x, y, group, groups)
    number, label, count = (x, y, levels[1]) if levels[1] else (y, x, levels[0])
    return _ratio(number, label, count, group, groups)


def _totals(parts: Tensor) -> Tensor:
    """Sums by group (G, ...) as the sum of all, and of all without each group."""
    total = parts.sum(0, keepdim=True)
    return torch.cat([total, total - parts])


def _standard(x: Tensor) -> Tensor:
    """Less its mean and over its deviation, which no association sees, so that sums of squares keep their digits."""
    centered = x - x.mean()
    size = centered.abs().amax()
    return centered / size if bool(size > 0) else centered


def _pearson(x: Tensor, y: Tensor, group: Tensor, groups: int) -> Tensor:
    kept = ~(x.isnan() | y.isnan())
    if not bool(kept.any()):
        return x.new_zeros(1 + groups)
    x, y, group = _standard(x[kept]), _standard(y[kept]), group[kept]
    rows = torch.stack([torch.ones_like(x), x, y, x * x, y * y, x * y], 1)
    n, sx, sy, sxx, syy, sxy = _totals(rows.new_zeros(groups, 6).index_add_(0, group, rows)).T
    return _quotient(sxy - sx * sy / n, ((sxx - sx**2 / n) * (syy - sy**2 / n)).clamp_min(0).sqrt(), n).clamp(-1, 1)


def _cramer(x: Tensor, y: Tensor, levels: tuple[int, int], group: Tensor, groups: int) -> Tensor:
    r, c = levels
    cells = torch.bincount((group * r + x) * c + y, minlength=groups * r * c).reshape(groups, r, c)
    table = _totals(cells).double()  # (1 + G, r, c)
    n = table.sum((1, 2))
    rows, columns = table.sum(2, keepdim=True), table.sum(1, keepdim=True)
    expected = rows * columns / n[:, None, None]
    chi2 = torch.where(expected > 0, (table - expected).square() / expected.clamp_min(1e-300), 0.0).sum((1, 2))
    free = torch.minimum((rows > 0).sum((1, 2)), (columns > 0).sum((1, 2))) - 1
    return _quotient(chi2, n * free, n).clamp(0, 1).sqrt()


def _ratio(number: Tensor, label: Tensor, levels: int, group: Tensor, groups: int) -> Tensor:
    kept = ~number.isnan()
    if not bool(kept.any()):
        return number.new_zeros(1 + groups)
    y, at = _standard(number[kept]), group[kept] * levels + label[kept]
    rows = torch.stack([torch.ones_like(y), y, y * y], 1)
    cells = rows.new_zeros(groups * levels, 3).index_add_(0, at, rows).reshape(groups, levels, 3)
    n, s, ss = _totals(cells).unbind(2)  # (1 + G, levels)
    count, mean = n.sum(1), s.sum(1) / n.sum(1)
    between = torch.where(n > 0, s.square() / n.clamp_min(1), 0.0).sum(1) - count * mean**2
    return _quotient(between, ss.sum(1) - count * mean**2, count).clamp(0, 1).sqrt()


def _quotient(top: Tensor, bottom: Tensor, n: Tensor) -> Tensor:
    """Top over bottom, and 0 where the bottom is nothing but rounding: a column does not vary."""
    varies = bottom > 1e-14 * n
    return torch.where(varies, top / torch.where(varies, bottom, 1.0), 0.0)
