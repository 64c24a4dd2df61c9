"""Noise for the rows of a call by their number, so that it does not matter how rows are cut into blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from benthic.base.seeds import generator
from benthic.generative.flows.network import rademacher
from benthic.nets.noise import draw_normal, draw_uniform

_GROUP = 64  # rows that share a stream: drawing for each alone would cost more than the noise

Draw = Callable[[Sequence[int], Tensor, torch.Generator], Tensor]


@dataclass(frozen=True)
class RowNoise:
    """Independent noise of every row and draw.

    first: the number of the first row. count: of the rows. width: numbers a row. The noise of row i is that of its
    number, whatever other rows there are, and that of different rows is independent: errors of single rows average
    out in their mean.

    >>> whole, part = RowNoise(0, 5, 2), RowNoise(3, 2, 2)
    >>> torch.equal(whole.uniform(range(2), torch.empty(0))[:, 3:], part.uniform(range(2), torch.empty(0)))
    True
    """

    first: int
    count: int
    width: int
    seed: int = 0

    def normal(self, draws: range, like: Tensor) -> Tensor:
        """Standard normal numbers (draws, count, width)."""
        return self._drawn("normal", draw_normal, draws, like)

    def uniform(self, draws: range, like: Tensor) -> Tensor:
        """Uniform numbers in [0, 1), (draws, count, width)."""
        return self._drawn("uniform", draw_uniform, draws, like)

    def signs(self, draws: range, like: Tensor) -> Tensor:
        """Random signs (draws, count, width)."""
        return self._drawn("signs", rademacher, draws, like)

    def _drawn(self, name: str, draw: Draw, draws: range, like: Tensor) -> Tensor:
        here = torch.empty(0, dtype=like.dtype)  # on the CPU, so that every device draws the same
        skipped = self.first % _GROUP
        groups = range(self.first // _GROUP, -(-(self.first + self.count) // _GROUP))
        rows = [
            torch.cat([draw((_GROUP, self.width), here, generator(self.seed, name, k, group)) for group in groups])
            for k in draws
        ]
        return torch.stack([part[skipped : skipped + self.count] for part in rows]).to(like.device)
