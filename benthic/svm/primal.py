"""Linear machines with the squared hinge: Newton's method on the primal."""

from __future__ import annotations

import numpy as np

_MOST = 100


def newton(X: np.ndarray, y: np.ndarray, price: np.ndarray, tol: float) -> tuple[np.ndarray, int, float]:
    r"""Minimize the squared hinge.

    .. math:: \min_w \; \tfrac12 \|w\|^2 + \sum_i C_i \max(0, 1 - y_i w^T x_i)^2

    Newton's method with an exact line search (Keerthi & DeCoste, 2005): the objective is piecewise quadratic, so a few
    steps end at the optimum to rounding.

    X: (n, d). y: (n,) signs. price: (n,) C of each row. Returns w (d,), steps made, and the largest gradient entry.
    """
    w, f = np.zeros(X.shape[1]), np.zeros(len(X))
    scale = 1.0 + float(np.abs(X.T @ (price * y)).max())
    steps, size = 0, np.inf
    for _ in range(_MOST):
        slack = np.maximum(1 - y * f, 0.0)
        gradient = w - 2 * X.T @ (price * y * slack)
        size = float(np.abs(gradient).max())
        if size <= 1e-13 * scale:
            break
        direction = -_solve(X[slack > 0], price[slack > 0], gradient)
        ahead = X @ direction
        length = _line(w, direction, y * f, y * ahead, price)
        moved = w + length * direction
        if np.array_equal(moved, w) or (steps > 2 and size <= tol * 1e-6 and not length > 0):
            break
        w, f = moved, f + length * ahead
        steps += 1
    return w, steps, size


def _solve(X: np.ndarray, price: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """The inverse Hessian times a vector, through the smaller of rows and columns."""
    from scipy.linalg import cho_factor, cho_solve

    root = np.sqrt(2 * price)[:, None] * X  # H = I + AᵀA
    if X.shape[0] >= X.shape[1]:
        return np.asarray(cho_solve(cho_factor(np.eye(X.shape[1]) + root.T @ root), gradient))
    inner = cho_solve(cho_factor(np.eye(len(root)) + root @ root.T), root @ gradient)
    return np.asarray(gradient - root.T @ inner)


def _line(w: np.ndarray, direction: np.ndarray, margin: np.ndarray, ahead: np.ndarray, price: np.ndarray) -> float:
    """Where the derivative along a direction, which is piecewise linear and grows, is zero."""
    along, square = float(w @ direction), float(direction @ direction)

    def slope(t: float) -> tuple[float, float]:
        slack = np.maximum(1 - margin - t * ahead, 0.0)
        inside = slack > 0
        first = along + t * square - 2 * float((price * slack) @ ahead)
        return first, square + 2 * float((price * inside) @ (ahead * ahead))

    low, high, t = 0.0, np.inf, 1.0
    for _ in range(60):
        value, bend = slope(t)
        if abs(value) <= 1e-15 * bend:
            break
        low, high = (t, high) if value < 0 else (low, t)
        proposed = t - value / bend
        if not low < proposed < high:
            proposed = (low + high) / 2 if np.isfinite(high) else 2 * t
        if proposed == t:
            break
        t = proposed
    return t
