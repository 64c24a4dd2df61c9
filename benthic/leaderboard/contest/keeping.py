"""Outcomes in folders: written whole or not at all, found again by what decided them."""

from __future__ import annotations

import hashlib
import io
import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benthic.base.errors import InvalidInput, ModelFileError
from benthic.base.estimator import Estimator
from benthic.base.files import write_atomic
from benthic.base.likelihood import Likelihood
from benthic.leaderboard.contest.records import Budget, Contestant, Outcome

_WORDS = ("name", "seed", "status", "reason", "seconds", "sample_seconds", "memory", "parameters", "no_likelihood")
_OUTCOME, _ARRAYS, _MODEL = "outcome.json", "arrays.npz", "model.safetensors"


def key_of(contestant: Contestant, seed: int, budget: Budget, data: str) -> str:
    """The name under which a fit is kept: it changes with the data, the class, its parameters, the seed, the budget.

    data: fingerprint of the data and of the rules.
    """
    from benthic import __version__

    model = contestant.model
    what = [__version__, data, *described(model), str(seed), budget.kind, repr(budget.amount)]
    return hashlib.sha256("\n".join(what).encode()).hexdigest()[:24]


def described(value: Any) -> list[str]:
    """Lines that say what a model or a setting is; the same in every process."""
    if hasattr(value, "get_params") and not isinstance(value, type):
        params: Mapping[str, Any] = value.get_params(deep=False)
    elif hasattr(value, "__dict__") and not callable(value):
        params = vars(value)
    else:
        return [_word(value)]
    lines = [f"{type(value).__module__}.{type(value).__qualname__}"]
    for name in sorted(params):
        lines += [f"{name}: {line}" for line in described(params[name])]
    return lines


def _word(value: Any) -> str:
    """A setting in words; arrays by their content, functions by their name."""
    if hasattr(value, "tobytes"):
        return f"array {value.dtype} {value.shape} {hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()}"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key!r}: {described(held)}" for key, held in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(str(described(item)) for item in value) + "]"
    if callable(value):
        return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', repr(value))}"
    return repr(value)


def write_settings(path: Path, before: Any, after: Any) -> None:
    """Keep the settings in which a tuned model differs from what it was, where they are plain values."""
    old, new = before.get_params(deep=False), after.get_params(deep=False)
    changes = {name: value for name, value in new.items() if described(value) != described(old.get(name))}
    try:
        text = json.dumps(changes)
    except TypeError:
        return
    write_atomic(path, text.encode())


def read_settings(path: Path, before: Any) -> Any:
    """The model with the settings that were kept for it; None if there are none."""
    try:
        changes = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError):
        return None
    params = {name: tuple(value) if isinstance(value, list) else value for name, value in changes.items()}
    return type(before)(**{**before.get_params(deep=False), **params})


def write_outcome(outcome: Outcome) -> None:
    """Keep an outcome; samples are rows (n, width). The words are written last, and count for the whole."""
    if outcome.folder is None:
        return
    arrays: dict[str, np.ndarray] = {}
    tree: dict[str, Any] = {name: getattr(outcome, name) for name in _WORDS}
    if outcome.samples is not None:
        arrays["samples"] = outcome.samples
    if outcome.labels is not None:
        arrays["labels"] = outcome.labels if outcome.labels.dtype != object else outcome.labels.astype(str)
    if outcome.likelihood is not None:
        arrays |= {"value": outcome.likelihood.value, "stderr": outcome.likelihood.stderr}
        tree["likelihood"] = {name: getattr(outcome.likelihood, name) for name in ("kind", "bound", "measure")}
    if arrays:
        held = io.BytesIO()
        np.savez(held, allow_pickle=False, **arrays)
        write_atomic(outcome.folder / _ARRAYS, held.getvalue())
    text = json.dumps({key: None if value != value else value for key, value in tree.items()})
    write_atomic(outcome.folder / _OUTCOME, text.encode())


def is_kept(folder: Path) -> bool:
    """Whether there is an outcome in a folder."""
    return (folder / _OUTCOME).exists()


def read_outcome(folder: Path, name: str) -> Outcome | None:
    """The outcome kept in a folder, under this name; None if there is none, or only a part of one."""
    try:
        tree = json.loads((folder / _OUTCOME).read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError):
        return None
    kinds = tree.pop("likelihood", None)
    words: dict[str, Any] = {
        key: math.nan if value is None and key != "parameters" else value for key, value in tree.items()
    }
    outcome = Outcome(**{**words, "name": name}, folder=folder)
    try:
        with np.load(folder / _ARRAYS, allow_pickle=False) as arrays:
            held = {key: arrays[key] for key in arrays.files}
    except (OSError, ValueError):
        return outcome if outcome.status != "ok" else None
    likelihood = Likelihood(held["value"], held["stderr"], **kinds) if kinds else None
    return replace(outcome, samples=held.get("samples"), labels=held.get("labels"), likelihood=likelihood)


def save_model(model: Any, folder: Path) -> None:
    """Keep the fitted model where it is one that can be kept: of the catalogue, without functions of the person's."""
    if not isinstance(model, Estimator):
        return
    try:
        model.save(folder / _MODEL)
    except (InvalidInput, ModelFileError) as error:
        (folder / "not-saved.txt").write_text(f"{error}\n", encoding="utf-8")
