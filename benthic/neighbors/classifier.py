"""Classification by the nearest examples."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from benthic.base.arrays import is_tensor
from benthic.base.capabilities import Classifies
from benthic.base.errors import InvalidInput
from benthic.base.validation import check_labels, speaking
from benthic.neighbors.common import _NeighborsModel, taken, whole


class KNeighborsClassifier(Classifies, _NeighborsModel):
    r"""The share of each class among the k nearest examples.

    .. math:: P(y = c \mid x) = \sum_{i \in N_k(x)} w_i \, [y_i = c] \Big/ \sum_{i \in N_k(x)} w_i

    Fix & Hodges, 1951; Cover & Hart, 1967. The search is exact: matrix products only rule rows out, and what remains
    is measured in float64. Of equal distances the row stored first is nearer, and of equal votes the class that comes
    first in ``classes_`` wins, so the same data give the same answer on every machine and by every algorithm.

    n_neighbors: k. weights: ``"uniform"``, ``"distance"`` (one over it; rows that coincide with the query, if any,
    decide alone) or a function of distances (n, k). algorithm: ``"kd_tree"`` for few columns, ``"brute"`` (products
    in blocks, also on a GPU), ``"auto"`` chooses. leaf_size: rows at the end of a branch. metric: a name of
    :func:`~benthic.kernels.distances.pairwise`, or a function of two tensors (..., d) that returns distances (...).
    p: power of ``"minkowski"``. metric_params: ``covariance`` or ``precision`` of ``"mahalanobis"``; the covariance of
    the rows when absent. n_jobs: threads; None for as many as torch uses, -1 for all cores.

    classes_: (c,). n_samples_fit_: rows stored. effective_metric_, algorithm_: what was chosen.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> KNeighborsClassifier(3).fit(X, y).predict_proba(X[70:71])
    array([[0.        , 0.33333333, 0.66666667]])
    """

    def fit(self, X: Any, y: Any = None) -> Self:
        """Store rows (n, d) and their labels (n,), or those of a file: ``fit(path, 'column')``."""
        with speaking(self, "fit"):
            self._check_settings()
        with whole(self):
            batch, intake = taken(self, X, y, "labels")
            with speaking(self, "fit"):
                self._store(batch.X, intake.origin, again=False)
            self.classes_, self._codes = intake.classes, batch.y.cpu().numpy()
        return self

    def partial_fit(self, X: Any, y: Any = None, classes: Any = None) -> Self:
        """Add rows and their labels to those stored; nothing else changes.

        classes: all labels that may come, needed in the first call unless it holds all of them.
        """
        fresh = not hasattr(self, "_codes")
        with speaking(self, "partial_fit"):
            self._check_settings()
        with whole(self):
            rows, origin = self._arrive(X, "partial_fit", reset=fresh)
            with speaking(self, "partial_fit"):
                labels = _labels(y, len(rows))
                known = _known(labels, classes) if fresh else self.classes_
                missing = np.setdiff1d(labels, known)
                if len(missing):
                    raise InvalidInput(
                        f"y has the class {missing.tolist()[0]!r}, but the classes are {known.tolist()}; give all of "
                        "them as classes in the first call"
                    )
                self._store(rows, origin, again=not fresh)
            codes = np.searchsorted(known, labels)
            self.classes_ = known
            self._codes = codes if fresh else np.concatenate([self._codes, codes])
        return self

    def _probabilities(self, X: Tensor) -> Tensor:
        distance, index = self._search(X, "predict_proba")
        weight = self._weigh(distance, "predict_proba")
        votes = torch.as_tensor(self._codes, device=X.device)[index]
        shares = weight.new_zeros(len(X), len(self.classes_))
        return shares.scatter_add_(1, votes, weight)

    def _facts(self) -> dict[str, Any]:
        return {"classes": len(self.classes_), **super()._facts()}

    def plot(self, X: Any = None, *, features: tuple[int, int] = (0, 1)) -> Any:
        """The stored rows over two columns by class, with the regions of the predicted classes under them.

        X: rows to show instead of the stored ones. features: which two encoded columns; the others are held at their
        medians in the regions.
        """
        from benthic.neighbors.picture import plot_regions

        rows = self._stored("plot")[0] if X is None else self._arrive(X, "plot")[0]
        return plot_regions(self, rows, features, None if X is not None else self._codes)


def _labels(y: Any, n: int) -> np.ndarray:
    """Labels of one batch, which may all be the same."""
    if y is None:
        raise InvalidInput("requires y to be passed, but the target y is None")
    values = np.asarray(y.detach().cpu() if is_tensor(y) else y).reshape(-1)
    if len(values) != n:
        raise InvalidInput(f"Found input variables with inconsistent numbers of samples: [{n}, {len(values)}]")
    if len(np.unique(values)) > 1:
        check_labels(values, n)
    elif values.dtype.kind == "f" and not np.isfinite(values).all():
        raise InvalidInput("Input y contains NaN or infinity")
    return values


def _known(labels: np.ndarray, classes: Any) -> np.ndarray:
    known = np.unique(labels if classes is None else np.asarray(classes))
    if len(known) < 2:
        raise InvalidInput(
            f"y has only one class, {known.tolist()[0]!r}; a classifier needs at least 2 classes: give them as classes"
        )
    return known
