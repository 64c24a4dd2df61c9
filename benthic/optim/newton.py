"""Newton's method that cannot be trapped by a saddle: trust regions, conjugate gradients, or a line search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from benthic.optim.descend_rows import Ledger
from benthic.optim.objective import Batch
from benthic.optim.record import GRADIENT, LINE_SEARCH, MAX_ITER, NON_FINITE, PRECISION, REASONS, Minimum
from benthic.optim.spectrum import Product, lanczos, random_rows
from benthic.optim.trust import Steps, conjugate_step, spectral_step
from benthic.optim.wolfe import ROUNDING


class Model(Protocol):
    """A quadratic model at every row: ``lowest`` is its smallest curvature (B,), or what was found of it."""

    lowest: Tensor
    largest: Tensor

    def steps(self, size: Tensor) -> Steps: ...


class Region:
    """The model minimized in a ball of radius ``size``, by the spectrum of the Hessian."""

    def __init__(self, values: Tensor, Q: Tensor, gradient: Tensor, _flat: Tensor) -> None:
        self.values, self.Q, self.gradient = values, Q, gradient
        self.lowest, self.largest = values[:, 0], values.abs().amax(1)

    def steps(self, size: Tensor) -> Steps:
        """Steps in a ball of that radius."""
        return spectral_step(self.values, self.Q, self.gradient, size)


class Ray:
    r"""A line search along :math:`-|H|^{-1} g`, with the curvatures taken positive (Dauphin et al., 2014).

    Where the gradient is small already, the way out is the direction of lowest curvature.
    """

    def __init__(self, values: Tensor, Q: Tensor, gradient: Tensor, flat: Tensor) -> None:
        c = (Q.mT @ gradient[..., None])[..., 0]
        self.lowest, self.largest = values[:, 0], values.abs().amax(1)
        least = torch.finfo(values.dtype).eps ** 0.75 * self.largest[:, None] + torch.finfo(values.dtype).tiny
        p = -c / torch.maximum(values.abs(), least)
        out = torch.where(c[:, :1] > 0, -1.0, 1.0)
        self.slope = (c * p).sum(1)
        self.bend = torch.where(flat, self.lowest, 0.0)
        p = torch.cat((torch.where(flat[:, None], out, p[:, :1]), torch.where(flat[:, None], 0.0, p[:, 1:])), 1)
        self.direction = (Q @ p[..., None])[..., 0]

    def steps(self, size: Tensor) -> Steps:
        """Steps of that fraction of the direction."""
        t = size.clamp(max=1.0)
        predicted = -t * self.slope - 0.5 * t**2 * self.bend
        return Steps(t[:, None] * self.direction, predicted, torch.zeros_like(t, dtype=torch.bool))


class Conjugate:
    """The model minimized by conjugate gradients; where the gradient is flat, Lanczos looks for a way down."""

    def __init__(self, product: Product, gradient: Tensor, flat: Tensor, effort: int) -> None:
        self.product, self.gradient, self.effort = product, gradient, effort
        self.lowest, self.largest = torch.zeros_like(gradient[:, 0]), torch.ones_like(gradient[:, 0])
        self.flat, self.way = flat, torch.zeros_like(gradient)
        if bool(flat.any()):
            values, vectors = lanczos(product, random_rows(*gradient.shape, gradient), min(effort, 30))
            self.lowest, self.largest = values[:, 0], values.abs().amax(1)
            self.way = vectors[:, 0]

    def steps(self, size: Tensor) -> Steps:
        """Steps in a ball of that radius."""
        found = conjugate_step(self.product, self.gradient, size, self.effort)
        out = torch.where((self.way * self.gradient).sum(1) > 0, -1.0, 1.0)
        escape = (out * size)[:, None] * self.way
        gain = -(self.gradient * escape).sum(1) - 0.5 * size**2 * self.lowest
        use = self.flat & (self.lowest < 0)
        return Steps(
            torch.where(use[:, None], escape, found.step),
            torch.where(use, gain, found.predicted),
            found.boundary | use,
        )


class _Rows(NamedTuple):
    X: Tensor
    value: Tensor
    gradient: Tensor
    norm: Tensor  # largest entry of the gradient
    size: Tensor  # radius of the region or length of the step
    iterations: Tensor
    stalled: Tensor  # steps that neither the value nor the gradient could tell from rounding


@dataclass(frozen=True)
class Newton:
    """A variant of the method.

    kind: "region", "ray" or "conjugate". size: the first radius. effort: Hessian products a step at most.
    """

    kind: str = "region"
    size: float = 1.0
    effort: int = 200

    def model(self, objective: Batch, X: Tensor, tol: float) -> tuple[Tensor, Tensor, Model]:
        """Values, gradients and quadratic models at the rows."""
        if self.kind == "conjugate":
            value, gradient, product = objective.products(X)
            return value, gradient, Conjugate(product, gradient, gradient.abs().amax(1) <= tol, self.effort)
        value, gradient, hessian = objective.curvature(X)
        finite = hessian.isfinite().all(-1).all(-1)
        gradient = torch.where(finite[:, None], gradient, torch.nan)
        values, Q = torch.linalg.eigh(torch.where(finite[:, None, None], hessian, 0.0))
        kind = Region if self.kind == "region" else Ray
        return value, gradient, kind(values, Q, gradient.nan_to_num(), gradient.abs().amax(1) <= tol)

    def resized(self, size: Tensor, ratio: Tensor, found: Steps, accepted: Tensor) -> Tensor:
        """The next radius or fraction (Nocedal & Wright, 2006, algorithm 4.1)."""
        if self.kind == "ray":
            return torch.where(accepted, 1.0, 0.5 * size)
        length = found.step.norm(dim=1)
        size = torch.where(found.boundary & (ratio > 0.75), 2.0 * size, size)
        return torch.where(ratio > 0.25, size, 0.25 * torch.minimum(size, length))


def newton(
    objective: Batch, start: Tensor, variant: Newton, *, tol: float, max_iter: int, path: bool = False
) -> Minimum:
    """From starts (B, d), every one with its own radius, to points without slope or negative curvature.

    A step is accepted if it brings 1e-4 of what the model promised; where the promise is below rounding, the
    gradient is the judge.
    """
    ledger, visited = Ledger(start), [start]
    n = len(start)
    zero = torch.zeros(n, dtype=torch.long, device=start.device)
    size = start.new_full((n,), variant.size)
    rows = _Rows(start, size, start, size, size, zero, zero)
    moved, model = True, None
    while len(rows.X):
        if moved or model is None:
            value, gradient, model = variant.model(objective, rows.X, tol)
            norm = gradient.abs().amax(1)
            stalled = rows.stalled + ((rows.stalled > 0) & (norm >= 0.5 * rows.norm))
            rows = rows._replace(value=value, gradient=gradient, norm=norm, stalled=stalled)
        reason = _verdict(rows, model, tol, max_iter)
        if bool((reason >= 0).any()):
            rows = _settle(ledger, objective, rows, reason)
            model = None
            continue
        rows, moved = _move(objective, rows, model, variant)
        if path:
            visited += [rows.X] if moved else []
    record = ledger.record()
    return record if not path else Minimum(**{**vars(record), "path": torch.stack(visited)})


def _verdict(rows: _Rows, model: Model, tol: float, max_iter: int) -> Tensor:
    """The index of the reason to stop, or -1."""
    eps = torch.finfo(rows.X.dtype).eps
    reason = torch.full_like(rows.iterations, -1)
    level = model.lowest >= -(eps**0.5) * model.largest.clamp(min=1.0)
    reason[rows.iterations >= max_iter] = REASONS.index(MAX_ITER)
    lost = rows.size <= eps * rows.X.norm(dim=1).clamp(min=1.0)
    reason[lost] = REASONS.index(LINE_SEARCH)
    reason[rows.stalled > 1] = REASONS.index(PRECISION)
    reason[(rows.norm <= tol) & level] = REASONS.index(GRADIENT)
    reason[~(rows.norm.isfinite() & rows.value.isfinite())] = REASONS.index(NON_FINITE)
    return reason


def _settle(ledger: Ledger, objective: Batch, rows: _Rows, reason: Tensor) -> _Rows:
    """Write finished rows down and go on with the others."""
    over, left = reason >= 0, (reason < 0).nonzero()[:, 0]
    where = objective.rows[over]
    ledger.write(where, rows.X[over], rows.value[over], rows.gradient[over], rows.iterations[over])
    ledger.reason[where], ledger.evaluations[where] = reason[over], objective.evaluations[where]
    objective.keep(left)
    return _Rows(*(part[left] for part in rows))


def _decrease(objective: Batch, rows: _Rows, step: Tensor, trial: Tensor) -> Tensor:
    """How far the value falls to the trial points; where rounding hides that, what the slopes at both ends tell."""
    fall = rows.value - objective.values(trial)
    hidden = (fall.abs() <= ROUNDING * torch.finfo(fall.dtype).eps ** 0.5 * rows.value.abs()).nonzero()[:, 0]
    if len(hidden):
        _, gradient = objective(trial[hidden], hidden)
        fall[hidden] = -0.5 * (step[hidden] * (rows.gradient[hidden] + gradient)).sum(1)
    return fall


def _move(objective: Batch, rows: _Rows, model: Model, variant: Newton) -> tuple[_Rows, bool]:
    found = model.steps(rows.size)
    trial = rows.X + found.step
    noise = 10 * torch.finfo(rows.X.dtype).eps * rows.value.abs()
    actual = _decrease(objective, rows, found.step, trial)
    ratio = ((actual + noise) / (found.predicted + noise)).nan_to_num(-1.0, -1.0, -1.0)
    accepted = (ratio > 1e-4) & (found.predicted >= 0)
    stalled = torch.where(accepted & (found.predicted <= noise), 1, torch.where(accepted, 0, rows.stalled))
    moved = rows._replace(
        X=torch.where(accepted[:, None], trial, rows.X),
        size=variant.resized(rows.size, ratio, found, accepted),
        iterations=rows.iterations + 1,
        stalled=stalled,
    )
    return moved, bool(accepted.any())
