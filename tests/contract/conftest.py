"""Data and fitted models that the contract suite shares."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import benthic

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 4)) @ RNG.normal(size=(4, 4)) + np.array([1.0, -2.0, 0.0, 5.0])
LABELS = (X[:, 0] > np.median(X[:, 0])).astype(int)
NUMBERS = X @ np.array([1.0, 0.5, -1.0, 0.0])

TABLES = [name for name, entry in benthic.catalogue().items() if "table" in entry.data]
SEQUENCES = [name for name, entry in benthic.catalogue().items() if "table" not in entry.data]

DATA_VERBS = ("reconstruct", "impute")
CODE_VERBS = (
    "predict_proba",
    "decision_function",
    "transform",
    "encode",
    "log_prob",
    "grad_log_prob",
    "anomaly",
)


def targets(name: str) -> Any:
    """What the model learns to predict, if anything."""
    tasks = benthic.catalogue()[name].tasks
    return LABELS if "classify" in tasks else NUMBERS if "regress" in tasks else None


def data_for(name: str) -> np.ndarray:
    """The rows the model is tried on: numbers of any sign, or amounts for models of counts."""
    return np.abs(X) if "counts" in benthic.catalogue()[name].data else X


def make(name: str, **params: Any) -> Any:
    """A small instance with a fixed seed."""
    model = benthic.catalogue()[name].quick()
    known = model.get_params()
    return model.set_params(**{k: v for k, v in {"random_state": 0, **params}.items() if k in known})


@cache
def fitted(name: str) -> Any:
    """A small fitted model; tests must not change it."""
    return make(name).fit(data_for(name), targets(name))


@cache
def answer(name: str, verb: str) -> Any:
    """What the shared model says of the rows it learned from; every test that compares with it takes this."""
    return getattr(fitted(name), verb)(data_for(name))


def verbs(model: Any, names: tuple[str, ...]) -> list[str]:
    """Which of the verbs the model has."""
    return [verb for verb in names if hasattr(model, verb)]
