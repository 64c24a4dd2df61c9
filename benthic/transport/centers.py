"""Barycenters of measures: on a fixed support by Bregman projections, on a free support by moving points."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.base.seeds import generator, seed_of
from benthic.base.settings import is_whole
from benthic.transport import checks
from benthic.transport.costs import PointCloud
from benthic.transport.entropic import sinkhorn
from benthic.transport.program import exact

Smooth = Callable[[Tensor], Tensor]


class FixedSupport(NamedTuple):
    """The histogram (n,) or image (h, w, ...) with how the iteration ended."""

    masses: Tensor
    iterations: int
    error: float
    converged: bool


class FreeSupport(NamedTuple):
    """Points (n, d) with masses (n,), the mean squared distance to the measures, and how the iteration ended."""

    points: Tensor
    masses: Tensor
    value: Tensor
    iterations: int
    converged: bool


def barycenter(
    measures: Any,
    cost: Any = None,
    epsilon: float = 1e-3,
    weights: Any = None,
    *,
    debiased: bool = False,
    tol: float | None = None,
    max_iter: int = 1000,
) -> FixedSupport:
    r"""The entropic Wasserstein barycenter of histograms on one support.

    .. math:: \min_{q} \sum_k w_k \, OT_\epsilon(q, p_k)

    Iterative Bregman projections (Benamou et al., 2015) in the log domain; ``debiased`` takes the Sinkhorn divergence
    in place of the cost, which removes the blur (Janati et al., 2020).

    measures: (k, n) histograms that sum to one, with cost: (n, n); or images (k, h, w, ...) without a cost, whose
    pixels lie 1 / max(h, w, ...) apart and whose squared distance is taken one axis at a time, so that no matrix of
    all pairs of pixels is ever made. weights: (k,), None is equal. tol: stop when the answer moves by at most this (L1)
    in an iteration, None is 1e-6 for float32 and 1e-10 for float64. Differentiable through the iterations.

    >>> measures = torch.eye(3)[[0, 2]]
    >>> cost = torch.tensor([[0.0, 1.0, 4.0], [1.0, 0.0, 1.0], [4.0, 1.0, 0.0]])
    >>> barycenter(measures, cost, 0.05).masses
    tensor([0., 1., 0.])
    """
    epsilon = checks.positive("barycenter", "epsilon", epsilon)
    measures, smooth = _support(measures, cost, epsilon)
    k = len(measures)
    weights = checks.masses("barycenter", "weights", weights, k, measures)
    if weights.ndim != 1:
        raise InvalidInput(
            f"barycenter: weights have shape {tuple(weights.shape)}; one number a measure ({k}) is needed"
        )
    tol = (1e-6 if measures.dtype == torch.float32 else 1e-10) if tol is None else tol
    logs = torch.where(measures > 0, measures.clamp_min(torch.finfo(measures.dtype).tiny).log(), -math.inf)
    w = weights.reshape(k, *[1] * (measures.ndim - 1))
    u, extra, error = torch.zeros_like(logs), torch.zeros_like(logs[0]), math.inf
    answer = torch.zeros_like(measures[0])
    iterations = 0
    while iterations < max_iter and not error <= tol:
        iterations += 1
        moved = smooth(logs - smooth(u))  # log K v, (k, n)
        new = (w * moved).sum(0) + (extra if debiased else 0)
        new = new - torch.logsumexp(new.flatten(), 0)  # its mass is one in the end anyway
        u = new - moved
        if debiased:
            extra = (extra + new - smooth(extra[None])[0]) / 2
        before, answer = answer, new.exp()
        error = float((answer - before).detach().abs().sum())
    return FixedSupport(answer, iterations, error, error <= tol)


def _support(measures: Any, cost: Any, epsilon: float) -> tuple[Tensor, Smooth]:
    """Checked measures, and the function h -> log sum_j exp(h_j - C_ij / epsilon)."""
    measures = checks.tensor("barycenter", "measures", measures)
    if measures.ndim < 2:
        raise InvalidInput(f"barycenter: measures have shape {tuple(measures.shape)}; one row a measure is needed")
    flat = measures.flatten(1)
    checks.masses("barycenter", "measures", flat, flat.shape[1], measures)
    if cost is None:
        return measures, _on_grid(measures, epsilon)
    scaled = checks.tensor("barycenter", "cost", cost, measures) / -epsilon
    if measures.ndim != 2 or scaled.shape != (flat.shape[1], flat.shape[1]):
        n, shape = flat.shape[1], tuple(scaled.shape)
        raise InvalidInput(
            f"barycenter: cost has shape {shape}; with measures (k, n) of {n} bins it must be ({n}, {n})"
        )
    return measures, lambda h: torch.stack([torch.logsumexp(one + scaled, -1) for one in h])


def _on_grid(measures: Tensor, epsilon: float) -> Smooth:
    spacing = 1 / max(measures.shape[1:])
    tables = []
    for size in measures.shape[1:]:
        x = torch.arange(size, dtype=measures.dtype, device=measures.device) * spacing
        tables.append(-((x[:, None] - x) ** 2) / epsilon)

    def smooth(h: Tensor) -> Tensor:
        for axis, table in enumerate(tables, start=1):
            moved = h.movedim(axis, -1).unsqueeze(-2) + table
            h = torch.logsumexp(moved, -1).movedim(-1, axis)
        return h

    return smooth


def free_support_barycenter(
    clouds: Sequence[Any],
    size: int | Any = 50,
    weights: Any = None,
    *,
    masses: Sequence[Any] | None = None,
    epsilon: float | None = None,
    tol: float = 1e-7,
    max_iter: int = 100,
    seed: int | None = None,
) -> FreeSupport:
    r"""The Wasserstein-2 barycenter of point clouds: points that move to where the plans send them.

    .. math:: x_i \leftarrow \sum_k \frac{w_k}{a_i} \sum_j T^{(k)}_{ij} y^{(k)}_j

    Cuturi and Doucet, 2014, algorithm 2 with full steps. The problem is not convex: the answer depends on the start.

    clouds: k clouds (n_k, d) with masses (n_k,), None is uniform. size: how many points, drawn from the clouds, or the
    points (n, d) to start from. epsilon: None takes exact plans, a number entropic ones. tol: stop when the points move
    by at most this, relative to the spread of the clouds.

    >>> square = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> found = free_support_barycenter([square, square + 4], square)
    >>> found.points
    tensor([[2., 2.],
            [3., 2.],
            [2., 3.],
            [3., 3.]])
    """
    Ys, Bs = _clouds(clouds, masses)
    weights = checks.masses("free_support_barycenter", "weights", weights, len(Ys), Ys[0])
    X = _first_points(size, Ys, weights, seed)
    a = torch.full((len(X),), 1 / len(X), dtype=X.dtype, device=X.device)
    scale = float(torch.cat(Ys).std(0).norm()) or 1.0
    converged, iterations = False, 0
    while iterations < max_iter and not converged:
        iterations += 1
        sent = [_send(X, Y, a, b, epsilon) for Y, b in zip(Ys, Bs, strict=True)]
        new = sum(w * moved for w, (moved, _) in zip(weights, sent, strict=True))
        converged = float((new - X).abs().max()) <= tol * scale
        X = new
    value = sum(w * _send(X, Y, a, b, epsilon)[1] for w, Y, b in zip(weights, Ys, Bs, strict=True))
    return FreeSupport(X, a, value, iterations, converged)


def _clouds(clouds: Sequence[Any], masses: Sequence[Any] | None) -> tuple[list[Tensor], list[Tensor]]:
    where = "free_support_barycenter"
    if not len(clouds):
        raise InvalidInput(f"{where}: there are no clouds; at least one is needed")
    first = checks.points(where, "cloud 0", clouds[0])
    Ys = [checks.points(where, f"cloud {k}", cloud, first).detach() for k, cloud in enumerate(clouds)]
    if any(Y.ndim != 2 or Y.shape[1] != first.shape[1] for Y in Ys):
        raise InvalidInput(f"{where}: clouds have shapes {[tuple(Y.shape) for Y in Ys]}; (n_k, d) with one d is needed")
    given = [None] * len(Ys) if masses is None else masses
    if len(given) != len(Ys):
        raise InvalidInput(f"{where}: there are {len(Ys)} clouds and {len(given)} masses; numbers must match")
    pairs = zip(given, Ys, strict=True)
    return Ys, [checks.masses(where, f"masses {k}", w, len(Y), Y) for k, (w, Y) in enumerate(pairs)]


def _first_points(size: Any, Ys: list[Tensor], weights: Tensor, seed: int | None) -> Tensor:
    if not is_whole(size):
        X = checks.points("free_support_barycenter", "size", size, Ys[0]).detach()
        if X.shape[-1] != Ys[0].shape[1]:
            columns = f"{X.shape[-1]} columns, the clouds {Ys[0].shape[1]}"
            raise InvalidInput(f"free_support_barycenter: the start has {columns}; they must agree")
        return X
    if size < 1:
        raise InvalidInput(f"free_support_barycenter: size is {size}; at least 1 point is needed")
    pool = torch.cat(Ys)
    rate = torch.cat([torch.full((len(Y),), float(w) / len(Y)) for w, Y in zip(weights, Ys, strict=True)])
    stream = generator(seed_of(seed), "barycenter")
    picked = torch.multinomial(rate, size, replacement=size > len(pool), generator=stream)
    center = sum(w * Y.mean(0) for w, Y in zip(weights, Ys, strict=True))
    chosen = pool[picked.to(pool.device)]
    return chosen - chosen.mean(0) + center


def _send(X: Tensor, Y: Tensor, a: Tensor, b: Tensor, epsilon: float | None) -> tuple[Tensor, Tensor]:
    """Where the plan sends every point on average, and what the move costs."""
    if epsilon is not None:
        found = sinkhorn(a, b, PointCloud(X, Y), epsilon)
        return found.project(Y), found.cost
    solved = exact(a, b, PointCloud(X, Y).matrix())
    return solved.plan @ Y / a[:, None], solved.value
