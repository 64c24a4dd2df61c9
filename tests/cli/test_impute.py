"""Empty cells of tables and arrays filled, and nothing else changed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import benthic
from tests.cli.conftest import call

HOLED = ("kind", "age", "weight", "wild", "born", "note")


@pytest.fixture(scope="session")
def gaps(tmp_path_factory, pets) -> Path:
    """The pets with empty cells of every kind."""
    rng = np.random.default_rng(1)
    frame = pd.read_parquet(pets).astype({"age": "Int16", "wild": "boolean"})
    for name in HOLED:
        gone = np.isin(np.arange(len(frame)), rng.choice(len(frame), 9, replace=False))
        frame[name] = frame[name].mask(gone)
    path = tmp_path_factory.mktemp("gaps") / "gaps.parquet"
    frame.to_parquet(path)
    frame.to_csv(path.with_suffix(".csv"), index=False)
    return path


def test_a_table_comes_back_without_gaps_and_else_the_same(pets_run, gaps):
    answer = call("impute", pets_run, gaps, "--out", "full.parquet").ok()
    assert "filled 45 empty cells; those of note" in answer.err
    before, after = pq.read_table(gaps), pq.read_table("full.parquet")
    assert after.schema.remove_metadata().equals(before.schema.remove_metadata())
    for name in before.column_names:
        old, new = before.column(name).to_pylist(), after.column(name).to_pylist()
        assert all(b == a for a, b in zip(old, new, strict=True) if a is not None)
        assert after.column(name).null_count == (9 if name == "note" else 0)  # text is not learned
    holed = np.array([value is None for value in before.column("weight").to_pylist()])
    weights = np.array(after.column("weight").to_pylist())[holed]
    rows = before.select([str(name) for name in benthic.load(pets_run / "model.safetensors").feature_names_in_])
    some = np.any([np.array(rows.column(name).is_null()) for name in rows.column_names if name != "note"], axis=0)
    made = benthic.load(pets_run / "model.safetensors").impute(rows.filter(some))
    np.testing.assert_array_equal(weights, np.array(made.column("weight"))[holed[some]])


def test_a_csv_file_goes_the_same_way(pets_run, gaps):
    text = call("impute", pets_run, gaps.with_suffix(".csv")).ok().out
    Path("full.csv").write_text(text)
    before, after = pd.read_csv(gaps.with_suffix(".csv")), pd.read_csv("full.csv")
    assert list(before.columns) == list(after.columns)
    assert after["age"].dtype == np.int64  # whole numbers stay whole
    assert set(after["kind"]) == {"cat", "dog", "bird"}
    known = before.notna()
    pd.testing.assert_frame_equal(after.where(known).astype(object), before.where(known).astype(object))
    assert after.drop(columns="note").notna().all(axis=None)


@pytest.fixture
def sides(tmp_path) -> pd.DataFrame:
    """Points left and right, a fifth of them with a gap, and two that do not say which side they are on."""
    rng = np.random.default_rng(0)
    right = np.arange(60) % 2 == 1
    frame = pd.DataFrame(rng.normal(size=(60, 2)) + np.where(right, 8.0, -8.0)[:, None], columns=["a", "b"])
    frame["side"] = np.where(right, "right", "left")
    frame.to_csv("sides.csv", index=False)
    frame.loc[::5, "a"] = np.nan
    frame.loc[[0, 5], "b"] = np.nan
    frame.loc[[5, 10], "side"] = None
    frame.to_csv("holes.csv", index=False)
    return frame


def test_gaps_are_filled_given_the_label_of_the_row(sides):
    call("fit", "GaussianNB", "sides.csv", "--target", "side", "--test-fraction", "0", "--out", "run").ok()
    model = benthic.load("run/model.safetensors")
    call("impute", "run", "holes.csv", "--out", "full.csv").ok()
    full = pd.read_csv("full.csv")
    means = dict(zip(model.classes_, model.theta_, strict=True))
    for i in range(0, 60, 5):
        label = sides["side"][i]
        if isinstance(label, str):
            assert full["a"][i] == pytest.approx(means[label][0])
    both = model.class_prior_ @ model.theta_  # a row of which nothing is known
    assert [full["a"][5], full["b"][5]] == pytest.approx(both)
    assert full["side"].isna().tolist() == sides["side"].isna().tolist()  # the label itself is not filled
    sides.rename(columns={"side": "place"}).to_csv("other.csv", index=False)
    call("impute", "run", "other.csv", "--given", "place", "--out", "again.csv").ok()
    assert pd.read_csv("again.csv")["a"].tolist() == full["a"].tolist()


def test_arrays_keep_their_columns():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3)) + np.repeat([[-5.0], [5.0]], 25, axis=0)
    whole = np.column_stack([X, np.repeat([0.0, 1.0], 25)])
    np.save("whole.npy", whole)
    call("fit", "GaussianNB", "whole.npy", "--target", "-1", "--test-fraction", "0", "--out", "run").ok()
    model = benthic.load("run/model.safetensors")
    holed = whole.copy()
    holed[3, 1] = holed[40, :3] = np.nan
    np.save("holed.npy", holed)
    np.save("alone.npy", holed[:, :3])
    for name in ("holed", "alone"):
        call("impute", "run", f"{name}.npy", "--out", "full.npy").ok()
        full = np.load("full.npy")
        assert full.shape == np.load(f"{name}.npy").shape
        np.testing.assert_array_equal(
            full[~np.isnan(np.load(f"{name}.npy"))], np.load(f"{name}.npy")[~np.isnan(np.load(f"{name}.npy"))]
        )
        expected = model.theta_[1] if name == "holed" else model.class_prior_ @ model.theta_
        np.testing.assert_allclose(full[40, :3], expected)


def test_pictures_and_sequences_are_filled(tmp_path):
    rng = np.random.default_rng(0)
    pictures = rng.random((30, 1, 4, 4))
    model = benthic.VAE(2, hidden_layer_sizes=(8,), trainer={"steps": 5}, random_state=0).fit(pictures)
    model.save("vae.safetensors")
    holed = pictures.copy()
    holed[7, 0, 1:3] = np.nan
    np.save("holed.npy", holed)
    call("impute", "vae.safetensors", "holed.npy", "--out", "full.npy").ok()
    full = np.load("full.npy")
    np.testing.assert_allclose(full[7], model.impute(holed[7:8])[0])
    np.testing.assert_array_equal(np.delete(full, 7, 0), np.delete(pictures, 7, 0))
    waves = pd.DataFrame(rng.normal(size=(40, 12)), columns=[f"t{i}" for i in range(12)])
    model = benthic.AutoRegressive(2).fit(waves.to_numpy())
    model.save("ar.safetensors")
    waves.loc[3, "t6"] = np.nan
    waves.to_csv("waves.csv", index=False)
    call("impute", "ar.safetensors", "waves.csv", "--out", "waves_full.csv").ok()
    back = pd.read_csv("waves_full.csv")
    assert list(back.columns) == list(waves.columns)
    np.testing.assert_allclose(back.loc[3], model.impute(waves.to_numpy()[3:4])[0])
    pd.testing.assert_frame_equal(back.drop(index=3), waves.drop(index=3))


def test_what_cannot_be_filled(pets_run, iris_run, pets, gaps, sides):
    def refused(*words: object, code: int, hint: str) -> None:
        answer = call("impute", *words)
        assert (answer.code, answer.out) == (code, "")
        assert hint in answer.err
        assert len(answer.err.strip().splitlines()) == 1

    refused(pets_run, pets, code=1, hint="no empty cells")
    pd.read_parquet(gaps)[["note"]].join(pd.read_parquet(pets).drop(columns="note")).to_parquet("only.parquet")
    refused(pets_run, "only.parquet", code=1, hint="only in note")
    refused(pets_run, "holes.csv", code=1, hint="lacks the columns 'kind'")
    refused(pets_run, gaps, "--given", "kind", code=2, hint="DDPM")
    refused(pets_run, gaps, "--out", "x.doc", code=2, hint=".parquet")
    refused(pets_run, "iris", code=1, hint="iris has no empty cells")
    np.save("wide.npy", np.full((3, 9), np.nan))
    benthic.PCA(1).fit(np.eye(3)).save("pca.safetensors")
    refused("pca.safetensors", "wide.npy", code=1, hint="9 are inputs, but PCA was fitted on 3")
    refused(iris_run, "iris", code=2, hint="GaussianMixture")
    words = ("--set", "latent_dim=1", "--set", "hidden_layer_sizes=8", "--set", "trainer.steps=5", "--drop", "side")
    call("fit", "ConditionalVAE", "sides.csv", "--given", "b", *words, "--out", "needs").ok()
    refused("needs", "holes.csv", code=2, hint="2 rows of holes.csv lack")
