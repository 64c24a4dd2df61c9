"""Drawing the missing part of a row from any density, given the rest of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.nets.noise import draw_normal, draw_uniform
from benthic.uses.latent import Filled

Density = Callable[[Tensor], Tensor]
Move = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]  # rows (k, n, d) and their log-densities (k, n), moved
_SPREAD = 1.5  # proposals are wider than the Gaussian they come from, so that weights stay bounded
_ROWS = 1 << 14  # rows times candidates evaluated at once
_LEAST = 1e-10  # share of a variance that rounding may take


class Moments(NamedTuple):
    """Mean (d,) and covariance (d, d) of the rows a model makes: where to look for what is missing."""

    mean: Tensor
    covariance: Tensor

    @classmethod
    def of(cls, rows: Tensor) -> Moments:
        """The moments of rows (n, d)."""
        d = rows.shape[1]
        covariance = torch.cov(rows.T).reshape(d, d)
        return cls(rows.mean(0), covariance + 1e-4 * torch.eye(d, dtype=rows.dtype, device=rows.device))


@torch.no_grad()
def fill_gaps(
    density: Density,
    X: Tensor,
    moments: Moments,
    generator: torch.Generator,
    *,
    candidates: int = 64,
    chains: int = 1,
    moves: int = 16,
    mover: Callable[[Tensor], Move] | None = None,
    outward: Callable[[Tensor], Tensor] = lambda rows: rows,
) -> Filled:
    """A draw of the gaps of ``X`` given the rest, and the mean of the rows over all chains and moves.

    Candidates for the gaps come from a Gaussian with the moments of the model, conditioned on what is known; one
    for each chain is chosen by its importance weight (Rubin, 1988), and then moved by Metropolis steps of many
    sizes, which leave the conditional density as it is.

    density: log p of rows (n, d), up to a constant. X: (n, d) with NaN for gaps. mover: makes, for some rows of X, one
    more move that leaves the conditional density as it is, taken after each step. outward: what the mean is taken of,
    a function of rows (m, d), where what is sought is no linear one.
    """
    filled, means = X.clone(), []
    rows = torch.isnan(X).any(1).nonzero()[:, 0]
    for block in rows.split(max(1, _ROWS // max(candidates, chains))) if len(rows) else ():
        proposal = _Proposal(X[block], moments)
        found = _start(density, proposal, generator, candidates, chains)
        more = None if mover is None else mover(X[block])
        filled[block], mean = _move(density, proposal, found, generator, moves, more, outward)
        means.append(mean)
    expected = outward(filled).clone()
    if means:
        expected[rows] = torch.cat(means)
    return Filled(filled, expected)


@torch.no_grad()
def log_marginal(
    density: Density, X: Tensor, moments: Moments, generator: torch.Generator, *, candidates: int = 64
) -> Tensor:
    """log p of what is known of each row of ``X``, (n,), by importance sampling of its gaps; see ``fill_gaps``."""
    parts = []
    for block in X.split(max(1, _ROWS // candidates)):
        proposal = _Proposal(block, moments)
        noise = proposal.noise(candidates, generator)
        log = _evaluate(density, proposal.center + _SPREAD * proposal.shaped(noise))
        volume = proposal.root.diagonal(dim1=1, dim2=2) * (_SPREAD * math.sqrt(2 * math.pi))
        spread = torch.where(proposal.gaps, volume, 1.0).log().sum(1)
        ratios = log + 0.5 * noise.square().sum(-1) + spread
        parts.append(torch.logsumexp(ratios, 0) - math.log(candidates))
    return torch.cat(parts)


class _Proposal:
    """A Gaussian for the gaps of rows (n, d), with no spread in the columns that are known.

    center: (n, d) the known values, and the expected ones in gaps. root: (n, d, d) factors of the covariances.
    """

    def __init__(self, X: Tensor, moments: Moments) -> None:
        self.gaps = torch.isnan(X)
        self.center, self.root = X.clone(), X.new_zeros(*X.shape, X.shape[1])
        kinds, which = torch.unique(self.gaps, dim=0, return_inverse=True)
        for i, gaps in enumerate(kinds):  # rows that miss the same columns
            rows, known = (which == i).nonzero()[:, 0], (~gaps).nonzero()[:, 0]
            missing = gaps.nonzero()[:, 0]
            cross = moments.covariance[known][:, missing]
            weights = torch.linalg.solve(moments.covariance[known][:, known], cross)
            shift = (X[rows][:, known] - moments.mean[known]) @ weights
            self.center[rows[:, None], missing] = moments.mean[missing] + shift
            left = moments.covariance[missing][:, missing] - cross.T @ weights
            self.root[rows[:, None, None], missing[:, None], missing] = _root(left)

    def noise(self, count: int, generator: torch.Generator) -> Tensor:
        """Standard normal numbers (count, n, d) in gaps, zero elsewhere."""
        return draw_normal((count, *self.center.shape), self.center, generator) * self.gaps

    def shaped(self, noise: Tensor) -> Tensor:
        """Noise (k, n, d) with the covariance of the proposal."""
        return torch.einsum("nij,knj->kni", self.root, noise)


def _root(covariance: Tensor) -> Tensor:
    """A factor of a covariance (d, d), widened as much as rounding may have taken from it."""
    if not bool(torch.isfinite(covariance).all()):
        raise InvalidInput("the model's own draws have no finite covariance, so that gaps cannot be filled")
    least = _LEAST * float(covariance.diagonal().abs().max()) + _LEAST
    eye = torch.eye(len(covariance), dtype=covariance.dtype, device=covariance.device)
    found, failed = torch.linalg.cholesky_ex(covariance)
    while int(failed):  # ends, since what is added outgrows any finite matrix
        found, failed = torch.linalg.cholesky_ex(covariance + least * eye)
        least *= 10
    return found


def _evaluate(density: Density, rows: Tensor) -> Tensor:
    """The log-density (k, n) of rows (k, n, d)."""
    return density(rows.flatten(0, 1)).reshape(rows.shape[:2])


def _start(
    density: Density, proposal: _Proposal, generator: torch.Generator, candidates: int, chains: int
) -> tuple[Tensor, Tensor]:
    """Rows (chains, n, d) chosen among candidates by their weights, with their log-densities (chains, n)."""
    noise = proposal.noise(candidates, generator)
    rows = proposal.center + _SPREAD * proposal.shaped(noise)
    log = _evaluate(density, rows)
    weights = torch.softmax(log + 0.5 * noise.square().sum(-1), 0)  # (candidates, n)
    uniform = draw_uniform((chains, weights.shape[1]), weights, generator)
    chosen = torch.searchsorted(weights.cumsum(0).T.contiguous(), uniform.T.contiguous()).T.clamp(max=candidates - 1)
    return rows.gather(0, chosen[..., None].expand(-1, -1, rows.shape[2])), log.gather(0, chosen)


def _move(
    density: Density,
    proposal: _Proposal,
    start: tuple[Tensor, Tensor],
    generator: torch.Generator,
    moves: int,
    more: Move | None,
    outward: Callable[[Tensor], Tensor],
) -> tuple[Tensor, Tensor]:
    """One of the chains after some Metropolis steps (n, d), and the mean outward (n, w) over chains and steps."""
    rows, log = start
    total = _mean(outward, rows)
    reach = 2.4 / proposal.gaps.sum(1).sqrt()  # (n,)
    for _ in range(moves):
        size = reach * 10 ** (-1.5 * draw_uniform(log.shape, log, generator))  # (chains, n)
        there = rows + size[..., None] * proposal.shaped(proposal.noise(len(rows), generator))
        log_there = _evaluate(density, there)
        accepted = torch.log(draw_uniform(log.shape, log, generator)) < log_there - log
        rows = torch.where(accepted[..., None], there, rows)
        log = torch.where(accepted, log_there, log)
        if more is not None:
            rows, log = more(rows, log)
        total = total + _mean(outward, rows)
    return rows[0], total / (moves + 1)


def _mean(outward: Callable[[Tensor], Tensor], rows: Tensor) -> Tensor:
    """The mean over chains of what rows (k, n, d) are outward, (n, w)."""
    return outward(rows.flatten(0, 1)).unflatten(0, rows.shape[:2]).mean(0)
