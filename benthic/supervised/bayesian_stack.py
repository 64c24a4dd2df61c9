"""Many equal networks held as rows of packed weights, evaluated and differentiated together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput, nearest

# each nonlinearity, and its derivative written in its own value
ACTIVATIONS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
    "tanh": (torch.tanh, lambda h: 1 - h * h),
    "relu": (torch.relu, lambda h: (h > 0).to(h.dtype)),
    "logistic": (torch.sigmoid, lambda h: h * (1 - h)),
}
Head = Callable[[Tensor], tuple[Tensor, Tensor]]  # outputs (members, n, k) -> value (members,), slope like outputs


class Layer(NamedTuple):
    """Where a layer lies in a packed row: its weights, its biases, and its widths."""

    weights: slice
    biases: slice
    inputs: int
    outputs: int


class Stack:
    r"""Fully connected networks of one shape, one a row of packed weights (members, size).

    .. math:: h_{l+1} = \phi\big(h_l V_l / \sqrt{d_l} + b_l\big)

    Weights are in units of the square root of the inputs of their layer, so that a standard normal row is a
    network of moderate outputs whatever its widths.

    widths: from input to output. activation: ``tanh``, ``relu`` or ``logistic``.
    relevance: whether every input has a group of weights of its own (otherwise a layer's weights are one group).

    >>> Stack([3, 4, 2]).size
    26
    """

    def __init__(self, widths: Sequence[int], activation: str = "tanh", relevance: bool = False) -> None:
        if activation not in ACTIVATIONS:
            raise InvalidInput(
                f"activation {activation!r} is unknown{nearest(str(activation), ACTIVATIONS)}; "
                f"use {', '.join(ACTIVATIONS)}"
            )
        self._function, self._derivative = ACTIVATIONS[activation]
        self.layers: list[Layer] = []
        groups: list[Tensor] = []
        at = count = 0
        for i, (a, b) in enumerate(pairwise(widths)):
            middle, end = at + a * b, at + a * b + b
            self.layers.append(Layer(slice(at, middle), slice(middle, end), a, b))
            own = relevance and i == 0
            groups.append(torch.arange(a).repeat_interleave(b) + count if own else torch.full((a * b,), count))
            count += a if own else 1
            groups.append(torch.full((b,), count))
            at, count = end, count + 1
        self.size, self.groups = at, count
        self.group_of = torch.cat(groups)  # (size,)

    def outputs(self, packed: Tensor, X: Tensor) -> Tensor:
        """(members, n, k) outputs of every network for rows (n, d)."""
        return self._forward(packed, X)[-1]

    def activate(self, x: Tensor) -> Tensor:
        """The nonlinearity between layers."""
        return self._function(x)

    def slope(self, packed: Tensor, X: Tensor, head: Head) -> tuple[Tensor, Tensor]:
        """The head's value (members,) and its gradient with respect to packed rows, by backpropagation."""
        states = self._forward(packed, X)
        value, back = head(states[-1])
        gradient = torch.empty_like(packed)
        for i in reversed(range(len(self.layers))):
            layer, scale = self.layers[i], self.layers[i].inputs ** -0.5
            slope = torch.bmm(states[i].mT, back)  # (members, inputs, outputs)
            gradient[:, layer.weights] = slope.flatten(1).mul_(scale)
            gradient[:, layer.biases] = back.sum(1)
            if i > 0:
                weights = packed[:, layer.weights].view(-1, layer.inputs, layer.outputs)
                back = torch.bmm(back, weights.mT).mul_(scale).mul_(self._derivative(states[i]))
        return value, gradient

    def _forward(self, packed: Tensor, X: Tensor) -> list[Tensor]:
        """The rows and what each layer makes of them, (members, n, width)."""
        members = len(packed)
        states = [X.expand(members, *X.shape)]
        for i, layer in enumerate(self.layers):
            weights = packed[:, layer.weights].reshape(members, layer.inputs, layer.outputs)
            biases = packed[:, layer.biases][:, None]  # (members, 1, outputs)
            made = torch.baddbmm(biases, states[-1], weights, alpha=layer.inputs**-0.5)
            states.append(self._function(made) if i < len(self.layers) - 1 else made)
        return states
