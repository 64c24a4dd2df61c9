"""Why a model errs: because it cannot, because it was fitted on these rows and not others, or because nobody could."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from benthic.base.errors import InvalidInput
from benthic.base.estimate import Estimate
from benthic.base.seeds import np_generator
from benthic.data.splits import take, train_test
from benthic.leaderboard.parts import squared_parts, zero_one_parts
from benthic.leaderboard.scoring import fitted, is_classifier
from benthic.metrics.rows import plain, same_rows, weighted_mean, weights_of

_LOSSES = ("squared", "zero_one")
Draw = Callable[[np.random.Generator], tuple[Any, Any]]


@dataclass(frozen=True)
class BiasVariance:
    """The mean loss and its parts: loss = bias + net_variance + net_noise, to rounding.

    kind: ``squared`` or ``zero_one``. bias: of squared loss its square. variance: how far single fits lie from their
    main answer. net_variance: how much of the loss that makes; for 0-1 loss variance helps where the main answer is
    wrong, so it is less. noise, net_noise: what even the best answer loses, and how much of the loss that makes; NaN
    and 0 where the law of the targets is unknown, and then ``bias_holds_noise``. Errors are over the rows judged.
    rows: the same by name for every row judged, (m,) each, and ``main``, the main answer. rounds: number of fits.
    """

    kind: str
    loss: Estimate
    bias: Estimate
    variance: Estimate
    net_variance: Estimate
    noise: Estimate
    net_noise: Estimate
    bias_holds_noise: bool
    rows: dict[str, np.ndarray]
    rounds: int

    def summary(self) -> str:
        """The parts, a line each."""
        named = "bias and noise" if self.bias_holds_noise else "bias"
        lines = [f"{self.kind} loss {self.loss} over {self.rounds} fits", f"{named:<14} {self.bias}"]
        lines.append(f"{'variance':<14} {self.net_variance}")
        return "\n".join(lines if self.bias_holds_noise else [*lines, f"{'noise':<14} {self.net_noise}"])

    def plot(self, title: str = "") -> Any:
        """The parts of the loss as a stacked bar."""
        from benthic.leaderboard.figures import draw_bias_variance

        return draw_bias_variance({self.kind: self}, title)


def bias_variance(
    model: Any,
    X: Any,
    y: Any = None,
    X_test: Any = None,
    y_test: Any = None,
    *,
    loss: str | None = None,
    rounds: int = 50,
    fraction: float | None = None,
    truth: Any = None,
    noise: Any = None,
    classes: Any = None,
    sample_weight: Any = None,
    seed: int = 0,
) -> BiasVariance:
    r"""The parts of a model's expected loss, from many fits on resampled rows.

    .. math:: E (y - \hat f)^2 = (f - E \hat f)^2 + \operatorname{Var} \hat f + \operatorname{Var} y

    For 0-1 loss the unified decomposition of Domingos, 2000: the main answer is the most frequent one, the bias
    whether it is wrong, the variance how often fits differ from it. The estimates for squared loss are without bias of
    their own at any number of rounds.

    X, y: rows to fit; or X is a function of a NumPy generator that draws a new (X, y), to study a known law.
    X_test, y_test: rows to judge; without them three tenths of the rows are kept for it. loss: ``squared`` or
    ``zero_one``; None takes what the model answers. rounds: number of fits, at least 2. fraction: None resamples as
    many rows with replacement (bootstrap); a share draws so many without.
    truth: what is known of the law at the rows judged: (m,) means of y for squared loss, with ``noise`` its variance,
    a number or (m,), taken from ``y_test`` if None; (m, k) probabilities of ``classes`` for 0-1 loss. Without it
    noise cannot be told from bias. sample_weight: (m,) of the rows judged.

    A model with a fixed integer ``random_state`` is fitted with it each time; its own chance is then no part of the
    variance.

    >>> from sklearn.dummy import DummyRegressor
    >>> X = np.zeros((100, 1))
    >>> y = np.tile([0.0, 2.0], 50)
    >>> found = bias_variance(DummyRegressor(), X, y, X[:1], y_test=[5.0], truth=[1.0], noise=1.0)
    >>> found.bias.value < 0.01 and abs(found.variance.value - 1 / 100) < 0.01
    True
    """
    where = "bias_variance"
    kind = _kind(model, loss, where)
    if rounds < 2:
        raise InvalidInput(f"{where}: rounds is {rounds}; at least 2 fits show a variance")
    if not callable(X) and X_test is None:
        X, X_test, y, y_test = _held_out(X, y, kind, seed, where)
    draw = X if callable(X) else _resampler(X, y, fraction, is_classifier(model), where)
    m = _rows_judged(X_test, y_test, truth, kind, where)
    answers = np.stack([_answer(model, draw, X_test, np_generator(seed, "rounds", r), where) for r in range(rounds)])
    if answers.shape[1] != m:
        raise InvalidInput(f"{where}: the model gave {answers.shape[1]} answers for {m} rows")
    target = None if y_test is None else plain(y_test)
    if kind == "squared":
        parts = squared_parts(answers, target, truth, noise, where)
    else:
        parts = zero_one_parts(answers, target, truth, classes, where)
    return _collected(kind, parts, truth is None, sample_weight, rounds, where)


def _collected(
    kind: str, parts: dict[str, np.ndarray], unknown: bool, sample_weight: Any, rounds: int, where: str
) -> BiasVariance:
    weights = weights_of(sample_weight, len(parts["loss"]), where, torch.device("cpu"))

    def mean(name: str) -> Estimate:
        return weighted_mean(torch.as_tensor(parts[name], dtype=torch.float64), weights)

    noise = Estimate(math.nan, math.nan) if unknown else mean("noise")
    net = Estimate(0.0, 0.0) if unknown else mean("net_noise")
    found = [mean(name) for name in ("loss", "bias", "variance", "net_variance")]
    return BiasVariance(kind, *found, noise, net, unknown, parts, rounds)


def _answer(model: Any, draw: Draw, X_test: Any, rng: np.random.Generator, where: str) -> np.ndarray:
    X, y = draw(rng)
    rows = np.arange(same_rows(where, X=X, y=y))
    return plain(fitted(model, X, y, None, rows, where).predict(X_test))


def _resampler(X: Any, y: Any, fraction: float | None, classes: bool, where: str) -> Draw:
    if y is None:
        raise InvalidInput(f"{where}: the targets y are needed; the parts are those of a loss of predictions")
    n = same_rows(where, X=X, y=y)
    if fraction is not None and not 0 < fraction < 1:
        raise InvalidInput(f"{where}: fraction is {fraction}; a share of rows lies between 0 and 1")
    labels = plain(y)
    if classes and len(np.unique(labels)) < 2:
        raise InvalidInput(f"{where}: all rows to fit are of one class; rows of two are needed")

    def draw(rng: np.random.Generator) -> tuple[Any, Any]:
        for _ in range(100):
            rows = rng.integers(n, size=n) if fraction is None else rng.permutation(n)[: max(1, round(fraction * n))]
            if not classes or len(np.unique(labels[rows])) > 1:
                return take(X, np.sort(rows)), take(y, np.sort(rows))
        raise InvalidInput(f"{where}: resampled rows were of one class a hundred times; more rows of each are needed")

    return draw


def _held_out(X: Any, y: Any, kind: str, seed: int, where: str) -> tuple[Any, Any, Any, Any]:
    if y is None:
        raise InvalidInput(f"{where}: the targets y are needed; the parts are those of a loss of predictions")
    return train_test(X, y, 0.3, stratify=kind == "zero_one", seed=seed)


def _kind(model: Any, loss: str | None, where: str) -> str:
    kind = ("zero_one" if is_classifier(model) else "squared") if loss is None else loss
    if kind not in _LOSSES:
        raise InvalidInput(f"{where}: loss={loss!r} is none of {', '.join(_LOSSES)}")
    return kind


def _rows_judged(X_test: Any, y_test: Any, truth: Any, kind: str, where: str) -> int:
    if X_test is None:
        raise InvalidInput(f"{where}: a function that draws rows needs X_test, the rows to judge")
    if y_test is None and truth is None:
        raise InvalidInput(f"{where}: y_test or the truth is needed to judge answers")
    given = {"X_test": X_test, "y_test": y_test, "truth": truth}
    return same_rows(where, **{name: array for name, array in given.items() if array is not None})
