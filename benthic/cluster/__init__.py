"""Grouping rows that are alike."""

from __future__ import annotations

from benthic.base.lazy import lazy

_EXPORTS = {
    "Choice": "benthic.cluster.choosing",
    "KMeans": "benthic.cluster.kmeans",
    "choose_clusters": "benthic.cluster.choosing",
    "nearest": "benthic.cluster.memory",
    "silhouette": "benthic.cluster.choosing",
}

__all__ = [*_EXPORTS]

__getattr__, __dir__ = lazy(__name__, _EXPORTS)
