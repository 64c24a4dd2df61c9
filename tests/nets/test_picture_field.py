"""The convolutional field of pictures: its products and its divergence against automatic differentiation."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from benthic.calculus import divergence
from benthic.nets.picture_field import PictureField

pytestmark = pytest.mark.spec("E-04")
EVENTS = [(1, 4, 4), (2, 5, 3), (3, 2, 2)]  # squeezed, of odd sides, too small to squeeze


def strong_field(event: tuple[int, int, int]) -> PictureField:
    """A field that moves pictures by about their own size, in float64."""
    torch.manual_seed(0)
    field = PictureField(event, 4).double()
    torch.nn.init.normal_(field.last.weight, std=0.3)
    torch.nn.init.normal_(field.places)
    return field


def times() -> list[torch.Tensor]:
    """One time for all rows, and one for each."""
    return [torch.tensor(0.3, dtype=torch.float64), torch.rand(5, 1, dtype=torch.float64)]


@pytest.mark.parametrize("event", EVENTS)
def test_the_divergence_is_the_trace_of_the_jacobian(event: Any) -> None:
    field = strong_field(event)
    x = torch.randn(5, field.width, dtype=torch.float64)
    for t in times():
        value, trace = field.with_divergence(t, x)
        torch.testing.assert_close(value, field(t, x))
        torch.testing.assert_close(trace, divergence(lambda z, t=t: field(t, z), x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("event", EVENTS)
def test_products_with_the_jacobian_agree_with_autograd(event: Any) -> None:
    field = strong_field(event)
    x, v = (torch.randn(*shape, field.width, dtype=torch.float64) for shape in ((5,), (3, 5)))
    for t in times():
        products = field.with_products(t, x, v)[1]
        for one, product in zip(v, products, strict=True):
            expected = torch.func.jvp(lambda z, t=t: field(t, z), (x,), (one,))[1]
            torch.testing.assert_close(product, expected, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(field.with_products(t, x, v[:1])[1], products[:1])


def test_products_have_gradients() -> None:
    """What training differentiates, by finite differences."""
    field = strong_field((1, 4, 4))
    x, v = torch.randn(2, 16, dtype=torch.float64, requires_grad=True), torch.randn(1, 2, 16, dtype=torch.float64)
    t = torch.tensor(0.4, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda x: field.with_products(t, x, v), (x,))


def test_a_row_does_not_depend_on_the_others_and_times_differ() -> None:
    field = strong_field((1, 4, 4))
    x, t = torch.randn(5, 16, dtype=torch.float64), torch.rand(5, 1, dtype=torch.float64)
    alone = torch.cat([field(t[i, 0], x[i : i + 1]) for i in range(5)])
    torch.testing.assert_close(field(t, x), alone, rtol=1e-12, atol=1e-12)
    assert not torch.allclose(field(t[:1], x), field(t[1:2], x))


def test_a_new_field_is_zero() -> None:
    assert not PictureField((1, 8, 8), 4)(torch.tensor(0.5), torch.randn(3, 64)).any()
