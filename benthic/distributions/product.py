"""Independent columns, each of its own exponential family: rows in, sums and densities out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.base.likelihood import Measure
from benthic.distributions.exponential import Family


class Group(NamedTuple):
    """The columns of one family, and where their statistics stand in a flat vector."""

    family: Family
    columns: list[int]
    block: slice

    def open(self, flat: Tensor) -> Tensor:
        """This group's part of flat vectors (..., P) as (..., columns, statistics)."""
        return flat[..., self.block].reshape(*flat.shape[:-1], len(self.columns), self.family.size)


class Rows(NamedTuple):
    """What densities need of n rows: T (n, P), log h (n,), and which values are observed (n, d), None for all."""

    statistics: Tensor
    log_base: Tensor
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
        """Statistics of rows X (n, d), NaN for gaps; gradients flow to ``X``. base: False leaves log h at zero."""
        Z = (X.double() - self.shift) / self.scale
        gaps = torch.isnan(Z)
        seen = None if not bool(gaps.any()) else ~gaps
        statistics, log_base = [], torch.zeros(len(Z), dtype=Z.dtype, device=Z.device)
        for family, columns, _ in self.groups:
            whole = len(columns) == Z.shape[1]
            z = Z if whole else Z[:, columns]
            jacobian = self._log_scale if whole else self._log_scale[columns]
            if seen is None:
                statistics.append(family.statistics(z).flatten(1))
                if base:
                    log_base = log_base + (family.log_base(z) - jacobian).sum(1)
                continue
            there = seen if whole else seen[:, columns]
            z = torch.where(there, z, _plain_value(family))
            statistics.append(torch.where(there[..., None], family.statistics(z), 0.0).flatten(1))
            if base:
                log_base = log_base + torch.where(there, family.log_base(z) - jacobian, 0.0).sum(1)
        flat = statistics[0] if len(statistics) == 1 else torch.cat(statistics, 1)
        return Rows(flat, log_base, seen)

    def log_prob(self, rows: Rows, eta: Tensor) -> Tensor:
        """Log-densities of rows for k vectors η (k, P), as (k, n)."""
        partition = self.log_partition(eta)  # (k, d)
        inner = eta @ rows.statistics.T + rows.log_base
        if rows.seen is None:
            return inner - partition.sum(1, keepdim=True)
        return inner - partition @ rows.seen.T.to(partition.dtype)

    def refuse_outsiders(self, X: Tensor, names: Sequence[str]) -> None:
        """An error that names the first column with a value outside the support of its family."""
        for family, columns, _ in self.groups:
            values = X[:, columns]
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


def _plain_value(family: Family) -> float:
    """A value that stands in a gap while statistics are taken, before they are struck out."""
    return float(family.mean(torch.tensor(family.reference, dtype=torch.float64)))
