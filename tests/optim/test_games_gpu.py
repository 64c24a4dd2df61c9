"""Game optimizers on CUDA: the same steps as on the CPU, and as graphs."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from benthic.optim import Extragradient, OptimisticAdam, PastExtragradient

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.spec("D-03"),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]

MAKES = {
    "extragradient": lambda p, lr: Extragradient(torch.optim.Adam(p, lr=lr, capturable=True)),
    "past": lambda p, lr: PastExtragradient(torch.optim.Adam(p, lr=lr, capturable=True)),
    "optimistic": lambda p, lr: OptimisticAdam(p, lr=lr),
}


def network(device, dtype):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1)).to(device, dtype)


def round_of(net, optimizer, X):
    calls = [optimizer.extrapolate, optimizer.step] if isinstance(optimizer, Extragradient) else [optimizer.step]
    for call in calls:
        for p in net.parameters():
            p.grad = None
        net(X).square().mean().backward()
        call()


def weights(net):
    return torch.cat([p.detach().reshape(-1).cpu() for p in net.parameters()])


@pytest.mark.parametrize("name", MAKES)
def test_steps_are_those_of_the_cpu_also_as_graphs(name):
    X = torch.randn(16, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    nets = [network(device, torch.float64) for device in ("cpu", "cuda", "cuda")]
    # the fastest way to a wrong answer is a rate frozen into the graph: it is a tensor that changes
    rates = [torch.tensor(0.01, dtype=torch.float64, device=device) for device in ("cpu", "cuda", "cuda")]
    made = [plain(name, nets[0]), *(MAKES[name](nets[i].parameters(), rates[i]) for i in (1, 2))]
    there = X.cuda()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            round_of(nets[2], made[2], there)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        round_of(nets[2], made[2], there)
    for step in range(8):
        rate = 0.01 if step < 5 else 0.05
        for group in made[0].param_groups:
            group["lr"] = rate
        rates[1].fill_(rate)
        rates[2].fill_(rate)
        round_of(nets[0], made[0], X)
        round_of(nets[1], made[1], there)
        if step >= 3:
            graph.replay()
    # torch's capturable Adam takes 1 - 0.999^step in float32, which is off by up to 6e-5 of itself
    near = {"rtol": 1e-8, "atol": 1e-9} if name == "optimistic" else {"rtol": 1e-4, "atol": 1e-5}
    torch.testing.assert_close(weights(nets[1]), weights(nets[0]), **near)
    torch.testing.assert_close(weights(nets[2]), weights(nets[1]), rtol=1e-12, atol=1e-14)


def plain(name, net):
    """The same optimizer for the CPU, where Adam is not capturable."""
    if name == "optimistic":
        return OptimisticAdam(net.parameters(), lr=0.01)
    wrapper = {"extragradient": Extragradient, "past": PastExtragradient}[name]
    return wrapper(torch.optim.Adam(net.parameters(), lr=0.01))
