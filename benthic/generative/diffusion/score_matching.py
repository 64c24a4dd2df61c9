"""Learning a score without noise: exact and sliced score matching."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from benthic.base.seeds import normal_like

Score = Callable[[Tensor], Tensor]


def exact_score_matching(score: Score, x: Tensor) -> Tensor:
    r"""The objective of Hyvärinen, 2005, whose minimum is the score of the data.

    .. math:: \ell(x) = \tfrac12 \|s(x)\|^2 + \operatorname{tr} \nabla s(x), \qquad
        E\, \ell = \tfrac12 E \|s - \nabla \log p\|^2 - \tfrac12 E \|\nabla \log p\|^2

    score: from points (n, \*event) to the same shape. x: (n, \*event). Returns (n,); its cost grows with the number of
    entries of a row.

    >>> exact_score_matching(lambda x: -x, torch.zeros(2, 3)).detach()
    tensor([-3., -3.])
    """
    with sdpa_kernel(SDPBackend.MATH), torch.enable_grad():  # fused attention has no second derivatives
        x = x if x.requires_grad else x.detach().requires_grad_()
        answer = score(x)
        rows = answer.flatten(1)
        trace = torch.zeros_like(rows[:, 0])
        for i in range(rows.shape[1]):
            (slope,) = torch.autograd.grad(rows[:, i].sum(), x, create_graph=True)
            trace = trace + slope.flatten(1)[:, i]
    return 0.5 * rows.square().sum(1) + trace


def sliced_score_matching(score: Score, x: Tensor, probes: int = 1, *, signs: bool = True) -> Tensor:
    r"""The same with the trace seen along random directions, at the cost of one more backward pass each.

    .. math:: \ell(x) = \tfrac12 \|s(x)\|^2 + v^T \nabla s(x)\, v, \qquad E\, v v^T = I

    Song et al., 2019 (with reduced variance). probes: directions a row. signs: of entries ±1, else normal.

    >>> sliced_score_matching(lambda x: -x, torch.zeros(2, 3)).detach()
    tensor([-3., -3.])
    """
    with sdpa_kernel(SDPBackend.MATH), torch.enable_grad():
        x = x if x.requires_grad else x.detach().requires_grad_()
        answer = score(x)
        trace = torch.zeros_like(answer.flatten(1)[:, 0])
        for _ in range(probes):
            v = normal_like(answer)
            v = torch.where(v > 0, 1.0, -1.0).to(v.dtype) if signs else v
            (slope,) = torch.autograd.grad((answer * v).sum(), x, create_graph=True)
            trace = trace + (slope * v).flatten(1).sum(1)
    return 0.5 * answer.flatten(1).square().sum(1) + trace / probes
