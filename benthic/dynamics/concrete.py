"""Numbers out of tensors, also inside ``torch.func`` transforms."""

from __future__ import annotations

import torch
from torch import Tensor


def is_transformed(x: Tensor) -> bool:
    """Whether a transform of ``torch.func`` is at work on a tensor."""
    return bool(torch._C._functorch.is_functorch_wrapped_tensor(x))


def concrete(x: Tensor) -> Tensor:
    """The tensor below all transforms: under ``vmap`` it has all examples.

    >>> torch.func.vmap(lambda x: x + concrete(x).max())(torch.tensor([1.0, 2.0]))
    tensor([3., 4.])
    """
    while is_transformed(x):
        x = torch._C._functorch.get_unwrapped(x)
    return x.detach()


def number(x: Tensor) -> float:
    """The largest entry; not a number if there is one."""
    return float(concrete(x).max())


def all_finite(x: Tensor) -> bool:
    """Whether every entry is finite."""
    return bool(torch.isfinite(concrete(x)).all())
