"""Tables on their way into binned trees: categories as one column each, settings by column, checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benthic.base.errors import InvalidInput, nearest
from benthic.base.estimator import Estimator
from benthic.base.settings import is_whole, number, whole
from benthic.base.validation import speaking
from benthic.training.intake import Intake, Target
from benthic.trees.binning import named_codes


@dataclass(frozen=True)
class Table:
    """Rows to learn from. X: (n, p) float64. y: (n,) codes or (n,) or (n, k) numbers. categorical: (p,)."""

    X: np.ndarray
    y: np.ndarray
    classes: np.ndarray | None
    categorical: np.ndarray
    names: tuple[str, ...]


@contextmanager
def all_or_nothing(estimator: Estimator) -> Iterator[None]:
    """A fit that fails leaves the estimator as it was."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        estimator.__dict__.clear()
        estimator.__dict__.update(before)
        raise


def enter(estimator: Any, X: Any, y: Any, target: Target) -> Table:
    """Check rows and targets of ``fit``; a file is read whole."""
    intake = Intake(estimator, X, y, target=target)
    batch = intake.sample(intake.rows, 0)
    estimator._folded = getattr(estimator, "schema_", None) is not None and estimator.categorical_features is not None
    rows = fold(estimator, batch.X.detach().cpu()).double().numpy()
    names = column_names(estimator)
    with speaking(estimator, "fit"):
        categorical = _categorical(estimator, names, rows.shape[1])
    truth = batch.y.detach().cpu().numpy() if batch.y is not None else np.zeros(len(rows))
    return Table(rows, truth, intake.classes, categorical, names)


def fold(estimator: Any, X: Tensor) -> Tensor:
    """Encoded rows (n, width) as (n, p): the columns of a category become one column of its positions."""
    if not estimator._folded:
        return X
    out = X.new_empty(len(X), len(estimator.schema_.columns))
    for j, (column, group) in enumerate(zip(estimator.schema_.columns, estimator.schema_.groups, strict=True)):
        part = X[:, group]
        if column.kind != "category":
            out[:, j] = part[:, 0]
        elif part.shape[1] == 0:
            out[:, j] = torch.nan
        else:
            out[:, j] = torch.where(part.isnan().any(1), torch.nan, part.nan_to_num(0.0).argmax(1).to(X.dtype))
    return out


def features(estimator: Any, X: Tensor) -> Tensor:
    """Rows of ``predict`` as the trees read them: float64 (n, p), categories as positions, unknown ones NaN."""
    rows = fold(estimator, X).double()
    categories = estimator._categories
    if rows.device.type == "cpu":
        return torch.from_numpy(named_codes(rows.numpy(), categories))
    for j, values in enumerate(categories):
        if len(values):
            known = torch.as_tensor(values, device=rows.device)
            place = torch.searchsorted(known, rows[:, j].contiguous()).clamp(max=len(known) - 1)
            found = torch.where(known[place] == rows[:, j], place.double(), torch.nan)
            rows = rows.index_copy(1, torch.tensor([j], device=rows.device), found[:, None])
    return rows


def column_names(estimator: Any) -> tuple[str, ...]:
    """The name of every column the trees see."""
    schema = getattr(estimator, "schema_", None)
    if schema is not None:
        return tuple(str(c.name) for c in schema.columns) if estimator._folded else tuple(schema.encoded_names)
    names = getattr(estimator, "feature_names_in_", None)
    return tuple(map(str, names)) if names is not None else tuple(f"x{j}" for j in range(estimator.n_features_in_))


def _categorical(estimator: Any, names: Sequence[str], p: int) -> np.ndarray:
    mask = np.zeros(p, dtype=bool)
    if estimator._folded:
        mask |= [column.kind == "category" for column in estimator.schema_.columns]
    asked = estimator.categorical_features
    if asked is None or (isinstance(asked, str) and asked == "from_dtype"):
        return mask
    chosen = np.atleast_1d(np.asarray(asked))
    if chosen.dtype.kind == "b":
        if chosen.shape != (p,):
            raise InvalidInput(f"categorical_features is a mask of shape {chosen.shape}; there are {p} columns")
        return mask | chosen
    for entry in chosen.tolist():
        mask[_position(entry, names, p, "categorical_features")] = True
    return mask


def _position(entry: Any, names: Sequence[str], p: int, setting: str) -> int:
    if isinstance(entry, str):
        if entry not in names:
            raise InvalidInput(f"{setting} names {entry!r}, which is no column{nearest(entry, names)}")
        return list(names).index(entry)
    if not is_whole(entry, -p, p - 1):
        raise InvalidInput(f"{setting} has the column {entry!r}; columns are 0 to {p - 1}, or names")
    return int(entry) % p


def monotone_signs(asked: Any, table: Table) -> np.ndarray | None:
    """Signs (p,) of ``monotonic_cst``: a sequence of -1, 0 and 1, or a dict from names to them."""
    if asked is None:
        return None
    p = len(table.names)
    if isinstance(asked, Mapping):
        signs = np.zeros(p, dtype=np.int64)
        for entry, sign in asked.items():
            signs[_position(entry, table.names, p, "monotonic_cst")] = sign
    else:
        signs = np.asarray(asked)
    if signs.shape != (p,) or not np.isin(signs, (-1, 0, 1)).all():
        raise InvalidInput(f"monotonic_cst is {asked!r}; it needs -1, 0 or 1 for each of the {p} columns, or a dict")
    bad = np.flatnonzero((signs != 0) & table.categorical)
    if len(bad):
        raise InvalidInput(
            f"monotonic_cst is {int(signs[bad[0]]):+d} for column {table.names[bad[0]]!r}, which holds categories; "
            "they have no order, so its sign must be 0"
        )
    return signs.astype(np.int64) if signs.any() else None


def class_factors(setting: Any, codes: np.ndarray, classes: np.ndarray) -> np.ndarray | None:
    """The weight of each class: None for all one, ``"balanced"`` or a dict of labels and weights."""
    if setting is None:
        return None
    if isinstance(setting, str) and setting == "balanced":
        counts = np.bincount(codes, minlength=len(classes))
        return counts.sum() / (len(classes) * counts)
    if not isinstance(setting, Mapping):
        raise InvalidInput(f"class_weight is {setting!r}; use None, 'balanced' or a dict of labels and weights")
    unknown = [label for label in setting if label not in classes]
    if unknown:
        raise InvalidInput(f"class_weight names {unknown[0]!r}, which is not among the classes {classes.tolist()}")
    factors = np.array([float(setting.get(label, 1.0)) for label in classes])
    if not (factors > 0).all():
        raise InvalidInput("class_weight has weights that are not positive")
    return factors


def columns_asked(asked: Any, p: int) -> int:
    """How many of ``p`` columns a node looks at: a name, a share, a number, or None for all.

    >>> columns_asked("sqrt", 20), columns_asked("third", 20), columns_asked(0.5, 20), columns_asked(None, 20)
    (4, 6, 10, 20)
    """
    named = {"sqrt": int(np.sqrt(p)), "log2": int(np.log2(p)) if p > 1 else 1, "third": p // 3}
    if asked is None:
        return p
    if isinstance(asked, str):
        if asked not in named:
            raise InvalidInput(f"max_features is {asked!r}; use 'sqrt', 'log2', 'third', a number, a share or None")
        return max(named[asked], 1)
    if is_whole(asked):
        return min(whole("max_features", asked), p)
    return max(int(number("max_features", asked, 0, 1, ends="(]") * p), 1)
