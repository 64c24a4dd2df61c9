"""Networks widened or narrowed until they have about as many parameters as a budget allows."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from benthic.leaderboard.contest.jobs import Caught, prepared
from benthic.leaderboard.contest.material import Material
from benthic.leaderboard.contest.protocol import Split
from benthic.leaderboard.contest.records import Budget, Contestant
from benthic.leaderboard.contest.resources import parameters_of

_WIDTHS = ("hidden_layer_sizes", "level_layer_sizes", "hidden")
_LEAST = 4  # units of the narrowest layer
_ROWS = 64  # rows of the fits that only count
_HALVINGS = 7
_RANGE = (1 / 64, 16.0)  # of the usual widths


def sized(contestant: Contestant, material: Material, split: Split, budget: Budget) -> Contestant:
    """The contestant with the widest layers that keep a budget of parameters; models without layers stay as they are.

    Widths are all multiplied by one factor, found by halving on a scale of logarithms; each trial is one update on a
    few rows.
    """
    params = contestant.model.get_params(deep=False) if hasattr(contestant.model, "get_params") else {}
    widths = {name: params[name] for name in _WIDTHS if params.get(name) is not None and np.size(params[name])}
    if budget.kind != "parameters" or not widths or "trainer" not in params:
        return contestant
    rows = material.give(split.fit_for(contestant.model)[:_ROWS], material.form(contestant))
    labels = None if split.fit_y is None else split.fit_y[:_ROWS]

    def fits(factor: float) -> bool:
        count = _count(_scaled(contestant.model, widths, factor), rows, labels)
        return count is not None and count <= budget.amount

    low, high = np.log(_RANGE)
    if not fits(float(np.exp(low))):
        return contestant
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(float(np.exp(middle))) else (low, middle)
    return replace(contestant, model=_scaled(contestant.model, widths, float(np.exp(low))))


def _scaled(model: Any, widths: dict[str, Any], factor: float) -> Any:
    """An unfitted copy whose layers are so many times as wide.

    >>> from benthic import VAE
    >>> _scaled(VAE(), {"hidden_layer_sizes": (256, 128)}, 0.5).hidden_layer_sizes
    (128, 64)
    """
    from sklearn.base import clone

    def wide(width: int) -> int:
        return max(_LEAST, round(factor * width))

    changes = {name: wide(held) if np.ndim(held) == 0 else tuple(map(wide, held)) for name, held in widths.items()}
    return clone(model).set_params(**changes)


def _count(model: Any, rows: Any, labels: Any) -> int | None:
    """How many parameters the model has once it is fitted to such rows; None where it cannot be."""
    made = prepared(model, Budget("evaluations", float(_ROWS)), 0)
    with Caught() as caught, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = made.fit(rows, labels)
    return parameters_of(made) if caught.error is None else None
