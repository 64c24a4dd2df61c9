"""Every model of the catalogue through every command that applies to it."""

from __future__ import annotations

import numpy as np
import pyarrow.csv as csv
import pytest
import yaml

import benthic
from benthic import catalogue
from benthic.data import bundled as toys
from tests.cli.conftest import call


def bundled(name: str) -> str:
    tasks = catalogue()[name].tasks
    if "documents" in catalogue()[name].data:
        return "digits"  # counts of a kind
    return "iris" if "classify" in tasks else "diabetes" if "regress" in tasks else "moons"


# models of sequences have data of their own, see test_sequences
@pytest.mark.parametrize("name", [name for name, entry in catalogue().items() if "table" in entry.data])
def test_from_fit_to_evaluate(name, tmp_path, monkeypatch):
    data, draw = bundled(name), toys._toy
    monkeypatch.setattr(toys, "_toy", lambda kind, n, seed: draw(kind, 300, seed))  # enough for every command
    quick = [word for key, value in catalogue()[name].quick_params.items() for word in ("--set", f"{key}={value!r}")]
    if "random_state" in catalogue()[name].cls().get_params():
        quick += ["--set", "random_state=0"]
    found = call("fit", name, data, *quick, "--out", "run", "--json").ok().json
    assert found["metrics"]
    assert all(np.isfinite(number["value"]) for number in found["metrics"].values())
    config = yaml.safe_load((tmp_path / "run/config.yaml").read_text())
    model = benthic.load("run/model.safetensors")
    assert set(config["params"]) == set(model.get_params(deep=False))
    assert call("show", "run", "--json").ok().json["state"] == "finished"
    assert call("resume", "run").ok().out == ""
    again = call("evaluate", "run", data, "--json").ok().json["metrics"]
    assert set(again) == set(found["metrics"])
    rows = benthic.data.load(data)
    if hasattr(model, "predict"):
        call("predict", "run", data, "--out", "answers.npy").ok()
        np.testing.assert_array_equal(np.load("answers.npy"), model.predict(rows.X))
    if hasattr(model, "sample"):
        call("sample", "run", "-n", 7, "--seed", 5, "--out", "drawn.csv").ok()
        drawn = csv.read_csv("drawn.csv")
        assert drawn.column_names == list(rows.feature_names)
        np.testing.assert_array_equal(np.column_stack(drawn.columns), model.sample(7, seed=5))
    # the run is decided by its config alone; it was judged and drawn above
    monkeypatch.setattr("benthic.cli.job.judgeable", lambda model: False)
    monkeypatch.setattr("benthic.cli.figures.pictures_of", lambda model, rows: [])
    (tmp_path / "again").mkdir()
    (tmp_path / "again/config.yaml").write_text((tmp_path / "run/config.yaml").read_text())
    call("resume", "again").ok()
    assert (tmp_path / "again/model.safetensors").read_bytes() == (tmp_path / "run/model.safetensors").read_bytes()


def test_gaps_are_welcome_where_the_model_takes_them(pets, tmp_path):
    import pandas as pd

    frame = pd.read_parquet(pets).drop(columns=["note", "born"])
    frame.loc[::7, "weight"] = np.nan
    frame.to_parquet("gaps.parquet")
    words = ("--set", "n_components=3", "--set", "reg_covar=1e-3", "--set", "random_state=0", "--out", "run")
    found = call("fit", "GaussianMixture", "gaps.parquet", *words, "--json").ok().json
    assert found["metrics"]["log_likelihood"]["kind"] == "exact"
    call("sample", "run", "-n", 20, "--out", "drawn.parquet").ok()
    drawn = pd.read_parquet("drawn.parquet")
    assert drawn.dtypes.to_dict() == frame.dtypes.to_dict()
    assert (tmp_path / "run/pictures/model.png").exists()
    refused = call("fit", "ContinuousFlow", "gaps.parquet", "--out", "other")
    assert refused.code == 1
    assert "'weight'" in refused.err
    assert "GaussianMixture" in refused.err
