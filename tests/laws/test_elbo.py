"""ELBO <= importance bound <= exact likelihood, where the exact one is known: a linear-Gaussian VAE."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal
from sklearn.decomposition import PCA, FactorAnalysis
from torch import nn

import benthic
from benthic.nets.latent import LatentNetwork
from benthic.nets.mlp import MLP
from benthic.nets.observation import GaussianObservation
from benthic.nets.posterior import Diagonal


def linear_vae(width: int = 4, latent: int = 2, seed: int = 0) -> LatentNetwork:
    """Decoder x = Wz + b + noise, so that x ~ N(b, WWᵀ + Σ), and an encoder that is not the posterior."""
    torch.manual_seed(seed)
    encoder, decoder = MLP([width, 2 * latent], "identity"), MLP([latent, width], "identity")
    network = LatentNetwork(encoder, decoder, GaussianObservation(width), latent).double().eval()
    for parameter in network.parameters():
        nn.init.normal_(parameter, std=0.5)
    return network


def exact(network: LatentNetwork, x: torch.Tensor) -> np.ndarray:
    linear = network.decoder[0]
    W, b = linear.weight.detach().numpy(), linear.bias.detach().numpy()
    noise = np.exp(2 * network.observation.log_noise.detach().numpy())
    return multivariate_normal(b, W @ W.T + np.diag(noise)).logpdf(x.numpy())


def posterior_encoder(network: LatentNetwork) -> LatentNetwork:
    """The same decoder with the best mean-field encoder mean, the exact posterior where it is diagonal."""
    linear = network.decoder[0]
    W, b = linear.weight.detach(), linear.bias.detach()
    precision = torch.exp(-2 * network.observation.log_noise.detach())
    S = torch.linalg.inv(torch.eye(2, dtype=W.dtype) + W.T * precision @ W)
    encoder = network.encoder[0]
    with torch.no_grad():
        encoder.weight.zero_()
        encoder.weight[:2] = S @ (W.T * precision)
        encoder.bias[:2] = -encoder.weight[:2] @ b
        encoder.bias[2:] = torch.log(torch.diag(S))
    return network


def vae_with(network: LatentNetwork, width: int = 4) -> benthic.VAE:
    model = benthic.VAE(2, hidden_layer_sizes=(), activation="identity", trainer={"steps": 1}, random_state=0)
    model.fit(np.random.default_rng(0).normal(size=(10, width)))
    model.network_ = network
    model.scales_ = type(model.scales_).identity(width)
    return model


@pytest.mark.spec("N-01")
@pytest.mark.parametrize("seed", range(3))
def test_the_bounds_are_ordered_and_the_importance_bound_closes(seed):
    network = posterior_encoder(linear_vae(seed=seed))
    x = torch.from_numpy(np.random.default_rng(seed).normal(size=(50, 4)))
    model = vae_with(network)
    truth = exact(network, x)
    elbo = model.likelihood(x.numpy(), "elbo")
    few = model.likelihood(x.numpy(), "importance(4)")
    many = model.likelihood(x.numpy(), "importance(4096)")
    for found in (elbo, few, many):
        assert found.bound == "lower" and found.measure == "density"
    # the means over rows are ordered; each within its own Monte-Carlo error
    error = {f.kind: float(np.sqrt(np.square(f.stderr).sum())) / len(x) for f in (elbo, few, many)}
    assert elbo.mean() <= few.mean() + 3 * (error["elbo"] + error["importance(4)"])
    assert few.mean() <= many.mean() + 3 * error["importance(4)"]
    assert many.mean() <= truth.mean() + 3 * error["importance(4096)"]
    assert elbo.mean() <= truth.mean() + 3 * error["elbo"]
    np.testing.assert_allclose(many.value, truth, atol=0.2)
    assert abs(many.mean() - truth.mean()) < 3 * error["importance(4096)"] + 0.01


@pytest.mark.spec("N-01")
def test_the_elbo_misses_the_truth_by_the_divergence_of_the_encoder():
    network = linear_vae(seed=3)  # an encoder that is far from the posterior
    x = torch.from_numpy(np.random.default_rng(3).normal(size=(60, 4)))
    linear = network.decoder[0]
    W, b = linear.weight.detach(), linear.bias.detach()
    precision = torch.exp(-2 * network.observation.log_noise.detach())
    S = torch.linalg.inv(torch.eye(2, dtype=W.dtype) + W.T * precision @ W)
    posterior = torch.distributions.MultivariateNormal((x - b) @ (W.T * precision).T @ S, S)
    with torch.no_grad():
        mean, log_var = network.posterior(x)
    encoder = torch.distributions.MultivariateNormal(mean, torch.diag_embed(log_var.exp()))
    gap = torch.distributions.kl_divergence(encoder, posterior).numpy()
    elbo = vae_with(network).likelihood(x.numpy(), "elbo")
    assert gap.mean() > 0.5
    missed = exact(network, x) - elbo.value
    assert abs(missed.mean() - gap.mean()) < 4 * np.sqrt(np.square(elbo.stderr).sum()) / len(x)


@pytest.mark.spec("N-01")
def test_the_closed_form_kl_equals_its_integral():
    mean, log_var = torch.tensor([[0.7, -1.2]]).double(), torch.tensor([[-0.5, 0.3]]).double()
    q = torch.distributions.Normal(mean, torch.exp(0.5 * log_var))
    p = torch.distributions.Normal(torch.zeros(2).double(), torch.ones(2).double())
    torch.testing.assert_close(Diagonal(mean, log_var).kl(), torch.distributions.kl_divergence(q, p).sum(-1))


@pytest.mark.spec("N-01")
def test_the_log_ratio_is_joint_minus_posterior():
    network = linear_vae()
    x, noise = torch.randn(5, 4).double(), torch.randn(3, 5, 2).double()
    mean, log_var = network.posterior(x)
    z = mean + torch.exp(0.5 * log_var) * noise
    q = torch.distributions.Normal(mean, torch.exp(0.5 * log_var)).log_prob(z).sum(-1)
    prior = torch.distributions.Normal(0.0, 1.0).log_prob(z).sum(-1)
    torch.testing.assert_close(network.log_ratio(x, noise), network.log_likelihood(x, z) + prior - q)


@pytest.mark.spec("N-01")
def test_conditional_draws_follow_the_exact_conditional():
    network = posterior_encoder(linear_vae(seed=1))
    linear = network.decoder[0]
    W, b = linear.weight.detach().numpy(), linear.bias.detach().numpy()
    S = W @ W.T + np.diag(np.exp(2 * network.observation.log_noise.detach().numpy()))
    known = np.array([0.5, -0.3])
    gain = S[2:, :2] @ np.linalg.inv(S[:2, :2])
    mean = b[2:] + gain @ (known - b[:2])
    cov = S[2:, 2:] - gain @ S[:2, 2:]
    drawn = vae_with(network).sample(4000, given=np.array([[*known, np.nan, np.nan]]), seed=0)[:, 2:]
    error = np.sqrt(np.diag(cov) / len(drawn))
    assert (np.abs(drawn.mean(0) - mean) < 4 * error).all()
    np.testing.assert_allclose(np.cov(drawn.T), cov, atol=0.12 * np.trace(cov))


@pytest.mark.spec("N-01")
def test_the_importance_bound_rises_with_the_number_of_draws_and_stays_below_the_truth():
    network = linear_vae(seed=3)  # an encoder that is far from the posterior
    x = torch.from_numpy(np.random.default_rng(3).normal(size=(40, 4)))
    model = vae_with(network)
    found = [model.likelihood(x.numpy(), f"importance({k})") for k in (1, 4, 16, 64, 1024)]
    errors = [float(np.sqrt(np.square(f.stderr).sum())) / len(x) for f in found]
    for (low, a), (high, b) in pairwise(zip([f.mean() for f in found], errors, strict=True)):
        assert low < high + 3 * (a + b)
    assert found[0].mean() < found[-1].mean() - 0.5
    assert found[-1].mean() < exact(network, x).mean() + 3 * errors[-1]


@pytest.mark.spec("N-01")
def test_doubly_reparameterized_gradients_have_the_mean_of_plain_ones():
    network = linear_vae(seed=3)
    x, k, rounds = torch.from_numpy(np.random.default_rng(3).normal(size=(6, 4))), 5, 1000
    torch.manual_seed(0)

    def gradients(loss):
        parts = torch.autograd.grad(loss, list(network.parameters()))
        return torch.cat([p.flatten() for p in parts])

    def plain():
        ratios = network.log_ratio(x, torch.randn(k, len(x), 2).double())
        return -(torch.logsumexp(ratios, 0) - np.log(k)).sum()

    usual = torch.stack([gradients(plain()) for _ in range(rounds)])
    doubly = torch.stack([gradients(network(x, draws=k).sum()) for _ in range(rounds)])
    error = torch.sqrt(usual.var(0) + doubly.var(0)) / rounds**0.5
    assert bool(((usual.mean(0) - doubly.mean(0)).abs() < 4.5 * error + 1e-12).all())


@pytest.mark.spec("N-01")
def test_a_linear_vae_reaches_the_likelihood_of_probabilistic_pca():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2)) @ rng.normal(size=(2, 5)) + 0.5 * rng.normal(size=(400, 5))
    X = (X - X.mean(0)) / X.std(0)
    settings = {"steps": 1200, "batch_size": 400, "lr": 3e-2, "schedule": "cosine"}
    model = benthic.VAE(2, hidden_layer_sizes=(), posterior="full", trainer=settings, random_state=0).fit(X)
    linear = model.network_.decoder[0]
    W, b = linear.weight.detach().numpy(), linear.bias.detach().numpy()
    noise = np.exp(2 * model.network_.observation.log_noise.detach().numpy())
    marginal = multivariate_normal(b, W @ W.T + np.diag(noise)).logpdf(X).mean()
    # factor analysis, one noise a column, is at least as likely as probabilistic PCA, which is the optimum of one noise
    pca = PCA(2).fit(X).score(X)
    best = FactorAnalysis(2, max_iter=2000, tol=1e-6).fit(X).score(X)
    assert pca < marginal <= best + 1e-3 and marginal > best - 0.01
    assert model.likelihood(X, "importance(512)").mean() == pytest.approx(marginal, abs=0.02)
