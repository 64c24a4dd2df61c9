"""The list of every estimator, as plain data: reading it imports neither torch nor scikit-learn."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import cast

from benthic.base.entries import ENTRIES
from benthic.base.entries.entry import Entry
from benthic.base.errors import nearest


class Catalogue(Mapping[str, Entry]):
    """Entries by name; iterating gives names in order, ``.values()`` the entries."""

    def __init__(self, entries: tuple[Entry, ...]) -> None:
        self._entries = {entry.name: entry for entry in entries}

    def __getitem__(self, name: str) -> Entry:
        if name not in self._entries:
            raise KeyError(f"no model is called {name!r}{nearest(name, self._entries)}")
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return "\n".join(f"{e.name:24} {e.family:14} {e.summary}" for e in self._entries.values())


# Plain values that may stand in a model file besides estimators, and are importable from the top.
RECORDS: dict[str, str] = {
    "Trainer": "benthic.training.trainer",
    "EarlyStopping": "benthic.training.trainer",
    "Checkpoint": "benthic.training.trainer",
    "Schema": "benthic.base.schema",
    "Standardizer": "benthic.data.standardize",
    "Likelihood": "benthic.base.likelihood",
    "Origin": "benthic.base.arrays",
}

# Kernels may stand in a model file too; they are reached by their module, benthic.kernels.
_KERNELS: dict[str, str] = {
    "Constant": "benthic.kernels.covariance",
    "Linear": "benthic.kernels.covariance",
    "LinearNetwork": "benthic.kernels.covariance",
    "Polynomial": "benthic.kernels.covariance",
    "White": "benthic.kernels.covariance",
    "Product": "benthic.kernels.kernel",
    "Sum": "benthic.kernels.kernel",
    "Laplace": "benthic.kernels.stationary",
    "Matern": "benthic.kernels.stationary",
    "Periodic": "benthic.kernels.stationary",
    "RBF": "benthic.kernels.stationary",
    "RationalQuadratic": "benthic.kernels.stationary",
}

# Parts of fitted models.
_PARTS: dict[str, str] = {
    "Space": "benthic.generative.vae.space",
    "Vectorizer": "benthic.topics.vectorizer",
}

STORED: dict[str, str] = {**RECORDS, **_KERNELS, **_PARTS}

_CATALOGUE = Catalogue(ENTRIES)


def catalogue() -> Catalogue:
    """Every estimator of the library, by name.

    >>> catalogue()["VAE"].family
    'vae'
    """
    return _CATALOGUE


def resolve(name: str) -> type:
    """The class called ``name``: an estimator, or a plain value of a model file."""
    if name in STORED:
        return cast(type, getattr(importlib.import_module(STORED[name]), name))
    return _CATALOGUE[name].cls
