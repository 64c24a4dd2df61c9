"""A Parquet file read in chunks of a few megabytes, whatever the size of its row groups."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benthic.base.errors import InvalidInput

_CHUNK_BYTES = 4 * 2**20
_CURSOR_BYTES = 96 * 2**20  # for the places in the file that are remembered
_COLUMN_BYTES = 2 * 2**20  # what Arrow keeps at each place for every column: a page and a dictionary


class ParquetFile:
    """Random access by chunk.

    Rows inside a row group can only be reached by reading those before them, so a few places in the file are
    remembered, and chunks of one row group are best read in order.
    """

    def __init__(self, path: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self.path = path
        try:
            self._file = pq.ParquetFile(path, memory_map=True, pre_buffer=False)
        except (pa.ArrowException, OSError) as error:
            raise InvalidInput(f"read: {path} is not a whole Parquet file ({error})") from error
        self.arrow_schema = self._file.schema_arrow
        if len(set(self.arrow_schema.names)) < len(self.arrow_schema.names):
            raise InvalidInput(f"read: {path} has two columns of the same name; rename one of them")
        metadata = self._file.metadata
        self._groups = [metadata.row_group(g).num_rows for g in range(metadata.num_row_groups)]
        self.lanes = max(1, min(8, _CURSOR_BYTES // (_COLUMN_BYTES * len(self.arrow_schema))))
        self._row_bytes = max(1, sum(metadata.row_group(g).total_byte_size for g in range(len(self._groups))))
        self._row_bytes = max(8 * len(self.arrow_schema), self._row_bytes // max(1, metadata.num_rows))
        self.plan(8)

    def plan(self, row_bytes: int) -> None:
        """Choose the chunks, given how many bytes a row takes once it is numbers."""
        self._step = max(1, _CHUNK_BYTES // max(row_bytes, self._row_bytes))
        self.chunk_rows: list[int] = []
        self.runs: list[range] = []
        self._places: list[tuple[int, int]] = []  # row group and chunk inside it
        self._cursors: OrderedDict[tuple[int, tuple[str, ...]], _Cursor] = OrderedDict()
        for g, rows in enumerate(self._groups):
            sizes = [min(self._step, rows - start) for start in range(0, rows, self._step)]
            self.runs.append(range(len(self.chunk_rows), len(self.chunk_rows) + len(sizes)))
            self._places.extend((g, k) for k in range(len(sizes)))
            self.chunk_rows.extend(sizes)
        self.runs = [run for run in self.runs if run]

    def table(self, i: int, names: Sequence[str]) -> Any:
        """These columns of chunk ``i`` as an Arrow table."""
        group, k = self._places[i]
        key = (group, tuple(names))
        cursor = self._cursors.pop(key, None)
        if cursor is None or cursor.position > k:
            cursor = _Cursor(self._batches(group, names), self._step)
        while cursor.position < k:
            cursor.next()
        table = cursor.next()
        if k + 1 < -(-self._groups[group] // self._step):
            self._cursors[key] = cursor
        while len(self._cursors) > self.lanes:
            self._cursors.popitem(last=False)
        return table

    def tables(self, names: Sequence[str]) -> Iterator[Any]:
        """These columns of the whole file, in order, piece by piece."""
        for i in range(len(self.chunk_rows)):
            yield self.table(i, names)

    def _batches(self, group: int, names: Sequence[str]) -> Iterator[Any]:
        import pyarrow as pa

        columns = list(names)
        batches = self._file.iter_batches(self._step, row_groups=[group], columns=columns, use_threads=False)
        try:
            for batch in batches:
                yield batch.select(columns)
        except (pa.ArrowException, OSError) as error:
            raise InvalidInput(f"read: {self.path} is damaged in row group {group} ({error})") from error


class _Cursor:
    """A place in a row group, moving forward by whole chunks."""

    def __init__(self, batches: Iterator[Any], step: int) -> None:
        self.position = 0
        self._batches, self._step = batches, step
        self._rest: list[Any] = []

    def next(self) -> Any:
        """The chunk at this place."""
        import pyarrow as pa

        held, count = self._rest, sum(batch.num_rows for batch in self._rest)
        # Arrow may give smaller batches than asked for, and is free to give larger ones
        while count < self._step and (batch := next(self._batches, None)) is not None:
            held.append(batch)
            count += batch.num_rows
        table = pa.Table.from_batches(held)
        chunk, rest = table.slice(0, self._step), table.slice(self._step)
        self._rest = rest.to_batches() if rest.num_rows else []
        self.position += 1
        return chunk
