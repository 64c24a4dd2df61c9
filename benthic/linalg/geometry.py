"""Sizes of a convolution: what goes in, what comes out, what is padded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from benthic.base.errors import InvalidInput, nearest
from benthic.base.settings import is_whole

_PADDINGS = ("valid", "same", "full")


class Geometry(NamedTuple):
    """Everything about a convolution but its values, one number a dimension.

    size, kernel, out: lengths. before, after: zeros on either side. axes: the dimensions, counted from the end.
    batch: leading dimensions. channels_in: 1 where the kernel has none. channels_out: (out,) or ().
    """

    size: tuple[int, ...]
    kernel: tuple[int, ...]
    out: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    axes: tuple[int, ...]
    batch: tuple[int, ...]
    channels_in: int
    channels_out: tuple[int, ...]


def output_size(
    size: int | Sequence[int],
    kernel: int | Sequence[int],
    padding: int | Sequence[int] | str = 0,
    stride: int | Sequence[int] = 1,
    dilation: int | Sequence[int] = 1,
) -> int | tuple[int, ...]:
    r"""How many places a kernel finds in an input.

    .. math:: \left\lfloor \frac{x + 2p - d(k - 1) - 1}{s} + 1 \right\rfloor

    size, kernel: lengths, whole numbers or one a dimension. padding: zeros on each side, or "valid", "same", "full".
    stride, dilation: whole numbers of at least 1. Returns a whole number, or a tuple if size is one.

    >>> output_size(224, 7, padding=3, stride=2)
    112
    >>> output_size((5, 8), 3, dilation=2)
    (1, 4)
    """
    single = not isinstance(size, Sequence)
    dimensions = 1 if single else len(size)
    sizes = _each(size, dimensions, "output_size", "size", 1)
    kernels = _each(kernel, dimensions, "output_size", "kernel", 1)
    strides = _each(stride, dimensions, "output_size", "stride", 1)
    dilations = _each(dilation, dimensions, "output_size", "dilation", 1)
    before, after = _paddings(padding, kernels, strides, dilations, "output_size", True)
    out = _lengths(sizes, kernels, before, after, strides, dilations, "output_size")
    return out[0] if single else out


def geometry_of(
    where: str, x: tuple[int, ...], kernel: tuple[int, ...], padding: Any, stride: Any, dilation: Any
) -> Geometry:
    """The sizes of a call with these shapes. where: "correlate" or "convolve"."""
    if not 1 <= len(kernel) <= 4 or 0 in kernel:
        raise InvalidInput(
            f"{where}: kernel has shape {kernel}; give (k,), (k, l), (out, in, k) or (out, in, k, l) without zeros"
        )
    channels = len(kernel) > 2
    dimensions = len(kernel) - 2 if channels else len(kernel)
    if len(x) < dimensions + channels or 0 in x:
        form = ("(..., in, n)", "(..., in, h, w)") if channels else ("(..., n)", "(..., h, w)")
        raise InvalidInput(f"{where}: x has shape {x}; a kernel {kernel} needs {form[dimensions - 1]} without zeros")
    if channels and x[-dimensions - 1] != kernel[1]:
        raise InvalidInput(
            f"{where}: x has {x[-dimensions - 1]} channels in shape {x} and the kernel takes {kernel[1]} in {kernel}"
        )
    size, taps = x[-dimensions:], kernel[-dimensions:]
    strides = _each(stride, dimensions, where, "stride", 1)
    dilations = _each(dilation, dimensions, where, "dilation", 1)
    before, after = _paddings(padding, taps, strides, dilations, where, where != "convolve")
    out = _lengths(size, taps, before, after, strides, dilations, where)
    batch = x[: len(x) - dimensions - channels]
    axes = tuple(range(-dimensions, 0))
    made = (kernel[0],) if channels else ()
    return Geometry(size, taps, out, before, after, strides, dilations, axes, batch, kernel[1] if channels else 1, made)


def _each(value: Any, dimensions: int, where: str, name: str, least: int) -> tuple[int, ...]:
    """A whole number, or one a dimension, as a tuple."""
    values = tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else (value,) * dimensions
    if len(values) != dimensions or not all(is_whole(v, least) for v in values):
        many = f" or {dimensions} of them" if dimensions > 1 else ""
        raise InvalidInput(f"{where}: {name} is {value!r}; it must be a whole number of at least {least}{many}")
    return tuple(int(v) for v in values)


def _paddings(
    padding: Any, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int], where: str, late: bool
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Zeros before and after, one a dimension. late: whether the odd zero of "same" comes last."""
    if not isinstance(padding, str):
        both = _each(padding, len(kernel), where, "padding", 0)
        return both, both
    if padding not in _PADDINGS:
        raise InvalidInput(
            f"{where}: padding is {padding!r}{nearest(padding, _PADDINGS)}; "
            f"it is a whole number or one of {', '.join(_PADDINGS)}"
        )
    reach = tuple(d * (k - 1) for d, k in zip(dilation, kernel, strict=True))
    if padding == "valid":
        return (0,) * len(kernel), (0,) * len(kernel)
    if padding == "full":
        return reach, reach
    if any(s != 1 for s in stride):
        raise InvalidInput(f"{where}: padding 'same' keeps the size at stride 1, but stride is {tuple(stride)}")
    less, more = tuple(r // 2 for r in reach), tuple(r - r // 2 for r in reach)
    return (less, more) if late else (more, less)


def _lengths(
    size: Sequence[int],
    kernel: Sequence[int],
    before: Sequence[int],
    after: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    where: str,
) -> tuple[int, ...]:
    padded = [n + b + a for n, b, a in zip(size, before, after, strict=True)]
    reach = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    for n, r in zip(padded, reach, strict=True):
        if r > n:
            raise InvalidInput(
                f"{where}: the kernel reaches over {r} values and the padded input has {n}; "
                "pad more, dilate less or take a smaller kernel"
            )
    return tuple((n - r) // s + 1 for n, r, s in zip(padded, reach, stride, strict=True))
