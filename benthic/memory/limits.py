"""How many random patterns a Hopfield network keeps: theory beside measurement."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benthic.base.errors import InvalidInput
from benthic.base.seeds import derive, np_generator, seed_of
from benthic.memory.network import DYNAMICS, recall, store

# Amit, Gutfreund & Sompolinsky, 1985: patterns for each unit, and the share of wrong bits, at the break.
CRITICAL_LOAD = 0.138
CRITICAL_ERROR = 0.016


def capacity(d: int) -> dict[str, float]:
    """How many random patterns d units keep under Hebb's rule.

    retrieval: 0.138 d, where about 1.6 % of the bits come back wrong and beyond which recall breaks down (Amit,
    Gutfreund & Sompolinsky, 1985). perfect: d / (2 ln d), up to which nearly every pattern comes back whole (McEliece
    et al., 1987). all: d / (4 ln d), up to which all of them do.

    >>> {name: round(value, 1) for name, value in capacity(1000).items()}
    {'retrieval': 138.0, 'perfect': 72.4, 'all': 36.2}
    """
    if d < 2:
        raise InvalidInput(f"capacity: d is {d}; at least 2 units are needed")
    return {"retrieval": CRITICAL_LOAD * d, "perfect": d / (2 * math.log(d)), "all": d / (4 * math.log(d))}


def first_step_error(load: Any) -> np.ndarray:
    r"""The share of bits of a stored pattern that are unstable at once, for large d under Hebb's rule.

    .. math:: P = \Phi(-\sqrt{d / n})

    load: n / d. The cross-talk of the other patterns is normal with variance n / d (Hertz, Krogh & Palmer, 1991).

    >>> round(float(first_step_error(0.138)), 4)
    0.0036
    """
    from scipy.special import ndtr

    return np.asarray(ndtr(-1 / np.sqrt(np.asarray(load, dtype=float))))


@dataclass(frozen=True)
class CapacityCurve:
    """Measured recall of random patterns at several loads.

    units: d. load: (m,) patterns for each unit. wrong_bits, stderr: (m,) their share after recall from the patterns
    themselves, and its standard error over trials. whole: (m,) the share of patterns without a wrong bit.
    """

    units: int
    storage: str
    load: np.ndarray
    wrong_bits: np.ndarray
    stderr: np.ndarray
    whole: np.ndarray

    def plot(self, ax: Any = None) -> Any:
        """Wrong bits against the load, with the theory for the first step and the two capacities."""
        from benthic.memory.picture import plot_capacity

        return plot_capacity(self, ax)


def capacity_curve(
    units: int = 400,
    loads: Sequence[float] = (0.05, 0.08, 0.1, 0.12, 0.13, 0.14, 0.15, 0.16, 0.18, 0.2),
    *,
    trials: int = 3,
    storage: str = "hebbian",
    dynamics: str = DYNAMICS[0],
    seed: int | None = 0,
) -> CapacityCurve:
    """Store random patterns at each load, start recall at each of them, and count the bits that drift away.

    units: d. loads: patterns for each unit. trials: networks at each load.

    >>> curve = capacity_curve(100, (0.02, 0.4), trials=2)
    >>> bool(curve.wrong_bits[0] < 0.01 < curve.wrong_bits[1])
    True
    """
    if units < 2 or trials < 1 or not len(loads) or min(loads) <= 0:
        raise InvalidInput("capacity_curve: at least 2 units, one trial and positive loads are needed")
    root = seed_of(seed)
    shares, whole = np.empty((len(loads), trials)), np.empty((len(loads), trials))
    for i, load in enumerate(loads):
        for trial in range(trials):
            rng = np_generator(root, "patterns", i, trial)
            patterns = rng.choice([-1.0, 1.0], size=(max(1, round(load * units)), units))
            found = recall(patterns, store(patterns, storage), dynamics=dynamics, seed=derive(root, "order", i, trial))
            wrong = found.state.numpy() != patterns
            shares[i, trial], whole[i, trial] = wrong.mean(), (~wrong.any(1)).mean()
    spread = shares.std(1, ddof=1) / math.sqrt(trials) if trials > 1 else np.full(len(loads), np.nan)
    return CapacityCurve(units, storage, np.asarray(loads, float), shares.mean(1), spread, whole.mean(1))
