"""Bessel functions and the von Mises–Fisher law against SciPy, closed forms and quadrature."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import special, stats

from benthic.base.errors import InvalidInput
from benthic.distributions import VonMisesFisher, bessel_ratio, concentration_from_length, draw, log_bessel_i

pytestmark = pytest.mark.spec("B-01")


@pytest.mark.parametrize("order", [0.0, 0.5, 1.0, 3.5, 19.5, 100.0, 511.0])
def test_log_bessel_agrees_with_scipy(order):
    x = np.geomspace(1e-3, 1e5, 80)
    reference = special.ive(order, x)
    seen = reference > 1e-290
    mine = log_bessel_i(order, torch.tensor(x), scaled=True).numpy()
    np.testing.assert_allclose(mine[seen], np.log(reference[seen]), rtol=1e-11, atol=1e-11)
    ratio = special.ive(order + 1, x[seen]) / reference[seen]
    np.testing.assert_allclose(bessel_ratio(order, torch.tensor(x[seen])), ratio, rtol=1e-10, atol=1e-290)


def test_half_orders_have_closed_forms_and_derivatives():
    x = torch.tensor([1e-6, 0.1, 2.0, 30.0], dtype=torch.float64)
    torch.testing.assert_close(
        log_bessel_i(0.5, x), 0.5 * torch.log(2 / (math.pi * x)) + torch.log(torch.sinh(x)), rtol=1e-12, atol=1e-12
    )
    x = torch.tensor([0.01, 0.5, 5.0, 80.0], dtype=torch.float64, requires_grad=True)
    order = torch.tensor([0.3, 2.0, 25.0, 7.5], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(log_bessel_i, (order, x))
    assert torch.autograd.gradcheck(lambda x: bessel_ratio(1.5, x), (x,))


@pytest.mark.parametrize("d", [2, 3, 5, 50])
@pytest.mark.parametrize("kappa", [0.01, 1.0, 30.0, 1000.0])
def test_density_and_entropy_agree_with_scipy(d, kappa):
    mu = np.arange(1.0, d + 1) / np.linalg.norm(np.arange(1.0, d + 1))
    law, reference = VonMisesFisher(torch.tensor(mu), kappa), stats.vonmises_fisher(mu, kappa)
    x = draw(law, 50, seed=0)
    np.testing.assert_allclose(x.norm(dim=-1), 1, atol=1e-12)
    np.testing.assert_allclose(law.log_prob(x), reference.logpdf(x), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(law.entropy(), reference.entropy(), rtol=1e-10, atol=1e-10)


def test_the_density_integrates_to_one_on_the_circle():
    angle = torch.linspace(0, 2 * math.pi, 2001, dtype=torch.float64)[:-1]
    rows = torch.stack([angle.cos(), angle.sin()], -1)
    law = VonMisesFisher([0.6, 0.8], 3.0)
    assert float(law.log_prob(rows).exp().mean() * 2 * math.pi) == pytest.approx(1, abs=1e-13)


@pytest.mark.parametrize("d", [2, 3, 6])
@pytest.mark.parametrize("kappa", [0.0, 2.0, 200.0])
def test_draws_have_the_mean_variance_and_heights_of_the_law(d, kappa):
    mu = torch.ones(d, dtype=torch.float64) / math.sqrt(d)
    law, n = VonMisesFisher(mu, kappa), 20_000
    x = draw(law, n, seed=1)
    error = (law.variance / n).sqrt()
    assert bool(((x.mean(0) - law.mean).abs() < 5 * error).all())
    # the law of the height, by quadrature over the angle
    angle = torch.linspace(0, math.pi, 4001, dtype=torch.float64)
    density = torch.exp(kappa * (angle.cos() - 1)) * angle.sin() ** (d - 2)
    level = torch.cumulative_trapezoid(density, angle)
    level = torch.cat([level.new_zeros(1), level]) / level[-1]
    drawn = np.interp(torch.arccos((x @ mu).clamp(-1, 1)).numpy(), angle.numpy(), level.numpy())
    assert stats.kstest(drawn, "uniform").pvalue > 1e-5


@pytest.mark.parametrize("d", [2, 3, 5])
def test_draws_can_be_differentiated(d):
    # d E[μ·x] / dκ is the slope of the Bessel ratio, and the mean follows the direction
    kappa = torch.full((20_000,), 3.0, dtype=torch.float64, requires_grad=True)
    mu = torch.eye(d, dtype=torch.float64)[0]
    heights = draw(VonMisesFisher(mu, kappa), (), seed=2, differentiable=True) @ mu
    slopes = torch.autograd.grad(heights.sum(), kappa)[0]
    step = 1e-4
    ratio = [float(bessel_ratio(d / 2 - 1, torch.tensor(3.0 + s, dtype=torch.float64))) for s in (step, -step)]
    truth = (ratio[0] - ratio[1]) / (2 * step)
    assert abs(float(slopes.mean()) - truth) < 5 * float(slopes.std()) / math.sqrt(len(slopes)) + 1e-6


def test_concentration_is_the_inverse_of_the_mean_length():
    kappa = torch.tensor([1e-4, 0.3, 5.0, 200.0, 1e4], dtype=torch.float64)
    for d in (2, 3, 40):
        length = bessel_ratio(d / 2 - 1, kappa)
        torch.testing.assert_close(concentration_from_length(length, d), kappa, rtol=1e-7, atol=1e-12)
    length = torch.tensor([0.1, 0.5, 0.9], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda r: concentration_from_length(r, 4), (length,))


def test_gradients_and_batches():
    kappa = torch.tensor([0.0, 0.5, 40.0], dtype=torch.float64, requires_grad=True)
    x = torch.tensor([0.0, 0.6, 0.8], dtype=torch.float64)
    law = VonMisesFisher(torch.eye(3, dtype=torch.float64), torch.ones(3))
    assert law.batch_shape == (3,) and law.sample((2,)).shape == (2, 3, 3)
    mine = torch.autograd.grad(VonMisesFisher(x, kappa).log_prob(x).sum(), kappa)[0]
    torch.testing.assert_close(mine, 1 - bessel_ratio(0.5, kappa.detach()), rtol=1e-10, atol=1e-10)


def test_divergence_of_two_laws():
    p = VonMisesFisher(torch.eye(4, dtype=torch.float64)[0], 3.0)
    q = VonMisesFisher(torch.full((4,), 0.5, dtype=torch.float64), 1.2)
    x = draw(p, 20_000, seed=0)
    gaps = p.log_prob(x) - q.log_prob(x)
    found = float(torch.distributions.kl_divergence(p, q))
    assert abs(found - float(gaps.mean())) < 4 * float(gaps.std()) / math.sqrt(len(gaps))
    assert float(torch.distributions.kl_divergence(p, p)) == pytest.approx(0, abs=1e-13)


def test_wrong_parameters_get_one_sentence():
    with pytest.raises(InvalidInput, match="length one"):
        VonMisesFisher([1.0, 1.0], 1.0)
    with pytest.raises(InvalidInput, match="concentration is -1"):
        VonMisesFisher([1.0, 0.0], -1.0)
    with pytest.raises(InvalidInput, match="at least two"):
        VonMisesFisher([1.0], 1.0)
    with pytest.raises(InvalidInput, match="below 1"):
        concentration_from_length(torch.tensor(1.0), 3)
    with pytest.raises(InvalidInput, match="negative"):
        log_bessel_i(-1.0, torch.tensor(1.0))
