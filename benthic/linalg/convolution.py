r"""Discrete convolution and cross-correlation in one and two dimensions: direct, by FFT, and backwards.

.. math::
    (x \star w)[u] = \sum_i x[s u - p + d i]\, w[i], \qquad
    (x * w)[u] = \sum_i x[s u - p + d (k - 1 - i)]\, w[i]

Correlation slides the kernel as it is; convolution turns it around first, which makes it commute. Padding p, stride s
and dilation d mean what they mean in torch.

The kernel says how many dimensions there are: (k,) and (k, l) act on every vector (..., n) or picture (..., h, w);
(out, in, k) and (out, in, k, l) also mix channels, from (..., in, n) or (..., in, h, w) to (..., out, ...).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F

from benthic.base.errors import InvalidInput, nearest
from benthic.linalg.checks import alike, floating
from benthic.linalg.geometry import Geometry, geometry_of, output_size

Whole = int | Sequence[int]
_METHODS = ("auto", "direct", "fft")


def correlate(
    x: Any,
    kernel: Any,
    padding: Whole | str = 0,
    stride: Whole = 1,
    dilation: Whole = 1,
    method: str = "auto",
) -> torch.Tensor:
    r"""Cross-correlation: the kernel slides over x as it is. This is what networks call convolution.

    .. math:: (x \star w)[u] = \sum_i x[s u - p + d i]\, w[i]

    x: (..., n) or (..., h, w), with channels before the last dimensions if the kernel has them.
    kernel: (k,), (k, l), (out, in, k) or (out, in, k, l).
    padding: zeros on both sides, one number or one a dimension; "valid" is none, "same" keeps the size at stride 1
    (the odd zero comes last, as in torch), "full" gives every overlap. stride, dilation: one or one a dimension.
    method: "direct", "fft", or "auto", which takes the one that should be faster.
    Returns a tensor of sizes :func:`output_size`; gradients flow to x and kernel.

    >>> correlate(torch.arange(9.0).reshape(3, 3), torch.arange(4.0).reshape(2, 2))
    tensor([[19., 25.],
            [37., 43.]])
    """
    return _run(x, kernel, "correlate", padding, stride, dilation, method)


def convolve(
    x: Any,
    kernel: Any,
    padding: Whole | str = 0,
    stride: Whole = 1,
    dilation: Whole = 1,
    method: str = "auto",
) -> torch.Tensor:
    r"""Convolution: the kernel is turned around, then slides over x.

    .. math:: (x * w)[u] = \sum_i x[s u - p + d (k - 1 - i)]\, w[i]

    With ``padding="full"`` it commutes, x * w = w * x, and the Fourier transform of the result is the product of
    the transforms. With "same" the odd zero comes first, as in SciPy, so that at stride 1 convolution and
    correlation with one kernel are adjoint to each other.

    Arguments and shapes as in :func:`correlate`; channels are not turned around.

    >>> convolve([1.0, 2.0, 3.0], [1.0, 1.0], padding="full")
    tensor([1., 3., 5., 3.], dtype=torch.float64)
    """
    return _run(x, kernel, "convolve", padding, stride, dilation, method)


def correlate_backward(
    grad: Any,
    x: Any,
    kernel: Any,
    padding: Whole | str = 0,
    stride: Whole = 1,
    dilation: Whole = 1,
    method: str = "auto",
) -> tuple[torch.Tensor, torch.Tensor]:
    r"""The gradients of a correlation in x and in the kernel, each by one convolution or correlation.

    .. math:: \bar x = \text{crop}(\uparrow_s \bar y * w), \quad
        \bar w = \text{pad}(x) \star \bar y \ \text{with stride and dilation exchanged}

    The arrow puts s - 1 zeros between the values of the gradient.

    grad: the gradient of the result of :func:`correlate`. Other arguments as there. Returns (grad_x, grad_kernel).
    """
    return _backward(grad, x, kernel, "correlate", padding, stride, dilation, method)


def convolve_backward(
    grad: Any,
    x: Any,
    kernel: Any,
    padding: Whole | str = 0,
    stride: Whole = 1,
    dilation: Whole = 1,
    method: str = "auto",
) -> tuple[torch.Tensor, torch.Tensor]:
    r"""The gradients of a convolution in x and in the kernel: the backward of a convolution is a correlation.

    .. math:: \bar x = \text{crop}(\uparrow_s \bar y \star w)

    grad: the gradient of the result of :func:`convolve`. Other arguments as in :func:`correlate`.
    Returns (grad_x, grad_kernel).
    """
    return _backward(grad, x, kernel, "convolve", padding, stride, dilation, method)


# ---------------------------------------------------------------------------------------------- forward


def _run(x: Any, kernel: Any, kind: str, padding: Any, stride: Any, dilation: Any, method: str) -> torch.Tensor:
    x, kernel = _tensors(x, kernel, kind)
    shape = geometry_of(kind, tuple(x.shape), tuple(kernel.shape), padding, stride, dilation)
    full = kernel.flip(shape.axes) if kind == "convolve" else kernel
    rows, weights = _with_channels(x, full, shape)
    y = _valid(_padded(rows, shape.before, shape.after), weights, shape.stride, shape.dilation, method, kind)
    return y.reshape(*shape.batch, *shape.channels_out, *shape.out)


def _tensors(x: Any, kernel: Any, where: str) -> tuple[torch.Tensor, torch.Tensor]:
    if not isinstance(x, torch.Tensor) and isinstance(kernel, torch.Tensor):
        kernel = floating(kernel, where, "kernel")
        return alike(x, kernel, where, "x"), kernel
    x = floating(x, where, "x")
    return x, alike(kernel, x, where, "kernel")


def _with_channels(x: torch.Tensor, kernel: torch.Tensor, shape: Geometry) -> tuple[torch.Tensor, torch.Tensor]:
    """x as (batch, in, *size) and the kernel as (out, in, *kernel), which torch's convolutions take."""
    rows = x.reshape(-1, shape.channels_in, *shape.size)
    return rows, kernel if shape.channels_out else kernel[None, None]


def _padded(x: torch.Tensor, before: Sequence[int], after: Sequence[int]) -> torch.Tensor:
    """x with zeros around its last dimensions; negative numbers crop."""
    pads = [side for pair in zip(reversed(before), reversed(after), strict=True) for side in pair]
    return F.pad(x, pads) if any(pads) else x


def _valid(
    x: torch.Tensor, kernel: torch.Tensor, stride: Sequence[int], dilation: Sequence[int], method: str, where: str
) -> torch.Tensor:
    """Correlation without padding. x: (batch, in, *size). kernel: (out, in, *kernel)."""
    if method not in _METHODS:
        raise InvalidInput(
            f"{where}: method is {method!r}{nearest(str(method), _METHODS)}; it is one of {', '.join(_METHODS)}"
        )
    if method == "fft" or (method == "auto" and _fft_is_cheaper(x, kernel, stride, dilation)):
        return _by_fft(x, kernel, stride, dilation)
    conv = F.conv1d if x.ndim == 3 else F.conv2d
    return conv(x, kernel, stride=tuple(stride), dilation=tuple(dilation))


def _fft_is_cheaper(x: torch.Tensor, kernel: torch.Tensor, stride: Sequence[int], dilation: Sequence[int]) -> bool:
    """Estimated costs of the two ways, in multiply-adds of a loop over one channel, as measured on a CPU.

    Direct sums over many channels run up to twelve times as fast a term; a value costs ten in a transform and 3.5 in
    a product of spectra; a call of the FFT costs half a million before it starts.
    """
    batch, c_in, *size = x.shape
    c_out, _, *taps = kernel.shape
    out = output_size(size, taps, 0, stride, dilation)
    points = math.prod(size)
    direct = batch * c_out * c_in * math.prod(out) * math.prod(taps) / min(c_in * c_out, 12)
    transforms = 10 * points * (batch * c_in + c_out * c_in + batch * c_out)
    return direct > 500_000 + transforms + 3.5 * points * batch * c_in * c_out


def _by_fft(x: torch.Tensor, kernel: torch.Tensor, stride: Sequence[int], dilation: Sequence[int]) -> torch.Tensor:
    """The convolution theorem: transforms multiply. What wraps around falls outside the part that is kept."""
    from scipy.fft import next_fast_len

    axes = tuple(range(2, x.ndim))
    size, taps = x.shape[2:], kernel.shape[2:]
    fast = tuple(int(next_fast_len(n, real=True)) for n in size)
    spectrum = torch.fft.rfftn(x, s=fast, dim=axes)
    response = torch.fft.rfftn(_spread(kernel, dilation), s=fast, dim=axes).conj()
    product = torch.einsum("bi...,oi...->bo...", spectrum, response)
    y = torch.fft.irfftn(product, s=fast, dim=axes)
    out = output_size(tuple(size), tuple(taps), 0, 1, dilation)
    kept = tuple(slice(0, n, s) for n, s in zip(out, stride, strict=True))
    return y[(slice(None), slice(None), *kept)]


def _spread(x: torch.Tensor, step: Sequence[int]) -> torch.Tensor:
    """x with step - 1 zeros between its values, along its last dimensions."""
    if all(s == 1 for s in step):
        return x
    size = [s * (n - 1) + 1 for n, s in zip(x.shape[-len(step) :], step, strict=True)]
    wide = x.new_zeros(*x.shape[: -len(step)], *size)
    wide[(..., *(slice(None, None, s) for s in step))] = x
    return wide


# ---------------------------------------------------------------------------------------------- backward


def _backward(
    grad: Any, x: Any, kernel: Any, kind: str, padding: Any, stride: Any, dilation: Any, method: str
) -> tuple[torch.Tensor, torch.Tensor]:
    where = f"{kind}_backward"
    x, kernel = _tensors(x, kernel, where)
    grad = alike(grad, x, where, "grad")
    shape = geometry_of(kind, tuple(x.shape), tuple(kernel.shape), padding, stride, dilation)
    wanted = (*shape.batch, *shape.channels_out, *shape.out)
    if tuple(grad.shape) != wanted:
        raise InvalidInput(f"{where}: grad has shape {tuple(grad.shape)}; the result has shape {wanted}")
    turned = kernel.flip(shape.axes) if kind == "convolve" else kernel
    rows, weights = _with_channels(x, turned, shape)
    y = grad.reshape(rows.shape[0], -1, *shape.out)
    grad_x = _grad_input(y, weights, shape, method, where)
    grad_w = _grad_kernel(y, rows, shape, method, where).reshape(kernel.shape)
    return grad_x.reshape(x.shape), grad_w.flip(shape.axes) if kind == "convolve" else grad_w


def _grad_input(y: torch.Tensor, weights: torch.Tensor, shape: Geometry, method: str, where: str) -> torch.Tensor:
    """The spread gradient convolved with the kernel, every overlap, cropped to where x was."""
    axes = tuple(range(2, weights.ndim))
    wide = _spread(y, shape.stride)
    reach = [d * (k - 1) for d, k in zip(shape.dilation, shape.kernel, strict=True)]
    ends = [
        n + before - (length + r)
        for n, before, length, r in zip(shape.size, shape.before, wide.shape[2:], reach, strict=True)
    ]
    around = _padded(
        wide,
        [r - before for r, before in zip(reach, shape.before, strict=True)],
        [r + end for r, end in zip(reach, ends, strict=True)],
    )
    ones = (1,) * len(axes)
    return _valid(around, weights.flip(axes).transpose(0, 1), ones, shape.dilation, method, where)


def _grad_kernel(y: torch.Tensor, x: torch.Tensor, shape: Geometry, method: str, where: str) -> torch.Tensor:
    """The padded x correlated with the gradient, examples in the place of channels, stride and dilation exchanged."""
    rows = _padded(x, shape.before, shape.after).transpose(0, 1)  # (in, batch, *size)
    found = _valid(rows, y.transpose(0, 1), shape.dilation, shape.stride, method, where)  # (in, out, *at least kernel)
    kept = tuple(slice(0, k) for k in shape.kernel)
    return found[(slice(None), slice(None), *kept)].transpose(0, 1)
