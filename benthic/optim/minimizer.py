"""``minimize``: one door to all minimizers, for one start or many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benthic.base.errors import InvalidInput, nearest
from benthic.optim.descend import descend
from benthic.optim.descend_rows import descend_rows
from benthic.optim.firstorder import first_order
from benthic.optim.lbfgs import Inverse
from benthic.optim.metrics import Dense, Limited, Metric, Preconditioned
from benthic.optim.metrics_rows import DenseRows, LimitedRows, RowMetric
from benthic.optim.newton import Newton, newton
from benthic.optim.objective import (
    Batch,
    Function,
    Objective,
    Vector,
    check_function,
    check_rows,
    check_start,
    vector_of,
)
from benthic.optim.record import Minimum, single

QUASI = {"lbfgs", "bfgs"}
NEWTON = {"newton": "region", "newton-line": "ray", "newton-cg": "conjugate"}
FIRST_ORDER = {"gradient", "heavy_ball", "nesterov"}
METHODS = ("lbfgs", "bfgs", "newton", "newton-line", "newton-cg", "gradient", "heavy_ball", "nesterov")


def minimize(
    f: Function,
    x0: Any,
    method: str = "lbfgs",
    *,
    tol: float | None = None,
    max_iter: int | None = None,
    batched: bool = False,
    value_and_gradient: bool = False,
    hessian: Callable[[Tensor], Tensor] | None = None,
    memory: int | None = None,
    inverse: Inverse | None = None,
    curvature: float = 0.9,
    radius: float = 1.0,
    step: float | None = None,
    momentum: float | None = None,
    compact: bool = True,
    path: bool = False,
) -> Minimum:
    """A local minimum of a torch function, from one start or from many at once.

    The methods are

    - ``"lbfgs"``: limited-memory BFGS in compact form (Byrd, Nocedal & Schnabel, 1994), any dimension;
    - ``"bfgs"``: the whole inverse Hessian, for up to a few thousand dimensions;
    - ``"newton"``: trust region with the spectrum of the Hessian; leaves saddles (Moré & Sorensen, 1983);
    - ``"newton-cg"``: trust region by Hessian products alone, for many dimensions (Steihaug, 1983);
    - ``"newton-line"``: line search along the Newton direction with curvatures made positive;
    - ``"gradient"``, ``"heavy_ball"``, ``"nesterov"``: one gradient an iteration, with the fixed ``step`` given or
      one that follows the curvature seen.

    The first two search lines for the strong Wolfe conditions (Moré & Thuente, 1994).

    f: maps a tensor of the shape of ``x0`` to a scalar tensor; with ``batched``, rows (B, d) to (B,), every row
    by itself. Gradients come from autograd, or f returns (value, gradient) with ``value_and_gradient``.
    tol: the largest entry of the gradient that counts as none; the root of the precision by default.
    max_iter: 10000 by default for first-order methods, 1000 for the others. hessian: maps a point to (d, d) over
    flat points ((B, d, d) if batched) instead of autograd. memory: pairs that L-BFGS keeps, by default 20,
    and 10 for each of many starts. inverse: a first guess of the
    inverse Hessian of L-BFGS, applied to a gradient. curvature: c₂ of the line search. radius: of the first trust
    region. momentum: its factor. compact: with ``batched``, finished rows are left out of the calls of f; False
    keeps every row in its place. path: keep the points visited (one start only).

    >>> found = minimize(lambda x: ((x - 3) ** 2).sum(), torch.zeros(2))
    >>> found.point, found.converged, found.reason
    (tensor([3., 3.]), True, 'gradient small')
    """
    memory = (10 if batched else 20) if memory is None else memory
    _check_settings(method, tol, max_iter, memory, curvature, radius, step, momentum)
    _check_combination(method, batched, value_and_gradient, hessian, inverse, path)
    start = check_start(x0, batched)
    check_function(f, start, batched, value_and_gradient)
    tol = torch.finfo(start.dtype).eps ** 0.5 if tol is None else tol
    limit = (10_000 if method in FIRST_ORDER else 1000) if max_iter is None else max_iter
    if method in QUASI:
        if batched:
            return _quasi_rows(f, start, method, tol, limit, value_and_gradient, memory, curvature, compact)
        return _quasi(f, start, method, tol, limit, value_and_gradient, memory, curvature, inverse, path)
    objective = _batch(f, start, batched, value_and_gradient, hessian, compact)
    rows = start if batched else start.reshape(1, -1)
    if method in FIRST_ORDER:
        found = first_order(
            objective, rows, kind=method, step=step, momentum=momentum, tol=tol, max_iter=limit, path=path
        )
    else:
        variant = Newton(NEWTON[method], 1.0 if method == "newton-line" else radius)
        found = newton(objective, rows, variant, tol=tol, max_iter=limit, path=path)
    return found if batched else single(found, start.shape)


def _quasi(
    f: Function,
    start: Tensor,
    method: str,
    tol: float,
    max_iter: int,
    pair: bool,
    memory: int,
    curvature: float,
    inverse: Inverse | None,
    path: bool,
) -> Minimum:
    flat: Vector = start.reshape(-1).clone()
    metric: Metric
    if method == "bfgs":
        metric = Dense(flat)
    elif inverse is not None:
        metric = Preconditioned(inverse, memory, start.shape)
    else:
        flat = vector_of(start)
        metric = Limited(flat, memory)
    objective = Objective(f, start.shape, pair)
    with torch.enable_grad(), np.errstate(over="ignore", invalid="ignore"):
        return descend(objective, flat, metric, tol=tol, max_iter=max_iter, curvature=curvature, path=path)


def _quasi_rows(
    f: Function,
    start: Tensor,
    method: str,
    tol: float,
    max_iter: int,
    pair: bool,
    memory: int,
    curvature: float,
    compact: bool,
) -> Minimum:
    metric: RowMetric = DenseRows(start) if method == "bfgs" else LimitedRows(start, memory)
    objective = _batch(f, start, True, pair, None, compact)
    return descend_rows(objective, start, metric, tol=tol, max_iter=max_iter, curvature=curvature)


def _batch(
    f: Function,
    start: Tensor,
    batched: bool,
    pair: bool,
    hessian: Callable[[Tensor], Tensor] | None,
    compact: bool,
) -> Batch:
    """The function on rows; one start is a batch of one."""
    if batched:
        if compact:
            check_rows(f, start, pair)
        return Batch(f, start, pair, hessian, not compact)
    flat, d = start.reshape(1, -1), start.numel()

    def one(X: Tensor) -> Any:
        answer = f(X.reshape(start.shape))
        if pair:
            return torch.as_tensor(answer[0]).reshape(1), answer[1].reshape(1, -1)
        return answer.reshape(1)

    def curved(X: Tensor) -> Tensor:
        found = torch.as_tensor(hessian(X.reshape(start.shape)))
        if found.numel() != d * d:
            raise InvalidInput(f"minimize: hessian(x0) has shape {tuple(found.shape)}; it must have {d} x {d} entries")
        return found.reshape(1, d, d)

    return Batch(one, flat, pair, None if hessian is None else curved)


def _check_settings(
    method: str,
    tol: float | None,
    max_iter: int | None,
    memory: int,
    curvature: float,
    radius: float,
    step: float | None,
    momentum: float | None,
) -> None:
    if method not in METHODS:
        raise InvalidInput(
            f"minimize: method {method!r} is unknown{nearest(str(method), METHODS)}; use one of {', '.join(METHODS)}"
        )
    limits = {
        "tol": (tol is None or tol >= 0, "at least 0"),
        "max_iter": (max_iter is None or max_iter >= 0, "at least 0"),
        "memory": (memory >= 1, "at least 1"),
        "curvature": (1e-4 < curvature < 1, "between 0.0001 and 1"),
        "radius": (radius > 0, "positive"),
        "step": (step is None or step > 0, "positive"),
        "momentum": (momentum is None or 0 <= momentum < 1, "at least 0 and below 1"),
    }
    given = {"tol": tol, "max_iter": max_iter, "memory": memory, "curvature": curvature}
    given |= {"radius": radius, "step": step, "momentum": momentum}
    for name, (good, rule) in limits.items():
        if not good:
            raise InvalidInput(f"minimize: {name}={given[name]!r}; it must be {rule}")


def _check_combination(
    method: str,
    batched: bool,
    pair: bool,
    hessian: Callable[[Tensor], Tensor] | None,
    inverse: Inverse | None,
    path: bool,
) -> None:
    if path and batched:
        raise InvalidInput("minimize: path=True is for one start; drop it or minimize the starts one by one")
    if inverse is not None and (batched or method != "lbfgs"):
        raise InvalidInput("minimize: inverse= is for method='lbfgs' with one start; drop it or change the method")
    if method in NEWTON and pair and hessian is None:
        raise InvalidInput(
            f"minimize: method {method!r} with value_and_gradient=True needs hessian=; pass it, or let autograd "
            "differentiate f"
        )
