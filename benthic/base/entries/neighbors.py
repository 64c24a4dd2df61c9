"""Entries of the catalogue: neighbor methods."""

from __future__ import annotations

from benthic.base.entries.entry import Entry

ENTRIES: tuple[Entry, ...] = ()
