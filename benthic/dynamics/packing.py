"""States of any shape as one tensor, and back: tuples, lists and dictionaries of tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput

Field = Callable[[Tensor, Any], Any]


@dataclass(frozen=True)
class Packing:
    """How a state lies in one tensor (*batch, n): the shapes of its parts, one after another.

    batch: how many leading dimensions all parts share and keep.

    >>> packing = Packing.of({"x": torch.zeros(2, 3), "v": torch.zeros(2)}, batch=1)
    >>> packing.pack({"x": torch.ones(2, 3), "v": torch.zeros(2)}).shape
    torch.Size([2, 4])
    """

    example: Any
    batch: int

    @classmethod
    def of(cls, state: Any, batch: int = 0) -> Packing:
        """The packing of states like this one."""
        parts = list(leaves(state))
        if not parts:
            raise InvalidInput("solve: the state has no tensors; pass a tensor, or a tuple, list or dict of them")
        kinds = {(part.dtype, part.device) for part in parts}
        if len(kinds) > 1:
            raise InvalidInput(f"solve: the tensors of a state must share a dtype and a device; these have {kinds}")
        if batch and len({part.shape[:batch] for part in parts}) > 1:
            raise InvalidInput("solve: with a step of its own for every row, all tensors need the same rows")
        return cls(rebuild(state, iter([part.shape for part in parts])), batch)

    @property
    def plain(self) -> bool:
        """Whether the state is one tensor, which needs no packing."""
        return isinstance(self.example, torch.Size)

    def pack(self, state: Any) -> Tensor:
        """The state as one tensor."""
        if self.plain:
            return state
        return torch.cat([part.reshape((*part.shape[: self.batch], -1)) for part in leaves(state)], self.batch)

    def unpack(self, packed: Tensor) -> Any:
        """The state of a packed tensor; extra leading dimensions stay in front of every part."""
        if self.plain:
            return packed
        extra = packed.shape[: packed.dim() - 1 - self.batch]
        shapes = list(leaves(self.example))
        sizes = [math.prod(shape[self.batch :]) for shape in shapes]
        cut = packed.split(sizes, -1)
        return rebuild(self.example, iter([x.reshape((*extra, *s)) for x, s in zip(cut, shapes, strict=True)]))

    def wrap(self, field: Field) -> Field:
        """The field of packed states that belongs to a field of states."""
        if self.plain:
            return field
        return lambda t, packed: self.pack(field(t, self.unpack(packed)))


def leaves(state: Any) -> Iterator[Any]:
    """The tensors (or shapes) of a state, in order."""
    if isinstance(state, torch.Size | Tensor):
        yield state
    elif isinstance(state, dict):
        for value in state.values():
            yield from leaves(value)
    elif isinstance(state, tuple | list):
        for value in state:
            yield from leaves(value)
    else:
        raise InvalidInput(
            f"solve: a state holds a {type(state).__name__}; pass a tensor, or a tuple, list or dict of tensors"
        )


def rebuild(state: Any, parts: Iterator[Any]) -> Any:
    """A structure like ``state`` with other leaves."""
    if isinstance(state, torch.Size | Tensor):
        return next(parts)
    if isinstance(state, dict):
        return {key: rebuild(value, parts) for key, value in state.items()}
    built = [rebuild(value, parts) for value in state]
    return type(state)(*built) if hasattr(state, "_fields") else type(state)(built)
