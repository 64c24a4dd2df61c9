"""Differentiable matrices of squared and Manhattan distances that hold nothing but the matrix itself.

Plain broadcasting would keep (n, m, d) numbers for the backward pass; here the derivative is written as products of
the incoming (n, m) matrix with the points. Inputs are tensors of one dtype and device, checked before.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

# Up to this many columns a processor subtracts directly as fast as it multiplies.
_DIRECT_COLUMNS = 16
# Entries of a strip of the matrix that is worked on at a time.
_STRIP = 2**22
# Entries whose cancellation is undone are gathered so many numbers at a time.
_GATHER = 2**24


def squared_matrix(X: Tensor, Y: Tensor) -> Tensor:
    """Squared distances, (..., n, d) and (..., m, d) to (..., n, m), with correct digits for near pairs."""
    return _Squared.apply(*_same_batch(X, Y))


def manhattan_matrix(X: Tensor, Y: Tensor) -> Tensor:
    """Sums of absolute differences, (..., n, d) and (..., m, d) to (..., n, m)."""
    return _Manhattan.apply(*_same_batch(X, Y))


def root(D: Tensor) -> Tensor:
    """The square root with slope 0 at 0, which is the choice that keeps gradients of distances finite."""
    positive = D > 0
    return torch.where(positive, torch.where(positive, D, torch.ones_like(D)).sqrt(), torch.zeros_like(D))


def fast_squared(X: Tensor, Y: Tensor) -> Tensor:
    """Minus the squared distances, (n, d) and (m, d) to (n, m), by one matrix product and nothing else.

    Errors are about the rounding unit times the largest squared norm of the centered points; not differentiable.
    """
    center = X.mean(0)
    X, Y = X - center, Y - center
    x2, y2 = X.square().sum(1, keepdim=True), Y.square().sum(1, keepdim=True)
    left = torch.cat([2 * X, -x2, -torch.ones_like(x2)], 1)
    right = torch.cat([Y, torch.ones_like(y2), y2], 1)
    return left @ right.T


def _squared_forward(X: Tensor, Y: Tensor) -> Tensor:
    if X.shape[-1] <= _DIRECT_COLUMNS and X.device.type == "cpu":
        return torch.cdist(X, Y, compute_mode="donot_use_mm_for_euclid_dist").square_()
    center = X.mean(-2, keepdim=True)
    # A wider product where it is cheap; elsewhere more pairs are subtracted directly.
    wide = X.dtype == torch.float64 or X.device.type == "cpu"
    B = (Y - center).to(torch.float64 if wide else X.dtype)
    D = X.new_empty(*X.shape[:-1], Y.shape[-2])
    height = max(1, _STRIP * X.shape[-2] // max(1, D.numel()))
    for top in range(0, X.shape[-2], height):
        rows = X[..., top : top + height, :]
        D[..., top : top + height, :] = _strip(rows, Y, (rows - center).to(B.dtype), B, 1e-3 if wide else 3e-2)
    return D


def _strip(X: Tensor, Y: Tensor, A: Tensor, B: Tensor, threshold: float) -> Tensor:
    """Squared distances by the product of the centered points A and B; pairs below the threshold by subtraction."""
    scale = A.square().sum(-1).unsqueeze(-1) + B.square().sum(-1).unsqueeze(-2)
    D = torch.sub(scale, A @ B.mT, alpha=2).clamp_(min=0)
    where = (scale.mul_(threshold) >= D).nonzero()
    D = D.to(X.dtype)
    for part in where.split(max(1, _GATHER // X.shape[-1])):
        *batch, i, j = part.unbind(1)
        D[(*batch, i, j)] = (X[(*batch, i)] - Y[(*batch, j)]).square().sum(-1)
    return D


class _Squared(Function):
    @staticmethod
    def forward(X: Tensor, Y: Tensor) -> Tensor:
        return _squared_forward(X, Y)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx: Any, G: Tensor) -> tuple[Tensor | None, Tensor | None]:
        X, Y = _centered(*ctx.saved_tensors)
        dX = 2 * (G.sum(-1).unsqueeze(-1) * X - G @ Y) if ctx.needs_input_grad[0] else None
        dY = 2 * (G.sum(-2).unsqueeze(-1) * Y - G.mT @ X) if ctx.needs_input_grad[1] else None
        return dX, dY

    @staticmethod
    def jvp(ctx: Any, dX: Tensor | None, dY: Tensor | None) -> Tensor:
        X, Y = _centered(*ctx.saved_tensors)
        total = X.new_zeros(())
        if dX is not None:
            total = total + (X * dX).sum(-1).unsqueeze(-1) - dX @ Y.mT
        if dY is not None:
            total = total + (Y * dY).sum(-1).unsqueeze(-2) - X @ dY.mT
        return 2 * total

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, int | None], X: Tensor, Y: Tensor) -> tuple[Tensor, int]:
        return _Squared.apply(*_front(info, in_dims, X, Y)), 0


class _Manhattan(Function):
    @staticmethod
    def forward(X: Tensor, Y: Tensor) -> Tensor:
        return torch.cdist(X, Y, p=1.0)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx: Any, G: Tensor) -> tuple[Tensor, Tensor]:
        X, Y = ctx.saved_tensors
        dX, dY = [], []
        for x, y in zip(X.unbind(-1), Y.unbind(-1), strict=True):  # a column at a time: (n, m) memory
            signed = G * torch.sign(x.unsqueeze(-1) - y.unsqueeze(-2)).detach()
            dX.append(signed.sum(-1))
            dY.append(-signed.sum(-2))
        return torch.stack(dX, -1), torch.stack(dY, -1)

    @staticmethod
    def jvp(ctx: Any, dX: Tensor | None, dY: Tensor | None) -> Tensor:
        X, Y = ctx.saved_tensors
        dX, dY = (torch.zeros_like(like) if d is None else d for d, like in ((dX, X), (dY, Y)))
        total = X.new_zeros(())
        for x, y, dx, dy in zip(X.unbind(-1), Y.unbind(-1), dX.unbind(-1), dY.unbind(-1), strict=True):
            side = torch.sign(x.unsqueeze(-1) - y.unsqueeze(-2))
            total = total + side * (dx.unsqueeze(-1) - dy.unsqueeze(-2))
        return total

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, int | None], X: Tensor, Y: Tensor) -> tuple[Tensor, int]:
        return _Manhattan.apply(*_front(info, in_dims, X, Y)), 0


def _centered(X: Tensor, Y: Tensor) -> tuple[Tensor, Tensor]:
    """Differences do not change under a shift, and rounding is smallest around zero."""
    center = Y.detach().mean(-2, keepdim=True)
    return X - center, Y - center


def _front(info: Any, in_dims: tuple[int | None, int | None], X: Tensor, Y: Tensor) -> list[Tensor]:
    """Both with the mapped dimension in front."""
    return [
        points.expand(info.batch_size, *points.shape) if dim is None else points.movedim(dim, 0)
        for points, dim in ((X, in_dims[0]), (Y, in_dims[1]))
    ]


def _same_batch(X: Tensor, Y: Tensor) -> tuple[Tensor, Tensor]:
    batch = torch.broadcast_shapes(X.shape[:-2], Y.shape[:-2])
    return X.expand(*batch, *X.shape[-2:]), Y.expand(*batch, *Y.shape[-2:])
