"""Steps of Newton's method: the trust-region problem solved exactly or by conjugate gradients, for many rows."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from benthic.optim.spectrum import Product


class Steps(NamedTuple):
    """Steps (B, d), the decrease that the quadratic model predicts (B,), and whether they reach the boundary (B,)."""

    step: Tensor
    predicted: Tensor
    boundary: Tensor


def trust_region_step(hessian: Tensor, gradient: Tensor, radius: Tensor) -> Tensor:
    r"""The minimizer of a quadratic model in a ball, whatever the signs of the curvature.

    .. math:: \min_{\|p\| \le \Delta} \langle g, p \rangle + \tfrac12 \langle p, H p \rangle

    Moré & Sorensen, 1983, with the spectral decomposition of H; the hard case, where the gradient has no part
    along the lowest eigenvector, is included.

    hessian: (..., d, d), symmetric. gradient: (..., d). radius: (...). Returns p (..., d).

    >>> H, g = torch.diag(torch.tensor([-1.0, 2.0])), torch.tensor([0.0, 3.0])
    >>> p = trust_region_step(H, g, torch.tensor(2.0))  # a saddle, and no slope along its way out
    >>> round(float(p.norm()), 4), round(float(p[1]), 4)
    (2.0, -1.0)
    """
    shape = gradient.shape
    d = shape[-1]
    values, Q = torch.linalg.eigh(hessian.reshape(-1, d, d))
    return spectral_step(values, Q, gradient.reshape(-1, d), torch.as_tensor(radius).reshape(-1)).step.reshape(shape)


def spectral_step(values: Tensor, Q: Tensor, gradient: Tensor, radius: Tensor) -> Steps:
    """``trust_region_step`` from eigenvalues (B, d), ascending, and eigenvectors (B, d, d)."""
    c = (Q.mT @ gradient[..., None])[..., 0]
    lowest = values[:, 0]
    floor = (-lowest).clamp(min=0.0)
    p = _shifted(values, c, floor)
    hard = p.norm(dim=1) <= radius
    if not bool(hard.all()):
        p = torch.where(hard[:, None], p, _on_boundary(values, c, radius))
    short = (radius**2 - (p**2).sum(1)).clamp(min=0.0).sqrt()
    missing = hard & (lowest < 0)
    away = torch.where(c[:, 0] > 0, -1.0, 1.0)
    p = torch.cat((p[:, :1] + torch.where(missing, away * short, 0.0)[:, None], p[:, 1:]), 1)
    predicted = -(c * p).sum(1) - 0.5 * (values * p**2).sum(1)
    return Steps((Q @ p[..., None])[..., 0], predicted, ~hard | missing)


def _shifted(values: Tensor, c: Tensor, shift: Tensor) -> Tensor:
    """Coefficients of -(H + shift)⁻¹ g; zero where both the curvature and the gradient vanish."""
    eps = torch.finfo(values.dtype).eps
    curvature = values + shift[:, None]
    scale = values.abs().amax(1, keepdim=True)
    void = (curvature <= eps * scale) & (c.abs() <= eps * c.norm(dim=1, keepdim=True) + torch.finfo(c.dtype).tiny)
    return torch.where(void, 0.0, -c / curvature)


def _on_boundary(values: Tensor, c: Tensor, radius: Tensor) -> Tensor:
    """The step of length ``radius``, by Newton's method on 1/Δ - 1/|p| from the left, between safe bounds.

    The unknown is the smallest shifted curvature, not the shift, so that nothing cancels near the hard case.
    """
    lowest = values[:, :1]
    above, size = values - lowest, c.norm(dim=1) / radius
    low = torch.maximum(lowest[:, 0].clamp(min=0.0), (c.abs() / radius[:, None] - above).amax(1))
    high = torch.maximum(low, size)
    least = torch.maximum(low, 1e-3 * torch.finfo(values.dtype).eps * high)
    precision = 10 * torch.finfo(values.dtype).eps
    for _ in range(80):
        curvature = above + least[:, None]
        p = c / curvature
        length = p.norm(dim=1)
        if bool(((length / radius - 1).abs() <= precision).all()):
            break
        low, high = torch.where(length > radius, least, low), torch.where(length > radius, high, least)
        guess = least + (length / radius - 1) * length**2 / (p**2 / curvature).sum(1)
        least = torch.where((guess > low) & (guess < high), guess, 0.5 * (low + high))
    return -c / (above + least[:, None])


def conjugate_step(product: Product, gradient: Tensor, radius: Tensor, steps: int) -> Steps:
    """The trust-region problem by conjugate gradients, which end at the boundary or on negative curvature.

    Steihaug, 1983. The residual is asked to fall by the factor min(½, √‖g‖) (Nocedal & Wright, 2006,
    algorithm 7.2).

    product: multiplies (B, d) by the Hessians. gradient: (B, d). radius: (B,).
    """
    p, r, z = torch.zeros_like(gradient), gradient, -gradient
    rr = (r * r).sum(1)
    size = rr.sqrt()
    goal = torch.minimum(torch.full_like(size, 0.5), size.sqrt()) * size
    going = size > 0
    boundary = torch.zeros_like(going)
    for _ in range(steps):
        Hz = product(z)
        curvature = (z * Hz).sum(1)
        alpha = rr / curvature
        longer = p + alpha[:, None] * z
        out = going & ((curvature <= 0) | (longer.norm(dim=1) >= radius))
        edge = p + _to_edge(p, z, radius)[:, None] * z
        p = torch.where(going[:, None], torch.where(out[:, None], edge, longer), p)
        boundary, going = boundary | out, going & ~out
        r = torch.where(going[:, None], r + alpha[:, None] * Hz, r)
        before, rr = rr, (r * r).sum(1)
        going = going & (rr.sqrt() > goal)
        if not bool(going.any()):
            break
        z = torch.where(going[:, None], -r + (rr / before)[:, None] * z, z)
    predicted = -(gradient * p).sum(1) - 0.5 * (p * product(p)).sum(1)
    return Steps(p, predicted, boundary)


def _to_edge(p: Tensor, z: Tensor, radius: Tensor) -> Tensor:
    """The positive t with |p + t z| = radius."""
    a, b, c = (z * z).sum(1), (p * z).sum(1), radius**2 - (p * p).sum(1)
    root = (b**2 + a * c.clamp(min=0.0)).sqrt()
    return torch.where(b > 0, c / (b + root), (root - b) / a)
