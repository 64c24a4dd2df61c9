"""A batch: some rows of the data, with what is known about them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor


class Batch(NamedTuple):
    """Rows that are learned from together.

    X: (n, width) or (n, *event). y: (n,) targets or labels. weight: (n,) how often each row counts.
    """

    X: Tensor
    y: Tensor | None = None
    weight: Tensor | None = None

    def map(self, function: Callable[[Tensor], Tensor]) -> Batch:
        """``function`` of each of the tensors there are."""
        y, weight = self.y, self.weight
        return Batch(function(self.X), None if y is None else function(y), None if weight is None else function(weight))
