"""What a person meets before anything is fitted: help, lists, wrong names, exit codes."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from benthic import catalogue
from benthic.base.errors import Interrupted
from benthic.cli import settings
from benthic.cli.failure import Usage, one_line
from benthic.cli.main import app
from tests.cli.conftest import begin, call

COMMANDS = ("list", "fit", "resume", "show", "predict", "sample", "impute", "forecast", "evaluate", "compare", "demo")
HEAVY = ("torch", "numpy", "sklearn", "scipy", "pandas", "polars", "pyarrow", "matplotlib", "numba")


def test_help_imports_nothing_heavy():
    # one process asks for every help there is, and lists the models
    program = f"""
import sys
from typer.testing import CliRunner
from benthic.cli.main import app
for words in [["--help"], *([name, "--help"] for name in {COMMANDS!r}), ["list"], ["list", "--json"]]:
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, (words, result.output)
    assert words[0] == "list" or "Usage: " in result.stdout
print([name for name in {HEAVY!r} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_help_of_every_command_names_its_options():
    for name, command in _commands().items():
        text = call(name, "--help").ok().out
        for parameter in command.params:
            for option in parameter.opts:
                assert not option.startswith("--") or option in text


def _commands():
    import typer

    return typer.main.get_command(app).commands


def test_list_is_the_catalogue():
    found = call("list", "--json").ok().json
    assert [entry["name"] for entry in found] == list(catalogue())
    family = [entry["name"] for entry in call("list", "--family", "vae", "--json").ok().json]
    assert "VAE" in family and family == [e.name for e in catalogue().values() if e.family == "vae"]
    plain = call("list").ok().out
    assert all(name in plain for name in catalogue())
    assert "\x1b" not in plain  # colors are for terminals


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("fitt", "VAE", "digits"), "'fit'"),
        (("fit", "VEA", "digits"), "'VAE'"),
        (("fit", "GausianMixture", "moons"), "'GaussianMixture'"),
        (("fit", "MLPClassifier", "irirs"), "'iris'"),
        (("fit", "MLPClassifier", "nowhere.csv"), "digits"),
        (("fit", "MLPClassifier", "iris", "--taget", "species"), "'--target'"),
        (("fit", "MLPClassifier", "iris", "--set", "hiden_layer_sizes=3"), "'hidden_layer_sizes'"),
        (("fit", "MLPClassifier", "iris", "--set", "trainer.epoch=3"), "'epochs'"),
        (("fit", "MLPClassifier", "iris", "--set", "trainer.checkpoint.every_step=3"), "'every_steps'"),
        (("fit", "MLPClassifier", "iris", "--set", "epochs=3"), "--set trainer.epochs"),
        (("fit", "MLPClassifier", "iris", "--set", "trainer.resume=true"), "benthic resume"),
        (("fit", "MLPClassifier", "iris", "--set", "trainer.checkpoint=here"), "--out"),
        (("fit", "MLPClassifier", "iris", "--set", "trainer.lr=-1"), "positive"),
        (("fit", "MLPClassifier", "iris", "--set", "alpha"), "key=value"),
        (("fit", "MLPClassifier", "iris", "--test-fraction", "2"), "--test-fraction"),
        (("fit", "MLPClassifier", "swiss_roll"), "--target"),
        (("fit", "MLPClassifier"), "DATA"),
        (("list", "--family", "vea"), "'vae'"),
        (("show", "nowhere"), "benthic fit"),
        (("resume", "nowhere"), "benthic fit"),
        (("sample", "nowhere", "-n", "0"), "-n"),
    ],
)
def test_a_wrong_name_suggests_and_says_what_exists(words, hint, tmp_path):
    answer = call(*words)
    assert answer.code == 2
    assert hint in answer.err
    assert answer.out == ""
    assert len(answer.err.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())  # a mistake leaves nothing behind


def test_a_wrong_option_lists_the_right_ones():
    err = call("sample", "run", "--frobnicate").err
    assert all(option in err for option in ("--number", "--seed", "--out"))


def test_a_wrong_run_suggests_the_nearest(iris_run, monkeypatch):
    monkeypatch.chdir(iris_run.parent)
    answer = call("show", "rum")
    assert (answer.code, "did you mean 'run'?" in answer.err) == (2, True)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b\n1,2\n", "one class"),
        ("a,b\n1,x\n2,y\nnan,x\n4,y\n,x\n", "NaN"),
        ("a,b\n", "no rows"),
        ("", "empty"),
    ],
)
def test_bad_data_fail_in_one_line_and_leave_no_run(text, words, tmp_path):
    (tmp_path / "table.csv").write_text(text)
    answer = call("fit", "MLPClassifier", "table.csv", "--target", "b", "--test-fraction", "0")
    assert answer.code == 1
    assert words in answer.err.splitlines()[-1]
    assert answer.err.splitlines()[-1].startswith("benthic: ")
    assert "Traceback" not in answer.err
    assert not list(tmp_path.glob("runs/*"))


def test_a_wrong_column_suggests_the_nearest(pets):
    answer = call("fit", "MLPRegressor", pets, "--target", "prise")
    assert (answer.code, "'price'" in answer.err) == (1, True)


def test_a_damaged_model_file_is_one_line(iris_run, tmp_path):
    data = (iris_run / "model.safetensors").read_bytes()
    (tmp_path / "cut.safetensors").write_bytes(data[: len(data) // 2])
    answer = call("show", "cut.safetensors")
    assert answer.code == 1
    assert "truncated" in answer.err
    assert len(answer.err.splitlines()) == 1


def test_debug_shows_where(monkeypatch, tmp_path):
    monkeypatch.setenv("BENTHIC_DEBUG", "1")
    with pytest.raises(Usage):
        call("fit", "VEA", "digits")


def test_a_process_speaks_on_the_right_streams_and_exits_right(tmp_path):
    running = [
        begin("list", "--json", folder=tmp_path),
        begin("fit", "VEA", "digits", folder=tmp_path),
    ]
    (right, wrong) = [(*process.communicate(timeout=120), process.returncode) for process in running]
    assert json.loads(right[0])
    assert right[1:] == ("", 0)
    assert (wrong[0], wrong[2]) == ("", 2)
    assert len(wrong[1].splitlines()) == 1


def test_one_line_of_any_error():
    assert one_line(KeyError("price")).startswith("KeyError: price ")
    assert one_line(Interrupted("saved; go on with benthic resume x")) == "saved; go on with benthic resume x"
    assert one_line(KeyboardInterrupt()) == "interrupted"
    assert one_line(ZeroDivisionError("division by zero")).startswith("ZeroDivisionError: division by zero")
    assert one_line(FileNotFoundError(2, "No such file", "x.csv")) == "x.csv: No such file"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("1e-3", 1e-3),
        ("(64, 32)", (64, 32)),
        ("64,32", (64, 32)),
        ("[64, 32]", [64, 32]),
        ("true", True),
        ("False", False),
        ("null", None),
        ("None", None),
        ("adam", "adam"),
        ("'5'", "5"),
        ("{name: sgd, momentum: 0.9}", {"name": "sgd", "momentum": 0.9}),
        ("{0: 1.5, 1: 2}", {0: 1.5, 1: 2}),
        ("importance(64)", "importance(64)"),
        ("a: b: c", "a: b: c"),
    ],
)
def test_values_read_as_python_or_yaml(text, value):
    assert settings.value_of(text) == value
    assert type(settings.value_of(text)) is type(value)


def test_dots_and_underscores_nest_the_same():
    dotted = settings.parse(["trainer.epochs=3", "trainer.checkpoint.every_steps=2", "alpha=0.1"])
    assert dotted == settings.parse(["trainer__epochs=3", "trainer__checkpoint__every_steps=2", "alpha=0.1"])
    assert dotted == {"trainer": {"epochs": 3, "checkpoint": {"every_steps": 2}}, "alpha": 0.1}
    assert settings.parse(["trainer={epochs: 3}", "trainer.lr=1"]) == {"trainer": {"epochs": 3, "lr": 1}}
    with pytest.raises(Usage, match="no parts"):
        settings.parse(["trainer=3", "trainer.lr=1"])


def test_numbers_that_json_cannot_write_become_null():
    from benthic.cli.console import plain

    assert plain({"a": np.float64("nan"), "b": [np.int64(3), np.inf], 2: (True, None)}) == {
        "a": None,
        "b": [3, None],
        2: [True, None],
    }
