"""The arithmetic of bias, variance and noise, row by row."""

from __future__ import annotations

from typing import Any

import numpy as np

from benthic.base.errors import InvalidInput
from benthic.metrics.rows import plain


def squared_parts(
    answers: np.ndarray, y: np.ndarray | None, truth: Any = None, noise: Any = None, where: str = "squared_parts"
) -> dict[str, np.ndarray]:
    r"""Parts of squared loss at every row, unbiased for any number of fits R.

    .. math:: \frac1R \sum_r (y - f_r)^2 = \Bigl[(y - \bar f)^2 - \frac{s^2}{R}\Bigr] + s^2

    The mean of few fits strays from the mean of all; :math:`s^2 / R`, with :math:`s^2` the sample variance, takes
    that out of the bias, and the sum stays exact. (So a row's bias may come out a little below zero.)

    answers: (R, m) or (R, m, columns), averaged over columns. y: (m,) or None. truth: means of y. noise: its variance.

    >>> squared_parts(np.array([[0.0], [2.0]]), np.array([1.0]))["variance"]
    array([2.])
    """
    answers = answers.astype(np.float64)
    rounds, m = answers.shape[:2]
    main, spread = answers.mean(0), answers.var(0, ddof=1)
    known = truth is not None
    target = np.asarray(plain(truth) if known else y, dtype=np.float64)
    if target.shape != main.shape:
        raise InvalidInput(f"{where}: the targets have shape {target.shape} and the answers {main.shape}")
    bias = _per_row((target - main) ** 2 - spread / rounds)
    variance = _per_row(spread)
    unsure = np.zeros(m)
    if known:
        unsure = _noise(noise, y, target, where)
    return {
        "loss": bias + variance + unsure,
        "bias": bias,
        "variance": variance,
        "net_variance": variance,
        "noise": unsure,
        "net_noise": unsure,
        "main": main,
    }


def zero_one_parts(
    answers: np.ndarray, y: np.ndarray | None, truth: Any = None, classes: Any = None, where: str = "zero_one_parts"
) -> dict[str, np.ndarray]:
    r"""Parts of 0-1 loss at every row (Domingos, 2000).

    .. math:: E\,[t \ne \hat y] = c_1 N + B + c_2 V

    With :math:`y_*` the best answer and :math:`y_m` the most frequent (of several, the first in order):
    B is whether they differ, V how often a fit differs from :math:`y_m`, N how often the truth differs from
    :math:`y_*`; :math:`c_2` is 1 where :math:`y_m = y_*` and otherwise minus the share of fits that give :math:`y_*`
    among those that differ from :math:`y_m`.

    answers: (R, m) labels. y: (m,) labels, taken for the best answers unless truth: (m, k) probabilities of
    ``classes`` is given.

    >>> parts = zero_one_parts(np.array([["a"], ["b"], ["b"]]), np.array(["a"]))
    >>> parts["bias"], parts["variance"].round(3), parts["net_variance"].round(3)
    (array([1.]), array([0.333]), array([-0.333]))
    """
    if answers.ndim != 2:
        raise InvalidInput(f"{where}: answers have shape {answers.shape[1:]}; one label a row is needed")
    names = plain(classes) if classes is not None else np.unique(answers if y is None else np.append(y, answers))
    votes = np.stack([(answers == name).mean(0) for name in names], 1)  # (m, k)
    if not np.allclose(votes.sum(1), 1):
        raise InvalidInput(f"{where}: the model answered classes that are not among the listed ones")
    table = _law(truth, y, names, len(votes), where)
    best, main = table.argmax(1), votes.argmax(1)
    row = np.arange(len(votes))
    bias = (best != main).astype(np.float64)
    variance = 1 - votes[row, main]
    # the loss against the best answer is B + c2 V, so c2 V is what that loss is beyond B
    net_variance = (1 - votes[row, best]) - bias
    loss = 1 - (votes * table).sum(1)
    return {
        "loss": loss,
        "bias": bias,
        "variance": variance,
        "net_variance": net_variance,
        "noise": 1 - table[row, best],
        "net_noise": loss - bias - net_variance,
        "main": names[main],
    }


def _law(truth: Any, y: np.ndarray | None, names: np.ndarray, m: int, where: str) -> np.ndarray:
    """(m, k) probabilities of the classes: those given, or all on the label seen."""
    if truth is None:
        found = (np.asarray(y)[:, None] == names).astype(np.float64)
        if not found.any(1).all():
            raise InvalidInput(f"{where}: y_test has labels that are not among the listed classes")
        return found
    found = np.asarray(plain(truth), dtype=np.float64)
    if found.shape != (m, len(names)):
        raise InvalidInput(f"{where}: truth has shape {found.shape}; probabilities of classes, ({m}, {len(names)})")
    if not np.isfinite(found).all() or (found < 0).any() or not np.allclose(found.sum(1), 1, atol=1e-6):
        raise InvalidInput(f"{where}: rows of truth must be probabilities that add up to 1")
    return found


def _noise(noise: Any, y: np.ndarray | None, truth: np.ndarray, where: str) -> np.ndarray:
    if noise is None:
        if y is None or y.shape != truth.shape:
            raise InvalidInput(
                f"{where}: give the noise variance, or y_test of the shape of the truth to measure it by"
            )
        return _per_row((y - truth) ** 2)
    found = np.asarray(plain(noise), dtype=np.float64)
    if found.ndim > truth.ndim or (found < 0).any() or not np.isfinite(found).all():
        raise InvalidInput(f"{where}: noise must be a variance, zero or more: one number, or one a row")
    return _per_row(np.broadcast_to(found, truth.shape))


def _per_row(values: np.ndarray) -> np.ndarray:
    return values.reshape(len(values), -1).mean(1)
