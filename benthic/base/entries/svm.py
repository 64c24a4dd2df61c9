"""Entries of the catalogue: support vector machines."""

from __future__ import annotations

from benthic.base.entries.entry import Entry

ENTRIES: tuple[Entry, ...] = ()
