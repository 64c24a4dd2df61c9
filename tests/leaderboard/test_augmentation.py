"""What generated rows add: against fits done by hand, and on data where the answer is known."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import stats
from sklearn.base import BaseEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

import benthic
from benthic.base.errors import InvalidInput
from benthic.leaderboard import augmentation_gain, fold_plan
from benthic.leaderboard.augmentation import _level, _wanted, takes_labels

pytestmark = pytest.mark.spec("I-03")

RNG = np.random.default_rng(0)
Y = np.repeat([0, 1, 2], [90, 60, 30])
X = RNG.normal(size=(180, 2)) + np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]])[Y]


class Resample(BaseEstimator):
    """Gives back the rows it saw."""

    def fit(self, X, y=None):
        self.rows_ = X
        return self

    def sample(self, n=1, *, given=None, seed=None):
        return self.rows_[np.arange(n) % len(self.rows_)]


class Lying(Resample):
    """Rows far away from their class."""

    def sample(self, n=1, *, given=None, seed=None):
        return -5 * self.rows_[np.arange(n) % len(self.rows_)]


def test_copies_of_the_rows_change_nothing_for_a_model_that_counts_shares():
    """Every training row given once more leaves naive Bayes where it was, so the gain is exactly nothing."""
    found = augmentation_gain(Resample(), benthic.GaussianNB(), X, Y, ratio=1.0, per_class=True, k=3, repeats=1)
    assert found.made == pytest.approx(120)
    for name in found.without:
        np.testing.assert_allclose(found.augmented[name], found.without[name], atol=1e-9)
    assert found.gain("accuracy").p_value == 1.0


def test_scores_are_those_of_fits_by_hand_and_the_error_is_nadeau_bengios():
    found = augmentation_gain(Lying(), KNeighborsClassifier(3), X, Y, scoring="accuracy", k=4, repeats=2, seed=7)
    plan = fold_plan(len(X), 4, 2, Y, None, 7)
    by_hand = [KNeighborsClassifier(3).fit(X[a], Y[a]).score(X[b], Y[b]) for a, b in plan]
    np.testing.assert_allclose(found.without["accuracy"], by_hand)
    gaps = found.augmented["accuracy"] - found.without["accuracy"]
    error = np.sqrt((1 / 8 + 1 / 3) * gaps.var(ddof=1))
    test = found.gain()
    assert test.difference.value == pytest.approx(gaps.mean())
    assert test.difference.stderr == pytest.approx(error)
    assert test.p_value == pytest.approx(2 * stats.t.sf(abs(gaps.mean() / error), 7))


def test_lies_harm_and_the_text_says_so():
    found = augmentation_gain(Lying(), LogisticRegression(), X, Y, scoring="accuracy", ratio=2.0, k=3, repeats=2)
    assert found.gain().difference.value < -0.05
    assert "worse" in str(found)


def test_the_true_law_helps_where_rows_are_few():
    """With ten rows a class, draws of a Gaussian fitted to each help a nearest neighbor, which is noisy on its own."""
    wide = RNG.normal(size=(60, 6)) + 0.9 * np.repeat([0, 1], 30)[:, None]
    labels = np.repeat(["a", "b"], 30)
    model = benthic.GaussianMixture(1, covariance_type="diag")
    found = augmentation_gain(model, KNeighborsClassifier(1), wide, labels, scoring="accuracy", ratio=20, repeats=6)
    assert found.gain().difference.value > 0


@pytest.mark.parametrize("name", ["GaussianNB", "ConditionalVAE", "NormalizingFlow"])
def test_conditional_generators_are_told_the_class(name):
    model = benthic.catalogue()[name].quick()
    if name == "NormalizingFlow":
        model.set_params(condition="labels")
    assert takes_labels(model)
    found = augmentation_gain(model, LogisticRegression(), X, Y, scoring="accuracy", k=2, repeats=1)
    assert found.made == 90 and np.isfinite(found.gain().difference.value)


def test_balance_fills_rare_classes_first():
    assert _wanted(Y, 60, balance=False) == {0: 30, 1: 20, 2: 10}
    assert _wanted(Y, 60, balance=True) == {0: 0, 1: 15, 2: 45}
    assert _level(np.array([90, 60, 30]), 90) == pytest.approx(90.0)
    assert _wanted(Y, 120, balance=True) == {0: 10, 1: 40, 2: 70}


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow"])
def test_mixed_frames(kind):
    frame = pd.DataFrame({"x": X[:, 0], "n": np.arange(180) % 7, "c": np.where(X[:, 1] > 0.5, "up", "down")})
    made = {
        "pandas": lambda: frame,
        "polars": lambda: pl.from_pandas(frame),
        "arrow": lambda: pa.Table.from_pandas(frame),
    }
    model = benthic.VAE(latent_dim=2, hidden_layer_sizes=(8,), trainer={"steps": 20})
    data, names = made[kind](), np.array(["p", "q", "r"])[Y]
    found = augmentation_gain(model, LogisticRegression(), data, names, scoring="accuracy", k=2, repeats=1)
    ours = augmentation_gain(model, benthic.GaussianNB(), data, names, scoring="accuracy", k=2, repeats=1)
    assert found.made == ours.made == 90


def test_bad_input():
    with pytest.raises(InvalidInput, match="augmentation_gain: LinearRegression does not classify"):
        augmentation_gain(Resample(), LinearRegression(), X, Y)
    with pytest.raises(InvalidInput, match="the generator LinearRegression has no fit and sample"):
        augmentation_gain(LinearRegression(), LogisticRegression(), X, Y)
    with pytest.raises(InvalidInput, match="ratio is 0"):
        augmentation_gain(Resample(), LogisticRegression(), X, Y, ratio=0)
    with pytest.raises(InvalidInput, match="no scores 'accurcy'"):
        augmentation_gain(Resample(), LogisticRegression(), X, Y, k=2, repeats=1).gain("accurcy")
