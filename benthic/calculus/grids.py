"""Operators on grids and their exact adjoints: gradient and divergence, Laplacian, Fourier, interpolation.

Three boundaries: "dirichlet" (the array is zero outside the grid), "neumann" (nothing flows through the border),
"periodic" (the grid closes on itself). Each pair passes the dot-product test to rounding, because the adjoint is the
transpose of the discrete map and not a discretization of the continuous one.
"""

from __future__ import annotations

import itertools
import math

import torch
from torch import Tensor
from torch.nn import functional as F

from benthic.base.errors import InvalidInput, nearest
from benthic.base.settings import is_whole
from benthic.calculus.adjoints import LinearOperator

BOUNDARIES = ("dirichlet", "neumann", "periodic")


def gradient_operator(
    shape: tuple[int, ...], boundary: str = "neumann", spacing: float | tuple[float, ...] = 1.0
) -> LinearOperator:
    r"""Differences along every axis of a grid; the adjoint is minus :func:`divergence_operator`.

    .. math:: (\nabla f)_{a, i} = \frac{f_{i + e_a} - f_i}{h_a}, \quad \nabla^* = -\nabla \cdot

    Chambolle, 2004. shape: of the grid, in any dimension. spacing: h, one number or one for each axis.
    boundary: "neumann" leaves out the differences over the border, "periodic" closes the grid, "dirichlet" also
    takes the differences to the zeros on both sides, so its arrays are one longer along every axis.
    Returns an operator from (..., \*shape) to (..., d, \*shape), or (..., d, \*(shape + 1)) for "dirichlet".

    >>> gradient_operator((4,))(torch.tensor([1.0, 2.0, 4.0, 8.0]))
    tensor([[1., 2., 4., 0.]])
    """
    shape, steps = _grid("gradient_operator", shape, boundary, spacing)
    longer = tuple(size + 1 for size in shape) if boundary == "dirichlet" else shape
    d = len(shape)

    def forward(f: Tensor) -> Tensor:
        slopes = [_fill(_difference(f, a - d, boundary), longer) / steps[a] for a in range(d)]
        return torch.stack(slopes, -d - 1)

    def backward(g: Tensor) -> Tensor:
        parts = [part / h for part, h in zip(g.unbind(-d - 1), steps, strict=True)]
        return sum(
            _difference_adjoint(_trim(part, shape, a, boundary), a - d, boundary) for a, part in enumerate(parts)
        )

    return LinearOperator(forward, backward, shape, (d, *longer), f"{boundary} gradient")


def divergence_operator(
    shape: tuple[int, ...], boundary: str = "neumann", spacing: float | tuple[float, ...] = 1.0
) -> LinearOperator:
    r"""Minus the adjoint of :func:`gradient_operator`: what flows out of every cell.

    .. math:: (\nabla \cdot g)_i = \sum_a \frac{g_{a, i} - g_{a, i - e_a}}{h_a}

    shape: of the grid of cells, as for the gradient. Returns an operator from (..., d, \*shape) to (..., \*shape).

    >>> divergence_operator((4,))(torch.tensor([[1.0, 2.0, 4.0, 0.0]]))
    tensor([ 1.,  1.,  2., -4.])
    """
    nabla = gradient_operator(shape, boundary, spacing)
    return LinearOperator(
        lambda g: -nabla.backward(g),
        lambda f: -nabla.forward(f),
        nabla.output_shape,
        nabla.input_shape,
        f"{boundary} divergence",
    )


def laplacian_operator(
    shape: tuple[int, ...], boundary: str = "neumann", spacing: float | tuple[float, ...] = 1.0
) -> LinearOperator:
    r"""The five-point Laplacian, in any dimension: its own adjoint, and divergence after gradient.

    .. math:: (\Delta f)_i = \sum_a \frac{f_{i + e_a} - 2 f_i + f_{i - e_a}}{h_a^2}

    shape, boundary, spacing: as for :func:`gradient_operator`. Its eigenvalues are never positive.

    >>> laplacian_operator((4,), "dirichlet")(torch.tensor([0.0, 1.0, 0.0, 0.0]))
    tensor([ 1., -2.,  1.,  0.])
    """
    shape, steps = _grid("laplacian_operator", shape, boundary, spacing)

    def forward(f: Tensor) -> Tensor:
        return sum(_second_difference(f, a - len(shape), boundary) / steps[a] ** 2 for a in range(len(shape)))

    return LinearOperator(forward, forward, shape, shape, f"{boundary} Laplacian")


def fourier_operator(shape: tuple[int, ...]) -> LinearOperator:
    r"""The discrete Fourier transform with unitary scaling; the adjoint is the inverse.

    .. math:: (\mathcal{F} f)_k = \frac{1}{\sqrt{N}} \sum_j f_j\, e^{-2 \pi i \langle j, k / n \rangle},
        \quad \mathcal{F}^* = \mathcal{F}^{-1}

    shape: of the grid, n, with N points in all. Maps (..., \*shape), real or complex, to complex (..., \*shape).

    >>> fourier_operator((4,))(torch.ones(4)).real
    tensor([2., 0., 0., 0.])
    """
    shape = _sizes("fourier_operator", shape)
    dims = tuple(range(-len(shape), 0))
    return LinearOperator(
        lambda f: torch.fft.fftn(f, dim=dims, norm="ortho"),
        lambda g: torch.fft.ifftn(g, dim=dims, norm="ortho"),
        shape,
        shape,
        "Fourier transform",
    )


def interpolation_operator(shape: tuple[int, ...], points: Tensor, boundary: str = "neumann") -> LinearOperator:
    r"""Multilinear interpolation of a grid at arbitrary points; the adjoint is splatting.

    .. math:: (I f)_p = \sum_{i} f_i \prod_a \max(0,\, 1 - |p_a - i_a|)

    shape: of the grid. points: (m, d) in units of cells, so (0, ..., 0) is the first cell and n - 1 the last.
    boundary: outside the grid the array is zero ("dirichlet"), goes on as at the border ("neumann") or repeats
    ("periodic"). Returns an operator from (..., \*shape) to (..., m), differentiable by array and points.

    >>> interpolation_operator((3,), torch.tensor([[0.5], [1.25]]))(torch.tensor([0.0, 1.0, 3.0]))
    tensor([0.5000, 1.5000])
    """
    shape = _sizes("interpolation_operator", shape)
    _check_boundary("interpolation_operator", boundary)
    if points.ndim != 2 or points.shape[1] != len(shape) or not points.is_floating_point():
        raise InvalidInput(
            f"interpolation_operator: points have shape {tuple(points.shape)} and dtype {points.dtype}; "
            f"floating (m, {len(shape)}) is needed for a grid of {len(shape)} axes"
        )
    if not bool(torch.isfinite(points).all()):
        raise InvalidInput("interpolation_operator: points hold NaN or infinity; every coordinate must be a number")
    index, weight = _corners(shape, points, boundary)  # (2^d, m) each
    d, size = len(shape), math.prod(shape)

    def forward(f: Tensor) -> Tensor:
        return (f.flatten(-d)[..., index] * weight).sum(-2)

    def backward(y: Tensor) -> Tensor:
        shares = (y.unsqueeze(-2) * weight).flatten(-2)  # (..., 2^d * m)
        grid = shares.new_zeros(*y.shape[:-1], size)
        return grid.index_add(-1, index.flatten(), shares).unflatten(-1, shape)

    return LinearOperator(forward, backward, shape, (len(points),), f"{boundary} interpolation")


def splatting_operator(shape: tuple[int, ...], points: Tensor, boundary: str = "neumann") -> LinearOperator:
    r"""The adjoint of :func:`interpolation_operator`: spreads a mass at each point over the cells around it.

    With "neumann" or "periodic" boundaries the total mass is kept. Maps (..., m) to (..., \*shape).

    >>> splatting_operator((3,), torch.tensor([[0.5]]))(torch.tensor([2.0]))
    tensor([1., 1., 0.])
    """
    return interpolation_operator(shape, points, boundary).H


def _corners(shape: tuple[int, ...], points: Tensor, boundary: str) -> tuple[Tensor, Tensor]:
    """The flat index and weight of each of the 2^d cells around each point."""
    sizes = torch.tensor(shape, device=points.device)
    if boundary == "neumann":
        points = torch.minimum(points.clamp(min=0), (sizes - 1).to(points.dtype))
    base = points.detach().floor()
    fraction = points - base
    index, weight = [], []
    for corner in itertools.product((0, 1), repeat=len(shape)):
        offset = torch.tensor(corner, device=points.device)
        cell = base.long() + offset  # (m, d)
        share = torch.where(offset.bool(), fraction, 1 - fraction).prod(1)
        outside = ((cell < 0) | (cell >= sizes)).any(1)
        cell = cell.remainder(sizes) if boundary == "periodic" else torch.minimum(cell.clamp(min=0), sizes - 1)
        if boundary == "dirichlet":
            share = torch.where(outside, torch.zeros_like(share), share)
        index.append(_flat(cell, shape))
        weight.append(share)
    return torch.stack(index), torch.stack(weight)


def _flat(cell: Tensor, shape: tuple[int, ...]) -> Tensor:
    flat = torch.zeros_like(cell[:, 0])
    for a, size in enumerate(shape):
        flat = flat * size + cell[:, a]
    return flat


def _difference(f: Tensor, axis: int, boundary: str) -> Tensor:
    if boundary == "periodic":
        return f.roll(-1, axis) - f
    if boundary == "dirichlet":
        return _pad(f, axis, 1, 1).diff(dim=axis)
    return _pad(f.diff(dim=axis), axis, 0, 1)


def _difference_adjoint(g: Tensor, axis: int, boundary: str) -> Tensor:
    if boundary == "periodic":
        return g.roll(1, axis) - g
    if boundary == "dirichlet":
        return -g.diff(dim=axis)
    inner = g.narrow(axis, 0, g.shape[axis] - 1)
    return -_pad(inner, axis, 1, 1).diff(dim=axis)


def _second_difference(f: Tensor, axis: int, boundary: str) -> Tensor:
    if boundary == "periodic":
        return f.roll(1, axis) + f.roll(-1, axis) - 2 * f
    if boundary == "dirichlet":
        wide = _pad(f, axis, 1, 1)
    else:
        first, last = f.narrow(axis, 0, 1), f.narrow(axis, f.shape[axis] - 1, 1)
        wide = torch.cat([first, f, last], axis)
    size = f.shape[axis]
    return wide.narrow(axis, 0, size) + wide.narrow(axis, 2, size) - 2 * f


def _pad(f: Tensor, axis: int, before: int, after: int) -> Tensor:
    return F.pad(f, [0, 0] * (-axis - 1) + [before, after])


def _fill(slope: Tensor, longer: tuple[int, ...]) -> Tensor:
    """Zeros at the end of every axis shorter than in ``longer``."""
    missing = [want - have for want, have in zip(longer, slope.shape[-len(longer) :], strict=True)]
    return F.pad(slope, [number for gap in reversed(missing) for number in (0, gap)]) if any(missing) else slope


def _trim(part: Tensor, shape: tuple[int, ...], axis: int, boundary: str) -> Tensor:
    """The entries of a component that hold differences along its axis; the rest is filling."""
    if boundary != "dirichlet":
        return part
    for other, size in enumerate(shape):
        if other != axis:
            part = part.narrow(other - len(shape), 0, size)
    return part


def _grid(
    where: str, shape: tuple[int, ...], boundary: str, spacing: float | tuple[float, ...]
) -> tuple[tuple[int, ...], list[float]]:
    shape = _sizes(where, shape)
    _check_boundary(where, boundary)
    steps = list(spacing) if isinstance(spacing, (tuple, list)) else [spacing] * len(shape)
    if len(steps) != len(shape) or any(not h > 0 for h in steps):
        raise InvalidInput(
            f"{where}: spacing is {spacing!r}; one positive number, or one for each of {len(shape)} axes"
        )
    return shape, [float(h) for h in steps]


def _sizes(where: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    sizes = tuple(shape) if isinstance(shape, (tuple, list, torch.Size)) else (shape,)
    if not sizes or not all(is_whole(size, 1) for size in sizes):
        raise InvalidInput(f"{where}: shape is {shape!r}; a tuple of positive integers is needed")
    return sizes


def _check_boundary(where: str, boundary: str) -> None:
    if boundary not in BOUNDARIES:
        hint = nearest(str(boundary), BOUNDARIES)
        raise InvalidInput(f"{where}: boundary is {boundary!r}; it must be one of {', '.join(BOUNDARIES)}{hint}")
