"""Distances of points, of sets of points, and of normal laws: Mahalanobis, Hausdorff, Fréchet."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.distributions import Distribution

from benthic.base.errors import InvalidInput
from benthic.distributions.laws import gaussian
from benthic.distributions.sources import Samples
from benthic.distributions.tables import as_float_tensor
from benthic.linalg import cholesky

_FIRST, _BLOCK = 64, 2048  # points of a first and of a largest tile of distances


def mahalanobis(x: Any, y: Any, covariance: Any = None, *, squared: bool = False) -> Tensor:
    r"""The distance of two points, or of a point from a law, in units of a covariance.

    .. math:: d(x, y) = \sqrt{(x - y)^T \Sigma^{-1} (x - y)}

    Mahalanobis, 1936. Between two points it is their difference that counts, wherever the mean is; from a law
    it is the difference from its mean.

    x: (..., d) points. y: (..., d) points, or a distribution of vectors, whose covariance is then used.
    covariance: (..., d, d), symmetric and positive definite. All broadcast. Returns (...).

    >>> mahalanobis([2.0, 0.0], [0.0, 0.0], [[4.0, 0.0], [0.0, 1.0]])
    tensor(1., dtype=torch.float64)
    """
    if isinstance(y, Distribution):
        if covariance is not None:
            raise InvalidInput("mahalanobis: a distribution brings its own covariance; leave out the argument")
        y, covariance = _moments_of_law(y, "mahalanobis")
    elif covariance is None:
        raise InvalidInput("mahalanobis: covariance is missing; give a matrix (d, d), or a distribution for y")
    x, y, covariance = _same_type(x, y, covariance)
    if x.ndim < 1 or y.ndim < 1 or not x.shape[-1] == y.shape[-1] == covariance.shape[-1]:
        raise InvalidInput(
            f"mahalanobis: x, y and covariance have shapes {tuple(x.shape)}, {tuple(y.shape)} and "
            f"{tuple(covariance.shape)}; the last dimension, d, must be the same"
        )
    factor = cholesky(covariance, name="the covariance of mahalanobis")
    gap = x - y
    if factor.ndim == 2:  # one matrix for all points: one solve with many right-hand sides
        white = torch.linalg.solve_triangular(factor, gap.reshape(-1, gap.shape[-1]).T, upper=False)
        square = white.square().sum(0).reshape(gap.shape[:-1])
    else:
        square = torch.linalg.solve_triangular(factor, gap[..., None], upper=False).square().sum((-2, -1))
    return square if squared else _root(square)


def hausdorff(X: Any, Y: Any, *, directed: bool = False, norm: float = 2.0) -> Tensor:
    r"""The Hausdorff distance of two sets of points: how far the worst point of one is from the other set.

    .. math:: h(X, Y) = \max_{x} \min_{y} \|x - y\|, \quad H(X, Y) = \max(h(X, Y), h(Y, X))

    Hausdorff, 1914. Only points that may still decide are compared (Taha & Hanbury, 2015), one by one on the CPU and
    in tiles of at most 2048 a side on a device, so memory does not grow with the product of the sizes. The gradient
    is that of the deciding pair.

    X: (n, d). Y: (m, d). directed: h instead of H. norm: of the differences. Returns a scalar tensor.

    >>> hausdorff([[0.0], [1.0]], [[0.0], [5.0]])
    tensor(4., dtype=torch.float64)
    >>> hausdorff([[0.0], [1.0]], [[0.0], [5.0]], directed=True)
    tensor(1., dtype=torch.float64)
    """
    X, Y = _same_type(X, Y)
    for name, points in (("X", X), ("Y", Y)):
        if points.ndim != 2 or not points.numel():
            raise InvalidInput(
                f"hausdorff: {name} has shape {tuple(points.shape)}; at least one point, (n, d), is needed"
            )
        if not bool(torch.isfinite(points).all()):
            raise InvalidInput(f"hausdorff: {name} has NaN or infinite coordinates")
    if X.shape[1] != Y.shape[1]:
        raise InvalidInput(f"hausdorff: X has {X.shape[1]} coordinates and Y has {Y.shape[1]}; they must be the same")
    with torch.no_grad():
        pairs = [_deciding_pair(X, Y, norm)]
        if not directed:
            pairs.append(_deciding_pair(Y, X, norm)[::-1])
    apart = [torch.linalg.vector_norm(X[i] - Y[j], ord=norm) for i, j in pairs]
    return torch.stack(apart).max()


def frechet(p: Any, q: Any, *, squared: bool = False) -> Tensor:
    r"""The Fréchet distance of two normal laws, which is also their Wasserstein distance of order 2.

    .. math:: d^2 = \|\mu_p - \mu_q\|^2
        + \operatorname{tr}\big(\Sigma_p + \Sigma_q - 2 (\Sigma_p^{1/2} \Sigma_q \Sigma_p^{1/2})^{1/2}\big)

    Dowson & Landau, 1982. The trace is computed as the least squared distance of square roots R of the two
    covariances over rotations Q, of R_p and R_q Q, so that nothing cancels where the laws are close or the
    covariances singular. Gradients flow to means and covariances; along directions in which a covariance is
    singular they are taken as those of the other terms.

    p, q: each a pair of mean (..., d) and covariance (..., d, d), a normal law, or samples (n, d).
    squared: d² as in the Fréchet inception distance. Returns (...).

    >>> frechet(([0.0], [[1.0]]), ([3.0], [[25.0]]))
    tensor(5., dtype=torch.float64)
    """
    (a, A), (b, B) = _moments(p, "p"), _moments(q, "q")
    if a.shape[-1] != b.shape[-1]:
        raise InvalidInput(f"frechet: p has {a.shape[-1]} dimensions and q has {b.shape[-1]}; they must be the same")
    a, A, b, B = _same_type(a, A, b, B)
    batch = torch.broadcast_shapes(A.shape, B.shape)
    square = (a - b).square().sum(-1) + _Bures.apply(A.expand(batch), B.expand(batch))
    return square if squared else _root(square)


class _Bures(torch.autograd.Function):
    """tr(A + B − 2(A^½ B A^½)^½) for positive semidefinite matrices."""

    @staticmethod
    def forward(ctx: Any, A: Tensor, B: Tensor) -> Tensor:
        (root_a, inverse_a), (root_b, inverse_b) = _roots(A), _roots(B)
        U, S, Vh = torch.linalg.svd(root_a.mT @ root_b)  # its singular values are those of (A^½ B A^½)^½
        ctx.save_for_backward(inverse_a, inverse_b, U, S, Vh)
        return (root_a - root_b @ (U @ Vh).mT).square().sum((-2, -1))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        inverse_a, inverse_b, U, S, Vh = ctx.saved_tensors
        eye = torch.eye(U.shape[-1], dtype=U.dtype, device=U.device)
        # I minus the matrix that carries one law to the other (Takatsu, 2011)
        there = inverse_a @ ((U * S[..., None, :]) @ U.mT) @ inverse_a.mT
        back = inverse_b @ ((Vh.mT * S[..., None, :]) @ Vh) @ inverse_b.mT
        scale = gradient[..., None, None]
        return scale * (eye - there), scale * (eye - back)


def _roots(A: Tensor) -> tuple[Tensor, Tensor]:
    """R with A = R Rᵀ, and the transposed pseudo-inverse of R; eigenvalues below rounding count as zero."""
    values, vectors = torch.linalg.eigh(0.5 * (A + A.mT))
    largest = values[..., -1:].clamp(min=0)
    rounding = A.shape[-1] * torch.finfo(A.dtype).eps * largest
    if bool((values < -max(64, A.shape[-1]) * rounding - math.sqrt(torch.finfo(A.dtype).eps) * largest).any()):
        raise InvalidInput(
            f"frechet: a covariance has the eigenvalue {float(values.min()):.3g}; it must be positive semidefinite"
        )
    kept = values > rounding
    root = torch.where(kept, values, 0.0).sqrt()
    inverse = torch.where(kept, 1 / torch.where(kept, root, 1.0), 0.0)
    return vectors * root[..., None, :], vectors * inverse[..., None, :]


def _moments(p: Any, name: str) -> tuple[Tensor, Tensor]:
    if isinstance(p, Distribution):
        return _moments_of_law(p, "frechet")
    if not isinstance(p, tuple):
        return _moments_of_sample(p.rows if isinstance(p, Samples) else as_float_tensor(p), name)
    if len(p) != 2:
        raise InvalidInput(f"frechet: {name} is a tuple of {len(p)}; a pair of mean and covariance is needed")
    mean, covariance = (as_float_tensor(part) for part in p)
    if mean.ndim < 1 or covariance.shape[-2:] != (mean.shape[-1], mean.shape[-1]):
        raise InvalidInput(
            f"frechet: {name} has a mean of shape {tuple(mean.shape)} and a covariance of shape "
            f"{tuple(covariance.shape)}; (..., d) and (..., d, d) are needed"
        )
    gap = float((covariance - covariance.mT).detach().abs().max())
    if not gap <= math.sqrt(torch.finfo(covariance.dtype).eps) * float(covariance.detach().abs().max()):
        raise InvalidInput(
            f"frechet: the covariance of {name} is not symmetric; it differs from its transpose by {gap:.3g}"
        )
    return mean, covariance


def _moments_of_sample(rows: Tensor, name: str) -> tuple[Tensor, Tensor]:
    if rows.ndim != 2 or len(rows) < 2:
        raise InvalidInput(f"frechet: {name} has shape {tuple(rows.shape)}; samples are (n, d) with n at least 2")
    mean = rows.mean(0)
    centered = rows - mean
    return mean, centered.T @ centered / (len(rows) - 1)


def _moments_of_law(law: Distribution, where: str) -> tuple[Tensor, Tensor]:
    try:
        return gaussian(law)
    except NotImplementedError as error:
        if where == "mahalanobis" and len(law.event_shape) == 1 and hasattr(law, "covariance_matrix"):
            return law.mean, law.covariance_matrix
        raise InvalidInput(f"{where}: {type(law).__name__} is not normal; give its mean and covariance") from error


def _deciding_pair(X: Tensor, Y: Tensor, norm: float) -> tuple[int, int]:
    """The rows i of X and j of Y whose distance is h(X, Y): SciPy's loop where it applies, tiles elsewhere."""
    if X.device.type != "cpu" or norm != 2:
        return _by_tiles(X, Y, norm)
    from scipy.spatial.distance import directed_hausdorff

    _, i, j = directed_hausdorff(X.detach().double().numpy(), Y.detach().double().numpy())
    return int(i), int(j)


def _by_tiles(X: Tensor, Y: Tensor, norm: float) -> tuple[int, int]:
    """The deciding pair, a tile of distances at a time.

    A row is dropped as soon as a point of Y is nearer to it than the worst row so far is to all of Y, which in
    random order is soon for most (Taha & Hanbury, 2015); here whole tiles of rows are dropped at a time.
    """
    rows, columns = (torch.randperm(len(side), generator=torch.Generator().manual_seed(0)) for side in (X, Y))
    rows, columns = rows.to(X.device), columns.to(X.device)
    worst, pair, start, size = -math.inf, (0, 0), 0, 16
    while start < len(rows):
        alive, near, at = _survivors(X, Y, rows[start : start + size], columns, worst, norm)
        if len(alive):
            top = int(near.argmax())
            worst, pair = float(near[top]), (int(alive[top]), int(at[top]))
        start, size = start + size, min(2 * size, _BLOCK)  # few rows first, which are worked out to the end
    return pair


def _survivors(
    X: Tensor, Y: Tensor, alive: Tensor, columns: Tensor, worst: float, norm: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Those rows of X that are farther than ``worst`` from all of Y, their distances, and the points they are to."""
    near = X.new_full((len(alive),), math.inf)
    at = torch.zeros_like(alive)
    start, width = 0, _FIRST
    while start < len(columns) and len(alive):
        some = columns[start : start + width]
        # differences, not inner products: those lose half of the digits of small distances
        tile = torch.cdist(X[alive], Y[some], p=norm, compute_mode="donot_use_mm_for_euclid_dist")
        found = tile.min(1)
        closer = found.values < near
        near, at = torch.where(closer, found.values, near), torch.where(closer, some[found.indices], at)
        kept = near > worst
        alive, near, at = alive[kept], near[kept], at[kept]
        start, width = start + width, min(2 * width, _BLOCK)
    return alive, near, at


def _same_type(*values: Any) -> list[Tensor]:
    tensors = [as_float_tensor(value) for value in values]
    dtype = tensors[0].dtype
    for tensor in tensors[1:]:
        dtype = torch.promote_types(dtype, tensor.dtype)
    return [tensor.to(dtype) for tensor in tensors]


def _root(square: Tensor) -> Tensor:
    """The square root, with gradient 0 instead of NaN at 0."""
    positive = square > 0
    return torch.where(positive, torch.where(positive, square, 1.0).sqrt(), 0.0)
