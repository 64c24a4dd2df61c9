"""Entries of the catalogue: models linear in the features."""

from __future__ import annotations

from benthic.base.entries.entry import Entry

ENTRIES: tuple[Entry, ...] = (
    Entry(
        "LogisticRegression",
        "benthic.linear.logistic",
        family="linear",
        tasks=("classify",),
        data=("table",),
        rows=("F-02",),
        summary="Linear log-odds, binary or multinomial, with L1, L2 or elastic-net penalty.",
    ),
)
