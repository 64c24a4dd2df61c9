"""Vector fields that depend on time, as networks that know their own divergence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benthic.base.errors import InvalidInput, nearest
from benthic.nets.mlp import initialize

_Curve = Callable[[Tensor], tuple[Tensor, Tensor]]


def _tanh(a: Tensor) -> tuple[Tensor, Tensor]:
    h = torch.tanh(a)
    return h, 1 - h * h


def _softplus(a: Tensor) -> tuple[Tensor, Tensor]:
    return F.softplus(a), torch.sigmoid(a)


def _silu(a: Tensor) -> tuple[Tensor, Tensor]:
    s = torch.sigmoid(a)
    h = a * s
    return h, s + h * (1 - s)


# An activation and its slope; smooth ones only, since the divergence of a field is itself integrated and trained.
CURVES: dict[str, _Curve] = {"tanh": _tanh, "softplus": _softplus, "silu": _silu}


class TimeField(nn.Module):
    r"""A fully connected field f(t, x), every hidden layer of which is scaled and shifted by the time.

    .. math:: h_{i+1} = \phi\big((W_i h_i + b_i) \odot 2\,\sigma(g_i t + c_i + G_i y) + u_i t + U_i y\big), \qquad
              f = W_L h_L + b_L

    The gated layers of Grathwohl et al., 2019, which also take a context y where there is one. The last layer begins
    at zero, and so does the field.

    width: size of x and of f. hidden: widths of the hidden layers. nonlinearity: ``tanh``, ``softplus`` or ``silu``.
    context: numbers that a row is given besides.

    >>> field = TimeField(3, (8,))
    >>> field(torch.tensor(0.5), torch.ones(2, 3)).shape
    torch.Size([2, 3])
    """

    def __init__(self, width: int, hidden: Sequence[int], nonlinearity: str = "tanh", context: int = 0) -> None:
        super().__init__()
        self.width, self.context = width, context
        self.curve = curve(nonlinearity)
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise((width, *hidden)))
        self.sizes = [size for size in hidden for _ in ("gate", "shift")]
        self.times = nn.Linear(1, sum(self.sizes))
        self.last = nn.Linear(hidden[-1], width)
        for layer in self.layers:
            initialize(cast(nn.Linear, layer), nonlinearity)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)
        self.contexts = nn.Linear(context, sum(self.sizes), bias=False) if context else None

    def forward(self, t: Tensor, x: Tensor, offsets: Tensor | None = None) -> Tensor:
        """The field at points (n, width); t: () one time, or (n, 1) one for each. offsets: see ``offsets``."""
        value: Tensor = self.last(self._hidden(t, x, offsets)[0])
        return value

    def offsets(self, context: Tensor | None) -> Tensor | None:
        """What contexts (n, context) add to gates and shifts, at every time; it can be kept for a solve."""
        return None if self.contexts is None else self.contexts(context)

    @property
    def _weights(self) -> list[Tensor]:
        return [cast(nn.Linear, layer).weight for layer in self.layers]

    def coupling(self) -> Tensor:
        r"""What the weights alone contribute to the divergence; it can be kept while they do not change.

        With at most two hidden layers, of slopes s and s', the trace needs no product for each coordinate:

        .. math:: \operatorname{tr} W_3 S' W_2 S W_1 = \sum_{jk} s'_j\, (W_2)_{jk} (W_1 W_3)_{kj}\, s_k
        """
        first, last = self._weights[0], self.last.weight
        if len(self.layers) == 1:
            return (first * last.T).sum(1)
        return self._weights[1].T * (first @ last) if len(self.layers) == 2 else first  # (k, j)

    def with_divergence(
        self, t: Tensor, x: Tensor, coupling: Tensor | None = None, offsets: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """The field (n, width) and its exact divergence (n,)."""
        h, slopes = self._hidden(t, x, offsets)
        coupling = self.coupling() if coupling is None else coupling
        if len(slopes) == 1:
            return self.last(h), slopes[0] @ coupling
        if len(slopes) == 2:
            return self.last(h), ((slopes[0] @ coupling) * slopes[1]).sum(-1)
        first, last = self._weights[0], self.last.weight
        tangents = first.T[:, None] * slopes[0]  # (width, n, k): of every coordinate
        for weight, slope in zip(self._weights[1:], slopes[1:], strict=True):
            tangents = (tangents @ weight.T) * slope
        return self.last(h), torch.einsum("dnk,dk->n", tangents, last)

    def with_products(
        self, t: Tensor, x: Tensor, vectors: Tensor, offsets: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """The field (n, width) and its Jacobian times vectors (k, n, width)."""
        h, slopes = self._hidden(t, x, offsets)
        tangents = vectors
        for weight, slope in zip(self._weights, slopes, strict=True):
            tangents = (tangents @ weight.T) * slope
        return self.last(h), tangents @ self.last.weight.T

    def _hidden(self, t: Tensor, x: Tensor, offsets: Tensor | None) -> tuple[Tensor, list[Tensor]]:
        """The last hidden layer, and the slope of every hidden layer by what its weights give."""
        scales = self.times(t.reshape(-1, 1))  # (1 or n, sizes)
        parts = (scales if offsets is None else scales + offsets).split(self.sizes, -1)
        h, slopes = x, []
        for layer, gate, shift in zip(self.layers, parts[::2], parts[1::2], strict=True):
            gate = 2 * torch.sigmoid(gate)
            h, slope = self.curve(torch.addcmul(shift, layer(h), gate))
            slopes.append(slope * gate)
        return h, slopes


def curve(name: str) -> _Curve:
    """A smooth activation by name: a function that gives its value and its slope."""
    if name not in CURVES:
        raise InvalidInput(
            f"activation {name!r} is not one for fields{nearest(str(name), CURVES)}; use a smooth one: "
            f"{', '.join(CURVES)}"
        )
    return CURVES[name]
