"""Poisson flow: data as charges, and the field that carries them from far away."""

from __future__ import annotations

from benthic.base.lazy import lazy

_EXPORTS = {
    "PoissonPath": "benthic.generative.poisson.path",
    "empirical_field": "benthic.generative.poisson.field",
    "hemisphere": "benthic.generative.poisson.field",
    "hemisphere_prior": "benthic.generative.poisson.field",
    "perturb": "benthic.generative.poisson.field",
}

__all__ = [*_EXPORTS]

__getattr__, __dir__ = lazy(__name__, _EXPORTS)
