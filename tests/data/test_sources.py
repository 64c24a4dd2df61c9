from __future__ import annotations

import gzip

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import torch

from benthic.base.errors import InvalidInput
from benthic.data import csv_file, parquet_file, source, sources
from benthic.data.scan import as_source, scan
from benthic.data.sources import ArraySource, CsvSource, NpySource, ParquetSource

ROWS = 1003
KINDS = ["array", "npy", "csv", "parquet"]


@pytest.fixture
def small_pieces(monkeypatch) -> None:
    """Files of a few kilobytes then have many chunks and windows."""
    monkeypatch.setattr(csv_file, "_MARK_BYTES", 700)
    for module in (csv_file, parquet_file, sources):
        monkeypatch.setattr(module, "_CHUNK_BYTES", 4000)
    monkeypatch.setattr(source, "_WINDOW_BYTES", 12_000)


def table() -> tuple[np.ndarray, np.ndarray]:
    """Rows that are all different: the first column is the row number."""
    rng = np.random.default_rng(1)
    X = np.column_stack([np.arange(ROWS), rng.normal(size=(ROWS, 4)).round(4)])
    return X, rng.integers(0, 3, ROWS)


@pytest.fixture(params=KINDS)
def made(request, tmp_path, small_pieces):
    """A source of each kind over the same rows."""
    X, y = table()
    names = [f"f{j}" for j in range(X.shape[1])]
    frame = pa.table({**dict(zip(names, X.T, strict=True)), "y": y})
    if request.param == "array":
        return ArraySource(X, y)
    if request.param == "npy":
        np.save(tmp_path / "t.npy", np.column_stack([X, y]))
        return NpySource(tmp_path / "t.npy", target=-1)
    if request.param == "csv":
        pa.csv.write_csv(frame, tmp_path / "t.csv")
        return CsvSource(tmp_path / "t.csv", target="y")
    pq.write_table(frame, tmp_path / "t.parquet", row_group_size=400)
    return ParquetSource(tmp_path / "t.parquet", target="y")


def stacked(batches) -> tuple[np.ndarray, np.ndarray]:
    parts = list(batches)
    return np.concatenate([X for X, _ in parts]), np.concatenate([y for _, y in parts])


def test_a_pass_gives_the_rows_of_the_file_in_order(made) -> None:
    X, y = table()
    for batch_size in (1, 64, ROWS, 5000):
        batches = list(made.open(batch_size=batch_size))
        assert [len(part) for part, _ in batches[:-1]] == [batch_size] * (len(batches) - 1)
        seen, targets = stacked(batches)
        np.testing.assert_array_equal(seen, X)
        np.testing.assert_array_equal(targets, y)
    assert (made.rows, made.width, len(made), sum(made.chunk_rows)) == (ROWS, 5, ROWS, ROWS)


@pytest.mark.parametrize("shuffle", [False, True])
def test_skip_equals_dropping_batches(made, shuffle) -> None:
    settings = {"batch_size": 47, "shuffle": shuffle, "seed": 3}
    whole = list(made.open(2, **settings))
    for skip in (0, 1, 7, len(whole) - 1, len(whole), len(whole) + 9):
        rest = list(made.open(2, skip, **settings))
        assert len(rest) == max(0, len(whole) - skip)
        for (X, y), (X_whole, y_whole) in zip(rest, whole[skip:], strict=True):
            np.testing.assert_array_equal(X, X_whole)
            np.testing.assert_array_equal(y, y_whole)


def test_skipped_chunks_are_not_read(made, monkeypatch) -> None:
    reads = []
    read = made.read
    monkeypatch.setattr(made, "read", lambda i: (reads.append(i), read(i))[1])
    list(made.open(skip=8, batch_size=100))
    needed = int(np.searchsorted(np.cumsum(made.chunk_rows), 800, side="right"))
    assert reads == list(range(needed, len(made.chunk_rows)))


def test_shuffle_is_a_permutation_that_seed_and_epoch_decide(made) -> None:
    X, y = table()

    def order(epoch: int, seed: int) -> list[float]:
        rows, targets = stacked(made.open(epoch, batch_size=64, shuffle=True, seed=seed))
        number = rows[:, 0].astype(int)
        np.testing.assert_array_equal(np.sort(number), np.arange(ROWS))
        np.testing.assert_array_equal(rows, X[number])
        np.testing.assert_array_equal(targets, y[number])
        return number.tolist()

    assert order(4, 9) == order(4, 9)
    assert order(4, 9) != order(5, 9)
    assert order(4, 9) != order(4, 10)


def test_shuffle_carries_rows_across_the_file(made) -> None:
    rows = np.concatenate([X[:, 0] for X, _ in made.open(batch_size=64, shuffle=True)])
    # the correlation of a random permutation with the identity is about 1 / sqrt(rows) = 0.03; that of
    # windows of a few chunks drawn at random is larger, about 1 / sqrt(number of chunks)
    assert abs(np.corrcoef(rows, np.arange(ROWS))[0, 1]) < 4 / np.sqrt(min(ROWS, 20))
    assert np.mean(np.abs(np.diff(rows)) < 3) < 0.2


def test_small_data_are_permuted_as_a_whole(tmp_path) -> None:
    np.save(tmp_path / "t.npy", np.arange(400.0)[:, None])
    positions = np.zeros(400)
    epochs = 300
    for epoch in range(epochs):
        rows = next(scan(tmp_path / "t.npy").open(epoch, shuffle=True))[0][:, 0]
        positions[rows.astype(int)] += np.arange(400)
    # the mean position of each row is 199.5 with a standard error of 400 / sqrt(12 * 300) = 6.7
    assert np.abs(positions / epochs - 199.5).max() < 5 * 6.7


def test_reading_is_pure_in_any_order(made) -> None:
    chunks = [made.read(i)[0].copy() for i in range(len(made.chunk_rows))]
    assert [len(chunk) for chunk in chunks] == list(made.chunk_rows)
    for i in np.random.default_rng(0).permutation(len(chunks)):
        np.testing.assert_array_equal(made.read(int(i))[0], chunks[i])


def test_head_and_sample(made) -> None:
    X, y = table()
    np.testing.assert_array_equal(made.head(10)[0], X[:10])
    np.testing.assert_array_equal(made.head(10**6)[0], X)
    rows, targets = made.sample(50, seed=1)
    number = rows[:, 0].astype(int)
    assert (np.diff(number) > 0).all()
    np.testing.assert_array_equal(rows, X[number])
    np.testing.assert_array_equal(targets, y[number])
    assert made.sample(50, seed=2)[0][:, 0].tolist() != rows[:, 0].tolist()
    assert len(made.sample(10**6)[0]) == ROWS


def test_sample_is_uniform() -> None:
    made = ArraySource(np.arange(20.0)[:, None])
    counts = np.zeros(20)
    for seed in range(2000):
        counts[made.sample(5, seed)[0][:, 0].astype(int)] += 1
    # each row is drawn with probability 1/4: 500 times, give or take sqrt(2000 * 3 / 16) = 19.4
    assert np.abs(counts - 500).max() < 5 * 19.4


def test_sample_reads_only_chunks_it_needs(made, monkeypatch) -> None:
    reads = []
    read = made.read
    monkeypatch.setattr(made, "read", lambda i: (reads.append(i), read(i))[1])
    number = made.sample(3)[0][:, 0]
    chunks = np.searchsorted(np.cumsum(made.chunk_rows), number, side="right")
    assert reads == sorted(set(chunks.tolist()))


def test_target_values(made) -> None:
    assert made.target_values().tolist() == [0, 1, 2]
    assert made.target_values() is made.target_values()


def test_labels_of_strings_and_a_source_without_target(tmp_path) -> None:
    pd.DataFrame({"x": range(6), "city": list("baabca")}).to_csv(tmp_path / "t.csv", index=False)
    assert scan(tmp_path / "t.csv", target="city").target_values().tolist() == ["a", "b", "c"]
    with pytest.raises(InvalidInput, match=r"has no target; name one with benthic\.data\.scan"):
        scan(tmp_path / "t.csv").target_values()


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_tables_are_encoded_by_their_schema_whatever_the_pieces(tmp_path, small_pieces, suffix) -> None:
    frame = pd.DataFrame(
        {
            "x": np.linspace(0, 1, 600),
            "city": np.tile(["Bern", "Rome", "Oslo"], 200),
            "note": [f"text {i}" for i in range(600)],
            "when": pd.date_range("2020-01-05", periods=600, freq="h")[::-1],
            "flag": np.tile([True, False], 300),
            "hole": [None if i % 9 == 0 else i for i in range(600)],
        }
    )
    path = tmp_path / f"t.{suffix}"
    frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path, row_group_size=250)
    made = scan(path)
    assert len(made.chunk_rows) > 5
    assert list(made.schema.dropped) == ["note"]
    assert made.schema.encoded_names == ("x", "city=Bern", "city=Oslo", "city=Rome", "when", "flag", "hole")
    X = np.concatenate([X for X, _ in made.open(batch_size=100)])
    np.testing.assert_allclose(X[:, 4], np.arange(600)[::-1] / 24)
    back = made.schema.decode(X, frame="pandas")
    expected = frame.drop(columns="note")
    pd.testing.assert_frame_equal(back, expected, check_dtype=False)


def test_kinds_and_drop_reach_the_schema(tmp_path) -> None:
    pd.DataFrame({"zip": [1, 2, 1], "x": [0.5, 1.5, 2.5], "id": [7, 8, 9]}).to_csv(tmp_path / "t.csv", index=False)
    made = scan(tmp_path / "t.csv", drop=["id"], kinds={"zip": "category"})
    assert made.schema.encoded_names == ("zip=1", "zip=2", "x")


def test_wide_categories_do_not_blow_up_a_chunk(tmp_path) -> None:
    labels = pd.Series(np.arange(200_000) % 60).map("{:02d}x".format)
    labels.to_frame("c").to_csv(tmp_path / "t.csv", index=False)
    made = scan(tmp_path / "t.csv")
    assert made.width == 60
    # one mark of the index holds 2**18 / 4 rows, the least that a chunk can be
    assert max(made.chunk_rows) <= 2**18 // 4


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "uint8", "int32", "bool", ">f8"])
def test_numbers_of_any_type_arrive_as_floats_that_hold_them(tmp_path, dtype) -> None:
    X = (np.arange(60) % 50).reshape(20, 3).astype(dtype)
    np.save(tmp_path / "t.npy", X)
    seen, _ = scan(tmp_path / "t.npy").head(20)
    assert seen.dtype == ("float32" if dtype in ("float16", "float32", "uint8", "bool") else "float64")
    np.testing.assert_array_equal(seen, X)


def test_pictures_are_flattened_and_remember_their_shape(tmp_path) -> None:
    X = np.random.default_rng(0).random((10, 1, 4, 4)).astype(np.float32)
    np.save(tmp_path / "t.npy", X)
    for made in (scan(tmp_path / "t.npy"), ArraySource(torch.from_numpy(X))):
        assert (made.width, made.event_shape) == (16, (1, 4, 4))
        np.testing.assert_array_equal(made.head(10)[0].reshape(X.shape), X)


def test_fortran_order_and_dropped_columns(tmp_path) -> None:
    X = np.asfortranarray(np.arange(20.0).reshape(5, 4))
    np.save(tmp_path / "t.npy", X)
    rows, y = scan(tmp_path / "t.npy", target="1", drop=[0]).head(5)
    np.testing.assert_array_equal(rows, X[:, 2:])
    np.testing.assert_array_equal(y, X[:, 1])


class Counter:
    """Something of the user's own that can be opened again: five batches of four rows."""

    def __init__(self) -> None:
        self.opened: list[tuple[int, int]] = []

    def open(self, epoch: int, skip: int):
        self.opened.append((epoch, skip))
        for k in range(skip, 5):
            rows = np.arange(4 * k, 4 * k + 4) + 100 * epoch
            yield rows[:, None], rows % 2


def test_an_object_that_opens_is_a_source() -> None:
    own = Counter()
    made = as_source(own)
    assert (made.rows, made.width) == (20, 1)
    rows, y = stacked(made.open(1, 2, batch_size=3))
    np.testing.assert_array_equal(rows[:, 0], 100 + np.arange(6, 20))
    np.testing.assert_array_equal(y, np.arange(6, 20) % 2)
    assert own.opened[-1] == (1, 1)  # six rows to skip are one whole batch and two rows
    np.testing.assert_array_equal(made.read(3)[0][:, 0], [12, 13, 14, 15])
    assert made.target_values().tolist() == [0, 1]


def test_as_source_knows_what_needs_no_source(tmp_path) -> None:
    np.save(tmp_path / "t.npy", np.zeros((3, 2)))
    made = as_source(str(tmp_path / "t.npy"))
    assert as_source(made) is made
    for X in (np.zeros((2, 2)), torch.zeros(2, 2), [[1.0]], pa.table({"a": [1]}), None):
        assert as_source(X) is None


def test_a_one_shot_iterator_is_refused() -> None:
    for X in (iter([1]), (row for row in [[1.0]])):
        with pytest.raises(InvalidInput, match=r"one-shot iterator.*pass a path, benthic\.data\.scan\(path\)"):
            as_source(X)


def test_bad_batches_of_own_objects_say_why() -> None:
    class Empty:
        def open(self, epoch, skip):
            return iter([])

    class Ragged:
        def open(self, epoch, skip):
            return iter([np.zeros((2, 2)), np.zeros((2, 3))])

    class Flat:
        def open(self, epoch, skip):
            return iter([np.zeros(3)])

    for own, message in (
        (Empty(), "gave no rows"),
        (Ragged(), r"\[2, 3\] columns"),
        (Flat(), r"shape \(3,\)"),
    ):
        with pytest.raises(InvalidInput, match=message):
            as_source(own)


@pytest.mark.parametrize("settings", [{"batch_size": 0}, {"skip": -1}])
def test_bad_settings_of_open_are_refused_at_once(made, settings) -> None:
    with pytest.raises(InvalidInput, match="at least 1"):
        made.open(**settings)


def test_a_file_that_changes_under_our_hands_is_noticed(tmp_path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,2\n3,4\n")
    made = scan(path)
    path.write_text("a,b\n1,2\n3,4\n5,6\n")
    with pytest.raises(InvalidInput, match=r"has changed since.*scan it again"):
        made.head(1)


def test_gzip_is_unpacked_up_to_a_limit(tmp_path, monkeypatch) -> None:
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 5000))
    assert scan(path).rows == 5000
    monkeypatch.setattr(csv_file, "_LARGEST_GZIP", 1000)
    with pytest.raises(InvalidInput, match=r"cannot be read in pieces; unpack it"):
        scan(path)


def test_sources_show_what_they_are(tmp_path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    assert repr(scan(tmp_path / "t.csv", target="b")) == f"CsvSource('{tmp_path}/t.csv', 1 x 1, target='b')"
