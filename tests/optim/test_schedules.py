"""Learning-rate schedules are pure functions with known ends."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from torch import nn

from benthic.base.errors import InvalidInput
from benthic.optim.build import optimizer_of
from benthic.optim.schedules import schedule_of


@pytest.mark.parametrize("setting", ["constant", "linear", "cosine", "warmup_cosine", {"name": "linear", "warmup": 10}])
def test_factors_stay_between_zero_and_one_and_fall_after_the_warmup(setting):
    schedule = schedule_of(setting)
    factors = [schedule(step, 100) for step in range(100)]
    assert all(0.0 <= f <= 1.0 for f in factors) and max(factors) == 1.0
    peak = factors.index(1.0)
    assert all(a >= b for a, b in pairwise(factors[peak:]))
    assert all(a <= b for a, b in pairwise(factors[: peak + 1]))


def test_the_floor_holds():
    schedule = schedule_of({"name": "cosine", "floor": 0.2})
    assert schedule(100, 100) == pytest.approx(0.2)


@pytest.mark.parametrize("wrong", ["cosin", {"name": "cosine", "warmupp": 3}])
def test_a_wrong_schedule_says_what_there_is(wrong):
    with pytest.raises(InvalidInput, match="use constant, linear, cosine"):
        schedule_of(wrong)


def test_the_penalty_spares_biases():
    network = nn.Linear(2, 1)
    optimizer = optimizer_of({"name": "sgd"}, network.parameters(), lr=1.0, l2=0.5)
    before = {name: p.detach().clone() for name, p in network.named_parameters()}
    for parameter in network.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    torch.testing.assert_close(network.weight.detach(), 0.5 * before["weight"])
    torch.testing.assert_close(network.bias.detach(), before["bias"])


def test_wrong_options_of_an_optimizer_are_named():
    with pytest.raises(InvalidInput, match="optimizer 'sgd': .*momentun"):
        optimizer_of({"name": "sgd", "momentun": 0.9}, nn.Linear(1, 1).parameters(), lr=1.0)
