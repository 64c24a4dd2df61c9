"""Data on the command line: a bundled name or a path, in memory or streamed, cut into parts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benthic.base.catalogue import Entry, catalogue
from benthic.base.errors import InvalidInput, nearest
from benthic.base.schema import is_frame
from benthic.base.seeds import np_generator
from benthic.cli.failure import Usage
from benthic.data.bundled import load, names
from benthic.data.formats import file_kind
from benthic.data.scan import scan
from benthic.data.sources import Source
from benthic.data.splits import take, train_test

_LARGE = 256 * 2**20  # bytes of a file that is better not read at once
_STREAMED = ("csv", "parquet", "npy")
JUDGED = 10_000  # rows that are looked at after the fit where none were held out


@dataclass(frozen=True)
class Inputs:
    """Rows and what is known about them.

    X: array, table or source. y: targets or None. columns: names of the columns of an array.
    classes: names of the classes 0, 1, ... image: height and width where rows are pictures.
    """

    X: Any
    y: np.ndarray | None
    name: str
    target: str | int | None = None
    columns: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    image: tuple[int, int] | None = None

    @property
    def streamed(self) -> bool:
        """Whether the rows are read in pieces."""
        return isinstance(self.X, Source)

    @property
    def text(self) -> bool:
        """Whether the rows are lines of text."""
        return isinstance(self.X, np.ndarray) and self.X.dtype.kind == "O"

    @property
    def rows(self) -> int:
        """How many there are."""
        return int(self.X.rows if self.streamed else self.X.shape[0])

    def part(self, chosen: np.ndarray) -> Inputs:
        """Some of the rows."""
        return replace(self, X=take(self.X, chosen), y=None if self.y is None else self.y[chosen])

    def some(self, n: int, seed: int) -> Inputs:
        """At most ``n`` rows in memory, drawn at random, in their order."""
        if self.streamed:
            X, y = self.X.sample(n, seed)
            schema = self.X.schema
            X = X.reshape(len(X), *self.X.event_shape) if schema is None else _whole(schema, X)
            return replace(self, X=X, y=y)
        if n >= self.rows:
            return self
        return self.part(np.sort(np_generator(seed, "some").choice(self.rows, n, replace=False)))


def _whole(schema: Any, X: np.ndarray) -> Any:
    """Encoded rows as the table they came from; columns that were left out are there, but empty."""
    import pyarrow as pa

    known = schema.decode(X, frame="arrow")
    empty = {str(name): pa.nulls(len(X)) for name in schema.dropped}
    return pa.table({str(n): empty[str(n)] if str(n) in empty else known.column(str(n)) for n in schema.names})


def open_data(data: str, target: Any = None, drop: Sequence[Any] = (), *, stream: bool | None = None) -> Inputs:
    """The data called ``data``; a large file is streamed unless ``stream`` says otherwise."""
    path = Path(data)
    if data not in names():
        if not path.exists():
            raise Usage(f"there is no file and no bundled set {data!r}{_near(path)}; bundled are {', '.join(names())}")
        if stream or (stream is None and _is_large(path)):
            return _streamed(path, target, drop)
    elif stream:
        raise Usage(f"{data} is in memory already; --stream is for files")
    found = load(data, target, tuple(drop))
    shape = found.X.shape
    return Inputs(
        found.X,
        found.y,
        found.name,
        found.target,
        () if is_frame(found.X) else found.feature_names,
        found.target_names,
        shape[-2:] if len(shape) == 4 else _pixels(found.feature_names),
    )


def _streamed(path: Path, target: Any, drop: Sequence[Any]) -> Inputs:
    source = scan(path, target, tuple(drop))
    event = source.event_shape
    return Inputs(source, None, path.name, source.target, image=event[-2:] if len(event) == 3 else None)


def _is_large(path: Path) -> bool:
    return path.is_file() and path.stat().st_size > _LARGE and file_kind(path) in _STREAMED


def _near(path: Path) -> str:
    beside = [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else []
    return nearest(path.name, [*names(), *beside])


def _pixels(columns: Sequence[str]) -> tuple[int, int] | None:
    """Height and width when every column is called pixel_<row>_<column>.

    >>> _pixels(["pixel_0_0", "pixel_0_1"])
    (1, 2)
    """
    places = [re.fullmatch(r"pixel_(\d+)_(\d+)", str(name)) for name in columns]
    if not places or not all(places):
        return None
    height, width = (1 + max(int(place[axis]) for place in places if place) for axis in (1, 2))
    return (height, width) if height * width == len(columns) else None


def suited(inputs: Inputs, entry: Entry) -> Inputs:
    """The rows as the model takes them: those of a table as sequences of numbers, where it is a model of sequences."""
    reads_text = {"documents", "symbols"} & set(entry.data)
    if inputs.text and not reads_text:
        others = [e.name for e in catalogue().values() if {"documents", "symbols"} & set(e.data)]
        raise Usage(f"{entry.name} does not read text; {', '.join(others)} do")
    if "table" in entry.data or not is_frame(inputs.X):
        return inputs
    table, odd = inputs.X, []
    for name, column in zip(table.column_names, table.columns, strict=True):
        odd += [] if str(column.type).startswith(("int", "uint", "float", "double", "bool")) else [name]
    if odd:
        raise Usage(
            f"{entry.name} is a model of sequences: each row of a table is one, of numbers, but {odd[0]!r} is not; "
            "leave it out with --drop"
        )
    steps = [np.asarray(column.to_numpy(), dtype=np.float64) for column in table.columns]
    return replace(inputs, X=np.column_stack(steps))


def split(
    inputs: Inputs, fraction: float, seed: int, *, labels: bool, every: bool = False
) -> tuple[Inputs, Inputs | None]:
    """Rows to fit and rows to judge; with labels every class keeps its share where it can.

    every: whether a row whose label no other has is fitted, since a model that is given it must have seen it.
    """
    if inputs.streamed or not fraction or inputs.rows < 2:
        return inputs, None
    held = max(1, round(fraction * inputs.rows))
    if held >= inputs.rows:
        raise Usage(f"--test-fraction {fraction} of {inputs.rows} rows leaves none to fit")
    stratify = False
    if labels and inputs.y is not None:
        counts = np.unique(inputs.y, return_counts=True)[1]
        stratify = len(counts) > 1 and counts.min() >= 2 and len(counts) <= min(held, inputs.rows - held)
    rows = np.arange(inputs.rows)
    fit, test, *_ = train_test(rows, inputs.y if stratify else None, held / inputs.rows, stratify, seed)
    if every and inputs.y is not None:
        alone = ~np.isin(inputs.y[test], inputs.y[fit])
        fit, test = np.concatenate([fit, test[alone]]), test[~alone]
        if not len(test):
            return inputs, None
    return inputs.part(fit), inputs.part(test)


def rows_for(model: Any, data: str, target: Any, drop: Sequence[Any], *, need_y: bool) -> Inputs:
    """Data for a fitted model: columns it does not know are left out, the target set aside."""
    entry = catalogue().get(type(model).__name__)
    if entry is not None and "table" not in entry.data:
        return suited(open_data(data, target if need_y else None, drop, stream=False), entry)
    if data in names():
        return open_data(data, target, drop)
    if not Path(data).exists():
        return open_data(data)
    found = open_data(data, stream=False)
    if found.text:
        return found if entry is None else suited(found, entry)
    if is_frame(found.X):
        return columns_for(model, found, target, need_y)
    width = getattr(model, "n_features_in_", None)
    fits = found.X.ndim != 2 or found.X.shape[1] == width
    if fits and (not need_y or target is None or found.y is not None):
        return found
    return open_data(data, target, drop, stream=False)


def columns_for(model: Any, found: Inputs, target: Any, need_y: bool) -> Inputs:
    """A table with the columns the model was fitted on, in their order, and the target where it is needed."""
    from benthic.data.tables import check_columns, target_array

    table, y = found.X, None
    if target is not None and (need_y or str(target) in table.column_names):
        check_columns(table.column_names, target, (), found.name)
        y = target_array(table.column(str(target)), str(target)) if need_y else None
    wanted = [str(name) for name in getattr(model, "feature_names_in_", ())]
    if not wanted:
        wanted = [name for name in table.column_names if name != str(target)]
    missing = [name for name in wanted if name not in table.column_names]
    if missing:
        raise InvalidInput(
            f"{found.name} lacks the columns {', '.join(map(repr, missing[:8]))}, which "
            f"{type(model).__name__} was fitted on{nearest(missing[0], table.column_names)}"
        )
    return replace(found, X=table.select(wanted), y=y, target=target)
