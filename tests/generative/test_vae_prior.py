"""Priors that are fitted after training, and the noise of pictures."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits
from torch.distributions import Categorical, MixtureSameFamily, MultivariateNormal

import benthic
from benthic.generative.vae.fitted import fitted_prior
from benthic.nets.prior import FullMixturePrior

pytestmark = pytest.mark.spec("N-01")
IMAGES = load_digits().images[:400, None] / 16.0
QUICK = {"steps": 300, "lr": 3e-3, "verbose": False}


def two_rings(n: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    angle, radius = rng.uniform(0, 2 * np.pi, n), rng.choice([1.0, 3.0], n)
    return np.c_[np.cos(angle), np.sin(angle)] * radius[:, None] + 0.1 * rng.normal(size=(n, 2))


def energy_distance(a: np.ndarray, b: np.ndarray) -> float:
    return float(2 * cdist(a, b).mean() - cdist(a, a).mean() - cdist(b, b).mean())


def codes() -> torch.Tensor:
    rng = np.random.default_rng(0)
    skewed = rng.normal(size=(600, 2)) @ np.array([[1.0, 0.8], [0.0, 0.3]])
    away = np.array([2.0, 0.0])
    return torch.from_numpy(np.concatenate([skewed + away, rng.normal(size=(600, 2)) * 0.5 - away]))


def test_the_density_is_that_of_a_mixture_of_normals():
    prior = fitted_prior(codes(), 2, 0)
    law = MixtureSameFamily(
        Categorical(logits=prior.log_weights), MultivariateNormal(prior.means, scale_tril=prior.factors)
    )
    z = torch.randn(3, 5, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(prior.log_prob(z, None), law.log_prob(z))


def test_draws_have_the_moments_of_the_codes():
    found = codes()
    drawn = fitted_prior(found, 2, 0).draw(20_000, found, torch.Generator().manual_seed(0), None)
    error = found.std(0) / len(found) ** 0.5
    assert ((drawn.mean(0) - found.mean(0)).abs() < 4 * error).all()
    torch.testing.assert_close(torch.cov(drawn.T), torch.cov(found.T), rtol=0.05, atol=0.05)


def test_few_codes_allow_few_components():
    assert len(fitted_prior(codes()[::150], 20, 0).means) == 1
    assert len(fitted_prior(codes(), 3, 0).means) == 3
    start = FullMixturePrior(2, 3)
    z = torch.randn(4, 2, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(start.log_prob(z, None), torch.distributions.Normal(0.0, 1.0).log_prob(z).sum(-1))


def test_a_fitted_prior_is_another_prior_for_the_same_networks(tmp_path):
    X = load_digits().data[:1000] / 16.0
    options = {"hidden_layer_sizes": (48,), "trainer": QUICK, "random_state": 0}
    plain = benthic.VAE(6, **options).fit(X)
    fitted = benthic.VAE(6, prior="fitted", **options).fit(X)
    np.testing.assert_array_equal(plain.encode(X), fitted.encode(X))
    for method in ("elbo", "importance(64)"):
        assert fitted.likelihood(X, method).mean() > plain.likelihood(X, method).mean() + 0.5
    distances = [energy_distance(model.sample(1000, seed=0), X) for model in (plain, fitted)]
    assert distances[1] < 0.9 * distances[0]
    loaded = benthic.load(fitted.save(tmp_path / "m.safetensors"))
    np.testing.assert_array_equal(loaded.sample(5, seed=1), fitted.sample(5, seed=1))
    np.testing.assert_array_equal(loaded.likelihood(X[:9]).value, fitted.likelihood(X[:9]).value)
    again = fitted.set_params(trainer__steps=2).fit(X[:35])  # so few rows make one component
    assert len(again.network_.prior.means) == 1


def test_the_density_under_a_fitted_prior_integrates_to_one():
    model = benthic.VAE(2, hidden_layer_sizes=(32,), prior="fitted", trainer=QUICK, random_state=0)
    model.fit(two_rings(1000, 0))
    line = np.linspace(-6, 6, 49)
    grid = np.stack(np.meshgrid(line, line), -1).reshape(-1, 2)
    total = np.exp(model.likelihood(grid, "importance(64)").value).sum() * (line[1] - line[0]) ** 2
    assert total == pytest.approx(1.0, abs=0.05)


def test_labels_share_a_fitted_prior():
    X = two_rings(600, 0)
    y = np.hypot(*X.T) > 2
    model = benthic.ConditionalVAE(2, hidden_layer_sizes=(32,), prior="fitted", trainer=QUICK, random_state=0).fit(X, y)
    assert isinstance(model.network_.prior, FullMixturePrior)
    radius = [np.hypot(*model.sample(300, given=label, seed=0).T).mean() for label in (False, True)]
    assert radius[0] < radius[1] - 0.5


def test_rare_ink_is_not_impossible():
    images = IMAGES.copy()
    images[:, :, 0, 0] = 0.0
    images[0, :, 0, 0] = 1 / 16  # a pixel that hardly ever has ink, and little of it
    model = benthic.VAE(4, network="mlp", hidden_layer_sizes=(48,), trainer=QUICK, random_state=0).fit(images)
    assert model.network_.observation.log_noise.shape == (1,) and len(np.unique(model.scales_.scale)) == 1
    inked = images[1:50].copy()
    inked[:, :, 0, 0] = 1.0
    lost = model.likelihood(images[1:50]).mean() - model.likelihood(inked).mean()
    # at a scale of its own such ink would be about 400 deviations from the mean of the pixel, 80 000 nats
    assert lost < 200


def test_pictures_are_shown_without_the_noise_of_a_gaussian_decoder():
    model = benthic.VAE(3, network="mlp", hidden_layer_sizes=(32,), trainer=QUICK, random_state=0).fit(IMAGES)
    clean, noisy = model.sample(400, seed=0), model.sample(400, seed=0, noise=True)
    scale = model.network_.observation.log_noise.exp().item() * model.scales_.scale[0]
    assert (noisy - clean).std() == pytest.approx(scale, rel=0.05)
    assert abs((noisy - clean).mean()) < 4 * scale / clean.size**0.5
    rows = benthic.VAE(3, hidden_layer_sizes=(32,), trainer=QUICK, random_state=0).fit(IMAGES.reshape(400, -1))
    np.testing.assert_array_equal(rows.sample(5, seed=0), rows.sample(5, seed=0, noise=True))  # rows are draws
    assert (rows.sample(5, seed=0) != rows.sample(5, seed=0, noise=False)).any()


def test_typical_pictures_are_draws_with_noise():
    model = benthic.VAE(3, network="mlp", hidden_layer_sizes=(32,), trainer=QUICK, random_state=0).fit(IMAGES)
    typical = model.anomaly(model.sample(200, seed=1, noise=True), kind="typicality").mean()
    assert typical < model.anomaly(model.sample(200, seed=1, noise=False), kind="typicality").mean()
