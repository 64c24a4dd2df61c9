"""The network of an energy model: a body for rows, pictures or of the user, on a reference that confines it."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from benthic.base.errors import InvalidInput
from benthic.nets.activations import activation
from benthic.nets.conv import default_channels, padding_of
from benthic.nets.mlp import MLP
from benthic.nets.twice import Conv2d

NETWORKS = ("auto", "mlp", "conv", "denoiser")
REFERENCES = ("auto", "normal", "box", "none")
_NEAR = 0.01  # distance a pixel, of standardized data, below which an energy is smooth


class EnergyNetwork(nn.Module):
    r"""An energy f(x), where p(x) is proportional to exp(−f(x)).

    .. math:: f(x) = \frac{g(x)}{T} + r(x)

    body: g, from rows (n, d) to (n,). temperature: T. reference: r, which keeps the law normalizable: ``normal`` is
    :math:`\frac12 \|x\|^2`, so that the law is a tilted normal one (Xie et al., 2016); ``box`` rises outside
    ``limits``, the least and the greatest value, as half of ``wall`` times the squared distance; ``none`` is 0. The
    parameter ``log_normalizer`` is learned where the objective asks for it.

    >>> network = EnergyNetwork(RowEnergy(2, (8,), "silu"), reference="normal")
    >>> bool(torch.allclose(network(torch.ones(3, 2)), torch.ones(3)))  # nothing is learned yet
    True
    """

    def __init__(
        self,
        body: nn.Module,
        *,
        temperature: float = 1.0,
        reference: str = "none",
        limits: tuple[float, float] = (-1.0, 1.0),
        wall: float = 1.0,
    ) -> None:
        super().__init__()
        self.body, self.temperature, self.reference, self.limits, self.wall = body, temperature, reference, limits, wall
        self.log_normalizer = nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        """The energy (n,) of rows (n, d)."""
        return self.parts(x)[1]

    def parts(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """What the body says of rows (n, d), and the energy made of it, (n,) each."""
        raw: Tensor = self.body(x)
        energy = raw / self.temperature
        if self.reference == "normal":
            energy = energy + 0.5 * x.square().sum(-1)
        elif self.reference == "box":
            energy = energy + 0.5 * self.wall * (x - x.clamp(*self.limits)).square().sum(-1)
        return raw, energy


class RowEnergy(nn.Module):
    """Rows (n, width) through fully connected layers to one number each, which is zero before training."""

    def __init__(self, width: int, hidden: Sequence[int], nonlinearity: str) -> None:
        super().__init__()
        sizes = [width, *hidden]
        self.trunk = nn.Sequential(MLP(sizes, nonlinearity), activation(nonlinearity)) if hidden else nn.Identity()
        self.size = sizes[-1]
        self.head = nn.Linear(self.size, 1)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def features(self, x: Tensor) -> Tensor:
        """What the last hidden layer makes of rows, (n, k)."""
        found: Tensor = self.trunk(x)
        return found

    def forward(self, x: Tensor) -> Tensor:
        """(n, width) to (n,)."""
        energy: Tensor = self.head(self.features(x))
        return energy[..., 0]


class PictureEnergy(nn.Module):
    """Flat pictures (n, c h w) through residual convolutions, halved at each entry of ``channels``, to one number each.

    There is no normalization, which would hide from the energy how far a picture is from the data. The head adds
    squares of features to features, since energies are about quadratic in the distance from the data.

    >>> PictureEnergy((1, 8, 8), (8, 16), "silu")(torch.zeros(2, 64)).shape
    torch.Size([2])
    """

    def __init__(self, event: tuple[int, int, int], channels: Sequence[int], nonlinearity: str) -> None:
        super().__init__()
        self.event, self.padding = event, padding_of(event[1:], len(channels))
        layers: list[nn.Module] = [Conv2d(event[0], channels[0], 3, padding=1)]
        for a, b in pairwise([channels[0], *channels]):
            layers += [_Residual(a, nonlinearity), activation(nonlinearity), Conv2d(a, b, 4, 2, 1)]
        self.trunk = nn.Sequential(*layers, _Residual(channels[-1], nonlinearity), activation(nonlinearity))
        self.size = channels[-1] * _area(event, self.padding, len(channels))
        self.head = nn.Linear(self.size, 1)
        self.squares = nn.Linear(self.size, 16)

    def features(self, x: Tensor) -> Tensor:
        """What the convolutions make of flat pictures, (n, k)."""
        pictures = x.reshape(-1, *self.event)
        if any(self.padding):
            pictures = nn.functional.pad(pictures, (0, self.padding[1], 0, self.padding[0]))
        found: Tensor = self.trunk(pictures)
        return found.flatten(1)

    def forward(self, x: Tensor) -> Tensor:
        """(n, c h w) to (n,)."""
        h = self.features(x)
        energy: Tensor = self.head(h)[:, 0] + self.squares(h).square().mean(1)
        return energy


class DenoiserEnergy(nn.Module):
    r"""How far flat pictures (n, c h w) are from what a network makes of them, which learns to take noise away.

    .. math:: g(x) = \sqrt{d}\, \| x - D(x) \|

    After Salimans & Ho, 2021, with the distance in place of its square: of noise at any level :math:`\sigma` one energy
    is then right, since the slope of :math:`\| x - D(x) \|` is as long at all distances, and before D has learned
    anything it already points away from noise. D halves the picture at each entry of ``channels`` and doubles it again,
    with ways across; its input is scaled by its own size.

    >>> DenoiserEnergy((1, 8, 8), (8, 16), "silu")(torch.zeros(2, 64)).shape
    torch.Size([2])
    """

    def __init__(self, event: tuple[int, int, int], channels: Sequence[int], nonlinearity: str) -> None:
        super().__init__()
        self.event, self.padding = event, padding_of(event[1:], len(channels))
        pairs, last = list(pairwise([channels[0], *channels])), channels[-1]
        self.size = last * _area(event, self.padding, len(channels))
        self.first = Conv2d(event[0], channels[0], 3, padding=1)
        self.down = nn.ModuleList(_Residual(a, nonlinearity) for a, _ in pairs)
        self.halve = nn.ModuleList(Conv2d(a, b, 4, 2, 1) for a, b in pairs)
        self.middle = nn.Sequential(_Residual(last, nonlinearity), _Residual(last, nonlinearity))
        self.across = nn.ModuleList(Conv2d(a + b, a, 3, padding=1) for a, b in reversed(pairs))
        self.up = nn.ModuleList(_Residual(a, nonlinearity) for a, _ in reversed(pairs))
        self.last = nn.Sequential(activation(nonlinearity), Conv2d(channels[0], event[0], 3, padding=1))
        for weight in self.last.parameters():
            nn.init.zeros_(weight)  # D is the middle of the data before training

    def features(self, x: Tensor) -> Tensor:
        """What the middle of the network makes of flat pictures, (n, k)."""
        return self._halved(self._pictures(x))[-1].flatten(1)

    def forward(self, x: Tensor) -> Tensor:
        """(n, c h w) to (n,)."""
        *ways, h = self._halved(self._pictures(x))
        for across, up in zip(self.across, self.up, strict=True):
            doubled = nn.functional.interpolate(h, scale_factor=2.0)
            h = up(across(torch.cat([ways.pop(), doubled], 1)))
        clean = self.last(h)[..., : self.event[1], : self.event[2]].flatten(1)
        d = clean.shape[1]
        distance: Tensor = ((x - clean).square().sum(1) + _NEAR**2 * d).sqrt()
        return math.sqrt(d) * distance

    def _pictures(self, x: Tensor) -> Tensor:
        """Pictures of about the same size of values, whatever noise is in them."""
        pictures = (x * (1.0 + x.square().mean(1, keepdim=True)).rsqrt()).reshape(-1, *self.event)
        return nn.functional.pad(pictures, (0, self.padding[1], 0, self.padding[0])) if any(self.padding) else pictures

    def _halved(self, pictures: Tensor) -> list[Tensor]:
        """Features before each halving, the widest first, and those of the middle."""
        h, ways = self.first(pictures), []
        for down, halve in zip(self.down, self.halve, strict=True):
            ways.append(down(h))
            h = halve(ways[-1])
        return [*ways, self.middle(h)]


class _Residual(nn.Module):
    """Two convolutions with a way around them."""

    def __init__(self, channels: int, nonlinearity: str) -> None:
        super().__init__()
        self.inner = nn.Sequential(
            activation(nonlinearity),
            Conv2d(channels, channels, 3, padding=1),
            activation(nonlinearity),
            Conv2d(channels, channels, 3, padding=1),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Features (n, channels, h, w) to the same shape."""
        moved: Tensor = self.inner(x)
        return x + moved


def _area(event: tuple[int, int, int], padding: tuple[int, int], halvings: int) -> int:
    """Pixels of padded pictures after so many halvings."""
    return math.prod((side + pad) >> halvings for side, pad in zip(event[1:], padding, strict=True))


class OwnEnergy(nn.Module):
    """A user's module from examples (n, *event) to one number each, (n,) or (n, 1)."""

    def __init__(self, module: nn.Module, event: tuple[int, ...]) -> None:
        super().__init__()
        self.module, self.event = copy.deepcopy(module), event
        like = next(self.module.parameters(), torch.zeros(()))
        try:
            with torch.no_grad():
                found = self.module(torch.zeros((2, *event), dtype=like.dtype, device=like.device))
        except (RuntimeError, ValueError, TypeError) as error:
            cause = str(error).splitlines()[0]
            raise InvalidInput(f"the network does not take examples of shape {event}: {cause}") from error
        if not isinstance(found, Tensor) or found.numel() != 2:
            shape = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
            raise InvalidInput(f"the network gives {shape} for 2 examples; an energy is one number each")

    def forward(self, x: Tensor) -> Tensor:
        """Rows (n, width) to (n,)."""
        energy: Tensor = self.module(x.reshape(-1, *self.event))
        return energy.reshape(len(x))


def body_of(network: Any, event: tuple[int, ...], hidden: Any, channels: Any, nonlinearity: str) -> nn.Module:
    """The body for examples of this shape; ``auto`` takes convolutions for pictures of at least 8 by 8 pixels."""
    if isinstance(network, nn.Module):
        return OwnEnergy(network, event)
    if not isinstance(network, str) or network not in NETWORKS:
        raise InvalidInput(f"network is {network!r:.60}; use {', '.join(map(repr, NETWORKS))} or a module")
    picture = len(event) == 3
    if network == "auto":
        network = "conv" if picture and min(event[1:]) >= 8 else "mlp"
    if network == "mlp":
        sizes = (hidden,) if isinstance(hidden, int) else tuple(hidden)
        if not all(isinstance(size, int) and size > 0 for size in sizes):
            raise InvalidInput(f"hidden_layer_sizes is {hidden!r}; give whole numbers of at least 1")
        return RowEnergy(math.prod(event), sizes, nonlinearity)
    if not picture:
        raise InvalidInput(f"network={network!r} needs pictures (n, c, h, w); the examples have shape {event}")
    chosen = default_channels(*event[1:]) if channels is None else tuple(channels)
    if not chosen or (1 << len(chosen)) > 2 * min(event[1:]):
        raise InvalidInput(f"channels {chosen} halve the picture {len(chosen)} times; {event[1:]} pixels allow fewer")
    kind = PictureEnergy if network == "conv" else DenoiserEnergy
    return kind((event[0], event[1], event[2]), chosen, nonlinearity)
