"""``benthic.compare`` on every kind of data: mixed tables, pictures, labels and targets, missing values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import benthic
from benthic.base.errors import InvalidInput
from benthic.data.toys import moons
from benthic.leaderboard.contest.baselines import OneGaussian, ResampledRows
from benthic.leaderboard.contest.showing.maps import latent_maps
from tests.leaderboard.contest.test_comparing import QUICK, QUIET
from tests.leaderboard.contest.test_protocol import frame


@pytest.mark.spec("I-03")
@pytest.mark.parametrize("library", ["pandas", "polars", "arrow"])
def test_mixed_tables_come_back_as_frames(library: str) -> None:
    data = frame(300)
    data["income"] += data["member"]
    X: Any = data
    if library == "polars":
        X = pytest.importorskip("polars").from_pandas(data)
    if library == "arrow":
        import pyarrow as pa

        X = pa.Table.from_pandas(data)
    models = ["GaussianMixture", benthic.VAE(2, hidden_layer_sizes=(16,), **QUICK)]
    found = benthic.compare(models, X, seeds=2, **QUIET)
    assert found.data.kind == "frame"
    assert [line.status for line in found.lines] == ["ok"] * len(found.lines)
    made = found.samples("VAE")
    assert type(made) is type(X)
    assert {str(name) for name in (made.column_names if library == "arrow" else made.columns)} == set(data.columns)
    assert "associations" in found.metrics


def test_tables_of_categories_alone_and_of_one_column() -> None:
    rng = np.random.default_rng(0)
    first = rng.choice(["a", "b", "c"], 600)
    data = pd.DataFrame({"first": first, "second": np.where(rng.random(600) < 0.95, first, "d")})
    found = benthic.compare({"mixture": benthic.GaussianMixture(3)}, data, seeds=2, **QUIET)
    assert found.line("mixture").ranked  # that all its rows are among the training rows is no copying
    assert found.line("mixture").quality < found.line("shuffled columns").quality
    column = rng.normal(size=(300, 1)) ** 3
    found = benthic.compare({"mixture": benthic.GaussianMixture(4)}, column, seeds=2, **QUIET)
    assert found.metrics == ("energy", "wasserstein", "marginals", "coverage")
    assert found.baselines == ("one Gaussian", "Gaussian mixture")
    assert all(line.ranked for line in found.lines)


def test_columns_that_do_not_vary_do_no_harm() -> None:
    X = np.column_stack([moons().sample(200, seed=0), np.full(200, 3.0)])
    found = benthic.compare({"mixture": benthic.GaussianMixture(3), "copier": ResampledRows()}, X, seeds=2, **QUIET)
    assert all(math.isfinite(line.quality) for line in found.lines)
    assert not found.line("copier").ranked


def test_a_rare_category_does_not_break_a_fit() -> None:
    data = frame(200)
    data.loc[0, "city"] = "Ulm"
    vae = benthic.VAE(2, hidden_layer_sizes=(16,), **QUICK)
    found = benthic.compare([benthic.GaussianMixture(2), vae], data, seeds=1, **QUIET)
    assert found.line("GaussianMixture").status == "ok"
    assert "categories for numbers" in found.line("GaussianMixture").no_likelihood
    assert found.line("VAE").likelihood is not None


@pytest.mark.spec("I-03")
def test_pictures_flat_or_not_and_a_network_for_features() -> None:
    X = benthic.data.bundled.load("digits").X[:500]
    models = {"mixture": benthic.GaussianMixture(5), "vae": benthic.VAE(4, hidden_layer_sizes=(32,), **QUICK)}
    found = benthic.compare(models, X.reshape(-1, 1, 8, 8), seeds=2, **QUIET)
    assert found.data.kind == "image"
    assert found.metrics == ("frechet", "kernel", "coverage")
    assert found.settings["features"] == "random filters"
    assert found.samples("mixture").shape == found.samples("vae").shape == (75, 1, 8, 8)
    assert found.line("mixture").quality < found.line("shuffled columns").quality
    own = nn.Sequential(nn.Flatten(), nn.Linear(64, 8))
    again = benthic.compare(
        {"mixture": benthic.GaussianMixture(5)}, torch.as_tensor(X).reshape(-1, 1, 8, 8), features=own, seeds=1,
        metrics=["frechet", "recall"], **QUIET,
    )  # fmt: skip
    assert again.metrics == ("frechet", "recall")
    assert set(again.lines[0].scores) == {"frechet", "recall"}


def test_a_model_given_labels_is_sampled_with_them() -> None:
    X, y = moons().draw(300, 0)
    model = benthic.ConditionalVAE(2, hidden_layer_sizes=(16,), **QUICK)
    found = benthic.compare({"given labels": model}, X, y, task="generate", seeds=1, **QUIET)
    outcome = next(one for one in found.outcomes if one.name == "given labels")
    assert outcome.status == "ok"
    assert set(np.unique(outcome.labels)) == {0, 1}
    assert "given their labels" in found.line("given labels").no_likelihood


@pytest.mark.spec("I-03")
def test_the_target_of_a_table_is_made_and_learned_from() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 2))
    kind = np.where(X[:, 0] + 0.2 * rng.normal(size=500) > 0, "u", "v")
    data = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "kind": kind})
    models = {"mixture": benthic.GaussianMixture(4), "copier": ResampledRows()}
    found = benthic.compare(models, data, target="kind", task="generate", seeds=2, **QUIET)
    assert found.metrics[-1] == "tstr"
    assert list(found.samples("mixture").columns) == ["a", "b", "kind"]
    wrong = {line.name: line.scores["tstr"].value for line in found.lines}
    assert wrong["copier"] < 0.2  # Bayes' error is the angle between the signal and its noise over pi, 6 %
    assert found.floor["tstr"] < 0.2
    assert wrong["shuffled columns"] == pytest.approx(0.5, abs=0.4)  # coins
    assert wrong["mixture"] < wrong["shuffled columns"] - 0.15
    X, y = np.column_stack([X, X.sum(1)]), 3 * X[:, 0] + 1
    vae = benthic.VAE(2, hidden_layer_sizes=(16,), **QUICK)
    plain = benthic.compare({"mixture": benthic.GaussianMixture(4), "VAE": vae}, X, y, task="generate", **QUIET)
    assert plain.samples("mixture").shape == plain.real.shape == (75, 3)
    figure, missing = latent_maps(plain)
    assert figure is not None
    assert not missing
    assert plain.outcomes[0].labels == pytest.approx(3 * plain.samples("mixture")[:, 0] + 1, abs=0.2)
    missed = {line.name: line.scores["tstr"].value for line in plain.lines}  # shares of the variance
    assert missed["mixture"] == pytest.approx(plain.floor["tstr"], abs=0.15)
    assert missed["shuffled columns"] > missed["mixture"] + 0.2
    with pytest.raises(InvalidInput, match="'tstr' needs a table with a target"):
        benthic.compare(models, X, metrics="tstr", **QUIET)


def test_gaps_are_taken_or_filled_and_whole_rows_judge() -> None:
    rng = np.random.default_rng(0)
    data = frame(300)
    data["income"] = np.where(rng.random(300) < 0.2, np.nan, data["income"])
    data["city"] = data["city"].where(rng.random(300) > 0.1, None)
    seen: dict[str, Any] = {}

    class Noted(OneGaussian):
        def fit(self, X: Any, y: Any = None) -> Any:
            seen["rows"] = X
            return super().fit(X)

    found = benthic.compare({"taking": benthic.GaussianMixture(2), "noted": Noted()}, data, seeds=1, **QUIET)
    assert [line.status for line in found.lines] == ["ok"] * len(found.lines)
    assert not np.isnan(seen["rows"]).any()
    assert not found.real.isna().any().any()
    assert "taking, Gaussian mixture took them as they are, other models were fitted on rows" in found.verdict[-1]
    few = np.where(rng.random((90, 8)) < 0.3, np.nan, rng.normal(size=(90, 8)))
    again = benthic.compare({"taking": benthic.GaussianMixture(1)}, few, seeds=1, **QUIET)
    assert again.line("taking").ranked
    assert again.verdict[-1].endswith("so were the rows to judge, too few being whole.")
