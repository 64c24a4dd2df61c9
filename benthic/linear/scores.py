"""Class scores linear in the features: loss, gradient and curvature, summed over a block of rows.

Parameters are one matrix ``theta``: a row of coefficients per class, its intercept last. Two classes need one
row, the log-odds of the second. Sums are taken in the type of the block and returned in float64.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from benthic.data.batch import Batch

_CHUNK = 1 << 19  # numbers in one block of scaled rows when curvature is summed: what a cache holds


class Response(NamedTuple):
    """What a block answers. losses: (n,). P: (r, n) class probabilities. residuals: (r, n) P - one-hot."""

    losses: Tensor
    P: Tensor
    residuals: Tensor


def scores(theta: Tensor, X: Tensor) -> Tensor:
    """Scores (n, r) = X Wᵀ + b; ``theta`` has one column more than ``X`` when there is an intercept."""
    theta, width = theta.to(X), X.shape[1]
    weights = theta[:, :width].T
    return X @ weights if theta.shape[1] == width else torch.addmm(theta[:, width], X, weights)


def respond(theta: Tensor, X: Tensor, y: Tensor) -> Response:
    r"""Cross-entropy of each row, class probabilities and residuals.

    .. math:: \ell_i = \log \sum_c e^{z_{ic}} - z_{i y_i}, \qquad
              \frac{\partial \ell_i}{\partial z_{ic}} = p_{ic} - [c = y_i]
    """
    z = scores(theta, X)
    if z.shape[1] == 1:
        z = z.T
        log_p = logsigmoid(z)  # (1, n)
        hit = y.to(z)[None]
        P = log_p.exp()
        return Response(((1 - hit) * z - log_p)[0], P, P - hit)
    # classes first: the softmax then runs along contiguous rows
    log_p = torch.log_softmax(z.T.contiguous(), 0)  # (k, n)
    P, target = log_p.exp(), y[None]
    residuals = P.scatter_add(0, target, torch.full_like(target, -1, dtype=P.dtype))
    return Response(-log_p.gather(0, target)[0], P, residuals)


def first_order(theta: Tensor, batch: Batch) -> tuple[dict[str, Tensor], Tensor]:
    """Sums of loss and gradient (r, d + 1) over a block, and the class probabilities (r, n)."""
    X, y, weight = batch
    if y is None:
        raise ValueError("a classifier's batch needs labels")
    losses, P, residuals = respond(theta, X, y)
    if weight is not None:
        losses, residuals = losses * weight, residuals * weight
    gradient = residuals @ X
    if theta.shape[1] > X.shape[1]:
        gradient = torch.cat([gradient, residuals.sum(1, keepdim=True)], 1)
    return {"loss": losses.sum(dtype=torch.float64), "gradient": gradient.double()}, P


def spread(P: Tensor, weight: Tensor | None) -> Tensor:
    """Sum over rows of diag(p) - p pᵀ, (r, r): the curvature of the loss in its scores."""
    weighted = P if weight is None else P * weight
    return (torch.diag(weighted.sum(1)) - weighted @ P.T).double()


def second_order(P: Tensor, X: Tensor, weight: Tensor | None) -> Tensor:
    r"""Lower blocks of the Hessian, (r, e, r, e), in float64; ``mirror`` fills in the rest.

    .. math:: H_{ab} = \sum_i w_i p_{ia} ([a = b] - p_{ib}) x_i x_i^T

    P: (r, n), all classes or all but a reference. X: (n, e), with its column of ones where it has one.
    """
    r, e = len(P), X.shape[1]
    total = torch.zeros(r, e, r, e, dtype=torch.float64, device=X.device)
    if r == 1:
        h = P[0] * (1 - P[0]) if weight is None else P[0] * (1 - P[0]) * weight
        total[0, :, 0] = (X * h[:, None]).T @ X
        return total
    rows = max(64, _CHUNK // (r * e))
    for i in range(0, len(X), rows):
        x, p = X[i : i + rows], P[:, i : i + rows]
        if weight is not None:
            x = x * weight[i : i + rows, None].sqrt()
        scaled = p.T[:, :, None] * x[:, None, :]  # (n, r, e)
        flat = scaled.reshape(len(x), r * e)
        diagonal = (x.T @ flat).reshape(e, r, e)
        for a in range(r):
            block = scaled[:, a].T @ flat[:, : (a + 1) * e]  # (e, (a + 1) e)
            total[a, :, : a + 1] -= block.reshape(e, a + 1, e)
            total[a, :, a] += diagonal[:, a]
    return total


def mirror(lower: Tensor) -> Tensor:
    """The symmetric matrix (m, m) of which ``second_order`` gave the lower blocks."""
    m = lower.shape[0] * lower.shape[1]
    matrix = lower.reshape(m, m)
    return matrix.tril() + matrix.tril(-1).T


def with_ones(X: Tensor, intercept: bool) -> Tensor:
    """The rows with a last column of ones for the intercept."""
    return torch.cat([X, X.new_ones(len(X), 1)], 1) if intercept else X


def probabilities(theta: Tensor, X: Tensor, *, log: bool = False) -> Tensor:
    """Class probabilities (n, k) or their logarithms; one row of ``theta`` stands for two classes."""
    z = scores(theta, X)
    if z.shape[1] == 1:
        z = torch.cat([torch.zeros_like(z), z], 1)
    return torch.log_softmax(z, 1) if log else torch.softmax(z, 1)
