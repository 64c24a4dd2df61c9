"""Numbers, labels, vectors and pictures as inputs that steer a network."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benthic.base.errors import InvalidInput, nearest
from benthic.base.seeds import stream

EMBEDDINGS = ("sinusoidal", "fourier")
CONDITIONS = ("none", "labels", "vectors", "images")


def sinusoids(level: Tensor, width: int, longest: float = 1e4) -> Tensor:
    r"""Sines and cosines of a number at geometric frequencies.

    .. math:: \omega_k = C^{-k/(m-1)}, \quad k = 0, \dots, m-1, \qquad
              e = (\sin \omega_0 t, \dots, \sin \omega_{m-1} t, \cos \omega_0 t, \dots, \cos \omega_{m-1} t)

    Vaswani et al., 2017, as in Ho et al., 2020. level: (n,). width: 2 m. longest: C. Returns (n, width).

    >>> sinusoids(torch.zeros(1), 4)
    tensor([[0., 0., 1., 1.]])
    """
    half = width // 2
    steps = torch.arange(half, dtype=level.dtype, device=level.device) / max(half - 1, 1)
    angles = level[:, None] * torch.exp(-math.log(longest) * steps)
    return F.pad(torch.cat([angles.sin(), angles.cos()], 1), (0, width % 2))


class LevelEmbedding(nn.Module):
    """A noise level or time as a vector, by waves and two dense layers.

    width: of the vector. waves: how many sines and cosines there are. kind: ``sinusoidal``, geometric frequencies; or
    ``fourier``, random ones that stay as they were drawn (Tancik et al., 2020), with this spread. scale: what the
    level is multiplied by first; times in [0, 1] are best spread over a thousand for ``sinusoidal``.

    >>> LevelEmbedding(32, waves=8)(torch.tensor([1.0, 2.0])).shape
    torch.Size([2, 32])
    """

    frequencies: Tensor

    def __init__(
        self, width: int, waves: int, kind: str = "sinusoidal", *, scale: float = 1.0, spread: float = 1.0
    ) -> None:
        super().__init__()
        if kind not in EMBEDDINGS:
            raise InvalidInput(f"embedding {kind!r} is unknown{nearest(str(kind), EMBEDDINGS)}; use {EMBEDDINGS}")
        if waves < 2 or waves % 2:
            raise InvalidInput(f"LevelEmbedding: waves is {waves}; it must be even and at least 2")
        self.kind, self.waves, self.scale = kind, waves, scale
        drawn = 2 * math.pi * spread * torch.randn(waves // 2) if kind == "fourier" else torch.empty(0)
        self.register_buffer("frequencies", drawn)
        self.dense = nn.Sequential(nn.Linear(waves, width), nn.SiLU(), nn.Linear(width, width))

    def forward(self, level: Tensor) -> Tensor:
        """Levels () or (n,) to vectors (1 or n, width)."""
        weight = cast(nn.Linear, self.dense[0]).weight
        level = level.reshape(-1).to(weight.dtype) * self.scale
        if self.kind == "sinusoidal":
            waves = sinusoids(level, self.waves)
        else:
            angles = level[:, None] * self.frequencies
            waves = torch.cat([angles.cos(), angles.sin()], 1)
        found: Tensor = self.dense(waves)
        return found


class ConditionEmbedding(nn.Module):
    """What a network is given besides its input, as a vector; nothing given has a vector of its own.

    The null condition, which classifier-free guidance (Ho & Salimans, 2022) trains beside the others, is the label
    ``size`` (one beyond the last), or a vector with NaN.

    kind: ``labels``, numbered from 0 to size - 1, or ``vectors`` of ``size`` numbers. width: of the result.

    >>> embed = ConditionEmbedding("labels", 10, 16)
    >>> embed(torch.tensor([3, 10])).shape
    torch.Size([2, 16])
    """

    def __init__(self, kind: str, size: int, width: int) -> None:
        super().__init__()
        if kind not in ("labels", "vectors") or size < 1:
            raise InvalidInput(f"ConditionEmbedding: kind is {kind!r} and size {size}; use 'labels' or 'vectors' >= 1")
        self.kind, self.size = kind, size
        if kind == "labels":
            self.table: nn.Module = nn.Embedding(size + 1, width)
        else:
            self.dense = nn.Sequential(nn.Linear(size, width), nn.SiLU(), nn.Linear(width, width))
            self.nothing = nn.Parameter(torch.zeros(width))

    def forward(self, condition: Tensor) -> Tensor:
        """Labels (n,) or vectors (n, size) to (n, width)."""
        if self.kind == "labels":
            found: Tensor = self.table(condition)
            return found
        unknown = torch.isnan(condition).any(1, keepdim=True)
        return torch.where(unknown, self.nothing, self.dense(torch.nan_to_num(condition)))

    def null(self, n: int, like: Tensor) -> Tensor:
        """The null condition for ``n`` rows, where ``like`` lies."""
        return null_condition(self.kind, (self.size,), n, like)


def null_condition(kind: str, shape: Sequence[int], n: int, like: Tensor) -> Tensor:
    """Nothing given, ``n`` times. shape: (classes,) of labels, (size,) of vectors, (c, h, w) of images.

    >>> null_condition("labels", (10,), 2, torch.zeros(1))
    tensor([10, 10])
    """
    if kind == "labels":
        return torch.full((n,), int(shape[0]), dtype=torch.long, device=like.device)
    return torch.full((n, *shape), math.nan, dtype=like.dtype, device=like.device)


def forget(condition: Tensor, kind: str, classes: int, probability: float) -> Tensor:
    """The condition, in a random share of the rows replaced by the null one; on the device, without waiting.

    >>> forget(torch.tensor([1, 2]), "labels", 10, 1.0)
    tensor([10, 10])
    """
    drop = torch.rand(len(condition), device=condition.device, generator=stream(condition.device)) < probability
    if kind == "labels":
        return condition.masked_fill(drop, classes)
    return condition.masked_fill(drop.reshape(-1, *[1] * (condition.ndim - 1)), math.nan)
