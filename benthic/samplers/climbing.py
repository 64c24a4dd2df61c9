"""Uphill from where chains start, since far out the density can be too steep for any step that suits the rest."""

from __future__ import annotations

import torch
from torch import Tensor

from benthic.samplers.target import Target

MOST = 100  # evaluations of the gradient; a warm-up makes thousands
LOOK = 10  # of them after which a chain that gained little stops


def climb(target: Target, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Rows (chains, d) after steps along their gradients, and what each gained in nats (chains,), 0 where it stayed.

    Each chain goes by itself: its steps grow by half where they gain and shrink to a third where they do not. It stops
    once ten evaluations gained less than the width of a law in d dimensions, and one that gained little altogether
    stays where it was, so that chains that start among the draws keep their spread.

    >>> target = Target(lambda x: -0.5 * (x**2).sum(), torch.zeros(2, dtype=torch.float64))
    >>> rows, gain = climb(target, torch.tensor([[1.0, 0.0], [100.0, 0.0]], dtype=torch.float64))
    >>> rows[0].tolist(), bool(rows[1].abs().max() < 3), gain[0].tolist()
    ([1.0, 0.0], True, 0.0)
    """
    width = 0.5 * target.dim + 5
    here, (begun, slope) = rows, target.value_and_grad(rows)
    value, length, before, going = begun, torch.full_like(begun, 0.5), begun, torch.ones_like(begun, dtype=torch.bool)
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
    gain = value - begun
    moved = gain > 2 * width
    return torch.where(moved[:, None], here, rows), torch.where(moved, gain, 0.0)
