"""The Fréchet distance of two samples' features, its error, and what it would be for endless samples."""

from __future__ import annotations

import math
import warnings
from typing import Any, NamedTuple

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.base.estimate import Estimate
from benthic.distributions.distances import frechet
from benthic.metrics.samples import Features, at_least, from_influences, pair, rows_of, shuffled


def frechet_distance(
    real: Any,
    generated: Any,
    *,
    features: Features | None = None,
    infinite: bool = False,
    repeats: int = 4,
    seed: int = 0,
) -> Estimate:
    r"""The squared Fréchet distance of the normal laws fitted to two samples, with its standard error.

    .. math:: d^2 = \|\mu_r - \mu_g\|^2
        + \operatorname{tr}\big(\Sigma_r + \Sigma_g - 2 (\Sigma_r^{1/2} \Sigma_g \Sigma_r^{1/2})^{1/2}\big)

    Heusel et al., 2017; with Inception features it is their FID. Square roots come from eigenvalues and singular
    values, never from a general matrix square root; with fewer rows than columns, from the rows themselves.

    The error is the infinitesimal jackknife over the rows of both samples: the map that carries one fitted law to
    the other gives the influence of each row in closed form. It is right where the laws differ and too large, by
    about the square root of 2, where they are the same.

    The value of finite samples is too large by about a constant over n, more so the more columns there are, so
    only values of equal n compare. ``infinite=True`` takes that out: with both samples dealt into halves at random,
    :math:`2 d_n^2 - \bar d_{n/2}^2` has no term in 1/n (the extrapolation of Chong & Forsyth, 2020, by disjoint
    halves); it may be negative.

    real: (n, d) or images; generated: (m, d); either may be a pair (mean, covariance) of a known law, which adds no
    error. features: a function of the samples, see ``benthic.metrics.features``. repeats: deals, seed: of them.

    >>> frechet_distance(([0.0], [[1.0]]), ([3.0], [[25.0]]))
    Estimate(value=25.0, stderr=0.0)
    """
    where = "frechet_distance"
    X, Y = _sides(where, real, generated, features)
    _check_rows(where, X, Y, infinite)
    whole = _distance(X, Y)
    if not infinite:
        return whole
    if repeats < 1:
        raise InvalidInput(f"{where}: repeats is {repeats}; at least one deal into halves is needed")
    halves = [_distance(a, b, errors=False).value for r in range(repeats) for a, b in _dealt(X, Y, seed + r)]
    return Estimate(2 * whole.value - math.fsum(halves) / len(halves), whole.stderr)


class _Law(NamedTuple):
    mean: Tensor
    covariance: Tensor


def _check_rows(where: str, X: Tensor | _Law, Y: Tensor | _Law, halves: bool) -> None:
    """Refuse too few rows for a covariance, and say when it is singular."""
    why = "for the covariances of halves" if halves else "for a covariance"
    for name, side in (("real", X), ("generated", Y)):
        if isinstance(side, _Law):
            continue
        at_least(where, 4 if halves else 2, why, **{name: side})
        n, d = side.shape
        if n <= d:
            warnings.warn(
                f"{where}: {name} has {n} rows of {d} columns, so its covariance is singular and the distance far too "
                "large; use more rows or fewer features",
                stacklevel=3,
            )


def _sides(where: str, real: Any, generated: Any, features: Features | None) -> tuple[Tensor | _Law, Tensor | _Law]:
    if not isinstance(real, tuple) and not isinstance(generated, tuple):
        return pair(where, real, generated, features)
    sides = []
    for name, side in (("real", real), ("generated", generated)):
        if not isinstance(side, tuple):
            sides.append(rows_of(where, side, name, features))
            continue
        if len(side) != 2:
            raise InvalidInput(f"{where}: {name} is a tuple of {len(side)}; a pair (mean, covariance) is needed")
        law = _Law(*(torch.as_tensor(part).detach().double() for part in side))
        if not all(bool(part.isfinite().all()) for part in law):
            raise InvalidInput(f"{where}: the mean or covariance of {name} holds NaN or infinity")
        sides.append(law)
    widths = [side.shape[-1] if isinstance(side, Tensor) else side.mean.shape[-1] for side in sides]
    if widths[0] != widths[1]:
        raise InvalidInput(
            f"{where}: real has {widths[0]} columns and generated has {widths[1]}; they must be the same"
        )
    return sides[0], sides[1]


def _dealt(X: Tensor | _Law, Y: Tensor | _Law, seed: int) -> list[tuple[Tensor | _Law, Tensor | _Law]]:
    """Both samples in two halves of equal size, a known law as it is."""
    parts = []
    for name, side in (("real", X), ("generated", Y)):
        if isinstance(side, _Law):
            parts.append((side, side))
            continue
        order, half = shuffled(len(side), seed, name).to(side.device), len(side) // 2
        parts.append((side[order[:half]], side[order[half : 2 * half]]))
    return list(zip(*parts, strict=True))


def _distance(X: Tensor | _Law, Y: Tensor | _Law, errors: bool = True) -> Estimate:
    if isinstance(X, Tensor) and isinstance(Y, Tensor) and max(len(X), len(Y)) < X.shape[1]:
        return _from_rows(X, Y)
    laws = [side if isinstance(side, _Law) else _fitted(side) for side in (X, Y)]
    if not errors:
        return Estimate(float(frechet(*(tuple(law) for law in laws), squared=True)), math.nan)
    with torch.inference_mode(False), torch.enable_grad():
        roots = [_Law(*(part.clone().requires_grad_() for part in law)) for law in laws]
        value = frechet(*(tuple(law) for law in roots), squared=True)
        slopes = torch.autograd.grad(value, [part for law in roots for part in law])
    influences = [
        _influence(side, law, *slope)
        for side, law, slope in zip((X, Y), laws, (slopes[:2], slopes[2:]), strict=True)
        if isinstance(side, Tensor)
    ]
    return from_influences(value.detach(), *influences)


def _fitted(X: Tensor) -> _Law:
    mean = X.mean(0)
    centered = X - mean
    return _Law(mean, centered.T @ centered / (len(X) - 1))


def _influence(X: Tensor, law: _Law, of_mean: Tensor, of_covariance: Tensor) -> Tensor:
    centered = X - law.mean
    return centered @ of_mean + ((centered @ of_covariance) * centered).sum(1)


def _from_rows(X: Tensor, Y: Tensor) -> Estimate:
    """The same from the singular values of X Yᵀ (n, m), where columns outnumber rows."""
    gap = X.mean(0) - Y.mean(0)
    A, B = (side - side.mean(0) for side in (X, Y))
    n, m = len(A) - 1, len(B) - 1
    U, S, Vh = torch.linalg.svd(A @ B.T / math.sqrt(n * m), full_matrices=False)
    squares = [side.square().sum(1) for side in (A, B)]
    value = gap.square().sum() + squares[0].sum() / n + squares[1].sum() / m - 2 * S.sum()
    # a row x of A is √n times a row of its factor, so that xᵀTx = n Σ U² S for the map T to the other law
    influences = (
        2 * A @ gap + squares[0] - n * U.square() @ S,
        -2 * B @ gap + squares[1] - m * Vh.square().T @ S,
    )
    return from_influences(value.clamp_min(0), *influences)
