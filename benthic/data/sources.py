"""Sources over arrays in memory, NPY files, CSV and Parquet."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.base.schema import Schema, is_frame
from benthic.data.source import Rows, Source, column_index
from benthic.data.tables import CsvSource, ParquetSource, TableSource

__all__ = ["ArraySource", "CsvSource", "NpySource", "ParquetSource", "Source", "TableSource"]

_CHUNK_BYTES = 4 * 2**20


class ArraySource(Source):
    """Rows that are in memory already: one chunk, never copied.

    X: (n, *event) array, tensor or frame. y: (n,) or None.

    >>> source = ArraySource(np.arange(10.0)[:, None])
    >>> [len(X) for X, _ in source.open(batch_size=4)]
    [4, 4, 2]
    """

    def __init__(self, X: Any, y: Any = None, *, path: Path | None = None, target: str | int | None = None) -> None:
        if is_frame(X):
            self.schema = Schema.infer(X)
            X = self.schema.encode(X)
        array = X.detach().cpu().numpy() if isinstance(X, Tensor) else np.asarray(X)
        if array.ndim < 2 or array.dtype.kind not in "fiub":
            raise InvalidInput(
                f"ArraySource: X has shape {array.shape} and type {array.dtype}; numbers of shape (n, d) are needed"
            )
        self.event_shape = array.shape[1:]
        self._X = as_floats(array.reshape(len(array), -1))
        self._y = None if y is None else np.asarray(y.detach().cpu() if isinstance(y, Tensor) else y)
        if self._y is not None and len(self._y) != len(array):
            raise InvalidInput(f"ArraySource: X has {len(array)} rows and y has {len(self._y)}")
        self.rows, self.width = self._X.shape
        self.chunk_rows = [self.rows] if self.rows else []
        self.path, self.target = path, target

    def read(self, i: int) -> Rows:
        """Everything, as the one chunk there is."""
        if i != 0:
            raise IndexError(f"ArraySource.read: there is no chunk {i}; the only one is 0")
        return self._X, self._y


class NpySource(Source):
    """Rows of an NPY file, mapped into memory and read from disk only where needed.

    target: the number of the column that is y. drop: numbers of columns to leave out.
    """

    def __init__(self, path: str | Path, target: str | int | None = None, drop: Sequence[Any] = ()) -> None:
        self.path = Path(path)
        self._data = open_npy(self.path)
        self.event_shape = self._data.shape[1:]
        columns = int(np.prod(self.event_shape))
        self.rows = len(self._data)
        self.target = None if target is None else column_index(target, columns, "scan")
        left_out = {column_index(name, columns, "scan") for name in drop}
        left_out |= set() if self.target is None else {int(self.target)}
        self._kept = [j for j in range(columns) if j not in left_out] if left_out else None
        self.width = columns if self._kept is None else len(self._kept)
        if self._kept is not None:
            self.event_shape = (self.width,)
        if self.width == 0 or self.rows == 0:
            raise InvalidInput(f"scan: {self.path} has {self.rows} rows and {self.width} columns left to learn from")
        step = max(1, _CHUNK_BYTES // (self._data.dtype.itemsize * columns))
        self.chunk_rows = [min(step, self.rows - start) for start in range(0, self.rows, step)]
        self._step = step

    def read(self, i: int) -> Rows:
        """Chunk ``i``; a view of the file where its numbers are floats already."""
        block = self._data[i * self._step : i * self._step + self.chunk_rows[i]]
        block = block.reshape(len(block), -1)
        y = None if self.target is None else np.array(block[:, int(self.target)])
        return as_floats(block if self._kept is None else block[:, self._kept]), y


def open_npy(path: Path) -> np.ndarray:
    """The array of numbers in an NPY file, mapped into memory; (n,) becomes (n, 1)."""
    try:
        data = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise InvalidInput(
            f"read: {path} is not a whole NPY file of numbers ({error}); write it with np.save"
        ) from error
    if not isinstance(data, np.ndarray) or data.dtype.kind not in "fiub" or data.ndim == 0:
        kind = getattr(data, "dtype", type(data).__name__)
        raise InvalidInput(f"read: {path} holds {kind}, not rows of real numbers; save an array of shape (n, d)")
    plain = np.asarray(data)
    return plain[:, None] if plain.ndim == 1 else plain


def as_floats(X: np.ndarray) -> np.ndarray:
    """Floating numbers that hold those of ``X``: itself if it is float32 or float64, else a copy."""
    if X.dtype in (np.float32, np.float64) and X.dtype.isnative:
        return X
    small = X.dtype.itemsize <= (4 if X.dtype.kind == "f" else 2)
    return X.astype(np.float32 if small else np.float64)
