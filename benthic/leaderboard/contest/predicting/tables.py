"""Tables made ready for predictors: categories declared once, and encoded for models that take only numbers."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from benthic.base.errors import InvalidInput
from benthic.base.frames import frame_kind
from benthic.base.schema import Schema, is_frame
from benthic.metrics.rows import plain


class ColumnsAsNumbers(TransformerMixin, BaseEstimator):
    """Columns of a frame as numbers, the way every model of the library reads them: one column a category.

    Numbers, whole numbers and booleans pass as they are, dates become days, text is left out. It stands before
    scikit-learn's estimators, which take only numbers.

    >>> import pyarrow as pa
    >>> table = pa.table({"age": [31, 45, 22], "city": ["Bern", "Rome", "Bern"]})
    >>> ColumnsAsNumbers().fit(table).transform(table).tolist()
    [[31.0, 1.0, 0.0], [45.0, 0.0, 1.0], [22.0, 1.0, 0.0]]
    """

    schema_: Schema

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the columns and their categories."""
        self.schema_ = Schema.infer(X)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """(n, width) numbers, NaN where a value is missing."""
        found: np.ndarray = self.schema_.encode(X)
        return found


def settled(X: Any) -> tuple[Any, dict[str, str]]:
    """The rows with every category declared, so that a fold which lacks one still knows it; and the columns left out.

    X: array, tensor or frame; only frames change. Returns the rows, and why each column that no model reads is out.

    >>> import pyarrow as pa
    >>> rows, out = settled(pa.table({"city": ["Bern", "Rome", "Bern"], "age": [31, 45, 22]}))
    >>> rows.column("city").type.num_fields, out
    (0, {})
    """
    if not is_frame(X):
        return X, {}
    if hasattr(X, "collect"):  # a polars LazyFrame
        X = X.collect()
    schema = Schema.infer(X)
    labels = {column.name: column.categories for column in schema.columns if column.kind == "category"}
    return _KINDS[frame_kind(X) or "arrow"](X, labels), {str(name): why for name, why in schema.dropped.items()}


def _pandas(X: Any, labels: dict[Any, tuple[Any, ...]]) -> Any:
    texts = [name for name in labels if X[name].dtype.kind in "OUST" or str(X[name].dtype).startswith("str")]
    return X.assign(**{name: X[name].astype("category") for name in texts}) if texts else X


def _polars(X: Any, labels: dict[Any, tuple[Any, ...]]) -> Any:
    import polars as pl

    texts = [name for name in labels if X[name].dtype == pl.String]
    return X.with_columns([pl.col(name).cast(pl.Enum(list(labels[name]))) for name in texts]) if texts else X


def _arrow(X: Any, labels: dict[Any, tuple[Any, ...]]) -> Any:
    import pyarrow as pa

    for name in labels:
        column = X.column(str(name))
        if not pa.types.is_dictionary(column.type):
            column = column.combine_chunks().dictionary_encode()
            X = X.set_column(X.column_names.index(str(name)), str(name), column)
    return X


_KINDS = {"pandas": _pandas, "polars": _polars, "arrow": _arrow}


def numbers_of(X: Any) -> np.ndarray:
    """Rows as numbers (n, d), where distances are taken.

    Columns of a frame have different units, so that they are brought to one scale; a gap is put at the mean. Arrays
    stay as they are.
    """
    if not is_frame(X):
        return plain(X).astype(np.float64).reshape(X.shape[0], -1)
    rows: np.ndarray = Schema.infer(X).encode(X)
    spread = np.nanstd(rows, axis=0)
    scaled: np.ndarray = np.nan_to_num((rows - np.nanmean(rows, axis=0)) / np.where(spread > 0, spread, 1.0))
    return scaled


def reads_frames(model: Any) -> bool:
    """Whether a model takes a frame as it is: ours do, and so does a pipeline that begins with one or picks columns."""
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import Pipeline

    from benthic.base.estimator import Estimator

    first = model.steps[0][1] if isinstance(model, Pipeline) and model.steps else model
    return isinstance(first, (Estimator, ColumnTransformer, ColumnsAsNumbers))


def prepared(model: Any, X: Any) -> Any:
    """The model, or a pipeline that encodes the columns of a frame before it."""
    from sklearn.pipeline import Pipeline

    if not is_frame(X) or reads_frames(model):
        return model
    return Pipeline([("columns", ColumnsAsNumbers()), ("model", model)])


def targets(y: Any, task: str, n: int, where: str = "compare") -> Any:
    """The targets as NumPy, checked for the task; None where there are none and none are needed."""
    if y is None:
        if task == "cluster":
            return None
        raise InvalidInput(f"{where}: to {task} needs targets; pass y, or name the column with target=")
    found = plain(y)
    if found.ndim == 2 and found.shape[1] == 1:
        found = found[:, 0]
    if found.ndim != 1 or len(found) != n:
        raise InvalidInput(f"{where}: y has shape {found.shape} for {n} rows; one target a row is needed")
    return _numbers(found, where) if task == "regress" else _labels(found, where)


def _numbers(y: np.ndarray, where: str) -> np.ndarray:
    try:
        found = y.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"{where}: y holds words such as {y[0]!r}; to regress needs numbers, or task='classify'"
        ) from error
    bad = int((~np.isfinite(found)).sum())
    if bad:
        raise InvalidInput(f"{where}: y has {bad} missing or infinite values; leave those rows out")
    if np.ptp(found) == 0:
        raise InvalidInput(f"{where}: y is {found[0]:g} in every row; there is nothing to predict")
    return found


def _labels(y: np.ndarray, where: str) -> np.ndarray:
    gone = np.array([value is None or value != value for value in y.tolist()])
    if gone.any():
        raise InvalidInput(f"{where}: y has {int(gone.sum())} missing labels; leave those rows out")
    found = y.astype(str) if y.dtype.kind == "O" else y
    if len(np.unique(found)) < 2:
        raise InvalidInput(f"{where}: y is {found[0]!r} in every row; there is nothing to predict")
    return found
