"""Arrays in, the same kind of arrays out: NumPy, torch on any device, frames."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.base.quiet import quiet

FLOATS = {
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
    "float64": torch.float64,
}
_WIDE = (torch.float32, torch.float64)


@dataclass(frozen=True)
class Origin:
    """Where an array came from, so that the answer goes back the same way.

    kind: ``numpy``, ``torch`` or ``frame``. dtype: floating type of the answers. device: where they go.
    index: the row labels of a pandas frame.
    """

    kind: str = "numpy"
    dtype: str = "float64"
    device: str = "cpu"
    index: Any = None

    def mirror(self, tensor: Tensor) -> Any:
        """``tensor`` in the kind, floating type and place of the original."""
        tensor = tensor.detach()
        if tensor.is_floating_point():
            tensor = tensor.to(FLOATS[self.dtype])
        if self.kind == "torch":
            return tensor.to(available(self.device))
        return tensor.cpu().numpy()

    def to_tree(self) -> dict[str, Any]:
        """What a model file keeps of it; row labels belong to one call only."""
        return {"kind": self.kind, "dtype": self.dtype, "device": self.device}

    @classmethod
    def from_tree(cls, tree: dict[str, Any]) -> Origin:
        """The origin a model file kept."""
        found = cls(**tree)
        if found.kind not in ("numpy", "torch", "frame") or found.dtype not in FLOATS:
            raise InvalidInput(f"Origin: there are no arrays of kind {found.kind!r:.60} and type {found.dtype!r:.60}")
        available(found.device)
        return found


def is_tensor(X: Any) -> bool:
    """Whether ``X`` is a torch tensor."""
    return isinstance(X, Tensor)


def available(device: str | torch.device) -> torch.device:
    """The device, or the CPU when this machine does not have it (a model fitted elsewhere)."""
    device = torch.device(device)
    if device.type not in ("cuda", "mps"):
        return device
    backend = torch.cuda if device.type == "cuda" else torch.mps
    here = backend.device_count() if backend.is_available() else 0
    return device if (device.index or 0) < here else torch.device("cpu")


def pick_device(wanted: str | torch.device | None, X: Any = None) -> torch.device:
    """The device to work on: the one asked for; ``auto`` is where ``X`` lies, else CUDA when present.

    None means where ``X`` lies, and the CPU for anything but a tensor.

    >>> pick_device("cpu")
    device(type='cpu')
    """
    if wanted is None or wanted == "auto":
        if is_tensor(X):
            return torch.device(X.device)
        return torch.device("cuda" if wanted == "auto" and torch.cuda.is_available() else "cpu")
    known = "'cpu', 'cuda', 'cuda:0', 'mps'"
    try:
        device = torch.device(wanted)
        torch.empty(0, device=device)
    except Exception as error:  # torch raises several types: RuntimeError, AssertionError, AttributeError
        raise InvalidInput(
            f"device {str(wanted)!r} is not available here; use one of 'auto', {known} that this machine has"
        ) from error
    return device


def from_numpy(X: np.ndarray) -> Tensor:
    """A tensor on the same memory where possible; read-only arrays are shared too and only ever read."""
    if any(stride < 0 for stride in X.strides) or X.dtype.byteorder == ">":
        X = np.ascontiguousarray(X, dtype=X.dtype.newbyteorder("="))
    if X.flags.writeable:
        return torch.from_numpy(X)
    with quiet(UserWarning):
        return torch.from_numpy(X)


def float_name(dtype: torch.dtype) -> str:
    """``float32`` for ``torch.float32``; anything that is not floating counts as torch's default."""
    dtype = dtype if dtype.is_floating_point else torch.get_default_dtype()
    return str(dtype).removeprefix("torch.")


def as_float(tensor: Tensor) -> Tensor:
    """A detached tensor in float32 or float64: what the arithmetic runs in."""
    tensor = tensor.detach()
    if tensor.dtype in _WIDE:
        return tensor
    return tensor.to(torch.float32 if tensor.is_floating_point() else torch.get_default_dtype())


def to_tensor(X: Any) -> tuple[Tensor, Origin]:
    """Any numeric array without validation, with where it came from."""
    if is_tensor(X):
        return as_float(X), Origin("torch", float_name(X.dtype), str(X.device))
    array = np.asarray(X)
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float64)
    return from_numpy(array), Origin("numpy", str(array.dtype))
