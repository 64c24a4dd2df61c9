"""A CSV file read in chunks, by an index of byte offsets that one pass makes.

A line break inside quotes belongs to a value, so a row ends at a line break only where the number of quotes
before it is even; doubled quotes inside a value keep that count even.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benthic.base.errors import InvalidInput
from benthic.base.frames import arrow_type

_MARK_BYTES = 2**18  # distance between the places that the index remembers
_CHUNK_BYTES = 4 * 2**20  # a chunk is at most so long, in the file and as numbers
_LONGEST_ROW = 64 * 2**20
_LARGEST_GZIP = 512 * 2**20
# what counts as missing: Arrow's list, and the question mark of many public tables
_MISSING = ["", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"]
_MISSING += ["N/A", "NA", "NULL", "NaN", "n/a", "nan", "null", "?"]
# types of two stretches of a file that agree on a wider type; any other two agree on text
_WIDER = {
    ("double", "int64"): "double",
    ("timestamp[ns]", "timestamp[s]"): "timestamp[ns]",
    ("date32[day]", "timestamp[s]"): "timestamp[s]",
    ("date32[day]", "timestamp[ns]"): "timestamp[ns]",
}


class CsvFile:
    """Random access by chunk to a file of comma-, semicolon- or tab-separated values in UTF-8.

    The first line names the columns, unless it holds numbers only. A ``.gz`` file cannot be entered in the
    middle, so it is unpacked into memory.
    """

    lanes = 8

    def __init__(self, path: Path) -> None:
        self.path = path
        self._packed = _unpack(path) if path.suffix == ".gz" else None
        stat = path.stat()
        self._stamp = (stat.st_size, stat.st_mtime_ns)
        self._size = len(self._packed) if self._packed is not None else stat.st_size
        names, self._begin, self._delimiter = self._header()
        self._types: dict[str, Any] = {}
        self._names = names
        self._marks: list[tuple[int, int, int]] = []  # offset, bytes, rows
        self._index()
        import pyarrow as pa

        self.arrow_schema = pa.schema(self._types)
        self.plan(8)

    def plan(self, row_bytes: int) -> None:
        """Choose the chunks, given how many bytes a row takes once it is numbers."""
        self._chunks: list[tuple[int, int]] = []
        self.chunk_rows: list[int] = []
        for offset, length, rows in self._marks:
            total = self.chunk_rows[-1] + rows if self._chunks else 0
            if self._chunks and max(offset + length - self._chunks[-1][0], total * row_bytes) <= _CHUNK_BYTES:
                start = self._chunks[-1][0]
                self._chunks[-1] = (start, offset + length - start)
                self.chunk_rows[-1] = total
            else:
                self._chunks.append((offset, length))
                self.chunk_rows.append(rows)
        self.runs = [range(i, i + 1) for i in range(len(self._chunks))]

    def table(self, i: int, names: Sequence[str]) -> Any:
        """These columns of chunk ``i`` as an Arrow table."""
        return self._parse(self._bytes(*self._chunks[i]), self._chunks[i][0], self._types, list(names))

    def tables(self, names: Sequence[str]) -> Iterator[Any]:
        """These columns of the whole file, in order, piece by piece."""
        for i in range(len(self._chunks)):
            yield self.table(i, names)

    # --------------------------------------------------------------------------------------- bytes

    def _bytes(self, offset: int, length: int) -> bytes:
        if self._packed is not None:
            return self._packed[offset : offset + length]
        with self.path.open("rb") as file:
            stat = self.path.stat()
            if (stat.st_size, stat.st_mtime_ns) != self._stamp:
                raise InvalidInput(f"read: {self.path} has changed since it was first read; scan it again")
            file.seek(offset)
            return file.read(length)

    def _stretches(self) -> Iterator[tuple[int, bytes]]:
        """The rows of the file in stretches of whole rows, each with its offset."""
        offset = self._begin
        while offset < self._size:
            length = _MARK_BYTES
            block = self._bytes(offset, length)
            while offset + len(block) < self._size and not (end := end_of_rows(block)):
                length *= 4
                if length > _LONGEST_ROW:
                    raise InvalidInput(
                        f"read: {self.path} has a quote at or after byte {offset} that is never closed, "
                        "or a row longer than 64 MB; close the quote"
                    )
                block = self._bytes(offset, length)
            if offset + len(block) < self._size:
                block = block[:end]
            yield offset, block
            offset += len(block)

    # ---------------------------------------------------------------------------------------- head

    def _header(self) -> tuple[list[str], int, str]:
        """The column names, where the rows begin, and the delimiter."""
        block = self._bytes(0, _MARK_BYTES * 4)
        skip = 3 if block.startswith(b"\xef\xbb\xbf") else 0
        end = first_row(block)
        try:
            text = block[skip:end].decode()
        except UnicodeDecodeError as error:
            raise InvalidInput(f"read: {self.path} is not UTF-8 text ({error}); save it as UTF-8") from error
        if not text.strip():
            raise InvalidInput(f"read: {self.path} is empty or begins with an empty line; put the column names there")
        delimiter = _delimiter(text)
        fields = [name.strip() for name in next(csv.reader(io.StringIO(text), delimiter=delimiter))]
        if all(map(_is_number, fields)):
            return [f"x{i}" for i in range(len(fields))], skip, delimiter
        names = [name or f"x{i}" for i, name in enumerate(fields)]
        for name in names:
            if names.count(name) > 1:
                raise InvalidInput(f"read: {self.path} has two columns called {name!r}; rename one of them")
        return names, end, delimiter

    # --------------------------------------------------------------------------------------- parse

    def _index(self) -> None:
        """One pass: where rows are, how many, and which type holds every value of a column."""
        types: dict[str, str] = dict.fromkeys(self._names, "null")
        for offset, block in self._stretches():
            table = self._parse(block, offset, {}, self._names)
            for field in table.schema:
                types[field.name] = _common(types[field.name], str(field.type))
            if table.num_rows:
                self._marks.append((offset, len(block), table.num_rows))
        for name, spelled in types.items():
            if spelled == "binary":
                raise InvalidInput(f"read: column {name!r} of {self.path} is not UTF-8 text; save the file as UTF-8")
        self._types = {name: arrow_type(spelled) for name, spelled in types.items()}

    def _parse(self, block: bytes, offset: int, types: dict[str, Any], names: list[str]) -> Any:
        import pyarrow as pa
        from pyarrow import csv as pacsv

        try:
            return pacsv.read_csv(
                pa.BufferReader(block),
                read_options=pacsv.ReadOptions(
                    column_names=self._names, use_threads=False, block_size=max(len(block), 1)
                ),
                parse_options=pacsv.ParseOptions(delimiter=self._delimiter, newlines_in_values=True),
                convert_options=pacsv.ConvertOptions(
                    column_types={name: types[name] for name in names if name in types},
                    include_columns=names,
                    null_values=_MISSING,
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                ),
            )
        except pa.ArrowException as error:
            message = str(error).partition("\n")[0]
            raise InvalidInput(
                f"read: {self.path} cannot be read as rows of {len(self._names)} values, "
                f"somewhere after byte {offset} ({message})"
            ) from error


def end_of_rows(block: bytes) -> int:
    r"""How many bytes of a block that begins with a row are whole rows; 0 if not even one.

    >>> end_of_rows(b'1,"a\nb"\n2,"c\n')
    8
    """
    end = block.rfind(b"\n")
    odd = block.count(b'"', 0, end + 1) % 2 == 1
    while end >= 0 and odd:
        # the line break is inside quotes: go back over quotes until one lies after an even number of them
        quote = block.rfind(b'"', 0, end)
        before = block.rfind(b"\n", 0, quote)
        odd = odd != (block.count(b'"', before + 1, end) % 2 == 1)
        end = before
    return end + 1


def first_row(block: bytes) -> int:
    r"""How many bytes the first row takes, its line break included.

    >>> first_row(b'"a\nb",c\n1,2\n')
    8
    """
    end = block.find(b"\n")
    while end >= 0 and block.count(b'"', 0, end) % 2:
        end = block.find(b"\n", end + 1)
    return end + 1 if end >= 0 else len(block)


def _delimiter(header: str) -> str:
    """The separator of a header: what occurs most outside quotes among comma, tab, semicolon and bar."""
    outside = "".join(header.split('"')[::2])
    return max(",\t;|", key=outside.count)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _common(first: str, second: str) -> str:
    """The type that holds the values of both."""
    if first == second or second == "null":
        return first
    if first == "null":
        return second
    low, high = sorted((first, second))
    return "binary" if "binary" in (first, second) else _WIDER.get((low, high), "string")


def _unpack(path: Path) -> bytes:
    """A gzip file unpacked in memory, if it is small enough."""
    out = bytearray()
    try:
        with gzip.open(path, "rb") as file:
            while block := file.read(2**22):
                out += block
                if len(out) > _LARGEST_GZIP:
                    raise InvalidInput(
                        f"read: {path} is larger than 512 MB unpacked, and a packed file cannot be read "
                        "in pieces; unpack it, or convert it to Parquet"
                    )
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InvalidInput(f"read: {path} is not a whole gzip file ({error})") from error
    return bytes(out)
