"""Optimizers by name: torch's own, fused where the device has a fused kernel, and the heavy ball."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from benthic.base.errors import InvalidInput, nearest
from benthic.optim.games_adam import OptimisticAdam
from benthic.optim.heavy_ball import HeavyBall
from benthic.optim.lean_adam import LeanAdam

_NAMED: dict[str, type[Optimizer]] = {
    "adam": LeanAdam,
    "adamw": torch.optim.AdamW,
    "sgd": torch.optim.SGD,
    "adagrad": torch.optim.Adagrad,
    "rmsprop": torch.optim.RMSprop,
    "adadelta": torch.optim.Adadelta,
    "radam": torch.optim.RAdam,
    "nadam": torch.optim.NAdam,
    "adamax": torch.optim.Adamax,
    "momentum": torch.optim.SGD,
    "nesterov": torch.optim.SGD,
    "heavy_ball": HeavyBall,
    "optimistic_adam": OptimisticAdam,
}
_FUSED = {"adam", "adamw", "sgd", "adagrad", "momentum", "nesterov"}
_OPTIONS: dict[str, dict[str, Any]] = {"momentum": {"momentum": 0.9}, "nesterov": {"momentum": 0.9, "nesterov": True}}

Setting = str | Mapping[str, Any] | Callable[..., Optimizer]


def optimizer_of(setting: Setting, parameters: Iterable[nn.Parameter], lr: float, l2: float = 0.0) -> Optimizer:
    r"""An optimizer from ``"adam"``, ``{"name": "sgd", "momentum": 0.9}`` or a function of (groups, lr).

    Names: sgd, momentum and nesterov (SGD with momentum 0.9), heavy_ball, adagrad, rmsprop, adadelta, adam, adamax,
    adamw, radam, nadam, optimistic_adam (for games). With g the gradient, all squares and roots entry by entry:

    .. math::

        \text{momentum:}\quad & v \leftarrow \beta v + g, \quad \theta \leftarrow \theta - \eta v \\
        \text{AdaGrad:}\quad & s \leftarrow s + g^2, \quad \theta \leftarrow \theta - \eta g / (\sqrt s + \epsilon) \\
        \text{RMSprop:}\quad & s \leftarrow \rho s + (1 - \rho) g^2, \quad
        \theta \leftarrow \theta - \eta g / (\sqrt s + \epsilon) \\
        \text{AdaDelta:}\quad & \Delta = g \sqrt{u + \epsilon} / \sqrt{s + \epsilon}, \quad
        u \leftarrow \rho u + (1 - \rho) \Delta^2, \quad \theta \leftarrow \theta - \eta \Delta \\
        \text{Adam:}\quad & \theta \leftarrow \theta - \eta \hat m / (\sqrt{\hat v} + \epsilon), \quad
        \hat m = m / (1 - \beta_1^t), \quad \hat v = v / (1 - \beta_2^t)

    Weight decay adds :math:`\mu \theta` to g, so it is multiplied by the rate like the rest of the gradient; AdamW
    instead takes :math:`\eta \mu \theta` off the parameter, past the division.

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
    options = {**_OPTIONS.get(name, {}), **options}
    if name not in _NAMED:
        raise InvalidInput(f"optimizer {name!r} is unknown{nearest(name, _NAMED)}; use one of {', '.join(_NAMED)}")
    if name in _FUSED and all(p.device.type in ("cpu", "cuda") and p.is_floating_point() for p in held):
        options.setdefault("fused", True)
    try:
        make: Callable[..., Optimizer] = _NAMED[name]
        return make(groups, lr=lr, **options)
    except TypeError as error:
        raise InvalidInput(f"optimizer {name!r}: {error}") from error
