"""Low-rank approximation: the best one by singular values, and a nearly best one from a few products."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from benthic.base.errors import InvalidInput
from benthic.base.seeds import generator, seed_of
from benthic.base.settings import is_whole, whole
from benthic.linalg.checks import matrix
from benthic.linalg.structures import Structure


class Svd(NamedTuple):
    """Singular values with their vectors: A is near U @ diag(S) @ Vh.

    U: (..., m, k). S: (..., k), largest first. Vh: (..., k, n).
    """

    U: torch.Tensor
    S: torch.Tensor
    Vh: torch.Tensor

    def dense(self) -> torch.Tensor:
        """The matrix of rank k that the factors stand for, (..., m, n)."""
        return self.U * self.S.unsqueeze(-2) @ self.Vh

    def truncated(self, k: int) -> Svd:
        """The first k singular values with their vectors."""
        return Svd(self.U[..., :k], self.S[..., :k], self.Vh[..., :k, :])


@dataclass(frozen=True)
class MatrixFree:
    """A matrix known only by its products.

    shape: (m, n). matmul: from (n, k) to (m, k), the product with the matrix. rmatmul: from (m, k) to (n, k), the
    product with its transpose. dtype, device: of what the products take and give.
    """

    shape: tuple[int, int]
    matmul: Callable[[torch.Tensor], torch.Tensor]
    rmatmul: Callable[[torch.Tensor], torch.Tensor]
    dtype: torch.dtype = torch.float64
    device: torch.device | str = "cpu"


def _rank(k: Any, shape: tuple[int, ...], where: str) -> int:
    if not is_whole(k, 1, min(shape[-2:])):
        m, n = shape[-2:]
        raise InvalidInput(f"{where}: k is {k!r}; for a {m} x {n} matrix it is a whole number from 1 to {min(m, n)}")
    return int(k)


def _count(value: Any, where: str, name: str) -> int:
    return int(whole(f"{where}: {name}", value, 0))


def fixed_signs(svd: Svd) -> Svd:
    """The same decomposition with the entry of largest size in every column of U positive."""
    largest = svd.U.abs().argmax(-2, keepdim=True)
    signs = torch.sgn(torch.gather(svd.U, -2, largest)).detach()
    return Svd(svd.U * signs.conj(), svd.S, svd.Vh * signs.mT)


def truncated_svd(A: Any, k: int) -> Svd:
    r"""The best approximation of rank k, in the Frobenius norm and in the 2-norm.

    .. math:: A_k = \sum_{i \le k} \sigma_i u_i v_i^\top, \quad \|A - A_k\|_F^2 = \sum_{i > k} \sigma_i^2

    Eckart & Young, 1936. Signs are fixed: the entry of largest size in every u is positive.

    A: (..., m, n). k: from 1 to min(m, n). Returns an :class:`Svd`; gradients need distinct singular values.

    >>> truncated_svd([[3.0, 0.0], [0.0, 2.0]], 1).dense()
    tensor([[3., 0.],
            [0., 0.]], dtype=torch.float64)
    """
    A = matrix(A, "truncated_svd")
    k = _rank(k, tuple(A.shape), "truncated_svd")
    return fixed_signs(Svd(*torch.linalg.svd(A, full_matrices=False)).truncated(k))


def randomized_svd(A: Any, k: int, oversampling: int = 10, power_iterations: int = 2, seed: int | None = None) -> Svd:
    r"""A nearly best approximation of rank k from a random sketch of the range.

    .. math::
        Y = (A A^\top)^q A \Omega, \quad Q = \operatorname{orth}(Y), \quad
        \mathbb{E} \|A - Q Q^\top A\|_F \le \Bigl(1 + \frac{k}{p - 1}\Bigr)^{1/2}
        \Bigl(\sum_{j > k} \sigma_j^2\Bigr)^{1/2}

    Halko, Martinsson & Tropp, 2011, algorithms 4.4 and 5.1; the bound is their theorem 10.5, for q = 0. Costs
    2 q + 2 products with k + p columns each, so A may be known only by its products.

    A: (..., m, n), a :class:`Structure`, or a :class:`MatrixFree`. k: from 1 to min(m, n). oversampling: p, further
    columns of the sketch. power_iterations: q; more for slowly falling singular values. seed: of the sketch.
    Returns an :class:`Svd` with signs as in :func:`truncated_svd`.

    >>> randomized_svd([[3.0, 0.0], [0.0, 2.0]], 1, seed=0).S
    tensor([3.0000], dtype=torch.float64)
    """
    shape, matmul, rmatmul, dtype, device = _products(A)
    k = _rank(k, shape, "randomized_svd")
    sketch = min(k + _count(oversampling, "randomized_svd", "oversampling"), *shape[-2:])
    power = _count(power_iterations, "randomized_svd", "power_iterations")
    known = seed_of(None) if seed is None else _count(seed, "randomized_svd", "seed")
    source = generator(known, "randomized_svd", device=device)
    omega = torch.randn(*shape[:-2], shape[-1], sketch, generator=source, dtype=dtype, device=device)
    Q = _orthonormal(matmul(omega), shape, "matmul")
    for _ in range(power):  # an orthonormal basis at every half step, or small singular values drown
        Q = _orthonormal(rmatmul(Q), (*shape[:-2], shape[-1], shape[-2]), "rmatmul")
        Q = _orthonormal(matmul(Q), shape, "matmul")
    U, S, Vh = torch.linalg.svd(rmatmul(Q).mT, full_matrices=False)
    return fixed_signs(Svd(Q @ U, S, Vh).truncated(k))


def _orthonormal(Y: torch.Tensor, shape: tuple[int, ...], name: str) -> torch.Tensor:
    if Y.shape[-2] != shape[-2] or Y.ndim < 2:
        raise InvalidInput(
            f"randomized_svd: {name} gave shape {tuple(Y.shape)}; its rows must be {shape[-2]}, one column a column"
        )
    if not torch.isfinite(Y.detach().sum()):
        raise InvalidInput(f"randomized_svd: {name} gave values that are not finite")
    return torch.linalg.qr(Y).Q


def _products(A: Any) -> tuple[tuple[int, ...], Any, Any, torch.dtype, torch.device | str]:
    """Shape, the product with the matrix and with its transpose, type and device."""
    if isinstance(A, MatrixFree):
        if len(A.shape) != 2 or min(A.shape) < 1:
            raise InvalidInput(f"randomized_svd: the shape of A is {A.shape}; give (m, n), both at least 1")
        return tuple(A.shape), A.matmul, A.rmatmul, A.dtype, A.device
    if isinstance(A, Structure):
        return A.shape, A.matmul, A.transpose().matmul, A.data.dtype, A.data.device
    A = matrix(A, "randomized_svd")
    return tuple(A.shape), lambda x: A @ x, lambda x: A.mT @ x, A.dtype, A.device
