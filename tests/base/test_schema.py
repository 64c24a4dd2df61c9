from __future__ import annotations

import datetime as dt
import decimal

import numpy as np
import pandas as pd
import polars as pl
import polars.testing
import pyarrow as pa
import pytest

from benthic.base.errors import InvalidInput
from benthic.base.frames import arrow_type
from benthic.base.schema import Schema, is_frame, to_arrow

N = 40
RNG = np.random.default_rng(0)
LABELS = [["red", "green", "blue"][i % 3] for i in range(N)]
DAYS = [dt.date(2021, 3, 1) + dt.timedelta(days=(7 * i) % 31) for i in range(N)]
TIMES = [dt.datetime(2020, 1, 1, 5, 30) + dt.timedelta(seconds=977 * i) for i in range(N)]


def pandas_frame() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "f64": RNG.normal(size=N),
            "f32": RNG.normal(size=N).astype("float32"),
            "f16": RNG.normal(size=N).astype("float16"),
            "i8": RNG.integers(-128, 128, N).astype("int8"),
            "u64": RNG.integers(0, 2**40, N).astype("uint64"),
            "flag": RNG.random(N) < 0.5,
            "nullable": pd.array([None if i % 5 == 0 else i for i in range(N)], dtype="Int16"),
            "maybe": pd.array([None if i % 7 == 0 else i % 2 == 0 for i in range(N)], dtype="boolean"),
            "str": pd.Series(LABELS, dtype="str"),
            "object": pd.Series(LABELS, dtype=object),
            "string": pd.Series([None, *LABELS[1:]], dtype="string"),
            "cat": pd.Categorical(LABELS, categories=["red", "blue", "unused", "green"], ordered=True),
            "icat": pd.Categorical([i % 3 for i in range(N)], categories=[2, 0, 1]),
            "ns": pd.to_datetime(TIMES).astype("datetime64[ns]"),
            "zone": pd.to_datetime(TIMES).tz_localize("Europe/Rome"),
            "holes": pd.to_datetime([None if i == 3 else t for i, t in enumerate(TIMES)]),
            "date": pd.Series(DAYS, dtype=object),
            "span": pd.to_timedelta([i * 90 for i in range(N)], unit="s"),
            "arrow": pd.array(LABELS, dtype=pd.ArrowDtype(pa.string())),
            "days": pd.array(DAYS, dtype=pd.ArrowDtype(pa.date32())),
        }
    )


def polars_frame() -> pl.DataFrame:
    return pl.DataFrame(
        {
            "f64": [None if i == 2 else float(x) for i, x in enumerate(RNG.normal(size=N))],
            "f32": pl.Series(RNG.normal(size=N), dtype=pl.Float32),
            "i8": pl.Series([None if i == 4 else i for i in range(N)], dtype=pl.Int8),
            "u32": pl.Series(range(N), dtype=pl.UInt32),
            "flag": [None if i == 1 else i % 3 == 0 for i in range(N)],
            "string": LABELS,
            "cat": pl.Series(LABELS, dtype=pl.Categorical()),
            "enum": pl.Series([None, *LABELS[1:]], dtype=pl.Enum(["blue", "unused", "red", "green"])),
            "date": DAYS,
            "when": pl.Series(TIMES, dtype=pl.Datetime("ms", "UTC")),
            "clock": [dt.time(i % 24, 15) for i in range(N)],
            "span": [dt.timedelta(minutes=i) for i in range(N)],
            "money": pl.Series([decimal.Decimal(i) / 4 for i in range(N)], dtype=pl.Decimal(10, 2)),
        }
    )


def arrow_table() -> pa.Table:
    return pa.table(
        {
            "f": pa.array(RNG.normal(size=N), pa.float32()),
            "i": pa.array([None, *range(1, N)], pa.int16()),
            "b": pa.array([i % 2 == 0 for i in range(N)]),
            "s": pa.array(LABELS, pa.large_string()),
            "v": pa.array(LABELS, pa.string_view()),
            "d": pa.DictionaryArray.from_arrays(pa.array([i % 2 for i in range(N)], pa.int8()), ["yes", "no"]),
            "day": pa.array(DAYS, pa.date32()),
            "t": pa.array(TIMES, pa.timestamp("us", "Asia/Tokyo")),
            "m": pa.array([decimal.Decimal(i) / 8 for i in range(N)], pa.decimal128(7, 3)),
        }
    )


def assert_same(left, right) -> None:
    if isinstance(left, pd.DataFrame):
        pd.testing.assert_frame_equal(left, right)
    elif isinstance(left, pl.DataFrame):
        polars.testing.assert_frame_equal(left, right)
    else:
        assert left.schema.equals(right.schema)
        assert left.equals(right)


@pytest.mark.parametrize("make", [pandas_frame, polars_frame, arrow_table])
def test_decode_undoes_encode_with_names_types_and_categories(make) -> None:
    frame = make()
    schema = Schema.infer(frame)
    matrix = schema.encode(frame)
    assert schema.dropped == {}
    assert matrix.dtype == np.float64
    assert matrix.shape == (N, schema.width) == (N, len(schema.encoded_names))
    assert_same(schema.decode(matrix), frame)


@pytest.mark.parametrize("make", [pandas_frame, polars_frame, arrow_table])
def test_a_schema_survives_its_tree(make) -> None:
    frame = make()
    schema = Schema.infer(frame)
    again = Schema.from_tree(schema.to_tree())
    assert again == schema
    assert_same(again.decode(again.encode(frame)), frame)


def test_missing_values_become_nan_and_come_back_missing() -> None:
    frame = pd.DataFrame({"x": [1.0, np.nan, 3.0], "c": pd.Categorical(["a", None, "b"])})
    schema = Schema.infer(frame)
    matrix = schema.encode(frame)
    np.testing.assert_array_equal(np.isnan(matrix), [[False] * 3, [True] * 3, [False] * 3])
    pd.testing.assert_frame_equal(schema.decode(matrix), frame)


def test_nan_in_columns_that_could_not_hold_it_widens_the_type() -> None:
    frame = pd.DataFrame({"i": np.arange(3, dtype="uint8"), "b": [True, False, True]})
    schema = Schema.infer(frame)
    decoded = schema.decode([[1.0, np.nan], [np.nan, 1.0]])
    assert [str(t) for t in decoded.dtypes] == ["UInt8", "boolean"]
    assert decoded["i"].tolist() == [1, pd.NA]
    assert decoded["b"].tolist() == [pd.NA, True]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "uint64"])
def test_whole_numbers_are_rounded_and_kept_in_range(dtype) -> None:
    info = np.iinfo(dtype)
    schema = Schema.infer(pd.DataFrame({"i": np.array([1, 2], dtype)}))
    decoded = schema.decode([[2.4], [2.6], [1e300], [-1e300], [np.inf]])["i"]
    assert decoded.dtype == dtype
    assert decoded[0] == 2
    assert decoded[1] == 3
    assert info.max * (1 - 1e-15) <= int(decoded[2]) <= info.max
    assert decoded[2] == decoded[4]
    assert decoded[3] == info.min


def test_the_largest_entry_decides_a_category_and_half_decides_a_boolean() -> None:
    table = pa.table({"c": ["x", "y", "z", "x", "y", "z"], "b": [True, False] * 3})
    decoded = Schema.infer(table).decode([[0.2, 0.5, 0.3, 0.49], [-3.0, -2.0, -1.0, 0.51]])
    assert decoded.to_pydict() == {"c": ["y", "z"], "b": [False, True]}


def test_dates_are_days_since_the_first_and_keep_their_resolution() -> None:
    days = pd.date_range("2020-02-01", periods=30, freq="D").astype("datetime64[ns]")
    hours = pd.date_range("2020-02-01 00:30", periods=30, freq="6h").astype("datetime64[us]")
    schema = Schema.infer(pd.DataFrame({"day": days, "hour": hours}))
    matrix = schema.encode(pd.DataFrame({"day": days, "hour": hours}))
    np.testing.assert_allclose(matrix[:, 0], np.arange(30))
    np.testing.assert_allclose(matrix[:, 1], np.arange(30) / 4)
    decoded = schema.decode([[1.4, 0.26], [1e30, -1e30]])
    assert decoded["day"][0] == pd.Timestamp("2020-02-02")
    assert decoded["hour"][0] == pd.Timestamp("2020-02-01 06:30")
    assert decoded["day"][1].year == 2262  # the last year that nanoseconds reach
    assert decoded["hour"][1].year == 1


def test_groups_partition_the_matrix_by_column() -> None:
    schema = Schema.infer(polars_frame())
    covered = np.concatenate([np.arange(schema.width)[group] for group in schema.groups])
    np.testing.assert_array_equal(covered, np.arange(schema.width))
    widths = [group.stop - group.start for group in schema.groups]
    assert widths == [len(c.categories) if c.kind == "category" else 1 for c in schema.columns]


def test_text_is_dropped_and_reported() -> None:
    frame = pd.DataFrame(
        {
            "name": [f"person {i}" for i in range(100)],
            "city": ["Bern", "Rome"] * 50,
            "age": range(100),
            "empty": [None] * 100,
            "list": [[1, 2]] * 100,
        }
    )
    schema = Schema.infer(frame)
    assert schema.names == ("name", "city", "age", "empty", "list")
    assert list(schema.dropped) == ["name", "empty", "list"]
    assert [c.name for c in schema.columns] == ["city", "age"]
    assert list(schema.decode(schema.encode(frame)).columns) == ["city", "age"]


def test_a_table_of_text_only_is_refused_in_one_sentence() -> None:
    frame = pd.DataFrame({"name": ["ann b", "carl d", "eve f"], "note": ["tall", "short", "old"]})
    with pytest.raises(InvalidInput, match=r"every column is text.*'name', 'note'.*kinds=\{'name': 'category'\}"):
        Schema.infer(frame)
    assert Schema.infer(frame, kinds={"name": "category"}).width == 3


def test_kinds_drop_and_target_overrule_the_guess() -> None:
    frame = pd.DataFrame({"zip": [8001, 3011, 8001], "id": [1, 2, 3], "y": [0, 1, 0], "x": [1.0, 2.0, 3.0]})
    schema = Schema.infer(frame, kinds={"zip": "category", "x": "integer"}, drop=["id"], target="y")
    assert schema.names == ("zip", "x")
    assert schema.encoded_names == ("zip=3011", "zip=8001", "x")
    decoded = schema.decode([[0.0, 1.0, 2.7]])
    assert decoded["zip"].dtype == "int64"
    assert decoded.to_dict("list") == {"zip": [8001], "x": [3.0]}


@pytest.mark.parametrize("argument", [{"target": "ages"}, {"drop": ["ages"]}, {"kinds": {"ages": "number"}}])
def test_a_missing_column_suggests_the_nearest(argument) -> None:
    frame = pd.DataFrame({"age": [1, 2], "size": [3, 4]})
    with pytest.raises(InvalidInput, match=r"no column 'ages'; did you mean 'age'\?"):
        Schema.infer(frame, **argument)


def test_encode_finds_columns_by_name_in_any_library() -> None:
    frame = pd.DataFrame({"b": [1, 2], "a": ["u", "v"], "c": [True, False]})
    schema = Schema.infer(frame, kinds={"a": "category"})
    expected = schema.encode(frame)
    other = pl.DataFrame({"c": [True, False], "extra": [0, 0], "a": ["u", "v"], "b": [1.0, 2.0]})
    np.testing.assert_array_equal(schema.encode(other), expected)
    np.testing.assert_array_equal(schema.encode(other.lazy()), expected)
    np.testing.assert_array_equal(schema.encode(to_arrow(other)), expected)
    with pytest.raises(InvalidInput, match=r"Schema\.encode: the table has no column 'b'"):
        schema.encode(frame[["a", "c"]])


def test_an_unknown_category_is_named() -> None:
    schema = Schema.infer(pa.table({"city": ["Bern", "Rome", "Bern"]}))
    for bad in (pa.array(["Bern", "Oslo"]), pa.array(["Bern", "Oslo"]).dictionary_encode()):
        with pytest.raises(InvalidInput, match=r"'city' holds 'Oslo'.*2 categories \('Bern', 'Rome'\)"):
            schema.encode(pa.table({"city": bad}))
    encoded = schema.encode(pa.table({"city": pa.array(["Rome", None]).dictionary_encode()}))
    np.testing.assert_array_equal(encoded, [[0, 1], [np.nan, np.nan]])


def test_text_where_numbers_were_learned_is_refused() -> None:
    schema = Schema.infer(pd.DataFrame({"age": [1.0, 2.0]}))
    with pytest.raises(InvalidInput, match=r"column 'age' holds 'old' of type .*learned as a number"):
        schema.encode(pd.DataFrame({"age": ["old", "young"]}))


def test_frames_of_another_library_on_request() -> None:
    frame = pd.DataFrame({"x": [1.5, 2.5], "c": pd.Categorical(["a", "b"]), "i": [1, 2]})
    schema = Schema.infer(frame)
    matrix = schema.encode(frame)
    as_polars = schema.decode(matrix, frame="polars")
    assert as_polars.schema == {"x": pl.Float64(), "c": pl.Categorical(), "i": pl.Int64()}
    assert schema.decode(matrix, frame="arrow").to_pydict() == {"x": [1.5, 2.5], "c": ["a", "b"], "i": [1, 2]}
    back = Schema.infer(as_polars).decode(matrix, frame="pandas")
    pd.testing.assert_frame_equal(back, frame, check_categorical=False, check_dtype=False)


def test_integer_labels_and_the_index_of_pandas_are_kept() -> None:
    frame = pd.DataFrame(RNG.normal(size=(3, 2)), index=["p", "q", "r"])
    schema = Schema.infer(frame)
    pd.testing.assert_frame_equal(
        schema.decode(schema.encode(frame), index=frame.index), frame, check_column_type=False
    )
    assert schema.names == (0, 1)


def test_frames_in_many_pieces_encode_like_one() -> None:
    table = arrow_table()
    pieces = pa.concat_tables([table.slice(0, 7), table.slice(7, 20), table.slice(27)])
    schema = Schema.infer(pieces)
    assert schema == Schema.infer(table)
    np.testing.assert_array_equal(schema.encode(pieces), schema.encode(table))


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "two columns are called 'a'"),
        (pd.DataFrame({"z": [1j]}), "Complex data not supported"),
        (pd.DataFrame({"m": [1, "one"]}), "column 'm'.*mixes types"),
        (pd.DataFrame({"bin": pd.cut([1.0, 2.0, 3.0], 2)}), r"categories of column 'bin'.*astype\(str\)"),
    ],
)
def test_frames_that_cannot_be_read_say_why(frame, message) -> None:
    with pytest.raises(InvalidInput, match=message):
        Schema.infer(frame)


def test_bad_arguments_say_what_would_work() -> None:
    table = pa.table({"x": [1.0], "s": ["a"]})
    with pytest.raises(InvalidInput, match=r"kind 'numbr'.*did you mean 'number'"):
        Schema.infer(table, kinds={"x": "numbr"})
    with pytest.raises(InvalidInput, match="'s' of type string cannot be read as kind 'number'"):
        Schema.infer(table, kinds={"s": "number"})
    with pytest.raises(InvalidInput, match=r"shape \(2, 2\).*\(n, 1\)"):
        Schema.infer(table, drop=["s"]).decode(np.zeros((2, 2)))
    with pytest.raises(InvalidInput, match="use 'pandas', 'polars' or 'arrow'"):
        Schema.infer(table, drop=["s"]).decode(np.zeros((2, 1)), frame="spark")
    with pytest.raises(InvalidInput, match="no column is left"):
        Schema.infer(table, drop=["x", "s"])


def test_only_frames_are_frames() -> None:
    assert all(map(is_frame, (pandas_frame(), polars_frame(), polars_frame().lazy(), arrow_table())))
    assert not any(map(is_frame, ([[1.0]], np.zeros((2, 2)), {"a": [1]}, pd.Series([1]), "a.csv")))


@pytest.mark.parametrize("field", [*arrow_table().schema, *to_arrow(polars_frame()).schema], ids=str)
def test_arrow_types_are_read_back_from_their_names(field) -> None:
    assert arrow_type(str(field.type)) == field.type
