"""Convolution as a matrix: Toeplitz in one dimension, doubly block Toeplitz in two."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from benthic.base.errors import InvalidInput, nearest
from benthic.base.settings import is_whole
from benthic.linalg.checks import floating
from benthic.linalg.geometry import Geometry, geometry_of

_KINDS = ("convolve", "correlate")


def convolution_matrix(
    kernel: Any,
    size: int | Sequence[int],
    padding: int | Sequence[int] | str = 0,
    stride: int | Sequence[int] = 1,
    dilation: int | Sequence[int] = 1,
    kind: str = "convolve",
    sparse: bool = False,
) -> torch.Tensor:
    r"""The matrix of a convolution: applied to the entries of x in a row, it gives those of the result.

    .. math:: \operatorname{vec}(x * w) = T_w \operatorname{vec}(x)

    At stride 1 it is constant along diagonals: Toeplitz in one dimension; in two, blocks that are Toeplitz stand in
    a Toeplitz pattern. Its transpose carries gradients back.

    kernel: (k,), (k, l), (out, in, k) or (out, in, k, l). size: n or (h, w) of x, without channels.
    padding, stride, dilation: as in :func:`benthic.linalg.correlate`. kind: "convolve" or "correlate".
    sparse: return a sparse tensor, which holds only the entries that the kernel reaches.
    Returns (entries of the result, entries of x); gradients flow to the kernel.

    >>> convolution_matrix([1.0, 2.0], 3, padding="full")
    tensor([[1., 0., 0.],
            [2., 1., 0.],
            [0., 2., 1.],
            [0., 0., 2.]], dtype=torch.float64)
    """
    if kind not in _KINDS:
        raise InvalidInput(
            f"convolution_matrix: kind is {kind!r}{nearest(str(kind), _KINDS)}; it is convolve or correlate"
        )
    kernel = floating(kernel, "convolution_matrix", "kernel")
    sizes = tuple(size) if isinstance(size, Sequence) else (size,)
    dimensions = kernel.ndim - 2 if kernel.ndim > 2 else kernel.ndim
    if len(sizes) != dimensions or not all(is_whole(n, 1) for n in sizes):
        raise InvalidInput(
            f"convolution_matrix: size is {size!r} for a kernel of shape {tuple(kernel.shape)}; "
            f"give {dimensions} positive whole numbers, without channels"
        )
    channels = (kernel.shape[1],) if kernel.ndim > 2 else ()
    shape = geometry_of(kind, (*channels, *sizes), tuple(kernel.shape), padding, stride, dilation)
    turned = kernel.flip(shape.axes) if kind == "convolve" else kernel
    weights = turned if shape.channels_out else turned[None, None]
    return _assembled(weights, shape, sparse)


def _assembled(weights: torch.Tensor, shape: Geometry, sparse: bool) -> torch.Tensor:
    """The matrix from its nonzero entries: one for every output, every tap and every pair of channels."""
    rows, columns, taps = _places(shape, weights.device)
    c_out, c_in = weights.shape[:2]
    points_out, points_in = math.prod(shape.out), math.prod(shape.size)
    o = torch.arange(c_out, device=weights.device)[:, None, None]
    i = torch.arange(c_in, device=weights.device)[None, :, None]
    row = (o * points_out + rows).expand(c_out, c_in, -1).reshape(-1)
    column = (i * points_in + columns).expand(c_out, c_in, -1).reshape(-1)
    values = weights.reshape(c_out, c_in, -1)[..., taps].reshape(-1)
    total = (c_out * points_out, c_in * points_in)
    if sparse:
        return torch.sparse_coo_tensor(torch.stack([row, column]), values, total, check_invariants=False).coalesce()
    dense = torch.zeros(total[0] * total[1], dtype=weights.dtype, device=weights.device)
    return dense.index_add(0, row * total[1] + column, values).reshape(total)


def _places(shape: Geometry, device: torch.device) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Flat index of output, input and tap for every product that the convolution sums, without channels."""
    rows = columns = taps = torch.zeros(1, dtype=torch.long, device=device)
    for n, k, m, p, s, d in zip(
        shape.size, shape.kernel, shape.out, shape.before, shape.stride, shape.dilation, strict=True
    ):
        u = torch.arange(m, device=device)[:, None].expand(m, k)
        tap = torch.arange(k, device=device)[None, :].expand(m, k)
        read = s * u - p + d * tap
        inside = (read >= 0) & (read < n)
        rows = (rows[:, None] * m + u[inside]).reshape(-1)
        columns = (columns[:, None] * n + read[inside]).reshape(-1)
        taps = (taps[:, None] * k + tap[inside]).reshape(-1)
    return rows, columns, taps
