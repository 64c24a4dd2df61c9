"""Pictures of several scales: squeezing space into channels, and codes that leave on the way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from benthic.base.errors import InvalidInput
from benthic.nets.invertible.transform import Transform, check_shape


def squeeze(x: Tensor, factor: int = 2) -> Tensor:
    """Blocks of pixels as channels: (n, c, h, w) to (n, c f², h/f, w/f)."""
    n, c, h, w = x.shape
    x = x.reshape(n, c, h // factor, factor, w // factor, factor)
    return x.permute(0, 1, 3, 5, 2, 4).reshape(n, c * factor * factor, h // factor, w // factor)


def unsqueeze(x: Tensor, factor: int = 2) -> Tensor:
    """The inverse of ``squeeze``."""
    n, c, h, w = x.shape
    x = x.reshape(n, c // (factor * factor), factor, factor, h, w)
    return x.permute(0, 1, 4, 2, 5, 3).reshape(n, c // (factor * factor), h * factor, w * factor)


def check_picture(name: str, x: Tensor) -> None:
    """Refuse what is no batch of pictures (n, c, h, w)."""
    if x.ndim != 4:
        raise InvalidInput(f"{name}: examples have shape {tuple(x.shape)}; it takes pictures (n, channels, h, w)")


class Squeeze(Transform):
    """Two by two pixels become four channels; both sides must be even.

    >>> Squeeze()(torch.arange(4.0).reshape(1, 1, 2, 2))[0].flatten().tolist()
    [0.0, 1.0, 2.0, 3.0]
    """

    def forward(self, x: Tensor, context: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """(n, 4c, h/2, w/2)."""
        check_picture("Squeeze", x)
        if x.shape[2] % 2 or x.shape[3] % 2:
            raise InvalidInput(f"Squeeze: pictures have {x.shape[2]} x {x.shape[3]} pixels; both sides must be even")
        return squeeze(x), x.new_zeros(len(x))

    def inverse(self, z: Tensor, context: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """(n, c/4, 2h, 2w)."""
        check_picture("Squeeze", z)
        if z.shape[1] % 4:
            raise InvalidInput(f"Squeeze: {z.shape[1]} channels cannot be spread over four pixels each")
        return unsqueeze(z), z.new_zeros(len(z))


class MultiScale(Transform):
    """Levels of maps; after each but the last the second half of the channels leaves as codes (Dinh et al., 2017).

    levels: one map each, from pictures to pictures, with the shape (c, h, w) that
    comes out of it; channels that are to be halved must be even. Codes are rows (n, chw), coarse ones last.
    """

    def __init__(self, levels: Sequence[tuple[Transform, Sequence[int]]]) -> None:
        super().__init__()
        if not levels:
            raise InvalidInput("MultiScale: levels is empty; give one map and its shape, or more")
        self.levels: Any = nn.ModuleList([level for level, _ in levels])
        self.shapes = [tuple(shape) for _, shape in levels]
        for c, _, _ in self.shapes[:-1]:
            if c % 2:
                raise InvalidInput(f"MultiScale: {c} channels have no two halves; levels must end in an even number")

    def forward(self, x: Tensor, context: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Codes (n, chw) and the log-determinant."""
        check_picture("MultiScale", x)
        codes, total = [], x.new_zeros(len(x))
        for place, level in enumerate(self.levels):
            x, log = level(x, context)
            total = total + log
            if place < len(self.levels) - 1:
                x, leaving = x.chunk(2, 1)
                codes.append(leaving.flatten(1))
        return torch.cat([*codes, x.flatten(1)], 1), total

    def inverse(self, z: Tensor, context: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Pictures and the log-determinant."""
        check_shape("MultiScale", z, sum(self._sizes()), None, None, rank=2)
        parts = z.split(self._sizes(), 1)
        total = z.new_zeros(len(z))
        x = parts[-1].reshape(len(z), *self.shapes[-1])
        for place in reversed(range(len(self.levels))):
            if place < len(self.levels) - 1:
                c, h, w = self.shapes[place]
                x = torch.cat([x, parts[place].reshape(len(z), c // 2, h, w)], 1)
            x, log = self.levels[place].inverse(x, context)
            total = total + log
        return x, total

    def _sizes(self) -> list[int]:
        """How many codes leave after each level."""
        sizes = [c // 2 * h * w for c, h, w in self.shapes[:-1]]
        c, h, w = self.shapes[-1]
        return [*sizes, c * h * w]

    @torch.no_grad()
    def begin(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        """Each level begins with what the levels before it make of the data."""
        codes = []
        for place, level in enumerate(self.levels):
            x = level.begin(x, context)
            if place < len(self.levels) - 1:
                x, leaving = x.chunk(2, 1)
                codes.append(leaving.flatten(1))
        return torch.cat([*codes, x.flatten(1)], 1)
