"""Small distributions in the plane whose density is known, to see whether a model finds it.

>>> moons().sample(3, seed=0).shape
(3, 2)
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from benthic.base.errors import InvalidInput, nearest
from benthic.data.planar import Checkerboard, Curves, Gaussians, Segments, Toy

__all__ = [
    "TOYS",
    "Toy",
    "checkerboard",
    "moons",
    "rings_of_gaussians",
    "spirals",
    "swiss_roll",
    "toy",
    "two_lines",
]


def _positive(toy: str, **settings: float) -> None:
    for name, value in settings.items():
        if not value > 0:
            raise InvalidInput(f"toys.{toy}: {name} is {value}; it must be positive")


def rings_of_gaussians(k: int = 8, radius: float = 2.0, noise: float = 0.2) -> Toy:
    """``k`` equal Gaussians on a ring."""
    _positive("rings_of_gaussians", k=k, radius=radius, noise=noise)
    angle = 2 * math.pi * np.arange(k) / k
    return Gaussians("rings_of_gaussians", radius * np.stack([np.cos(angle), np.sin(angle)], 1), noise)


def moons(noise: float = 0.1) -> Toy:
    """Two half circles that reach into each other, as in scikit-learn's ``make_moons``."""
    _positive("moons", noise=noise)

    def curve(t: np.ndarray) -> np.ndarray:
        upper = np.stack([np.cos(t), np.sin(t)], -1)
        return np.stack([upper, np.array([1.0, 0.5]) - upper])

    return _even("moons", 2, noise, (0.0, math.pi), math.pi, curve)


def swiss_roll(noise: float = 0.1) -> Toy:
    """The section of scikit-learn's Swiss roll, scaled to a radius of two."""
    _positive("swiss_roll", noise=noise)
    first, last = 1.5 * math.pi, 4.5 * math.pi

    def curve(t: np.ndarray) -> np.ndarray:
        return (2 / last) * np.stack([t * np.cos(t), t * np.sin(t)], -1)[None]

    return _even("swiss_roll", 1, noise, (first, last), (last**2 - first**2) / last, curve)


def spirals(arms: int = 2, turns: float = 1.5, noise: float = 0.08) -> Toy:
    """Spiral arms of radius two around zero, with about the same mass on every piece of arm."""
    _positive("spirals", arms=arms, turns=turns, noise=noise)
    last = 2 * math.pi * turns

    def curve(t: np.ndarray) -> np.ndarray:
        angle = t + 2 * math.pi * np.arange(arms)[:, None] / arms  # (arms, n)
        points: np.ndarray = (2 / last) * t[:, None] * np.stack([np.cos(angle), np.sin(angle)], -1)
        return points

    return Curves(
        "spirals",
        arms,
        noise,
        (0.0, last),
        last + 2,
        curve,
        density=lambda t: 2 * t / last**2,
        quantile=lambda u: last * np.sqrt(u),
    )


def two_lines(gap: float = 2.0, height: float = 4.0, noise: float = 0.1) -> Toy:
    """Two parallel segments ``gap`` apart, blurred."""
    _positive("two_lines", gap=gap, height=height, noise=noise)
    return Segments("two_lines", (-gap / 2, gap / 2), height, noise)


def checkerboard(cells: int = 4, side: float = 4.0) -> Toy:
    """The dark squares of a board of ``cells`` by ``cells``."""
    _positive("checkerboard", cells=cells, side=side)
    return Checkerboard("checkerboard", cells, side)


def _even(
    name: str,
    parts: int,
    noise: float,
    span: tuple[float, float],
    length: float,
    curve: Callable[[np.ndarray], np.ndarray],
) -> Curves:
    """Curves whose parameter is uniform."""
    low, high = span
    return Curves(
        name,
        parts,
        noise,
        span,
        length,
        curve,
        density=lambda t: np.full_like(t, 1 / (high - low)),
        quantile=lambda u: low + (high - low) * u,
    )


TOYS: dict[str, Callable[[], Toy]] = {
    make.__name__: make for make in (rings_of_gaussians, moons, checkerboard, swiss_roll, spirals, two_lines)
}


def toy(name: str) -> Toy:
    """The toy of this name with its default settings.

    >>> toy("moons").parts
    2
    """
    if name not in TOYS:
        known = ", ".join(TOYS)
        raise InvalidInput(f"toys.toy: there is no toy {name!r}{nearest(name, TOYS)}; the toys are {known}")
    return TOYS[name]()
