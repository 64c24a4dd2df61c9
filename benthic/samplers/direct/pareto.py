"""Pareto-smoothed importance weights and the shape k that says how far to trust them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.distributions.tables import as_float_tensor


class Smoothed(NamedTuple):
    """Log weights (..., n), normalized to sum to one, and the Pareto shape k (...) of their tail."""

    log_weights: Tensor
    k: Tensor


def pareto_smooth(log_weights: Any) -> Smoothed:
    r"""Replace the largest importance weights by quantiles of a generalized Pareto law fitted to them.

    .. math:: w_{(n-M+z)} = F^{-1}_{u, \sigma, k}\left(\frac{z - 1/2}{M}\right), \qquad z = 1, \ldots, M

    with :math:`M = \min(n/5, 3\sqrt{n})`, cut at the largest raw weight. Below ``pareto_threshold(n)`` estimates
    are to be trusted; above 0.7 they are not, and no number of draws that is practical helps; above 1 the mean
    of the weights may not exist. Vehtari, Simpson, Gelman, Yao & Gabry, 2024.

    log_weights: (..., n), up to a constant. Returns ``Smoothed(log_weights, k)``; k is -inf where the tail is flat
    (bounded weights that are all alike), inf with fewer than five draws in it.

    >>> pareto_smooth(torch.zeros(100)).k
    tensor(-inf)
    """
    raw = check_log_weights(log_weights, "pareto_smooth")
    n = raw.shape[-1]
    size = math.ceil(min(n / 5, 3 * math.sqrt(n)))
    shifted = raw - raw.amax(-1, keepdim=True)
    if size < 5:
        return Smoothed(torch.log_softmax(shifted, -1), torch.full_like(shifted[..., 0], math.inf))
    ordered, place = shifted.sort(-1)
    tail = ordered[..., -size:]
    cut = ordered[..., -size - 1].clamp(min=math.log(torch.finfo(raw.dtype).tiny))
    excess = (tail.exp() - cut.exp()[..., None]).clamp(min=0)
    k, sigma = fit_pareto(excess)
    levels = (torch.arange(size, dtype=raw.dtype, device=raw.device) + 0.5) / size
    smooth = _quantile(levels, k[..., None], sigma[..., None]) + cut.exp()[..., None]
    use = torch.isfinite(k)[..., None] & (excess[..., -1:] > 0) & (tail > cut[..., None])
    tail = torch.where(use, smooth.log().clamp(max=0), tail)
    ordered = torch.cat([ordered[..., :-size], tail], -1)
    return Smoothed(torch.log_softmax(torch.empty_like(raw).scatter(-1, place, ordered), -1), k)


def pareto_k(log_weights: Any) -> Tensor:
    """The Pareto shape of the upper tail of importance weights: (..., n) log weights to (...).

    >>> float(pareto_k(3.0 * torch.randn(4000, generator=torch.Generator().manual_seed(0)))) > 0.7
    True
    """
    return pareto_smooth(log_weights).k


def pareto_threshold(n: int) -> float:
    r"""The largest Pareto shape at which n draws suffice for a dependable estimate.

    .. math:: \min(1 - 1 / \log_{10} n,\; 0.7)

    Vehtari et al., 2024, equation 15.

    >>> round(pareto_threshold(100), 3), round(pareto_threshold(10_000), 3)
    (0.5, 0.7)
    """
    if n < 2:
        raise InvalidInput(f"pareto_threshold: n is {n}; at least two draws are needed")
    return min(1 - 1 / math.log10(n), 0.7)


def fit_pareto(x: Any) -> tuple[Tensor, Tensor]:
    r"""Shape k and scale sigma of a generalized Pareto law, from ascending values above zero.

    .. math:: F(x) = 1 - (1 + k x / \sigma)^{-1/k}

    The posterior mean of Zhang & Stephens, 2009, with k drawn a little towards 1/2 as if by ten more values
    (Vehtari et al., 2024, appendix). x: (..., m) in ascending order. Returns k and sigma, each (...).
    """
    x = as_float_tensor(x)
    m, mean = x.shape[-1], x.mean(-1, keepdim=True)
    count = 30 + int(math.sqrt(m))
    quarter = x[..., int(m / 4 + 0.5) - 1, None]
    quarter = torch.where(quarter > 0, quarter, mean)
    steps = torch.arange(1, count + 1, dtype=x.dtype, device=x.device)
    top = x[..., -1:].clamp(min=torch.finfo(x.dtype).tiny)
    b = 1 / top + (1 - (count / (steps - 0.5)).sqrt()) / (3 * quarter)  # (..., count)
    k = torch.log1p(-b[..., None] * x[..., None, :]).mean(-1)
    length = m * ((-b / k).log() - k - 1)
    weight = torch.softmax(torch.nan_to_num(length, nan=-math.inf), -1)
    b = (b * weight).sum(-1, keepdim=True)
    k = torch.log1p(-b * x).mean(-1)
    sigma = -k / b[..., 0]
    k = (m * k + 5) / (m + 10)
    flat = x[..., -1] <= 0
    return torch.where(flat, -math.inf, k), torch.where(flat, 0.0, sigma)


def check_log_weights(log_weights: Any, where: str) -> Tensor:
    """Log weights as a tensor (..., n), or one clear sentence."""
    raw = as_float_tensor(log_weights)
    if raw.ndim < 1 or not raw.shape[-1]:
        raise InvalidInput(f"{where}: log_weights have shape {tuple(raw.shape)}; (..., n) with n draws is needed")
    if bool((torch.isnan(raw) | (raw == math.inf)).any()):
        raise InvalidInput(f"{where}: a log weight is NaN or +inf; check the density and the proposal there")
    if bool((raw.amax(-1) == -math.inf).any()):
        raise InvalidInput(
            f"{where}: every weight is zero; no draw of the proposal falls where the target lives; widen it"
        )
    return raw


def _quantile(level: Tensor, k: Tensor, sigma: Tensor) -> Tensor:
    """The generalized Pareto quantile; near k = 0 the exponential one."""
    small = k.abs() < 1e-12
    safe = torch.where(small, 1.0, k)
    return sigma * torch.where(small, -torch.log1p(-level), torch.expm1(-safe * torch.log1p(-level)) / safe)
