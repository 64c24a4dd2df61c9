"""Gradient boosting: beside scikit-learn's, exact leaves, constraints, stopping, losses of one's own."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine, make_friedman1
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.model_selection import StratifiedKFold, cross_val_score

import benthic
from benthic.base.errors import InvalidInput

pytestmark = pytest.mark.spec("G-02")


def friedman(n, seed=0, noise=1.0):
    return make_friedman1(n, noise=noise, random_state=seed)


def test_squared_error_gives_scikit_learns_trees_where_bins_are_the_same():
    X, y = load_diabetes(return_X_y=True)
    X = np.round(X, 2)  # few values: both have a bin for each
    ours = benthic.GradientBoostingRegressor(max_iter=40, max_leaf_nodes=6).fit(X, y)
    theirs = HistGradientBoostingRegressor(max_iter=40, max_leaf_nodes=6).fit(X, y)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-4)  # theirs sums gradients in float32


@pytest.mark.parametrize("load", [load_iris, load_wine, load_breast_cancer, load_digits])
def test_accuracy_is_scikit_learns_within_noise(load):
    X, y = (part[:600] for part in load(return_X_y=True))
    folds, rounds = StratifiedKFold(4, shuffle=True, random_state=0), 10 if load is load_digits else 25
    ours = cross_val_score(benthic.GradientBoostingClassifier(max_iter=rounds), X, y, cv=folds)
    theirs = cross_val_score(HistGradientBoostingClassifier(max_iter=rounds), X, y, cv=folds)
    spread = (ours - theirs).std(ddof=1) / 2
    assert abs((ours - theirs).mean()) < 3 * spread + 0.006


@pytest.mark.parametrize("loss", ["absolute_error", "quantile", "poisson", "gamma", "huber"])
def test_other_losses_do_as_well_as_scikit_learns(loss):
    X, y = friedman(1500)
    y = np.exp(y / 8)
    cut = slice(0, 1000), slice(1000, None)
    level = {"quantile": 0.7} if loss == "quantile" else {}
    ours = benthic.GradientBoostingRegressor(loss, max_iter=60, **level).fit(X[cut[0]], y[cut[0]])
    twin = "squared_error" if loss == "huber" else loss
    theirs = HistGradientBoostingRegressor(loss=twin, max_iter=60, **level).fit(X[cut[0]], y[cut[0]])

    def measure(model):
        rest = y[cut[1]] - model.predict(X[cut[1]])
        return np.maximum(0.7 * rest, -0.3 * rest) if loss == "quantile" else np.abs(rest)

    a, b = measure(ours), measure(theirs)
    assert (a - b).mean() < 3 * (a - b).std() / np.sqrt(500)
    assert loss not in ("poisson", "gamma") or ours.predict(X).min() > 0


def test_one_round_of_a_stump_has_the_closed_form():
    x = np.array([0.0, 0.0, 1.0, 1.0, 2.0, 2.0])
    y = np.array([1.0, 3.0, 2.0, 2.0, 9.0, 11.0])
    model = benthic.GradientBoostingRegressor(
        max_iter=1, max_leaf_nodes=2, min_samples_leaf=1, learning_rate=0.5, l2_regularization=1.0
    ).fit(x[:, None], y)
    start = y.mean()
    left, right = (y[:4] - start).sum() / 5, (y[4:] - start).sum() / 3  # sums over (rows + l2)
    np.testing.assert_allclose(model.predict(x[:, None]), start + 0.5 * np.where(x < 2, left, right), rtol=1e-12)
    median = benthic.GradientBoostingRegressor(
        "absolute_error", max_iter=1, max_leaf_nodes=2, min_samples_leaf=1, learning_rate=1.0
    ).fit(x[:, None], y)
    leaves = median.trees_["value"][median.trees_["left"] < 0, 0]
    start = np.median(y)
    cut = median.trees_["threshold"][0]
    expected = [np.median(y[x <= cut] - start), np.median(y[x > cut] - start)]
    np.testing.assert_allclose(np.sort(leaves), np.sort(expected), rtol=1e-12)


def test_two_classes_take_newtons_step_from_the_log_odds():
    x = np.repeat([0.0, 1.0], 10)
    y = np.array([0] * 8 + [1] * 2 + [0] * 3 + [1] * 7)
    model = benthic.GradientBoostingClassifier(max_iter=1, learning_rate=1.0, min_samples_leaf=1).fit(x[:, None], y)
    p = y.mean()
    start = np.log(p / (1 - p))
    expected = [start + (y[x == v] - p).sum() / (10 * p * (1 - p)) for v in (0, 1)]
    np.testing.assert_allclose(model.decision_function([[0.0], [1.0]]), expected, rtol=1e-12)


def test_the_training_loss_falls_every_round():
    X, y = load_digits(return_X_y=True)
    for model, target in (
        (benthic.GradientBoostingClassifier(max_iter=8), y),
        (benthic.GradientBoostingClassifier(max_iter=20), y > 4),
        (benthic.GradientBoostingRegressor("poisson", max_iter=20), y.astype(float)),
    ):
        losses = [entry["loss"] for entry in model.fit(X, target).history_]
        assert (np.diff(losses) < 0).all()


@pytest.mark.parametrize("loss", ["squared_error", "absolute_error"])
def test_monotone_columns_stay_monotone(loss):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(800, 3))
    y = X[:, 0] - X[:, 1] + np.sin(8 * X[:, 0]) + np.cos(9 * X[:, 1]) + 0.2 * rng.normal(size=800)
    model = benthic.GradientBoostingRegressor(loss, monotonic_cst=[1, -1, 0], max_iter=60, min_samples_leaf=5)
    model.fit(X, y)
    free = benthic.GradientBoostingRegressor(loss, max_iter=60, min_samples_leaf=5).fit(X, y)
    grid = np.linspace(-1, 1, 200)
    for base in rng.uniform(-1, 1, size=(20, 3)):
        for j, sign in ((0, 1), (1, -1)):
            rows = np.tile(base, (200, 1))
            rows[:, j] = grid
            assert (sign * np.diff(model.predict(rows)) >= -1e-12).all()
    rows = np.zeros((200, 3))
    rows[:, 0] = grid
    assert (np.diff(free.predict(rows)) < -1e-3).any()
    named = benthic.GradientBoostingRegressor(loss, monotonic_cst={"x0": 1, "x1": -1}, max_iter=60, min_samples_leaf=5)
    np.testing.assert_array_equal(named.fit(X, y).predict(X), model.predict(X))


def test_monotone_probabilities():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(600, 2))
    y = (X[:, 0] + np.sin(6 * X[:, 0]) + rng.normal(size=600) > 0).astype(int)
    model = benthic.GradientBoostingClassifier(monotonic_cst=[1, 0], max_iter=40, min_samples_leaf=5).fit(X, y)
    rows = np.column_stack([np.linspace(-1, 1, 300), np.zeros(300)])
    assert (np.diff(model.predict_proba(rows)[:, 1]) >= 0).all()


def test_missing_values_tell():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 2))
    y = np.where(rng.random(1000) < 0.4, 3.0, X[:, 0])
    X[y == 3.0, 0] = np.nan
    model = benthic.GradientBoostingRegressor(max_iter=60).fit(X[:700], y[:700])
    assert np.abs(model.predict(X[700:]) - y[700:]).mean() < 0.1
    whole = benthic.GradientBoostingRegressor(max_iter=10).fit(X[~np.isnan(X[:, 0])], y[~np.isnan(X[:, 0])])
    assert np.isfinite(whole.predict(X)).all()


def test_categories_need_few_cuts():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 40, 2000)
    effect = rng.permutation(40) % 2 * 4.0
    y = effect[x] + 0.1 * rng.normal(size=2000)
    settings = {"max_iter": 1, "max_leaf_nodes": 2, "learning_rate": 1.0}
    named = benthic.GradientBoostingRegressor(categorical_features=[0], **settings).fit(x[:, None], y)
    ordered = benthic.GradientBoostingRegressor(**settings).fit(x[:, None], y)
    assert named.score(x[:, None], y) > 0.99 > 0.3 > ordered.score(x[:, None], y)
    assert np.isfinite(named.predict([[99.0]])).all()  # unknown: goes where missing values go


def test_frames_with_categories_dates_and_missing_values():
    rng = np.random.default_rng(0)
    n = 400
    city = rng.choice(["Bern", "Rome", "Oslo"], n)
    frame = pd.DataFrame({"city": pd.Categorical(city), "size": rng.normal(size=n), "old": rng.random(n) < 0.5})
    y = frame["size"] + np.where(city == "Rome", 5.0, 0.0) + frame["old"]
    frame.loc[rng.random(n) < 0.1, "size"] = np.nan
    model = benthic.GradientBoostingRegressor(max_iter=80).fit(frame, y)
    assert model.score(frame, y) > 0.9
    assert "city" in model.summary()
    with pytest.raises(ValueError, match="column 'city'.*holds categories"):
        benthic.GradientBoostingRegressor(monotonic_cst={"city": 1}).fit(frame, y)
    with pytest.raises(ValueError, match="'Paris'"):
        model.predict(pd.DataFrame({"city": pd.Categorical(["Paris"]), "size": [0.0], "old": [True]}))
    plain = benthic.GradientBoostingRegressor(max_iter=80, categorical_features=None).fit(frame, y)
    assert plain.score(frame, y) > 0.9 and len(plain.feature_importances_) == 5


def test_early_stopping_keeps_the_best_round():
    X, y = friedman(600, noise=4.0)
    model = benthic.GradientBoostingRegressor(
        max_iter=500, early_stopping=True, validation_fraction=0.25, n_iter_no_change=8, random_state=0
    ).fit(X, y)
    held = [entry["val_loss"] for entry in model.history_]
    assert model.n_iter_ == int(np.argmin(held)) < 200
    assert len(held) < 500 and len(model.trees_["start"]) - 1 == model.n_iter_
    on_training = benthic.GradientBoostingRegressor(
        max_iter=300, early_stopping=True, validation_fraction=None, tol=1.0, n_iter_no_change=3
    ).fit(X, y)
    assert on_training.n_iter_ < 300 and "val_loss" not in on_training.history_[0]
    labels = benthic.GradientBoostingClassifier(max_iter=200, early_stopping=True, random_state=0).fit(X, y > 14)
    assert labels.n_iter_ < 200 and "val_loss" in labels.history_[0]


def test_warm_start_goes_on_where_it_was():
    X, y = load_diabetes(return_X_y=True)
    model = benthic.GradientBoostingRegressor(max_iter=10, warm_start=True, random_state=0).fit(X, y)
    model.set_params(max_iter=25).fit(X, y)
    whole = benthic.GradientBoostingRegressor(max_iter=25, random_state=0).fit(X, y)
    np.testing.assert_allclose(model.predict(X), whole.predict(X), rtol=1e-9)
    assert len(model.history_) == 26 and model.n_iter_ == 25
    with pytest.raises(InvalidInput, match="fewer than the 25 rounds"):
        model.set_params(max_iter=3).fit(X, y)


def test_stages_lead_to_the_answer():
    X, y = load_iris(return_X_y=True)
    model = benthic.GradientBoostingClassifier(max_iter=7, min_samples_leaf=5).fit(X, y)
    stages = list(model.staged_predict_proba(X))
    assert len(stages) == 7
    np.testing.assert_allclose(stages[-1], model.predict_proba(X), rtol=1e-12)
    np.testing.assert_array_equal(list(model.staged_predict(X))[-1], model.predict(X))
    X, y = load_diabetes(return_X_y=True)
    numbers = benthic.GradientBoostingRegressor("poisson", max_iter=5).fit(X, y)
    np.testing.assert_allclose(list(numbers.staged_predict(X))[-1], numbers.predict(X), rtol=1e-12)


OWN = {
    "squared_error": lambda raw, y: 0.5 * (raw - y) ** 2,
    "poisson": lambda raw, y: raw.exp() - y * raw,
    "gamma": lambda raw, y: raw + y * (-raw).exp(),
}


@pytest.mark.parametrize("name", OWN)
def test_a_torch_loss_equals_the_named_one(name):
    X, y = friedman(400)
    y = np.abs(y) / 5 + 0.1
    settings = {"max_iter": 12, "max_leaf_nodes": 6}
    own = benthic.GradientBoostingRegressor(OWN[name], **settings).fit(X, y)
    named = benthic.GradientBoostingRegressor(name, **settings).fit(X, y)
    answer = own.predict(X) if name == "squared_error" else np.exp(own.predict(X))
    np.testing.assert_allclose(answer, named.predict(X), rtol=1e-3 if name == "gamma" else 1e-5)  # five Newton steps


def test_a_torch_loss_without_curvature_finds_the_quantile():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 1))
    y = X[:, 0] + rng.normal(size=2000)

    def pinball(raw, y):
        return torch.maximum(0.9 * (y - raw), 0.1 * (raw - y))

    model = benthic.GradientBoostingRegressor(pinball, max_iter=60).fit(X, y)
    assert abs((y <= model.predict(X)).mean() - 0.9) < 0.03


def test_torch_losses_of_classes():
    X, y = load_iris(return_X_y=True)

    def softmax(raw, y):
        return torch.nn.functional.cross_entropy(raw, y, reduction="none")

    settings = {"max_iter": 10, "min_samples_leaf": 5}
    own = benthic.GradientBoostingClassifier(softmax, **settings).fit(X, y)
    named = benthic.GradientBoostingClassifier(**settings).fit(X, y)
    np.testing.assert_allclose(own.predict_proba(X), named.predict_proba(X), atol=1e-6)

    def focal(raw, y):
        p = torch.sigmoid(torch.where(y > 0.5, raw, -raw))
        return -((1 - p) ** 2) * torch.log(p.clamp(min=1e-12))

    two = benthic.GradientBoostingClassifier(focal, max_iter=20, min_samples_leaf=5).fit(X[50:], y[50:])
    assert two.score(X[50:], y[50:]) > 0.94
    with pytest.raises(InvalidInput, match="class_weight goes with 'log_loss'"):
        benthic.GradientBoostingClassifier(focal, class_weight="balanced").fit(X[50:], y[50:])


def test_saving_a_model_with_ones_own_loss(tmp_path):
    X, y = friedman(200)
    loss = OWN["squared_error"]
    model = benthic.GradientBoostingRegressor(loss, max_iter=3).fit(X, y)
    with pytest.raises(ValueError, match="loss"):
        model.save(tmp_path / "m.safetensors")
    path = model.save(tmp_path / "m.safetensors", leave_out=["loss"])
    loaded = benthic.load(path, modules={"loss": loss})
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


def test_one_seed_gives_one_model_whatever_the_threads():
    X, y = friedman(25_000)
    settings = {"max_iter": 6, "subsample": 0.7, "max_features": 0.5, "random_state": 1, "early_stopping": True}
    one, two = (benthic.GradientBoostingRegressor(n_jobs=jobs, **settings).fit(X, y) for jobs in (1, 2))
    for name, array in one.trees_.items():
        np.testing.assert_array_equal(array, two.trees_[name])
    assert one.history_ == two.history_
    other = benthic.GradientBoostingRegressor(**{**settings, "random_state": 2}).fit(X, y)
    assert not np.array_equal(other.predict(X[:50]), one.predict(X[:50]))


def test_a_share_of_rows_and_columns_still_learns():
    X, y = friedman(1200)
    model = benthic.GradientBoostingRegressor(max_iter=150, subsample=0.5, max_features="sqrt", random_state=0)
    assert model.fit(X[:800], y[:800]).score(X[800:], y[800:]) > 0.85


def test_class_weights_move_the_odds():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 2))
    y = (X[:, 0] + rng.normal(size=1000) > 1.8).astype(int)
    plain = benthic.GradientBoostingClassifier(max_iter=30).fit(X, y)
    even = benthic.GradientBoostingClassifier(max_iter=30, class_weight="balanced").fit(X, y)
    found = [(model.predict(X)[y == 1] == 1).mean() for model in (plain, even)]
    assert found[1] > found[0] + 0.1
    share = y.mean()
    same = {0: 0.5 / (1 - share), 1: 0.5 / share}
    twin = benthic.GradientBoostingClassifier(max_iter=30, class_weight=same).fit(X, y)
    np.testing.assert_allclose(twin.predict_proba(X), even.predict_proba(X), rtol=1e-9)


def test_no_limit_of_leaves_and_growth_by_depth():
    X, y = friedman(500)
    deep = benthic.GradientBoostingRegressor(max_leaf_nodes=None, min_samples_leaf=1, max_iter=1, learning_rate=1.0)
    assert deep.fit(X, y).score(X, y) > 0.999
    flat = benthic.GradientBoostingRegressor(max_leaf_nodes=8, growth="depth", max_iter=30).fit(X, y)
    assert (flat.trees_["left"] < 0).sum() == 8 * 30 and flat.score(X, y) > 0.85
    stumps = benthic.GradientBoostingRegressor(max_depth=1, max_iter=30).fit(X, y)
    assert (stumps.trees_["left"] < 0).sum() == 60


def test_labels_of_any_kind():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])
    for labels in (names[y], names[y].astype(object), y == 1, y.astype(float)):
        model = benthic.GradientBoostingClassifier(max_iter=5, min_samples_leaf=5).fit(X, labels)
        assert model.predict(X).dtype == labels.dtype and (model.predict(X) == labels).mean() > 0.9


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"loss": "squared"}, "loss 'squared' is unknown.*did you mean 'squared_error'"),
        ({"loss": "quantile"}, "needs quantile between 0 and 1; it is None"),
        ({"loss": "gamma"}, "'gamma' is for positive"),
        ({"max_leaf_nodes": 1000}, "max_leaf_nodes is 1000, more than the 100 rows"),
        ({"learning_rate": 0.0}, "learning_rate is 0.0"),
        ({"subsample": 1.2}, "subsample is 1.2"),
        ({"monotonic_cst": [1, 0]}, "monotonic_cst is .*each of the 4 columns"),
        ({"monotonic_cst": {"x9": 1}}, "monotonic_cst names 'x9', which is no column"),
        ({"categorical_features": [0], "monotonic_cst": [1, 0, 0, 0]}, "holds categories"),
        ({"categorical_features": [True]}, "is a mask of shape"),
        ({"growth": "wide"}, "growth is 'wide'"),
        ({"early_stopping": True, "validation_fraction": 0.001}, "holds out 0 of 100 rows"),
        ({"max_bins": 300}, "max_bins is 300"),
        ({"loss": lambda raw, y: (raw - y).mean()}, "must return one loss a row"),
    ],
)
def test_settings_that_cannot_be(settings, words):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 5, 100), rng.normal(size=(100, 3))])
    with pytest.raises(InvalidInput, match=f"GradientBoostingRegressor.fit: .*{words}"):
        benthic.GradientBoostingRegressor(**settings).fit(X, rng.normal(size=100))


def test_targets_that_cannot_be():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="NaN"):
        benthic.GradientBoostingRegressor().fit(X, np.where(y == 1, np.nan, y))
    with pytest.raises(ValueError, match="y has 2 columns; fit one model each"):
        benthic.GradientBoostingRegressor().fit(X, np.column_stack([y, y]))
    with pytest.raises(ValueError, match="only one class"):
        benthic.GradientBoostingClassifier().fit(X, np.zeros(150))
    with pytest.raises(ValueError, match="monotonic_cst is for two classes; y has 3"):
        benthic.GradientBoostingClassifier(monotonic_cst=[1, 0, 0, 0]).fit(X, y)
    with pytest.raises(ValueError, match="'logloss' is unknown; did you mean 'log_loss'"):
        benthic.GradientBoostingClassifier("logloss").fit(X, y)


def test_a_file_is_read_whole(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=200), "kind": rng.choice(["u", "v"], 200)})
    frame["y"] = frame["a"] + (frame["kind"] == "u")
    frame.to_csv(tmp_path / "table.csv", index=False)
    model = benthic.GradientBoostingRegressor(max_iter=60).fit(str(tmp_path / "table.csv"), "y")
    assert model.score(frame[["a", "kind"]], frame["y"]) > 0.9


def test_the_picture_shows_both_losses():
    X, y = friedman(300)
    model = benthic.GradientBoostingRegressor(max_iter=20, early_stopping=True, random_state=0).fit(X, y)
    axes = model.plot().axes[0]
    assert len(axes.get_lines()) == 3 and axes.get_xlabel() == "rounds"
