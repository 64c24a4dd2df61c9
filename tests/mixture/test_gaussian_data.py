"""Where data come from and go to: types, tensors, frames, files, checkpoints; and what is refused."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning

import benthic
from benthic.base.errors import Interrupted
from tests.mixture.problems import KINDS, clusters, holed, start

X = clusters(400)


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


@pytest.mark.spec("H-02")
@pytest.mark.parametrize("gaps", [0.0, 0.2])
@pytest.mark.parametrize("kind", KINDS)
def test_float32_stays_float32_and_agrees_with_float64(kind, gaps):
    rows = holed(X, gaps)
    settings = {"covariance_type": kind, "max_iter": 20, "tol": 0.0, **start(rows, 3, kind)}
    wide = benthic.GaussianMixture(3, **settings).fit(rows)
    single = benthic.GaussianMixture(3, **settings).fit(rows.astype(np.float32))
    assert single.means_.dtype == single.covariances_.dtype == np.float32
    assert single.predict_proba(rows.astype(np.float32)).dtype == np.float32
    assert single.lower_bound_ == pytest.approx(wide.lower_bound_, rel=1e-5)
    np.testing.assert_allclose(single.means_, wide.means_, rtol=2e-3, atol=2e-3 * np.abs(X).max())


@pytest.mark.spec("H-02")
def test_tensors_in_tensors_out():
    model = benthic.GaussianMixture(2, random_state=0).fit(torch.tensor(X))
    for name in ("weights_", "means_", "covariances_", "precisions_cholesky_", "precisions_"):
        assert isinstance(getattr(model, name), torch.Tensor)
    twin = benthic.GaussianMixture(2, random_state=0).fit(X)
    np.testing.assert_array_equal(model.means_.numpy(), twin.means_)
    assert isinstance(model.impute(torch.tensor(holed(X))), torch.Tensor)
    half = benthic.GaussianMixture(2, random_state=0).fit(torch.tensor(X).bfloat16())
    assert half.means_.dtype == torch.float32 and half.sample(3).dtype == torch.bfloat16


@pytest.mark.spec("H-02")
def test_frames_come_back_as_frames():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"height": rng.normal(170, 8, 200).astype("float32"), "children": rng.poisson(2, 200)})
    frame["weight"] = (frame["height"] - 100 + rng.normal(0, 4, 200)).astype("float32")
    frame["smoker"] = pd.Categorical(np.where(rng.random(200) < 0.3, "yes", "no"))
    holes = frame.copy()
    holes.loc[:20, "weight"] = np.nan
    model = benthic.GaussianMixture(2, random_state=0).fit(holes)
    full = model.impute(holes)
    assert list(full.columns) == list(frame.columns) and not full.isna().any().any()
    assert (full.dtypes == holes.dtypes).all()
    pd.testing.assert_frame_equal(full.loc[21:], holes.loc[21:])
    error = (full["weight"] - frame["weight"])[:21].abs().mean()
    assert error < (frame["weight"] - frame["weight"].mean())[:21].abs().mean()
    drawn = model.sample(50, given=holes.iloc[:1], seed=0)
    assert isinstance(drawn, pd.DataFrame) and (drawn["smoker"] == holes["smoker"][0]).all()


@pytest.mark.spec("H-02")
@pytest.mark.parametrize("gaps", [0.0, 0.2])
@pytest.mark.parametrize("ending", ["npy", "csv"])
def test_files_are_learned_from_as_arrays_are(tmp_path, ending, gaps):
    rows, path = holed(X, gaps), tmp_path / f"rows.{ending}"
    if ending == "npy":
        np.save(path, rows)
    else:
        pd.DataFrame(rows, columns=["a", "b", "c"]).to_csv(path, index=False, float_format="%.17g")
    settings = {"max_iter": 10, "tol": 0.0, **start(rows, 3, "full"), "trainer": {"batch_size": 64}}
    streamed = benthic.GaussianMixture(3, **settings).fit(path)
    held = benthic.GaussianMixture(3, **settings).fit(rows)
    np.testing.assert_allclose(streamed.means_, held.means_, rtol=1e-9)
    np.testing.assert_allclose(streamed.covariances_, held.covariances_, rtol=1e-8, atol=1e-12)
    own_start = benthic.GaussianMixture(3, random_state=0).fit(benthic.data.scan(path))
    assert own_start.lower_bound_ == pytest.approx(benthic.GaussianMixture(3, random_state=0).fit(rows).lower_bound_)


@pytest.mark.spec("H-02")
@pytest.mark.parametrize("kind", KINDS)
def test_the_size_of_blocks_does_not_matter(kind):
    settings = {"covariance_type": kind, "max_iter": 10, "tol": 0.0, **start(X, 3, kind)}
    whole = benthic.GaussianMixture(3, **settings).fit(X)
    cut = benthic.GaussianMixture(3, trainer={"batch_size": 7}, **settings).fit(X)
    np.testing.assert_allclose(whole.covariances_, cut.covariances_, rtol=1e-9)


class StopAfter:
    """Asks for a stop, as Ctrl-C does, after so many steps."""

    def __init__(self, steps):
        self.steps = steps

    def on_epoch(self, loop, logs):
        loop._stop_asked = logs["step"] >= self.steps


@pytest.mark.spec("H-02")
@pytest.mark.parametrize("steps", [3, 11, 18])
def test_a_resumed_run_ends_as_an_unbroken_one(tmp_path, steps):
    def model(**trainer):
        return benthic.GaussianMixture(3, n_init=3, tol=0.0, max_iter=8, random_state=4, trainer=trainer)

    unbroken = model().fit(X)
    folder = str(tmp_path / "run")
    with pytest.raises(Interrupted):
        model(checkpoint=folder, callbacks=(StopAfter(steps),)).fit(X)
    resumed = model(checkpoint=folder, resume=True).fit(X)
    np.testing.assert_array_equal(resumed.means_, unbroken.means_)
    np.testing.assert_array_equal(resumed.covariances_, unbroken.covariances_)
    assert resumed.lower_bound_ == unbroken.lower_bound_ and resumed.history_ == unbroken.history_


def test_a_budget_of_the_trainer_ends_the_fit():
    model = benthic.GaussianMixture(3, random_state=0, tol=0.0, n_init=2, trainer={"steps": 4}).fit(X)
    assert len(model.history_) == model.n_iter_ == 4 and not model.converged_


def test_a_saved_model_is_the_same(tmp_path):
    for rows in (X, torch.tensor(X)):
        model = benthic.GaussianMixture(3, covariance_type="tied", random_state=0).fit(rows)
        loaded = benthic.load(model.save(tmp_path / "mixture.safetensors"))
        assert isinstance(loaded.means_, type(model.means_))
        np.testing.assert_array_equal(loaded.log_prob(X), model.log_prob(X))


def test_the_picture_shows_every_component_over_the_chosen_columns():
    model = benthic.GaussianMixture(3, random_state=0).fit(pd.DataFrame(X, columns=["a", "b", "c"]))
    axes = model.plot(pd.DataFrame(X, columns=["a", "b", "c"]), features=(0, 2)).axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("a", "c") and len(axes.patches) == 6
    line = benthic.GaussianMixture(2, random_state=0).fit(X[:, :1]).plot().axes[0].lines[-1].get_xydata()
    assert np.trapezoid(line[:, 1], line[:, 0]) == pytest.approx(1.0, abs=2e-3)
    with pytest.raises(ValueError, match="column 7"):
        model.plot(features=(0, 7))


def test_the_summary_says_what_was_found():
    model = benthic.GaussianMixture(2, random_state=0).fit(X)
    text = model.summary()
    assert "2, full covariances" in text and f"{model.lower_bound_:.6g}" in text


# -- refusals ----------------------------------------------------------------------------------------------


@pytest.mark.spec("H-02")
@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"n_components": 0}, "n_components is 0"),
        ({"n_components": 2.5}, "n_components is 2.5"),
        ({"max_iter": 0}, "max_iter is 0"),
        ({"n_init": -1}, "n_init is -1"),
        ({"tol": -1.0}, "tol is -1.0"),
        ({"reg_covar": float("nan")}, "reg_covar is nan"),
        ({"covariance_type": "diagonal"}, "'diagonal' is unknown; did you mean 'diag'"),
        ({"init_params": "kmean"}, "'kmean' is unknown; did you mean 'kmeans'"),
        ({"n_components": 401}, "n_components = 401, n_samples = 400; use fewer"),
        ({"weights_init": [0.5, 0.6]}, "weights_init sums to 1.1"),
        ({"weights_init": [1.0]}, r"'weights_init' should have the shape of \(2,\), but got \(1,\)"),
        ({"means_init": np.zeros((2, 2))}, r"'means_init' should have the shape of \(2, 3\)"),
        ({"means_init": np.full((2, 3), np.nan)}, "means_init contains NaN"),
        ({"precisions_init": np.triu(np.ones((2, 3, 3)))}, "not symmetric"),
        ({"precisions_init": -np.stack([np.eye(3)] * 2)}, "precision is not symmetric positive definite"),
        ({"covariance_type": "diag", "precisions_init": np.zeros((2, 3))}, "precision is not positive"),
    ],
)
def test_wrong_settings_are_named(params, words):
    with pytest.raises(ValueError, match=f"GaussianMixture.fit: .*{words}"):
        benthic.GaussianMixture(**{"n_components": 2, **params}).fit(X)


@pytest.mark.spec("H-02")
def test_unusable_rows_are_refused():
    model = benthic.GaussianMixture(2)
    empty = X.copy()
    empty[:, 1] = np.nan
    with pytest.raises(ValueError, match="column 1 of X has no observed value"):
        model.fit(empty)
    with pytest.raises(ValueError, match="n_samples = 1"):
        model.fit(X, sample_weight=np.eye(len(X))[0])
    with pytest.raises(ValueError, match="contains NaN"):
        model.fit(X).grad_log_prob(holed(X))
    with pytest.raises(ValueError, match="n is 0"):
        model.sample(0)
    with pytest.raises(ValueError, match="method 'elbo' is unknown"):
        model.likelihood(X, method="elbo")
