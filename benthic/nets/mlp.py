"""Fully connected networks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from torch import nn

from benthic.nets.activations import activation
from benthic.nets.dropout import Dropout


class MLP(nn.Sequential):
    """Linear layers with activations between them.

    widths: sizes from input to output. dropout: probability of dropping a hidden unit; kept units are scaled.

    >>> sum(p.numel() for p in MLP([3, 4, 2]).parameters())
    26
    """

    def __init__(self, widths: Sequence[int], nonlinearity: str = "relu", dropout: float = 0.0) -> None:
        layers: list[nn.Module] = []
        for i, (a, b) in enumerate(pairwise(widths)):
            linear = nn.Linear(a, b)
            initialize(linear, nonlinearity if i < len(widths) - 2 else "identity")
            layers.append(linear)
            if i < len(widths) - 2:
                layers.append(activation(nonlinearity))
                if dropout:
                    layers.append(Dropout(dropout))
        super().__init__(*layers)


def initialize(linear: nn.Linear, nonlinearity: str) -> None:
    """He's fan-in variance before rectifiers, Glorot's before others.

    Biases are small and random, so that the kinks of rectifiers lie spread over the data.
    """
    if nonlinearity in ("relu", "leaky_relu", "elu", "gelu", "silu"):
        nn.init.kaiming_uniform_(linear.weight, nonlinearity="relu")
    else:
        nn.init.xavier_uniform_(linear.weight)
    bound = linear.in_features**-0.5
    nn.init.uniform_(linear.bias, -bound, bound)
