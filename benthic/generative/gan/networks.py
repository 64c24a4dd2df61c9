"""The networks of an adversarial model, as one module, and what they must not do."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from benthic.base.errors import InvalidInput
from benthic.base.seeds import drawing
from benthic.generative.gan.losses import LossPair
from benthic.nets.activations import activation
from benthic.nets.evaluate import dry_run
from benthic.nets.mlp import MLP, initialize
from benthic.nets.spectral import SpectralLinear

_PROBABILITIES = (nn.Sigmoid, nn.Softmax, nn.LogSigmoid, nn.LogSoftmax)
_WIDE = 30.0  # standard deviations of the probes that show whether outputs are bounded
_PROBES = 64


class AdversarialNetwork(nn.Module):
    """A generator of rows and a critic of rows, with other networks that play along.

    generator: from codes (n, k) and, if there are any, conditions, to flat rows (n, width) in the units of the
    networks. critic: from such rows and conditions to outputs, one a row or one a patch.
    """

    def __init__(self, generator: nn.Module, critic: nn.Module, **others: nn.Module) -> None:
        super().__init__()
        self.generator, self.critic = generator, critic
        for name, module in others.items():
            self.add_module(name, module)

    def make(self, codes: Tensor, conditions: Tensor | None = None) -> Tensor:
        """Rows (n, width) from codes (n, k)."""
        rows: Tensor = self.generator(codes) if conditions is None else self.generator(codes, conditions)
        return rows

    def judge(self, rows: Tensor, conditions: Tensor | None = None) -> Tensor:
        """The critic's outputs on rows, (n,), or (n, patches)."""
        scores: Tensor = self.critic(rows) if conditions is None else self.critic(rows, conditions)
        return scores.reshape(len(rows)) if scores.numel() == len(rows) else scores.flatten(1)


@torch.no_grad()
def drawn_rows(network: Any, codes: Tensor, conditions: Tensor | None, seed: int = 0) -> Tensor:
    """Rows as they are sampled: where the generator draws states, these are drawn, as the seed decides."""
    draw = getattr(network.generator, "draw", None)
    with drawing(seed, codes.device):
        rows: Tensor = network.make(codes, conditions) if draw is None else draw(codes)
    return rows


class Critic(nn.Sequential):
    """A fully connected critic, (n, width) to (n, 1). spectral: whether its layers have norm one."""

    def __init__(self, widths: Sequence[int], nonlinearity: str = "leaky_relu", spectral: bool = False) -> None:
        layers: list[nn.Module] = []
        for i, (a, b) in enumerate(pairwise(widths)):
            linear = SpectralLinear(a, b) if spectral else nn.Linear(a, b)
            if not spectral:
                initialize(linear, nonlinearity if i < len(widths) - 2 else "identity")
            layers += [linear, activation(nonlinearity)]
        super().__init__(*layers[:-1])


class OwnGenerator(nn.Module):
    """A user's module from codes (n, k) to ``width`` numbers a row, in any shape."""

    def __init__(self, module: nn.Module, codes: int, width: int) -> None:
        super().__init__()
        self.body = copy.deepcopy(module)
        found = dry_run(self.body, (2, codes), "generator")
        if found.flatten(1).shape[1] != width:
            raise InvalidInput(
                f"the generator gives {found.flatten(1).shape[1]} numbers for each code; the data have {width}"
            )

    def forward(self, codes: Tensor) -> Tensor:
        """Flat rows (n, width)."""
        rows: Tensor = self.body(codes).flatten(1)
        return rows


class OwnCritic(nn.Module):
    """A user's module on examples (n, *event), with one output each."""

    def __init__(self, module: nn.Module, event: tuple[int, ...]) -> None:
        super().__init__()
        self.body, self.event = copy.deepcopy(module), event
        found = dry_run(self.body, (2, *event), "critic")
        if len(found) != 2:
            raise InvalidInput(f"the critic gives {len(found)} outputs for 2 examples; it needs one a row")

    def forward(self, rows: Tensor) -> Tensor:
        """Outputs of flat rows (n, width)."""
        scores: Tensor = self.body(rows.reshape(-1, *self.event))
        return scores


def pair_of_modules(network: Any) -> tuple[nn.Module, nn.Module]:
    """The user's (generator, critic), checked."""
    good = isinstance(network, (tuple, list)) and len(network) == 2
    if not good or not all(isinstance(part, nn.Module) for part in network):
        raise InvalidInput(f"network is {network!r}; use 'auto', 'mlp' or a pair of modules (generator, critic)")
    return network[0], network[1]


def mlp_generator(codes: int, hidden: Sequence[int], width: int, nonlinearity: str) -> nn.Module:
    """A fully connected generator of rows."""
    return MLP([codes, *hidden, width], nonlinearity)


@torch.no_grad()
def spread_like_data(generator: nn.Module, codes: Tensor) -> None:
    """Scale the last layer so that untrained rows have mean zero and unit spread, as standardized data have."""
    layers = [m for m in generator.modules() if isinstance(m, nn.Linear)]
    if not layers:
        return
    rows = generator(codes)
    last = layers[-1]
    if rows.shape[1] != last.out_features:
        return
    scale = 1.0 / rows.std(0).clamp_min(1e-6)
    last.weight *= scale[:, None]
    if last.bias is not None:
        last.bias += -rows.mean(0)
        last.bias *= scale


def refuse_probabilities(critic: nn.Module, pair: LossPair) -> None:
    """Say so when the last layer of a critic gives probabilities where free numbers are due."""
    if not pair.logits:
        return
    last = [m for m in critic.modules() if not any(True for _ in m.children())][-1:]
    if last and isinstance(last[0], _PROBABILITIES):
        raise InvalidInput(
            f"the critic ends in a {type(last[0]).__name__}, but loss={pair.name!r} is of outputs before it, any "
            "numbers; leave the last layer out, or use loss='least_squares'"
        )


@torch.no_grad()
def warn_of_probabilities(network: Any, rows: Tensor, conditions: Tensor | None, pair: LossPair, who: str) -> None:
    """Warn when even far from the data all outputs of a critic lie between 0 and 1, as probabilities do."""
    if not pair.logits:
        return
    rows = rows[:_PROBES]
    noise = torch.randn(rows.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float32).to(rows)
    training = network.training
    network.eval()
    scores = network.judge(_WIDE * noise, None if conditions is None else conditions[: len(rows)])
    network.train(training)
    low, high = (float(v) for v in scores.aminmax())
    if 0.0 <= low < high <= 1.0 and not math.isclose(low, high):
        warnings.warn(
            f"{who}.fit: all outputs of the critic lie between 0 and 1, like probabilities, but loss={pair.name!r} "
            "wants free numbers (logits); leave its last sigmoid out",
            stacklevel=5,
        )


def couples_rows(module: nn.Module) -> str | None:
    """The name of a part through which the rows of a batch see each other, if there is one."""
    for part in module.modules():
        if isinstance(part, nn.modules.batchnorm._BatchNorm) or getattr(part, "couples_rows", False):
            return type(part).__name__
    return None
