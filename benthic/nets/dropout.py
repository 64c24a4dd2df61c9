"""Dropout that draws from the stream of this thread, not from torch's shared generator."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from benthic.base.seeds import stream


def dropout(x: Tensor, share: float, training: bool = True) -> Tensor:
    """``torch.nn.functional.dropout``: in training this share of the numbers is 0, and the others are scaled up.

    >>> dropout(torch.ones(3), 0.5, training=False)
    tensor([1., 1., 1.])
    """
    if not training or not share or not x.numel():
        return x
    if share == 1:
        return x * torch.zeros_like(x)
    kept: Tensor = _kept_compiled(x.detach(), share) if torch.compiler.is_compiling() else _kept(x, share)
    return x * kept


def _kept(x: Tensor, share: float) -> Tensor:
    """0 with this probability and else the scale that makes up for it, in the shape of ``x``."""
    return torch.empty_like(x).bernoulli_(1 - share, generator=stream(x.device)).div_(1 - share)


# A compiler takes no generators: to it this is one call that it must neither leave out nor make twice. Two calls with
# the same tensor it would make once, so that a network drops of different ones.
@torch.library.custom_op("benthic::kept", mutates_args=(), tags=(torch.Tag.nondeterministic_seeded,))
def _kept_compiled(x: Tensor, share: float) -> Tensor:
    return _kept(x, share)


@_kept_compiled.register_fake
def _(x: Tensor, share: float) -> Tensor:
    return torch.empty_like(x)


class Dropout(nn.Dropout):
    """``torch.nn.Dropout``, likewise."""

    def forward(self, x: Tensor) -> Tensor:
        """Drops in training; in evaluation ``x`` itself."""
        return dropout(x, self.p, self.training)
