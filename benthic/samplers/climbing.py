"""Uphill from where chains start, since far out the density can be too steep for any step that suits the rest."""

from __future__ import annotations

import torch
from torch import Tensor

from benthic.samplers.target import Target

MOST = 100  # evaluations of the gradient; a warm-up makes thousands
SMALL = 1e-5  # step of a leapfrog that a chain must bear
LOOK = 10  # of them after which a chain that gained little stops


def climb(target: Target, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Rows (chains, d) after steps along their gradients, and what each gained in nats (chains,), 0 where it stayed.

    Only chains move that are lost where they are: that refuse a leapfrog of a step of 1e-5, in a space in which starts
    lie a few units apart. Each goes by itself: its steps grow by half where they gain and shrink to a third where they
    do not. It stops once ten evaluations gained less than the width of a law in d dimensions.

    >>> target = Target(lambda x: -0.5 * (x**2).sum(), torch.zeros(2, dtype=torch.float64))
    >>> steep = Target(lambda x: -1e12 * (x**2).sum(), torch.zeros(2, dtype=torch.float64))
    >>> start = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    >>> torch.equal(climb(target, start)[0], start), bool(climb(steep, start)[0].abs().max() < 1e-5)
    (True, True)
    """
    width = 0.5 * target.dim + 5
    here, (begun, slope) = rows, target.value_and_grad(rows)
    value, length, before, going = begun, torch.full_like(begun, 0.5), begun, _lost(target, here, begun, slope)
    if not bool(going.any()):
        return rows, torch.zeros_like(begun)
    for count in range(1, MOST + 1):
        size = slope.abs().amax(-1, keepdim=True).clamp(min=torch.finfo(slope.dtype).tiny)
        direction = torch.nn.functional.normalize(slope / size, dim=-1)
        trial = here + length[:, None] * direction
        height, tilt = target.value_and_grad(trial)
        better = going & (height > value) & tilt.isfinite().all(-1)
        here = torch.where(better[:, None], trial, here)
        slope = torch.where(better[:, None], tilt, slope)
        value = torch.where(better, height, value)
        length = length * torch.where(better, 1.5, 1 / 3)
        if count % LOOK == 0:
            going &= value - before > width
            before = value
            if not bool(going.any()):
                break
    return here, value - begun


def _lost(target: Target, rows: Tensor, value: Tensor, slope: Tensor) -> Tensor:
    """Which chains refuse a small leapfrog from rest."""
    momentum = 0.5 * SMALL * slope
    height, tilt = target.value_and_grad(rows + SMALL * momentum)
    rise = 0.5 * (momentum + 0.5 * SMALL * tilt).square().sum(-1) - height + value
    return ~(rise < 0.2)  # accepted with a probability of about 0.8
