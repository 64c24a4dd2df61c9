from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import benthic
from benthic.trees import DecisionTreeClassifier, DecisionTreeRegressor
from tests.trees import weather

pytestmark = pytest.mark.spec("G-01")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
LABELS = (X[:, 0] > 0).astype(int)


@pytest.mark.parametrize(
    "labels",
    [
        np.where(LABELS, "yes", "no"),
        LABELS.astype(bool),
        np.array(["no", "yes"], dtype=object)[LABELS],
        LABELS * 7 - 3,
        pd.Series(np.where(LABELS, "b", "a"), dtype="category"),
    ],
    ids=["strings", "booleans", "objects", "integers", "category"],
)
def test_labels_of_any_kind(labels):
    model = DecisionTreeClassifier().fit(X, labels)
    assert model.predict(X).tolist() == list(labels)
    assert model.predict_proba(X).shape == (60, 2)


def test_more_leaves_allowed_than_rows():
    model = DecisionTreeClassifier(max_leaf_nodes=1000, max_depth=500).fit(X[:6], LABELS[:6])
    assert model.get_n_leaves() <= 6 and model.score(X[:6], LABELS[:6]) == 1.0
    assert DecisionTreeRegressor(min_samples_leaf=100).fit(X, X[:, 0]).get_n_leaves() == 1
    assert DecisionTreeRegressor(max_leaf_nodes=60).fit(X, X[:, 0]).get_n_leaves() == 60


def test_columns_without_variance_are_never_asked():
    rows = np.column_stack([np.full(60, 3.0), X[:, 0], np.full(60, np.nan)])
    for algorithm in ("cart", "c4.5"):
        model = DecisionTreeClassifier(algorithm=algorithm).fit(rows, LABELS)
        assert set(model.tree_.feature) == {-1, 1}
    nothing = DecisionTreeRegressor().fit(np.zeros((5, 2)), np.arange(5.0))
    assert nothing.get_depth() == 0 and nothing.predict([[1.0, 2.0]]).tolist() == [2.0]
    assert nothing.feature_importances_.tolist() == [0.0, 0.0]
    assert nothing.rules() == ["always 2 (5)"] and nothing.export_text() == "2 (5)"


def test_constant_targets_make_one_leaf():
    model = DecisionTreeRegressor().fit(X, np.full(60, 0.1))
    assert model.get_n_leaves() == 1 and model.predict(X[:1]).tolist() == pytest.approx([0.1])


def test_class_weights():
    rare = (np.arange(60) < 6).astype(int)
    plain = DecisionTreeClassifier(max_depth=1).fit(X, rare)
    even = DecisionTreeClassifier(max_depth=1, class_weight="balanced").fit(X, rare)
    assert even.tree_.value[0].tolist() == pytest.approx([30, 30])
    assert plain.tree_.value[0].tolist() == [54, 6]
    by_hand = DecisionTreeClassifier(max_depth=1, class_weight={0: 30 / 54, 1: 5.0}).fit(X, rare)
    np.testing.assert_allclose(by_hand.predict_proba(X), even.predict_proba(X))
    none_of = DecisionTreeClassifier(class_weight={1: 0.0}).fit(X, rare)
    assert none_of.predict_proba(X)[:, 1].max() == 0.0 and none_of.classes_.tolist() == [0, 1]
    with pytest.raises(ValueError, match="class_weight names 'absent', which is not among the classes"):
        DecisionTreeClassifier(class_weight={"absent": 2.0}).fit(X, rare)
    with pytest.raises(ValueError, match="negative"):
        DecisionTreeClassifier(class_weight={0: -1.0}).fit(X, rare)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"algorithm": "C45"}, "algorithm 'C45' is unknown.*did you mean 'c4.5'"),
        ({"criterion": "gain_ratio"}, "use algorithm 'c4.5'"),
        ({"criterion": "entropi"}, "did you mean 'entropy'"),
        ({"max_depth": 0}, "max_depth is 0"),
        ({"max_leaf_nodes": 1}, "max_leaf_nodes is 1"),
        ({"min_samples_leaf": 0}, "min_samples_leaf is 0"),
        ({"min_samples_split": 1}, "min_samples_split is 1"),
        ({"max_features": "many"}, "max_features is 'many'"),
        ({"min_weight_fraction_leaf": 0.7}, "min_weight_fraction_leaf is 0.7"),
        ({"ccp_alpha": -1}, "ccp_alpha is -1"),
        ({"confidence": 1.5}, "confidence is 1.5"),
        ({"attribute_costs": [1, 2, 3]}, "attribute_costs is for algorithm"),
        ({"algorithm": "c4.5", "attribute_costs": [1, 2]}, "needs 3 positive costs"),
        ({"algorithm": "c4.5", "attribute_costs": {"x9": 2}}, "names 'x9'"),
        ({"algorithm": "c4.5", "splitter": "random"}, "splitter 'random' is for algorithm 'cart'"),
        ({"categorical_features": [3]}, "not one of the 3 columns"),
        ({"categorical_features": "x0"}, "a list of column numbers or names"),
        ({"categorical_features": [True, False]}, "mask of 2 columns"),
        ({"random_state": -1}, "random_state is -1"),
    ],
    ids=str,
)
def test_wrong_settings_are_named(settings, words):
    with pytest.raises(ValueError, match=words) as caught:
        DecisionTreeClassifier(**settings).fit(X, LABELS)
    assert str(caught.value).startswith("DecisionTreeClassifier.fit: ")


def test_a_regressor_says_which_algorithms_are_for_classes():
    with pytest.raises(ValueError, match="algorithm 'c4.5' is for classes; use 'cart'"):
        DecisionTreeRegressor(algorithm="c4.5").fit(X, X[:, 0])
    same = [DecisionTreeRegressor(criterion=name).fit(X, X[:, 0]) for name in ("squared_error", "friedman_mse")]
    np.testing.assert_array_equal(same[0].predict(X), same[1].predict(X))


@pytest.mark.parametrize("algorithm", ["cart", "c4.5"])
def test_frames_of_every_library_answer_alike(algorithm):
    rows, y = weather.numbers()
    frames = [rows, pl.from_pandas(rows), pa.Table.from_pandas(rows), rows.astype({"outlook": "category"})]
    model = DecisionTreeClassifier(algorithm=algorithm).fit(rows, y)
    strange = rows.iloc[:4].assign(outlook=["fog", "sunny", None, "rain"])
    expected = model.predict_proba(strange)
    for frame in frames:
        other = DecisionTreeClassifier(algorithm=algorithm).fit(frame, y)
        assert other.export_text() == model.export_text()
        for kind in (strange, pl.from_pandas(strange), pa.Table.from_pandas(strange)):
            np.testing.assert_allclose(other.predict_proba(kind), expected)
    assert np.isfinite(expected).all()


def test_numbers_that_are_categories_and_values_never_seen():
    codes = np.array([[10.0], [20], [30], [10], [20], [30]])
    y = np.array([1, 0, 1, 1, 0, 1])
    model = DecisionTreeClassifier(categorical_features=[0], max_depth=1).fit(codes, y)
    assert model.score(codes, y) == 1.0  # one split parts 20 from 10 and 30
    assert model.export_text() == "x0 in {10, 30}: 1 (4)\nx0 = 20: 0 (2)"
    assert model.predict([[25.0], [np.nan]]).tolist() == [1, 1]  # to the side with more rows


def test_missing_categories_may_have_a_side_of_their_own():
    rows = pd.DataFrame({"a": ["p", "q", None, "p", "q", None]})
    y = [0, 0, 1, 0, 0, 1]
    model = DecisionTreeClassifier().fit(rows, y)
    assert model.predict(rows).tolist() == y
    assert "a is missing: 1 (2)" in model.export_text()


def test_missing_numbers_may_have_a_side_of_their_own():
    model = DecisionTreeClassifier().fit([[1.0], [2.0], [np.nan], [np.nan]], [0, 0, 1, 1])
    assert model.export_text() == "x0 is known: 0 (2)\nx0 is missing: 1 (2)"
    assert model.predict([[np.nan], [9.0]]).tolist() == [1, 0]


@pytest.mark.parametrize("algorithm", ["cart", "c4.5", "id3"])
def test_models_of_frames_come_back_from_files(algorithm, tmp_path):
    rows, y = weather.categories()
    model = DecisionTreeClassifier(algorithm=algorithm).fit(rows, y)
    loaded = benthic.load(model.save(tmp_path / "tree.safetensors"))
    np.testing.assert_array_equal(loaded.predict_proba(rows), model.predict_proba(rows))
    assert loaded.export_text() == model.export_text() and loaded.summary() == model.summary()


def test_a_failed_fit_changes_nothing():
    model = DecisionTreeClassifier().fit(X, LABELS)
    before = model.predict_proba(X)
    with pytest.raises(ValueError, match="inconsistent"):
        model.fit(pd.DataFrame({"a": [1.0, 2.0]}), [0, 1, 1])
    with pytest.raises(ValueError, match="one class"):
        model.fit(X[:, :2], np.ones(60))
    np.testing.assert_array_equal(model.predict_proba(X), before)


def test_columns_of_text_are_left_out_and_named_columns_counted():
    frame = pd.DataFrame({"note": [f"remark {i}" for i in range(60)], "size": X[:, 0], "age": X[:, 1]})
    model = DecisionTreeClassifier().fit(frame, LABELS)
    assert model.feature_importances_.tolist() == [0.0, 1.0, 0.0]


def test_files_are_read(tmp_path):
    rows, y = weather.numbers()
    path = tmp_path / "weather.csv"
    rows.assign(play=y).to_csv(path, index=False)
    model = DecisionTreeClassifier(algorithm="c4.5").fit(path, "play")
    assert model.score(rows.assign(windy=rows["windy"] == "true"), y) == 1.0  # a file says true and false


def test_text_and_pictures_stop_where_asked():
    model = DecisionTreeClassifier().fit(X, (X[:, 0] > 0) ^ (X[:, 1] > 0.5))
    assert model.get_depth() > 1 and all(" ..." in line or ":" in line for line in model.export_text(1).splitlines())
    words = {text.get_text() for text in model.plot(max_depth=1).axes[0].texts}
    assert any("rows" in word for word in words) and any("..." in word for word in words)
    assert len(model.rules()) == model.get_n_leaves()
    numbers = DecisionTreeRegressor(max_depth=2).fit(X, X)
    assert numbers.plot().axes[0].texts
