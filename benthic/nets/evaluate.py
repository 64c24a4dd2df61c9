"""Evaluating a network on rows of any floating type, in blocks."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor, nn

_ROWS = 8192
Network = TypeVar("Network", bound=nn.Module)


def device_of(network: nn.Module) -> torch.device:
    """Where the network's weights lie."""
    return next(network.parameters()).device


def in_type(network: Network, dtype: torch.dtype) -> Network:
    """The network in ``dtype``: float64 rows see its weights cast up, so that batching cannot matter."""
    if next(network.parameters()).dtype == dtype:
        return network
    return copy.deepcopy(network).to(dtype)


@torch.no_grad()
def in_blocks(function: Callable[[Tensor], Tensor], X: Tensor, rows: int = _ROWS) -> Tensor:
    """``function`` over blocks of rows, joined."""
    if len(X) <= rows:
        return function(X)
    return torch.cat([function(block) for block in X.split(rows)])
