"""An average of the weights that training goes through."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from benthic.training.learner import clone


class Average:
    r"""An exponential average of the weights after each step, in which those before the first have no part.

    .. math:: \bar w_t = \frac{\sum_{i=1}^t d^{\,t-i}\, w_i}{\sum_{i=1}^t d^{\,t-i}}

    So a decay :math:`d` that is meant for long training does no harm to a short one, in which the weights that were
    drawn at first would keep a share of :math:`d^t`; the division is that of Adam (Kingma & Ba, 2015).

    >>> network = nn.Linear(1, 1)
    >>> average = Average(network, 0.999)
    >>> _ = nn.init.ones_(network.weight)
    >>> average.follow(network)
    >>> average.weights(network)["weight"]
    tensor([[1.]])
    """

    def __init__(self, network: nn.Module, decay: float) -> None:
        self.decay = decay
        self._sums = {name: torch.zeros_like(value) for name, value in network.state_dict().items()}
        like = next((value for value in self._sums.values() if value.is_floating_point()), torch.zeros(()))
        self._mass, self._one = like.new_zeros(()), like.new_ones(())

    @torch.no_grad()
    def follow(self, network: nn.Module) -> None:
        """Take in the weights of now; nothing is looked at on the host."""
        now = network.state_dict()
        moving = [name for name, value in now.items() if value.is_floating_point()]
        sums, seen = [self._sums[name] for name in moving], [now[name] for name in moving]
        torch._foreach_lerp_([*sums, self._mass], [*seen, self._one], 1.0 - self.decay)
        for name, value in now.items():
            if not value.is_floating_point():
                self._sums[name].copy_(value)

    def weights(self, network: nn.Module) -> dict[str, Tensor]:
        """The average as the state of a network, or that of the network where no step was taken."""
        if not float(self._mass):
            return {name: value.clone() for name, value in network.state_dict().items()}
        return {name: value / self._mass if value.is_floating_point() else value for name, value in self._sums.items()}

    def state_dict(self) -> dict[str, Any]:
        """What it has taken in."""
        return {"sums": self._sums, "mass": self._mass}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of ``state_dict``."""
        held = clone(dict(state))
        self._sums, self._mass = held["sums"], held["mass"]
