"""The pictures of a hidden Markov model: how it moves, what it emits, and where it thinks a sequence is."""

from __future__ import annotations

from typing import Any

import numpy as np

from benthic.pictures.canvas import new_figure

_LABELS = 12  # as many states or symbols are named on an axis


def heat(axes: Any, matrix: np.ndarray, rows: list[str], columns: list[str], **names: str) -> None:
    """A matrix of probabilities as shades, its numbers in the cells while they fit."""
    axes.imshow(matrix, cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto")
    if len(rows) <= _LABELS:
        axes.set_yticks(range(len(rows)), rows)
    if len(columns) <= 3 * _LABELS:
        axes.set_xticks(range(len(columns)), columns)
    if len(rows) <= 6 and len(columns) <= 8:
        for i, j in np.ndindex(*matrix.shape):
            ink = "white" if matrix[i, j] > 0.6 else "0.2"
            axes.text(j, i, f"{matrix[i, j]:.2f}", ha="center", va="center", fontsize=8, color=ink)
    axes.set(**names)


def colors(k: int) -> list[Any]:
    """One color a state."""
    import matplotlib

    table = matplotlib.colormaps["tab10" if k <= 10 else "tab20"]
    return [table(i % table.N) for i in range(k)]


def draw_law(transitions: np.ndarray, emission: dict[str, np.ndarray], kind: str, symbols: list[str] | None) -> Any:
    """A figure of the transitions and of what states emit. kind: of covariance."""
    figure, (left, right) = new_figure(8.4, 3.4, 1, 2)
    states = [str(i) for i in range(len(transitions))]
    heat(left, transitions, states, states, title="transitions", xlabel="to state", ylabel="from state")
    if symbols is not None:
        heat(right, emission["emissions_"], states, symbols, title="emissions", xlabel="symbol", ylabel="state")
    else:
        _levels(right, emission, kind)
    return figure


def _levels(axes: Any, emission: dict[str, np.ndarray], kind: str) -> None:
    """Means (or rates) of each state over the columns, with a bar of one standard deviation where there is one."""
    means = emission.get("means_", emission.get("rates_"))
    if means is None:
        return
    spread = _deviations(means, emission.get("covariances_"), kind)
    flat = means.reshape(-1, means.shape[-1])  # (k m, d)
    bars = spread.reshape(flat.shape)
    per_state = len(flat) // len(means)
    palette = colors(len(means))
    for c, (mean, bar) in enumerate(zip(flat, bars, strict=True)):
        state = c // per_state
        x = np.arange(len(mean)) + 0.5 * (c / max(len(flat) - 1, 1) - 0.5)
        label = f"state {state}" if c % per_state == 0 else None
        axes.errorbar(x, mean, yerr=bar, fmt="o", markersize=4, color=palette[state], label=label)
    axes.set(title="levels of the states", xlabel="column", ylabel="mean and deviation")
    axes.set_xticks(range(flat.shape[1]))
    if len(means) <= _LABELS:
        axes.legend(fontsize=8)


def _deviations(means: np.ndarray, covariances: np.ndarray | None, kind: str) -> np.ndarray:
    """Standard deviations shaped as the means; those of counts are the roots of rates."""
    variances: np.ndarray = means if covariances is None else covariances
    if covariances is not None and kind in ("full", "tied"):
        variances = np.diagonal(covariances, axis1=-2, axis2=-1)
    elif covariances is not None and kind == "spherical":
        variances = covariances[..., None]
    return np.broadcast_to(np.sqrt(variances), means.shape)


def draw_sequence(values: np.ndarray, path: np.ndarray, posterior: np.ndarray, symbols: list[str] | None) -> Any:
    """A figure of one sequence (t, d) or codes (t,): observations by state, and the probability of states over time."""
    figure, (top, bottom) = new_figure(8.4, 4.4, 2, 1, sharex=True)
    palette = colors(posterior.shape[1])
    shown = values if values.ndim == 2 else values[:, None]
    time = np.arange(len(shown))
    for column in range(min(shown.shape[1], 6)):
        if symbols is None:
            top.plot(time, shown[:, column], color="0.75", linewidth=0.8, zorder=1)
        seen = np.where(shown[:, column] < 0, np.nan, shown[:, column]) if symbols is not None else shown[:, column]
        top.scatter(time, seen, s=9, color=[palette[s] for s in path], linewidth=0, zorder=2)
    if symbols is not None and len(symbols) <= 3 * _LABELS:
        top.set_yticks(range(len(symbols)), symbols)
    top.set(ylabel="symbol" if symbols is not None else "value", title="observations, colored by the best path")
    labels = [f"state {i}" for i in range(posterior.shape[1])]
    bottom.stackplot(time, posterior.T, colors=palette, labels=labels, linewidth=0)
    bottom.set(ylim=(0, 1), xlim=(0, max(len(shown) - 1, 1)), xlabel="step", ylabel="probability")
    if posterior.shape[1] <= _LABELS:
        bottom.legend(fontsize=8, loc="upper right")
    return figure
