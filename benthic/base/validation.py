"""The one path by which data enter: checked, named, encoded, and turned into tensors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_feature_names,
    _check_n_features,
    _check_sample_weight,
    _num_samples,
    check_array,
    column_or_1d,
    validate_data,
)
from torch import Tensor

from benthic.base.arrays import (
    Origin,
    as_float,
    check_dense,
    float_name,
    from_numpy,
    host,
    is_tensor,
    largest,
    no_number,
)
from benthic.base.catalogue import catalogue
from benthic.base.errors import InvalidInput, ModelFileError, shown
from benthic.base.forks import refuse_lost_threads
from benthic.base.schema import Schema, is_frame
from benthic.base.settings import check_plain
from benthic.base.threads import one_torch_thread

# scikit-learn prints whole arrays into some messages; one sentence does without them
_ARRAY_DUMP = re.compile(r"[:.]?\s*\n(?:array=)?(?:\[[-+\d.ejnaif\s\[\],]*\]|[-+\d.ejnaif]+)\.?\s*(?=\n|$|[A-Z])")
# what Python and NumPy say of cells that are no numbers
_UNCONVERTED = re.compile("could not convert string to float|must be a string or a (real )?number|array element with a")


@contextmanager
def speaking(estimator: Any, method: str) -> Iterator[None]:
    """Prefix every error about the input with ``Class.method``."""
    refuse_lost_threads()
    prefix = f"{type(estimator).__name__}.{method}: "
    try:
        if method == "fit":
            check_plain(estimator)
        yield
    except (ValueError, TypeError) as error:
        text = _ARRAY_DUMP.sub(". ", str(error)).strip()
        if text.startswith(prefix):
            raise
        kind = next((k for k in (TypeError, ModelFileError) if isinstance(error, k)), InvalidInput)
        raise kind(prefix + text) from error


@contextmanager
def _converting(values: Any, what: str) -> Iterator[None]:
    """Say which cell is no number, where arrays are made of ``values``."""
    try:
        yield
    except (OverflowError, TypeError, ValueError) as error:
        if not isinstance(error, OverflowError) and not _UNCONVERTED.search(str(error)):
            raise
        kind, where = TypeError if isinstance(error, TypeError) else InvalidInput, no_number(values, what)
        known = "" if isinstance(error, OverflowError) or "element" in str(error) else f"{error}; "
        raise kind(f"{known}{where or f'{what} is no array of numbers'}") from error


def arrive(
    estimator: Any, X: Any, *, reset: bool = False, missing: bool = False, images: bool = False
) -> tuple[Tensor, Origin]:
    """Check ``X`` and return it as a float tensor (n, width) where it lies, with its origin.

    reset: whether this is ``fit``, which learns names and widths. missing: whether NaN may stand for a
    missing value. images: whether (n, c, h, w) is accepted; the event shape is then remembered and the
    tensor flattened.
    """
    if images and not is_frame(X):
        X = _flatten(estimator, X, reset)
    if is_frame(X):
        tensor, origin = _arrive_frame(estimator, X, reset)
    elif is_tensor(X):
        tensor, origin = _arrive_tensor(estimator, X, reset)
    else:
        tensor, origin = _arrive_array(estimator, X, reset, missing)
    if reset and not is_frame(X):
        estimator.__dict__.pop("schema_", None)
    _check_finite(estimator, tensor, missing)
    return tensor, origin


def _flatten(estimator: Any, X: Any, reset: bool) -> Any:
    shape = tuple(getattr(X, "shape", ()))
    event = shape[1:] if len(shape) > 2 else None
    if reset:
        estimator._event_shape = event
    elif event is not None and event != estimator._event_shape:
        seen = "rows of a table" if estimator._event_shape is None else str(estimator._event_shape)
        raise InvalidInput(f"X holds examples of shape {event}, but the model was fitted on {seen}")
    return X.reshape(shape[0], -1) if event is not None else X


def _arrive_frame(estimator: Any, X: Any, reset: bool) -> tuple[Tensor, Origin]:
    if hasattr(X, "collect"):  # a polars LazyFrame
        X = X.collect()
    if len(X) == 0:
        raise InvalidInput(f"Found array with 0 sample(s) (shape={tuple(X.shape)}) while a minimum of 1 is required.")
    _check_feature_names(estimator, X, reset=reset)
    if reset:
        estimator.schema_ = Schema.infer(X)
    schema: Schema | None = getattr(estimator, "schema_", None)
    _check_n_features(estimator, X, reset=reset)
    if schema is None:
        schema = Schema.infer(X)
        if schema.width != estimator.n_features_in_:
            raise InvalidInput("the model was fitted on an array of numbers, but this frame has other columns too")
    encoded = schema.encode(X)
    floats = {str(dtype) for dtype in getattr(X, "dtypes", [])}
    dtype = "float32" if floats and floats <= {"float32", "Float32"} else "float64"
    return from_numpy(encoded), Origin("frame", dtype, index=getattr(X, "index", None))


def _arrive_array(estimator: Any, X: Any, reset: bool, missing: bool) -> tuple[Tensor, Origin]:
    schema: Schema | None = getattr(estimator, "schema_", None)
    if not reset and schema is not None and schema.width != estimator.n_features_in_:
        raise InvalidInput(
            "the model was fitted on a frame with categories; pass a frame with the columns "
            + ", ".join(map(repr, schema.names))
        )
    with _converting(X, "X"):
        array = validate_data(
            estimator,
            X,
            reset=reset,
            dtype=[np.float64, np.float32],
            ensure_all_finite=False,
            accept_sparse=False,
        )
    return from_numpy(array), Origin("numpy", str(array.dtype))


def _arrive_tensor(estimator: Any, X: Tensor, reset: bool) -> tuple[Tensor, Origin]:
    check_dense(X)
    if X.ndim != 2:
        raise InvalidInput(
            f"Expected 2D array, got {X.ndim}D array instead. Reshape your data either using X.reshape(-1, 1) "
            "if your data has a single feature or X.reshape(1, -1) if it contains a single sample."
        )
    for axis, what in enumerate(("sample", "feature")):
        if X.shape[axis] == 0:
            raise InvalidInput(
                f"Found array with 0 {what}(s) (shape={tuple(X.shape)}) while a minimum of 1 is required."
            )
    _check_n_features(estimator, X, reset=reset)
    if reset:
        estimator.__dict__.pop("feature_names_in_", None)
    return as_float(X), Origin("torch", float_name(X.dtype), str(X.device))


def _check_finite(estimator: Any, X: Tensor, missing: bool) -> None:
    """Refuse NaN (unless it means missing), infinities, and numbers whose squares overflow."""
    limit = largest(X.dtype)
    if X.numel():
        with one_torch_thread() if X.device.type == "cpu" else nullcontext():  # threads would go on waiting for work
            low, high = X.aminmax()  # one sweep; NaN fails both comparisons
        if bool((high <= limit) & (low >= -limit)):
            return
    most = X.abs().max() if not missing else X.nan_to_num(0.0, torch.inf, torch.inf).abs().max()
    if not missing and bool(torch.isnan(most)):
        raise InvalidInput(_nan_text(estimator, X))
    if bool(most > limit):
        where = _column(estimator, int((X.nan_to_num(0.0, torch.inf, torch.inf).abs() > limit).any(0).nonzero()[0]))
        if bool(torch.isinf(most)):
            raise InvalidInput(f"Input X contains infinity or a value too large for {X.dtype}, in {where}.")
        raise InvalidInput(
            f"X has values up to {float(most):.3g} in {where}, whose squares overflow {X.dtype}; rescale that column"
        )


def _nan_text(estimator: Any, X: Tensor) -> str:
    counts = torch.isnan(X).sum(0)
    first = int(counts.nonzero()[0])
    own = catalogue().get(type(estimator).__name__)
    tasks = set(own.tasks) if own is not None else set()
    able = [entry for entry in catalogue().values() if "missing" in entry.data and tasks & set(entry.tasks)]
    others = f", or use {' or '.join(entry.name for entry in able[:4])}, which accept missing values" if able else ""
    return (
        f"Input X contains NaN: {int(counts[first])} in {_column(estimator, first)}; impute them, as GaussianMixture "
        f"does{others}"
    )


def _column(estimator: Any, position: int) -> str:
    schema = getattr(estimator, "schema_", None)
    names = schema.encoded_names if schema is not None else getattr(estimator, "feature_names_in_", None)
    return f"column {position}" if names is None else f"column {names[position]!r}"


def check_weights(weight: Any, X: Tensor) -> Tensor | None:
    """Sample weights as a tensor like ``X``, or None: finite, also the square of their sum, >= 0, not all zero."""
    if weight is None:
        return None
    if is_tensor(weight):
        check_dense(weight, "sample_weight")
        checked = as_float(weight).to(X.device, X.dtype)
        if checked.shape != (len(X),):
            raise InvalidInput(f"sample_weight.shape == {tuple(checked.shape)}, expected ({len(X)},)!")
        if not bool(torch.isfinite(checked).all()):
            raise InvalidInput("sample_weight contains NaN or infinity")
    else:
        with _converting(weight, "sample_weight"):
            array = _check_sample_weight(weight, np.empty((len(X), 1)), dtype=np.float64)
        checked = from_numpy(np.ascontiguousarray(array)).to(X.device, X.dtype)
    if bool((checked < 0).any()):
        raise InvalidInput("sample_weight has negative values; weights count rows and must be >= 0")
    if float(checked.sum()) == 0.0:
        raise InvalidInput("sample_weight is zero everywhere; at least one row needs a positive weight")
    if not bool(torch.isfinite(checked.sum().square())):
        raise InvalidInput(
            f"sample_weight is so large that the square of its sum overflows {X.dtype}; divide it by its largest value"
        )
    return checked


def check_labels(y: Any, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Class labels as codes 0..k-1 with the sorted classes."""
    if y is None:
        raise InvalidInput("requires y to be passed, but the target y is None")
    labels = column_or_1d(_label_array(y), warn=True)
    _same_length(labels, n)
    _check_labels_whole(labels)
    try:
        check_classification_targets(labels)
    except ValueError as error:
        if "continuous" not in str(error):
            raise
        raise InvalidInput(
            "Unknown label type: continuous; y has numbers with fractions, which are no labels: round or bin them, or "
            "use a model that takes numbers as y (a regressor, or a generator with condition='vectors')"
        ) from error
    classes, codes = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise InvalidInput(f"y has only one class, {classes.tolist()[0]!r}; give rows of at least 2 classes")
    return classes, codes.astype(np.int64)


def _label_array(y: Any) -> Any:
    """Labels in any of their forms as NumPy, or as what NumPy reads; a list keeps what is no string beside strings."""
    if is_tensor(y):
        return host(y, "y")
    if isinstance(y, (list, tuple)) and any(isinstance(label, str) for label in y):
        return np.array(y, dtype=object)
    return _series(y)


def _check_labels_whole(labels: np.ndarray) -> None:
    """Refuse missing labels, and strings beside numbers, which have no order."""
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        first = int(np.flatnonzero(~np.isfinite(labels))[0])
        raise InvalidInput(f"Input y contains NaN or infinity, the first in row {first}; drop these rows")
    if labels.dtype.kind != "O" or set(map(type, labels)) == {str}:
        return
    gaps = [row for row, label in enumerate(labels) if _is_missing(label)]
    if gaps:
        raise InvalidInput(
            f"Input y contains NaN: {len(gaps)} of {len(labels)} labels are missing, the first in row {gaps[0]}; drop "
            "these rows, or name the label 'unknown'"
        )
    strings = [isinstance(label, str) for label in labels]
    if any(strings) and not all(strings):
        first, other = strings.index(True), strings.index(False)
        raise InvalidInput(
            f"y mixes strings with other labels, {shown(labels[first])} in row {first} and {shown(labels[other])} in "
            f"row {other}; make all of them strings, or all numbers"
        )


def _is_missing(label: Any) -> bool:
    """Whether a label is None, NaN, NaT or pandas' NA, none of which equals itself."""
    return label is None or type(label).__name__ == "NAType" or (not hasattr(label, "__len__") and label != label)


def check_targets(y: Any, n: int) -> Tensor:
    """Numbers to predict, (n,) or (n, k), as a float tensor."""
    if y is None:
        raise InvalidInput("requires y to be passed, but the target y is None")
    if is_tensor(y):
        check_dense(y, "y")
        targets = as_float(y).cpu()
    else:
        with _converting(y, "y"):
            checked = check_array(
                _series(y), ensure_2d=False, allow_nd=False, dtype=[np.float64, np.float32], input_name="y"
            )
        targets = from_numpy(checked)
    _same_length(targets, n)
    if not bool(torch.isfinite(targets).all()):
        raise InvalidInput("Input y contains NaN or infinity")
    if targets.ndim == 2 and targets.shape[1] == 1:
        column_or_1d(targets.numpy(), warn=True)
        targets = targets[:, 0]
    return targets


def _series(y: Any) -> Any:
    """A polars series as NumPy; everything else as it is."""
    return y.to_numpy() if type(y).__module__.startswith("polars") else y


def _same_length(y: Any, n: int) -> None:
    if _num_samples(y) != n:
        raise InvalidInput(f"Found input variables with inconsistent numbers of samples: [{n}, {_num_samples(y)}]")
