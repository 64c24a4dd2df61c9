"""Pictures of resampled scores; several models share one picture by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from benthic.pictures.canvas import new_figure

if TYPE_CHECKING:
    from benthic.leaderboard.cross_validation import CrossValidation
    from benthic.leaderboard.decomposition import BiasVariance
    from benthic.leaderboard.learning_curves import LearningCurve


def draw_scores(found: Mapping[str, CrossValidation], name: str | None = None, title: str = "") -> Any:
    """Every score as a gray point; the mean and its 95 % interval in color, a row a model."""
    figure, axes = new_figure(5.6, 1.3 + 0.5 * len(found))
    first = next(iter(found.values()))
    name = next(iter(first.scores)) if name is None else name
    for place, one in enumerate(found.values()):
        scores = one.of(name)
        low, high = one.interval(name)
        axes.scatter(scores, np.full(len(scores), place - 0.15), s=10, color="0.6", linewidth=0)
        mean = one.estimate(name).value
        axes.errorbar(mean, place + 0.1, xerr=[[mean - low], [high - mean]], fmt="o", markersize=5, capsize=3)
    axes.set_yticks(range(len(found)), list(found))
    axes.set(xlabel=name, title=title, ylim=(len(found) - 0.5, -0.5))
    return figure


def draw_learning_curves(curves: Mapping[str, LearningCurve], title: str = "") -> Any:
    """Held-out score (solid) and score on the rows fitted (dashed) against their number; bands are one error."""
    figure, axes = new_figure(5.2, 3.6)
    for place, (name, curve) in enumerate(curves.items()):
        color = f"C{place}"
        for side, style in (("test", "-"), ("train", "--")):
            values, errors = np.array(curve.estimates(side)).T
            label = f"{name} {'held out' if side == 'test' else 'fitted'}".strip()
            axes.plot(curve.sizes, values, style, marker="o", markersize=3, color=color, label=label)
            axes.fill_between(curve.sizes, values - errors, values + errors, color=color, alpha=0.15, linewidth=0)
    first = next(iter(curves.values()))
    axes.set(xlabel="rows fitted", ylabel=first.name, title=title)
    if float(first.sizes.max()) > 8 * float(first.sizes.min()):
        axes.set_xscale("log")
        axes.set_xticks(first.sizes, [str(size) for size in first.sizes])
        axes.minorticks_off()
    axes.legend(frameon=False, fontsize="small")
    return figure


def draw_bias_variance(found: Mapping[Any, BiasVariance], title: str = "", xlabel: str = "") -> Any:
    """Parts of the loss as stacked bars, one a model or setting; a dot is the whole loss.

    A net variance below zero, which 0-1 loss allows, hangs below the line.
    """
    figure, axes = new_figure(max(4.0, 1.6 + 0.6 * len(found)), 3.6)
    places = np.arange(len(found))
    mixed = any(one.bias_holds_noise for one in found.values())
    named = {"net_noise": "noise", "bias": "bias and noise" if mixed else "bias", "net_variance": "variance"}
    colors = {"net_noise": "0.75", "bias": "C0", "net_variance": "C1"}
    above, below = np.zeros(len(found)), np.zeros(len(found))
    for part, label in named.items():
        sizes = np.array([getattr(one, part).value for one in found.values()])
        if mixed and part == "net_noise":
            continue
        base = np.where(sizes >= 0, above, below)
        axes.bar(places, sizes, 0.65, bottom=base, color=colors[part], label=label)
        above, below = above + np.maximum(sizes, 0), below + np.minimum(sizes, 0)
    losses = np.array([one.loss for one in found.values()]).T
    axes.errorbar(places, losses[0], yerr=losses[1], fmt="o", color="black", markersize=4, capsize=2, label="loss")
    axes.set_xticks(places, [str(name) for name in found])
    axes.axhline(0, color="black", linewidth=0.6)
    kind = next(iter(found.values())).kind.replace("_", "-")
    axes.set(ylabel=f"{kind} loss", xlabel=xlabel, title=title)
    axes.legend(frameon=False, fontsize="small")
    return figure
