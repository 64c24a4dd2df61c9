from __future__ import annotations

import gzip
import struct

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from benthic.base.errors import InvalidInput
from benthic.data import load, names, read, scan
from benthic.data.toys import TOYS

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame({"age": [31, 45, 22], "size": [1.5, 2.5, 0.5], "city": ["Bern", "Rome", "Bern"]})


@pytest.fixture(params=["csv", "tsv", "csv.gz", "parquet"])
def table_path(request, tmp_path):
    path = tmp_path / f"people.{request.param}"
    if request.param == "parquet":
        FRAME.to_parquet(path)
    else:
        FRAME.to_csv(path, index=False, sep="\t" if request.param == "tsv" else ",")
    return path


def test_tables_are_read_whole_with_names_and_types(table_path) -> None:
    data = read(table_path)
    assert isinstance(data.X, pa.Table)
    assert data.X.to_pydict() == FRAME.to_dict("list")
    assert data.feature_names == ("age", "size", "city")
    assert data.y is None
    assert data.rows == 3


def test_target_and_drop_split_a_table(table_path) -> None:
    data = read(table_path, target="city", drop=["size"])
    assert data.X.column_names == ["age"]
    assert data.y.tolist() == ["Bern", "Rome", "Bern"]
    assert read(table_path, target="age").y.dtype == np.int64
    made = scan(table_path, target="age")
    assert made.target_values().tolist() == [22, 31, 45]


@pytest.mark.parametrize("function", [read, scan])
def test_a_missing_column_suggests_the_nearest(table_path, function) -> None:
    with pytest.raises(InvalidInput, match=r"has no column 'agee'; did you mean 'age'\?"):
        function(table_path, target="agee")
    with pytest.raises(InvalidInput, match="no column 'zebra'; its columns are 'age', 'size', 'city'"):
        function(table_path, drop=["zebra"])


def test_a_target_with_holes_is_refused(tmp_path) -> None:
    (tmp_path / "t.csv").write_text("a,y\n1,2\n2,\n3,4\n")
    with pytest.raises(InvalidInput, match="target 'y' is missing in 1 of 3 rows, first in row 1"):
        read(tmp_path / "t.csv", target="y")


def test_categories_of_parquet_come_back(tmp_path) -> None:
    frame = pd.DataFrame({"c": pd.Categorical(["b", "a", "b"], categories=["b", "a"]), "x": [1, 2, 3]})
    pq.write_table(pa.Table.from_pandas(frame), tmp_path / "t.parquet", row_group_size=1)
    assert read(tmp_path / "t.parquet").X.column("c").to_pylist() == ["b", "a", "b"]
    assert read(tmp_path / "t.parquet", target="c").y.tolist() == ["b", "a", "b"]


def test_npy_and_its_columns(tmp_path) -> None:
    X = RNG.normal(size=(6, 3))
    np.save(tmp_path / "t.npy", X)
    np.testing.assert_array_equal(read(tmp_path / "t.npy").X, X)
    data = read(tmp_path / "t.npy", target=-1, drop=["0"])
    np.testing.assert_array_equal(data.X, X[:, 1:2])
    np.testing.assert_array_equal(data.y, X[:, 2])
    with pytest.raises(InvalidInput, match="no column 'age'; an array without names has columns 0 to 2"):
        read(tmp_path / "t.npy", target="age")


def test_npz_finds_inputs_and_targets_by_name(tmp_path) -> None:
    X, y = RNG.normal(size=(5, 2, 4)), np.arange(5)
    np.savez(tmp_path / "a.npz", X=X, y=y, extra=1)
    data = read(tmp_path / "a.npz")
    np.testing.assert_array_equal(data.X, X)
    np.testing.assert_array_equal(data.y, y)
    np.savez(tmp_path / "b.npz", pictures=X, digits=y)
    data = read(tmp_path / "b.npz", target="digits")
    np.testing.assert_array_equal(data.X, X)
    assert data.target == "digits"
    with pytest.raises(InvalidInput, match=r"none of the arrays .* is called X \(pictures, digits\)"):
        read(tmp_path / "b.npz")
    with pytest.raises(InvalidInput, match=r"no array 'digit'; did you mean 'digits'\?"):
        read(tmp_path / "b.npz", target="digit")
    made = scan(tmp_path / "a.npz")
    assert (made.rows, made.width, made.event_shape) == (5, 8, (2, 4))


def write_idx(path, array: np.ndarray) -> None:
    code = {"uint8": 8, "int16": 11, "float32": 13}[str(array.dtype)]
    data = struct.pack(f">HBB{array.ndim}I", 0, code, array.ndim, *array.shape)
    data += array.astype(array.dtype.newbyteorder(">")).tobytes()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


@pytest.mark.parametrize("end", ["", ".gz"])
def test_idx_pictures_come_with_the_labels_beside_them(tmp_path, end) -> None:
    pictures = RNG.integers(0, 256, (7, 4, 5), dtype=np.uint8)
    labels = np.arange(7, dtype=np.uint8)
    write_idx(tmp_path / f"train-images-idx3-ubyte{end}", pictures)
    write_idx(tmp_path / f"train-labels-idx1-ubyte{end}", labels)
    data = read(tmp_path / f"train-images-idx3-ubyte{end}")
    assert data.X.shape == (7, 1, 4, 5)
    assert data.X.dtype == np.float32
    np.testing.assert_array_equal(np.rint(data.X[:, 0] * 255), pictures)
    assert data.X.min() >= 0
    assert data.X.max() <= 1
    np.testing.assert_array_equal(data.y, labels)
    np.testing.assert_array_equal(read(tmp_path / f"train-images-idx3-ubyte{end}", data.target).y, labels)


def test_idx_of_other_types(tmp_path) -> None:
    for dtype in ("int16", "float32"):
        table = RNG.normal(size=(6, 3)) * 100
        write_idx(tmp_path / f"t-{dtype}.idx", table.astype(dtype))
        np.testing.assert_array_equal(read(tmp_path / f"t-{dtype}.idx").X, table.astype(dtype))


def save_pictures(folder, pictures) -> None:
    folder.mkdir(parents=True)
    for i, picture in enumerate(pictures):
        Image.fromarray(picture).save(folder / f"{i:03d}.png")


def test_a_folder_of_pictures(tmp_path) -> None:
    gray = RNG.integers(0, 256, (4, 6, 5), dtype=np.uint8)
    save_pictures(tmp_path / "flat", gray)
    (tmp_path / "flat" / "notes.txt").write_text("not a picture")
    data = read(tmp_path / "flat")
    assert data.X.shape == (4, 1, 6, 5)
    assert data.y is None
    np.testing.assert_array_equal(np.rint(data.X[:, 0] * 255), gray)


def test_one_folder_for_each_class(tmp_path) -> None:
    color = RNG.integers(0, 256, (3, 6, 5, 3), dtype=np.uint8)
    gray = RNG.integers(0, 256, (2, 6, 5), dtype=np.uint8)
    save_pictures(tmp_path / "set" / "cat", color)
    save_pictures(tmp_path / "set" / "ant", gray)
    data = read(tmp_path / "set")
    assert data.X.shape == (5, 3, 6, 5)
    assert data.y.tolist() == [0, 0, 1, 1, 1]
    assert data.target_names == ("ant", "cat")
    assert read(tmp_path / "set", data.target).y.tolist() == data.y.tolist()
    np.testing.assert_array_equal(np.rint(data.X[2:] * 255), color.transpose(0, 3, 1, 2))
    np.testing.assert_array_equal(np.rint(data.X[:2] * 255), np.repeat(gray[:, None], 3, 1))


def test_bad_folders_say_what_is_wrong(tmp_path) -> None:
    save_pictures(tmp_path / "a", [np.zeros((4, 4), np.uint8), np.zeros((5, 4), np.uint8)])
    with pytest.raises(InvalidInput, match=r"001\.png is 4x5, but 000\.png is 4x4; resize"):
        read(tmp_path / "a")
    with pytest.raises(InvalidInput, match="has no columns"):
        read(tmp_path / "a", target="x")
    (tmp_path / "a" / "000.png").write_bytes(b"not a picture")
    with pytest.raises(InvalidInput, match=r"000\.png is not a whole picture"):
        read(tmp_path / "a")
    save_pictures(tmp_path / "a" / "inner", [np.zeros((4, 4), np.uint8)])
    with pytest.raises(InvalidInput, match="both in itself and in folders"):
        read(tmp_path / "a")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidInput, match="has no pictures"):
        read(tmp_path / "empty")


@pytest.mark.parametrize("name", ["t.parquet", "t.npy", "t.npz", "t.idx", "t.csv.gz", "t-idx3-ubyte.gz"])
@pytest.mark.parametrize("damage", ["foreign", "truncated"])
def test_damaged_files_are_refused_by_name(tmp_path, name, damage) -> None:
    path = tmp_path / name
    if name.endswith("parquet"):
        FRAME.to_parquet(path)
    elif name.endswith("npy"):
        np.save(path, np.zeros((50, 3)))
    elif name.endswith("npz"):
        np.savez(path, X=np.zeros((50, 3)))
    elif "idx" in name:
        write_idx(path, np.zeros((5, 3, 3), np.uint8))
    else:
        path.write_bytes(gzip.compress(RNG.bytes(500)))
    path.write_bytes(path.read_bytes()[:-20] if damage == "truncated" else b"this is something else entirely")
    for function in (read, scan):
        with pytest.raises(InvalidInput, match=name.replace(".", r"\.")):
            function(path)


def test_arrays_that_are_not_numbers_are_refused(tmp_path) -> None:
    np.save(tmp_path / "s.npy", np.array([["a", "b"]]))
    np.save(tmp_path / "o.npy", np.array([[{}]], dtype=object), allow_pickle=True)
    np.save(tmp_path / "c.npy", np.ones((2, 2), complex))
    np.save(tmp_path / "e.npy", np.ones((0, 2)))
    for name, message in (
        ("s", "real numbers"),
        ("o", "whole NPY file"),
        ("c", "real numbers"),
        ("e", "0 rows|no rows"),
    ):
        for function in (read, scan):
            with pytest.raises(InvalidInput, match=message):
                function(tmp_path / f"{name}.npy")


def test_paths_that_lead_nowhere_suggest_the_nearest(tmp_path) -> None:
    (tmp_path / "people.csv").write_text("a\n1\n")
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "notes.docx").write_text("words")
    for function in (read, scan):
        with pytest.raises(InvalidInput, match=r"no file '.*pepole\.csv'; did you mean 'people\.csv'\?"):
            function(tmp_path / "pepole.csv")
        with pytest.raises(InvalidInput, match=r"empty\.csv is empty"):
            function(tmp_path / "empty.csv")
        with pytest.raises(InvalidInput, match=r"notes\.docx is of an unknown kind; pass CSV"):
            function(tmp_path / "notes.docx")


@pytest.mark.parametrize("name", names())
def test_everything_bundled_loads(name) -> None:
    data = load(name)
    assert data.name == name
    assert data.description
    assert len(data.feature_names) == data.X.shape[1]
    assert np.isfinite(data.X).all()
    if data.y is not None:
        assert data.y.shape == (len(data.X),)
        if data.target_names:
            np.testing.assert_array_equal(np.unique(data.y), np.arange(len(data.target_names)))


def test_digits_lie_between_zero_and_one() -> None:
    X = load("digits").X
    assert (X.min(), X.max()) == (0, 1)


def test_toys_are_drawn_to_measure() -> None:
    assert set(TOYS) < set(names())
    assert load("moons", n=17).X.shape == (17, 2)
    np.testing.assert_array_equal(load("moons", n=17, seed=1).X, load("moons", n=17, seed=1).X)
    assert not np.array_equal(load("moons", n=17).X, load("moons", n=17, seed=1).X)


def test_bundled_columns_can_be_dropped_or_predicted() -> None:
    iris = load("iris")
    data = load("iris", target="petal width (cm)", drop=["sepal length (cm)"])
    assert data.feature_names == ("sepal width (cm)", "petal length (cm)")
    np.testing.assert_array_equal(data.y, iris.X[:, 3])
    np.testing.assert_array_equal(load("iris", target="species").y, iris.y)
    with pytest.raises(InvalidInput, match=r"no column 'petal wdth \(cm\)'; did you mean 'petal width \(cm\)'\?"):
        load("iris", target="petal wdth (cm)")


def test_load_takes_paths_too_and_names_what_exists(table_path) -> None:
    assert load(table_path, target="age").y.tolist() == [31, 45, 22]
    with pytest.raises(InvalidInput, match=r"'irs' is neither.*did you mean 'iris'\?; bundled are digits, iris"):
        load("irs")
