from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.ensemble import BaggingClassifier as PeerClassifier
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC

import benthic
from benthic.trees import BaggingClassifier, BaggingRegressor, DecisionTreeClassifier, DecisionTreeRegressor

pytestmark = pytest.mark.spec("G-02")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(150, 4))
Y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * RNG.normal(size=150)
LABELS = np.where(Y > 0.4, "high", "low")


def test_the_answer_is_the_mean_of_the_models():
    model = BaggingRegressor(n_estimators=7, random_state=0).fit(X, Y)
    by_hand = np.mean([one.predict(X) for one in model.estimators_], axis=0)
    np.testing.assert_allclose(model.predict(X), by_hand, rtol=1e-12)
    one, rows = model.estimators_[3], model.estimators_samples_[3]
    again = DecisionTreeRegressor().fit(X[rows], Y[rows])
    np.testing.assert_array_equal(one.predict(X), again.predict(X))


def test_averaging_beats_one_tree_and_equals_scikit_learn_within_noise():
    rows, y = load_breast_cancer(return_X_y=True)
    half = np.arange(len(y)) % 2 == 0
    scores = {"one": [], "ours": [], "theirs": []}
    models = [("one", DecisionTreeClassifier(max_features=5, random_state=seed)) for seed in range(40)]
    models += [("ours", BaggingClassifier(n_estimators=25, random_state=seed)) for seed in range(6)]
    models += [("theirs", PeerClassifier(n_estimators=25, random_state=seed)) for seed in range(6)]
    for name, model in models:
        scores[name].append(model.fit(rows[half], y[half]).score(rows[~half], y[~half]))
    mean = {name: np.mean(found) for name, found in scores.items()}
    assert mean["ours"] > mean["one"]
    assert mean["ours"] > mean["theirs"] - 0.017  # twice the standard error of an accuracy near 0.95 over 853 answers


def test_scores_out_of_bag_are_those_computed_by_hand():
    model = BaggingClassifier(n_estimators=15, oob_score=True, random_state=1).fit(X, LABELS)
    right, judged = 0, 0
    for i in range(150):
        free = [b for b, rows in enumerate(model.estimators_samples_) if i not in rows]
        if free:
            shares = np.mean([model.estimators_[b].predict_proba(X[i : i + 1])[0] for b in free], axis=0)
            right, judged = right + (model.classes_[shares.argmax()] == LABELS[i]), judged + 1
    assert model.oob_score_ == pytest.approx(right / judged)
    assert model.oob_decision_function_.shape == (150, 2)
    numbers = BaggingRegressor(n_estimators=40, oob_score=True, random_state=1).fit(X, Y)
    assert 0.3 < numbers.oob_score_ < numbers.score(X, Y)
    assert numbers.oob_prediction_.shape == (150,)


def test_rows_never_left_out_are_said():
    with pytest.warns(UserWarning, match="rows are in every resample"):
        BaggingClassifier(n_estimators=2, oob_score=True, random_state=0).fit(X, LABELS)


def test_threads_change_nothing():
    one = BaggingClassifier(n_estimators=8, max_features=2, random_state=0).fit(X, LABELS)
    two = BaggingClassifier(n_estimators=8, max_features=2, random_state=0, n_jobs=2).fit(X, LABELS)
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))


@pytest.mark.parametrize(
    "base",
    [KNeighborsClassifier(3), LinearSVC(), DecisionTreeClassifier(algorithm="c4.5"), benthic.LogisticRegression()],
    ids=lambda base: type(base).__name__,
)
def test_any_classifier_may_be_bagged(base):
    model = BaggingClassifier(base, n_estimators=9, max_features=0.75, random_state=0).fit(X, LABELS)
    assert model.score(X, LABELS) > 0.8 and all(len(columns) == 3 for columns in model.estimators_features_)
    np.testing.assert_allclose(model.predict_proba(X).sum(1), 1)
    assert type(model.estimators_[0]) is type(base)
    assert model.plot().axes


def test_error_bars_of_a_mean_are_the_textbook_ones():
    # bagging constant-leaf trees is bagging the mean, whose standard error is known
    flat = np.zeros((150, 1))
    model = BaggingRegressor(n_estimators=1500, random_state=0).fit(flat, Y)
    # so many trees know it to 0.04
    assert model.standard_error(flat[:1])[0] == pytest.approx(Y.std() / np.sqrt(150), rel=0.2)


def test_error_bars_cover_the_spread_over_fresh_samples():
    def draw(seed):
        rng = np.random.default_rng(seed)
        x = rng.uniform(-1, 1, size=(80, 1))
        return x, np.sin(3 * x[:, 0]) + 0.3 * rng.normal(size=80)

    place = np.array([[0.2]])
    bagged = [
        BaggingRegressor(LinearRegression(), 12, random_state=0).fit(*draw(s)).predict(place)[0] for s in range(40)
    ]
    bars = [
        BaggingRegressor(LinearRegression(), 200, random_state=0).fit(*draw(s)).standard_error(place)[0]
        for s in range(3)
    ]
    assert np.mean(bars) == pytest.approx(np.std(bagged), rel=0.35)  # 40 samples know a spread to 11 %


def test_frames_keep_their_categories():
    frame = pd.DataFrame({"city": RNG.choice(["Bern", "Rome", "Oslo"], 150), "age": X[:, 0]})
    y = (frame["city"] == "Rome").to_numpy() ^ (frame["age"] > 1).to_numpy()
    model = BaggingClassifier(n_estimators=10, random_state=0).fit(frame, y)
    assert model.score(frame, y) > 0.95
    assert "city" in model.estimators_[0].export_text()
    strange = pd.DataFrame({"city": ["Paris"], "age": [0.0]})
    assert np.isfinite(model.predict_proba(strange)).all()


def test_draws_with_one_class_are_repeated():
    rare = np.zeros(150, int)
    rare[:2] = 1
    model = BaggingClassifier(n_estimators=150, random_state=0).fit(X, rare)
    assert all(len(one.classes_) == 2 for one in model.estimators_)
    assert sum(model._redrawn) > 0  # about 20: a draw has none of the two with chance e^-2
    with pytest.raises(ValueError, match="100 resamples of 1 rows had one class only; raise max_samples"):
        BaggingClassifier(max_samples=1).fit(X, rare)


def test_files_hold_models_of_this_library(tmp_path):
    model = BaggingRegressor(DecisionTreeRegressor(max_depth=3), 4, random_state=0).fit(X, Y)
    loaded = benthic.load(model.save(tmp_path / "bags.safetensors"))
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    np.testing.assert_array_equal(loaded.standard_error(X[:3]), model.standard_error(X[:3]))
    with pytest.raises(ValueError, match="a model file cannot hold"):
        BaggingRegressor(LinearRegression(), 2).fit(X, Y).save(tmp_path / "other.safetensors")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"n_estimators": 0}, "n_estimators is 0"),
        ({"max_samples": 0}, "max_samples is 0"),
        ({"max_features": 9}, "whole number from 1 to 4"),
        ({"oob_score": True, "bootstrap": False}, "oob_score needs bootstrap=True"),
        ({"bootstrap": "yes"}, "bootstrap is 'yes'"),
        ({"estimator": "tree"}, "it must have fit and predict"),
        ({"n_jobs": 0}, "n_jobs is 0"),
        ({"max_samples": 500, "bootstrap": False}, "there are 150 rows"),
    ],
    ids=str,
)
def test_wrong_settings_are_named(settings, words):
    with pytest.raises(ValueError, match=words) as caught:
        BaggingClassifier(**settings).fit(X, LABELS)
    assert str(caught.value).startswith("BaggingClassifier.fit: ")


def test_several_targets():
    rows, y = load_diabetes(return_X_y=True)
    model = BaggingRegressor(n_estimators=5, random_state=0).fit(rows, np.column_stack([y, -y]))
    np.testing.assert_allclose(model.predict(rows)[:, 0], -model.predict(rows)[:, 1], rtol=1e-9)
    assert model.standard_error(rows[:2]).shape == (2, 2)
