"""``benthic.compare`` from end to end: what it finds and keeps, budgets, tasks, and what it refuses before any fit."""

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
from sklearn.mixture import GaussianMixture as TheirMixture
from torch import nn

import benthic
from benthic.base.errors import Interrupted, InvalidInput
from benthic.data.toys import moons
from benthic.leaderboard.contest import comparing
from benthic.leaderboard.contest.baselines import OneGaussian, ResampledRows
from benthic.leaderboard.contest.results import Comparison
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
