"""What a conditional model is given: labels as one-hot rows, vectors in standard units, rows with gaps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from benthic.base.arrays import is_tensor
from benthic.base.errors import InvalidInput
from benthic.base.schema import is_frame

_SHOWN = 20  # labels named in an error


class Given(NamedTuple):
    """What is known of a draw: its condition ``y``, and rows ``X`` with NaN to fill; either may be None."""

    y: Any
    X: Any


def parse_given(given: Any, condition: str) -> Given:
    """What ``given`` holds: a dict says so; else vectors are conditions, and labels have at most one dimension.

    >>> parse_given("cat", "labels").y, parse_given([[1.0, float("nan")]], "labels").y
    ('cat', None)
    """
    if given is None:
        return Given(None, None)
    if isinstance(given, Mapping):
        if not given or not set(given) <= {"X", "y"}:
            raise InvalidInput(
                f"given has the keys {sorted(map(str, given))}; use 'y' for the condition and 'X' for rows"
            )
        return Given(given.get("y"), given.get("X"))
    if condition == "labels" and dimensions(given) > 1:
        return Given(None, given)
    return Given(given, None)


def dimensions(value: Any) -> int:
    """How many dimensions an array, frame, tensor, list or single value has."""
    if is_frame(value):
        return 2
    return int(value.ndim) if hasattr(value, "ndim") else int(np.ndim(np.asarray(value, dtype=object)))


def codes_of_labels(labels: Any, classes: np.ndarray, what: str = "given") -> Tensor:
    """The places of labels, one or several, among the classes, (m,).

    >>> codes_of_labels(["b", "a"], np.array(["a", "b"]))
    tensor([1, 0])
    """
    found = labels.detach().cpu().numpy() if is_tensor(labels) else np.asarray(labels)
    if found.ndim > 1:
        raise InvalidInput(f"{what} has labels of shape {found.shape}; pass one label, or one a row as (n,)")
    places = {label: code for code, label in enumerate(classes.tolist())}
    flat = found.reshape(-1).tolist()
    for label in flat:
        if label not in places:
            known = ", ".join(repr(name) for name in classes.tolist()[:_SHOWN])
            more = ", ..." if len(classes) > _SHOWN else ""
            raise InvalidInput(f"{what} has the label {label!r}, which fit has not seen; it knows {known}{more}")
    return torch.tensor([places[label] for label in flat], dtype=torch.long)


def rows_of_vectors(vectors: Any, width: int, what: str = "given") -> Tensor:
    """Vectors (width,) or (m, width), or pictures with so many pixels, as float rows (m, width)."""
    if is_tensor(vectors):
        found = vectors.detach()
        found = found if found.is_floating_point() else found.double()
    else:
        try:
            found = torch.from_numpy(np.array(vectors, dtype=np.float64))  # a copy: frames lend theirs for reading only
        except (ValueError, TypeError):
            raise InvalidInput(
                f"{what} is {vectors!r:.80}, not numbers; the model was fitted on {width} numbers a row"
            ) from None
    shape = tuple(found.shape)
    if found.ndim > 1 and found.shape[1:].numel() == width:
        found = found.reshape(len(found), width)
    elif found.numel() == width:
        found = found.reshape(1, width)
    elif found.ndim == 1 and width == 1:
        found = found[:, None]
    else:
        raise InvalidInput(f"{what} has vectors of shape {shape}; the model was fitted on {width} numbers a row")
    if not bool(torch.isfinite(found).all()):
        raise InvalidInput(f"{what} has NaN or infinity among the conditions; they must be known")
    return found


def one_or_many(conditions: Tensor, n: int, name: str) -> Tensor:
    """Conditions (1 or n, ...), one for each of ``n`` rows."""
    if len(conditions) not in (1, n):
        raise InvalidInput(f"given has {len(conditions)} {name} for {n} rows; pass one or {n}")
    return conditions.expand(n, *conditions.shape[1:])
