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

    def __contains__(self, name: object) -> bool:
        return name in self._entries  # without looking for names like it

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
    "EnergySettings": "benthic.generative.energy.learning",
    "Whitening": "benthic.generative.energy.units",
    "FlowColumns": "benthic.generative.flows.columns",
    "ColumnCode": "benthic.generative.gan.columns",
    "ConditionKind": "benthic.generative.diffusion.conditions",
    "TimeLaw": "benthic.generative.diffusion.times",
    "ScheduledVP": "benthic.generative.diffusion.variational",
    "Space": "benthic.generative.vae.space",
    "Vectorizer": "benthic.topics.vectorizer",
}

# Processes of noise and samplers, settings of diffusion models.
_DIFFUSION: dict[str, str] = {
    "VP": "benthic.generative.diffusion.processes",
    "SubVP": "benthic.generative.diffusion.processes",
    "CosineVP": "benthic.generative.diffusion.processes",
    "VE": "benthic.generative.diffusion.processes",
    "AddedNoise": "benthic.generative.diffusion.processes",
    "StraightPath": "benthic.generative.diffusion.processes",
    "DiscreteChain": "benthic.generative.diffusion.chain",
    "PoissonPath": "benthic.generative.poisson.path",
    "Ancestral": "benthic.generative.diffusion.solvers.onestep",
    "DDIM": "benthic.generative.diffusion.solvers.onestep",
    "Euler": "benthic.generative.diffusion.solvers.onestep",
    "Heun": "benthic.generative.diffusion.solvers.onestep",
    "DPMSolver": "benthic.generative.diffusion.solvers.multistep",
    "UniPC": "benthic.generative.diffusion.solvers.multistep",
    "EulerMaruyama": "benthic.generative.diffusion.solvers.stochastic",
    "PredictorCorrector": "benthic.generative.diffusion.solvers.stochastic",
    "AnnealedLangevin": "benthic.generative.diffusion.solvers.stochastic",
    "AdaptiveSDE": "benthic.generative.diffusion.solvers.controlled",
    "ODE": "benthic.generative.diffusion.solvers.controlled",
}

STORED: dict[str, str] = {**RECORDS, **_KERNELS, **_PARTS, **_DIFFUSION}

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
