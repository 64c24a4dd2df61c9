"""Entries of the catalogue: naive Bayes classifiers."""

from __future__ import annotations

from benthic.base.entries.entry import Entry

ENTRIES: tuple[Entry, ...] = ()
