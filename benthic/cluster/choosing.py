"""How many clusters: the elbow of the distortion, the silhouette, the gap statistic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.base.errors import nearest as nearest_name
from benthic.base.seeds import derive, np_generator
from benthic.cluster.lloyd import Lloyd
from benthic.cluster.memory import nearest
from benthic.cluster.seeding import plus_plus, sort_rows
from benthic.data.batch import Batch
from benthic.training.learner import Stats

CRITERIA = ("silhouette", "gap", "elbow")
_REFERENCES = 10  # uniform data sets the gap statistic is compared with


@dataclass(frozen=True)
class Choice:
    """What was found for each number of clusters.

    counts: (m,) numbers tried. distortions: (m,). values: (m,) of the criterion, larger is better. errors: (m,)
    standard errors of the gap, else zeros. best: the number chosen.
    """

    criterion: str
    counts: np.ndarray
    distortions: np.ndarray
    values: np.ndarray
    errors: np.ndarray
    best: int

    def table(self) -> dict[str, Any]:
        """The same as plain values."""
        return {
            "criterion": self.criterion,
            "counts": self.counts,
            "distortions": self.distortions,
            "values": self.values,
            "errors": self.errors,
            "best": self.best,
        }

    def plot(self) -> Any:
        """The criterion and the distortion for each number."""
        from benthic.cluster.picture import draw_choice

        return draw_choice(self.table())


def choose_clusters(
    X: Any, criterion: str = "silhouette", most: int = 10, *, rows: int = 5000, seed: int | None = None
) -> Choice:
    """The number of clusters of rows ``X`` (n, d), from 2 (gap: 1) to ``most``.

    criterion: ``"silhouette"`` takes the largest mean of (b - a) / max(a, b), with a the mean distance of a row to its
    own cluster and b to the nearest other (Rousseeuw, 1987). ``"gap"`` takes the first number whose log distortion
    falls below that of uniform data in the box of the data as much as the next one's does, to one standard error
    (Tibshirani, Walther & Hastie, 2001). ``"elbow"`` takes the point of the distortion curve farthest below the line
    between its ends. rows: at most so many rows are looked at.

    >>> X = torch.cat([torch.randn(60, 2, generator=torch.Generator().manual_seed(i)) + 12 * i for i in range(3)])
    >>> choose_clusters(X, "silhouette", 6, seed=0).best
    3
    """
    if criterion not in CRITERIA:
        raise InvalidInput(
            f"choose_clusters: criterion {criterion!r} is unknown{nearest_name(str(criterion), CRITERIA)}; "
            f"use {', '.join(CRITERIA)}"
        )
    X = torch.as_tensor(X).detach().cpu().double()
    least = 1 if criterion == "gap" else 2
    if len(X) <= most or most < least:
        raise InvalidInput(
            f"choose_clusters: {len(X)} rows and at most {most} clusters; there must be more rows than clusters, and "
            f"at least {least} clusters"
        )
    root = 0 if seed is None else seed
    X = sort_rows(X, None, rows).X if len(X) > rows else X
    X = X - X.mean(0)
    counts = np.arange(1, most + 1)
    fits = [_fit(X, int(k), root) for k in counts]
    distortions = np.array([fit.best["distortion"] for fit in fits])
    keep = counts >= least
    values, errors = np.zeros(len(counts)), np.zeros(len(counts))
    if criterion == "silhouette":
        values[keep] = [silhouette(X, nearest(X, fit.centers)[0].long()) for fit in fits[least - 1 :]]
        best = int(counts[keep][values[keep].argmax()])
    elif criterion == "elbow":
        values = _below_the_line(distortions)
        best = int(counts[keep][values[keep].argmax()])
    else:
        values, errors = _gaps(X, counts, distortions, root)
        enough = values[:-1] >= values[1:] - errors[1:]
        best = int(counts[:-1][enough][0]) if enough.any() else int(counts[values.argmax()])
    return Choice(criterion, counts[keep], distortions[keep], values[keep], errors[keep], best)


def _fit(X: Tensor, k: int, seed: int) -> Lloyd:
    """k-means of rows in memory, the best of three starts."""
    ordered = sort_rows(X)
    learner = Lloyd(lambda i: plus_plus(ordered, k, np_generator(seed, "choose", k, i)), starts=3, max_iter=100)
    batch = Batch(X)
    done = False
    while not done:
        learner.begin("fit")
        stats = learner.statistics(batch, "fit", 1.0)
        done = learner.update(stats, "fit", lambda function: _one(function, batch)).done
    learner.centers = learner.best["centers"]
    return learner


def _one(function: Any, batch: Batch) -> Stats:
    found: Stats = function(batch)
    return found


def silhouette(X: Tensor, labels: Tensor) -> float:
    """The mean silhouette of rows X (n, d) with labels (n,); a row alone in its cluster counts zero.

    >>> silhouette(torch.tensor([[0.0], [1.0], [9.0], [10.0]]), torch.tensor([0, 0, 1, 1]))
    0.888...
    """
    k = int(labels.max()) + 1
    hot = torch.nn.functional.one_hot(labels.long(), k).to(X.dtype)
    sizes = hot.sum(0)
    total, block = 0.0, max(1, (1 << 24) // max(len(X), 1))
    for start in range(0, len(X), block):
        own = labels[start : start + block].long()
        sums = torch.cdist(X[start : start + block], X) @ hot  # (b, k)
        inside = sums.gather(1, own[:, None])[:, 0] / (sizes[own] - 1).clamp(min=1)
        means = sums / sizes.clamp(min=1)
        means[:, sizes == 0] = torch.inf
        means.scatter_(1, own[:, None], torch.inf)
        outside = means.amin(1)
        alone = (sizes[own] <= 1) | ~torch.isfinite(outside)
        value = (outside - inside) / torch.maximum(outside, inside).clamp(min=1e-300)
        total += float(torch.where(alone, 0.0, value).sum())
    return total / len(X)


def _below_the_line(distortions: np.ndarray) -> np.ndarray:
    """How far each point of a falling curve lies below the line between its ends, in units of the whole fall."""
    fall = max(distortions[0] - distortions[-1], np.finfo(float).tiny)
    x = np.linspace(0.0, 1.0, len(distortions))
    return 1.0 - x - (distortions - distortions[-1]) / fall


def _gaps(X: Tensor, counts: np.ndarray, distortions: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Log distortion of uniform data in the box of the data's principal axes less that of the data; its errors."""
    axes = torch.linalg.svd(X, full_matrices=False).Vh
    turned = X @ axes.T
    low, high = turned.amin(0), turned.amax(0)
    logs = np.empty((_REFERENCES, len(counts)))
    for b in range(_REFERENCES):
        noise = torch.from_numpy(np_generator(seed, "gap", b).random(X.shape))
        reference = low + (high - low) * noise
        found = [_fit(reference, int(k), derive(seed, "gap", b)).best["distortion"] for k in counts]
        logs[b] = np.log(np.maximum(found, np.finfo(float).tiny))
    values = logs.mean(0) - np.log(np.maximum(distortions, np.finfo(float).tiny))
    return values, logs.std(0) * np.sqrt(1 + 1 / _REFERENCES)
