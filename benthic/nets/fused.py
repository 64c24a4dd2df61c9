"""Kernels for CUDA devices: the parts of a bound that are many small operations, each as one and with its gradient."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

_HAS_TRITON = find_spec("triton") is not None
_WIDEST_CODE = 1024


def serves(*tensors: Tensor) -> bool:
    """Whether these kernels take such tensors: float32 on a CUDA device, and Triton is there."""
    return _HAS_TRITON and all(t.is_cuda and t.dtype == torch.float32 for t in tensors)


if _HAS_TRITON:
    import triton
    import triton.language as tl

    @triton.jit
    def _bits_forward(x_ptr, logits_ptr, out_ptr, n, width, BLOCK: tl.constexpr):
        row = tl.program_id(0).to(tl.int64)
        total = tl.zeros((BLOCK,), tl.float32)
        for start in range(0, width, BLOCK):
            cols = start + tl.arange(0, BLOCK)
            live = cols < width
            x = tl.load(x_ptr + (row % n) * width + cols, mask=live, other=0.0)
            logit = tl.load(logits_ptr + row * width + cols, mask=live, other=0.0)
            # x l - log(1 + exp(l)), without overflow
            soft = tl.maximum(logit, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(logit)))
            total += tl.where(live, x * logit - soft, 0.0)
        tl.store(out_ptr + row, tl.sum(total, 0))

    @triton.jit
    def _bits_backward(x_ptr, logits_ptr, grad_ptr, out_ptr, n, width, BLOCK: tl.constexpr):
        row = tl.program_id(0).to(tl.int64)
        grad = tl.load(grad_ptr + row)
        cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        live = cols < width
        x = tl.load(x_ptr + (row % n) * width + cols, mask=live, other=0.0)
        logit = tl.load(logits_ptr + row * width + cols, mask=live, other=0.0)
        tl.store(out_ptr + row * width + cols, grad * (x - tl.sigmoid(logit)), mask=live)

    @triton.jit
    def _code_forward(outputs_ptr, noise_ptr, z_ptr, kl_ptr, d, low, high, BLOCK: tl.constexpr):
        row = tl.program_id(0).to(tl.int64)
        cols = tl.arange(0, BLOCK)
        live = cols < d
        mean = tl.load(outputs_ptr + row * 2 * d + cols, mask=live, other=0.0)
        log_var = tl.load(outputs_ptr + row * 2 * d + d + cols, mask=live, other=0.0)
        log_var = tl.minimum(tl.maximum(log_var, low), high)
        noise = tl.load(noise_ptr + row * d + cols, mask=live, other=0.0)
        tl.store(z_ptr + row * d + cols, mean + tl.exp(0.5 * log_var) * noise, mask=live)
        terms = 0.5 * (mean * mean + tl.exp(log_var) - 1.0 - log_var)
        tl.store(kl_ptr + row, tl.sum(tl.where(live, terms, 0.0), 0))

    @triton.jit
    def _code_backward(outputs_ptr, noise_ptr, dz_ptr, dkl_ptr, grad_ptr, d, low, high, BLOCK: tl.constexpr):
        row = tl.program_id(0).to(tl.int64)
        cols = tl.arange(0, BLOCK)
        live = cols < d
        mean = tl.load(outputs_ptr + row * 2 * d + cols, mask=live, other=0.0)
        raw = tl.load(outputs_ptr + row * 2 * d + d + cols, mask=live, other=0.0)
        inside = (raw >= low) & (raw <= high)
        log_var = tl.minimum(tl.maximum(raw, low), high)
        noise = tl.load(noise_ptr + row * d + cols, mask=live, other=0.0)
        dz = tl.load(dz_ptr + row * d + cols, mask=live, other=0.0)
        dkl = tl.load(dkl_ptr + row)
        spread = tl.exp(0.5 * log_var)
        tl.store(grad_ptr + row * 2 * d + cols, dz + dkl * mean, mask=live)
        slope = 0.5 * (dz * noise * spread + dkl * (spread * spread - 1.0))
        tl.store(grad_ptr + row * 2 * d + d + cols, tl.where(inside, slope, 0.0), mask=live)


class _Bits(torch.autograd.Function):
    """Sums over columns of x l − log(1 + exp(l))."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, logits: Tensor) -> Tensor:
        x, logits = x.contiguous(), logits.contiguous()
        found = logits.new_empty(logits.shape[:-1])
        width = logits.shape[-1]
        block = min(1024, triton.next_power_of_2(width))
        _bits_forward[(found.numel(),)](x, logits, found, len(x), width, BLOCK=block)
        ctx.save_for_backward(x, logits)
        return found

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor]:
        x, logits = ctx.saved_tensors
        width, found = logits.shape[-1], torch.empty_like(logits)
        block = min(1024, triton.next_power_of_2(width))
        grid = (logits.numel() // width, triton.cdiv(width, block))
        _bits_backward[grid](x, logits, gradients[0].contiguous(), found, len(x), width, BLOCK=block)
        return None, found


class _Code(torch.autograd.Function):
    """A draw of a code and its divergence from N(0, I), from an encoder's means and log-variances."""

    @staticmethod
    def forward(ctx: Any, outputs: Tensor, noise: Tensor, low: float, high: float) -> tuple[Tensor, Tensor]:
        outputs, noise = outputs.contiguous(), noise.contiguous()
        z, kl = torch.empty_like(noise), noise.new_empty(len(noise))
        d = noise.shape[1]
        ctx.bounds = (low, high)
        _code_forward[(len(noise),)](outputs, noise, z, kl, d, low, high, BLOCK=triton.next_power_of_2(d))
        ctx.save_for_backward(outputs, noise)
        return z, kl

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        outputs, noise = ctx.saved_tensors
        found, d = torch.empty_like(outputs), noise.shape[1]
        dz, dkl = (g.contiguous() for g in gradients)
        block = triton.next_power_of_2(d)
        _code_backward[(len(noise),)](outputs, noise, dz, dkl, found, d, *ctx.bounds, BLOCK=block)
        return found, None, None, None


def bits_log_prob(x: Tensor, logits: Tensor) -> Tensor:
    """log P(x) of rows (n, width) of zeros and ones with these logits (..., n, width)."""
    found: Tensor = _Bits.apply(x, logits)
    return found


def draw_code(outputs: Tensor, noise: Tensor, low: float, high: float) -> tuple[Tensor, Tensor]:
    """z = μ + σ·noise and KL(N(μ, σ²) ‖ N(0, I)) of each row; outputs: (n, 2d) means and log-variances, kept within
    ``low`` and ``high``; noise: (n, d).
    """
    z, kl = _Code.apply(outputs, noise, low, high)
    return z, kl


def code_fits(latent_dim: int) -> bool:
    """Whether a code of this size fits one block."""
    return latent_dim <= _WIDEST_CODE
