"""A run that was stopped, however it was stopped, ends like one that was not."""

from __future__ import annotations

import os
import re
import shutil
import signal
import time
from pathlib import Path

import pytest

from tests.cli.conftest import begin, call

# about a second of training, with a checkpoint every few milliseconds
FIT = (
    *("fit", "MLPClassifier", "digits", "--set", "random_state=0", "--set", "trainer.steps=1500"),
    *("--set", "trainer.checkpoint.every_steps=50", "--set", "hidden_layer_sizes=(32,)", "--set", "dropout=0.1"),
)


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("unbroken") / "run"
    call(*FIT, "--out", folder).ok()
    return folder


def model(run: Path) -> bytes:
    return (run / "model.safetensors").read_bytes()


def training(run: Path) -> list[str]:
    return [line for line in (run / "metrics.jsonl").read_text().splitlines() if '"split"' not in line]


def stop(run: Path, number: int, folder: Path) -> tuple[str, int]:
    """Begin the fit, and send a signal when it has written its second checkpoint."""
    process = begin(*FIT, "--out", run, folder=folder)
    deadline = time.monotonic() + 120
    while len(list(run.glob("checkpoints/step-*.safetensors"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.002)
    os.kill(process.pid, number)
    _, err = process.communicate(timeout=120)
    return err, process.returncode


@pytest.mark.seeds("the run that is stopped is another process, which reads its seeds as they are")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM], ids=["kill -9", "ctrl-c", "kill"])
def test_a_stopped_run_ends_bit_identical(number, unbroken, tmp_path):
    run = tmp_path / "run"
    err, code = stop(run, number, tmp_path)
    assert not (run / "model.safetensors").exists()
    if number != signal.SIGKILL:
        assert code == 130
        assert f"benthic resume {run}" in err
        assert "Traceback" not in err
    facts = call("show", run, "--json").ok().json
    assert facts["state"] == "unfinished"
    assert facts["last"] is None or facts["last"]["step"] < 1500
    unfinished = call("predict", run, "digits")
    assert (unfinished.code, "benthic resume" in unfinished.err) == (2, True)
    found = call("resume", run, "--json").ok().json
    assert found["state"] == "finished"
    assert model(run) == model(unbroken)
    assert training(run) == training(unbroken)
    assert (run / "report.html").exists()


def test_without_a_checkpoint_a_run_starts_again(unbroken, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    shutil.copy(unbroken / "config.yaml", run)
    assert call("show", run, "--json").ok().json["state"] == "begun"
    call("resume", run).ok()
    assert model(run) == model(unbroken)


def test_only_what_is_missing_is_made_again(unbroken, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(unbroken, run)
    (run / "report.html").unlink()
    (run / "checkpoints").rename(tmp_path / "away")  # nothing is trained again
    written = (run / "model.safetensors").stat().st_mtime_ns
    call("resume", run).ok()
    assert (run / "report.html").exists()
    assert (run / "model.safetensors").stat().st_mtime_ns == written
    assert not (run / "checkpoints").exists()


def test_a_finished_run_says_so(unbroken):
    before = {path: path.stat().st_mtime_ns for path in unbroken.rglob("*") if path.is_file()}
    answer = call("resume", unbroken).ok()
    assert "finished" in answer.err
    assert call("resume", unbroken, "--json").ok().json["state"] == "finished"
    assert before == {path: path.stat().st_mtime_ns for path in unbroken.rglob("*") if path.is_file()}


def test_a_run_moves_with_its_folder(unbroken, tmp_path):
    run = tmp_path / "elsewhere"
    shutil.copytree(unbroken, run)
    for name in ("report.html", "model.safetensors"):
        (run / name).unlink()
    call("resume", run).ok()  # from the last checkpoint, which now lies elsewhere
    assert model(run) == model(unbroken)


WRONG = [
    ("", "model: [", "not readable"),
    ("", "3", "does not describe a run; it needs"),
    ("", "model: 2024-99-99", "not readable"),
    ("", "[" * 5000, "not readable"),
    ("", "? [a]\n: b", "not readable|does not describe"),
    ("model", "3", "model is 3; it must be the name of a model"),
    ("model", "[a]", "must be the name of a model"),
    ("model", "os", "'os', which this version does not know"),
    ("params", "[1]", "params is .*; it must be settings by name"),
    ("params", "{1: 2}", "params is .*; it must be settings by name"),
    ("params", "{layers: 2}", "does not describe a run: MLPClassifier has no setting 'layers'"),
    ("params", "{_build_network: 2}", "does not describe a run: MLPClassifier has no setting"),
    ("params", "{trainer: 3}", "does not describe a run: the trainer is 3"),
    ("params", "{trainer: {steps: -1}}", "does not describe a run: Trainer: steps is -1"),
    ("params", "{trainer: {checkpoint: 3}}", "does not describe a run:"),
    ("params", "{trainer: {checkpoint: {folder: /elsewhere}}}", "does not describe a run:"),
    ("data", "null", "data is None; it must be"),
    ("data", "{a: 1}", "data is .*; it must be"),
    ("target", "[1, 2]", "target is .*; it must be"),
    ("drop", "5", "drop is 5; it must be a list of columns"),
    ("given", "word", "given is 'word'; it must be a list of columns"),
    ("stream", "3", "stream is 3; it must be true or false"),
    ("test_fraction", "2", "test_fraction is 2; it must be a number in"),
    ("test_fraction", ".nan", "test_fraction is nan"),
    ("seed", "-1", "seed is -1; it must be a whole number"),
    ("seed", "word", "seed is 'word'"),
    ("columns", "3", "columns is 3; it must be a list of names"),
    ("classes", "{a: 1}", "classes is .*; it must be a list of names"),
    ("versions", "3", "versions is 3; it must be settings by name"),
]


@pytest.mark.parametrize(("key", "text", "words"), WRONG)
@pytest.mark.parametrize("command", ["resume", "show"])
def test_a_damaged_config_is_one_line(key, text, words, command, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    good = {"model": "MLPClassifier", "params": "{}", "data": "iris"}
    lines = {**good, key: text} if key else {text: ""}
    (run / "config.yaml").write_text("\n".join(f"{name}: {value}" if key else name for name, value in lines.items()))
    answer = call(command, run)
    if command == "show" and ("does not describe a run:" in words or "does not know" in words):
        return  # it is shown as it stands
    assert answer.code in (1, 2) and re.search(words, answer.err) and answer.err.count("\n") == 1, answer.err
    assert "BENTHIC_DEBUG" not in answer.err
    assert [path.name for path in run.iterdir()] == ["config.yaml"]


def test_a_damaged_line_of_numbers_is_left_out(unbroken, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(unbroken, run)
    before = call("show", unbroken, "--json").ok().json
    with (run / "metrics.jsonl").open("ab") as file:
        file.write(b'3\n"split"\n\xff\xfe\n' + b"[" * 5000 + b"\n")
    after = call("show", run, "--json").ok().json
    assert after["last"] == before["last"] and after["evaluation"] == before["evaluation"]


def test_other_data_are_refused_unless_they_are_asked_for(tmp_path):
    data, run = tmp_path / "data.csv", tmp_path / "run"

    def write(shift: float) -> None:
        data.write_text("a,b,y\n" + "".join(f"{i % 7 + shift},{i % 5},{i % 2}\n" for i in range(100)))

    write(0.0)
    call("fit", "MLPClassifier", data, "--target", "y", "--out", run, "--set", "trainer.steps=20").ok()
    for name in ("report.html", "model.safetensors"):
        (run / name).unlink()
    write(0.5)
    refused = call("resume", run)
    assert refused.code == 1
    assert "other data" in refused.err and "--new-data" in refused.err
    call("resume", run, "--new-data").ok()
    assert (run / "report.html").exists()
