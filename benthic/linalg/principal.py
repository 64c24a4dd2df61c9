"""Principal square roots and logarithms of general matrices, batched and on any device, without Schur forms."""

from __future__ import annotations

import numpy as np
import torch

from benthic.base.errors import InvalidInput
from benthic.linalg.checks import SingularMatrix, element, epsilon


def roots(A: torch.Tensor, size: int, where: str = "matrix_sqrt") -> tuple[torch.Tensor, torch.Tensor]:
    """The principal square root of A and its inverse, (..., n, n) each.

    size: of the leading block that has all eigenvalues of A, less than n if A is a block matrix of a derivative.
    where: the caller's name for messages.
    """
    if not _spectrum_checked(A[..., :size, :size], where):
        root, inverse = _denman_beavers(A)
        if _settled(root @ root, A):
            return root, inverse
    root = _by_schur(A, "sqrtm", where)
    return root, torch.linalg.inv(root)


def logarithm(A: torch.Tensor, size: int) -> torch.Tensor:
    """The principal logarithm of A: (..., n, n). size: of the leading block that has all eigenvalues of A."""
    if not _spectrum_checked(A[..., :size, :size], "matrix_log"):
        result = _inverse_scaling_and_squaring(A)
        if _settled(torch.linalg.matrix_exp(result), A):
            return result
    return _by_schur(A, "logm", "matrix_log")


def _spectrum_checked(A: torch.Tensor, where: str) -> bool:
    """Whether eigenvalues of a complex matrix lie on the cut; raises for a real matrix with such, and for zeros."""
    values = torch.linalg.eigvals(A)
    size = values.abs().amax(-1, keepdim=True)
    noise = A.shape[-1] * epsilon(A) * size
    zero = (values.abs() <= noise).any(-1)
    if zero.any():
        _, which = element(zero)
        raise SingularMatrix(
            f"{where}: the matrix{which} is singular to working precision; add a small multiple of the identity"
        )
    cut = (values.real < 0) & (values.imag.abs() <= noise)
    if cut.any() and not A.is_complex():
        index, which = element(cut.any(-1))
        worst = float(values[index].real[cut[index]].min())
        raise InvalidInput(
            f"{where}: the matrix{which} has the negative real eigenvalue {worst:.3g}, and no real principal "
            "result exists; give A.to(torch.complex128) for the complex one"
        )
    return bool(cut.any())


def _denman_beavers(A: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Product form with determinantal scaling (Cheng, Higham, Kenney & Laub, 2001, equation 4.5)."""
    n = A.shape[-1]
    eye = torch.eye(n, dtype=A.dtype, device=A.device).expand_as(A)
    M, X, Y = A, A, eye
    tolerance = n * epsilon(A)
    for _ in range(60):
        inverse = torch.linalg.inv_ex(M).inverse
        error = torch.linalg.matrix_norm(M - eye)
        mu = torch.exp(-torch.linalg.slogdet(M).logabsdet / (2 * n))
        mu = torch.where(error > 1e-2, mu, torch.ones_like(mu))[..., None, None]
        step = (eye + inverse / mu**2) * (mu / 2)
        M, X, Y = (2 * eye + M * mu**2 + inverse / mu**2) / 4, X @ step, Y @ step
        if not bool((error > tolerance).any()):
            break
    return X, Y


def _settled(again: torch.Tensor, A: torch.Tensor) -> bool:
    """Whether the inverse function gives A back, to a hundred rounding units a dimension."""
    error = torch.linalg.matrix_norm(again - A)
    limit = 100 * A.shape[-1] * epsilon(A) * torch.linalg.matrix_norm(A)
    return bool((error <= limit).all())


def _inverse_scaling_and_squaring(A: torch.Tensor) -> torch.Tensor:
    """Square roots until A is near I, then a Padé approximant in partial fractions (Higham, 2001)."""
    eye = torch.eye(A.shape[-1], dtype=A.dtype, device=A.device).expand_as(A)
    halvings = 0
    while halvings < 60 and bool((torch.linalg.matrix_norm(A - eye, ord=1) > 0.25).any()):
        A, halvings = _denman_beavers(A)[0], halvings + 1
    # log(I + X) is the integral of X (I + s X)^-1 over [0, 1]; Gauss-Legendre with 8 nodes is the [8/8] Padé
    # approximant, whose error at |X| = 1/4 is below 1e-18
    nodes, weights = np.polynomial.legendre.leggauss(8)
    X = A - eye
    total = torch.zeros_like(A)
    for node, weight in zip((nodes + 1) / 2, weights / 2, strict=True):
        total = total + weight * torch.linalg.solve(eye + float(node) * X, X)
    return total * 2.0**halvings


def _by_schur(A: torch.Tensor, name: str, where: str) -> torch.Tensor:
    """SciPy's Schur methods, one matrix at a time: for eigenvalues on the cut and where iteration is inaccurate."""
    import scipy.linalg

    flat = A.reshape(-1, *A.shape[-2:]).cpu().numpy()
    function = getattr(scipy.linalg, name)
    found = np.stack([function(one) for one in flat])
    if np.iscomplexobj(found) and not A.is_complex():
        found = found.real  # the spectrum is off the cut, so what is imaginary is rounding
    result = torch.as_tensor(found).to(A).reshape(A.shape)
    if not torch.isfinite(torch.view_as_real(result) if result.is_complex() else result).all():
        raise InvalidInput(f"{where}: A is too close to a matrix without a principal result; add a multiple of I")
    return result
