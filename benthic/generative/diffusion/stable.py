"""Steadier targets of training: what the whole batch says about the data behind a noisy point."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from benthic.generative.diffusion.process import Process

_FEW = 8  # columns up to which distances are summed column by column, without cancellation


@torch.no_grad()
def expected_among(process: Process, x: Tensor, t: Tensor, data: Tensor, allowed: Tensor | None = None) -> Tensor:
    r"""The expected data behind noisy points, if the data were those of a batch.

    .. math:: \sum_j w_j\, y_j, \qquad w_j \propto p_t(x \mid y_j)

    Xu, Tong & Jaakkola, 2023 (stable targets); with the kernel of a Poisson flow it gives the field of the batch as
    charges, Xu et al., 2022. A network that is trained on this in place of the data learns the same in the limit of
    large batches, from targets that vary far less where many examples could be behind a point.

    x: (n, \*event). t: (n,). data: (m, \*event). allowed: (n, m), which of the data may be behind a point. Returns
    (n, \*event).

    >>> from benthic.generative.diffusion import AddedNoise
    >>> expected_among(AddedNoise(), torch.zeros(1, 1), torch.ones(1), torch.tensor([[-1.0], [1.0]]))
    tensor([[0.]])
    """
    rows, known = x.flatten(1), data.flatten(1)
    alpha, sigma = (value.to(x.dtype)[:, None] for value in (process.alpha(t), process.sigma(t)))
    if known.shape[1] <= _FEW:
        squares = torch.zeros(len(rows), len(known), dtype=x.dtype, device=x.device)
        for i in range(known.shape[1]):
            away = alpha * known[:, i]
            torch.sub(rows[:, i, None], away, out=away)
            squares.addcmul_(away, away)
    else:
        shift = -2 * alpha * (rows @ known.T) + alpha.square() * known.square().sum(1)
        squares = (rows.square().sum(1, keepdim=True) + shift).clamp_min(0)
    kernel: Any = getattr(process, "log_kernel", None)
    logs = -0.5 * squares / sigma.square() if kernel is None else kernel(squares, known.shape[1], t[:, None])
    if allowed is not None:
        logs = logs.masked_fill(~allowed, -torch.inf)
    return (torch.softmax(logs.to(x.dtype), 1) @ known).reshape(x.shape)


def may_be_behind(condition: Tensor, kind: str, classes: int) -> Tensor:
    """Which examples of a batch (n, n) tell about a noisy point: itself, those of its label, all for a null condition.

    condition: labels (n,), or vectors or pictures (n, ...). kind: ``labels``, ``vectors`` or ``images``.
    """
    itself = torch.eye(len(condition), dtype=torch.bool, device=condition.device)
    if kind == "labels":
        return itself | (condition[:, None] == condition) | (condition == classes)[:, None]
    return itself | torch.isnan(condition).flatten(1).any(1)[:, None]
