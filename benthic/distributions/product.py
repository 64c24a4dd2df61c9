"""Independent columns, each of its own exponential family: rows in, sums and densities out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.base.likelihood import Measure
from benthic.distributions.exponential import Family

_BLOCK_ROWS = 1 << 14  # checked at a time
_MANY = 1 << 12  # counts for which a table is worth making
_TABLE = 1 << 12  # its largest size


class Group(NamedTuple):
    """The columns of one family, and where their statistics stand in a flat vector."""

    family: Family
    columns: list[int]
    block: slice

    def open(self, flat: Tensor) -> Tensor:
        """This group's part of flat vectors (..., P) as (..., columns, statistics)."""
        return flat[..., self.block].reshape(*flat.shape[:-1], len(self.columns), self.family.size)


class Rows(NamedTuple):
    """What densities need of n rows: T (n, P), log h (n,) if wanted, and which of (n, d) are observed, None for all."""

    statistics: Tensor
    log_base: Tensor | None
    seen: Tensor | None


class Product:
    r"""A product of one-dimensional exponential families over the columns of a table.

    .. math:: \log p(x) = \sum_j \log h_j(x_j) + \langle \eta_j, T_j(x_j) \rangle - A_j(\eta_j)

    Gaps (NaN) are left out of the sum. Natural parameters are flat vectors (..., P), family after family, and
    belong to (x − shift) / scale; whatever else comes out is in the units of the data.

    families: one a column. shift, scale: (d,), in float64.
    """

    def __init__(self, families: Sequence[Family], shift: Tensor, scale: Tensor) -> None:
        self.families, self.shift, self.scale = tuple(families), shift, scale
        self.groups = _grouped(self.families)
        order = [column for group in self.groups for column in group.columns]
        self._back = sorted(range(len(order)), key=order.__getitem__)  # from grouped columns to columns
        self.size = self.groups[-1].block.stop
        self.column_of = torch.tensor([c for g in self.groups for c in g.columns for _ in range(g.family.size)])
        self._log_scale = scale.log()
        self._plain = not bool((shift != 0).any() | (scale != 1).any())

    @classmethod
    def measured(cls, families: Sequence[Family], X: Tensor, weight: Tensor) -> Product:
        """With units in which rows X (n, d), NaN for gaps, of these weights (n,), are of moderate size."""
        shift, scale = X.new_zeros(X.shape[1]), X.new_ones(X.shape[1])
        for family, columns, _ in _grouped(tuple(families)):
            shift[columns], scale[columns] = family.units(X[:, columns], weight)
        return cls(families, shift, scale)

    def to(self, device: torch.device | str) -> Product:
        """The same on another device."""
        return Product(self.families, self.shift.to(device), self.scale.to(device))

    @property
    def measure(self) -> Measure:
        """``mass`` if every column has one, else a ``density`` (with respect to counting in columns of mass)."""
        return "mass" if all(family.measure == "mass" for family in self.families) else "density"

    @property
    def reference(self) -> Tensor:
        """E[T] of the plain member of each column's family, (P,)."""
        parts = []
        for family, columns, _ in self.groups:
            plain = torch.tensor(family.reference, dtype=torch.float64)
            parts.append(family.expected_statistics(plain).repeat(len(columns)))
        return torch.cat(parts)

    # -- rows ------------------------------------------------------------------------------------------

    def read(self, X: Tensor, *, base: bool = True) -> Rows:
        """Statistics of rows X (n, d), NaN for gaps; gradients flow to ``X``. base: False leaves out log h."""
        Z, seen = self._units(X)
        statistics = []
        for family, columns, _ in self.groups:
            z = _chosen(Z, columns)
            if seen is None:
                statistics.append(family.statistics(z).flatten(1))
                continue
            there = _chosen(seen, columns)
            z = torch.where(there, z, _plain_value(family))
            statistics.append(torch.where(there[..., None], family.statistics(z), 0.0).flatten(1))
        flat = statistics[0] if len(statistics) == 1 else torch.cat(statistics, 1)
        return Rows(flat, self._log_base(Z, seen) if base else None, seen)

    def log_base(self, X: Tensor) -> Tensor:
        """log h of rows X (n, d), NaN for gaps, (n,)."""
        return self._log_base(*self._units(X))

    def _units(self, X: Tensor) -> tuple[Tensor, Tensor | None]:
        """Rows in units of moderate size, in float64, and which values are observed, None for all."""
        Z = X.double() if self._plain else (X.double() - self.shift) / self.scale
        if not bool(torch.isnan(Z.detach().sum())):  # infinities may look like a gap, but no gap is overlooked
            return Z, None
        gaps = torch.isnan(Z)
        return Z, ~gaps if bool(gaps.any()) else None

    def _log_base(self, Z: Tensor, seen: Tensor | None) -> Tensor:
        total = torch.zeros(len(Z), dtype=Z.dtype, device=Z.device)
        for family, columns, _ in self.groups:
            z, log_scale = _chosen(Z, columns), self._log_scale[columns]
            if seen is None:
                total = total + (_log_base_of(family, z).sum(1) - log_scale.sum())
                continue
            there = _chosen(seen, columns)
            each = _log_base_of(family, torch.where(there, z, _plain_value(family)))
            total = total + torch.where(there, each - log_scale, 0.0).sum(1)
        return total

    def log_prob(self, rows: Rows, eta: Tensor, partition: Tensor | None = None) -> Tensor:
        """Log-densities of rows for k vectors η (k, P), as (k, n). partition: ``log_partition(eta)`` if known."""
        if partition is None:
            partition = self.log_partition(eta)  # (k, d)
        if rows.seen is None:
            found = torch.addmm(-partition.sum(1, keepdim=True), eta, rows.statistics.T)
        else:
            found = eta @ rows.statistics.T - partition @ rows.seen.T.to(partition.dtype)
        return found if rows.log_base is None else found + rows.log_base

    def refuse_outsiders(self, X: Tensor, names: Sequence[str]) -> None:
        """An error that names the first column with a value outside the support of its family."""
        for family, columns, _ in self.groups:
            values = _chosen(X, columns)
            if all(bool(family.support.contains(block).all()) for block in values.split(_BLOCK_ROWS)):
                continue
            bad = ~(family.support.contains(values) | torch.isnan(values))
            if bool(bad.any()):
                column = int(bad.any(0).nonzero()[0])
                found = values[:, column][bad[:, column]]
                raise InvalidInput(
                    f"column {names[columns[column]]} has {len(found)} value{'s' * (len(found) > 1)} such as "
                    f"{float(found[0]):g}, but the {family.name} family allows only {family.support}"
                )

    def pull_in(self, X: Tensor) -> Tensor:
        """Rows whose values were rounded out of their supports, moved just inside."""
        X = X.clone()
        for family, columns, _ in self.groups:
            X[:, columns] = family.support.pull_in(X[:, columns])
        return X

    # -- parameters ------------------------------------------------------------------------------------

    def log_partition(self, eta: Tensor) -> Tensor:
        """A of every column, (..., d)."""
        parts = [group.family.log_partition(group.open(eta)) for group in self.groups]
        return self._columns(parts)

    def natural(self, expected: Tensor, start: Tensor | None = None) -> Tensor:
        """η (..., P) from mean statistics (..., P)."""
        parts = []
        for group in self.groups:
            begin = None if start is None else group.open(start)
            parts.append(group.family.natural(group.open(expected), begin).flatten(-2))
        return torch.cat(parts, -1)

    def mean(self, eta: Tensor) -> Tensor:
        """E[x], (..., d)."""
        return self.shift + self.scale * self._columns([g.family.mean(g.open(eta)) for g in self.groups])

    def parameters(self, eta: Tensor) -> dict[str, Tensor]:
        """Readable parameters by name, (..., d) each; NaN in columns whose family has no such parameter."""
        found: dict[str, Tensor] = {}
        for group in self.groups:
            columns = group.columns
            moved = group.family.in_units(group.open(eta), self.shift[columns], self.scale[columns])
            for name, value in group.family.parameters(moved).items():
                empty = value.new_full((*eta.shape[:-1], len(self.families)), torch.nan)
                found.setdefault(name, empty)[..., columns] = value
        return found

    def draw(self, eta: Tensor, generator: torch.Generator) -> Tensor:
        """A row for each η (n, P), all on the CPU, (n, d)."""
        drawn = self._columns([g.family.draw(g.open(eta), generator) for g in self.groups])
        return self.pull_in(self.shift + self.scale * drawn)

    def _columns(self, parts: list[Tensor]) -> Tensor:
        """Values of the columns of each group, (..., c), in the order of the table."""
        return parts[0] if len(parts) == 1 else torch.cat(parts, -1)[..., self._back]


def _grouped(families: tuple[Family, ...]) -> list[Group]:
    columns: dict[int, list[int]] = {}
    for column, family in enumerate(families):
        columns.setdefault(id(family), []).append(column)
    groups, start = [], 0
    for chosen in columns.values():
        family = families[chosen[0]]
        stop = start + family.size * len(chosen)
        groups.append(Group(family, chosen, slice(start, stop)))
        start = stop
    return groups


def _chosen(X: Tensor, columns: list[int]) -> Tensor:
    """Some columns of rows; the rows themselves for all."""
    return X if len(columns) == X.shape[1] else X[:, columns]


def _log_base_of(family: Family, z: Tensor) -> Tensor:
    """log h of values (n, c) in the support; where these are counts that often come again, from a table."""
    support = family.support
    if not support.whole or support.low < 0 or z.requires_grad or z.numel() < _MANY:
        return family.log_base(z)
    top = float(z.max())
    if not top < _TABLE:
        return family.log_base(z)
    table = family.log_base(torch.arange(int(top) + 1, dtype=z.dtype, device=z.device))
    return table[z.long()]


def _plain_value(family: Family) -> float:
    """A value that stands in a gap while statistics are taken, before they are struck out."""
    return float(family.mean(torch.tensor(family.reference, dtype=torch.float64)))
