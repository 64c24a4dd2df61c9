"""What can be set in a VAE: decoders, networks, priors, posteriors, warm-up; missing values; wrong settings."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn

import benthic
from benthic.base.errors import ModelFileError
from benthic.generative.vae.estimator import VariationalEstimator

pytestmark = pytest.mark.spec("N-01")
LEVELS = load_digits().data[:400]  # whole numbers from 0 to 16
IMAGES = load_digits().images[:200, None] / 16.0
SHORT = {"epochs": 12, "lr": 3e-3}


def fit(X, **params):
    trainer = {**SHORT, **params.pop("trainer", {})}
    return benthic.VAE(
        params.pop("latent_dim", 4), hidden_layer_sizes=(48,), trainer=trainer, random_state=0, **params
    ).fit(X)


@pytest.mark.parametrize("decoder", ["categorical", "logistic"])
@pytest.mark.parametrize("unit", [1.0, 1 / 16])
def test_levels_are_explained_in_their_own_units(decoder, unit):
    X = LEVELS * unit
    model = fit(X, decoder=decoder, levels=17)
    found = model.likelihood(X)
    assert found.measure == "mass" and found.mean() < 0
    bits = -found.mean() / (64 * np.log(2))
    frequencies = np.stack([(k == LEVELS).mean(0) for k in range(17)])
    independent = -np.log2((frequencies + 1e-9)[LEVELS.astype(int), np.arange(64)]).sum(1).mean() / 64
    assert 0.5 < bits < (independent if decoder == "categorical" else np.log2(17))
    drawn = model.sample(200, seed=0)
    np.testing.assert_allclose(drawn / unit, np.rint(drawn / unit), atol=1e-9)
    assert drawn.min() >= 0 and drawn.max() <= 16 * unit
    assert np.abs(drawn.mean(0) - X.mean(0)).mean() < 3.0 * unit


def test_levels_outside_the_stated_range_are_refused():
    with pytest.raises(ValueError, match=r"VAE.fit: decoder='logistic' with levels=16 takes .*but X has 16"):
        fit(LEVELS, decoder="logistic", levels=16)
    with pytest.raises(ValueError, match="VAE.fit: decoder='categorical' .*but X has 0.25"):
        fit(LEVELS + 0.25, decoder="categorical", levels=18)


def test_gray_values_are_binarized_afresh_where_asked():
    X = LEVELS / 16
    model = fit(X, decoder="bernoulli", binarize=True)
    assert model.likelihood((X > 0.5).astype(float)).measure == "mass"
    with pytest.raises(ValueError, match=r"VAE.fit: decoder='bernoulli'.*binarize=True"):
        fit(X, decoder="bernoulli")
    with pytest.raises(ValueError, match="VAE.likelihood: decoder='bernoulli'"):
        model.likelihood(X)
    with pytest.raises(ValueError, match="binarize goes with decoder='bernoulli'"):
        fit(X, decoder="gaussian", binarize=True)


def test_columns_of_a_frame_get_laws_of_their_own():
    rng = np.random.default_rng(0)
    group = rng.integers(0, 3, 600)
    frame = pd.DataFrame(
        {
            "size": rng.normal(group, 0.1),
            "kind": pd.Categorical(np.array(["a", "b", "c"])[group]),
            "big": group == 2,
        }
    )
    model = fit(frame, latent_dim=2, trainer={"epochs": 60})
    assert model.space_.kind == "mixed"
    drawn = model.sample(600, seed=0)
    assert (drawn.dtypes == frame.dtypes).all()
    agree = (drawn["kind"] == "c") == drawn["big"]
    assert agree.mean() > 0.9 and abs((drawn["kind"] == "c").mean() - 1 / 3) < 0.1
    holed = frame.copy()
    holed["kind"] = holed["kind"].mask(np.arange(600) % 2 == 0)
    assert (model.impute(holed)["kind"] == frame["kind"]).mean() > 0.9


def test_missing_values_are_neither_seen_nor_explained():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 2)) @ rng.normal(size=(2, 6)) + 0.1 * rng.normal(size=(600, 6))
    holed = np.where(rng.random(X.shape) < 0.3, np.nan, X)
    model = fit(holed, latent_dim=2, trainer={"epochs": 80})
    by_mean = np.where(np.isnan(holed), np.nanmean(holed, 0), holed)
    assert np.square(model.impute(holed) - X).mean() < 0.3 * np.square(by_mean - X).mean()
    some = X[:50].copy()
    some[:, 3:] = np.nan
    part = model.likelihood(some)
    assert np.isfinite(part.value).all() and (part.value != model.likelihood(X[:50]).value).all()
    # what is known is in data units: its density rises by the scale of the known columns alone
    shift = 3 * np.log(10.0)
    wide = fit(holed * 10.0, latent_dim=2, trainer={"epochs": 80}).likelihood(some * 10.0)
    assert part.mean() - wide.mean() == pytest.approx(shift, abs=0.5)


@pytest.mark.parametrize("size", [(8, 8), (9, 7)])
def test_pictures_of_any_size_go_through_convolutions(size):
    rng = np.random.default_rng(0)
    X = rng.random((60, 2, *size))
    model = fit(X, network="conv", channels=(4, 8), trainer={"epochs": 2})
    assert model.sample(3).shape == (3, 2, *size) and model.reconstruct(X[:2]).shape == (2, 2, *size)
    assert ("padded from 9 x 7 to 12 x 8" in model.summary()) == (size == (9, 7))


def test_the_network_is_chosen_from_the_data():
    kinds = {name: type(fit(X, trainer={"epochs": 1}).network_.encoder).__name__ for name, X in
             {"pictures": IMAGES, "rows": LEVELS}.items()}  # fmt: skip
    assert kinds == {"pictures": "ConvEncoder", "rows": "MLP"}


def test_modules_of_ones_own(tmp_path):
    encoder = nn.Sequential(nn.Conv2d(1, 4, 3, 2), nn.ReLU())
    decoder = nn.Sequential(nn.Linear(4, 64), nn.Unflatten(1, (1, 8, 8)))
    pair = (encoder, decoder)
    before = [p.clone() for p in encoder.parameters()]
    model = fit(IMAGES, network=pair)
    assert all(
        torch.equal(a, b) for a, b in zip(before, encoder.parameters(), strict=True)
    )  # the user's stay as they were
    assert np.isfinite(model.likelihood(IMAGES[:5], "importance(3)").value).all()
    with pytest.raises(ModelFileError, match="network"):
        model.save(tmp_path / "m.safetensors")
    path = model.save(tmp_path / "m.safetensors", leave_out=["network"])
    loaded = benthic.load(path, modules={"network": pair})
    np.testing.assert_array_equal(loaded.encode(IMAGES), model.encode(IMAGES))
    with pytest.raises(ValueError, match="the decoder gives 60 numbers for each code; this model needs 64"):
        fit(IMAGES, network=(encoder, nn.Linear(4, 60)))
    with pytest.raises(ValueError, match="the encoder does not take examples of shape"):
        fit(LEVELS, network=pair)
    holed = IMAGES.copy()
    holed[0, 0, 0, 0] = np.nan
    with pytest.raises(ValueError, match=r"missing values, and modules of your own cannot be told which"):
        fit(holed, network=pair)


@pytest.mark.parametrize(
    "params",
    [
        {"prior": "vamp", "prior_components": 20},
        {"prior": "mixture", "prior_components": 5},
        {"posterior": "full"},
        {"posterior": "von_mises_fisher"},
        {"kl_warmup": 0.5},
        {"free_bits": 0.1},
        {"noise": "row"},
    ],
    ids=lambda p: next(iter(p)),
)
def test_every_setting_learns_samples_and_is_kept(params, tmp_path):
    X = LEVELS[:200] / 16
    model = fit(X, trainer={"epochs": 25}, **params)
    begun = fit(X, trainer={"epochs": 2}, **params)
    assert model.likelihood(X, "importance(16)").mean() > begun.likelihood(X, "importance(16)").mean() + 10
    assert np.abs(model.sample(300, seed=0).mean(0) - X.mean(0)).mean() < 0.2
    loaded = benthic.load(model.save(tmp_path / "m.safetensors"))
    np.testing.assert_array_equal(loaded.sample(3, seed=1), model.sample(3, seed=1))
    np.testing.assert_array_equal(loaded.encode(X[:5]), model.encode(X[:5]))


def test_warm_up_raises_the_weight_of_the_divergence(monkeypatch):
    seen = []
    plain = VariationalEstimator._row_losses

    def note(self, network, x, c, beta):
        seen.append(float(beta))
        return plain(self, network, x, c, beta)

    monkeypatch.setattr(VariationalEstimator, "_row_losses", note)
    fit(LEVELS, beta=2.0, kl_warmup=0.5, trainer={"epochs": None, "steps": 40})
    assert seen[0] == 0.0 and seen[10] == pytest.approx(1.0) and seen[20:] == pytest.approx([2.0] * 20)


def test_collapse_and_codes_larger_than_the_data_are_said():
    with pytest.warns(UserWarning, match="the posterior has collapsed"):
        model = fit(LEVELS, beta=1e3, trainer={"epochs": 60})
    assert model.active_units() == 0 and "active units  0 of 4" in model.summary()
    with pytest.warns(UserWarning, match="latent_dim is 9 for 3 columns"):
        fit(LEVELS[:, 20:23], latent_dim=9)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"kl_warmup": 2.0}, "kl_warmup is 2.0"),
        ({"noise": "rows"}, "noise is 'rows'"),
        ({"posterior": "ful"}, "did you mean 'full'"),
        ({"prior": "normall"}, "prior is 'normall'"),
        ({"network": "conv"}, r"network='conv' needs pictures"),
        ({"network": nn.Linear(1, 1)}, r"pass \(encoder, decoder\)"),
        ({"decoder": "mixed"}, "decoder='mixed' reads the kinds of the columns from a frame"),
        ({"decoder": "logistic", "levels": 1}, "levels is 1"),
    ],
)
def test_wrong_settings(params, words):
    with pytest.raises(ValueError, match=words):
        fit(LEVELS, **params)


def test_the_importance_bound_needs_draws():
    with pytest.raises(ValueError, match="ImportanceWeightedVAE.fit: draws is 0"):
        benthic.ImportanceWeightedVAE(2, draws=0).fit(LEVELS)
    with pytest.raises(ValueError, match="k must be at least 1"):
        fit(LEVELS, trainer={"epochs": 1}).likelihood(LEVELS, "importance(0)")
