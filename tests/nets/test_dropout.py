"""Dropout draws from the stream of the thread: the same numbers as torch's from the same seed, compiled or not."""

from __future__ import annotations

import pytest
import torch

from benthic.base.seeds import streams
from benthic.nets.dropout import Dropout, dropout


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("training", [True, False])
def test_it_is_torchs_with_other_numbers(share, training):
    x = torch.randn(50, 4, generator=torch.Generator().manual_seed(0))
    before = torch.get_rng_state()
    with streams(7):
        found = Dropout(share).train(training)(x)
    assert torch.equal(torch.get_rng_state(), before)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        assert torch.equal(found, torch.nn.functional.dropout(x, share, training))


@pytest.mark.slow
def test_compiled_layers_draw_each_their_own_and_gradients_see_the_same_numbers():
    def twice(x):  # two tensors, for of one the compiler would make one call
        return dropout(x, 0.5), dropout(x + 1, 0.5)

    fast, x, found = torch.compile(twice), torch.ones(400, 3, requires_grad=True), []
    before = torch.get_rng_state()
    for _ in range(2):
        with streams(7):
            found.append(fast(x))
    (slope,) = torch.autograd.grad(found[0][0].sum() + 10 * found[0][1].sum(), x)
    assert torch.equal(slope, (found[0][0] + 5 * found[0][1]).detach())
    assert not torch.equal(found[0][0] == 0, found[0][1] == 0)
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))
    assert torch.equal(torch.get_rng_state(), before)
    assert 0.4 < float((found[0][0] == 0).float().mean()) < 0.6
