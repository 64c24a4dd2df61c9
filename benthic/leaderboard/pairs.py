"""Two models on the same folds."""

from __future__ import annotations

from typing import Any

from benthic.leaderboard.cross_validation import cross_validate
from benthic.leaderboard.scoring import Scoring
from benthic.metrics.comparing import TestResult, corrected_t_test


def compare_pair(
    first: Any,
    second: Any,
    X: Any,
    y: Any = None,
    *,
    scoring: Scoring = None,
    k: int = 10,
    repeats: int = 10,
    stratify: bool | None = None,
    groups: Any = None,
    sample_weight: Any = None,
    level: float = 0.95,
    seed: int = 0,
) -> TestResult:
    """Whether one model beats another on data like these, by the corrected resampled t-test.

    Both are fitted on the same folds, so what is hard about a fold cancels. Ten times ten folds are what Bouckaert &
    Frank, 2004, found to repeat best. scoring: as for ``cross_validate``; the first score decides. The difference is
    the first model's score minus the second's: for a loss, negative is better. level: of the interval.

    >>> import numpy as np
    >>> from sklearn.dummy import DummyRegressor
    >>> from sklearn.linear_model import LinearRegression
    >>> X = np.arange(40.0)[:, None]
    >>> compare_pair(LinearRegression(), DummyRegressor(), X, X[:, 0], scoring="rmse", k=5).p_value < 0.01
    True
    """
    options = {
        "scoring": scoring,
        "k": k,
        "repeats": repeats,
        "stratify": stratify,
        "groups": groups,
        "sample_weight": sample_weight,
        "seed": seed,
    }
    one, other = cross_validate(first, X, y, **options), cross_validate(second, X, y, **options)
    name = next(name for name in one.scores if name in other.scores)
    return corrected_t_test(one.of(name), other.of(name), one.test_share, level)
