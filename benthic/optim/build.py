"""torch's optimizers by name, fused where the device has a fused kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from benthic.base.errors import InvalidInput, nearest

_NAMED: dict[str, type[Optimizer]] = {
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "sgd": torch.optim.SGD,
    "adagrad": torch.optim.Adagrad,
    "rmsprop": torch.optim.RMSprop,
    "adadelta": torch.optim.Adadelta,
    "radam": torch.optim.RAdam,
    "nadam": torch.optim.NAdam,
}
_FUSED = {"adam", "adamw", "sgd", "adagrad"}

Setting = str | Mapping[str, Any] | Callable[..., Optimizer]


def optimizer_of(setting: Setting, parameters: Iterable[nn.Parameter], lr: float, l2: float = 0.0) -> Optimizer:
    """An optimizer from ``"adam"``, ``{"name": "sgd", "momentum": 0.9}`` or a function of (groups, lr).

    l2: weight of the penalty ½·l2·‖w‖² on matrices and kernels; biases and norms are left free.
    """
    held = [p for p in parameters if p.requires_grad]
    groups: list[dict[str, Any]] = [{"params": held}]
    if l2:
        groups = [
            {"params": [p for p in held if p.ndim > 1], "weight_decay": l2},
            {"params": [p for p in held if p.ndim <= 1]},
        ]
        groups = [group for group in groups if group["params"]]
    if callable(setting):
        return setting(groups, lr=lr)
    options = {"name": setting} if isinstance(setting, str) else dict(setting)
    name = str(options.pop("name", "adam")).lower()
    if name not in _NAMED:
        raise InvalidInput(f"optimizer {name!r} is unknown{nearest(name, _NAMED)}; use one of {', '.join(_NAMED)}")
    if name in _FUSED and all(p.device.type in ("cpu", "cuda") and p.is_floating_point() for p in held):
        options.setdefault("fused", True)
    try:
        make: Callable[..., Optimizer] = _NAMED[name]
        return make(groups, lr=lr, **options)
    except TypeError as error:
        raise InvalidInput(f"optimizer {name!r}: {error}") from error
