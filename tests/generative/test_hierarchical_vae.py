"""The hierarchical variational autoencoder: its laws, its identities, and what it learns."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal
from sklearn.datasets import load_digits
from torch import nn
from torch.distributions import Normal, kl_divergence

import benthic
from benthic.base.errors import InvalidInput
from benthic.nets.hierarchy import HierarchicalNetwork, Shape, divergence_terms, merged
from benthic.nets.mlp import MLP
from benthic.nets.observation import GaussianObservation
from benthic.nets.posterior import Diagonal

pytestmark = pytest.mark.spec("N-01")
DIGITS = load_digits().data[:600] / 16.0
INFERENCES = ("top_down", "bottom_up")


def network_of(dims=(3, 2, 2), width=4, *, inference="top_down", skip=False, seed=0, hidden=(5,), name="tanh"):
    """A network in float64 with random weights that are not small."""
    torch.manual_seed(seed)
    shape = Shape(dims, inference, skip, hidden, name)
    encoder = MLP([width, 6, shape.encoder_outputs], name)
    decoder = MLP([shape.decoder_inputs, *hidden, width], name)
    network = HierarchicalNetwork(encoder, decoder, GaussianObservation(width), shape).double().eval()
    for parameter in network.parameters():
        nn.init.normal_(parameter, std=0.4)
    return network


# -- one level is a VAE ------------------------------------------------------------------------------------


@pytest.mark.parametrize("inference", INFERENCES)
@pytest.mark.parametrize("settings", [{}, {"kl_warmup": 0.3}, {"free_bits": 0.05}, {"beta": 0.5}], ids=str)
def test_one_level_is_a_vae_to_the_bit(inference, settings):
    common = {"hidden_layer_sizes": (16,), "trainer": {"steps": 40, "lr": 0.01}, "random_state": 0, "kl_warmup": 0.0}
    common |= settings
    plain = benthic.VAE(3, **common).fit(DIGITS[:200])
    tall = benthic.HierarchicalVAE((3,), inference=inference, **common).fit(DIGITS[:200])
    weights = tall.network_.state_dict()
    assert weights.keys() == plain.network_.state_dict().keys()
    for key, value in plain.network_.state_dict().items():
        assert torch.equal(value, weights[key]), key
    assert plain.history_ == tall.history_
    rows = DIGITS[200:260].copy()
    for verb in ("encode", "reconstruct", "anomaly"):
        np.testing.assert_array_equal(getattr(plain, verb)(rows), getattr(tall, verb)(rows))
    np.testing.assert_array_equal(plain.sample(5, seed=1), tall.sample(5, seed=1))
    for method in ("elbo", "importance(8)"):
        ours, theirs = tall.likelihood(rows, method), plain.likelihood(rows, method)
        np.testing.assert_array_equal(ours.value, theirs.value)
        np.testing.assert_array_equal(ours.stderr, theirs.stderr)
    rows[:, ::7] = np.nan
    np.testing.assert_array_equal(plain.impute(rows), tall.impute(rows))


def test_one_level_walks_the_same_way_as_it_draws():
    network = network_of((3,))
    x = torch.randn(6, 4).double()
    torch.manual_seed(5)
    z, kl = network._draw(x, None, 0.0)
    torch.manual_seed(5)
    noise = torch.randn(6, 3, dtype=torch.float64)
    levels = network.posterior(x).levels(noise)
    assert torch.equal(levels[0].z, z) and torch.equal(network.level_divergences(levels, noise)[0], kl)


# -- laws --------------------------------------------------------------------------------------------------


def test_the_divergence_of_two_normal_laws():
    rng = torch.Generator().manual_seed(0)
    a, b, s, t = (torch.randn(7, 3, generator=rng).double() for _ in range(4))
    truth = kl_divergence(Normal(a, torch.exp(0.5 * s)), Normal(b, torch.exp(0.5 * t)))
    torch.testing.assert_close(divergence_terms(Diagonal(a, s), Diagonal(b, t)), truth)
    torch.testing.assert_close(
        divergence_terms(Diagonal(a, s), None), kl_divergence(Normal(a, (0.5 * s).exp()), Normal(0, 1))
    )


def test_a_merged_law_is_the_product_of_its_parts():
    a = Diagonal(torch.tensor([[0.3]]).double(), torch.tensor([[-1.0]]).double())
    b = Diagonal(torch.tensor([[-2.0]]).double(), torch.tensor([[0.7]]).double())
    grid = torch.linspace(-8, 8, 20001).double()[:, None]
    product = (a.log_prob(grid) + b.log_prob(grid)).exp()
    product = product / torch.trapezoid(product, grid[:, 0])
    torch.testing.assert_close(merged(a, b).log_prob(grid).exp(), product, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("inference", INFERENCES)
def test_the_log_ratio_is_joint_minus_posterior(inference, skip):
    network = network_of(inference=inference, skip=skip)
    x, noise = torch.randn(5, 4).double(), torch.randn(3, 5, 7).double()
    q = network.posterior(x)
    z = q.place(noise)
    truth = network.log_likelihood(x, z) + network.log_prior(z) - q.log_prob(z)
    assert z.shape == (3, 5, 7) and truth.shape == (3, 5)
    torch.testing.assert_close(network.log_ratio(x, noise), truth)


@pytest.mark.parametrize("inference", INFERENCES)
def test_the_density_of_a_posterior_is_that_of_its_draws(inference):
    """log q(z) against the Jacobian of the map from noise: the levels are drawn one after the other."""
    network = network_of((2, 2), inference=inference)
    x, noise = torch.randn(1, 4).double(), torch.randn(1, 4).double()
    q = network.posterior(x)
    jacobian = torch.autograd.functional.jacobian(lambda eps: q.place(eps)[0], noise)[:, 0]
    log_normal = Normal(0.0, 1.0).log_prob(noise).sum(-1)
    torch.testing.assert_close(q.log_prob(q.place(noise)), log_normal - torch.linalg.slogdet(jacobian)[1])


@pytest.mark.parametrize("inference", INFERENCES)
def test_both_forms_of_the_bound_have_the_same_mean(inference):
    network = network_of(inference=inference)
    x = torch.randn(4, 4).double()
    noise = torch.randn(40_000, 4, 7, generator=torch.Generator().manual_seed(0)).double()
    with torch.no_grad():
        sampled, closed = network.log_ratio(x, noise), network.log_ratio(x, noise, closed=True)
    error = (sampled - closed).std(0) / len(noise) ** 0.5
    assert ((sampled - closed).mean(0).abs() < 4.5 * error).all()
    assert (closed.std(0) < 1.05 * sampled.std(0)).all()


def test_draws_of_the_prior_follow_its_density():
    network = network_of((1, 1), seed=3)
    with torch.no_grad():
        z = network.draw_codes(40_000, torch.Generator().manual_seed(0)).double()
        grid = torch.linspace(-9, 9, 501).double()
        plane = torch.stack(torch.meshgrid(grid, grid, indexing="ij"), -1)
        density = network.log_prior(plane).exp()
    step = float(grid[1] - grid[0])
    assert float(density.sum()) * step**2 == pytest.approx(1.0, abs=1e-4)
    for power in (1, 2):
        truth = float((density * plane[..., 0] ** power).sum()) * step**2
        error = float((z[:, 0] ** power).std()) / len(z) ** 0.5
        assert abs(float((z[:, 0] ** power).mean()) - truth) < 4 * error


def exact(network, x):
    """log p(x) of a network all of whose maps are linear, with constant variances."""
    W, b = (network.decoder[0].weight.detach().numpy(), network.decoder[0].bias.detach().numpy())
    noise = np.diag(np.exp(2 * network.observation.log_noise.detach().numpy()))
    mean, cov = np.zeros(network.shape.dims[-1]), np.eye(network.shape.dims[-1])
    for t in reversed(range(len(network.shape.dims) - 1)):
        size, linear = network.shape.dims[t], network.down[t][0]
        A, a = linear.weight.detach().numpy()[:size], linear.bias.detach().numpy()
        mean, cov = A @ mean + a[:size], A @ cov @ A.T + np.diag(np.exp(a[size:]))
    return multivariate_normal(W @ mean + b, W @ cov @ W.T + noise).logpdf(x.numpy())


def linear_network(inference, dims=(2, 2)):
    network = network_of(dims, inference=inference, hidden=(), name="identity", seed=1)
    with torch.no_grad():
        for t, linear in enumerate(network.down):
            linear[0].weight[dims[t] :] = 0.0  # variances that do not depend on the code above
        for part in (*network.encoder.parameters(), *network.up.parameters()):
            part.mul_(0.3)
        network.encoder[-1].bias[dims[0] : 2 * dims[0]] += 1.0  # an encoder wider than the posterior
        network.up[0][-1].bias[dims[1] :] += 0.5
    return network


@pytest.mark.parametrize("inference", INFERENCES)
def test_the_bounds_of_linear_levels_close_on_the_exact_likelihood(inference):
    from benthic.generative.vae.bounds import bound

    network = linear_network(inference)
    x = torch.randn(40, 4, generator=torch.Generator().manual_seed(0)).double()
    truth = exact(network, x)
    elbo, few, many = (bound(network, x, *kind) for kind in (("elbo", 64), ("importance", 8), ("importance", 20_000)))
    assert elbo[0].mean() < few[0].mean() < many[0].mean()
    error = float(many[1].square().sum().sqrt()) / len(x)
    assert abs(float(many[0].mean()) - truth.mean()) < 4 * error + 0.01
    assert error < 0.05


# -- the estimator -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def digits():
    settings = {"epochs": 20, "lr": 5e-3}
    return benthic.HierarchicalVAE(
        (6, 4, 2), hidden_layer_sizes=(64,), level_layer_sizes=(32,), trainer=settings, random_state=0
    ).fit(DIGITS)


def test_levels_are_used_and_reported(digits):
    assert digits.level_kl_.shape == (3,) and digits.level_kl_[0] > 1 and (digits.level_kl_ > -1e-6).all()
    with torch.no_grad():
        x = digits.scales_.transform(torch.tensor(DIGITS)).float()
        noise = torch.randn(64, len(x), 12, generator=torch.Generator().manual_seed(1))
        levels = digits.network_.posterior(x).levels(noise)
        again = [float(kl.mean()) for kl in digits.network_.level_divergences(levels, noise)]
    np.testing.assert_allclose(digits.level_kl_, again, atol=0.2)
    assert "nats of each level" in digits.summary() and len(digits.plot().axes) == 2
    assert digits.level_slices() == [slice(0, 6), slice(6, 10), slice(10, 12)]


def test_only_the_lowest_code_reaches_the_data_unless_they_skip(digits):
    codes = digits.encode(DIGITS[:5])
    assert codes.shape == (5, 12)
    moved = codes + np.r_[np.zeros(6), np.ones(6)]
    np.testing.assert_array_equal(digits.decode(codes), digits.decode(moved))
    skipping = benthic.HierarchicalVAE(
        (3, 2), skip=True, hidden_layer_sizes=(16,), trainer={"steps": 30}, random_state=0
    ).fit(DIGITS[:100])
    codes = skipping.encode(DIGITS[:5])
    assert not np.array_equal(skipping.decode(codes), skipping.decode(codes + np.r_[np.zeros(3), np.ones(2)]))


def test_redrawing_keeps_the_levels_above(digits):
    codes = digits.encode(DIGITS[:5])
    lower, upper = digits.redraw(codes, 1, seed=0), digits.redraw(codes, 2, seed=0)
    np.testing.assert_array_equal(lower[:, 6:], codes[:, 6:])
    np.testing.assert_array_equal(upper[:, 10:], codes[:, 10:])
    assert (lower[:, :6] != codes[:, :6]).all() and (upper[:, 6:10] != codes[:, 6:10]).all()
    np.testing.assert_array_equal(digits.redraw(codes, 0), codes)
    many = digits.redraw(np.repeat(codes[:1], 4000, 0), 1, seed=1)[:, :6]
    with torch.no_grad():
        law = copy.deepcopy(digits.network_).double().law(0, torch.tensor(codes[:1]).split([6, 4, 2], -1)[1:])
    error = np.exp(0.5 * law.log_var.numpy()[0]) / 4000**0.5
    assert (np.abs(many.mean(0) - law.mean.numpy()[0]) < 4.5 * error).all()
    with pytest.raises(InvalidInput, match="redraw: levels is 4; it is a whole number from 0 to 3"):
        digits.redraw(codes, 4)


@pytest.mark.parametrize("inference", INFERENCES)
def test_pictures_gaps_and_files(inference, tmp_path):
    images = DIGITS[:120].reshape(-1, 1, 8, 8)
    settings = {"inference": inference, "trainer": {"steps": 20}, "random_state": 0}
    model = benthic.HierarchicalVAE((4, 2), channels=(8,), **settings).fit(images)
    assert model.sample(3).shape == (3, 1, 8, 8) and model.reconstruct(images[:4]).shape == (4, 1, 8, 8)
    holed = images[:4].copy()
    holed[:, :, 4:] = np.nan
    full = model.impute(holed)
    assert np.isfinite(full).all()
    np.testing.assert_array_equal(full[:, :, :4], images[:4, :, :4])
    loaded = benthic.load(model.save(tmp_path / "model.safetensors"))
    np.testing.assert_array_equal(loaded.encode(images), model.encode(images))
    np.testing.assert_array_equal(loaded.level_kl_, model.level_kl_)


def test_importance_draws_in_training_tighten_the_bound():
    network = network_of()
    x = torch.randn(200, 4).double()
    torch.manual_seed(0)
    with torch.no_grad():
        one, many = network(x).mean(), network(x, draws=50).mean()
    assert many < one - 0.1


def test_a_hierarchy_of_scales_is_found():
    """Rows around centers that lie around centers: two levels explain them better than their noise alone."""
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(4, 6)) * 4
    X = (
        centers[rng.integers(4, size=800)]
        + rng.normal(size=(800, 2)) @ rng.normal(size=(2, 6))
        + 0.1 * rng.normal(size=(800, 6))
    )
    settings = {"epochs": 30, "lr": 1e-2, "schedule": "cosine"}
    common = {"hidden_layer_sizes": (32,), "trainer": settings, "random_state": 0}
    deep = benthic.HierarchicalVAE((4, 2), level_layer_sizes=(32,), **common).fit(X)
    gaussian = multivariate_normal(X.mean(0), np.cov(X.T)).logpdf(X).mean()
    assert deep.score(X) > gaussian + 0.4


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"level_dims": ()}, "level_dims is \\(\\); it holds"),
        ({"level_dims": (3, 0)}, "level_dims is \\(3, 0\\)"),
        ({"inference": "sideways"}, "use 'top_down' or 'bottom_up'"),
        ({"kl_warmup": 2.0}, "kl_warmup is 2.0"),
        ({"activation": "relu6"}, "did you mean 'relu'"),
    ],
)
def test_wrong_settings(params, words):
    with pytest.raises(InvalidInput, match=f"HierarchicalVAE.fit: .*{words}"):
        benthic.HierarchicalVAE(**params).fit(DIGITS[:20])
