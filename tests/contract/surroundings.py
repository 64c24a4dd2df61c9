"""Everything global that a verb must leave as it was."""

from __future__ import annotations

import os
import random
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.distributions import Distribution

import benthic


def surroundings() -> dict[str, Any]:
    """What a person, or another thread, would notice if it changed.

    Torch imports sympy at its first backward pass, which adds a filter for a warning of its own; and its compiler says
    in the environment where it keeps what it made.
    """
    return {
        "generator of torch": torch.get_rng_state().numpy().tobytes(),
        "generator of NumPy": repr(np.random.get_state(legacy=False)),
        "generator of random": random.getstate(),
        "default dtype": torch.get_default_dtype(),
        "default device": torch.get_default_device(),
        "error state of NumPy": np.geterr(),
        "print options of NumPy": np.get_printoptions(),
        "threads of torch": torch.get_num_threads(),
        "gradients": torch.is_grad_enabled(),
        "inference mode": torch.is_inference_mode_enabled(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "precision of products": torch.get_float32_matmul_precision(),
        "tf32": (torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32),
        "checks of distributions": Distribution._validate_args,
        "signal handlers": [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)],
        "warnings filters": [kind for kind in warnings.filters if not kind[2].__module__.startswith("sympy.")],
        "environment": {name: value for name, value in os.environ.items() if name != "TORCHINDUCTOR_CACHE_DIR"},
        "working folder": Path.cwd(),
    }


@contextmanager
def unchanged(what: str) -> Iterator[None]:
    """Nothing global is changed inside the block."""
    before = surroundings()
    yield
    after = surroundings()
    changed = [name for name in before if before[name] != after[name]]
    assert not changed, f"{what} changed {changed}"


ON_ROWS = (
    "predict",
    "predict_proba",
    "decision_function",
    "transform",
    "encode",
    "reconstruct",
    "impute",
    "anomaly",
    "likelihood",
    "log_prob",
    "grad_log_prob",
)


_FEW = 6  # rows that verbs are tried on


def data_of(name: str) -> tuple[Any, Any]:
    """Rows or sequences, and targets, that an entry of the catalogue is tried on."""
    from tests.contract import conftest as tables
    from tests.contract import test_sequences as sequences

    if name in tables.TABLES:
        return tables.data_for(name), tables.targets(name)
    X = sequences.data_for(name)
    return X, sequences.labels_for(name, X)


def verbs_of(model: Any, X: Any, y: Any, folder: str) -> dict[str, Callable[[], Any]]:
    """Everything a fitted model can do, by name."""
    found = {verb: partial(getattr(model, verb), X) for verb in ON_ROWS if hasattr(model, verb)}
    found |= {verb: getattr(model, verb) for verb in ("plot", "summary") if hasattr(model, verb)}
    if hasattr(model, "score"):
        found["score"] = partial(model.score, X, y) if y is not None else partial(model.score, X)
    if hasattr(model, "sample"):
        found["sample"] = partial(model.sample, 5, seed=1)
        found["sample without a seed"] = partial(model.sample, 5)
    if hasattr(model, "inverse_transform") and hasattr(model, "transform"):
        found["inverse_transform"] = partial(model.inverse_transform, model.transform(X))
    path = f"{folder}/model.safetensors"
    return {**found, "save": partial(model.save, path), "load": partial(benthic.load, path)}


def use(name: str, folder: str) -> None:
    """Fit an entry of the catalogue and use all its verbs; each must leave everything global as it was."""
    from tests.contract.conftest import make

    (X, y), model = data_of(name), make(name)
    with unchanged(f"{name}.fit"):
        model.fit(X, y)
    for verb, call in verbs_of(model, X[:_FEW], None if y is None else y[:_FEW], folder).items():
        with unchanged(f"{name}.{verb}"):
            call()
