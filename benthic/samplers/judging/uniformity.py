r"""Are ranks in 0 .. L uniform? Chi-square of bins, and the whole empirical distribution function at once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.pictures.canvas import new_figure


def histogram_p_value(ranks: Tensor, levels: int, bins: int | None = None) -> float:
    """P-value of Pearson's chi-square test that ranks in 0 .. levels are uniform.

    ranks: (n,). bins: as many as leave 10 ranks in each by default, at most 20.

    >>> histogram_p_value(torch.arange(64).repeat(10), 63)
    1.0
    """
    from scipy.stats import chi2

    counts, expected = _counts(_checked(ranks, levels), levels, bins)
    return float(chi2.sf(((counts - expected) ** 2 / expected).sum(), len(counts) - 1))


def ecdf_p_value(ranks: Tensor, levels: int) -> float:
    r"""P-value of the largest pointwise departure of the ECDF of ranks in 0 .. levels from uniform.

    At each level the number of ranks below it is binomial; the smallest two-sided tail probability over all levels
    is compared with that of simulated uniform ranks. Säilynoja, Bürkner and Vehtari, 2022. Resolution 1/2000.

    >>> ecdf_p_value(torch.zeros(20, dtype=torch.long), 63) < 0.001
    True
    """
    ranks = _checked(ranks, levels)
    n = len(ranks)
    seen = _smallest_tail(np.cumsum(np.bincount(ranks, minlength=levels + 1))[None, :-1], n, levels)[0]
    simulated = _null(n, levels)
    return float(((simulated <= seen * (1 + 1e-9)).sum() + 1) / (len(simulated) + 1))


def ecdf_band(n: int, levels: int, share: float = 0.95) -> tuple[Tensor, Tensor]:
    """Ends (levels,) of a band that holds the whole ECDF of n uniform ranks at 1/(L+1), .. with that probability."""
    from scipy.stats import binom

    gamma = np.quantile(_null(n, levels), 1 - share)
    z = np.arange(1, levels + 1) / (levels + 1)
    ends = binom.ppf(gamma / 2, n, z) / n, binom.ppf(1 - gamma / 2, n, z) / n
    return torch.as_tensor(ends[0]), torch.as_tensor(ends[1])


def picture(columns: Mapping[str, Tensor], levels: int, kind: str) -> Any:
    """One cell an entry, the first twelve: the histogram of ranks, or their ECDF less the uniform one."""
    shown = list(columns.items())[:12]
    width = min(4, len(shown))
    rows = -(-len(shown) // width)
    figure, grid = new_figure(2.4 * width + 1.2, 2.2 * rows + 0.4, rows, width, squeeze=False)
    for axes in grid.flat[len(shown) :]:
        axes.set_axis_off()
    for axes, (name, ranks) in zip(grid.flat, shown, strict=False):
        (_ecdf_cell if kind == "ecdf" else _histogram_cell)(axes, _checked(ranks, levels), levels)
        axes.set_title(name, fontsize="small")
        axes.tick_params(labelsize="x-small")
    figure.supxlabel("rank of the truth among posterior draws", fontsize="small")
    return figure


def _histogram_cell(axes: Any, ranks: np.ndarray, levels: int) -> None:
    counts, expected = _counts(ranks, levels, None)
    noise = 1.96 * np.sqrt(expected * (1 - expected / len(ranks)))
    place = np.arange(len(counts))
    axes.fill_between(place, expected - noise, expected + noise, color="0.9", step="mid")
    axes.bar(place, counts, 0.9, alpha=0.8)
    axes.set_xticks([])


def _ecdf_cell(axes: Any, ranks: np.ndarray, levels: int) -> None:
    z = np.arange(1, levels + 1) / (levels + 1)
    below = np.cumsum(np.bincount(ranks, minlength=levels + 1))[:-1] / len(ranks)
    low, high = (end.numpy() for end in ecdf_band(len(ranks), levels))
    axes.fill_between(z, low - z, high - z, color="0.9")
    axes.plot(z, below - z, linewidth=1.2, drawstyle="steps-mid")
    axes.axhline(0, color="0.5", linewidth=0.7)


def _counts(ranks: np.ndarray, levels: int, bins: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Ranks in each bin, and how many are due: bins differ where their number does not divide L + 1."""
    bins = bins or max(2, min(20, len(ranks) // 10, levels + 1))
    if bins > levels + 1:
        raise InvalidInput(f"histogram_p_value: bins is {bins}; ranks take only {levels + 1} values")
    edges = np.round(np.linspace(0, levels + 1, bins + 1))
    counts = np.histogram(ranks, edges - 0.5)[0]
    return counts, len(ranks) * np.diff(edges) / (levels + 1)


def _smallest_tail(below: np.ndarray, n: int, levels: int) -> np.ndarray:
    """The smallest two-sided binomial tail probability over levels. below: (m, levels) ranks below each level."""
    from scipy.stats import binom

    z = np.arange(1, levels + 1) / (levels + 1)
    count = np.arange(n + 1)[:, None]
    at_most, at_least = binom.cdf(count, n, z), binom.sf(count - 1, n, z)  # (n + 1, levels)
    tails = 2 * np.minimum(at_most, at_least)
    return tails[below, np.arange(levels)].min(-1)


@lru_cache(maxsize=32)
def _null(n: int, levels: int, rounds: int = 2000) -> np.ndarray:
    """Smallest tail probabilities of n uniform ranks, simulated with a seed of their own."""
    rng = np.random.default_rng(20220307)
    counts = rng.multinomial(n, np.full(levels + 1, 1 / (levels + 1)), size=rounds)
    return _smallest_tail(np.cumsum(counts, 1)[:, :-1], n, levels)


def _checked(ranks: Any, levels: int) -> np.ndarray:
    array = ranks.cpu().numpy() if isinstance(ranks, Tensor) else np.asarray(ranks)
    if array.ndim != 1 or not len(array) or array.min() < 0 or array.max() > levels:
        raise InvalidInput(f"ranks have shape {array.shape}; (n,) integers between 0 and {levels} are needed")
    return array.astype(int)
