"""What kind of values the columns of the data take, and so which law a decoder gives them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benthic.base.errors import InvalidInput, nearest
from benthic.base.schema import Schema
from benthic.base.settings import whole
from benthic.data.standardize import Standardizer
from benthic.nets.observation import (
    BernoulliObservation,
    CategoricalObservation,
    Columns,
    GaussianObservation,
    LogisticObservation,
    MixedObservation,
    Observation,
)

DECODERS = ("auto", "gaussian", "bernoulli", "categorical", "logistic", "mixed")
_GLANCE = 1 << 18  # values looked at together, so that they stay in cache
_OFF_GRID = 1e-3  # how far, in levels, a value may lie from a whole level


@dataclass(frozen=True)
class Space:
    """The values of a row: how many there are, of which kind, on which grid.

    kind: one of the decoders. width: columns or pixels. levels, unit: of ``categorical`` and ``logistic`` data, whose
    values are 0, unit, 2 unit, ..., (levels - 1) unit. numbers, bits, categories: of ``mixed`` data, the columns of
    each sort. binarize: whether gray values in [0, 1] are drawn as zeros and ones afresh at every step.
    picture: whether the columns are pixels, which all have the same unit.
    """

    kind: str
    width: int
    levels: int = 0
    unit: float = 1.0
    numbers: tuple[int, ...] = ()
    bits: tuple[int, ...] = ()
    categories: tuple[tuple[int, ...], ...] = ()
    binarize: bool = False
    picture: bool = False

    @property
    def measure(self) -> str:
        """``mass`` where the values are discrete, else ``density``."""
        return "mass" if self.kind in ("bernoulli", "categorical", "logistic") else "density"

    def observation(self, noise: Any, floor: float) -> Observation:
        """The law of a row given a decoder's outputs; noise, floor: of ``GaussianObservation``.

        noise may also be ``auto``: one scale for all pixels of a picture, else one a column. A pixel that is nearly
        constant would have a scale of nearly zero, under which the rare picture with ink there is all but impossible.
        """
        if noise == "auto":
            noise = "shared" if self.picture else "column"
        if self.kind == "bernoulli":
            return BernoulliObservation(self.width)
        if self.kind == "categorical":
            return CategoricalObservation(self.width, self.levels)
        if self.kind == "logistic":
            return LogisticObservation(self.width, self.levels, noise)
        if self.kind == "mixed":
            columns = Columns(self.numbers, self.bits, self.categories)
            return MixedObservation(self.width, columns, noise, floor)
        return GaussianObservation(self.width, noise, floor)

    def scales(self, seen: Standardizer) -> Standardizer:
        """From data units to those of the networks: standardized numbers, whole levels, everything else as it is.

        All pixels of a picture are divided by the same number: the root of their mean variance.
        """
        if seen.mean is None or seen.spread is None:
            raise InvalidInput("no row was seen")
        made = Standardizer.identity(self.width)
        made.weight = seen.weight
        numbers = list(self.numbers) if self.kind == "mixed" else slice(None)
        if self.kind in ("gaussian", "mixed"):
            made.mean[numbers], made.spread[numbers] = seen.mean[numbers], seen.spread[numbers]
            if self.picture:
                made.spread[:] = np.sqrt(np.square(seen.spread).mean())
        elif self.kind in ("categorical", "logistic"):
            made.spread[:] = self.unit
        return made

    def check(self, X: Tensor, *, gray: bool = False) -> None:
        """Refuse rows that the decoder has no law for. gray: whether values between 0 and 1 will be binarized."""
        if self.kind == "bernoulli":
            self._check_bits(X, gray)
        elif self.kind in ("categorical", "logistic"):
            self._check_levels(X)

    def _check_bits(self, X: Tensor, gray: bool) -> None:
        if all(_plain_bits(rows, gray) for rows in X.split(max(1, _GLANCE // max(1, X[:1].numel())))):
            return
        inside = bool(((X >= 0) & (X <= 1) | torch.isnan(X)).all())
        if gray and inside:
            return
        odd = (X != 0) & (X != 1) & ~torch.isnan(X)
        if bool(odd.any()):
            raise InvalidInput(
                "decoder='bernoulli' gives the probability of zeros and ones, but X has values such as "
                f"{float(X[odd][0]):.4g}; "
                + (
                    "binarize it, for example X > 0.5 (or binarize=True, which draws it afresh at every step), "
                    * inside
                )
                + "or use decoder='gaussian'"
            )

    def _check_levels(self, X: Tensor) -> None:
        levels = X / self.unit
        odd = ((levels - levels.round()).abs() > _OFF_GRID) | (levels < -0.5) | (levels > self.levels - 0.5)
        odd &= ~torch.isnan(X)
        if bool(odd.any()):
            top = (self.levels - 1) * self.unit
            raise InvalidInput(
                f"decoder={self.kind!r} with levels={self.levels} takes the values 0, {self.unit:.4g}, ..., {top:.4g}, "
                f"but X has {float(X[odd][0]):.6g}; round and scale X, set levels, or use decoder='gaussian'"
            )

    def bounds(self) -> tuple[float, float] | None:
        """The least and the greatest value in the units of the networks, where there are such."""
        if self.kind == "bernoulli":
            return 0.0, 1.0
        return (0.0, self.levels - 1.0) if self.levels else None

    def to_tree(self) -> dict[str, Any]:
        """Its fields."""
        return asdict(self)

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> Space:
        """The space with these fields."""
        return cls(**tree)


def _plain_bits(rows: Tensor, gray: bool) -> bool:
    """Whether all is plain zeros and ones, or between them if gray; False where there are gaps, which need a look."""
    if not gray:
        return torch.equal(rows * rows, rows)
    least, most = torch.aminmax(rows)
    return bool((least >= 0) & (most <= 1))


def space_of(
    decoder: str,
    width: int,
    schema: Schema | None,
    rows: Tensor,
    levels: int,
    binarize: bool,
    *,
    picture: bool = False,
) -> Space:
    """The space of data with this schema, of which ``rows`` are some; picture: whether they are pictures."""
    if decoder not in DECODERS:
        raise InvalidInput(f"decoder {decoder!r} is unknown{nearest(str(decoder), DECODERS)}; use {DECODERS}")
    if decoder == "auto":
        labels = schema is not None and any(c.kind in ("category", "boolean") for c in schema.columns)
        decoder = "mixed" if labels else "gaussian"
    if binarize and decoder != "bernoulli":
        raise InvalidInput(f"binarize goes with decoder='bernoulli', not with {decoder!r}")
    if decoder == "mixed":
        return _mixed(width, schema)
    if decoder in ("categorical", "logistic"):
        levels = whole("levels", levels, 2)
        unit = 1.0 if float(np.nanmax(rows.float().cpu().numpy())) > 1.0 else 1.0 / (levels - 1)
        return Space(decoder, width, levels=levels, unit=unit, picture=picture)
    return Space(decoder, width, binarize=binarize, picture=picture)


def _mixed(width: int, schema: Schema | None) -> Space:
    if schema is None:
        raise InvalidInput("decoder='mixed' reads the kinds of the columns from a frame; pass one, or another decoder")
    numbers: list[int] = []
    bits: list[int] = []
    categories: list[tuple[int, ...]] = []
    for column, group in zip(schema.columns, schema.groups, strict=True):
        if column.kind == "category":
            categories.append(tuple(range(group.start, group.stop)))
        else:
            (bits if column.kind == "boolean" else numbers).append(group.start)
    return Space("mixed", width, numbers=tuple(numbers), bits=tuple(bits), categories=tuple(categories))
