"""A feature space learned from labels: what a classifier sees before it decides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benthic.base.errors import InvalidInput
from benthic.leaderboard.scoring import fitted, is_classifier
from benthic.metrics.rows import plain, same_rows

_FLOOR = 1e-6  # probabilities below count as this before their logarithm is taken


@dataclass(frozen=True)
class ClassifierFeatures:
    """Features of rows from a fitted classifier, for any metric of two samples; made by ``classifier_features``.

    For a network, what enters its last linear layer; for another classifier, the logarithms of its probabilities less
    their mean.

    model: the fitted classifier.
    """

    model: Any

    def __call__(self, X: Any) -> Tensor:
        """Features (n, d) of a sample, float64."""
        network = getattr(self.model, "network_", None)
        linear = [part for part in network.modules() if isinstance(part, nn.Linear)] if network is not None else []
        if linear:
            return _entering(linear[-1], lambda: self.model.predict_proba(X))
        logs = self.probabilities(X).clamp_min(_FLOOR).log()
        return logs - logs.mean(1, keepdim=True)

    def probabilities(self, X: Any) -> Tensor:
        """Probabilities (n, classes) of a sample, for ``inception_score``."""
        found = self.model.predict_proba(X)
        return (found if isinstance(found, Tensor) else torch.as_tensor(found)).detach().double()


def classifier_features(model: Any, X: Any, y: Any) -> ClassifierFeatures:
    """The feature space of a classifier, fitted here on labeled rows.

    Take rows for it that are neither those the generator learns from nor those it is judged on.

    model: a classifier with ``predict_proba``; a copy of it is fitted. X: (n, ...) rows. y: (n,) labels.

    >>> from sklearn.linear_model import LogisticRegression
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> classifier_features(LogisticRegression(), X, [0, 0, 1, 1])(X).shape
    torch.Size([4, 2])
    """
    where = "classifier_features"
    if y is None:
        raise InvalidInput(f"{where}: y is None; labels are needed, or take RandomConvolution or Projection instead")
    n = same_rows(where, X=X, y=y)
    if not is_classifier(model) or not hasattr(model, "predict_proba"):
        raise InvalidInput(f"{where}: {type(model).__name__} gives no probabilities of classes; a classifier must")
    if len(np.unique(plain(y))) < 2:
        raise InvalidInput(f"{where}: y holds one class; at least two are needed to learn what tells them apart")
    return ClassifierFeatures(fitted(model, X, y, None, np.arange(n), where))


def _entering(layer: nn.Module, run: Any) -> Tensor:
    """What enters a layer while something runs."""
    seen: list[Tensor] = []
    handle = layer.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].detach().flatten(1).double()))
    try:
        run()
    finally:
        handle.remove()
    return torch.cat(seen)
