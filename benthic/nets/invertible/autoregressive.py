"""Autoregressive maps: each column is transformed by a law whose parameters the columns before it decide."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benthic.base.errors import InvalidInput
from benthic.nets.activations import activation
from benthic.nets.invertible.laws import Law
from benthic.nets.invertible.transform import Inverted, Transform, check_shape

_START = 0.3  # of the last weights


def degrees_of(width: int, hidden: Sequence[int], context: int = 0) -> list[Tensor]:
    """How many of the first columns each unit of each hidden layer may see; rising, so that slices are contiguous.

    Units that see no column would be constants, unless there is a context.

    >>> [d.tolist() for d in degrees_of(3, [4])]
    [[1, 1, 2, 2]]
    """
    least = 0 if context or width == 1 else 1
    kinds = width - least
    return [least + torch.arange(units) * kinds // units for units in hidden]


def masks_of(width: int, hidden: Sequence[int], outputs: int, context: int = 0) -> list[Tensor]:
    """The masks of the layers of a MADE, (out, in) each; ``outputs`` numbers for each column, column by column.

    Germain et al., 2015. Inputs are the columns and then the context, which every unit sees.

    >>> masks_of(2, [2], 1)[0].tolist(), masks_of(2, [2], 1)[1].tolist()
    ([[True, False], [True, False]], [[False, False], [True, True]])
    """
    before = torch.cat([torch.arange(1, width + 1), torch.zeros(context, dtype=torch.long)])
    masks = []
    for degrees in degrees_of(width, hidden, context):
        masks.append(degrees[:, None] >= before)
        before = degrees
    last = torch.arange(width).repeat_interleave(outputs)
    masks.append(last[:, None] >= before)
    return masks


def check_masks(masks: Sequence[Tensor], width: int, outputs: int) -> None:
    """Refuse masks through which an output of a column could see this column or a later one."""
    if not masks:
        raise InvalidInput("MaskedMLP: masks is empty; give one for each layer")
    if any(a.shape[0] != b.shape[1] for a, b in pairwise(masks)) or masks[-1].shape[0] != width * outputs:
        raise InvalidInput(f"MaskedMLP: masks of shapes {[tuple(m.shape) for m in masks]} do not fit one another")
    paths = masks[0].double()
    for mask in masks[1:]:
        paths = (mask.double() @ paths > 0).double()
    seen = paths[:, :width].reshape(width, outputs, width).amax(1)
    broken = torch.triu(seen).nonzero()
    if len(broken):
        column, by = broken[0].tolist()
        raise InvalidInput(
            f"MaskedMLP: the masks break autoregression: the parameters of column {column} depend on column {by}; "
            "a column may only depend on those before it"
        )


class MaskedLinear(nn.Linear):
    """A linear layer in which masked weights are zero. mask: (out, in)."""

    mask: Tensor

    def __init__(self, mask: Tensor) -> None:
        super().__init__(mask.shape[1], mask.shape[0])
        self.register_buffer("mask", mask.to(self.weight.dtype))
        with torch.no_grad():
            # fan-in counts only what a unit sees, for biases too: their kinks are to lie anywhere among the rows
            share = mask.double().mean(1).clamp_min(1.0 / max(1, mask.shape[1])).sqrt().to(self.weight)
            self.weight.mul_(self.mask / share[:, None])
            self.bias.div_(share)

    def forward(self, x: Tensor) -> Tensor:
        """x (n, in) to (n, out)."""
        return F.linear(x, self.weight * self.mask, self.bias)


class MaskedMLP(nn.Module):
    """From rows (n, width), with their context (n, k) beside them, to parameters (n, width, outputs) of each column.

    Those of column i depend on the columns before i and on the context. masks: of the layers, MADE's if not given;
    masks that break autoregression are refused.
    """

    def __init__(
        self,
        width: int,
        outputs: int,
        hidden: Sequence[int] = (64, 64),
        nonlinearity: str = "relu",
        *,
        context: int = 0,
        masks: Sequence[Tensor] | None = None,
    ) -> None:
        super().__init__()
        made = masks_of(width, hidden, outputs, context) if masks is None else list(masks)
        check_masks(made, width, outputs)
        self.width, self.outputs, self.context, self.own = width, outputs, context, masks is not None
        self.layers: Any = nn.ModuleList([MaskedLinear(mask) for mask in made])
        self.curve, self.curve_in_place = activation(nonlinearity), activation(nonlinearity, inplace=True)
        self._cuts = [_cuts(d, width) for d in degrees_of(width, hidden, context)]
        with torch.no_grad():  # near the identity at first
            self.layers[-1].weight.mul_(_START)
            self.layers[-1].bias.zero_()

    def forward(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        """Parameters (n, width, outputs)."""
        x = self._joined(x, context)
        for layer in self.layers[:-1]:
            x = self.curve(layer(x))
        found: Tensor = self.layers[-1](x)
        return found.reshape(len(x), self.width, self.outputs)

    def _joined(self, x: Tensor, context: Tensor | None) -> Tensor:
        check_shape("MaskedMLP", x, self.width, context, self.context, rank=2)
        return x if context is None else torch.cat([x, context], 1)

    def walk(self, context: Tensor | None, like: Tensor) -> Walk:
        """A way through the columns one by one, which computes each unit once; see ``Walk``."""
        return Walk(self, context, like)


def _cuts(degrees: Tensor, width: int) -> list[int]:
    """For i = 0..width, how many units of a layer see at most i columns."""
    return [int((degrees <= i).sum()) for i in range(width + 1)]


class Walk:
    """Parameters column by column: after column i is known only the units that see i columns are new.

    So all columns together cost about one pass of the network, where d passes would do the same. Units lie one after
    another, (units, n): new ones follow those before, and products read and write whole stretches of memory.
    What is new sees all that is known, so that no weight in use is masked.
    ``parameters(i)`` needs the columns before i, told in order by ``tell``.
    """

    def __init__(self, network: MaskedMLP, context: Tensor | None, like: Tensor) -> None:
        self._network, self._known = network, network.context
        self._weights = [layer.weight for layer in network.layers]
        if context is not None:  # the context first, so that what is known is always the first so many inputs
            self._weights[0] = self._weights[0].roll(network.context, 1)
        self._last = self._weights[-1].reshape(network.width, network.outputs, -1)
        self._bias = network.layers[-1].bias.reshape(network.width, network.outputs)
        # without gradients what is computed goes to its place; with them it is joined to what was there
        self._kept = not torch.is_grad_enabled()
        counts = [network.width + network.context, *(cuts[-1] for cuts in network._cuts)]
        self._units = [like.new_empty(count if self._kept else 0, len(like)) for count in counts]
        if context is not None:
            self._add(0, 0, context.T)

    def _add(self, place: int, start: int, new: Tensor) -> None:
        """Put the outputs of further units of a layer, from ``start`` on, after those before."""
        if self._kept:
            self._units[place][start : start + len(new)] = new
        else:
            self._units[place] = torch.cat([self._units[place], new])

    def _compute(self, place: int, start: int, end: int, seen: int) -> None:
        """Units ``start`` to ``end`` of the layer after ``place``, from the first ``seen`` units there."""
        network, known = self._network, self._units[place][:seen]
        weight, bias = self._weights[place][start:end, :seen], network.layers[place].bias[start:end, None]
        if not self._kept:
            self._add(place + 1, start, network.curve(torch.addmm(bias, weight, known)))
            return
        new = torch.addmm(bias, weight, known, out=self._units[place + 1][start:end])
        curved = network.curve_in_place(new)
        if curved is not new:  # not every curve can be applied in place
            self._add(place + 1, start, curved)

    def tell(self, column: Tensor) -> None:
        """The next column, (n,)."""
        self._add(0, self._known, column[None])
        self._known += 1

    def parameters(self, i: int) -> Tensor:
        """Of column i, (n, outputs)."""
        seen = self._known
        for place, cuts in enumerate(self._network._cuts):
            start, end = (cuts[i - 1] if i else 0), cuts[i]
            if end > start:
                self._compute(place, start, end, seen)
            seen = end
        if not seen:  # nothing is known: the same for all rows
            return self._bias[i].expand(self._units[0].shape[1], -1)
        return torch.addmm(self._bias[i, :, None], self._last[i, :, :seen], self._units[-1][:seen]).T


class MaskedAutoregressive(Transform):
    r"""Each column by a law whose parameters depend on the columns before it.

    .. math:: z_i = f(x_i;\, h_i(x_{<i})), \qquad \log\left|\det\right| = \sum_i \log f'(x_i)

    Papamakarios et al., 2017. With splines it is the autoregressive neural spline flow, with ``SigmoidLaw`` the
    neural autoregressive flow (Huang et al., 2018). One pass of the network gives z; the inverse goes column by
    column, but every hidden unit is computed only once.

    width: columns. law: of each number. hidden: widths of hidden layers. context: numbers given besides.
    network: a ``MaskedMLP`` of one's own.
    """

    def __init__(
        self,
        width: int,
        law: Law,
        hidden: Sequence[int] = (64, 64),
        nonlinearity: str = "relu",
        *,
        context: int = 0,
        network: MaskedMLP | None = None,
    ) -> None:
        super().__init__()
        self.width, self.law = width, law
        self.network = network or MaskedMLP(width, law.outputs, hidden, nonlinearity, context=context)
        if (self.network.width, self.network.outputs) != (width, law.outputs):
            raise InvalidInput(
                f"MaskedAutoregressive: the network gives {self.network.outputs} numbers for {self.network.width} "
                f"columns; the law needs {law.outputs} for {width}"
            )

    def forward(self, x: Tensor, context: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """z and the log-determinant in one pass."""
        z, log = self.law.forward(x, self.network(x, context))
        return z, log.sum(1)

    def inverse(self, z: Tensor, context: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """x, column by column."""
        if self.network.own:
            return self._by_passes(z, context)
        self.network._joined(z, context)
        walk = self.network.walk(context, z)
        codes = z.T.contiguous()  # (d, n)
        columns, logs = [], []
        for i in range(self.width):
            x, log = self.law.inverse(codes[i], walk.parameters(i))
            walk.tell(x)
            columns.append(x)
            logs.append(log)
        return torch.stack(columns, 1), torch.stack(logs).sum(0)

    def _by_passes(self, z: Tensor, context: Tensor | None) -> tuple[Tensor, Tensor]:
        """One pass of the network for each column, for masks of any kind."""
        x, total = torch.zeros_like(z), z.new_zeros(len(z))
        for i in range(self.width):
            column, log = self.law.inverse(z[:, i], self.network(x, context)[:, i])
            x = torch.cat([x[:, :i], column[:, None], x[:, i + 1 :]], 1)
            total = total + log
        return x, total


class InverseAutoregressive(Inverted):
    """The same with the ways exchanged: samples in one pass, codes column by column (Kingma et al., 2016)."""

    def __init__(
        self, width: int, law: Law, hidden: Sequence[int] = (64, 64), nonlinearity: str = "relu", *, context: int = 0
    ) -> None:
        super().__init__(MaskedAutoregressive(width, law, hidden, nonlinearity, context=context))
