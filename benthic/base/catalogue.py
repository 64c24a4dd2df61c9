"""The list of every estimator, as plain data: reading it imports neither torch nor scikit-learn."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from benthic.base.errors import nearest


@dataclass(frozen=True)
class Entry:
    """One estimator: where it lives, what it is for, and a small setting for quick tests."""

    name: str
    module: str
    family: str
    tasks: tuple[str, ...]
    data: tuple[str, ...]
    rows: tuple[str, ...]
    summary: str
    quick_params: Mapping[str, Any] = field(default_factory=dict)

    @property
    def cls(self) -> type:
        """The class itself; the first access imports its room."""
        return cast(type, getattr(importlib.import_module(self.module), self.name))

    def quick(self) -> Any:
        """An instance that fits 200 x 10 in well under a second and still learns."""
        return self.cls(**{name: _copy(value) for name, value in self.quick_params.items()})


def _copy(value: Any) -> Any:
    return dict(value) if isinstance(value, dict) else value


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


ENTRIES = (
    Entry(
        "LogisticRegression",
        "benthic.linear.logistic",
        family="linear",
        tasks=("classify",),
        data=("table",),
        rows=("F-02",),
        summary="Linear log-odds, binary or multinomial, with L1, L2 or elastic-net penalty.",
    ),
    Entry(
        "GaussianMixture",
        "benthic.mixture.gaussian",
        family="mixture",
        tasks=("density", "cluster", "generate", "impute"),
        data=("table", "missing"),
        rows=("H-02",),
        summary="Sum of Gaussians fitted by EM; exact density, sampling and imputation.",
        quick_params={"n_components": 2},
    ),
    Entry(
        "ExponentialFamilyMixture",
        "benthic.mixture.exponential",
        family="mixture",
        tasks=("density", "cluster", "generate", "impute"),
        data=("table", "missing"),
        rows=("H-02",),
        summary="Sum of products of any exponential families fitted by EM; counts, shares, times in one table.",
        quick_params={"n_components": 2},
    ),
    Entry(
        "MLPClassifier",
        "benthic.supervised.mlp",
        family="network",
        tasks=("classify",),
        data=("table",),
        rows=("J-07",),
        summary="Fully connected network for classes.",
        quick_params={"hidden_layer_sizes": (16,), "trainer": {"steps": 100, "lr": 0.03}},
    ),
    Entry(
        "MLPRegressor",
        "benthic.supervised.mlp",
        family="network",
        tasks=("regress",),
        data=("table",),
        rows=("J-07",),
        summary="Fully connected network for numbers.",
        quick_params={"hidden_layer_sizes": (16,), "trainer": {"steps": 100, "lr": 0.03}},
    ),
    Entry(
        "BayesianMLPClassifier",
        "benthic.supervised.bayesian_mlp",
        family="network",
        tasks=("classify",),
        data=("table",),
        rows=("Q-01",),
        summary="Fully connected network for classes, averaged over the posterior of its weights.",
        quick_params={
            "hidden_layer_sizes": (8,),
            "chains": 1,
            "draws": 5,
            "warmup": 3,
            "leapfrog_steps": 3,
            "climb_steps": 50,
        },
    ),
    Entry(
        "BayesianMLPRegressor",
        "benthic.supervised.bayesian_mlp",
        family="network",
        tasks=("regress",),
        data=("table",),
        rows=("Q-01",),
        summary="Fully connected network for numbers, averaged over the posterior of weights and noise.",
        quick_params={
            "hidden_layer_sizes": (8,),
            "chains": 1,
            "draws": 5,
            "warmup": 3,
            "leapfrog_steps": 3,
            "climb_steps": 50,
        },
    ),
    Entry(
        "NeuralODEClassifier",
        "benthic.supervised.neural_ode",
        family="network",
        tasks=("classify",),
        data=("table", "image"),
        rows=("E-04",),
        summary="Network of continuous depth for classes: rows follow a learned field.",
        quick_params={
            "width": 16,
            "hidden_layer_sizes": (16,),
            "method": "euler",
            "solver_steps": 1,
            "trainer": {"steps": 60, "lr": 0.05},
        },
    ),
    Entry(
        "NeuralODERegressor",
        "benthic.supervised.neural_ode",
        family="network",
        tasks=("regress",),
        data=("table", "image", "sequence"),
        rows=("E-04",),
        summary="Network of continuous depth for numbers, or the law of motion of trajectories.",
        quick_params={
            "width": 16,
            "hidden_layer_sizes": (16,),
            "method": "euler",
            "solver_steps": 1,
            "trainer": {"steps": 60, "lr": 0.05},
        },
    ),
    Entry(
        "VAE",
        "benthic.generative.vae",
        family="vae",
        tasks=("generate", "encode", "density", "impute"),
        data=("table", "image"),
        rows=("N-01",),
        summary="Variational autoencoder with a Gaussian or Bernoulli decoder.",
        quick_params={"latent_dim": 2, "hidden_layer_sizes": (16,), "trainer": {"steps": 60, "lr": 0.01}},
    ),
    Entry(
        "ContinuousFlow",
        "benthic.generative.flows.continuous",
        family="flow",
        tasks=("density", "generate", "encode", "impute"),
        data=("table",),
        rows=("E-04", "N-03"),
        summary="Continuous normalizing flow: a normal carried to the data by a learned field.",
        quick_params={
            "hidden_layer_sizes": (16,),
            "method": "midpoint",
            "solver_steps": 3,
            "trainer": {"steps": 8, "lr": 0.02},
        },
    ),
)

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

_CATALOGUE = Catalogue(ENTRIES)


def catalogue() -> Catalogue:
    """Every estimator of the library, by name.

    >>> catalogue()["VAE"].family
    'vae'
    """
    return _CATALOGUE


def resolve(name: str) -> type:
    """The class called ``name``, an estimator or a record."""
    if name in RECORDS:
        return cast(type, getattr(importlib.import_module(RECORDS[name]), name))
    return _CATALOGUE[name].cls
