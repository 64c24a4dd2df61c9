"""The ends of a symmetric operator's spectrum from its products with vectors."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Product = Callable[[Tensor], Tensor]


def lanczos(product: Product, start: Tensor, steps: int) -> tuple[Tensor, Tensor]:
    r"""Ritz values and vectors of symmetric operators, one for every row of ``start``.

    .. math:: A Q_k = Q_k T_k + \beta_k q_{k+1} e_k^T

    Lanczos, 1950, with every vector orthogonalized twice against all before. A row whose Krylov space is used
    up goes on with a vector orthogonal to it, so that k = d steps give the whole spectrum.

    product: maps (B, d) to (B, d). start: (B, d), none of them zero. Returns values (B, k), ascending, and
    vectors (B, k, d), where k is the smaller of ``steps`` and d.

    >>> A = torch.diag(torch.tensor([1.0, 2.0, 5.0], dtype=torch.float64))
    >>> lanczos(lambda V: V @ A, torch.ones(1, 3, dtype=torch.float64), 3)[0]
    tensor([[1.0000, 2.0000, 5.0000]], dtype=torch.float64)
    """
    n, d = start.shape
    k = min(steps, d)
    basis, T = start.new_zeros(n, k, d), start.new_zeros(n, k, k)
    q = start / start.norm(dim=1, keepdim=True)
    for i in range(k):
        basis[:, i] = q
        w = product(q)
        T[:, i, i] = (q * w).sum(1)
        if i + 1 < k:
            length = w.norm(dim=1)
            w = _orthogonal(w, basis[:, : i + 1])
            beta = w.norm(dim=1)
            empty = ~(beta > 1e-3 * torch.finfo(start.dtype).eps ** 0.5 * length)
            fresh = _orthogonal(
                torch.cos(torch.arange(d, device=q.device) * (i + 1.7)).to(q).expand(n, d), basis[:, : i + 1]
            )
            w = torch.where(empty[:, None], fresh, w)
            q = w / w.norm(dim=1, keepdim=True)
            T[:, i, i + 1] = T[:, i + 1, i] = torch.where(empty, 0.0, beta)
    values, S = torch.linalg.eigh(T)
    return values, S.mT @ basis


def _orthogonal(w: Tensor, basis: Tensor) -> Tensor:
    """What is left of w (B, d) beside the rows of the basis (B, i, d)."""
    for _ in range(2):
        w = w - (basis.mT @ (basis @ w[..., None]))[..., 0]
    return w


def random_rows(n: int, d: int, like: Tensor, generator: torch.Generator | None = None, seed: int = 0) -> Tensor:
    """Normal vectors (n, d) of the dtype and device of ``like``; without a generator always the same ones."""
    source = generator or torch.Generator(device=like.device).manual_seed(seed)
    return torch.randn(n, d, dtype=like.dtype, device=source.device, generator=source).to(like.device)
