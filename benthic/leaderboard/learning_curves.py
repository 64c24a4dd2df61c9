"""What more rows would bring."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benthic.base.errors import InvalidInput
from benthic.base.estimate import Estimate
from benthic.base.seeds import np_generator
from benthic.base.settings import is_whole
from benthic.data.splits import take
from benthic.leaderboard.cross_validation import check_classes, door, plan_for
from benthic.leaderboard.scoring import Judge, Scoring, fitted, is_classifier
from benthic.metrics.comparing import resampled_estimate
from benthic.metrics.rows import plain


@dataclass(frozen=True)
class LearningCurve:
    """Scores over the number of rows fitted.

    sizes: (s,) rows. train, test: (s, J) score on the rows fitted and on rows held out, for J folds. test_share: rows
    held out over rows that could be fitted. name, better: of the score.
    """

    sizes: np.ndarray
    train: np.ndarray
    test: np.ndarray
    test_share: float
    name: str
    better: str

    def estimates(self, side: str = "test") -> list[Estimate]:
        """Mean and corrected standard error for each size; side: ``test`` or ``train``.

        The correction is that of whole folds; smaller sets overlap less, for which it is more than enough.
        """
        if side not in ("train", "test"):
            raise InvalidInput(f"LearningCurve: side={side!r} is neither 'train' nor 'test'")
        return [resampled_estimate(scores, self.test_share) for scores in getattr(self, side)]

    def plot(self, title: str = "") -> Any:
        """Both scores against the rows fitted, with error bands."""
        from benthic.leaderboard.figures import draw_learning_curves

        return draw_learning_curves({"": self}, title)


def learning_curve(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    sizes: Sequence[float] = (0.1, 0.2, 0.4, 0.7, 1.0),
    scoring: Scoring = None,
    k: int = 5,
    repeats: int = 1,
    stratify: bool | None = None,
    groups: Any = None,
    sample_weight: Any = None,
    seed: int = 0,
) -> LearningCurve:
    """Scores of a model fitted on more and more of each training part.

    sizes: shares of the training rows (up to 1.0) or numbers of rows (integers). A larger set contains the smaller
    ones; with classes, every set keeps their shares as well as it can. The rest as for ``cross_validate``; the first
    score is followed.

    >>> from sklearn.linear_model import LinearRegression
    >>> X = np.arange(50.0)[:, None]
    >>> learning_curve(LinearRegression(), X, X[:, 0], sizes=[5, 20], scoring="r2", k=2).test.round(6)
    array([[1., 1.], [1., 1.]])
    """
    where = "learning_curve"
    n, weights = door(X, y, sample_weight, where)
    plan = plan_for(model, n, y, k, repeats, stratify, groups, seed, where)
    rows = _counts(sizes, min(len(train) for train, _ in plan), where)
    judge = Judge(scoring, where)

    def judged(fresh: Any, chosen: np.ndarray) -> float:
        part = None if weights is None else weights[chosen]
        scores = judge(fresh, take(X, chosen), None if y is None else take(y, chosen), part)
        if judge.first() not in scores:
            raise InvalidInput(f"{where}: {judge.first()} is undefined on {len(chosen)} rows; use larger sizes")
        return scores[judge.first()]

    train_scores, test_scores = np.empty((2, len(rows), len(plan)))
    for j, (train, test) in enumerate(plan):
        order = _order(train, y if is_classifier(model) else None, np_generator(seed, "learning_curve", j))
        for i, size in enumerate(rows):
            chosen = np.sort(order[:size])
            check_classes(model, y, chosen, f"{where}: a set of {size} rows")
            fresh = fitted(model, X, y, weights, chosen, where)
            train_scores[i, j], test_scores[i, j] = judged(fresh, chosen), judged(fresh, test)
    share = sum(len(test) for _, test in plan) / sum(len(train) for train, _ in plan)
    name = judge.first()
    return LearningCurve(np.array(rows), train_scores, test_scores, share, name, judge.better[name])


def _counts(sizes: Sequence[float], most: int, where: str) -> list[int]:
    found = []
    for size in sizes:
        rows = int(size) if is_whole(size) else round(float(size) * most)
        if not 1 <= rows <= most:
            raise InvalidInput(f"{where}: size {size} makes {rows} rows; between 1 and {most} can be fitted")
        found.append(rows)
    if not found:
        raise InvalidInput(f"{where}: sizes is empty; give at least one")
    return sorted(set(found))


def _order(train: np.ndarray, y: Any, rng: np.random.Generator) -> np.ndarray:
    """Rows in random order; with classes, so that every beginning keeps their shares."""
    shuffled = rng.permutation(train)
    if y is None:
        return shuffled
    labels = plain(y)[shuffled]
    place = np.empty(len(shuffled))
    for label in np.unique(labels):
        mine = labels == label
        place[mine] = (np.arange(mine.sum()) + rng.random()) / mine.sum()
    return shuffled[np.argsort(place, kind="stable")]
