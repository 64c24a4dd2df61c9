"""Arrays in, the same kind of arrays out: NumPy, torch on any device, frames."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benthic.base.errors import InvalidInput, shown
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


def largest(dtype: torch.dtype) -> float:
    """The largest size of a number that data may have: sums of its squares do not overflow."""
    return float(torch.finfo(dtype).max ** 0.5 * 1e-3)


def check_dense(tensor: Tensor, what: str = "X") -> None:
    """Refuse a tensor that does not hold dense real numbers."""
    if tensor.is_complex():
        raise InvalidInput("Complex data not supported")
    if tensor.layout != torch.strided:
        raise TypeError(f"Sparse data was passed, but dense data is required; use {what}.to_dense()")
    if tensor.is_meta:
        raise InvalidInput(
            f"{what} is a tensor on the device 'meta', which has a shape but no numbers; pass one on 'cpu' or 'cuda'"
        )


def host(tensor: Tensor, what: str = "X") -> np.ndarray:
    """A dense real tensor on any device as NumPy, in single precision where NumPy has no such type (bfloat16)."""
    check_dense(tensor, what)
    known = tensor.dtype in (torch.float16, *_WIDE) or not tensor.is_floating_point()
    return (tensor if known else tensor.float()).detach().cpu().numpy()


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


def memory_of(device: torch.device | str = "cpu") -> float:
    """Bytes that arrays may take on a device."""
    device = torch.device(device)
    if device.type == "cuda":
        return float(torch.cuda.mem_get_info(device)[0])
    return 0.9 * float(os.sysconf("SC_PAGE_SIZE")) * float(os.sysconf("SC_PHYS_PAGES"))


def from_numpy(X: np.ndarray) -> Tensor:
    """A tensor on the same memory where possible; read-only arrays are shared too and only ever read."""
    if any(stride < 0 for stride in X.strides) or X.dtype.byteorder == ">":
        X = np.ascontiguousarray(X, dtype=X.dtype.newbyteorder("="))
    if X.flags.writeable:
        return torch.from_numpy(X)
    with quiet(UserWarning):
        return torch.from_numpy(X)


def float_name(dtype: torch.dtype) -> str:
    """``float32`` for ``torch.float32``, and for floats of 8 bits; what is not floating counts as torch's default."""
    dtype = dtype if dtype.is_floating_point else torch.get_default_dtype()
    name = str(dtype).removeprefix("torch.")
    return name if name in FLOATS else "float32"


def as_float(tensor: Tensor) -> Tensor:
    """A detached tensor in float32 or float64: what the arithmetic runs in."""
    tensor = tensor.detach()
    if tensor.dtype in _WIDE:
        return tensor
    return tensor.to(torch.float32 if tensor.is_floating_point() else torch.get_default_dtype())


def to_tensor(X: Any, what: str = "X") -> tuple[Tensor, Origin]:
    """Any dense array of real numbers, finite or not, with where it came from; what: its name in an error."""
    if is_tensor(X):
        check_dense(X, what)
        return as_float(X), Origin("torch", float_name(X.dtype), str(X.device))
    try:
        array = np.asarray(X)
        kind = array.dtype.kind
        if kind not in "cmMV" and array.dtype not in (np.float32, np.float64):
            array = array.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(no_number(X, what) or f"{what} is no array of numbers: {error}") from error
    if kind in "cmMV":
        raise InvalidInput("Complex data not supported" if kind == "c" else f"{what} holds {array.dtype}, not numbers")
    return from_numpy(array), Origin("numpy", str(array.dtype))


def no_number(X: Any, what: str = "X") -> str | None:
    """In words, the first cell of an array that float arithmetic cannot hold; None where there is none.

    >>> no_number([[1, 2], [3, "many"]])
    "X holds 'many' in row 1, column 1, where a number is needed"
    >>> no_number([0, 10**400], "y")
    'y holds a whole number in row 1 that is too large for floating point, which ends at 1.8e+308; rescale or clip it'
    """
    try:
        cells = np.asarray(X, dtype=object)
    except ValueError:  # parts of different shapes
        cells = np.empty(len(X), dtype=object)
        cells[:] = list(X)
    if not cells.ndim:
        return f"{what} is {shown(X)}, where an array of numbers is needed"
    for place, cell in np.ndenumerate(cells):
        where = f"in row {place[0]}" + (f", column {place[1]}" if len(place) > 1 else "")
        try:
            float(cell)
        except OverflowError:
            return (
                f"{what} holds a whole number {where} that is too large for floating point, which ends at 1.8e+308; "
                "rescale or clip it"
            )
        except (TypeError, ValueError):
            if isinstance(cell, (list, tuple, np.ndarray)):
                return f"{what} has rows of different lengths, and a table needs the same number of cells in each"
            return f"{what} holds {shown(cell)} {where}, where a number is needed"
    return None
