"""Read a file into memory, whatever kind of file it is."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benthic.base.errors import InvalidInput, nearest
from benthic.data.dataset import Dataset, from_array, from_table
from benthic.data.formats import file_kind
from benthic.data.tables import check_columns

_INPUTS = ("X", "x", "data", "features", "images", "inputs", "X_train", "x_train")
_TARGETS = ("y", "Y", "target", "targets", "labels", "label", "y_train")


def read(path: str | Path, target: str | int | None = None, drop: Sequence[Any] = ()) -> Dataset:
    """A file as a data set in memory.

    CSV, TSV and Parquet become a ``pyarrow.Table``; NPY and NPZ an array; IDX files and folders of
    pictures an array (n, c, h, w) between 0 and 1; a text file an array of its lines. In an NPZ file the array
    called X (or data, images, ...) is the input and y (or target, labels, ...) the target.

    target: the column that is y: a name, or a number for arrays; for NPZ, the name of an array. drop: columns
    (or arrays) to leave out.
    """
    place = Path(path)
    return _READERS[file_kind(place)](place, target, tuple(drop))


def _read_csv(path: Path, target: Any, drop: tuple[Any, ...]) -> Dataset:
    import pyarrow as pa

    from benthic.data.csv_file import CsvFile

    file = CsvFile(path)
    check_columns(file.arrow_schema.names, target, drop, path)
    names = [name for name in file.arrow_schema.names if name not in set(map(str, drop))]
    if not file.chunk_rows:
        raise InvalidInput(f"read: {path} has no rows; it holds only the names of its columns")
    table = pa.concat_tables(file.tables(names)).combine_chunks()
    return from_table(table, path.name, path, target, ())


def _read_parquet(path: Path, target: Any, drop: tuple[Any, ...]) -> Dataset:
    import pyarrow as pa

    from benthic.data.parquet_file import ParquetFile

    file = ParquetFile(path)
    check_columns(file.arrow_schema.names, target, drop, path)
    names = [name for name in file.arrow_schema.names if name not in set(map(str, drop))]
    if not file.chunk_rows:
        raise InvalidInput(f"read: {path} has no rows")
    table = pa.concat_tables(file.tables(names)).unify_dictionaries().combine_chunks()
    return from_table(table, path.name, path, target, ())


def _read_npy(path: Path, target: Any, drop: tuple[Any, ...]) -> Dataset:
    from benthic.data.sources import as_floats, open_npy

    return from_array(np.array(as_floats(open_npy(path))), None, path.name, path, target, drop)


def _read_npz(path: Path, target: Any, drop: tuple[Any, ...]) -> Dataset:
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files if name not in drop}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise InvalidInput(
            f"read: {path} is not a whole NPZ file of plain arrays ({error}); write it with np.savez"
        ) from error
    if target is not None and target not in arrays:
        raise InvalidInput(
            f"read: {path} has no array {target!r}{nearest(str(target), arrays)}; it has {', '.join(arrays)}"
        )
    goal = target or next((name for name in _TARGETS if name in arrays), None)
    rest = [name for name in arrays if name != goal]
    source = next((name for name in _INPUTS if name in rest), rest[0] if len(rest) == 1 else None)
    if source is None:
        raise InvalidInput(
            f"read: none of the arrays of {path} is called X ({', '.join(arrays)}); "
            "save the inputs as X, or leave the others out with drop"
        )
    return _pair(arrays[source], None if goal is None else arrays[goal], goal, path)


def _pair(X: np.ndarray, y: np.ndarray | None, goal: str | None, path: Path) -> Dataset:
    from benthic.data.sources import as_floats

    if X.dtype.kind not in "fiub" or X.ndim == 0:
        raise InvalidInput(f"read: X in {path} holds {X.dtype}, not rows of real numbers")
    if y is not None and (y.ndim == 0 or len(y) != len(X)):
        raise InvalidInput(f"read: in {path} X has {len(X)} rows, but {goal!r} has shape {y.shape}")
    X = as_floats(X[:, None] if X.ndim == 1 else X)
    return Dataset(X, y, name=path.name, target=goal)


def _read_idx(path: Path, target: Any, drop: tuple[Any, ...]) -> Dataset:
    from benthic.data.images import read_idx

    X, y = read_idx(path)
    return from_array(X, y, path.name, path, target, drop)


def _read_images(path: Path, target: Any, drop: tuple[Any, ...]) -> Dataset:
    from benthic.data.images import read_folder

    if target not in (None, "class") or drop:
        raise InvalidInput(f"read: {path} is a folder of pictures, which has no columns; its folders are the classes")
    X, y, classes = read_folder(path)
    return Dataset(X, y, name=path.name, target=None if y is None else "class", target_names=classes)


def _read_text(path: Path, target: Any, drop: tuple[Any, ...]) -> Dataset:
    from benthic.data.text import read_text

    if target is not None or drop:
        raise InvalidInput(f"read: {path} is plain text, which has no columns; leave out target and drop")
    return Dataset(np.array(read_text(path), dtype=object), name=path.name)


_READERS = {
    "csv": _read_csv,
    "parquet": _read_parquet,
    "npy": _read_npy,
    "npz": _read_npz,
    "idx": _read_idx,
    "images": _read_images,
    "text": _read_text,
}
