"""Hamiltonian kernels on a GPU: the captured graph leaves laws alone and finds the moments a CPU finds."""

from __future__ import annotations

import pytest
import torch

from benthic.samplers.hamiltonian.nuts import NUTS
from benthic.samplers.running import run
from benthic.samplers.target import Target

pytestmark = [
    pytest.mark.spec("C-03"),
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def target(dtype: torch.dtype = torch.float64) -> Target:
    scales = torch.tensor([0.5, 1.0, 3.0], dtype=dtype, device="cuda")
    example = torch.zeros(3, dtype=dtype, device="cuda")
    return Target(lambda x: -0.5 * ((x / scales) ** 2).sum(-1), example, batched=True)


@pytest.mark.parametrize("kernel", ["nuts", "hmc", "chees"])
def test_moments(kernel: str) -> None:
    draws = run(kernel, target(), chains=256, draws=100, warmup=100, seed=0)
    x = draws["x"]
    assert x.device.type == "cuda"
    sizes = draws.ess()["x"]
    scales = torch.tensor([0.5, 1.0, 3.0], dtype=x.dtype, device=x.device)
    assert ((x.mean((0, 1)) / scales) * sizes.to(x.device).sqrt()).abs().max() < 5
    assert (x.flatten(0, 1).std(0) / scales - 1).abs().max() < 0.05


def test_transitions_leave_the_law_as_it_was() -> None:
    law = target()
    stream = torch.Generator(device="cuda").manual_seed(0)
    scales = torch.tensor([0.5, 1.0, 3.0], dtype=torch.float64, device="cuda")
    kernel = NUTS(law, step_size=0.4)
    exact = scales * torch.randn(20_000, 3, generator=stream, dtype=torch.float64, device="cuda")
    state, trail = kernel.collect(kernel.init(exact), 3, stream)
    squares = (state.position / scales) ** 2
    z = (squares.mean(0) - 1) / (squares.std(0) / len(squares) ** 0.5)
    assert z.abs().max() < 4.5
    torch.testing.assert_close(state.log_density, law.log_density(state.position))
    torch.testing.assert_close(state.position, trail.positions[:, -1])


def test_seed_decides() -> None:
    one, same = (run("nuts", target(torch.float32), chains=64, draws=20, warmup=30, seed=3)["x"] for _ in range(2))
    assert torch.equal(one, same)
