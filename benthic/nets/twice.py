"""Convolutions whose gradients are learned from: penalties on slopes and energies differentiate them twice.

PyTorch's own second derivative makes the gradient of the weights by a convolution whose kernel is a whole picture, for
which libraries have only slow code. Here it comes from the kernels that make every gradient of the first order: a
convolution, its gradient in the input and its gradient in the weights are linear in each of two arguments, and the
derivatives of each of the three are the other two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass(frozen=True)
class _Shape:
    """Stride and padding of a convolution; no tuple, whose parts torch.func would take for arguments."""

    stride: tuple[int, int]
    padding: tuple[int, int]


def _forward(x: Tensor, weight: Tensor, how: _Shape) -> Tensor:
    return F.conv2d(x, weight, None, how.stride, how.padding)


def _gradients(g: Tensor, x: Tensor, weight: Tensor, how: _Shape, which: tuple[bool, bool]) -> Tensor:
    """The gradient in x or in weight of the sum of g times the convolution; of the other only the shape matters."""
    found = torch.ops.aten.convolution_backward(
        g, x, weight, None, how.stride, how.padding, (1, 1), False, (0, 0), 1, (*which, False)
    )
    gradient: Tensor = found[0 if which[0] else 1]
    return gradient


class _Product(torch.autograd.Function):
    """A function that is linear in each of two tensors, so that it differentiates alike in both directions."""

    generate_vmap_rule = True

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        a, b, like, how = inputs
        ctx.save_for_backward(a, b, like)
        ctx.save_for_forward(a, b, like)
        ctx.how = how


class _Convolved(_Product):
    """From x and weights to what the convolution makes of them."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor, like: None, how: _Shape) -> Tensor:
        return _forward(x, weight, how)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, _ = ctx.saved_tensors
        first = _ToInput.apply(g, weight, x, ctx.how) if ctx.needs_input_grad[0] else None
        second = _ToWeight.apply(g, x, weight, ctx.how) if ctx.needs_input_grad[1] else None
        return first, second, None, None

    @staticmethod
    def jvp(ctx: Any, dx: Tensor | None, dweight: Tensor | None, *rest: None) -> Tensor | None:
        x, weight, _ = ctx.saved_tensors
        return _sum(
            None if dx is None else _Convolved.apply(dx, weight, None, ctx.how),
            None if dweight is None else _Convolved.apply(x, dweight, None, ctx.how),
        )


class _ToInput(_Product):
    """From a gradient g of the outcome and weights to the gradient in the input; like: the input, for its shape."""

    @staticmethod
    def forward(g: Tensor, weight: Tensor, like: Tensor, how: _Shape) -> Tensor:
        return _gradients(g, like, weight, how, (True, False))

    @staticmethod
    def backward(ctx: Any, h: Tensor) -> tuple[Tensor | None, ...]:
        g, weight, _ = ctx.saved_tensors
        first = _Convolved.apply(h, weight, None, ctx.how) if ctx.needs_input_grad[0] else None
        second = _ToWeight.apply(g, h, weight, ctx.how) if ctx.needs_input_grad[1] else None
        return first, second, None, None

    @staticmethod
    def jvp(ctx: Any, dg: Tensor | None, dweight: Tensor | None, *rest: None) -> Tensor | None:
        g, weight, like = ctx.saved_tensors
        return _sum(
            None if dg is None else _ToInput.apply(dg, weight, like, ctx.how),
            None if dweight is None else _ToInput.apply(g, dweight, like, ctx.how),
        )


class _ToWeight(_Product):
    """From a gradient g of the outcome and x to the gradient in the weights; like: the weights, for their shape."""

    @staticmethod
    def forward(g: Tensor, x: Tensor, like: Tensor, how: _Shape) -> Tensor:
        return _gradients(g, x, like, how, (False, True))

    @staticmethod
    def backward(ctx: Any, h: Tensor) -> tuple[Tensor | None, ...]:
        g, x, _ = ctx.saved_tensors
        first = _Convolved.apply(x, h, None, ctx.how) if ctx.needs_input_grad[0] else None
        second = _ToInput.apply(g, h, x, ctx.how) if ctx.needs_input_grad[1] else None
        return first, second, None, None

    @staticmethod
    def jvp(ctx: Any, dg: Tensor | None, dx: Tensor | None, *rest: None) -> Tensor | None:
        g, x, like = ctx.saved_tensors
        return _sum(
            None if dg is None else _ToWeight.apply(dg, x, like, ctx.how),
            None if dx is None else _ToWeight.apply(g, dx, like, ctx.how),
        )


def _sum(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    return b if a is None else a if b is None else a + b


def conv2d(x: Tensor, weight: Tensor, bias: Tensor | None, stride: tuple[int, int], padding: tuple[int, int]) -> Tensor:
    """``torch.nn.functional.conv2d`` without groups and dilation, whose second derivative is as quick as the first.

    >>> x, weight = torch.rand(2, 1, 8, 8), torch.rand(3, 1, 3, 3)
    >>> found = conv2d(x, weight, None, (1, 1), (1, 1))
    >>> bool(torch.equal(found, torch.nn.functional.conv2d(x, weight, padding=1)))
    True
    """
    if torch.is_autocast_enabled(x.device.type):
        kind = torch.get_autocast_dtype(x.device.type)
        x, weight, bias = x.to(kind), weight.to(kind), None if bias is None else bias.to(kind)
    found: Tensor = _Convolved.apply(x, weight, None, _Shape(stride, padding))
    return found if bias is None else found + bias[:, None, None]


class Conv2d(nn.Conv2d):
    """``torch.nn.Conv2d`` with zeros beyond the edge, for networks that are differentiated twice.

    On a GPU it is ``conv2d`` of this module; on a CPU PyTorch's own is the quicker one.

    >>> Conv2d(1, 4, 3, padding=1)(torch.zeros(2, 1, 8, 8)).shape
    torch.Size([2, 4, 8, 8])
    """

    def forward(self, x: Tensor) -> Tensor:
        """Pictures (n, c, h, w) to features."""
        if not x.is_cuda:
            return super().forward(x)
        return conv2d(x, self.weight, self.bias, self.stride, self.padding)  # type: ignore[arg-type]
