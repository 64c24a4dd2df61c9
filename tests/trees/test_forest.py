"""Random forests: accuracy beside scikit-learn's, rows out of the bag, error bars, seeds and threads."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn import ensemble
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine, make_friedman1
from sklearn.model_selection import StratifiedKFold, cross_val_score

import benthic
from benthic.base.errors import InvalidInput
from benthic.trees import forest_growth as fg
from benthic.trees.binning import bin_codes, find_bins
from benthic.trees.forest_trees import ForestPlan, grow_one

pytestmark = pytest.mark.spec("G-02")


@pytest.mark.parametrize("load", [load_iris, load_wine, load_breast_cancer, load_digits])
def test_accuracy_is_scikit_learns_within_noise(load):
    X, y = load(return_X_y=True)
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    ours = cross_val_score(benthic.RandomForestClassifier(30, random_state=0), X, y, cv=folds)
    theirs = cross_val_score(ensemble.RandomForestClassifier(30, random_state=0), X, y, cv=folds)
    spread = (ours - theirs).std(ddof=1) / np.sqrt(5)
    assert abs((ours - theirs).mean()) < 3 * spread + 0.005


def test_errors_of_numbers_are_scikit_learns_within_noise():
    X, y = make_friedman1(1500, random_state=0)
    ours = benthic.RandomForestRegressor(60, random_state=0).fit(X[:1000], y[:1000])
    theirs = ensemble.RandomForestRegressor(60, max_features=3, random_state=0).fit(X[:1000], y[:1000])
    a, b = (np.square(model.predict(X[1000:]) - y[1000:]) for model in (ours, theirs))
    assert abs((a - b).mean()) < 4 * (a - b).std() / np.sqrt(500)


def plan_of(X, y, criterion, leaf=1, leaves=None, categorical=None):
    n, p = X.shape
    bins = find_bins(X, [False] * p if categorical is None else categorical)
    classes = criterion != "numbers"
    width = int(y.max()) + 1 if classes else 1
    whole = [p, 2, leaf, n, leaves or n + 1, fg.ENTROPY if criterion == "entropy" else fg.GINI, width, int(classes)]
    codes = y.astype(np.int64) if classes else np.zeros(1, np.int64)
    targets = np.zeros((1, 1)) if classes else y[:, None]
    return ForestPlan(bin_codes(X, bins), bins, codes, targets, np.ones(n), np.array(whole), np.zeros(2), 0)


def impurity(y, criterion):
    if criterion == "numbers":
        return len(y) * y.var()
    share = np.bincount(y.astype(int)) / len(y)
    if criterion == "gini":
        return len(y) * (1 - (share**2).sum())
    return -len(y) * (share[share > 0] * np.log(share[share > 0])).sum()


@pytest.mark.parametrize("criterion", ["gini", "entropy", "numbers"])
@pytest.mark.parametrize("missing", [False, True])
def test_the_first_cut_is_the_best_of_all(criterion, missing):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 8, size=(90, 3)).astype(float)
    y = rng.normal(size=90) if criterion == "numbers" else rng.integers(0, 3, 90).astype(float)
    if missing:
        X[rng.random(X.shape) < 0.1] = np.nan
    tree = grow_one(plan_of(X, y, criterion, leaf=5, leaves=2), 0)
    best = 0.0
    for j in range(3):
        there = ~np.isnan(X[:, j])
        for edge in np.unique(X[there, j]):
            for left in ((X[:, j] <= edge) & there, (X[:, j] <= edge) | ~there):
                if min(left.sum(), (~left).sum()) >= 5:
                    drop = impurity(y, criterion) - impurity(y[left], criterion) - impurity(y[~left], criterion)
                    best = max(best, drop)
    assert tree["gain"][0] == pytest.approx(best, rel=1e-5)


def test_a_subset_of_categories_is_cut_off():
    rng = np.random.default_rng(1)
    x = rng.integers(0, 10, 400)
    y = np.isin(x, (1, 4, 7)).astype(float)
    tree = grow_one(plan_of(x[:, None].astype(float), y, "gini", leaves=2, categorical=[True]), 0)
    left = {code for code in range(10) if tree["subsets"][0, code // 8] >> (code % 8) & 1}
    assert left in ({1, 4, 7}, set(range(10)) - {1, 4, 7})
    assert tree["gain"][0] == pytest.approx(impurity(y, "gini"), rel=1e-6)


def test_trees_are_grown_to_the_end_without_limits():
    X, y = load_wine(return_X_y=True)
    model = benthic.RandomForestClassifier(5, bootstrap=False, max_features=None, random_state=0).fit(X, y)
    assert model.score(X, y) == 1.0
    leaf = model.trees_["left"] < 0
    np.testing.assert_array_equal(model.trees_["value"][leaf].max(1), 1.0)
    small = benthic.RandomForestClassifier(5, max_leaf_nodes=4, random_state=0).fit(X, y)
    assert ((small.trees_["left"] < 0).sum()) == 20
    shallow = benthic.RandomForestClassifier(5, max_depth=1, random_state=0).fit(X, y)
    assert (shallow.trees_["left"] < 0).sum() <= 10


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("criterion", ["gini", "entropy", "squared_error"])
def test_a_cut_that_gains_nothing_opens_the_way_to_one_that_does(criterion, named):
    """Of exclusive or every first cut gains exactly 0; scikit-learn's trees answer it without an error."""
    X = np.repeat([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], 10, 0)
    y = X[:, 0] != X[:, 1]
    kind = benthic.RandomForestRegressor if criterion == "squared_error" else benthic.RandomForestClassifier
    columns = [0, 1] if named else None
    model = kind(3, criterion=criterion, bootstrap=False, categorical_features=columns, random_state=0)
    assert model.fit(X, y.astype(float)).score(X, y) == 1.0
    assert model.feature_importances_.sum() == pytest.approx(1.0)


def test_the_score_out_of_the_bag_is_that_of_new_rows():
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))  # the writers come one after another
    X, y = X[order], y[order]
    model = benthic.RandomForestClassifier(80, oob_score=True, random_state=0).fit(X[:900], y[:900])
    test = model.score(X[900:], y[900:])
    assert abs(model.oob_score_ - test) < 4 * np.sqrt(2 * 0.03 / 900)
    assert model.oob_decision_function_.shape == (900, 10)
    np.testing.assert_allclose(model.oob_decision_function_.sum(1), 1.0)
    X, y = load_diabetes(return_X_y=True)
    numbers = benthic.RandomForestRegressor(80, oob_score=True, random_state=0).fit(X, y)
    theirs = ensemble.RandomForestRegressor(80, max_features=3, oob_score=True, random_state=0).fit(X, y)
    assert abs(numbers.oob_score_ - theirs.oob_score_) < 0.04
    assert numbers.oob_prediction_.shape == y.shape


def test_rows_out_of_the_bag_may_be_frames_with_categories():
    rng = np.random.default_rng(0)
    kinds = rng.choice(["old", "new", "odd"], 300)
    frame = pd.DataFrame({"size": rng.normal(size=300), "kind": pd.Categorical(kinds), "round": rng.random(300) < 0.5})
    y = frame["size"] + 3.0 * (kinds == "old") + rng.normal(size=300)
    model = benthic.RandomForestRegressor(60, oob_score=True, random_state=0).fit(frame, y)
    assert 0.4 < model.oob_score_ < model.score(frame, y)
    low, high = model.predict_interval(frame)
    assert (low < high).all()


def test_intervals_cover_new_targets_as_often_as_they_say():
    X, y = make_friedman1(2400, noise=2.0, random_state=1)
    model = benthic.RandomForestRegressor(60, oob_score=True, random_state=0).fit(X[:1200], y[:1200])
    low, high = model.predict_interval(X[1200:], level=0.8)
    share = ((low <= y[1200:]) & (y[1200:] <= high)).mean()
    assert abs(share - 0.8) < 4 * np.sqrt(0.8 * 0.2 / 1200)


def test_error_bars_are_the_spread_over_training_sets():
    rng = np.random.default_rng(2)

    def draw(n):
        X = rng.uniform(-2, 2, size=(n, 2))
        return X, X[:, 0] + rng.normal(size=n)

    query = np.array([[0.0, 0.0], [1.0, -1.0], [-1.5, 1.5]])
    answers, bars = [], []
    for seed in range(25):
        model = benthic.RandomForestRegressor(300, min_samples_leaf=5, random_state=seed).fit(*draw(100))
        answers.append(model.predict(query))
        bars.append(model.predict_std(query))
    true, said = np.std(answers, axis=0, ddof=1), np.mean(bars, axis=0)
    assert (said > 0.5 * true).all() and (said < 2.0 * true).all()  # 25 sets know the spread to 15 %


def test_error_bars_of_probabilities():
    X, y = load_iris(return_X_y=True)
    model = benthic.RandomForestClassifier(60, random_state=0).fit(X, y)
    bars = model.predict_std(X)
    assert bars.shape == (150, 3) and (bars >= 0).all()
    sure = model.predict_proba(X).max(1) > 0.999
    assert bars[sure].max() < bars[~sure].max()


def test_one_seed_gives_one_forest_whatever_the_threads():
    X, y = load_digits(return_X_y=True)
    one, two = (benthic.RandomForestClassifier(12, random_state=3, n_jobs=jobs).fit(X, y) for jobs in (1, 2))
    for name, array in one.trees_.items():
        np.testing.assert_array_equal(array, two.trees_[name])
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))


def test_warm_start_adds_the_trees_a_larger_forest_has():
    X, y = load_wine(return_X_y=True)
    model = benthic.RandomForestClassifier(4, warm_start=True, random_state=0).fit(X, y)
    model.set_params(n_estimators=9).fit(X, y)
    whole = benthic.RandomForestClassifier(9, random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.predict_proba(X), whole.predict_proba(X))
    with pytest.raises(InvalidInput, match="fewer than the 9 trees"):
        model.set_params(n_estimators=3).fit(X, y)
    X, y = load_diabetes(return_X_y=True)
    numbers = benthic.RandomForestRegressor(3, warm_start=True, random_state=0).fit(X, y)
    numbers.set_params(n_estimators=6).fit(X, y)
    np.testing.assert_allclose(
        numbers.predict(X), benthic.RandomForestRegressor(6, random_state=0).fit(X, y).predict(X), rtol=1e-12
    )


def test_several_targets_at_once():
    X, y = load_diabetes(return_X_y=True)
    both = np.column_stack([y, 300 - y])
    model = benthic.RandomForestRegressor(20, oob_score=True, random_state=0).fit(X, both)
    answer = model.predict(X)
    assert answer.shape == both.shape
    np.testing.assert_allclose(answer.sum(1), 300.0, rtol=1e-9)
    low, high = model.predict_interval(X[:3])
    assert low.shape == (3, 2) and (low < high).all()


def test_tiny_and_huge_targets_are_the_same_problem():
    X, y = load_diabetes(return_X_y=True)
    small, large = (benthic.RandomForestRegressor(10, random_state=0).fit(X, y * s) for s in (2.0**-30, 2.0**30))
    np.testing.assert_allclose(small.predict(X) * 2.0**60, large.predict(X), rtol=1e-9)


def test_missing_values_take_a_side_of_their_own():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3))
    y = (rng.random(600) < 0.5).astype(int)
    X[y == 1, 1] = np.where(rng.random((y == 1).sum()) < 0.8, np.nan, X[y == 1, 1])
    model = benthic.RandomForestClassifier(30, random_state=0).fit(X[:400], y[:400])
    hidden = np.isnan(X[400:, 1])
    assert (model.predict(X[400:])[hidden] == 1).mean() > 0.95


def test_frames_with_categories_and_labels_of_any_kind():
    rng = np.random.default_rng(0)
    city = rng.choice(["Bern", "Rome", "Oslo", "Lima"], 300)
    frame = pd.DataFrame({"city": pd.Categorical(city), "age": rng.normal(size=300)})
    labels = np.where(np.isin(city, ["Rome", "Lima"]), "warm", "cold").astype(object)
    model = benthic.RandomForestClassifier(20, max_features=None, random_state=0).fit(frame, labels)
    assert model.score(frame, labels) == 1.0
    assert model.feature_importances_.shape == (2,) and model.feature_importances_[0] > 0.95
    frame.loc[3, "city"] = None
    assert model.predict(frame)[3] in ("warm", "cold")
    other = pd.DataFrame({"city": pd.Categorical(["Paris"]), "age": [0.0]})
    with pytest.raises(ValueError, match="RandomForestClassifier.predict: .*'Paris'"):
        model.predict(other)
    for kind in (labels == "warm", (labels == "warm").astype(float), labels.astype(str)):
        again = benthic.RandomForestClassifier(5, random_state=0).fit(frame, kind)
        assert again.predict(frame).dtype == np.asarray(kind).dtype


def test_importances_find_the_columns_that_matter():
    X, y = make_friedman1(800, n_features=10, random_state=0)
    shares = benthic.RandomForestRegressor(40, random_state=0).fit(X, y).feature_importances_
    assert shares.sum() == pytest.approx(1.0) and shares[:5].min() > shares[5:].max()


def test_the_leaves_rows_end_in():
    X, y = load_iris(return_X_y=True)
    model = benthic.RandomForestClassifier(7, random_state=0).fit(X, y)
    place = model.apply(X)
    assert place.shape == (150, 7)
    nodes = model.trees_["start"][:-1] + place
    np.testing.assert_allclose(model.trees_["value"][nodes].mean(1), model.predict_proba(X), rtol=1e-12)
    assert (model.trees_["left"][nodes] < 0).all()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"n_estimators": 0}, "n_estimators is 0"),
        ({"criterion": "ginni"}, "did you mean 'gini'"),
        ({"max_features": "root"}, "max_features is 'root'"),
        ({"max_features": 1.5}, "max_features is 1.5"),
        ({"max_leaf_nodes": 1000}, "max_leaf_nodes is 1000, more than the 150 rows"),
        ({"bootstrap": False, "oob_score": True}, "oob_score needs bootstrap=True"),
        ({"max_samples": 0.0}, "max_samples is 0.0"),
        ({"bootstrap": False, "max_samples": 0.5}, "set bootstrap=True or max_samples=None"),
        ({"max_bins": 256}, "max_bins is 256"),
        ({"class_weight": {7: 1.0}}, "class_weight names 7, which is not among the classes"),
        ({"class_weight": "even"}, "class_weight is 'even'"),
        ({"n_jobs": 0}, "n_jobs is 0"),
        ({"categorical_features": [9]}, "categorical_features has the column 9"),
        ({"min_samples_leaf": 0}, "min_samples_leaf is 0"),
    ],
)
def test_settings_that_cannot_be(settings, words):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(InvalidInput, match=words):
        benthic.RandomForestClassifier(**settings).fit(X, y)


def test_questions_that_cannot_be_answered():
    X, y = load_diabetes(return_X_y=True)
    model = benthic.RandomForestRegressor(3, bootstrap=False).fit(X, y)
    with pytest.raises(InvalidInput, match="fit with bootstrap=True"):
        model.predict_std(X)
    with pytest.raises(InvalidInput, match="fit with oob_score=True"):
        model.predict_interval(X)
    with pytest.raises(InvalidInput, match="level is 2"):
        benthic.RandomForestRegressor(5, oob_score=True).fit(X, y).predict_interval(X, 2)
    with pytest.raises(ValueError, match="RandomForestRegressor.fit: .*NaN"):
        model.fit(X, np.where(y > 300, np.nan, y))


def test_tensors_are_answered_like_arrays_by_gathers_too():
    from benthic.trees.histogram_predict import add_up_on_device

    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 20, 500), rng.normal(size=(500, 3))]).astype(float)
    X[rng.random(X.shape) < 0.1] = np.nan
    y = rng.normal(size=500) + np.nan_to_num(X[:, 0]) % 3
    model = benthic.RandomForestRegressor(8, categorical_features=[0], random_state=0).fit(X, y)
    from benthic.trees.histogram_intake import features

    rows = features(model, torch.tensor(X))
    by_gathers = add_up_on_device(model.trees_, rows, 1)[:, 0] / 8
    np.testing.assert_allclose(by_gathers.numpy(), model.predict(X), rtol=1e-12)
