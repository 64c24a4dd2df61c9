"""What answers without looking at the rows: the baselines of predictors."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin, RegressorMixin
from sklearn.dummy import DummyClassifier

from benthic.base.seeds import np_generator, seed_of
from benthic.leaderboard.contest.records import Contestant

NAME = "dummy"


class MeanOnly(RegressorMixin, BaseEstimator):
    """The mean of the targets for every row, and the normal law of their spread.

    >>> model = MeanOnly().fit(np.zeros((3, 1)), np.array([1.0, 2.0, 3.0]))
    >>> model.predict(np.zeros((2, 1)))
    array([2., 2.])
    """

    mean_: float
    spread_: float

    def fit(self, X: Any, y: Any) -> Self:
        """Learn mean and spread of the targets."""
        self.mean_, self.spread_ = float(np.mean(y)), float(np.std(y, ddof=1))
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The mean, (n,)."""
        return np.full(X.shape[0], self.mean_)

    def predict_interval(self, X: Any, level: float = 0.9) -> np.ndarray:
        """Central interval of the normal law, (n, 2)."""
        from scipy.stats import norm

        reach = norm.ppf(0.5 + level / 2) * self.spread_
        return np.tile([self.mean_ - reach, self.mean_ + reach], (X.shape[0], 1))


class RandomPartition(ClusterMixin, BaseEstimator):
    """Every row in a cluster by lot."""

    labels_: np.ndarray

    def __init__(self, n_clusters: int = 3, random_state: Any = None) -> None:
        self.n_clusters = n_clusters
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn nothing."""
        self.labels_ = self.predict(X)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Labels drawn evenly, (n,)."""
        drawn: np.ndarray = np_generator(seed_of(self.random_state), "partition").integers(
            0, self.n_clusters, X.shape[0]
        )
        return drawn


def baseline(task: str, clusters: int = 3) -> Contestant:
    """The contestant that guesses: the shares of the classes, the mean of the targets, or clusters by lot.

    >>> baseline("regress").name
    'dummy'
    """
    if task == "classify":
        return Contestant(NAME, DummyClassifier(strategy="prior"), "baseline")
    return Contestant(NAME, MeanOnly() if task == "regress" else RandomPartition(clusters), "baseline")
