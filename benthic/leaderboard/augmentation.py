"""What generated rows add to real ones: a classifier fitted with and without them, judged on the same held-out rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from benthic.base.catalogue import catalogue
from benthic.base.errors import InvalidInput
from benthic.base.estimate import Estimate
from benthic.base.frames import frame_kind
from benthic.base.seeds import derive, np_generator
from benthic.data.splits import take
from benthic.leaderboard.contest.predicting.tables import prepared, settled, targets
from benthic.leaderboard.plans import fold_plan
from benthic.leaderboard.scoring import Judge, Scoring, is_classifier
from benthic.metrics.comparing import TestResult, corrected_t_test, resampled_estimate
from benthic.metrics.rows import plain, same_rows


@dataclass(frozen=True)
class AugmentationGain:
    """Scores of a classifier with and without generated rows, over the same folds.

    without, augmented: (J,) scores by name. better: ``higher`` or ``lower`` by name. test_share: rows judged over rows
    fitted. made: generated rows added in each fit, on average.
    """

    without: dict[str, np.ndarray]
    augmented: dict[str, np.ndarray]
    better: dict[str, str]
    test_share: float
    made: float

    def gain(self, name: str | None = None, level: float = 0.95) -> TestResult:
        """Augmented less without, by the corrected paired test; where lower is better, negative is a gain."""
        name = next(iter(self.without)) if name is None else name
        if name not in self.without:
            raise InvalidInput(f"AugmentationGain: no scores {name!r}; there are {', '.join(self.without)}")
        return corrected_t_test(self.augmented[name], self.without[name], self.test_share, level)

    def estimate(self, name: str, which: str = "augmented") -> Estimate:
        """Mean score ``augmented`` or ``without``, with its corrected error."""
        return resampled_estimate(getattr(self, which)[name], self.test_share)

    def __str__(self) -> str:
        lines = [f"{self.made:.0f} generated rows a fit, {len(next(iter(self.without.values())))} fits"]
        for name in self.without:
            test = self.gain(name)
            helps = test.difference.value * (1 if self.better[name] == "higher" else -1) > 0
            word = "no clear change" if test.p_value > 0.05 else "better" if helps else "worse"
            told = f"{self.estimate(name, 'without')} without, {self.estimate(name)} with"
            lines.append(f"{name}: {told}, difference {test.difference} (p = {test.p_value:.2g}): {word}")
        return "\n".join(lines)


def augmentation_gain(
    generator: Any,
    classifier: Any,
    X: Any,
    y: Any,
    *,
    ratio: float = 1.0,
    balance: bool = False,
    per_class: bool | None = None,
    scoring: Scoring = None,
    k: int = 5,
    repeats: int = 2,
    seed: int = 0,
) -> AugmentationGain:
    """Whether adding generated rows to the training set makes a classifier better, and by how much.

    In every fold the generator learns from the training rows alone; the classifier is fitted on them, and on them with
    generated rows added; both are judged on the rows held out. What is hard about a fold cancels in the difference,
    whose error is corrected for the overlap of training sets (Nadeau & Bengio, 2003).

    generator: an unfitted model that samples. One that takes labels is fitted on (X, y) and asked for rows of each
    class with ``given``; of any other one copy is fitted for each class. per_class: says which, where None would guess
    wrong. classifier: unfitted. X: array or frame. y: (n,) classes. ratio: generated rows for each real one.
    balance: give rare classes more of them, so that classes come out as equal as ratio allows. scoring, k, repeats:
    as for ``cross_validate``.

    >>> from benthic import GaussianMixture, GaussianNB
    >>> from sklearn.datasets import load_iris
    >>> found = augmentation_gain(GaussianMixture(1), GaussianNB(), *load_iris(return_X_y=True), scoring="accuracy")
    >>> abs(found.gain().difference.value) < 0.05
    True
    """
    where = "augmentation_gain"
    n = same_rows(where, X=X, y=y)
    _check(generator, classifier, ratio, where)
    X, _ = settled(X)
    labels = targets(y, "classify", n, where)
    separate = not takes_labels(generator) if per_class is None else per_class
    plan = fold_plan(n, k, repeats, labels, None, seed, where)
    judge, without, augmented = Judge(scoring, where), [], []
    made = []
    for number, (train, test) in enumerate(plan):
        rows, known = take(X, train), labels[train]
        wanted = _wanted(known, round(ratio * len(train)), balance)
        new, names = _generated(generator, rows, known, wanted, separate, derive(seed, "generated", number), where)
        made.append(len(names))
        judged = take(X, test), labels[test]
        plain_fit = _fitted(classifier, rows, known, X, derive(seed, "classifier", number))
        both = _joined(rows, new), np.concatenate([known, names])
        augmented_fit = _fitted(classifier, *both, X, derive(seed, "classifier", number))
        without.append(judge(plain_fit, *judged))
        augmented.append(judge(augmented_fit, *judged))
    kept = [name for name in judge.better if all(name in scores for scores in (*without, *augmented))]
    return AugmentationGain(
        {name: np.array([scores[name] for scores in without]) for name in kept},
        {name: np.array([scores[name] for scores in augmented]) for name in kept},
        {name: judge.better[name] for name in kept},
        float(np.mean([len(test) for _, test in plan]) / np.mean([len(train) for train, _ in plan])),
        float(np.mean(made)),
    )


def takes_labels(generator: Any) -> bool:
    """Whether a generator learns from labels and is asked for them when it samples.

    >>> from benthic import ConditionalVAE, GaussianMixture
    >>> takes_labels(ConditionalVAE()), takes_labels(GaussianMixture())
    (True, False)
    """
    entry = catalogue().get(type(generator).__name__)
    if entry is not None and {"classify", "generate"} <= set(entry.tasks):
        return True
    params = generator.get_params(deep=False) if hasattr(generator, "get_params") else {}
    return params.get("condition") in ("labels", "auto")


def _check(generator: Any, classifier: Any, ratio: float, where: str) -> None:
    for name, model, verb in (("generator", generator, "sample"), ("classifier", classifier, "predict")):
        if not (hasattr(model, "fit") and hasattr(model, verb)):
            raise InvalidInput(f"{where}: the {name} {type(model).__name__} has no fit and {verb}; pass an estimator")
    if not is_classifier(classifier):
        raise InvalidInput(f"{where}: {type(classifier).__name__} does not classify; pass a classifier")
    if not 0 < ratio < math.inf:
        raise InvalidInput(f"{where}: ratio is {ratio!r}; generated rows for each real one are above zero")


def _wanted(known: np.ndarray, total: int, balance: bool) -> dict[Any, int]:
    """How many rows of each class to make: in their shares, or so that classes end as equal as the total allows."""
    classes, counts = np.unique(known, return_counts=True)
    if not balance:
        shares = np.floor(np.cumsum(counts) * total / counts.sum() + 0.5).astype(int)
        return dict(zip(classes.tolist(), np.diff(shares, prepend=0).tolist(), strict=True))
    level = _level(counts, total)
    return {name: max(0, math.floor(level - count)) for name, count in zip(classes.tolist(), counts, strict=True)}


def _level(counts: np.ndarray, total: int) -> float:
    """The height to which ``total`` fills vessels that already hold ``counts``."""
    heights = np.sort(counts)
    for filled in range(len(heights), 0, -1):
        level = (total + heights[:filled].sum()) / filled
        if level >= heights[filled - 1]:
            return float(level)
    return float(heights[0])


def _generated(
    generator: Any, rows: Any, known: np.ndarray, wanted: dict[Any, int], separate: bool, seed: int, where: str
) -> tuple[Any, np.ndarray]:
    """New rows and their classes, from a model of each class or from one model told the class."""
    asked = {name: count for name, count in wanted.items() if count}
    if not asked:
        raise InvalidInput(f"{where}: ratio leaves no rows to generate from {len(known)}; use a larger one")
    whole = None if separate else _seeded(generator, seed).fit(rows, known)
    parts = []
    for number, (name, count) in enumerate(asked.items()):
        if whole is None:
            own = _seeded(generator, derive(seed, number)).fit(take(rows, np.flatnonzero(known == name)))
            parts.append(own.sample(count, seed=derive(seed, number)))
        else:
            parts.append(whole.sample(count, given=name, seed=derive(seed, number)))
    names = np.repeat(np.array(list(asked), dtype=known.dtype), list(asked.values()))
    new = parts[0]
    for part in parts[1:]:
        new = _joined(new, part)
    return new, names


def _seeded(model: Any, seed: int) -> Any:
    from sklearn.base import clone

    copy = clone(model)
    known = copy.get_params()
    if "random_state" in known and known["random_state"] is None:
        copy.set_params(random_state=int(np_generator(seed, "fit").integers(2**31)))
    return copy


def _fitted(classifier: Any, rows: Any, known: np.ndarray, like: Any, seed: int) -> Any:
    return _seeded(prepared(classifier, like), seed).fit(rows, known)


def _joined(first: Any, second: Any) -> Any:
    """The rows of both, of the kind of the first."""
    kind = frame_kind(first)
    if kind == "pandas":
        import pandas as pd

        return pd.concat([first, second.astype(first.dtypes.to_dict())], ignore_index=True)
    if kind == "polars":
        import polars as pl

        return pl.concat([first, second.cast(dict(first.schema))])
    if kind == "arrow":
        import pyarrow as pa

        return pa.concat_tables([first, second.cast(first.schema)]).unify_dictionaries()
    return np.concatenate([plain(first), plain(second).astype(plain(first).dtype)])
