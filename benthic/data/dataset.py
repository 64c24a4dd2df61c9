"""A data set in memory: inputs, targets and what they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from benthic.base.errors import InvalidInput
from benthic.base.frames import frame_names
from benthic.data.source import column_index
from benthic.data.tables import check_columns, target_array


@dataclass(frozen=True, eq=False)
class Dataset:
    """Inputs and targets with their names.

    X: a table as ``pyarrow.Table``, an array (n, d), (n, t, d) or (n, c, h, w), or lines of text (n,). y: (n,) targets
    or None. target: what y is called. feature_names: of the columns of X. target_names: of the classes 0, 1, ...
    """

    X: Any
    y: np.ndarray | None = None
    name: str = ""
    description: str = ""
    target: str | int | None = None
    feature_names: tuple[str, ...] = ()
    target_names: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """The number of rows."""
        return int(self.X.shape[0])

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.X.shape))
        goal = "" if self.y is None else f", target={self.target!r}"
        return f"Dataset({self.name!r}, {shape}{goal})"


def from_table(table: Any, name: str, where: Any, target: Any, drop: Any, **words: Any) -> Dataset:
    """A data set from an Arrow table, with one column split off as target and others left out."""
    check_columns(table.column_names, target, drop, where)
    y = None if target is None else target_array(table.column(str(target)), str(target))
    outside = {str(target), *map(str, drop)} if target is not None else set(map(str, drop))
    X = table.select([column for column in table.column_names if column not in outside])
    if X.num_columns == 0 or X.num_rows == 0:
        raise InvalidInput(f"read: {where} has {X.num_rows} rows and {X.num_columns} columns to learn from")
    return Dataset(X, y, name=name, target=target, feature_names=frame_names(X), **words)


def from_array(X: np.ndarray, y: Any, name: str, where: Any, target: Any, drop: Any) -> Dataset:
    """A data set from an array (n, *event), with columns counted from 0 split off or left out."""
    if len(X) == 0:
        raise InvalidInput(f"read: {where} has no rows")
    if target in (None, None if y is None else "y") and not drop:
        return Dataset(X, y, name=name, target=None if y is None else "y")
    if X.ndim != 2:
        raise InvalidInput(
            f"read: {where} holds examples of shape {X.shape[1:]}, whose columns have no numbers; "
            "use target and drop for tables only"
        )
    left_out = {column_index(column, X.shape[1], "read") for column in drop}
    if target is not None:
        target = column_index(target, X.shape[1], "read")
        y, left_out = np.array(X[:, target]), {*left_out, target}
    kept = [j for j in range(X.shape[1]) if j not in left_out]
    if not kept:
        raise InvalidInput(f"read: no column of {where} is left to learn from; drop fewer")
    return Dataset(X[:, kept], y, name=name, target=target if target is not None or y is None else "y")
