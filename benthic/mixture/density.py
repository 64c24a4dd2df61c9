"""What a mixture of Gaussians says about rows, with or without gaps: densities, conditionals, draws."""

from __future__ import annotations

import torch
from torch import Tensor

from benthic.mixture.common import choose
from benthic.mixture.expanded import prepare
from benthic.mixture.expectation import Blocks, Explicit, Workspace
from benthic.mixture.missing import Conditional, differences, groups
from benthic.mixture.parameters import Gaussians

_GAP_ROWS = 1 << 13  # rows with gaps worked on at once


def log_joint(mixture: Gaussians, X: Tensor) -> Tensor:
    """log w_k + log N(x; μ_k, C_k) over the observed columns of each row, (n, k); gradients flow to ``X``.

    mixture: in float64, on the device of ``X``.
    """
    holed = torch.isnan(X).any(1)
    if mixture.diagonal or not bool(holed.any()):
        return _complete(mixture, X, gaps=bool(holed.any()))
    log = X.new_empty(len(X), mixture.k)
    log[~holed] = _complete(mixture, X[~holed], gaps=False)
    log[holed] = _with_gaps(mixture, X[holed])
    return log


def _blocks(mixture: Gaussians, X: Tensor, gaps: bool) -> Blocks:
    return prepare(mixture, mixture.weights @ mixture.means, X.dtype, X.device, gaps=gaps)


def _complete(mixture: Gaussians, X: Tensor, gaps: bool) -> Tensor:
    blocks = _blocks(mixture, X, gaps)
    parts = [rows for rows, _ in blocks.parts(X, None)]
    if X.requires_grad:
        return torch.cat([blocks.log_joint(rows) for rows in parts], 1).T
    scratch, out, start = Workspace(X.dtype, X.device), X.new_empty(len(X), mixture.k), 0
    for rows in parts:
        out[start : start + len(rows)] = blocks.log_joint(rows, scratch).T
        start += len(rows)
    return out


def _with_gaps(mixture: Gaussians, X: Tensor) -> Tensor:
    parts = []
    for block in X.split(_GAP_ROWS):
        log = X.new_empty(len(block), mixture.k)
        for rows, observed in groups(torch.isnan(block), mixture.k):
            delta = differences(block[rows].double(), mixture.means, observed)
            joint = mixture.weights.log()[:, None] + Conditional(mixture, observed).log_density(delta)
            log[rows.flatten()] = joint.movedim(1, 2).flatten(0, 1).to(log.dtype)  # (P c, k)
        parts.append(log)
    return torch.cat(parts)


def gradient(mixture: Gaussians, X: Tensor) -> Tensor:
    r"""Gradient of the log-density at each complete row, like ``X``.

    .. math:: \nabla \log p(x) = - \sum_k r_k(x)\, C_k^{-1} (x - \mu_k)
    """
    blocks = Explicit(mixture, mixture.weights @ mixture.means, X.dtype, X.device)
    return torch.cat([blocks.gradient(rows) for rows, _ in blocks.parts(X, None)])


def expectations(mixture: Gaussians, X: Tensor) -> Tensor:
    """``X`` with every gap filled by its mean given the observed columns of its row."""
    gaps = torch.isnan(X)
    share = torch.softmax(log_joint(mixture, X).double(), 1)
    if mixture.diagonal:
        return torch.where(gaps, (share @ mixture.means).to(X.dtype), X)
    filled = X.clone()
    for chosen in gaps.any(1).nonzero()[:, 0].split(_GAP_ROWS):
        for inside, observed in groups(gaps[chosen], mixture.k):
            rows = chosen[inside]  # (P, c)
            delta = differences(X[rows].double(), mixture.means, observed)
            means = mixture.means[:, None] + Conditional(mixture, observed).expect(delta)  # (P, k, c, d)
            mixed = torch.einsum("pck,pkcd->pcd", share[rows], means)
            filled[rows] = torch.where(gaps[rows], mixed.to(X.dtype), X[rows])
    return filled


def draw(mixture: Gaussians, n: int, generator: torch.Generator) -> Tensor:
    """``n`` rows of the mixture, (n, d)."""
    return _draw_from(mixture, choose(mixture.weights.expand(n, -1), generator), generator)


def draw_given(mixture: Gaussians, X: Tensor, generator: torch.Generator) -> Tensor:
    """``X`` with the gaps of each row drawn given its observed columns.

    A component is drawn by its responsibility, then a whole row of it, which is moved by what the
    observed columns differ from it (Matheron's rule; Doucet, 2010).
    """
    gaps = torch.isnan(X)
    component = choose(torch.softmax(log_joint(mixture, X).double(), 1), generator)
    free = _draw_from(mixture, component, generator)
    if mixture.diagonal:
        return torch.where(gaps, free.to(X.dtype), X)
    drawn = X.clone()
    for chosen in gaps.any(1).nonzero()[:, 0].split(_GAP_ROWS):
        for inside, observed in groups(gaps[chosen], mixture.k):
            rows = chosen[inside]  # (P, c)
            miss = torch.where(gaps[rows], 0.0, X[rows].double() - free[rows])
            moved = Conditional(mixture, observed).expect(miss[:, None].expand(-1, mixture.k, -1, -1))
            which = component[rows][:, None, :, None].expand(-1, 1, -1, mixture.d)
            full = free[rows] + moved.gather(1, which)[:, 0]
            drawn[rows] = torch.where(gaps[rows], full.to(X.dtype), X[rows])
    return drawn


def _draw_from(mixture: Gaussians, component: Tensor, generator: torch.Generator) -> Tensor:
    """A row of each chosen component, (n, d)."""
    noise = torch.randn(len(component), mixture.d, generator=generator, dtype=torch.float64)
    noise = noise.to(component.device)
    if mixture.diagonal:
        return mixture.means[component] + mixture.deviations[component] * noise
    for k in range(mixture.k):
        root = mixture.root if mixture.kind == "tied" else mixture.root[k]
        chosen = component == k
        noise[chosen] = mixture.means[k] + noise[chosen] @ root.T
    return noise
