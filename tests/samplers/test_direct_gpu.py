"""Direct sampling on CUDA: draws and answers stay on the device and have the right law."""

from __future__ import annotations

import math

import pytest
import scipy.stats as st
import torch
from torch.distributions import Normal, StudentT

from benthic.samplers import (
    BayesianNetwork,
    Given,
    Table,
    adaptive_rejection,
    importance_sampling,
    inverse_transform,
    invert_cdf,
    pareto_smooth,
    rejection_sampling,
    resample,
)

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
    pytest.mark.spec("C-01"),
]
DOUBLE = {"dtype": torch.float64, "device": "cuda"}


def half_square(x):
    return -0.5 * x.square()


def test_inversion_gives_the_quantiles_of_the_cpu():
    level = torch.linspace(0.01, 0.99, 99, dtype=torch.float64)
    x = invert_cdf(torch.special.ndtr, level.cuda())
    assert x.device.type == "cuda"
    torch.testing.assert_close(x.cpu(), invert_cdf(torch.special.ndtr, level), rtol=1e-12, atol=1e-13)
    drawn = inverse_transform(torch.special.ndtr, 10_000, seed=0, device="cuda")
    assert drawn.device.type == "cuda" and st.kstest(drawn.cpu().numpy(), "norm").pvalue > 1e-5


def test_rejection_and_adaptive_rejection():
    got = rejection_sampling(half_square, StudentT(torch.tensor(3.0, **DOUBLE)), 10_000, seed=0)
    assert got.draws.device.type == "cuda" and st.kstest(got.draws.cpu().numpy(), "norm").pvalue > 1e-5
    shape = torch.tensor([2.0, 9.0], **DOUBLE)
    many = adaptive_rejection(
        lambda x: (shape - 1) * x.log() - x, 5000, batch_shape=(2,), support=(0, math.inf), seed=0, device="cuda"
    )
    assert many.draws.device.type == "cuda"
    assert st.kstest(many.draws[:, 1].cpu().numpy(), st.gamma(9).cdf).pvalue > 1e-5


def test_importance_weights_and_resampling():
    draws = importance_sampling(half_square, StudentT(torch.tensor(4.0, **DOUBLE)), 20_000, seed=0)
    mean = draws.expect(lambda x: x.square())
    assert abs(mean.value - 1) < 4 * mean.stderr
    raw = draws.log_weights
    torch.testing.assert_close(pareto_smooth(raw).k.cpu(), pareto_smooth(raw.cpu()).k, rtol=1e-9, atol=1e-9)
    assert resample(raw, 100, "residual", seed=0).device.type == "cuda"


def test_a_network_whose_tables_lie_on_the_device():
    net = BayesianNetwork(
        {
            "a": Table(torch.tensor([0.2, 0.8], **DOUBLE)),
            "b": Table(torch.tensor([[0.9, 0.1], [0.3, 0.7]], **DOUBLE), given="a"),
            "x": Given(lambda b: Normal(2.0 * b, 1.0), given="b"),
        }
    )
    drawn = net.sample(20_000, seed=0)
    assert all(column.device.type == "cuda" for column in drawn.values())
    share = 0.2 * 0.1 + 0.8 * 0.7
    assert abs(float(drawn["b"].double().mean()) - share) < 4 * math.sqrt(share * (1 - share) / 20_000)
    truth = torch.tensor([0.2 * 0.1, 0.8 * 0.7], dtype=torch.float64) / share
    torch.testing.assert_close(net.posterior("a", {"b": 1}).cpu(), truth)
    held = net.sample(1000, given={"b": torch.tensor(1, device="cuda")}, seed=0)
    assert bool((held["b"] == 1).all()) and len(held["a"]) == 1000
    assert net.log_prob(drawn).device.type == "cuda"
