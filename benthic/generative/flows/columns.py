"""From the columns of data to numbers on the whole line: logarithms, logits, grids, standard units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benthic.base.errors import InvalidInput, nearest
from benthic.base.schema import Schema
from benthic.base.settings import is_number, whole

KINDS = ("real", "positive", "discrete")
_EXACT = 2.0**53  # below which floats hold all whole numbers
_OFF_GRID = 1e-3  # how far, in steps, a value may lie from its grid
_SHOWN = 8
_PIXEL = "a pixel"


@dataclass(frozen=True)
class FlowColumns:
    """What the coordinates of a flow stand for.

    width: columns of the (encoded) data. names: of the coordinates, for errors. sources: the columns behind each
    coordinate; a category has one for each of its values. kinds: ``real``; ``positive``, whose logarithm is taken;
    ``interval``, from ``low`` to ``high``, whose logit is taken; ``grid``, numbers low, low + step, ..., and
    ``levels``, the same with so many values (0 .. levels - 1 steps above low). Grids are coded
    0, 1, 2, ... here, and the flow adds noise of one step.
    """

    width: int
    names: tuple[str, ...]
    sources: tuple[tuple[int, ...], ...]
    kinds: tuple[str, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    step: tuple[float, ...]
    levels: tuple[int, ...]

    @property
    def size(self) -> int:
        """How many coordinates there are."""
        return len(self.kinds)

    @property
    def discrete(self) -> list[int]:
        """The coordinates that lie on a grid."""
        return [i for i, kind in enumerate(self.kinds) if kind in ("grid", "levels")]

    @property
    def measure(self) -> str:
        """``mass`` where every column is discrete, else ``density`` (of the numbers, and mass of the others)."""
        return "mass" if len(self.discrete) == self.size else "density"

    def _where(self, *kinds: str) -> list[int]:
        return [i for i, kind in enumerate(self.kinds) if kind in kinds]

    def _values(self, name: str, like: Tensor, where: list[int]) -> Tensor:
        values = getattr(self, name)
        return torch.tensor([values[i] for i in where], dtype=like.dtype, device=like.device)

    # -- data to numbers -------------------------------------------------------------------------------

    def forward(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Rows (n, width) as coordinates (n, size), and the log-Jacobian (n,) of what was done to numbers.

        NaN stays NaN, and adds nothing to the Jacobian.
        """
        Y = self._gathered(X.double() if X.device.type != "mps" else X)
        total = Y.new_zeros(len(Y))
        if where := self._where("grid", "levels"):
            Y = self._put(Y, where, (Y[:, where] - self._values("low", Y, where)) / self._values("step", Y, where))
        if where := self._where("positive"):
            logs = Y[:, where].log()
            total = total - logs.nan_to_num(0.0).sum(1)
            Y = self._put(Y, where, logs)
        if where := self._where("interval"):
            low, high = self._values("low", Y, where), self._values("high", Y, where)
            shares = (Y[:, where] - low) / (high - low)
            slopes = (shares * (1 - shares) * (high - low)).log()
            total = total - slopes.nan_to_num(0.0).sum(1)
            Y = self._put(Y, where, torch.logit(shares))
        return Y, total

    @staticmethod
    def _put(Y: Tensor, where: list[int], values: Tensor) -> Tensor:
        return Y.index_copy(1, torch.tensor(where, device=Y.device), values)

    def _gathered(self, X: Tensor) -> Tensor:
        if self._plain():
            return X
        columns = []
        for source in self.sources:
            part = X[:, list(source)]
            if len(source) > 1:
                code = part.nan_to_num(0.0).argmax(1).to(X.dtype)
                columns.append(torch.where(torch.isnan(part).any(1), torch.nan, code))
            else:
                columns.append(part[:, 0])
        return torch.stack(columns, 1)

    def _plain(self) -> bool:
        return self.width == self.size

    # -- numbers to data -------------------------------------------------------------------------------

    def inverse(self, Y: Tensor) -> Tensor:
        """Rows (n, width) of coordinates (n, size); those of grids may be fractions, as means are."""
        Y = Y.clone()
        if where := self._where("grid", "levels"):
            Y = self._put(Y, where, self._values("low", Y, where) + Y[:, where] * self._values("step", Y, where))
        if where := self._where("positive"):
            Y = self._put(Y, where, Y[:, where].exp())
        if where := self._where("interval"):
            low, high = self._values("low", Y, where), self._values("high", Y, where)
            Y = self._put(Y, where, low + (high - low) * torch.sigmoid(Y[:, where]))
        if self._plain():
            return Y
        X = Y.new_zeros(len(Y), self.width)
        for i, source in enumerate(self.sources):
            if len(source) > 1:
                code = Y[:, i].round().clamp(0, len(source) - 1).long()
                X[torch.arange(len(Y), device=Y.device), torch.tensor(source, device=Y.device)[code]] = 1.0
            else:
                X[:, source[0]] = Y[:, i]
        return X

    # -- checks and files ------------------------------------------------------------------------------

    def check(self, X: Tensor) -> None:
        """Refuse rows outside the ranges and off the grids that the flow was told of."""
        Y = self._gathered(X)
        for i in self._where("positive"):
            self._refuse(Y[:, i] <= 0, Y[:, i], i, "is declared positive, and the logarithm of it does not exist")
        for i in self._where("interval"):
            outside = (Y[:, i] <= self.low[i]) | (Y[:, i] >= self.high[i])
            self._refuse(outside, Y[:, i], i, f"is declared to lie between {self.low[i]:g} and {self.high[i]:g}")
        if where := self._where("grid", "levels"):
            self._check_grid(Y[:, where], where)

    def _check_grid(self, Y: Tensor, where: list[int]) -> None:
        code = (Y - self._values("low", Y, where)) / self._values("step", Y, where)
        top = self._values("levels", Y, where)
        odd = (code - code.round()).abs() > _OFF_GRID
        odd |= (top > 0) & ((code < -0.5) | (code > top - 0.5))
        if bool(odd.any()):
            row, place = odd.nonzero()[0].tolist()
            i = where[place]
            end = f", ..., {self.low[i] + (self.levels[i] - 1) * self.step[i]:.4g}" if self.levels[i] else ", ..."
            advice = "set levels, or dequantize=None" if self.names[i] == _PIXEL else "declare the column 'real'"
            raise InvalidInput(
                f"{self.names[i]} lies on the grid {self.low[i]:.4g}, {self.low[i] + self.step[i]:.4g}{end}, but X has "
                f"{float(Y[row, place]):.6g}; round X to it, or {advice}"
            )

    def _refuse(self, bad: Tensor, values: Tensor, i: int, why: str) -> None:
        if bool(bad.any()):
            raise InvalidInput(
                f"{self.names[i]} {why}, but X has {float(values[bad][0]):.6g}; drop or change those rows, or "
                "declare the column 'real'"
            )

    def to_tree(self) -> dict[str, Any]:
        """Its fields."""
        return asdict(self)

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> FlowColumns:
        """The columns with these fields."""
        return cls(**tree)


# -- reading what the columns are ------------------------------------------------------------------------


def columns_of(width: int, schema: Schema | None, rows: Tensor, declared: Mapping[Any, Any] | None) -> FlowColumns:
    """The coordinates of a table: kinds from a frame's schema, and what the user declared.

    rows: some or all rows (n, width). declared: column name (or number, without a frame) -> ``real``, ``positive``,
    ``discrete`` or a pair (low, high). In frames, whole numbers are grids, booleans and categories levels.
    """
    if schema is None:
        parts = [(i, f"column {i}", (i,), "number") for i in range(width)]
    else:
        parts = [
            (c.name, f"column {c.name!r}", tuple(range(g.start, g.stop)), c.kind)
            for c, g in zip(schema.columns, schema.groups, strict=True)
        ]
    if declared is not None and not isinstance(declared, Mapping):
        raise InvalidInput(f"columns is {declared!r}; give a dict from columns to kinds, such as {{0: 'positive'}}")
    declared = dict(declared or {})
    known = [key for key, *_ in parts]
    for key in declared:
        if key not in known:
            shown = ", ".join(map(repr, known[:_SHOWN])) + (", ..." if len(known) > _SHOWN else "")
            raise InvalidInput(
                f"columns names {key!r}, which is no column{nearest(str(key), map(str, known))}; there are {shown}"
            )
    made = [_one(name, source, kind, declared.get(key), rows) for key, name, source, kind in parts]
    return _joined(width, made)


def _joined(width: int, made: Sequence[tuple[Any, ...]]) -> FlowColumns:
    names, sources, kinds, low, high, step, levels = zip(*made, strict=True)
    return FlowColumns(width, names, sources, kinds, low, high, step, levels)


def _one(name: str, source: tuple[int, ...], kind: str, wish: Any, rows: Tensor) -> tuple[Any, ...]:
    if wish is None:
        wish = {"integer": "discrete", "boolean": "levels", "category": "levels"}.get(kind, "real")
        if wish == "levels":
            return name, source, "levels", 0.0, 0.0, 1.0, max(2, len(source))
    if kind == "category":
        raise InvalidInput(f"{name} is a category; it cannot be declared {wish!r}")
    if isinstance(wish, (tuple, list)):
        return _interval(name, source, wish)
    if wish not in KINDS:
        raise InvalidInput(
            f"{name} is declared {wish!r}{nearest(str(wish), KINDS)}; use 'real', 'positive', 'discrete' or (low, high)"
        )
    if wish == "discrete":
        low, step = _grid(rows[:, source[0]])
        return name, source, "grid", low, 0.0, step, 0
    return name, source, wish, 0.0, 0.0, 1.0, 0


def _interval(name: str, source: tuple[int, ...], wish: Any) -> tuple[Any, ...]:
    numbers = all(is_number(end) for end in wish)
    if len(wish) != 2 or not numbers or not -np.inf < wish[0] < wish[1] < np.inf:
        raise InvalidInput(f"{name} is declared {wish!r}; give a finite (low, high) with low < high")
    return name, source, "interval", float(wish[0]), float(wish[1]), 1.0, 0


def _grid(values: Tensor) -> tuple[float, float]:
    """The least value and the step: the largest that all gaps are multiples of, or the smallest gap if not whole."""
    found = np.unique(values.detach().double().cpu().numpy())
    found = found[np.isfinite(found)]
    if len(found) < 2:
        return (float(found[0]) if len(found) else 0.0), 1.0
    gaps = np.diff(found)
    whole = bool((gaps == np.round(gaps)).all()) and float(gaps.max()) < _EXACT
    return float(found[0]), float(np.gcd.reduce(gaps.astype(np.int64)) if whole else gaps.min())


def picture_columns(width: int, rows: Tensor, levels: int, dequantize: bool) -> FlowColumns:
    """The pixels of pictures: so many levels 0, 1, ... or 0, 1 / (levels - 1), ...; or numbers as they are."""
    if not dequantize:
        return _joined(width, [(_PIXEL, (i,), "real", 0.0, 0.0, 1.0, 0) for i in range(width)])
    levels = whole("levels", levels, 2)
    step = 1.0 if float(rows.max()) > 1.0 else 1.0 / (levels - 1)
    return _joined(width, [(_PIXEL, (i,), "levels", 0.0, 0.0, step, levels) for i in range(width)])
