"""Modules of a person's own, which may draw from torch's shared generators by themselves."""

from __future__ import annotations

from torch import nn

_DRAW = (nn.modules.dropout._DropoutNd, nn.RReLU, nn.FractionalMaxPool2d, nn.FractionalMaxPool3d)


def draws_by_itself(module: nn.Module) -> bool:
    """Whether a part may draw: a class that is neither ours nor one of torch's that do not, or drop nothing.

    >>> draws_by_itself(nn.Linear(2, 1)), draws_by_itself(nn.Sequential(nn.Dropout(0.1)))
    (False, True)
    """
    return any(map(_may_draw, module.modules()))


def _may_draw(part: nn.Module) -> bool:
    room, share = type(part).__module__, getattr(part, "dropout", 0)
    if room.startswith("benthic."):
        return False
    drops = isinstance(share, (int, float)) and share > 0  # between layers of nn.LSTM, of weights of attention
    return drops or isinstance(part, _DRAW) or not room.startswith("torch.nn.")
