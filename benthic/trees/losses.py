r"""Losses of gradient boosting: slope and curvature in the raw score of a row, and the best step of a leaf.

A loss is a name of ``NAMES`` or any torch function ``loss(raw, y)`` of a row's score and target; automatic
differentiation then gives slope and curvature. The curvature of losses made of straight pieces counts as one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from benthic.base.errors import InvalidInput, nearest
from benthic.base.settings import is_real

SQUARED, ABSOLUTE, QUANTILE, HUBER, POISSON, GAMMA, LOGISTIC = range(7)
NUMBERS = {
    "squared_error": SQUARED,
    "absolute_error": ABSOLUTE,
    "huber": HUBER,
    "quantile": QUANTILE,
    "poisson": POISSON,
    "gamma": GAMMA,
}
NAMES = (*NUMBERS, "log_loss")


@dataclass(frozen=True)
class Loss:
    """A named loss. level: the quantile wanted, or the bend of Huber's loss."""

    code: int
    level: float = 0.0

    @property
    def flat(self) -> bool:
        """Whether every row has curvature one while a tree grows."""
        return self.code in (SQUARED, ABSOLUTE, HUBER, QUANTILE)

    @property
    def positive(self) -> bool:
        """Whether the score is the logarithm of the answer."""
        return self.code in (POISSON, GAMMA)


def named_loss(name: Any, y: np.ndarray, quantile: Any, alpha: float) -> Loss:
    """The loss called ``name`` for targets ``y`` (n,), which it may not admit.

    quantile: level of ``"quantile"``. alpha: share of the rows on whose distance from the median ``"huber"`` is
    quadratic.
    """
    if name not in NUMBERS:
        raise InvalidInput(
            f"loss {name!r} is unknown{nearest(str(name), NUMBERS)}; use {', '.join(map(repr, NUMBERS))} or a torch "
            "function loss(raw, y)"
        )
    code = NUMBERS[name]
    if code == POISSON and (y.min() < 0 or y.max() == 0):
        raise InvalidInput("loss 'poisson' is for counts, but y has negative values or only zeros; use 'squared_error'")
    if code == GAMMA and y.min() <= 0:
        raise InvalidInput("loss 'gamma' is for positive numbers, but y has values <= 0; use 'squared_error'")
    if code == QUANTILE:
        if not is_real(quantile) or not 0 < quantile < 1:
            raise InvalidInput(f"loss 'quantile' needs quantile between 0 and 1; it is {quantile!r}")
        return Loss(code, float(quantile))
    if code == HUBER:
        if not 0 < alpha < 1:
            raise InvalidInput(f"alpha is {alpha!r}; loss 'huber' needs a share between 0 and 1")
        bend = float(np.quantile(np.abs(y - np.median(y)), alpha))
        return Loss(code, bend or 1.0)
    return Loss(code)


def first_score(loss: Loss, y: np.ndarray, weight: np.ndarray) -> float:
    """The best constant score for targets ``y`` (n,); weight: (n,), or (1,) when all count one."""
    if loss.code == LOGISTIC:
        share = float(np.average(y, weights=weight if len(weight) == len(y) else None))
        return float(np.log(share / (1 - share)))
    if loss.code in (ABSOLUTE, HUBER):
        return float(np.median(y))
    if loss.code == QUANTILE:
        return float(np.quantile(y, loss.level))
    return float(np.log(y.mean())) if loss.positive else float(y.mean())


@njit(cache=True, nogil=True, error_model="numpy")
def _at(code, z, y, level):
    """Loss, slope and curvature of one row with score ``z``."""
    if code == SQUARED:
        return 0.5 * (z - y) * (z - y), z - y, 1.0
    if code == LOGISTIC:
        e = np.exp(-abs(z))
        p = 1.0 / (1.0 + e) if z >= 0 else e / (1.0 + e)
        return max(z, 0.0) - y * z + np.log(1.0 + e), p - y, max(p * (1.0 - p), 1e-16)
    if code == ABSOLUTE:
        return abs(z - y), 1.0 if z > y else -1.0, 1.0
    if code == QUANTILE:
        return (level * (y - z), -level, 1.0) if y > z else ((1.0 - level) * (z - y), 1.0 - level, 1.0)
    if code == HUBER:
        size = abs(z - y)
        if size <= level:
            return 0.5 * size * size, z - y, 1.0
        return level * (size - 0.5 * level), level if z > y else -level, 1.0
    if code == POISSON:
        e = np.exp(z)
        return e - y * z, e - y, e
    e = y * np.exp(-z)
    return z + e, 1.0 - e, e


@njit(cache=True, nogil=True, error_model="numpy")
def _logistic(raw, y, gradient, curvature, start, stop):
    """What ``respond`` does for the logistic loss of unweighted rows; the logarithm of a product is taken at times."""
    total, product, steepest, largest = 0.0, 1.0, 0.0, 0.0
    for i in range(start, stop):
        z = raw[i]
        e = np.exp(-abs(z))
        over = 1.0 / (1.0 + e)
        slope = (over if z >= 0 else e * over) - y[i]
        bend = max(e * over * over, 1e-16)
        gradient[i], curvature[i] = slope, bend
        steepest, largest = max(steepest, abs(slope)), max(largest, bend)
        total += max(z, 0.0) - y[i] * z
        product *= 1.0 + e  # at most 2
        if i & 255 == 0:
            total += np.log(product)
            product = 1.0
    return total + np.log(product), steepest, largest


@njit(cache=True, nogil=True, error_model="numpy")
def respond(
    code: int,
    level: float,
    raw: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray,
    gradient: np.ndarray,
    curvature: np.ndarray,
    report: np.ndarray,
    start: int,
    stop: int,
) -> None:
    """Slopes and curvatures of rows ``start:stop``; report gets the loss summed and the largest of both."""
    total, steepest, largest = 0.0, 0.0, 0.0
    weighted, curved = len(weight) > 1, len(curvature) > 1
    if code == LOGISTIC and curved and not weighted:
        report[0], report[1], report[2] = _logistic(raw, y, gradient, curvature, start, stop)
        return
    for i in range(start, stop):
        value, slope, bend = _at(code, raw[i], y[i], level)
        if weighted:
            value *= weight[i]
            slope *= weight[i]
            bend *= weight[i]
        total += value
        steepest = max(steepest, abs(slope))
        largest = max(largest, bend)
        gradient[i] = slope
        if curved:
            curvature[i] = bend
    report[0], report[1], report[2] = total, steepest, largest


@njit(cache=True, nogil=True, error_model="numpy")
def _sums(code, level, raw, y, weight, rows, step):
    """Loss, slope and curvature summed over rows whose scores have all moved by ``step``."""
    total, slope, bend = 0.0, 0.0, 0.0
    weighted = len(weight) > 1
    for r in rows:
        a, b, c = _at(code, raw[r] + step, y[r], level)
        w = weight[r] if weighted else 1.0
        total += w * a
        slope += w * b
        bend += w * c
    return total, slope, bend


@njit(cache=True, nogil=True, error_model="numpy")
def _search(code, level, raw, y, weight, rows, l2, value, steps):
    """Newton steps from ``value`` that are halved until the loss of the leaf falls."""
    total, slope, bend = _sums(code, level, raw, y, weight, rows, value)
    total += 0.5 * l2 * value * value
    for _ in range(steps):
        step = -(slope + l2 * value) / (bend + l2)
        for _ in range(30):
            after, below, curve = _sums(code, level, raw, y, weight, rows, value + step)
            after += 0.5 * l2 * (value + step) ** 2
            if after <= total:
                break
            step *= 0.5
        if not after <= total:
            break
        value += step
        small = abs(step) <= 1e-9 * (1.0 + abs(value))
        total, slope, bend = after, below, curve
        if small:
            break
    return value


@njit(cache=True, nogil=True, error_model="numpy")
def leaf_values(
    code: int,
    level: float,
    raw: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray,
    gradient: np.ndarray,
    curvature: np.ndarray,
    rows: np.ndarray,
    starts: np.ndarray,
    stops: np.ndarray,
    l2: float,
    values: np.ndarray,
) -> None:
    r"""The step of every leaf: Newton's, or the minimum over the leaf where Newton's is not.

    Newton's step of the logistic loss lowers the loss of the leaf whenever it is shorter than 1.79 (its third
    derivative is at most its second, and :math:`e^a - a - 1 < a^2` there); longer ones are halved until it falls.
    """
    for k in range(len(starts)):
        inside = rows[starts[k] : stops[k]]
        slope, bend = 0.0, 0.0
        for r in inside:
            slope += gradient[r]
            bend += curvature[r] if len(curvature) > 1 else 1.0
        step = -slope / max(bend + l2, 1e-300)
        if HUBER <= code <= GAMMA:  # quantiles have their own way
            step = _search(code, level, raw, y, weight, inside, l2, 0.0, 30 if code == HUBER else 5)
        elif code == LOGISTIC and abs(step) > 1.79:
            step = _search(code, level, raw, y, weight, inside, l2, 0.0, 1)
        values[k] = step


def leaf_quantiles(
    raw: np.ndarray,
    y: np.ndarray,
    rows: np.ndarray,
    starts: np.ndarray,
    stops: np.ndarray,
    level: float,
    values: np.ndarray,
) -> None:
    """The quantile of what is left of the targets in every leaf, between two rows by proportion."""
    for k, (start, stop) in enumerate(zip(starts, stops, strict=True)):
        inside = rows[start:stop]
        place = level * (stop - start - 1)
        low = int(place)
        high = min(low + 1, stop - start - 1)
        rest = np.partition(y[inside] - raw[inside], (low, high))
        values[k] = rest[low] + (place - low) * (rest[high] - rest[low])


@njit(cache=True, nogil=True, error_model="numpy")
def move(rows: np.ndarray, starts: np.ndarray, stops: np.ndarray, values: np.ndarray, raw: np.ndarray) -> None:
    """Add the value of every leaf to the scores of its rows."""
    for k in range(len(starts)):
        for i in range(starts[k], stops[k]):
            raw[rows[i]] += values[k]


class TorchLoss:
    """Slope, curvature and leaf steps of a torch function ``loss(raw, y)``, differentiable in the scores.

    raw: (n,) or (n, k) scores. y: (n,) targets, or codes of classes. It returns one loss a row.
    """

    def __init__(self, function: Callable[..., Any], y: np.ndarray) -> None:
        import torch

        self._function, self.truth = function, torch.from_numpy(np.ascontiguousarray(y))

    def losses(self, raw: np.ndarray, y: np.ndarray | None = None) -> np.ndarray:
        """The loss of every row."""
        import torch

        truth = self.truth if y is None else torch.from_numpy(np.ascontiguousarray(y))
        with torch.no_grad():
            return self._checked(self._function(torch.from_numpy(raw), truth), len(truth)).double().numpy()

    def _checked(self, value: Any, n: int) -> Any:
        import torch

        if not isinstance(value, torch.Tensor) or value.shape != (n,):
            shape = tuple(value.shape) if isinstance(value, torch.Tensor) else type(value).__name__
            raise InvalidInput(f"the loss function returned {shape}; it must return one loss a row, a tensor ({n},)")
        if not bool(torch.isfinite(value).all()):
            raise InvalidInput("the loss function returned NaN or infinity; check its domain, or lower learning_rate")
        return value

    def respond(self, raw: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Loss summed, slopes and curvatures (the diagonal of the Hessian), shaped as ``raw``."""
        import torch

        with torch.enable_grad():
            score = torch.from_numpy(raw).clone().requires_grad_()
            value = self._checked(self._function(score, self.truth), len(score))
            (slope,) = torch.autograd.grad(value.sum(), score, create_graph=True)
            bend = _diagonal(slope, score)
        return float(value.detach().sum()), slope.detach().numpy(force=True), _usable(bend.detach().numpy(force=True))

    def leaf_values(self, raw: np.ndarray, leaf: np.ndarray, count: int, l2: float) -> np.ndarray:
        """The best step of every leaf: Newton's inside a bracket of the slope's sign, else bisection.

        leaf: (n,) the leaf of each row, -1 for none.
        """
        used = np.flatnonzero(leaf >= 0)
        part, place = TorchLoss(self._function, self.truth.numpy()[used]), leaf[used]
        low, high = np.full(count, -np.inf), np.full(count, np.inf)
        value, reach = np.zeros(count), np.ones(count)
        for _ in range(16):
            _, slope, bend = part.respond(raw[used] + value[place])
            total = np.bincount(place, slope, count) + l2 * value
            below = np.maximum(np.bincount(place, bend, count) + l2, 1e-300)
            low, high = np.where(total < 0, value, low), np.where(total > 0, value, high)
            step = -total / below
            after = value + np.clip(step, -reach * 8, reach * 8)
            inside = (after > low) & (after < high)
            middle = np.where(np.isfinite(low) & np.isfinite(high), 0.5 * (low + high), after)
            after = np.where(inside | (total == 0), after, middle)
            reach = np.maximum(np.abs(after), reach)
            moved = np.abs(after - value)
            value = after
            if (moved <= 1e-9 * (1 + np.abs(value))).all():
                break
        return value


def _diagonal(slope: Any, score: Any) -> Any:
    """Second derivatives of every score by itself; zeros when the slope does not depend on it."""
    import torch

    if not slope.requires_grad:
        return torch.zeros_like(slope)
    columns = [slope] if slope.ndim == 1 else list(slope.unbind(1))
    found = []
    for k, column in enumerate(columns):
        (row,) = torch.autograd.grad(column.sum(), score, retain_graph=True, allow_unused=True)
        row = torch.zeros_like(score) if row is None else row
        found.append(row if slope.ndim == 1 else row[:, k])
    return found[0] if slope.ndim == 1 else torch.stack(found, 1)


def _usable(bend: np.ndarray) -> np.ndarray:
    """Curvatures that can weigh rows: positive, and one everywhere for a loss of straight pieces."""
    size = float(np.abs(bend).mean())
    return np.maximum(bend, 1e-3 * size) if size > 0 else np.ones_like(bend)
