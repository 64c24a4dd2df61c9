"""The target of a table as one more of its columns, which generators learn to make with the rest."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from benthic.base.errors import InvalidInput
from benthic.base.frames import frame_names, is_frame, to_arrow
from benthic.base.schema import Schema

_CLASSES = 20  # different whole numbers, up to which they are classes


@dataclass(frozen=True, eq=False)
class Target:
    """Which columns of a matrix are the target.

    schema: of all columns. name: of the target. plain: whether the person's rows are an array, without the target.

    >>> import pyarrow as pa
    >>> _, schema, target = with_target(pa.table({"a": [1.0, 2.0]}), np.array(["x", "y"]), "kind")
    >>> schema.encoded_names, target.group, target.labels(np.array([[1.0, 0.0, 1.0]])).tolist()
    (('a', 'kind=x', 'kind=y'), slice(1, 3, None), ['y'])
    """

    schema: Schema
    name: Any
    plain: bool = False

    @property
    def _place(self) -> int:
        return next(at for at, column in enumerate(self.schema.columns) if column.name == self.name)

    @property
    def group(self) -> slice:
        """The columns of the matrix that are the target."""
        return self.schema.groups[self._place]

    @property
    def classes(self) -> bool:
        """Whether the target is a category."""
        return self.schema.columns[self._place].kind == "category"

    @property
    def inputs(self) -> np.ndarray:
        """(width,) whether a column of the matrix is none of the target's."""
        marks = np.ones(self.schema.width, dtype=bool)
        marks[self.group] = False
        return marks

    @property
    def rest(self) -> Schema:
        """The schema of the other columns."""
        columns = tuple(column for column in self.schema.columns if column.name != self.name)
        names = tuple(name for name in self.schema.names if name != self.name)
        return replace(self.schema, columns=columns, names=names)

    def labels(self, rows: np.ndarray) -> np.ndarray:
        """(n,) the target of rows (n, width)."""
        return np.asarray(self.schema.columns[self._place].decode(rows[:, self.group]).to_pylist())

    def lacks(self, made: Any) -> bool:
        """Whether rows that a model made come without the target."""
        if is_frame(made):
            return str(self.name) not in map(str, frame_names(made))
        return np.ndim(made) != 2 or np.shape(made)[1] != self.schema.width

    def joined(self, made: Any, labels: Any) -> np.ndarray:
        """Rows (n, width) from what was made without the target, and the labels it was made for."""
        import pyarrow as pa

        inner = self.rest.encode(made) if is_frame(made) else np.asarray(made, dtype=np.float64)
        if inner.ndim != 2 or inner.shape[1] != int(self.inputs.sum()) or len(inner) != len(labels):
            raise InvalidInput(f"sample returned shape {np.shape(made)} for {len(labels)} labels")
        rows = np.empty((len(inner), self.schema.width))
        rows[:, self.inputs] = inner
        self.schema.columns[self._place].encode(pa.array(np.asarray(labels).tolist()), rows[:, self.group])
        return rows


def with_target(
    X: Any, y: np.ndarray, name: str, *, plain: bool = False, whole: Schema | None = None
) -> tuple[Any, Schema, Target]:
    """A frame with its target as the last column, the schema of both, and where the target is.

    plain: whether the person passed an array. whole: the schema of X, whose kinds of columns stay.
    """
    import pyarrow as pa

    table = to_arrow(X)
    while name in table.column_names:
        name += "_"
    values = pa.array(y.tolist())
    kind = "category" if are_classes(y) else "number"
    column = Schema.infer(pa.table({name: values}), kinds={name: kind})
    before = Schema.infer(X) if whole is None else whole
    # the library of the person's frame spells the type of the new column in its own way
    if before.frame != "arrow":
        column = Schema.infer(_native(column, values, before.frame), kinds={name: kind})
    schema = replace(before, columns=(*before.columns, *column.columns), names=(*before.names, name))
    return table.append_column(name, values), schema, Target(schema, name, plain)


def _native(column: Schema, values: Any, frame: str) -> Any:
    """One column as a frame of a library."""
    return column.decode(column.encode(_table(column, values)), frame=frame)


def _table(column: Schema, values: Any) -> Any:
    import pyarrow as pa

    return pa.table({str(column.columns[0].name): values})


def are_classes(y: np.ndarray) -> bool:
    """Whether targets are classes: words, truth values, or few different whole numbers.

    >>> are_classes(np.array([0, 1, 1])), are_classes(np.array([0.5, 1.0]))
    (True, False)
    """
    if y.dtype.kind in "OUSb":
        return True
    whole = y.dtype.kind in "iu" or bool((y == np.round(y)).all())
    return whole and len(np.unique(y)) <= _CLASSES
