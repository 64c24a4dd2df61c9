"""The normalizer of an energy: which one a method names, and annealing to find it."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import torch

from benthic.base.errors import InvalidInput
from benthic.base.estimate import Estimate
from benthic.base.seeds import generator
from benthic.generative.energy.learning import EnergySettings
from benthic.nets.evaluate import device_of
from benthic.samplers.annealing.importance import annealed_importance

_CHAINS, _PILOT, _TEMPERATURES, _LEAPFROGS = 200, 8, 200, 3  # of the annealing behind likelihoods


def parse_method(method: str | None, settings: EnergySettings) -> tuple[str, int]:
    """The kind of normalizer that a method names, ``ais`` or ``learned``, and the number of temperatures."""
    if method is None:
        if settings.reference != "normal":
            raise InvalidInput(
                "an energy has no known normalizer; ask for annealed importance sampling and say how many "
                "temperatures, for example likelihood(X, 'ais(1000)')"
            )
        return "ais", _TEMPERATURES
    match = re.fullmatch(r"ais(?:\((\d+)\))?", str(method))
    if match is not None and (match[1] is None or int(match[1]) > 1):
        return "ais", int(match[1] or _TEMPERATURES)
    if method == "learned":
        if settings.objective == "noise_contrastive":
            return "learned", 0
        raise InvalidInput(
            f"method 'learned' needs a normalizer that was learned, by objective='noise_contrastive'; after "
            f"{settings.objective!r} use 'ais(k)' with k >= 2 temperatures"
        )
    raise InvalidInput(
        f"method {method!r} is unknown; use 'ais(k)' with k >= 2 temperatures, or 'learned' after "
        "objective='noise_contrastive'"
    )


def find_normalizer(network: Any, width: int, kind: str, count: int) -> Estimate:
    """log Z of exp(−energy) over rows (n, width) in the units of the energy, learned or annealed from a normal law."""
    if kind == "learned":
        return Estimate(network.log_normalizer.item(), float("nan"))
    noise = generator(0, "annealing", device=device_of(network))
    start = torch.randn(_CHAINS + _PILOT, width, generator=noise, dtype=torch.float64, device=noise.device)
    found = annealed_importance(
        lambda x: -0.5 * (x.square() + np.log(2 * np.pi)).sum(-1),
        lambda x: -network(x),
        start,
        temperatures=count,
        leapfrogs=_LEAPFROGS,
        pilot=_PILOT,
        generator=noise,
    )
    if not bool(torch.isfinite(found.value)):
        raise InvalidInput(
            f"annealing gave a normalizer of {float(found.value)}; the energy has no lower bound, so that the law has "
            "no density: use reference='normal', or more noise in training"
        )
    return Estimate(float(found.value), float(found.stderr))
