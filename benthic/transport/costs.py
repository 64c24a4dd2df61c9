"""Costs as rows on demand: a stored matrix, or two point clouds whose matrix is never stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from benthic.transport import checks

Block = Callable[..., Tensor]

# Entries of one block of rows: on a CPU it should stay in the cache, on a GPU fill the device. What is stored
# anyway is worked on in larger pieces: fewer calls, each of which waits for all threads.
_ENTRIES = {"cpu": 1 << 20, "cuda": 1 << 26}
_STORED = 1 << 22


def entries(device: torch.device, stored: bool = False) -> int:
    """How many matrix entries are worked on at a time."""
    limit = _ENTRIES.get(device.type, 1 << 22)
    return max(limit, _STORED) if stored else limit


def row_blocks(rows: int, columns: int, limit: int) -> Iterator[slice]:
    """Slices of rows with at most ``limit`` entries each, and at least one row.

    >>> [(part.start, part.stop) for part in row_blocks(5, 10, 25)]
    [(0, 2), (2, 4), (4, 5)]
    """
    size = max(1, limit // max(columns, 1))
    for start in range(0, rows, size):
        yield slice(start, min(start + size, rows))


class Matrix:
    """A stored cost (B, n, m)."""

    def __init__(self, values: Tensor) -> None:
        self.values = values

    @property
    def leaves(self) -> tuple[Tensor, ...]:
        """The tensors that gradients go to."""
        return (self.values,)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(B, n, m)."""
        return self.values.shape

    def rebuilt(self, *leaves: Tensor) -> Matrix:
        """The same kind of cost from other tensors."""
        return Matrix(*leaves)

    def rows(self, part: slice) -> Tensor:
        """(B, r, m) cost of some rows."""
        return self.values[..., part, :]

    def logits(self, f: Tensor, g: Tensor, epsilon: float) -> Block:
        """A function from rows to (f_i + g_j - C_ij) / epsilon, (B, r, m), fresh or written to ``out``."""
        f, g = f / epsilon, (g / epsilon).unsqueeze(-2)

        def block(part: slice, out: Tensor | None = None) -> Tensor:
            return torch.sub(g, self.values[:, part], alpha=1 / epsilon, out=out).add_(f[:, part, None])

        return block

    def spread(self) -> float:
        """Largest minus smallest cost."""
        low, high = torch.aminmax(self.values)
        return float(high - low)


class PointCloud:
    r"""The cost between two point clouds, made by blocks of rows whenever it is needed and never stored.

    .. math:: C_{ij} = \lVert x_i - y_j \rVert_2^p

    X: (..., n, d). Y: (..., m, d). Memory is O(n + m) and a block of fixed size. For p = 2 a block is one
    matrix product, so a distance below about 1e-7 (float32) or 1e-15 (float64) of the largest is lost in rounding.

    >>> PointCloud([[0.0], [1.0]], [[0.0], [3.0]]).matrix()
    tensor([[0., 9.],
            [1., 4.]], dtype=torch.float64)
    """

    def __init__(self, X: Any, Y: Any, p: float = 2) -> None:
        self.X, self.Y = checks.clouds("PointCloud", X, Y)
        self.p = checks.positive("PointCloud", "p", p)

    @property
    def leaves(self) -> tuple[Tensor, ...]:
        """The tensors that gradients go to."""
        return self.X, self.Y

    @property
    def shape(self) -> tuple[int, ...]:
        """(..., n, m)."""
        batch = torch.broadcast_shapes(self.X.shape[:-2], self.Y.shape[:-2])
        return (*batch, self.X.shape[-2], self.Y.shape[-2])

    def rebuilt(self, *leaves: Tensor) -> PointCloud:
        """The same kind of cost between other points."""
        made = PointCloud.__new__(PointCloud)
        (made.X, made.Y), made.p = leaves, self.p
        return made

    def rows(self, part: slice) -> Tensor:
        """(..., r, m) cost of some rows, differentiable in the points."""
        X = self.X[..., part, :]
        if self.p == 2:
            return (
                (X.unsqueeze(-2) - self.Y.unsqueeze(-3)).square().sum(-1) if X.shape[-1] == 1 else _squared(X, self.Y)
            )
        return torch.cdist(X, self.Y, compute_mode="donot_use_mm_for_euclid_dist").pow(self.p)

    def matrix(self) -> Tensor:
        """The whole cost (..., n, m), if it is wanted after all."""
        return self.rows(slice(None))

    def logits(self, f: Tensor, g: Tensor, epsilon: float) -> Block:
        """A function from rows to (f_i + g_j - C_ij) / epsilon, (B, r, m), fresh or written to ``out``."""
        if self.p != 2:
            return lambda part, out=None: Matrix(self.rows(part)).logits(f[:, part], g, epsilon)(slice(None), out)
        # one product makes the block: [2x, f - |x|^2, 1] . [y, 1, g - |y|^2] / epsilon
        center = self.Y.mean(-2, keepdim=True)
        X, Y = self.X - center, self.Y - center
        f, g = (f - X.square().sum(-1)).unsqueeze(-1), (g - Y.square().sum(-1)).unsqueeze(-1)
        left = torch.cat([2 * X, f, torch.ones_like(f)], -1) / epsilon  # (B, n, d + 2)
        right = torch.cat([Y, torch.ones_like(g), g], -1).transpose(-1, -2)  # (B, d + 2, m)
        return lambda part, out=None: torch.matmul(left[:, part], right, out=out)

    def spread(self) -> float:
        """A bound on the largest cost: the diagonal of the box around all points, to the power p."""
        low = torch.minimum(self.X.amin(-2), self.Y.amin(-2))
        high = torch.maximum(self.X.amax(-2), self.Y.amax(-2))
        return float((high - low).square().sum(-1).sqrt().max() ** self.p)


def _squared(X: Tensor, Y: Tensor) -> Tensor:
    center = Y.detach().mean(-2, keepdim=True)
    X, Y = X - center, Y - center
    squares = X.square().sum(-1, keepdim=True) + Y.square().sum(-1).unsqueeze(-2)
    return (squares - 2 * X @ Y.transpose(-1, -2)).clamp_min(0)


Cost = Matrix | PointCloud
