"""The maps behind the names: RealNVP, Glow, MAF, IAF, neural spline, neural autoregressive, residual, continuous."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from benthic.base.errors import InvalidInput, nearest
from benthic.generative.flows.continuous_map import ContinuousPictures, ContinuousTransform
from benthic.generative.flows.network import FlowNetwork
from benthic.nets.field import TimeField
from benthic.nets.invertible.autoregressive import InverseAutoregressive, MaskedAutoregressive
from benthic.nets.invertible.coupling import CheckerboardCoupling, Coupling, ImageCoupling
from benthic.nets.invertible.images import MultiScale, Squeeze, squeeze, unsqueeze
from benthic.nets.invertible.laws import AffineLaw, Law, SigmoidLaw, SplineLaw
from benthic.nets.invertible.linear import ActNorm, LULinear
from benthic.nets.invertible.planar import Planar
from benthic.nets.invertible.residual import Residual
from benthic.nets.invertible.transform import Chain, Flatten, Reversal, Transform

KINDS = ("auto", "nsf", "realnvp", "glow", "maf", "iaf", "naf", "nsf_coupling", "residual", "planar", "cnf")
PICTURES = ("glow", "realnvp", "nsf_coupling")
_TRANSFORMS = {"nsf": 3, "nsf_coupling": 6, "realnvp": 8, "glow": 8, "residual": 8, "planar": 16, "cnf": 1}
_STEPS_A_SCALE = 8
_MOST_SCALES = 3


@dataclass(frozen=True)
class Design:
    """What a map is built from; see ``NormalizingFlow``."""

    kind: Any
    width: int
    hidden: tuple[int, ...] = (64, 64)
    nonlinearity: str = "relu"
    transforms: int | None = None
    bins: int = 8
    bound: float = 5.0
    scales: int | None = None
    channels: int = 64
    context: int = 0
    event: tuple[int, ...] | None = None

    @property
    def count(self) -> int:
        """How many maps follow one another."""
        return self.transforms or _TRANSFORMS.get(self.kind, 5)


def design_kind(kind: Any, event: Sequence[int] | None) -> Any:
    """The kind that ``auto`` stands for; unknown names are refused."""
    if isinstance(kind, Transform):
        return kind
    if kind not in KINDS:
        raise InvalidInput(
            f"kind {kind!r} is unknown{nearest(str(kind), KINDS)}; use one of {', '.join(KINDS)}, or a Transform"
        )
    if kind != "auto":
        return kind
    return "nsf" if event is None else "glow"


def build(design: Design) -> Transform:
    """The map of a design."""
    if isinstance(design.kind, Transform):
        return copy.deepcopy(design.kind)
    if design.kind == "cnf":
        return _continuous(design)
    if design.event is not None and design.kind in PICTURES:
        return _pictures(design, design.event)
    return _flat(design, Chain(_BUILDERS[design.kind](design)))


def _flat(design: Design, made: Transform) -> Transform:
    return made if design.event is None else Chain([Flatten(design.event), made])


# -- rows ------------------------------------------------------------------------------------------------


def _autoregressive(cls: type[Any], law: Law, d: Design, *, norm: bool) -> list[Transform]:
    parts: list[Transform] = []
    for i in range(d.count):
        if i:
            parts.append(Reversal(d.width))
        if norm:
            parts.append(ActNorm(d.width))
        parts.append(cls(d.width, law, d.hidden, d.nonlinearity, context=d.context))
    return parts


def _couplings(law: Law, d: Design, *, mixed: bool) -> list[Transform]:
    parts: list[Transform] = []
    for i in range(d.count):
        parts.append(ActNorm(d.width))
        if mixed:
            parts.append(LULinear(d.width))
        swap = bool(i % 2) and not mixed
        parts.append(Coupling(d.width, law, d.hidden, d.nonlinearity, context=d.context, swap=swap))
    return parts


def _residuals(d: Design) -> list[Transform]:
    parts: list[Transform] = [ActNorm(d.width)]
    logdet = "exact" if d.width <= 32 else "roulette"
    for _ in range(d.count):
        parts += [Residual(d.width, d.hidden, context=d.context, logdet=logdet), ActNorm(d.width)]
    return parts


def _planars(d: Design) -> list[Transform]:
    return [ActNorm(d.width), *(Planar(d.width, context=d.context) for _ in range(d.count)), ActNorm(d.width)]


_BUILDERS: dict[str, Callable[[Design], list[Transform]]] = {
    "nsf": lambda d: _autoregressive(MaskedAutoregressive, SplineLaw(d.bins, d.bound), d, norm=False),
    "maf": lambda d: _autoregressive(MaskedAutoregressive, AffineLaw(), d, norm=True),
    "iaf": lambda d: _autoregressive(InverseAutoregressive, AffineLaw(), d, norm=True),
    "naf": lambda d: _autoregressive(MaskedAutoregressive, SigmoidLaw(d.bins), d, norm=True),
    "realnvp": lambda d: _couplings(AffineLaw(), d, mixed=False),
    "glow": lambda d: _couplings(AffineLaw(), d, mixed=True),
    "nsf_coupling": lambda d: _couplings(SplineLaw(d.bins, d.bound), d, mixed=True),
    "residual": _residuals,
    "planar": _planars,
}


def _continuous(d: Design) -> Transform:
    if d.event is not None:
        return ContinuousPictures(d.event, d.channels, context=d.context)
    field = TimeField(d.width, d.hidden, "tanh", d.context)
    return ContinuousTransform(FlowNetwork(field, exact=True, method="bogacki_shampine"))


# -- pictures --------------------------------------------------------------------------------------------


def scales_allowed(event: Sequence[int]) -> int:
    """How often a picture can be halved, to sides of two pixels at least; at most three times.

    >>> scales_allowed((1, 28, 28))
    2
    """
    _, h, w = event
    count = 0
    while count < _MOST_SCALES and h % 2 == 0 and w % 2 == 0 and min(h, w) > 2:
        h, w, count = h // 2, w // 2, count + 1
    return count


def _pictures(d: Design, event: Sequence[int]) -> Transform:
    """Levels of squeeze and steps; at the end of a level the codes that leave are predicted from those that stay.

    Pictures that cannot be squeezed have one level of steps on checkerboards; those of one pixel are rows.
    """
    c, h, w = event
    allowed = scales_allowed(event)
    scales = d.scales or max(1, min(2, allowed))
    if scales > max(1, allowed):
        raise InvalidInput(_too_many(event, scales, allowed))
    if h == w == 1:
        return _flat(d, Chain(_BUILDERS[d.kind](d)))
    steps, law = d.transforms or _STEPS_A_SCALE, _picture_law(d)
    if not allowed:
        return MultiScale([(Chain(_steps(d, c, steps, law, board=True)), event)])
    levels: list[tuple[Transform, Sequence[int]]] = []
    for scale in range(scales):
        c, h, w = 4 * c, h // 2, w // 2
        parts: list[Transform] = [Squeeze(), *_steps(d, c, steps, law, board=False)]
        if scale < scales - 1:
            parts.append(ImageCoupling(c, AffineLaw(), d.channels, d.nonlinearity, context=d.context))
        levels.append((Chain(parts), (c, h, w)))
        c = c // 2
    return MultiScale(levels)


def _steps(d: Design, channels: int, count: int, law: Law, *, board: bool) -> list[Transform]:
    """Steps of normalizing, mixing and coupling, of the halves of the channels or of the squares of a board."""
    parts: list[Transform] = []
    for i in range(count):
        parts += [ActNorm(channels), Reversal(channels) if d.kind == "realnvp" else LULinear(channels)]
        how: dict[str, Any] = {"hidden": d.channels, "nonlinearity": d.nonlinearity, "context": d.context}
        if board:
            parts.append(CheckerboardCoupling(channels, law, **how, swap=bool(i % 2)))
        else:
            parts.append(ImageCoupling(channels, law, **how))
    return parts


def _too_many(event: Sequence[int], scales: int, allowed: int) -> str:
    _, h, w = event
    advice = f"set scales to {max(1, allowed)}" + (" or less" if allowed > 1 else "")
    if scales <= _MOST_SCALES:
        side = 2**scales
        advice += f", or pad them so that both sides are multiples of {side}, and {2 * side} at least"
    return f"pictures of {h} x {w} pixels can be halved {allowed} times, not {scales}; {advice}"


def _picture_law(d: Design) -> Law:
    return SplineLaw(d.bins, d.bound) if d.kind == "nsf_coupling" else AffineLaw()


# -- learned noise for grids -------------------------------------------------------------------------------


class PictureNoise(Transform):
    """A few coupling steps on squeezed pictures of noise, given the pictures; rows (n, chw) in and out."""

    def __init__(self, event: Sequence[int], channels: int, steps: int = 4) -> None:
        super().__init__()
        c = 4 * event[0]
        parts: list[Transform] = []
        for _ in range(steps):
            parts += [ImageCoupling(c, AffineLaw(), channels, context=c), Reversal(c)]
        self.body, self.event = Chain(parts), tuple(event)

    def _folded(self, rows: Tensor) -> Tensor:
        return squeeze(rows.reshape(len(rows), *self.event))

    def forward(self, x: Tensor, context: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Normal noise, and the log-determinant."""
        z, log = self.body(self._folded(x), None if context is None else self._folded(context))
        return unsqueeze(z).flatten(1), log

    def inverse(self, z: Tensor, context: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Logits of the noise, and the log-determinant."""
        x, log = self.body.inverse(self._folded(z), None if context is None else self._folded(context))
        return unsqueeze(x).flatten(1), log


def learned_noise(design: Design, width: int) -> Transform:
    """The map from the noise of ``width`` grids to a normal, given their codes."""
    if design.event is not None and scales_allowed(design.event):
        return PictureNoise(design.event, max(8, design.channels // 2))
    curve = design.nonlinearity
    return Chain([Coupling(width, AffineLaw(), (32,), curve, context=width, swap=bool(i % 2)) for i in range(4)])
