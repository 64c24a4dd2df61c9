"""Nothing that works in tiles makes a tensor larger than a tile or the data, forward or backward."""

from __future__ import annotations

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from benthic.kernels import (
    RBF,
    Laplace,
    Linear,
    Matern,
    Periodic,
    RationalQuadratic,
    White,
    mmd,
    mmd_squared,
    mmd_test,
    nearest,
)


class Largest(TorchDispatchMode):
    """Remembers how many numbers the largest tensor made inside held."""

    def __init__(self):
        super().__init__()
        self.size = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        sizes = [
            leaf.untyped_storage().nbytes() // leaf.element_size()
            for leaf in tree_leaves(out)
            if isinstance(leaf, torch.Tensor)
        ]
        self.size = max([self.size, *sizes])
        return out


def points(n, d, seed=0):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed))


KERNELS = [
    RBF(1.5),
    Matern(0.5),
    Matern(2.5),
    RationalQuadratic(),
    Periodic(),
    Laplace(),
    Linear(),
    2.0 * RBF() + White(0.1) * Linear(),
]


@pytest.mark.parametrize("d", [3, 20])
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_products_and_their_gradients_hold_a_tile(kernel, d):
    n, tile = 600, 20_000
    X, Y, V = points(n, d).requires_grad_(), points(n, d, 1).requires_grad_(), points(n, 2, 2).requires_grad_()
    logs = {name: log.clone().requires_grad_() for name, log in kernel.parameters().items()}
    with Largest() as seen:
        out = kernel.with_parameters(logs).matmul(X, Y, V, elements=tile)
        torch.autograd.grad(out.sum(), [X, Y, V, *logs.values()], allow_unused=True)
    # Data has 600 * 20 numbers, circles twice as many, marks of near pairs two indices an entry; the matrix 360 000.
    assert seen.size <= max(2 * tile, 2 * n * d) < n * n / 8


def test_discrepancies_tests_and_neighbors_hold_a_tile():
    X, Y, tile = points(500, 8).requires_grad_(), points(500, 8, 1), 10_000
    calls = [
        lambda: mmd_squared(X, Y, RBF(3.0), elements=tile).backward(),
        lambda: mmd(X.detach(), Y, RBF(3.0), elements=tile),
        lambda: mmd_test(X.detach(), Y, RBF(3.0), 20, seed=0, elements=tile),
        lambda: nearest(X, Y, 3, elements=tile),
    ]
    for call in calls:
        with Largest() as seen:
            call()
        assert seen.size <= max(2 * tile, 22 * 1000)
