"""Two tables brought to the same columns: numbers as numbers, categories as codes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.base.frames import frame_names, is_frame, to_arrow
from benthic.base.schema import Schema
from benthic.metrics.rows import device_of, plain

_LABELS = ("category", "boolean")


@dataclass(frozen=True)
class Side:
    """One column of both tables.

    levels: how many categories, 0 for numbers. real: (n,), generated: (m,): float64 with NaN for missing, or codes,
    where missing is a category of its own.
    """

    name: Any
    levels: int
    real: Tensor
    generated: Tensor


def sides(where: str, real: Any, generated: Any, kinds: Mapping[Any, str] | None) -> list[Side]:
    """The columns of two frames, or of two arrays (n, d), (m, d) of numbers, by kind.

    kinds: column (its name, or its place in an array) to ``category`` or ``number`` where the guess would be wrong.
    Columns of text are left out.
    """
    if is_frame(real) != is_frame(generated):
        raise InvalidInput(f"{where}: one of real and generated is a frame and the other is not; pass the same kind")
    found = _of_frames(where, real, generated, kinds) if is_frame(real) else _of_arrays(where, real, generated, kinds)
    for name, count in (("real", len(found[0].real)), ("generated", len(found[0].generated))):
        if count < 2:
            raise InvalidInput(f"{where}: {name} has {count} rows; at least 2 are needed")
    return found


def _of_frames(where: str, real: Any, generated: Any, kinds: Mapping[Any, str] | None) -> list[Side]:
    schema = Schema.infer(real, kinds=kinds)
    tables = to_arrow(real), to_arrow(generated)
    known = [str(name) for name in frame_names(generated)]
    found = []
    for column in schema.columns:
        name = str(column.name)
        if name not in known:
            raise InvalidInput(f"{where}: generated has no column {name!r}; both tables need the same columns")
        if column.kind in _LABELS:
            found.append(_coded(column.name, *(table[name].to_pylist() for table in tables)))
            continue
        only = Schema((column,), (column.name,), {}, schema.frame)
        parts = (torch.as_tensor(only.encode(table.select([name]))[:, 0]) for table in tables)
        found.append(Side(column.name, 0, *parts))
    return found


def _of_arrays(where: str, real: Any, generated: Any, kinds: Mapping[Any, str] | None) -> list[Side]:
    device = device_of(real, generated)
    tables = [
        part.detach() if isinstance(part, Tensor) else torch.as_tensor(np.asarray(part, dtype=np.float64))
        for part in (real, generated)
    ]
    if any(part.ndim != 2 or not part.numel() for part in tables) or tables[0].shape[1] != tables[1].shape[1]:
        shapes = " and ".join(str(tuple(part.shape)) for part in tables)
        raise InvalidInput(f"{where}: real and generated have shapes {shapes}; (n, d) and (m, d) are needed")
    found = []
    for at in range(tables[0].shape[1]):
        pair = [part[:, at].double().to(device) for part in tables]
        if (kinds or {}).get(at) in _LABELS:
            found.append(_coded(at, *(plain(part).tolist() for part in pair), device=device))
        else:
            found.append(Side(at, 0, *pair))
    return found


def _coded(name: Any, real: list[Any], generated: list[Any], device: torch.device | None = None) -> Side:
    """Values as codes; whatever generated holds that real does not gets codes of its own."""
    codes: dict[Any, int] = {}
    parts = []
    for values in (real, generated):
        # NaN differs from itself, so it is not a key
        keys = [None if value is None or value != value else value for value in values]
        parts.append(torch.tensor([codes.setdefault(key, len(codes)) for key in keys], device=device))
    return Side(name, len(codes), *parts)
