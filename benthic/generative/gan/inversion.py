"""Codes of given rows: the search for what a generator makes them from."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from benthic.base.progress import Bar

Generator = Callable[[Tensor], Tensor]
_NUMBERS = 1 << 23  # entries of Jacobians held at a time
_DAMPING = 1e-2


def invert(
    make: Generator,
    rows: Tensor,
    candidates: Tensor,
    *,
    starts: int = 4,
    steps: int = 30,
    prior: float = 1e-3,
    title: str = "encode",
) -> Tensor:
    r"""The codes whose rows are nearest to the given ones, (n, k).

    .. math:: \hat z = \arg\min_z \|G(z) - x\|^2 + \lambda \|z\|^2

    by the steps of Levenberg and Marquardt, all rows side by side, from the ``starts`` best of the candidates of each
    row. The Jacobian comes by forward-mode derivatives, one for each coordinate of the code.

    make: the generator, from codes (n, k) to rows (n, d), each by itself. rows: (n, d). candidates: (m, k) codes.
    prior: :math:`\lambda`. title: of the progress bar, which shows only when work is long.

    >>> weights = torch.tensor([[1.0, 0.0, 2.0], [0.0, 1.0, 1.0]])
    >>> found = invert(lambda z: z @ weights, torch.tensor([[0.5, 1.0, 2.0]]), torch.zeros(1, 2), prior=0.0)
    >>> found.round(decimals=4).tolist()
    [[0.5, 1.0]]
    """
    starts = min(starts, len(candidates))
    made = make(candidates)
    size = max(1, _NUMBERS // (starts * candidates.shape[1] * rows.shape[1]))
    found, bar = [], Bar(title, len(rows), wanted=True, unit="rows")
    try:
        for block in rows.split(size):
            found.append(_invert(make, block, _nearest(block, made, candidates, starts), steps, prior))
            bar.tick(len(block))
    finally:
        bar.close()
    return torch.cat(found)


def _nearest(rows: Tensor, made: Tensor, candidates: Tensor, starts: int) -> Tensor:
    """The codes (starts, n, k) of the candidates whose rows lie nearest."""
    distances = torch.cdist(rows, made, compute_mode="donot_use_mm_for_euclid_dist")
    return candidates[distances.topk(starts, 1, largest=False).indices.T]


def _invert(make: Generator, rows: Tensor, codes: Tensor, steps: int, prior: float) -> Tensor:
    starts, n, k = codes.shape
    z, x = codes.flatten(0, 1), rows.repeat(starts, 1)
    damping = torch.full((len(z),), _DAMPING, dtype=z.dtype, device=z.device)
    eye = torch.eye(k, dtype=z.dtype, device=z.device)
    gap = make(z) - x
    value = gap.square().sum(1) + prior * z.square().sum(1)
    for _ in range(steps):
        jacobian = _jacobian(make, z)  # (k, n, d)
        slope = torch.einsum("knd,nd->nk", jacobian, gap) + prior * z
        curvature = torch.einsum("ind,jnd->nij", jacobian, jacobian) + prior * eye
        strength = damping * (curvature.diagonal(dim1=1, dim2=2).mean(1) + 1e-12)
        system = curvature + (strength + 1e-12)[:, None, None] * eye
        there = z - torch.linalg.solve_ex(system, slope[..., None])[0][..., 0]
        gap_there = make(there) - x
        value_there = gap_there.square().sum(1) + prior * there.square().sum(1)
        better = value_there < value
        z, gap = torch.where(better[:, None], there, z), torch.where(better[:, None], gap_there, gap)
        value = torch.where(better, value_there, value)
        damping = torch.where(better, damping / 5, damping * 4).clamp(1e-9, 1e6)
    best = value.reshape(starts, n).argmin(0)
    return z.reshape(starts, n, k)[best, torch.arange(n, device=z.device)]


def _jacobian(make: Generator, z: Tensor) -> Tensor:
    """Derivatives (k, n, d) of the rows by each coordinate of their codes."""
    directions = torch.eye(z.shape[1], dtype=z.dtype, device=z.device)[:, None, :].expand(-1, len(z), -1)
    return torch.func.vmap(lambda direction: torch.func.jvp(make, (z,), (direction,))[1])(directions)
