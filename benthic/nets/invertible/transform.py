"""What an invertible map is, and how maps are put together."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from benthic.base.errors import InvalidInput


class Transform(nn.Module):
    """An invertible map of rows (n, d) or pictures (n, c, h, w), perhaps given a context (n, k).

    ``forward`` goes from data to codes, ``inverse`` from codes to data; each also returns the log-determinant (n,) of
    the Jacobian of the way it went, so that the two add up to zero. ``begin`` lets maps that start where the data say
    look at some of them before training.
    """

    def forward(self, x: Tensor, context: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """z and log|dz/dx| of each example."""
        raise NotImplementedError

    def inverse(self, z: Tensor, context: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """x and log|dx/dz| of each example."""
        raise NotImplementedError

    def encode(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        """z alone, for maps whose log-determinant costs more than they do."""
        z: Tensor = self(x, context)[0]
        return z

    def decode(self, z: Tensor, context: Tensor | None = None) -> Tensor:
        """x alone."""
        return self.inverse(z, context)[0]

    @torch.no_grad()
    def begin(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        """Start where the data say; returns z."""
        return self.forward(x, context)[0]


class Chain(Transform):
    """Maps one after another; log-determinants add up.

    >>> z, logdet = Chain([Reversal(2), Reversal(2)])(torch.tensor([[1.0, 2.0]]))
    >>> z.tolist(), logdet.tolist()
    ([[1.0, 2.0]], [0.0])
    """

    def __init__(self, parts: Sequence[Transform]) -> None:
        super().__init__()
        if not parts or not all(isinstance(part, Transform) for part in parts):
            raise InvalidInput("Chain: parts must be one or more Transforms")
        self.parts = nn.ModuleList(parts)

    def forward(self, x: Tensor, context: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The parts in order."""
        total = x.new_zeros(len(x))
        for part in self.parts:
            x, log = part(x, context)
            total = total + log
        return x, total

    def inverse(self, z: Tensor, context: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The inverses of the parts, last first."""
        total = z.new_zeros(len(z))
        for part in reversed(self.parts):
            z, log = part.inverse(z, context)
            total = total + log
        return z, total

    @torch.no_grad()
    def begin(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        """Each part begins with what the parts before it make of the data."""
        for part in self.parts:
            x = part.begin(x, context)
        return x


class Inverted(Transform):
    """A map run backward: its ``forward`` is the other's ``inverse``."""

    def __init__(self, body: Transform) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: Tensor, context: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The inverse of the body."""
        found: tuple[Tensor, Tensor] = self.body.inverse(x, context)
        return found

    def inverse(self, z: Tensor, context: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The body."""
        found: tuple[Tensor, Tensor] = self.body(z, context)
        return found


class Permutation(Transform):
    """Columns, or channels of pictures, in another order.

    order: (d,) which column comes to each place.

    >>> Permutation([2, 0, 1])(torch.tensor([[10.0, 11.0, 12.0]]))[0].tolist()
    [[12.0, 10.0, 11.0]]
    """

    order: Tensor
    back: Tensor

    def __init__(self, order: Sequence[int] | Tensor) -> None:
        super().__init__()
        places = torch.as_tensor(order)
        if places.ndim != 1 or not len(places) or not torch.equal(places.sort().values, torch.arange(len(places))):
            raise InvalidInput(
                f"Permutation: order is {places.tolist()}, which is singular: each place from 0 on must occur once"
            )
        places = places.long()
        self.register_buffer("order", places)
        self.register_buffer("back", places.argsort())

    def forward(self, x: Tensor, context: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Reorder."""
        check_shape(type(self).__name__, x, len(self.order), None, None)
        return x.index_select(1, self.order), x.new_zeros(len(x))

    def inverse(self, z: Tensor, context: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Put back."""
        check_shape(type(self).__name__, z, len(self.order), None, None)
        return z.index_select(1, self.back), z.new_zeros(len(z))


class Reversal(Permutation):
    """Columns or channels from last to first."""

    def __init__(self, width: int) -> None:
        super().__init__(torch.arange(width).flip(0))


class Shuffle(Permutation):
    """Columns or channels in a random order that stays; drawn from torch's generator, or from ``generator``."""

    def __init__(self, width: int, generator: torch.Generator | None = None) -> None:
        super().__init__(torch.randperm(width, generator=generator))


class Flatten(Transform):
    """Pictures (n, c, h, w) as rows (n, chw)."""

    def __init__(self, event: Sequence[int]) -> None:
        super().__init__()
        self.event = tuple(event)

    def forward(self, x: Tensor, context: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """As rows."""
        if x.shape[1:] != self.event:
            raise InvalidInput(f"Flatten: examples have shape {tuple(x.shape)}; this map was built for {self.event}")
        return x.flatten(1), x.new_zeros(len(x))

    def inverse(self, z: Tensor, context: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """As pictures."""
        check_shape("Flatten", z, math.prod(self.event), None, None, rank=2)
        return z.reshape(len(z), *self.event), z.new_zeros(len(z))


class Unflatten(Inverted):
    """Rows (n, chw) as pictures (n, c, h, w)."""

    def __init__(self, event: Sequence[int]) -> None:
        super().__init__(Flatten(event))


def check_shape(
    name: str, x: Tensor, width: int, context: Tensor | None, given: int | None, rank: int | None = None
) -> None:
    """Refuse examples (n, width, ...) of other width or rank, or a context (n, given) of another; None: any will do."""
    if x.ndim < 2 or x.shape[1] != width or rank not in (None, x.ndim):
        kind = "channels of pictures" if (rank or x.ndim) > 2 else "columns"
        raise InvalidInput(f"{name}: examples have shape {tuple(x.shape)}; this map was built for {width} {kind}")
    if given is None:
        return
    if context is not None and (context.ndim not in (2, x.ndim) or len(context) != len(x)):
        raise InvalidInput(f"{name}: the context has shape {tuple(context.shape)}; {len(x)} examples need a row each")
    seen = 0 if context is None else context.shape[1]
    if seen != given:
        raise InvalidInput(f"{name}: the context has {seen} numbers a row; this map was built for {given}")


def sum_rows(values: Tensor) -> Tensor:
    """Sums (n,) over all but the first dimension."""
    return values.flatten(1).sum(1)


def with_context(x: Tensor, context: Tensor | None) -> Tensor:
    """Rows (n, d) with their context (n, k) beside them; beside pictures the context is repeated at every pixel."""
    if context is None:
        return x
    if x.ndim == 4 and context.ndim == 2:
        context = context[:, :, None, None].expand(-1, -1, *x.shape[2:])
    return torch.cat([x, context], 1)
