"""Entries of the catalogue: support vector machines."""

from __future__ import annotations

from benthic.base.entries.entry import Entry

ENTRIES: tuple[Entry, ...] = (
    Entry(
        "SVC",
        "benthic.svm.classifier",
        family="svm",
        tasks=("classify",),
        data=("table",),
        rows=("F-05",),
        summary="Widest margin in the feature space of a kernel, with a certificate of optimality.",
    ),
    Entry(
        "SVR",
        "benthic.svm.regressor",
        family="svm",
        tasks=("regress",),
        data=("table",),
        rows=("F-05",),
        summary="Kernel regression that ignores errors inside a tube.",
        quick_params={"C": 10.0},
    ),
    Entry(
        "LinearSVC",
        "benthic.svm.linear",
        family="svm",
        tasks=("classify",),
        data=("table",),
        rows=("F-05",),
        summary="Widest margin in the features themselves, for many rows.",
    ),
)
