"""Monotone rational-quadratic splines."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from benthic.nets.fused import serves

LEAST = 1e-3  # share of the interval that a bin has at least, and the least slope
STEEPEST = math.log(1.0 / LEAST)  # the logarithm of a slope stays within this
_KINDS = (torch.float32, torch.float64)


def rational_quadratic(
    x: Tensor, raw: Tensor, *, bound: float = 5.0, inverse: bool = False, fused: bool = True
) -> tuple[Tensor, Tensor]:
    r"""A monotone spline of [-bound, bound] onto itself, the identity outside, entry by entry.

    .. math:: y = y_k + \frac{h\,(s\,\theta^2 + d_k\,\theta(1-\theta))}{s + (d_k + d_{k+1} - 2s)\,\theta(1-\theta)},
              \qquad \theta = (x - x_k) / w, \quad s = h / w

    Gregory & Delbourgo, 1982; Durkan et al., 2019. Bins have at least a thousandth of the interval; slopes lie between
    0.001 and 1000, by a smooth bound, and are 1 at both ends. They are given by their logarithms, from which flows of
    columns that nearly decide one another learned more than from a softplus.

    x: (...). raw: (..., 3K - 1), K logits of widths, K of heights, K - 1 logarithms of slopes at inner knots; zeros are
    the identity. inverse: the other way. fused: one compiled pass on a CPU, one kernel on a CUDA device in float32;
    differentiable once.
    Returns y and log dy/dx, like x.

    >>> y, log = rational_quadratic(torch.tensor([0.3, 7.0]), torch.zeros(2, 11))
    >>> y.tolist()[1], round(y.tolist()[0], 6), bool(log.abs().max() < 1e-6)
    (7.0, 0.3, True)
    """
    bins = (raw.shape[-1] + 1) // 3
    raw = raw.expand(*x.shape, raw.shape[-1])
    taped = torch.is_grad_enabled() and (x.requires_grad or raw.requires_grad)
    if fused and not (inverse and taped):
        if x.device.type == "cpu" and x.dtype in _KINDS and raw.dtype == x.dtype:
            from benthic.nets.invertible import spline_kernels

            run = spline_kernels.spline_inverse if inverse else spline_kernels.spline
            return run(x, raw, bins, bound)
        if serves(x, raw):
            from benthic.nets.invertible import spline_device

            return spline_device.spline(x, raw, bins, bound, inverse)
    return _plain(x, raw, bins, bound, inverse)


def _knots(logits: Tensor, bins: int, bound: float) -> tuple[Tensor, Tensor]:
    """Sizes (..., K) and left ends (..., K) of bins."""
    sizes = 2 * bound * (LEAST + (1 - LEAST * bins) * F.softmax(logits, -1))
    return sizes, sizes.cumsum(-1) - sizes - bound


def _plain(x: Tensor, raw: Tensor, bins: int, bound: float, inverse: bool) -> tuple[Tensor, Tensor]:
    """The spline by torch's own operations, any number of times differentiable, without waiting for a device."""
    raw = raw.to(x.dtype)
    widths, lefts = _knots(raw[..., :bins], bins, bound)
    heights, floors = _knots(raw[..., bins : 2 * bins], bins, bound)
    logs = raw[..., 2 * bins :]
    slopes = F.pad(torch.exp(logs / (1 + logs.abs() / STEEPEST)), (1, 1), value=1.0)
    inside = (x > -bound) & (x < bound)
    v = torch.where(inside, x, 0.0)
    starts = floors if inverse else lefts
    k = ((v[..., None] >= starts).sum(-1, keepdim=True) - 1).clamp(0, bins - 1)
    table = torch.stack([widths, lefts, heights, floors, slopes[..., :-1], slopes[..., 1:]], -2)  # (..., 6, K)
    w, x0, h, y0, d0, d1 = table.gather(-1, k[..., None, :].expand(*k.shape[:-1], 6, 1)).squeeze(-1).unbind(-1)
    s = h / w
    bend = d0 + d1 - 2 * s
    t = _solve(v - y0, h, s, d0, bend) if inverse else (v - x0) / w
    t = t.clamp(0.0, 1.0)
    q = t * (1 - t)
    den = s + bend * q
    log = torch.log(s * s * (d1 * t * t + 2 * s * q + d0 * (1 - t) * (1 - t)) / (den * den))
    found = x0 + t * w if inverse else y0 + h * (s * t * t + d0 * q) / den
    return torch.where(inside, found, x), torch.where(inside, -log if inverse else log, 0.0)


def _solve(e: Tensor, h: Tensor, s: Tensor, d0: Tensor, bend: Tensor) -> Tensor:
    """θ at which the spline has risen by e."""
    a = h * (s - d0) + e * bend
    b = h * d0 - e * bend
    c = -s * e
    return 2 * c / (-b - torch.sqrt((b * b - 4 * a * c).clamp_min(torch.finfo(e.dtype).tiny)))
