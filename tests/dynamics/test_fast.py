"""Compiled and captured steps are the same steps."""

from __future__ import annotations

import pytest
import torch

from benthic.base.errors import InvalidInput
from benthic.dynamics import solve

pytestmark = pytest.mark.spec("E-01")


class Field(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.net = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4)).double()

    def forward(self, t, y):
        return 3 * self.net(y) * torch.cos(t)


def start(device="cpu"):
    return torch.linspace(-1, 1, 12, dtype=torch.float64, device=device).view(3, 4)


def assert_same(device):
    field = Field().to(device)
    times = [0.0, 1.3, 4.0]
    with torch.no_grad():
        plain = solve(field, start(device), times, dense=True)
        fast = solve(field, start(device), times, dense=True, compile=True)
        assert fast.statistics == plain.statistics
        torch.testing.assert_close(fast.y, plain.y, atol=1e-12, rtol=0)
        torch.testing.assert_close(fast.at([2.0]), plain.at([2.0]), atol=1e-12, rtol=0)
        field.net[0].weight.mul_(1.5)  # in place: the same call must see it
        changed = solve(field, start(device), times).y
        torch.testing.assert_close(solve(field, start(device), times, compile=True).y, changed, atol=1e-12, rtol=0)
        assert float((changed - plain.y).abs().max()) > 1e-3
    for gradient in ("steps", "checkpoint", "adjoint"):
        found = []
        for compile_ in (False, True):
            field.zero_grad()
            solve(field, start(device), times, gradient=gradient, compile=compile_).y.square().sum().backward()
            found.append(field.net[0].weight.grad.clone())
        torch.testing.assert_close(*found, atol=1e-8, rtol=1e-6)


def assert_fixed_steps_same(device):
    field = Field().to(device)
    found = []
    for compile_ in (False, True):
        field.zero_grad()
        answer = solve(field, start(device), [0.0, 0.5, 1.0], method="rk4", step=0.1, compile=compile_)
        answer.y.square().sum().backward()
        found.append((answer.y.detach(), field.net[0].weight.grad.clone()))
    torch.testing.assert_close(*found, atol=1e-10, rtol=1e-10)


@pytest.mark.slow
def test_compiled_steps_are_the_same_steps():
    assert_same("cpu")
    assert_fixed_steps_same("cpu")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_captured_steps_are_the_same_steps():
    assert_same("cuda")
    assert_fixed_steps_same("cuda")


@pytest.mark.parametrize("options", [{"method": "kvaerno"}, {"per_row": True}])
def test_compile_is_refused_where_it_has_no_meaning(options):
    with pytest.raises(InvalidInput, match="compile goes with"):
        solve(Field(), start(), [0.0, 1.0], compile=True, **options)
