"""Fitting a stable law: a start from the characteristic function, then maximum likelihood."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.distributions.fits import minimized, refuse_constant, weighted_quantile
from benthic.distributions.stable_parts import log_parts

_LEAST = 0.1  # the smallest α that is searched


def fit_stable(x: Tensor, share: Tensor, parametrization: str = "S1") -> dict[str, Any]:
    """L-BFGS on the exact density in the S0 form, whose parameters hang together least.

    The start compares the empirical characteristic function of data in units of their quartiles with its
    logarithm (Koutrouvelis, 1980). A fit that ends at α = 2 or β = ±1 is at that boundary to rounding.
    """
    if x.ndim != 1 or len(x) < 5:
        raise InvalidInput(f"mle: data have shape {tuple(x.shape)}; Stable needs a row of at least five values")
    refuse_constant(x, "Stable")
    center = weighted_quantile(x, share, 0.5)
    unit = 0.5 * (weighted_quantile(x, share, 0.75) - weighted_quantile(x, share, 0.25))
    if not float(unit) > 0:
        raise InvalidInput("mle: half of the values are equal; Stable needs a continuous spread")
    z = (x - center) / unit
    start = _start(z, share)

    def law(free: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        alpha = _LEAST + (2 - _LEAST) * torch.sigmoid(free["alpha"])
        return alpha, torch.tanh(free["beta"]), free["gamma"].exp(), free["delta"]

    def loss(free: dict[str, Tensor]) -> Tensor:
        alpha, beta, gamma, delta = law(free)
        # a coarser rule than log_prob uses: its error of about 1e-9 is far below that of the data
        parts = log_parts(((z - delta) / gamma).unsqueeze(1), alpha.reshape(1), beta.reshape(1), 0.45, tails=False)
        return gamma.log() - (share * parts.density.squeeze(1)).sum()

    alpha, beta, gamma, delta = law(minimized(loss, start, "Stable", steps=80, change=1e-11))
    if parametrization == "S1":
        tangent = gamma.log() / (0.5 * math.pi) if float(alpha) == 1 else torch.tan(0.5 * math.pi * alpha)
        delta = delta - beta * gamma * tangent
    return {
        "alpha": alpha,
        "beta": beta,
        "gamma": unit * gamma,
        "delta": center + unit * delta,
        "parametrization": parametrization,
    }


def _start(z: Tensor, share: Tensor) -> dict[str, Tensor]:
    """Unconstrained parameters from two points of the characteristic function."""
    t = torch.tensor([0.2, 0.8], dtype=z.dtype, device=z.device)
    phase = t[:, None] * z
    real, imaginary = (share * phase.cos()).sum(1), (share * phase.sin()).sum(1)
    size = (0.5 * torch.log(real.square() + imaginary.square())).clamp(max=-1e-6)  # log|φ| = −(γ t)^α
    slope = torch.log(size[1] / size[0]) / math.log(4.0)
    alpha = slope.clamp(0.3, 1.95)
    gamma = (-size[1]).pow(1 / alpha) / t[1]
    # skewness from how unequal the outer quantiles lie (McCulloch, 1986)
    low, high = weighted_quantile(z, share, 0.05), weighted_quantile(z, share, 0.95)
    beta = ((high + low) / (high - low)).clamp(-0.9, 0.9)
    inner = (alpha - _LEAST) / (2 - _LEAST)
    return {
        "alpha": torch.logit(inner),
        "beta": torch.atanh(beta),
        "gamma": gamma.clamp(0.1, 10.0).log(),
        "delta": torch.zeros_like(gamma),
    }
