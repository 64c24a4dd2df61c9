"""Judging generated data with predictors: two-sample tests, training on synthetic rows, learned features."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
import torch
from scipy.stats import binomtest, norm
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.svm import LinearSVC

from benthic import MLPClassifier, leaderboard, metrics
from benthic.base.errors import InvalidInput

pytestmark = pytest.mark.spec("I-03")
RNG = np.random.default_rng(0)
REAL, MADE = RNG.normal(size=(300, 4)), RNG.normal([1.0, 0.0, 0.0, 0.0], size=(260, 4))


# --------------------------------------------------------------------------------------------- two-sample tests


@pytest.mark.parametrize("model", ["trees", "mlp", LinearDiscriminantAnalysis(), LinearSVC()])
def test_two_laws_are_told_apart_as_well_as_can_be(model):
    """Shifted by one deviation, the best accuracy is Φ(1/2) = 0.69 and the best area Φ(1/√2) = 0.76."""
    found = leaderboard.classifier_two_sample(REAL, MADE, model)
    assert found.rows == 260  # half of 2 · 260
    assert found.p_value < 0.001
    assert found.accuracy.value < norm.cdf(0.5) + 3 * found.accuracy.stderr
    assert found.auc.value < norm.cdf(math.sqrt(0.5)) + 3 * found.auc.stderr
    right = round(found.accuracy.value * found.rows)
    assert found.p_value == pytest.approx(binomtest(right, found.rows, alternative="greater").pvalue)


def test_one_law_passes_at_its_level():
    rejected = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        X, Y = rng.normal(size=(80, 2)), rng.normal(size=(80, 2))
        rejected += leaderboard.classifier_two_sample(X, Y, LinearDiscriminantAnalysis(), seed=seed).p_value < 0.1
    assert rejected <= 13  # at most 6 are expected, with a standard deviation of 2.3


def test_area_is_that_of_the_judged_rows():
    seen = {}

    class Watched(LinearDiscriminantAnalysis):
        def predict_proba(self, X):
            seen["scores"] = super().predict_proba(X)
            return seen["scores"]

        def predict(self, X):
            seen["rows"] = X
            return super().predict(X)

    found = leaderboard.classifier_two_sample(REAL, MADE, Watched())
    real = {tuple(row) for row in REAL}
    truth = [tuple(row) not in real for row in seen["rows"]]
    assert found.auc.value == pytest.approx(roc_auc_score(truth, seen["scores"][:, 1]))


def test_frames_and_images():
    frames = [
        pa.table({"a": part[:, 0], "c": np.where(part[:, 1] > shift, "x", "y")})
        for part, shift in ((REAL, 0.0), (MADE, 1.0))
    ]
    assert leaderboard.classifier_two_sample(*frames).p_value < 0.01
    rare = [frames[0], frames[1].set_column(1, "c", pa.array(["z", *frames[1]["c"].to_pylist()[1:]]))]
    coded = [part.set_column(1, "c", part["c"].combine_chunks().dictionary_encode()) for part in rare]
    there, here = (leaderboard.classifier_two_sample(*part).accuracy for part in (coded, rare))
    assert abs(there.value - here.value) < there.stderr  # trees break ties by the order of columns
    images = [torch.tensor(part).reshape(-1, 1, 2, 2) for part in (REAL, MADE)]
    assert leaderboard.classifier_two_sample(*images).p_value < 0.01


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: leaderboard.classifier_two_sample(REAL, MADE[:5]), "smaller sample has 5 rows"),
        (lambda: leaderboard.classifier_two_sample(REAL, MADE[:, :2]), "4 columns and generated 2"),
        (lambda: leaderboard.classifier_two_sample(REAL, MADE, "tree"), "did you mean 'trees'"),
        (lambda: leaderboard.classifier_two_sample(REAL, MADE, LinearRegression()), "not a classifier"),
        (lambda: leaderboard.classifier_two_sample(REAL[:, 0], MADE), r"shape \(300,\)"),
        (lambda: leaderboard.classifier_two_sample(pa.table({"a": [1.0, 2.0]}), MADE), "the other is not"),
        (
            lambda: leaderboard.classifier_two_sample(pa.table({"a": [1.0, 2.0]}), pa.table({"b": [1.0, 2.0]})),
            r"only one of the tables has the columns \['a', 'b'\]",
        ),
        (lambda: leaderboard.train_on_synthetic(LinearRegression(), REAL, (REAL, REAL[:, 0])), "must be a pair"),
        (
            lambda: leaderboard.train_on_synthetic(LinearRegression(), (REAL, MADE[:, 0]), (REAL, REAL[:, 0])),
            "rows must",
        ),
        (lambda: leaderboard.classifier_features(LogisticRegression(), REAL, None), "labels are needed"),
        (lambda: leaderboard.classifier_features(LogisticRegression(), REAL, np.zeros(300)), "one class"),
        (lambda: leaderboard.classifier_features(LinearRegression(), REAL, np.zeros(300)), "no probabilities"),
    ],
)
def test_bad_input_gets_one_sentence(call, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        call()


# ------------------------------------------------------------------------------------------ training on synthetic


def labeled(n, seed, tilt=0.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, (X @ [1 - tilt, tilt] + 0.3 * rng.normal(size=n) > 0).astype(int)


def test_good_rows_train_as_well_as_real_ones_and_bad_ones_worse():
    test, real = labeled(400, 0), labeled(300, 1)
    good = leaderboard.train_on_synthetic(LogisticRegression(), labeled(300, 2), test, real)
    bad = leaderboard.train_on_synthetic(LogisticRegression(), labeled(300, 3, 0.9), test, real)
    assert abs(good.gap["accuracy"].value) < 3 * good.gap["accuracy"].stderr + 0.02
    assert bad.gap["accuracy"].value < -4 * bad.gap["accuracy"].stderr
    assert bad.gap["log_loss"].value > 0
    assert (bad.better["accuracy"], bad.better["log_loss"]) == ("higher", "lower")
    assert "gap" in str(bad)


def test_scores_are_those_of_a_model_fitted_by_hand():
    synthetic, test = labeled(200, 4, 0.5), labeled(200, 5)
    found = leaderboard.train_on_synthetic(LogisticRegression(), synthetic, test, scoring="accuracy")
    score = LogisticRegression().fit(*synthetic).score(*test)
    assert found.synthetic["accuracy"].value == pytest.approx(score)
    # the jackknife of a mean over ten groups is its standard error, known to a quarter
    assert found.synthetic["accuracy"].stderr == pytest.approx(math.sqrt(score * (1 - score) / 200), rel=0.75)
    assert not found.real


# -------------------------------------------------------------------------------------------------- learned features


def test_features_of_any_classifier_are_its_log_probabilities():
    X, y = labeled(200, 6)
    features = leaderboard.classifier_features(LogisticRegression(), X, y)
    logs = LogisticRegression().fit(X, y).predict_log_proba(X)
    np.testing.assert_allclose(features(X), logs - logs.mean(1, keepdims=True), atol=1e-9)
    score = metrics.inception_score(features.probabilities(X)).value
    assert 1 < score < 2


def test_features_of_a_network_enter_its_last_layer():
    X, y = labeled(200, 7)
    model = MLPClassifier((16, 5), trainer={"steps": 50, "verbose": False}, random_state=0)
    features = leaderboard.classifier_features(model, X, y)
    found = features(X)
    assert found.shape == (200, 5)
    last = [part for part in features.model.network_.modules() if isinstance(part, torch.nn.Linear)][-1]
    logits = found @ last.weight.double().T + last.bias.double()
    np.testing.assert_allclose(torch.softmax(logits, 1).detach(), features.probabilities(X), atol=1e-6)
    assert metrics.frechet_distance(X[:100], X[100:] + 2, features=features).value > 0.1
