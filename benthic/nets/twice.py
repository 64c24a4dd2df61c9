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


# A convolution has three parts: its input, its weights, and its outcome or a gradient in it. Any two make the third.
_OTHERS = {"outcome": ("input", "weight"), "input": ("outcome", "weight"), "weight": ("outcome", "input")}


def _third(missing: str, parts: dict[str, Tensor], like: Tensor | None, how: _Shape) -> Tensor:
    """The part that is missing, with its derivatives; like: a tensor of its shape, which an outcome needs not."""
    found: Tensor = _Third.apply(*(parts[name] for name in _OTHERS[missing]), like, missing, how)
    return found


class _Third(torch.autograd.Function):
    """From two parts of a convolution to the third, which is linear in each of them."""

    generate_vmap_rule = True

    @staticmethod
    def forward(a: Tensor, b: Tensor, like: Tensor | None, missing: str, how: _Shape) -> Tensor:
        if like is None or missing == "outcome":
            return F.conv2d(a, b, None, how.stride, how.padding)
        x, weight, which = (like, b, (True, False)) if missing == "input" else (b, like, (False, True))
        found = torch.ops.aten.convolution_backward(
            a, x, weight, None, how.stride, how.padding, (1, 1), False, (0, 0), 1, (*which, False)
        )
        gradient: Tensor = found[0 if which[0] else 1]
        return gradient

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        a, b, like, ctx.missing, ctx.how = inputs
        ctx.save_for_backward(a, b, like)
        ctx.save_for_forward(a, b, like)

    @staticmethod
    def backward(ctx: Any, h: Tensor) -> tuple[Tensor | None, ...]:
        a, b, _ = ctx.saved_tensors
        one, two = _OTHERS[ctx.missing]
        first = _third(one, {ctx.missing: h, two: b}, a, ctx.how) if ctx.needs_input_grad[0] else None
        second = _third(two, {ctx.missing: h, one: a}, b, ctx.how) if ctx.needs_input_grad[1] else None
        return first, second, None, None, None

    @staticmethod
    def jvp(ctx: Any, da: Tensor | None, db: Tensor | None, *rest: None) -> Tensor | None:
        a, b, like = ctx.saved_tensors
        one, two = _OTHERS[ctx.missing]
        moved = [
            _third(ctx.missing, parts, like, ctx.how)
            for parts in ({one: da, two: b}, {one: a, two: db})
            if not any(part is None for part in parts.values())
        ]
        return sum(moved[1:], moved[0]) if moved else None


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
    found = _third("outcome", {"input": x, "weight": weight}, None, _Shape(stride, padding))
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
