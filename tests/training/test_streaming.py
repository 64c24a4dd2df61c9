"""Learning from files and sources: the same models as from arrays, seekable, and refused when one-shot."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

import benthic
from benthic.data import scan
from benthic.training.callbacks import Callback

RNG = np.random.default_rng(0)
X = RNG.normal(size=(900, 4)) + 3.0 * RNG.integers(0, 2, (900, 1))
Y = np.where(X[:, 0] - X[:, 1] + 0.1 * RNG.normal(size=900) > 0, "up", "down")
FRAME = pd.DataFrame(X, columns=list("abcd")).assign(label=Y, city=RNG.choice(["Lima", "Oslo"], 900))


@pytest.fixture
def files(tmp_path):
    np.save(tmp_path / "x.npy", X)
    FRAME.to_csv(tmp_path / "t.csv", index=False)
    FRAME.to_parquet(tmp_path / "t.parquet", row_group_size=100)
    return tmp_path


@pytest.mark.spec("H-02")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_mixture_from_a_file_equals_one_from_an_array(files):
    start = {"means_init": X[:2], "weights_init": [0.5, 0.5], "precisions_init": np.stack([np.eye(4)] * 2)}
    settings = {"tol": 0.0, "max_iter": 5, **start}
    whole = benthic.GaussianMixture(2, **settings).fit(X)
    for setting in ({}, {"trainer": {"batch_size": 64}}):
        streamed = benthic.GaussianMixture(2, **settings, **setting).fit(files / "x.npy")
        np.testing.assert_allclose(streamed.means_, whole.means_, rtol=1e-10)
        np.testing.assert_allclose(streamed.covariances_, whole.covariances_, rtol=1e-9)


@pytest.mark.spec("F-02")
@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_regression_from_a_file_equals_one_from_a_frame(files, name):
    whole = benthic.LogisticRegression(tol=1e-9).fit(FRAME.drop(columns="label"), Y)
    streamed = benthic.LogisticRegression(tol=1e-9).fit(str(files / name), "label")
    assert list(streamed.classes_) == ["down", "up"]
    np.testing.assert_allclose(streamed.coef_, whole.coef_, rtol=1e-5)
    np.testing.assert_array_equal(
        streamed.predict(FRAME.drop(columns="label")), whole.predict(FRAME.drop(columns="label"))
    )


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_a_network_learns_from_a_file(files, name):
    settings = {"epochs": 10, "lr": 0.01, "batch_size": 50}
    model = benthic.MLPClassifier((16,), trainer=settings, random_state=0).fit(scan(files / name, target="label"))
    rows = FRAME.drop(columns="label")
    assert model.score(rows, Y) > 0.93
    assert list(model.feature_names_in_) == list(rows.columns)


def test_samples_of_a_streamed_table_are_tables(files):
    model = benthic.VAE(2, hidden_layer_sizes=(16,), trainer={"steps": 20}, random_state=0)
    model.fit(scan(files / "t.parquet", drop=["label"]))
    drawn = model.sample(5)
    names = drawn.column_names if hasattr(drawn, "column_names") else list(drawn.columns)
    assert list(names) == [*"abcd", "city"]


class StopAt(Callback):
    def on_step(self, moment, info):
        if moment.step == 31:
            raise RuntimeError("crash")


def test_a_streamed_run_resumes_in_the_middle_of_an_epoch(files):
    source = scan(files / "t.parquet", target="label")

    def fit(folder, **more):
        checkpoint = {"folder": str(files / folder), "every_steps": 5}
        settings = {"epochs": 4, "batch_size": 50, "lr": 0.01, "checkpoint": checkpoint, **more}
        return benthic.MLPClassifier((8,), dropout=0.2, trainer=settings, random_state=0).fit(source)

    whole = fit("whole")
    with pytest.raises(RuntimeError, match="crash"):
        fit("cut", callbacks=(StopAt(),))
    resumed = fit("cut", resume=True)
    for key, value in whole.network_.state_dict().items():
        assert torch.equal(value, resumed.network_.state_dict()[key])


def test_what_a_file_cannot_do_is_said(files):
    with pytest.raises(ValueError, match=r"MLPClassifier.fit: .*target"):
        benthic.MLPClassifier().fit(files / "t.csv")
    with pytest.raises(ValueError, match="did you mean 'label'"):
        benthic.MLPClassifier().fit(files / "t.csv", "lable")
    with pytest.raises(ValueError, match="sample_weight goes with arrays"):
        benthic.GaussianMixture().fit(files / "x.npy", sample_weight=np.ones(900))
    with pytest.raises((ValueError, FileNotFoundError), match="none.csv"):
        benthic.GaussianMixture().fit(files / "none.csv")
    holed = X.copy()
    holed[500, 1] = np.nan
    np.save(files / "holed.npy", holed)
    with pytest.raises(ValueError, match="ContinuousFlow.fit: the source contains NaN or infinity in column 1"):
        benthic.ContinuousFlow().fit(files / "holed.npy")
    with pytest.raises(ValueError, match="held-out fraction needs data in memory"):
        benthic.VAE(2, trainer={"early_stopping": True}).fit(files / "x.npy")


def test_any_object_with_open_is_a_source():
    class Rows:
        def open(self, epoch, skip):
            for i in range(skip, 9):
                yield X[100 * i : 100 * (i + 1)]

    model = benthic.GaussianMixture(2, random_state=0).fit(Rows())
    assert abs(model.score(X) - benthic.GaussianMixture(2, random_state=0).fit(X).score(X)) < 0.05
