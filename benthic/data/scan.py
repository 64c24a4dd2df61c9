"""Make a source of whatever holds rows: a path, a source, or an object that can be opened again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benthic.base.errors import InvalidInput
from benthic.data.formats import file_kind
from benthic.data.source import Piece, Rows, Source, regroup, slices
from benthic.data.sources import ArraySource, CsvSource, NpySource, ParquetSource, as_floats


def scan(
    path: str | Path,
    target: str | int | None = None,
    drop: Sequence[Any] = (),
    kinds: Mapping[str, str] | None = None,
) -> Source:
    """A source of the rows of a file, which may be larger than memory.

    CSV, TSV, Parquet and NPY files are read in pieces; the other kinds that ``read`` knows are read into
    memory. target: the column that is y, a name, or a number for NPY. drop: columns to leave out.
    kinds: column -> kind where the guess is wrong, as for ``Schema.infer``.
    """
    place = Path(path)
    kind = file_kind(place)
    if kinds is not None and kind not in ("csv", "parquet"):
        raise InvalidInput(f"scan: {place} has no named columns, so kinds has no meaning for it")
    if kind in ("csv", "parquet"):
        table_source = CsvSource if kind == "csv" else ParquetSource
        return table_source(place, None if target is None else str(target), drop, kinds)
    if kind == "npy":
        return NpySource(place, target, drop)
    from benthic.data.read import read

    data = read(place, target, drop)
    return ArraySource(data.X, data.y, path=place, target=data.target)


def as_source(X: Any) -> Source | None:
    """The source that ``X`` is or names; None for arrays, tensors and frames, which need none.

    A path is scanned; an object with a method ``open(epoch, skip)`` that gives batches is wrapped. An
    iterator is refused, because learners pass over the data more than once.
    """
    if isinstance(X, Source):
        return X
    if isinstance(X, (str, Path)):
        return scan(X)
    if callable(getattr(X, "open", None)):
        return Reopened(X)
    if hasattr(X, "__next__"):
        raise InvalidInput(
            f"as_source: X is a {type(X).__name__}, a one-shot iterator; this learner passes over the data "
            "several times; pass a path, benthic.data.scan(path) or an object with open(epoch, skip)"
        )
    return None


class Reopened(Source):
    """A source made of an object whose ``open(epoch, skip)`` gives batches X or (X, y), again and again.

    Its batches are the chunks: every epoch must have the same rows and sizes of batches as the first, but
    may have them in another order, so ``shuffle`` is left to the object. One pass counts the rows.
    """

    def __init__(self, opened: Any) -> None:
        self._opened = opened
        self.target = getattr(opened, "target", None)
        self.schema = getattr(opened, "schema", None)
        sizes, widths = [], set()
        for X, _ in self._batches(0, 0):
            sizes.append(len(X))
            widths.add(X.shape[1])
        if not sizes or not sum(sizes):
            raise InvalidInput(f"as_source: {type(opened).__name__}.open(0, 0) gave no rows")
        if len(widths) > 1:
            raise InvalidInput(f"as_source: batches of {type(opened).__name__} have {sorted(widths)} columns")
        self.chunk_rows, self.rows, self.width = sizes, sum(sizes), widths.pop()
        self.event_shape = (self.width,)

    def read(self, i: int) -> Rows:
        """Batch ``i`` of epoch 0."""
        return next(self._batches(0, i))

    def open(
        self, epoch: int = 0, skip: int = 0, *, batch_size: int = 8192, shuffle: bool = False, seed: int = 0
    ) -> Iterator[Rows]:
        """One pass over the object's own epoch, regrouped into batches of ``batch_size``."""
        del shuffle, seed
        if batch_size < 1 or skip < 0:
            raise InvalidInput(f"as_source: batch_size is {batch_size} and skip is {skip}; use at least 1 and 0")
        ends = np.cumsum([0, *self.chunk_rows])
        whole = int(np.searchsorted(ends, skip * batch_size, side="right")) - 1
        return regroup(self._pieces(epoch, whole, skip * batch_size - int(ends[whole])), batch_size)

    def _pieces(self, epoch: int, whole: int, offset: int) -> Iterator[Piece]:
        for X, y in self._batches(epoch, whole):
            yield slices(X, y, offset)
            offset = 0

    def _batches(self, epoch: int, skip: int) -> Iterator[Rows]:
        for batch in self._opened.open(epoch, skip):
            X, y = (batch[0], batch[1]) if isinstance(batch, (tuple, list)) else (batch, None)
            array = np.asarray(X)
            if array.ndim < 2 or array.dtype.kind not in "fiub":
                raise InvalidInput(
                    f"as_source: {type(self._opened).__name__}.open gave a batch of shape {array.shape} "
                    f"and type {array.dtype}; batches are X of shape (n, d), or (X, y)"
                )
            yield as_floats(array.reshape(len(array), -1)), None if y is None else np.asarray(y)
