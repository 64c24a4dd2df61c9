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
from benthic.nets.embedding import LevelEmbedding
from benthic.nets.mlp import MLP
from benthic.nets.twice import Conv2d

NETWORKS = ("auto", "mlp", "conv")
REFERENCES = ("auto", "normal", "box", "none")
_LEVEL_SCALE = 100.0  # by which logarithms of levels are spread over waves
_PRODUCTS = 64


class EnergyNetwork(nn.Module):
    r"""An energy f(x), where p(x) is proportional to exp(−f(x)).

    .. math:: f(x) = \frac{g(x)}{T} + r(x)

    body: g, from rows (n, d) to (n,). temperature: T. reference: r, which keeps the law normalizable: ``normal`` is
    :math:`\frac12 \|x\|^2`, so that the law is a tilted normal one (Xie et al., 2016); ``box`` rises outside
    ``limits``, the least and the greatest value, as half of ``wall`` times the squared distance; ``none`` is 0. The
    parameter ``log_normalizer`` is learned where the objective asks for it.

    Of data with noise of standard deviation :math:`\sigma` it is the energy :math:`f \sigma_{\min} / \sigma` (Song &
    Ermon, 2020), where ``smallest`` is :math:`\sigma_{\min}`. A ``LeveledEnergy`` as body knows the level, and has no
    temperature or reference:

    .. math:: f_\sigma(x) = \tfrac12 \|u\|^2 - \frac{g(u, \log \sigma)}{\sigma}, \qquad
        u = \frac{x}{\sqrt{1 + \sigma^2}}

    so that its slope has the size of the noise at every level (Karras et al., 2022, whose skip is the slope of the
    square); without a level that is the smallest one.

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
        smallest: float = 1.0,
    ) -> None:
        super().__init__()
        self.body, self.temperature, self.reference, self.limits, self.wall = body, temperature, reference, limits, wall
        self.smallest = smallest
        self.log_normalizer = nn.Parameter(torch.zeros(()))

    @property
    def leveled(self) -> bool:
        """Whether the body knows the level of the noise."""
        return isinstance(self.body, LeveledEnergy)

    def forward(self, x: Tensor, sigma: Tensor | None = None) -> Tensor:
        """The energy (n,) of rows (n, d), or of rows with noise of the levels ``sigma``, () or (n, 1)."""
        energy = self.parts(x, sigma)[1]
        return energy if sigma is None or self.leveled else energy * (self.smallest / sigma.reshape(-1))

    def parts(self, x: Tensor, sigma: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """What the body says of rows (n, d), and the energy made of it, (n,) each."""
        raw: Tensor
        if self.leveled:
            u, level = self._scaled(x, sigma)
            raw = self.body(u, level.log()).to(x.dtype)
            return raw, 0.5 * u.square().sum(-1) - raw / level
        raw = self.body(x)
        energy = raw / self.temperature
        if self.reference == "normal":
            energy = energy + 0.5 * x.square().sum(-1)
        elif self.reference == "box":
            energy = energy + 0.5 * self.wall * (x - x.clamp(*self.limits)).square().sum(-1)
        return raw, energy

    def features(self, x: Tensor) -> Tensor:
        """What the last hidden layer of the body makes of rows (n, d), (n, k)."""
        found: Tensor
        if self.leveled:
            u, level = self._scaled(x, None)
            found = self.body.features(u, level.log())
        else:
            found = self.body.features(x)
        return found

    def _scaled(self, x: Tensor, sigma: Tensor | None) -> tuple[Tensor, Tensor]:
        """Rows of about unit size whatever noise is in them, and its levels (n,)."""
        level = torch.full_like(x[:, 0], self.smallest) if sigma is None else sigma.to(x).reshape(-1).expand(len(x))
        return x * (1 + level[:, None].square()).rsqrt(), level


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
        found: Tensor = self.trunk(_padded(x.reshape(-1, *self.event), self.padding))
        return found.flatten(1)

    def forward(self, x: Tensor) -> Tensor:
        """(n, c h w) to (n,)."""
        h = self.features(x)
        energy: Tensor = self.head(h)[:, 0] + self.squares(h).square().mean(1)
        return energy


class LeveledEnergy(nn.Module):
    """Flat pictures (n, c h w) with noise of a known level through residual convolutions to one number each.

    The picture is halved before the residual blocks of each entry of ``channels``, which the level scales and shifts.
    There is no decoder: the slope of a number in the picture is what would be one. The head adds products of features
    to features, since energies are about quadratic in the distance from the data.

    >>> LeveledEnergy((1, 8, 8), (8, 16), "silu")(torch.zeros(2, 64), torch.zeros(2)).shape
    torch.Size([2])
    """

    def __init__(self, event: tuple[int, int, int], channels: Sequence[int], nonlinearity: str) -> None:
        super().__init__()
        self.event, self.padding = event, padding_of(event[1:], len(channels))
        width = 4 * max(channels)
        self.level = nn.Sequential(LevelEmbedding(width, 32, scale=_LEVEL_SCALE), activation(nonlinearity))
        pairs = list(pairwise([event[0], *channels]))
        self.halve = nn.ModuleList(Conv2d(a, b, 4, 2, 1) for a, b in pairs)
        self.blocks = nn.ModuleList(_Residual(b, nonlinearity, width) for _, b in pairs)
        self.last = activation(nonlinearity)
        self.size = channels[-1] * _area(event, self.padding, len(channels))
        self.head = nn.Linear(self.size, 1)
        self.one, self.two = nn.Linear(self.size, _PRODUCTS), nn.Linear(self.size, _PRODUCTS)

    def features(self, x: Tensor, log_sigma: Tensor) -> Tensor:
        """What the convolutions make of flat pictures, (n, k)."""
        h, level = _padded(x.reshape(-1, *self.event), self.padding), self.level(log_sigma)
        for halve, block in zip(self.halve, self.blocks, strict=True):
            h = block(halve(h), level)
        found: Tensor = self.last(h)
        return found.flatten(1)

    def forward(self, x: Tensor, log_sigma: Tensor) -> Tensor:
        """(n, c h w) and logarithms of levels (n,) to (n,)."""
        h = self.features(x, log_sigma)
        worth: Tensor = self.head(h)[:, 0] + (self.one(h) * self.two(h)).mean(1)
        return worth


class _Residual(nn.Module):
    """Two convolutions with a way around them; steer: width of a vector that scales and shifts what is between them."""

    def __init__(self, channels: int, nonlinearity: str, steer: int = 0) -> None:
        super().__init__()
        self.first = nn.Sequential(activation(nonlinearity), Conv2d(channels, channels, 3, padding=1))
        self.second = nn.Sequential(activation(nonlinearity), Conv2d(channels, channels, 3, padding=1))
        self.steer = nn.Linear(steer, 2 * channels) if steer else None
        if self.steer is not None:
            nn.init.zeros_(self.steer.weight)
            nn.init.zeros_(self.steer.bias)

    def forward(self, x: Tensor, e: Tensor | None = None) -> Tensor:
        """Features (n, channels, h, w), and vectors (n, steer) where they steer, to the same shape as the features."""
        h = self.first(x)
        if self.steer is not None:
            scale, shift = self.steer(e)[:, :, None, None].chunk(2, 1)
            h = h * (1 + scale) + shift
        moved: Tensor = self.second(h)
        return x + moved


def _padded(pictures: Tensor, padding: tuple[int, int]) -> Tensor:
    """Pictures (n, c, h, w) with rows and columns of zeros below and to the right."""
    return nn.functional.pad(pictures, (0, padding[1], 0, padding[0])) if any(padding) else pictures


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


def kind_of(network: Any, event: tuple[int, ...]) -> str:
    """``own``, ``mlp`` or ``conv``; ``auto`` takes convolutions for pictures of at least 8 by 8 pixels."""
    if isinstance(network, nn.Module):
        return "own"
    if not isinstance(network, str) or network not in NETWORKS:
        raise InvalidInput(f"network is {network!r:.60}; use {', '.join(map(repr, NETWORKS))} or a module")
    if network == "auto":
        return "conv" if len(event) == 3 and min(event[1:]) >= 8 else "mlp"
    if network == "conv" and len(event) != 3:
        raise InvalidInput(f"network={network!r} needs pictures (n, c, h, w); the examples have shape {event}")
    return network


def _whole(sizes: Any, name: str) -> tuple[int, ...]:
    """Sizes of layers, one or several."""
    made = tuple(sizes) if isinstance(sizes, Sequence) else (sizes,)
    if not all(isinstance(size, int) and size > 0 for size in made):
        raise InvalidInput(f"{name} is {sizes!r}; give whole numbers of at least 1")
    return made


def body_of(
    network: Any, event: tuple[int, ...], hidden: Any, channels: Any, nonlinearity: str, *, leveled: bool = False
) -> nn.Module:
    """The body for examples of this shape; leveled: whether convolutions are told the level of the noise."""
    kind = kind_of(network, event)
    if kind == "own":
        return OwnEnergy(network, event)
    if kind == "mlp":
        return RowEnergy(math.prod(event), _whole(hidden, "hidden_layer_sizes"), nonlinearity)
    chosen = default_channels(*event[1:]) if channels is None else _whole(channels, "channels")
    if not chosen or (1 << len(chosen)) > 2 * min(event[1:]):
        raise InvalidInput(f"channels {chosen} halve the picture {len(chosen)} times; {event[1:]} pixels allow fewer")
    made = LeveledEnergy if leveled else PictureEnergy
    return made((event[0], event[1], event[2]), chosen, nonlinearity)
