"""Entries of the catalogue: clustering."""

from __future__ import annotations

from benthic.base.entries.entry import Entry

ENTRIES: tuple[Entry, ...] = (
    Entry(
        "KMeans",
        "benthic.cluster.kmeans",
        family="cluster",
        tasks=("cluster",),
        data=("table",),
        rows=("H-01",),
        summary="Clusters around means: k-means++ starts, Lloyd's passes with bounds, or minibatches.",
        quick_params={"n_clusters": 3},
    ),
)
