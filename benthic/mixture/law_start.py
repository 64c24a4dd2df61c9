"""Where EM of any laws starts: clusters of a sample, given shares, or a mixture with components split and merged."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benthic.cluster.seeding import Sorted, assign, random_rows, sort_rows, start_clusters
from benthic.mixture.law import Law
from benthic.mixture.law_em import Components, Model, log_joint, shared_sums
from benthic.mixture.start import SAMPLE_ROWS

_ROUNDS = 3  # of k-means after the seeds
_LEAST = 1e-300
_CANDIDATES = 12  # pairs to merge and components to split that are looked at


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


class LawStarter:
    """Makes the components that a restart begins with. sample: rows from ``sorted_sample``; the laws are settled."""

    def __init__(self, model: Model, sample: Sorted) -> None:
        self.model, self._X, self._weight = model, sample.X, sample.weight

    @cached_property
    def _rows(self) -> list[Any]:
        return [law.read(self._X) for law in self.model.laws]

    @cached_property
    def _view(self) -> Sorted:
        """The sample as points between which distances mean something."""
        points = [law.view(self._X, self._weight) for law in self.model.laws]
        return Sorted(torch.cat(points, 1), self._weight)

    def clusters(self, k: int, rng: np.random.Generator, how: str = "kmeans++") -> Components:
        """``k`` components, one for each cluster of rows."""
        if how == "random":
            centers = random_rows(self._view, k, rng)
        else:
            centers = start_clusters(self._view, k, rng, _ROUNDS)
        labels = assign(self._view.X, centers)
        shares = torch.zeros(k, len(labels), dtype=torch.float64).scatter_(0, labels[None], self._weight[None])
        return self._maximize(shares)

    def _maximize(self, shares: Tensor) -> Components:
        return self.model.maximize(shared_sums(self.model.laws, None, self._rows, shares), None)

    def given(self, X: Tensor, weight: Tensor | None, shares: Tensor) -> Components:
        """Components of rows (n, width) that belong to them by shares (k, n)."""
        shares = shares if weight is None else shares * weight.double()
        sums = shared_sums(self.model.laws, None, [law.read(X) for law in self.model.laws], shares)
        return self.model.maximize(sums, None, borrow=False)

    # -- splitting and merging -----------------------------------------------------------------------------

    def split_merge(self, best: Components, number: int) -> Components | None:
        """The ``number``-th best way to merge two components of ``best`` and split a third (Ueda et al., 2000).

        None where there is none: fewer than three components, or all ways tried.
        """
        log = log_joint(self.model.laws, best, self._X)  # (k, n)
        shares = torch.softmax(log, 0) * self._weight
        ways = self.candidates(log, shares)
        if number >= len(ways):
            return None
        one, two, torn = ways[number]
        left, right = self._halves(shares[torn])
        changed = shares.clone()
        changed[one] = shares[one] + shares[two]
        changed[torn], changed[two] = left, right
        return self._maximize(changed)

    def candidates(self, log: Tensor, shares: Tensor) -> list[tuple[int, int, int]]:
        """Triples (merge i and j, split m) of k components, the most promising first.

        Components that share their rows are merged; one is split whose density is unlike that of its rows, by the
        local Kullback divergence. log: (k, n) joint log-densities. shares: (k, n) weighted responsibilities.
        """
        norm = shares.norm(dim=1).clamp(min=_LEAST)
        alike = (shares @ shares.T) / (norm[:, None] * norm)
        local = shares / shares.sum(1, keepdim=True).clamp(min=_LEAST)
        own = torch.log_softmax(log + self._weight.log(), 1)  # the component on the rows of the sample
        unlike = (local * (local.clamp(min=_LEAST).log() - own)).sum(1)
        torn = torch.argsort(unlike, descending=True).tolist()[:_CANDIDATES]
        pairs = [(i, j) for i in range(len(log)) for j in range(i)]
        pairs = sorted(pairs, key=lambda pair: -float(alike[pair]))[:_CANDIDATES]
        ranked = [(a + b, i, j, m) for a, (i, j) in enumerate(pairs) for b, m in enumerate(torn) if m not in (i, j)]
        return [(i, j, m) for _, i, j, m in sorted(ranked, key=lambda triple: triple[0])]

    def _halves(self, shares: Tensor) -> tuple[Tensor, Tensor]:
        """A component's rows cut across the longest direction of their view."""
        points = self._view.X
        total = shares.sum().clamp(min=_LEAST)
        centered = points - shares @ points / total
        covariance = (shares[:, None] * centered).T @ centered / total
        direction = torch.linalg.eigh(covariance).eigenvectors[:, -1]
        above = (centered @ direction > 0).double()
        return shares * (0.1 + 0.8 * above), shares * (0.9 - 0.8 * above)


def settle(laws: Sequence[Law], sample: Sorted) -> None:
    """Measure the units of every law."""
    for law in laws:
        law.settle(*sample)
