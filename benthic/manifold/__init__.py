"""Maps to fewer dimensions that keep variance, classes, distances or neighborhoods."""

from __future__ import annotations

from benthic.base.lazy import lazy

_EXPORTS = {
    "Isomap": "benthic.manifold.isomap",
    "LinearDiscriminantAnalysis": "benthic.manifold.discriminant",
    "LocalMetric": "benthic.manifold.riemannian",
    "MDS": "benthic.manifold.mds",
    "MahalanobisMetric": "benthic.manifold.metric",
    "PCA": "benthic.manifold.pca",
    "TSNE": "benthic.manifold.tsne",
    "classical": "benthic.manifold.scaling",
    "smacof": "benthic.manifold.scaling",
    "stress": "benthic.manifold.scaling",
}

__all__ = [*_EXPORTS]

__getattr__, __dir__ = lazy(__name__, _EXPORTS)
