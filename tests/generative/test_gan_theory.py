"""The optimal discriminator, the Jensen–Shannon identity, and the measure of checkerboards."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from torch import nn
from torch.distributions import Bernoulli, Independent, MultivariateNormal, Normal, Poisson, Uniform

from benthic.base.errors import InvalidInput
from benthic.base.estimate import Estimate
from benthic.distributions import Samples
from benthic.generative.gan.theory import OptimalDiscriminator, adversarial_value, js_identity
from benthic.generative.gan.theory_checkerboard import (
    checkerboard,
    network_checkerboard,
    overlap_counts,
    overlap_unevenness,
    plot_checkerboard,
)

pytestmark = pytest.mark.spec("N-02")
D = torch.float64


def normal(mean, spread):
    return Normal(torch.tensor(mean, dtype=D), torch.tensor(spread, dtype=D))


# -- the optimal discriminator -----------------------------------------------------------------------------


def test_optimal_discriminator_is_the_share_of_the_data():
    x = torch.linspace(-4, 5, 50, dtype=D)
    best = OptimalDiscriminator(normal(0.0, 1.0), normal(1.0, 2.0))
    p, q = stats.norm(0, 1).pdf(x), stats.norm(1, 2).pdf(x)
    np.testing.assert_allclose(best(x), p / (p + q), rtol=1e-12)
    by_functions = OptimalDiscriminator(normal(0.0, 1.0).log_prob, lambda x: normal(1.0, 2.0).log_prob(x))
    torch.testing.assert_close(by_functions.logit(x), best.logit(x))


def test_optimal_discriminator_outside_supports():
    zero, one = (torch.tensor(v, dtype=D) for v in (0.0, 1.0))
    best = OptimalDiscriminator(Uniform(zero, one), Uniform(zero + 0.5, one + 0.5))
    x = torch.tensor([0.25, 0.75, 1.25, 9.0], dtype=D)
    assert best(x).tolist() == [1.0, 0.5, 0.0, 0.5]


def test_no_discriminator_beats_the_optimal_one():
    # V is concave in D and D* its maximum: for logits t* + s h the value falls as s² on both sides
    p, q = normal(0.0, 1.0), normal(1.0, 1.5)
    best = OptimalDiscriminator(p, q)
    top = float(adversarial_value(p, q))
    falls = [
        top - float(adversarial_value(p, q, lambda x, s=s: best.logit(x) + s * torch.sin(x))) for s in (-0.1, 0.1, 0.05)
    ]
    assert all(fall > 0 for fall in falls)
    assert falls[0] == pytest.approx(falls[1], rel=0.05) and falls[1] / falls[2] == pytest.approx(4, rel=0.05)


def test_value_of_a_given_discriminator_against_scipy():
    p, q, slope = normal(0.0, 1.0), normal(1.0, 1.5), 0.7

    def density(x):
        t = -slope * x
        return stats.norm(0, 1).pdf(x) * -np.logaddexp(0, -t) + stats.norm(1, 1.5).pdf(x) * -np.logaddexp(0, t)

    expected = integrate.quad(density, -12, 14, epsabs=1e-12)[0]
    assert float(adversarial_value(p, q, lambda x: -slope * x)) == pytest.approx(expected, rel=1e-9)
    drawn = adversarial_value(p, q, lambda x: -slope * x, method="monte_carlo", n=40_000, seed=0)
    assert isinstance(drawn, Estimate) and abs(drawn.value - expected) < 4 * drawn.stderr < 0.03


# -- the identity --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("p", "q"),
    [
        (normal(0.0, 1.0), normal(0.0, 1.0)),
        (normal(0.0, 1.0), normal(1.0, 2.0)),
        (normal(0.0, 1.0), normal(30.0, 1.0)),
        (Poisson(torch.tensor(3.0, dtype=D)), Poisson(torch.tensor(5.0, dtype=D))),
        (Bernoulli(torch.tensor(0.2, dtype=D)), Bernoulli(torch.tensor(0.9, dtype=D))),
    ],
)
def test_identity_by_quadrature(p, q):
    sides = js_identity(p, q)
    assert sides.gap < 1e-9 and sides.stderr == 0.0  # quadrature is accurate to 1e-12 a side
    assert -math.log(4) - 1e-9 <= float(sides.value) <= 1e-9


def test_identity_at_its_ends_and_the_factor_two():
    same, apart = js_identity(normal(0.0, 1.0), normal(0.0, 1.0)), js_identity(normal(0.0, 1.0), normal(99.0, 1.0))
    assert float(same.value) == pytest.approx(-math.log(4), abs=1e-10)
    assert float(apart.value) == pytest.approx(0.0, abs=1e-10)  # 2 log 2 - log 4; with one JS it would be -log 2
    assert float(apart.js) == pytest.approx(math.log(2), abs=1e-10)


def test_identity_for_a_batch_of_laws_is_differentiable():
    means = torch.tensor([0.5, 1.0, 3.0], dtype=D, requires_grad=True)
    sides = js_identity(Normal(torch.zeros(3, dtype=D), 1.0), Normal(means, 1.0))
    assert sides.value.shape == (3,) and sides.gap < 1e-9
    slopes = [torch.autograd.grad(side.sum(), means, retain_graph=True)[0] for side in (sides.value, sides.promised)]
    torch.testing.assert_close(*slopes, rtol=1e-7, atol=1e-9)


def test_identity_by_draws_in_the_plane():
    p = MultivariateNormal(torch.zeros(2, dtype=D), torch.eye(2, dtype=D))
    q = Independent(Normal(torch.tensor([1.0, 0.5], dtype=D), torch.tensor([1.0, 2.0], dtype=D)), 1)
    sides = js_identity(p, q, n=40_000, seed=1)
    assert 0 < sides.stderr < 0.02 and sides.gap < 4 * sides.stderr
    generator = torch.Generator().manual_seed(3)
    draws = [torch.randn(20_000, 2, dtype=D, generator=generator) for _ in range(2)]
    given = js_identity(
        Samples(draws[0], log_prob=p.log_prob), Samples(draws[1] * q.stddev + q.mean, log_prob=q.log_prob)
    )
    assert abs(given.value.value - sides.value.value) < 4 * math.hypot(given.value.stderr, sides.value.stderr)


def test_bad_laws():
    p = normal(0.0, 1.0)
    with pytest.raises(InvalidInput, match="function that gives log-densities"):
        OptimalDiscriminator(p, 3.0)
    with pytest.raises(InvalidInput, match="q has no density"):
        OptimalDiscriminator(p, Samples([1.0, 2.0]))
    with pytest.raises(InvalidInput, match="q must be a distribution"):
        adversarial_value(p, Samples([1.0, 2.0]))
    with pytest.raises(InvalidInput, match="one logit a point"):
        adversarial_value(p, p, lambda x: x[:3], method="monte_carlo")
    with pytest.raises(InvalidInput, match="discrete"):
        js_identity(p, Poisson(torch.tensor(3.0)))


# -- checkerboards -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kernel", "stride", "padding"), [(3, 2, 0), (4, 2, 1), (5, 3, 1), (2, 3, 0), (6, 3, 2)])
def test_overlaps_by_counting(kernel, stride, padding):
    size = 15
    counts = [0] * ((size - 1) * stride + kernel)
    for i in range(size):
        for j in range(kernel):
            counts[i * stride + j] += 1
    counts = counts[padding : len(counts) - padding]
    found = overlap_counts(kernel, stride, size, padding=padding)
    assert found.tolist() == counts
    inner = found[2 * kernel : -2 * kernel].double()
    inner = inner[: len(inner) // stride * stride]
    plane = torch.outer(inner, inner)
    uneven = float((plane.max() - plane.min()) / plane.mean())
    assert overlap_unevenness(kernel, stride) == pytest.approx(uneven)
    assert (uneven == 0) == (kernel % stride == 0)


@pytest.mark.parametrize(("kernel", "stride"), [(3, 2), (5, 2), (3, 3), (4, 2)])
def test_resizing_overlaps_evenly(kernel, stride):
    counts = overlap_counts(kernel, stride, 9, resize=True)
    assert len(counts) == 9 * stride and set(counts[kernel:-kernel].tolist()) == {kernel}


def noise(n=200, side=32, seed=0):
    return torch.randn(n, 1, side, side, dtype=D, generator=torch.Generator().manual_seed(seed))


def board(side):
    return (-1.0) ** (torch.arange(side)[:, None] + torch.arange(side)).to(D)


@pytest.mark.parametrize("period", [2, 4])
def test_textures_without_pattern_have_ratio_one(period):
    white = checkerboard(noise(side=36), period)
    assert abs(white.ratio.value - 1) < 4 * white.ratio.stderr < 0.5
    smooth = torch.nn.functional.conv2d(noise(side=40), torch.ones(1, 1, 3, 3, dtype=D) / 9)
    smooth = smooth + 0.05 * noise(side=38, seed=1)  # a filter of ones has zeros in its spectrum
    found = checkerboard(smooth, period)
    assert abs(found.ratio.value - 1) < 4 * found.ratio.stderr + 0.25  # the spectrum bends between the bins
    assert white.share < 0.02 and found.share < 0.02


@pytest.mark.parametrize("height", [0.1, 0.4])
def test_a_pattern_in_noise_is_measured_by_its_amplitude(height):
    # P at the peak: 1 + a² (Σ w)² / Σ w², for Hann windows of even length 1 + a² (h w) / 2.25; it is one of three
    found = checkerboard(noise(400) + height * board(32))
    expected = 1 + height**2 * 32 * 32 / 2.25 / 3
    assert abs(found.ratio.value - expected) < 4 * found.ratio.stderr < 0.25 * expected
    share = height**2 / (1 + height**2)
    assert found.share == pytest.approx(share, abs=0.01 + 0.03 * share)
    assert found.spectrum.shape == (32, 32) and found.spectrum.argmax() == 0  # the highest frequency lies in the corner


def test_period_three_and_odd_sides():
    stripes = (torch.arange(50) % 3 == 0).to(D)
    found = checkerboard(noise(100, 50) + stripes, 3)
    assert found.spectrum.shape == (48, 48) and found.ratio.value > 20
    assert checkerboard(noise(100, 50) + stripes, 2).ratio.value < 1.5
    assert checkerboard(noise(100, 50)[:, 0].numpy() + stripes.numpy(), 3).ratio == found.ratio


def test_layers_make_what_their_overlaps_promise():
    torch.manual_seed(0)
    inputs = 1 + 0.2 * noise(40, 24).float()
    even, uneven = nn.ConvTranspose2d(1, 1, 4, 2, 1, bias=False), nn.ConvTranspose2d(1, 1, 3, 2, 1, bias=False)
    for layer in (even, uneven):
        nn.init.ones_(layer.weight)
    resized = nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(1, 1, 3, padding=1, bias=False))
    ratios = [network_checkerboard(layer, inputs).ratio.value for layer in (uneven, even, resized)]
    assert ratios[0] > 50 and ratios[1] < 3 and ratios[2] < 3


def test_random_layers():
    ratios = {"transposed": [], "resize": []}
    for seed in range(5):
        torch.manual_seed(seed)
        inputs = 1 + 0.5 * torch.randn(16, 8, 20, 20)
        ratios["transposed"].append(network_checkerboard(nn.ConvTranspose2d(8, 1, 3, 2), inputs).ratio.value)
        resized = nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(8, 1, 3, padding=1))
        ratios["resize"].append(network_checkerboard(resized, inputs).ratio.value)
    assert np.median(ratios["transposed"]) > 5 * np.median(ratios["resize"])


def test_strided_critics_have_checkerboards_in_their_gradients():
    # every second pixel is read by two windows of a kernel of 3 and a stride of 2
    torch.manual_seed(0)
    pictures = torch.rand(16, 1, 33, 33)
    strided = nn.Sequential(nn.Conv2d(1, 8, 3, stride=2), nn.LeakyReLU(0.2), nn.Flatten(), nn.LazyLinear(1))
    plain = nn.Sequential(nn.Conv2d(1, 8, 3), nn.LeakyReLU(0.2), nn.Flatten(), nn.LazyLinear(1))
    found = [network_checkerboard(net, pictures, gradient=True).ratio.value for net in (strided, plain)]
    assert found[0] > 5 and found[1] < 2


def test_photographs_have_no_checkerboard():
    from sklearn.datasets import load_sample_images

    for image in load_sample_images().images:
        gray = torch.tensor(image).double().mean(-1)[:384, :640]
        patches = gray.unfold(0, 64, 64).unfold(1, 64, 64).reshape(-1, 64, 64)
        found = checkerboard(patches)
        assert found.ratio.value < 2 and found.share < 0.001


def test_the_picture():
    figure = plot_checkerboard({"noise": noise(8), "board": noise(8) + board(32)})
    titles = [axes.get_title() for axes in figure.axes if axes.get_title()]
    assert titles[0].startswith("noise") and "ratio" in titles[1]
    marks = [tuple(line.get_xydata()[0]) for line in figure.axes[2].lines]
    assert marks == [(-0.5, 0.0), (0.0, -0.5), (-0.5, -0.5)]


@pytest.mark.parametrize(
    ("images", "period", "match"),
    [
        (torch.zeros(3, 1, 12, 32), 2, "too small"),
        (torch.zeros(3, 32), 2, r"\(n, c, h, w\)"),
        (torch.ones(3, 1, 32, 32), 2, "one color"),
        (torch.full((3, 1, 32, 32), math.nan), 2, "NaN"),
        (torch.rand(3, 1, 32, 32), 1, "at least 2"),
        (torch.rand(0, 1, 32, 32), 2, "shape"),
    ],
)
def test_bad_pictures(images, period, match):
    with pytest.raises(InvalidInput, match=match):
        checkerboard(images, period)


def test_bad_counts():
    with pytest.raises(InvalidInput, match="kernel is 0"):
        overlap_counts(0, 2)
    with pytest.raises(InvalidInput, match="stride is 1.5"):
        overlap_unevenness(3, 1.5)
    with pytest.raises(InvalidInput, match="no pictures"):
        plot_checkerboard({})
