"""Sequences of symbols as codes 0..m-1: integers, characters of strings, or any labels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benthic.base.errors import InvalidInput

MISSING = -1


@dataclass(frozen=True)
class Flat:
    """All steps one after the other, before they are numbered.

    values: (total,) integers, characters or labels. gaps: (total,) where nothing was observed.
    lengths: (n,). style: ``array``, ``lists``, ``arrays`` or ``strings``, the shape that answers take.
    """

    values: np.ndarray
    gaps: np.ndarray
    lengths: np.ndarray
    style: str

    def place(self, position: int) -> str:
        """Where a step stands, for an error."""
        ends = np.cumsum(self.lengths)
        row = int(np.searchsorted(ends, position, side="right"))
        return f"step {position - int(ends[row] - self.lengths[row])} of sequence {row}"


def flatten(X: Any) -> Flat:
    """Sequences of symbols in any of their forms as one row of symbols.

    >>> flatten(["ab", "c"]).values.tolist(), flatten([[3, 1], [2]]).lengths.tolist()
    (['a', 'b', 'c'], [2, 1])
    """
    if isinstance(X, str):
        raise InvalidInput("X is one string; pass a list of strings, [X], each a sequence of characters")
    if isinstance(X, np.ndarray) and X.dtype != object and X.ndim != 1:
        return _flatten_array(X)
    items = list(X) if isinstance(X, Iterable) else None
    if items is None or any(not _is_sequence(item) for item in items):
        raise InvalidInput(
            "X must be sequences of symbols: an array (n, t), a list of lists or a list of strings; "
            "one long sequence is passed as a list of one, [X]"
        )
    if not items:
        raise InvalidInput("X holds no sequences; at least one is needed")
    lengths = np.array([len(item) for item in items], dtype=np.int64)
    check_lengths(lengths)
    if all(isinstance(item, str) for item in items):
        points = np.frombuffer("".join(items).encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
        return Flat(points.view("<U1"), np.zeros(len(points), bool), lengths, "strings")
    if any(isinstance(item, str) for item in items):
        raise InvalidInput("X mixes strings with other sequences; pass all as strings, or all as lists of symbols")
    return _flatten_items(items, lengths)


def check_lengths(lengths: np.ndarray) -> None:
    """Refuse a sequence without steps, and say which."""
    empty = np.flatnonzero(lengths == 0)
    if len(empty):
        raise InvalidInput(
            f"sequence {empty[0]} has length 0 ({len(empty)} of {len(lengths)} are empty); "
            "every sequence needs at least one step: leave the empty ones out"
        )


def _is_sequence(item: Any) -> bool:
    if isinstance(item, np.ndarray):
        return item.ndim == 1 or (item.ndim == 2 and item.shape[1] == 1)
    return isinstance(item, (str, list, tuple, range)) or (hasattr(item, "__len__") and hasattr(item, "__array__"))


def _flatten_array(X: np.ndarray) -> Flat:
    if X.ndim == 3 and X.shape[2] == 1:
        X = X[:, :, 0]
    if X.ndim != 2:
        raise InvalidInput(f"X has {X.ndim} dimensions, shape {X.shape}; symbols come as an array (n, t) or as lists")
    if len(X) == 0:
        raise InvalidInput("X holds no sequences; at least one is needed")
    lengths = np.full(len(X), X.shape[1], dtype=np.int64)
    check_lengths(lengths)
    values, gaps = _without_gaps(np.ascontiguousarray(X).reshape(-1))
    return Flat(values, gaps, lengths, "array")


def _flatten_items(items: list[Any], lengths: np.ndarray) -> Flat:
    style = "arrays" if all(isinstance(item, np.ndarray) for item in items) else "lists"
    arrays = [np.asarray(item).reshape(-1) for item in items if isinstance(item, np.ndarray)]
    if style == "arrays" and all(array.dtype != object for array in arrays):
        values, gaps = _without_gaps(np.concatenate(arrays))
        return Flat(values, gaps, lengths, style)
    labels = [label for item in items for label in (item.reshape(-1).tolist() if _is_array(item) else item)]
    if all(type(label) in (int, bool, float, type(None)) for label in labels):
        numbers = np.array([np.nan if label is None else label for label in labels])
        values, gaps = _without_gaps(numbers)
        return Flat(values, gaps, lengths, style)
    gaps = np.array([label is None or label != label for label in labels])
    values = np.empty(len(labels), dtype=object)
    values[:] = [None if gap else _plain(label) for label, gap in zip(labels, gaps, strict=True)]
    return Flat(values, gaps, lengths, style)


def _is_array(item: Any) -> bool:
    return isinstance(item, np.ndarray)


def _plain(label: Any) -> Any:
    """A label that can be looked up, in Python's own type."""
    label = label.item() if isinstance(label, np.generic) else label
    try:
        hash(label)
    except TypeError as error:
        raise InvalidInput(
            f"X holds {label!r:.60}, which cannot be a symbol; symbols are numbers, strings or tuples"
        ) from error
    return label


def _without_gaps(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Whole numbers or strings, and where there is none: NaN or -1."""
    if values.dtype.kind == "b":
        values = values.astype(np.int64)
    if values.dtype.kind in "US":
        return values.astype(str), np.zeros(len(values), bool)
    if values.dtype.kind == "f":
        values = _whole(values)
    if values.dtype.kind not in "iu":
        raise InvalidInput(f"X holds {values.dtype}; symbols are whole numbers, strings or other labels in lists")
    values = values.astype(np.int64)
    if (values < MISSING).any():
        worst = int(values.min())
        raise InvalidInput(
            f"X holds the negative number {worst}; symbols as integers count from 0, and -1 stands for a missing one"
        )
    return values, values == MISSING


def _whole(values: np.ndarray) -> np.ndarray:
    gaps = np.isnan(values)
    filled = np.where(gaps, MISSING, values)
    odd = ~np.isfinite(filled) | (filled != np.floor(filled))
    if odd.any():
        raise InvalidInput(
            f"X holds {values[odd][0]!s}, which is not a symbol; symbols are whole numbers or labels, "
            "and measurements need a model of numbers"
        )
    return filled.astype(np.int64)


def learn_symbols(flat: Flat) -> np.ndarray:
    """The symbols that occur, sorted where they can be, else in the order in which they come."""
    seen = flat.values[~flat.gaps]
    if len(seen) == 0:
        raise InvalidInput("every step of X is missing; at least one symbol must be observed")
    if seen.dtype != object:
        return np.unique(seen)
    return read_symbols(dict.fromkeys(seen.tolist()), ordered=True)


def read_symbols(symbols: Iterable[Any], ordered: bool = False) -> np.ndarray:
    """An alphabet as an array: integers, strings, or objects. ordered: sort it where that is possible."""
    labels = [_plain(label) for label in symbols]
    if len(set(labels)) < len(labels) or not labels:
        raise InvalidInput("symbols must name at least one symbol, each once")
    if ordered:
        try:
            labels = sorted(labels)
        except TypeError:  # of several types: keep the order in which they came
            labels = list(labels)
    if all(type(label) is int for label in labels) or all(type(label) is str for label in labels):
        return np.array(labels)
    found = np.empty(len(labels), dtype=object)
    found[:] = labels
    return found


def encode(flat: Flat, symbols: np.ndarray, missing: bool = True) -> np.ndarray:
    """The number of each step's symbol, -1 where it is missing; an unknown one is refused by name and place.

    missing: whether the model takes missing symbols, so that the refusal may advise them.
    """
    codes = np.full(len(flat.values), MISSING, dtype=np.int64)
    there = np.flatnonzero(~flat.gaps)
    if symbols.dtype != object and flat.values.dtype != object and symbols.dtype.kind == flat.values.dtype.kind:
        order = np.argsort(symbols, kind="stable")
        found = np.searchsorted(symbols, flat.values[there], sorter=order).clip(max=len(symbols) - 1)
        codes[there] = order[found]
        wrong = there[symbols[codes[there]] != flat.values[there]]
    else:
        number = {label: k for k, label in enumerate(symbols.tolist())}
        codes[there] = [number.get(label, MISSING) for label in flat.values[there].tolist()]
        wrong = there[codes[there] == MISSING]
    if len(wrong):
        raise InvalidInput(_unknown(flat, int(wrong[0]), symbols, missing))
    return codes


def _unknown(flat: Flat, position: int, symbols: np.ndarray, missing: bool) -> str:
    shown = ", ".join(repr(label) for label in symbols[:6].tolist()) + (", ..." if len(symbols) > 6 else "")
    label = flat.values[position : position + 1].tolist()[0]
    advice = "mark it as missing (None, NaN or -1), or " if missing else ""
    return (
        f"{flat.place(position)} is the symbol {label!r}, which is unknown; the model knows {len(symbols)}: {shown}; "
        f"{advice}fit with symbols= that name it"
    )


def decode(codes: Sequence[np.ndarray], symbols: np.ndarray, style: str) -> Any:
    """Sequences of codes as symbols again, in the style in which they came."""
    if style == "array" and len({len(part) for part in codes}) == 1:
        return np.stack([symbols[part] for part in codes])
    if style == "strings":
        return ["".join(symbols[part].tolist()) for part in codes]
    if style == "lists":
        return [symbols[part].tolist() for part in codes]
    return [symbols[part] for part in codes]
