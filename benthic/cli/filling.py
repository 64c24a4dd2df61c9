"""What ``impute`` does: the empty cells of a table are filled, everything else is left as it was."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benthic.base.catalogue import catalogue
from benthic.base.condition import Condition
from benthic.base.errors import InvalidInput
from benthic.base.schema import is_frame, to_arrow
from benthic.cli.console import say
from benthic.cli.failure import Usage
from benthic.cli.inputs import Inputs, columns_for, open_data, suited
from benthic.data.source import column_index
from benthic.data.tables import target_array


@dataclass(frozen=True)
class Outside:
    """Columns that are no inputs of the model: its target, its condition and those that were left out."""

    target: Any = None
    given: Sequence[Any] = ()
    drop: Sequence[Any] = ()


@dataclass(frozen=True)
class Told:
    """The condition of those rows that have one. known: (n,) which. y: of these alone, or None."""

    known: np.ndarray
    y: np.ndarray | None = None


def fill(model: Any, data: str, outside: Outside) -> tuple[Any, tuple[str, ...]]:
    """The rows of ``data`` with their gaps filled, a table or an array, and the names of an array's columns."""
    found = open_data(data, stream=False)
    entry = catalogue().get(type(model).__name__)
    if entry is not None and (found.text or "table" not in entry.data):
        return _of_sequences(model, found, suited(found, entry)), found.columns
    if is_frame(found.X):
        return _of_table(model, found, outside), ()
    return _of_array(model, found, outside), found.columns


# -- tables ----------------------------------------------------------------------------------------------


def _of_table(model: Any, found: Inputs, outside: Outside) -> Any:
    """Every column in its place; those the model did not learn, and cells that are not empty, as they are."""
    table = found.X
    inputs = columns_for(model, found, outside.target, False).X
    schema = getattr(model, "schema_", None)
    learned = inputs.column_names if schema is None else [str(column.name) for column in schema.columns]
    gaps = {name: _empty(table.column(name)) for name in table.column_names}
    rows = np.logical_or.reduce([gaps[name] for name in learned])
    left = [name for name in table.column_names if name not in learned and gaps[name].any()]
    _check_gaps(found, rows, left)
    for chosen, given in _parts(model, found, rows, _condition(table, outside.given)):
        made = to_arrow(_imputed(model, inputs.filter(chosen), given))
        for name in learned:
            here = gaps[name] & chosen
            column = _put(table.column(name), here, made.column(name).filter(here[chosen]))
            table = table.set_column(table.column_names.index(name), name, column)
    _tell(sum(int(gaps[name].sum()) for name in learned), left)
    return table


def _condition(table: Any, given: Sequence[Any]) -> Told:
    """The condition of the rows of a table, where it has the columns."""
    if not given or not set(map(str, given)) <= set(table.column_names):
        return Told(np.zeros(table.num_rows, dtype=bool))
    columns = [table.column(str(name)) for name in given]
    known = ~np.logical_or.reduce([_empty(column) for column in columns])
    parts = [target_array(column.filter(known), str(name)) for column, name in zip(columns, given, strict=True)]
    return Told(known, parts[0] if len(parts) == 1 else np.column_stack([part.astype(np.float64) for part in parts]))


def _empty(column: Any) -> np.ndarray:
    """Which cells of a column hold nothing, or no number."""
    return np.asarray(column.is_null(nan_is_null=True))


def _put(column: Any, gaps: np.ndarray, values: Any) -> Any:
    """A column with values, one for each gap, in its gaps; it keeps its type unless that cannot hold them."""
    import pyarrow as pa
    from pyarrow import compute, types

    kind = column.type
    if types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if types.is_null(kind) or (types.is_integer(kind) and types.is_floating(values.type)):
        kind = values.type
    if types.is_dictionary(kind):
        words = _put(column.cast(kind.value_type), gaps, values)
        known = [word for chunk in column.chunks for word in chunk.dictionary.to_pylist()]
        every = list(dict.fromkeys([*known, *(word for word in words.to_pylist() if word is not None)]))
        index = compute.index_in(words, pa.array(every, kind.value_type)).cast(kind.index_type).combine_chunks()
        return pa.DictionaryArray.from_arrays(index, pa.array(every, kind.value_type), ordered=kind.ordered)
    base, new = column.cast(kind).combine_chunks(), values.cast(kind, safe=False).combine_chunks()
    return pa.chunked_array([compute.replace_with_mask(base, pa.array(gaps), new)])


# -- arrays ----------------------------------------------------------------------------------------------


def _of_array(model: Any, found: Inputs, outside: Outside) -> np.ndarray:
    """An array with its gaps filled; columns that are no inputs of the model are left as they are."""
    X = np.array(found.X)
    _check_gaps(found, np.isnan(X), [])
    width = getattr(model, "n_features_in_", None)
    kept, told = np.arange(X.shape[1]), Told(np.zeros(len(X), dtype=bool))
    if found.y is not None and list(outside.given) == [found.target]:
        told = Told(np.ones(len(X), dtype=bool), found.y)
    elif X.ndim == 2 and X.shape[1] != width:
        told, kept = _cut(X, found.name, outside)
        if len(kept) != width:
            raise InvalidInput(
                f"{found.name} has {X.shape[1]} columns, of which {len(kept)} are inputs, but "
                f"{type(model).__name__} was fitted on {width}"
            )
    flat = X.reshape(len(X), X.shape[1], -1)
    gaps = np.isnan(flat).any(2)
    rows = gaps[:, kept].any(1)
    _check_gaps(found, rows, [f"column {j}" for j in np.flatnonzero(gaps.any(0)) if j not in kept])
    filled = X.copy()
    for chosen, given in _parts(model, found, rows, told):
        filled[np.ix_(chosen, kept)] = _imputed(model, X[np.ix_(chosen, kept)], given)
    _tell(int(np.isnan(X[:, kept]).sum()), [])
    return filled


def _cut(X: np.ndarray, name: str, outside: Outside) -> tuple[Told, np.ndarray]:
    """The condition among the columns of an array, and the numbers of the other columns."""
    given = [column_index(column, X.shape[1], name) for column in outside.given]
    others = [outside.target, *outside.drop]
    out = {*given, *(column_index(c, X.shape[1], name) for c in others if c is not None)}
    kept = np.array([j for j in range(X.shape[1]) if j not in out], dtype=int)
    if not given:
        return Told(np.zeros(len(X), dtype=bool)), kept
    values = X[:, given]
    known = ~np.isnan(values).any(1)
    return Told(known, values[known, 0] if len(given) == 1 else values[known]), kept


def _of_sequences(model: Any, found: Inputs, rows: Inputs) -> Any:
    """Sequences with their gaps filled; those that came as rows of a table go back as one."""
    X = np.asarray(rows.X)
    if rows.text or X.dtype.kind != "f":
        raise Usage(f"{found.name} is text, which has no empty cells; impute is for tables and arrays of numbers")
    chosen = np.isnan(X).reshape(len(X), -1).any(1)
    _check_gaps(found, chosen, [])
    filled = X.copy()
    filled[chosen] = _imputed(model, X[chosen], None)
    _tell(int(np.isnan(X).sum()), [])
    if not is_frame(found.X):
        return filled
    import pyarrow as pa

    return pa.table({name: pa.array(filled[:, j]) for j, name in enumerate(found.X.column_names)})


# -- what both do ----------------------------------------------------------------------------------------


def _check_gaps(found: Inputs, rows: np.ndarray, left: Sequence[str]) -> None:
    if rows.any():
        return
    if left:
        raise InvalidInput(
            f"{found.name} has empty cells only in {', '.join(left[:8])}, which the model did not learn; "
            "fit one with these columns to fill them"
        )
    raise InvalidInput(f"{found.name} has no empty cells, so there is nothing to fill")


def _parts(model: Any, found: Inputs, rows: np.ndarray, told: Told) -> Iterator[tuple[np.ndarray, Any]]:
    """The rows with gaps, those whose condition is known with it, and then the others."""
    condition = getattr(model, "condition_", Condition())
    known = rows & told.known if condition.told else np.zeros_like(rows)
    lacking = rows & ~known
    if condition.needed and lacking.any():
        raise Usage(
            f"this {type(model).__name__} fills gaps only given its condition, which {int(lacking.sum())} rows of "
            f"{found.name} lack; name its column with --given COL, or leave those rows out"
        )
    if known.any() and told.y is not None:
        yield known, told.y[known[told.known]]
    if lacking.any():
        yield lacking, None


def _imputed(model: Any, X: Any, given: Any) -> Any:
    return model.impute(X) if given is None else model.impute(X, given=given)


def _tell(cells: int, left: Sequence[str]) -> None:
    kept = f"; those of {', '.join(left[:8])}, which the model did not learn, are left" if left else ""
    say(f"filled {cells} empty cells{kept}")
