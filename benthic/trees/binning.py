"""Numbers as a few bins each: where the edges lie, and which bin a value falls into.

A column has at most 255 bins; bin 255 is kept for missing values. An edge lies halfway between the two values
it parts, so a tree grown on bins asks its questions about plain values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numba import njit

from benthic.base.errors import InvalidInput
from benthic.base.seeds import np_generator
from benthic.base.threads import Crew

MISSING = 255  # the bin of values that are not there
MOST = 255  # bins of a column besides it
_SAMPLE = 50_000  # rows that place the edges when there are more
_PIECE = 1 << 14  # rows encoded at a time


@dataclass(frozen=True)
class Bins:
    """Edges or categories of every column.

    edges: (p, 255) ascending, +inf behind the last; a value goes to the first bin whose edge is not below it.
    counts: (p,) number of bins. categories: for a column of categories its values in order, else an empty array.
    """

    edges: np.ndarray
    counts: np.ndarray
    categories: tuple[np.ndarray, ...]

    @property
    def categorical(self) -> np.ndarray:
        """(p,) 1 where a column holds categories."""
        return np.array([len(values) > 0 for values in self.categories], dtype=np.uint8)


def find_bins(
    X: np.ndarray,
    categorical: Sequence[bool],
    max_bins: int = MOST,
    crew: Crew | None = None,
    rows: np.ndarray | None = None,
) -> Bins:
    """Bins of about equally many rows for every column of ``X`` (n, p); NaN is missing.

    categorical: (p,) columns whose values are names, one bin each. max_bins: most bins of a column of numbers; with
    no more distinct values than that every value has its own bin. Edges are placed by at most 50,000 rows.
    rows: indices (m,) of the rows that count; all if None.

    >>> bins = find_bins(np.array([[1.0], [2.0], [2.0], [4.0]]), [False])
    >>> bins.edges[0, :2], int(bins.counts[0])
    (array([1.5, 3. ]), 3)
    """
    p = X.shape[1]
    edges = np.full((p, MOST), np.inf)
    counts = np.ones(p, dtype=np.int64)
    categories: list[np.ndarray] = [np.empty(0)] * p

    some = _some(len(X) if rows is None else len(rows))
    looked = some if rows is None else rows if some is None else rows[some]
    sample = X if looked is None else X[looked]

    def work(first: int) -> None:
        block = np.array(sample[:, first : first + 8].T, dtype=np.float64, order="C")  # (8, m): columns side by side
        for j, column in enumerate(block, start=first):
            if categorical[j] and some is not None:  # no category is left out
                ordered = np.sort(np.array(X[:, j] if rows is None else X[rows, j], dtype=np.float64))
            else:
                ordered = np.sort(column)
            ordered = ordered[: np.searchsorted(ordered, np.nan)]
            if categorical[j]:
                categories[j] = _categories(ordered, j)
                counts[j] = max(len(categories[j]), 1)
            else:
                counts[j] = _edges(ordered, max_bins, edges[j])

    (crew or Crew(1)).each(work, range(0, p, 8))
    return Bins(edges, counts, tuple(categories))


def _some(n: int) -> np.ndarray | None:
    """Rows that are enough to place the edges; None for all."""
    return np.sort(np_generator(0, "bins").choice(n, _SAMPLE, replace=False)) if n > _SAMPLE else None


def _categories(ordered: np.ndarray, column: int) -> np.ndarray:
    values = np.unique(ordered)
    if len(values) > MOST:
        raise InvalidInput(
            f"column {column} has {len(values)} categories; at most {MOST} can be told apart: merge the rare ones, or "
            "leave the column out of categorical_features"
        )
    return values if len(values) else np.zeros(1)


def bin_codes(X: np.ndarray, bins: Bins, crew: Crew | None = None, rows: np.ndarray | None = None) -> np.ndarray:
    """The bin of every value of ``X`` (n, p), as (p, n) bytes; missing values and unknown categories get 255.

    rows: indices (m,) of the rows that count; all if None.
    """
    n = len(X) if rows is None else len(rows)
    codes = np.empty((X.shape[1], n), dtype=np.uint8)

    def encode(start: int, stop: int) -> None:
        for low in range(start, stop, _PIECE):  # in pieces, so that no second table is made
            high = min(low + _PIECE, stop)
            part = X[low:high] if rows is None else X[rows[low:high]]
            _encode(named_codes(part, bins.categories), bins.edges, bins.categorical, codes, low)

    (crew or Crew(1)).split(n, encode)
    return codes


def named_codes(X: np.ndarray, categories: Sequence[np.ndarray]) -> np.ndarray:
    """``X`` as float64 (n, p) in which a category is its position among the known ones, and NaN where unknown."""
    X = np.ascontiguousarray(X, dtype=np.float64)
    named = [j for j, values in enumerate(categories) if len(values)]
    if not named:
        return X
    out = X.copy()
    for j in named:
        values = categories[j]
        place = np.minimum(np.searchsorted(values, X[:, j]), len(values) - 1)
        out[:, j] = np.where(values[place] == X[:, j], place, np.nan)
    return out


def pack(codes: np.ndarray) -> np.ndarray:
    """Eight columns to a word: bytes (p, n) as (⌈p / 8⌉, n) unsigned words, the first column lowest.

    >>> hex(pack(np.array([[1], [2], [3]], dtype=np.uint8))[0, 0])
    '0x30201'
    """
    p, n = codes.shape
    words = np.zeros((-(-p // 8), n), dtype=np.uint64)
    _pack(codes, words)
    return words


@njit(cache=True, nogil=True)
def _edges(ordered: np.ndarray, most: int, out: np.ndarray) -> int:
    """Write the edges of sorted values; return the number of bins.

    A value that fills a bin of average size has one to itself; the others share what is left evenly.
    """
    n, met = len(ordered), 0
    values, sizes = np.empty(n), np.zeros(n, np.int64)
    for i in range(n):
        if i == 0 or ordered[i] != ordered[i - 1]:
            values[met] = ordered[i]
            met += 1
        sizes[met - 1] += 1
    light, room, made, held = n, most, 0, 0
    for i in range(met):
        if sizes[i] * most >= n:
            light -= sizes[i]
            room -= 1
    for i in range(met - 1):
        heavy, before = sizes[i] * most >= n, sizes[i + 1] * most >= n
        held += 0 if heavy else sizes[i]
        full = held * max(room, 1) >= (light if not before else 0.5 * light)
        if made == most - 1 or not (met <= most or heavy or full):
            continue
        middle = 0.5 * (values[i] + values[i + 1])
        out[made] = middle if values[i] <= middle < values[i + 1] else values[i]
        made += 1
        if held and (full or not heavy):
            light -= held
            room -= 1
        held = 0
    return made + 1


@njit(cache=True, nogil=True)
def _encode(X: np.ndarray, edges: np.ndarray, categorical: np.ndarray, codes: np.ndarray, start: int) -> None:
    """The bins of rows X (m, p), written to columns ``start`` to ``start + m`` of ``codes`` (p, n)."""
    block = 512
    for low in range(0, len(X), block):
        high = min(low + block, len(X))
        for j in range(X.shape[1]):
            row = edges[j]
            for i in range(low, high):
                x = X[i, j]
                if x != x:
                    codes[j, start + i] = MISSING
                elif categorical[j]:
                    codes[j, start + i] = np.uint8(x)
                else:
                    place = 0  # the number of edges below x, by halving steps over 255 = 2^8 - 1 places
                    for step in (128, 64, 32, 16, 8, 4, 2, 1):
                        place += step if row[place + step - 1] < x else 0
                    codes[j, start + i] = np.uint8(place)


@njit(cache=True, nogil=True)
def _pack(codes: np.ndarray, words: np.ndarray) -> None:
    for j in range(codes.shape[0]):
        shift = np.uint64(8 * (j % 8))
        row = words[j // 8]
        for i in range(codes.shape[1]):
            row[i] |= np.uint64(codes[j, i]) << shift
