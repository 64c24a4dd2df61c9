"""``benthic.compare`` from end to end: kinds of data, what it keeps, what it refuses before any fit."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.mixture import GaussianMixture as TheirMixture
from torch import nn

import benthic
from benthic.base.errors import Interrupted, InvalidInput
from benthic.data.toys import moons
from benthic.leaderboard.contest import comparing
from benthic.leaderboard.contest.baselines import OneGaussian, ResampledRows
from benthic.leaderboard.contest.results import Comparison
from benthic.leaderboard.contest.showing.maps import latent_maps
from tests.leaderboard.contest.planted import Failing
from tests.leaderboard.contest.test_protocol import frame

QUIET: dict[str, Any] = {"n_jobs": 0, "progress": False, "budget": 5}
QUICK = {"trainer": {"steps": 40, "lr": 0.01}}


class Never:
    """A model that must not be fitted."""

    def fit(self, X: Any, y: Any = None) -> Any:
        raise AssertionError("a fit began")

    def sample(self, n: int, *, seed: int = 0) -> Any:
        raise AssertionError("never")


@pytest.fixture(scope="module")
def planar(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    models = {
        "mixture": benthic.GaussianMixture(8),
        "theirs": TheirMixture(8),
        "vae": benthic.VAE(2, hidden_layer_sizes=(16,), **QUICK),
        "copier": ResampledRows(),
    }
    folder = tmp_path_factory.mktemp("planar")
    return benthic.compare(models, moons().sample(800, seed=0), folder=folder, **QUIET)


@pytest.mark.spec("I-03")
def test_a_table_of_numbers(planar: Comparison) -> None:
    assert planar.task == "generate"
    assert planar.data.kind == "table"
    assert planar.seeds == (0, 1, 2)
    assert {line.name for line in planar.lines} == {
        "mixture", "theirs", "vae", "copier", "shuffled columns", "one Gaussian", "Gaussian mixture",
    }  # fmt: skip
    assert planar.best is not None
    assert planar.best.name in ("mixture", "theirs")
    assert not planar.line("copier").ranked
    for metric, floor in planar.floor.items():
        if metric in planar.metrics:
            worst = planar.reference[metric]
            score = planar.line(worst).scores[metric]
            assert score.floor == floor
            assert score.baseline == pytest.approx(score.value)
    mixture, vae = planar.line("mixture").likelihood, planar.line("vae").likelihood
    assert mixture is not None
    assert vae is not None
    assert mixture.group == "exact density"
    assert mixture.group_size >= 3  # theirs, and the Gaussians
    assert vae.group_size == 1
    assert vae.bound == "lower"
    assert 0 <= planar.overhead <= 1


def test_the_normalized_score_is_what_it_says(planar: Comparison) -> None:
    for line in planar.lines:
        for score in line.scores.values():
            gap = score.baseline - score.floor
            if abs(gap) > 0.05:  # where the baseline is well above the floor
                assert score.normalized == pytest.approx((score.value - score.floor) / gap, rel=0.35)


def test_it_is_read_as_text_and_kept_as_files(planar: Comparison, tmp_path: Path) -> None:
    text = str(planar)
    assert "generate on data: 800 rows, 2 columns; 5 s a fit, 3 seeds" in text
    assert all(line.name in text for line in planar.lines)
    tree = json.loads(planar.to_json(tmp_path / "a.json"))
    assert tree == json.loads((tmp_path / "a.json").read_text())
    assert planar.best is not None
    assert tree["best"] == planar.best.name
    assert tree["settings"]["rows"] == {"fit": 480, "features": 80, "judge": 120}
    assert len(tree["lines"]) == len(planar.lines)
    rows = list(csv.DictReader(io.StringIO(planar.to_csv(tmp_path / "a.csv"))))
    assert [row["name"] for row in rows] == [line.name for line in planar.lines]
    assert float(rows[0]["quality"]) == pytest.approx(planar.lines[0].quality)
    markdown = planar.to_markdown(tmp_path / "a.md")
    assert markdown.count("\n|") >= len(planar.lines) + 2
    assert all(sentence in markdown for sentence in planar.verdict)
    assert planar.folder is not None
    assert (planar.folder / "comparison.json").exists()


def test_samples_and_models_are_there_afterwards(planar: Comparison) -> None:
    made = planar.samples("mixture")
    assert made.shape == (120, 2)
    assert planar.real.shape == (120, 2)
    assert not np.array_equal(made, planar.samples("mixture", seed=1))
    model = planar.model("mixture", seed=2)
    assert isinstance(model, benthic.GaussianMixture)
    with pytest.raises(InvalidInput, match="no fit of theirs was kept"):
        planar.model("theirs")
    with pytest.raises(InvalidInput, match="there is no 'mixtur'; did you mean 'mixture'"):
        planar.line("mixtur")
    with pytest.raises(InvalidInput, match="left no samples"):
        planar.samples("mixture", seed=77)


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X = moons().sample(200, seed=0)
    models = {"a": OneGaussian(), "b": ResampledRows()}
    fitted: list[str] = []

    def counted(model: Any, X: Any, y: Any = None) -> Any:
        fitted.append(type(model).__name__)
        if len(fitted) == 3 and not resumed:
            raise KeyboardInterrupt
        return original(model, X, y)

    original, resumed = OneGaussian.fit, False
    monkeypatch.setattr(OneGaussian, "fit", counted)
    with pytest.raises(KeyboardInterrupt):
        benthic.compare(models, X, folder=tmp_path, baselines=False, **QUIET)
    assert len(fitted) == 3
    resumed = True
    found = benthic.compare(models, X, folder=tmp_path, baselines=False, **QUIET)
    assert len(fitted) == 4  # only the one that was cut off, with the third seed
    again = benthic.compare(models, X, folder=tmp_path, baselines=False, **QUIET)
    assert len(fitted) == 4
    assert math.isnan(again.overhead)
    assert [line.quality for line in found.lines] == [line.quality for line in again.lines]
    other = benthic.compare(models, X + 1, folder=tmp_path, baselines=False, **QUIET)
    assert len(fitted) == 7  # other data are fitted anew
    assert other.line("a").ranked


def test_no_fit_begins_that_would_end_too_late(tmp_path: Path) -> None:
    X = moons().sample(100, seed=0)
    call: dict[str, Any] = {**QUIET, "budget": 5, "seeds": 2, "baselines": False, "folder": tmp_path}
    with pytest.raises(Interrupted, match="with 0 of 2 fits done; the same call goes on"):
        benthic.compare({"a": OneGaussian()}, X, stop_after=8, **call)
    found = benthic.compare({"a": OneGaussian()}, X, stop_after="1m", **call)
    assert found.line("a").fits == 2
    with pytest.raises(InvalidInput, match="stop_after needs a folder"):
        benthic.compare({"a": OneGaussian()}, X, stop_after=8, **{**call, "folder": None})


def test_the_same_call_gives_the_same_table() -> None:
    X = moons().sample(200, seed=0)
    one, two = (benthic.compare([benthic.GaussianMixture(3)], X, seeds=2, **QUIET) for _ in range(2))
    assert [line.quality for line in one.lines] == [line.quality for line in two.lines]
    assert [line.p_best for line in one.lines] == [line.p_best for line in two.lines]


@pytest.mark.spec("I-03")
@pytest.mark.parametrize("library", ["pandas", "polars", "arrow"])
def test_mixed_tables_come_back_as_frames(library: str) -> None:
    data = frame(300)
    data["income"] += data["member"]
    X: Any = data
    if library == "polars":
        X = pytest.importorskip("polars").from_pandas(data)
    if library == "arrow":
        import pyarrow as pa

        X = pa.Table.from_pandas(data)
    models = ["GaussianMixture", benthic.VAE(2, hidden_layer_sizes=(16,), **QUICK)]
    found = benthic.compare(models, X, seeds=2, **QUIET)
    assert found.data.kind == "frame"
    assert [line.status for line in found.lines] == ["ok"] * len(found.lines)
    made = found.samples("VAE")
    assert type(made) is type(X)
    assert {str(name) for name in (made.column_names if library == "arrow" else made.columns)} == set(data.columns)
    assert "associations" in found.metrics


def test_tables_of_categories_alone_and_of_one_column() -> None:
    rng = np.random.default_rng(0)
    first = rng.choice(["a", "b", "c"], 300)
    data = pd.DataFrame({"first": first, "second": np.where(rng.random(300) < 0.8, first, "d")})
    found = benthic.compare({"mixture": benthic.GaussianMixture(3)}, data, seeds=2, **QUIET)
    assert found.line("mixture").ranked  # that all its rows are among the training rows is no copying
    assert found.line("mixture").quality < found.line("shuffled columns").quality
    column = rng.normal(size=(300, 1)) ** 3
    found = benthic.compare({"mixture": benthic.GaussianMixture(4)}, column, seeds=2, **QUIET)
    assert found.metrics == ("energy", "wasserstein", "marginals", "coverage")
    assert found.baselines == ("one Gaussian", "Gaussian mixture")
    assert all(line.ranked for line in found.lines)


def test_columns_that_do_not_vary_do_no_harm() -> None:
    X = np.column_stack([moons().sample(200, seed=0), np.full(200, 3.0)])
    found = benthic.compare({"mixture": benthic.GaussianMixture(3), "copier": ResampledRows()}, X, seeds=2, **QUIET)
    assert all(math.isfinite(line.quality) for line in found.lines)
    assert not found.line("copier").ranked


def test_a_rare_category_does_not_break_a_fit() -> None:
    data = frame(200)
    data.loc[0, "city"] = "Ulm"
    vae = benthic.VAE(2, hidden_layer_sizes=(16,), **QUICK)
    found = benthic.compare([benthic.GaussianMixture(2), vae], data, seeds=1, **QUIET)
    assert found.line("GaussianMixture").status == "ok"
    assert "categories for numbers" in found.line("GaussianMixture").no_likelihood
    assert found.line("VAE").likelihood is not None


@pytest.mark.spec("I-03")
def test_pictures_flat_or_not_and_a_network_for_features() -> None:
    X = benthic.data.bundled.load("digits").X[:500]
    models = {"mixture": benthic.GaussianMixture(5), "vae": benthic.VAE(4, hidden_layer_sizes=(32,), **QUICK)}
    found = benthic.compare(models, X.reshape(-1, 1, 8, 8), seeds=2, **QUIET)
    assert found.data.kind == "image"
    assert found.metrics == ("frechet", "kernel", "coverage")
    assert found.settings["features"] == "random filters"
    assert found.samples("mixture").shape == found.samples("vae").shape == (75, 1, 8, 8)
    assert found.line("mixture").quality < found.line("shuffled columns").quality
    own = nn.Sequential(nn.Flatten(), nn.Linear(64, 8))
    again = benthic.compare(
        {"mixture": benthic.GaussianMixture(5)}, torch.as_tensor(X).reshape(-1, 1, 8, 8), features=own, seeds=1,
        metrics=["frechet", "recall"], **QUIET,
    )  # fmt: skip
    assert again.metrics == ("frechet", "recall")
    assert set(again.lines[0].scores) == {"frechet", "recall"}


def test_a_model_given_labels_is_sampled_with_them() -> None:
    X, y = moons().draw(300, 0)
    model = benthic.ConditionalVAE(2, hidden_layer_sizes=(16,), **QUICK)
    found = benthic.compare({"given labels": model}, X, y, task="generate", seeds=1, **QUIET)
    outcome = next(one for one in found.outcomes if one.name == "given labels")
    assert outcome.status == "ok"
    assert set(np.unique(outcome.labels)) == {0, 1}
    assert "given their labels" in found.line("given labels").no_likelihood


@pytest.mark.spec("I-03")
def test_the_target_of_a_table_is_made_and_learned_from() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 2))
    kind = np.where(X[:, 0] + 0.2 * rng.normal(size=500) > 0, "u", "v")
    data = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "kind": kind})
    models = {"mixture": benthic.GaussianMixture(4), "copier": ResampledRows()}
    found = benthic.compare(models, data, target="kind", task="generate", seeds=2, **QUIET)
    assert found.metrics[-1] == "tstr"
    assert list(found.samples("mixture").columns) == ["a", "b", "kind"]
    wrong = {line.name: line.scores["tstr"].value for line in found.lines}
    assert wrong["copier"] < 0.2  # Bayes' error is the angle between the signal and its noise over pi, 6 %
    assert found.floor["tstr"] < 0.2
    assert wrong["shuffled columns"] == pytest.approx(0.5, abs=0.2)  # coins
    assert wrong["mixture"] < wrong["shuffled columns"] - 0.15
    X, y = np.column_stack([X, X.sum(1)]), 3 * X[:, 0] + 1
    vae = benthic.VAE(2, hidden_layer_sizes=(16,), **QUICK)
    plain = benthic.compare({"mixture": benthic.GaussianMixture(4), "VAE": vae}, X, y, task="generate", **QUIET)
    assert plain.samples("mixture").shape == plain.real.shape == (75, 3)
    figure, missing = latent_maps(plain)
    assert figure is not None
    assert not missing
    assert plain.outcomes[0].labels == pytest.approx(3 * plain.samples("mixture")[:, 0] + 1, abs=0.2)
    missed = {line.name: line.scores["tstr"].value for line in plain.lines}  # shares of the variance
    assert missed["mixture"] == pytest.approx(plain.floor["tstr"], abs=0.1)
    assert missed["shuffled columns"] > 0.8
    with pytest.raises(InvalidInput, match="'tstr' needs a table with a target"):
        benthic.compare(models, X, metrics="tstr", **QUIET)


def test_gaps_are_taken_or_filled_and_whole_rows_judge() -> None:
    rng = np.random.default_rng(0)
    data = frame(300)
    data["income"] = np.where(rng.random(300) < 0.2, np.nan, data["income"])
    data["city"] = data["city"].where(rng.random(300) > 0.1, None)
    seen: dict[str, Any] = {}

    class Noted(OneGaussian):
        def fit(self, X: Any, y: Any = None) -> Any:
            seen["rows"] = X
            return super().fit(X)

    found = benthic.compare({"taking": benthic.GaussianMixture(2), "noted": Noted()}, data, seeds=1, **QUIET)
    assert [line.status for line in found.lines] == ["ok"] * len(found.lines)
    assert not np.isnan(seen["rows"]).any()
    assert not found.real.isna().any().any()
    assert "taking, Gaussian mixture took them as they are, other models were fitted on rows" in found.verdict[-1]
    few = np.where(rng.random((90, 8)) < 0.3, np.nan, rng.normal(size=(90, 8)))
    again = benthic.compare({"taking": benthic.GaussianMixture(1)}, few, seeds=1, **QUIET)
    assert again.line("taking").ranked
    assert again.verdict[-1].endswith("so were the rows to judge, too few being whole.")


def test_names_bring_settings_that_suit_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}

    def stop(self: Any, contestants: Any, *rest: Any) -> Any:
        seen.update({one.name: one.model for one in contestants})
        raise KeyboardInterrupt

    monkeypatch.setattr(comparing._Contest, "run", stop)
    with pytest.raises(KeyboardInterrupt):
        benthic.compare(None, "digits", task="generate", **QUIET)
    assert list(seen)[:6] == ["GaussianMixture", "VAE", "WGAN", "NormalizingFlow", "DDPM", "PoissonFlow"]
    assert seen["NormalizingFlow"].levels == 17
    assert {"shuffled columns", "one Gaussian"} <= set(seen)
    mine = benthic.NormalizingFlow("maf")
    with pytest.raises(KeyboardInterrupt):
        benthic.compare([mine], "digits", task="generate", **QUIET)
    assert seen["NormalizingFlow"] is mine


def test_parameters_and_evaluations_are_budgets_too() -> None:
    X = moons().sample(200, seed=0)
    rest = {**QUIET, "seeds": 1}
    rest.pop("budget")
    vae = benthic.VAE(2, hidden_layer_sizes=(16,))
    small = benthic.compare({"vae": vae}, X, budget={"evaluations": 2000}, **rest)
    assert small.line("vae").status == "ok"
    tight = benthic.compare({"vae": vae, "mixture": benthic.GaussianMixture(1)}, X, budget={"parameters": 40}, **rest)
    assert tight.line("vae").status == "out of budget"
    assert "parameters" in tight.line("vae").reason
    assert tight.line("mixture").ranked


def test_models_passed_by_name_are_made_as_large_as_the_budget_allows() -> None:
    rest = {**QUIET, "budget": {"parameters": 3000}, "seeds": 1}
    found = benthic.compare(["VAE", "WGAN"], moons().sample(100, seed=0), baselines=False, **rest)
    for name in ("VAE", "WGAN"):
        line = found.line(name)
        assert line.status == "ok"
        assert line.parameters is not None
        assert 2000 < line.parameters <= 3000


def test_if_nobody_is_done_in_time_it_says_so() -> None:
    found = benthic.compare(
        {"vae": benthic.VAE(2, **QUICK)}, moons().sample(200, seed=0), budget={"parameters": 5}, seeds=1, n_jobs=0,
        progress=False, baselines=False,
    )  # fmt: skip
    assert found.best is None
    assert "a larger budget is needed" in found.verdict[0]


class Far(OneGaussian):
    """Its samples are numbers, but no distance to them is."""

    def sample(self, n: int = 1, *, seed: Any = None) -> Any:
        return 1e200 * super().sample(n, seed=seed)


def test_samples_too_far_off_for_any_distance_are_not_finite() -> None:
    found = benthic.compare({"far": Far()}, moons().sample(200, seed=0), **QUIET)
    assert found.line("far").status == "not finite"
    assert any("far gave numbers that are not finite" in sentence for sentence in found.verdict)


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("")
    with pytest.raises(InvalidInput, match="is a file; name a folder"):
        benthic.compare([Never()], moons().sample(100, seed=0), folder=path, **QUIET)


def test_all_that_fails_is_still_a_table() -> None:
    found = benthic.compare({"a": Failing()}, moons().sample(200, seed=0), baselines=False, **QUIET)
    assert found.best is None
    assert str(found)
    assert json.loads(found.to_json())["best"] is None
    assert math.isnan(found.lines[0].quality)


@pytest.mark.spec("I-03")
def test_predictors_are_compared_by_the_same_call() -> None:
    models = ["GaussianNB", "LogisticRegression"]
    found = benthic.compare(models, "iris", seeds=1, metrics=["accuracy"], **QUIET)
    assert (found.task, found.data.name, found.data.target) == ("classify", "iris", "species")
    assert {line.name for line in found.lines} >= set(models)
    data = frame(120).assign(gap=np.where(np.arange(120) % 9, 1.0, np.nan))
    found = benthic.compare(["GradientBoostingClassifier"], data, target="member", seeds=1, **{**QUIET, "budget": 60})
    assert found.line("GradientBoostingClassifier").status == "ok"  # it takes missing values


def test_a_generator_is_tuned_before_it_takes_part(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(150, 2)) + 9 * k for k in range(3)])
    settings: dict[str, Any] = {**QUIET, "budget": 1, "tune": 3, "seeds": 1, "folder": tmp_path}
    found = benthic.compare({"tuned": benthic.GaussianMixture(1)}, X, **settings)
    assert found.settings["tune"] == 3
    assert "n_components=1)" not in found.settings["models"]["tuned"]
    assert found.line("tuned").quality < found.line("one Gaussian").quality
    again = benthic.compare({"tuned": benthic.GaussianMixture(1)}, X, **settings)
    assert math.isnan(again.overhead)  # neither searched nor fitted again
    assert again.settings["models"] == found.settings["models"]


# -- tasks -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("models", "y", "task"),
    [
        (None, None, "generate"),
        (None, np.arange(60) % 3, "classify"),
        (None, np.array(["a", "b"] * 30), "classify"),
        (None, np.linspace(0, 1, 60), "regress"),
        (["VAE", "WGAN"], np.arange(60) % 3, "generate"),
        (["KMeans"], None, "cluster"),
        (["SVC"], np.arange(60) % 3, "classify"),
    ],
)
def test_the_task_follows_labels_and_models(models: Any, y: Any, task: str) -> None:
    given = None if models is None else comparing.contestants_of(models)
    assert comparing._task(None, given, y) == task


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"models": [Never()], "X": np.zeros((49, 2))}, "there are 49 rows"),
        ({"models": ["SVC"], "X": np.zeros((60, 2))}, "to classify needs"),
        ({"models": [Never(), "SVC"], "task": "generate"}, "SVC cannot generate"),
        ({"models": [Never(), "ConditionalGAN"]}, "ConditionalGAN learns from labels"),
        ({"models": [Never()], "task": "classify"}, "to classify needs labels"),
        ({"models": [Never()], "task": "generat"}, "did you mean 'generate'"),
        ({"models": {"a": Never()}, "budget": "1ms"}, "budget is '1ms'"),
        ({"models": {"a": Never()}, "budget": 0.001}, "too small for any model"),
        ({"models": [Never(), Never()]}, "two models are called 'Never'"),
        ({"models": ["GAM"]}, "did you mean 'GAN'"),
        ({"models": [Never()], "metrics": ["fid"]}, "there is no metric 'fid'"),
        ({"models": [Never()], "features": nn.Linear(7, 3)}, "Linear does not take a batch of shape"),
        ({"models": [Never()], "fraction": 0.9}, "fraction is 0.9"),
        ({"models": [Never()], "seeds": 0}, "seeds is 0"),
        ({"models": [Never()], "X": frame().assign(note=[f"word {i}" for i in range(90)])}, "column 'note'"),
        (
            {"models": [Never()], "X": pd.DataFrame({"a": ["x y z"] * 60, "b": [f"text {i}" for i in range(60)]})},
            "text",
        ),
    ],
)
def test_bad_input_is_refused_before_any_fit(arguments: dict[str, Any], text: str) -> None:
    settings: dict[str, Any] = {"X": np.random.default_rng(0).normal(size=(80, 2)), **QUIET, **arguments}
    with pytest.raises(InvalidInput, match=text):
        benthic.compare(settings.pop("models"), settings.pop("X"), **settings)
