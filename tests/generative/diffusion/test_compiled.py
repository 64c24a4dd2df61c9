"""What ``compile=True`` costs: how many graphs are made, counted by a backend that compiles nothing."""

from __future__ import annotations

import shutil

import pytest
import torch
from torch._dynamo.utils import counters
from torch.utils._python_dispatch import TorchDispatchMode

import benthic
from benthic.base import compiling
from benthic.generative.diffusion.fast import WholeCalls
from benthic.nets.unet import UNet

NET = {"channels": 8, "multipliers": (1, 2), "blocks": 1, "attention": (4,), "dropout": 0.1}
TINY = {**NET, "multipliers": (1,), "attention": None}
PICTURES = torch.randn(60, 1, 8, 8, generator=torch.Generator().manual_seed(0))
aten = torch.ops.aten
WAITING = {aten._local_scalar_dense.default, aten.nonzero.default, aten.masked_select.default, aten.equal.default}


@pytest.fixture
def graphs(monkeypatch):
    """Each graph that is made: whether gradients flow, and for which numbers of rows, None where that is left open."""
    made = []

    def count(small, graph, inputs):
        held = [value for value in inputs if isinstance(value, torch.Tensor) and not value.requires_grad]
        rows = {len(value) for value in held if value.numel()}
        fixed = all(isinstance(value, torch.Tensor) for value in inputs)
        made.append((torch.is_grad_enabled(), *(rows if fixed else {None})))
        return graph.forward

    monkeypatch.setattr(shutil, "which", lambda name: name)
    monkeypatch.setattr(compiling, "_on_cpu", count)
    compiling._backend.cache_clear()
    torch._dynamo.reset()
    counters.clear()
    yield made
    compiling._backend.cache_clear()
    torch._dynamo.reset()


def model(net=NET, **trainer):
    settings = {"batch_size": 16, "precision": "bf16", "ema": 0.99, "verbose": False, "compile": True, **trainer}
    return benthic.DDPM(unet=net, trainer=settings, sampler="ddim", steps=3, random_state=0)


def test_one_graph_for_training_and_one_for_sampling(graphs):
    """Passes of 16 + 16 + 4 rows and 24 held-out ones; samples of several numbers by several solvers."""
    fitted = model(epochs=2, early_stopping={"fraction": 0.4}).fit(PICTURES)
    assert graphs == [(True, 16)]
    for n, sampler in ((16, "ddim"), (12, "ddim"), (16, "heun"), (9, "ancestral"), (3, "ddim")):
        assert torch.isfinite(torch.as_tensor(fitted.sample(n, seed=0, sampler=sampler))).all()
    assert graphs == [(True, 16), (False, 16)]
    assert not counters["graph_break"]


def test_models_of_one_shape_share_their_graphs(graphs):
    for _ in range(2):
        model(TINY, steps=2).fit(PICTURES).sample(16, seed=0)
    assert graphs == [(True, 16), (False, 16)]


def test_shapes_stay_fixed_after_other_ones(graphs):
    """Torch would make the second graph one for any number of rows, which is slower."""
    for size in (16, 20):
        model(TINY, steps=2, batch_size=size).fit(PICTURES)
    assert graphs == [(True, 16), (True, 20)]


def test_fewer_rows_than_were_compiled_for_get_their_own_answers():
    network = UNet((1, 8, 8), **NET).double().eval()
    torch.nn.init.normal_(network.last.weight)
    sizes = []

    def fast(x, level):
        sizes.append(len(x))
        assert x.is_contiguous() and level.is_contiguous()
        return network(x, level), level

    call = WholeCalls(fast, lambda x, level: (network(x, level), level))
    with torch.no_grad():
        for n in (8, 5, 3, 10, 9, 4, 4):
            x, level = torch.randn(n, 1, 8, 8, dtype=torch.float64), torch.rand((), dtype=torch.float64).expand(n)
            answer, same = call(x.contiguous(memory_format=torch.channels_last), level)
            torch.testing.assert_close(answer, network(x, level), rtol=1e-10, atol=1e-10)
            assert torch.equal(same, level)
    assert sizes == [8, 8, 10, 10, 8, 8]  # three rows are too few for eight


class _Waits(TorchDispatchMode):
    """How often a number is read, or a shape depends on one."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += func in WAITING
        return func(*args, **(kwargs or {}))


def test_a_step_reads_nothing_but_its_loss():
    """On a CPU the loss is read at every step; on a device, where it is not, the host then never waits."""
    counts = []
    for steps in (1, 3):  # of the same pass
        with _Waits() as waits:
            model(TINY, steps=steps, compile=False).fit(PICTURES)
        counts.append(waits.count)
    assert counts[1] - counts[0] == 2
