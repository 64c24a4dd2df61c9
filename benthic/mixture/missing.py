"""Rows with gaps: every pattern of observed columns has its own marginal and conditional Gaussians.

Patterns that have the same number of rows are worked on together. A covariance restricted to the observed
columns is kept at full size, with a unit diagonal in the gaps, so that all patterns share one shape.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from benthic.mixture.expectation import Sums, responsibilities_
from benthic.mixture.parameters import LOG_TWO_PI, Gaussians

_GROUP_BYTES = 64 << 20  # of the matrices worked on at once


class Group(NamedTuple):
    """Some patterns with equally many rows: their row numbers (P, c) and observed columns (P, d)."""

    rows: Tensor
    observed: Tensor


def groups(gaps: Tensor, k: int) -> Iterator[Group]:
    """The patterns among rows with these gaps (n, d), grouped by how many rows have them."""
    patterns, which, counts = torch.unique(gaps, dim=0, return_inverse=True, return_counts=True)
    order = torch.argsort(which, stable=True)
    starts = torch.cumsum(counts, 0) - counts
    d = gaps.shape[1]
    for count in torch.unique(counts).tolist():
        chosen = (counts == count).nonzero()[:, 0]
        size = 8 * k * d * (4 * d + 3 * count)
        for part in chosen.split(max(1, _GROUP_BYTES // size)):
            inside = torch.arange(count, device=gaps.device)
            yield Group(order[starts[part][:, None] + inside], ~patterns[part])


class Conditional:
    """The Gaussians of a mixture given the observed columns of each pattern.

    Differences from the means are (P, k, c, d): pattern, component, row, column; zero in gaps.
    """

    def __init__(self, mixture: Gaussians, observed: Tensor) -> None:
        self.observed = observed[:, None, None, :]  # (P, 1, 1, d)
        seen = observed.to(mixture.means.dtype)
        self._seen = seen[:, None]  # (P, 1, d)
        self._covariances = mixture.covariances.reshape(-1, mixture.d, mixture.d)  # (k or 1, d, d)
        both = self._seen[..., :, None] * self._seen[..., None, :]
        padded = self._covariances * both + torch.diag_embed(1 - self._seen)
        self._root = _cholesky(padded)  # (P, k or 1, d, d)

    def log_density(self, delta: Tensor) -> Tensor:
        """Marginal log-density of the observed columns, (P, k, c)."""
        white: Tensor = torch.linalg.solve_triangular(self._root, delta.mT, upper=False)
        log_det: Tensor = self._root.diagonal(dim1=-2, dim2=-1).log().sum(-1)  # (P, k or 1)
        constant = log_det + 0.5 * LOG_TWO_PI * self._seen.sum(-1)
        return -0.5 * white.square().sum(-2) - constant[..., None]

    def expect(self, delta: Tensor) -> Tensor:
        """Differences with every gap filled by its expectation, C_mo C_oo⁻¹ (x_o − μ_o)."""
        solved = torch.cholesky_solve(delta.mT, self._root)
        return torch.where(self.observed, delta, (self._covariances @ solved).mT)

    def covariance(self) -> Tensor:
        """Covariance of the gaps given the rest, C_mm − C_mo C_oo⁻¹ C_om; zero elsewhere, (P, k or 1, d, d)."""
        half: Tensor = torch.linalg.solve_triangular(self._root, self._seen[..., None] * self._covariances, upper=False)
        gap = 1 - self._seen
        return (self._covariances - half.mT @ half) * (gap[..., :, None] * gap[..., None, :])


def _cholesky(matrices: Tensor) -> Tensor:
    """Cholesky factors; matrices that rounding made singular are lifted by a few units in the last place."""
    root: Tensor
    root, failed = torch.linalg.cholesky_ex(matrices)
    if bool(failed.any()):
        lift = 64 * matrices.shape[-1] * torch.finfo(matrices.dtype).eps
        diagonal = matrices.diagonal(dim1=-2, dim2=-1)
        root = torch.linalg.cholesky(matrices + torch.diag_embed(lift * diagonal))
    return root


def differences(X: Tensor, means: Tensor, observed: Tensor) -> Tensor:
    """x − μ_k for rows (P, c, d) and means (k, d), zero in gaps, as (P, k, c, d)."""
    return torch.where(observed[:, None, None, :], X[:, None] - means[:, None, :], 0.0)


def add_sums(sums: Sums, mixture: Gaussians, X: Tensor, weight: Tensor | None) -> None:
    """Add the E step's sums over rows with gaps (n, d): expectations, and the covariance of what is unknown.

    mixture: full or tied, in float64 on the device of ``X``.
    """
    second = torch.zeros(mixture.k, mixture.d, mixture.d, dtype=torch.float64, device=X.device)
    for rows, observed in groups(torch.isnan(X), mixture.k):
        x = X[rows].double()
        delta = differences(x, mixture.means, observed)
        given = Conditional(mixture, observed)
        joint = mixture.weights.log()[:, None] + given.log_density(delta)  # (P, k, c)
        by_component = joint.movedim(1, 0).flatten(1)  # (k, P c)
        flat_weight = None if weight is None else weight[rows].double().flatten()
        sums["log_likelihood"] += responsibilities_(by_component, flat_weight)
        share = by_component.view(mixture.k, *rows.shape)  # (k, P, c)
        filled = given.expect(delta).movedim(1, 0).flatten(1, 2)  # (k, P c, d)
        scaled = filled * by_component[..., None]
        sums["count"] += by_component.sum(1)
        sums["first"] += scaled.sum(1)
        second += scaled.mT @ filled
        second += torch.einsum("kp,pkij->kij", share.sum(2), given.covariance().expand(-1, mixture.k, -1, -1))
    if mixture.kind == "tied":
        second = second.sum(0)
    sums["second"] += mixture.factor.mT @ second @ mixture.factor
