r"""What an energy is trained on: contrasts with chains, matched scores, contrasts with noise.

With :math:`p(x) \propto e^{-f(x)}` the gradient of the log-likelihood is :math:`-\nabla f(x) + E_p[\nabla f]`, and the
score is :math:`-\nabla_x f`. Every function returns one loss a row, (n,), to be made small.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from benthic.base.seeds import normal_like, stream
from benthic.calculus import laplacian

Energy = Callable[[Tensor], Tensor]
OBJECTIVES = (
    "contrastive_divergence",
    "persistent",
    "score_matching",
    "sliced",
    "denoising",
    "noise_contrastive",
)


def energy_slope(energy: Energy, x: Tensor, *, graph: bool = False) -> tuple[Tensor, Tensor]:
    """The energy (n,) of rows and its gradient (n, d); graph: whether the gradient can be differentiated."""
    with torch.enable_grad():
        leaf = x.detach().requires_grad_()
        value = energy(leaf)
        (slope,) = torch.autograd.grad(value.sum(), leaf, create_graph=graph)
    return value, slope


def contrastive(energy: Energy, rows: Tensor, drawn: Tensor) -> Tensor:
    """The energies of rows (n, d) minus those of draws (n, d) of the model.

    .. math:: f(x) - f(x'), \\qquad x' \\sim p

    Its gradient is that of minus the log-likelihood (Hinton, 2002).

    >>> contrastive(lambda x: x.sum(1), torch.ones(2, 3), torch.zeros(2, 3))
    tensor([3., 3.])
    """
    return energy(rows) - energy(drawn)


def score_matching(energy: Energy, x: Tensor) -> Tensor:
    r"""Exact score matching, with the trace of the Hessian summed over all coordinates.

    .. math:: \tfrac12 \|\nabla f(x)\|^2 - \Delta f(x)

    Hyvärinen, 2005: in expectation half the squared distance of the scores, up to a constant.

    >>> half = lambda x: 0.5 * x.square().sum(1)
    >>> score_matching(half, torch.ones(1, 3))  # 3/2 - 3
    tensor([-1.5000], grad_fn=<SubBackward0>)
    """
    _, slope = energy_slope(energy, x, graph=True)
    trace: Tensor = laplacian(energy, x)
    return 0.5 * slope.square().sum(1) - trace


def sliced(energy: Energy, x: Tensor, slices: int = 1) -> Tensor:
    r"""Sliced score matching: the trace by random directions.

    .. math:: \tfrac12 \|\nabla f(x)\|^2 - E_v\, v^\top \nabla^2 f(x)\, v

    Song et al., 2019, with the norm in full. slices: directions a row.
    """
    with torch.enable_grad():
        leaf = x.detach().requires_grad_()
        (slope,) = torch.autograd.grad(energy(leaf).sum(), leaf, create_graph=True)
        bend: Tensor | float = 0.0
        for _ in range(slices):
            v = torch.randint(2, x.shape, generator=stream(x.device), device=x.device).to(x.dtype) * 2 - 1
            (product,) = torch.autograd.grad((slope * v).sum(), leaf, create_graph=True)
            bend = bend + (product * v).sum(1)
    return 0.5 * slope.square().sum(1) - bend / slices


def denoising(energy: Energy, x: Tensor, sigma: Tensor) -> Tensor:
    r"""Denoising score matching.

    .. math:: \tfrac12 \Big\| \sigma \nabla f_\sigma(x + \sigma \epsilon) - \epsilon \Big\|^2

    Vincent, 2011; at several levels as in Song & Ermon, 2019.

    energy: :math:`f_\sigma`, each row at its own level. x: (n, d). sigma: (n, 1).
    """
    noise = normal_like(x)
    _, slope = energy_slope(energy, x + sigma * noise, graph=True)
    return 0.5 * (sigma * slope - noise).square().sum(1)


def noise_contrastive(log_ratio: Callable[[Tensor], Tensor], rows: Tensor, noise: Tensor) -> Tensor:
    r"""The logistic loss of telling rows from noise by the model's log-density.

    .. math:: -\log \sigma(G(x)) - \sum_{i=1}^{\nu} \log \sigma(-G(y_i)), \qquad
        G(u) = -f(u) - c - \log p_n(u) - \log \nu

    Gutmann & Hyvärinen, 2012; c is learned as another parameter, and becomes the log-normalizer.

    log_ratio: :math:`-f - c - \log p_n`, (m, d) to (m,). rows: (n, d). noise: (n, nu, d).
    """
    n, ratio, d = noise.shape
    shift = math.log(ratio)
    real = log_ratio(rows) - shift
    fake = log_ratio(noise.reshape(n * ratio, d)).reshape(n, ratio) - shift
    return -F.logsigmoid(real) - F.logsigmoid(-fake).sum(1)
