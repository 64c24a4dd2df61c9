"""Ways to spoil rows before an encoder sees them, so that it learns what rows have in common."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput, nearest
from benthic.base.seeds import normal_like, uniform_like
from benthic.data.standardize import Standardizer

CORRUPTIONS = ("gaussian", "masking", "salt_and_pepper")
Corruption = Callable[[Tensor], Tensor]


def check_corruption(setting: Any, level: float) -> None:
    """Refuse what there is not, and levels that make no sense."""
    if setting is None or callable(setting):
        return
    if setting not in CORRUPTIONS:
        raise InvalidInput(
            f"corruption {setting!r} is unknown{nearest(str(setting), CORRUPTIONS)}; use {', '.join(CORRUPTIONS)}, "
            "a function of rows, or None"
        )
    if not level > 0 or (setting != "gaussian" and level >= 1) or not math.isfinite(level):
        raise InvalidInput(
            f"corruption_level is {level}; it must be positive, and for {CORRUPTIONS[1]} and {CORRUPTIONS[2]} below 1"
        )


def gaussian(x: Tensor, level: float) -> Tensor:
    """``x`` with normal noise of this standard deviation (Vincent et al., 2008)."""
    return x + level * normal_like(x)


def masking(x: Tensor, level: float) -> Tensor:
    """``x`` with every entry set to 0, the mean of its column, with this probability."""
    return torch.where(uniform_like(x) < level, 0.0, x)


def salt_and_pepper(x: Tensor, level: float, low: Tensor, high: Tensor) -> Tensor:
    """``x`` with every entry set to the lowest or highest value of its column with this probability.

    >>> x = torch.full((1000, 2), 0.5)
    >>> sorted(set(salt_and_pepper(x, 0.3, torch.zeros(2), torch.ones(2)).flatten().tolist()))
    [0.0, 0.5, 1.0]
    """
    uniform = uniform_like(x)
    spoiled = torch.where(uniform < 0.5 * level, low.to(x), high.to(x))
    return torch.where(uniform < level, spoiled, x)


def corruption_of(
    setting: Any, level: float, rows: Tensor, scales: Standardizer, event: tuple[int, ...] | None
) -> Corruption | None:
    """A function that spoils rows in the units of the network.

    setting: a name, or a function of examples in data units (pictures in their shape). rows: some of the data, whose
    extremes are salt and pepper. scales: from data units to those of the network.
    """
    if setting is None:
        return None
    if callable(setting):
        return lambda x: _by_user(setting, x, scales, event)
    if setting == "gaussian":
        return lambda x: gaussian(x, level)
    if setting == "masking":
        return lambda x: masking(x, level)
    ready = scales.transform(rows)
    low = torch.where(torch.isnan(ready), math.inf, ready).amin(0)
    high = torch.where(torch.isnan(ready), -math.inf, ready).amax(0)
    held: dict[torch.device, tuple[Tensor, Tensor]] = {}

    def spoil(x: Tensor) -> Tensor:
        if x.device not in held:
            held[x.device] = (low.to(x), high.to(x))
        return salt_and_pepper(x, level, *held[x.device])

    return spoil


def _by_user(function: Corruption, x: Tensor, scales: Standardizer, event: tuple[int, ...] | None) -> Tensor:
    with torch.no_grad():
        rows = scales.inverse(x)
        found = function(rows if event is None else rows.reshape(-1, *event))
        if not isinstance(found, Tensor) or found.numel() != x.numel():
            raise InvalidInput("corruption must return a tensor of the shape it was given")
        return scales.transform(found.reshape(x.shape)).to(x.dtype)
