"""From the units of the data to those of an energy: rows are whitened, pictures get one scale."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benthic.data.standardize import Standardizer
from benthic.training.intake import Intake
from benthic.training.network import scales_of

_LOOK = 4096  # rows by which columns are decorrelated
_STILL = 1e-6  # the spread of a column that never changes, over its size
_SHRINK, _FEW = 1e-3, 0.1  # correlations are shrunk so much, and more where there are few rows


class Whitening:
    r"""Standardized columns, decorrelated by the Cholesky factor of their correlations.

    .. math:: w = L^{-1} \frac{x - \mu}{\sigma}, \qquad \log p(x) = \log p(w) - \sum_j \log \sigma_j L_{jj}

    scales: means and scales of the columns. root: L (d, d), or None where columns stay as they are. still: (d,) which
    columns never changed in training; they have a small spread, of noise that an energy learns instead.
    """

    def __init__(self, scales: Standardizer, root: np.ndarray | None = None, still: np.ndarray | None = None) -> None:
        self.scales, self.root, self.still = scales, root, still
        self._tensors: dict[Any, tuple[Tensor, Tensor]] = {}

    @classmethod
    def of(cls, intake: Intake, seed: int, *, picture: bool) -> Whitening:
        """The units of training data."""
        scales = scales_of(intake)
        if picture:
            return cls(_one_scale(scales))
        still = _hold(scales)
        rows = scales.transform(intake.sample(_LOOK, seed).X.double()).cpu().numpy()
        n, d = rows.shape
        shrink = _SHRINK + _FEW * min(1.0, d / n)
        found = (1 - shrink) * (rows.T @ rows / n) + shrink * np.eye(d)
        found[np.diag_indices(d)] = 1.0  # also of constant columns
        return cls(scales, np.linalg.cholesky(found), still)

    def _roots(self, like: Tensor) -> tuple[Tensor, Tensor]:
        place = (like.device, like.dtype)
        if place not in self._tensors:
            root = torch.as_tensor(self.root)
            eye = torch.eye(len(root), dtype=root.dtype)
            back = torch.linalg.solve_triangular(root, eye, upper=False)
            self._tensors[place] = (root.to(*place), back.to(*place))
        return self._tensors[place]

    def inward(self, X: Tensor) -> Tensor:
        """Rows (n, d) of the data in the units of the energy; differentiable."""
        rows: Tensor = self.scales.transform(X)
        return self.whiten(rows)

    def whiten(self, Z: Tensor) -> Tensor:
        """Standardized rows (n, d), decorrelated."""
        return Z if self.root is None else Z @ self._roots(Z)[1].T

    def outward(self, W: Tensor) -> Tensor:
        """The inverse of ``inward``."""
        rows: Tensor = self.scales.inverse(W if self.root is None else W @ self._roots(W)[0].T)
        return rows

    def covariance(self, like: Tensor) -> Tensor:
        """The (shrunk) correlations of standardized columns, (d, d)."""
        if self.root is None:
            return torch.eye(self.scales.width, dtype=like.dtype, device=like.device)
        root = self._roots(like)[0]
        return root @ root.T

    def log_jacobian(self) -> float:
        """The log-determinant of ``inward``."""
        return self.scales.log_jacobian() - (0.0 if self.root is None else float(np.log(np.diag(self.root)).sum()))

    def to_tree(self) -> dict[str, Any]:
        """Plain values from which ``from_tree`` rebuilds it."""
        return {"scales": self.scales, "root": self.root}

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> Whitening:
        """The whitening that ``to_tree`` described."""
        return cls(tree["scales"], tree["root"])

    def __getstate__(self) -> dict[str, Any]:
        return {"scales": self.scales, "root": self.root, "still": self.still, "_tensors": {}}


def _hold(scales: Standardizer) -> np.ndarray:
    """Which columns never change, (d,); they get a small spread, without which an energy would grow without end."""
    mean, spread = np.asarray(scales.mean), np.asarray(scales.spread)
    still: np.ndarray = spread == 0
    scales.spread = np.where(still, _STILL * np.maximum(np.abs(mean), 1.0), spread)
    return still


def _one_scale(seen: Standardizer) -> Standardizer:
    """The same mean and scale for all pixels."""
    made = Standardizer.identity(seen.width)
    mean, spread = np.asarray(seen.mean), np.asarray(seen.spread)
    total = float(np.sqrt((spread**2 + (mean - mean.mean()) ** 2).mean()))
    made.mean = np.full_like(mean, mean.mean())
    made.spread = np.full_like(spread, total or 1.0)
    made.weight = seen.weight
    return made
