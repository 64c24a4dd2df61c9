"""How much memory a fit took and how many parameters a fitted model has."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class Peak:
    """Bytes that this process added at its peak since now; NaN where the system does not tell.

    On a GPU, the peak of what torch holds there is added.

    >>> Peak().used() >= 0 or not _STATUS.exists()
    True
    """

    def __init__(self) -> None:
        self._device = _devices()  # first: it may load torch, which is no part of what is measured
        self._able = _STATUS.exists()
        if self._able:
            try:
                _CLEAR.write_text("5")  # the peak begins anew
            except OSError:
                self._able = False
        self._before = _field("VmRSS") if self._able else math.nan
        if self._device is not None:
            self._device.reset_peak_memory_stats()

    def used(self) -> float:
        """Bytes above what was there at the beginning."""
        beside = 0.0 if self._device is None else float(self._device.max_memory_allocated())
        return max(0.0, _field("VmHWM") - self._before) + beside if self._able else math.nan


def _field(name: str) -> float:
    for line in _STATUS.read_text().splitlines():
        if line.startswith(name):
            return 1024.0 * float(line.split()[1])
    return math.nan


def _devices() -> Any:
    """The GPUs of torch, if there are any."""
    import torch

    return torch.cuda if torch.cuda.is_available() else None


def parameters_of(model: Any) -> int | None:
    """How many numbers a fitted model has learned: those of its networks, or else of its fitted arrays.

    >>> from types import SimpleNamespace
    >>> parameters_of(SimpleNamespace(means_=np.zeros((2, 3)), labels_=np.zeros(9, dtype=int)))
    6
    """
    import torch
    from torch import nn

    try:
        held = vars(model)
    except TypeError:
        return None
    networks = [value for value in held.values() if isinstance(value, nn.Module)]
    if networks:
        return sum(part.numel() for network in networks for part in network.parameters())
    inner = [value for name, value in held.items() if name.endswith("_") and not name.startswith("_")]
    arrays = [value for value in inner if isinstance(value, (np.ndarray, torch.Tensor)) and _is_float(value)]
    count = sum(int(np.prod(tuple(value.shape))) for value in arrays)
    return count or None


def _is_float(value: Any) -> bool:
    kind = getattr(value.dtype, "kind", None)
    return kind == "f" if kind is not None else bool(value.dtype.is_floating_point)
