"""Functions whose minima are known, each on points (..., d)."""

from __future__ import annotations

import torch

D = torch.float64


def rosenbrock(x):
    return (100 * (x[..., 1:] - x[..., :-1] ** 2) ** 2 + (1 - x[..., :-1]) ** 2).sum(-1)


def beale(x):
    a, b = x[..., 0], x[..., 1]
    return (1.5 - a + a * b) ** 2 + (2.25 - a + a * b**2) ** 2 + (2.625 - a + a * b**3) ** 2


def himmelblau(x):
    a, b = x[..., 0], x[..., 1]
    return (a**2 + b - 11) ** 2 + (a + b**2 - 7) ** 2


HIMMELBLAU_MINIMA = torch.tensor(
    [
        [3.0, 2.0],
        [-2.805118086953, 3.131312518250],
        [-3.779310253378, -3.283185991286],
        [3.584428340330, -1.848126526964],
    ],
    dtype=D,
)


def saddle(x):
    """A saddle at 0 between minima at (±1, 0), of value -1/4."""
    return x[..., 0] ** 4 / 4 - x[..., 0] ** 2 / 2 + x[..., 1] ** 2


def monkey(x):
    """A monkey saddle at 0 in a bowl; three minima of value -27/256 at distance 3/4."""
    return x[..., 0] ** 3 - 3 * x[..., 0] * x[..., 1] ** 2 + (x**2).sum(-1) ** 2


def quadratic(d=20, condition=6.0, seed=0):
    """A positive definite matrix with eigenvalues from 1 to 10^condition, and ½xᵀAx - bᵀx."""
    generator = torch.Generator().manual_seed(seed)
    basis = torch.linalg.qr(torch.randn(d, d, dtype=D, generator=generator)).Q
    A = basis @ torch.diag(torch.logspace(0, condition, d, dtype=D)) @ basis.T
    A = 0.5 * (A + A.T)
    b = torch.randn(d, dtype=D, generator=generator)
    return A, b, lambda x: 0.5 * ((x @ A) * x).sum(-1) - x @ b


def logistic(n=400, d=12, ridge=1e-3, seed=0):
    """Labels ±1 from a noisy plane, and the regularized logistic loss."""
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(n, d, dtype=D, generator=generator)
    y = torch.sign(X @ torch.randn(d, dtype=D, generator=generator) + torch.randn(n, dtype=D, generator=generator))

    def loss(w):
        margins = y * (w @ X.T)  # (..., n)
        return torch.nn.functional.softplus(-margins).mean(-1) + 0.5 * ridge * (w * w).sum(-1)

    return X, y, loss


def random_points(n, d, scale=2.0, seed=0):
    return scale * (2 * torch.rand(n, d, dtype=D, generator=torch.Generator().manual_seed(seed)) - 1)
