"""Lower bounds on the distances to groups of points, by matrix products in low precision with a proven error.

Points are shifted and scaled so that none has a coordinate above 1. For a query a and a point b the product gives

.. math:: s_{ab} = (1 - c) \\|b\\|^2 - 2 a^\\top b, \\qquad \\|a - b\\|^2 \\ge s_{ab} + (1 - c) \\|a\\|^2 - t

where c covers the rounding of the product and t the rounding of the shift. The least s of a group of columns so bounds
the distance to all of them, and only groups that may hold a neighbor are looked at.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

GROUP = 16  # points whose least score is kept
_SPARE = 8  # groups beyond k that are looked at on a device
_FAR = 8.0  # how far from zero points may lie, as a multiple of their spread, to be shifted in single precision
_TINY = 1e-30  # numbers below underflow in single precision


@dataclass(frozen=True)
class Frame:
    """Scaled points ready for products.

    left: (n, w) queries. right: (m, w) points. bias: (m,) their own part of the score. reach: (n,) a group whose least
    score is above unit² times the squared distance of a query's neighbor plus its reach holds nothing nearer.
    unit: the scale.
    """

    left: Tensor
    right: Tensor
    bias: Tensor
    reach: Tensor
    unit: float


def frame(A: Tensor, B: Tensor, halves: bool | None = None) -> Frame:
    """Queries (n, d) and points (m, d) as factors of one product; halves: as pairs of bfloat16, for tensor cores."""
    halves = A.device.type != "cpu" if halves is None else halves
    dtype = torch.promote_types(A.dtype, B.dtype)
    low, high = (torch.stack([ends(A, 0), ends(B, 0)]) for ends in (torch.amin, torch.amax))
    size = float(torch.maximum(low.abs(), high.abs()).max())
    center = B.mean(0, dtype=dtype)
    spread = torch.maximum(center - low, high - center).amax(1)
    if dtype == torch.float32 and size > _FAR * float(spread[1]):
        dtype = torch.float64  # far from zero, the shift takes most digits
        A, B, center = A.double(), B.double(), B.mean(0, dtype=dtype)
    largest = float(spread.max())
    unit = 2.0 ** -math.ceil(math.log2(largest)) if largest > 0 else 1.0
    A, B = (((points - center).mul_(unit)).float() for points in (A, B))
    a2, b2 = (points.square().sum(1) for points in (A, B))
    c = _rounding(A.shape[1], halves)
    # Shifted points are off by so much, which moves a squared distance by at most this.
    off = 2 * size * unit * torch.finfo(dtype).eps * math.sqrt(A.shape[1])
    a2 = a2.double()
    shift = 8 * off * (a2.sqrt() + b2.max().double().sqrt() + off)
    reach = -(1 - c) * a2 + shift + _TINY
    bias = (1 - c) * b2
    if halves:
        return Frame(_queries(A), _points(B, bias), bias, reach, unit)
    if torch.get_float32_matmul_precision() != "highest":  # single-precision products may then be coarser than proven
        A, B, bias = A.double(), B.double(), bias.double()
    return Frame(-2 * A, B, bias, reach, unit)


def _rounding(d: int, halves: bool) -> float:
    """A bound on the relative error of a score, as a share of ‖a‖² + ‖b‖².

    Single precision: the points are rounded (2⁻²⁴ each), and a sum of d + 1 products in any order errs by at most
    (d + 1) 2⁻²⁴ of the sum of their sizes, which is below 2 (‖a‖² + ‖b‖²); all of it doubled. Two halves of 8 bits
    leave 3 parts in 2¹⁸, and tensor cores add 3 d + 3 products with 2⁻²² each, to be safe.
    """
    if halves:
        return 2.0**-15 + (3 * d + 16) * 2.0**-21
    return (d + 16) * 2.0**-22


def _halves(points: Tensor) -> tuple[Tensor, Tensor]:
    high = points.bfloat16()
    return high, (points - high.to(points.dtype)).bfloat16()


def _queries(A: Tensor) -> Tensor:
    high, low = _halves(-2 * A)
    ones = high.new_ones(len(A), 3)
    return _padded(torch.cat([high, high, low, ones], 1))


def _points(B: Tensor, bias: Tensor) -> Tensor:
    high, low = _halves(B)
    first, second = _halves(bias)
    third = (bias - first.float() - second.float()).bfloat16()
    return _padded(torch.cat([high, low, high, first[:, None], second[:, None], third[:, None]], 1))


def _padded(points: Tensor) -> Tensor:
    """Zeros up to a multiple of 8 columns, as tensor cores want them."""
    return torch.nn.functional.pad(points, (0, -points.shape[1] % 8))


def _scores(left: Tensor, right: Tensor, bias: Tensor, room: Tensor | None) -> Tensor:
    if left.dtype != torch.bfloat16:
        fits = room is not None and room.shape == (len(left), len(right))
        return torch.addmm(bias, left, right.T, out=room if fits else None)
    if left.device.type != "cuda":  # the same numbers, slowly
        return left.float() @ right.float().T
    return torch.mm(left, right.T, out_dtype=torch.float32)


def minima_of(made: Frame, rows: slice, width: int) -> tuple[Tensor, Tensor]:
    """The least score of each group of points for some queries, (rows, m // GROUP), and their reach (rows,).

    width: columns of a tile, a multiple of GROUP; in a tile with c groups, group g is every c-th column from g on.
    The last m % GROUP columns are in no group.
    """
    left, groups = made.left[rows], len(made.right) // GROUP
    out = torch.empty(len(left), groups, device=left.device)
    half = left.dtype == torch.bfloat16
    room = None if half else torch.empty(len(left), min(width, groups * GROUP), dtype=left.dtype)
    for start in range(0, groups * GROUP, width):
        columns = slice(start, min(start + width, groups * GROUP))
        score = _scores(left, made.right[columns], made.bias[columns], room)
        count = score.shape[1] // GROUP
        place = slice(start // GROUP, start // GROUP + count)
        out[:, place] = score.unflatten(1, (GROUP, count)).amin(1)
    return out, made.reach[rows]


def by_products(
    A: Tensor, B: Tensor, k: int, own: Tensor | None = None, elements: int | None = None
) -> tuple[Tensor, Tensor]:
    """Squared distances (n, k) and indices of the nearest rows of B, with index -1 in rows that are in doubt.

    Products pick k + 8 groups of points; all of them are measured in float64. A row is in doubt when another group
    may hold a neighbor, or when equal distances compete for the last place.
    """
    made = frame(A, B, halves=True)
    groups = len(B) // GROUP
    elements = elements or 1 << 26
    height = max(1, min(len(A), elements // groups))
    width = max(1, min(len(B), elements // height) // GROUP) * GROUP
    picks = min(groups, k + _SPARE + (own is not None))
    near, index = [], []
    for top in range(0, len(A), height):
        rows = slice(top, min(top + height, len(A)))
        minima, reach = minima_of(made, rows, width)
        low, chosen = _smallest(minima, picks)
        column = _columns(chosen, len(B), width)
        value, column = _measured(A[rows], B, column, None if own is None else own[rows], k)
        limit = value[:, k - 1] * made.unit**2 + reach
        doubt = (value[:, k - 1] >= value[:, k]) | ((low.amax(1) <= limit) & (picks < groups))
        near.append(value[:, :k])
        index.append(column.masked_fill(doubt[:, None], -1))
    return torch.cat(near), torch.cat(index)


def _columns(chosen: Tensor, m: int, width: int) -> Tensor:
    """The columns of the chosen groups, (n, picks) to (n, picks * GROUP + m % GROUP): those in no group always."""
    per = width // GROUP
    tile = chosen // per
    count = torch.minimum(torch.full_like(tile, per), (m - tile * width) // GROUP)
    first = tile * width + chosen % per
    steps = torch.arange(GROUP, device=chosen.device)
    column = (first.unsqueeze(-1) + count.unsqueeze(-1) * steps).flatten(1)
    rest = torch.arange(m - m % GROUP, m, device=chosen.device).expand(len(chosen), -1)
    return torch.cat([column, rest], 1)


def _measured(A: Tensor, B: Tensor, column: Tensor, own: Tensor | None, k: int) -> tuple[Tensor, Tensor]:
    """The k + 1 least squared distances among the columns (n, c), and the indices of k, ties by index."""
    parts = max(1, (1 << 27) // (column.shape[1] * A.shape[1]))
    values, columns = [], []
    for a, c, o in zip(
        A.split(parts), column.split(parts), [None] * len(A) if own is None else own.split(parts), strict=False
    ):
        apart = (a.double().unsqueeze(1) - B[c].double()).square_().sum(-1)  # (b, c, d) -> (b, c)
        if o is not None:
            apart = apart.masked_fill(c == o[:, None], torch.inf)
        value, place = apart.topk(min(k + 1, apart.shape[1]), largest=False)
        found, order = c.gather(1, place[:, :k]).sort(1)
        first, again = value[:, :k].gather(1, order).sort(dim=1, stable=True)
        last = value[:, k:] if value.shape[1] > k else torch.full_like(first[:, :1], torch.inf)
        values.append(torch.cat([first, last], 1))
        columns.append(found.gather(1, again))
    return torch.cat(values), torch.cat(columns)


def _smallest(D: Tensor, k: int, size: int = 32) -> tuple[Tensor, Tensor]:
    """The k smallest of every row and their columns: they lie in the k groups with the smallest minima."""
    groups = D.shape[1] // size
    if groups < 4 * k:
        return D.topk(k, largest=False, sorted=False)
    grid = D[:, : groups * size].unflatten(1, (size, groups))
    near = grid.amin(1).topk(k, largest=False, sorted=False).indices.unsqueeze(1)  # (b, 1, k)
    value = grid.gather(2, near.expand(-1, size, -1)).flatten(1)
    column = (near + groups * torch.arange(size, device=D.device)[:, None]).flatten(1)
    rest = torch.arange(groups * size, D.shape[1], device=D.device).expand(len(D), -1)
    value, column = torch.cat([value, D[:, groups * size :]], 1), torch.cat([column, rest], 1)
    value, keep = value.topk(k, largest=False, sorted=False)
    return value, column.gather(1, keep)
