"""Entries of the catalogue: topics of documents."""

from __future__ import annotations

from benthic.base.entries.entry import Entry

ENTRIES: tuple[Entry, ...] = (
    Entry(
        "LatentDirichletAllocation",
        "benthic.topics.allocation",
        family="topics",
        tasks=("encode", "topics"),
        data=("table", "counts", "documents"),
        rows=("H-03",),
        summary="Documents as mixtures of topics: collapsed Gibbs or variational, with priors learned.",
        quick_params={"n_components": 2, "max_iter": 20},
    ),
)
