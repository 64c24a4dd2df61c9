"""Constants of a problem that set the speed of descent: smoothness, strong convexity, Polyak-Łojasiewicz."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.optim.objective import Batch, Function, Objective, check_function, check_start
from benthic.optim.spectrum import Product, lanczos, random_rows


class Constants(NamedTuple):
    """L: smoothness. mu: strong convexity. pl: the Polyak-Łojasiewicz constant, at least mu."""

    L: float
    mu: float
    pl: float


def extreme_eigenvalues(
    product: Product, like: Tensor, *, steps: int = 50, generator: torch.Generator | None = None
) -> tuple[float, float]:
    """The lowest and the largest eigenvalue of a symmetric operator, by Lanczos steps from a random vector.

    product: maps a tensor of the shape of ``like`` to one of that shape. The answers lie inside the spectrum and
    reach its ends as ``steps`` grow; they are exact once ``steps`` is the number of entries.

    >>> extreme_eigenvalues(lambda v: torch.arange(5.0) * v, torch.zeros(5))
    (0.0000, 4.0000)
    """
    rows = random_rows(1, like.numel(), like, generator)
    values, _ = lanczos(lambda V: product(V.reshape(like.shape)).reshape(1, -1), rows, steps)
    return float(values[0, 0]), float(values[0, -1])


def smoothness(
    f: Function,
    x: Any,
    *,
    radius: float = 0.0,
    samples: int = 16,
    steps: int = 50,
    generator: torch.Generator | None = None,
) -> float:
    r"""The smoothness constant L around a point: the largest curvature there, up or down.

    .. math:: \|\nabla f(x) - \nabla f(y)\| \le L \|x - y\|

    f: a scalar torch function. x: the center. radius: Hessians are looked at in the center and at ``samples``
    random points of the ball, so that L is a lower bound for the ball; exact for quadratics and at a point once
    ``steps`` (of Lanczos) reach the dimension. Where the data tell it exactly, see ``least_squares_constants`` and
    ``logistic_constants``.

    >>> round(smoothness(lambda x: (x**2).sum() + x[0] * x[1], [1.0, 1.0]), 6)
    3.0
    """
    ends = _curvatures(f, x, radius, samples, steps, generator, "smoothness")
    return max(max(abs(low), abs(high)) for low, high in ends)


def strong_convexity(
    f: Function,
    x: Any,
    *,
    radius: float = 0.0,
    samples: int = 16,
    steps: int = 50,
    generator: torch.Generator | None = None,
) -> float:
    r"""The strong convexity constant μ around a point: the smallest curvature there, negative at a saddle.

    .. math:: f(y) \ge f(x) + \langle \nabla f(x), y - x \rangle + \tfrac{\mu}{2} \|y - x\|^2

    Arguments as in ``smoothness``; from samples, μ is an upper bound for the ball.

    >>> round(strong_convexity(lambda x: (x**2).sum() + x[0] * x[1], [1.0, 1.0]), 6)
    1.0
    """
    return min(low for low, _ in _curvatures(f, x, radius, samples, steps, generator, "strong_convexity"))


def pl_constant(f: Function, points: Any, minimum: float) -> float:
    r"""The Polyak-Łojasiewicz constant over given points, an upper bound of that of the region they come from.

    .. math:: \tfrac12 \|\nabla f(x)\|^2 \ge \mu \, (f(x) - f^*)

    Polyak, 1963; Karimi, Nutini & Schmidt, 2016. f: a scalar torch function. points: n of them in the first
    dimension. minimum: the smallest value of f.
    Points where f is at its minimum say nothing and are left out.

    >>> round(pl_constant(lambda x: 0.5 * (x[0] ** 2 + 9 * x[1] ** 2), [[1.0, 0.0], [1.0, 1.0]], 0.0), 6)
    1.0
    """
    many = check_start(points, False, "pl_constant")
    if many.ndim < 1 or not len(many):
        raise InvalidInput("pl_constant: points must have a first dimension that counts them")
    check_function(f, many[0], False, False, "pl_constant")
    objective = Objective(f, many[0].shape)
    ratios = []
    for point in many:
        value, gradient = objective(point.reshape(-1))
        gap = value - minimum
        if gap < -1e-9 * max(abs(minimum), 1.0):
            raise InvalidInput(
                f"pl_constant: f is {value:g} at one of the points, below minimum={minimum:g}; correct it"
            )
        if gap > 0:
            ratios.append(0.5 * float(torch.dot(gradient, gradient)) / gap)
    if not ratios:
        raise InvalidInput("pl_constant: f is at its minimum at every point; pass points elsewhere")
    return min(ratios)


def quadratic_constants(A: Any) -> Constants:
    r"""Exact constants of :math:`\tfrac12 x^T A x - b^T x` with symmetric positive semidefinite A (d, d).

    >>> quadratic_constants([[2.0, 0.0], [0.0, 0.0]])  # flat along the second axis, but every valley has one floor
    Constants(L=2.0, mu=0.0, pl=2.0)
    """
    matrix = check_start(A, False, "quadratic_constants")
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not torch.allclose(matrix, matrix.mT):
        raise InvalidInput(f"quadratic_constants: A of shape {tuple(matrix.shape)} must be a symmetric square matrix")
    values = torch.linalg.eigvalsh(matrix)
    noise = len(values) * torch.finfo(values.dtype).eps * float(values.abs().max())
    if float(values[0]) < -noise:
        raise InvalidInput(f"quadratic_constants: A has the eigenvalue {float(values[0]):g}; all must be at least 0")
    return _constants(values, noise)


def least_squares_constants(X: Any, ridge: float = 0.0) -> Constants:
    r"""Exact constants of least squares, from the data.

    .. math:: f(w) = \tfrac{1}{2n} \|X w - y\|^2 + \tfrac{\lambda}{2} \|w\|^2

    Without full rank f is not strongly convex (mu = 0), and still satisfies the Polyak-Łojasiewicz inequality with
    the smallest curvature that is not zero. X: (n, d). ridge: λ.

    >>> least_squares_constants([[2.0, 0.0], [0.0, 0.0]])
    Constants(L=2.0, mu=0.0, pl=2.0)
    """
    squares, noise = _squares(X, ridge, "least_squares_constants")
    return _constants(squares + ridge, 0.0 if ridge > 0 else noise)


def logistic_constants(X: Any, ridge: float = 0.0) -> Constants:
    r"""Exact bounds for the logistic loss, from the data: its second derivative lies between 0 and 1/4.

    .. math:: f(w) = \tfrac1n \sum_i \log(1 + e^{-y_i \langle x_i, w \rangle}) + \tfrac{\lambda}{2} \|w\|^2

    X: (n, d). ridge: λ, which is mu and pl over the whole space.

    >>> logistic_constants([[4.0], [0.0]], ridge=0.5)
    Constants(L=2.5, mu=0.5, pl=0.5)
    """
    squares, _ = _squares(X, ridge, "logistic_constants")
    return Constants(float(squares[-1]) / 4 + ridge, ridge, ridge)


def _constants(values: Tensor, noise: float) -> Constants:
    """From eigenvalues, ascending; those below the noise count as zero."""
    positive = values[values > noise]
    if not len(positive):
        return Constants(0.0, 0.0, 0.0)
    lowest = float(values[0]) if float(values[0]) > noise else 0.0
    return Constants(float(values[-1]), lowest, float(positive[0]))


def _squares(X: Any, ridge: float, name: str) -> tuple[Tensor, float]:
    """Eigenvalues (d,) of XᵀX / n, ascending, and what rounding leaves of a zero among them."""
    rows = check_start(X, False, name)
    if rows.ndim != 2:
        raise InvalidInput(f"{name}: X has shape {tuple(rows.shape)}; it must be (rows, columns)")
    if not ridge >= 0:
        raise InvalidInput(f"{name}: ridge={ridge!r}; it must be at least 0")
    n, d = rows.shape
    singular = torch.linalg.svdvals(rows)
    noise = float(singular[0]) * max(n, d) * torch.finfo(rows.dtype).eps
    squares = torch.cat((singular**2 / n, rows.new_zeros(max(d - n, 0)))).flip(0)
    return squares, noise**2 / n


def _curvatures(
    f: Function, x: Any, radius: float, samples: int, steps: int, generator: torch.Generator | None, name: str
) -> list[tuple[float, float]]:
    """The ends of the Hessian's spectrum at the center and at random points of the ball."""
    center = check_start(x, False, name)
    check_function(f, center, False, False, name)
    if not radius >= 0 or samples < 1 or steps < 1:
        raise InvalidInput(
            f"{name}: radius={radius!r}, samples={samples}, steps={steps}; the radius must be at least 0, the others 1"
        )
    d = center.numel()
    points = [center.reshape(1, -1)]
    if radius > 0:
        rays = random_rows(samples, d, center, generator)
        lengths = random_rows(samples, 1, center, generator, seed=1).erf().abs() ** (1 / d)
        away = radius * lengths * rays / rays.norm(dim=1, keepdim=True)
        points += list((points[0] + away)[:, None])
    found = []
    for point in points:
        batch = Batch(lambda X: f(X.reshape(center.shape)).reshape(1), point)
        _, _, product = batch.products(point)
        values, _ = lanczos(product, random_rows(1, d, center, generator, seed=2), steps)
        found.append((float(values[0, 0]), float(values[0, -1])))
    return found
