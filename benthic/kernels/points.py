"""Points at the door of this room: tensors (..., n, d) of finite numbers, or one clear sentence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benthic.base.errors import InvalidInput


def as_points(where: str, X: Any, name: str = "X", batched: bool = False) -> Tensor:
    """X as a floating tensor (n, d), or (..., n, d) where batched. Whole numbers and lists become float64."""
    if not isinstance(X, Tensor):
        X = torch.as_tensor(X if hasattr(X, "dtype") else np.asarray(X, dtype=np.float64))
    if X.dtype in (torch.float16, torch.bfloat16) or X.is_complex():
        raise InvalidInput(f"{where}: {name} has dtype {X.dtype}; convert it to float32 or float64")
    if not X.is_floating_point():
        X = X.double()
    if X.ndim < 2 or (X.ndim > 2 and not batched):
        raise InvalidInput(
            f"{where}: {name} has shape {tuple(X.shape)}; a row for each point, (n, d), is needed"
            + ("; write x[:, None] for numbers on a line" if X.ndim == 1 else "")
        )
    if not X.shape[-2] or not X.shape[-1]:
        raise InvalidInput(f"{where}: {name} has shape {tuple(X.shape)}; at least one point and one column is needed")
    if not bool(torch.isfinite(X.detach()).all()):
        raise InvalidInput(f"{where}: {name} holds NaN or infinity; remove or impute these rows first")
    return X


def as_pair(where: str, X: Any, Y: Any, batched: bool = False) -> tuple[Tensor, Tensor]:
    """Two sets of points of the same width, dtype and device."""
    X, Y = as_points(where, X, "X", batched), as_points(where, Y, "Y", batched)
    if X.shape[-1] != Y.shape[-1]:
        raise InvalidInput(
            f"{where}: X has {X.shape[-1]} columns and Y {Y.shape[-1]}; both need the same columns in the same order"
        )
    if X.device != Y.device:
        raise InvalidInput(f"{where}: X is on {X.device} and Y on {Y.device}; move one of them")
    dtype = torch.promote_types(X.dtype, Y.dtype)
    return X.to(dtype), Y.to(dtype)


def blocks(
    n: int, m: int, elements: int | None = None, device: torch.device | str = "cpu"
) -> Iterator[tuple[slice, slice]]:
    """Rows and columns of tiles that together cover an (n, m) matrix, none with more than ``elements`` entries.

    elements: when None, what a processor's cache holds (2^20), or 2^26 on an accelerator.

    >>> [(rows.stop, columns.stop) for rows, columns in blocks(3, 4, 4)]
    [(2, 2), (2, 4), (3, 2), (3, 4)]
    """
    height, width = tile(n, m, elements, device)
    for top in range(0, n, height):
        for left in range(0, m, width):
            yield slice(top, min(top + height, n)), slice(left, min(left + width, m))


def tile(n: int, m: int, elements: int | None = None, device: torch.device | str = "cpu") -> tuple[int, int]:
    """Height and width of a tile of at most ``elements`` entries, square where the matrix allows it."""
    if elements is None:
        elements = 2**20 if torch.device(device).type == "cpu" else 2**26
    if elements < 1:
        raise InvalidInput(f"blocks: elements is {elements}; a tile needs at least one entry")
    side = max(1, int(elements**0.5))
    width = max(1, min(m, max(side, elements // max(1, min(n, side)))))
    return max(1, min(n, elements // width)), width
