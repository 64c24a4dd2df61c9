"""Whether a hard margin exists."""

from __future__ import annotations

import numpy as np

from benthic.base.errors import InvalidInput

_GROWN = 1e10  # multipliers beyond this, in units of the kernel, mean that no margin is left


def check_separable(X: np.ndarray, y: np.ndarray, names: str) -> None:
    r"""Refuse rows that no plane separates, by a linear program.

    .. math:: \min_{w, b, t} \; t \quad \text{with} \quad y_i (w^T x_i + b) \ge 1 - t, \; t \ge 0

    Its least value is 0 if a plane separates the classes and 1 if none does.

    X: (n, d). y: (n,) signs. names: the two classes in words.
    """
    from scipy.optimize import linprog

    scale = np.abs(X - X.mean(0)).max(0)
    Z = (X - X.mean(0)) / np.where(scale > 0, scale, 1.0)
    n, d = Z.shape
    constraints = -np.column_stack([y[:, None] * Z, y, np.ones(n)])
    cost = np.zeros(d + 2)
    cost[-1] = 1.0
    bounds = [(None, None)] * (d + 1) + [(0, None)]
    found = linprog(cost, A_ub=constraints, b_ub=-np.ones(n), bounds=bounds, method="highs")
    if found.status == 0 and found.fun > 0.5:
        raise inseparable(names)


def outgrown(beta: np.ndarray, diagonal: np.ndarray) -> bool:
    """Whether multipliers without a bound have grown so far that the dual has no optimum."""
    return bool(np.abs(beta).max(initial=0.0) * np.abs(diagonal).max(initial=1.0) > _GROWN)


def inseparable(names: str) -> InvalidInput:
    """What to say when no hard margin was found."""
    return InvalidInput(
        f"C is infinite, but the kernel does not separate {names}: there is no hard margin; give a finite C, such as "
        "C=1.0, so that some rows may lie inside the margin, or a kernel that bends more"
    )
