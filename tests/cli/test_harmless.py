"""What a person wrote is shown and kept as text: no markup, no command to a terminal, no formula on request."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pandas as pd
import pytest

from benthic.cli import console, main
from benthic.leaderboard.contest.records import Budget, DataFacts, Line
from benthic.leaderboard.contest.results import Comparison
from tests.cli.conftest import call

RED = "\x1b[31mred\x9b0m"
FORMULA = "=cmd|' /C calc'!A0"


@pytest.mark.parametrize("text", ["[/]", "[bold]x[/bold]", "[red", "a\\[b]"])
def test_square_brackets_are_no_markup(monkeypatch, capsys, text):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    console.table((text, "value"), [(text, 1)], f"MLPClassifier, given {text}")
    shown = capsys.readouterr().out
    assert shown.count(text) == 3, shown


@pytest.mark.parametrize("terminal", [True, False])
def test_a_terminal_obeys_nothing_that_a_person_wrote(monkeypatch, capsys, terminal):
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal)
    console.table(("name", RED), [(RED, f"two\nlines{RED}")], RED)
    console.answer(f"{RED}\nnext")
    console.say(RED)
    console.as_json({RED: RED})
    main._say(RED)
    both = capsys.readouterr()
    text = both.out + both.err
    assert RED not in text and "\x1b[31m" not in text and "\x9b" not in text
    assert "\\x1b[31mred\\x9b0m" in text and "\\u001b[31mred\\u009b0m" in text and "two lines" in text


def test_errors_spell_out_control_characters():
    for words in (("fit", "MLPClassifier", f"{RED}.csv"), ("fit", RED, "iris"), ("compare", "iris", "--budget", RED)):
        err = call(*words).err
        assert "\x1b" not in err and "\x9b" not in err and "red" in err


@pytest.fixture(scope="module")
def formulas(tmp_path_factory) -> Path:
    """A run of a mixture on a table whose names and words are formulas."""
    folder = tmp_path_factory.mktemp("formulas")
    frame = pd.DataFrame({"=size": [1.0, 2.0, None, 4.0] * 10, "kind": [FORMULA, "+1", "a=b", "@x"] * 10})
    frame["kind"] = frame["kind"].astype("category")
    frame.to_csv(folder / "rows.csv", index=False)
    call("fit", "GaussianMixture", folder / "rows.csv", "--out", folder / "run").ok()
    return folder


@pytest.mark.parametrize("verb", ["impute", "sample"])
def test_formulas_become_text_on_request(formulas, verb):
    words = [verb, formulas / "run", *([formulas / "rows.csv"] if verb == "impute" else ["-n", "40"])]
    plain = list(csv.reader(io.StringIO(call(*words).ok().out)))
    safe = list(csv.reader(io.StringIO(call(*words, "--safe-csv").ok().out)))
    assert plain[0] == ["=size", "kind"] and safe[0] == ["'=size", "kind"]
    assert FORMULA in {row[1] for row in plain} and {row[1][0] for row in safe[1:]} == {"'", "a"}
    assert [row[0] for row in plain[1:]] == [row[0] for row in safe[1:]]  # numbers stay numbers
    assert [row[1].removeprefix("'") for row in safe] == [row[1] for row in plain]


def test_a_comparison_writes_formulas_as_text_on_request():
    line = Line(name=FORMULA, status="failed", reason="-inf is no number")
    found = Comparison("generate", DataFacts("rows", 4, 2), Budget.of("1s"), (0,), (line,))
    assert FORMULA in found.to_csv() and f"'{FORMULA}" not in found.to_csv()
    assert f"'{FORMULA}" in found.to_csv(safe=True) and "'-inf is no number" in found.to_csv(safe=True)
