"""Forward-mode products, with torch's forward rules loaded quietly before the first one."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch.autograd import forward_ad

from benthic.base.quiet import quiet


@cache
def load_rules() -> None:
    """Make torch load its forward rules now; it compiles them with a deprecated compiler and warns the user of it."""
    with quiet(DeprecationWarning), forward_ad.dual_level():
        forward_ad.make_dual(torch.zeros(()), torch.zeros(()))


def forward_product(f: Callable[[Any], Any], x: Any, v: Any) -> tuple[Any, Any]:
    """f(x) and its derivative along v.

    >>> forward_product(torch.sin, torch.tensor(0.0), torch.tensor(2.0))
    (tensor(0.), tensor(2.))
    """
    load_rules()
    if isinstance(x, torch.Tensor):
        x = x.contiguous()  # forward mode refuses expanded tensors
    return torch.func.jvp(f, (x,), (v,))
