"""Tables and arrays out: CSV, Parquet or NPY by the ending of the file, CSV on stdout without one."""

from __future__ import annotations

import io
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benthic.base.errors import InvalidInput
from benthic.base.files import write_atomic
from benthic.base.harmless import FORMULA, inert, visible
from benthic.base.schema import is_frame, to_arrow
from benthic.cli.failure import Usage

ENDINGS = (".csv", ".parquet", ".npy")


def check_ending(out: Path | None) -> None:
    """Refuse an unknown ending before any work is done."""
    if out is not None and out.suffix.lower() not in ENDINGS:
        raise Usage(f"--out {out}: the ending decides the format; use one of {', '.join(ENDINGS)}")


def write(
    values: Any,
    out: Path | None,
    columns: Sequence[str] = (),
    beside: Mapping[str, np.ndarray] | None = None,
    *,
    safe: bool = False,
) -> None:
    """Write a frame, or an array (n, *event) under the given column names.

    beside: further columns of tables, which NPY files of the examples alone do without. safe: no cell of a CSV file
    begins as a formula.
    """
    if out is not None and out.suffix.lower() == ".npy":
        write_atomic(out, _npy(values))
        return
    table = to_arrow(values) if is_frame(values) else _table(np.asarray(values), columns)
    for name, column in (beside or {}).items():
        table = table.append_column(name, [column.tolist()])
    if out is None:
        text = _csv(table, safe).decode()
        sys.stdout.write(visible(text) if sys.stdout.isatty() else text)
        sys.stdout.flush()
    elif out.suffix.lower() == ".csv":
        write_atomic(out, _csv(table, safe))
    else:
        import pyarrow.parquet as pq

        buffer = io.BytesIO()
        pq.write_table(table, buffer)
        write_atomic(out, buffer.getvalue())


def _table(values: np.ndarray, columns: Sequence[str]) -> Any:
    import pyarrow as pa

    rows = values.reshape(len(values), -1)
    names = list(columns) if len(columns) == rows.shape[1] else [f"x{j}" for j in range(rows.shape[1])]
    return pa.table(
        {name: pa.array(rows[:, j].tolist() if rows.dtype == object else rows[:, j]) for j, name in enumerate(names)}
    )


def _csv(table: Any, safe: bool) -> bytes:
    import pyarrow as pa
    from pyarrow import compute, csv, types

    columns = [column.cast(column.type.value_type) if types.is_dictionary(column.type) else column for column in table]
    names = table.column_names
    if safe:
        texts = [types.is_string(column.type) or types.is_large_string(column.type) for column in columns]
        columns = [
            compute.replace_substring_regex(column, FORMULA, r"'\1") if text else column
            for column, text in zip(columns, texts, strict=True)
        ]
        names = [inert(name) for name in names]
    buffer = io.BytesIO()
    csv.write_csv(pa.table(columns, names), buffer)
    return buffer.getvalue()


def _npy(values: Any) -> bytes:
    array = values
    if is_frame(values):
        table = to_arrow(values)
        columns = [column.to_numpy() for column in table.columns]
        odd = [
            name for name, column in zip(table.column_names, columns, strict=True) if column.dtype.kind not in "biuf"
        ]
        if odd:
            raise InvalidInput(f"an NPY file holds numbers, but {odd[0]!r} is not one; write .csv or .parquet")
        array = np.column_stack(columns)
    buffer = io.BytesIO()
    np.save(buffer, np.asarray(array), allow_pickle=False)
    return buffer.getvalue()
