"""Where EM of exponential families starts: clusters of a sample of the rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from benthic.cluster.seeding import Sorted, assign, lloyd, plus_plus, sort_rows
from benthic.distributions.exponential import Family
from benthic.distributions.product import Product
from benthic.mixture.exponential_em import Components, Prior, maximize, sums_of
from benthic.mixture.start import SAMPLE_ROWS, columns_of

_ROUNDS = 3  # of k-means after the seeds
_BORROWED = 1.0  # rows like the whole table that every cluster is given, so that small ones have a spread
_PLAIN_SHARE = 0.01  # of the plain member of a family in what is known of a column, should it be constant


def sorted_sample(X: Tensor, weight: Tensor | None) -> Sorted:
    """Rows in an order that depends on neither their order nor repetition, thinned; NaN stays NaN; on the CPU."""
    gaps = torch.isnan(X)
    keys = torch.cat((X.nan_to_num(0.0), gaps.to(X.dtype)), 1) if bool(gaps.any()) else X
    rows, kept = sort_rows(keys, weight, limit=SAMPLE_ROWS)
    rows, kept = rows.cpu().double(), kept.cpu()
    if keys is X:
        return Sorted(rows, kept)
    values, missing = rows.chunk(2, dim=1)
    return Sorted(torch.where(missing > 0, torch.nan, values), kept)


class Starter:
    """Makes the start of each restart. families: one a column. X, weight: rows with NaN for gaps."""

    def __init__(self, families: Sequence[Family], X: Tensor, weight: Tensor | None) -> None:
        sample = sorted_sample(X, weight)
        self.product = Product.measured(families, *sample)
        self._rows, self._weight = self.product.read(sample.X), sample.weight
        self.typical = self._typical()
        self._view = Sorted(self._nearly_normal(sample), sample.weight)

    def _typical(self) -> Tensor:
        """Mean statistics of each column, (P,), blended with a little of the plain member of its family."""
        sums = sums_of(self.product, self._rows, self._weight[None])
        plain = self.product.reference
        seen = sums["seen"][0, self.product.column_of]
        mean = torch.where(seen > 0, sums["statistics"][0] / seen, plain)
        return (1 - _PLAIN_SHARE) * mean + _PLAIN_SHARE * plain

    def _nearly_normal(self, sample: Sorted) -> Tensor:
        """Rows as points: every column nearly normal, of mean 0 and variance 1, with 0 for gaps."""
        Z = (sample.X - self.product.shift) / self.product.scale
        for family, columns, _ in self.product.groups:
            Z[:, columns] = family.normal_view(Z[:, columns])
        known = ~torch.isnan(Z).all(0)
        points = torch.zeros_like(Z)
        mean, variance = columns_of(Z[:, known], sample.weight)
        points[:, known] = (Z[:, known] - mean) / torch.where(variance > 0, variance, 1.0).sqrt()
        return points.nan_to_num(0.0)

    def __call__(self, k: int, rng: np.random.Generator) -> Components:
        """``k`` components, one for each cluster of rows."""
        centers = lloyd(self._view, plus_plus(self._view, k, rng), _ROUNDS)
        labels = assign(self._view.X, centers)
        shares = torch.zeros(k, len(labels), dtype=torch.float64).scatter_(0, labels[None], self._weight[None])
        sums = sums_of(self.product, self._rows, shares)
        return maximize(self.product, sums, Prior(_BORROWED, self.typical))
