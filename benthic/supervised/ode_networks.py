"""The networks behind models of continuous depth: a way in, a flow, and a linear reading of where it ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor, nn

from benthic.nets.activations import activation
from benthic.nets.conv import ConvField, ConvFront, group_norm
from benthic.nets.dropout import Dropout
from benthic.nets.mlp import initialize
from benthic.nets.ode_block import MLPField, ODEBlock


class ODENetwork(nn.Module):
    """A linear lift, a flow, and a linear reading of where it ends.

    inputs, outputs: numbers of columns. width: size of the lifted rows; None lets the flow begin at the rows
    themselves. hidden, nonlinearity: of the field. dropout: of inputs, of what the lift gives and of what the flow
    gives. flow: settings of ``ODEBlock``.

    >>> import torch
    >>> ODENetwork(5, 3, 8, (16,), steps=2)(torch.zeros(4, 5)).shape
    torch.Size([4, 3])
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        width: int | None,
        hidden: Sequence[int],
        nonlinearity: str = "tanh",
        dropout: float = 0.0,
        **flow: Any,
    ) -> None:
        super().__init__()
        self.lift = nn.Identity() if width is None else nn.Linear(inputs, width)
        size = (inputs if width is None else width) + flow.get("augment", 0)
        field = MLPField(size, hidden, nonlinearity) if flow.get("t1", 1.0) else None
        self.flow = ODEBlock(field, **flow)
        self.head = nn.Linear(size, outputs)
        self.dropout = Dropout(dropout) if dropout else nn.Identity()
        for linear in (self.lift, self.head):
            if isinstance(linear, nn.Linear):
                initialize(linear, "identity")

    def forward(self, x: Tensor, per_row: bool = False) -> Tensor:
        """Outputs for rows (n, d). per_row: see ``ODEBlock``."""
        outputs: Tensor = self.head(self.dropout(self.flow(self.begin(x), per_row)))
        return outputs

    def begin(self, x: Tensor) -> Tensor:
        """Where the flow begins, (n, width)."""
        lifted: Tensor = self.dropout(self.lift(self.dropout(x)))
        return lifted.to(x.dtype)  # autocast may have made it narrower


class ImageODENetwork(nn.Module):
    """Features of pictures by convolutions, a flow of the features, and a linear reading of their means.

    The classifier of Chen et al., 2018: ``ConvFront``, ``ODEBlock`` with a ``ConvField``, then normalization, the mean
    over pixels, and a linear layer. shape: (c, h, w) of a picture. width: channels of the features; None lets the flow
    begin at the pictures themselves. hidden: channels inside the field. dropout: of the means. flow: settings of
    ``ODEBlock``; ``augment`` adds channels.

    >>> import torch
    >>> ImageODENetwork((1, 12, 10), 3, 8, (16,), steps=1)(torch.zeros(4, 120)).shape
    torch.Size([4, 3])
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        outputs: int,
        width: int | None,
        hidden: Sequence[int],
        nonlinearity: str = "relu",
        dropout: float = 0.0,
        **flow: Any,
    ) -> None:
        super().__init__()
        self.shape = shape
        self.front = nn.Identity() if width is None else ConvFront(shape[0], width, shape[1:], nonlinearity)
        channels = (shape[0] if width is None else width) + flow.get("augment", 0)
        field = ConvField(channels, hidden, nonlinearity) if flow.get("t1", 1.0) else None
        self.flow = ODEBlock(field, channel=-3, **flow)
        self.after = nn.Sequential(group_norm(channels), activation(nonlinearity))
        self.dropout = Dropout(dropout) if dropout else nn.Identity()
        self.head = nn.Linear(channels, outputs)

    def forward(self, x: Tensor, per_row: bool = False) -> Tensor:
        """Outputs for flattened pictures (n, c h w). per_row: see ``ODEBlock``."""
        features = self.after(self.flow(self.begin(x), per_row))  # (n, channels, h', w')
        outputs: Tensor = self.head(self.dropout(features.mean((2, 3))))
        return outputs

    def begin(self, x: Tensor) -> Tensor:
        """Where the flow begins, (n, channels, h', w')."""
        features: Tensor = self.front(x.reshape(-1, *self.shape))
        return features.to(x.dtype)  # autocast may have made it narrower


def by_channel(mean: np.ndarray, spread: np.ndarray, channels: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and spread of every channel, from those of its pixels (c h w,), for each of its pixels again.

    >>> [part.tolist() for part in by_channel(np.array([0.0, 2.0]), np.zeros(2), 1)]
    [[1.0, 1.0], [1.0, 1.0]]
    """
    pixels, spreads = mean.reshape(channels, -1), spread.reshape(channels, -1)
    middle = pixels.mean(1)
    whole = np.array(
        [
            np.hypot(np.linalg.norm(s), np.linalg.norm(p - m)) / np.sqrt(len(p))
            for p, s, m in zip(pixels, spreads, middle, strict=True)
        ]
    )
    size = pixels.shape[1]
    return np.repeat(middle, size), np.repeat(whole, size)
