"""Settings chosen inside, the choice judged outside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from benthic.base.errors import InvalidInput
from benthic.base.estimate import Estimate
from benthic.base.seeds import derive
from benthic.data.splits import take
from benthic.leaderboard.cross_validation import CrossValidation, cross_validate, door, plan_for, run_plan
from benthic.leaderboard.scoring import Scoring
from benthic.metrics.rows import plain


@dataclass(frozen=True)
class NestedCrossValidation:
    """What choosing settings and then fitting is worth.

    outer: scores on rows that took no part in the choice. chosen: the settings each outer fit took. inner: (J, c) mean
    score of each of the c candidates inside each outer training set. candidates: their settings.
    """

    outer: CrossValidation
    chosen: list[dict[str, Any]]
    inner: np.ndarray
    candidates: list[dict[str, Any]]

    def estimate(self, name: str | None = None) -> Estimate:
        """The honest score of the whole procedure."""
        return self.outer.estimate(name)

    @property
    def optimism(self) -> float:
        """By how much the winner's inner score flatters it: inner minus outer, in the direction of better."""
        name = next(iter(self.outer.scores))
        sign = 1.0 if self.outer.better[name] == "higher" else -1.0
        best = (sign * self.inner).max(1)
        return float(best.mean() - sign * self.outer.of(name).mean())


def nested_cross_validate(
    model: Any,
    grid: Mapping[str, Iterable[Any]] | Iterable[Mapping[str, Any]],
    X: Any,
    y: Any = None,
    *,
    scoring: Scoring = None,
    k: int = 5,
    inner: int = 5,
    repeats: int = 1,
    stratify: bool | None = None,
    groups: Any = None,
    sample_weight: Any = None,
    seed: int = 0,
) -> NestedCrossValidation:
    """Cross-validation of a model whose settings are chosen by cross-validation (Stone, 1974; Varma & Simon, 2006).

    Judging the winner by the scores it won with is too kind. Here each outer training set makes its own choice by
    ``inner`` folds, refits, and is judged on rows the choice never saw.

    grid: values to try by setting, all combinations; or the candidates themselves, a dict each. scoring: as for
    ``cross_validate``; the first score decides.

    >>> from sklearn.linear_model import Ridge
    >>> X = np.arange(30.0)[:, None]
    >>> found = nested_cross_validate(Ridge(), {"alpha": [1e-6, 1e6]}, X, X[:, 0], scoring="r2", k=3, inner=3)
    >>> found.chosen[0], round(found.estimate().value, 3)
    ({'alpha': 1e-06}, 1.0)
    """
    from sklearn.base import clone

    where = "nested_cross_validate"
    candidates = _candidates(grid, model, where)
    n, weights = door(X, y, sample_weight, where)
    plan = plan_for(model, n, y, k, repeats, stratify, groups, seed, where)
    models = [clone(model).set_params(**settings) for settings in candidates]
    inside, winners = [], []
    for number, (train, _) in enumerate(plan):
        rows = take(X, train), None if y is None else take(y, train)
        options = {
            "scoring": scoring,
            "k": inner,
            "stratify": stratify,
            "groups": None if groups is None else plain(groups)[train],
            "sample_weight": None if weights is None else weights[train],
            "seed": derive(seed, "inner", number),
        }
        tried = [cross_validate(one, *rows, **options) for one in models]
        name = next(iter(tried[0].scores))
        means = np.array([one.of(name).mean() for one in tried])
        winners.append(int(means.argmax() if tried[0].better[name] == "higher" else means.argmin()))
        inside.append(means)
    outer = run_plan([models[best] for best in winners], X, y, weights, plan, scoring, where)
    return NestedCrossValidation(outer, [candidates[best] for best in winners], np.stack(inside), candidates)


def _candidates(grid: Any, model: Any, where: str) -> list[dict[str, Any]]:
    from sklearn.model_selection import ParameterGrid

    found = list(ParameterGrid(dict(grid))) if isinstance(grid, Mapping) else [dict(settings) for settings in grid]
    if not found:
        raise InvalidInput(f"{where}: the grid has no candidates; give each setting at least one value")
    known = model.get_params(deep=True)
    for name in {name for settings in found for name in settings}:
        if name not in known and "__" not in name:
            raise InvalidInput(f"{where}: {type(model).__name__} has no setting {name!r}; it has {', '.join(known)}")
    return found
