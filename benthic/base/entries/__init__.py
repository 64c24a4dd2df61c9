"""The entries of the catalogue, one file a family; reading them imports nothing else."""

from __future__ import annotations

from benthic.base.entries import (
    adversarial,
    autoencoders,
    bayes,
    chains,
    cluster,
    diffusion,
    energy,
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
    adversarial,
    energy,
    flows,
    diffusion,
)

ENTRIES: tuple[Entry, ...] = tuple(entry for family in _FAMILIES for entry in family.ENTRIES)
