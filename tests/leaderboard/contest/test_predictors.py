"""Predictors compared: against scikit-learn's cross-validation, closed forms, and models that are broken on purpose."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import stats
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.cluster import DBSCAN, KMeans
from sklearn.datasets import load_diabetes, load_iris
from sklearn.linear_model import BayesianRidge, LinearRegression, LogisticRegression, Ridge
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score, silhouette_score
from sklearn.model_selection import cross_val_predict, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC

import benthic
from benthic.base.errors import Interrupted, InvalidInput
from benthic.leaderboard.contest.crew import Crew, processes
from benthic.leaderboard.contest.predicting.defaults import default_predictors
from benthic.leaderboard.contest.predicting.fits import under_budget
from benthic.leaderboard.contest.predicting.predictors import compare_predictors
from benthic.leaderboard.contest.predicting.scores import predictive_law
from benthic.leaderboard.contest.predicting.standing import standings
from benthic.leaderboard.contest.records import Budget
from benthic.leaderboard.plans import fold_plan
from benthic.metrics import expected_calibration_error

pytestmark = pytest.mark.spec("I-03")

IRIS = load_iris(return_X_y=True)
DIABETES = load_diabetes(return_X_y=True)
QUIET = {"n_jobs": 0, "progress": False}


def plan(n, seeds, labels=None):
    return [split for seed in seeds for split in fold_plan(n, 5, 1, labels, None, seed)]


# -- numbers -------------------------------------------------------------------------------------------------


def test_classes_are_judged_as_scikit_learn_judges_them():
    X, y = IRIS
    models = {"bayes": GaussianNB(), "linear": LogisticRegression(max_iter=500)}
    found = compare_predictors(models, X, y, "classify", seeds=2, **QUIET)
    cv = plan(len(X), (0, 1), y)
    for name, model in models.items():
        line = found.line(name)
        for metric, scorer, sign in (
            ("accuracy", "accuracy", 1),
            ("log_loss", "neg_log_loss", -1),
            ("auc", "roc_auc_ovr", 1),
        ):
            scores = sign * cross_val_score(model, X, y, scoring=scorer, cv=cv)
            assert line.scores[metric].value == pytest.approx(scores.mean(), rel=1e-9)
            error = np.sqrt((1 / 10 + 1 / 4) * scores.var(ddof=1))  # Nadeau & Bengio, 2003
            assert line.scores[metric].stderr == pytest.approx(error, rel=1e-9, abs=1e-15)
        assert line.fits == 10 and line.seconds > 0 and line.memory >= 0


def test_numbers_are_judged_as_scikit_learn_judges_them():
    X, y = DIABETES
    found = compare_predictors([Ridge(0.1)], X, y, "regress", seeds=1, **QUIET)
    cv = plan(len(X), (0,))
    line = found.line("Ridge")
    for metric, scorer, sign in (("rmse", "neg_root_mean_squared_error", -1), ("r2", "r2", 1)):
        assert line.scores[metric].value == pytest.approx(
            sign * cross_val_score(Ridge(0.1), X, y, scoring=scorer, cv=cv).mean()
        )
    assert "log_score" not in line.scores and found.lines[0].name == "Ridge"


def test_the_paired_test_is_the_corrected_one():
    X, y = DIABETES
    models = {"ridge": Ridge(1.0), "least squares": LinearRegression()}
    found = compare_predictors(models, X, y, "regress", seeds=3, **QUIET)
    cv = plan(len(X), (0, 1, 2))
    first, second = (-cross_val_score(m, X, y, scoring="neg_root_mean_squared_error", cv=cv) for m in models.values())
    gaps = first - second
    share = np.mean([len(b) / len(a) for a, b in cv])
    t = gaps.mean() / np.sqrt((1 / 15 + share) * gaps.var(ddof=1))
    worse = "ridge" if gaps.mean() > 0 else "least squares"
    assert found.line(worse).extra["rmse p"] == pytest.approx(2 * stats.t.sf(abs(t), 14), rel=1e-6)
    assert found.best.extra["rmse p"] == 1.0 and found.best.name != worse


def test_calibration_is_that_of_all_rows_out_of_their_folds():
    X, y = IRIS
    found = compare_predictors([GaussianNB()], X, y, seeds=2, **QUIET)
    errors = []
    for seed in (0, 1):
        said = cross_val_predict(GaussianNB(), X, y, cv=plan(len(X), (seed,), y), method="predict_proba")
        errors.append(expected_calibration_error(y, said).value)
    assert found.line("GaussianNB").extra["calibration error"] == pytest.approx(np.mean(errors))


def test_log_scores_are_those_of_the_predicted_normal_law():
    X, y = DIABETES
    found = compare_predictors(
        [BayesianRidge(), "GaussianProcessRegressor"], X[:150], y[:150], "regress", seeds=1, **QUIET
    )
    scores, inside = [], []
    for train, test in plan(150, (0,)):
        mean, std = BayesianRidge().fit(X[train], y[train]).predict(X[test], return_std=True)
        scores.append(stats.norm.logpdf(y[test], mean, std).mean())
        inside += (np.abs(y[test] - mean) < stats.norm.ppf(0.95) * std).tolist()
    line = found.line("BayesianRidge")
    assert line.scores["log_score"].value == pytest.approx(np.mean(scores))
    assert line.extra["coverage of 90% intervals"] == pytest.approx(np.mean(inside))
    dummy = found.line("dummy").scores["log_score"].value
    assert line.scores["log_score"].value > dummy and line.scores["log_score"].baseline == dummy


def test_the_law_of_a_gaussian_process_is_its_own():
    X, y = DIABETES
    model = benthic.GaussianProcessRegressor(max_iter=20).fit(X[:80], y[:80])
    center, spread, ends = predictive_law(model, X[80:90])
    np.testing.assert_allclose(center, model.predict(X[80:90]), rtol=1e-6)
    np.testing.assert_allclose(ends, model.predict_interval(X[80:90], 0.9), rtol=1e-9)
    np.testing.assert_allclose(ends[:, 1] - center, stats.norm.ppf(0.95) * spread, rtol=1e-6)
    assert predictive_law(benthic.RandomForestRegressor(n_estimators=5).fit(X, y), X) is None


def test_clusters_are_judged_as_scikit_learn_judges_them():
    X, y = IRIS
    model = KMeans(3, n_init=2, random_state=0)
    found = compare_predictors({"means": model, "density": DBSCAN(0.7)}, X, y, "cluster", seeds=1, **QUIET)
    expected, everywhere = [], DBSCAN(0.7).fit_predict(X)
    for train, test in plan(len(X), (0,)):
        labels = KMeans(3, n_init=2, random_state=0).fit(X[train]).predict(X[test])
        expected.append(
            [
                adjusted_rand_score(y[test], labels),
                normalized_mutual_info_score(y[test], labels),
                silhouette_score(X[test], labels),
            ]
        )
    names = ("adjusted_rand", "mutual_information", "silhouette")
    line = found.line("means")
    np.testing.assert_allclose([line.scores[m].value for m in names], np.mean(expected, 0), rtol=1e-7)
    alone = np.mean([adjusted_rand_score(y[test], everywhere[test]) for _, test in plan(len(X), (0,))])
    assert found.line("density").scores["adjusted_rand"].value == pytest.approx(alone)
    assert any("saw those it is judged on" in finding.text for finding in found.line("density").findings)
    assert abs(found.line("dummy").scores["adjusted_rand"].value) < 0.1


# -- ranks ---------------------------------------------------------------------------------------------------


def test_the_probability_of_being_best_of_two_is_the_tail_of_students_law():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(15, 2)) * 0.1 + np.array([0.7, 0.65])
    found = standings(scores, 0.25, "higher")
    gaps = scores[:, 0] - scores[:, 1]
    p = stats.t.cdf(gaps.mean() / np.sqrt((1 / 15 + 0.25) * gaps.var(ddof=1)), 14)
    assert found[0].p_best == pytest.approx(p, abs=4 * np.sqrt(0.25 / 20_000))
    assert found[0].p_best + found[1].p_best == pytest.approx(1.0)


def test_ranks_know_what_they_do_not_know():
    rng = np.random.default_rng(1)
    hard = rng.normal(size=(10, 1))  # what is hard about a fold is hard for all
    scores = hard + np.array([0.0, 0.001, 5.0, 5.0]) + 0.01 * rng.normal(size=(10, 4))
    found = standings(scores, 0.25, "lower")
    assert [(s.rank_low, s.rank_high) for s in found[:2]] == [(1, 2), (1, 2)]
    assert all(s.rank_low == 3 and s.rank_high == 4 and s.p_best == 0 for s in found[2:])
    assert all(s.p_value < 1e-6 for s in found[2:])


def test_equal_models_share_a_place_and_many_models_need_no_more_folds():
    rng = np.random.default_rng(2)
    one = rng.normal(size=(5, 1))
    found = standings(np.repeat(one, 12, 1), 0.25, "higher")  # more models than fits: a covariance of rank one
    assert {(s.rank_low, s.rank_high) for s in found} == {(1, 1)}
    np.testing.assert_allclose([s.p_best for s in found], 1 / 12)
    with pytest.raises(InvalidInput, match="standings: scores have shape"):
        standings(one[:1], 0.25, "higher")


def test_equal_models_are_seldom_told_apart():
    """Two columns that say equally much about y: the corrected test cries wolf as often as it may, a naive one more."""
    rng = np.random.default_rng(4)
    wrong, naive = 0, 0
    for _ in range(120):
        X = rng.normal(size=(100, 2))
        y = X.sum(1) + rng.normal(size=100)
        scores = np.array([[_error(X[:, j], y, a, b) for j in (0, 1)] for a, b in plan(100, range(3))])
        found = standings(scores, 0.25, "lower")
        wrong += min(one.p_value for one in found) < 0.05
        naive += stats.ttest_rel(*scores.T).pvalue < 0.05
    assert wrong <= stats.binom.ppf(0.999, 120, 0.05) < naive


def _error(x, y, train, test):
    slope, cut = np.polyfit(x[train], y[train], 1)
    return np.sqrt(np.mean((y[test] - slope * x[test] - cut) ** 2))


def test_lines_are_in_order_and_the_dummy_is_the_unit():
    found = compare_predictors(["LogisticRegression", "GaussianNB", "LinearSVC"], *IRIS, seeds=1, **QUIET)
    values = [line.scores["accuracy"].value for line in found.lines]
    assert values == sorted(values, reverse=True)
    dummy = found.line("dummy")
    assert dummy.origin == "baseline" and dummy.quality == pytest.approx(1.0) and found.lines[-1] is dummy
    best = found.best
    assert best.quality == pytest.approx((1 - values[0]) / (1 - dummy.scores["accuracy"].value))
    assert "log_loss" not in found.line("LinearSVC").scores  # it gives no probabilities
    assert found.verdict[0].startswith(f"{best.name} has the best accuracy")
    assert json.loads(found.to_json())["best"] == best.name and "LinearSVC" in found.to_markdown()


def test_another_metric_ranks_when_asked():
    found = compare_predictors(["LogisticRegression", "LinearSVC"], *IRIS, seeds=1, metrics=["log_loss"], **QUIET)
    assert found.metrics == ("log_loss",) and found.settings["ranked by"] == "log_loss"
    assert not found.line("LinearSVC").ranked and "gives no log_loss" in found.line("LinearSVC").reason


def test_noise_is_called_noise():
    rng = np.random.default_rng(3)
    found = compare_predictors(
        ["LinearRegression"], rng.normal(size=(120, 5)), rng.normal(size=120), "regress", seeds=2, **QUIET
    )
    assert any(finding.kind == "weak" for finding in found.line("LinearRegression").findings)
    assert "No model does better than the mean" in found.verdict[0]


# -- trouble -------------------------------------------------------------------------------------------------


class Broken(ClassifierMixin, BaseEstimator):
    """Fails in one of several ways, and counts its fits in a file."""

    def __init__(self, how="", count=None, after=0):
        self.how = how
        self.count = count
        self.after = after

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        seen = 0
        if self.count is not None:
            seen = len(Path(self.count).read_text()) if Path(self.count).exists() else 0
            Path(self.count).write_text("x" * (seen + 1))
        if self.how == "raises":
            raise RuntimeError("the matrix is singular")
        if self.how == "interrupts" and seen == self.after:
            raise KeyboardInterrupt
        if self.how == "slow":
            time.sleep(1.3)
        return self

    def predict_proba(self, X):
        table = np.full((len(X), len(self.classes_)), 1 / len(self.classes_))
        return table * np.nan if self.how == "nan" else table

    def predict(self, X):
        return np.repeat(self.classes_[:1], len(X))


def test_failures_stay_in_the_table_with_their_reasons():
    models = {"good": GaussianNB(), "raises": Broken("raises"), "nan": Broken("nan")}
    found = compare_predictors(models, *IRIS, seeds=1, **QUIET)
    line = found.line("raises")
    assert (line.status, line.ranked, line.rank) == ("failed", False, "-") and "the matrix is singular" in line.reason
    assert found.line("nan").status == "not finite" and "predict_proba gave 90 values" in found.line("nan").reason
    assert [line.name for line in found.lines[:2]] == ["good", "dummy"]
    assert any("raises failed" in sentence for sentence in found.verdict)
    assert "singular" in str(found)


def test_a_slow_model_is_out_of_budget_and_not_tried_again(tmp_path):
    count = tmp_path / "count"
    options = {"budget": 0.2, "seeds": 2, "folder": tmp_path / "run", **QUIET}
    for _ in range(2):  # nor when the run is taken up again
        found = compare_predictors({"slow": Broken("slow", str(count))}, *IRIS, **options)
    line = found.line("slow")
    assert line.status == "out of budget" and "took 1.3" in line.reason and line.fits == 0
    assert len(count.read_text()) == 1


def test_a_run_is_kept_and_goes_on_where_it_stopped(tmp_path):
    count, folder = tmp_path / "count", tmp_path / "run"
    options = {"seeds": 2, "folder": folder, **QUIET}
    with pytest.raises(Interrupted, match="3 of 20 fits done"):
        compare_predictors({"b": Broken("interrupts", str(count), 3)}, *IRIS, **options)
    assert len(count.read_text()) == 4
    first = compare_predictors({"b": Broken("interrupts", str(count), 3)}, *IRIS, **options)
    assert len(count.read_text()) == 4 + 7
    again = compare_predictors({"b": Broken("interrupts", str(count), 3)}, *IRIS, **options)
    assert len(count.read_text()) == 11
    assert again.line("b").scores == first.line("b").scores
    assert again.line("b").extra["calibration error"] == first.line("b").extra["calibration error"]
    (folder / "b" / "seed-0" / "fold-2.json").write_text("{")  # cut short
    compare_predictors({"b": Broken("interrupts", str(count), 3)}, *IRIS, **options)
    assert len(count.read_text()) == 12
    compare_predictors({"b": Broken("", str(count))}, *IRIS, **options)  # other settings are another fit
    assert len(count.read_text()) == 22


def test_models_of_the_catalogue_are_kept(tmp_path):
    found = compare_predictors(["GaussianNB", GaussianNB()][:1], *IRIS, seeds=1, folder=tmp_path, **QUIET)
    model = found.model("GaussianNB")
    assert model.score(*IRIS) > 0.9
    assert found.outcomes[0].folder == tmp_path / "GaussianNB" / "seed-0"


def test_processes_give_the_same_numbers():
    names = ["GaussianNB", "LogisticRegression"]
    here = compare_predictors(names, *IRIS, seeds=1, **QUIET)
    there = compare_predictors(names, *IRIS, seeds=1, n_jobs=1, progress=False)
    for name in names:
        assert here.line(name).scores["log_loss"].value == pytest.approx(there.line(name).scores["log_loss"].value)
    assert here.best.name == there.best.name


def test_a_hanging_and_a_dying_job_do_not_stop_the_others():
    _odd.__module__ = "__main__"  # as if a script had defined it: it is sent by value
    jobs = ["fine", "hang", "die", "raise"]
    with Crew(_odd, 1, size=2) as crew:
        ended = {e.job: e for e in crew.run(jobs, lambda job, stage: 1.0 if job == "hang" else 60.0)}
    assert ended["fine"].value == "fine" and ended["hang"].late
    assert ended["die"].value is None and "code 3" in ended["die"].reason
    assert "ValueError: no such thing" in ended["raise"].reason
    assert processes(-1) >= 1
    with pytest.raises(InvalidInput, match="n_jobs is 'two'"):
        processes("two")


def _odd(job, shared, say):
    import os
    import time

    if job == "hang":
        time.sleep(60)
    if job == "die":
        os._exit(3)
    if job == "raise":
        raise ValueError("no such thing")
    return job


# -- budgets -------------------------------------------------------------------------------------------------


def test_budgets_reach_the_trainer():
    model = benthic.MLPClassifier()
    timed = under_budget(model, Budget("seconds", 7.0), 1000).trainer
    assert timed.seconds == 7.0 and timed.epochs is not None and model.trainer is None
    counted = under_budget(model, Budget("evaluations", 6400), 1000).trainer
    assert counted.steps * counted.batch_size == 6400 and counted.epochs is None
    assert under_budget(benthic.MLPClassifier(trainer={"seconds": 2}), Budget("seconds", 7.0), 9).trainer.seconds == 2
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    inner = under_budget(make_pipeline(StandardScaler(), model), Budget("seconds", 3.0), 9)
    assert inner.steps[-1][1].trainer.seconds == 3.0


def test_too_many_parameters_are_out_of_budget():
    model = benthic.MLPClassifier(hidden_layer_sizes=(8,), trainer={"steps": 5})
    found = compare_predictors({"net": model}, *IRIS, budget={"parameters": 60}, seeds=1, **QUIET)
    assert found.line("net").status == "out of budget" and "67 parameters" in found.line("net").reason


# -- data of other kinds -------------------------------------------------------------------------------------


def mixed(n=120):
    rng = np.random.default_rng(5)
    x = rng.normal(size=n)
    city = np.where(x + 0.3 * rng.normal(size=n) > 0, "Bern", "Rome").astype(object)
    city[7] = "Oslo"  # only one fold has it
    return pd.DataFrame({"x": rng.normal(size=n), "city": city, "n": rng.integers(0, 5, n)}), np.where(
        x > 0, "yes", "no"
    )


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow"])
def test_mixed_frames(kind):
    frame, y = mixed()
    data = {
        "pandas": lambda: frame,
        "polars": lambda: pl.from_pandas(frame),
        "arrow": lambda: pa.Table.from_pandas(frame),
    }
    models = {
        "ours": benthic.LogisticRegression(),
        "theirs": LogisticRegression(),
        "trees": "GradientBoostingClassifier",
    }
    found = compare_predictors(models, data[kind](), y, seeds=1, **QUIET)
    assert all(line.status == "ok" for line in found.lines)
    assert found.line("ours").scores["accuracy"].value > found.line("dummy").scores["accuracy"].value + 0.15
    assert found.line("theirs").scores["accuracy"].value == pytest.approx(
        found.line("ours").scores["accuracy"].value, abs=0.03
    )
    assert found.data.kind == "frame" and found.data.columns == 3


def test_gaps_choose_the_models_and_strike_others():
    X, y = IRIS
    holed = X.copy()
    holed[::7, 2] = np.nan
    names = [one.name for one in default_predictors("classify", holed, y)]
    assert "GradientBoostingClassifier" in names and "SVC" not in names
    found = compare_predictors(
        {"takes gaps": "GaussianNB", "does not": LogisticRegression()}, holed, y, seeds=1, **QUIET
    )
    assert found.line("takes gaps").ranked and "NaN" in found.line("does not").reason


def test_default_lists_suit_the_size():
    few = {one.name for one in default_predictors("classify", np.zeros((100, 3)), np.arange(100) % 2)}
    many = {one.name for one in default_predictors("classify", np.zeros((60_000, 3)), np.arange(60_000) % 2)}
    assert {"GaussianProcessClassifier", "SVC"} <= few and not {"GaussianProcessClassifier", "SVC"} & many
    assert "MLPClassifier" in few & many
    assert "GaussianProcessRegressor" in {c.name for c in default_predictors("regress", np.zeros((99, 2)), np.ones(99))}
    rows = np.concatenate([np.random.default_rng(0).normal(size=(40, 2)) + 9 * i for i in range(3)])
    assert default_predictors("cluster", rows)[0].model.n_clusters == 3


def test_images_become_rows_where_they_must():
    from sklearn.datasets import load_digits

    X, y = load_digits(n_class=3, return_X_y=True)
    images = X[:150].reshape(150, 1, 8, 8)
    found = compare_predictors([GaussianNB()], images, y[:150], seeds=1, **QUIET)
    assert found.data.kind == "image" and found.line("GaussianNB").scores["accuracy"].value > 0.8


def test_bad_input():
    X, y = IRIS
    for call, words in (
        ((["GaussianNB"], X, None), "to classify needs targets"),
        ((["GaussianNB"], X[:40], y[:40]), "there are 40 rows; at least 50"),
        ((["GaussianNB"], X, y, "sort"), "task is 'sort'"),
        ((["LinearRegression"], X, y), "LinearRegression cannot classify"),
        ((["GaussianNBB"], X, y), "did you mean 'GaussianNB'"),
        ((["GaussianNB", GaussianNB()], X, y), "two models are called 'GaussianNB'"),
        (({"dummy": GaussianNB()}, X, y), "as the baseline is"),
        ((["GaussianNB"], X, np.array(["a"] * 149 + ["b"])), "the class .*b.* has one row"),
        ((["GaussianNB"], X, y[:100]), "y has shape"),
        ((["GaussianNB"], X.astype(str), y), "not numbers"),
        ((["Ridge"], X, np.array(["a", "b"] * 75), "regress"), "y holds words"),
        ((["Ridge"], X, np.ones(150), "regress"), "nothing to predict"),
        ((["Ridge"], X, np.full(150, np.nan), "regress"), "150 missing or infinite"),
        ((["GaussianNB"], X, y, "classify", "10 parsecs"), "write it as"),
        ((["GaussianNB"], X, y, "classify", 0.01), "too small for any model"),
    ):
        with pytest.raises(InvalidInput, match=words):
            compare_predictors(*call, **QUIET)
    with pytest.raises(InvalidInput, match="not judged by 'acuracy'; did you mean 'accuracy'|did you mean 'accuracy'"):
        compare_predictors(["GaussianNB"], X, y, metrics=["acuracy"], **QUIET)


def test_linear_svc_of_two_classes_has_an_area():
    X, y = IRIS
    found = compare_predictors([LinearSVC()], X[:100], y[:100], seeds=1, **QUIET)
    scores = cross_val_score(LinearSVC(), X[:100], y[:100], scoring="roc_auc", cv=plan(100, (0,), y[:100]))
    assert found.line("LinearSVC").scores["auc"].value == pytest.approx(scores.mean())
