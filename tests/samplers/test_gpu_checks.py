"""Diagnostics, Metropolis and Gibbs on CUDA: answers of the CPU, tensors that stay where they are."""

from __future__ import annotations

import pytest
import torch
from torch.distributions import Normal

from benthic.samplers import Draws, Gibbs, Independence, MetropolisBlock, RandomWalk, Target, run
from benthic.samplers.judging import diagnostics

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.spec("C-03"),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


def test_diagnostics_agree_with_the_cpu():
    x = torch.randn(8, 500, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64).cumsum(1)
    for function in (
        diagnostics.rhat,
        diagnostics.split_rhat,
        diagnostics.ess,
        diagnostics.ess_bulk,
        diagnostics.ess_tail,
        diagnostics.mcse_sd,
        lambda x: diagnostics.mcse_quantile(x, 0.9),
    ):
        there = function(x.cuda())
        assert there.device.type == "cuda"
        torch.testing.assert_close(there.cpu(), function(x), rtol=1e-8, atol=0)
    ours, theirs = Draws(x).summary(), Draws(x.cuda()).summary()
    for title, column in ours.columns.items():
        torch.testing.assert_close(theirs.columns[title], column, rtol=1e-8, atol=0)


def test_kernels_run_where_their_target_is():
    center = torch.tensor([1.0, -1.0], device="cuda")
    target = Target(lambda x: -0.5 * (x - center).square().sum(1), center * 0, batched=True)
    wide = Normal(center * 0, 2.0)
    for kernel in (RandomWalk(target), Independence(target, wide)):
        draws = run(kernel, chains=500, draws=200, warmup=200, seed=0)
        assert draws["x"].device.type == "cuda"
        z = (draws["x"].mean(1).mean(0) - center) / (draws["x"].mean(1).std(0) / 500**0.5)
        assert z.abs().max() < 4


@pytest.mark.parametrize("scan", ["systematic", "random"])
def test_gibbs_runs_where_its_blocks_are(scan):
    zero = torch.tensor(0.0, device="cuda")
    kernel = Gibbs(
        {"a": MetropolisBlock(), "b": lambda v, _: Normal(0.5 * v["a"], 0.75**0.5)},
        {"a": zero, "b": zero},
        scan=scan,
        log_density=lambda v: -0.5 * (v["a"] ** 2 + (v["b"] - 0.5 * v["a"]) ** 2 / 0.75),
    )
    draws = run(kernel, chains=500, draws=200, warmup=100, seed=0)
    assert draws["a"].device.type == "cuda"
    products = (draws["a"] * draws["b"]).mean(1)
    assert abs(float((products.mean() - 0.5) / (products.std() / 500**0.5))) < 4
