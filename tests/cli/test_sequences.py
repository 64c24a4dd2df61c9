"""Text and sequences on the command line."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest

from tests.cli.conftest import call

TEXT = (
    "the cat sat on the mat\nbanks sold shares of the market\na cat and a dog sat\nthe market fell as banks sold\n" * 6
)


@pytest.fixture
def steps(tmp_path):
    X = np.cumsum(np.random.default_rng(0).normal(size=(20, 12, 2)), axis=1)
    np.savez(tmp_path / "steps.npz", X=X)
    np.savez(tmp_path / "labels.npz", X=X, y=(X[:, :, 0] > 0).astype(int))
    names = ",".join(f"t{i}" for i in range(12))
    np.savetxt(tmp_path / "wide.csv", X[:, :, 0], delimiter=",", header=names, comments="")
    (tmp_path / "lines.txt").write_text(TEXT)
    return tmp_path


def rows_of(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


@pytest.mark.spec("H-05")
def test_a_hidden_markov_model_fits_predicts_and_samples(steps):
    run = steps / "run"
    call("fit", "HiddenMarkovModel", steps / "steps.npz", "--out", run, "--set", "random_state=0").ok()
    paths = rows_of(call("predict", run, steps / "steps.npz").ok().out)
    assert len(paths) == 21 and len(paths[1]) == 12
    assert len(rows_of(call("sample", run, "-n", 3).ok().out)) == 4
    assert "log_likelihood" in call("evaluate", run, steps / "steps.npz", "--json").ok().json["metrics"]
    assert (run / "pictures" / "model.png").stat().st_size > 0


@pytest.mark.spec("H-05")
def test_a_series_is_forecast_with_intervals(steps):
    run = steps / "run"
    call("fit", "AutoRegressive", steps / "wide.csv", "--out", run).ok()
    lines = rows_of(call("forecast", run, steps / "wide.csv", "--steps", 3).ok().out)
    assert lines[0] == ["sequence", "step", "mean", "low", "high"] and len(lines) == 61
    table = np.array(lines[1:], dtype=float)
    assert (table[:, 3] < table[:, 2]).all() and (table[:, 2] < table[:, 4]).all()
    wider = np.array(rows_of(call("forecast", run, steps / "wide.csv", "--level", 0.99).ok().out)[1:4], dtype=float)
    assert (wider[:, 4] - wider[:, 3] > table[:3, 4] - table[:3, 3]).all()


@pytest.mark.spec("H-05")
def test_labels_along_sequences_are_judged_by_steps(steps):
    run = steps / "run"
    found = call("fit", "ConditionalRandomField", steps / "labels.npz", "--out", run, "--json").ok().json
    assert found["metrics"]["accuracy"]["value"] > 0.8


@pytest.mark.spec("H-03", "H-05")
@pytest.mark.parametrize("name", ["MarkovModel", "LatentDirichletAllocation"])
def test_text_is_read_line_by_line(name, steps):
    run = steps / "run"
    call("fit", name, steps / "lines.txt", "--out", run, "--set", "random_state=0").ok()
    assert call("evaluate", run, steps / "lines.txt", "--json").ok().json["rows"] == 24


def test_what_does_not_fit_is_said(steps):
    assert "does not read text; " in call("fit", "VAE", steps / "lines.txt").err
    (steps / "names.csv").write_text("a,b\n1,x\n2,y\n3,x\n")
    assert (
        "each row of a table is one, of numbers, but 'b' is not"
        in call("fit", "AutoRegressive", steps / "names.csv").err
    )
    call("fit", "KMeans", "iris", "--out", steps / "k").ok()
    assert "KMeans does not forecast" in call("forecast", steps / "k", "iris").err
