"""Entries of the catalogue: associative memories."""

from __future__ import annotations

from benthic.base.entries.entry import Entry

ENTRIES: tuple[Entry, ...] = (
    Entry(
        "Hopfield",
        "benthic.memory.hopfield",
        family="memory",
        tasks=("encode",),
        data=("table",),
        rows=("F-08",),
        summary="Associative memory of binary patterns, recalled by descending an energy.",
        quick_params={"threshold": "median"},
    ),
)
