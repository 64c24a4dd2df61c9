"""What keeps a critic smooth: penalties on its gradient at some points, or bounds on its weights."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput, nearest
from benthic.base.seeds import alike

Judge = Callable[[Tensor], Tensor]
_TINY = 1e-12  # under the root of a squared norm, whose slope is infinite at zero


@dataclass(frozen=True)
class Contestants:
    """What a penalty looks at: rows of both sides, and the critic's outputs on them."""

    judge: Judge
    real: Tensor
    fake: Tensor
    real_scores: Tensor
    fake_scores: Tensor


Penalty = Callable[[Contestants], Tensor]


@dataclass(frozen=True)
class PenaltyKind:
    """A penalty with its usual weight; at: the side whose rows must carry gradients, if one does."""

    name: str
    term: Penalty | None
    weight: float
    at: str = ""


def squared_slopes(scores: Tensor, points: Tensor) -> Tensor:
    r"""The squared norm :math:`\|\nabla_x D(x)\|^2` of each row, (n,), itself differentiable.

    scores: outputs (n, ...) of a critic that looks at each row alone. points: the rows (n, ...), which carry gradients.

    >>> x = torch.ones(2, 3, requires_grad=True)
    >>> squared_slopes(2 * x.sum(1), x).tolist()
    [12.0, 12.0]
    """
    (slopes,) = torch.autograd.grad(scores.sum(), points, create_graph=True)
    return slopes.flatten(1).square().sum(1)


def interpolates(real: Tensor, fake: Tensor) -> Tensor:
    """One point for each pair of rows, uniformly somewhere on the way between them."""
    way = torch.rand(len(real), *[1] * (real.ndim - 1), **alike(real))
    return torch.lerp(real.detach(), fake.detach(), way)


def gradient_penalty(judge: Judge, points: Tensor, *, one_sided: bool = False) -> Tensor:
    r"""How far the norm of a critic's gradient at some points is from one (or above one, if ``one_sided``).

    .. math:: E\,(\|\nabla_x D(x)\| - 1)^2, \qquad E\,(\|\nabla_x D(x)\| - 1)_+^2

    Gulrajani et al., 2017; one-sided by Petzka et al., 2018.

    >>> gradient_penalty(lambda x: 3.0 * x[:, 0], torch.zeros(5, 2))
    tensor(4.)
    """
    points = points.detach().requires_grad_()
    excess = (squared_slopes(judge(points), points) + _TINY).sqrt() - 1.0
    return (torch.relu(excess) if one_sided else excess).square().mean()


def _between(sides: Contestants) -> Tensor:
    return gradient_penalty(sides.judge, interpolates(sides.real, sides.fake))


def _between_one_sided(sides: Contestants) -> Tensor:
    return gradient_penalty(sides.judge, interpolates(sides.real, sides.fake), one_sided=True)


def _at_real(sides: Contestants) -> Tensor:
    return 0.5 * squared_slopes(sides.real_scores, sides.real).mean()


def _at_fake(sides: Contestants) -> Tensor:
    return 0.5 * squared_slopes(sides.fake_scores, sides.fake).mean()


PENALTIES: dict[str, PenaltyKind] = {
    kind.name: kind
    for kind in (
        PenaltyKind("gradient", _between, 10.0),
        PenaltyKind("one_sided", _between_one_sided, 10.0),
        PenaltyKind("r1", _at_real, 1.0, at="real"),
        PenaltyKind("r2", _at_fake, 1.0, at="fake"),
        PenaltyKind("clip", None, 0.01),
    )
}


@dataclass(frozen=True)
class Regularizer:
    """Penalties added to the critic's loss, and a bound on its weights, if there is one.

    terms: (penalty, weight) pairs. at_real, at_fake: whether rows of a side must carry gradients.
    """

    terms: tuple[tuple[Penalty, float], ...] = ()
    bound: float | None = None
    at_real: bool = False
    at_fake: bool = False
    by_row: bool = False  # whether gradients are taken of each row's output by that row alone

    def __call__(self, sides: Contestants) -> Tensor:
        """The weighted sum of all penalties."""
        total = sides.real_scores.new_zeros(())
        for term, weight in self.terms:
            total = total + weight * term(sides)
        return total


def regularizer_of(setting: Any, weight: float | None = None, usual: Mapping[str, float] | None = None) -> Regularizer:
    r"""The regularizer of a critic from a name, several names, a function of ``Contestants``, or None.

    ``gradient``: the norm of the gradient between real and generated rows is to be one (Gulrajani et al., 2017);
    ``one_sided``: at most one (Petzka et al., 2018); ``r1``, ``r2``:
    :math:`\tfrac12 E \|\nabla D\|^2` at real, at generated rows (Mescheder et al., 2018); ``clip``: after every step
    weights are clipped to [-weight, weight] (Arjovsky et al., 2017). weight: None takes the usual one of each: 10 for
    the first two, 1 for the next and 0.01 for the last, or what ``usual`` says.

    >>> regularizer_of(("r1", "r2")).at_fake, regularizer_of("clip").bound
    (True, 0.01)
    """
    if setting is None or setting == "none":
        return Regularizer()
    if weight is not None and not weight > 0:
        raise InvalidInput(f"penalty_weight is {weight!r}; it must be positive, or None for the usual one")
    several = setting if isinstance(setting, (tuple, list)) else (setting,)
    kinds = [_kind(one) for one in several]
    weights = {kind.name: weight or (usual or {}).get(kind.name, kind.weight) for kind in kinds}
    return Regularizer(
        tuple((kind.term, weights[kind.name]) for kind in kinds if kind.term is not None),
        weights.get("clip"),
        any(kind.at == "real" for kind in kinds),
        any(kind.at == "fake" for kind in kinds),
        any(kind.term is not None and kind.name in PENALTIES for kind in kinds),
    )


def _kind(setting: Any) -> PenaltyKind:
    if callable(setting):
        return PenaltyKind("own", setting, 1.0)
    if not isinstance(setting, str) or setting not in PENALTIES:
        raise InvalidInput(
            f"penalty {setting!r} is unknown{nearest(str(setting), PENALTIES)}; use one of {', '.join(PENALTIES)}, "
            "several of them, None, or a function of benthic.generative.gan.penalties.Contestants"
        )
    return PENALTIES[setting]


@torch.no_grad()
def clip_weights(weights: Iterable[Tensor], bound: float) -> None:
    """Every weight into [-bound, bound], in place.

    >>> w = torch.tensor([0.5, -2.0])
    >>> clip_weights([w], 1.0)
    >>> w.tolist()
    [0.5, -1.0]
    """
    held = list(weights)
    torch._foreach_clamp_max_(held, bound)
    torch._foreach_clamp_min_(held, -bound)


def check_critic(part: str | None, regularizer: Regularizer) -> None:
    """Refuse a critic in which the rows of a batch see each other, where gradients are of each row alone.

    part: the name of the layer through which they do, see ``couples_rows``.
    """
    if part is not None and regularizer.by_row:
        raise InvalidInput(
            f"the critic has a {part}, through which the rows of a batch see each other, but the penalty is on the "
            "gradient of each row's output by that row alone; use LayerNorm, GroupNorm or no norm in the critic, or "
            "penalty='clip' or spectral=True"
        )
