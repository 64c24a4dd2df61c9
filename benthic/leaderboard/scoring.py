"""From a word or a function to numbers about a fitted model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benthic.base.errors import InvalidInput, nearest
from benthic.data.splits import take
from benthic.metrics.judging import answers_of, measures

Scoring = str | Callable[..., float] | Mapping[str, Callable[..., float]] | None


class Judge:
    """Numbers by name about a fitted model on rows.

    scoring: None for all that ``benthic.metrics.measures`` gives the model; the name of one of them, or of a
    scikit-learn scorer; a function of (model, X, y), larger is better; or several of those by name.
    """

    def __init__(self, scoring: Scoring, where: str) -> None:
        self.where, self.scoring = where, scoring
        self.better: dict[str, str] = {}

    def __call__(self, model: Any, X: Any, y: Any, sample_weight: Any = None) -> dict[str, float]:
        """The numbers; which direction is better is noted in ``better``."""
        if isinstance(self.scoring, Mapping):
            return {name: self._called(name, score, model, X, y) for name, score in self.scoring.items()}
        if callable(self.scoring):
            name = getattr(self.scoring, "__name__", "score")
            return {name: self._called(name, self.scoring, model, X, y)}
        found = {measure.key: measure for measure in measures(model, X, y, sample_weight)}
        if self.scoring is not None and self.scoring not in found:
            return self._by_name(self.scoring, found, model, (X, y), sample_weight)
        kept = list(found) if self.scoring is None else [self.scoring]
        self.better.update({name: found[name].better for name in kept})
        return {name: found[name].value for name in kept}

    def first(self) -> str:
        """The number a choice is made by: the only one, or the first."""
        return next(iter(self.better))

    def _by_name(
        self, name: str, found: Mapping[str, Any], model: Any, rows: tuple[Any, Any], sample_weight: Any
    ) -> dict[str, float]:
        from sklearn.metrics import get_scorer, get_scorer_names

        if name in ("auc", "r2"):
            raise InvalidInput(
                f"{self.where}: {name} is undefined for {type(model).__name__} on {len(rows[1])} rows whose targets "
                "are all the same, or that it gives no score for; use larger or stratified folds, or another score"
            )
        if name in get_scorer_names():
            options = {} if sample_weight is None else {"sample_weight": sample_weight}
            return {name: self._called(name, get_scorer(name), model, *rows, **options)}
        known = [*found, *get_scorer_names()]
        raise InvalidInput(
            f"{self.where}: scoring={name!r} is neither one of {', '.join(found)} nor a scikit-learn scorer"
            f"{nearest(name, known)}"
        )

    def _called(self, name: str, score: Any, model: Any, X: Any, y: Any, **options: Any) -> float:
        self.better[name] = "higher"
        value = float(score(model, X, y, **options))
        if not np.isfinite(value):
            raise InvalidInput(
                f"{self.where}: {name} gave {value} for {type(model).__name__}; a finite score is needed"
            )
        return value


def fitted(model: Any, X: Any, y: Any, sample_weight: Any, rows: np.ndarray, where: str) -> Any:
    """A fresh copy of the model, fitted on some rows."""
    from sklearn.base import clone
    from sklearn.utils.validation import has_fit_parameter

    try:
        copy = clone(model)
    except TypeError as error:
        raise InvalidInput(
            f"{where}: {type(model).__name__} cannot be copied unfitted; an estimator is needed"
        ) from error
    part = None if y is None else take(y, rows)
    if sample_weight is None:
        return copy.fit(take(X, rows)) if part is None else copy.fit(take(X, rows), part)
    if not has_fit_parameter(copy, "sample_weight"):
        raise InvalidInput(f"{where}: {type(model).__name__}.fit takes no sample_weight; leave the weights out")
    return copy.fit(take(X, rows), part, sample_weight=take(sample_weight, rows))


def is_classifier(model: Any) -> bool:
    """Whether a model answers with classes."""
    return answers_of(model) == "classes"
