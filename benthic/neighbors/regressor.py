"""Regression by the nearest examples."""

from __future__ import annotations

from typing import Any, Self

import torch
from torch import Tensor

from benthic.base.capabilities import Predicts
from benthic.base.errors import InvalidInput
from benthic.base.validation import check_targets, speaking
from benthic.neighbors.common import _NeighborsModel, taken, whole


class KNeighborsRegressor(Predicts, _NeighborsModel):
    r"""The weighted mean of the targets of the k nearest examples.

    .. math:: \hat y(x) = \sum_{i \in N_k(x)} w_i y_i \Big/ \sum_{i \in N_k(x)} w_i

    Cover, 1968. The search is exact, and of equal distances the row stored first is nearer. Targets (n,) or (n, t).

    Settings as in :class:`~benthic.neighbors.classifier.KNeighborsClassifier`: n_neighbors, weights, algorithm,
    leaf_size, p, metric, metric_params, n_jobs.

    n_samples_fit_: rows stored. effective_metric_, algorithm_: what was chosen.

    >>> KNeighborsRegressor(2).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 4.0]).predict([[1.6]])
    array([2.5])
    """

    def fit(self, X: Any, y: Any = None) -> Self:
        """Store rows (n, d) and their targets, (n,) or (n, t), or those of a file: ``fit(path, 'column')``."""
        with speaking(self, "fit"):
            self._check_settings()
        with whole(self):
            batch, intake = taken(self, X, y, "numbers")
            with speaking(self, "fit"):
                self._store(batch.X, intake.origin, again=False)
            targets = batch.y.clone()
            self._y = targets if intake.origin.kind == "torch" else targets.cpu().numpy()
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Add rows and their targets to those stored; nothing else changes."""
        fresh = not hasattr(self, "_y")
        with speaking(self, "partial_fit"):
            self._check_settings()
        with whole(self):
            rows, origin = self._arrive(X, "partial_fit", reset=fresh)
            with speaking(self, "partial_fit"):
                targets = check_targets(y, len(rows))
                held = targets[:0] if fresh else torch.as_tensor(self._y)
                if held.shape[1:] != targets.shape[1:]:
                    raise InvalidInput(
                        f"y has shape {tuple(targets.shape)} here and {tuple(held.shape)} before; columns must agree"
                    )
                self._store(rows, origin, again=not fresh)
            joined = torch.cat([held, targets.to(held)])
            self._y = joined if origin.kind == "torch" else joined.cpu().numpy()
        return self

    def _prediction(self, X: Tensor) -> Tensor:
        distance, index = self._search(X, "predict")
        weight = self._weigh(distance, "predict")
        targets = torch.as_tensor(self._y).to(X.device, torch.float64)[index]  # (n, k) or (n, k, t)
        return (weight.reshape(*weight.shape, *[1] * (targets.ndim - 2)) * targets).sum(1)

    def _facts(self) -> dict[str, Any]:
        shape = tuple(self._y.shape)
        return {**super()._facts(), "targets": shape[1] if len(shape) > 1 else 1}

    def plot(self, *, feature: int = 0) -> Any:
        """Targets against one encoded column, and the prediction along it with the others at their medians."""
        from benthic.neighbors.picture import plot_slice

        rows = self._stored("plot")[0]
        return plot_slice(self, rows, torch.as_tensor(self._y), feature)
