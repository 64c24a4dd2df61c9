"""Cholesky factors of covariance matrices: in place, with a little added to the diagonal where rounding asks for it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput

# What is added to the diagonal in turn, as shares of its mean, until the factorization succeeds.
JITTERS = (0.0, 1e-12, 1e-10, 1e-8, 1e-6)
_BASE = 128  # size below which triangular matrices are inverted directly
_BLOCK = 512  # side of the blocks in which a triangle is mirrored


class Factor:
    r"""The Cholesky factor of a symmetric positive definite matrix, which it overwrites.

    .. math:: K + \epsilon I = L L^T

    K: (n, n), float64; taken over and destroyed. jitter: the ε that was needed, 0 nearly always.
    On a processor LAPACK works in place; on an accelerator the inverse is made of matrix products.
    """

    def __init__(self, K: Tensor, where: str = "Factor") -> None:
        self.n, self.jitter = len(K), 0.0
        diagonal = K.diagonal().clone()
        scale = float(diagonal.mean())
        for share in JITTERS:
            self.jitter = share * scale
            if self._attempt(K, diagonal + self.jitter):
                return
        raise InvalidInput(f"{where}: {_diagnosis(K, diagonal)}")

    def _attempt(self, K: Tensor, diagonal: Tensor) -> bool:
        if not bool(torch.isfinite(diagonal).all()):
            return False
        K.diagonal().copy_(diagonal)
        if K.device.type != "cpu":
            self._L, info = torch.linalg.cholesky_ex(K)
            return not bool(info)
        from scipy.linalg.lapack import dpotrf

        # The same memory read by columns: the factor goes to the triangle above the diagonal of K, transposed.
        self._L, info = dpotrf(K.numpy().T, lower=1, overwrite_a=1, clean=0)
        if info:
            _mirror(K, upper=False)
        return not info

    @property
    def lower(self) -> Tensor:
        """L, (n, n)."""
        return torch.from_numpy(self._L).tril() if self._on_cpu else self._L

    @property
    def _on_cpu(self) -> bool:
        return not isinstance(self._L, Tensor)

    def log_determinant(self) -> float:
        """The logarithm of the determinant."""
        diagonal = torch.from_numpy(self._L).diagonal() if self._on_cpu else self._L.diagonal()
        return 2.0 * float(diagonal.log().sum())

    def solve(self, B: Tensor) -> Tensor:
        """The inverse times B, (n, k)."""
        if not self._on_cpu:
            return torch.cholesky_solve(B, self._L)
        from scipy.linalg.lapack import dpotrs

        return torch.from_numpy(dpotrs(self._L, B.numpy(), lower=1)[0])

    def inverse_(self) -> Tensor:
        """The inverse, (n, n), written over the factor, which is of no use afterwards."""
        if not self._on_cpu:
            return inverse_of_lower_(self._L)
        from scipy.linalg.lapack import dpotri

        found, _ = dpotri(self._L, lower=1, overwrite_c=1)
        return _mirror(torch.from_numpy(found.T), upper=True)


def inverse_of_lower_(L: Tensor) -> Tensor:
    r""":math:`(L L^T)^{-1}` over the memory of L, by matrix products of halves."""
    _invert_triangle(L)
    _square_triangle(L)
    return _mirror(L, upper=False)


def _invert_triangle(M: Tensor) -> None:
    n = len(M)
    if n <= _BASE:
        eye = torch.eye(n, dtype=M.dtype, device=M.device)
        M.copy_(torch.linalg.solve_triangular(M, eye, upper=False))
        return
    h = n // 2
    A, B, C = M[:h, :h], M[h:, :h], M[h:, h:]
    _invert_triangle(A)
    _invert_triangle(C)
    B.copy_(C.tril() @ (B @ A.tril())).neg_()


def _square_triangle(M: Tensor) -> None:
    """The transpose times the lower triangular matrix itself, lower half, in place."""
    n = len(M)
    if n <= _BASE:
        low = M.tril()
        M.copy_(low.T @ low)
        return
    h = n // 2
    A, B, C = M[:h, :h], M[h:, :h], M[h:, h:]
    _square_triangle(A)
    A.addmm_(B.T, B)
    B.copy_(C.tril().T @ B)
    _square_triangle(C)


def _mirror(A: Tensor, upper: bool) -> Tensor:
    """Copy one triangle, the upper or the lower, over the other, in blocks."""
    n = len(A)
    for top in range(0, n, _BLOCK):
        stop = min(top + _BLOCK, n)
        block = A[top:stop, top:stop]
        kept = block.triu() if upper else block.tril()
        block.copy_(kept + (kept.triu(1) if upper else kept.tril(-1)).T)
        for left in range(stop, n, _BLOCK):
            right = min(left + _BLOCK, n)
            high, low = A[top:stop, left:right], A[left:right, top:stop]
            (low if upper else high).copy_((high if upper else low).T)
    return A


def _diagnosis(K: Tensor, diagonal: Tensor) -> str:
    """Why a matrix has no Cholesky factor, in one sentence."""
    if not bool(torch.isfinite(diagonal).all()):
        return "the kernel matrix holds NaN or infinity; look at the kernel's parameters and the scale of X"
    n = min(len(K), 1000)
    _mirror(K, upper=False)
    K.diagonal().copy_(diagonal)
    values = torch.linalg.eigvalsh(K[:n, :n])
    least, largest = float(values[0]), float(values[-1])
    if least < -1e-6 * abs(largest):
        return (
            f"the kernel is not positive definite on these rows: its matrix has the eigenvalue {least:.3g} "
            f"(the largest is {largest:.3g}); use sums and products of the kernels in benthic.kernels, which are"
        )
    return (
        f"the kernel matrix is singular to rounding (eigenvalues from {least:.3g} to {largest:.3g}); raise alpha, add "
        "White() to the kernel, or remove repeated rows"
    )


def check_positive_definite(kernel: Any, X: Tensor, where: str) -> None:
    """Refuse a kernel that is not positive definite on some of the rows; those of the house are by construction."""
    if all(type(part).__module__.startswith("benthic.kernels.") for part in leaves(kernel)):
        return
    K = kernel(X[:500])
    K = 0.5 * (K + K.T)
    if float(torch.linalg.eigvalsh(K)[0]) < -1e-8 * float(K.abs().max()) * len(K):
        raise InvalidInput(f"{where}: {_diagnosis(K, K.diagonal().clone())}")


def leaves(kernel: Any) -> list[Any]:
    """The kernels that a sum or product is made of."""
    parts = getattr(kernel, "parts", None)
    return [kernel] if parts is None else [leaf for part in parts for leaf in leaves(part)]
