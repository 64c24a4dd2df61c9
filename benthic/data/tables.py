"""Sources over tables in files: a chunked file, and a schema that makes numbers of its columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from benthic.base.errors import InvalidInput, nearest
from benthic.base.schema import Schema
from benthic.data.csv_file import CsvFile
from benthic.data.parquet_file import ParquetFile
from benthic.data.source import Rows, Source


class TableFile(Protocol):
    """A file of rows and named columns that is read in chunks.

    chunk_rows: rows of every chunk. runs: stretches of chunks best read in order. lanes: how many
    stretches may be read side by side.
    """

    path: Path
    arrow_schema: Any
    chunk_rows: list[int]
    runs: list[range]
    lanes: int

    def plan(self, row_bytes: int) -> None:
        """Choose the chunks, given how many bytes a row takes once it is numbers."""

    def table(self, i: int, names: Sequence[str]) -> Any:
        """These columns of chunk ``i`` as an Arrow table."""

    def tables(self, names: Sequence[str]) -> Iterable[Any]:
        """These columns of the whole file, in order, piece by piece."""


class TableSource(Source):
    """Rows of a table in a file, encoded by a schema that was found in one pass.

    target: the column that is y. drop: columns to leave out. kinds: column -> kind where the guess is wrong.
    A subclass says how its file is opened.
    """

    opened: Callable[[Path], TableFile]

    def __init__(
        self,
        path: str | Path,
        target: str | None = None,
        drop: Sequence[str] = (),
        kinds: Mapping[str, str] | None = None,
    ) -> None:
        file = type(self).opened(Path(path))
        self.path, self.target, self._file = file.path, target, file
        check_columns(file.arrow_schema.names, target, drop, file.path)
        if not sum(file.chunk_rows):
            raise InvalidInput(f"read: {file.path} has no rows; it holds only the names of its columns")
        self._schema = self.schema = Schema.infer_chunks(
            file.tables, file.arrow_schema, drop=drop, target=target, kinds=kinds
        )
        file.plan(8 * self.schema.width)
        self.chunk_rows, self.lanes = file.chunk_rows, file.lanes
        self.rows, self.width = sum(file.chunk_rows), self.schema.width
        self.event_shape = (self.width,)
        self._names = [str(column.name) for column in self.schema.columns]

    @property
    def runs(self) -> Sequence[range]:
        """Chunks that lie in one stretch of the file."""
        return self._file.runs

    def read(self, i: int) -> Rows:
        """Chunk ``i``, encoded."""
        wanted = self._names if self.target is None else [*self._names, str(self.target)]
        table = self._file.table(i, wanted)
        y = None if self.target is None else target_array(table.column(str(self.target)), str(self.target))
        return self._schema.encode(table.select(self._names)), y

    def read_target(self, i: int) -> np.ndarray | None:
        """The target column of chunk ``i``; no other column is read."""
        if self.target is None:
            return None
        return target_array(self._file.table(i, [str(self.target)]).column(0), str(self.target))


class CsvSource(TableSource):
    """Rows of a CSV or TSV file; one pass finds where rows begin and what the columns hold."""

    opened = CsvFile


class ParquetSource(TableSource):
    """Rows of a Parquet file, row group by row group."""

    opened = ParquetFile


def check_columns(names: Sequence[str], target: Any, drop: Sequence[Any], path: Any) -> None:
    """Refuse a target or a dropped column that the table does not have, and suggest the nearest."""
    for name in (*([] if target is None else [target]), *drop):
        if str(name) not in names:
            shown = ", ".join(map(repr, names[:12])) + (", ..." if len(names) > 12 else "")
            hint = nearest(str(name), names) or f"; its columns are {shown}"
            raise InvalidInput(f"read: {path} has no column {name!r}{hint}")


def target_array(column: Any, name: str) -> np.ndarray:
    """A target column of an Arrow table as an array: numbers as they are, labels as strings."""
    from pyarrow import types

    if column.null_count:
        first = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        raise InvalidInput(
            f"read: the target {name!r} is missing in {column.null_count} of {len(column)} rows, first in "
            f"row {first} of these; remove those rows, or choose another target"
        )
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if types.is_decimal(column.type):
        column = column.cast("double")
    values = column.to_numpy(zero_copy_only=False) if hasattr(column, "to_numpy") else np.asarray(column)
    if types.is_boolean(column.type):
        return values.astype(bool)
    return values.astype(str) if values.dtype == object else values
