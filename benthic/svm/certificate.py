"""The proof that a fit is at its optimum: primal and dual values and the gap between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benthic.svm.solve import Dual, Solution


def certify(dual: Dual, solution: Solution) -> dict[str, float]:
    r"""Primal value, dual value, duality gap and KKT violation of a solution.

    .. math::
        P = \tfrac12 \beta^T K \beta + \sum_i C_i \xi_i, \qquad
        D = z^T \beta - \epsilon \|\beta\|_1 - \tfrac12 \beta^T K \beta

    P is never below D for a positive definite kernel, and both are equal only at the optimum. With an infinite C the
    margin constraints must hold, so the expansion is scaled until they do. Slopes are those the solver kept, so with
    rows cached in single precision the values carry its rounding, some 1e-7 of them.
    """
    beta, g, b = solution.beta, solution.g, solution.intercept
    norm = float(beta @ (dual.z - g))
    value = float(dual.z @ beta) - dual.epsilon * float(np.abs(beta).sum()) - norm / 2
    bound = np.maximum(dual.hi, -dual.lo)
    if dual.epsilon > 0 or np.any((dual.lo < 0) & (dual.hi > 0)):
        slack = np.maximum(np.abs(g - b) - dual.epsilon, 0.0)
    else:
        slack = np.maximum(dual.z * (g - b), 0.0)
    if np.isinf(bound).any():
        margin = 1 - float(slack.max())
        primal = norm / 2 / margin**2 if margin > 0 else np.inf
    else:
        primal = norm / 2 + float(bound @ slack)
    scale = max(abs(primal), abs(value), 1e-300)
    gap = primal - value
    if abs(gap) < 1e-13 * scale:  # what rounding of the two sums leaves
        gap = max(gap, 0.0)
    return {
        "kkt_violation": solution.violation,
        "primal": primal,
        "dual": value,
        "gap": gap,
        "relative_gap": gap / scale,
    }


def gather(parts: Sequence[dict[str, float]]) -> dict[str, np.ndarray]:
    """The certificates of several problems as one dict of arrays, a number a problem."""
    return {name: np.array([part[name] for part in parts]) for name in parts[0]}


def lines(certificate: dict[str, np.ndarray]) -> dict[str, Any]:
    """What a summary says of certificates: totals, and the worst of the rest."""
    return {
        "KKT violation": float(certificate["kkt_violation"].max()),
        "primal": float(certificate["primal"].sum()),
        "dual": float(certificate["dual"].sum()),
        "duality gap": float(certificate["gap"].sum()),
        "relative gap": float(certificate["relative_gap"].max()),
    }
