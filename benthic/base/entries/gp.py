"""Entries of the catalogue: Gaussian processes."""

from __future__ import annotations

from benthic.base.entries.entry import Entry

ENTRIES: tuple[Entry, ...] = ()
