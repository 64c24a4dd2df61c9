"""Entries of the catalogue: projections."""

from __future__ import annotations

from benthic.base.entries.entry import Entry

ENTRIES: tuple[Entry, ...] = (
    Entry(
        "PCA",
        "benthic.manifold.pca",
        family="projection",
        tasks=("encode", "density", "generate", "impute"),
        data=("table", "missing"),
        rows=("H-04",),
        summary="Orthogonal directions of largest variance, with the Gaussian density that belongs to them.",
    ),
    Entry(
        "LinearDiscriminantAnalysis",
        "benthic.manifold.discriminant",
        family="projection",
        tasks=("classify", "encode"),
        data=("table",),
        rows=("H-04",),
        summary="Classes as Gaussians of one covariance, and the directions that part them.",
    ),
    Entry(
        "MDS",
        "benthic.manifold.mds",
        family="projection",
        tasks=("encode",),
        data=("table",),
        rows=("H-04",),
        summary="Places whose distances are like those of the rows: classical, or by least stress.",
        quick_params={"n_init": 1, "max_iter": 50, "tol": 1e-3},
    ),
    Entry(
        "Isomap",
        "benthic.manifold.isomap",
        family="projection",
        tasks=("encode",),
        data=("table",),
        rows=("H-04",),
        summary="A map that keeps distances along the surface the rows lie on.",
    ),
    Entry(
        "TSNE",
        "benthic.manifold.tsne",
        family="projection",
        tasks=("encode",),
        data=("table",),
        rows=("H-04",),
        summary="A map in which neighbors stay neighbors.",
        quick_params={"perplexity": 2.0, "max_iter": 60, "exaggeration_iter": 20},
    ),
    Entry(
        "MahalanobisMetric",
        "benthic.manifold.metric",
        family="projection",
        tasks=("encode",),
        data=("table",),
        rows=("H-06",),
        summary="A distance learned from labels: Euclidean after a linear map.",
        quick_params={"max_iter": 5},
    ),
)
