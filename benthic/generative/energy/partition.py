"""The partition function of a restricted Boltzmann machine: by counting, and by annealing in both directions."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn import functional as F

from benthic.base.errors import InvalidInput
from benthic.base.settings import is_whole
from benthic.generative.energy.boltzmann_network import BoltzmannNetwork, draw_bits
from benthic.samplers.annealing.importance import annealing_temperatures
from benthic.samplers.annealing.weights import AnnealedWeights

MOST_COUNTED = 25  # units of the smaller side whose states can all be gone through
_BLOCK = 1 << 14


def _states(units: int, first: int, count: int, like: Tensor) -> Tensor:
    """The states of number first, first + 1, ... of so many binary units, (count, units)."""
    numbers = torch.arange(first, first + count, device=like.device)
    return ((numbers[:, None] >> torch.arange(units, device=like.device)) & 1).to(like.dtype)


def _log_weights(network: BoltzmannNetwork, first: int, count: int) -> Tensor:
    """Minus the free energy of states of the smaller side, (count,)."""
    visible, hidden = network.weight.shape
    states = _states(min(visible, hidden), first, count, network.weight)
    if visible < hidden:
        free: Tensor = network(states)
        return -free
    return states @ network.hidden_bias + F.softplus(network.answer(states)).sum(-1)


@torch.no_grad()
def log_partition(network: BoltzmannNetwork) -> float:
    r"""The exact :math:`\log Z = \log \sum_{v, h} e^{-E(v, h)}`, the states of the smaller side counted.

    >>> network = BoltzmannNetwork(3, 2)
    >>> _ = [torch.nn.init.zeros_(p) for p in network.parameters()]
    >>> round(log_partition(network) / math.log(2), 6)  # all 32 states alike
    5.0
    """
    units = min(network.weight.shape)
    if units > MOST_COUNTED:
        raise InvalidInput(
            f"log_partition: the smaller side has {units} units, too many states to count; up to {MOST_COUNTED} can "
            "be counted, beyond use annealed_partition"
        )
    total = torch.tensor(-math.inf, dtype=network.weight.dtype, device=network.weight.device)
    for first in range(0, 1 << units, _BLOCK):
        part = _log_weights(network, first, min(_BLOCK, (1 << units) - first))
        total = torch.logaddexp(total, torch.logsumexp(part, 0))
    return float(total)


@torch.no_grad()
def exact_draws(network: BoltzmannNetwork, count: int, generator: torch.Generator) -> Tensor:
    """Independent visible rows (count, visible) of a small machine, by counting the states of its smaller side."""
    visible, hidden = network.weight.shape
    units = min(visible, hidden)
    weights = torch.cat(
        [_log_weights(network, first, min(_BLOCK, (1 << units) - first)) for first in range(0, 1 << units, _BLOCK)]
    )
    edges = torch.softmax(weights.double(), 0).cumsum(0)
    uniform = torch.rand(count, generator=generator, dtype=edges.dtype, device=edges.device)
    chosen = torch.searchsorted(edges, uniform).clamp(max=len(edges) - 1)
    places = torch.arange(units, device=chosen.device)
    states = ((chosen[:, None] >> places) & 1).to(network.weight.dtype)
    return states if visible < hidden else draw_bits(torch.sigmoid(network.answer(states)), generator)


@torch.no_grad()
def annealed_partition(
    network: BoltzmannNetwork,
    base_bias: Tensor,
    *,
    temperatures: int | Tensor = 1000,
    chains: int = 100,
    exact: Tensor | None = None,
    generator: torch.Generator,
) -> AnnealedWeights:
    r"""log Z by annealed importance sampling from independent visible units, with Gibbs moves.

    .. math:: \log f_\beta(v) = (1 - \beta)\, a_0^\top v + \beta\, a^\top v
        + \sum_j \log\left(1 + e^{\beta (b_j + (v^\top W)_j)}\right)

    Salakhutdinov & Murray, 2008; in reverse as in Grosse et al., 2015. The value of the result is log Z itself.

    base_bias: (visible,) the logits :math:`a_0` of the start, best those of the data. temperatures: how many steps,
    or their values from 0 to 1. exact: draws of the machine (chains, visible) from which chains run in reverse.
    """
    betas = annealing_temperatures(temperatures) if is_whole(temperatures) else temperatures
    steps, base = betas.tolist(), base_bias.to(network.weight)
    path = _Path(network, base)
    if exact is None:
        v = draw_bits(torch.sigmoid(base).expand(chains, -1), generator)
        drive = network.drive(v)
        total = path.gain(v, drive, steps[0], steps[1])
        for here, there in pairwise(steps[1:]):
            v, drive = path.move(drive, here, generator)
            total = total + path.gain(v, drive, here, there)
    else:
        v = exact.to(network.weight)
        drive = network.drive(v)
        total = path.gain(v, drive, steps[-2], steps[-1])
        for here, there in pairwise(steps[-2::-1]):
            v, drive = path.move(drive, here, generator)
            total = total + path.gain(v, drive, there, here)
    return AnnealedWeights(total + path.log_start, v, total.new_ones(len(steps) - 2), reverse=exact is not None)


class _Path:
    """The laws between independent visible units and the machine."""

    def __init__(self, network: BoltzmannNetwork, base: Tensor) -> None:
        self._network, self._base = network, base
        self._change = (network.visible_bias - base).double()
        self.log_start = float(F.softplus(base.double()).sum()) + network.weight.shape[1] * math.log(2)

    def gain(self, v: Tensor, drive: Tensor, low: float, high: float) -> Tensor:
        """log f at the temperature ``high`` minus that at ``low``, (n,) in float64."""
        rise = (F.softplus(high * drive) - F.softplus(low * drive)).sum(-1, dtype=torch.float64)
        return (high - low) * (v.double() @ self._change) + rise

    def move(self, drive: Tensor, beta: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """One Gibbs turn at a temperature, from the hidden logits: visible rows and their hidden logits."""
        h = draw_bits(torch.sigmoid(beta * drive), generator)
        field = (1 - beta) * self._base + beta * self._network.answer(h)
        v = draw_bits(torch.sigmoid(field), generator)
        return v, self._network.drive(v)
