"""Adam straight to its kernel: torch's numbers, torch's state, and torch itself wherever something is unusual."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from benthic.optim.lean_adam import LeanAdam


def problem(dtype=torch.float32):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 2)).to(dtype)


def trained(make, steps, dtype=torch.float32, between=None):
    """A network after some steps on noise, its optimizer, and the rates set on the way."""
    network = problem(dtype)
    optimizer = make(network.parameters())
    source = torch.Generator().manual_seed(1)
    for step in range(steps):
        optimizer.zero_grad(set_to_none=True)
        x = torch.randn(16, 5, generator=source).to(dtype)
        network(x).square().sum().backward()
        optimizer.param_groups[0]["lr"] = 0.01 / (1 + step)
        if between is not None:
            between(step, network, optimizer)
        optimizer.step()
    return network, optimizer


def assert_same(one, other):
    for a, b in zip(one[0].parameters(), other[0].parameters(), strict=True):
        assert torch.equal(a, b)
    for a, b in zip(one[1].state.values(), other[1].state.values(), strict=True):
        assert all(torch.equal(a[key], b[key]) for key in a)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("options", [{}, {"weight_decay": 0.1, "betas": (0.5, 0.9)}, {"amsgrad": True}])
def test_it_is_torchs_adam_to_the_last_bit(dtype, options):
    settings = {"lr": 0.01, "fused": True, **options}
    ours = trained(lambda p: LeanAdam(p, **settings), 6, dtype)
    theirs = trained(lambda p: torch.optim.Adam(p, **settings), 6, dtype)
    assert_same(ours, theirs)
    assert (ours[1]._lists is None) == ("amsgrad" in options)


def test_a_loaded_state_is_the_one_that_moves():
    def reload(step, network, optimizer):
        if step == 3:
            optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))

    ours = trained(lambda p: LeanAdam(p, lr=0.01, fused=True), 6, between=reload)
    assert_same(ours, trained(lambda p: torch.optim.Adam(p, lr=0.01, fused=True), 6))


def test_a_parameter_without_gradient_stays_as_with_torch():
    def drop(step, network, optimizer):
        if step in (2, 4):
            network[0].bias.grad = None

    ours = trained(lambda p: LeanAdam(p, lr=0.01, fused=True), 6, between=drop)
    assert_same(ours, trained(lambda p: torch.optim.Adam(p, lr=0.01, fused=True), 6, between=drop))


def test_it_steps_on_a_closure():
    network = problem()
    optimizer = LeanAdam(network.parameters(), lr=0.01, fused=True)
    x = torch.ones(4, 5)

    def closure():
        optimizer.zero_grad()
        loss = network(x).square().sum()
        loss.backward()
        return loss.item()

    assert optimizer.step(closure) > optimizer.step(closure)
