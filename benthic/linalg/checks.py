"""What every function of linear algebra asks of its input, in one place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from benthic.base.errors import InvalidInput
from benthic.base.settings import is_number

_REAL = (torch.float32, torch.float64)
_COMPLEX = (torch.complex64, torch.complex128)


class SingularMatrix(InvalidInput):
    """The matrix has no inverse at working precision; the message says what would work.

    ``rcond`` is the estimated reciprocal condition number, 0 for an exactly singular matrix.
    """

    def __init__(self, message: str, rcond: float = 0.0) -> None:
        super().__init__(message)
        self.rcond = rcond


def floating(x: Any, where: str, name: str = "A", *, allow_complex: bool = False, finite: bool = True) -> torch.Tensor:
    """The value as a float32 or float64 tensor; lists, NumPy arrays and whole numbers become float64.

    allow_complex: whether complex64 and complex128 pass. finite: whether NaN and infinity are refused.

    >>> floating([1, 2], "solve").dtype
    torch.float64
    """
    tensor = x if isinstance(x, torch.Tensor) else _from_array(x, where, name)
    if not (tensor.is_floating_point() or tensor.is_complex()):
        tensor = tensor.to(torch.float64)
    if tensor.dtype not in (_REAL + _COMPLEX if allow_complex else _REAL):
        kind = str(tensor.dtype).removeprefix("torch.")
        raise InvalidInput(f"{where}: {name} has type {kind}; use float32 or float64")
    if finite and not torch.isfinite(tensor.detach().sum()):  # one pass; the count only where it may be needed
        bad = tensor.numel() - int(torch.isfinite(tensor.detach()).sum())
        if bad:
            raise InvalidInput(f"{where}: {name} has {bad} values that are not finite; remove or fill them first")
    return tensor


def _from_array(x: Any, where: str, name: str) -> torch.Tensor:
    try:
        array = np.array(x)
    except ValueError as error:
        raise InvalidInput(f"{where}: {name} is not a rectangular array ({error})") from error
    if array.dtype.kind not in "biufc":
        raise InvalidInput(f"{where}: {name} holds {array.dtype} values; use numbers")
    return torch.as_tensor(array)


def matrix(A: Any, where: str, name: str = "A", *, square: bool = False, allow_complex: bool = False) -> torch.Tensor:
    """The value as a batch of matrices (..., m, n), square if asked for."""
    tensor = floating(A, where, name, allow_complex=allow_complex)
    if tensor.ndim < 2:
        raise InvalidInput(f"{where}: {name} has shape {tuple(tensor.shape)}; a matrix (..., m, n) is needed")
    if 0 in tensor.shape:
        raise InvalidInput(f"{where}: {name} is empty, of shape {tuple(tensor.shape)}")
    if square and tensor.shape[-1] != tensor.shape[-2]:
        m, n = tensor.shape[-2:]
        raise InvalidInput(f"{where}: {name} is {m} x {n}; a square matrix is needed")
    return tensor


def alike(b: Any, like: torch.Tensor, where: str, name: str) -> torch.Tensor:
    """The value as a tensor of the type and device of another; a tensor must have them already."""
    if not isinstance(b, torch.Tensor):
        return floating(b, where, name, allow_complex=like.is_complex()).to(like)
    b = floating(b, where, name, allow_complex=like.is_complex())
    if b.device != like.device:
        raise InvalidInput(f"{where}: {name} is on {b.device} and the matrix on {like.device}; move one of them")
    if b.dtype == like.dtype:
        return b
    if b.dtype == like.dtype.to_real():
        return b.to(like.dtype)
    here, there = (str(t.dtype).removeprefix("torch.") for t in (b, like))
    raise InvalidInput(f"{where}: {name} is {here} and the matrix {there}; convert one of them")


def columns(
    shape: tuple[int, ...], b: Any, like: torch.Tensor, where: str, name: str = "b"
) -> tuple[torch.Tensor, bool]:
    """The right side as columns (..., n, k), and whether it came as a vector (n,) or a batch of vectors.

    A batch of vectors is known by its shape, which is that of the matrices without their last dimension.

    shape: (..., n, m) of the matrix whose n rows b must match.
    """
    b = alike(b, like, where, name)
    vector = b.ndim == 1 or (b.ndim == len(shape) - 1 and tuple(b.shape) == tuple(shape[:-1]))
    b = b.unsqueeze(-1) if vector else b
    if b.ndim < 2 or b.shape[-2] != shape[-2]:
        given = tuple(b.shape[:-1]) if vector else tuple(b.shape)
        raise InvalidInput(
            f"{where}: {name} has shape {given} beside a matrix of shape {tuple(shape)}; "
            f"its rows must be {shape[-2]}, as in ({shape[-2]},) or (..., {shape[-2]}, k)"
        )
    try:
        torch.broadcast_shapes(tuple(shape[:-2]), b.shape[:-2])
    except RuntimeError as error:
        raise InvalidInput(
            f"{where}: the batches {tuple(shape[:-2])} of the matrices and {tuple(b.shape[:-2])} of "
            f"{name} do not broadcast; make them equal, or one of them 1"
        ) from error
    return b, vector


def number(value: Any, where: str, name: str, accept: Callable[[float], bool], rule: str) -> float:
    """The value as a float; refused with the rule in words unless it is a real number that is accepted.

    >>> number(2, "sharpen", "amount", lambda v: v > 0, "positive")
    2.0
    """
    if not is_number(value) or not accept(float(value)):
        raise InvalidInput(f"{where}: {name} is {value!r}; it must be {rule}")
    return float(value)


def asymmetry(A: torch.Tensor) -> tuple[float, float]:
    """The largest difference between A and its (conjugate) transpose, and the largest entry."""
    A = A.detach()
    return float((A - A.mH).abs().max()), float(A.abs().max())


def epsilon(A: torch.Tensor) -> float:
    """The relative rounding unit of the tensor's type."""
    return torch.finfo(A.dtype).eps


def element(mask: torch.Tensor) -> tuple[tuple[int, ...], str]:
    """The index of the first True in a batch and words for it; no words where there is no batch."""
    if mask.ndim == 0:
        return (), ""
    index = tuple(int(i) for i in mask.nonzero()[0])
    return index, f" (matrix {', '.join(map(str, index))} of the batch)"
