"""Convolutional networks: a front that shrinks pictures, and a field on pictures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from benthic.nets.activations import activation

_SIDE = 8  # pictures are halved until their shorter side is at most this long
_GROUPS = 32


def group_norm(channels: int) -> nn.GroupNorm:
    """Normalization over groups of channels (Wu & He, 2018), in up to 32 groups of equal size.

    >>> group_norm(48).num_groups
    16
    """
    return nn.GroupNorm(math.gcd(channels, _GROUPS), channels)


def halvings(height: int, width: int) -> int:
    """How often pictures are halved on their way through a ``ConvFront``.

    >>> halvings(28, 28), halvings(8, 8), halvings(224, 160)
    (2, 0, 5)
    """
    return max(0, math.ceil(math.log2(min(height, width) / _SIDE)))


class ConvFront(nn.Sequential):
    """From pictures to features: a convolution, then halvings until the shorter side is at most 8.

    As in the classifier of Chen et al., 2018, whatever the size: pictures (n, inputs, h, w) become features
    (n, channels, h', w'), where 28 by 28 pixels become 7 by 7 and 8 by 8 remain.

    >>> ConvFront(3, 16, (28, 28))(torch.zeros(2, 3, 28, 28)).shape
    torch.Size([2, 16, 7, 7])
    """

    def __init__(self, inputs: int, channels: int, size: tuple[int, int], nonlinearity: str = "relu") -> None:
        layers: list[nn.Module] = [nn.Conv2d(inputs, channels, 3, padding=1)]
        for _ in range(halvings(*size)):
            layers += [group_norm(channels), activation(nonlinearity), nn.Conv2d(channels, channels, 4, 2, 1)]
        super().__init__(*layers)


class ConvField(nn.Module):
    r"""A field on pictures: convolutions of 3 by 3 pixels, whose first one also sees the time.

    .. math:: f(t, z) = \nu_L(W_L * \phi(\nu(\cdots \phi(\nu(W_1 * \phi(\nu_0(z)) + t\, u)))))

    where every :math:`\nu` normalizes groups of channels (Chen et al., 2018). channels: of the state. hidden: channels
    between. It starts near zero, so that the flow starts near the identity.

    >>> ConvField(4, (8,))(torch.tensor(0.5), torch.zeros(2, 4, 7, 7)).shape
    torch.Size([2, 4, 7, 7])
    """

    def __init__(self, channels: int, hidden: Sequence[int] = (64,), nonlinearity: str = "relu") -> None:
        super().__init__()
        widths = [channels, *hidden, channels]
        self.before = nn.Sequential(group_norm(channels), activation(nonlinearity))
        self.first = nn.Conv2d(widths[0], widths[1], 3, padding=1)
        self.time = nn.Parameter(torch.empty(widths[1], 1, 1).uniform_(-1.0, 1.0))
        rest: list[nn.Module] = []
        for a, b in pairwise(widths[1:]):
            rest += [group_norm(a), activation(nonlinearity), nn.Conv2d(a, b, 3, padding=1)]
        self.rest = nn.Sequential(*rest, group_norm(channels))
        nn.init.constant_(self.rest[-1].weight, 0.1)

    def forward(self, t: Tensor, z: Tensor) -> Tensor:
        """The slope at time t, () or (n, 1, 1, 1), of states (n, channels, h, w)."""
        slope: Tensor = self.rest(self.first(self.before(z)) + t * self.time)
        return slope
