"""The missing part of pictures, drawn by chains that hold the rest."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from benthic.generative.energy.learning import EnergySettings
from benthic.generative.energy.objectives import energy_slope
from benthic.samplers.langevin.annealed import lowered, noise_levels
from benthic.samplers.langevin.overdamped import normal_like
from benthic.uses.latent import Filled


@torch.no_grad()
def fill_pictures(
    network: Any, X: Tensor, settings: EnergySettings, limits: tuple[float, float], generator: torch.Generator
) -> Filled:
    r"""A draw of the gaps (NaN) of rows by Langevin steps in which the known pixels are held.

    .. math:: x' = x - \eta \nabla f(x) + \sqrt{2 \eta}\, \xi \quad \text{in gaps}

    With several noise levels the steps run down them, and known pixels get the noise of the level (Song & Ermon, 2019,
    algorithm 2). The mean of the result is its last denoised state, or the mean of the later half of the chain.
    """
    gaps = torch.isnan(X)
    x = torch.where(gaps, settings.first_points(len(X), X.shape[1], limits, X, generator), X)
    if settings.levels is None:
        return _plain(network, x, gaps, settings, generator)
    largest, smallest, count = settings.levels
    known, x = torch.where(gaps, 0.0, X), torch.where(gaps, x * largest, X)
    sigmas, steps = noise_levels(largest, smallest, count).to(x), max(1, settings.sampling_steps // count)
    for sigma, below in zip(sigmas, [*sigmas[1:], sigmas[-1]], strict=True):
        step = settings.step_size * sigma.square()
        for index in range(steps):
            x = torch.where(gaps, x, known + sigma * normal_like(x, generator))
            slope = energy_slope(partial(network, sigma=sigma), x)[1]
            if settings.leveled:
                last = below if index == steps - 1 else sigma
                moved = lowered(x, -slope, sigma, last, settings.step_size, generator)
            else:
                moved = x - step * slope + (2 * step).sqrt() * normal_like(x, generator)
            x = torch.where(gaps, moved, x)
    x = torch.where(gaps, x, X)
    mean = torch.where(gaps, x - smallest**2 * energy_slope(network, x)[1], X)
    return Filled(mean, mean)


def _plain(network: Any, x: Tensor, gaps: Tensor, settings: EnergySettings, generator: torch.Generator) -> Filled:
    total, kept = torch.zeros_like(x), 0
    for index in range(settings.sampling_steps):
        moved = x - settings.step_size * energy_slope(network, x)[1]
        x = torch.where(gaps, moved + (2 * settings.step_size) ** 0.5 * normal_like(x, generator), x)
        if 2 * index >= settings.sampling_steps:
            total, kept = total + x, kept + 1
    return Filled(x, total / max(kept, 1) if kept else x)
