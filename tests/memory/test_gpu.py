"""Recall on CUDA is that of the processor."""

from __future__ import annotations

import pytest
import torch

from benthic.memory import recall, store

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


@pytest.mark.parametrize("dynamics", ["asynchronous", "synchronous"])
def test_recall(dynamics):
    source = torch.Generator().manual_seed(0)
    patterns = torch.randint(0, 2, (12, 96), generator=source).double() * 2 - 1
    start = torch.randint(0, 2, (30, 96), generator=source).double() * 2 - 1
    W = store(patterns)
    here = recall(start, W, dynamics=dynamics, seed=3)
    there = recall(start.cuda(), W.cuda(), dynamics=dynamics, seed=3)
    assert there.state.device.type == "cuda"
    assert torch.equal(there.state.cpu(), here.state)
