"""A predictor that chooses its own settings whenever it is fitted, from the rows it is given and no others."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.metaestimators import available_if

from benthic.base.seeds import seed_of
from benthic.data.splits import take
from benthic.leaderboard.contest.jobs import time_limit
from benthic.leaderboard.contest.predicting.fits import seeded, under_budget
from benthic.leaderboard.contest.predicting.scores import METRICS, Answers, judged
from benthic.leaderboard.contest.predicting.tables import numbers_of, prepared
from benthic.leaderboard.contest.records import Budget
from benthic.leaderboard.plans import fold_plan
from benthic.metrics.rows import plain

_MANY = 5000  # rows from which on one part held out tells settings apart


def _with(verb: str) -> Callable[[Callable[..., Any]], Any]:
    """A decorator: the method is there if the model inside has the verb."""
    made: Callable[[Callable[..., Any]], Any] = available_if(
        lambda own: hasattr(getattr(own, "model_", own.model), verb)
    )
    return made


class Searched(BaseEstimator):
    """A model with its settings searched for inside ``fit`` (nested cross-validation; Varma & Simon, 2006).

    Settings are judged by three folds of the rows of the fit, or one part of many rows, by the first metric of the
    task; the best are fitted on all of them. model: unfitted. trials: settings tried, the model's own among them.
    task: ``classify``, ``regress`` or ``cluster``. budget: of one trial, whose folds share it, and of the last fit; no
    trial begins when but one of as many budgets is left.

    ``model_``: the fitted model. ``settings_``: what was chosen. ``search_``: every trial.
    """

    model_: Any
    settings_: dict[str, Any]
    search_: Any

    def __init__(
        self, model: Any, *, trials: int = 10, task: str = "classify", budget: Any = None, random_state: Any = None
    ) -> None:
        self.model = model
        self.trials = trials
        self.task = task
        self.budget = budget
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Search, then fit the best settings on all rows."""
        from sklearn.base import clone

        from benthic.leaderboard.contest.tuning.search import search
        from benthic.leaderboard.contest.tuning.spaces import space_of

        seed, budget = seed_of(self.random_state), Budget.of(self.budget or 3600.0)
        labels = None if y is None else plain(y)
        model = prepared(self.model, X)
        space = space_of(model) or {}
        seconds = budget.amount * (self.trials - 1) if budget.kind == "seconds" else math.inf
        self.search_ = search(model, space, self._loss(X, labels, budget, seed), self.trials, seed, seconds)
        self.settings_ = self.search_.settings
        chosen = clone(model).set_params(**self.settings_)
        chosen = seeded(under_budget(chosen, budget, X.shape[0]), seed)
        self.model_ = chosen.fit(X) if labels is None or self.task == "cluster" else chosen.fit(X, labels)
        return self

    def _loss(self, X: Any, y: np.ndarray | None, budget: Budget, seed: int) -> Callable[[Any], float]:
        n = X.shape[0]
        stratify = (
            y if self.task == "classify" and y is not None and np.unique(y, return_counts=True)[1].min() > 2 else None
        )
        plan = fold_plan(n, 3, 1, stratify, None, seed, "tuned")
        plan = plan[:1] if n > _MANY else plan
        metric = next(iter(METRICS[self.task]))
        sign = -1.0 if METRICS[self.task][metric][0] == "higher" else 1.0
        if budget.kind != "parameters":
            budget = Budget(budget.kind, budget.amount / len(plan))
        limit = 2 * budget.amount + 10 if budget.kind == "seconds" else math.inf
        space = numbers_of(X) if self.task == "cluster" else np.zeros((n, 1))

        def loss(model: Any) -> float:
            found = []
            for fold, (train, test) in enumerate(plan):
                copy = seeded(under_budget(model, budget, len(train)), seed, fold)
                with time_limit(limit):
                    rows = take(X, train)
                    copy.fit(rows) if y is None or self.task == "cluster" else copy.fit(rows, y[train])
                truth = None if y is None else y[test]
                found.append(judged(self.task, copy, take(X, test), truth, Answers(), space[test])[metric])
            return sign * float(np.mean(found))

        return loss

    def predict(self, X: Any) -> Any:
        """What the chosen model predicts."""
        return self.model_.predict(X)

    @_with("predict_proba")
    def predict_proba(self, X: Any) -> Any:
        """The chosen model's probabilities."""
        return self.model_.predict_proba(X)

    @_with("decision_function")
    def decision_function(self, X: Any) -> Any:
        """The chosen model's scores."""
        return self.model_.decision_function(X)

    @_with("predict_interval")
    def predict_interval(self, X: Any, level: float = 0.9) -> Any:
        """The chosen model's intervals."""
        return self.model_.predict_interval(X, level)

    @property
    def classes_(self) -> Any:
        """The classes of the chosen model."""
        return self.model_.classes_

    def __sklearn_tags__(self) -> Any:
        return self.model.__sklearn_tags__()
