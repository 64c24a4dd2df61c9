"""From pictures to pictures: a U-Net that keeps detail by skips, and a critic that judges patches."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from benthic.nets.activations import activation
from benthic.nets.conv import padding_of
from benthic.nets.critic import check_critic, conv_of, leaky
from benthic.nets.dropout import Dropout
from benthic.nets.generator import begin, check_channels, doubling, norm_of


def translator_channels(height: int, width: int, base: int = 64) -> tuple[int, ...]:
    """Channels of a ``SkipNet``: halvings down to 2 or 3 pixels, so that a norm always has some to average.

    >>> translator_channels(8, 8), translator_channels(28, 28)
    ((64, 128), (64, 128, 256, 512))
    """
    found, side = [], min(height, width)
    while side >= 4:
        found.append(min(base << len(found), 512))
        side = -(-side // 2)
    return tuple(found) or (base,)


class SkipNet(nn.Module):
    """Pictures to pictures of the same size: halvings, then doublings that see what was there (Isola et al., 2017).

    inputs, outputs: channels of pictures. size: (h, w); sides that cannot be halved so often are padded by repeating
    their far edges, and the result is cropped. channels: one for each halving. norm: of every layer but the first and
    the last. dropout: of the inner half of the doublings, the paper's source of noise; it rests in evaluation.

    >>> SkipNet(3, 1, (28, 28), (8, 16))(torch.zeros(2, 3, 28, 28)).shape
    torch.Size([2, 1, 28, 28])
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        size: tuple[int, int],
        channels: Sequence[int] | None = None,
        *,
        norm: str = "batch",
        upsampling: str = "transposed",
        dropout: float = 0.0,
        output: str = "tanh",
    ) -> None:
        super().__init__()
        chosen = check_channels(channels or translator_channels(*size), size)
        self.inputs, self.size = inputs, tuple(size)
        self.padding = padding_of(size, len(chosen))
        self.down = nn.ModuleList(
            _layer(nn.Conv2d(a, b, 4, 2, 1), norm if i else "none", b, leaky())
            for i, (a, b) in enumerate(pairwise([inputs, *chosen]))
        )
        up, last = [], len(chosen) - 1
        for i, (a, b) in enumerate(pairwise(reversed(chosen))):
            drop = dropout if i < (last + 1) // 2 else 0.0
            up.append(_layer(doubling(a if i == 0 else 2 * a, b, upsampling), norm, b, nn.ReLU(), drop))
        self.up = nn.ModuleList(up)
        wide = chosen[0] if len(chosen) == 1 else 2 * chosen[0]
        self.last = nn.Sequential(doubling(wide, outputs, upsampling), activation(output))
        begin(self, batch=norm in ("batch", "instance"))

    def forward(self, x: Tensor) -> Tensor:
        """Pictures (n, inputs, h, w), or rows of their pixels, to pictures (n, outputs, h, w)."""
        x = x.reshape(-1, self.inputs, *self.size)
        if any(self.padding):
            x = nn.functional.pad(x, (0, self.padding[1], 0, self.padding[0]), mode="replicate")
        kept = []
        for layer in self.down:
            x = layer(x)
            kept.append(x)
        for layer, skip in zip(self.up, reversed(kept[:-1]), strict=True):
            x = torch.cat([layer(x), skip], 1)
        pictures: Tensor = self.last(x)
        return pictures[..., : self.size[0], : self.size[1]]


def _layer(conv: nn.Module, norm: str, channels: int, act: nn.Module, dropout: float = 0.0) -> nn.Sequential:
    parts = [conv, norm_of(norm, channels), *([Dropout(dropout)] if dropout else []), act]
    return nn.Sequential(*parts)


class PatchCritic(nn.Module):
    """A score for every patch of a picture instead of one for all of it (Isola et al., 2017).

    inputs: channels of what is judged, the given picture and its translation together. channels: of convolutions that
    halve the picture; two more of 4 by 4 pixels follow, so that with n halvings a score sees 16 pixels (n = 1), 34
    (n = 2) or 70 (n = 3). norm: as for ``ConvCritic``, not on the first layer. The map of scores is averaged when a
    loss asks for one number a picture.

    >>> PatchCritic(2, (28, 28), (16, 32))(torch.zeros(3, 2, 28, 28)).shape
    torch.Size([3, 1, 5, 5])
    """

    def __init__(
        self, inputs: int, size: tuple[int, int], channels: Sequence[int] = (64,), *, norm: str = "batch"
    ) -> None:
        super().__init__()
        check_critic(norm, None)
        chosen = check_channels(channels, size)
        self.inputs, self.size, self.norm = inputs, tuple(size), norm
        conv, between = conv_of(norm), "none" if norm == "spectral" else norm
        layers: list[nn.Module] = [conv(inputs, chosen[0], 4, 2, 1), leaky()]
        for a, b in pairwise(chosen):
            layers += [conv(a, b, 4, 2, 1), norm_of(between, b), leaky()]
        small = min(side >> len(chosen) for side in size)
        kernel = 4 if small >= 4 else 3 if small >= 2 else 1  # small pictures end before two steps of 4 pixels
        wide, padding = min(2 * chosen[-1], 512), kernel // 2 if kernel == 3 else kernel // 4
        layers += [conv(chosen[-1], wide, kernel, 1, padding), norm_of(between, wide), leaky()]
        layers.append(conv(wide, 1, kernel, 1, padding))
        self.body = nn.Sequential(*layers)
        begin(self, batch=norm == "batch")

    def forward(self, x: Tensor) -> Tensor:
        """Pictures (n, inputs, h, w), or rows of their pixels, to maps of scores (n, 1, h', w')."""
        scores: Tensor = self.body(x.reshape(-1, self.inputs, *self.size))
        return scores
