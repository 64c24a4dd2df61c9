from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn import metrics as peer
from sklearn.datasets import load_diabetes, load_iris
from sklearn.linear_model import LinearRegression, LogisticRegression

from benthic.base.errors import InvalidInput
from benthic.base.likelihood import Likelihood
from benthic.metrics import accuracy, auc, judge, log_loss, macro_auc, mae, mean_of, measures, r2, rmse


def pairs_won(positive: np.ndarray, scores: np.ndarray) -> float:
    """The definition: share of (positive, negative) pairs ranked right, ties counted half."""
    gaps = scores[positive][:, None] - scores[~positive][None]
    return float(((gaps > 0) + 0.5 * (gaps == 0)).mean())


@pytest.mark.parametrize("levels", [2, 3, 10, 10_000])
def test_auc_counts_pairs_and_halves_ties(levels):
    rng = np.random.default_rng(levels)
    positive = rng.random(120) < 0.3
    scores = rng.integers(levels, size=120) + positive * (levels // 3)
    assert auc(positive, scores).value == pytest.approx(pairs_won(positive, scores), abs=1e-12)
    assert auc(positive, scores).value == pytest.approx(peer.roc_auc_score(positive, scores), abs=1e-12)


def test_auc_of_constant_scores_is_one_half():
    found = auc([True, False, True, False], [0.3] * 4)
    assert found.value == 0.5
    assert found.stderr == 0.0


@pytest.mark.parametrize("k", [2, 3, 6])
def test_classification_agrees_with_scikit_learn(k):
    rng = np.random.default_rng(k)
    y = rng.integers(k, size=300)
    table = rng.dirichlet(np.ones(k), size=300).round(2) + 1e-3
    table /= table.sum(1, keepdims=True)
    classes = np.arange(k)
    scores = table[:, 1] if k == 2 else table
    assert macro_auc(y, table, classes).value == pytest.approx(peer.roc_auc_score(y, scores, multi_class="ovr"))
    assert log_loss(y, table, classes).value == pytest.approx(peer.log_loss(y, table))
    assert accuracy(y, table.argmax(1)).value == peer.accuracy_score(y, table.argmax(1))


@pytest.mark.parametrize("shape", [(80,), (80, 3)])
def test_regression_agrees_with_scikit_learn(shape):
    rng = np.random.default_rng(0)
    y = rng.normal(size=shape)
    answer = y + 0.3 * rng.normal(size=shape)
    assert r2(y, answer).value == pytest.approx(peer.r2_score(y, answer))
    assert rmse(y, answer).value == pytest.approx(peer.root_mean_squared_error(y, answer))
    assert mae(y, answer).value == pytest.approx(peer.mean_absolute_error(y, answer))


def draw_classes(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    y = rng.choice(3, p=[0.5, 0.3, 0.2], size=200)
    logits = rng.normal(size=(200, 3)) + 1.5 * np.eye(3)[y]
    table = np.exp(logits)
    return y, table / table.sum(1, keepdims=True)


def draw_numbers(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    X = rng.normal(size=200)
    return X + 0.7 * rng.standard_t(8, size=200), X


@pytest.mark.parametrize(
    ("measure", "draw"),
    [
        (lambda y, p: macro_auc(y, p, range(3)), draw_classes),
        (lambda y, p: log_loss(y, p, range(3)), draw_classes),
        (lambda y, p: accuracy(y, p.argmax(1)), draw_classes),
        (lambda y, p: auc(y == 1, p[:, 1]), draw_classes),
        (r2, draw_numbers),
        (rmse, draw_numbers),
        (mae, draw_numbers),
    ],
    ids=["macro_auc", "log_loss", "accuracy", "auc", "r2", "rmse", "mae"],
)
def test_standard_errors_are_the_spread_over_data_sets(measure, draw):
    rng = np.random.default_rng(7)
    found = np.array([measure(*draw(rng)) for _ in range(400)])
    spread = found[:, 0].std(ddof=1)
    # the spread itself is known to 1/sqrt(2 * 400) = 4 %; first-order theory at n = 200 costs a few more
    assert np.sqrt((found[:, 1] ** 2).mean()) == pytest.approx(spread, rel=0.1)


def test_log_loss_of_an_unknown_class_is_the_smallest_probability():
    table = np.array([[0.5, 0.5], [0.9, 0.1]])
    found = log_loss(["a", "c"], table, ["a", "b"])
    assert found.value == pytest.approx((math.log(2) - math.log(np.finfo(float).eps)) / 2)


def test_one_row_has_no_known_error():
    assert math.isnan(mean_of([2.0]).stderr)
    assert "_stderr" not in "".join(judge(Density(), np.zeros((1, 2))))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: accuracy([1, 2], [1]), "rows must match"),
        (lambda: accuracy([], []), "no rows"),
        (lambda: auc([True, True], [0.1, 0.2]), "one class"),
        (lambda: r2([1.0, 1.0], [1.0, 2.0]), "no variance"),
        (lambda: log_loss([0, 1], np.ones((2, 3)) / 3, [0, 1]), "2 classes"),
        (lambda: rmse(np.zeros((4, 2)), np.zeros(4)), "columns"),
        (lambda: judge(LinearRegression(), np.zeros((2, 1))), "targets y are needed"),
        (lambda: judge(object(), np.zeros((2, 1))), "nothing to judge"),
    ],
)
def test_bad_input_is_one_clear_sentence(call, words):
    with pytest.raises(InvalidInput, match=words):
        call()


class Density:
    def likelihood(self, X):
        return Likelihood(np.asarray(X)[:, 0], np.zeros(len(X)), "importance(8)", "lower", "density")


def test_judge_chooses_by_what_the_model_can_do():
    X, y = load_iris(return_X_y=True)
    model = LogisticRegression(max_iter=500).fit(X, y)
    found = judge(model, X, y)
    assert list(found) == ["accuracy", "accuracy_stderr", "log_loss", "log_loss_stderr", "auc", "auc_stderr"]
    assert found["accuracy"] == model.score(X, y)
    X, y = load_diabetes(return_X_y=True)
    model = LinearRegression().fit(X, y)
    found = judge(model, X, y)
    assert found["r2"] == pytest.approx(model.score(X, y))
    assert {"rmse", "mae"} < set(found)


def test_a_likelihood_keeps_its_kind():
    X = np.arange(8.0).reshape(4, 2)
    found = judge(Density(), X)
    assert found == {
        "log_likelihood[importance(8)]": 3.0,
        "log_likelihood_stderr": pytest.approx(X[:, 0].std(ddof=1) / 2),
    }
    (measure,) = measures(Density(), X)
    assert (measure.kind, measure.bound, measure.better) == ("importance(8)", "lower", "higher")


def test_judge_names_labels_of_any_type():
    X, codes = load_iris(return_X_y=True)
    y = np.array(["setosa", "versicolor", "virginica"])[codes]
    named, plain = (LogisticRegression(max_iter=500).fit(X, labels) for labels in (y, codes))
    assert judge(named, X, y) == pytest.approx(judge(plain, X, codes))


def test_whole_weights_judge_as_repeated_rows():
    rng = np.random.default_rng(0)
    X, y = load_iris(return_X_y=True)
    w = rng.integers(1, 4, len(y))
    model = LogisticRegression(max_iter=500).fit(X, y)
    ours, repeated = measures(model, X, y, w), measures(model, np.repeat(X, w, 0), np.repeat(y, w))
    assert [m.value for m in ours] == pytest.approx([m.value for m in repeated], abs=1e-12)
    X, y = load_diabetes(return_X_y=True)
    w = rng.integers(0, 3, len(y))
    model = LinearRegression().fit(X, y)
    ours, repeated = measures(model, X, y, w), measures(model, np.repeat(X, w, 0), np.repeat(y, w))
    assert [m.value for m in ours] == pytest.approx([m.value for m in repeated], abs=1e-10)
    (found,) = measures(Density(), np.arange(8.0).reshape(4, 2), sample_weight=[1, 0, 0, 3])
    assert found.value == pytest.approx((0 + 3 * 6) / 4)
