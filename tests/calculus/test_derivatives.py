"""Products, Jacobians and Hessians against finite differences and closed forms; the choice made at kinks."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from benthic.base.errors import InvalidInput
from benthic.calculus import (
    directional_derivatives,
    gradient,
    hessian,
    hvp,
    jacobian,
    jvp,
    per_example_gradients,
    subdifferential,
    value_and_gradient,
    vjp,
)

pytestmark = pytest.mark.spec("A-03")
WEIGHTS = torch.randn(3, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
POINT = torch.tensor([0.3, -1.2, 0.8, 2.0], dtype=torch.float64)


def f(x):
    return torch.tanh(WEIGHTS @ x) * x[:3].exp()


def scalar(x):
    return (f(x) ** 2).sum() + x.prod()


def by_differences(function, x, h=6e-6):
    """Central differences; the step is the cube root of the rounding unit."""
    shifts = h * torch.eye(len(x), dtype=x.dtype)
    return torch.stack([(function(x + e) - function(x - e)) / (2 * h) for e in shifts], -1)


@pytest.mark.parametrize("mode", ["auto", "forward", "reverse"])
def test_jacobian_is_that_of_finite_differences(mode):
    # Central differences of a smooth function: error about eps^(2/3) ~ 4e-11 times its third derivative.
    np.testing.assert_allclose(jacobian(f, POINT, mode=mode), by_differences(f, POINT), rtol=1e-7, atol=1e-8)
    chunked = jacobian(f, POINT, mode=mode, chunk=2)
    torch.testing.assert_close(chunked, jacobian(f, POINT), rtol=1e-12, atol=1e-12)


def test_products_agree_with_the_jacobian():
    v, u = torch.randn(2, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).unbind()
    J = jacobian(f, POINT)
    value, along = jvp(f, POINT, v)
    torch.testing.assert_close(value, f(POINT))
    torch.testing.assert_close(along, J @ v)
    value, pull = vjp(f, POINT)
    torch.testing.assert_close(value, f(POINT))
    torch.testing.assert_close(pull(u[:3]), J.T @ u[:3])


def test_gradient_hessian_and_their_product():
    torch.testing.assert_close(gradient(scalar, POINT), jacobian(scalar, POINT, mode="forward"))
    value, slope = value_and_gradient(scalar, POINT)
    torch.testing.assert_close(value, scalar(POINT))
    torch.testing.assert_close(slope, gradient(scalar, POINT))
    H = hessian(scalar, POINT)
    np.testing.assert_allclose(H, by_differences(lambda x: gradient(scalar, x), POINT), rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(H, H.T)
    v = torch.ones(4, dtype=torch.float64)
    torch.testing.assert_close(hvp(scalar, POINT, v), H @ v)


def test_trees_of_tensors():
    params = {"w": torch.ones(2, 3, dtype=torch.float64), "b": torch.zeros(2, dtype=torch.float64)}
    x = torch.arange(3.0, dtype=torch.float64)

    def loss(p):
        return ((p["w"] @ x + p["b"]) ** 2).sum()

    slope = gradient(loss, params)
    torch.testing.assert_close(slope["w"], 2 * torch.outer(torch.full((2,), 3.0, dtype=torch.float64), x))
    torch.testing.assert_close(slope["b"], torch.full((2,), 6.0, dtype=torch.float64))
    _, along = jvp(loss, params, slope)
    torch.testing.assert_close(along, (slope["w"] ** 2).sum() + (slope["b"] ** 2).sum())
    _, pull = vjp(loss, params)
    torch.testing.assert_close(pull(torch.tensor(1.0, dtype=torch.float64))["w"], slope["w"])
    curved = hvp(loss, params, slope)
    torch.testing.assert_close(curved["b"], 2 * (slope["w"] @ x + slope["b"]))


def test_derivatives_can_be_trained_through():
    scale = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    # d/dx of scale x^3 is 3 scale x^2; its derivative by scale is 3 x^2.
    gradient(lambda x: scale * x**3, torch.tensor(2.0, dtype=torch.float64)).backward()
    assert float(scale.grad) == pytest.approx(12.0)


def test_per_example_gradients_are_those_of_a_loop():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.LayerNorm(8), nn.Linear(8, 3)).double()
    model[0].bias.requires_grad_(False)
    x, y = torch.randn(7, 5, dtype=torch.float64), torch.arange(7) % 3

    def loss(predict, rows, labels):
        return F.cross_entropy(predict(rows), labels)

    got = per_example_gradients(loss, model, (x, y))
    assert "0.bias" not in got and set(got) == {n for n, p in model.named_parameters() if p.requires_grad}
    for i in range(7):
        model.zero_grad()
        loss(model, x[i : i + 1], y[i : i + 1]).backward()
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                torch.testing.assert_close(got[name][i], parameter.grad, rtol=1e-10, atol=1e-12)
    chunked = per_example_gradients(loss, model, (x, y), chunk=3)
    torch.testing.assert_close(chunked["0.weight"], got["0.weight"])
    model.zero_grad()
    loss(model, x, y).backward()
    torch.testing.assert_close(got["3.weight"].mean(0), model[3].weight.grad)


# What autograd answers at kinks: function, point, chosen, one-sided slopes.
KINKS = {
    "relu": (torch.relu, [0.0], [0.0], [0.0], [1.0]),
    "leaky_relu": (lambda x: F.leaky_relu(x, 0.1), [0.0], [0.1], [0.1], [1.0]),
    "abs": (torch.abs, [0.0], [0.0], [-1.0], [1.0]),
    "norm": (torch.linalg.vector_norm, [0.0, 0.0], [0.0, 0.0], [-1.0, -1.0], [1.0, 1.0]),
    "maximum": (lambda x: torch.maximum(x[0], x[1]), [1.0, 1.0], [0.5, 0.5], [0.0, 0.0], [1.0, 1.0]),
    "minimum": (lambda x: torch.minimum(x[0], x[1]), [1.0, 1.0], [0.5, 0.5], [0.0, 0.0], [1.0, 1.0]),
    "amax": (lambda x: x.amax(0), [2.0, 2.0, 1.0], [0.5, 0.5, 0.0], [0.0, 0.0, 0.0], [1.0, 1.0, 0.0]),
    "amin": (lambda x: x.amin(0), [2.0, 2.0, 3.0], [0.5, 0.5, 0.0], [0.0, 0.0, 0.0], [1.0, 1.0, 0.0]),
    "max()": (lambda x: x.max(), [2.0, 2.0], [0.5, 0.5], [0.0, 0.0], [1.0, 1.0]),
    "clamp": (lambda x: x.clamp(0.0, 1.0), [0.0, 1.0], [1.0, 1.0], [0.0, 0.0], [1.0, 1.0]),
    "hardtanh": (F.hardtanh, [-1.0, 1.0], [0.0, 0.0], [0.0, 0.0], [1.0, 1.0]),
    "relu6": (F.relu6, [0.0, 6.0], [0.0, 0.0], [0.0, 0.0], [1.0, 1.0]),
}


@pytest.mark.parametrize("name", KINKS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_documented_choice_lies_between_the_one_sided_slopes(name, dtype):
    function, point, chosen, lower, upper = KINKS[name]
    at = subdifferential(lambda x: function(x).sum(), torch.tensor(point, dtype=dtype))
    for got, want in zip(at, (chosen, lower, upper), strict=True):
        torch.testing.assert_close(got, torch.tensor(want, dtype=dtype), rtol=1e-4, atol=1e-4)
    assert bool(at.contains_choice().all())
    assert not bool(at.smooth()[0])


def test_max_over_a_dimension_gives_all_to_one_winner():
    at = subdifferential(lambda x: x.max(0).values, torch.tensor([3.0, 3.0, 3.0]))
    assert sorted(at.chosen.tolist()) == [0.0, 0.0, 1.0] and bool(at.contains_choice().all())


def test_the_chain_rule_can_leave_the_interval():
    at = subdifferential(lambda x: torch.relu(x) - torch.relu(-x), torch.tensor(0.0, dtype=torch.float64))
    assert float(at.lower) == pytest.approx(1.0) and float(at.upper) == pytest.approx(1.0)
    assert float(at.chosen) == 0.0 and bool(at.smooth()) and not bool(at.contains_choice())


def test_one_sided_slopes_of_a_smooth_function_are_its_derivative():
    v = torch.tensor([1.0, 2.0, -1.0, 0.5], dtype=torch.float64)
    left, right = directional_derivatives(f, POINT, v)
    # Second order in a step of 6e-6 * 2: about 1e-10 times the third derivative.
    torch.testing.assert_close(left, jvp(f, POINT, v)[1], rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(right, left, rtol=1e-8, atol=1e-8)
    left, right = directional_derivatives(lambda x: torch.exp(x.abs()), torch.tensor(0.0), torch.tensor(3.0))
    assert (float(left), float(right)) == pytest.approx((-3.0, 3.0), rel=1e-3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gradient(f, POINT), r"gradient: the function returned shape \(3,\).*jacobian"),
        (lambda: hessian(f, POINT), r"hessian: the function returned shape \(3,\)"),
        (lambda: hvp(f, POINT, POINT), r"hvp: the function returned shape \(3,\)"),
        (lambda: gradient(lambda x: {"a": x}, POINT), "gradient: the function returned dict"),
        (lambda: jvp(f, POINT, POINT[:2]), r"jvp: x has shape \(4,\) and v \(2,\)"),
        (lambda: jacobian(f, POINT, mode="foward"), "did you mean 'forward'"),
        (
            lambda: per_example_gradients(lambda w, x: (x * w).mean(), POINT, (torch.zeros(2, 4), torch.zeros(3, 4))),
            r"per_example_gradients: the parts of the batch have \[2, 3\] rows",
        ),
        (
            lambda: per_example_gradients(
                lambda m, x: m(x).mean(), nn.Sequential(nn.BatchNorm1d(4)), torch.zeros(3, 4)
            ),
            "batch norm '0' mixes the examples",
        ),
    ],
)
def test_bad_input_gets_a_sentence(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()
