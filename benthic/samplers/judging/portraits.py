"""Pictures of draws: traces, ranks, pairs, energies."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.pictures.canvas import new_figure
from benthic.samplers.judging import diagnostics

if TYPE_CHECKING:
    from benthic.samplers.judging.draws import Draws

Names = str | Iterable[str] | None
_POINTS = 4000  # more in a cell of pairs only blur it


def trace(draws: Draws, names: Names = None, limit: int = 8) -> Any:
    """A histogram of every chain, and its draws in order; good chains look alike and like noise."""
    shown = draws.scalars(names, limit)
    figure, grid = new_figure(8.0, 1.5 * len(shown) + 0.4, len(shown), 2, squeeze=False, width_ratios=(1, 2.2))
    for (left, right), (name, value) in zip(grid, shown.items(), strict=True):
        rows = _array(value)[:10]  # (chains, draws)
        edges = np.histogram_bin_edges(rows[np.isfinite(rows)], 40)
        for k, row in enumerate(rows):
            left.hist(row, edges, density=True, histtype="step", color=f"C{k}", linewidth=0.9)
            right.plot(row, color=f"C{k}", linewidth=0.5, alpha=0.8)
        left.set_ylabel(name)
        left.set_yticks([])
        _small(left, right)
    grid[-1, 1].set_xlabel("draw")
    return figure


def rank(draws: Draws, names: Names = None, limit: int = 6, bins: int = 20) -> Any:
    """How the ranks among all draws fall in each chain; flat when the chains agree.

    The band holds 95 of 100 bars of a chain of independent draws. Vehtari et al., 2021, section 5.2.
    """
    shown = draws.scalars(names, limit)
    chains = min(draws.chains, 4)
    bins = max(2, min(bins, draws.draws // 10))
    figure, grid = new_figure(
        1.9 * chains + 0.6, 1.25 * len(shown) + 0.6, len(shown), chains, squeeze=False, sharey="row"
    )
    expected = draws.draws / bins
    noise = 1.96 * np.sqrt(expected * (1 - 1 / bins))
    for row, (name, value) in zip(grid, shown.items(), strict=True):
        places = _array(value).ravel().argsort(kind="stable").argsort(kind="stable").reshape(value.shape)
        for k, axes in enumerate(row):
            counts = np.histogram(places[k], bins, (0, places.size))[0]
            axes.axhspan(expected - noise, expected + noise, color="0.9")
            axes.axhline(expected, color="0.5", linewidth=0.7)
            axes.bar(np.arange(bins), counts, 0.9, color=f"C{k}", alpha=0.8)
            axes.set(xticks=[], yticks=[], ylim=(0, None))
        row[0].set_ylabel(name, fontsize="small")
    for k, axes in enumerate(grid[0]):
        axes.set_title(f"chain {k}", fontsize="small")
    figure.supxlabel("rank among all draws", fontsize="small")
    return figure


def pair(draws: Draws, names: Names = None, limit: int = 5) -> Any:
    """Two parameters at a time; transitions that diverged are red, and gather where the law is too sharp."""
    shown = draws.scalars(names, limit)
    size = len(shown)
    columns = [_array(value).ravel() for value in shown.values()]
    bad = _diverged(draws)
    some = np.linspace(0, len(bad) - 1, min(len(bad), _POINTS)).astype(int)
    figure, grid = new_figure(1.8 * size + 0.6, 1.8 * size + 0.4, size, size, squeeze=False, sharex="col")
    for i, row in enumerate(grid):
        for j, axes in enumerate(row):
            if j > i:
                axes.set_axis_off()
            elif i == j:
                axes.hist(columns[i][np.isfinite(columns[i])], 40, color="C0", alpha=0.7)
                axes.set_yticks([])
            else:
                axes.scatter(columns[j][some], columns[i][some], s=3, alpha=0.35, linewidth=0)
                axes.scatter(columns[j][bad], columns[i][bad], s=7, color="C3", linewidth=0, zorder=3)
            _small(axes)
    for k, name in enumerate(shown):
        grid[-1, k].set_xlabel(name, fontsize="small")
        if k:
            grid[k, 0].set_ylabel(name, fontsize="small")
    return figure


def energy(draws: Draws, names: Names = None) -> Any:
    """Spread of energies beside the spread of their changes; alike when the momentum reaches all levels.

    Betancourt, 2016.
    """
    if "energy" not in draws.info:
        raise InvalidInput("Draws.plot: these draws carry no energy; Hamiltonian kernels (hmc, nuts) report it")
    values = _array(draws.info["energy"])
    figure, axes = new_figure(5.0, 3.2)
    changes = np.diff(values, axis=1).ravel()
    centered = (values - values.mean()).ravel()
    edges = np.histogram_bin_edges(np.concatenate([centered, changes]), 50)
    axes.hist(centered, edges, density=True, alpha=0.55, label="energy less its mean")
    axes.hist(changes, edges, density=True, alpha=0.55, label="change in one transition")
    least = float(diagnostics.bfmi(draws.info["energy"]).min())
    axes.set(xlabel="energy", yticks=[], title=f"smallest BFMI {least:.2f}")
    axes.legend(frameon=False, fontsize="small")
    return figure


KINDS = {"trace": trace, "rank": rank, "pair": pair, "energy": energy}


def _diverged(draws: Draws) -> np.ndarray:
    if "divergent" not in draws.info:
        return np.zeros(draws.chains * draws.draws, dtype=bool)
    return _array(draws.info["divergent"]).ravel().astype(bool)


def _array(value: Tensor) -> np.ndarray:
    return value.double().cpu().numpy()


def _small(*several: Any) -> None:
    for axes in several:
        axes.tick_params(labelsize="x-small")
