"""The M step, and what is done about components that collapse."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from benthic.mixture.expectation import Sums
from benthic.mixture.parameters import Gaussians

# A component that holds less than this many rows has no mean; a variance below this share of its column's
# is a component that sits on a point or a plane, and cannot be told from rounding.
_DEAD = 1e-6
_NARROW = {torch.float64: 1e-16, torch.float32: 1e-8}


class Floor(NamedTuple):
    """Least variances: ``total`` (d,) is the variance of each column, ``dtype`` the type the rows have."""

    total: Tensor
    dtype: torch.dtype

    def under(self, variances: Tensor) -> Tensor:
        """The least believable variance of each column where components have these variances (..., d)."""
        noise = 2 * variances.shape[-1] * torch.finfo(self.dtype).eps
        total = torch.where(self.total > 0, self.total, 1.0)
        return torch.maximum(variances * noise, total * _NARROW[self.dtype])


class Maximum(NamedTuple):
    """The new mixture, which components have no rows left, and which had to be widened."""

    mixture: Gaussians
    dead: list[int]
    narrow: list[int]


def maximize(old: Gaussians, sums: Sums, reg_covar: float, floor: Floor) -> Maximum:
    """The most likely parameters given the sums of the E step, all in float64.

    .. math:: C = L (S/N - d d^T) L^T

    with S the second moments about the old means in white coordinates and d the step of the mean there, but no
    narrower than ``reg_covar`` in any direction: of all such covariances the most likely one, so that no step lowers
    the likelihood. Adding ``reg_covar`` to the variances would, and does so where columns have none or have gaps.
    """
    count = sums["count"]
    dead = (count < _DEAD).nonzero()[:, 0].tolist()
    rows = count.clamp(min=_DEAD)[:, None]
    step = torch.where(count[:, None] < _DEAD, 0.0, sums["first"] / rows)  # (k, d)
    weights = count.clamp(min=torch.finfo(torch.float64).tiny)
    update = {"full": _full, "tied": _tied, "diag": _diagonal, "spherical": _diagonal}[old.kind]
    root, narrow = update(old, sums["second"], count, step, reg_covar, floor)
    mixture = Gaussians.of_roots(old.kind, weights / weights.sum(), old.means + step, root)
    return Maximum(mixture, dead, [k for k in narrow if k not in dead])


def _full(
    old: Gaussians, second: Tensor, count: Tensor, step: Tensor, reg_covar: float, floor: Floor
) -> tuple[Tensor, list[int]]:
    white = (step[:, None] @ old.factor)[:, 0]
    moments = second / count.clamp(min=_DEAD)[:, None, None] - white[:, :, None] * white[:, None, :]
    covariances = _unwhiten(moments, old.root)
    covariances = torch.where(count[:, None, None] < _DEAD, old.covariances, covariances)
    return _safe_root(covariances, reg_covar, floor)


def _tied(
    old: Gaussians, second: Tensor, count: Tensor, step: Tensor, reg_covar: float, floor: Floor
) -> tuple[Tensor, list[int]]:
    white = step @ old.factor
    moments = (second - white.T @ (count[:, None] * white)) / count.sum()
    return _safe_root(_unwhiten(moments, old.root), reg_covar, floor)


def _unwhiten(moments: Tensor, root: Tensor) -> Tensor:
    covariances: Tensor = root @ moments @ root.mT
    return 0.5 * (covariances + covariances.mT)


def _diagonal(
    old: Gaussians, second: Tensor, count: Tensor, step: Tensor, reg_covar: float, floor: Floor
) -> tuple[Tensor, list[int]]:
    deviations = old.deviations
    spread = second / count.clamp(min=_DEAD)[:, None] - (step / deviations).square()
    variances = deviations.square() * torch.where(count[:, None] < _DEAD, 1.0, spread)
    least = floor.under(variances.clamp(min=0))
    if old.kind == "spherical":
        variances, least = variances.mean(1), least.min(1).values
    low = (variances < least) & (least > reg_covar)
    narrow = low.reshape(len(low), -1).any(1).nonzero()[:, 0].tolist()
    return torch.maximum(variances, least.clamp(min=reg_covar)).sqrt(), narrow


def _safe_root(covariances: Tensor, reg_covar: float, floor: Floor) -> tuple[Tensor, list[int]]:
    """Cholesky factors, with the eigenvalues of those that are too narrow lifted to ``reg_covar`` or the floor."""
    stack = covariances.reshape(-1, *covariances.shape[-2:])
    roots = torch.linalg.cholesky_ex(stack).L
    under = floor.under(stack.diagonal(dim1=-2, dim2=-1).clamp(min=0))  # (k or 1, d)
    least = under.clamp(min=reg_covar)
    low = torch.linalg.cholesky_ex(stack - torch.diag_embed(least)).info > 0
    for k in low.nonzero()[:, 0].tolist():
        scale = least[k].sqrt()
        values, vectors = torch.linalg.eigh(stack[k] / (scale[:, None] * scale))
        half = scale[:, None] * vectors * values.clamp(min=1.0).sqrt()
        # half halfᵀ is the lifted covariance; its triangular factor needs no second squaring
        upper = torch.linalg.qr(half.T).R
        roots[k] = upper.T * torch.sign(torch.diagonal(upper))
    narrow = (low & (under > reg_covar).any(1)).nonzero()[:, 0].tolist()
    return roots.reshape(covariances.shape), narrow


def split_heaviest(mixture: Gaussians, dead: list[int]) -> Gaussians:
    """Give each dead component half of the heaviest one: the means part by one deviation, along its longest root."""
    weights, means, root = mixture.weights.clone(), mixture.means.clone(), mixture.root.clone()
    for k in dead:
        heavy = int(weights.argmax())
        direction = _longest(mixture.kind, root, heavy, mixture.d)
        weights[k] = weights[heavy] = (weights[heavy] + weights[k]) / 2
        means[k], means[heavy] = means[heavy] - 0.5 * direction, means[heavy] + 0.5 * direction
        if mixture.kind != "tied":
            root[k] = root[heavy]
    return Gaussians.of_roots(mixture.kind, weights, means, root)


def _longest(kind: str, root: Tensor, k: int, d: int) -> Tensor:
    """The longest column of a component's root, (d,)."""
    if kind == "spherical":
        return torch.nn.functional.one_hot(torch.tensor(0), d) * root[k]
    if kind == "diag":
        return torch.nn.functional.one_hot(root[k].argmax(), d) * root[k]
    columns = root if kind == "tied" else root[k]
    return columns[:, int(columns.norm(dim=0).argmax())]
