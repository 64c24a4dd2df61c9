"""Parts of the data: to fit and to judge, and folds for cross-validation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.base.frames import frame_kind
from benthic.base.seeds import derive


def train_test(X: Any, y: Any = None, fraction: float = 0.2, stratify: bool = False, seed: int = 0) -> tuple[Any, ...]:
    """Rows to fit and rows to judge, drawn at random.

    X: array, tensor or frame; y: (n,) or None. fraction: the share of rows to judge on. stratify: whether
    every label of ``y`` keeps its share in both parts.
    Returns (X_train, X_test) or (X_train, X_test, y_train, y_test), each like its input.

    >>> X_train, X_test = train_test(np.arange(10.0)[:, None], fraction=0.3)
    >>> X_train.shape, X_test.shape
    ((7, 1), (3, 1))
    """
    from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit

    if not 0 < fraction < 1:
        raise InvalidInput(f"train_test: fraction is {fraction}; it must lie between 0 and 1")
    X = _collected(X)
    splitter = StratifiedShuffleSplit if stratify else ShuffleSplit
    made = splitter(1, test_size=fraction, random_state=_numpy_seed(seed, "split"))
    train, test = map(np.sort, _splits(made, X, y, stratify, "train_test")[0])
    parts = [take(X, train), take(X, test)]
    return tuple(parts) if y is None else (*parts, take(y, train), take(y, test))


def folds(
    X: Any, y: Any = None, k: int = 5, stratify: bool = False, seed: int = 0
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The rows to fit and to judge of each of ``k`` folds; every row is judged once.

    Yields (train, test), two arrays of row numbers. stratify: whether every label of ``y`` keeps its share.

    >>> [test.size for _, test in folds(np.zeros((10, 2)), k=3)]
    [4, 3, 3]
    """
    from sklearn.model_selection import KFold, StratifiedKFold

    X = _collected(X)
    n = _rows(X, y, "folds")
    if not 2 <= k <= n:
        raise InvalidInput(f"folds: k is {k}, but there are {n} rows; it must lie between 2 and the rows")
    splitter = StratifiedKFold if stratify else KFold
    made = splitter(k, shuffle=True, random_state=_numpy_seed(seed, "folds"))
    return iter(_splits(made, X, y, stratify, "folds"))


def take(X: Any, rows: np.ndarray) -> Any:
    """The given rows of an array, tensor, frame or series, of the same kind."""
    kind = frame_kind(X)
    if kind == "pandas" or hasattr(X, "iloc"):
        return X.iloc[rows]
    if kind == "arrow" or type(X).__module__.startswith("pyarrow"):
        return X.take(rows)
    if isinstance(X, Tensor):
        return X[torch.as_tensor(rows, device=X.device)]
    if isinstance(X, (list, tuple)):
        return [X[i] for i in rows]
    return X[rows]


def _rows(X: Any, y: Any, where: str) -> int:
    n = X.shape[0] if hasattr(X, "shape") else len(X)
    if y is not None and len(y) != n:
        raise InvalidInput(f"{where}: X has {n} rows and y has {len(y)}; they must be the same")
    if n < 2:
        raise InvalidInput(f"{where}: there is {n} row; a split needs at least 2")
    return n


def _collected(X: Any) -> Any:
    return X.collect() if type(X).__name__ == "LazyFrame" else X


def _splits(splitter: Any, X: Any, y: Any, stratify: bool, where: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """The splits of a scikit-learn splitter, with its complaints in our words."""
    n = _rows(X, y, where)
    labels = None
    if stratify:
        if y is None:
            raise InvalidInput(f"{where}: stratify needs labels; pass y, or stratify=False")
        labels = y.detach().cpu().numpy() if isinstance(y, Tensor) else np.asarray(y)
        values, counts = np.unique(labels, return_counts=True)
        if counts.min() < 2:
            rare = values[counts.argmin()]
            raise InvalidInput(
                f"{where}: label {rare.item() if hasattr(rare, 'item') else rare!r} has only one row, so it "
                "cannot be in both parts; remove it, or use stratify=False"
            )
    try:
        return list(splitter.split(np.empty(n), labels))
    except ValueError as error:
        raise InvalidInput(f"{where}: {error}") from error


def _numpy_seed(seed: int, name: str) -> int:
    return derive(seed, name) % 2**32
