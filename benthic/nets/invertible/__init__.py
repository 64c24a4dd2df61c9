"""Invertible maps with exact log-determinants, to be put together freely."""

from __future__ import annotations

from benthic.base.lazy import lazy

_EXPORTS = {
    "ActNorm": "benthic.nets.invertible.linear",
    "AffineLaw": "benthic.nets.invertible.laws",
    "Chain": "benthic.nets.invertible.transform",
    "CheckerboardCoupling": "benthic.nets.invertible.coupling",
    "ConvBlock": "benthic.nets.invertible.coupling",
    "Coupling": "benthic.nets.invertible.coupling",
    "Flatten": "benthic.nets.invertible.transform",
    "ImageCoupling": "benthic.nets.invertible.coupling",
    "InverseAutoregressive": "benthic.nets.invertible.autoregressive",
    "Inverted": "benthic.nets.invertible.transform",
    "LULinear": "benthic.nets.invertible.linear",
    "Law": "benthic.nets.invertible.laws",
    "MaskedAutoregressive": "benthic.nets.invertible.autoregressive",
    "MaskedMLP": "benthic.nets.invertible.autoregressive",
    "MultiScale": "benthic.nets.invertible.images",
    "Permutation": "benthic.nets.invertible.transform",
    "Planar": "benthic.nets.invertible.planar",
    "Radial": "benthic.nets.invertible.planar",
    "Residual": "benthic.nets.invertible.residual",
    "Reversal": "benthic.nets.invertible.transform",
    "Shuffle": "benthic.nets.invertible.transform",
    "SigmoidLaw": "benthic.nets.invertible.laws",
    "SplineLaw": "benthic.nets.invertible.laws",
    "Squeeze": "benthic.nets.invertible.images",
    "Transform": "benthic.nets.invertible.transform",
    "Unflatten": "benthic.nets.invertible.transform",
    "rational_quadratic": "benthic.nets.invertible.spline",
}

__all__ = [*_EXPORTS]

__getattr__, __dir__ = lazy(__name__, _EXPORTS)
