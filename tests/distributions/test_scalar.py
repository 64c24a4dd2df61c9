"""Distribution functions, quantiles and gradients of laws of one number, against SciPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import special, stats

from benthic import distributions as laws
from benthic.base.errors import InvalidInput
from benthic.distributions import (
    Bernoulli,
    Beta,
    Binomial,
    Categorical,
    Gamma,
    Geometric,
    Levy,
    Poisson,
    StudentT,
    betainc,
    draw,
    gammainc,
)

pytestmark = pytest.mark.spec("B-01")


def f64(*values):
    return torch.tensor(values if len(values) > 1 else values[0], dtype=torch.float64)


PAIRS = [
    (StudentT(0.3), stats.t(0.3)),
    (StudentT(3.0, 1.0, 2.0), stats.t(3, 1, 2)),
    (StudentT(200.0), stats.t(200)),
    (Beta(0.2, 0.3), stats.beta(0.2, 0.3)),
    (Beta(2.0, 300.0), stats.beta(2, 300)),
    (Beta(900.0, 800.0), stats.beta(900, 800)),
    (Gamma(0.1, 2.0), stats.gamma(0.1, scale=0.5)),
    (Gamma(5.0, 2.0), stats.gamma(5, scale=0.5)),
    (Gamma(1e3), stats.gamma(1e3)),
    (Levy(1.0, 2.0), stats.levy(1, 2)),
]


@pytest.mark.parametrize(("law", "reference"), PAIRS)
def test_levels_and_quantiles_agree_with_scipy(law, reference):
    level = f64(1e-20, 1e-5, 0.01, 0.3, 0.45, 0.7, 0.99, 1 - 1e-10)
    truth = reference.ppf(level.numpy())
    np.testing.assert_allclose(law.icdf(level), truth, rtol=1e-10)
    np.testing.assert_allclose(law.cdf(torch.tensor(truth)), reference.cdf(truth), rtol=1e-10)
    x = torch.tensor(truth[2:-2])
    np.testing.assert_allclose(law.log_prob(x), reference.logpdf(x), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(law.entropy(), reference.entropy(), rtol=1e-6)


def test_quantiles_invert_levels_far_out():
    law = StudentT(2.5)
    level = f64(1e-200, 1e-100, 1e-30)
    np.testing.assert_allclose(law.cdf(law.icdf(level)), level, rtol=1e-9)
    assert law.icdf(f64(0.0, 1.0)).tolist() == [-np.inf, np.inf]
    assert Beta(2.0, 3.0).icdf(f64(0.0, 1.0)).tolist() == [0, 1]
    assert Gamma(2.0).icdf(f64(0.0, 1.0)).tolist() == [0, np.inf]


@pytest.mark.parametrize("make", [StudentT, Beta, Gamma, Levy])
def test_gradients_in_values_levels_and_parameters(make):
    points = {StudentT: f64(-3.0, -0.2, 0.0, 6.0), Beta: f64(0.01, 0.2, 0.8, 0.99)}.get(make, f64(0.5, 1.5, 5.8, 20.0))
    points.requires_grad_()
    level = f64(0.01, 0.3, 0.6, 0.99).requires_grad_()
    parameters = [f64(v).requires_grad_() for v in ((2.5, 0.3, 1.4) if make is StudentT else (0.4, 1.4))]
    assert torch.autograd.gradcheck(lambda x, *p: make(*p).cdf(x), (points, *parameters))
    assert torch.autograd.gradcheck(lambda q, *p: make(*p).icdf(q), (level, *parameters))
    assert torch.autograd.gradgradcheck(lambda x: make(*[p.detach() for p in parameters]).cdf(x), (points,))


def test_incomplete_functions_agree_with_scipy():
    a, x = np.meshgrid([0.01, 0.7, 3.0, 40.0, 500.0], [1e-8, 0.02, 0.4, 0.93])
    for b in (0.05, 1.0, 250.0):
        mine = betainc(torch.tensor(a), f64(b), torch.tensor(x))
        np.testing.assert_allclose(mine, special.betainc(a, b, x), rtol=1e-10, atol=1e-290)
    shape = torch.tensor(a, requires_grad=True)  # the path with a gradient in the shape
    np.testing.assert_allclose(
        gammainc(shape, torch.tensor(x * 50)).detach(), special.gammainc(a, x * 50), rtol=1e-9, atol=1e-290
    )


@pytest.mark.parametrize(
    ("law", "reference"),
    [
        (Poisson(f64(7.3)), stats.poisson(7.3)),
        (Poisson(f64(0.01)), stats.poisson(0.01)),
        (Binomial(30, f64(0.2)), stats.binom(30, 0.2)),
        (Geometric(f64(0.07)), stats.geom(0.07, loc=-1)),
        (Bernoulli(f64(0.3)), stats.bernoulli(0.3)),
    ],
)
def test_counts_agree_with_scipy(law, reference):
    k = torch.arange(-1.0, 60.0, dtype=torch.float64)
    np.testing.assert_allclose(law.cdf(k), reference.cdf(k.numpy()), rtol=1e-12, atol=1e-13)
    level = f64(0.0, 1e-9, 0.11, 0.52, 0.77, 0.99, 1 - 1e-9)
    np.testing.assert_array_equal(law.icdf(level), np.maximum(reference.ppf(level.numpy()), 0))
    np.testing.assert_allclose(law.entropy(), reference.entropy(), rtol=1e-10)


def test_labels():
    law = Categorical(f64(0.2, 0.0, 0.5, 0.3))
    assert law.cdf(f64(-1.0, 0.0, 1.5, 2.0, 3.0)).tolist() == pytest.approx([0, 0.2, 0.2, 0.7, 1])
    assert law.icdf(f64(0.1, 0.21, 0.71, 1.0)).tolist() == [0, 2, 3, 3]


def test_draws_repeat_and_leave_global_state_alone():
    law = laws.Independent(laws.Normal(torch.zeros(3), torch.ones(3)), 1)
    before = torch.get_rng_state()
    first = draw(law, (4,), seed=5)
    assert torch.equal(first, draw(law, 4, seed=5)) and first.shape == (4, 3)
    g = torch.Generator().manual_seed(0)
    one, two = draw(law, 2, generator=g), draw(law, 2, generator=g)
    assert not torch.equal(one, two)
    assert torch.equal(one, draw(law, 2, generator=torch.Generator().manual_seed(0)))
    assert torch.equal(before, torch.get_rng_state())
    with pytest.raises(InvalidInput, match="no differentiable"):
        draw(Poisson(f64(1.0)), differentiable=True)
    with pytest.raises(InvalidInput, match="pass one of them"):
        draw(law, seed=1, generator=g)
    with pytest.raises(InvalidInput, match="must be a distribution"):
        draw(3.0)


def test_a_transformed_law_is_drawn_from_after_its_density_was_asked_for():
    law = torch.distributions.LogNormal(torch.tensor(1.0), torch.tensor(0.5))
    first = draw(law, 5, seed=0)
    law.log_prob(first)  # now the transform holds its inverse, and that holds the transform
    assert torch.equal(draw(law, 5, seed=0), first)


def test_types_batches_and_names():
    law = StudentT(torch.tensor([2.0, 3.0]))
    assert law.cdf(torch.zeros(5, 2)).shape == (5, 2) and law.cdf(torch.zeros(2)).dtype == torch.float32
    assert law.expand([4, 2]).icdf(torch.tensor(0.3)).shape == (4, 2)
    assert laws.Normal is torch.distributions.Normal and laws.Cauchy is torch.distributions.Cauchy
    for name in ("Uniform", "Exponential", "Laplace", "LogNormal", "Dirichlet", "Multinomial", "Gamma", "Stable"):
        assert issubclass(getattr(laws, name), torch.distributions.Distribution)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: StudentT(0.0), "df is 0; it must be finite and above 0"),
        (lambda: StudentT(2.0, 0.0, -1.0), "scale is -1"),
        (lambda: Beta(1.0, -2.0), "concentration0 is -2"),
        (lambda: Gamma(float("nan")), "concentration is nan"),
        (lambda: Levy(0.0, 0.0), "Levy: scale is 0"),
        (lambda: StudentT(2.0).icdf(f64(1.5)), "the level is 1.5; it must be between 0 and 1"),
    ],
)
def test_wrong_input_gets_one_sentence(call, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        call()
