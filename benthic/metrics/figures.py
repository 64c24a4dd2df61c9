"""Pictures of curves and tables of judgment; several models share one picture by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from benthic.metrics.rows import plain
from benthic.pictures.canvas import new_figure

if TYPE_CHECKING:
    from benthic.metrics.calibration import CalibrationCurve
    from benthic.metrics.confusion import ConfusionMatrix
    from benthic.metrics.ranking import DetCurve, PrecisionRecallCurve, RocCurve

_CHANCE = {"color": "0.7", "linewidth": 0.8, "linestyle": "--", "zorder": 0}
_SHARES = {"truth": "share of the true class", "predicted": "share of the answer", "all": "share of all rows"}
_TICKS = np.array([0.001, 0.01, 0.05, 0.2, 0.5, 0.8, 0.95, 0.99, 0.999])


def draw_roc(curves: Mapping[str, RocCurve], title: str = "") -> Any:
    """True against false positive rate, a line a model, with its area."""
    figure, axes = new_figure(4.4, 4.0)
    for name, curve in curves.items():
        label = f"{name}  area {curve.area}".strip()
        axes.plot(plain(curve.false_positive_rate), plain(curve.true_positive_rate), linewidth=1.4, label=label)
    axes.plot([0, 1], [0, 1], **_CHANCE)
    axes.set(xlabel="false positive rate", ylabel="true positive rate", title=title, aspect="equal")
    axes.legend(frameon=False, fontsize="small", loc="lower right")
    return figure


def draw_precision_recall(curves: Mapping[str, PrecisionRecallCurve], title: str = "") -> Any:
    """Precision against recall in steps, a line a model, with its average precision."""
    figure, axes = new_figure(4.4, 4.0)
    for name, curve in curves.items():
        label = f"{name}  average precision {curve.average_precision}".strip()
        recall, precision = plain(curve.recall), plain(curve.precision)
        axes.step(recall, precision, where="post", linewidth=1.4, label=label)
        axes.axhline(curve.prevalence, **_CHANCE)
    axes.set(xlabel="recall", ylabel="precision", title=title, xlim=(-0.02, 1.02), ylim=(0, 1.04))
    axes.legend(frameon=False, fontsize="small", loc="lower left")
    return figure


def draw_det(curves: Mapping[str, DetCurve], title: str = "") -> Any:
    """Missed against false alarms on normal-deviate axes, a line a model."""
    from scipy.special import ndtri

    figure, axes = new_figure(4.4, 4.0)
    low, high = _TICKS[0], _TICKS[-1]
    for name, curve in curves.items():
        ends = [
            ndtri(np.clip(plain(part), low, high)) for part in (curve.false_positive_rate, curve.false_negative_rate)
        ]
        axes.plot(*ends, linewidth=1.4, label=f"{name}  equal error {curve.equal_error_rate:.3g}".strip())
    axes.plot([ndtri(low), ndtri(high)], [ndtri(low), ndtri(high)], **_CHANCE)
    names = [f"{tick:.3g}" for tick in _TICKS]
    axes.set_xticks(ndtri(_TICKS), names, fontsize="x-small")
    axes.set_yticks(ndtri(_TICKS), names, fontsize="x-small")
    axes.set(xlabel="false positive rate", ylabel="false negative rate", title=title, aspect="equal")
    axes.legend(frameon=False, fontsize="small", loc="upper right")
    return figure


def draw_calibration(curves: Mapping[str, CalibrationCurve], title: str = "") -> Any:
    """Observed against predicted frequency with error bars; below, where the predictions lie."""
    figure, (axes, below) = new_figure(4.4, 5.0, 2, 1, sharex=True, height_ratios=(3, 1))
    for name, curve in curves.items():
        said, seen = plain(curve.predicted), plain(curve.observed)
        label = f"{name}  calibration error {curve.error}".strip()
        axes.errorbar(
            said, seen, yerr=plain(curve.stderr), marker="o", markersize=4, linewidth=1.2, capsize=2, label=label
        )
        weight, edges = plain(curve.weight), plain(curve.edges)
        counts, _ = np.histogram(said, edges, weights=weight)
        below.stairs(counts / weight.sum(), edges, linewidth=1.2)
    axes.plot([0, 1], [0, 1], **_CHANCE)
    axes.set(ylabel="observed frequency", xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    figure.legend(frameon=False, fontsize="small", loc="outside upper left", title=title or None)
    below.set(xlabel="predicted probability", ylabel="share of rows")
    return figure


def draw_confusion(matrix: ConfusionMatrix, over: str = "truth", title: str = "") -> Any:
    """Color is the share, the number in a cell the count or weight."""
    names, counts = [str(name) for name in matrix.classes], plain(matrix.counts)
    shares = plain(matrix.shares(over))
    side = min(7.0, 2.2 + 0.4 * len(names))
    figure, axes = new_figure(side + 1.0, side)
    image = axes.imshow(shares, cmap="Blues", vmin=0, vmax=1 if over != "all" else float(shares.max()))
    if len(names) <= 20:
        for (i, j), n in np.ndenumerate(counts):
            if n:
                color = "white" if shares[i, j] > 0.5 * float(image.norm.vmax) else "black"
                axes.text(
                    j, i, f"{n:.4g}", ha="center", va="center", fontsize=10 if len(names) <= 6 else 7, color=color
                )
        steep = max(map(len, names)) > 4
        axes.set_xticks(range(len(names)), names, fontsize="small", rotation=45 if steep else 0)
        axes.set_yticks(range(len(names)), names, fontsize="small")
    axes.set(xlabel="predicted", ylabel="true", title=title)
    figure.colorbar(image, ax=axes, label=_SHARES[over], shrink=0.8)
    return figure
