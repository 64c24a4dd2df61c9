"""Pictures of trees: questions in boxes, class shares as bars, answers along the branches."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np

from benthic.pictures.canvas import new_figure
from benthic.trees.attributes import attribute_names
from benthic.trees.structure import Tree
from benthic.trees.wording import conditions, number

_COLORS = ("#3b6fb5", "#e8a33d", "#5f9e5c", "#c8553d", "#8467ad", "#4fa3a5", "#a0795c", "#d684b5", "#8a8f3c", "#777777")
_READABLE = 12  # leaves that fit beside each other
_WIDE, _HIGH, _DROP = 1.5, 0.62, 0.55  # inches of a node, and between levels


def plot_tree(model: Any, ax: Any = None, max_depth: int | None = None) -> Any:
    """Draw a fitted tree; returns the figure. max_depth: questions to draw, or None for as many as are readable."""
    tree = model.tree_
    depth = _readable_depth(tree) if max_depth is None else max(int(max_depth), 0)
    shown = [int(node) for node in np.flatnonzero(tree.depth <= depth)]
    place = _places(tree, depth)
    levels = max(int(tree.depth[node]) for node in shown) + 1
    width = max(x for x, _ in place.values()) + 1
    if ax is None:
        _, ax = new_figure(max(3.2, 1.72 * width), max(1.8, (_HIGH + _DROP) * levels + 0.5))
    for node in shown:
        if tree.feature[node] >= 0 and tree.depth[node] < depth:
            _branches(ax, model, tree, node, place)
    for node in shown:
        _box(ax, model, tree, node, place[node], tree.depth[node] >= depth)
    _legend(ax, model)
    bottom = -(levels - 1) * (_HIGH + _DROP) - _HIGH
    ax.set(xlim=(-0.6, width - 0.4), ylim=(bottom - 0.12, 0.12))
    ax.axis("off")
    return ax.figure


def _readable_depth(tree: Tree) -> int:
    """The largest depth at which the boxes still fit beside each other."""
    deepest = int(tree.depth.max())
    for depth in range(1, deepest + 1):
        ends = (tree.depth == depth) | ((tree.feature < 0) & (tree.depth < depth))
        if ends.sum() > _READABLE:
            return max(depth - 1, 1)
    return deepest


def _places(tree: Tree, depth: int) -> dict[int, tuple[float, float]]:
    """Ends side by side, every other node over the middle of its children."""
    place: dict[int, tuple[float, float]] = {}
    across = 0
    stack = [(0, False)]
    while stack:
        node, seen = stack.pop()
        y = -float(tree.depth[node]) * (_HIGH + _DROP)
        below = tree.children(node) if tree.depth[node] < depth else []
        if not below:
            place[node] = (float(across), y)
            across += 1
        elif seen:
            place[node] = (0.5 * (place[below[0]][0] + place[below[-1]][0]), y)
        else:
            stack += [(node, True), *((child, False) for child in below[::-1])]
    return place


def _branches(ax: Any, model: Any, tree: Tree, node: int, place: dict[int, tuple[float, float]]) -> None:
    most = tree.weight[tree.children(node)].max()
    for child, answer in conditions(model, tree, node):
        (x0, y0), (x1, y1) = place[node], place[child]
        thick = 0.8 + 3.0 * tree.weight[child] / most
        ax.plot([x0, x1], [y0 - _HIGH, y1], color="0.72", linewidth=thick, zorder=1, solid_capstyle="round")
        where = 0.62
        label = "\n".join(textwrap.wrap(answer.removeprefix("= "), 16)[:3])
        ax.text(
            x0 + where * (x1 - x0), y0 - _HIGH + where * (y1 - y0 + _HIGH), label, ha="center", va="center",
            fontsize=7, color="0.15", zorder=3, bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6},
        )  # fmt: skip


def _box(ax: Any, model: Any, tree: Tree, node: int, center: tuple[float, float], last: bool) -> None:
    from matplotlib.patches import FancyBboxPatch

    x, top = center
    half = 0.44
    asks = tree.feature[node] >= 0 and not last
    box = FancyBboxPatch(
        (x - half, top - _HIGH), 2 * half, _HIGH, boxstyle="round,pad=0,rounding_size=0.05",
        facecolor="white" if asks else "#f4f2ec", edgecolor="0.3", linewidth=1.0, zorder=2,
    )  # fmt: skip
    ax.add_patch(box)
    title = attribute_names(model)[tree.feature[node]] if asks else _answer(model, tree, node)
    more = " ..." if last and tree.feature[node] >= 0 else ""
    ax.text(x, top - 0.15, _short(title) + more, ha="center", va="center", fontsize=8.5, zorder=4, weight="bold")
    ax.text(x, top - 0.33, _size(tree, node), ha="center", va="center", fontsize=7, zorder=4, color="0.35")
    if hasattr(model, "classes_"):
        _shares(ax, tree.value[node] / tree.value[node].sum(), x - half + 0.06, top - _HIGH + 0.08, 2 * half - 0.12)
    else:
        _mean_bar(ax, tree, node, x - half + 0.06, top - _HIGH + 0.08, 2 * half - 0.12)


def _short(text: str) -> str:
    return text if len(text) <= 18 else text[:16] + "…"


def _size(tree: Tree, node: int) -> str:
    weight = number(tree.weight[node])
    unit = "row" if weight == "1" else "rows"
    return f"{weight} {unit}"


def _answer(model: Any, tree: Tree, node: int) -> str:
    value = tree.value[node]
    return str(model.classes_[value.argmax()]) if hasattr(model, "classes_") else ", ".join(map(number, value[:2]))


def _shares(ax: Any, shares: np.ndarray, left: float, bottom: float, width: float) -> None:
    """Class shares as one stacked bar."""
    starts = np.concatenate([[0.0], np.cumsum(shares)[:-1]])
    for k in np.flatnonzero(shares > 0):
        ax.barh(
            bottom + 0.04, width * shares[k], left=left + width * starts[k], height=0.1,
            color=_COLORS[k % len(_COLORS)], zorder=4,
        )  # fmt: skip


def _mean_bar(ax: Any, tree: Tree, node: int, left: float, bottom: float, width: float) -> None:
    """Where the mean lies between the least and the greatest mean of the tree."""
    means = tree.value[:, 0]
    span = float(means.max() - means.min()) or 1.0
    ax.plot([left, left + width], [bottom + 0.04] * 2, color="0.8", linewidth=2, zorder=4, solid_capstyle="round")
    at = left + width * float(means[node] - means.min()) / span
    ax.plot([at], [bottom + 0.04], marker="o", markersize=5, color=_COLORS[0], zorder=5)


def _legend(ax: Any, model: Any) -> None:
    from matplotlib.patches import Patch

    classes = [str(label) for label in getattr(model, "classes_", ())]
    if 0 < len(classes) <= len(_COLORS):
        patches = [Patch(color=_COLORS[k], label=label) for k, label in enumerate(classes)]
        columns = min(len(classes), 5)
        ax.legend(
            handles=patches, frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=columns,
            handlelength=1.0,
        )  # fmt: skip


def plot_bags(model: Any, ax: Any = None) -> Any:
    """Draw the importances of features over bagged models, with their spread, or how often features were drawn."""
    width = int(model.n_features_in_)
    names = getattr(model, "feature_names_in_", None)
    labels = [f"x{j}" for j in range(width)] if names is None else [str(name) for name in names]
    values = np.zeros((len(model.estimators_), width))
    gains = all(hasattr(one, "feature_importances_") for one in model.estimators_)
    for b, (one, columns) in enumerate(zip(model.estimators_, model.estimators_features_, strict=True)):
        np.add.at(values[b], columns, one.feature_importances_ if gains else 1.0)
    mean, spread = values.mean(0), values.std(0)
    order = np.argsort(mean)[-30:]
    if ax is None:
        _, ax = new_figure(6.0, max(2.0, 0.9 + 0.24 * len(order)))
    ax.barh(np.arange(len(order)), mean[order], xerr=spread[order] if gains else None, color=_COLORS[0], ecolor="0.4")
    ax.set_yticks(np.arange(len(order)), [labels[j] for j in order])
    ax.set_xlabel("share of the gain, mean and spread over models" if gains else "times drawn for a model")
    return ax.figure
