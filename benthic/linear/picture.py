"""The pictures of a linear model: its coefficients, and their path as the penalty weakens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benthic.pictures.canvas import new_figure

_MANY = 40  # features from which their names no longer fit beside each other


def plot_coefficients(coef: np.ndarray, features: Sequence[str], classes: Sequence[str], ax: Any = None) -> Any:
    """Draw coefficients (r, d): bars for one row, a map for several. Returns the figure.

    ax: the axes to draw on; without it a new figure is made.
    """
    if ax is None:
        bars = min(int(coef.any(0).sum()), _MANY)
        _, ax = new_figure(6.4, max(2.0, 0.9 + 0.24 * bars)) if len(coef) == 1 else new_figure(7.2, 4.2)
    (_bars if len(coef) == 1 else _map)(coef, features, classes, ax)
    return ax.figure


def _bars(coef: np.ndarray, features: Sequence[str], classes: Sequence[str], ax: Any) -> None:
    order = np.argsort(np.abs(coef[0]))
    order = order[coef[0, order] != 0][-_MANY:]
    values = coef[0, order]
    ax.barh(np.arange(len(order)), values, color=np.where(values < 0, "#3b6fb5", "#c8553d"))
    ax.set_yticks(np.arange(len(order)), [features[i] for i in order])
    ax.axvline(0.0, color="0.3", linewidth=0.8)
    ax.set_xlabel(f"change of the log-odds of {classes[-1]} per unit")
    if len(order) < coef.shape[1]:
        ax.set_title(f"{len(order)} of {coef.shape[1]} features", fontsize="medium")


def _map(coef: np.ndarray, features: Sequence[str], classes: Sequence[str], ax: Any) -> None:
    limit = float(np.abs(coef).max()) or 1.0
    image = ax.imshow(coef, aspect="auto", cmap="RdBu_r", vmin=-limit, vmax=limit, interpolation="nearest")
    ax.figure.colorbar(image, ax=ax, label="coefficient")
    ax.set_yticks(np.arange(len(classes)), classes)
    if len(features) <= _MANY:
        ax.set_xticks(np.arange(len(features)), features, rotation=90 if len(features) > 8 else 0)
    ax.set_xlabel("feature")
    ax.set_ylabel("class")


def plot_effects(
    coef: np.ndarray,
    features: Sequence[str],
    error: np.ndarray | None = None,
    ax: Any = None,
    *,
    what: str = "target",
    names: Sequence[str] | None = None,
) -> Any:
    """Draw coefficients (k, d): bars with two standard errors for one row, a map for several.

    error: (k, d) standard errors. what: what a coefficient changes. names: of the rows. ax: the axes to draw on;
    without it a new figure is made. Returns the figure.
    """
    if ax is None:
        bars = min(coef.shape[1], _MANY)
        _, ax = new_figure(6.4, max(2.0, 0.9 + 0.24 * bars)) if len(coef) == 1 else new_figure(7.2, 4.2)
    if len(coef) > 1:
        _map(coef, features, [str(c) for c in range(len(coef))] if names is None else names, ax)
        ax.set_ylabel("target" if names is None else "class")
        return ax.figure
    order = np.argsort(np.abs(coef[0]))[-_MANY:]
    values = coef[0, order]
    bar = 2 * error[0, order] if error is not None and np.isfinite(error).all() else None
    colors = np.where(values < 0, "#3b6fb5", "#c8553d")
    ax.barh(np.arange(len(order)), values, xerr=bar, color=colors, ecolor="0.25", capsize=2)
    ax.set_yticks(np.arange(len(order)), [features[i] for i in order])
    ax.axvline(0.0, color="0.3", linewidth=0.8)
    ax.set_xlabel(f"change of the {what} per unit" + ("" if bar is None else ", ± 2 standard errors"))
    return ax.figure


def plot_path(alphas: np.ndarray, coefs: np.ndarray, features: Sequence[str] | None = None, ax: Any = None) -> Any:
    """Draw coefficients (d, number of alphas) against the strength of the penalty. Returns the figure.

    features: names, written at the ends of the largest. ax: the axes to draw on; without it a new figure is made.
    """
    if ax is None:
        _, ax = new_figure(7.2, 4.2)
    ax.semilogx(alphas, coefs.T, linewidth=1.2)
    ax.axhline(0.0, color="0.3", linewidth=0.8)
    ax.invert_xaxis()
    last = np.argmin(alphas)
    if features is not None:
        for j in np.argsort(-np.abs(coefs[:, last]))[:10]:
            if coefs[j, last] != 0:
                ax.annotate(
                    features[j],
                    (alphas[last], coefs[j, last]),
                    xytext=(4, 0),
                    textcoords="offset points",
                    fontsize="small",
                    va="center",
                )
    ax.set_xlabel("alpha (weaker penalty to the right)")
    ax.set_ylabel("coefficient")
    return ax.figure
