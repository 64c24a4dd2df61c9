"""A source: data that may be larger than memory, read in pieces, any number of times, from any place."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from benthic.base.errors import InvalidInput
from benthic.base.schema import Schema
from benthic.base.seeds import np_generator

Rows = tuple[np.ndarray, np.ndarray | None]
Piece = tuple[Callable[[int, int], Rows], int]

_WINDOW_BYTES = 32 * 2**20  # rows held in memory while they are shuffled


class Source(ABC):
    """Rows that are read in chunks, any chunk at any time.

    rows, width: the shape of the whole. event_shape: the shape of a row before it was flattened.
    chunk_rows: rows of every chunk. schema: how a table became numbers, or None. target: which column
    ``y`` is. path: the file. lanes: stretches of the file that are mixed with each other when shuffling.
    """

    rows: int
    width: int
    event_shape: tuple[int, ...]
    chunk_rows: Sequence[int]
    schema: Schema | None = None
    target: str | int | None = None
    path: Path | None = None
    lanes: int = 8
    _values: np.ndarray | None = None

    @abstractmethod
    def read(self, i: int) -> Rows:
        """Chunk ``i``: X (r, width) in a floating type, and y (r,) or None. The same for the same ``i``."""

    def read_target(self, i: int) -> np.ndarray | None:
        """The targets of chunk ``i`` alone."""
        return self.read(i)[1]

    @property
    def runs(self) -> Sequence[range]:
        """Stretches of chunks that are cheap to read one after the other."""
        return [range(i, i + 1) for i in range(len(self.chunk_rows))]

    def open(
        self, epoch: int = 0, skip: int = 0, *, batch_size: int = 8192, shuffle: bool = False, seed: int = 0
    ) -> Iterator[Rows]:
        """One pass over the rows in batches of ``batch_size``; only the last may be smaller.

        skip: how many batches to leave out at the start; chunks they fill are not read. shuffle: chunks come
        in an order drawn from (seed, epoch), and rows are permuted among the chunks that fit into a
        window of memory, so small data are permuted as a whole. The order depends on nothing else.
        """
        if batch_size < 1 or skip < 0:
            raise InvalidInput(
                f"{type(self).__name__}.open: batch_size is {batch_size} and skip is {skip}; "
                "batch_size must be at least 1 and skip at least 0"
            )
        start = skip * batch_size
        pieces = self._shuffled(epoch, seed, start) if shuffle else self._in_order(start)
        return regroup(pieces, batch_size)

    def _in_order(self, start: int) -> Iterator[Piece]:
        first, offset = _locate(self.chunk_rows, start)
        for i in range(first, len(self.chunk_rows)):
            yield slices(*self.read(i), offset)
            offset = 0

    def _shuffled(self, epoch: int, seed: int, start: int) -> Iterator[Piece]:
        windows = self._windows(np_generator(seed, "order", epoch))
        sizes = [sum(self.chunk_rows[i] for i in window) for window in windows]
        first, offset = _locate(sizes, start)
        for k in range(first, len(windows)):
            # each window has its own stream, so that skipping windows changes nothing
            order = np_generator(seed, "rows", epoch, k).permutation(sizes[k])[offset:]
            yield _picks(*self._gather(windows[k]), order)
            offset = 0

    def _windows(self, rng: np.random.Generator) -> list[list[int]]:
        """The chunks in random order, grouped into windows that fit into memory."""
        runs = list(self.runs)
        runs = [runs[i] for i in rng.permutation(len(runs))]
        order: list[int] = []
        for lane in range(0, len(runs), self.lanes):
            for column in zip_longest(*runs[lane : lane + self.lanes]):
                order.extend(i for i in column if i is not None)
        windows: list[list[int]] = [[]]
        held, limit = 0, max(1, _WINDOW_BYTES // (8 * max(1, self.width)))
        for i in order:
            if windows[-1] and held + self.chunk_rows[i] > limit:
                windows.append([])
                held = 0
            windows[-1].append(i)
            held += self.chunk_rows[i]
        return windows if order else []

    def _gather(self, chunks: Sequence[int]) -> Rows:
        """Several chunks as one, without holding any row twice."""
        X, y = self.read(chunks[0])
        if len(chunks) == 1:
            return X, y
        out = np.empty((sum(self.chunk_rows[i] for i in chunks), *X.shape[1:]), X.dtype)
        targets: list[np.ndarray] = []
        start = 0
        for i in chunks:
            X, y = (X, y) if start == 0 else self.read(i)
            out[start : start + len(X)] = X
            targets.extend([] if y is None else [y])
            start += len(X)
        return out, np.concatenate(targets) if targets else None

    def head(self, n: int) -> Rows:
        """The first ``n`` rows."""
        return next(self.open(batch_size=max(1, min(n, self.rows))))

    def sample(self, n: int, seed: int = 0) -> Rows:
        """``n`` different rows drawn uniformly, in the order of the file; all rows if there are fewer."""
        n = min(n, self.rows)
        chosen = np.sort(np_generator(seed, "sample").choice(self.rows, n, replace=False, shuffle=False))
        ends = np.cumsum(self.chunk_rows)
        parts = []
        for i in np.unique(np.searchsorted(ends, chosen, side="right")):
            begin = ends[i] - self.chunk_rows[i]
            inside = chosen[(chosen >= begin) & (chosen < ends[i])] - begin
            X, y = self.read(int(i))
            parts.append((X[inside], None if y is None else y[inside]))
        return join(parts)

    def target_values(self) -> np.ndarray:
        """The distinct values of y, sorted; found in one pass and remembered."""
        if self._values is None:
            values: np.ndarray | None = None
            for i in range(len(self.chunk_rows)):
                y = self.read_target(i)
                if y is None:
                    raise InvalidInput(
                        f"{type(self).__name__}.target_values: the source has no target; "
                        "name one with benthic.data.scan(path, target=...)"
                    )
                values = np.unique(y if values is None else np.concatenate([values, np.unique(y)]))
            self._values = np.empty(0) if values is None else values
        return self._values

    def __len__(self) -> int:
        return self.rows

    def __repr__(self) -> str:
        place = "" if self.path is None else f"{str(self.path)!r}, "
        goal = "" if self.target is None else f", target={self.target!r}"
        return f"{type(self).__name__}({place}{self.rows} x {self.width}{goal})"


def regroup(pieces: Iterable[Piece], batch_size: int) -> Iterator[Rows]:
    """Cut and join pieces so that every batch has ``batch_size`` rows but the last.

    A piece is a function (start, stop) -> rows, and how many rows it has.
    """
    held: list[Rows] = []
    count = 0
    for take, n in pieces:
        start = 0
        while n - start >= batch_size - count:
            stop = start + batch_size - count
            held.append(take(start, stop))
            yield join(held)
            held, count, start = [], 0, stop
        if start < n:
            held.append(take(start, n))
            count += n - start
        del take  # the rows of this piece are let go before the next piece is read
    if held:
        yield join(held)


def join(parts: Sequence[Rows]) -> Rows:
    """Rows one below the other."""
    if len(parts) == 1:
        return parts[0]
    targets = [y for _, y in parts if y is not None]
    return np.concatenate([X for X, _ in parts]), np.concatenate(targets) if targets else None


def _locate(sizes: Sequence[int], start: int) -> tuple[int, int]:
    """The piece that holds row ``start`` and its place in that piece."""
    ends = np.cumsum([0, *sizes])
    piece = int(np.searchsorted(ends, start, side="right")) - 1
    return piece, start - int(ends[piece])


def slices(X: np.ndarray, y: np.ndarray | None, offset: int) -> Piece:
    """Rows from ``offset`` on, in order, as a piece."""

    def take(start: int, stop: int) -> Rows:
        rows = slice(start + offset, stop + offset)
        return X[rows], None if y is None else y[rows]

    return take, len(X) - offset


def _picks(X: np.ndarray, y: np.ndarray | None, order: np.ndarray) -> Piece:
    """The rows with these numbers, in that order, as a piece."""

    def take(start: int, stop: int) -> Rows:
        rows = order[start:stop]
        return X[rows], None if y is None else y[rows]

    return take, len(order)


def column_index(name: Any, width: int, where: str) -> int:
    """A column number, which may come as text from a command line and may count from the end.

    >>> column_index("-1", 4, "scan")
    3
    """
    try:
        index = int(name)
    except (TypeError, ValueError):
        index = width
    if not -width <= index < width:
        raise InvalidInput(f"{where}: there is no column {name!r}; an array without names has columns 0 to {width - 1}")
    return index % width
