"""Conditions on the command line: learned from a column, kept in the run, drawn and judged given them."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

import benthic
from benthic.cli.failure import Usage
from benthic.cli.inputs import open_data, split
from benthic.cli.wishes import label_of, vector_of
from tests.cli.conftest import call

SMALL = ("--set", "trainer.steps=200", "--set", "trainer.lr=0.01", "--set", "random_state=0")
DENSE = ("--set", "hidden=16", "--set", "depth=1", "--set", "steps=10")


@pytest.fixture(scope="session")
def sides(tmp_path_factory) -> Path:
    """Points left and right; which side is a word, a number from a short list, and a number with fractions."""
    rng = np.random.default_rng(0)
    right = rng.random(200) < 0.5
    points = rng.normal(size=(200, 3)) + np.where(right, 8.0, -8.0)[:, None]
    frame = pd.DataFrame(points, columns=["a", "b", "c"])
    frame["side"], frame["code"] = np.where(right, "right", "left"), np.where(right, 5, 3)
    frame["far"] = np.where(right, 8.0, -8.0) + rng.normal(size=200)
    path = tmp_path_factory.mktemp("sides") / "sides.csv"
    frame.to_csv(path, index=False)
    return path


def drop(*names: str) -> tuple[str, ...]:
    return tuple(word for name in names for word in ("--drop", name))


@pytest.fixture(scope="session")
def coded_run(tmp_path_factory, sides) -> Path:
    """A diffusion model told labels 3 and 5."""
    folder = tmp_path_factory.mktemp("coded") / "run"
    every = ("--set", "trainer.checkpoint.every_steps=50")
    call("fit", "DDPM", sides, "--given", "code", *drop("side", "far"), *SMALL, *DENSE, *every, "--out", folder).ok()
    return folder


@pytest.fixture(scope="session")
def vector_run(tmp_path_factory, sides) -> Path:
    """A flow told two numbers, which it needs."""
    folder = tmp_path_factory.mktemp("vector") / "run"
    words = ("--set", "transforms=2", "--set", "hidden_layer_sizes=16", *SMALL)
    call(
        "fit",
        "NormalizingFlow",
        sides,
        "--given",
        "far",
        "--given",
        "c",
        *drop("side", "code"),
        *words,
        "--out",
        folder,
    )
    return folder


def drawn(*words, beside=()) -> np.ndarray:
    """Examples of a run; beside: the columns that say what each was given."""
    call("sample", *words, "--out", "drawn.csv").ok()
    found = pd.read_csv("drawn.csv")
    told = found.columns[len(found.columns) - len(beside) :]
    assert [*told] == [*beside]
    return found.drop(columns=told).to_numpy()


def test_a_label_is_learned_and_drawn(coded_run, tmp_path):
    model = benthic.load(coded_run / "model.safetensors")
    assert model.condition_.classes == (3, 5)
    left, right = (drawn(coded_run, "-n", 40, "--given", word, beside=["code"]) for word in (3, "5.0"))
    assert left.mean() < -4 < 4 < right.mean()
    both = drawn(coded_run, "-n", 5, "--seed", 1, "--given", 3, "--given", 5, beside=["code"])
    assert pd.read_csv("drawn.csv")["code"].tolist() == [3, 5, 3, 5, 3]
    np.testing.assert_allclose(both, model.sample(5, given=[3, 5, 3, 5, 3], seed=1), rtol=1e-6)
    shutil.copy(coded_run / "model.safetensors", "bare.safetensors")  # without its folder, the name is not known
    assert drawn("bare.safetensors", "-n", 6, "--given", 3, beside=["given"]).mean() < 0
    assert np.ptp(drawn(coded_run, "-n", 40).mean(1)) > 8  # both, where nothing is given


def test_the_condition_is_kept_in_the_run(coded_run, vector_run):
    config = yaml.safe_load((coded_run / "config.yaml").read_text())
    assert (config["given"], config["target"], config["params"]["condition"]) == (["code"], "code", "labels")
    config = yaml.safe_load((vector_run / "config.yaml").read_text())
    assert (config["given"], config["target"], config["params"]["condition"]) == (["far", "c"], None, "vectors")
    assert "given code" in (coded_run / "report.html").read_text()
    shown = call("show", coded_run, "--json").ok().json
    assert (shown["config"]["given"], shown["evaluation"]["given"]) == (["code"], "code")
    assert "given" in call("show", vector_run).ok().out


@pytest.mark.parametrize("run", ["coded_run", "vector_run"])
def test_a_run_goes_on_with_its_condition(run, request, tmp_path, monkeypatch):
    monkeypatch.setattr("benthic.cli.job.judgeable", lambda model: False)
    monkeypatch.setattr("benthic.cli.figures.pictures_of", lambda model, rows: [])
    whole = request.getfixturevalue(run)
    shutil.copytree(whole, tmp_path / "cut")
    for name in ("report.html", "model.safetensors"):
        (tmp_path / "cut" / name).unlink()
    steps = sorted((tmp_path / "cut/checkpoints").glob("step-*.safetensors"))
    assert run == "vector_run" or len(steps) > 1
    for newest in steps[1:]:
        newest.unlink()  # so that something is left to learn
    (tmp_path / "bare").mkdir()
    shutil.copy(whole / "config.yaml", tmp_path / "bare")
    for folder in ("cut", "bare"):
        call("resume", folder).ok()
        assert (tmp_path / folder / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()


def test_a_model_is_judged_given_the_condition(coded_run, sides):
    model, frame = benthic.load(coded_run / "model.safetensors"), pd.read_csv(sides)
    found = call("evaluate", coded_run, sides, "--json").ok().json
    X = frame[["a", "b", "c"]]
    assert found["given"] == ["code"]
    told = model.likelihood(X, given=frame["code"].to_numpy()).value.mean()
    assert found["metrics"]["log_likelihood"]["value"] == pytest.approx(told, rel=1e-5)
    X.to_csv("bare.csv", index=False)
    bare = call("evaluate", coded_run, "bare.csv", "--json").ok().json
    assert bare["given"] == []
    assert bare["metrics"]["log_likelihood"]["value"] == pytest.approx(model.likelihood(X).value.mean(), rel=1e-5)
    assert "whatever code may be" in call("evaluate", coded_run, "bare.csv").ok().out
    frame.rename(columns={"code": "number"}).to_csv("other.csv", index=False)
    assert call("evaluate", coded_run, "other.csv", "--given", "number", "--json").ok().json["given"] == ["number"]
    wrong = call("evaluate", coded_run, "bare.csv", "--given", "number")
    assert (wrong.code, "no column number" in wrong.err) == (2, True)


def test_numbers_are_drawn_given_numbers(vector_run, sides):
    low, high = drawn(vector_run, "-n", 30, "--given", "-8,-8"), drawn(vector_run, "-n", 30, "--given", "8, 8")
    assert low.mean() < high.mean() - 4
    found = call("evaluate", vector_run, sides, "--json").ok().json
    assert found["given"] == ["far", "c"]
    pd.read_csv(sides)[["a", "b"]].to_csv("bare.csv", index=False)
    lacking = call("evaluate", vector_run, "bare.csv")
    assert (lacking.code, "far, c" in lacking.err) == (2, True)


def test_a_bundled_set_has_its_target_and_the_names_of_its_classes(tmp_path):
    call("fit", "NormalizingFlow", "iris", "--given", "species", *SMALL, "--set", "transforms=1", "--out", "run").ok()
    model = benthic.load("run/model.safetensors")
    assert (model.condition, model.condition_.classes) == ("labels", (0, 1, 2))
    expected = model.sample(3, given=2, seed=0)
    for word in ("virginica", "2"):
        found = drawn("run", "-n", 3, "--seed", 0, "--given", word, beside=["species"])
        np.testing.assert_allclose(found, expected)
    wrong = call("sample", "run", "--given", "virginia")
    assert (wrong.code, "did you mean 'virginica'" in wrong.err) == (2, True)
    call(
        "fit", "NormalizingFlow", "iris", "--set", "condition=labels", *SMALL, "--set", "transforms=1", "--out", "said"
    )
    assert Path("said/model.safetensors").read_bytes() == Path("run/model.safetensors").read_bytes()


def test_the_data_say_what_the_condition_is(sides):
    quick = ("--set", "latent_dim=2", "--set", "hidden_layer_sizes=8", "--set", "trainer.steps=5", "--json")
    rest = (*drop("side", "code"), *quick)
    found = call("fit", "ConditionalVAE", sides, "--given", "far", *rest, "--out", "numbers").ok().json
    assert (found["given"], list(found["metrics"])) == (["far"], ["log_likelihood"])
    found = call("fit", "ConditionalVAE", sides, "--given", "side", *drop("far", "code"), *quick, "--out", "words").ok()
    assert (found.json["given"], "accuracy" in found.json["metrics"]) == ([], True)  # judged by its answers
    assert benthic.load("numbers/model.safetensors").condition_.kind == "vectors"
    assert benthic.load("words/model.safetensors").condition_.classes == ("left", "right")


def test_a_model_of_codes_says_that_the_condition_plays_no_part(sides):
    parts = ("--set", "autoencoder.trainer.steps=5", "--set", "autoencoder.latent_dim=2")
    parts += ("--set", "diffusion.trainer.steps=5", "--set", "diffusion.steps=5")
    fit = call("fit", "LatentDiffusion", sides, "--given", "side", *drop("far", "code"), *parts, "--out", "run").ok()
    assert "side plays no part" in fit.out
    assert benthic.load("run/model.safetensors").condition_.classes == ("left", "right")
    assert drawn("run", "-n", 4, "--given", "left", beside=["side"]).shape == (4, 3)


def test_a_streamed_column_is_a_condition(sides):
    words = (*drop("side", "code"), "--set", "trainer.steps=5", *DENSE, "--stream")
    call("fit", "DDPM", sides, "--given", "far", *words, "--out", "run").ok()
    assert benthic.load("run/model.safetensors").condition_.kind == "vectors"
    several = call("fit", "DDPM", sides, "--given", "far", "--given", "a", *words, "--out", "other")
    assert (several.code, "--no-stream" in several.err) == (2, True)


def test_folders_are_labels_too(monkeypatch):
    from PIL import Image

    rng = np.random.default_rng(0)
    for name, level in (("dark", 20), ("light", 220)):
        Path("set", name).mkdir(parents=True)
        for i in range(12):
            picture = (level + rng.integers(0, 9, (8, 8))).astype(np.uint8)
            Image.fromarray(picture).save(f"set/{name}/{i}.png")
    words = ("--set", "latent_dim=2", "--set", "hidden_layer_sizes=8", "--set", "trainer.steps=60", *SMALL[2:])
    call("fit", "ConditionalVAE", "set", "--given", "class", *words, "--out", "run").ok()
    for name in ("dark", "light"):
        call("sample", "run", "-n", 9, "--given", name, "--out", f"{name}.npy").ok()
    assert np.load("light.npy").shape == (9, 1, 8, 8)
    assert np.load("light.npy").mean() > np.load("dark.npy").mean() + 0.3
    monkeypatch.setattr("benthic.cli.job.judgeable", lambda model: False)
    monkeypatch.setattr("benthic.cli.figures.pictures_of", lambda model, rows: [])
    Path("bare").mkdir()
    shutil.copy("run/config.yaml", "bare")
    call("resume", "bare").ok()
    assert Path("bare/model.safetensors").read_bytes() == Path("run/model.safetensors").read_bytes()


def test_a_label_that_one_row_has_is_learned(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(40, 2)), columns=["a", "b"])
    frame["label"] = ["rare", *["common"] * 39]
    frame.to_csv("rare.csv", index=False)
    rows = open_data("rare.csv", "label")
    lost = [seed for seed in range(20) if "rare" in split(rows, 0.2, seed, labels=True)[1].y]
    assert lost  # a plain split would judge what was never learned
    for seed in lost:
        fit, held = split(rows, 0.2, seed, labels=True, every=True)
        assert "rare" in fit.y and held is not None and set(held.y) == {"common"}
        assert fit.rows + held.rows == 40


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("VAE", "--given", "side"), "ConditionalVAE, ConditionalGAN"),
        (("DDPM", "--given", "sde"), "'side'"),
        (("DDPM", "--given", "side", "--target", "far"), "leave out --target"),
        (("DDPM", "--given", "side", "--set", "condition=none"), "leave one of them out"),
        (("DDPM", "--given", "far", "--given", "far"), "twice"),
        (("DDPM", "--given", "far", "--given", "side"), "'side'"),
        (("ConditionalGAN", "--given", "far"), "NormalizingFlow"),
        (("ConditionalGAN", "--given", "far", "--given", "a"), "one column"),
        (("NormalizingFlow", "--set", "condition=labels"), "--given COL"),
    ],
)
def test_a_condition_that_cannot_be_learned(words, hint, sides, tmp_path):
    answer = call("fit", words[0], sides, *words[1:])
    assert answer.code in (1, 2)
    assert hint in answer.err
    assert len(answer.err.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("run", "given", "hint"),
    [
        ("coded_run", ("4",), "it has 3, 5"),
        ("coded_run", ("left",), "it has 3, 5"),
        ("coded_run", ("3", "5", "3"), "at least -n 3"),
        ("vector_run", (), "only given far, c; say it with --given 0.5,1.5"),
        ("vector_run", ("1",), "2 numbers, not 1"),
        ("vector_run", ("1,x",), "2 numbers"),
        ("vector_run", ("1,nan",), "2 numbers"),
        ("pets_run", ("cat",), "DDPM"),
    ],
)
def test_a_condition_that_cannot_be_drawn(run, given, hint, request):
    words = [word for text in given for word in ("--given", text)]
    answer = call("sample", request.getfixturevalue(run), "-n", 2, *words)
    assert (answer.code, answer.out) == (2, "")
    assert hint in answer.err


def test_a_model_fitted_without_a_condition_says_so():
    X = np.random.default_rng(0).normal(size=(20, 2))
    benthic.DDPM(hidden=8, depth=1, trainer={"steps": 1}).fit(X).save("plain.safetensors")
    verbs = (("sample", "plain.safetensors"), ("evaluate", "plain.safetensors", "moons"))
    for command in ((*verb, "--given", "1") for verb in verbs):
        answer = call(*command)
        assert (answer.code, "fitted without a condition" in answer.err) == (2, True)


@pytest.mark.parametrize(
    ("text", "classes", "names", "label"),
    [
        ("3", (2, 3), (), 3),
        ("3.0", (2, 3), (), 3),
        ("3", ("2", "3"), (), "3"),
        ("3", (2.0, 3.0), (), 3.0),
        ("-1", (-1, 1), (), -1),
        ("true", (False, True), (), True),
        ("0", (False, True), (), False),
        ("benign", (0, 1), ("malignant", "benign"), 1),
        ("1", (0, 1), ("1", "0"), 1),  # the label itself comes before a name
        ("a,b", ("a,b", "c"), (), "a,b"),
    ],
)
def test_words_become_labels_of_the_right_type(text, classes, names, label):
    found = label_of(text, classes, names)
    assert (found, type(found)) == (label, type(label))


def test_words_that_are_no_label():
    with pytest.raises(Usage, match="it has 2, 3"):
        label_of("4", (2, 3))
    with pytest.raises(Usage, match="'nan'"):
        label_of("nan", (2.0, 3.0))
    assert vector_of("1e-3,-2", 2) == [1e-3, -2.0]


def test_data_without_a_density_are_fitted_all_the_same(pets):
    words = (*drop("born", "note", "price"), "--set", "trainer.steps=2", *DENSE)
    answer = call("fit", "DDPM", pets, "--given", "wild", *words, "--out", "run").ok()
    assert "not judged" in answer.err
    assert "categories have no density" in Path("run/report.html").read_text()
    assert call("sample", "run", "-n", 2, "--given", "false").ok().out.count("\n") == 3
