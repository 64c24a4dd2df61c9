"""Three ways to a gradient agree, and agree with finite differences; transforms work through a solve."""

from __future__ import annotations

import pytest
import torch

from benthic.base.errors import InvalidInput
from benthic.dynamics import solve

pytestmark = pytest.mark.spec("E-02")


class Field(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.net = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3)).double()

    def forward(self, t, y):
        return self.net(y) * torch.cos(t)


FIELD = Field()
START = torch.tensor([[1.0, -0.5, 0.3], [0.2, 0.8, -1.0]], dtype=torch.float64)


def gradients(**options):
    start = START.clone().requires_grad_()
    times = torch.tensor([0.0, 0.7, 1.1, 3.0], dtype=torch.float64, requires_grad=True)
    weight = torch.linspace(-1, 1, 4 * START.numel(), dtype=torch.float64).view(4, *START.shape)
    loss = (solve(FIELD, start, times, rtol=1e-9, atol=1e-9, **options).y * weight).sum()
    return torch.autograd.grad(loss, (start, times, *FIELD.parameters()))


@pytest.mark.parametrize(
    ("options", "tolerance"),
    [
        ({"gradient": "checkpoint"}, 1e-13),
        ({"gradient": "checkpoint", "budget": 3}, 1e-13),
        ({"gradient": "checkpoint", "budget": 1}, 1e-13),
        ({"gradient": "adjoint"}, 1e-6),
        ({"gradient": "adjoint", "seminorm": False}, 1e-6),
        ({"method": "tsitouras"}, 1e-6),
        ({"method": "rk4", "step": 0.01}, 1e-6),
        ({"method": "rk4", "step": 0.01, "gradient": "checkpoint", "budget": 4}, 1e-6),
        ({"method": "rk4", "step": 0.01, "gradient": "adjoint"}, 1e-6),
    ],
)
def test_all_ways_to_a_gradient_agree(options, tolerance):
    for found, expected in zip(gradients(**options), gradients(), strict=True):
        assert float((found - expected).abs().max() / expected.abs().max()) < tolerance


def test_gradients_agree_with_differences():
    start = START[0].clone().requires_grad_()
    times = torch.tensor([0.0, 1.0, 2.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda t, y: solve(FIELD, y, t, rtol=1e-11, atol=1e-11).y, (times, start), atol=1e-5
    )


def test_second_derivatives_through_the_steps():
    start = START[0].clone().requires_grad_()
    assert torch.autograd.gradgradcheck(
        lambda y: solve(FIELD, y, [0.0, 1.0], method="rk4", step=0.25).last, (start,), atol=1e-6
    )


def test_transforms_work_through_a_solve():
    def flow(y):
        return solve(FIELD, y, [0.0, 1.5], rtol=1e-10, atol=1e-10).last

    reverse, forward = torch.func.jacrev(flow)(START[0]), torch.func.jacfwd(flow)(START[0])
    torch.testing.assert_close(reverse, forward, atol=1e-8, rtol=0)
    shifted = [flow(START[0] + 1e-6 * e) - flow(START[0] - 1e-6 * e) for e in torch.eye(3, dtype=torch.float64)]
    torch.testing.assert_close(reverse, torch.stack(shifted, 1) / 2e-6, atol=1e-6, rtol=0)
    torch.testing.assert_close(torch.func.vmap(flow)(START), torch.stack([flow(y) for y in START]), atol=1e-8, rtol=0)


def test_euler_is_a_residual_network_and_its_gradient_the_adjoint():
    start = START[0].clone().requires_grad_()
    y = start
    for i in range(4):
        y = y + 0.5 * FIELD(torch.tensor(0.5 * i, dtype=torch.float64), y)
    (expected,) = torch.autograd.grad(y.sum(), start)
    found = solve(FIELD, start, [0.0, 2.0], method="euler", step=0.5, gradient="checkpoint").last
    torch.testing.assert_close(found, y)
    torch.testing.assert_close(torch.autograd.grad(found.sum(), start)[0], expected)


@pytest.mark.parametrize("gradient", ["checkpoint", "adjoint"])
def test_hidden_tensors_are_refused_or_named(gradient):
    rate = torch.tensor([0.5], dtype=torch.float64, requires_grad=True)
    start = torch.ones(1, dtype=torch.float64, requires_grad=True)
    with pytest.raises(InvalidInput, match="parameters="):
        solve(lambda t, y: -rate * y, start, [0.0, 1.0], gradient=gradient)
    found = solve(lambda t, y: -rate * y, start, [0.0, 1.0], gradient=gradient, parameters=[rate], rtol=1e-9, atol=1e-9)
    (slope,) = torch.autograd.grad(found.last.sum(), rate)
    torch.testing.assert_close(slope, -torch.exp(-rate.detach()), atol=1e-7, rtol=0)


def test_gradients_of_rows_with_their_own_steps():
    rates = torch.tensor([[0.1], [5.0]], dtype=torch.float64, requires_grad=True)
    found = solve(
        lambda t, y: -rates * y,
        torch.ones(2, 1, dtype=torch.float64),
        [0.0, 0.5, 1.0],
        per_row=True,
        rtol=1e-9,
        atol=1e-9,
    )
    (slope,) = torch.autograd.grad(found.y.sum(), rates)
    exact = -0.5 * torch.exp(-0.5 * rates) - torch.exp(-rates)
    torch.testing.assert_close(slope, exact.detach(), atol=1e-7, rtol=0)


def test_rows_with_their_own_steps_have_gradients_to_the_times():
    times = torch.tensor([0.2, 1.0, 1.5], dtype=torch.float64)
    weight = torch.linspace(-1, 1, 3 * START.numel(), dtype=torch.float64).view(3, *START.shape)
    found = []
    for per_row in (False, True):
        leaf = times.clone().requires_grad_()
        y = solve(FIELD, START, leaf, per_row=per_row, rtol=1e-9, atol=1e-9).y
        found.append(torch.autograd.grad((y * weight).sum(), leaf)[0])
    torch.testing.assert_close(*found, atol=1e-6, rtol=0)


@pytest.mark.parametrize("gradient", ["checkpoint", "adjoint"])
def test_real_parameters_of_a_complex_state_have_real_gradients(gradient):
    rate = torch.tensor([0.3, 1.7], dtype=torch.float64, requires_grad=True)
    y0 = torch.tensor([1.0 + 0.5j, -0.2 + 1.0j], dtype=torch.complex128)

    def turned(t, y):
        return torch.complex(-rate[0], rate[1]) * y

    found = []
    for way in ("steps", gradient):
        y = solve(turned, y0, [0.0, 1.0, 2.0], rtol=1e-10, atol=1e-10, gradient=way, parameters=[rate]).y
        found.append(torch.autograd.grad((y.real**2 + 3 * y.imag).sum(), rate)[0])
    assert found[1].dtype == torch.float64
    torch.testing.assert_close(*found, atol=1e-8, rtol=1e-8)
