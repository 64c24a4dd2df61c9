"""The entries of the catalogue, one file a family; reading them imports nothing else."""

from __future__ import annotations

from benthic.base.entries import (
    autoencoders,
    bayes,
    flows,
    gp,
    linear,
    memory,
    mixture,
    neighbors,
    networks,
    svm,
    trees,
)
from benthic.base.entries.entry import Entry

_FAMILIES = (linear, bayes, svm, neighbors, gp, trees, memory, mixture, networks, autoencoders, flows)

ENTRIES: tuple[Entry, ...] = tuple(entry for family in _FAMILIES for entry in family.ENTRIES)
