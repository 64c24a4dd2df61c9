"""Evaluating a network on rows of any floating type, in blocks."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor, nn

from benthic.base.errors import InvalidInput

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


@torch.no_grad()
def dry_run(module: nn.Module, shape: tuple[int, ...], what: str) -> Tensor:
    """What a person's own module makes of zeros of this shape; what: its part, for the error if it cannot take them."""
    like = next(module.parameters(), torch.zeros(()))
    training = module.training
    try:
        found = module.eval()(torch.zeros(shape, dtype=like.dtype, device=like.device))
    except (RuntimeError, ValueError, TypeError) as error:
        cause = str(error).splitlines()[0]
        raise InvalidInput(f"the {what} does not take examples of shape {shape[1:]}: {cause}") from error
    finally:
        module.train(training)
    if not isinstance(found, Tensor) or len(found) != shape[0]:
        raise InvalidInput(f"the {what} must return one tensor with a row for each example")
    return found
