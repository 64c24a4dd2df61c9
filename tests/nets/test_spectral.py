"""Spectral normalization against singular values, and what its vectors do in training and evaluation."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import nn

from benthic.nets.spectral import Singular, SpectralConv2d, SpectralEmbedding, SpectralLinear

pytestmark = pytest.mark.spec("N-02")


@pytest.fixture(autouse=True)
def _seed():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


@pytest.mark.parametrize("shape", [(5, 9), (9, 5), (1, 7), (7, 1)])
def test_power_iterations_reach_the_largest_singular_value(shape):
    matrix = torch.randn(shape, dtype=torch.float64)
    found = Singular(matrix)
    for _ in range(300):  # the gap of singular values decides how many are needed
        value = found(matrix)
    assert value.item() == pytest.approx(torch.linalg.svdvals(matrix)[0].item(), rel=1e-9)


def test_the_gradient_is_that_of_the_singular_value():
    matrix = torch.randn(4, 6, dtype=torch.float64, requires_grad=True)
    found = Singular(matrix.detach())
    for _ in range(500):
        value = found(matrix)
    (ours,) = torch.autograd.grad(value, matrix)
    (exact,) = torch.autograd.grad(torch.linalg.svdvals(matrix)[0], matrix)
    torch.testing.assert_close(ours, exact, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    "layer", [lambda: SpectralLinear(6, 4), lambda: SpectralConv2d(3, 5, 3, 1, 1), lambda: SpectralEmbedding(7, 4)]
)
def test_the_weights_that_act_have_norm_one(layer):
    layer = layer().double()
    with torch.no_grad():
        layer.weight.mul_(20.0)
    for _ in range(300):
        acting = layer.normalized()
    assert torch.linalg.matrix_norm(acting.flatten(1), 2).item() == pytest.approx(1.0, rel=1e-8)


def test_a_critic_of_such_layers_is_lipschitz():
    network = nn.Sequential(SpectralLinear(3, 16), nn.LeakyReLU(0.2), SpectralLinear(16, 16), nn.ReLU())
    network.append(SpectralLinear(16, 1)).double()
    x, y = torch.randn(2, 2000, 3, dtype=torch.float64)
    for _ in range(200):
        network(x[:1])
    network.eval()
    slopes = (network(x) - network(y)).norm(dim=1) / (x - y).norm(dim=1)
    assert slopes.max() <= 1 + 1e-6


def test_vectors_move_in_training_rest_in_evaluation_and_agree_with_torch():
    layer = SpectralLinear(6, 4)
    plain = nn.Linear(6, 4)
    plain.load_state_dict({"weight": layer.weight.detach(), "bias": layer.bias.detach()})
    peer = nn.utils.parametrizations.spectral_norm(plain)
    with torch.no_grad():
        peer.parametrizations.weight[0]._u.copy_(layer.norm.u)
        peer.parametrizations.weight[0]._v.copy_(layer.norm.v)
    x = torch.randn(5, 6)
    with torch.no_grad():
        for module in (layer.weight, peer.parametrizations.weight.original):
            module.add_(0.3 * torch.eye(4, 6))
    before = layer.norm.u.clone()
    torch.testing.assert_close(layer(x), peer(x), rtol=0.05, atol=0.02)  # the peer refreshes u before v, ours v first
    assert not torch.equal(before, layer.norm.u)
    layer.eval()
    rest = layer.norm.u.clone()
    assert torch.equal(layer(x), layer(x)) and torch.equal(rest, layer.norm.u)


def test_states_continue_to_the_bit_and_layers_can_be_copied_and_pickled():
    layer, x = SpectralConv2d(2, 3, 3, 1, 1), torch.randn(4, 2, 5, 5)
    for _ in range(3):
        layer(x)
    other = SpectralConv2d(2, 3, 3, 1, 1)
    other.load_state_dict(layer.state_dict())
    twin = copy.deepcopy(layer)
    assert pickle.dumps(layer)
    for _ in range(3):
        outputs = [module(x) for module in (layer, other, twin)]
    assert all(torch.equal(outputs[0], found) for found in outputs[1:])


def test_two_calls_before_one_backward():
    layer = SpectralLinear(3, 2)
    (layer(torch.randn(4, 3)).sum() - layer(torch.randn(4, 3)).square().sum()).backward()
    assert torch.isfinite(layer.weight.grad).all()
