from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from sklearn import tree as peer
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine
from sklearn.model_selection import cross_val_score

from benthic.trees import DecisionTreeClassifier, DecisionTreeRegressor

pytestmark = pytest.mark.spec("G-01")
LABELED = {"iris": load_iris, "wine": load_wine, "breast_cancer": load_breast_cancer}


def rows_of(load):
    """Numbers that float32, in which scikit-learn's trees think, holds exactly."""
    X, y = load(return_X_y=True)
    return X.astype(np.float32).astype(float), y


@pytest.mark.parametrize("criterion", ["gini", "entropy"])
@pytest.mark.parametrize("name", LABELED)
def test_the_pruning_path_is_that_of_scikit_learn(name, criterion):
    X, y = rows_of(LABELED[name])
    ours = DecisionTreeClassifier(criterion=criterion).cost_complexity_pruning_path(X, y)
    theirs = peer.DecisionTreeClassifier(criterion=criterion, random_state=0).cost_complexity_pruning_path(X, y)
    # equal gains may be cut in another order, with the same alphas; the large steps are the same one by one
    assert ours.impurities[0] == pytest.approx(theirs.impurities[0], abs=1e-9)
    np.testing.assert_allclose(ours.ccp_alphas[-5:], theirs.ccp_alphas[-5:], atol=1e-9)
    np.testing.assert_allclose(ours.impurities[-5:], theirs.impurities[-5:], atol=1e-9)


def test_the_whole_pruning_path_of_a_regression_is_that_of_scikit_learn():
    X, y = rows_of(load_diabetes)
    ours = DecisionTreeRegressor(max_leaf_nodes=40).cost_complexity_pruning_path(X, y)
    theirs = peer.DecisionTreeRegressor(max_leaf_nodes=40, random_state=0).cost_complexity_pruning_path(X, y)
    np.testing.assert_allclose(ours.ccp_alphas, theirs.ccp_alphas, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(ours.impurities, theirs.impurities, rtol=1e-9)


@pytest.mark.parametrize(
    "limits",
    [
        {"max_depth": 3},
        {"max_leaf_nodes": 7},
        {"min_samples_leaf": 12},
        {"min_samples_split": 0.2},
        {"min_impurity_decrease": 0.01},
        {"min_weight_fraction_leaf": 0.07},
        {"ccp_alpha": 0.01},
        {"class_weight": "balanced", "max_depth": 3},
    ],
    ids=str,
)
def test_limits_mean_what_they_mean_in_scikit_learn(limits):
    X, y = rows_of(load_breast_cancer)
    ours = DecisionTreeClassifier(**limits).fit(X, y)
    theirs = peer.DecisionTreeClassifier(random_state=0, **limits).fit(X, y)
    inner = theirs.tree_.children_left >= 0
    shares = theirs.tree_.weighted_n_node_samples / theirs.tree_.weighted_n_node_samples[0]
    leaf_risk = (shares * theirs.tree_.impurity)[~inner].sum()
    tree = ours.tree_
    assert ours.get_n_leaves() == theirs.get_n_leaves() and ours.get_depth() == theirs.get_depth()
    found = (tree.weight / tree.weight[0] * tree.impurity)[tree.leaves].sum()
    assert found == pytest.approx(leaf_risk, abs=1e-9)  # equal splits of other features may send other rows there


def test_where_no_splits_are_equal_the_whole_tree_is_that_of_scikit_learn():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 5)).astype(np.float32).astype(float)
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.2 * rng.normal(size=400)
    ours = DecisionTreeRegressor(max_depth=4, min_samples_leaf=10).fit(X, y)
    theirs = peer.DecisionTreeRegressor(max_depth=4, min_samples_leaf=10, random_state=0).fit(X, y)
    np.testing.assert_allclose(ours.feature_importances_, theirs.feature_importances_, atol=1e-9)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-9)
    assert ours.tree_.gain.sum() == pytest.approx(y.var() - ((y - ours.predict(X)) ** 2).mean())


def test_digits_are_told_apart_as_well_as_by_scikit_learn():
    X, y = load_digits(return_X_y=True)
    ours = cross_val_score(DecisionTreeClassifier(random_state=0), X, y, cv=5)
    theirs = cross_val_score(peer.DecisionTreeClassifier(random_state=0), X, y, cv=5)
    assert ours.mean() > theirs.mean() - 2 * theirs.std() / np.sqrt(5)


def test_several_targets_are_split_together():
    X, y = rows_of(load_diabetes)
    Y = np.column_stack([y, X[:, 0] * 500, -y])
    ours = DecisionTreeRegressor(max_leaf_nodes=12).fit(X, Y)
    theirs = peer.DecisionTreeRegressor(max_leaf_nodes=12, random_state=0).fit(X, Y)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(ours.tree_.impurity[0], theirs.tree_.impurity[0], rtol=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_missing_values_go_to_the_better_side_as_in_scikit_learn(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(200, 3)).astype(np.float32).astype(float)
    y = X[:, 0] + np.where(X[:, 1] > 0.3, 2.0, 0.0) + 0.1 * rng.normal(size=200)
    X[rng.random(X.shape) < 0.15] = np.nan
    ours = DecisionTreeRegressor(max_leaf_nodes=8).fit(X, y)
    theirs = peer.DecisionTreeRegressor(max_leaf_nodes=8, random_state=0).fit(X, y)
    assert ((ours.predict(X) - y) ** 2).mean() == pytest.approx(((theirs.predict(X) - y) ** 2).mean(), rel=1e-9)
    new = rng.normal(size=(50, 3)).astype(np.float32)
    new[rng.random(new.shape) < 0.3] = np.nan
    np.testing.assert_allclose(ours.predict(new.astype(float)), theirs.predict(new), rtol=1e-9)


def best_subset(column, y, loss):
    """The least total loss over every way to part the categories in two."""
    values = np.unique(column)
    totals = []
    for size in range(1, len(values)):
        for chosen in combinations(values, size):
            left = np.isin(column, chosen)
            totals.append(loss(y[left]) + loss(y[~left]))
    return min(totals)


def test_sets_of_categories_are_the_best_of_all_sets():
    rng = np.random.default_rng(3)
    column = rng.integers(0, 7, 90)
    y = rng.normal(size=7)[column] + 0.3 * rng.normal(size=90)
    model = DecisionTreeRegressor(max_depth=1, categorical_features=[0]).fit(column[:, None], y)
    least = best_subset(column, y, lambda part: ((part - part.mean()) ** 2).sum())
    assert ((model.predict(column[:, None]) - y) ** 2).sum() == pytest.approx(least, rel=1e-12)
    labels = (y > 0).astype(int)
    two = DecisionTreeClassifier(max_depth=1, categorical_features=["x0"]).fit(column[:, None], labels)
    least = best_subset(column, labels, lambda part: len(part) * 2 * part.mean() * (1 - part.mean()))
    tree = two.tree_
    assert (tree.weight * tree.impurity)[tree.leaves].sum() == pytest.approx(least, rel=1e-12)


def test_categories_of_frames_need_no_codes():
    rng = np.random.default_rng(4)
    X = pd.DataFrame({"city": rng.choice(["Bern", "Rome", "Oslo", "Kyiv"], 120), "age": rng.normal(40, 9, 120)})
    y = X["city"].isin(["Bern", "Kyiv"]).to_numpy() ^ (X["age"] > 60).to_numpy()
    model = DecisionTreeClassifier().fit(X, y)
    assert model.score(X, y) == 1.0
    assert "city in {Bern, Kyiv}" in model.export_text()
    strange = pd.DataFrame({"city": ["Paris", None], "age": [30.0, 30.0]})
    larger = y[(X["age"] <= 60)].mean() > 0.5  # both go where more rows went
    assert model.predict(strange).tolist() == [larger] * 2
    assert model.feature_importances_.shape == (2,)


def test_random_thresholds_and_features_follow_the_seed():
    X, y = rows_of(load_wine)
    settings = {"splitter": "random", "max_features": "sqrt"}
    one, two, three = (DecisionTreeClassifier(**settings, random_state=seed).fit(X, y) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.tree_.threshold, two.tree_.threshold)
    assert one.tree_.node_count != three.tree_.node_count or (one.tree_.threshold != three.tree_.threshold).any()
    assert one.score(X, y) == 1.0
    few = DecisionTreeClassifier(max_features=1, max_depth=1)
    asked = {few.set_params(random_state=seed).fit(X, y).tree_.feature[0] for seed in range(60)}
    assert len(asked) > 10  # of 13


@pytest.mark.parametrize("seed", range(3))
def test_whole_weights_are_repeated_rows(seed):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(90, 4)).round(1), rng.normal(size=90)
    weight = rng.integers(0, 4, 90)
    X2, y2 = np.repeat(X, weight, 0), np.repeat(y, weight)
    one, two = DecisionTreeRegressor().fit(X, y, weight), DecisionTreeRegressor().fit(X2, y2)
    np.testing.assert_allclose(one.predict(X), two.predict(X), atol=1e-7)
    for criterion in ("gini", "entropy"):
        one = DecisionTreeClassifier(criterion=criterion).fit(X, y > 0.3, weight)
        two = DecisionTreeClassifier(criterion=criterion).fit(X2, y2 > 0.3)
        np.testing.assert_allclose(one.predict_proba(X), two.predict_proba(X), atol=1e-7)


def test_a_split_without_gain_is_made_where_it_leads_further():
    X, y = np.array([[0.0, 0], [0, 1], [1, 0], [1, 1]]), np.array([0, 1, 1, 0])
    assert DecisionTreeClassifier().fit(X, y).score(X, y) == 1.0
    assert DecisionTreeClassifier(min_impurity_decrease=1e-6).fit(X, y).get_n_leaves() == 1


def test_targets_far_from_zero_lose_no_digits():
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(100, 3)), rng.normal(size=100)
    near, far = DecisionTreeRegressor(max_depth=4).fit(X, y), DecisionTreeRegressor(max_depth=4).fit(X, y + 1e7)
    np.testing.assert_allclose(far.predict(X) - 1e7, near.predict(X), atol=1e-6)


def impurity_weight(y, w, criterion):
    """Weight times impurity of some rows, from the definitions."""
    if len(y) == 0:
        return 0.0
    if criterion == "squared_error":
        return float((w * (y - np.average(y, weights=w)) ** 2).sum())
    shares = np.bincount(y, w) / w.sum()
    shares = shares[shares > 0]
    return float(
        w.sum() * ((shares * (1 - shares)).sum() if criterion == "gini" else -(shares * np.log2(shares)).sum())
    )


def best_gain(X, y, w, criterion):
    """The largest decrease over every threshold of every column, missing values on either side."""
    whole, best = impurity_weight(y, w, criterion), 0.0
    for column in X.T:
        missing = np.isnan(column)
        for cut in [*np.unique(column[~missing]), np.inf]:
            for side in (False, True):
                left = np.where(missing, side, column <= cut)
                if left.any() and not left.all():
                    parts = (impurity_weight(y[rows], w[rows], criterion) for rows in (left, ~left))
                    best = max(best, whole - sum(parts))
    return best / w.sum()


@pytest.mark.parametrize("criterion", ["gini", "entropy", "squared_error"])
@pytest.mark.parametrize("seed", range(12))
def test_every_split_is_the_best_of_all_thresholds(criterion, seed):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 6, size=(40, 3)) / 4.0  # many ties
    X[rng.random(X.shape) < (0.2 if seed % 2 else 0.0)] = np.nan
    w = rng.choice([1.0, 2.0, 0.3, 1.7], 40)
    y = rng.normal(size=40) if criterion == "squared_error" else rng.integers(0, 3, 40)
    cls = DecisionTreeRegressor if criterion == "squared_error" else DecisionTreeClassifier
    model = cls(criterion=criterion, max_depth=3).fit(X, y, sample_weight=w)
    tree, path = model.tree_, model.decision_path(X).toarray().astype(bool)
    for node in np.flatnonzero(tree.feature >= 0):
        rows = path[:, node]
        expected = best_gain(X[rows], y[rows], w[rows], criterion) * w[rows].sum() / w.sum()
        assert tree.gain[node] == pytest.approx(expected, abs=1e-10)
