"""Laws on CUDA: the same numbers as on the CPU, on the same device, and draws that repeat."""

from __future__ import annotations

import pytest
import torch

from benthic import distributions as laws
from benthic.distributions import draw, mle

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.spec("B-01"),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


def scalar(device):
    one = torch.tensor([0.7, 1.3], dtype=torch.float64, device=device)
    return [
        laws.StudentT(3 * one),
        laws.Beta(one, 2 * one),
        laws.Gamma(one, 2 * one),
        laws.Levy(one, one),
        laws.Stable(one, 0.3 * one, one, one),
        laws.Poisson(4 * one),
    ]


def test_levels_quantiles_and_densities():
    level = torch.tensor([[0.2], [0.9]], dtype=torch.float64)
    for here, there in zip(scalar("cpu"), scalar("cuda"), strict=True):
        x, y = here.icdf(level), there.icdf(level.cuda())
        assert y.device.type == "cuda"
        torch.testing.assert_close(y.cpu(), x, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(there.cdf(y).cpu(), here.cdf(x), rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(there.log_prob(y).cpu(), here.log_prob(x), rtol=1e-9, atol=1e-9)


def test_draws_repeat_and_stay_on_the_device():
    eye = torch.eye(3, device="cuda")
    for law in (
        *scalar("cuda"),
        laws.VonMisesFisher(eye, 2.0),
        laws.MultivariateNormal(torch.zeros(3, device="cuda"), eye),
    ):
        before = torch.cuda.get_rng_state()
        first = draw(law, 5, seed=3)
        assert first.device.type == "cuda" and torch.equal(first, draw(law, 5, seed=3))
        assert torch.equal(before, torch.cuda.get_rng_state())


@pytest.mark.parametrize("family", [laws.Normal, laws.Gamma, laws.StudentT, laws.Stable])
def test_fits(family):
    x = draw(laws.Gamma(2.0, 1.0), 500, seed=0)
    here, there = mle(family, x), mle(family, x.cuda())
    for name in family.arg_constraints:
        value = getattr(there, name)
        assert value.device.type == "cuda"
        torch.testing.assert_close(value.cpu(), getattr(here, name), rtol=1e-3, atol=1e-3)
