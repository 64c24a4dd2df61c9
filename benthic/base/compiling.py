"""Compilation where it was asked for and a compiler is found."""

from __future__ import annotations

import shutil
import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch


def compiled(call: Callable[..., Any], device: torch.device, what: str, **options: Any) -> Callable[..., Any]:
    """The call, compiled; where no compiler is found it stays as it is, and a warning says that ``what`` goes on."""
    on_cpu = device.type == "cpu"
    if sys.platform == "win32" or (on_cpu and not any(shutil.which(c) for c in ("g++", "c++", "clang++"))):
        warnings.warn(f"compile=True, but no C++ compiler was found; {what} goes on uncompiled", stacklevel=3)
        return call
    faster: Callable[..., Any] = torch.compile(call, **options)
    return faster
