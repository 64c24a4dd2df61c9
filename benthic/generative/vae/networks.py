"""Encoders and decoders for rows, pictures, or as the user brings them."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from benthic.base.errors import InvalidInput
from benthic.base.settings import sizes
from benthic.nets.conv import ConvDecoder, ConvEncoder, default_channels, padding_of
from benthic.nets.evaluate import dry_run
from benthic.nets.mlp import MLP

NETWORKS = ("auto", "mlp", "conv")


@dataclass(frozen=True)
class Plan:
    """What the networks of an autoencoder are built from.

    kind: ``mlp``, ``conv``, or a pair of the user's modules. event: the shape of an example. hidden: widths of fully
    connected layers, mirrored in the decoder. channels: of convolutions. planes: of numbers the encoder sees for every
    column, two when it also sees what is missing. conditions: numbers that both networks are given besides.
    """

    kind: Any
    event: tuple[int, ...]
    hidden: tuple[int, ...] = ()
    channels: tuple[int, ...] = ()
    activation: str = "relu"
    planes: int = 1
    conditions: int = 0

    @property
    def width(self) -> int:
        """Columns or pixels."""
        return math.prod(self.event)

    def encoder(self, outputs: int) -> nn.Module:
        """A module from rows (n, planes * width + conditions) to (n, outputs)."""
        if self.kind == "conv":
            event = _picture(self.event)
            return ConvEncoder(
                event, self.channels, outputs, self.activation, planes=self.planes, extra=self.conditions
            )
        if self.kind == "mlp":
            return MLP([self.planes * self.width + self.conditions, *self.hidden, outputs], self.activation)
        return OwnEncoder(self.kind[0], self.event, self.conditions, outputs)

    def decoder(self, inputs: int, outputs: int) -> nn.Module:
        """A module from codes (..., n, inputs) to (..., n, outputs); conditions are part of the inputs."""
        if self.kind == "conv":
            planes = outputs // self.width
            return ConvDecoder(inputs, self.channels, _picture(self.event), self.activation, planes=planes)
        if self.kind == "mlp":
            return MLP([inputs, *reversed(self.hidden), outputs], self.activation)
        return OwnDecoder(self.kind[1], inputs, outputs)

    def notes(self) -> dict[str, Any]:
        """What a person should know of the networks, for the summary."""
        if self.kind != "conv":
            return {}
        _, height, width = _picture(self.event)
        down, right = padding_of((height, width), len(self.channels))
        if not (down or right):
            return {"channels": "-".join(map(str, self.channels))}
        return {"pictures": f"padded from {height} x {width} to {height + down} x {width + right} to be halved"}


def plan_of(
    network: Any,
    event: Sequence[int],
    hidden: Any,
    channels: Any,
    activation: str,
    *,
    planes: int = 1,
    conditions: int = 0,
) -> Plan:
    """The plan for examples of this shape; ``auto`` takes convolutions for pictures of at least 8 by 8 pixels."""
    event = tuple(event)
    picture = len(event) == 3
    if network == "auto":
        network = "conv" if picture and min(event[1:]) >= 8 else "mlp"
    if network == "conv" and not picture:
        raise InvalidInput(f"network='conv' needs pictures (n, c, h, w); the examples have shape {event}")
    if isinstance(network, str) and network not in NETWORKS:
        raise InvalidInput(f"network {network!r} is unknown; use 'auto', 'mlp', 'conv' or a pair (encoder, decoder)")
    if not isinstance(network, str):
        _check_pair(network, planes)
    widths = sizes("hidden_layer_sizes", hidden, empty=True)
    given = () if channels is None else sizes("channels", channels, empty=True)
    shrink = default_channels(*event[1:]) if channels is None and network == "conv" else given
    if network == "conv" and (not shrink or (1 << len(shrink)) > 2 * min(event[1:])):
        raise InvalidInput(f"channels {shrink} halve the picture {len(shrink)} times; {event[1:]} pixels allow fewer")
    return Plan(network, event, widths, shrink, activation, planes, conditions)


def _check_pair(network: Any, planes: int) -> None:
    good = isinstance(network, (tuple, list)) and len(network) == 2
    if not good or not all(isinstance(part, nn.Module) for part in network):
        raise InvalidInput("network is neither a name nor a pair of modules; pass (encoder, decoder)")
    if planes > 1:
        raise InvalidInput(
            "X has missing values, and modules of your own cannot be told which; impute them, or use network='mlp'"
        )


def _picture(event: tuple[int, ...]) -> tuple[int, int, int]:
    channels, height, width = event
    return channels, height, width


@torch.no_grad()
def begin_at(decoder: nn.Module, outputs: Tensor) -> None:
    """Let a decoder give about these outputs (width,) before it has learned anything, by the bias of its last layer."""
    layers = [m for m in decoder.modules() if isinstance(m, (nn.Linear, nn.ConvTranspose2d)) and m.bias is not None]
    if not layers or isinstance(decoder, OwnDecoder):
        return
    bias = layers[-1].bias
    if len(outputs) % len(bias) == 0:  # a channel's bias serves all of its pixels
        bias += outputs.reshape(len(bias), -1).mean(1).to(bias)


class OwnEncoder(nn.Module):
    """A user's module on examples (n, *event), followed by a linear layer on its flat features and the conditions."""

    def __init__(self, module: nn.Module, event: tuple[int, ...], conditions: int, outputs: int) -> None:
        super().__init__()
        self.body, self.event, self.pixels = copy.deepcopy(module), event, math.prod(event)
        features = dry_run(self.body, (2, *event), "encoder").flatten(1).shape[1]
        self.head = nn.Linear(features + conditions, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Rows (n, width + conditions) to (n, outputs)."""
        features = self.body(x[:, : self.pixels].reshape(-1, *self.event)).flatten(1)
        return self.head(torch.cat([features, x[:, self.pixels :]], 1))


class OwnDecoder(nn.Module):
    """A user's module from codes (n, inputs) to ``outputs`` numbers, in any shape."""

    def __init__(self, module: nn.Module, inputs: int, outputs: int) -> None:
        super().__init__()
        self.body = copy.deepcopy(module)
        found = dry_run(self.body, (2, inputs), "decoder").flatten(1).shape[1]
        if found != outputs:
            raise InvalidInput(f"the decoder gives {found} numbers for each code; this model needs {outputs}")

    def forward(self, z: Tensor) -> Tensor:
        """Codes (..., inputs) to (..., outputs)."""
        return self.body(z.reshape(-1, z.shape[-1])).reshape(*z.shape[:-1], -1)
