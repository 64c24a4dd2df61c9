"""Kernels as functions of one matrix product, for training and for prediction, on any device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from benthic.kernels.kernel import Kernel
from benthic.kernels.points import blocks
from benthic.kernels.products import squared_matrix
from benthic.svm import fused

# Largest error of an exponent that a plain product of augmented rows may make.
_EXPONENT_ERROR = {torch.float32: 4e-6, torch.float64: 1e-12}
# Entries of a tile: what a processor's cache holds; on an accelerator, what hides the cost of starting it.
TILE = {"cpu": 1 << 20, "cuda": 1 << 24}


@dataclass(frozen=True)
class Similarity:
    r"""One of the named kernels.

    .. math:: x^T y, \quad e^{-\gamma \|x - y\|^2}, \quad (\gamma x^T y + c)^p, \quad \tanh(\gamma x^T y + c)

    name: ``"linear"``, ``"rbf"``, ``"poly"`` or ``"sigmoid"``. gamma, coef0, degree: :math:`\gamma`, c and p.
    The last of the four is not positive definite for every setting.

    >>> Similarity("rbf", 0.5).matrix(torch.zeros(1, 1), torch.ones(1, 1))
    tensor([[0.6065]])
    """

    name: str
    gamma: float = 1.0
    coef0: float = 0.0
    degree: int = 3

    def sides(self, X: Tensor, Y: Tensor, center: Tensor) -> tuple[Tensor, Tensor]:
        """Rows (n, k) and (m, k) whose products are what :meth:`finish` needs."""
        if self.name == "linear":
            return X, Y
        if self.name != "rbf":
            return _beside(self.gamma * X, self.coef0), _beside(Y, 1.0)
        X, Y = X - center, Y - center
        x2, y2 = self.gamma * X.square().sum(1, keepdim=True), self.gamma * Y.square().sum(1, keepdim=True)
        left = torch.cat([2 * self.gamma * X, -x2, -torch.ones_like(x2)], 1)
        return left, torch.cat([Y, torch.ones_like(y2), y2], 1)

    def finish(self, product: Tensor) -> Tensor:
        """The kernel from the products; the argument is overwritten."""
        if self.name == "rbf":
            return product.exp_()
        if self.name == "poly":
            return product.pow_(self.degree)
        return product.tanh_() if self.name == "sigmoid" else product

    def roomy(self, *norms: Tensor, dtype: torch.dtype) -> bool:
        """Whether products of rows with these squared norms are accurate enough in a floating type."""
        if self.name != "rbf":
            return True
        largest = self.gamma * max(float(part.max()) for part in norms if len(part))
        return 4 * torch.finfo(dtype).eps * largest < _EXPONENT_ERROR[dtype]

    def matrix(self, X: Tensor, Y: Tensor) -> Tensor:
        """All values between rows (n, d) and rows (m, d), with correct digits for near pairs."""
        if self.name == "rbf":
            return squared_matrix(X, Y).mul_(-self.gamma).exp_()
        left, right = self.sides(X, Y, X[:0])
        return self.finish(left @ right.T)

    def diagonal(self, X: Tensor) -> Tensor:
        """k(x, x) for every row."""
        if self.name == "rbf":
            return torch.ones(len(X), dtype=X.dtype, device=X.device)
        return self.finish((X * X).sum(1) * (1.0 if self.name == "linear" else self.gamma) + self._shift())

    def _shift(self) -> float:
        return 0.0 if self.name == "linear" else self.coef0


@dataclass(frozen=True)
class Custom:
    """A kernel object of ``benthic.kernels`` seen as a similarity of rows."""

    kernel: Kernel

    def matrix(self, X: Tensor, Y: Tensor) -> Tensor:
        """All values between different samples, so without noise."""
        return self.kernel(X, Y).detach()

    def diagonal(self, X: Tensor) -> Tensor:
        """k(x, x) for every row, noise included."""
        return self.kernel.diagonal(X).detach()


def expand(similarity: Any, X: Tensor, vectors: Tensor, weights: Tensor, elements: int | None = None) -> Tensor:
    """Kernel expansions at rows: the matrix between X (n, d) and vectors (m, d), times weights (m, c), in tiles.

    A tile is one product, one function in place and one more product. The exponential kernel in single precision on a
    CUDA device is not stored at all (see :mod:`benthic.svm.fused`). elements: entries of a tile, if there are to be
    tiles. Returns (n, c).

    >>> expand(Similarity("linear"), torch.eye(2), torch.tensor([[1.0, 2.0]]), torch.ones(1, 1))
    tensor([[1.],
            [2.]])
    """
    out = torch.zeros(len(X), weights.shape[1], dtype=X.dtype, device=X.device)
    if not len(vectors):
        return out
    if isinstance(similarity, Custom):
        return similarity.kernel.matmul(X, vectors, weights).detach()
    if similarity.name == "linear":
        return X @ (vectors.T @ weights)
    center = vectors.mean(0)
    if not similarity.roomy((X - center).square().sum(1), (vectors - center).square().sum(1), dtype=X.dtype):
        return _by_tiles(lambda rows, columns: similarity.matrix(X[rows], vectors[columns]), out, weights)
    if elements is None and similarity.name == "rbf" and fused.available(X, weights.shape[1]):
        return fused.expand(similarity.gamma, X, vectors, weights)
    left, right = (four(side) for side in similarity.sides(X, vectors, center))
    return _by_products(similarity, left, right, weights, out, elements or TILE.get(X.device.type, TILE["cpu"]))


def _by_products(
    similarity: Similarity, left: Tensor, right: Tensor, weights: Tensor, out: Tensor, elements: int
) -> Tensor:
    width = max(1, min(len(right), elements))
    height = max(1, min(len(left), elements // width))
    scratch = torch.empty(height * width, dtype=left.dtype, device=left.device)
    right = right.T.contiguous()
    for top in range(0, len(left), height):
        part = left[top : top + height]
        target = out[top : top + height]
        for begin in range(0, right.shape[1], width):
            columns = right[:, begin : begin + width]
            tile = scratch[: len(part) * columns.shape[1]].view(len(part), -1)
            similarity.finish(torch.mm(part, columns, out=tile))
            if weights.shape[1] == 1:
                target[:, 0].addmv_(tile, weights[begin : begin + width, 0])
            else:
                target.addmm_(tile, weights[begin : begin + width])
    return out


def four(side: Tensor) -> Tensor:
    """Zero columns up to a multiple of four, so that rows begin where vector loads can."""
    return torch.nn.functional.pad(side, (0, -side.shape[1] % 4))


def _by_tiles(matrix: Callable[[slice, slice], Tensor], out: Tensor, weights: Tensor) -> Tensor:
    for rows, columns in blocks(len(out), len(weights), None, out.device):
        out[rows].addmm_(matrix(rows, columns), weights[columns])
    return out


def _beside(X: Tensor, value: float) -> Tensor:
    return torch.cat([X, X.new_full((len(X), 1), value)], 1)
