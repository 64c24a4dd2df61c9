"""Permutation importance of any model, against scikit-learn's and what is known."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from sklearn.inspection import permutation_importance as theirs
from sklearn.linear_model import LinearRegression

import benthic
from benthic.base.errors import InvalidInput
from benthic.trees import permutation_importance

pytestmark = pytest.mark.spec("G-02")


def problem(n=600):
    X = np.random.default_rng(0).normal(size=(n, 3))
    return X, 3 * X[:, 0] + X[:, 1]


def test_shuffling_a_linear_column_costs_twice_its_share_of_the_variance():
    X, y = problem(4000)
    found = permutation_importance(LinearRegression().fit(X, y), X, y, n_repeats=10, seed=0)
    shares = 2 * np.array([9.0, 1.0, 0.0]) / 10
    assert (np.abs(found.mean - shares) < 0.08).all()  # moments of 4000 rows
    assert found.baseline == pytest.approx(1.0) and found.drops.shape == (3, 10)
    other = theirs(LinearRegression().fit(X, y), X, y, n_repeats=10, random_state=0)
    error = np.sqrt(found.stderr**2 + other.importances_std**2 / 10)
    assert (np.abs(found.mean - other.importances_mean) <= 4 * error + 1e-12).all()


def test_one_seed_gives_one_answer_for_arrays_tensors_and_frames():
    X, y = problem()
    labels = (y > 0).astype(int)
    model = benthic.RandomForestClassifier(10, random_state=0).fit(X, labels)
    first = permutation_importance(model, X, labels, seed=3)
    again = permutation_importance(model, torch.tensor(X), torch.tensor(labels), seed=3)
    np.testing.assert_array_equal(first.mean, again.mean)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    for table in (frame, pl.from_pandas(frame)):
        fitted = benthic.RandomForestClassifier(10, random_state=0).fit(table, labels)
        found = permutation_importance(fitted, table, labels, seed=3)
        assert found.names == ("a", "b", "c")
        np.testing.assert_allclose(found.mean, first.mean)
    assert str(first).splitlines()[0].startswith("x0")
    assert len(first.plot().axes[0].patches) == 3


def test_scores_of_ones_own_and_what_cannot_be():
    X, y = problem()
    model = LinearRegression().fit(X, y)

    def error(model, X, y):
        return -np.abs(model.predict(X) - y).mean()

    found = permutation_importance(model, X, y, scoring=error, n_repeats=1, seed=0)
    assert found.baseline == pytest.approx(0.0, abs=1e-9) and np.isnan(found.stderr).all()
    assert found.plot().axes
    with pytest.raises(InvalidInput, match="object has no score"):
        permutation_importance(object(), X, y)
    with pytest.raises(InvalidInput, match="n_repeats is 0"):
        permutation_importance(model, X, y, n_repeats=0)
    with pytest.raises(InvalidInput, match="1 dimensions"):
        permutation_importance(model, X[:, 0], y)
