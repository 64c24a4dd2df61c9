"""Dirichlet and counts: Bayes' rule by quadrature, enumeration, and SciPy."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from benthic.base.errors import InvalidInput
from benthic.distributions import (
    Beta,
    Dirichlet,
    DirichletMultinomial,
    beta_posterior,
    dirichlet_posterior,
    dirichlet_predictive,
    draw,
    log_marginal_likelihood,
    mle,
)

pytestmark = pytest.mark.spec("B-01")
ALPHA = [0.5, 2.0, 3.0]


def test_masses_agree_with_scipy_and_sum_to_one():
    law, reference = DirichletMultinomial(ALPHA, 5), stats.dirichlet_multinomial(ALPHA, 5)
    every = [n for n in itertools.product(range(6), repeat=3) if sum(n) == 5]
    x = torch.tensor(every, dtype=torch.float64)
    np.testing.assert_allclose(law.log_prob(x), reference.logpmf(np.array(every)), rtol=1e-11)
    assert float(law.log_prob(x).exp().sum()) == pytest.approx(1, abs=1e-12)
    np.testing.assert_allclose(law.mean, reference.mean(), rtol=1e-12)
    np.testing.assert_allclose(law.variance, reference.var(), rtol=1e-12)
    assert float(law.log_prob(torch.tensor([1.0, 1.0, 1.0]))) == -math.inf


def test_draws_have_the_moments():
    law = DirichletMultinomial(ALPHA, 8)
    x = draw(law, 20_000, seed=0)
    assert bool((x.sum(-1) == 8).all())
    assert bool(((x.mean(0) - law.mean).abs() < 5 * (law.variance / 20_000).sqrt()).all())


def test_posterior_is_prior_times_likelihood():
    prior, counts = (
        Dirichlet(torch.tensor(ALPHA, dtype=torch.float64)),
        torch.tensor([[1.0, 0.0, 2.0], [0.0, 3.0, 1.0]]),
    )
    posterior = dirichlet_posterior(prior, counts)
    shares = draw(prior, 6, seed=1)
    likelihood = (counts.sum(0) * shares.log()).sum(-1)
    gap = prior.log_prob(shares) + likelihood - posterior.log_prob(shares)
    torch.testing.assert_close(gap, log_marginal_likelihood(prior, counts).expand(6), rtol=1e-9, atol=1e-9)
    again = DirichletMultinomial(ALPHA, 4).posterior([1.0, 3.0, 3.0])
    torch.testing.assert_close(again.concentration, posterior.concentration)


def test_marginal_likelihood_by_quadrature_and_by_prediction():
    a, b, heads, tails = 1.5, 0.7, 3, 2
    truth, _ = integrate.quad(lambda p: stats.beta(a, b).pdf(p) * p**heads * (1 - p) ** tails, 0, 1, epsabs=1e-12)
    mine = log_marginal_likelihood([a, b], [heads, tails])
    assert float(mine.exp()) == pytest.approx(truth, rel=1e-7)
    # the chain rule: predict each label from those before it
    total, law = 0.0, [a, b]
    for label in (0, 1, 0, 0, 1):
        total += float(dirichlet_predictive(law).probs[label].log())
        law[label] += 1
    assert float(mine) == pytest.approx(total, abs=1e-12)
    counted = log_marginal_likelihood([a, b], [heads, tails], ordered=False)
    assert float(counted) == pytest.approx(float(dirichlet_predictive([a, b], 5).log_prob(torch.tensor([3.0, 2.0]))))


def test_beta_posterior_and_fit():
    law = beta_posterior(Beta(2.0, 2.0), 49, 31)
    assert float(law.mean) == pytest.approx(51 / 84)
    x = draw(DirichletMultinomial([1.0, 2.0, 3.0], 20), 3000, seed=0)
    fitted = mle(DirichletMultinomial, x)
    np.testing.assert_allclose(fitted.concentration, [1, 2, 3], rtol=0.15)
    a = fitted.concentration.clone().requires_grad_()
    slope = torch.autograd.grad(DirichletMultinomial(a, 20).log_prob(x).mean(), a)[0]
    assert float(slope.abs().max()) < 1e-7


def test_gradients_and_wrong_input():
    a = torch.tensor(ALPHA, dtype=torch.float64, requires_grad=True)
    n = torch.tensor([[1.0, 2.0, 0.0]], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda a: DirichletMultinomial(a, 3).log_prob(n), (a,))
    for call, sentence in [
        (lambda: DirichletMultinomial([1.0, 0.0]), "concentration is 0"),
        (lambda: DirichletMultinomial([1.0]), "at least two"),
        (lambda: DirichletMultinomial([1.0, 1.0], 1.5), "whole number"),
        (lambda: dirichlet_posterior([1.0, 1.0], [1.0, 2.0, 3.0]), "2 categories"),
        (lambda: dirichlet_posterior([1.0, 1.0], [1.0, -2.0]), "negative"),
        (lambda: beta_posterior(Beta(1.0, 1.0), -1, 2), "not negative"),
    ]:
        with pytest.raises(InvalidInput, match=sentence):
            call()
