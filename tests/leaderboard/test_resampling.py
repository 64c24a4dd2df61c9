from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

from benthic.base.errors import InvalidInput
from benthic.leaderboard import (
    compare_pair,
    cross_predict,
    cross_validate,
    draw_learning_curves,
    draw_scores,
    fold_plan,
    learning_curve,
    nested_cross_validate,
)

pytestmark = pytest.mark.spec("I-04")
X, Y = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])[Y]


def line(n, rng, noise=1.0):
    rows = rng.normal(size=(n, 3))
    return rows, rows @ [1.0, -1.0, 0.5] + noise * rng.normal(size=n)


def test_every_row_is_judged_once_a_repeat():
    plan = fold_plan(23, k=4, repeats=3)
    assert len(plan) == 12
    for r in range(3):
        tests = [test for _, test in plan[4 * r : 4 * r + 4]]
        assert sorted(np.concatenate(tests).tolist()) == list(range(23))
    assert all(not set(train) & set(test) and len(train) + len(test) == 23 for train, test in plan)
    assert any((a[1].tolist() != b[1].tolist()) for a, b in zip(plan[:4], plan[4:8], strict=True))
    again = fold_plan(23, k=4, repeats=3)
    assert all(a[1].tolist() == b[1].tolist() for a, b in zip(plan, again, strict=True))


def test_shares_are_kept_and_groups_stay_together():
    rng = np.random.default_rng(0)
    labels = rng.choice(["a", "b", "c"], p=[0.6, 0.3, 0.1], size=200)
    for _, test in fold_plan(200, k=5, labels=labels):
        for name in "abc":
            assert abs((labels[test] == name).sum() - (labels == name).sum() / 5) <= 1
    groups = rng.integers(20, size=200)
    for made in (fold_plan(200, groups=groups), fold_plan(200, groups=groups, labels=labels)):
        assert all(not set(groups[train]) & set(groups[test]) for train, test in made)


def test_scores_are_those_of_fits_by_hand():
    model = GaussianNB()
    found = cross_validate(model, X, NAMES, k=4, repeats=2, seed=3)
    plan = fold_plan(150, 4, 2, NAMES, None, 3)
    by_hand = [GaussianNB().fit(X[a], NAMES[a]).score(X[b], NAMES[b]) for a, b in plan]
    np.testing.assert_allclose(found.of("accuracy"), by_hand, atol=1e-12)
    assert found.better == {"accuracy": "higher", "log_loss": "lower", "auc": "higher"}
    assert not hasattr(model, "classes_")  # copies are fitted, the model is left alone
    scale = (1 / 8 + (150 / 4) / (150 * 3 / 4)) * np.var(by_hand, ddof=1)
    assert found.estimate().stderr == pytest.approx(np.sqrt(scale))
    low, high = found.interval()
    assert low < found.estimate().value < high and "accuracy" in found.summary()
    np.testing.assert_allclose(cross_validate(model, X, NAMES, scoring="f1_macro", k=4).of() <= 1, True)


def test_the_corrected_interval_covers_where_the_naive_one_does_not():
    rng = np.random.default_rng(0)
    far = line(20_000, rng)
    inside = {"corrected": 0, "naive": 0}
    for trial in range(120):
        rows, y = line(60, rng)
        found = cross_validate(LinearRegression(), rows, y, scoring="rmse", k=3, repeats=5, seed=trial)
        model = LinearRegression().fit(rows[:40], y[:40])
        truth = np.sqrt(np.mean((model.predict(far[0]) - far[1]) ** 2))
        low, high = found.interval()
        inside["corrected"] += low <= truth <= high
        half = (high - low) / 2 * np.sqrt((1 / 15) / (1 / 15 + found.test_share))
        inside["naive"] += abs(found.estimate().value - truth) <= half
    # a 95 % interval misses 6 of 120 with a spread of 2.4; the naive one misses far more
    assert inside["corrected"] >= 106
    assert inside["naive"] < 100


def test_weights_reach_fit_and_score():
    rng = np.random.default_rng(1)
    rows, y = line(60, rng)
    w = rng.integers(1, 4, 60).astype(float)
    plan = fold_plan(60, 5)
    found = cross_validate(Ridge(), rows, y, scoring="rmse", sample_weight=w).of()
    for score, (a, b) in zip(found, plan, strict=True):
        model = Ridge().fit(rows[a], y[a], sample_weight=w[a])
        off = (model.predict(rows[b]) - y[b]) ** 2
        assert score == pytest.approx(np.sqrt(np.average(off, weights=w[b])))
    with pytest.raises(InvalidInput, match="KNeighborsRegressor.fit takes no sample_weight"):
        cross_validate(KNeighborsRegressor(), rows, y, sample_weight=w)


def test_tensors_frames_and_functions():
    import pandas as pd

    options = {"scoring": "accuracy", "seed": 2}
    plain = cross_validate(GaussianNB(), X, Y, **options).of()
    frame = cross_validate(GaussianNB(), pd.DataFrame(X), pd.Series(Y), **options).of()
    tensor = cross_validate(GaussianNB(), torch.tensor(X), torch.tensor(Y), **options).of()
    np.testing.assert_array_equal(plain, frame)
    np.testing.assert_array_equal(plain, tensor)
    twice = cross_validate(GaussianNB(), X, Y, seed=2, scoring={"own": lambda m, a, b: 2 * m.score(a, b)})
    np.testing.assert_allclose(twice.of("own"), 2 * plain)


def test_a_density_is_judged_by_its_likelihood():
    import benthic

    found = cross_validate(benthic.GaussianMixture(2, random_state=0), X[:60], k=3)
    assert found.scores.keys() == {"log_likelihood[exact]"}
    assert np.isfinite(found.estimate().stderr)


def test_answers_for_rows_that_were_not_fitted():
    table = cross_predict(GaussianNB(), X, NAMES, method="predict_proba")
    assert table.shape == (150, 3)
    np.testing.assert_allclose(table.sum(1), 1)
    a, b = fold_plan(150, 5, 1, NAMES)[0]
    np.testing.assert_allclose(table[b], GaussianNB().fit(X[a], NAMES[a]).predict_proba(X[b]))
    answers = cross_predict(GaussianNB(), X, NAMES)
    assert (answers == NAMES).mean() > 0.9
    # a class that a fold never saw keeps its column
    y = np.array([0] * 10 + [1] * 10 + [2])
    holes = cross_predict(GaussianNB(), np.arange(21.0)[:, None], y, method="predict_proba", k=3, stratify=False)
    assert holes.shape == (21, 3) and holes[20, 2] == 0


def test_nested_choice_is_judged_on_rows_it_never_saw():
    rng = np.random.default_rng(0)
    noise, coin = rng.normal(size=(60, 4)), np.tile([0, 1], 30)
    grid = {"n_neighbors": [1, 3, 5, 9], "p": [1, 2]}
    optimism, outer = [], []
    for seed in range(6):
        order = np.random.default_rng(seed).permutation(60)
        found = nested_cross_validate(
            KNeighborsClassifier(), grid, noise, coin[order], scoring="accuracy", k=4, inner=3, seed=seed
        )
        optimism.append(found.optimism)
        outer.append(found.estimate().value)
    assert found.inner.shape == (4, 8) and len(found.chosen) == 4 and len(found.candidates) == 8
    # labels are a coin: the winners' own scores flatter them, the outer scores do not
    assert np.mean(optimism) > 0.03
    assert abs(np.mean(outer) - 0.5) < 4 * 0.5 / np.sqrt(360)


def test_nested_choice_by_a_loss_takes_the_least():
    rng = np.random.default_rng(3)
    rows, y = line(60, rng, 0.1)
    found = nested_cross_validate(Ridge(), [{"alpha": 1e-3}, {"alpha": 1e4}], rows, y, scoring="rmse", k=3, inner=3)
    assert found.chosen == [{"alpha": 1e-3}] * 3
    assert found.inner[:, 0].max() < found.inner[:, 1].min()


def test_learning_curve_follows_the_law_of_least_squares():
    rng = np.random.default_rng(5)
    rows, y = rng.normal(size=(4000, 5)), rng.normal(size=4000)
    curve = learning_curve(
        LinearRegression(fit_intercept=False), rows, y, sizes=[15, 30, 120], scoring="neg_mean_squared_error", k=40
    )
    # expected squared error of a Gaussian design: 1 + p / (n - p - 1) outside, 1 - p / n on the rows fitted
    for n, test, train in zip(curve.sizes, curve.test, curve.train, strict=True):
        assert -test.mean() == pytest.approx(1 + 5 / (n - 6), abs=4 * test.std(ddof=1) / np.sqrt(40))
        assert -train.mean() == pytest.approx(1 - 5 / n, abs=4 * train.std(ddof=1) / np.sqrt(40))
    assert [e.value for e in curve.estimates()] == sorted(e.value for e in curve.estimates())


def test_learning_curve_keeps_classes_in_every_size():
    curve = learning_curve(GaussianNB(), X, NAMES, sizes=[9, 0.5, 1.0], scoring="accuracy", k=3)
    assert curve.sizes.tolist() == [9, 50, 100]
    assert curve.test.shape == (3, 3) and curve.name == "accuracy"
    assert curve.estimates()[-1].value > 0.9
    figure = draw_learning_curves({"bayes": curve})
    assert len(figure.axes[0].lines) == 2


def test_a_pair_of_models():
    found = compare_pair(GaussianNB(), DummyClassifier(), X, Y, scoring="accuracy", k=5, repeats=2)
    assert found.difference.value > 0.5 and found.p_value < 1e-3
    same = compare_pair(GaussianNB(), GaussianNB(), X, Y, scoring="accuracy", k=5, repeats=1)
    assert same.p_value == 1.0 and same.difference.value == 0


def test_scores_are_drawn():
    found = {"bayes": cross_validate(GaussianNB(), X, Y), "dummy": cross_validate(DummyClassifier(), X, Y)}
    axes = draw_scores(found, "accuracy").axes[0]
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["bayes", "dummy"]
    assert found["bayes"].plot().axes[0].get_xlabel() == "accuracy"


def test_measures_that_a_fold_cannot_give_are_named():
    found = cross_validate(LinearRegression(), np.arange(6.0)[:, None], np.arange(6.0), k=6)
    assert "r2" not in found.scores and set(found.scores) == {"rmse", "mae"}
    y = np.array([0] * 12 + [1] * 3)
    found = cross_validate(GaussianNB(), X[:15], y, k=5, stratify=False, seed=1)
    assert found.undefined == ("auc",) and "undefined" in found.summary()


ONE_OF_TWO = np.array([0] * 9 + [1])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: cross_validate(GaussianNB(), X, Y[:9]), "rows must match"),
        (lambda: cross_validate(GaussianNB(), X, Y, k=1), "k is 1"),
        (lambda: cross_validate(GaussianNB(), X, Y, repeats=0), "repeats"),
        (lambda: cross_validate(GaussianNB(), X, Y, scoring="acuracy"), "did you mean 'accuracy'"),
        (lambda: cross_validate(GaussianNB(), X[:10], ONE_OF_TWO, k=5), "1 has fewer rows than the 5 folds"),
        (
            lambda: cross_validate(LogisticRegression(), X[:10], ONE_OF_TWO, k=5, stratify=False),
            "fold . of 5 would be fitted on the class",
        ),
        (lambda: cross_validate(GaussianNB(), X[:15], np.arange(15) // 12, k=5, stratify=False, scoring="auc"), "auc"),
        (lambda: cross_validate(GaussianNB(), X, Y, groups=Y % 2), "2 groups for 5 folds"),
        (lambda: cross_validate(GaussianNB(), X, Y, groups=[1]), "one a row"),
        (lambda: cross_validate(GaussianNB(), X, Y, sample_weight=-np.ones(150)), "negative"),
        (lambda: cross_validate(object(), X, Y), "cannot be copied"),
        (lambda: cross_validate(LinearRegression(), X, stratify=True), "needs labels"),
        (lambda: cross_validate(GaussianNB(), X, Y, scoring=lambda m, a, b: np.nan), "finite score"),
        (lambda: cross_validate(GaussianNB(), X, Y).of("rmse"), "no scores 'rmse'"),
        (lambda: cross_predict(LinearRegression(), X, Y, method="predict_proba"), "has no predict_proba"),
        (lambda: nested_cross_validate(Ridge(), {"alfa": [1]}, X, Y), "no setting 'alfa'"),
        (lambda: nested_cross_validate(Ridge(), [], X, Y), "no candidates"),
        (lambda: learning_curve(GaussianNB(), X, Y, sizes=[500]), "between 1 and 120"),
        (lambda: learning_curve(GaussianNB(), X, Y, sizes=[1]), "1 rows would be fitted on the class"),
        (lambda: learning_curve(GaussianNB(), X, Y, sizes=[]), "empty"),
        (lambda: learning_curve(GaussianNB(), X, Y, sizes=[30]).estimates("both"), "neither"),
    ],
)
def test_bad_input(call, words):
    with pytest.raises(InvalidInput, match=words):
        call()
