"""What the two players of an adversarial game want: pairs of losses, by name or as functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softplus

from benthic.base.errors import InvalidInput, nearest

Contest = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class LossPair:
    """The losses of both players, each a mean made from the critic's outputs on real and on generated rows.

    critic, generator: functions of (real, fake), outputs of equal shape, to a number that the player makes small.
    paired: whether the generator's loss looks at real rows too. logits: whether outputs are free numbers, which a
    critic that gives probabilities would spoil.
    """

    name: str
    critic: Contest
    generator: Contest
    paired: bool = False
    logits: bool = True


def _likelihood_ratio(real: Tensor, fake: Tensor) -> Tensor:
    return softplus(-real).mean() + softplus(fake).mean()


def _hinge(real: Tensor, fake: Tensor) -> Tensor:
    return torch.relu(1.0 - real).mean() + torch.relu(1.0 + fake).mean()


def _average(real: Tensor, fake: Tensor) -> Tensor:
    return 0.5 * (softplus(fake.mean() - real).mean() + softplus(fake - real.mean()).mean())


LOSSES: dict[str, LossPair] = {
    pair.name: pair
    for pair in (
        LossPair("minimax", _likelihood_ratio, lambda real, fake: -softplus(fake).mean()),
        LossPair("non_saturating", _likelihood_ratio, lambda real, fake: softplus(-fake).mean()),
        LossPair("wasserstein", lambda real, fake: fake.mean() - real.mean(), lambda real, fake: -fake.mean()),
        LossPair("hinge", _hinge, lambda real, fake: -fake.mean()),
        LossPair(
            "least_squares",
            lambda real, fake: 0.5 * ((real - 1.0).square().mean() + fake.square().mean()),
            lambda real, fake: 0.5 * (fake - 1.0).square().mean(),
            logits=False,
        ),
        LossPair(
            "relativistic",
            lambda real, fake: softplus(fake - real).mean(),
            lambda real, fake: softplus(real - fake).mean(),
            paired=True,
        ),
        LossPair("relativistic_average", _average, lambda real, fake: _average(fake, real), paired=True),
    )
}


def loss_of(setting: Any) -> LossPair:
    r"""A pair of losses from its name, or from two functions (critic, generator) of outputs (real, fake).

    With D the critic's output before any sigmoid, and :math:`\zeta(t) = \log(1 + e^t)`, what the critic and the
    generator make small:

    .. math::

        \text{minimax:}\quad & E\,\zeta(-D(x)) + E\,\zeta(D(G(z))), \quad -E\,\zeta(D(G(z))) \\
        \text{non\_saturating:}\quad & \text{the same}, \quad E\,\zeta(-D(G(z))) \\
        \text{wasserstein:}\quad & E\,D(G(z)) - E\,D(x), \quad -E\,D(G(z)) \\
        \text{hinge:}\quad & E\,(1 - D(x))_+ + E\,(1 + D(G(z)))_+, \quad -E\,D(G(z)) \\
        \text{least\_squares:}\quad & \tfrac12 E\,(D(x) - 1)^2 + \tfrac12 E\,D(G(z))^2, \quad
        \tfrac12 E\,(D(G(z)) - 1)^2 \\
        \text{relativistic:}\quad & E\,\zeta(D(G(z)) - D(x)), \quad E\,\zeta(D(x) - D(G(z)))

    Goodfellow et al., 2014 (the first two); Arjovsky et al., 2017; Lim & Ye, 2017; Mao et al., 2017;
    Jolicoeur-Martineau, 2019, whose ``relativistic_average`` sets each output against the mean of the other side.

    >>> zero = torch.zeros(4)
    >>> loss_of("minimax").critic(zero, zero)  # log 4: the critic cannot tell
    tensor(1.3863)
    >>> loss_of((lambda real, fake: (fake - real).mean(), lambda real, fake: -fake.mean())).name
    'own'
    """
    if isinstance(setting, LossPair):
        return setting
    if isinstance(setting, (tuple, list)) and len(setting) == 2 and all(map(callable, setting)):
        return LossPair("own", *setting, paired=True, logits=False)
    if not isinstance(setting, str) or setting not in LOSSES:
        raise InvalidInput(
            f"loss {setting!r} is unknown{nearest(str(setting), LOSSES)}; use one of {', '.join(LOSSES)}, or two "
            "functions (critic, generator) of the outputs on real and on generated rows"
        )
    return LOSSES[setting]
