"""Annealed Langevin: the law at every level on Gaussian data, modes found on a mixture, bad input."""

from __future__ import annotations

import math

import pytest
import torch

from benthic.base.errors import InvalidInput
from benthic.samplers import annealed_langevin, noise_levels

pytestmark = pytest.mark.spec("C-04")


def gaussian(x, sigma):
    """The score of standard normal data with noise."""
    return -x / (1 + sigma**2)


def mixture(x, sigma):
    """The score of a quarter of the data at (-4, 0) and the rest at (4, 2), each of standard deviation 1/2."""
    centers = x.new_tensor([[-4.0, 0.0], [4.0, 2.0]])
    weights = x.new_tensor([0.25, 0.75])
    variance = 0.25 + sigma**2
    away = centers - x[:, None]  # (n, 2, 2)
    logits = weights.log() - 0.5 * away.square().sum(-1) / variance
    return (torch.softmax(logits, 1)[..., None] * away).sum(1) / variance


def test_levels_fall_geometrically():
    levels = noise_levels(10.0, 0.01, 7)
    ratios = levels[1:] / levels[:-1]
    torch.testing.assert_close(ratios, torch.full_like(ratios, 1e-3 ** (1 / 6)))
    assert levels[0] == 10 and float(levels[-1]) == pytest.approx(0.01)


def test_the_variance_at_every_level_is_the_predicted_one():
    levels, steps, kappa, n = noise_levels(4.0, 0.1, 8), 20, 0.15, 40_000
    start = torch.zeros(n, 1, dtype=torch.float64)
    options = {"steps": steps, "step_size": kappa, "denoise": False, "keep": True, "seed": 0}
    ends = annealed_langevin(gaussian, levels, start, **options)
    variance = 0.0
    for sigma, end in zip(levels.tolist(), ends, strict=True):
        a = 1 - kappa * sigma**2 / (1 + sigma**2)
        for _ in range(steps):
            variance = a * a * variance + 2 * kappa * sigma**2
        assert abs(float(end.var()) - variance) < 4 * variance * math.sqrt(2 / n)


def test_consistent_steps_keep_the_noise_of_the_level_where_plain_ones_exceed_it():
    levels, n = noise_levels(4.0, 0.1, 8), 40_000
    start = levels[0] * torch.randn(n, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    options = {"steps": 5, "step_size": 0.15, "denoise": False, "keep": True, "seed": 0}

    def point(x, sigma):
        return -x / sigma**2  # all data at zero, so that all there is is noise

    ends = annealed_langevin(point, levels, start, consistent=True, **options)
    for end, below in zip(ends, [*levels[1:], levels[-1]], strict=True):  # the last step of a level leads to the next
        assert abs(float(end.var() / below**2) - 1) < 4 * math.sqrt(2 / n)
    plain = annealed_langevin(point, levels, start, **options)
    for end, sigma in zip(plain, levels, strict=True):
        assert float(end.var() / sigma**2) > 1.02  # 1.07 ± 0.01 at the first level, more below


def test_the_variance_of_consistent_steps_is_the_predicted_one():
    levels, steps, kappa, n = noise_levels(4.0, 0.1, 8), 3, 0.15, 40_000
    start = torch.zeros(n, 1, dtype=torch.float64)
    options = {"steps": steps, "step_size": kappa, "consistent": True, "denoise": False, "keep": True, "seed": 0}
    ends, variance = annealed_langevin(gaussian, levels, start, **options), 0.0
    for place, (sigma, end) in enumerate(zip(levels.tolist(), ends, strict=True)):
        for index in range(steps):
            below = float(levels[min(place + 1, 7)]) if index == steps - 1 else sigma
            step = max(kappa, 1 - below / sigma)
            shrunk = 1 - step * sigma**2 / (1 + sigma**2)
            variance = shrunk**2 * variance + max(below**2 - ((1 - step) * sigma) ** 2, 0.0)
        assert abs(float(end.var()) - variance) < 4 * variance * math.sqrt(2 / n)


def test_with_many_levels_the_data_are_reached():
    x = annealed_langevin(gaussian, noise_levels(5.0, 0.03, 60), (20_000, 1), steps=60, step_size=0.2, seed=1)
    # two parts: what the levels leave behind (under 2 %) and chance
    assert abs(float(x.var()) - 1) < 0.02 + 4 * math.sqrt(2 / 20_000)
    assert abs(float(x.mean())) < 4 / math.sqrt(20_000)


def test_modes_far_apart_get_their_weights():
    n = 4000
    x = annealed_langevin(mixture, noise_levels(10.0, 0.05, 30), (n, 2), steps=30, step_size=0.2, seed=2)
    left = x[:, 0] < 0
    share = float(left.double().mean())
    assert abs(share - 0.25) < 4 * math.sqrt(0.25 * 0.75 / n) + 0.01  # the walk between modes freezes at finite noise
    torch.testing.assert_close(x[left].mean(0), torch.tensor([-4.0, 0.0]), rtol=0, atol=0.1)
    torch.testing.assert_close(x[~left].std(0), torch.tensor([0.5, 0.5]), rtol=0.07, atol=0)


def test_plain_langevin_would_not_have_found_them():
    n = 100
    start = torch.full((n, 2), 4.0, dtype=torch.float64)
    x = annealed_langevin(mixture, [0.05], start, steps=1000, step_size=0.2, seed=3)
    assert float((x[:, 0] < 0).double().mean()) == 0.0


def test_denoising_takes_the_last_noise_away():
    levels, start = [1.0, 0.5], torch.ones(10, 2, dtype=torch.float64)
    noisy = annealed_langevin(gaussian, levels, start, steps=5, seed=4, denoise=False)
    clean = annealed_langevin(gaussian, levels, start, steps=5, seed=4)
    torch.testing.assert_close(clean, noisy / 1.25)  # x - σ² x / (1 + σ²)


def test_images_types_and_seeds():
    start = torch.zeros(3, 1, 4, 4)
    a, b = (annealed_langevin(gaussian, [1.0, 0.1], start, steps=3, seed=5) for _ in range(2))
    assert a.shape == (3, 1, 4, 4) and a.dtype == torch.float32
    assert bool((a == b).all()) and not bool(
        (a == annealed_langevin(gaussian, [1.0, 0.1], start, steps=3, seed=6)).any()
    )
    stream = torch.Generator().manual_seed(0)
    assert annealed_langevin(gaussian, [1.0], (2, 3), steps=1, generator=stream).shape == (2, 3)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sigmas": [0.1, 1.0]}, "do not fall"),
        ({"sigmas": [1.0, -1.0]}, "positive"),
        ({"steps": 0}, "steps is 0"),
        ({"step_size": 3.0}, "step_size is 3.0"),
        ({"start": (5,)}, "shape such as"),
        ({"start": torch.zeros(5)}, "points are floats"),
        ({"score": lambda x, sigma: x.sum()}, "score returned \\(\\) for points"),
        ({"score": lambda x, sigma: x * 1e30, "steps": 50}, "ran away at noise level 1"),
    ],
)
def test_bad_input_is_named(change, words):
    call = {"score": gaussian, "sigmas": [1.0, 0.5], "start": (4, 2), "seed": 0, **change}
    with pytest.raises(InvalidInput, match=f"annealed_langevin: .*{words}"):
        annealed_langevin(call.pop("score"), call.pop("sigmas"), call.pop("start"), **call)


def test_bad_levels_are_named():
    with pytest.raises(InvalidInput, match="noise_levels: levels fall from 1.0 to 2.0"):
        noise_levels(1.0, 2.0, 5)
    with pytest.raises(InvalidInput, match="count is 1"):
        noise_levels(1.0, 0.1, 1)
