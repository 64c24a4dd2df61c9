"""Kernels of dot products, constants and noise, and what kernels with length scales share."""

from __future__ import annotations

import torch
from torch import Tensor

from benthic.base.settings import whole
from benthic.kernels.kernel import Kernel, positive


class Scaled(Kernel):
    """A kernel with length scales: one for all columns, or one for each (automatic relevance determination)."""

    lengthscale: Tensor
    names = ("lengthscale",)

    def _columns(self) -> int | None:
        return len(self.lengthscale) if self.lengthscale.ndim else None

    def _coordinates(self, X: Tensor) -> Tensor:
        return X / self.lengthscale.to(X)

    def _centered(self, X: Tensor, Y: Tensor) -> tuple[Tensor, Tensor]:
        """Coordinates of both after a shift towards zero, where scaling rounds least; for stationary kernels."""
        center = X.detach().mean(-2, keepdim=True)
        return self._coordinates(X - center), self._coordinates(Y - center)


class Linear(Scaled):
    r"""Straight lines through the origin.

    .. math:: k(x, y) = \sum_k \frac{x_k y_k}{\ell_k^2}

    lengthscale: a number, or (d,) one for each column; ``Linear() + Constant(c)`` lifts the lines off the origin.

    >>> Linear()([[1.0, 2.0]], [[3.0, 4.0]])
    tensor([[11.]], dtype=torch.float64)
    """

    def __init__(self, lengthscale: float | Tensor = 1.0) -> None:
        self._store(lengthscale=positive("Linear", "lengthscale", lengthscale))

    def _matrix(self, X: Tensor, Y: Tensor, shift: int | None, fast: bool = False) -> Tensor:
        return self._coordinates(X) @ self._coordinates(Y).mT

    def _paired(self, X: Tensor, Y: Tensor, same: bool) -> Tensor:
        return (self._coordinates(X) * self._coordinates(Y)).sum(-1)


class LinearNetwork(Kernel):
    r"""The outputs of a linear network with independent random weights of variance :math:`\sigma^2 / d`.

    .. math:: k(x, y) = \frac{\sigma^2}{d} \sum_{k=1}^d x_k y_k

    variance: :math:`\sigma^2`; d is the number of columns, so that outputs keep their size in any dimension.

    >>> LinearNetwork(3.0)([[1.0, 2.0]], [[3.0, 4.0]])
    tensor([[16.5000]], dtype=torch.float64)
    """

    variance: Tensor
    names = ("variance",)

    def __init__(self, variance: float | Tensor = 1.0) -> None:
        self._store(variance=positive("LinearNetwork", "variance", variance, vector=False))

    def _matrix(self, X: Tensor, Y: Tensor, shift: int | None, fast: bool = False) -> Tensor:
        return X @ Y.mT * (self.variance.to(X) / X.shape[-1])

    def _paired(self, X: Tensor, Y: Tensor, same: bool) -> Tensor:
        return (X * Y).sum(-1) * (self.variance.to(X) / X.shape[-1])


class Polynomial(Scaled):
    r"""Polynomials up to a degree.

    .. math:: k(x, y) = \Bigl(c + \sum_k \frac{x_k y_k}{\ell_k^2}\Bigr)^p

    degree: p, a whole number. lengthscale: a number, or (d,) one for each column. offset: c, zero or more; zero is
    fixed and leaves only terms of the full degree.

    >>> Polynomial(2)([[1.0, 2.0]], [[3.0, 4.0]])
    tensor([[144.]], dtype=torch.float64)
    """

    offset: Tensor

    def __init__(self, degree: int = 2, lengthscale: float | Tensor = 1.0, offset: float | Tensor = 1.0) -> None:
        whole("Polynomial: degree", degree)
        homogeneous = not isinstance(offset, Tensor) and offset == 0
        self._store(
            degree=degree,
            lengthscale=positive("Polynomial", "lengthscale", lengthscale),
            offset=torch.zeros((), dtype=torch.float64)
            if homogeneous
            else positive("Polynomial", "offset", offset, vector=False),
            names=("lengthscale",) if homogeneous else ("lengthscale", "offset"),
        )

    def _matrix(self, X: Tensor, Y: Tensor, shift: int | None, fast: bool = False) -> Tensor:
        return (self._coordinates(X) @ self._coordinates(Y).mT + self.offset.to(X)) ** self.degree

    def _paired(self, X: Tensor, Y: Tensor, same: bool) -> Tensor:
        return ((self._coordinates(X) * self._coordinates(Y)).sum(-1) + self.offset.to(X)) ** self.degree

    def __repr__(self) -> str:
        """The kernel as one would write it."""
        return super().__repr__().replace("(", f"(degree={self.degree}, ", 1)


class Constant(Kernel):
    r"""The same value for every pair: :math:`k(x, y) = c`. A number times a kernel is this times the kernel.

    >>> Constant(2.0)([[0.0]], [[1.0], [5.0]])
    tensor([[2., 2.]], dtype=torch.float64)
    """

    variance: Tensor
    names = ("variance",)

    def __init__(self, variance: float | Tensor = 1.0) -> None:
        self._store(variance=positive("Constant", "variance", variance, vector=False))

    def _matrix(self, X: Tensor, Y: Tensor, shift: int | None, fast: bool = False) -> Tensor:
        return self.variance.to(X).expand(*_batch(X, Y), X.shape[-2], Y.shape[-2])

    def _paired(self, X: Tensor, Y: Tensor, same: bool) -> Tensor:
        return self.variance.to(X).expand(*_batch(X, Y), X.shape[-2])


class White(Kernel):
    r"""Independent noise on every sample: :math:`k(x_i, x_j) = v` for i = j and 0 otherwise.

    Two samples are different even where their values agree, so ``White()(X, Y)`` is zero and ``White()(X)`` is not.

    >>> White(0.1)([[0.0], [0.0]])
    tensor([[0.1000, 0.0000],
            [0.0000, 0.1000]], dtype=torch.float64)
    """

    variance: Tensor
    names = ("variance",)

    def __init__(self, variance: float | Tensor = 1.0) -> None:
        self._store(variance=positive("White", "variance", variance, vector=False))

    def _matrix(self, X: Tensor, Y: Tensor, shift: int | None, fast: bool = False) -> Tensor:
        n, m = X.shape[-2], Y.shape[-2]
        same = torch.zeros(n, m, dtype=X.dtype, device=X.device)
        if shift is not None and -n < shift < m:
            same.diagonal(shift).fill_(1.0)
        return (same * self.variance.to(X)).expand(*_batch(X, Y), n, m)

    def _paired(self, X: Tensor, Y: Tensor, same: bool) -> Tensor:
        return (self.variance.to(X) * float(same)).expand(*_batch(X, Y), X.shape[-2])


def _batch(X: Tensor, Y: Tensor) -> torch.Size:
    return torch.broadcast_shapes(X.shape[:-2], Y.shape[:-2])
