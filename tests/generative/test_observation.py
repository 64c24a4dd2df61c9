"""Laws of observations, posteriors and priors: they sum to one, agree with torch, and are drawn as they say."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from scipy.stats import vonmises_fisher
from torch.distributions import Categorical, Independent, MultivariateNormal, Normal, kl_divergence

from benthic.nets.observation import (
    BernoulliObservation,
    CategoricalObservation,
    Columns,
    GaussianObservation,
    LogisticObservation,
    MixedObservation,
)
from benthic.nets.posterior import Diagonal, outputs_needed, posterior_of
from benthic.nets.prior import MixturePrior, NormalPrior, VampPrior
from benthic.nets.sphere import Directional, UniformPrior, log_area

pytestmark = pytest.mark.spec("N-01")
MIXED = Columns(numbers=(0, 4), bits=(1,), categories=((2, 3),))


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_discrete_laws_sum_to_one():
    torch.manual_seed(0)
    for law, levels in (
        (BernoulliObservation(3), 2),
        (CategoricalObservation(2, 5), 5),
        (LogisticObservation(2, 7), 7),
    ):
        law = law.double()
        outputs = 3 * torch.randn(1, law.outputs).double()
        everything = torch.tensor(list(itertools.product(range(levels), repeat=law.width))).double()
        total = law.log_prob(everything, outputs.expand(len(everything), -1)).exp().sum()
        torch.testing.assert_close(total.detach(), torch.tensor(1.0).double())


def test_a_mixed_row_is_the_product_of_its_columns():
    torch.manual_seed(0)
    law = MixedObservation(5, MIXED).double()
    x = torch.tensor([[0.3, 1.0, 0.0, 1.0, -2.0], [1.5, 0.0, 1.0, 0.0, 0.1]]).double()
    outputs = torch.randn(2, law.outputs).double()
    scale = torch.exp(law.normal.log_noise.detach())
    expected = Normal(outputs[:, [0, 4]], scale).log_prob(x[:, [0, 4]]).sum(1)
    expected += torch.distributions.Bernoulli(logits=outputs[:, 1]).log_prob(x[:, 1])
    expected += Categorical(logits=outputs[:, 2:4]).log_prob(x[:, 2:4].argmax(1))
    torch.testing.assert_close(law.log_prob(x, outputs).detach(), expected)
    drawn = law.emit(outputs[:1].expand(4000, -1), seeded()).detach()
    assert set(drawn[:, 1].unique().tolist()) == {0.0, 1.0} and bool((drawn[:, 2:4].sum(1) == 1).all())
    mean = law.mean(outputs[:1])[0].detach()
    error = drawn.std(0) / math.sqrt(len(drawn))
    assert bool(((drawn.mean(0) - mean).abs() < 4 * error + 1e-9).all())


def test_missing_entries_do_not_count():
    torch.manual_seed(0)
    for law in (GaussianObservation(5), BernoulliObservation(5), MixedObservation(5, MIXED)):
        x = torch.tensor([[1.0, 0.0, 1.0, 0.0, 1.0]])
        outputs = torch.randn(1, law.outputs)
        seen = torch.tensor([[True, True, False, False, True]])
        holed = torch.where(seen, x, torch.nan)
        expected = law.terms(x, outputs)[:, [0, 1, 4]].sum(1)
        torch.testing.assert_close(law.log_prob(holed, outputs, seen), expected)


@pytest.mark.parametrize("noise", ["column", "row", 0.3])
def test_gaussian_noise_of_every_kind(noise):
    torch.manual_seed(0)
    law = GaussianObservation(3, noise).double()
    outputs, x = torch.randn(4, law.outputs).double(), torch.randn(4, 3).double()
    scale = {"column": torch.exp(torch.tensor(-0.7)), "row": torch.exp(outputs[:, 3:])}.get(noise, torch.tensor(0.3))
    expected = Normal(outputs[:, :3], scale.double()).log_prob(x).sum(1)
    torch.testing.assert_close(law.log_prob(x, outputs).detach(), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("covariance", ["diagonal", "full"])
def test_posteriors_agree_with_torch(covariance):
    torch.manual_seed(0)
    d = 3
    q = posterior_of(torch.randn(5, outputs_needed(d, covariance)).double(), d, covariance)
    factor = torch.diag_embed(torch.exp(0.5 * q.log_var)) if isinstance(q, Diagonal) else q.factor
    law = MultivariateNormal(q.mean, scale_tril=factor)
    noise = torch.randn(7, 5, d).double()
    z = q.place(noise)
    torch.testing.assert_close(q.log_prob(z), law.log_prob(z))
    torch.testing.assert_close(q.log_prob_of_noise(noise), law.log_prob(z))
    standard = MultivariateNormal(torch.zeros(d).double(), torch.eye(d).double())
    torch.testing.assert_close(q.kl(), kl_divergence(law, standard))


def test_closed_divergences_agree_with_monte_carlo():
    torch.manual_seed(0)
    q = posterior_of(torch.randn(4, outputs_needed(3, "full")).double(), 3, "full")
    z = q.place(torch.randn(40_000, 4, 3).double())
    gaps = q.log_prob(z) - NormalPrior(3).log_prob(z, None)
    assert bool(((gaps.mean(0) - q.kl()).abs() < 4 * gaps.std(0) / 200).all())


def test_a_mixture_prior_is_a_mixture():
    torch.manual_seed(0)
    prior = MixturePrior(2, 3).double()
    with torch.no_grad():
        prior.logits.copy_(torch.tensor([0.0, 1.0, -1.0]))
        prior.log_vars.normal_()
    parts = Independent(Normal(prior.means, torch.exp(0.5 * prior.log_vars)), 1)
    law = torch.distributions.MixtureSameFamily(Categorical(logits=prior.logits), parts)
    z = torch.randn(6, 2).double()
    torch.testing.assert_close(prior.log_prob(z, None), law.log_prob(z))
    drawn = prior.draw(20_000, z, seeded(), None).detach()
    assert bool(((drawn.mean(0) - law.mean).abs() < 4 * law.stddev / math.sqrt(20_000)).all())


@pytest.mark.parametrize("covariance", ["diagonal", "full"])
def test_pseudo_inputs_make_a_density(covariance):
    torch.manual_seed(0)
    encoder = torch.nn.Linear(4, outputs_needed(2, covariance)).double()

    def encode(x):
        return posterior_of(encoder(x), 2, covariance)

    prior = VampPrior(torch.randn(5, 4).double())
    side = torch.linspace(-12, 12, 601).double()
    grid = torch.stack(torch.meshgrid(side, side, indexing="ij"), -1).reshape(-1, 2)
    total = prior.log_prob(grid, encode).detach().exp().sum() * (side[1] - side[0]) ** 2
    assert float(total) == pytest.approx(1.0, abs=1e-4)
    each = torch.stack([encode(u).log_prob(grid[:50]) for u in prior.inputs])
    torch.testing.assert_close(prior.log_prob(grid[:50], encode), torch.logsumexp(each, 0) - math.log(5))


def test_directions_follow_von_mises_and_fisher():
    torch.manual_seed(0)
    mean = torch.nn.functional.normalize(torch.tensor([[1.0, 2.0, -1.0, 0.5]]).double(), dim=-1)
    q = Directional(mean, torch.tensor([7.0]).double())
    z = q.place(torch.randn(20_000, 1, 4).double())
    truth = vonmises_fisher(mean[0].numpy(), 7.0)
    np.testing.assert_allclose(q.log_prob(z)[:50, 0].numpy(), truth.logpdf(z[:50, 0].numpy()), rtol=1e-9)
    assert float(q.kl()) == pytest.approx(log_area(4) - truth.entropy(), rel=1e-9)
    gaps = q.log_prob(z) - UniformPrior(4).log_prob(z, None)
    assert abs(float(gaps.mean()) - float(q.kl())) < 4 * float(gaps.std()) / math.sqrt(20_000)
    noise = torch.randn(3, 1, 4)
    torch.testing.assert_close(q.place(noise), q.place(noise))
