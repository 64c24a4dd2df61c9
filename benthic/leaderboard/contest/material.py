"""The data of a comparison as numbers, and the shapes in which models take them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benthic.base.arrays import is_tensor
from benthic.base.errors import InvalidInput
from benthic.base.schema import Schema, is_frame, to_arrow
from benthic.data.dataset import Dataset
from benthic.leaderboard.contest.contestants import needs_labels, takes_images
from benthic.leaderboard.contest.joining import Target, with_target
from benthic.leaderboard.contest.records import Contestant, DataFacts, Outcome

LEAST_ROWS = 50
_PLANE = 2  # numbers of a row


@dataclass(frozen=True, eq=False)
class Material:
    """Rows as numbers, and how they become what a model takes.

    rows: (n, width), NaN where a value is missing. y: (n,) labels or None. facts: for people. shape: of one row, (d,)
    or (c, h, w). schema: of a frame. target: which of its columns are the labels, that models make with the rest.
    """

    rows: np.ndarray
    y: np.ndarray | None
    facts: DataFacts
    shape: tuple[int, ...]
    schema: Schema | None = None
    target: Target | None = None

    def form(self, contestant: Contestant) -> str:
        """How a contestant takes rows: ``arrow``, ``frame`` (as the person's own), ``image`` or ``flat``.

        ``given``: without the labels, which such a model is told beside.
        """
        if self.schema is None:
            return "image" if len(self.shape) == 3 and takes_images(contestant.model) else "flat"
        if contestant.origin == "baseline" or getattr(contestant.model, "takes_numbers", False):
            return "flat"
        if self.target is not None and needs_labels(contestant.model):
            return "given"
        return "arrow" if contestant.origin == "catalogue" else "flat" if self.plain else "frame"

    def give(self, rows: np.ndarray, form: str) -> Any:
        """Rows (n, width) in a form."""
        if form == "given" and self.target is not None:
            inner = rows[:, self.target.inputs]
            return inner if self.target.plain else _with_categories(self.target.rest, inner)
        if form == "arrow" and self.schema is not None:
            return _with_categories(self.schema, rows)
        if form == "frame" and self.schema is not None:
            return self.schema.decode(rows)
        return rows.reshape(len(rows), *self.shape) if form == "image" else rows

    def person(self, rows: np.ndarray) -> Any:
        """Rows (n, width) as the person's own data look."""
        if self.plain:
            return self.give(rows, "given")
        form = "frame" if self.schema is not None else "image" if len(self.shape) == 3 else "flat"
        return self.give(rows, form)

    @property
    def plain(self) -> bool:
        """Whether models see a table with the labels and the person an array without them."""
        return self.target is not None and self.target.plain

    def for_person(self, outcome: Outcome) -> Outcome:
        """An outcome with its samples as the person's own data look, and with the labels among them."""
        if outcome.samples is None:
            return outcome
        labels = outcome.labels if self.target is None else self.target.labels(outcome.samples)
        return replace(outcome, samples=self.person(outcome.samples), labels=labels)

    def take_back(self, made: Any, n: int, labels: Any = None) -> np.ndarray:
        """What a model made, as rows (n, width); refuses what does not look like the data.

        labels: of rows that come without them.
        """
        if isinstance(made, tuple):
            made = made[0]  # scikit-learn's mixtures give their components too
        if is_tensor(made):
            made = made.detach().cpu().numpy()
        if self.target is not None and labels is not None and self.target.lacks(made):
            rows = self.target.joined(made, labels)
        elif self.schema is not None and is_frame(made):
            rows = self.schema.encode(made)
        else:
            rows = np.asarray(made, dtype=np.float64)
            rows = rows.reshape(len(rows), -1) if rows.ndim else rows
            if self.schema is not None and rows.shape[1:] == (self.schema.width,) and np.isfinite(rows).all():
                rows = self.schema.encode(self.schema.decode(rows))  # whole numbers and categories become such again
        if rows.shape != (n, self.rows.shape[1]):
            raise InvalidInput(f"sample returned shape {np.shape(made)} for {n} rows of shape {self.shape}")
        return rows

    @property
    def groups(self) -> tuple[slice, ...]:
        """The columns of the matrix that belong to each column of the data."""
        if self.schema is not None:
            return self.schema.groups
        return tuple(slice(j, j + 1) for j in range(self.rows.shape[1]))

    @property
    def categorical(self) -> np.ndarray:
        """(width,) whether a column of the matrix is one value of a category."""
        marks = np.zeros(self.rows.shape[1], dtype=bool)
        if self.schema is not None:
            for column, group in zip(self.schema.columns, self.schema.groups, strict=True):
                marks[group] = column.kind == "category"
        return marks

    def digest(self) -> str:
        """A fingerprint of the data, for the cache."""
        found = hashlib.sha256(np.ascontiguousarray(self.rows).tobytes())
        found.update(repr((self.shape, self.rows.dtype, self.schema)).encode())
        if self.y is not None:
            found.update(repr(self.y.tolist()).encode() if self.y.dtype == object else self.y.tobytes())
        return found.hexdigest()


def _with_categories(schema: Schema, rows: np.ndarray) -> Any:
    """A table whose categories are declared, so that a part of the rows still knows all of them."""
    import pyarrow as pa

    table = schema.decode(rows, frame="arrow")
    columns = {}
    for column in schema.columns:
        array = table.column(str(column.name)).combine_chunks()
        if column.kind == "category" and not pa.types.is_dictionary(array.type):
            values = pa.array(column.categories, type=array.type)
            codes = pa.compute.index_in(array, value_set=values)
            array = pa.DictionaryArray.from_arrays(codes, values)
        columns[str(column.name)] = array
    return pa.table(columns)


@dataclass(frozen=True, eq=False)
class Opened:
    """Data as a person passed them or a file holds them: rows, labels, a name, the target's name, names of columns."""

    X: Any
    y: np.ndarray | None
    name: str = "data"
    target: str | None = None
    names: tuple[Any, ...] = ()


def opened(X: Any, y: Any = None, *, target: Any = None, drop: Sequence[Any] = ()) -> Opened:
    """The data from an array, a tensor, a frame, a data set, a bundled name or a path, with the target taken out."""
    if X is None:
        raise InvalidInput("compare: there is no data; pass X, a bundled name such as 'digits', or a path")
    if isinstance(X, (str, Path)):
        from benthic.data.bundled import load

        X, target, drop = load(X, target, drop), None, ()
    if isinstance(X, Dataset):
        words = None if X.target is None else str(X.target)
        return Opened(X.X, _labels(X.y if y is None else y), X.name or "data", words, X.feature_names)
    words = None if y is None else str(getattr(y, "name", None) or "y")
    if is_frame(X):
        X, y, words = _without_target(X, y, target, drop, words)
    elif target is not None or drop:
        raise InvalidInput("compare: target and drop name columns, but X is an array; pass labels as y, columns as X")
    return Opened(X, _labels(y), target=words)


def material_of(X: Any, y: Any = None, *, target: Any = None, drop: Sequence[Any] = (), join: str = "") -> Material:
    """The data of a comparison of generators, as numbers; X may also be ``Opened``.

    Refuses text, infinite values and fewer than 50 rows. join: ``usual`` makes the labels of a table a column of it,
    but leaves points of the plane what they are; ``asked`` does so there too.

    >>> material_of("iris").facts.columns
    4
    """
    data = X if isinstance(X, Opened) else opened(X, y, target=target, drop=drop)
    made = _from_frame(data) if is_frame(data.X) else _from_array(data)
    planar = made.schema is None and made.rows.shape[1] == _PLANE
    able = made.y is not None and made.facts.kind != "image" and not (join == "usual" and planar)
    return _joined(made, data) if join and able else made


def _joined(made: Material, data: Opened) -> Material:
    """The material with its labels as a further column, as far as they are known for all rows."""
    y = np.asarray(made.y)
    if (y.dtype.kind == "f" and not np.isfinite(y).all()) or any(value is None for value in y.tolist()):
        raise InvalidInput(
            "compare: some targets are missing or infinite; leave these rows out, or leave out the target"
        )
    X = data.X if made.schema is not None else _named(made.rows, data.names)
    frame, schema, target = with_target(X, y, data.target or "y", plain=made.schema is None, whole=made.schema)
    columns = made.facts.columns + (made.schema is not None)
    facts = replace(made.facts, columns=columns, shape=(columns,))
    rows = schema.encode(frame)
    return Material(rows, made.y, facts, (rows.shape[1],), schema, target)


def _named(rows: np.ndarray, names: Sequence[Any]) -> Any:
    """Rows of numbers as an Arrow table."""
    import pyarrow as pa

    known = [str(name) for name in names]
    if len(set(known)) != rows.shape[1]:
        known = [f"x{j}" for j in range(rows.shape[1])]
    return pa.table(dict(zip(known, rows.T, strict=True)))


def _without_target(X: Any, y: Any, target: Any, drop: Sequence[Any], words: str | None) -> tuple[Any, Any, Any]:
    """A frame without its target and without the columns that are left out."""
    if target is None and not drop:
        return X, y, words
    from benthic.base.frames import frame_kind
    from benthic.data.dataset import from_table

    found = from_table(to_arrow(X), "data", "the data", target, drop)
    kept = [str(name) for name in found.feature_names]
    rest = found.X if frame_kind(X) == "arrow" else X[kept]
    return rest, y if target is None else found.y, words if target is None else str(target)


def _labels(y: Any) -> np.ndarray | None:
    if y is None:
        return None
    if is_tensor(y):
        y = y.detach().cpu().numpy()
    found = np.asarray(y.to_pylist() if hasattr(y, "to_pylist") else y)
    if found.ndim != 1:
        raise InvalidInput(f"compare: y has shape {found.shape}; one label a row is needed")
    return found


def _from_frame(data: Opened) -> Material:
    schema = Schema.infer(data.X)
    if schema.dropped:
        column, why = next(iter(schema.dropped.items()))
        raise InvalidInput(
            f"compare: column {column!r} cannot be learned from ({why}); leave it out with drop=[{column!r}], or "
            "declare it as a category if its values repeat"
        )
    rows = schema.encode(data.X)
    bad = np.isinf(rows)
    if bad.any():
        owner = next(c for c, g in zip(schema.columns, schema.groups, strict=True) if bad[:, g].any())
        _refuse_infinite(int(bad.any(1).sum()), f"column {owner.name!r}")
    facts = DataFacts(data.name, len(rows), len(schema.columns), "frame", (len(schema.columns),), data.target)
    return _checked(Material(rows, data.y, facts, (rows.shape[1],), schema))


def _from_array(data: Opened) -> Material:
    array = data.X.detach().cpu().numpy() if is_tensor(data.X) else np.asarray(data.X)
    if array.dtype.kind not in "biuf":
        raise InvalidInput(
            f"compare: X holds {array.dtype} values, which are not numbers; pass a frame for mixed types"
        )
    if array.ndim not in (2, 4) or 0 in array.shape:
        raise InvalidInput(f"compare: X has shape {array.shape}; rows (n, d) or images (n, c, h, w) are needed")
    shape = array.shape[1:] if array.ndim == 4 else _pixels(data.names) or array.shape[1:]
    rows = array.reshape(len(array), -1)
    rows = rows if rows.dtype == np.float32 else rows.astype(np.float64)
    bad = np.isinf(rows)
    if bad.any():
        _refuse_infinite(int(bad.any(1).sum()), f"column {int(np.flatnonzero(bad.any(0))[0])}")
    kind = "image" if len(shape) == 3 else "table"
    facts = DataFacts(data.name, len(rows), rows.shape[1], kind, tuple(int(size) for size in shape), data.target)
    return _checked(Material(rows, data.y, facts, facts.shape))


def _refuse_infinite(rows: int, where: str) -> None:
    raise InvalidInput(
        f"compare: {rows} rows hold infinite values, first in {where}; leave these rows out, or make them missing (NaN)"
    )


def _checked(found: Material) -> Material:
    n = len(found.rows)
    if n < LEAST_ROWS:
        raise InvalidInput(
            f"compare: there are {n} rows; at least {LEAST_ROWS} are needed to fit on some and judge on others"
        )
    if found.y is not None and len(found.y) != n:
        raise InvalidInput(f"compare: X has {n} rows and y has {len(found.y)}; they must be the same")
    return found


def _pixels(names: Sequence[Any]) -> tuple[int, int, int] | None:
    """The shape of pictures whose columns are called pixel_<row>_<column>.

    >>> _pixels(["pixel_0_0", "pixel_0_1"])
    (1, 1, 2)
    """
    places = [re.fullmatch(r"pixel_(\d+)_(\d+)", str(name)) for name in names]
    if not places or not all(places):
        return None
    height, width = (1 + max(int(place[axis]) for place in places if place) for axis in (1, 2))
    return (1, height, width) if height * width == len(names) else None
