"""Pictures of associative memories: stored patterns with their stability, and the capacity curve."""

from __future__ import annotations

from typing import Any

import numpy as np

from benthic.pictures.canvas import new_figure


def plot_memory(W: np.ndarray, crosstalk: np.ndarray, limit: np.ndarray, energies: np.ndarray, title: str) -> Any:
    """The weights, the cross-talk of all stored bits with the limit of stability, and the energies of the patterns."""
    figure, (left, middle, right) = new_figure(10.5, 3.2, 1, 3)
    most = float(np.abs(W).max()) or 1.0
    image = left.imshow(W, cmap="RdBu_r", vmin=-most, vmax=most, interpolation="nearest")
    figure.colorbar(image, ax=left, shrink=0.8)
    left.set(title="weights", xlabel="unit", ylabel="unit")
    middle.hist(crosstalk.ravel(), bins=40, color="C0", alpha=0.8)
    middle.axvline(float(limit.mean()), color="C3", linewidth=1.2, label="unstable beyond")
    middle.set(title="cross-talk of stored bits", xlabel="cross-talk", ylabel="bits")
    middle.legend(frameon=False, fontsize="x-small")
    right.plot(np.sort(energies), marker=".", linewidth=0.8, color="C2")
    right.set(title="energy of stored patterns", xlabel="pattern, sorted", ylabel="energy")
    figure.suptitle(title, fontsize="medium")
    return figure


def plot_capacity(curve: Any, ax: Any = None) -> Any:
    """Wrong bits after recall against the load."""
    from benthic.memory.limits import CRITICAL_LOAD, capacity, first_step_error

    if ax is None:
        _, ax = new_figure(5.6, 3.6)
    spread = np.nan_to_num(curve.stderr)
    ax.errorbar(curve.load, 100 * curve.wrong_bits, 100 * spread, marker="o", markersize=3.5, label="after recall")
    fine = np.linspace(curve.load.min(), curve.load.max(), 200)
    if curve.storage == "hebbian":
        ax.plot(fine, 100 * first_step_error(fine), color="0.4", linestyle="--", label="first step, theory")
        for at, text in ((CRITICAL_LOAD, "0.138"), (capacity(curve.units)["perfect"] / curve.units, "1 / (2 ln d)")):
            ax.axvline(at, color="C3", linewidth=0.9, linestyle=":")
            ax.annotate(text, (at, 0.97), xycoords=("data", "axes fraction"), fontsize=7, rotation=90, va="top")
    ax.set(xlabel="patterns for each unit", ylabel="wrong bits (%)", title=f"{curve.units} units, {curve.storage}")
    ax.legend(frameon=False, fontsize="x-small", loc="center left")
    return ax.figure
