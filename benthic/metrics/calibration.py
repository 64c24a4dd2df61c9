"""Whether a probability of 0.7 means seven in ten."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benthic.base.errors import InvalidInput, nearest
from benthic.base.estimate import Estimate
from benthic.metrics.binary import positives
from benthic.metrics.probability import Table
from benthic.metrics.rows import device_of, estimate, mirror, numbers, same_rows, weights_of

_STRATEGIES = ("uniform", "quantile")
_NORMS = ("l1", "l2", "max")


@dataclass(frozen=True)
class CalibrationCurve:
    """Predicted and observed frequency in each bin that has rows.

    predicted, observed, stderr, weight: (b,) mean probability, share of positive rows, the standard deviation of that
    share under Jeffreys' prior, and the weight of the rows. edges: (bins + 1,). error: expected calibration error.
    """

    predicted: Any
    observed: Any
    stderr: Any
    weight: Any
    edges: Any
    error: Estimate

    def plot(self, title: str = "") -> Any:
        """Observed against predicted frequency; on the diagonal the model means what it says."""
        from benthic.metrics.figures import draw_calibration

        return draw_calibration({"": self}, title)


def calibration_curve(
    y: Any,
    probabilities: Any,
    positive: Any = None,
    bins: int = 10,
    strategy: str = "uniform",
    sample_weight: Any = None,
) -> CalibrationCurve:
    """How often rows given about the same probability are positive (reliability diagram; DeGroot & Fienberg, 1983).

    y: (n,) labels of two classes. probabilities: (n,) that of ``positive`` (1 or True if not given). strategy:
    ``uniform`` bins are equally wide, ``quantile`` bins hold equally many rows.

    >>> curve = calibration_curve([0, 0, 1, 1], [0.1, 0.1, 0.9, 0.9], bins=2)
    >>> curve.observed, round(curve.error.value, 3)
    (array([0., 1.]), 0.1)
    """
    where = "calibration_curve"
    said, truth, weights = _door(y, probabilities, positive, sample_weight, where)
    edges = _edges(said, weights, bins, strategy, where, sample_weight is not None)
    groups = _Bins(said, truth.double(), weights, edges)
    found = (mirror(part, y, probabilities) for part in (*groups.means(), edges))
    return CalibrationCurve(*found, groups.error("l1"))


def expected_calibration_error(
    y: Any,
    probabilities: Any,
    classes: Any = None,
    bins: int = 15,
    strategy: str = "uniform",
    norm: str = "l1",
    sample_weight: Any = None,
) -> Estimate:
    r"""The distance of confidence from accuracy over bins of confidence (Naeini et al., 2015; Guo et al., 2017).

    .. math:: \sum_b \frac{W_b}{W} \, |\mathrm{acc}_b - \mathrm{conf}_b|

    probabilities: (n, k), judged by the largest of a row and whether that class is right, columns in the order of
    ``classes``; or (n,) for the second of two classes, judged as they are. norm: ``l1``; ``l2``, the root of the
    weighted mean square; ``max``, the worst bin. Binning makes the value too large on few rows and too small where
    errors of one bin cancel; the error bar does not know of either.

    >>> round(expected_calibration_error([0, 1, 1, 1], [0.3, 0.7, 0.7, 0.7], bins=2).value, 3)
    0.3
    """
    where = "expected_calibration_error"
    if norm not in _NORMS:
        raise InvalidInput(f"{where}: norm={norm!r} is none of {', '.join(_NORMS)}{nearest(str(norm), _NORMS)}")
    table = Table(y, probabilities, classes, sample_weight, where)
    if len(np.shape(probabilities)) == 1:
        said, right = table.values[:, 1], (table.known & (table.codes == 1)).double()
    else:
        said, best = table.values.max(1)
        right = (table.known & (best == table.codes)).double()
    edges = _edges(said, table.weights, bins, strategy, where, sample_weight is not None)
    return _Bins(said, right, table.weights, edges).error(norm)


class _Bins:
    """Weighted sums a bin of what was said and what came true."""

    def __init__(self, said: Tensor, true: Tensor, weights: Tensor, edges: Tensor) -> None:
        self.said, self.true, self.weights = said, true, weights
        # a probability on an edge belongs to the bin below it, as in scikit-learn
        self.place = torch.searchsorted(edges[1:-1].contiguous(), said.contiguous())
        self.count = len(edges) - 1
        self.weight = self._sum(weights)
        self.kept = self.weight > 0

    def _sum(self, values: Tensor) -> Tensor:
        return torch.bincount(self.place, values, minlength=self.count)

    def means(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Said, observed, its standard error and weight of every bin with rows."""
        weight = self.weight[self.kept]
        said = self._sum(self.weights * self.said)[self.kept] / weight
        seen = self._sum(self.weights * self.true)[self.kept] / weight
        # Jeffreys' prior keeps a bin of few rows, all of one kind, from looking certain
        rows = weight**2 / self._sum(self.weights**2)[self.kept]  # rows of equal weight that would say as much
        share = (rows * seen + 0.5) / (rows + 1)
        spread = (share * (1 - share) / (rows + 2)).sqrt()
        return said, seen, spread, weight

    def error(self, norm: str) -> Estimate:
        """The distance of said from seen over the bins, with its error by the delta method."""
        off = self.true - self.said  # (n,)
        share = self.weight / self.weight.sum()
        safe = torch.where(self.kept, self.weight, 1.0)
        gap = self._sum(self.weights * off) / safe  # (bins,)
        if norm == "l1":
            value = (share * gap.abs()).sum()
            return estimate(value, gap.sign()[self.place] * off - value, self.weights)
        if norm == "l2":
            square = (share * gap**2).sum()
            slope = 0.5 / square.sqrt() if float(square) > 0 else 0.0
            moved = (2 * gap * share / safe * self.weight.sum())[self.place] * (off - gap[self.place])
            return estimate(square.sqrt(), (moved + (gap**2)[self.place] - square) * slope, self.weights)
        worst = int(gap.abs().argmax())
        inside = (self.place == worst).double() / share[worst]
        return estimate(gap.abs()[worst], inside * gap[worst].sign() * (off - gap[worst]), self.weights)


def _edges(said: Tensor, weights: Tensor, bins: int, strategy: str, where: str, weighted: bool) -> Tensor:
    if strategy not in _STRATEGIES:
        hint = nearest(str(strategy), _STRATEGIES)
        raise InvalidInput(f"{where}: strategy={strategy!r} is none of {', '.join(_STRATEGIES)}{hint}")
    if bins < 1:
        raise InvalidInput(f"{where}: bins is {bins}; at least one is needed")
    grid = torch.as_tensor(np.linspace(0.0, 1.0, bins + 1), device=said.device)
    if strategy == "uniform":
        return grid
    if not weighted:
        return torch.as_tensor(np.percentile(said.cpu().numpy(), grid.cpu().numpy() * 100), device=said.device)
    ordered, order = said.sort()
    total = weights[order].cumsum(0)
    place = torch.searchsorted(total, grid * total[-1] * (1 - 1e-12)).clamp(max=len(said) - 1)
    return ordered[place]


def _door(y: Any, probabilities: Any, positive: Any, sample_weight: Any, where: str) -> tuple[Tensor, Tensor, Tensor]:
    n = same_rows(where, y=y, probabilities=probabilities)
    device = device_of(y, probabilities)
    said = numbers(probabilities, where, "probabilities", device)
    if said.shape != (n,):
        raise InvalidInput(
            f"{where}: probabilities have shape {tuple(said.shape)}; those of one class, ({n},), are needed"
        )
    if bool((said < 0).any()) or bool((said > 1).any()):
        low, high = float(said.min()), float(said.max())
        raise InvalidInput(f"{where}: probabilities reach from {low:.4g} to {high:.4g}; they must lie between 0 and 1")
    truth = positives(y, positive, where).to(device)
    return said, truth, weights_of(sample_weight, n, where, device)
