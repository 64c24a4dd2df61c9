r"""Morphing: from one shape to another through shapes in between.

A shape is the set where its signed distance is negative. Shapes in between are those of the interpolated distance

.. math:: s_t(x) = (1 - t)\, s_0(x - m_t + m_0) + t\, s_1(x - m_t + m_1), \qquad m_t = (1 - t) m_0 + t m_1,

where m are centers of mass: the shape travels while it changes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F

from benthic.base.errors import InvalidInput, nearest
from benthic.linalg.checks import floating
from benthic.linalg.images import picture

_METHODS = ("shape", "dissolve")
_AT_ONCE = 2**22  # values in one slice of the distance transform


def signed_distance(shape: Any) -> torch.Tensor:
    r"""The Euclidean distance of each pixel to the border of a shape, negative inside.

    Exact for pixels: the distance to the nearest pixel center on the other side, less half a pixel. By a minimum
    over parabolas, one direction after the other (Felzenszwalb & Huttenlocher, 2012).

    shape: (h, w), (c, h, w) or (n, c, h, w); inside is True, or above 1/2. It must have an inside and an outside.
    Returns distances in pixels, of the same shape.

    >>> signed_distance([[0, 1, 1, 1]])
    tensor([[ 0.5000, -0.5000, -1.5000, -2.5000]], dtype=torch.float64)
    """
    inside = _inside(shape, "signed_distance", "shape")
    dtype = shape.dtype if isinstance(shape, torch.Tensor) and shape.is_floating_point() else torch.float64
    return _signed(inside, dtype)


def _inside(shape: Any, where: str, name: str) -> torch.Tensor:
    inside = picture(shape, where, name).detach() > 0.5
    some, everything = inside.flatten(-2).any(-1), inside.flatten(-2).all(-1)
    if not some.all() or everything.any():
        what = "nothing above" if not some.all() else "nothing below"
        raise InvalidInput(f"{where}: {name} has {what} 1/2; a shape needs an inside and an outside")
    return inside


def _signed(inside: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    flat = inside.reshape(-1, *inside.shape[-2:])
    distance = [_distance(one, dtype) for one in (~flat, flat)]
    # where a pixel is inside its distance to the outside counts, and the other way around
    return torch.where(flat, 0.5 - distance[0], distance[1] - 0.5).reshape(inside.shape)


def _distance(target: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The distance of each pixel to the nearest target pixel; on the CPU by SciPy. target: (n, h, w) of bool."""
    if target.device.type != "cpu":
        return _by_parabolas(target, dtype)
    from scipy.ndimage import distance_transform_edt

    found = [torch.as_tensor(distance_transform_edt(~one)) for one in target.numpy()]
    return torch.stack(found).to(dtype)


def _by_parabolas(target: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The same for any device: rows first, then columns."""
    h, w = target.shape[-2:]
    far = float(4 * (h + w) ** 2)
    column = torch.where(target, 0.0, far).to(dtype)
    return _parabolas(_parabolas(column).mT.contiguous()).mT.sqrt()


def _parabolas(f: torch.Tensor) -> torch.Tensor:
    """The lower envelope along rows: min over j of f[i, j, k] + (j - u)^2, in slices that fit in memory."""
    n, h, w = f.shape
    place = torch.arange(h, dtype=f.dtype, device=f.device)
    slices = max(1, _AT_ONCE // (n * h * w))
    found = [
        (f.unsqueeze(1) + (u[:, None] - place[None, :]).square()[None, :, :, None]).amin(2) for u in place.split(slices)
    ]
    return torch.cat(found, 1)


def morph(
    first: Any, second: Any, t: float | Sequence[float] | torch.Tensor, method: str = "shape", align: bool = True
) -> torch.Tensor:
    r"""A picture between two others.

    .. math:: s_t = (1 - t)\, s_0 + t\, s_1 \quad \text{or} \quad x_t = (1 - t)\, x_0 + t\, x_1

    "shape" interpolates signed distances and returns a mask with values from 0 to 1, soft over the one pixel that
    the border crosses; it gives the shapes themselves at 0 and 1, and between two disks a disk of the radius in
    between. "dissolve" fades gray or color images into each other.

    first, second: (h, w), (c, h, w) or (n, c, h, w), of one shape; for "shape", inside is True or above 1/2.
    t: from 0 to 1, a number or several, which become frames in a new first dimension.
    align: whether shapes travel from center to center; without it, shapes that do not overlap vanish on the way.

    >>> morph([[1, 0, 0, 0, 0]], [[1, 1, 1, 1, 0]], 0.5, align=False).tolist()
    [[1.0, 1.0, 0.5, 0.0, 0.0]]
    """
    a, b = picture(first, "morph", "first"), picture(second, "morph", "second")
    if a.shape != b.shape:
        raise InvalidInput(f"morph: first has shape {tuple(a.shape)} and second {tuple(b.shape)}; make them equal")
    if a.dtype != b.dtype or a.device != b.device:
        raise InvalidInput("morph: first and second differ in type or device; convert one of them")
    if method not in _METHODS:
        raise InvalidInput(f"morph: method is {method!r}{nearest(str(method), _METHODS)}; it is shape or dissolve")
    times = floating(t, "morph", "t", finite=False).to(a)
    if times.ndim > 1 or not ((times >= 0) & (times <= 1)).all():
        raise InvalidInput(f"morph: t is {t!r}; it must be a number from 0 to 1, or several")
    if method == "dissolve":
        frames = torch.stack([(1 - u) * a + u * b for u in times.reshape(-1)])
    else:
        frames = _between(a, b, times.reshape(-1), align)
    return frames if times.ndim else frames[0]


def _between(a: torch.Tensor, b: torch.Tensor, times: torch.Tensor, align: bool) -> torch.Tensor:
    inside = [_inside(x, "morph", name) for x, name in ((a, "first"), (b, "second"))]
    distances = [_signed(x, a.dtype) for x in inside]
    centers = [_center(x, a.dtype) for x in inside]
    frames = []
    for t in times:
        pair = distances
        if align:
            middle = (1 - t) * centers[0] + t * centers[1]
            pair = [_moved(s, middle - m) for s, m in zip(distances, centers, strict=True)]
        frames.append((0.5 - ((1 - t) * pair[0] + t * pair[1])).clamp(0, 1))
    return torch.stack(frames)


def _center(inside: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The center of mass of each shape, (..., 2), as row and column."""
    mass = inside.to(dtype)
    total = mass.sum((-2, -1))
    rows, columns = (torch.arange(n, dtype=dtype, device=inside.device) for n in inside.shape[-2:])
    return torch.stack([(mass.sum(-1) * rows).sum(-1) / total, (mass.sum(-2) * columns).sum(-1) / total], -1)


def _moved(s: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
    """A distance function moved by (rows, columns), read between pixels linearly; beyond the border it goes on rising.

    s: (..., h, w). by: (..., 2).
    """
    h, w = s.shape[-2:]
    reach = math.ceil(float(by.abs().max())) + 1
    flat = _risen(s.reshape(-1, 1, h, w), reach)
    shift = by.reshape(-1, 1, 1, 2)
    rows = torch.arange(h, dtype=s.dtype, device=s.device)[None, :, None] + reach - shift[..., 0]
    columns = torch.arange(w, dtype=s.dtype, device=s.device)[None, None, :] + reach - shift[..., 1]
    # grid_sample reads (x, y) with -1 and 1 at the centers of the first and last pixel
    y = (2 * rows / (h + 2 * reach - 1) - 1).expand(-1, h, w)
    x = (2 * columns / (w + 2 * reach - 1) - 1).expand(-1, h, w)
    return F.grid_sample(flat, torch.stack([x, y], -1), align_corners=True).reshape(s.shape)


def _risen(s: torch.Tensor, reach: int) -> torch.Tensor:
    """The distance continued past the border of the picture: what it is there plus the way beyond."""
    wide = F.pad(s, (reach,) * 4, mode="replicate")
    ways = [
        torch.cat([torch.arange(reach, 0, -1), torch.zeros(n), torch.arange(1, reach + 1)]).to(s) for n in s.shape[-2:]
    ]
    return wide + torch.hypot(ways[0][:, None], ways[1][None, :])
