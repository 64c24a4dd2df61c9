"""What generated data are worth for training: fit a predictor on them, judge it on real rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from benthic.base.errors import InvalidInput
from benthic.base.estimate import Estimate
from benthic.base.seeds import np_generator
from benthic.data.splits import take
from benthic.leaderboard.scoring import Judge, Scoring, fitted
from benthic.metrics.rows import same_rows
from benthic.metrics.samples import jackknife


@dataclass(frozen=True)
class SyntheticTraining:
    """Scores on real rows of a predictor fitted on generated ones, and of one fitted on real ones.

    synthetic, real: by name, each with its error over the judged rows. gap: synthetic less real, judged on the same
    rows, so that what is hard about them cancels. better: ``higher`` or ``lower`` by name.
    """

    synthetic: dict[str, Estimate]
    real: dict[str, Estimate]
    gap: dict[str, Estimate]
    better: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = []
        for name, found in self.synthetic.items():
            beside = f", real {self.real[name]}, gap {self.gap[name]}" if name in self.real else ""
            lines.append(f"{name}: synthetic {found}{beside} ({self.better[name]} is better)")
        return "\n".join(lines)


def train_on_synthetic(
    model: Any,
    synthetic: tuple[Any, Any],
    test: tuple[Any, Any],
    real: tuple[Any, Any] | None = None,
    *,
    scoring: Scoring = None,
    groups: int = 10,
    seed: int = 0,
) -> SyntheticTraining:
    """Train on synthetic, test on real, beside train on real (Esteban et al., 2017).

    model: any classifier or regressor; copies of it are fitted. synthetic: generated rows and their targets, (X, y).
    test: real rows that neither the generator nor the predictor saw. real: real training rows to compare with, as many
    as synthetic ones for a fair gap, or None. scoring: as for ``cross_validate``. Errors are jackknives over groups of
    the test rows, drawn by seed.

    >>> from sklearn.linear_model import LinearRegression
    >>> x = np.arange(30.0)[:, None]
    >>> found = train_on_synthetic(LinearRegression(), (x, 2 * x[:, 0]), (x, 2 * x[:, 0] + 1), scoring="mae")
    >>> round(found.synthetic["mae"].value, 6)
    1.0
    """
    where = "train_on_synthetic"
    samples = {"synthetic": synthetic, "test": test} | ({} if real is None else {"real": real})
    sizes = {name: _checked(where, name, sample) for name, sample in samples.items()}
    groups = min(groups, sizes["test"])
    if groups < 2:
        raise InvalidInput(f"{where}: test has {sizes['test']} row; at least 2 are needed to judge on")
    judge = Judge(scoring, where)
    plan = _plan(sizes["test"], groups, seed)
    found: dict[str, dict[str, torch.Tensor]] = {}
    for name in ("synthetic", "real"):
        if name in samples:
            copy = fitted(model, *samples[name], None, np.arange(sizes[name]), where)
            found[name] = _scores(judge, copy, test, plan)
    made, true = found["synthetic"], found.get("real", {})
    common = [name for name in made if name in true]
    return SyntheticTraining(
        {name: _estimate(values) for name, values in made.items()},
        {name: _estimate(true[name]) for name in common},
        {name: _estimate(made[name] - true[name]) for name in common},
        dict(judge.better),
    )


def _checked(where: str, name: str, sample: Any) -> int:
    if not isinstance(sample, tuple) or len(sample) != 2:
        raise InvalidInput(f"{where}: {name} must be a pair (X, y) of rows and targets")
    return same_rows(where, **{f"X of {name}": sample[0], f"y of {name}": sample[1]})


def _plan(n: int, groups: int, seed: int) -> list[np.ndarray]:
    """All rows, then all without each of the groups."""
    group = np_generator(seed, "groups").permutation(n) % groups
    return [np.arange(n), *(np.flatnonzero(group != g) for g in range(groups))]


def _scores(judge: Judge, model: Any, test: tuple[Any, Any], plan: list[np.ndarray]) -> dict[str, torch.Tensor]:
    """Every score on all rows and without each group, (1 + G,)."""
    rounds = [judge(model, *(take(part, rows) for part in test)) for rows in plan]
    names = [name for name in rounds[0] if all(name in scores for scores in rounds)]
    return {name: torch.tensor([scores[name] for scores in rounds], dtype=torch.float64) for name in names}


def _estimate(values: torch.Tensor) -> Estimate:
    return jackknife(values[0], values[1:])
