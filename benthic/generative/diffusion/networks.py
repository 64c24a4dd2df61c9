"""Networks for rows and pictures, or as the user brings them, that answer what a denoiser asks."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn

from benthic.base.errors import InvalidInput, nearest
from benthic.generative.diffusion.process import Process
from benthic.generative.diffusion.processes import AddedNoise
from benthic.nets.denoising_mlp import DenoisingMLP
from benthic.nets.embedding import null_condition
from benthic.nets.unet import UNet, default_unet

NETWORKS = ("auto", "mlp", "unet")
_LEAST_PIXELS = 8  # a side of pictures from which on ``auto`` takes convolutions
_SPAN = 1000.0  # times are spread over so many units for the sinusoids of the embedding
_LEVEL_SCALE = 50.0  # and so is the logarithm of the noise
_DATA_DECIDE = {"shape", "outputs", "condition", "condition_size"}  # settings of a U-Net that are not the user's


@dataclass(frozen=True)
class NetworkPlan:
    """What a network is built from.

    setting: ``auto``, ``mlp``, ``unet`` or a module of the user's. event: the shape of an example. hidden, depth: of
    dense layers. options: changes of ``default_unet``. condition: its kind, and the shape of one: (classes,), (size,)
    or (c, h, w). answers: ``plain``, ``variance`` (also a fraction) or ``field`` (also a number a row).
    """

    setting: Any
    event: tuple[int, ...]
    process: Process
    hidden: int = 256
    depth: int = 3
    dropout: float = 0.0
    options: Any = None
    condition: str = "none"
    condition_shape: tuple[int, ...] = ()
    answers: str = "plain"

    @property
    def kind(self) -> str:
        """``mlp``, ``unet`` or ``own``."""
        if not isinstance(self.setting, str):
            return "own"
        if self.setting != "auto":
            return self.setting
        return "unet" if len(self.event) == 3 and min(self.event[1:]) >= _LEAST_PIXELS else "mlp"

    @property
    def sees(self) -> str:
        """What the network is told: the noise level where time is the noise itself, else the time."""
        return "level" if isinstance(self.process, AddedNoise) or hasattr(self.process, "log_snrs") else "time"

    @property
    def level_scale(self) -> float:
        """What the network multiplies that by."""
        return _LEVEL_SCALE if self.sees == "level" else _SPAN / self.process.t_max

    def check(self) -> None:
        """Refuse what cannot be built."""
        if isinstance(self.setting, str) and self.setting not in NETWORKS:
            hint = nearest(self.setting, NETWORKS)
            raise InvalidInput(f"network {self.setting!r} is unknown{hint}; use {', '.join(NETWORKS)} or a module")
        if not isinstance(self.setting, (str, nn.Module)):
            raise InvalidInput("network is neither a name nor a module that takes (x, level) or (x, level, condition)")
        if self.kind == "unet" and len(self.event) != 3:
            raise InvalidInput(f"network='unet' needs pictures (n, c, h, w); the examples have shape {self.event}")
        if self.options is not None and not isinstance(self.options, Mapping):
            raise InvalidInput(f"unet is {self.options!r}; give a dict of its settings, such as {{'channels': 64}}")
        known = {*signature(UNet).parameters} - _DATA_DECIDE
        for name in self.options or ():
            if name not in known:
                hint = nearest(str(name), known)
                raise InvalidInput(f"unet has no setting {name!r}{hint}; it has {', '.join(sorted(known))}")
        if self.condition == "images" and self.kind == "mlp":
            raise InvalidInput("pictures as conditions need network='unet', or a module of your own")

    def build(self) -> nn.Module:
        """An untrained network: x (n, *event), level (n,), condition to the answer."""
        self.check()
        if self.kind == "own":
            return _own(self)
        size = self.condition_shape[0] if self.condition_shape else 0
        shared = {"condition": self.condition, "condition_size": size, "level_scale": self.level_scale}
        extra = {"plain": 0, "variance": self.event[0], "field": 1}[self.answers]
        if self.kind == "unet":
            changes = {**shared, "dropout": self.dropout, **dict(self.options or {})}
            body: nn.Module = default_unet(self.event, outputs=self.event[0] + extra, **changes)
        else:
            width = int(torch.Size(self.event).numel())
            extra = width if self.answers == "variance" else extra
            body = FlatNetwork(width + extra, self.event, self.hidden, self.depth, self.dropout, shared)
        return body if self.answers == "plain" else SplitNetwork(body, self.answers, self.event)

    def notes(self, network: nn.Module) -> dict[str, Any]:
        """What a person should know of the network, for the summary."""
        body: Any = network.body if isinstance(network, SplitNetwork) else network
        named = {"network": {"mlp": "fully connected", "unet": "U-Net", "own": type(body).__name__}[self.kind]}
        return {**named, **(body.notes() if isinstance(body, UNet) else {})}


class FlatNetwork(nn.Module):
    """Dense layers on flat examples, whose answer has their shape where it can."""

    def __init__(
        self, outputs: int, event: Sequence[int], hidden: int, depth: int, dropout: float, shared: dict[str, Any]
    ) -> None:
        super().__init__()
        self.event = tuple(event)
        width = int(torch.Size(self.event).numel())
        self.plain = outputs == width
        self.body = DenoisingMLP(width, outputs=outputs, hidden=hidden, depth=depth, dropout=dropout, **shared)

    def forward(self, x: Tensor, level: Tensor, condition: Tensor | None = None) -> Tensor:
        """Examples (n, *event) at levels (n,) to answers of the same shape, or (n, outputs)."""
        found: Tensor = self.body(x.flatten(1), level, condition)
        return found.view(len(x), *self.event) if self.plain else found


class SplitNetwork(nn.Module):
    """A network whose outputs are an answer and something beside it.

    kind: ``variance``, a fraction in (0, 1) for each entry; ``field``, one positive number for each row.
    """

    def __init__(self, body: nn.Module, kind: str, event: Sequence[int]) -> None:
        super().__init__()
        self.body, self.kind, self.event = body, kind, tuple(event)

    def forward(self, x: Tensor, level: Tensor, condition: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Examples (n, *event) to the answer (n, *event) and fractions (n, *event), or numbers (n,)."""
        found = self.body(x, level, condition)
        size = self.event[0] if found.ndim > 2 else int(torch.Size(self.event).numel())
        answer, rest = found[:, :size].reshape(len(x), *self.event), found[:, size:]
        if self.kind == "variance":
            return answer, torch.sigmoid(rest).reshape(len(x), *self.event)
        return answer, nn.functional.softplus(rest.flatten(1).mean(1) + 1.0)


def _own(plan: NetworkPlan) -> nn.Module:
    """A copy of the user's module, tried on two examples."""
    module: nn.Module = copy.deepcopy(plan.setting)
    like = next(module.parameters(), torch.zeros(()))
    x = torch.zeros((2, *plan.event), dtype=like.dtype, device=like.device)
    level = torch.ones(2, dtype=like.dtype, device=like.device)
    inputs = [x, level]
    if plan.condition != "none":
        inputs.append(null_condition(plan.condition, plan.condition_shape, 2, x))
    try:
        with torch.no_grad():
            found = module(*inputs)
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        cause = str(error).splitlines()[0]
        raise InvalidInput(
            f"the network does not take examples of shape {plan.event} with {len(inputs) - 1} more arguments: {cause}"
        ) from error
    first = found[0] if isinstance(found, tuple) else found
    if isinstance(found, tuple) != (plan.answers != "plain"):
        beside = {"variance": "fractions between 0 and 1 of its shape", "field": "the field away from the data, (n,)"}
        wanted = "one tensor" if plan.answers == "plain" else f"a pair, its answer and {beside[plan.answers]}"
        raise InvalidInput(f"the network answers with a {type(found).__name__}; it must answer with {wanted}")
    if first.shape != x.shape:
        raise InvalidInput(f"the network answers {tuple(first.shape)} for {tuple(x.shape)}; they must match")
    return module
