"""The average of weights: its definition, what it leaves out, buffers, and its state."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from benthic.training.average import Average


def constant(value):
    network = nn.Linear(1, 1, bias=False)
    nn.init.constant_(network.weight, value)
    return network


def test_it_follows_its_definition():
    network = constant(100.0)  # before the first step, and so without a share
    average = Average(network, 0.9)
    for value in (1.0, 2.0, 4.0):
        nn.init.constant_(network.weight, value)
        average.follow(network)
    expected = (0.81 * 1 + 0.9 * 2 + 4) / (0.81 + 0.9 + 1)
    assert float(average.weights(network)["weight"]) == pytest.approx(expected, rel=1e-6)
    assert float(network.weight) == 4.0


def test_before_the_first_step_it_is_the_network():
    network = constant(3.0)
    found = Average(network, 0.9).weights(network)
    nn.init.zeros_(network.weight)
    assert float(found["weight"]) == 3.0


def test_counts_are_taken_as_they_are():
    network = nn.BatchNorm1d(2)
    average = Average(network, 0.5)
    for rows in torch.randn(3, 8, 2, generator=torch.Generator().manual_seed(0)):
        network(rows)
        average.follow(network)
    found = average.weights(network)
    assert int(found["num_batches_tracked"]) == 3
    assert not torch.equal(found["running_mean"], network.running_mean)


def test_its_state_goes_on_from_where_it_was():
    network, other = constant(1.0), constant(7.0)
    average, resumed = Average(network, 0.9), Average(other, 0.9)
    average.follow(network)
    resumed.load_state_dict(average.state_dict())
    for part in (average, resumed):
        part.follow(constant(2.0))
    assert torch.equal(average.weights(network)["weight"], resumed.weights(other)["weight"])
