"""From noise to pictures: convolutions that double the size of a picture, plain or in residual blocks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from benthic.base.errors import InvalidInput, nearest
from benthic.base.settings import sizes
from benthic.nets.activations import activation
from benthic.nets.batchnorms import ConditionalBatchNorm, ReferenceBatchNorm, VirtualBatchNorm
from benthic.nets.conv import group_norm, padding_of

UPSAMPLINGS = ("transposed", "resize")
GENERATOR_NORMS = ("batch", "conditional", "virtual", "reference", "group", "none")
_SMALL = 7  # pictures grow from a shorter side of at most this many pixels
_WIDEST = 512


def doublings(height: int, width: int) -> int:
    """How often a generator doubles its smallest picture to reach this size.

    >>> doublings(28, 28), doublings(8, 8), doublings(64, 64)
    (2, 1, 4)
    """
    return max(1, math.ceil(math.log2(min(height, width) / _SMALL)))


def gan_channels(height: int, width: int, base: int = 64) -> tuple[int, ...]:
    """Channels of a ``ConvCritic``, and backwards of a ``ConvGenerator``, for pictures of this size.

    >>> gan_channels(28, 28), gan_channels(64, 64)
    ((64, 128), (64, 128, 256, 512))
    """
    return tuple(min(base << i, _WIDEST) for i in range(doublings(height, width)))


def check_channels(channels: Sequence[int], size: Sequence[int]) -> tuple[int, ...]:
    """The channels as a tuple, where pictures of this size can be halved so often."""
    found = sizes("channels", channels)
    if (1 << len(found)) > 2 * min(size):
        raise InvalidInput(f"channels {found} halve the picture {len(found)} times; {tuple(size)} pixels allow fewer")
    return found


def norm_of(kind: str, channels: int, *, classes: int = 0, rows: int = 0) -> nn.Module:
    """A normalization by name; classes: of ``conditional``; rows: of the reference batch."""
    if kind == "conditional" and classes:
        return ConditionalBatchNorm(channels, classes)
    if kind in ("virtual", "reference") and rows:
        return (VirtualBatchNorm if kind == "virtual" else ReferenceBatchNorm)(channels, rows)
    kinds = {"batch": nn.BatchNorm2d, "group": group_norm, "instance": _instance, "none": lambda _: nn.Identity()}
    if kind not in kinds:
        raise InvalidInput(f"norm {kind!r} is unknown{nearest(str(kind), kinds)}, or needs classes or a reference")
    return kinds[kind](channels)


def _instance(channels: int) -> nn.Module:
    return nn.InstanceNorm2d(channels, affine=True)


def check_upsampling(upsampling: str) -> None:
    """Refuse what is not a way to double a picture."""
    if upsampling not in UPSAMPLINGS:
        raise InvalidInput(
            f"upsampling is {upsampling!r}{nearest(str(upsampling), UPSAMPLINGS)}; use 'transposed' or 'resize'"
        )


def doubling(inputs: int, outputs: int, upsampling: str = "transposed") -> nn.Module:
    """A layer that doubles pictures: a transposed convolution, or nearest neighbors and a convolution.

    Transposed kernels of 4 pixels and a stride of 2 overlap evenly; resizing makes no checkerboards at all (Odena et
    al., 2016).

    >>> doubling(3, 5, "resize")(torch.zeros(2, 3, 7, 7)).shape
    torch.Size([2, 5, 14, 14])
    """
    check_upsampling(upsampling)
    if upsampling == "transposed":
        return nn.ConvTranspose2d(inputs, outputs, 4, 2, 1)
    return nn.Sequential(nn.Upsample(scale_factor=2, mode="nearest"), nn.Conv2d(inputs, outputs, 3, 1, 1))


def dense_layer(linear: nn.Module, batch: bool, curve: nn.Module) -> nn.Sequential:
    """A fully connected layer, its batch norm if it has one, and its activation."""
    return nn.Sequential(linear, *([nn.BatchNorm1d(int(linear.out_features))] if batch else []), curve)


class ConvGenerator(nn.Module):
    """Noise to pictures: a linear layer to a small picture, then doublings (Radford et al., 2016).

    inputs: numbers of noise and codes. event: (c, h, w). channels: from the picture inward, one for each doubling;
    a picture whose sides cannot be halved so often is made larger and cropped at the far edges. norm: ``batch`` (as in
    the paper, after every layer but the last), ``conditional`` (needs classes), ``virtual`` or ``reference`` (with
    ``rows`` reference rows first, see ``Referenced``), ``group`` or ``none``. upsampling: see ``doubling``. output:
    an activation at the end. residual: blocks of two convolutions with a way around them instead of plain layers.
    dense: units of one more fully connected layer before all others, with batch norm if the rest has it; 0 for none.

    >>> ConvGenerator(8, (1, 28, 28))(torch.zeros(2, 8)).shape
    torch.Size([2, 1, 28, 28])
    """

    def __init__(
        self,
        inputs: int,
        event: tuple[int, int, int],
        channels: Sequence[int] | None = None,
        *,
        norm: str = "batch",
        upsampling: str = "transposed",
        nonlinearity: str = "relu",
        output: str = "tanh",
        residual: bool = False,
        dense: int = 0,
        classes: int = 0,
        rows: int = 0,
    ) -> None:
        super().__init__()
        chosen = check_channels(channels or gan_channels(*event[1:]), event[1:])
        self.inputs, self.event = inputs, tuple(event)
        padding = padding_of(event[1:], len(chosen))
        small = [(side + pad) >> len(chosen) for side, pad in zip(event[1:], padding, strict=True)]
        self.small = (chosen[-1], *small)
        made: dict[str, Any] = {"norm": norm, "classes": classes, "rows": rows, "nonlinearity": nonlinearity}
        batch = norm in ("batch", "conditional")
        self.widen = dense_layer(nn.Linear(inputs, dense), batch, activation(nonlinearity)) if dense else nn.Identity()
        self.first = nn.Linear(dense or inputs, math.prod(self.small))
        inward = [*reversed(chosen), chosen[0]]
        if residual:
            self.start: nn.Module = nn.Identity()
            self.stages = nn.ModuleList(_ResidualUp(a, b, **made) for a, b in pairwise(inward))
            self.finish = _Normed(norm, chosen[0], nonlinearity, classes, rows)
            last: nn.Module = nn.Conv2d(chosen[0], event[0], 3, 1, 1)
        else:
            self.start = _Normed(norm, chosen[-1], nonlinearity, classes, rows)
            self.stages = nn.ModuleList(_Up(a, b, upsampling, **made) for a, b in pairwise(inward[:-1]))
            self.finish = nn.Identity()
            last = doubling(chosen[0], event[0], upsampling)
        self.last = nn.Sequential(last, activation(output))
        begin(self, batch=norm != "none")

    def forward(self, z: Tensor, codes: Tensor | None = None) -> Tensor:
        """Noise (n, inputs) to pictures (n, c, h, w); codes: classes (n,) where the norm is conditional."""
        x = self.start_at(self.first(self.widen(z)).reshape(-1, *self.small), codes)
        for stage in self.stages:
            x = stage(x, codes)
        x = self.finish(x, codes) if isinstance(self.finish, _Normed) else x
        pictures: Tensor = self.last(x)
        return pictures[..., : self.event[1], : self.event[2]]

    def start_at(self, x: Tensor, codes: Tensor | None) -> Tensor:
        """The smallest picture, normalized where no residual block does it."""
        return self.start(x, codes) if isinstance(self.start, _Normed) else x

    @property
    def cropped(self) -> str:
        """What is cut off pictures of odd sizes, in words; nothing where they fit."""
        down, right = padding_of(self.event[1:], len(self.stages) + (not isinstance(self.finish, _Normed)))
        height, width = self.event[1:]
        return f"cropped from {height + down} x {width + right} to {height} x {width}" if down or right else ""


class _Normed(nn.Module):
    """A normalization, given the classes where it wants them, and an activation."""

    def __init__(self, norm: str, channels: int, nonlinearity: str, classes: int, rows: int) -> None:
        super().__init__()
        self.norm = norm_of(norm, channels, classes=classes, rows=rows)
        self.act = activation(nonlinearity)

    def forward(self, x: Tensor, codes: Tensor | None = None) -> Tensor:
        if isinstance(self.norm, ConditionalBatchNorm):
            if codes is None:
                raise InvalidInput("ConvGenerator: norm='conditional' needs the classes of the pictures")
            x = self.norm(x, codes)
        else:
            x = self.norm(x)
        found: Tensor = self.act(x)
        return found


class _Up(nn.Module):
    """Doubling, norm, activation."""

    def __init__(
        self, inputs: int, outputs: int, upsampling: str, *, norm: str, nonlinearity: str, classes: int, rows: int
    ) -> None:
        super().__init__()
        self.enlarge = doubling(inputs, outputs, upsampling)
        self.normed = _Normed(norm, outputs, nonlinearity, classes, rows)

    def forward(self, x: Tensor, codes: Tensor | None = None) -> Tensor:
        found: Tensor = self.normed(self.enlarge(x), codes)
        return found


class _ResidualUp(nn.Module):
    """Norm, activation, doubling and convolution twice, around which the doubled picture goes (He et al., 2016)."""

    def __init__(self, inputs: int, outputs: int, *, norm: str, nonlinearity: str, classes: int, rows: int) -> None:
        super().__init__()
        self.before = _Normed(norm, inputs, nonlinearity, classes, rows)
        self.between = _Normed(norm, outputs, nonlinearity, classes, rows)
        self.enlarge = nn.Upsample(scale_factor=2, mode="nearest")
        self.first, self.second = nn.Conv2d(inputs, outputs, 3, 1, 1), nn.Conv2d(outputs, outputs, 3, 1, 1)
        self.around = nn.Conv2d(inputs, outputs, 1)

    def forward(self, x: Tensor, codes: Tensor | None = None) -> Tensor:
        inner = self.first(self.enlarge(self.before(x, codes)))
        inner = self.second(self.between(inner, codes))
        return inner + self.enlarge(self.around(x))


@torch.no_grad()
def begin(network: nn.Module, batch: bool) -> None:
    """Starting weights: small normal ones where batch norm scales them (Radford et al., 2016), else He's."""
    for module in network.modules():
        if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d, nn.Linear)):
            if batch:
                module.weight.normal_(0.0, 0.02)
            else:
                fan = module.weight[0].numel() if not isinstance(module, nn.ConvTranspose2d) else _fan(module)
                module.weight.normal_(0.0, math.sqrt(2.0 / fan))
            if module.bias is not None:
                module.bias.zero_()


def _fan(module: nn.ConvTranspose2d) -> float:
    """Inputs that reach one pixel of a transposed convolution."""
    inputs, _, height, width = module.weight.shape
    return inputs * height * width / math.prod(module.stride)
