"""Frames of any library as Arrow tables, and back with the types they had.

The library of a frame is recognized by the name of its class, so that pandas and polars are imported only
when their frames are in hand.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from benthic.base.errors import InvalidInput

_FRAMES = {
    ("pandas", "DataFrame"): "pandas",
    ("polars", "DataFrame"): "polars",
    ("polars", "LazyFrame"): "polars",
    ("pyarrow", "Table"): "arrow",
}


def frame_kind(X: Any) -> str | None:
    """The library of a frame, ``pandas``, ``polars`` or ``arrow``; None for anything else.

    >>> import pyarrow as pa
    >>> frame_kind(pa.table({"age": [1]})), frame_kind([[1]])
    ('arrow', None)
    """
    for cls in type(X).__mro__:
        kind = _FRAMES.get((cls.__module__.partition(".")[0], cls.__name__))
        if kind is not None:
            return kind
    return None


def is_frame(X: Any) -> bool:
    """Whether ``X`` is a pandas or polars frame or an Arrow table."""
    return frame_kind(X) is not None


def frame_names(X: Any) -> tuple[Any, ...]:
    """The column labels of a frame as its library has them: strings, and in pandas integers too."""
    kind = frame_kind(X)
    if kind == "arrow":
        return tuple(X.column_names)
    if kind == "polars":
        return tuple(X.collect_schema().names())
    return tuple(name.item() if hasattr(name, "item") else name for name in X.columns)


def to_arrow(X: Any) -> Any:
    """Any frame as a ``pyarrow.Table`` whose column names are strings.

    >>> import pyarrow as pa
    >>> table = pa.table({"age": [1, 2]})
    >>> to_arrow(table) is table
    True
    """
    kind = frame_kind(X)
    if kind is None:
        raise InvalidInput(f"to_arrow: got {type(X).__name__}; pass a pandas or polars frame or a pyarrow.Table")
    if type(X).__name__ == "LazyFrame":
        X = X.collect()
    names = [str(name) for name in frame_names(X)]
    if len(set(names)) < len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise InvalidInput(f"to_arrow: two columns are called {repeated!r}; rename one of them")
    if kind == "arrow":
        return X
    import pyarrow as pa

    columns = [column for _, column in X.items()] if kind == "pandas" else X.get_columns()
    arrays = [_column_to_arrow(name, column, kind) for name, column in zip(names, columns, strict=True)]
    return pa.table(dict(zip(names, arrays, strict=True)))


def _column_to_arrow(name: str, column: Any, kind: str) -> Any:
    import pyarrow as pa

    if kind == "pandas" and type(column.dtype).__name__ == "SparseDtype":
        column = column.sparse.to_dense()
    if kind == "pandas" and column.dtype.kind == "c":
        raise InvalidInput(f"to_arrow: Complex data not supported, and column {name!r} is complex")
    try:
        return pa.Array.from_pandas(column) if kind == "pandas" else column.to_arrow()
    except (pa.ArrowException, OverflowError) as error:
        raise InvalidInput(
            f"to_arrow: column {name!r} of type {column.dtype} mixes types or has no table form "
            f"({_first_line(error)}); convert it to one type, for example with astype(float) or astype(str)"
        ) from error


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].rstrip(".")


def native_types(X: Any) -> list[str]:
    """The type of every column in a spelling from which ``from_arrow`` can restore it."""
    kind = frame_kind(X)
    if kind == "pandas":
        return [_pandas_type(dtype) for dtype in X.dtypes]
    if kind == "polars":
        return [_polars_type(dtype) for dtype in X.collect_schema().dtypes()]
    return [str(field.type) for field in X.schema]


def _pandas_type(dtype: Any) -> str:
    name = type(dtype).__name__
    if name == "CategoricalDtype":
        return f"category[{_pandas_type(dtype.categories.dtype)}]"
    if name == "ArrowDtype":
        return "arrow"
    if name == "SparseDtype":
        return _pandas_type(dtype.subtype)
    if name == "StringDtype" and str(dtype) == "string":
        return f"string[{dtype.storage}]"
    return str(dtype)


def _polars_type(dtype: Any) -> str:
    base = str(dtype.base_type())
    if base == "Categorical":
        categories = getattr(dtype, "categories", None)
        name = categories.name() if categories is not None else ""
        return f"Categorical[{name}]" if name else base
    return base


def arrow_type(text: str) -> Any:
    """The Arrow type with this name, the inverse of ``str``.

    >>> str(arrow_type("dictionary<values=string, indices=int8, ordered=1>"))
    'dictionary<values=string, indices=int8, ordered=1>'
    """
    import pyarrow as pa

    if match := re.fullmatch(r"dictionary<values=(.+), indices=(\w+), ordered=([01])>", text):
        values, indices, ordered = match.groups()
        return pa.dictionary(arrow_type(indices), arrow_type(values), ordered == "1")
    if match := re.fullmatch(r"timestamp\[(\w+), tz=(.+)\]", text):
        return pa.timestamp(*match.groups())
    if match := re.fullmatch(r"(decimal\d+)\((\d+), (-?\d+)\)", text):
        return getattr(pa, match[1])(int(match[2]), int(match[3]))
    return pa.type_for_alias(text)


def from_arrow(table: Any, kind: str, dtypes: Sequence[str], names: Sequence[Any], index: Any = None) -> Any:
    """An Arrow table as a frame of library ``kind`` with the types that ``native_types`` spelled.

    names: the column labels. index: row labels of a pandas frame.
    """
    if kind == "arrow":
        return table
    if kind == "polars":
        return _to_polars(table, dtypes)
    import pandas as pd

    columns = [_to_series(column.combine_chunks(), t) for column, t in zip(table.columns, dtypes, strict=True)]
    frame = pd.DataFrame(dict(enumerate(columns)), index=pd.RangeIndex(table.num_rows), copy=False)
    frame.columns = pd.Index(list(names))
    if index is not None:
        frame.index = index
    return frame


def _one_chunk(column: Any) -> Any:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _to_polars(table: Any, dtypes: Sequence[str]) -> Any:
    import polars as pl

    columns = []
    for name, column, dtype in zip(table.column_names, table.columns, dtypes, strict=True):
        array = _one_chunk(column)
        if hasattr(array, "dictionary"):
            values = array.dictionary.to_pylist()
            array = array.dictionary_decode()
            series = pl.Series(name, array)
            if dtype == "Enum":
                series = series.cast(pl.Enum(values))
            elif dtype.startswith("Categorical"):
                label = dtype[len("Categorical[") : -1]
                series = series.cast(pl.Categorical(label) if label else pl.Categorical())
        else:
            series = pl.Series(name, array)
        columns.append(series)
    return pl.DataFrame(columns)


def _to_series(array: Any, dtype: str) -> Any:
    """One Arrow array as pandas values of the type spelled ``dtype``."""
    import pandas as pd

    if dtype.startswith("category["):
        values = pd.Index(array.dictionary.to_pylist(), dtype=dtype[len("category[") : -1])
        codes = array.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        return pd.Categorical.from_codes(codes, categories=values, ordered=array.type.ordered)
    if dtype == "arrow":
        return pd.array(array, dtype=pd.ArrowDtype(array.type))
    if dtype == "object":
        return pd.Series(array.to_pylist(), dtype="object")
    if array.null_count and re.fullmatch(r"u?int\d+|bool", dtype):
        dtype = {"bool": "boolean"}.get(dtype, dtype.replace("uint", "UInt").replace("int", "Int"))
    if re.fullmatch(r"U?Int\d+|boolean|Float\d+", dtype):
        return _to_nullable(array, dtype)
    if dtype.startswith(("datetime64", "timedelta64")):
        return array.to_pandas().astype(dtype)
    if dtype == "str" or dtype.startswith("string"):
        return pd.array(array.to_pandas(), dtype=dtype)
    return array.to_numpy(zero_copy_only=False).astype(dtype, copy=False)


def _to_nullable(array: Any, dtype: str) -> Any:
    import pandas as pd

    missing = array.is_null().to_numpy(zero_copy_only=False)
    plain = array.fill_null(False if dtype == "boolean" else 0).to_numpy(zero_copy_only=False)
    result = pd.array(plain, dtype=dtype)
    result[missing] = pd.NA
    return result
