"""Forces of t-SNE on an accelerator: every pair, without storing any."""

from __future__ import annotations

from importlib.util import find_spec

import torch
from torch import Tensor

_ROWS, _COLUMNS = 128, 128
_PAIRS = 1 << 26  # pairs held at once where no kernel is compiled


if find_spec("triton") is not None:
    import triton
    import triton.language as tl

    @triton.jit
    def _repel(x_ptr, y_ptr, fx_ptr, fy_ptr, z_ptr, n, BM: tl.constexpr, BN: tl.constexpr):
        rows = tl.program_id(0) * BM + tl.arange(0, BM)
        live = rows < n
        x = tl.load(x_ptr + rows, mask=live, other=0.0)
        y = tl.load(y_ptr + rows, mask=live, other=0.0)
        fx = tl.zeros((BM, BN), tl.float32)
        fy = tl.zeros((BM, BN), tl.float32)
        z = tl.zeros((BM, BN), tl.float32)
        for start in range(0, n, BN):
            at = start + tl.arange(0, BN)
            # points beyond the end are so far away that they repel nobody
            u = tl.load(x_ptr + at, mask=at < n, other=1e18)
            v = tl.load(y_ptr + at, mask=at < n, other=1e18)
            dx = x[:, None] - u[None, :]
            dy = y[:, None] - v[None, :]
            q = 1.0 / (1.0 + dx * dx + dy * dy)
            z += q
            q = q * q
            fx += q * dx
            fy += q * dy
        tl.store(fx_ptr + rows, tl.sum(fx, 1), mask=live)
        tl.store(fy_ptr + rows, tl.sum(fy, 1), mask=live)
        tl.store(z_ptr + rows, tl.sum(z, 1), mask=live)


def repel(places: Tensor) -> tuple[Tensor, Tensor]:
    """Σ_j q_ij² (y_i − y_j) like places (k, n), and Σ q over all pairs of different points in float64."""
    k, n = places.shape
    if places.is_cuda and k == 2 and places.dtype == torch.float32 and find_spec("triton") is not None:
        x, y = places.contiguous()
        force, z = torch.empty_like(places), torch.empty(n, device=places.device)
        with torch.cuda.device(places.device):
            _repel[(-(-n // _ROWS),)](x, y, force[0], force[1], z, n, BM=_ROWS, BN=_COLUMNS, num_warps=8)
        return force, z.double().sum() - n
    force, total = torch.empty_like(places), torch.zeros((), dtype=torch.float64, device=places.device)
    step = max(1, _PAIRS // n)
    for top in range(0, n, step):
        gaps = places[:, top : top + step, None] - places[:, None, :]
        q = 1 / (1 + gaps.square().sum(0))
        total += q.double().sum()
        force[:, top : top + step] = (q.square() * gaps).sum(2)
    return force, total - n


class OnDevice:
    """Forces on the device of the edges.

    starts, columns, values: a symmetric sparse matrix of probabilities.
    """

    def __init__(self, starts: Tensor, columns: Tensor, values: Tensor) -> None:
        self._starts, self._columns = starts, columns.long()
        self._values, self._p = values.float(), values.double()
        self._rows = torch.repeat_interleave(torch.arange(len(starts) - 1, device=starts.device), starts.diff())

    def _closeness(self, places: Tensor) -> Tensor:
        """q over each edge."""
        square = sum((line[self._rows] - line[self._columns]).square() for line in places)
        return 1 / (1 + square)

    def slope(self, places: Tensor, exaggeration: float) -> Tensor:
        """The gradient of the divergence, (k, n)."""
        gaps = torch.stack([line[self._rows] - line[self._columns] for line in places], 1)  # (edges, k)
        pull = self._values / (1 + gaps.square().sum(1))
        sums = torch.segment_reduce(pull[:, None] * gaps, "sum", offsets=self._starts, axis=0)
        force, total = repel(places)
        return 4 * (exaggeration * sums.T - force / total.float())

    def divergence(self, places: Tensor) -> float:
        """KL(P | Q) in nats."""
        _, total = repel(places)
        q = self._closeness(places).double()
        return float((self._p * (self._p / q).log()).sum() + self._p.sum() * total.log())

    @staticmethod
    def advance(places: Tensor, slope: Tensor, speed: Tensor, gain: Tensor, rate: float, momentum: float) -> None:
        """One step of descent with momentum and gains."""
        same = (slope > 0) == (speed > 0)
        gain.copy_(torch.where(same, gain * 0.8, gain + 0.2).clamp_(min=0.01))
        speed.mul_(momentum).sub_(rate * gain * slope)
        places += speed
        places -= places.mean(1, keepdim=True)
