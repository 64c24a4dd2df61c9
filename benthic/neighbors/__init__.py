"""Predictions from the nearest examples, and from all of them weighted by a kernel."""

from __future__ import annotations

from benthic.base.lazy import lazy

_EXPORTS = {
    "KNeighborsClassifier": "benthic.neighbors.classifier",
    "KNeighborsRegressor": "benthic.neighbors.regressor",
    "NadarayaWatson": "benthic.neighbors.nadaraya_watson",
    "SHAPES": "benthic.neighbors.shapes",
}

__all__ = [*_EXPORTS]

__getattr__, __dir__ = lazy(__name__, _EXPORTS)
