"""Annealed importance sampling against normalizers that are known exactly."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal

import benthic
from benthic.base.errors import InvalidInput
from benthic.generative.vae.bounds import bound
from benthic.samplers import AnnealedWeights, Annealing, annealed_importance, annealing_temperatures
from tests.laws.test_elbo import exact as exact_likelihood
from tests.laws.test_elbo import linear_vae, vae_with


def unit(x):
    """log of the standard normal density."""
    return -0.5 * (x.square() + math.log(2 * math.pi)).sum(-1)


def normal(mean, scale):
    """The unnormalized density of a normal law, whose normalizer is (2π)^(d/2) ∏ scale."""
    return lambda x: -0.5 * ((x - mean) / scale).square().sum(-1)


def draws(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


MEAN, SCALE = torch.tensor([2.0, -1.0, 0.5]).double(), torch.tensor([0.5, 1.5, 0.3]).double()
TRUTH = float(SCALE.log().sum()) + 1.5 * math.log(2 * math.pi)


@pytest.mark.parametrize("temperatures", [1, 2, 5, 40])
def test_the_mean_weight_is_unbiased_for_any_number_of_temperatures(temperatures):
    found = annealed_importance(
        unit, normal(MEAN / 4, SCALE + 0.5), draws(20_000, 3), temperatures=temperatures, seed=0
    )
    truth = float((SCALE + 0.5).log().sum()) + 1.5 * math.log(2 * math.pi)
    weights = found.log_weights.exp()
    assert abs(weights.mean() - math.exp(truth)) < 4 * weights.std() / math.sqrt(len(weights))
    assert abs(found.value - truth) < 4 * found.stderr


def test_forward_and_reverse_enclose_the_truth_and_close_in():
    gaps = []
    for temperatures in (4, 16, 128):
        lower = annealed_importance(unit, normal(MEAN, SCALE), draws(258, 3), temperatures=temperatures, seed=0)
        upper = annealed_importance(
            unit,
            normal(MEAN, SCALE),
            draws(258, 3),
            exact=MEAN + SCALE * draws(256, 3, seed=1),
            temperatures=temperatures,
            seed=1,
        )
        assert lower.bound == "lower" and upper.bound == "upper"
        assert lower.value - 4 * lower.stderr < TRUTH < upper.value + 4 * upper.stderr
        gaps.append(float(upper.log_weights.mean() - lower.log_weights.mean()))
    assert gaps[0] > gaps[1] > gaps[2] > 0 and gaps[2] < 2.5  # the mean of log w bounds by itself: 1.4 ± 0.2
    assert lower.stderr < 0.3 and upper.stderr < 0.3


def test_rows_of_a_batch_are_problems_of_their_own():
    means, scales = torch.tensor([[0.0], [2.0], [-3.0]]).double(), torch.tensor([[0.2], [1.0], [3.0]]).double()
    found = annealed_importance(unit, normal(means, scales), draws(102, 3, 1), temperatures=100, seed=0)
    truth = scales.log().sum(-1) + 0.5 * math.log(2 * math.pi)
    assert found.log_weights.shape == (100, 3) and found.accepted.shape == (99, 3)
    assert ((found.value - truth).abs() < 4 * found.stderr + 1e-3).all()
    assert (found.accepted.mean(0) > 0.5).all()
    np.testing.assert_allclose(found.positions.mean(0), means, atol=1.2)


def test_two_separate_modes_are_both_counted():
    """Chains cannot cross between the modes at the end, but they are shared out on the way."""

    def target(x):
        return torch.logaddexp(normal(-4.0, 0.5)(x), normal(4.0, 0.5)(x))

    wide = normal(0.0, 4.0)
    found = annealed_importance(wide, target, 4 * draws(2002, 1), temperatures=60, seed=0)
    truth = math.log(2 * 0.5 / 4.0)
    assert abs(found.value - truth) < 4 * found.stderr and found.stderr < 0.05


def test_tuned_steps_are_accepted_as_asked():
    path = Annealing(unit, normal(torch.zeros(5).double(), 0.05), annealing_temperatures(200), 1.0)
    stream = torch.Generator().manual_seed(0)
    tuned = path.tuned(draws(64, 5), stream, accept=0.7)
    assert tuned.step_sizes.shape == (199,) and tuned.step_sizes[-1] < tuned.step_sizes[0] / 5
    again = tuned.forward(draws(64, 5, seed=2), stream).accepted
    assert 0.6 < again[20:].mean() < 0.8
    assert path.forward(draws(64, 5), stream).accepted[100:].mean() < 0.2  # a step that fits the start alone


def test_errors_and_jackknife_agree_with_repetition():
    rng = np.random.default_rng(0)
    log_weights = torch.from_numpy(rng.normal(scale=0.7, size=(50, 4000)))
    found = AnnealedWeights(log_weights, torch.zeros(50, 4000, 1), torch.ones(1, 4000))
    truth = 0.5 * 0.7**2
    spread = float(found.value.std())
    assert abs(float(found.stderr.square().mean().sqrt()) / spread - 1) < 0.1
    value, stderr = found.jackknife()
    assert abs(float(stderr.square().mean().sqrt()) / spread - 1) < 0.1
    assert abs(float(value.mean()) - truth) < abs(float(found.value.mean()) - truth)
    back = AnnealedWeights(-log_weights, found.positions, found.accepted, reverse=True)
    torch.testing.assert_close(back.value, -found.value)
    torch.testing.assert_close(back.stderr, found.stderr)
    assert ((found.ess > 1) & (found.ess < 50)).all()


def test_one_seed_gives_one_answer_and_global_state_stays():
    before = torch.random.get_rng_state()
    one, two = (annealed_importance(unit, normal(MEAN, SCALE), draws(8, 3), temperatures=10, seed=s) for s in (0, 0))
    assert torch.equal(one.log_weights, two.log_weights) and torch.equal(before, torch.random.get_rng_state())
    single = annealed_importance(unit, normal(MEAN.float(), SCALE.float()), draws(8, 3).float(), temperatures=5, seed=0)
    assert single.log_weights.dtype == torch.float32


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"temperatures": 0}, "count is 0"),
        ({"temperatures": [0.0, 0.7, 0.3, 1.0]}, "rise from 0 to 1"),
        ({"temperatures": [0.1, 1.0]}, "rise from 0 to 1"),
        ({"leapfrogs": 0}, "leapfrogs is 0"),
        ({"step_size": -1.0}, "step_sizes is -1.0"),
        ({"accept": 1.5}, "accept is 1.5"),
        ({"pilot": 8}, "pilot is 8 of 8 chains"),
        ({"start": draws(8)[None][0]}, "points have shape|pilot"),
        ({"log_target": lambda x: x}, "log_target of points .* one number a point"),
        ({"log_start": lambda x: x.sum(-1) * math.nan}, "log_start is NaN"),
    ],
)
def test_wrong_arguments(change, words):
    good = {"log_start": unit, "log_target": normal(MEAN, SCALE), "start": draws(8, 3), "temperatures": 5, "seed": 0}
    with pytest.raises(InvalidInput, match=words):
        annealed_importance(**{**good, **change})


# -- the likelihood of latent-variable models --------------------------------------------------------------


@pytest.mark.spec("N-01")
def test_annealing_finds_the_likelihood_where_the_encoder_is_far_off():
    network = linear_vae(seed=3)
    x = torch.from_numpy(np.random.default_rng(3).normal(size=(40, 4)))
    truth = exact_likelihood(network, x)
    model = vae_with(network)
    found = model.likelihood(x.numpy(), "ais(60)")
    assert (found.kind, found.bound, found.measure) == ("ais", "lower", "density")
    error = math.sqrt(np.square(found.stderr).sum()) / len(x)
    assert abs(found.mean() - truth.mean()) < 4 * error + 0.02
    short = model.likelihood(x.numpy(), "importance(8)")
    assert found.mean() > short.mean() + 0.2
    again = [model.likelihood(x.numpy(), "ais(4)").value for _ in range(2)]
    np.testing.assert_array_equal(*again)


@pytest.mark.spec("N-01")
def test_annealing_agrees_with_many_importance_draws_on_a_nonlinear_model():
    X = np.random.default_rng(0).normal(size=(300, 2)) @ np.ones((2, 3)) + 0.3 * np.random.default_rng(1).normal(
        size=(300, 3)
    )
    settings = {"hidden_layer_sizes": (16,), "trainer": {"steps": 200, "lr": 0.01}, "random_state": 0}
    labels = np.where(X[:, 0] > 0, "up", "down")
    models = (
        benthic.VAE(2, **settings).fit(X),
        benthic.HierarchicalVAE((2, 1), **settings).fit(X),
        benthic.ConditionalVAE(2, **settings).fit(X, labels),
    )
    for model in models:
        many, found = model.likelihood(X[:60], "importance(4096)"), model.likelihood(X[:60], "ais(25)")
        error = math.sqrt((np.square(found.stderr) + np.square(many.stderr)).sum()) / 60
        assert abs(found.mean() - many.mean()) < 4 * error + 0.02, type(model).__name__


def test_what_is_missing_does_not_count():
    network = linear_vae(seed=1)
    x = torch.from_numpy(np.random.default_rng(3).normal(size=(20, 4)))
    x[:, 2] = torch.nan
    linear, seen = network.decoder[0], [0, 1, 3]
    W, b = linear.weight.detach().numpy()[seen], linear.bias.detach().numpy()[seen]
    noise = np.exp(2 * network.observation.log_noise.detach().numpy()[seen])
    truth = multivariate_normal(b, W @ W.T + np.diag(noise)).logpdf(x[:, seen].numpy())
    value, stderr = bound(network, x, "ais", 50)
    assert abs(float(value.mean()) - truth.mean()) < 4 * float(stderr.square().sum().sqrt()) / 20 + 0.02
    with pytest.raises(InvalidInput, match="asks for no draws"):
        vae_with(network).likelihood(x.numpy(), "ais(0)")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_chains_run_where_their_points_lie():
    start = draws(66, 3).cuda()
    found = annealed_importance(unit, normal(MEAN.cuda(), SCALE.cuda()), start, temperatures=64, seed=0)
    assert found.log_weights.is_cuda
    assert abs(float(found.value) - TRUTH) < 4 * float(found.stderr) + 0.05
    network = linear_vae(seed=3).cuda()
    x = torch.from_numpy(np.random.default_rng(3).normal(size=(40, 4)))
    value, stderr = bound(network, x.cuda(), "ais", 60)
    truth = exact_likelihood(linear_vae(seed=3), x)
    assert abs(float(value.mean()) - truth.mean()) < 4 * float(stderr.square().sum().sqrt()) / 40 + 0.05
