"""The field of data as charges, and where Poisson flow begins."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.generative.diffusion.process import expand_like, standard_normal


def empirical_field(x: Tensor, r: Tensor | float, data: Tensor, dimensions: float = 1.0) -> tuple[Tensor, Tensor]:
    r"""The direction of the field of charges at points a distance r from the space of the data.

    .. math:: E(x, r) \propto \sum_i \frac{(x - y_i,\; r)}{\big(\|x - y_i\|^2 + r^2\big)^{(N + D)/2}}

    Xu et al., 2022 (D = 1, where r is the added coordinate z) and 2023. Summed on the logarithmic scale, so that any
    dimension and distance is fine. x: (n, \*event). r: () or (n,). data: (m, \*event), a large batch. dimensions: D.
    Returns the field divided by its length, which leaves the lines as they are: along x, (n, \*event), and along r,
    (n,).

    >>> along, away = empirical_field(torch.tensor([[3.0]]), 4.0, torch.zeros(5, 1))
    >>> along, away
    (tensor([[0.6000]]), tensor([0.8000]))
    """
    if x.shape[1:] != data.shape[1:] or not len(data):
        raise InvalidInput(
            f"empirical_field: points {tuple(x.shape)} and data {tuple(data.shape)}; rows must have one shape"
        )
    rows, charges = x.flatten(1), data.to(x).flatten(1)
    distance = torch.as_tensor(r, dtype=x.dtype, device=x.device).expand(len(x))
    size = rows.shape[1]
    squares = torch.cdist(rows, charges, compute_mode="donot_use_mm_for_euclid_dist").square()
    share = torch.softmax(-0.5 * (size + dimensions) * torch.log(squares + distance[:, None].square()), 1)
    along = rows - share @ charges  # the sum of (x - y) with weights that sum to one
    length = (along.square().sum(1) + distance.square()).sqrt()
    return (along / length[:, None]).reshape(x.shape), distance / length


def hemisphere(shape: Sequence[int], like: Tensor, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
    r"""Uniform points of the half-sphere of radius 1 above the space of the data: x (n, \*event) and z > 0 (n,)."""
    x = standard_normal(shape, like, generator)
    z = standard_normal((shape[0],), like, generator).abs()
    length = (x.flatten(1).square().sum(1) + z.square()).sqrt()
    return x / expand_like(length, x), z / length


def hemisphere_prior(
    shape: Sequence[int], z_max: float, like: Tensor, generator: torch.Generator | None = None
) -> Tensor:
    r"""Points (n, \*event) of the plane z = z_max, seen from the origin through a uniform half-sphere.

    .. math:: p(x) = \frac{2\, z_{\max}}{S_N\, \big(\|x\|^2 + z_{\max}^2\big)^{(N + 1)/2}}

    Xu et al., 2022, proposition 2, S_N being the area of the sphere in N + 1 dimensions: far away the field of any
    charges crosses the half-sphere evenly. It is the prior of ``PoissonPath(dimensions=1)`` with ``t_max=z_max``.
    """
    if not (math.isfinite(z_max) and z_max > 0):
        raise InvalidInput(f"hemisphere_prior: z_max={z_max}; it must be positive")
    x, z = hemisphere(shape, like, generator)
    return x * expand_like(z_max / z.clamp_min(torch.finfo(x.dtype).tiny), x)


def perturb(
    data: Tensor,
    *,
    sigma: float = 0.01,
    reach: float = 0.03,
    powers: int = 291,
    generator: torch.Generator | None = None,
) -> tuple[Tensor, Tensor]:
    r"""Points at which a network learns the field: each example moved by a random distance in a random direction.

    .. math:: x = y + \|\epsilon_x\| (1 + \tau)^m u, \qquad z = |\epsilon_z| (1 + \tau)^m, \qquad
        \epsilon \sim N(0, s^2 I), \quad m \sim U[0, M]

    Xu et al., 2022, equation 5. data: (n, \*event). sigma: s. reach: τ. powers: M. Returns x (n, \*event) and z (n,).
    """
    if not (sigma > 0 and reach > 0 and powers > 0):
        raise InvalidInput(f"perturb: sigma={sigma}, reach={reach}, powers={powers}; all must be positive")
    normal = standard_normal(data.shape, data, generator)
    away = standard_normal((3, len(data)), data, generator)
    uniform = torch.special.ndtr(away[0])  # of the power
    growth = (1 + reach) ** (powers * uniform)
    direction = normal / expand_like(normal.flatten(1).norm(dim=1).clamp_min(1e-30), normal)
    lengths = standard_normal(data.shape, data, generator).flatten(1).norm(dim=1) * sigma * growth
    return data + expand_like(lengths, data) * direction, away[1].abs() * sigma * growth
