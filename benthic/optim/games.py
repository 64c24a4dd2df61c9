"""Optimizers for games, in which every player's gradient depends on where the others stand.

Gradient descent-ascent needs no optimizer of its own: both players step at once (simultaneous), or one after the
other (alternating). The classes here wrap any torch optimizer and add a look ahead, which turns the spirals of
descent-ascent inwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from benthic.base.errors import InvalidInput, nearest

METHODS = ("simultaneous", "alternating", "extragradient", "past_extragradient", "optimistic")


class _Wrapper(Optimizer):
    """An optimizer around another one, whose groups it shares, that keeps a second point for every parameter."""

    def __init__(self, base: Optimizer) -> None:
        if not isinstance(base, Optimizer):
            raise InvalidInput(
                f"{type(self).__name__}: the base is a {type(base).__name__}; pass a torch optimizer, such as "
                "torch.optim.Adam(network.parameters())"
            )
        if isinstance(base, torch.optim.LBFGS | _Wrapper):
            raise InvalidInput(
                f"{type(self).__name__}: a {type(base).__name__} moves to points of its own choice; wrap an optimizer "
                "that makes one step from one gradient, such as SGD or Adam"
            )
        self.base = base
        super().__init__(base.param_groups, base.defaults)  # the groups are the same objects, so rates are shared
        self.param_groups = base.param_groups

    def _parameters(self) -> list[Tensor]:
        return [p for group in self.param_groups for p in group["params"]]

    @property
    def origins(self) -> list[Tensor]:
        """The point from which a step is taken, for every parameter; whoever projects parameters projects it too."""
        for p in self._parameters():
            if "origin" not in self.state[p]:
                self.state[p]["origin"] = p.detach().clone(memory_format=torch.preserve_format)
        return [self.state[p]["origin"] for p in self._parameters()]

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """One more group, for the base as well."""
        if not any(param_group is group for group in self.base.param_groups):
            self.base.add_param_group(param_group)
        elif self.param_groups is not self.base.param_groups:
            super().add_param_group(param_group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients."""
        self.base.zero_grad(set_to_none)

    def state_dict(self) -> dict[str, Any]:
        """The held points, and the state of the base."""
        return {**super().state_dict(), "base": self.base.state_dict()}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """The inverse of ``state_dict``; a run that goes on from it makes the same steps to the last bit."""
        if "base" not in state_dict:
            raise InvalidInput(
                f"{type(self).__name__}.load_state_dict: there is no state of a base in it; it comes from "
                "another optimizer"
            )
        self.base.load_state_dict(state_dict["base"])
        super().load_state_dict({key: state_dict[key] for key in ("state", "param_groups")})
        self.param_groups = self.base.param_groups
        for held in self.state.values():  # torch does not copy what has the right type already
            held["origin"] = held["origin"].clone(memory_format=torch.preserve_format)


class Extragradient(_Wrapper):
    r"""Steps with the gradient found one step ahead, taken from where the player stood.

    .. math::

        \theta_{t+1/2} = \theta_t - \eta \nabla_\theta \ell(\theta_t, \phi_t), \qquad
        \theta_{t+1} = \theta_t - \eta \nabla_\theta \ell(\theta_{t+1/2}, \phi_{t+1/2})

    Korpelevich, 1976; for adversarial networks Gidel et al., 2019. **All** players must have looked ahead before any
    of them computes the gradient of its step: with the others left at t the second gradient of a bilinear game is
    the first one, and the method is gradient descent-ascent, which diverges.

    A round of a game is: gradients of all players, ``extrapolate()`` of all, gradients of all, ``step()`` of all.
    With Adam as the base both calls move its averages, which is ExtraAdam of Gidel et al. Weight decay of the base
    acts on the point that it steps from. Nothing waits for the device, so calls can be captured as CUDA graphs
    once each has been made.

    base: any torch optimizer that makes one step from one gradient. Its groups are shared, so rates may be set and
    scheduled on either.

    >>> x, y = torch.nn.Parameter(torch.ones(1)), torch.nn.Parameter(torch.ones(1))
    >>> players = [Extragradient(torch.optim.SGD([p], lr=0.5)) for p in (x, y)]
    >>> for call in ("extrapolate", "step"):
    ...     x.grad, y.grad = y.detach().clone(), -x.detach().clone()  # of x y, which y wants large
    ...     for player in players:
    ...         getattr(player, call)()
    >>> x.data, y.data  # 1 - 0.5 * (1 + 0.5), 1 + 0.5 * (1 - 0.5)
    (tensor([0.2500]), tensor([1.2500]))
    """

    def __init__(self, base: Optimizer) -> None:
        super().__init__(base)
        self._ahead = False
        # a replayed CUDA graph runs no Python, so elsewhere than on the CPU the order of calls is not known here
        self._strict = all(p.device.type == "cpu" for p in self._parameters())

    @torch.no_grad()
    def extrapolate(self) -> None:
        """Step to the look-ahead point on the gradients that stand, and remember the point left behind."""
        if self._ahead and self._strict:
            raise InvalidInput("Extragradient.extrapolate: it is ahead already; compute gradients there and call step")
        torch._foreach_copy_(self.origins, self._parameters())
        self.base.step()
        self._ahead = True

    @torch.no_grad()
    def step(self, closure: Callable[[], Tensor] | None = None) -> Tensor | None:
        """Return to the origin and step with the gradients that stand, which are those of the look-ahead point.

        closure: computes the loss and its gradients first, at the look-ahead point.
        """
        if not self._ahead and self._strict:
            raise InvalidInput("Extragradient.step: call extrapolate first, then compute the gradients again")
        loss = _evaluate(closure)
        torch._foreach_copy_(self._parameters(), self.origins)
        self.base.step()
        self._ahead = False
        return loss

    def state_dict(self) -> dict[str, Any]:
        """The held points, the state of the base, and whether the parameters are ahead."""
        return {**super().state_dict(), "ahead": self._ahead}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """The inverse of ``state_dict``."""
        super().load_state_dict(state_dict)
        self._ahead = bool(state_dict["ahead"])


class PastExtragradient(_Wrapper):
    r"""Extragradient that looks ahead by its last step again, so that a round costs one gradient.

    .. math::

        \omega_{t+1/2} = \omega_t - \eta F(\omega_{t-1/2}), \qquad \omega_{t+1} = \omega_t - \eta F(\omega_{t+1/2})

    Popov, 1980; Gidel et al., 2019. Here :math:`\omega` are all players and F their gradients. Parameters always
    stand at the look-ahead points :math:`\omega_{t+1/2}`, where gradients are due; these go the way of the
    optimistic gradient method (Daskalakis et al., 2018),

    .. math:: w_{t+1} = w_t - 2 \eta F(w_t) + \eta F(w_{t-1}).

    The last step is taken again as a displacement, so the state of the base moves once a round; with Adam as the
    base this is ``OptimisticAdam``. It is used like any optimizer, all players at once or in turns.

    base: any torch optimizer that makes one step from one gradient.

    >>> x = torch.nn.Parameter(torch.zeros(1))
    >>> past = PastExtragradient(torch.optim.SGD([x], lr=0.1))
    >>> for slope in (1.0, 3.0):
    ...     x.grad = torch.full((1,), slope)
    ...     past.step()
    >>> x.data, past.origins[0]  # - 2 * 0.1 - (2 * 0.3 - 0.1), and - 0.1 - 0.3
    (tensor([-0.7000]), tensor([-0.4000]))
    >>> past.settle()
    >>> x.data
    tensor([-0.4000])
    """

    @torch.no_grad()
    def step(self, closure: Callable[[], Tensor] | None = None) -> Tensor | None:
        """Step from the origin with the gradients that stand, then look ahead by the same displacement."""
        loss = _evaluate(closure)
        points, origins = self._parameters(), self.origins
        torch._foreach_copy_(points, origins)
        self.base.step()
        last = torch._foreach_sub(points, origins)
        torch._foreach_copy_(origins, points)
        torch._foreach_add_(points, last)
        return loss

    @torch.no_grad()
    def settle(self) -> None:
        """Put the parameters back to the points between look-aheads, as at the end of a run."""
        torch._foreach_copy_(self._parameters(), self.origins)


def game_optimizer(method: str, base: Optimizer) -> Optimizer:
    """The optimizer of one player of a game: the base itself, or a wrapper of it.

    method: ``simultaneous`` or ``alternating`` (the base; they differ in the order of calls, see ``game_round``),
    ``extragradient``, or ``past_extragradient``, also called ``optimistic``.

    >>> x = torch.nn.Parameter(torch.zeros(1))
    >>> type(game_optimizer("optimistic", torch.optim.SGD([x], lr=0.1))).__name__
    'PastExtragradient'
    """
    check_method(method, "game_optimizer")
    if method == "extragradient":
        return Extragradient(base)
    return PastExtragradient(base) if method in ("past_extragradient", "optimistic") else base


def game_round(
    optimizers: Sequence[Optimizer], losses: Sequence[Callable[[], Tensor]], method: str = "simultaneous"
) -> list[Tensor]:
    """One round of a game: every player descends its own loss once.

    optimizers: one a player, from ``game_optimizer``. losses: functions without arguments that give each player's
    loss where all parameters stand now. method: ``alternating`` lets each player see the step of those before it;
    otherwise all gradients are computed before anyone moves. Returns the losses at the start of the round (of the
    turn, if alternating).

    >>> x, y = torch.nn.Parameter(torch.ones(1)), torch.nn.Parameter(torch.ones(1))
    >>> players = [torch.optim.SGD([p], lr=0.5) for p in (x, y)]
    >>> found = game_round(players, [lambda: (x * y).sum(), lambda: -(x * y).sum()], "alternating")
    >>> x.data, y.data
    (tensor([0.5000]), tensor([1.2500]))
    """
    check_method(method, "game_round")
    if len(optimizers) != len(losses):
        raise InvalidInput(
            f"game_round: there are {len(optimizers)} optimizers and {len(losses)} losses; each player has one of each"
        )
    if method == "alternating":
        return [_turn(optimizer, loss) for optimizer, loss in zip(optimizers, losses, strict=True)]
    found = [_gradients(optimizer, loss) for optimizer, loss in zip(optimizers, losses, strict=True)]
    looking = [optimizer for optimizer in optimizers if isinstance(optimizer, Extragradient)]
    if looking:
        for player in looking:
            player.extrapolate()
        for optimizer, loss in zip(optimizers, losses, strict=True):
            _gradients(optimizer, loss)
    for optimizer in optimizers:
        optimizer.step()
    return found


def check_method(method: str, where: str) -> None:
    """Refuse a method that no game is played by."""
    if method not in METHODS:
        raise InvalidInput(
            f"{where}: method {method!r} is unknown{nearest(str(method), METHODS)}; use {', '.join(METHODS)}"
        )


def _turn(optimizer: Optimizer, loss: Callable[[], Tensor]) -> Tensor:
    if isinstance(optimizer, Extragradient):
        raise InvalidInput("game_round: extragradient players look ahead together; use method='extragradient'")
    found = _gradients(optimizer, loss)
    optimizer.step()
    return found


def _gradients(optimizer: Optimizer, loss: Callable[[], Tensor]) -> Tensor:
    """The player's loss, its gradient put where the optimizer reads it; no other player's gradient is touched."""
    held = [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
    with torch.enable_grad():
        value = loss()
    for p, gradient in zip(held, torch.autograd.grad(value, held, allow_unused=True), strict=True):
        p.grad = gradient
    return value.detach()


def _evaluate(closure: Callable[[], Tensor] | None) -> Tensor | None:
    if closure is None:
        return None
    with torch.enable_grad():
        return closure()
