"""Markov chains on CUDA: answers stay on the device and equal those of the CPU."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from benthic.samplers import MarkovChain

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.spec("C-02"),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


def matrix(n: int) -> torch.Tensor:
    P = torch.rand(n, n, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    P = P * (P > 0.7)
    P[torch.arange(n), (torch.arange(n) + 1) % n] += 0.1
    return P / P.sum(1, keepdim=True)


@pytest.mark.parametrize("layout", ["dense", "coo", "csr"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_answers_stay_on_the_device(layout, dtype):
    P = matrix(40).to("cuda", dtype)
    P = {"dense": P, "coo": P.to_sparse_coo(), "csr": P.to_sparse_csr()}[layout]
    here, there = MarkovChain(matrix(40)), MarkovChain(P)
    tolerance = 1e-10 if dtype == torch.float64 else 1e-4
    for ask in (
        lambda c: c.stationary(),
        lambda c: c.law(3, 5),
        lambda c: c.law(2, torch.eye(40)[:4]),
        lambda c: c.n_step_matrix(4),
        lambda c: c.hitting_times([7, 9]),
        lambda c: c.total_variation([0, 3, 9]),
        lambda c: c.passage_times(),
        lambda c: c.time_reversal().law(2, 0),
        lambda c: c.limit(3),
        lambda c: c.log_prob(torch.tensor([[0, 1, 2], [3, 4, 5]])),
    ):
        answer = ask(there)
        assert answer.device.type == "cuda" and answer.dtype == dtype
        np.testing.assert_allclose(answer.cpu(), ask(here), rtol=tolerance, atol=tolerance)
    assert there.mixing_time() == here.mixing_time()
    np.testing.assert_allclose(there.spectral_gap(), here.spectral_gap(), rtol=tolerance)
    assert there.recurrent.device.type == "cuda"


def test_paths_are_drawn_on_the_device():
    chain = MarkovChain(matrix(40).to("cuda"))
    paths = chain.sample(5000, 100, seed=0)
    assert paths.device.type == "cuda" and torch.isfinite(chain.log_prob(paths)).all()
    seen = torch.bincount(paths[:, -1], minlength=40).cpu().double() / 5000
    law = chain.stationary().cpu()
    assert float(((seen - law) / (law * (1 - law) / 5000).sqrt()).abs().max()) < 4.5


def test_power_iteration_on_the_device():
    P = matrix(40).to("cuda").to_sparse_csr()
    report = MarkovChain(P).stationary_report("power")
    assert report.law.device.type == "cuda"
    np.testing.assert_allclose(report.law.cpu(), MarkovChain(matrix(40)).stationary(), atol=1e-12)
