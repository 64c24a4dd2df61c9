"""Expansions in the exponential kernel on a CUDA device, without storing the kernel.

Products run on tensor cores, each single-precision number as the sum of three that they know, which leaves the
rounding of single precision.
"""

from __future__ import annotations

from importlib.util import find_spec

import torch
from torch import Tensor

MOST_OUTPUTS = 64
_LOG2E = 1.4426950408889634
_ROWS, _VECTORS, _COLUMNS = 128, 64, 32


def available(X: Tensor, outputs: int) -> bool:
    """Whether this kernel serves rows ``X``: float32 on a CUDA device, few outputs, and Triton is there."""
    return X.is_cuda and X.dtype == torch.float32 and outputs <= MOST_OUTPUTS and find_spec("triton") is not None


if find_spec("triton") is not None:
    import triton
    import triton.language as tl

    @triton.jit
    def _expand(
        x_ptr,
        v_ptr,
        x2_ptr,
        v2_ptr,
        w_ptr,
        out_ptr,
        n,
        m,
        c,
        factor,
        D: tl.constexpr,
        C: tl.constexpr,
        BM: tl.constexpr,
        BN: tl.constexpr,
        BD: tl.constexpr,
    ):
        rows = tl.program_id(0) * BM + tl.arange(0, BM)
        live = rows < n
        x2 = tl.load(x2_ptr + rows, mask=live, other=0.0)
        outs = tl.arange(0, C)
        acc = tl.zeros((BM, C), tl.float32)
        one = tl.zeros((BM,), tl.float32)
        base = rows[:, None].to(tl.int64) * D
        first = tl.arange(0, BD)
        for start in tl.range(0, m, BN):
            at = start + tl.arange(0, BN)
            if D == BD:
                x = tl.load(x_ptr + base + first[None, :], mask=live[:, None], other=0.0)
                v = tl.load(v_ptr + at[None, :] * D + first[:, None], mask=(at < m)[None, :], other=0.0)
                s = tl.dot(x, v, input_precision="tf32x3")
            else:
                s = tl.zeros((BM, BN), tl.float32)
                for begin in tl.range(0, D, BD):
                    cols = begin + first
                    x = tl.load(x_ptr + base + cols[None, :], mask=live[:, None], other=0.0)
                    v = tl.load(v_ptr + at[None, :] * D + cols[:, None], mask=(at < m)[None, :], other=0.0)
                    s = tl.dot(x, v, s, input_precision="tf32x3")
            # vectors beyond the last have an infinite length, so a kernel of zero
            v2 = tl.load(v2_ptr + at, mask=at < m, other=float("inf"))
            k = tl.exp2(factor * s - x2[:, None] - v2[None, :])
            if C == 1:
                one += tl.sum(k * tl.load(w_ptr + at, mask=at < m, other=0.0)[None, :], 1)
            else:
                there = (at < m)[:, None] & (outs < c)[None, :]
                w = tl.load(w_ptr + at[:, None] * c + outs[None, :], mask=there, other=0.0)
                acc = tl.dot(k, w, acc, input_precision="tf32x3")
        if C == 1:
            tl.store(out_ptr + rows, one, mask=live)
        else:
            place = out_ptr + rows[:, None].to(tl.int64) * c + outs[None, :]
            tl.store(place, acc, mask=live[:, None] & (outs < c)[None, :])


def expand(gamma: float, X: Tensor, vectors: Tensor, weights: Tensor) -> Tensor:
    r"""Sums of :math:`w_j e^{-\gamma \|x - v_j\|^2}` at rows X (n, d), for vectors (m, d) and weights (m, c)."""
    center = vectors.mean(0)
    width = -(-X.shape[1] // _COLUMNS) * _COLUMNS  # columns of zeros keep the loads aligned
    X, vectors = (torch.nn.functional.pad(part - center, (0, width - X.shape[1])) for part in (X, vectors))
    n, weights = len(X), weights.contiguous()
    c = weights.shape[1]
    scale = gamma * _LOG2E
    x2, v2 = (scale * part.double().square().sum(1) for part in (X, vectors))
    out = torch.empty(n, c, device=X.device)
    with torch.cuda.device(X.device):
        _expand[(-(-n // _ROWS),)](
            *(X, vectors, x2.float(), v2.float(), weights, out, n, len(vectors), c, 2 * scale),
            D=width,
            C=1 if c == 1 else max(16, 1 << (c - 1).bit_length()),
            BM=_ROWS,
            BN=_VECTORS,
            BD=64 if width % 64 == 0 else _COLUMNS,
            num_warps=8,
            num_stages=2,
        )
    return out
