"""The U-Net of diffusion models: pictures, a noise level and perhaps a condition in, pictures out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benthic.base.errors import InvalidInput
from benthic.nets.attention import PixelAttention
from benthic.nets.conv import padding_of
from benthic.nets.dropout import dropout
from benthic.nets.embedding import CONDITIONS, ConditionEmbedding, LevelEmbedding, null_condition

_MOST_GROUPS, _LEAST_IN_GROUP = 32, 4


def groups_of(channels: int, groups: int | None = None) -> int:
    """Groups of a norm: those asked for, or else at most 32, with at least 4 channels each.

    >>> groups_of(128), groups_of(48), groups_of(6)
    (32, 12, 1)
    """
    if groups is not None:
        return math.gcd(channels, groups)
    most = min(_MOST_GROUPS, max(1, channels // _LEAST_IN_GROUP))
    return max(g for g in range(1, most + 1) if channels % g == 0)


def _silu(x: Tensor) -> Tensor:
    """SiLU of a tensor nobody else needs, in its place where no gradient is wanted."""
    return F.silu(x, inplace=not torch.is_grad_enabled())


class ResidualBlock(nn.Module):
    """Two convolutions with group norms, steered by an embedding, beside a skip.

    inputs, outputs: channels. embedding: its width. scale_shift: whether it scales and shifts the second norm
    (Nichol & Dhariwal, 2021), or is added before it (Ho et al., 2020). groups: see ``groups_of``.

    >>> ResidualBlock(8, 16, 4)(torch.ones(2, 8, 5, 5), torch.ones(2, 4)).shape
    torch.Size([2, 16, 5, 5])
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        embedding: int,
        *,
        scale_shift: bool = True,
        dropout: float = 0.0,
        groups: int | None = None,
    ) -> None:
        super().__init__()
        self.scale_shift, self.dropout = scale_shift, dropout
        self.norm_in = nn.GroupNorm(groups_of(inputs, groups), inputs)
        self.conv_in = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.steer = nn.Linear(embedding, (2 if scale_shift else 1) * outputs)
        self.norm_out = nn.GroupNorm(groups_of(outputs, groups), outputs)
        self.conv_out = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.skip: nn.Module = nn.Identity() if inputs == outputs else nn.Conv2d(inputs, outputs, 1)
        nn.init.zeros_(self.conv_out.weight)  # a block starts as its skip
        nn.init.zeros_(cast(Tensor, self.conv_out.bias))

    def forward(self, x: Tensor, e: Tensor) -> Tensor:
        """Pictures (n, inputs, h, w) and embeddings (1 or n, width), already activated, to (n, outputs, h, w)."""
        h = self.conv_in(_silu(self.norm_in(x)))
        steer = self.steer(e)[:, :, None, None]
        if self.scale_shift:
            scale, shift = steer.chunk(2, 1)
            h = torch.addcmul(shift, self.norm_out(h), 1 + scale)
        else:
            h = self.norm_out(h + steer)
        h = _silu(h)
        if self.dropout:
            h = dropout(h, self.dropout, self.training)
        found: Tensor = self.conv_out(h)
        skipped = self.skip(x)
        return found + skipped if torch.is_grad_enabled() else found.add_(skipped)


class Upsample(nn.Module):
    """Twice the size by repeating pixels, then a convolution.

    On a CPU and without gradients the four pixels that come from one are found by kernels of 2 by 2 weights on the
    small picture, which is less than half of the arithmetic and the same result.

    >>> Upsample(4)(torch.ones(1, 4, 3, 3)).shape
    torch.Size([1, 4, 6, 6])
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """(n, c, h, w) to (n, c, 2h, 2w)."""
        if x.device.type == "cpu" and not torch.is_grad_enabled():
            return _upsampled(x, self.conv.weight, cast(Tensor, self.conv.bias))
        found: Tensor = self.conv(F.interpolate(x, scale_factor=2.0, mode="nearest"))
        return found


def _upsampled(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """A 3 x 3 convolution of repeated pixels, by the sums of its weights that fall on the same pixel."""
    n, c, h, w = x.shape
    kernels = [pair for tall in _pairs(weight, 2) for pair in _pairs(tall, 3)]  # of the four pixels, (c, c, 2, 2)
    parts = F.conv2d(x, torch.cat(kernels), bias.repeat(4), padding=1).view(n, 2, 2, c, h + 1, w + 1)
    rows = [
        torch.stack([parts[:, a, b, :, a : a + h, b : b + w] for b in (0, 1)], -1).flatten(3) for a in (0, 1)
    ]  # (n, c, h, 2w)
    return torch.stack(rows, 3).flatten(2, 3)


def _pairs(weight: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Three weights as two, seen from the first and from the second of two equal pixels."""
    one, two, three = weight.unbind(dim)
    return torch.stack([one, two + three], dim), torch.stack([one + two, three], dim)


class Stage(nn.Module):
    """One residual block and perhaps attention, at one size."""

    def __init__(self, block: ResidualBlock, attention: PixelAttention | None) -> None:
        super().__init__()
        self.block, self.attention = block, attention

    def forward(self, x: Tensor, e: Tensor) -> Tensor:
        """Pictures (n, c, h, w) and embeddings to pictures."""
        h: Tensor = self.block(x, e)
        return h if self.attention is None else self.attention(h)


class UNet(nn.Module):
    """The network of DDPM and its followers: down to small pictures and up again, with skips between equal sizes.

    Ho et al., 2020; Nichol & Dhariwal, 2021; Song et al., 2021 (DDPM++). Pictures whose sides cannot be halved often
    enough are padded with zeros below and to the right, and what comes out is cut back; ``notes`` says so. On CUDA
    pictures are taken through in the channels-last layout; ``to(memory_format=torch.channels_last)`` lays out the
    weights likewise. On a CPU the usual layout is the faster one,
    unless the network is compiled; there pictures follow the weights.

    shape: (c, h, w) of a picture. channels: of the first size; multipliers: of each size times that, the next of
    which has half the pixels a side. blocks: residual blocks a size. attention: at which sizes (longer side, after
    padding, in pixels) there is attention; the smallest always has it, unless this is None. heads: of attention, or
    head_width: numbers a head. outputs: channels that come out, as many as go in if None.
    condition: ``none``, ``labels``, ``vectors`` or ``images``; condition_size: classes, numbers, or channels of a
    picture of the same height and width, which is seen beside the input. Nothing given is a condition too, the label
    one beyond the last, or NaN.
    embedding, level_scale: see ``LevelEmbedding``. scale_shift, groups: see ``ResidualBlock``.

    >>> net = UNet((1, 8, 8), channels=16, multipliers=(1, 2), blocks=1)
    >>> net(torch.zeros(3, 1, 8, 8), torch.rand(3)).shape
    torch.Size([3, 1, 8, 8])
    """

    def __init__(
        self,
        shape: Sequence[int],
        *,
        channels: int = 64,
        multipliers: Sequence[int] = (1, 2, 2),
        blocks: int = 2,
        attention: Sequence[int] | None = (16,),
        heads: int = 1,
        head_width: int | None = None,
        outputs: int | None = None,
        condition: str = "none",
        condition_size: int = 0,
        embedding: str = "sinusoidal",
        level_scale: float = 1.0,
        scale_shift: bool = True,
        dropout: float = 0.0,
        groups: int | None = None,
    ) -> None:
        super().__init__()
        self.shape = _checked_shape(shape, multipliers, condition, condition_size)
        self.multipliers, self.kind, self.condition_size = tuple(multipliers), condition, condition_size
        self.padding = padding_of(self.shape[1:], len(self.multipliers) - 1)
        width = 4 * channels
        self.level = LevelEmbedding(width, channels, embedding, scale=level_scale)
        self.condition: Any = None
        if condition in ("labels", "vectors"):
            self.condition = ConditionEmbedding(condition, condition_size, width)
        # a picture that is given has a plane that says where it is known
        seen = self.shape[0] + (condition_size + 1 if condition == "images" else 0)
        self._options = {"scale_shift": scale_shift, "dropout": dropout, "groups": groups}
        self._looks = {"at": None if attention is None else set(attention), "heads": heads, "head_width": head_width}
        self._width = width
        self.first = nn.Conv2d(seen, channels, 3, padding=1)
        skips = self._build_down(channels, blocks)
        deep = channels * self.multipliers[-1]
        looking = self._attention(deep) if attention is not None else None
        self.middle = nn.ModuleList([Stage(self._block(deep, deep), looking), Stage(self._block(deep, deep), None)])
        self._build_up(channels, blocks, skips)
        self.norm = nn.GroupNorm(groups_of(channels * self.multipliers[0], groups), channels * self.multipliers[0])
        self.last = nn.Conv2d(channels * self.multipliers[0], outputs or self.shape[0], 3, padding=1)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(cast(Tensor, self.last.bias))

    # -- building --------------------------------------------------------------------------------------

    def _block(self, inputs: int, outputs: int) -> ResidualBlock:
        return ResidualBlock(inputs, outputs, self._width, **cast(Any, self._options))

    def _attention(self, channels: int) -> PixelAttention:
        head_width, groups = self._looks["head_width"], cast(Any, self._options["groups"])
        heads = cast(int, self._looks["heads"]) if head_width is None else max(1, channels // cast(int, head_width))
        return PixelAttention(channels, heads, groups_of(channels, groups))

    def _stage(self, inputs: int, outputs: int, level: int) -> Stage:
        longer = max(a + b for a, b in zip(self.shape[1:], self.padding, strict=True)) >> level
        looks = longer in cast(Any, self._looks["at"] or ())
        return Stage(self._block(inputs, outputs), self._attention(outputs) if looks else None)

    def _build_down(self, channels: int, blocks: int) -> list[int]:
        """The way down; returns the channels of what is kept for the way up."""
        self.down, self.shrink = nn.ModuleList(), nn.ModuleList()
        now, skips = channels, [channels]
        for level, multiplier in enumerate(self.multipliers):
            stages = nn.ModuleList()
            for _ in range(blocks):
                stages.append(self._stage(now, channels * multiplier, level))
                now = channels * multiplier
                skips.append(now)
            self.down.append(stages)
            if level < len(self.multipliers) - 1:
                self.shrink.append(nn.Conv2d(now, now, 3, stride=2, padding=1))
                skips.append(now)
        return skips

    def _build_up(self, channels: int, blocks: int, skips: list[int]) -> None:
        self.up, self.grow = nn.ModuleList(), nn.ModuleList()
        now = channels * self.multipliers[-1]
        for level, multiplier in reversed(list(enumerate(self.multipliers))):
            stages = nn.ModuleList()
            for _ in range(blocks + 1):
                stages.append(self._stage(now + skips.pop(), channels * multiplier, level))
                now = channels * multiplier
            self.up.append(stages)
            if level:
                self.grow.append(Upsample(now))

    # -- using -----------------------------------------------------------------------------------------

    def forward(self, x: Tensor, level: Tensor, condition: Tensor | None = None) -> Tensor:
        """Pictures (n, c, h, w) at noise levels () or (n,), and perhaps conditions (n, ...), to (n, outputs, h, w)."""
        e = self.level(level)
        if self.condition is not None:
            e = e + self.condition(self.condition.null(len(x), x) if condition is None else condition)
        e = F.silu(e)
        h = self.first(self._entered(x, condition))
        kept = [h]
        for i, stages in enumerate(self.down):
            for stage in cast(nn.ModuleList, stages):
                h = stage(h, e)
                kept.append(h)
            if i < len(self.shrink):
                h = self.shrink[i](h)
                kept.append(h)
        for stage in self.middle:
            h = stage(h, e)
        for i, stages in enumerate(self.up):
            for stage in cast(nn.ModuleList, stages):
                h = stage(torch.cat([h, kept.pop()], 1), e)
            if i < len(self.grow):
                h = self.grow[i](h)
        found: Tensor = self.last(_silu(self.norm(h)))
        return found[..., : self.shape[1], : self.shape[2]] if any(self.padding) else found

    def _entered(self, x: Tensor, condition: Tensor | None) -> Tensor:
        """What the first convolution sees: the picture, padded, and beside it the one that is given."""
        if self.kind == "images":
            if condition is None:
                condition = null_condition("images", (self.condition_size, *self.shape[1:]), len(x), x)
            known = 1.0 - torch.isnan(condition[:, :1]).to(x.dtype)
            x = torch.cat([x, torch.nan_to_num(condition.to(x.dtype)), known], 1)
        if any(self.padding):
            x = F.pad(x, (0, self.padding[1], 0, self.padding[0]))
        return x.contiguous(memory_format=torch.channels_last) if x.is_cuda or self._channels_last() else x

    def _channels_last(self) -> bool:
        weight = cast(Any, self.middle[0]).block.conv_in.weight
        return bool(weight.is_contiguous(memory_format=torch.channels_last))

    def notes(self) -> dict[str, Any]:
        """What a person should know of it, for a summary."""
        (_, h, w), (down, right) = self.shape, self.padding
        if not (down or right):
            return {}
        return {"pictures": f"padded from {h} x {w} to {h + down} x {w + right} to be halved"}

    @classmethod
    def cifar(cls, **changes: Any) -> Self:
        """The U-Net of Ho et al., 2020 for CIFAR-10, with 35 746 307 weights; changes: of its arguments.

        >>> sum(p.numel() for p in UNet.cifar().parameters())
        35746307
        """
        plain = {"channels": 128, "multipliers": (1, 2, 2, 2), "blocks": 2, "attention": (16,), "dropout": 0.1}
        return cls(**{"shape": (3, 32, 32), "scale_shift": False, **plain, **changes})


def channels_last(network: nn.Module) -> nn.Module:
    """The network with the weights of its convolutions laid out as fast kernels read them; nothing else changes."""
    return cast(nn.Module, cast(Any, network).to(memory_format=torch.channels_last))


def default_unet(shape: Sequence[int], **changes: Any) -> UNet:
    """A U-Net that suits pictures of this shape; changes: of its arguments.

    Sizes are halved down to about 4 pixels for small pictures and 7 or 8 for larger ones, with attention from 16
    pixels on, for small pictures from 4 on.

    >>> default_unet((1, 8, 8)).multipliers, default_unet((1, 28, 28)).multipliers
    ((1, 2), (1, 2, 2))
    """
    longer = max(shape[1:])
    levels = 2 if longer <= 12 else 3 if longer <= 32 else 4
    plain = {
        "channels": 32 if longer <= 12 else 64,
        "multipliers": (1, *[2] * (levels - 1)),
        "blocks": 1 if longer <= 12 else 2,
        "attention": tuple(range(1, 5 if longer <= 12 else 17)),
    }
    return UNet(shape, **{**plain, **changes})


def _checked_shape(shape: Sequence[int], multipliers: Sequence[int], condition: str, size: int) -> tuple[int, int, int]:
    if len(shape) != 3 or min(shape) < 1:
        raise InvalidInput(f"UNet: shape is {tuple(shape)}; pictures have (channels, height, width)")
    if not multipliers or min(multipliers) < 1:
        raise InvalidInput(f"UNet: multipliers is {tuple(multipliers)}; give one or more whole numbers >= 1")
    if (1 << (len(multipliers) - 1)) > max(shape[1:]):
        raise InvalidInput(
            f"UNet: multipliers {tuple(multipliers)} halve the picture {len(multipliers) - 1} times; {shape[1]} x "
            f"{shape[2]} pixels allow fewer"
        )
    if condition not in CONDITIONS or (condition != "none" and size < 1):
        raise InvalidInput(f"UNet: condition is {condition!r} of size {size}; use one of {', '.join(CONDITIONS)}")
    channels, height, width = (int(side) for side in shape)
    return channels, height, width
