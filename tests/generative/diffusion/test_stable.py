"""Targets from the whole batch: direct sums, exact denoisers, conditions, and gradients that vary less."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats

import benthic
from benthic.base.errors import InvalidInput
from benthic.generative.diffusion import (
    DenoisingObjective,
    exact_denoiser,
    expected_among,
    network_target,
    process_of,
)
from benthic.generative.diffusion.objectives import field_length, slope_errors
from benthic.generative.diffusion.stable import may_be_behind
from benthic.generative.poisson import PoissonPath, empirical_field

pytestmark = pytest.mark.spec("N-06", "N-07")
PROCESSES = ("vp", "subvp", "edm", "straight", "ddpm")


def noisy(name, data, seed=0):
    """A process, times and noisy points of it."""
    process = process_of(name)
    torch.manual_seed(seed)
    share = torch.linspace(0.05, 0.6, len(data), dtype=torch.float64)
    t = process.snap(process.t_min + (process.t_max - process.t_min) * share)
    return process, t, process.mix(data, process.draw_noise(data.shape, data), t)


@pytest.mark.parametrize("columns", [2, 12])
@pytest.mark.parametrize("name", PROCESSES)
def test_the_expectation_is_a_sum_over_the_batch(name, columns):
    """Normal densities by SciPy, example by example."""
    data = torch.randn(30, columns, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    process, t, x = noisy(name, data)
    found = expected_among(process, x, t, data)
    for i in range(0, 30, 7):
        alpha, sigma = float(process.alpha(t[i])), float(process.sigma(t[i]))
        logs = np.array([stats.norm.logpdf(x[i], alpha * y, sigma).sum() for y in data.numpy()])
        weights = np.exp(logs - logs.max())
        np.testing.assert_allclose(found[i], weights @ data.numpy() / weights.sum(), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("dimensions", [1.0, 16.0])
def test_with_the_kernel_of_poisson_it_is_the_field(dimensions):
    process = PoissonPath(dimensions=dimensions)
    data = torch.randn(40, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    t = torch.linspace(0.05, 4, 40, dtype=torch.float64)
    torch.manual_seed(0)
    x = process.mix(data, process.draw_noise(data.shape, data), t)
    away = x - expected_among(process, x, t, data)
    radius = process.radius(t)
    length = field_length(away, radius[:, None])
    along, out = empirical_field(x, radius, data, dimensions)
    torch.testing.assert_close(away / length, along)
    torch.testing.assert_close(radius / length[:, 0], out)


def test_large_batches_agree_with_the_exact_denoiser():
    """10 000 draws of a mixture: the error is that of a mean over the draws that could be behind a point."""
    exact = exact_denoiser(([0.3, 0.7], [[-1.0, 0.0], [1.0, 0.5]], [[[0.1, 0.0], [0.0, 0.1]]] * 2), "edm")
    data = exact.draw(10_000, seed=0)
    x, t = exact.draw(50, seed=1) + 0.7, torch.full((50,), 0.8, dtype=torch.float64)
    found, wanted = expected_among(exact.process, x, t, data), exact.data(x, t)
    assert float((found - wanted).abs().max()) < 6 / math.sqrt(10_000 * 0.05)  # at least 5 % of the draws count


def test_only_what_may_be_behind_a_point_counts():
    labels = torch.tensor([0, 1, 0, 2])  # of two classes: the last is the null condition
    wanted = [[1, 0, 1, 0], [0, 1, 0, 0], [1, 0, 1, 0], [1, 1, 1, 1]]
    assert may_be_behind(labels, "labels", 2).int().tolist() == wanted
    vectors = torch.tensor([[1.0, 2.0], [1.0, 2.0], [torch.nan, torch.nan]])
    assert may_be_behind(vectors, "vectors", 0).int().tolist() == [[1, 0, 0], [0, 1, 0], [1, 1, 1]]
    data = torch.tensor([[0.0], [10.0], [1.0]])
    t = torch.ones(3)
    found = expected_among(process_of("edm"), data, t, data, torch.eye(3, dtype=torch.bool))
    torch.testing.assert_close(found, data)


@pytest.mark.parametrize("target", ["noise", "data", "velocity", "edm"])
def test_the_expectation_of_the_batch_has_no_loss(target):
    """A network that answers with it is right at every point; one that answers with the data is not."""
    torch.manual_seed(0)
    data = torch.randn(64, 2, dtype=torch.float64)
    process, t, x = noisy("vp", data)
    noise = (x - process.alpha(t)[:, None] * data) / process.sigma(t)[:, None]
    objective = DenoisingObjective(process, target, "simple", matching="stable")
    mean = expected_among(process, x, t, data)
    denoiser = objective.denoiser(lambda x, *_: torch.zeros_like(x))
    rest = denoiser.answer(x, t)[0]  # what is added to a silent network
    wanted = objective_target(objective, mean, x, t) - rest
    assert float(objective.at(lambda *_: wanted, data, t, noise).max()) < 1e-18
    assert float(objective.at(lambda *_: objective_target(objective, data, x, t) - rest, data, t, noise).max()) > 1e-3


def objective_target(objective, mean, x, t):
    process = objective.process
    noise = (x - process.alpha(t)[:, None] * mean) / process.sigma(t)[:, None]
    return network_target(process, mean, noise, t, objective.target, objective.sigma_data)


def test_gradients_vary_less():
    """The slope of the loss by one number, over draws of the noise: the same on average, with half the spread."""
    process = process_of("edm")
    x0 = torch.randn(256, 1, generator=torch.Generator().manual_seed(1)) + 0.3
    slopes = {}
    for matching in ("denoising", "stable"):
        objective = DenoisingObjective(process, "edm", "edm", matching=matching)
        torch.manual_seed(0)
        found = []
        for _ in range(200):
            shift = torch.zeros((), requires_grad=True)
            t = torch.full((256,), 1.5)
            noise = torch.randn(256, 1)
            objective.at(lambda x, *_, shift=shift: shift * torch.ones_like(x), x0, t, noise).mean().backward()
            found.append(float(shift.grad))
        slopes[matching] = np.array(found)
    gap = slopes["stable"].mean() - slopes["denoising"].mean()
    assert abs(gap) < 4 * slopes["denoising"].std() / math.sqrt(200)
    assert slopes["stable"].std() < 0.5 * slopes["denoising"].std()


def test_a_silent_network_has_the_field_of_normal_data():
    """Of length one, and its lines lead where the preconditioner says; far away toward the middle of the data."""
    process = PoissonPath(dimensions=4.0)
    objective = DenoisingObjective(process, "field", "edm", sigma_data=1.0, sees="level")

    def silent(x, *_):
        return torch.zeros_like(x), torch.full((len(x),), math.log1p(math.e), dtype=x.dtype)

    denoiser = objective.denoiser(silent)
    x = torch.tensor([[0.5, -0.2], [3.0, 1.0], [400.0, -300.0]], dtype=torch.float64)
    t = torch.tensor([0.1, 1.0, 80.0], dtype=torch.float64)
    (along, away), _ = denoiser.answer(x, t)
    torch.testing.assert_close(along.square().sum(1) + away.square(), torch.ones(3, dtype=torch.float64))
    noise = process.likely_noise(x, t, 1.0)
    torch.testing.assert_close(denoiser.data(x, t), x / (1 + noise.square())[:, None])


def test_much_noise_is_told_from_the_point():
    x = torch.tensor([[0.5, 0.5], [50.0, 0.0]], dtype=torch.float64)
    t = torch.full((2,), 2.0, dtype=torch.float64)
    near, far = PoissonPath(dimensions=1.0).likely_noise(x, t, 1.0)
    assert float(near) < 2 < 10 < float(far)
    torch.testing.assert_close(PoissonPath(dimensions=1e12).likely_noise(x, t, 1.0), t)


def test_slopes_of_small_batches_are_right_on_average_and_directions_are_not():
    """At the exact field the gradient of one loss, by a factor of the slope, is zero in the mean over batches of 8."""
    process, t = PoissonPath(dimensions=1.0), torch.full((8,), 0.05, dtype=torch.float64)
    exact = exact_denoiser(([0.4, 0.6], [[-1.0, 0.0], [1.0, 0.5]], [[[0.1, 0.0], [0.0, 0.1]]] * 2), process)
    torch.manual_seed(0)
    data = exact.draw(8 * 1500, seed=0)
    x = process.mix(data, process.draw_noise(data.shape, data), t.repeat(1500))
    radius = float(process.radius(0.05))
    truth = (x - exact.data(x, 0.05)) / radius
    batches = zip(x.split(8), data.split(8), strict=True)
    slope = torch.cat([(one - expected_among(process, one, t, charges)) / radius for one, charges in batches])
    factor = torch.ones(len(x), dtype=torch.float64, requires_grad=True)
    found = truth * factor[:, None]
    lost = slope_errors((found, torch.ones_like(factor)), slope)
    length, wanted = (
        field_length(found, torch.ones_like(truth[:, :1])),
        field_length(slope, torch.ones_like(slope[:, :1])),
    )
    direction = (found / length - slope / wanted).square().sum(1) + (1 / length - 1 / wanted).square()[:, 0]
    for loss, fair in ((lost, True), (direction, False)):
        gradient = torch.autograd.grad(loss.sum(), factor, retain_graph=True)[0].reshape(1500, 8).mean(1)
        errors = float(gradient.mean() / (gradient.std() / math.sqrt(1500)))
        assert abs(errors) < 4 if fair else errors > 8  # in standard errors; less slope would fit directions better


@pytest.mark.parametrize("settings", [{"weighting": "min_snr"}, {"matching": "sliced"}])
def test_fields_have_their_own_loss(settings):
    with pytest.raises(InvalidInput, match="target='field' is learned from a batch as charges"):
        DenoisingObjective(PoissonPath(), "field", **{"weighting": "edm", **settings})
    with pytest.raises(InvalidInput, match="needs a process of Poisson flow"):
        DenoisingObjective(process_of("edm"), "field", "edm")


@pytest.mark.parametrize("weighting", ["edm", "simple"])
def test_a_field_that_is_learned_samples_well(weighting, tmp_path):
    """Four clusters: every one has its share, and few samples lie far from all."""
    rng = np.random.default_rng(0)
    centers = np.array([[-2.0, -2.0], [-2.0, 2.0], [2.0, -2.0], [2.0, 2.0]])
    X = centers[rng.integers(4, size=2000)] + 0.3 * rng.normal(size=(2000, 2))
    settings = {"hidden": 32, "depth": 2, "trainer": {"steps": 400, "batch_size": 256, "lr": 5e-3, "verbose": False}}
    process = PoissonPath(dimensions=8.0)
    model = benthic.PoissonFlow(process=process, target="field", weighting=weighting, random_state=0, **settings).fit(X)
    drawn = model.sample(2000, seed=0)
    distance = np.linalg.norm(drawn[:, None] - centers, axis=2)
    shares = np.bincount(distance.argmin(1), minlength=4) / 2000
    assert np.abs(shares - 0.25).max() < 0.08
    assert (distance.min(1) < 1.2).mean() > 0.95
    assert np.isfinite(model.log_prob(X[:20])).all()
    model.save(tmp_path / "field.safetensors")
    again = benthic.load(tmp_path / "field.safetensors").sample(5, seed=1)
    np.testing.assert_array_equal(again, model.sample(5, seed=1))
