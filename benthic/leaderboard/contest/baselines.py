"""What every model should beat: columns shuffled on their own, one Gaussian, and, to catch copying, the rows again.

Each has ``fit`` and ``sample`` and runs on the same path as any other model.
"""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator

from benthic.base.catalogue import catalogue
from benthic.base.errors import InvalidInput
from benthic.base.seeds import np_generator, seed_of
from benthic.leaderboard.contest.material import Material
from benthic.leaderboard.contest.records import Contestant

_RIDGE = 1e-6  # of the mean variance, added to the covariance so that it can be inverted


class ResampledRows(BaseEstimator):
    """Training rows drawn again: a perfect copier, which a comparison has to find out.

    >>> ResampledRows().fit([[1.0], [1.0]]).sample(2, seed=0).tolist()
    [[1.0], [1.0]]
    """

    takes_numbers = True  # of a frame too

    def __init__(self, random_state: Any = None) -> None:
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Keep the rows."""
        self.rows_ = _array(X)
        return self

    def sample(self, n: int = 1, *, seed: Any = None) -> np.ndarray:
        """``n`` of the rows, with repeats."""
        rows: np.ndarray = self.rows_[_source(self, seed).integers(0, len(self.rows_), n)]
        return rows


class ShuffledColumns(BaseEstimator):
    """Every column drawn on its own from the training rows, so that nothing goes with anything.

    groups: slices of columns that stay together, such as the values of one category; None for single columns.

    >>> ShuffledColumns().fit([[1.0, 2.0]]).sample(1, seed=0).tolist()
    [[1.0, 2.0]]
    """

    takes_numbers = True  # of a frame too

    def __init__(self, groups: Any = None, random_state: Any = None) -> None:
        self.groups = groups
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Keep the columns."""
        self.rows_ = _array(X)
        return self

    def sample(self, n: int = 1, *, seed: Any = None) -> np.ndarray:
        """``n`` rows put together from unrelated columns."""
        source, rows = _source(self, seed), self.rows_.reshape(len(self.rows_), -1)
        groups = self.groups or [slice(j, j + 1) for j in range(rows.shape[1])]
        columns = [rows[source.integers(0, len(rows), n)][:, group] for group in groups]
        return np.concatenate(columns, 1).reshape(n, *self.rows_.shape[1:])


class OneGaussian(BaseEstimator):
    """A single normal law with the mean and covariance of the training rows.

    >>> OneGaussian().fit([[0.0], [2.0]]).mean_
    array([1.])
    """

    takes_numbers = True  # of a frame too

    def __init__(self, random_state: Any = None) -> None:
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Mean and covariance of the rows, and its Cholesky factor."""
        rows = _array(X)
        self._shape = rows.shape[1:]
        rows = rows.reshape(len(rows), -1).astype(np.float64)
        self.mean_ = rows.mean(0)
        covariance = np.atleast_2d(np.cov(rows.T)) if len(rows) > 1 else np.zeros((rows.shape[1],) * 2)
        ridge = _RIDGE * max(float(np.trace(covariance)) / rows.shape[1], 1e-12)
        self.covariance_ = covariance + ridge * np.eye(rows.shape[1])
        self._factor = np.linalg.cholesky(self.covariance_)
        return self

    def sample(self, n: int = 1, *, seed: Any = None) -> np.ndarray:
        """``n`` draws."""
        noise = _source(self, seed).standard_normal((n, len(self.mean_)))
        made: np.ndarray = self.mean_ + noise @ self._factor.T
        return made.reshape(n, *self._shape)

    def log_prob(self, X: Any) -> np.ndarray:
        """The exact log-density of each row, (n,)."""
        from scipy.linalg import solve_triangular

        rows = _array(X)
        gaps = solve_triangular(self._factor, (rows.reshape(len(rows), -1) - self.mean_).T, lower=True)  # (d, n)
        size = len(self.mean_) * math.log(2 * math.pi) / 2 + np.log(np.diag(self._factor)).sum()
        found: np.ndarray = -0.5 * np.square(gaps).sum(0) - size
        return found


def _array(X: Any) -> np.ndarray:
    found = np.asarray(X)
    if found.ndim < 2 or found.dtype.kind not in "biuf":
        raise InvalidInput(f"baseline: X has shape {found.shape} and type {found.dtype}; rows of numbers are needed")
    return found


def _source(model: Any, seed: Any) -> np.random.Generator:
    return np_generator(seed_of(model.random_state if seed is None else seed), "sample")


def baselines_for(material: Material, taken: list[str]) -> list[Contestant]:
    """The baselines that take part beside the models called ``taken``."""
    groups = list(material.groups) if material.schema is not None else None
    found = [Contestant("one Gaussian", OneGaussian(), "baseline")]
    if len(material.groups) > 1:  # a single column, shuffled, would be the training rows again
        found.insert(0, Contestant("shuffled columns", ShuffledColumns(groups), "baseline"))
    if not any(name.startswith("GaussianMixture") for name in taken):
        mixture = catalogue()["GaussianMixture"].cls(n_components=10)
        found.append(Contestant("Gaussian mixture", mixture, "baseline"))
    return [one for one in found if one.name not in taken]
