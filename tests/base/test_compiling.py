"""The tanh of compiled calls, and compilation without a compiler."""

from __future__ import annotations

import shutil
from inspect import signature

import numpy as np
import pytest
import torch
from torch._dynamo.utils import counters
from torch._inductor.utils import fresh_cache

from benthic.base import compiling
from benthic.base.compiling import compiled, fast_tanh


def test_fast_tanh_is_right_to_three_units_of_the_last_place():
    x = torch.cat([torch.linspace(-12, 12, 400_001), torch.logspace(-30, 1, 50_001)])
    exact = np.tanh(x.double().numpy())
    error = np.abs(fast_tanh(x).double().numpy() - exact) / np.maximum(np.abs(exact), 1e-300)
    assert error.max() < 3.1 * np.finfo(np.float32).eps
    assert float(fast_tanh(x).abs().max()) <= 1
    assert fast_tanh(torch.zeros(1))[0] == 0


def test_other_precisions_are_left_to_the_library():
    assert fast_tanh(torch.zeros(1, dtype=torch.float64)) is NotImplemented


@pytest.mark.slow
@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_compiled_calls_and_their_gradients_are_those_of_the_library(small, dtype):
    x = torch.linspace(-4, 4, 101, dtype=dtype, requires_grad=True)
    call = compiled(lambda x: torch.tanh(2 * x).sum(), x.device, "the test", small=small)
    (found,) = torch.autograd.grad(call(x), x)
    (wanted,) = torch.autograd.grad(torch.tanh(2 * x).sum(), x)
    # the derivative 1 - tanh² loses what tanh near 1 does not have
    torch.testing.assert_close(found, wanted, atol=8 * torch.finfo(dtype).eps, rtol=1e-6)


@pytest.mark.slow
def test_a_compiled_call_is_found_on_disk_by_the_next_process():
    """Forgetting what is in memory stands for the next process; a table of one's own would keep it off the disk."""
    x = torch.linspace(-4, 4, 101, requires_grad=True)
    with fresh_cache():
        for _ in range(2):
            torch._dynamo.reset()
            counters.clear()
            call = compiled(lambda x: torch.sin(2 * x).sum(), x.device, "the test")
            (found,) = torch.autograd.grad(call(x), x)
    assert counters["aot_autograd"]["autograd_cache_hit"] == 1
    torch.testing.assert_close(found, 2 * torch.cos(2 * x).detach())


def test_without_a_compiler_the_call_stays_and_a_warning_says_so(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.warns(UserWarning, match="no C\\+\\+ compiler was found; the test goes on uncompiled"):
        assert compiled(len, torch.device("cpu"), "the test") is len


@pytest.mark.skipif("recompile_limit" not in signature(torch.compile).parameters, reason="an older torch")
def test_the_ninth_network_of_a_class_is_compiled_too(monkeypatch):
    """Networks of a class share one function, of which torch by itself keeps eight graphs."""
    made = []

    def count(small, graph, inputs):
        made.append(small)
        return graph.forward

    monkeypatch.setattr(shutil, "which", lambda name: name)
    monkeypatch.setattr(compiling, "_on_cpu", count)
    compiling._backend.cache_clear()
    for width in range(1, 11):
        network = torch.nn.Linear(2, width)
        x = torch.ones(3, 2)
        assert torch.equal(compiled(network, x.device, "the test", dynamic=False)(x), network(x))
    compiling._backend.cache_clear()
    assert len(made) == 10
