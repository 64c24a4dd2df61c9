"""The schema of a table: which columns there are, and how they become numbers and come back.

A model learns from a matrix; a person has a table with names, dates, categories and whole numbers. The
schema carries one to the other in both directions, so that samples and imputations are tables again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from benthic.base.columns import Column
from benthic.base.errors import InvalidInput, nearest
from benthic.base.frames import (
    arrow_type,
    frame_kind,
    frame_names,
    from_arrow,
    is_frame,
    native_types,
    to_arrow,
)
from benthic.base.profile import Profile

__all__ = ["Column", "Schema", "is_frame", "to_arrow"]

_BLOCK_ROWS = 4096  # rows turned at a time: a block of the matrix stays in the cache while columns fill it

Chunks = Callable[[list[str]], Iterable[Any]]


@dataclass(frozen=True)
class Schema:
    """The columns of a table and how each becomes numbers.

    columns: those a model learns from. names: every input column, in order. dropped: the columns left out
    and why. frame: the library the table came from, ``pandas``, ``polars`` or ``arrow``.

    Numbers, whole numbers and booleans become one number; a category becomes one number per value (one
    is 1, the others 0); a date becomes days since the first date seen. Text is dropped.

    >>> import pyarrow as pa
    >>> table = pa.table({"age": [31, 45, 22], "city": ["Bern", "Rome", "Bern"]})
    >>> schema = Schema.infer(table)
    >>> schema.encoded_names
    ('age', 'city=Bern', 'city=Rome')
    >>> schema.decode(schema.encode(table)).equals(table)
    True
    """

    columns: tuple[Column, ...]
    names: tuple[Any, ...]
    dropped: Mapping[Any, str] = field(default_factory=dict)
    frame: str = "arrow"

    @classmethod
    def infer(
        cls,
        frame: Any,
        *,
        drop: Sequence[Any] = (),
        target: Any = None,
        kinds: Mapping[Any, str] | None = None,
        max_categories: int = 64,
    ) -> Schema:
        """The schema of a frame.

        drop, target: columns that are not inputs. kinds: column -> kind, where the guess would be wrong
        (a zip code is a category, not a number). max_categories: a column of strings with more distinct
        values, or with hardly a value that repeats, is text; a column declared as categorical never is.
        """
        table = to_arrow(frame)
        labels = dict(zip(table.column_names, frame_names(frame), strict=True))
        dtypes = dict(zip(table.column_names, native_types(frame), strict=True))
        return cls.infer_chunks(
            lambda names: [table.select(names)],
            table.schema,
            drop=drop,
            target=target,
            kinds=kinds,
            max_categories=max_categories,
            frame=frame_kind(frame) or "arrow",
            labels=labels,
            dtypes=dtypes,
        )

    @classmethod
    def infer_chunks(
        cls,
        chunks: Chunks,
        arrow_schema: Any,
        *,
        drop: Sequence[Any] = (),
        target: Any = None,
        kinds: Mapping[Any, str] | None = None,
        max_categories: int = 64,
        frame: str = "arrow",
        labels: Mapping[str, Any] | None = None,
        dtypes: Mapping[str, str] | None = None,
    ) -> Schema:
        """The schema of a table given in pieces, in one pass over those columns whose values matter.

        chunks: column names -> the pieces of the table with these columns. arrow_schema: its Arrow schema.
        """
        labels = labels or {name: name for name in arrow_schema.names}
        kinds = {str(name): kind for name, kind in (kinds or {}).items()}
        outside = [str(name) for name in (*drop, *([] if target is None else [target]))]
        for name in (*outside, *kinds):
            if name not in labels:
                raise InvalidInput(f"Schema.infer: there is no column {name!r}{_hint(name, labels)}")
        inputs = [name for name in labels if name not in outside]
        types = {name: arrow_schema.field(name).type for name in inputs}
        profiles = {name: Profile(name, types[name], kinds.get(name), max_categories) for name in inputs}
        _look(profiles, chunks)
        columns, dropped = [], {}
        for name, profile in profiles.items():
            dtype = (dtypes or {}).get(name, str(profile.type))
            if profile.reason:
                dropped[labels[name]] = profile.reason
            else:
                columns.append(profile.column(labels[name], dtype))
        if not columns:
            raise InvalidInput(_nothing_left(dropped))
        return cls(tuple(columns), tuple(labels[name] for name in inputs), dropped, frame)

    @property
    def width(self) -> int:
        """The number of columns of the encoded matrix."""
        return sum(column.width for column in self.columns)

    @property
    def groups(self) -> tuple[slice, ...]:
        """For every kept column, its columns in the encoded matrix."""
        ends = np.cumsum([column.width for column in self.columns]).tolist()
        return tuple(slice(start, end) for start, end in zip([0, *ends], ends, strict=False))

    @property
    def encoded_names(self) -> tuple[str, ...]:
        """The name of every column of the encoded matrix."""
        return tuple(name for column in self.columns for name in column.encoded_names)

    def encode(self, frame: Any) -> np.ndarray:
        """A frame of any library as numbers (n, width), float64; missing values become NaN.

        Columns are found by name; columns the schema does not know are ignored.
        """
        table = to_arrow(frame)
        labels = [str(column.name) for column in self.columns]
        for name in labels:
            if name not in table.column_names:
                raise InvalidInput(f"Schema.encode: the table has no column {name!r}{_hint(name, table.column_names)}")
        out = np.empty((table.num_rows, self.width))
        start = 0
        for batch in table.select(labels).to_batches(max_chunksize=_BLOCK_ROWS):
            block = out[start : start + batch.num_rows]
            for column, group, array in zip(self.columns, self.groups, batch.columns, strict=True):
                column.encode(array, block[:, group])
            start += batch.num_rows
        return out

    def decode(self, matrix: Any, index: Any = None, frame: str | None = None) -> Any:
        """The frame that a matrix (n, width) stands for: the inverse of ``encode``.

        Whole numbers are rounded and kept in the range of their type, a category is its largest entry,
        dates keep the resolution they had, NaN becomes missing (a pandas column of integers then becomes
        the nullable type of the same width). index: row labels of a pandas frame. frame: ``pandas``,
        ``polars`` or ``arrow`` for another library than the one the table came from.
        """
        import pyarrow as pa

        values = np.asarray(matrix, dtype=np.float64)
        if values.ndim != 2 or values.shape[1] != self.width:
            raise InvalidInput(
                f"Schema.decode: the matrix has shape {values.shape}; these columns need (n, {self.width})"
            )
        by_column = np.empty((self.width, len(values)))  # (width, n): each column is then read in one sweep
        for start in range(0, len(values), _BLOCK_ROWS):
            by_column[:, start : start + _BLOCK_ROWS] = values[start : start + _BLOCK_ROWS].T
        pairs = zip(self.columns, self.groups, strict=True)
        arrays = [column.decode(by_column[group].T) for column, group in pairs]
        labels = [column.name for column in self.columns]
        table = pa.table(dict(zip(map(str, labels), arrays, strict=True)))
        kind = frame or self.frame
        if kind not in ("pandas", "polars", "arrow"):
            raise InvalidInput(f"Schema.decode: frame is {kind!r}; use 'pandas', 'polars' or 'arrow'")
        if kind == self.frame:
            return from_arrow(table, kind, [column.dtype for column in self.columns], labels, index)
        return _convert(table, kind, labels, index)

    def to_tree(self) -> dict[str, Any]:
        """Plain values from which ``from_tree`` rebuilds the schema."""
        columns = [{key: value for key, value in asdict(c).items() if key != "width"} for c in self.columns]
        return {"columns": columns, "names": self.names, "dropped": dict(self.dropped), "frame": self.frame}

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> Schema:
        """The schema that ``to_tree`` described."""
        columns = tuple(Column(**{**c, "categories": tuple(c["categories"])}) for c in tree["columns"])
        return cls(columns, tuple(tree["names"]), dict(tree["dropped"]), tree["frame"])


def _look(profiles: Mapping[str, Profile], chunks: Chunks) -> None:
    """Show every profile the values it asks for, in one pass."""
    curious = [name for name, profile in profiles.items() if profile.curious]
    if not curious:
        return
    for table in chunks(curious):
        for name in curious:
            if profiles[name].curious:
                for array in table.column(name).chunks:
                    profiles[name].look(array)
    for name in curious:
        profiles[name].close()


def _hint(name: str, choices: Iterable[str]) -> str:
    known = list(choices)
    shown = ", ".join(map(repr, known[:12])) + (", ..." if len(known) > 12 else "")
    return nearest(name, known) or f"; the columns are {shown}"


def _nothing_left(dropped: Mapping[Any, str]) -> str:
    if not dropped:
        return "Schema.infer: no column is left to learn from; drop fewer columns"
    names = ", ".join(map(repr, list(dropped)[:8])) + (", ..." if len(dropped) > 8 else "")
    first = next(iter(dropped))
    return (
        f"Schema.infer: every column is text or empty ({names}), and text cannot be learned from as it is; "
        "convert numbers stored as text with astype(float), or mark labels as categories with "
        f"kinds={{{first!r}: 'category'}}"
    )


def _convert(table: Any, kind: str, labels: Sequence[Any], index: Any) -> Any:
    """An Arrow table as a frame of another library than the one its schema came from."""
    if kind == "pandas":
        frame = table.to_pandas()
        frame.columns = list(labels)
        return frame if index is None else frame.set_axis(index, axis=0)
    strings = (arrow_type("string"), arrow_type("large_string"))
    is_label = [getattr(column.type, "value_type", None) in strings for column in table.schema]
    return from_arrow(table, kind, ["Categorical" if label else "" for label in is_label], labels)
