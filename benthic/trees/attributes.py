"""Columns as a tree sees them: numbers, or categories counted from zero."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benthic.base.errors import InvalidInput, nearest
from benthic.base.frames import frame_kind
from benthic.base.schema import Schema
from benthic.base.settings import is_whole

Categories = list[np.ndarray | None]
_MOST = 64  # distinct values up to which a column that nobody declared is split by every value


def collapse(X: Tensor, schema: Schema | None) -> Tensor:
    """One column for each attribute, (n, d) in float64: the indicators of a category become its place, or NaN."""
    X = X.double()
    if schema is None or schema.width == len(schema.columns):
        plain = schema is None or all(column.kind != "category" for column in schema.columns)
        return X if plain else _placed(X, schema)
    return _placed(X, schema)


def _placed(X: Tensor, schema: Schema | None) -> Tensor:
    columns = []
    for column, group in zip(schema.columns, schema.groups, strict=True) if schema else ():
        block = X[:, group]
        places = torch.arange(column.width, dtype=X.dtype, device=X.device)
        columns.append(block @ places if column.kind == "category" else block[:, 0])
    return torch.stack(columns, 1)


def attribute_names(estimator: Any) -> list[str]:
    """The names of the attributes: those of the columns, or x0, x1, ..."""
    schema = getattr(estimator, "schema_", None)
    if schema is not None:
        return [str(column.name) for column in schema.columns]
    names = getattr(estimator, "feature_names_in_", None)
    return [f"x{j}" for j in range(estimator.n_features_in_)] if names is None else [str(name) for name in names]


def declared(setting: Any, names: Sequence[str]) -> list[int]:
    """The places of the columns that ``categorical_features`` names: indices, names, or a mask; from_dtype is none."""
    if setting is None or (isinstance(setting, str) and setting == "from_dtype"):
        return []
    if isinstance(setting, str) or is_whole(setting):
        raise InvalidInput(
            f"categorical_features is {setting!r}; use 'from_dtype', None, or a list of column numbers or names"
        )
    given = np.asarray(setting)
    if given.dtype == bool:
        if given.shape != (len(names),):
            raise InvalidInput(f"categorical_features is a mask of {given.size} columns, but there are {len(names)}")
        return [int(j) for j in np.flatnonzero(given)]
    return [_place(item, names) for item in given.tolist()]


def _place(item: Any, names: Sequence[str]) -> int:
    if is_whole(item, 0, len(names) - 1):
        return item
    if isinstance(item, str) and item in names:
        return list(names).index(item)
    raise InvalidInput(
        f"categorical_features has {item!r}, which is not one of the {len(names)} columns{nearest(str(item), names)}"
    )


def learn_categories(
    X: Tensor, schema: Schema | None, chosen: Sequence[int], all_columns: bool, names: Sequence[str]
) -> Categories:
    """The values of every attribute that is split by category, None for numbers.

    X: (n, d) from ``collapse``. chosen: columns of numbers that hold categories. all_columns: whether all do.
    """
    found: Categories = []
    for j in range(X.shape[1]):
        column = None if schema is None else schema.columns[j]
        if column is not None and column.kind == "category":
            found.append(np.array(column.categories, dtype=object))
        elif j in chosen or all_columns:
            values = X[:, j]
            distinct = torch.unique(values[~torch.isnan(values)]).cpu().numpy()
            if j not in chosen and len(distinct) > _MOST:
                raise InvalidInput(
                    f"column {names[j]!r} has {len(distinct)} distinct values, and algorithm 'id3' makes a branch for "
                    "each; use algorithm 'c4.5' or 'cart', or name the column in categorical_features"
                )
            found.append(distinct if len(distinct) else np.zeros(1))
        else:
            found.append(None)
    return found


def coded(X: Tensor, schema: Schema | None, categories: Categories) -> Tensor:
    """Attributes (n, d) with categories as their places; a value never seen becomes NaN."""
    out = X
    for j, values in enumerate(categories):
        ready = schema is not None and schema.columns[j].kind == "category"
        if values is None or ready:
            continue
        known = torch.as_tensor(values, dtype=X.dtype, device=X.device)
        column = X[:, j].contiguous()
        place = torch.searchsorted(known, column).clamp(max=len(known) - 1)
        code = torch.where(known[place] == column, place.to(X.dtype), torch.nan)
        out = out.clone() if out is X else out
        out[:, j] = code
    return out


def forget_unknown(frame: Any, schema: Schema) -> Any:
    """The frame with categories that the schema does not know made missing; untouched where there are none."""
    labels = {column.name: column.categories for column in schema.columns if column.kind == "category"}
    kind = frame_kind(frame)
    if kind == "pandas":
        return _forget_pandas(frame, labels)
    return _forget_polars(frame, labels) if kind == "polars" else _forget_arrow(frame, labels)


def _forget_pandas(frame: Any, labels: dict[Any, tuple[Any, ...]]) -> Any:
    fresh = {}
    for name, known in labels.items():
        if name in frame.columns:
            column = frame[name]
            strange = ~column.isin(list(known)) & column.notna()
            if strange.any():
                fresh[name] = column.where(~strange)
    return frame.assign(**{str(name): column for name, column in fresh.items()}) if fresh else frame


def _forget_polars(frame: Any, labels: dict[Any, tuple[Any, ...]]) -> Any:
    import polars as pl

    if hasattr(frame, "collect"):
        frame = frame.collect()
    for name, known in labels.items():
        if name in frame.columns:
            allowed = frame[name].cast(pl.String).is_in([str(value) for value in known])
            frame = frame.with_columns(pl.when(allowed).then(pl.col(name)).otherwise(None).alias(name))
    return frame


def _forget_arrow(table: Any, labels: dict[Any, tuple[Any, ...]]) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    for name, known in labels.items():
        if name in table.column_names:
            place = table.column_names.index(name)
            column = table.column(name).combine_chunks()
            column = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
            allowed = pc.is_in(column, value_set=pa.array(list(known), column.type))
            table = table.set_column(place, name, pc.if_else(allowed, column, pa.scalar(None, column.type)))
    return table
