"""``benthic compare``: what it asks for, what it prints, what it keeps, and how it goes on."""

from __future__ import annotations

import csv
import json
import signal
import time

import numpy as np
import pytest

from benthic.cli import contest
from benthic.cli.failure import Usage
from benthic.cli.inputs import open_data
from tests.cli.conftest import begin, call

QUICK = ("--seeds", "2", "--budget", "5s", "--jobs", "0")


@pytest.fixture(scope="module")
def moons(tmp_path_factory):
    """A finished comparison of two models of the plane, asked for as JSON."""
    folder = tmp_path_factory.mktemp("moons") / "found"
    return folder, call("compare", "moons", "GaussianMixture", "PCA", *QUICK, "--out", folder, "--json").ok()


@pytest.mark.spec("I-03")
def test_the_folder_holds_fits_tables_and_a_report_that_agree(moons):
    folder, answer = moons
    found = answer.json
    names = [line["name"] for line in found["lines"]]
    assert {"GaussianMixture", "PCA", "shuffled columns", "one Gaussian"} <= set(names)
    assert found["best"] == "GaussianMixture"  # a Gaussian cannot bend
    assert (found["data"]["name"], found["task"], found["budget"]) == (
        "moons",
        "generate",
        {"kind": "seconds", "amount": 5.0},
    )
    kept = json.loads((folder / "comparison.json").read_text())
    assert kept["lines"] == found["lines"]
    rows = list(csv.DictReader((folder / "table.csv").open()))
    assert [row["name"] for row in rows] == names
    assert [float(row["quality"]) for row in rows] == [line["quality"] for line in found["lines"]]
    page = (folder / "report.html").read_text()
    markdown = (folder / "table.md").read_text()
    assert all(name in page and name in markdown for name in names)
    assert all(sentence in markdown for sentence in found["verdict"])
    assert page.count("data:image/png;base64,") >= 6
    assert len(list((folder / "fits").glob("*/outcome.json"))) == 2 * len(names)


def test_the_same_command_goes_on_from_the_fits_that_are_there(moons):
    folder, first = moons
    fits = {path: path.stat().st_mtime_ns for path in folder.glob("fits/*/outcome.json")}
    gone = sorted(fits)[0]
    gone.unlink()
    again = call("compare", "moons", "GaussianMixture", "PCA", *QUICK, "--out", folder)
    assert again.ok().err.count("kept from an earlier run") == len(fits) - 1
    now = {path: path.stat().st_mtime_ns for path in folder.glob("fits/*/outcome.json")}
    assert {path: at for path, at in now.items() if path != gone} == {p: at for p, at in fits.items() if p != gone}
    lines = again.out.splitlines()
    assert lines[0].startswith("generate on moons: 2000 rows; 5 s a fit, 2 seeds")
    assert all(sentence in again.out for sentence in first.json["verdict"][:1])
    assert str(folder / "report.html") in lines[-1]


def test_a_table_with_a_target_is_predicted_and_the_folder_has_a_name(pets, tmp_path):
    words = ("GaussianNB", "DecisionTreeClassifier", "--target", "kind", "--drop", "note", "--drop", "born")
    answer = call("compare", pets, *words, "--seeds", "1", "--jobs", "0", "--json").ok()
    found = answer.json
    assert found["task"] == "classify"
    assert found["data"]["target"] == "kind"
    assert found["folder"] == "runs/compare-pets"
    scores = {line["name"]: line["scores"]["accuracy"]["value"] for line in found["lines"]}
    assert scores["DecisionTreeClassifier"] > 0.6 > scores["dummy"]
    assert "pets.parquet" in (tmp_path / "runs" / "compare-pets" / "report.html").read_text()


def test_settings_reach_the_models(tmp_path):
    words = ("--set", "GaussianMixture.n_components=3", "--set", "PCA.n_components=1", "--seeds", "1", "--jobs", "0")
    found = call("compare", "iris", "GaussianMixture", "PCA", *words, "--out", "here", "--json").ok().json
    models = found["settings"]["models"]
    assert "n_components=3" in models["GaussianMixture"]
    assert "n_components=1" in models["PCA"]


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("iris", "VEA"), "'VAE'"),
        (("irirs", "VAE"), "'iris'"),
        (("iris", "VAE", "VAE"), "twice"),
        (("iris", "--budget", "soon"), "'10m'"),
        (("iris", "--budget", "0s"), "'30s'"),
        (("iris", "--budget", "parameter=5"), "'parameters'"),
        (("iris", "--budget", "parameters=many"), "parameters=100000"),
        (("iris", "--task", "clasify"), "'classify'"),
        (("swiss_roll", "--task", "regress"), "--target"),
        (("iris", "--seeds", "0"), "--seeds"),
        (("iris", "--set", "VAE.latent_dim=3"), "named"),
        (("iris", "VAE", "--set", "VEA.latent_dim=3"), "'VAE'"),
        (("iris", "VAE", "--set", "VAE.latent=3"), "'latent_dim'"),
        (("iris", "VAE", "--set", "VAE=3"), "MODEL.KEY=VALUE"),
        (("iris", "VAE", "--set", "VAE.epochs=3"), "trainer.epochs"),
        (("iris", "--metric", "frechet"), "'--metrics'"),
        ((), "DATA"),
    ],
)
def test_what_is_asked_wrongly_is_said_before_anything_happens(words, hint, tmp_path):
    answer = call("compare", *words)
    assert (answer.code, answer.out) == (2, "")
    assert hint in answer.err
    assert len(answer.err.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("iris", "LogisticRegression"), "cannot generate"),
        (("iris", "VAE", "--task", "classify"), "cannot classify"),
        (("iris", "GaussianMixture", "--metrics", "frechet,covrage"), "'coverage'"),
        (("iris", "GaussianMixture", "--features", "classifer"), "'classifier'"),
        (("iris", "VAE", "--budget", "0.001s"), "too small"),
        (("few.csv", "GaussianMixture"), "at least 50"),
        (("endless.csv", "GaussianMixture"), "'b'"),
    ],
)
def test_what_cannot_be_compared_is_said_in_one_line_before_any_fit(words, hint, tmp_path):
    (tmp_path / "few.csv").write_text("a,b\n" + "1,2\n" * 9)
    (tmp_path / "endless.csv").write_text("a,b\n" + "1,2\n3,inf\n" * 40)
    answer = call("compare", *words)
    assert answer.code in (1, 2)
    assert hint in answer.err
    assert len(answer.err.strip().splitlines()) == 1
    assert not (tmp_path / "runs").exists()


def test_a_file_is_not_a_folder(tmp_path):
    (tmp_path / "taken").write_text("")
    assert "is a file" in call("compare", "iris", "GaussianMixture", "--out", "taken").err
    (tmp_path / "letters.txt").write_text("to be or not to be\n" * 60)
    assert "lines of text" in call("compare", "letters.txt").err


def test_pixels_become_pictures_and_their_columns_no_numbers():
    digits = contest.as_pictures(open_data("digits"))
    assert digits.X.shape == (1797, 1, 8, 8)
    assert np.array_equal(digits.X.reshape(1797, 64), open_data("digits").X)
    assert contest.as_pictures(open_data("iris")).X.shape == (150, 4)


def test_a_narrow_terminal_gets_no_single_metrics(monkeypatch):
    columns, rows = ["rank", "model", "energy", "note"], [["1", "VAE", "0.1 ± 0.2", ""]]
    assert contest._narrowed(columns, rows, ("energy",)) == (columns, rows)  # no terminal
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "200")
    assert contest._narrowed(columns, rows, ("energy",)) == (columns, rows)
    monkeypatch.setenv("COLUMNS", "20")
    assert contest._narrowed(columns, rows, ("energy",)) == (["rank", "model", "note"], [["1", "VAE", ""]])


def test_labels_belong_to_the_rows_that_were_held_out():
    """The classes of held-out rows, found again by their values."""
    import benthic

    iris = open_data("iris")
    found = benthic.compare(["GaussianMixture"], iris.X, iris.y, task="generate", seeds=1, n_jobs=0, progress=False)
    labels = contest.held_labels(found, iris)
    for row, label in zip(np.asarray(found.real), labels, strict=True):
        assert label in {iris.classes[y] for x, y in zip(iris.X, iris.y, strict=True) if np.array_equal(x, row)}


def test_budgets_in_words():
    assert str(contest.budget_of("90s")) == "90 s a fit"
    assert str(contest.budget_of("evaluations=1e6")) == "1,000,000 evaluations a fit"
    with pytest.raises(Usage, match="--budget minutes=3"):
        contest.budget_of("minutes=3")


def test_stopped_it_says_where_the_fits_are(monkeypatch):
    def stopped(*_args, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr("benthic.leaderboard.contest.comparing.compare", stopped)
    answer = call("compare", "iris", "GaussianMixture", "--out", "here")
    assert answer.code == 130
    assert "kept in here" in answer.err and "the same command goes on" in answer.err


@pytest.mark.slow
def test_stopped_by_ctrl_c_it_leaves_no_process_and_no_traceback(tmp_path):
    running = begin("compare", "moons", "VAE", "--budget", "40s", "--seeds", "1", "--out", "here", folder=tmp_path)
    waited = time.monotonic()
    while not list(tmp_path.glob("here/fits")) and time.monotonic() - waited < 60:
        time.sleep(0.1)
    time.sleep(1.5)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert (running.returncode, out) == (130, "")
    assert "goes on from there" in err.splitlines()[-1]
    assert "Traceback" not in err
