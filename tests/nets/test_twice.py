"""Convolutions that are differentiated twice, beside PyTorch's own."""

import pytest
import torch
from torch import nn
from torch.func import hessian, vmap
from torch.nn import functional as F

from benthic.nets.twice import Conv2d, conv2d

SHAPES = [((1, 1), (1, 1), 3), ((2, 2), (1, 1), 4), ((2, 1), (0, 2), 3), ((1, 1), (0, 0), 1)]


def parts(kernel: int) -> list[torch.Tensor]:
    source = torch.Generator().manual_seed(0)
    shapes = (3, 2, 7, 6), (4, 2, kernel, kernel), (4,)
    return [torch.randn(shape, dtype=torch.float64, generator=source).requires_grad_() for shape in shapes]


@pytest.mark.parametrize(("stride", "padding", "kernel"), SHAPES)
def test_derivatives_of_both_orders_and_directions(stride, padding, kernel):
    given = parts(kernel)

    def ours(x, weight, bias):
        return conv2d(x, weight, bias, stride, padding)

    torch.testing.assert_close(ours(*given), F.conv2d(*given, stride, padding))
    assert torch.autograd.gradcheck(ours, given, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(ours, given)


def test_gradients_of_a_penalty_are_those_of_torch():
    x, weight, bias = parts(3)
    found = []
    for conv in (lambda: conv2d(x, weight, bias, (1, 1), (1, 1)), lambda: F.conv2d(x, weight, bias, 1, 1)):
        (slope,) = torch.autograd.grad(F.silu(conv()).sum(), x, create_graph=True)
        found.append(torch.autograd.grad(slope.square().sum(), (x, weight, bias)))
    for mine, theirs in zip(*found, strict=True):
        torch.testing.assert_close(mine, theirs)


def test_it_goes_through_transforms_of_functions():
    x, weight, bias = (part.detach() for part in parts(3))

    def energy(conv):
        return lambda z: F.silu(conv(z[None])).square().sum()

    ours, theirs = (
        vmap(hessian(energy(conv)))(x)
        for conv in (
            lambda z: conv2d(z, weight, bias, (1, 1), (1, 1)),
            lambda z: F.conv2d(z, weight, bias, 1, 1),
        )
    )
    torch.testing.assert_close(ours, theirs)


def test_half_precision_is_that_of_autocast():
    x, weight, bias = (part.detach().float().requires_grad_() for part in parts(3))
    with torch.autocast("cpu", torch.bfloat16):
        found = conv2d(x, weight, bias, (1, 1), (1, 1))
        (slope,) = torch.autograd.grad(found.float().square().sum(), x, create_graph=True)
    slope.square().sum().backward()
    assert found.dtype == torch.bfloat16 and slope.dtype == weight.grad.dtype == torch.float32


def test_the_layer_has_the_weights_of_torch():
    torch.manual_seed(0)
    ours, theirs = Conv2d(2, 4, 3, padding=1), nn.Conv2d(2, 4, 3, padding=1)
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(2, 2, 5, 5)
    assert torch.equal(ours(x), theirs(x))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_gradients_on_a_gpu_are_those_of_a_cpu():
    torch.manual_seed(0)
    layer, x, found = Conv2d(2, 4, 3, padding=1).double(), torch.randn(2, 2, 9, 9, dtype=torch.float64), []
    for place in ("cpu", "cuda"):
        layer, rows = layer.to(place), x.to(place).requires_grad_()
        (slope,) = torch.autograd.grad(F.silu(layer(rows)).sum(), rows, create_graph=True)
        found.append([part.cpu() for part in torch.autograd.grad(slope.square().sum(), [rows, *layer.parameters()])])
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b)
