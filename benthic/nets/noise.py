"""Random numbers drawn on the CPU and brought to where they are needed, so that every device draws the same."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def draw_normal(shape: Sequence[int], like: Tensor, generator: torch.Generator) -> Tensor:
    """Standard normal numbers in the type and place of ``like``."""
    return torch.randn(tuple(shape), generator=generator, dtype=like.dtype).to(like.device)


def draw_uniform(shape: Sequence[int], like: Tensor, generator: torch.Generator) -> Tensor:
    """Uniform numbers in [0, 1) in the type and place of ``like``."""
    return torch.rand(tuple(shape), generator=generator, dtype=like.dtype).to(like.device)


def draw_gumbel(shape: Sequence[int], like: Tensor, generator: torch.Generator) -> Tensor:
    """Standard Gumbel numbers: added to logits, the largest entry is a draw of the category."""
    uniform = draw_uniform(shape, like, generator).clamp_min(torch.finfo(like.dtype).tiny)
    return -torch.log(-torch.log(uniform))
