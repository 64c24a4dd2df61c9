"""An image kept as a few singular values with their vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from benthic.base.errors import InvalidInput
from benthic.linalg.checks import floating, number
from benthic.linalg.low_rank import Svd, _rank, fixed_signs


@dataclass(frozen=True)
class Compressed:
    """A compressed image.

    factors: U (..., h, k), S (..., k), Vh (..., k, w), one set a channel. k: the rank. stored: how many numbers are
    kept, (1 + h + w) k a channel. original: how many there were. error: relative, in the Frobenius norm.
    """

    factors: Svd
    k: int
    stored: int
    original: int
    error: float

    @property
    def ratio(self) -> float:
        """Numbers kept over numbers there were; above 1 nothing is saved."""
        return self.stored / self.original

    def reconstruct(self) -> torch.Tensor:
        """The image that the kept numbers stand for, of the shape of the original."""
        return self.factors.dense()

    def __repr__(self) -> str:
        kept = f"{self.stored:,} of {self.original:,} numbers ({self.ratio:.0%})"
        return f"Compressed(rank {self.k}, {kept}, relative error {self.error:.2g})"


def compress(image: Any, k: int | None = None, error: float | None = None) -> Compressed:
    r"""An image by its k largest singular values a channel: the best that any k rank-one pictures can do.

    .. math:: \text{stored} = (1 + h + w)\, k, \quad
        \frac{\|A - A_k\|_F}{\|A\|_F} = \Bigl(\sum_{i > k} \sigma_i^2 \Big/ \sum_i \sigma_i^2\Bigr)^{1/2}

    Eckart & Young, 1936.

    image: (h, w), or (c, h, w) and (n, c, h, w) channel by channel; whole numbers are taken as they are.
    k: the rank. error: in place of k, the relative error to stay within; the smallest such rank is used.

    >>> compress(torch.rand(450, 333, generator=torch.Generator().manual_seed(0)), k=50)
    Compressed(rank 50, 39,200 of 149,850 numbers (26%), relative error 0.4...)
    """
    A = floating(image, "compress", "image")
    if not 2 <= A.ndim <= 4 or 0 in A.shape:
        raise InvalidInput(f"compress: image has shape {tuple(A.shape)}; give (h, w), (c, h, w) or (n, c, h, w)")
    if A.ndim == 3 and A.shape[-1] in (3, 4) and A.shape[0] > 4:
        raise InvalidInput(
            f"compress: image has shape {tuple(A.shape)}; channels come first, as in image.transpose(2, 0, 1)"
        )
    if (k is None) == (error is None):
        raise InvalidInput("compress: give either k, the rank, or error, the relative error to stay within")
    svd = Svd(*torch.linalg.svd(A, full_matrices=False))
    energy = svd.S.detach().double().square().reshape(-1, svd.S.shape[-1]).sum(0)
    lost = energy.flip(0).cumsum(0).flip(0)  # lost[i]: the energy of singular value i and all smaller ones
    k = _rank(k, tuple(A.shape), "compress") if error is None else _smallest(lost, error)
    h, w = A.shape[-2:]
    total = float(lost[0])
    remaining = float(lost[k]) if k < len(lost) else 0.0
    stored = (1 + h + w) * k * (A.numel() // (h * w))
    relative = (remaining / total) ** 0.5 if total > 0 else 0.0
    return Compressed(fixed_signs(svd.truncated(k)), k, stored, A.numel(), relative)


def _smallest(lost: torch.Tensor, error: float) -> int:
    """The smallest rank whose relative error is at most the one asked for."""
    number(error, "compress", "error", lambda v: 0 <= v < 1, "at least 0 and below 1")
    enough = torch.cat([lost[1:], lost.new_zeros(1)]) <= error**2 * lost[0]
    return int(enough.to(torch.int8).argmax()) + 1
