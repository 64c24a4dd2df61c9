"""ELBO <= importance bound <= exact likelihood, where the exact one is known: a linear-Gaussian VAE."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal
from torch import nn

import benthic
from benthic.nets.latent import LatentNetwork


def linear_vae(width: int = 4, latent: int = 2, seed: int = 0) -> LatentNetwork:
    """Decoder x = Wz + b + noise, so that x ~ N(b, WWᵀ + Σ), and an encoder that is not the posterior."""
    torch.manual_seed(seed)
    network = LatentNetwork(width, latent, (), "identity", "gaussian").double()
    for parameter in network.parameters():
        nn.init.normal_(parameter, std=0.5)
    return network


def exact(network: LatentNetwork, x: torch.Tensor) -> np.ndarray:
    linear = network.decoder[0]
    W, b = linear.weight.detach().numpy(), linear.bias.detach().numpy()
    noise = np.exp(2 * network.log_noise.detach().numpy())
    return multivariate_normal(b, W @ W.T + np.diag(noise)).logpdf(x.numpy())


def posterior_encoder(network: LatentNetwork) -> LatentNetwork:
    """The same decoder with the best mean-field encoder mean, the exact posterior where it is diagonal."""
    linear = network.decoder[0]
    W, b = linear.weight.detach(), linear.bias.detach()
    precision = torch.exp(-2 * network.log_noise.detach())
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
    precision = torch.exp(-2 * network.log_noise.detach())
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
    network = linear_vae()
    mean, log_var = torch.tensor([[0.7, -1.2]]).double(), torch.tensor([[-0.5, 0.3]]).double()
    q = torch.distributions.Normal(mean, torch.exp(0.5 * log_var))
    p = torch.distributions.Normal(torch.zeros(2).double(), torch.ones(2).double())
    torch.testing.assert_close(network.kl(mean, log_var), torch.distributions.kl_divergence(q, p).sum(-1))


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
    S = W @ W.T + np.diag(np.exp(2 * network.log_noise.detach().numpy()))
    known = np.array([0.5, -0.3])
    gain = S[2:, :2] @ np.linalg.inv(S[:2, :2])
    mean = b[2:] + gain @ (known - b[:2])
    cov = S[2:, 2:] - gain @ S[:2, 2:]
    drawn = vae_with(network).sample(4000, given=np.array([[*known, np.nan, np.nan]]), seed=0)[:, 2:]
    error = np.sqrt(np.diag(cov) / len(drawn))
    assert (np.abs(drawn.mean(0) - mean) < 4 * error).all()
    np.testing.assert_allclose(np.cov(drawn.T), cov, atol=0.12 * np.trace(cov))
