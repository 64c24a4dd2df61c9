"""The exponential families that have names."""

from __future__ import annotations

from typing import Any

from benthic.base.errors import InvalidInput, nearest
from benthic.distributions.continuous import Beta, Exponential, Gamma, LogNormal, Normal
from benthic.distributions.discrete import Bernoulli, Geometric, Poisson
from benthic.distributions.exponential import Family

NAMED: dict[str, Family] = {
    family.name: family
    for family in (Normal(), Poisson(), Bernoulli(), Exponential(), Geometric(), Gamma(), Beta(), LogNormal())
}


def family_of(setting: Any) -> Family:
    """A family by its name, or a ``Family`` as it is.

    >>> family_of("poisson")
    Poisson()
    """
    if isinstance(setting, Family):
        return setting
    if isinstance(setting, str) and setting in NAMED:
        return NAMED[setting]
    hint = nearest(setting, NAMED) if isinstance(setting, str) else ""
    raise InvalidInput(f"family {setting!r} is unknown{hint}; use {', '.join(NAMED)} or a Family of your own")
