"""The law of a generator's rows, made smooth: a Gaussian around each of many draws."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from benthic.nets.noise import draw_normal, draw_uniform
from benthic.uses.latent import Filled

_BLOCK = 1 << 21  # distances held at a time
_GRID = tuple(0.02 * 2.0 ** (k / 2) for k in range(14))  # 0.02 to 1.8 standard deviations


class Parzen(NamedTuple):
    r"""A mixture of equal Gaussians around points (Parzen, 1962).

    .. math:: p(x) = \frac1m \sum_{i=1}^m N(x; s_i, h^2 I)

    points: (m, d) draws of a generator. bandwidth: h.

    >>> law = Parzen(torch.zeros(1, 2), 1.0)
    >>> bool((law.log_prob(torch.zeros(1, 2))[0] + math.log(2 * math.pi)).abs() < 1e-6)
    True
    """

    points: Tensor
    bandwidth: float

    def log_prob(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The log-density of rows (n, d), and its standard error over the draws, (n,) each."""
        found = [self._log_prob(block) for block in rows.split(max(1, _BLOCK // len(self.points)))]
        value, stderr = (torch.cat(part) for part in zip(*found, strict=True))
        return value, stderr

    def _log_prob(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        m, d = self.points.shape
        logs = -squared_distances(rows, self.points) / (2 * self.bandwidth**2)
        total = torch.logsumexp(logs, 1)
        # delta method: the relative error of the mean kernel
        spread = torch.expm1((torch.logsumexp(2 * logs, 1) - 2 * total + math.log(m)).clamp_min(0.0))
        constant = math.log(m) + d * math.log(self.bandwidth * math.sqrt(2 * math.pi))
        return total - constant, (spread / m).sqrt()

    def fill(self, rows: Tensor, generator: torch.Generator) -> Filled:
        """A draw of the gaps (NaN) of rows (n, d) given the rest of them, and their mean."""
        parts = [self._fill(block, generator) for block in rows.split(max(1, _BLOCK // len(self.points)))]
        return Filled(*(torch.cat(part) for part in zip(*parts, strict=True)))

    def _fill(self, rows: Tensor, generator: torch.Generator) -> Filled:
        gaps = torch.isnan(rows)
        known = torch.where(gaps, 0.0, rows)
        # |x - s|^2 over the known columns, as products with the mask
        seen = (~gaps).to(rows.dtype)
        logs = known.square().sum(1, keepdim=True) - 2 * known @ self.points.T + seen @ self.points.square().T
        weights = torch.softmax(-logs / (2 * self.bandwidth**2), 1)  # (n, m)
        uniform = draw_uniform((len(rows), 1), rows, generator)
        chosen = torch.searchsorted(weights.cumsum(1), uniform).clamp(max=len(self.points) - 1)[:, 0]
        drawn = self.points[chosen] + self.bandwidth * draw_normal(rows.shape, rows, generator)
        return Filled(torch.where(gaps, drawn, rows), torch.where(gaps, weights @ self.points, rows))


def squared_distances(rows: Tensor, points: Tensor) -> Tensor:
    """Squared Euclidean distances (n, m) of rows (n, d) to points (m, d), exact also where they are small."""
    return torch.cdist(rows, points, compute_mode="donot_use_mm_for_euclid_dist").square()


def best_bandwidth(points: Tensor, held: Tensor, grid: Sequence[float] = _GRID) -> float:
    """The bandwidth under which rows (n, d) that are not among the points are most likely.

    >>> stream = torch.Generator().manual_seed(0)
    >>> best_bandwidth(torch.zeros(5, 1), torch.randn(2000, 1, generator=stream), (0.5, 1.0, 2.0))
    1.0
    """
    distances = squared_distances(held, points)

    def score(h: float) -> float:
        logs = torch.logsumexp(distances / (-2 * h * h), 1)
        return float(logs.mean()) - points.shape[1] * math.log(h)

    return max(grid, key=score)
