"""Parameters at the door: numbers to tensors of one type, and one sentence for a wrong one."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput


def as_parameters(*values: Any) -> tuple[Tensor, ...]:
    """Tensors of one shape, type and device; without a floating tensor among them, float64.

    >>> [v.dtype for v in as_parameters(1.0, torch.zeros(2))]
    [torch.float32, torch.float32]
    """
    kinds = [v for v in values if isinstance(v, Tensor) and v.is_floating_point()]
    dtype, device = torch.float64, None
    if kinds:
        device = kinds[0].device
        dtype = kinds[0].dtype
        for other in kinds[1:]:
            dtype = torch.promote_types(dtype, other.dtype)
    made = [torch.as_tensor(v, dtype=dtype, device=device) for v in values]
    return tuple(torch.broadcast_tensors(*made))


def refuse(where: str, name: str, value: Tensor, good: Tensor, rule: str) -> None:
    """An error that shows the first bad entry of a parameter, if there is one.

    good: where the entries are allowed. rule: what they must be, as in "above 0".
    """
    if bool(good.all()):
        return
    first = float(value.detach()[~good].flatten()[0])
    raise InvalidInput(f"{where}: {name} is {first:g}; it must be {rule}")


def refuse_not_positive(where: str, **parameters: Tensor) -> None:
    """An error for the first parameter that is not finite and above zero."""
    for name, value in parameters.items():
        held = value.detach()
        refuse(where, name, held, (held > 0) & torch.isfinite(held), "finite and above 0")


def refuse_not_finite(where: str, **parameters: Tensor) -> None:
    """An error for the first parameter that is not finite."""
    for name, value in parameters.items():
        refuse(where, name, value, torch.isfinite(value.detach()), "finite")
