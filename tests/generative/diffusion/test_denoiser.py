"""Conversions between predictions, networks with targets, guidance and clipping."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from benthic.base.errors import InvalidInput
from benthic.generative.diffusion import (
    VP,
    AddedNoise,
    Clipped,
    Denoiser,
    Guided,
    StraightPath,
    convert,
    exact_denoiser,
    network_target,
)
from benthic.generative.diffusion.targets import TARGETS
from benthic.generative.poisson import PoissonPath
from tests.generative.diffusion.cases import ALL, MIXTURE, inner_times

pytestmark = pytest.mark.spec("N-05")


@pytest.mark.parametrize("name", ALL)
def test_conversions_lose_nothing(name):
    """Every answer to every other and back, in float64 to 1e-10, for one time a row and one for all."""
    process = ALL[name]
    t = inner_times(process, 6)
    torch.manual_seed(0)
    x0, noise = torch.randn(2, 6, 5, dtype=torch.float64)
    for when in (t, float(t[3])):
        x = process.mix(x0, noise, when)
        answers = {target: network_target(process, x0, noise, when, target) for target in TARGETS}
        for source, target in itertools.product(TARGETS, TARGETS):
            there = convert(process, answers[source], x, when, source, target)
            scale = answers[target].abs().max()
            torch.testing.assert_close(there / scale, answers[target] / scale, rtol=0, atol=1e-10)
            back = convert(process, there, x, when, target, source)
            scale = answers[source].abs().max()
            torch.testing.assert_close(back / scale, answers[source] / scale, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("target", [*TARGETS, "edm"])
@pytest.mark.parametrize("sigma_data", [None, 0.7])
def test_a_network_that_answers_right_denoises_exactly(name, target, sigma_data):
    """The network sees the scaled points and the level; from the right answer come the exact data, score and flow."""
    process = ALL[name]
    truth = exact_denoiser(MIXTURE, process)
    t = inner_times(process, 4)
    x = truth.process.mix(truth.draw(4, seed=0), torch.randn(4, 2, dtype=torch.float64), t)
    x0 = truth.data(x, t)
    noise = convert(process, x0, x, t, "data", "noise")
    answer = network_target(process, x0, noise, t, target, 0.5 if sigma_data is None else sigma_data)
    seen = {}

    def network(points, level):
        seen.update(points=points, level=level)
        return answer

    denoiser = Denoiser(process, network, target, sigma_data=sigma_data)
    torch.testing.assert_close(denoiser.data(x, t), x0, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(denoiser.score(x, t), truth.score(x, t), rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(denoiser.flow(x, t), truth.flow(x, t), rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(seen["level"], (process.sigma(t) / process.alpha(t)).log())
    spread = sigma_data or (0.5 if target == "edm" else None)
    told = spread is not None and hasattr(process, "likely_noise")  # heavy tails show how much noise there is
    noise = process.likely_noise(x, t, spread) if told else process.sigma(t)
    scale = 1 if spread is None else (process.alpha(t) ** 2 * spread**2 + noise**2).sqrt()[:, None]
    torch.testing.assert_close(seen["points"], x / scale)


def test_preconditioning_has_unit_variance_in_and_out():
    """Karras et al.: inputs and training targets of variance one for data of variance sigma_data²."""
    process = AddedNoise()
    torch.manual_seed(0)
    for sigma in (0.01, 0.5, 10.0):
        x0, noise = 0.7 * torch.randn(200_000, 1, dtype=torch.float64), torch.randn(200_000, 1, dtype=torch.float64)
        wanted = network_target(process, x0, noise, sigma, "edm", 0.7)
        error = 4 * math.sqrt(2 / 200_000)
        assert abs(float(wanted.var()) - 1) < error


def test_levels_times_and_conditions_reach_the_network():
    seen = []

    def network(x, level, condition=None):
        seen.append((level, condition))
        return x

    x = torch.zeros(3, 2)
    denoiser = Denoiser("vp", network, sees="time")
    denoiser.noise(x, 0.25)
    assert seen[-1][1] is None and seen[-1][0].dtype == torch.float32
    torch.testing.assert_close(seen[-1][0], torch.full((3,), 0.25))
    labels = torch.arange(3)
    denoiser.given(labels).noise(x, torch.tensor([0.1, 0.2, 0.3]))
    assert seen[-1][1] is labels
    torch.testing.assert_close(seen[-1][0], torch.tensor([0.1, 0.2, 0.3]))


def test_a_poisson_field_is_a_denoiser():
    """x − r E_x / E_r is the expected data, also when the field is known up to a factor."""
    path = PoissonPath(dimensions=1.0)
    truth = exact_denoiser(MIXTURE, path)
    x = torch.randn(5, 2, dtype=torch.float64)
    wanted = truth.data(x, 0.7)

    def field(points, level):
        factor = torch.rand(5, 1, dtype=torch.float64) + 0.5
        return factor * (points - wanted), factor[:, 0] * path.radius(level.exp())

    torch.testing.assert_close(Denoiser(path, field, "field").data(x, 0.7), wanted)
    with pytest.raises(InvalidInput, match="Poisson"):
        Denoiser("vp", field, "field")


def test_learned_variances_are_passed_on():
    denoiser = Denoiser("vp", lambda x, level: (x, 0.3 * torch.ones_like(x)), learned_variance=True)
    x = torch.ones(2, 3, dtype=torch.float64)
    data, fraction = denoiser.data_and_fraction(x, 0.5)
    torch.testing.assert_close(data, denoiser.data(x, 0.5))
    assert bool((fraction == 0.3).all())
    assert bool((Clipped(denoiser).data_and_fraction(10 * x, 0.5)[0] <= 1).all())
    other = Denoiser("vp", lambda x, level: (0 * x, 0.9 * torch.ones_like(x)), learned_variance=True)
    guided = Guided(denoiser, other, 2.0)
    data, fraction = guided.data_and_fraction(x, 0.5)
    torch.testing.assert_close(data, guided.data(x, 0.5))
    assert bool((fraction == 0.3).all())  # what the conditional one says


def test_guidance_is_linear_in_its_scale():
    process = VP()
    with_condition = exact_denoiser(([1.0], [[1.0]], [[[0.5]]]), process)
    without = exact_denoiser(([1.0], [[0.0]], [[[1.0]]]), process)
    x = torch.randn(7, 1, dtype=torch.float64)
    for scale in (0.0, 1.0, 3.5):
        guided = Guided(with_condition, without, scale)
        for target in TARGETS:
            one, two = with_condition.predict(x, 0.3, target), without.predict(x, 0.3, target)
            torch.testing.assert_close(guided.predict(x, 0.3, target), two + scale * (one - two))
    inside = Guided(with_condition, without, 3.0, interval=(0.5, 2.0))
    t = torch.tensor([0.05, 0.35], dtype=torch.float64)  # σ/α of 0.19 and 1.2
    x = x[:2]
    both = inside.data(x, t)
    torch.testing.assert_close(both[0], with_condition.data(x, t)[0])
    torch.testing.assert_close(both[1], Guided(with_condition, without, 3.0).data(x, t)[1])
    torch.testing.assert_close(inside.data(x, 0.05), with_condition.data(x, 0.05))


def test_clipped_data_leave_consistent_noise():
    clipped = Clipped(Denoiser("vp", lambda x, level: 5 + 0 * x, "data"), -1, 1)
    x = torch.zeros(2, 2, dtype=torch.float64)
    assert bool((clipped.data(x, 0.5) == 1).all())
    process = clipped.process
    torch.testing.assert_close(process.mix(clipped.data(x, 0.5), clipped.noise(x, 0.5), 0.5), x)


def test_flow_at_pure_noise_is_finite():
    """At t = 1 of a straight path nothing of the data is left; their expectation is the mean."""
    truth = exact_denoiser(MIXTURE, StraightPath())
    x = torch.randn(4, 2, dtype=torch.float64)
    torch.testing.assert_close(truth.data(x, 1.0), truth.mean.expand(4, 2))
    torch.testing.assert_close(truth.flow(x, 1.0), x - truth.mean)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Denoiser("vp", abs, "nois"), "did you mean 'noise'"),
        (lambda: Denoiser("vp", abs, sees="tme"), "did you mean 'time'"),
        (lambda: Denoiser("vp", abs, sigma_data=-1.0), "sigma_data=-1.0"),
        (lambda: Denoiser("vp", lambda x, level: x[:, :1]).data(torch.zeros(2, 3), 0.5), r"\(2, 1\) for points"),
        (lambda: convert(VP(), torch.zeros(1, 1), torch.zeros(1, 1), 0.5, "dta", "noise"), "did you mean 'data'"),
        (lambda: Guided(Denoiser("vp", abs), Denoiser("ve", abs)), "different processes"),
        (lambda: Guided(Denoiser("vp", abs), Denoiser("vp", abs), -1.0), "at least 0"),
        (lambda: Guided(Denoiser("vp", abs), Denoiser("vp", abs), 2.0, (2.0, 1.0)), "must rise"),
        (lambda: Clipped(Denoiser("vp", abs), 1, 0), "must rise"),
    ],
)
def test_bad_settings(make, words):
    with pytest.raises(InvalidInput, match=words):
        make()
