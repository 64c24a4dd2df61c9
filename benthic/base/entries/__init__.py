"""The entries of the catalogue, one file a family; reading them imports nothing else."""

from __future__ import annotations

from benthic.base.entries import (
    autoencoders,
    bayes,
    chains,
    cluster,
    flows,
    gp,
    linear,
    manifold,
    memory,
    mixture,
    neighbors,
    networks,
    svm,
    topics,
    trees,
)
from benthic.base.entries.entry import Entry

_FAMILIES = (
    linear,
    bayes,
    svm,
    neighbors,
    gp,
    trees,
    memory,
    cluster,
    mixture,
    chains,
    manifold,
    topics,
    networks,
    autoencoders,
    flows,
)

ENTRIES: tuple[Entry, ...] = tuple(entry for family in _FAMILIES for entry in family.ENTRIES)
