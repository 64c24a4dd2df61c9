from __future__ import annotations

import csv
import io

import numpy as np
import pyarrow as pa
import pytest

from benthic.base.errors import InvalidInput
from benthic.data import csv_file
from benthic.data.csv_file import CsvFile, end_of_rows
from benthic.data.read import read
from benthic.data.scan import scan


def whole(file: CsvFile) -> pa.Table:
    return pa.concat_tables(file.tables(file.arrow_schema.names))


@pytest.mark.parametrize("trial", range(8))
def test_quoted_line_breaks_quotes_and_commas_survive_any_cut(tmp_path, monkeypatch, trial) -> None:
    """Random nasty values, cut into stretches of 60 bytes, against the csv module of Python."""
    rng = np.random.default_rng(trial)
    pieces = ["a", "\n", '"', ",", "\r\n", " ", "long word", "ä", '""', "\n\n"]
    values = ["v" + "".join(rng.choice(pieces, rng.integers(0, 9))) for _ in range(400)]
    rows = [[str(i), *values[2 * i : 2 * i + 2]] for i in range(200)]
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator=["\n", "\r\n"][trial % 2]).writerows([["n", 'odd "name', "c"], *rows])
    path = tmp_path / "t.csv"
    path.write_bytes(out.getvalue().encode())
    monkeypatch.setattr(csv_file, "_MARK_BYTES", 60)
    monkeypatch.setattr(csv_file, "_CHUNK_BYTES", 300)
    file = CsvFile(path)
    assert len(file.chunk_rows) > 10
    table = whole(file)
    assert table.column_names == ["n", 'odd "name', "c"]
    assert table.column("n").to_pylist() == list(range(200))
    for j in (1, 2):
        assert table.column(j).to_pylist() == [row[j] for row in rows]


def test_end_of_rows_against_a_plain_count() -> None:
    rng = np.random.default_rng(0)
    for _ in range(500):
        block = rng.choice(np.frombuffer(b'a"\n', np.uint8), 30).tobytes()
        ends = [i + 1 for i in range(30) if block[i : i + 1] == b"\n" and block.count(b'"', 0, i) % 2 == 0]
        assert end_of_rows(block) == max(ends, default=0)


def test_types_are_those_that_hold_the_whole_column(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(csv_file, "_MARK_BYTES", 200)
    columns = {
        "whole": [str(i) for i in range(100)],
        "late float": [*[str(i) for i in range(99)], "0.5"],
        "late text": [*[f"0{i}" for i in range(99)], "x1"],
        "late value": [*[""] * 99, "7"],
        "empty": [""] * 100,
        "question": ["?", *["1.5"] * 99],
        "flag": ["true", "False"] * 50,
        "day": ["2020-01-31"] * 100,
        "moment": [*["2020-01-31"] * 99, "2020-01-31 10:30:00"],
    }
    lines = [",".join(columns), *[",".join(row) for row in zip(*columns.values(), strict=True)]]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    file = CsvFile(tmp_path / "t.csv")
    found = {field.name: str(field.type) for field in file.arrow_schema}
    assert found == {
        "whole": "int64",
        "late float": "double",
        "late text": "string",
        "late value": "int64",
        "empty": "null",
        "question": "double",
        "flag": "bool",
        "day": "date32[day]",
        "moment": "timestamp[s]",
    }
    table = whole(file)
    assert table.column("late text").to_pylist() == columns["late text"]  # zeros in front are kept
    assert table.column("question").to_pylist() == [None, *[1.5] * 99]
    assert table.column("late value").null_count == 99


@pytest.mark.parametrize(
    "text",
    [
        "a,b\n1,2.5\n3,4.5\n",
        "a,b\n1,2.5\n3,4.5",
        "a,b\r\n1,2.5\r\n3,4.5\r\n",
        "\ufeffa,b\n1,2.5\n3,4.5\n",
        "a;b\n1;2.5\n3;4.5\n",
        "a\tb\n1\t2.5\n3\t4.5\n",
        '"a","b"\n"1","2.5"\n3,4.5\n',
        " a , b \n1,2.5\n\n3,4.5\n\n",
    ],
)
def test_dialects(tmp_path, text) -> None:
    (tmp_path / "t.csv").write_bytes(text.encode())
    table = whole(CsvFile(tmp_path / "t.csv"))
    assert table.to_pydict() == {"a": [1, 3], "b": [2.5, 4.5]}


def test_a_file_without_a_header_loses_no_row(tmp_path) -> None:
    (tmp_path / "t.csv").write_text("1,2.5\n3,4.5\n")
    assert whole(CsvFile(tmp_path / "t.csv")).to_pydict() == {"x0": [1, 3], "x1": [2.5, 4.5]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\n", "empty or begins with an empty line"),
        (b"a,a\n1,2\n", "two columns called 'a'"),
        (b"a,b\n", "has no rows; it holds only the names"),
        (b"a,b\n1,2\n3\n", r"rows of 2 values.*Expected 2 columns, got 1"),
        ("naïve,b\n1,2\n".encode("latin-1"), "not UTF-8 text"),
        ("a,b\n1,naïve\n2,x\n".encode("latin-1"), r"column 'b'.*not UTF-8 text"),
    ],
)
def test_bad_files_say_what_is_wrong(tmp_path, content, message) -> None:
    (tmp_path / "t.csv").write_bytes(content)
    for function in (read, scan):
        with pytest.raises(InvalidInput, match=message):
            function(tmp_path / "t.csv")


def test_a_quote_that_never_closes_is_found(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(csv_file, "_MARK_BYTES", 64)
    monkeypatch.setattr(csv_file, "_LONGEST_ROW", 4096)
    (tmp_path / "t.csv").write_text("a,b\n1,2\n" + '3,"open\n' + "4,5\n" * 5000)
    with pytest.raises(InvalidInput, match="quote at or after byte 8 that is never closed"):
        CsvFile(tmp_path / "t.csv")
