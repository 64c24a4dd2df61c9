"""Pictures moved, turned, stretched and slanted a little at random, each in its own way."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from benthic.base.seeds import alike


def jitter(
    pictures: Tensor, *, shift: float = 0.1, turn: float = 0.35, stretch: float = 0.25, slant: float = 0.35
) -> Tensor:
    """Copies of pictures (n, c, h, w), each moved, turned, stretched and slanted by uniform random amounts.

    shift: at most so much of a side, in each direction. turn: at most so many radians. stretch: sides become longer or
    shorter by at most this share, each on its own. slant: the upper edge moves aside against the lower one by at most
    this share of their distance. Pixels between pixels are interpolated; beyond the edge a picture
    goes on as it ends there. Drawn on the device of the pictures, without waiting for it.

    >>> x = torch.rand(2, 1, 8, 8)
    >>> same = jitter(x, shift=0.0, turn=0.0, stretch=0.0, slant=0.0)
    >>> bool((same - x).abs().max() < 1e-5), jitter(x).shape
    (True, torch.Size([2, 1, 8, 8]))
    """
    n, _, height, width = pictures.shape
    amounts = 2.0 * torch.rand(6, n, **alike(pictures)) - 1.0
    angle, aside, ratio = turn * amounts[0], slant * amounts[5], height / width
    across, down = 1.0 + stretch * amounts[1:3]
    right, low = 2.0 * shift * amounts[3:5]
    cosine, sine = angle.cos(), angle.sin()
    first = torch.stack([across * cosine, ratio * down * (aside * cosine - sine), right], 1)
    second = torch.stack([across * sine / ratio, down * (aside * sine + cosine), low], 1)
    grid = F.affine_grid(torch.stack([first, second], 1), list(pictures.shape), align_corners=False)
    return F.grid_sample(pictures, grid, padding_mode="border", align_corners=False)
