"""The metrics of ``metrics`` for many starts at once; every row learns when its own search has ended."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from benthic.optim.metrics import CURVED, least_product


class RowMetric(Protocol):
    """``fresh``: (B,) where nothing is learned. Masks are (B,), indices of rows shorter."""

    fresh: Tensor

    def direction(self, gradient: Tensor) -> Tensor: ...

    def learn(self, mask: Tensor, s: Tensor, y: Tensor) -> None: ...

    def reset(self, rows: Tensor) -> None: ...

    def keep(self, rows: Tensor) -> None: ...


def _curved(mask: Tensor, s: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Indices of the rows in the mask whose pair has positive curvature, then <s, y> and <y, y> of all rows."""
    sy, yy, ss = (s * y).sum(1), (y * y).sum(1), (s * s).sum(1)
    least = (CURVED * (ss * yy).sqrt()).clamp(min=least_product(s.dtype))
    return (mask & (sy > least)).nonzero()[:, 0], sy, yy


class LimitedRows:
    """Limited memory in compact form (see ``metrics.Limited``), a ring for every row; absent pairs are zero.

    S, Y: (B, m, d). inverse_R, YY: (B, m, m). D: (B, m). place: (B,) where the next pair goes.
    """

    def __init__(self, start: Tensor, size: int = 10) -> None:
        n, d = start.shape
        self.S, self.Y = start.new_zeros(n, size, d), start.new_zeros(n, size, d)
        self.inverse_R, self.YY = start.new_zeros(n, size, size), start.new_zeros(n, size, size)
        self.D, self.gamma = start.new_zeros(n, size), start.new_ones(n)
        self.place = torch.zeros(n, dtype=torch.long, device=start.device)
        self.fresh = torch.ones(n, dtype=torch.bool, device=start.device)

    def reset(self, rows: Tensor) -> None:
        """Forget the pairs of some rows."""
        for part in (self.S, self.Y, self.inverse_R, self.YY, self.D):
            part[rows] = 0.0
        self.gamma[rows] = 1.0
        self.fresh[rows] = True

    def keep(self, rows: Tensor) -> None:
        """Go on with these rows alone."""
        self.S, self.Y, self.inverse_R, self.YY = self.S[rows], self.Y[rows], self.inverse_R[rows], self.YY[rows]
        self.D, self.gamma, self.place, self.fresh = self.D[rows], self.gamma[rows], self.place[rows], self.fresh[rows]

    def learn(self, mask: Tensor, s: Tensor, y: Tensor) -> None:
        """Add the pairs s, y (B, d) of the rows in the mask."""
        rows, sy, yy = _curved(mask, s, y)
        k = self.place[rows]
        self.S[rows, k], self.Y[rows, k] = s[rows], y[rows]
        self.inverse_R[rows, k] = 0.0
        self.inverse_R[rows, :, k] = 0.0
        column = self.inverse_R @ (self.S @ y[..., None])  # (B, m, 1)
        column = (column[..., 0] / -sy[:, None])[rows]
        column[torch.arange(len(rows), device=rows.device), k] = 1.0 / sy[rows]
        between = (self.Y @ y[..., None])[rows, :, 0]
        self.inverse_R[rows, :, k] = column
        self.YY[rows, k] = between
        self.YY[rows, :, k] = between
        self.D[rows, k], self.gamma[rows] = sy[rows], (sy / yy)[rows]
        self.place[rows] = (k + 1) % self.S.shape[1]
        self.fresh[rows] = False

    def direction(self, gradient: Tensor) -> Tensor:
        """Minus the inverses times the gradients (B, d)."""
        g, gamma = gradient[..., None], self.gamma[:, None, None]
        u = self.inverse_R @ (self.S @ g)  # (B, m, 1)
        w = gamma * (self.YY @ u - self.Y @ g) + self.D[..., None] * u
        v = self.inverse_R.mT @ w
        return (gamma * (self.Y.mT @ u - g) - self.S.mT @ v)[..., 0]


class DenseRows:
    """The whole inverse Hessian of every row, (B, d, d); see ``metrics.Dense``."""

    def __init__(self, start: Tensor) -> None:
        n, d = start.shape
        self.eye = torch.eye(d, dtype=start.dtype, device=start.device)
        self.H = self.eye.repeat(n, 1, 1)
        self.fresh = torch.ones(n, dtype=torch.bool, device=start.device)

    def reset(self, rows: Tensor) -> None:
        """Forget the pairs of some rows."""
        self.H[rows] = self.eye
        self.fresh[rows] = True

    def keep(self, rows: Tensor) -> None:
        """Go on with these rows alone."""
        self.H, self.fresh = self.H[rows], self.fresh[rows]

    def learn(self, mask: Tensor, s: Tensor, y: Tensor) -> None:
        """Update by the pairs s, y (B, d) of the rows in the mask."""
        rows, sy, yy = _curved(mask, s, y)
        used = torch.zeros_like(mask)
        used[rows] = True
        scale = torch.where(used & self.fresh, sy / yy, 1.0)
        self.H *= scale[:, None, None]
        rho = torch.where(used, 1.0 / sy, 0.0)[:, None]
        s, y = torch.where(used[:, None], s, 0.0), torch.where(used[:, None], y, 0.0)
        Hy = (self.H @ y[..., None])[..., 0]
        first = rho * (s * (1 + rho * (y * Hy).sum(1, keepdim=True)) - Hy)
        self.H.baddbmm_(torch.stack((first, -rho * s), 2), torch.stack((s, Hy), 1))
        self.fresh &= ~used

    def direction(self, gradient: Tensor) -> Tensor:
        """Minus the inverses times the gradients (B, d)."""
        return -(self.H @ gradient[..., None])[..., 0]
