"""Bayesian networks: closed forms of the linear case, quadrature over precisions, the predictive law, bad input."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.special import logsumexp
from scipy.stats import norm

from benthic import BayesianMLPClassifier, BayesianMLPRegressor
from benthic.base.errors import InvalidInput, NonFiniteLoss
from benthic.supervised.bayesian_minibatch import MeanField
from benthic.supervised.bayesian_posterior import Classes, Hyper, Normal, Posterior
from benthic.supervised.bayesian_stack import Stack

pytestmark = pytest.mark.spec("Q-01")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2)) * [1.0, 3.0] + [0.0, 5.0]
Y = 2 * X[:, 0] - 0.3 * X[:, 1] + 0.7 * RNG.normal(size=60)
WAVE = np.linspace(-2, 2, 80)[:, None]
WAVE_Y = np.sin(2 * WAVE[:, 0]) + 0.15 * RNG.normal(size=80)
SMALL = {
    "activation": "tanh",
    "relevance": False,
    "draws": 60,
    "warmup": 60,
    "leapfrog_steps": 15,
    "climb_steps": 200,
    "random_state": 0,
}


def gen(seed=0):
    return torch.Generator().manual_seed(seed)


def linear_posterior(model, prior, noise):
    """Mean (3,) and covariance (3, 3) of packed weights of a network without hidden layers, in closed form."""
    Z = np.column_stack([model.scales_.transform(X) / math.sqrt(2), np.ones(len(X))])
    t = model.target_scales_.transform(Y[:, None])[:, 0]
    precision = prior * np.eye(3) + noise * Z.T @ Z
    covariance = np.linalg.inv(precision)
    return covariance @ (noise * Z.T @ t), covariance


@pytest.mark.parametrize("activation", ["tanh", "relu", "logistic"])
@pytest.mark.parametrize("widths", [[3, 2], [3, 5, 2], [3, 4, 6, 2]])
@pytest.mark.parametrize("kind", ["normal", "classes"])
def test_backpropagation_of_a_stack_is_that_of_autograd(activation, widths, kind):
    stack, rows = Stack(widths, activation), torch.randn(7, 3, generator=gen(1), dtype=torch.float64)
    packed = torch.randn(4, stack.size, generator=gen(2), dtype=torch.float64)
    noise = torch.rand(4, 2, generator=gen(3), dtype=torch.float64) + 0.5
    normal = kind == "normal"
    likelihood = (
        Normal(torch.randn(7, 2, generator=gen(4), dtype=torch.float64)) if normal else Classes(torch.arange(7) % 2)
    )
    value, slope = stack.slope(packed, rows, lambda out: likelihood.slope(out, noise))
    leaf = packed.clone().requires_grad_()
    direct = likelihood.rows(stack.outputs(leaf, rows), likelihood.y, noise).sum(1)
    (expected,) = torch.autograd.grad(direct.sum(), leaf)
    torch.testing.assert_close(slope, expected, rtol=1e-10, atol=1e-10)
    constant = 7 * math.log(2 * math.pi) if normal else 0.0  # half of it for each of two columns
    torch.testing.assert_close(value, direct.detach() + constant, rtol=1e-10, atol=1e-10)


def test_a_stack_is_the_network_its_rows_say():
    stack = Stack([3, 4, 1], "tanh")
    packed, rows = torch.randn(2, stack.size, generator=gen()), torch.randn(5, 3, generator=gen(1))
    for member, out in zip(packed, stack.outputs(packed, rows), strict=True):
        first = torch.nn.Linear(3, 4)
        first.weight.data, first.bias.data = member[:12].view(3, 4).T / math.sqrt(3), member[12:16]
        by_hand = torch.tanh(first(rows)) @ member[16:20, None] / 2 + member[20]
        torch.testing.assert_close(out, by_hand.detach(), rtol=1e-5, atol=1e-6)
    assert Stack([3, 4, 1], relevance=True).groups == 3 + 3  # inputs, biases, output weights, output bias


@pytest.mark.parametrize("inference", ["hmc", "nuts"])
def test_the_posterior_of_a_linear_network_is_the_closed_form(inference):
    model = BayesianMLPRegressor(
        (), inference=inference, prior_precision=2.0, noise_precision=4.0, chains=100, draws=40, warmup=40,
        leapfrog_steps=8, climb_steps=60, random_state=0,
    ).fit(X, Y)  # fmt: skip
    mean, covariance = linear_posterior(model, 2.0, 4.0)
    chains = model.members_.reshape(100, 40, 3).double().numpy()
    pairs = np.einsum("cdi,cdj->cdij", chains - mean, chains - mean)
    for found, truth in ((chains, mean), (pairs, covariance)):
        averages = found.mean(1)  # one a chain, independent
        z = (averages.mean(0) - truth) / (averages.std(0) / math.sqrt(100))
        assert np.abs(z).max() < 5  # of twelve
    # and so the predictive law: mean and epistemic variance
    Z = np.column_stack([model.scales_.transform(X) / math.sqrt(2), np.ones(60)])
    scale = float(model.target_scales_.scale[0])
    parts = model.uncertainty(X)
    np.testing.assert_allclose(model.predict(X), Z @ mean * scale + Y.mean(), atol=0.03 * scale)
    np.testing.assert_allclose(parts.epistemic, np.einsum("ni,ij,nj->n", Z, covariance, Z) * scale**2, rtol=0.15)
    np.testing.assert_allclose(parts.aleatoric, 0.25 * scale**2, rtol=1e-5)


@pytest.mark.parametrize(("inference", "rate"), [("sgld", 0.2), ("sghmc", 0.05)])
def test_minibatch_chains_are_near_the_closed_form(inference, rate):
    model = BayesianMLPRegressor(
        (), inference=inference, prior_precision=2.0, noise_precision=4.0, chains=50, draws=100, climb_steps=100,
        trainer={"steps": 1200, "batch_size": 30, "lr": rate}, random_state=0,
    ).fit(X, Y)  # fmt: skip
    mean, covariance = linear_posterior(model, 2.0, 4.0)
    found = model.members_.double().numpy()
    deviation = np.sqrt(np.diag(covariance))
    assert np.abs(found.mean(0) - mean).max() < 0.15 * deviation.max()
    np.testing.assert_allclose(found.std(0), deviation, rtol=0.12)  # bias of the step, and of batches


def test_the_variational_optimum_of_a_linear_network():
    model = BayesianMLPRegressor(
        (), inference="variational", prior_precision=2.0, noise_precision=4.0, chains=1, draws=20_000, climb_steps=100,
        trainer={"steps": 1000, "batch_size": 60, "lr": 0.02}, random_state=0,
    ).fit(X, Y)  # fmt: skip
    mean, covariance = linear_posterior(model, 2.0, 4.0)
    found = model.members_.double().numpy()
    # independent normals nearest in KL(q, p): the right mean, variances that are inverse diagonals of the precision
    narrow = 1 / np.sqrt(np.diag(np.linalg.inv(covariance)))
    np.testing.assert_allclose(found.mean(0), mean, atol=0.15 * narrow.min())
    np.testing.assert_allclose(found.std(0), narrow, rtol=0.08)


def test_learned_precisions_match_quadrature():
    """The evidence of a linear network on a grid of three precisions gives their posterior means."""
    model = BayesianMLPRegressor(
        (), relevance=False, chains=150, draws=60, warmup=40, leapfrog_steps=8, climb_steps=60, random_state=0
    ).fit(X, Y)
    Z = np.column_stack([model.scales_.transform(X) / math.sqrt(2), np.ones(60)])
    t = model.target_scales_.transform(Y[:, None])[:, 0]
    logs = [np.linspace(*ends, 41) for ends in ((-6, 4), (-5, 4), (0.5, 3.5))]  # weights, bias, noise
    a, b, c = np.meshgrid(*logs, indexing="ij")
    lam = np.exp(np.stack([a, a, b], -1))
    gamma = np.exp(c)
    precision = gamma[..., None, None] * (Z.T @ Z) + lam[..., None] * np.eye(3)
    mean = np.linalg.solve(precision, (gamma[..., None] * (Z.T @ t))[..., None])[..., 0]
    evidence = 0.5 * (np.log(lam).sum(-1) + 60 * c - np.linalg.slogdet(precision)[1] - gamma * (t @ t))
    evidence += 0.5 * (mean * (gamma[..., None] * (Z.T @ t))).sum(-1)
    evidence += (a - np.exp(a)) + (b - np.exp(b)) + (c - 0.05 * np.exp(c))  # Gamma laws, and d exp
    weight = np.exp(evidence - evidence.max())
    weight /= weight.sum()
    found = model.posterior()
    for values, grid in (
        (found["prior"][..., 0], np.exp(a)), (found["prior"][..., 1], np.exp(b)), (found["noise"][..., 0], gamma)
    ):  # fmt: skip
        chains = values.mean(1).double().numpy()
        z = (chains.mean() - (weight * grid).sum()) / (chains.std() / math.sqrt(150))
        assert abs(z) < 4


def test_local_reparametrization_has_the_moments_of_drawn_weights():
    stack = Stack([3, 1])
    posterior = Posterior(stack, torch.zeros(1, 3), Normal(torch.zeros(1, 1)), 1.0)
    start = (torch.randn(1, 4, generator=gen(1)), Hyper(torch.ones(1, 2), torch.ones(1, 1)))
    field = MeanField(posterior, start, rows=10)
    field.log_scale.data = torch.randn(1, 4, generator=gen(2)) * 0.3
    rows = torch.randn(6, 3, generator=gen(3))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        with torch.no_grad():
            local = torch.stack([field(rows)[0, :, 0] for _ in range(4000)])
    weights, _ = field.draw(4000, gen(4))
    drawn = stack.outputs(weights[0], rows)[..., 0]
    assert float(((local.mean(0) - drawn.mean(0)) / drawn.std(0)).abs().max()) < 4 * math.sqrt(2 / 4000)
    assert float((local.var(0) / drawn.var(0) - 1).abs().max()) < 4 * math.sqrt(4 / 4000)
    law = torch.distributions.Normal(field.mean, field.log_scale.exp())
    expected = torch.distributions.kl_divergence(law, torch.distributions.Normal(0.0, 1.0)).sum(1)
    torch.testing.assert_close(field.divergence(), expected)


@pytest.mark.parametrize("inference", ["hmc", "nuts", "sgld", "sghmc", "variational"])
def test_every_inference_learns_a_wave_and_its_noise(inference):
    trainer = {"steps": 800} if inference not in ("hmc", "nuts") else None
    settings = {**SMALL, "draws": 20, "warmup": 40} if inference == "nuts" else SMALL
    model = BayesianMLPRegressor((12,), inference=inference, chains=2, trainer=trainer, **settings)
    model.fit(WAVE, WAVE_Y)
    truth = np.sin(2 * WAVE[:, 0])
    assert np.sqrt(np.mean((model.predict(WAVE) - truth) ** 2)) < 0.15
    noise = float(np.sqrt(model.uncertainty(WAVE).aleatoric.mean()))
    assert 0.12 < noise < 0.27  # it is 0.15; independent normal laws explain less and call more of it noise
    low, high = model.predict_interval(WAVE, 0.9).T
    assert np.mean((low < WAVE_Y) & (high > WAVE_Y)) > 0.75


@pytest.fixture(scope="module")
def wave():
    return BayesianMLPRegressor((12,), **SMALL).fit(WAVE, WAVE_Y)


def test_doubt_grows_away_from_the_data(wave):
    parts = wave.uncertainty(np.array([[0.0], [6.0]]))
    assert parts.epistemic[1] > 5 * parts.epistemic[0] and parts.aleatoric[1] == pytest.approx(parts.aleatoric[0])
    np.testing.assert_allclose(parts.total, parts.epistemic + parts.aleatoric, rtol=1e-12)


def test_the_law_of_total_variance_holds_for_the_predictive_density(wave):
    row, grid = np.array([[1.3]]), np.linspace(-8, 8, 4001)
    density = np.exp(wave.log_likelihood(np.repeat(row, len(grid), 0), grid))
    mass = np.trapezoid(density, grid)
    mean = np.trapezoid(grid * density, grid)
    assert mass == pytest.approx(1.0, abs=1e-6)
    assert mean == pytest.approx(float(wave.predict(row)[0]), abs=1e-6)
    assert np.trapezoid((grid - mean) ** 2 * density, grid) == pytest.approx(
        float(wave.uncertainty(row).total[0]), rel=1e-5
    )
    low, high = wave.predict_interval(row, 0.8)[0]
    inside = (grid >= low) & (grid <= high)
    assert np.trapezoid(density[inside], grid[inside]) == pytest.approx(0.8, abs=0.01)
    below = np.trapezoid(density[grid <= low], grid[grid <= low])
    assert below == pytest.approx(0.1, abs=0.01)


def test_log_likelihood_is_that_of_the_mixture(wave):
    stack = Stack([1, 12, 1], "tanh")
    rows = torch.as_tensor(wave.scales_.transform(WAVE))
    outputs = stack.outputs(wave.members_.double(), rows)[..., 0].numpy()
    scale, mean = float(wave.target_scales_.scale[0]), float(wave.target_scales_.mean[0])
    sd = wave.noise_precision_.double().rsqrt().numpy() * scale
    expected = logsumexp(norm.logpdf(WAVE_Y, outputs * scale + mean, sd), axis=0) - math.log(len(outputs))
    np.testing.assert_allclose(wave.log_likelihood(WAVE, WAVE_Y), expected, rtol=1e-9)


def test_predictions_are_calibrated_on_new_data(wave):
    rng = np.random.default_rng(5)
    new = rng.uniform(-2, 2, size=(800, 1))
    found = wave.calibration(new, np.sin(2 * new[:, 0]) + 0.15 * rng.normal(size=800))
    assert found.error < 0.08 and len(found.expected) == len(found.observed) == 19
    wrong = wave.calibration(new, np.sin(2 * new[:, 0]) + 0.6 * rng.normal(size=800))
    assert wrong.error > 0.2  # and the error tells when they are not


def test_targets_of_several_columns():
    both = np.column_stack([WAVE_Y, 3 * WAVE_Y[::-1] + 7])
    model = BayesianMLPRegressor((12,), **SMALL).fit(WAVE, both)
    assert model.predict(WAVE).shape == (80, 2) and model.score(WAVE, both) > 0.9
    assert model.predict_interval(WAVE).shape == (80, 2, 2) and model.uncertainty(WAVE).total.shape == (80, 2)
    assert model.log_likelihood(WAVE, both).shape == (80,)
    ratio = model.uncertainty(WAVE).aleatoric.mean(0)
    assert ratio[1] / ratio[0] == pytest.approx(9, rel=0.4)  # noise three times as large


def test_relevance_switches_useless_inputs_off():
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(150, 4))
    model = BayesianMLPRegressor((10,), **{**SMALL, "relevance": True}).fit(
        rows, np.sin(2 * rows[:, 0]) + 0.05 * rng.normal(size=150)
    )
    spread = model.prior_precision_[:, :4].rsqrt().mean(0)
    assert float(spread[0]) > 1.5 * float(spread[1:].max())


@pytest.fixture(scope="module")
def classes():
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(150, 2))
    probability = 1 / (1 + np.exp(-3 * rows[:, 0] + 2 * rows[:, 1] ** 2 - 1))
    labels = np.where(rng.random(150) < probability, "yes", "no")
    return BayesianMLPClassifier((10,), **SMALL).fit(rows, labels), rows, labels, probability


def test_probabilities_are_near_the_true_ones(classes):
    model, rows, _, probability = classes
    found = model.predict_proba(rows)
    np.testing.assert_allclose(found.sum(1), 1, rtol=1e-9)
    assert np.abs(found[:, 1] - probability).mean() < 0.1
    assert list(model.classes_) == ["no", "yes"]


def test_entropy_splits_into_doubt_and_chance(classes):
    model, rows, _, _ = classes
    parts, proba = model.uncertainty(rows), model.predict_proba(rows)
    np.testing.assert_allclose(parts.total, -(proba * np.log(proba)).sum(1), rtol=1e-7)
    np.testing.assert_allclose(parts.total, parts.epistemic + parts.aleatoric, atol=1e-9)
    assert (parts.epistemic >= 0).all() and (parts.aleatoric >= 0).all()
    far = model.uncertainty(np.array([[0.0, 0.0], [-6.0, 6.0], [5.0, 6.0]]))
    assert far.epistemic[2] > far.epistemic[0]


def test_classes_have_log_likelihoods_and_calibration(classes):
    model, rows, labels, _ = classes
    proba = model.predict_proba(rows)
    expected = np.log(proba[np.arange(150), (labels == "yes").astype(int)])
    np.testing.assert_allclose(model.log_likelihood(rows, labels), expected, rtol=1e-9)
    assert model.log_likelihood(rows[:1], np.array(["maybe"]))[0] == -np.inf
    found = model.calibration(rows, labels)
    assert found.error < 0.15 and np.all(np.diff(found.expected) > 0)


@pytest.mark.parametrize("inference", ["nuts", "sgld", "sghmc", "variational"])
def test_every_inference_classifies(inference):
    trainer = {"steps": 400} if inference != "nuts" else None
    rows, labels = X, (Y > 0).astype(int)
    settings = {**SMALL, "draws": 20, "warmup": 20}
    model = BayesianMLPClassifier((6,), inference=inference, chains=2, trainer=trainer, **settings).fit(rows, labels)
    assert model.score(rows, labels) > 0.8 and model.members_.shape[0] == 40


def test_draws_summary_and_picture(wave):
    draws = wave.posterior()
    assert draws.values["weights"].shape == (4, 60, 37) and draws.values["noise"].shape == (4, 60, 1)
    assert "members" in wave.summary() and "hmc" in wave.summary()
    assert len(wave.plot().axes[0].lines) == 4


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"inference": "hcm"}, "inference 'hcm' is unknown.*hmc"),
        ({"activation": "gelu"}, "activation 'gelu' is unknown"),
        ({"hidden_layer_sizes": (0,)}, "hidden_layer_sizes"),
        ({"chains": 0}, "chains is 0"),
        ({"draws": 1.5}, "draws is 1.5"),
        ({"warmup": -1}, "warmup is -1"),
        ({"prior_precision": 0.0}, "prior_precision is 0.0"),
        ({"noise_precision": -1.0}, "noise_precision is -1.0"),
    ],
)
def test_bad_settings_are_named(settings, words):
    with pytest.raises(InvalidInput, match=f"BayesianMLPRegressor.fit: .*{words}"):
        BayesianMLPRegressor(**settings).fit(X, Y)


def test_bad_requests_are_named(wave):
    with pytest.raises(InvalidInput, match="predict_interval: level is 1.5"):
        wave.predict_interval(WAVE, 1.5)
    with pytest.raises(InvalidInput, match="log_likelihood: X has 80 rows and y has 3"):
        wave.log_likelihood(WAVE, WAVE_Y[:3])
    with pytest.raises(TypeError, match="trainer"):
        BayesianMLPRegressor(lr=0.1)


def test_chains_that_run_away_say_what_to_change():
    with pytest.raises(NonFiniteLoss, match="the chains of sghmc ran away at step .*try trainer={'lr': 1e"):
        BayesianMLPRegressor((5,), inference="sghmc", trainer={"steps": 500, "lr": 1e3}).fit(X, Y)
