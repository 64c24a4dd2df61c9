"""Stable laws against closed forms, SciPy, the characteristic function, the series and their own integrals."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.special import gamma as gamma_function
from scipy.stats import levy_stable

from benthic.base.errors import InvalidInput
from benthic.distributions import Levy, Stable, draw
from benthic.distributions.stable_parts import log_parts

pytestmark = pytest.mark.spec("B-01")


def f64(*values):
    return torch.tensor(values if len(values) > 1 else values[0], dtype=torch.float64)


def grid(low, high, count=12):
    side = np.geomspace(low, high, count)
    return torch.tensor(np.concatenate([-side[::-1], [0.0], side]))


def test_closed_forms():
    x = grid(1e-6, 1e3)
    near = grid(1e-6, 20.0)
    for law, truth, points, far in [
        (Stable(2.0, 0.3, 1.5, 0.7), stats.norm(0.7, 1.5 * math.sqrt(2)), near, 1e-10),
        (Stable(1.0, 0.0, 1.5, 0.7), stats.cauchy(0.7, 1.5), x, 1e-12),
        (Stable(0.5, 1.0, 1.5, 0.7), stats.levy(0.7, 1.5), x[x > 0.8], 1e-12),
    ]:
        np.testing.assert_allclose(law.log_prob(points), truth.logpdf(points), rtol=1e-11, atol=1e-11)
        np.testing.assert_allclose(law.cdf(points), truth.cdf(points), rtol=far)
        np.testing.assert_allclose(law.survival(points), truth.sf(points), rtol=far)
        level = f64(0.1, 0.2, 0.9)
        np.testing.assert_allclose(law.icdf(level), truth.ppf(level.numpy()), rtol=1e-10, atol=1e-12)
    below = Stable(0.5, 1.0).log_prob(f64(-0.5, 0.0))
    assert bool((below < -1e20).all()) and float(Stable(0.5, 1.0).cdf(f64(-0.1))) == 0
    assert float(Stable(0.5, -1.0).cdf(f64(0.1))) == 1


@pytest.mark.parametrize("form", ["S0", "S1"])
@pytest.mark.parametrize(("alpha", "beta"), [(1.5, 0.5), (0.7, -0.3), (1.8, 1.0), (1.0, 0.5), (0.5, 0.0), (1.2, -0.9)])
def test_scipy_agrees(alpha, beta, form, monkeypatch):
    monkeypatch.setattr(levy_stable, "parameterization", form)
    x = f64(-3.0, -0.5, 1.0, 4.0)
    law = Stable(alpha, beta, 1.3, 0.2, form)
    truth = levy_stable(alpha, beta, 0.2, 1.3)
    np.testing.assert_allclose(law.log_prob(x).exp(), truth.pdf(x.numpy()), rtol=1e-10)
    np.testing.assert_allclose(law.cdf(x), truth.cdf(x.numpy()), rtol=1e-10, atol=1e-12)


def characteristic(x, alpha, beta):
    """Density in the S0 form by direct inversion: slow, and an independent formula."""
    t = np.linspace(0, 45 ** (1 / alpha), 400_001)[1:]
    if alpha == 1:
        phase = -beta * (2 / np.pi) * t * np.log(t)
    else:
        phase = beta * np.tan(np.pi * alpha / 2) * (t**alpha - t)
    values = np.exp(-(t**alpha)) * np.cos(phase - x * t)
    return (values.sum() - 0.5 * values[-1] + 0.5) * (t[1] - t[0]) / np.pi


@pytest.mark.parametrize("alpha", [0.96, 0.9995, 1.0, 1.002, 1.03, 1.4, 1.97, 1.9999])
@pytest.mark.parametrize("beta", [-1.0, 0.02, 0.7])
def test_inversion_of_the_characteristic_function_agrees(alpha, beta):
    law = Stable(alpha, beta, parametrization="S0")
    for x in (-2.0, -0.3, 1.1):
        truth = characteristic(x, alpha, beta)
        # the trapezoidal sum of the oscillating integrand is good to about 1e-8
        assert float(law.log_prob(f64(x)).exp()) == pytest.approx(truth, abs=3e-8)


@pytest.mark.parametrize("alpha", [0.1, 0.3, 0.7, 0.97, pytest.param(1.0, marks=pytest.mark.slow), 1.3, 1.9])
@pytest.mark.parametrize("beta", [-1.0, 0.4])
def test_the_density_is_the_slope_of_the_level_and_the_tails_sum_to_one(alpha, beta):
    # Gauss–Legendre in the logarithm of the distance from a center, on both sides of it
    law = Stable(alpha, beta, parametrization="S0")
    center = -beta * math.tan(math.pi * alpha / 2) if alpha < 0.8 else 0.0
    edges = torch.linspace(-12.0 if alpha < 0.8 else -6.0, 8.0, 15, dtype=torch.float64)
    nodes, weights = (torch.tensor(v) for v in np.polynomial.legendre.leggauss(24))
    half = 0.5 * float(edges[1] - edges[0])
    w = edges[:-1] + half * (1 + nodes[:, None])
    for sign in (1, -1):
        x = center + sign * w.exp()
        mass = (law.log_prob(x).exp() * w.exp() * weights[:, None]).sum(0) * half
        levels = law.cdf(center + sign * edges.exp()) if sign < 0 else law.survival(center + sign * edges.exp())
        torch.testing.assert_close(mass, levels[:-1] - levels[1:], rtol=1e-8, atol=1e-13)
    torch.testing.assert_close(law.cdf(x) + law.survival(x), torch.ones_like(x), rtol=0, atol=2e-12)


@pytest.mark.parametrize(("alpha", "beta"), [(0.4, 0.3), (0.1, -0.5), (1.5, 0.7), (1.9, 0.0)])
def test_far_tails_follow_their_series(alpha, beta):
    # Feller, 1971, XVII.6; convergent below 1, asymptotic above; far out three terms are enough
    zeta = -beta * math.tan(math.pi * alpha / 2)
    theta = math.atan(-zeta) / alpha
    x = f64(1e7, 1e10) if alpha > 0.3 else f64(1e60, 1e90)
    size = (1 + zeta**2) ** 0.5
    total = sum(
        (-1) ** (k + 1)
        * gamma_function(k * alpha + 1)
        / math.factorial(k)
        * math.sin(k * alpha * (math.pi / 2 + theta))
        * size**k
        * (x / x[0]) ** (-alpha * (k - 1))
        * float(x[0]) ** (-alpha * (k - 1))
        for k in range(1, 13 if alpha < 1 else 4)
    )
    truth = total.log() - math.log(math.pi) - (1 + alpha) * x.log()
    law = Stable(alpha, beta)
    np.testing.assert_allclose(law.log_prob(x), truth, rtol=1e-12, atol=1e-10)


@pytest.mark.parametrize("alpha", [0.1, 0.5, 0.9, 0.995, 1.02, 1.5, 1.9999, 2.0])
@pytest.mark.parametrize("beta", [-1.0, 0.0, 0.99])
def test_the_quadrature_has_converged(alpha, beta):
    x = grid(1e-5, 200.0, 8).reshape(-1, 1)
    a, b = f64(alpha).reshape(1), f64(beta).reshape(1)
    coarse, fine = log_parts(x, a, b), log_parts(x, a, b, step=0.13)
    for first, second in zip(coarse, fine, strict=True):
        seen = second > -200
        torch.testing.assert_close(first[seen], second[seen], rtol=1e-11, atol=1e-11)


def test_the_law_is_continuous_at_one_and_at_the_center():
    x = grid(0.01, 50.0)
    at = Stable(1.0, 0.4, parametrization="S0")
    for gap in (1e-9, 4e-3 + 1e-9):
        near = Stable(1.0 + gap, 0.4, parametrization="S0")
        torch.testing.assert_close(near.log_prob(x), at.log_prob(x), rtol=0, atol=20 * gap)
    # across the edge of the interpolated zone the slope in α does not jump either
    inside, edge, outside = (Stable(1.004 + d, 0.4, parametrization="S0").log_prob(x) for d in (-1e-6, 0.0, 1e-6))
    torch.testing.assert_close(edge - inside, outside - edge, rtol=0, atol=1e-10)
    # near ζ, where the power series takes over
    law = Stable(1.5, 0.5)
    y = f64(-1e-3, -1e-5, 0.0, 1e-5, 1e-3)
    slope = torch.diff(law.cdf(y)) / torch.diff(y)
    torch.testing.assert_close(slope, law.log_prob(0.5 * (y[1:] + y[:-1])).exp(), rtol=1e-6, atol=0)


@pytest.mark.parametrize("pair", [(1.4, 0.3), (0.6, -0.5), (1.0, 0.3)])
def test_gradients_in_the_value_and_all_parameters(pair):
    x = f64(-3.0, 0.2).requires_grad_()
    parameters = [f64(v).requires_grad_() for v in (*pair, 1.2, 0.1)]
    assert torch.autograd.gradcheck(lambda x, *p: Stable(*p, "S0").log_prob(x), (x, *parameters), fast_mode=True)
    assert torch.autograd.gradcheck(lambda x, *p: Stable(*p, "S0").cdf(x), (x, *parameters), fast_mode=True)
    if pair[0] > 1:
        level = f64(0.1, 0.8).requires_grad_()
        assert torch.autograd.gradcheck(lambda q, *p: Stable(*p, "S0").icdf(q), (level, *parameters), fast_mode=True)


@pytest.mark.parametrize(
    ("law", "truth"),
    [
        (Stable(2.0, 0.0, 1.5), stats.norm(0, 1.5 * math.sqrt(2))),
        pytest.param(Stable(0.5, 1.0, 1.5), stats.levy(0, 1.5), marks=pytest.mark.slow),
        pytest.param(Stable(1.0, 0.0, 1.5), stats.cauchy(0, 1.5), marks=pytest.mark.slow),
    ],
)
def test_entropies_of_closed_forms(law, truth):
    np.testing.assert_allclose(law.entropy(), truth.entropy(), rtol=1e-8)


@pytest.mark.parametrize(
    ("alpha", "beta"), [(1.5, 0.5), (0.7, -0.3), (1.0, 0.5), (1 + 1e-9, 0.5), (0.99999, -0.5), (2.0, 0.0), (0.3, 1.0)]
)
def test_draws_have_the_levels_of_the_law(alpha, beta):
    law = Stable(alpha, beta, 2.0, 1.0, "S0")
    levels = law.cdf(draw(law, 4000, seed=3))
    assert stats.kstest(levels.numpy(), "uniform").pvalue > 1e-5


def test_draws_are_continuous_at_one_and_differentiable():
    at, near = (draw(Stable(a, 0.6, parametrization="S0"), 100, seed=0) for a in (1.0, 1 + 1e-10))
    torch.testing.assert_close(at, near, rtol=1e-7, atol=1e-7)
    parameters = [f64(v).requires_grad_() for v in (1.3, 0.2, 1.2, 0.1)]
    assert torch.autograd.gradcheck(lambda *p: draw(Stable(*p), 5, seed=1, differentiable=True), parameters)


def test_sums_of_stable_draws_are_stable():
    # the mean of n draws of strictly stable variables has the law of one draw times n^(1/α − 1)
    law = Stable(0.8, 0.5)
    x = draw(law, (2000, 16), seed=0).sum(1) / 16 ** (1 / 0.8)
    assert stats.kstest(law.cdf(x).numpy(), "uniform").pvalue > 1e-5


def test_moments_forms_and_batches():
    law = Stable(f64(2.0, 1.5, 0.5), f64(0.0, 0.5, 1.0), 2.0, 1.0)
    assert law.variance.tolist() == [8, math.inf, math.inf]
    assert law.mean[:2].tolist() == [1, 1] and bool(law.mean[2].isnan())
    x = torch.randn(4, 3, dtype=torch.float64)
    torch.testing.assert_close(law.to("S0").log_prob(x), law.log_prob(x), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(law.to("S0").mean, law.mean, equal_nan=True)
    one = Stable(1.5, 0.5, 2.0, 1.0)
    torch.testing.assert_close(law.log_prob(x)[:, 1], one.log_prob(x[:, 1]))
    assert law.expand([2, 3]).log_prob(x[:2]).shape == (2, 3)
    assert Stable(torch.tensor(1.5)).log_prob(torch.tensor(0.3)).dtype == torch.float32
    torch.testing.assert_close(Stable(0.5, 1.0, 2.0, 3.0).cdf(x + 6), Levy(3.0, 2.0).cdf(x + 6))
    ends = one.cdf(f64(-math.inf, math.inf))
    assert ends.tolist() == [0, 1] and bool(one.log_prob(f64(math.nan)).isnan())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((2.5,), "alpha is 2.5; it must be above 0 and at most 2"),
        ((0.0,), "alpha is 0"),
        ((1.5, 1.5), "beta is 1.5; it must be between -1 and 1"),
        ((1.5, 0.0, 0.0), "gamma is 0"),
        ((1.5, 0.0, 1.0, math.inf), "delta is inf"),
        ((1.5, 0.0, 1.0, 0.0, "S2"), "'S0' or 'S1'"),
    ],
)
def test_wrong_parameters_get_one_sentence(arguments, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        Stable(*arguments)


@pytest.mark.parametrize(("alpha", "beta"), [(0.05, 0.3), (0.1, 1.0), (0.3, -1.0)])
def test_sharp_peaks_of_small_alpha_keep_their_digits(alpha, beta):
    # a third of the values lie within 1e-7 of the location, and both forms of the draw agree
    law = Stable(alpha, beta, 2.0, 0.0)
    level = f64(1e-6, 0.01, 0.5, 0.9)
    np.testing.assert_allclose(law.cdf(law.icdf(level)), level, rtol=1e-10)
    levels = law.cdf(draw(law, 4000, seed=5))
    assert stats.kstest(levels.numpy(), "uniform").pvalue > 1e-5
