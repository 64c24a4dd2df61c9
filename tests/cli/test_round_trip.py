"""fit → show → predict → sample → evaluate, and what lies in the run folder."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

import benthic
from benthic.metrics import judge
from tests.cli.conftest import TINY, call

FILES = ("config.yaml", "metrics.jsonl", "model.safetensors", "report.html", "pictures/roc.png", "pictures/loss.png")


@pytest.fixture
def iris():
    from sklearn.datasets import load_iris

    return load_iris(return_X_y=True)


def test_a_run_folder_has_everything(iris_run):
    for name in FILES:
        assert (iris_run / name).stat().st_size > 0, name
    assert list((iris_run / "checkpoints").glob("step-*.safetensors"))
    config = yaml.safe_load((iris_run / "config.yaml").read_text())
    assert (config["model"], config["data"], config["target"]) == ("MLPClassifier", "iris", "species")
    assert config["params"]["trainer"]["steps"] == 40
    assert config["params"]["trainer"]["optimizer"] == "adam"  # defaults are resolved too
    assert config["params"]["random_state"] == config["seed"] == 0
    assert {"benthic", "torch", "numpy", "python", "scikit-learn"} <= set(config["versions"])


def test_show_tells_what_is_there(iris_run):
    facts = call("show", iris_run, "--json").ok().json
    assert facts["state"] == "finished"
    assert facts["config"]["model"] == "MLPClassifier"
    assert facts["last"]["step"] == 40
    assert facts["evaluation"]["split"] == "test"
    assert facts["evaluation"]["rows"] == 30
    assert set(FILES) <= set(facts["files"])
    assert "MLPClassifier" in facts["summary"]
    text = call("show", iris_run).ok().out
    assert all(word in text for word in ("finished", "trainer.lr", "accuracy", "model.safetensors"))
    alone = call("show", iris_run / "model.safetensors", "--json").ok().json
    assert alone["summary"] == facts["summary"]


def test_the_held_out_numbers_are_those_of_the_held_out_rows(iris_run, iris):
    X, y = iris
    model = benthic.load(iris_run / "model.safetensors")
    _, X_test, _, y_test = benthic.data.train_test(X, y, 0.2, stratify=True, seed=0)
    last = json.loads((iris_run / "metrics.jsonl").read_text().splitlines()[-1])
    expected = judge(model, X_test, y_test)
    assert {key: last[key] for key in expected} == pytest.approx(expected)


def test_predict_writes_what_the_model_says(iris_run, iris):
    X, _ = iris
    model = benthic.load(iris_run / "model.safetensors")
    printed = call("predict", iris_run, "iris").ok().out.split()
    assert printed[0] == '"prediction"'
    assert [int(value) for value in printed[1:]] == model.predict(X).tolist()
    call("predict", iris_run / "model.safetensors", "iris", "--out", "p.npy").ok()
    assert np.load("p.npy").tolist() == model.predict(X).tolist()
    call("predict", iris_run, "iris", "--proba", "--out", "p.parquet").ok()
    table = pq.read_table("p.parquet")
    assert table.column_names == ["p(0)", "p(1)", "p(2)"]
    np.testing.assert_array_equal(np.column_stack(table.columns), model.predict_proba(X))
    call("predict", iris_run, "iris", "--proba", "--out", "p.csv").ok()
    np.testing.assert_allclose(pd.read_csv("p.csv").to_numpy().sum(1), 1.0)
    wrong = call("predict", iris_run, "iris", "--out", "p.xlsx")
    assert (wrong.code, ".parquet" in wrong.err) == (2, True)


def test_evaluate_is_judge(iris_run, iris):
    X, y = iris
    found = call("evaluate", iris_run, "iris", "--json").ok().json
    expected = judge(benthic.load(iris_run / "model.safetensors"), X, y)
    assert found["rows"] == 150
    for name, numbers in found["metrics"].items():
        assert numbers["value"] == pytest.approx(expected[name])
        assert numbers["stderr"] == pytest.approx(expected[f"{name}_stderr"])
    assert "accuracy" in call("evaluate", iris_run, "iris").ok().out


def test_a_table_comes_back_as_the_same_table(pets_run, pets):
    before = pq.read_table(pets).drop_columns(["note", "price"])  # text is not learned, price was dropped
    call("sample", pets_run, "-n", 50, "--seed", 3, "--out", "drawn.parquet").ok()
    drawn = pq.read_table("drawn.parquet")
    assert drawn.schema.remove_metadata().equals(before.schema.remove_metadata())
    assert drawn.num_rows == 50
    kind = drawn.column("kind").combine_chunks()
    assert isinstance(kind, pa.DictionaryArray)
    assert kind.dictionary.to_pylist() == ["dog", "cat", "bird"]
    call("sample", pets_run, "-n", 50, "--seed", 3, "--out", "drawn.csv").ok()
    back = pd.read_csv("drawn.csv", parse_dates=["born"])
    assert back["kind"].tolist() == drawn.column("kind").to_pylist()
    assert back["age"].tolist() == drawn.column("age").to_pylist()
    assert back["born"].tolist() == drawn.column("born").to_pylist()


def test_the_seed_decides_the_draw(pets_run):
    first, again, other = (call("sample", pets_run, "-n", 5, "--seed", seed).ok().out for seed in (1, 1, 2))
    assert first == again != other
    refused = call("sample", pets_run, "--out", "x.npy")
    assert (refused.code, "'kind'" in refused.err) == (1, True)


def test_samples_of_arrays_have_the_columns_of_the_data():
    settings = ("--set", "latent_dim=2", "--set", "hidden_layer_sizes=8", *TINY)
    call("fit", "VAE", "iris", *settings, "--out", "run").ok()
    header = call("sample", "run", "-n", 2).ok().out.splitlines()[0]
    assert header.replace('"', "").split(",") == list(benthic.data.load("iris").feature_names)
    call("sample", "run", "-n", 4, "--out", "x.npy").ok()
    assert np.load("x.npy").shape == (4, 4)
    shown = call("evaluate", "run", "iris", "--json").ok().json["metrics"]["log_likelihood"]
    assert (shown["kind"], shown["bound"]) == ("importance(64)", "lower")
    refused = call("predict", "run", "iris")
    assert refused.code == 2
    assert "MLPClassifier" in refused.err


def test_a_table_predicts_with_and_without_its_target(pets):
    csv = pets.with_suffix(".csv")
    call("fit", "MLPRegressor", csv, "--target", "price", "--drop", "note", *TINY, "--out", "run").ok()
    config = yaml.safe_load(Path("run/config.yaml").read_text())
    assert (config["target"], config["drop"]) == ("price", ["note"])
    with_target = call("predict", "run", csv).ok().out
    pd.read_csv(csv).drop(columns="price").sample(frac=1, axis=1, random_state=0).to_csv("new.csv", index=False)
    assert call("predict", "run", "new.csv").ok().out == with_target  # columns are found by name
    assert call("evaluate", "run", csv, "--json").ok().json["rows"] == 120
    missing = call("evaluate", "run", "new.csv")
    assert (missing.code, "'price'" in missing.err) == (1, True)
    pd.read_csv(csv).drop(columns="weight").to_csv("less.csv", index=False)
    missing = call("predict", "run", "less.csv")
    assert (missing.code, "'weight'" in missing.err) == (1, True)


def test_an_array_file_has_its_target_by_number(iris):
    X, y = iris
    np.save("both.npy", np.column_stack([X, y]))
    np.save("alone.npy", X)
    call("fit", "MLPClassifier", "both.npy", "--target", "-1", *TINY, "--out", "run").ok()
    assert call("predict", "run", "both.npy").ok().out == call("predict", "run", "alone.npy").ok().out
    assert call("evaluate", "run", "both.npy", "--json").ok().json["metrics"]["accuracy"]["value"] > 0.8


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_streamed_file_is_fitted_as_well(pets, ending):
    path = pets.with_suffix(f".{ending}")
    fit = call("fit", "MLPRegressor", path, "--target", "price", "--stream", *TINY, "--out", "run", "--json").ok()
    assert fit.json["split"] == "train"
    assert yaml.safe_load(Path("run/config.yaml").read_text())["stream"] is True
    assert call("evaluate", "run", path, "--json").ok().json["metrics"]["r2"]["value"] > 0.8
    refused = call("fit", "MLPRegressor", path, "--target", "price", "--stream", "--test-fraction", "0.5")
    assert refused.code == 2


def test_settings_reach_the_model():
    words = ("--set", "hidden_layer_sizes=(7, 5)", "--set", "activation=tanh", "--set", "trainer__batch_size=16")
    call("fit", "MLPClassifier", "iris", *words, *TINY, "--out", "run").ok()
    model = benthic.load("run/model.safetensors")
    assert [layer.out_features for layer in model.network_.modules() if hasattr(layer, "out_features")] == [7, 5, 3]
    assert model.activation == "tanh"
    assert benthic.Trainer.of(model.trainer).batch_size == 16


def test_a_seed_is_chosen_recorded_and_enough():
    fit = ("fit", "MLPClassifier", "iris", "--set", "trainer.steps=20")
    first = call(*fit, "--json").ok().json["run"]
    second = call(*fit, "--json").ok().json["run"]
    assert (first, second) == ("runs/MLPClassifier-iris-1", "runs/MLPClassifier-iris-2")
    seeds = [
        yaml.safe_load(Path(f"{run}/config.yaml").read_text())["params"]["random_state"] for run in (first, second)
    ]
    assert seeds[0] != seeds[1]
    call(*fit, "--set", f"random_state={seeds[0]}", "--out", "again").ok()
    assert Path("again/model.safetensors").read_bytes() == Path(f"{first}/model.safetensors").read_bytes()


def test_a_run_is_never_overwritten(iris_run):
    before = (iris_run / "model.safetensors").read_bytes()
    answer = call("fit", "MLPClassifier", "iris", *TINY, "--out", iris_run)
    assert (answer.code, "benthic resume" in answer.err) == (2, True)
    assert (iris_run / "model.safetensors").read_bytes() == before


@pytest.mark.parametrize("run", ["iris_run", "pets_run"])
def test_the_report_is_one_file(run, request):
    folder = request.getfixturevalue(run)
    page = (folder / "report.html").read_text()
    assert not re.search(r"""(src|href)\s*=\s*["'](?!data:)""", page)  # nothing is loaded from elsewhere
    assert "@import" not in page
    assert page.count("data:image/png;base64,") == len(list((folder / "pictures").glob("*.png")))
    assert "prefers-color-scheme: dark" in page
    assert "±" in page


def test_names_of_columns_cannot_break_the_report():
    X = np.random.default_rng(0).normal(size=(60, 2))
    pd.DataFrame(X, columns=["<script>alert(1)</script>", 'a"b']).to_csv("odd.csv", index=False)
    call("fit", "MLPRegressor", "odd.csv", "--target", 'a"b', *TINY, "--out", "run").ok()
    assert "<script>" not in Path("run/report.html").read_text()
