"""The variational autoencoder on real and made data."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

import benthic

pytestmark = pytest.mark.spec("N-01")
DIGITS = load_digits().data[:600] / 16.0
BINARY = (DIGITS > 0.5).astype(np.float64)


@pytest.fixture(scope="module")
def bernoulli():
    settings = {"epochs": 40, "lr": 3e-3}
    return benthic.VAE(8, hidden_layer_sizes=(64,), decoder="bernoulli", trainer=settings, random_state=0).fit(BINARY)


def test_a_bernoulli_decoder_beats_independent_pixels(bernoulli):
    p = BINARY.mean(0).clip(1e-3, 1 - 1e-3)
    independent = (BINARY * np.log(p) + (1 - BINARY) * np.log(1 - p)).sum(1).mean()
    found = bernoulli.likelihood(BINARY)
    assert found.measure == "mass" and found.kind == "importance(64)"
    assert found.mean() > independent + 4
    assert bernoulli.likelihood(BINARY, "elbo").mean() < found.mean() < 0


def test_samples_of_a_bernoulli_decoder_are_binary(bernoulli):
    drawn = bernoulli.sample(50, seed=0)
    assert set(np.unique(drawn)) == {0.0, 1.0}
    assert np.abs(drawn.mean(0) - BINARY.mean(0)).mean() < 0.15


@pytest.mark.parametrize("rows", [DIGITS, DIGITS * 16])
def test_a_bernoulli_decoder_refuses_what_is_not_binary(rows):
    with pytest.raises(ValueError, match="VAE.fit: decoder='bernoulli'.*values such as.*decoder='gaussian'"):
        benthic.VAE(2, decoder="bernoulli", trainer={"steps": 1}).fit(rows)


def test_likelihood_of_other_data_under_a_bernoulli_decoder_is_refused(bernoulli):
    with pytest.raises(ValueError, match="VAE.likelihood: decoder='bernoulli'"):
        bernoulli.likelihood(DIGITS)


def test_a_linear_gaussian_vae_reaches_principal_components():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 2)) @ rng.normal(size=(2, 6)) + 0.1 * rng.normal(size=(500, 6))
    settings = {"epochs": 150, "lr": 3e-2, "schedule": "cosine"}
    model = benthic.VAE(2, hidden_layer_sizes=(), activation="identity", trainer=settings, random_state=0).fit(X)
    pca = PCA(2).fit(X)
    ours = np.square(model.reconstruct(X) - X).mean()
    best = np.square(pca.inverse_transform(pca.transform(X)) - X).mean()
    assert best <= ours < 3 * best
    truth = PCA(2).fit(X).score(X)  # probabilistic PCA has one noise scale, ours one a column
    assert model.score(X) > truth - 0.5


def test_images_keep_their_shape():
    images = load_digits().images[:100, None] / 16.0
    model = benthic.VAE(3, hidden_layer_sizes=(16,), trainer={"steps": 10}, random_state=0).fit(images)
    assert model.sample(5).shape == (5, 1, 8, 8)
    assert model.reconstruct(images[:3]).shape == (3, 1, 8, 8)
    assert model.encode(images[:3]).shape == (3, 3)
    assert model.decode(np.zeros((2, 3))).shape == (2, 1, 8, 8)
    with pytest.raises(ValueError, match="examples of shape"):
        model.encode(images[:, :, :4])


def test_frames_come_back_as_frames():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 80, 200),
            "height": rng.normal(1.7, 0.1, 200).astype("float32"),
            "city": pd.Categorical(rng.choice(["Lima", "Oslo", "Pune"], 200), categories=["Oslo", "Lima", "Pune"]),
            "member": rng.random(200) < 0.5,
        }
    )
    model = benthic.VAE(3, trainer={"steps": 200, "lr": 5e-3}, random_state=0).fit(frame)
    for out in (model.sample(20), model.reconstruct(frame), model.impute(frame)):
        assert list(out.columns) == list(frame.columns)
        assert (out.dtypes == frame.dtypes).all()
    assert list(model.sample(5)["city"].cat.categories) == ["Oslo", "Lima", "Pune"]
    holed = frame.copy()
    holed.loc[::4, "city"] = None
    holed.loc[::3, "height"] = np.nan
    full = model.impute(holed)
    assert not full.isna().any().any()
    pd.testing.assert_series_equal(full["city"].iloc[1:4], frame["city"].iloc[1:4])


def test_beta_trades_reconstruction_for_a_small_kl():
    X = DIGITS[:200]
    errors, kls = [], []
    for beta in (0.1, 20.0):
        model = benthic.VAE(4, hidden_layer_sizes=(32,), beta=beta, trainer={"epochs": 30}, random_state=0).fit(X)
        errors.append(np.square(model.reconstruct(X) - X).mean())
        network = model.network_
        with torch.no_grad():
            kls.append(float(network.posterior(model.scales_.transform(torch.tensor(X)).float()).kl().mean()))
    assert errors[0] < errors[1] and kls[0] > kls[1]


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"decoder": "gausian"}, "did you mean 'gaussian'"),
        ({"latent_dim": 0}, "latent_dim is 0"),
        ({"beta": -1.0}, "beta is -1.0"),
        ({"activation": "relu6"}, "did you mean 'relu'"),
    ],
)
def test_wrong_settings(params, words):
    with pytest.raises(ValueError, match=words):
        benthic.VAE(**params).fit(DIGITS)


def test_unknown_likelihood_method(bernoulli):
    with pytest.raises(ValueError, match="use 'elbo' or 'importance\\(k\\)'"):
        bernoulli.likelihood(BINARY, "exact")
    with pytest.raises(ValueError, match=r"codes have shape \(2, 5\); expected \(n, 8\)"):
        bernoulli.decode(np.zeros((2, 5)))
