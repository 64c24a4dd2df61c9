"""Samples judged against held-out rows: metrics, signs of collapse, and whether training rows come back."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benthic.base.errors import InvalidInput, nearest
from benthic.base.seeds import np_generator
from benthic.kernels.neighbors import search
from benthic.leaderboard.contest import rowwise
from benthic.leaderboard.contest.material import Material
from benthic.leaderboard.contest.protocol import Split
from benthic.leaderboard.contest.records import Better
from benthic.leaderboard.contest.rowwise import Rowwise
from benthic.leaderboard.contest.spaces import Space
from benthic.leaderboard.contest.usefulness import tstr_rows
from benthic.metrics.copying import memorization

METRICS: dict[str, tuple[Better, str]] = {
    "frechet": ("lower", "squared Fréchet distance of features"),
    "kernel": ("lower", "kernel distance of features, cubic kernel"),
    "energy": ("lower", "energy distance of features"),
    "wasserstein": ("lower", "sliced Wasserstein distance of features, order 1"),
    "marginals": ("lower", "mean distance of columns: Kolmogorov-Smirnov, or total variation for categories"),
    "associations": ("lower", "mean absolute difference of correlations of columns"),
    "tstr": ("lower", "error on real rows of boosted trees trained on samples: wrong classes, or variance missed"),
    "detection": ("lower", "how well boosted trees tell samples from real rows, area under the curve"),
    "precision": ("higher", "share of samples within the real rows"),
    "recall": ("higher", "share of real rows within the samples"),
    "density": ("higher", "samples around each real row, against those expected"),
    "coverage": ("higher", "share of real rows that have a sample near"),
}
_DEFAULTS = {
    "image": ("frechet", "kernel", "coverage"),
    "table": ("energy", "wasserstein", "marginals", "associations", "coverage"),
}
_COMPARED = 20_000  # training rows that samples are compared with, at most
_NEAR = 0.1  # of the distance to held-out rows, below which a sample is a copy of a training row
_EXCHANGES = 199
_FAR = 1e30  # spreads of the real rows
_SUSPECT = 0.8  # of the floor's ratio, below which a test is made whether training rows come back


@dataclass(frozen=True, eq=False)
class Verdict:
    """What one sample is worth.

    scores: by metric, with the influence of rows. spread: of the features against that of real rows. distinct: share of
    different rows. ratio: of mean distances to the nearest training row and to the nearest held-out one; there are more
    training rows, so compare with the floor's. p_value: of the nearness to training rows, see ``memorization``, NaN
    where there is no suspicion. copies:
    share of samples ten times nearer to a training row than to a held-out one.
    """

    scores: dict[str, Rowwise] = field(default_factory=dict)
    spread: float = 1.0
    distinct: float = 1.0
    ratio: float = 1.0
    p_value: float = 1.0
    copies: float = 0.0


def metrics_of(metrics: Any, material: Material) -> tuple[str, ...]:
    """Names of the metrics that rank: those asked for, or the usual ones of the kind of data.

    >>> metrics_of(["frechet"], None)
    ('frechet',)
    """
    if metrics is None:
        image = material.facts.kind == "image"
        chosen = _DEFAULTS["image" if image else "table"]
        chosen = chosen if material.target is None else (*chosen, "tstr")
        return chosen if len(material.groups) > 1 else tuple(name for name in chosen if name != "associations")
    chosen = (metrics,) if isinstance(metrics, str) else tuple(metrics)
    for name in chosen:
        if name not in METRICS:
            raise InvalidInput(
                f"compare: there is no metric {name!r}{nearest(str(name), METRICS)}; there are {', '.join(METRICS)}"
            )
    if not chosen or len(set(chosen)) < len(chosen):
        raise InvalidInput(f"compare: metrics are {list(chosen)}; at least one is needed, and none twice")
    if "tstr" in chosen and material.target is None:
        raise InvalidInput("compare: metric 'tstr' needs a table with a target; pass y (or target), or leave it out")
    return chosen


def wants_target(metrics: Any) -> str:
    """Whether rows are judged with their target: ``usual``, by the usual metrics, ``asked`` or not at all."""
    if metrics is None:
        return "usual"
    return "asked" if "tstr" in ((metrics,) if isinstance(metrics, str) else tuple(metrics)) else ""


class Court:
    """Judges samples of n rows against the first half of the held-out rows; the second half is judged as a sample is.

    All samples have as many rows as the halves, so that no number depends on how many there are.
    """

    def __init__(self, material: Material, split: Split, space: Space, metrics: Sequence[str], seed: int = 0) -> None:
        self.material, self.metrics, self._seed = material, tuple(metrics), seed
        self._space, self._split = space, split
        self._rows = torch.as_tensor(np.asarray(split.first, dtype=np.float64))
        self._real = space(split.first)
        self._around = rowwise.radii(self._real)
        some = np_generator(seed, "compared").permutation(len(split.fit))[:_COMPARED]
        self._fit = space(split.whole[np.sort(some)])
        self.floor = self.judge(split.second)

    def wild(self, made: np.ndarray) -> bool:
        """Whether rows lie so far off that distances to them would overflow."""
        with np.errstate(over="ignore", invalid="ignore"):
            features = self._space(made)
        return not bool((features.abs() < _FAR).all())

    def judge(self, made: np.ndarray) -> Verdict:
        """What a sample (n, width) of finite rows is worth."""
        rows = torch.as_tensor(np.asarray(made, dtype=np.float64))
        features = self._space(made)
        found: dict[str, Rowwise] = {}
        overlap = rowwise.overlap_rows(self._real, features, around=self._around)
        found |= dict(zip(overlap._fields, overlap, strict=True))
        for name in self.metrics:
            if name not in found:
                found[name] = self._metric(name, rows, features)
        ratio, copies = self._nearness(features)
        return Verdict(
            found,
            _spread(features) / max(_spread(self._real), 1e-300),
            len(np.unique(np.asarray(made), axis=0)) / len(made),
            ratio,
            self._chance(features, ratio, copies),
            copies,
        )

    def _metric(self, name: str, rows: Tensor, features: Tensor) -> Rowwise:
        material = self.material
        if name == "marginals":
            return rowwise.marginal_rows(self._rows, rows, material.groups, material.categorical)
        if name == "associations":
            return rowwise.association_rows(self._rows, rows, material.groups)
        if name == "tstr" and material.target is not None:
            return tstr_rows(self._rows, rows, material.target.group, material.target.classes, self._seed)
        ways: dict[str, Callable[[Tensor, Tensor], Rowwise]] = {
            "frechet": rowwise.frechet_rows,
            "kernel": rowwise.kernel_rows,
            "energy": rowwise.energy_rows,
            "wasserstein": rowwise.wasserstein_rows,
            "detection": rowwise.detection_rows,
        }
        return ways[name](self._real, features)

    def _chance(self, features: Tensor, ratio: float, copies: float) -> float:
        """The chance of samples as near to training rows, if there is a suspicion."""
        floor = getattr(self, "floor", None)
        if floor is not None and ratio > _SUSPECT * floor.ratio and copies < floor.copies + (1 - _SUSPECT) / 2:
            return math.nan
        found = memorization(self._fit, self._real, features, permutations=_EXCHANGES, seed=self._seed)
        return found.p_value

    def _nearness(self, features: Tensor) -> tuple[float, float]:
        """Mean distance to the nearest training row over that to the nearest held-out one, and the share of copies."""
        to_fit, to_held = (search(features, side, 1)[0][:, 0] for side in (self._fit, self._real))
        ratio = float(to_fit.mean() / to_held.mean()) if float(to_held.mean()) > 0 else 1.0
        return ratio, float((to_fit < _NEAR * to_held).double().mean())


def _spread(features: Tensor) -> float:
    return float((features - features.mean(0)).square().sum(1).mean().sqrt())
