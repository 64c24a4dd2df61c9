"""A fully connected network of rows and a noise level."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benthic.base.errors import InvalidInput
from benthic.nets.dropout import dropout
from benthic.nets.embedding import ConditionEmbedding, LevelEmbedding
from benthic.nets.mlp import initialize

_FEW_COLUMNS = 16
_SPREAD = 1.5  # of the frequencies, for two columns in standard units


class DenoisingMLP(nn.Module):
    r"""Residual dense layers, each scaled and shifted by the noise level and the condition.

    .. math:: h \leftarrow h + W'_i\, \phi\big((1 + a_i(e)) \odot W_i \phi(h) + b_i(e)\big), \quad
              e = e(\text{level}) + e(\text{condition})

    Rows of up to 16 columns are also seen through sines and cosines of random projections (Tancik et al., 2020), with
    which narrow clusters are learned far sooner. The last layer begins at zero. It takes (x, level, condition) as
    ``UNet`` does.

    width: columns of a row. outputs: numbers it gives, as many as columns if None. hidden: width of the layers.
    depth: how many there are. condition: ``none``, ``labels`` or ``vectors``; condition_size: classes or numbers.
    embedding, level_scale: see ``LevelEmbedding``. dropout: share of hidden units dropped in training.

    >>> DenoisingMLP(3, hidden=16)(torch.zeros(5, 3), torch.rand(5)).shape
    torch.Size([5, 3])
    """

    projections: Tensor

    def __init__(
        self,
        width: int,
        *,
        outputs: int | None = None,
        hidden: int = 128,
        depth: int = 3,
        condition: str = "none",
        condition_size: int = 0,
        embedding: str = "sinusoidal",
        level_scale: float = 1.0,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if min(width, hidden, depth) < 1:
            raise InvalidInput(f"DenoisingMLP: width {width}, hidden {hidden} and depth {depth} must be at least 1")
        self.hidden, self.depth = hidden, depth
        waves = max(2, min(64, hidden // 2 * 2))
        self.level = LevelEmbedding(hidden, waves, embedding, scale=level_scale)
        self.condition: Any = None
        if condition != "none":
            self.condition = ConditionEmbedding(condition, condition_size, hidden)
        self.first = nn.Linear(width, hidden)
        waves = hidden // 2 if width <= _FEW_COLUMNS else 0
        self.register_buffer("projections", _SPREAD * (2 / width) ** 0.5 * torch.randn(width, waves))
        self.waves = nn.Linear(2 * waves, hidden) if waves else None
        self.inner = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(depth))
        self.outer = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(depth))
        self.steer = nn.Linear(hidden, 2 * depth * hidden)  # scales and shifts of every layer in one product
        self.dropout = dropout
        self.last = nn.Linear(hidden, width if outputs is None else outputs)
        for linear in (self.first, *self.inner):
            initialize(cast(nn.Linear, linear), "silu")
        for linear in (*self.outer, self.last):
            nn.init.zeros_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, x: Tensor, level: Tensor, condition: Tensor | None = None) -> Tensor:
        """Rows (n, width) at levels () or (n,), and labels (n,) or vectors (n, size), to (n, outputs)."""
        e = self.level(level[:1] if level.ndim and level.stride(0) == 0 else level)  # one level for all is one row
        if self.condition is not None:
            e = e + self.condition(_given(condition, self.condition, x))
        steer = self.steer(F.silu(e)).view(len(e), self.depth, 2, self.hidden)
        h = self.first(x)
        if self.waves is not None:
            angles = x @ self.projections.to(x.dtype)
            h = h + self.waves(torch.cat([angles.sin(), angles.cos()], 1))
        for i, (inner, outer) in enumerate(zip(self.inner, self.outer, strict=True)):
            a = inner(F.silu(h))
            a = F.silu(torch.addcmul(a + steer[:, i, 1], a, steer[:, i, 0]))
            if self.dropout:
                a = dropout(a, self.dropout, self.training)
            h = h + outer(a)
        found: Tensor = self.last(F.silu(h))
        return found


def _given(condition: Tensor | None, embed: ConditionEmbedding, x: Tensor) -> Tensor:
    return embed.null(len(x), x) if condition is None else condition
