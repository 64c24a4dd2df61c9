"""Kernel matrices a tile at a time, forward and backward."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from benthic.kernels.points import blocks


def block_product(kernel: Any, same: bool, elements: int | None, X: Tensor, Y: Tensor, V: Tensor) -> Tensor:
    """The matrix of a kernel between X (n, d) and Y (m, d) times V (m, c), a tile at a time; same: Y is X itself."""
    return _BlockProduct.apply(kernel, same, elements, X, Y, V, *(value for _, value in kernel.tensors()))


class _BlockProduct(Function):
    """A kernel matrix times a matrix, holding one tile at a time; the backward pass computes the tiles again.

    Inputs: kernel, whether Y is X itself, entries of a tile, X (n, d), Y (m, d), V (m, c), and the kernel's parameters.
    """

    @staticmethod
    def forward(
        ctx: Any, kernel: Any, same: bool, elements: int | None, X: Tensor, Y: Tensor, V: Tensor, *values: Tensor
    ) -> Tensor:
        ctx.kernel, ctx.same, ctx.elements = kernel, same, elements
        ctx.save_for_backward(X, Y, V, *values)
        kernel = kernel._rebuilt(iter(values))
        fast = kernel._allows_fast(X, Y)
        out = X.new_zeros(len(X), V.shape[1])
        for rows, columns in blocks(len(X), len(Y), elements, X.device):
            shift = rows.start - columns.start if same else None
            out[rows].addmm_(kernel._matrix(X[rows], Y[columns], shift, fast), V[columns])
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, G: Tensor) -> tuple[Tensor | None, ...]:
        inputs = ctx.saved_tensors
        wanted = ctx.needs_input_grad[3:]
        totals = [torch.zeros_like(tensor) if want else None for tensor, want in zip(inputs, wanted, strict=True)]
        for rows, columns in blocks(len(inputs[0]), len(inputs[1]), ctx.elements, G.device):
            shift = rows.start - columns.start if ctx.same else None
            for place, slope in _tile_slopes(ctx.kernel, inputs, wanted, rows, columns, shift, G):
                part = {0: rows, 1: columns, 2: columns}.get(place, ...)
                totals[place][part] += slope
        return None, None, None, *totals


def _tile_slopes(
    kernel: Any,
    inputs: tuple[Tensor, ...],
    wanted: tuple[bool, ...],
    rows: slice,
    columns: slice,
    shift: int | None,
    G: Tensor,
) -> Iterator[tuple[int, Tensor]]:
    """Place and value of the gradients that one tile gives to the wanted inputs."""
    X, Y, V, *values = inputs
    local = [X[rows], Y[columns], V[columns], *values]
    with torch.enable_grad():
        local = [tensor.detach().requires_grad_(want) for tensor, want in zip(local, wanted, strict=True)]
        x, y, v, *values = local
        image = kernel._rebuilt(iter(values))._matrix(x, y, shift) @ v
        places = [i for i, want in enumerate(wanted) if want]
        slopes = torch.autograd.grad(image, [local[i] for i in places], G[rows], allow_unused=True)
    return ((place, slope) for place, slope in zip(places, slopes, strict=True) if slope is not None)
