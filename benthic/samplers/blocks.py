"""A law over named blocks of any dtype, integers too, for kernels that need no gradient."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benthic.base.errors import InvalidInput, nearest

Start = Callable[[int, torch.Generator], Any]


class Blocks:
    """Named blocks seen as packed rows (chains, d), with a log density where one is known.

    It stands where a ``Target`` does, for kernels that ask for no gradient: Gibbs, and Metropolis on discrete
    spaces. Integers and booleans are packed as floating-point numbers (exact below 2^53 in float64) and come
    back as they were.

    example: a tensor or a dict name -> tensor: one set of values, without chains.

    log_density: a function of blocks with a leading chain dimension that returns (chains,); None where only
    conditionals are known.

    start: function (chains, generator) -> blocks with a leading chain dimension; by default every chain starts
    at the example.

    >>> blocks = Blocks({"spin": torch.tensor([1, -1]), "field": 0.5})
    >>> rows = blocks.start(3, torch.Generator())
    >>> rows.shape, blocks.unpack(rows)["spin"].dtype, blocks.names
    (torch.Size([3, 3]), torch.int64, ['spin[0]', 'spin[1]', 'field'])
    """

    def __init__(
        self, example: Any, log_density: Callable[[Any], Tensor] | None = None, *, start: Start | None = None
    ) -> None:
        self._bare = not isinstance(example, Mapping)
        named = {"x": example} if self._bare else example
        if not named:
            raise InvalidInput("Blocks: example holds no block; give a tensor or a dict of tensors")
        self.examples = {str(name): _tensor(name, value) for name, value in named.items()}
        self.leaves = [*self.examples]
        self.shapes = {name: tuple(value.shape) for name, value in self.examples.items()}
        self._sizes = [value.numel() for value in self.examples.values()]
        self.dim = sum(self._sizes)
        floats = [value.dtype for value in self.examples.values() if value.dtype.is_floating_point]
        whole = len(floats) == len(self.examples)
        self.dtype = floats[0] if whole else torch.float64
        self.device = next(iter(self.examples.values())).device
        self.joint, self._start = log_density, start

    @property
    def names(self) -> list[str]:
        """One name a scalar."""
        from benthic.samplers.judging.draws import entries

        return [entry for name, shape in self.shapes.items() for entry in entries(name, shape)]

    def named(self, position: Tensor) -> dict[str, Tensor]:
        """Blocks of packed rows (..., d), each with the leading shape of the rows and its own dtype."""
        if position.shape[-1] != self.dim:
            raise InvalidInput(f"Blocks: a position has {position.shape[-1]} columns; there are {self.dim} numbers")
        pieces = zip(self.examples.items(), position.split(self._sizes, -1), strict=True)
        lead = position.shape[:-1]
        return {name: piece.reshape(*lead, *one.shape).to(one.dtype) for (name, one), piece in pieces}

    def unpack(self, position: Tensor) -> Any:
        """Blocks of packed rows (..., d): a dict, or a tensor where the example is one."""
        named = self.named(position)
        return named["x"] if self._bare else named

    def pack(self, params: Any) -> Tensor:
        """Packed rows (..., d) of blocks with leading shape ..."""
        named = params if isinstance(params, Mapping) else {"x": params}
        if set(named) != set(self.leaves):
            raise InvalidInput(f"Blocks.pack: got {[*named]}; the blocks are {self.leaves}")
        pieces = []
        for name, shape in self.shapes.items():
            value = torch.as_tensor(named[name], device=self.device)
            lead = value.ndim - len(shape)
            if lead < 0 or tuple(value.shape[lead:]) != shape:
                raise InvalidInput(f"Blocks.pack: {name!r} has shape {tuple(value.shape)}; it must end in {shape}")
            pieces.append(value.reshape(*value.shape[:lead], -1).to(self.dtype))
        lead_shape = torch.broadcast_shapes(*(piece.shape[:-1] for piece in pieces))
        return torch.cat([piece.expand(*lead_shape, piece.shape[-1]) for piece in pieces], -1)

    def log_density(self, position: Tensor) -> Tensor:
        """(chains,) log density of packed rows; zero where none was given."""
        if self.joint is None:
            return position.new_zeros(len(position))
        value = self.joint(self.unpack(position))
        if not isinstance(value, Tensor) or tuple(value.shape) != (len(position),):
            got = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
            raise InvalidInput(
                f"Blocks: log_density returned {got}; it must be ({len(position)},), one number a chain of blocks "
                "with a leading chain dimension"
            )
        return value.to(self.dtype)

    def start(self, chains: int, generator: torch.Generator) -> Tensor:
        """(chains, d) points to start from."""
        if self._start is None:
            return self.check_start(self.pack(self.examples).expand(chains, self.dim).clone())
        rows = self.pack(self._start(chains, generator))
        if rows.ndim != 2 or len(rows) != chains:
            raise InvalidInput(f"Blocks: start gave rows {tuple(rows.shape)}; ({chains}, {self.dim}) are due")
        return self.check_start(rows)

    def check_start(self, position: Tensor) -> Tensor:
        """Starting rows (chains, d), checked: a finite density everywhere."""
        rows = torch.as_tensor(position, dtype=self.dtype, device=self.device)
        if rows.ndim != 2 or rows.shape[1] != self.dim or not len(rows):
            raise InvalidInput(f"Blocks: start has shape {tuple(rows.shape)}; it must be (chains, {self.dim})")
        bad = ~self.log_density(rows).isfinite()
        if bad.any():
            raise InvalidInput(
                f"Blocks: the log density is not finite at {int(bad.sum())} of {len(rows)} starting points; start "
                "chains where the law has mass (start=...)"
            )
        return rows

    def check_names(self, names: Iterable[str], where: str) -> None:
        """An error where a name is no block."""
        for name in names:
            if name not in self.examples:
                raise InvalidInput(
                    f"{where}: there is no block {name!r}; they are {self.leaves}{nearest(name, self.leaves)}"
                )


def _tensor(name: Any, value: Any) -> Tensor:
    if isinstance(value, Tensor):
        return value.detach()
    try:
        return torch.as_tensor(np.asarray(value))
    except TypeError as error:
        raise InvalidInput(f"Blocks: {name!r} of the example is {value!r}; it must be a number or a tensor") from error
