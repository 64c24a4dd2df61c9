"""Convolutional networks: a front that shrinks pictures, an encoder and a decoder, and a field on pictures."""

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


class ConvEncoder(nn.Module):
    """From flat pictures to numbers: convolutions that halve the picture, one for each entry of ``channels``.

    Pictures whose sides cannot be halved so often are padded with zeros at the far edges. inputs: the rows are
    (n, planes * c * h * w + extra), planes of the shape ``event`` and extra numbers, which join the flat features.

    >>> ConvEncoder((1, 28, 28), (8, 16), 5)(torch.zeros(2, 784)).shape
    torch.Size([2, 5])
    """

    def __init__(
        self,
        event: tuple[int, int, int],
        channels: Sequence[int],
        outputs: int,
        nonlinearity: str = "relu",
        *,
        planes: int = 1,
        extra: int = 0,
    ) -> None:
        super().__init__()
        self.shape = (planes * event[0], *event[1:])
        self.pixels, self.extra = math.prod(self.shape), extra
        self.padding = padding_of(event[1:], len(channels))
        layers: list[nn.Module] = []
        for a, b in pairwise([self.shape[0], *channels]):
            layers += [nn.Conv2d(a, b, 4, 2, 1), activation(nonlinearity)]
        self.body = nn.Sequential(*layers)
        small = [(side + pad) >> len(channels) for side, pad in zip(event[1:], self.padding, strict=True)]
        self.head = nn.Linear(channels[-1] * small[0] * small[1] + extra, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Rows (..., planes * c * h * w + extra) to (..., outputs)."""
        lead = x.shape[:-1]
        x = x.reshape(-1, x.shape[-1])
        pictures = x[:, : self.pixels].reshape(-1, *self.shape)
        if any(self.padding):
            pictures = nn.functional.pad(pictures, (0, self.padding[1], 0, self.padding[0]))
        features = self.body(pictures).flatten(1)
        if self.extra:
            features = torch.cat([features, x[:, self.pixels :]], 1)
        return self.head(features).reshape(*lead, -1)


class ConvDecoder(nn.Module):
    """From codes to flat pictures with ``planes`` numbers for every pixel: the mirror of ``ConvEncoder``.

    >>> ConvDecoder(5, (8, 16), (1, 28, 28))(torch.zeros(3, 2, 5)).shape
    torch.Size([3, 2, 784])
    """

    def __init__(
        self,
        inputs: int,
        channels: Sequence[int],
        event: tuple[int, int, int],
        nonlinearity: str = "relu",
        *,
        planes: int = 1,
    ) -> None:
        super().__init__()
        padding = padding_of(event[1:], len(channels))
        self.size = event[1:]
        small = [(side + pad) >> len(channels) for side, pad in zip(event[1:], padding, strict=True)]
        self.small = (channels[-1], *small)
        self.first = nn.Sequential(nn.Linear(inputs, math.prod(self.small)), activation(nonlinearity))
        layers: list[nn.Module] = []
        for a, b in pairwise([*reversed(channels), planes * event[0]]):
            layers += [nn.ConvTranspose2d(a, b, 4, 2, 1), activation(nonlinearity)]
        self.body = nn.Sequential(*layers[:-1])

    def forward(self, z: Tensor) -> Tensor:
        """Codes (..., inputs) to (..., planes * c * h * w)."""
        lead = z.shape[:-1]
        features = self.first(z.reshape(-1, z.shape[-1])).reshape(-1, *self.small)
        pictures = self.body(features)[..., : self.size[0], : self.size[1]]
        return pictures.reshape(*lead, -1)


def padding_of(size: Sequence[int], times: int) -> tuple[int, int]:
    """Rows and columns to add so that a picture can be halved so many times.

    >>> padding_of((28, 30), 2)
    (0, 2)
    """
    unit = 1 << times
    return (-size[0] % unit, -size[1] % unit)


def default_channels(height: int, width: int) -> tuple[int, ...]:
    """Channels of a ``ConvEncoder`` for pictures of this size: 32, doubled at each halving down to about 8 pixels.

    >>> default_channels(28, 28), default_channels(8, 8)
    ((32, 64), (32,))
    """
    return tuple(32 << i for i in range(max(1, halvings(height, width))))
