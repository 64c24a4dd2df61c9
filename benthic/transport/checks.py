"""What comes in: tensors of one dtype, masses that are masses, points of one dimension."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput


def tensor(where: str, name: str, values: Any, like: Tensor | None = None) -> Tensor:
    """A real floating-point tensor without NaN or infinite entries; lists and integers become float64."""
    values = torch.as_tensor(values) if isinstance(values, Tensor) or hasattr(values, "dtype") else _from_list(values)
    if values.is_complex():
        raise InvalidInput(f"{where}: {name} is complex; real numbers are needed")
    if like is not None:
        values = values.to(device=like.device, dtype=like.dtype)
    elif values.dtype not in (torch.float32, torch.float64):
        values = values.to(torch.float32 if values.is_floating_point() else torch.float64)
    if not values.numel():
        raise InvalidInput(f"{where}: {name} is empty (shape {tuple(values.shape)}); at least one entry is needed")
    if not math.isfinite(float(values.detach().sum())) and not bool(torch.isfinite(values).all()):
        count = int((~torch.isfinite(values)).sum())
        raise InvalidInput(f"{where}: {name} has {count} NaN or infinite entries; remove them or put finite numbers")
    return values


def _from_list(values: Any) -> Tensor:
    return torch.as_tensor(values, dtype=torch.float64)


def masses(where: str, name: str, values: Any, size: int, like: Tensor, total: bool = True) -> Tensor:
    """Non-negative masses (..., size), summing to one if ``total``; None is uniform."""
    if values is None:
        return torch.full((size,), 1.0 / size, dtype=like.dtype, device=like.device)
    values = tensor(where, name, values, like)
    if values.ndim < 1 or values.shape[-1] != size:
        raise InvalidInput(f"{where}: {name} has shape {tuple(values.shape)} but the cost asks for {size} masses")
    low = float(values.detach().min())
    if low < 0:
        raise InvalidInput(f"{where}: {name} has a negative mass ({low:g}); masses must be zero or more")
    sums = values.detach().double().sum(-1)
    off = (sums - 1).abs()
    if total and float(off.max()) > (1e-4 if like.dtype == torch.float32 else 1e-6):
        worst = float(sums.flatten()[off.argmax()])
        raise InvalidInput(f"{where}: {name} sums to {worst:.9g}; masses must sum to 1 ({name} / {name}.sum() does)")
    if not total and float(sums.min()) <= 0:
        raise InvalidInput(f"{where}: {name} has no mass at all; at least one entry must be positive")
    return values / values.sum(-1, keepdim=True) if total else values  # the last digits decide whether iterations end


def points(where: str, name: str, values: Any, like: Tensor | None = None) -> Tensor:
    """Points (..., n, d); a vector of numbers is n points of one dimension."""
    values = tensor(where, name, values, like)
    if values.ndim == 0:
        raise InvalidInput(f"{where}: {name} is a single number; points (n, d) are needed")
    return values.unsqueeze(-1) if values.ndim == 1 else values


def clouds(where: str, X: Any, Y: Any) -> tuple[Tensor, Tensor]:
    """Two clouds (..., n, d) and (..., m, d) of one dimension d."""
    X = points(where, "X", X)
    Y = points(where, "Y", Y, X)
    if X.shape[-1] != Y.shape[-1]:
        raise InvalidInput(f"{where}: X has {X.shape[-1]} columns and Y {Y.shape[-1]}; both need the same dimension")
    return X, Y


def positive(where: str, name: str, value: float) -> float:
    """A finite number above zero."""
    number = float(value)
    if not (math.isfinite(number) and number > 0):
        raise InvalidInput(f"{where}: {name} is {value}; a finite number above 0 is needed")
    return number


def order(where: str, p: float, infinite: bool = False) -> float:
    """The order p of a Wasserstein distance, at least one."""
    number = float(p)
    if math.isnan(number) or number < 1 or (math.isinf(number) and not infinite):
        raise InvalidInput(f"{where}: p is {p}; a number of at least 1 is needed")
    return number
