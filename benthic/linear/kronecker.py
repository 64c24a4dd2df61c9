"""The Hessian of multinomial regression as if class probabilities did not depend on the features."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from benthic.data.batch import Batch
from benthic.linear.positive import Factor, factor
from benthic.training.learner import Stats, total_weight

_LARGEST = 20_000_000  # numbers in the factors of all classes up to which correlations are kept

_FLATTEST = 1e-10  # curvature that is assumed where probabilities have none left


class Moments(NamedTuple):
    """Mean (d,) of the features and their covariance (d, d); of wide data the variances only, (d,)."""

    mean: Tensor
    covariance: Tensor


def moment_sums(batch: Batch, classes: int) -> Stats:
    """Sums of x and x xᵀ over a block; of wide rows and many classes the squares only."""
    X = batch.X.double()
    weighted = X if batch.weight is None else X * batch.weight[:, None]
    wide = classes * X.shape[1] ** 2 > _LARGEST
    second = (weighted * X).sum(0) if wide else weighted.T @ X
    return Stats(total_weight(batch), {"mean": weighted.sum(0), "second": second})


def moments_of(stats: Stats, centering: bool) -> Moments:
    """Moments from the sums of ``moment_sums``; without centering, about zero."""
    mean = stats["mean"].cpu() / stats.weight * float(centering)
    second = stats["second"].cpu() / stats.weight
    outer = mean**2 if second.ndim == 1 else mean[:, None] * mean
    covariance = second - outer
    (covariance if second.ndim == 1 else covariance.diagonal()).clamp_(min=0.0)
    return Moments(mean, covariance)


class Kronecker(NamedTuple):
    r"""An approximate Hessian that is cheap to solve with.

    .. math:: H \approx S \otimes \operatorname{Cov}(x) + \lambda I, \qquad
              S = \mathbb{E} [\operatorname{diag}(p) - p p^T]

    With S = I/2 - 11ᵀ/2k in place of its mean this is the upper bound of Böhning, 1992. In the eigenbasis of S
    it falls apart into one matrix of the features a class, each factored once. The intercept is that of centered
    features, which decouples it.

    mean: (d,). levels: (r,) eigenvalues of S, axes: (r, r) its eigenvectors. blocks: factors of
    levels[a] Cov + λ I, or their diagonals (r, d).
    """

    mean: Tensor
    levels: Tensor
    axes: Tensor
    blocks: Factor | Tensor

    def solve(self, gradient: Tensor) -> Tensor:
        """The solution for a right side (r, d) or, with intercepts last, (r, d + 1)."""
        width = len(self.mean)
        if len(gradient) > 1:  # adding to all classes alike changes nothing
            gradient = gradient - gradient.mean(0)
        rotated = self.axes.T @ gradient
        body, last = rotated[:, :width], rotated[:, width:]
        if last.shape[1]:
            body = body - last * self.mean
        body = self.blocks.solve(body) if isinstance(self.blocks, Factor) else _divide(body, self.blocks)
        if last.shape[1]:
            last = last / self.levels[:, None] - body @ self.mean[:, None]
        return self.axes @ torch.cat([body, last], 1)


def kronecker(moments: Moments, curvature: Tensor, l2: float) -> Kronecker:
    """The approximation for a curvature in the scores S, (r, r), and an L2 penalty of strength ``l2``."""
    levels, axes = torch.linalg.eigh(curvature)
    levels = levels.clamp_min(_FLATTEST)
    covariance = moments.covariance
    if covariance.ndim == 1:
        return Kronecker(moments.mean, levels, axes, levels[:, None] * covariance + l2)
    blocks = levels[:, None, None] * covariance
    blocks.diagonal(dim1=-2, dim2=-1).add_(l2)
    return Kronecker(moments.mean, levels, axes, factor(blocks))


def _divide(numerator: Tensor, denominator: Tensor) -> Tensor:
    """The quotient, and zero in directions without curvature."""
    return torch.where(denominator > 0, numerator / denominator, 0.0)
