"""Layers of adversarial models inside CUDA graphs: replayed steps are the usual ones."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from benthic.nets.critic import ConvCritic
from benthic.nets.generator import ConvGenerator

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
    pytest.mark.spec("N-02"),
]


def steps(module: nn.Module, x: torch.Tensor, count: int, captured: bool) -> list[torch.Tensor]:
    """The outputs of calls in training mode, one after another, as graphs or as usual."""
    found = []
    if not captured:
        return [module(x).detach().clone() for _ in range(count)]
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):  # one call as usual first, so that libraries are ready
        state = copy.deepcopy(module.state_dict())
        module(x)
        module.load_state_dict(state)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = module(x).detach()
    for _ in range(count):
        graph.replay()
        found.append(out.clone())
    return found


@pytest.mark.parametrize("norm", ["spectral", "batch", "none"])
@pytest.mark.parametrize("minibatch", [None, "discrimination", "deviation"])
def test_critics_in_graphs(norm, minibatch):
    torch.manual_seed(0)
    first = ConvCritic((1, 28, 28), (8, 16), norm=norm, minibatch=minibatch).cuda()
    second, x = copy.deepcopy(first), torch.randn(16, 1, 28, 28, device="cuda")
    for a, b in zip(steps(first, x, 5, True), steps(second, x, 5, False), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)
    for name, value in first.state_dict().items():
        torch.testing.assert_close(value, second.state_dict()[name], rtol=1e-4, atol=1e-4)


def test_generators_in_graphs():
    torch.manual_seed(0)
    first = ConvGenerator(16, (1, 28, 28), (8, 16)).cuda()
    second, z = copy.deepcopy(first), torch.randn(16, 16, device="cuda")
    for a, b in zip(steps(first, z, 3, True), steps(second, z, 3, False), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)
