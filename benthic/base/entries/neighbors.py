"""Entries of the catalogue: predictions from the nearest examples."""

from __future__ import annotations

from benthic.base.entries.entry import Entry

ENTRIES: tuple[Entry, ...] = (
    Entry(
        "KNeighborsClassifier",
        "benthic.neighbors.classifier",
        family="neighbors",
        tasks=("classify",),
        data=("table",),
        rows=("F-06",),
        summary="Class shares among the k nearest examples, by exact search in any metric.",
    ),
    Entry(
        "KNeighborsRegressor",
        "benthic.neighbors.regressor",
        family="neighbors",
        tasks=("regress",),
        data=("table",),
        rows=("F-06",),
        summary="Mean target of the k nearest examples, by exact search in any metric.",
    ),
    Entry(
        "NadarayaWatson",
        "benthic.neighbors.nadaraya_watson",
        family="neighbors",
        tasks=("regress",),
        data=("table",),
        rows=("F-06",),
        summary="Kernel-weighted mean of all targets, with a learned bandwidth.",
    ),
)
