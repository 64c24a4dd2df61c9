"""Pictures of machines: support vectors, boundary and margins; the tube of a regression."""

from __future__ import annotations

from typing import Any

import numpy as np

from benthic.base.capabilities import to_numpy
from benthic.pictures.canvas import new_figure
from benthic.pictures.plane import box_around

_CELLS = 140
_COLORS = ("#3b6fb5", "#c8553d", "#5c9e59", "#e0a030", "#8a63a8", "#4fa3a5", "#b0647f", "#7f7f7f", "#a5a03c", "#5a5a9a")


def plot_margins(machine: Any, X: Any = None, y: Any = None, ax: Any = None) -> Any:
    """Draw a fitted classifier: support vectors ringed, the boundary solid, the margins dashed. Returns the figure.

    X, y: rows to draw too. In more than two dimensions the picture is the plane of most variance of the support
    vectors, through their mean; where there are no features, the sorted coefficients are drawn. Without y the rows
    are gray.
    """
    ax = new_figure(6.0, 4.6)[1] if ax is None else ax
    vectors = np.asarray(machine.support_vectors_, dtype=float)
    if len(vectors) < 2 or machine.kernel == "precomputed":
        return _coefficients(machine, ax)
    owner = np.repeat(np.arange(len(machine.classes_)), machine.n_support_)
    mean, plane = _plane(vectors)
    flat = (vectors - mean) @ plane.T
    rows = None if X is None else (machine._arrive(X, "plot")[0].double().cpu().numpy() - mean) @ plane.T
    box = box_around(flat if rows is None else np.concatenate([flat, rows]), 0.12)
    _ground(machine, mean, plane, box, ax)
    if rows is not None:
        codes = [] if y is None else np.searchsorted(machine.classes_, to_numpy(y))
        ax.scatter(*rows.T, s=12, c=[_COLORS[c % 10] for c in codes] or "0.6", linewidth=0, alpha=0.8)
    for k, label in enumerate(machine.classes_.tolist()):
        own = flat[owner == k]
        ax.scatter(*own.T, s=34, facecolor=_COLORS[k % 10], edgecolor="black", linewidth=0.9, label=f"{label}")
    two = vectors.shape[1] == 2
    ax.set(xlabel="feature 0" if two else "first direction", ylabel="feature 1" if two else "second direction")
    ax.set_title(
        f"{len(vectors)} support vectors" + ("" if two else ", plane of their most variance"), fontsize="medium"
    )
    ax.legend(frameon=False, fontsize="small")
    return ax.figure


def _plane(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A point and two directions (2, d): the axes in two dimensions, else those of most variance."""
    if vectors.shape[1] == 2:
        return np.zeros(2), np.eye(2)
    mean = vectors.mean(0)
    directions = np.linalg.svd(vectors - mean, full_matrices=False)[2][:2]
    return mean, np.vstack([directions, np.zeros((2 - len(directions), vectors.shape[1]))])


def _ground(machine: Any, mean: np.ndarray, plane: np.ndarray, box: tuple[float, ...], ax: Any) -> None:
    """Regions of the classes, and for two classes the lines at -1, 0 and 1."""
    from matplotlib.colors import ListedColormap

    x, y = np.linspace(*box[:2], _CELLS), np.linspace(*box[2:], _CELLS)
    grid = np.stack(np.meshgrid(x, y), -1).reshape(-1, 2) @ plane + mean
    values = np.asarray(_scores(machine, grid))
    code = values.argmax(1) if values.ndim == 2 else (values > 0).astype(int)
    shape = (_CELLS, _CELLS)
    colors = ListedColormap([_COLORS[k % 10] for k in range(len(machine.classes_))])
    top = len(machine.classes_) - 1
    ax.imshow(code.reshape(shape), origin="lower", extent=box, cmap=colors, alpha=0.16, aspect="auto", vmin=0, vmax=top)
    if values.ndim == 1:
        levels, styles = [-1.0, 0.0, 1.0], ["--", "-", "--"]
        ax.contour(x, y, values.reshape(shape), levels, colors="0.2", linestyles=styles, linewidths=[0.9, 1.5, 0.9])
    else:
        ax.contour(x, y, code.reshape(shape), np.arange(top) + 0.5, colors="0.2", linewidths=1.2)
    ax.set(xlim=box[:2], ylim=box[2:])


def _scores(machine: Any, rows: np.ndarray) -> np.ndarray:
    """Decision values (n,) of two classes, or scores (n, k), at rows in the coordinates the machine was fitted in."""
    import torch

    from benthic.svm.votes import one_against_rest

    values = machine._pair_values(torch.from_numpy(rows))
    return (values[:, 0] if values.shape[1] == 1 else one_against_rest(values)).numpy()


def _coefficients(machine: Any, ax: Any) -> Any:
    for k, row in enumerate(np.asarray(machine.dual_coef_)):
        ax.step(np.arange(len(row)), np.sort(row), where="mid", color=_COLORS[k % 10])
    ax.axhline(0.0, color="0.3", linewidth=0.8)
    ax.set(xlabel="support vectors, sorted", ylabel="coefficient")
    return ax.figure


def _curve(machine: Any, x: np.ndarray) -> np.ndarray:
    import torch

    return np.asarray(machine._prediction(torch.from_numpy(x[:, None])).numpy())


def plot_tube(machine: Any, ax: Any = None) -> Any:
    """Draw a fitted regression: the curve with its tube over one feature, else fitted against true numbers."""
    ax = new_figure(5.6, 4.2)[1] if ax is None else ax
    truth, fitted = machine._seen
    vectors = np.asarray(machine.support_vectors_, dtype=float)
    if vectors.shape[1:] == (1,) and len(vectors):
        x = np.linspace(vectors.min(), vectors.max(), 300)
        curve = _curve(machine, x)
        ax.fill_between(x, curve - machine.epsilon, curve + machine.epsilon, color=_COLORS[0], alpha=0.2, linewidth=0)
        ax.plot(x, curve, color=_COLORS[0])
        ax.scatter(vectors[:, 0], truth[machine._held], s=22, facecolor=_COLORS[1], edgecolor="black", linewidth=0.7)
        ax.set(xlabel="feature", ylabel="target")
    else:
        ends = np.array([min(truth.min(), fitted.min()), max(truth.max(), fitted.max())])
        ax.fill_between(ends, ends - machine.epsilon, ends + machine.epsilon, color="0.85", linewidth=0)
        ax.plot(ends, ends, color="0.5", linewidth=0.9, linestyle="--")
        outside = np.abs(truth - fitted) > machine.epsilon
        ax.scatter(truth, fitted, s=12, c=np.where(outside, _COLORS[1], _COLORS[0]), linewidth=0, alpha=0.8)
        ax.set(xlabel="true", ylabel="fitted")
    ax.set_title(f"{len(machine.support_)} support vectors of {machine.shape_fit_[0]} rows", fontsize="medium")
    return ax.figure
