"""Entries of the catalogue: trees and ensembles of trees."""

from __future__ import annotations

from benthic.base.entries.entry import Entry

ENTRIES: tuple[Entry, ...] = ()
