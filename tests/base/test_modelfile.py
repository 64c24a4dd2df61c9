"""Model files: exact round trips, and one clear sentence for everything that can be wrong with one."""

from __future__ import annotations

import json
import math
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save as save_arrays
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import benthic
from benthic.base.errors import ModelFileError
from benthic.base.modelfile import dumps, load_tree, save_tree

X = np.random.default_rng(0).normal(size=(60, 3))
Y = (X[:, 0] > 0).astype(int)


@pytest.fixture
def path(tmp_path):
    model = benthic.MLPClassifier((4,), trainer={"steps": 5}, random_state=0).fit(X, Y)
    return model.save(tmp_path / "model.safetensors")


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        3,
        -0.1,
        math.inf,
        "naïve 数",
        (1, (2.5, "a"), [None]),
        {1: "one", (2, 3): [4], None: {}},
        slice(1, None, 2),
        Path("runs/a"),
        np.float32(1.5),
        np.arange(6).reshape(2, 3),
        np.asfortranarray(np.arange(12.0).reshape(3, 4)),
        np.arange(10.0)[::-2],
        np.array(["a", "ünïcode", ""], dtype=object),
        np.array([["x", "yy"], ["z", ""]]),
        np.array([1, "mixed", None], dtype=object),
        np.array([1 + 2j, -3j]),
        np.array(["2024-01-02", "NaT"], dtype="datetime64[D]"),
        np.zeros((0, 3)),
        np.array(5, dtype=np.int8),
        np.array([True, False]),
    ],
    ids=repr,
)
def test_values_come_back_as_they_were(value, tmp_path):
    back = load_tree(save_tree(tmp_path / "v.safetensors", value))
    if isinstance(value, (np.ndarray, np.generic)):
        assert back.dtype == value.dtype and back.shape == value.shape
        np.testing.assert_array_equal(back, value)
    else:
        assert back == value and type(back) is type(value)


def test_nan_and_minus_zero(tmp_path):
    back = load_tree(save_tree(tmp_path / "v.safetensors", [math.nan, -0.0]))
    assert math.isnan(back[0]) and math.copysign(1, back[1]) == -1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.int64, torch.bool])
def test_tensors_keep_type_and_bits(dtype, tmp_path):
    value = torch.randn(3, 4, generator=torch.Generator().manual_seed(0)).to(dtype).T
    back = load_tree(save_tree(tmp_path / "v.safetensors", value))
    assert back.dtype == dtype and torch.equal(back, value)


def test_the_same_array_is_stored_once(tmp_path):
    big = np.random.default_rng(0).normal(size=10_000)
    once, twice = len(dumps([big])), len(dumps([big, big]))
    assert twice < once + 1000


def test_every_flipped_byte_is_noticed(path):
    data = path.read_bytes()
    rng = np.random.default_rng(0)
    for position in rng.choice(len(data), 150, replace=False):
        broken = bytearray(data)
        broken[position] ^= 0x10
        path.write_bytes(bytes(broken))
        with pytest.raises((ModelFileError, FileNotFoundError)):
            benthic.load(path)


@pytest.mark.parametrize("keep", [0, 5, 100, 0.5, 0.999])
def test_a_truncated_file(path, keep):
    data = path.read_bytes()
    path.write_bytes(data[: int(keep * len(data)) if isinstance(keep, float) else keep])
    with pytest.raises(ModelFileError, match="truncated|damaged"):
        benthic.load(path)


def test_a_foreign_safetensors_file(path):
    path.write_bytes(save_arrays({"w": np.zeros(3)}))
    with pytest.raises(ModelFileError, match="not a Benthic model file"):
        benthic.load(path)


def test_a_pickle_is_never_opened(path):
    path.write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(ModelFileError, match="not a Benthic model file"):
        benthic.load(path)


def test_a_file_of_a_future_version(path):
    meta = json.dumps({"format": 99, "crc": 0, "tree": "null"})
    path.write_bytes(save_arrays({}, metadata={"benthic": meta}))
    with pytest.raises(ModelFileError, match=r"newer Benthic \(format 99; this one reads up to 1\)"):
        benthic.load(path)


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match="no file"):
        benthic.load(tmp_path / "none.safetensors")
    with pytest.raises(ModelFileError, match="is a folder"):
        benthic.load(tmp_path)


def test_unknown_classes_are_not_imported(path):
    from benthic.base.modelfile import FORMAT, _checksum

    for tree in (
        {"$sklearn": "DummyClassifier", "state": {}},
        {"$estimator": "os", "params": []},
        {"$record": "Popen"},
    ):
        text = json.dumps(tree)
        meta = json.dumps({"format": FORMAT, "crc": _checksum(text, {}), "tree": text})
        path.write_bytes(save_arrays({}, metadata={"benthic": meta}))
        with pytest.raises(ModelFileError, match="unknown|does not know|not on the list"):
            benthic.load(path)


def test_callables_are_refused_by_name_and_can_be_left_out(tmp_path):
    def schedule(step, total):
        return 1.0

    model = benthic.MLPClassifier((4,), trainer={"steps": 5, "schedule": schedule}, random_state=0).fit(X, Y)
    with pytest.raises(ModelFileError, match=r"trainer\.schedule is .*leave_out"):
        model.save(tmp_path / "m.safetensors")
    assert not (tmp_path / "m.safetensors").exists()
    model.save(tmp_path / "m.safetensors", leave_out=["trainer.schedule"])
    with pytest.raises(ModelFileError, match="was left out"):
        benthic.load(tmp_path / "m.safetensors")
    loaded = benthic.load(tmp_path / "m.safetensors", modules={"trainer.schedule": schedule})
    assert loaded.trainer["schedule"] is schedule
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


def test_nested_pipelines_with_categories(tmp_path):
    import pandas as pd

    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": np.where(X[:, 2] > 0, "up", "down")})
    pipe = make_pipeline(
        make_column_transformer((StandardScaler(), ["a", "b"]), (OneHotEncoder(sparse_output=False), ["c"])),
        benthic.MLPClassifier((4,), trainer=benthic.Trainer(steps=5), random_state=0),
    ).fit(frame, Y)
    loaded = benthic.load(benthic.save(pipe, tmp_path / "p.safetensors"))
    np.testing.assert_array_equal(loaded.predict_proba(frame), pipe.predict_proba(frame))
    assert loaded[-1].trainer == benthic.Trainer(steps=5)


def test_a_failed_save_leaves_the_old_file(path):
    before = path.read_bytes()
    model = benthic.load(path)
    model.trainer = {"schedule": lambda step, total: 1.0}
    with pytest.raises(ModelFileError):
        model.save(path)
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_a_read_only_folder(tmp_path, monkeypatch):
    import benthic.base.files as files

    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(files.tempfile, "mkstemp", refuse)
    with pytest.raises(PermissionError, match="Permission denied"):
        benthic.save(benthic.VAE(), tmp_path / "m.safetensors")
