"""Encoder and decoder of an autoencoder, with what it is trained on."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benthic.base.seeds import normal_like
from benthic.nets.activations import activation
from benthic.nets.mlp import MLP
from benthic.nets.observation import GaussianObservation, MixedObservation, Observation


class TiedDecoder(nn.Module):
    """The mirror of a fully connected encoder, with its weights transposed and biases of its own.

    widths: of the encoder, from rows to codes.
    """

    def __init__(self, widths: Sequence[int], nonlinearity: str) -> None:
        super().__init__()
        self.biases = nn.ParameterList([torch.zeros(width) for width in reversed(widths[:-1])])
        self.between = activation(nonlinearity)

    def forward(self, z: Tensor, weights: Sequence[Tensor]) -> Tensor:
        """Codes (..., d) to (..., width); weights: of the encoder's layers in their order."""
        last = len(self.biases) - 1
        for i, (weight, bias) in enumerate(zip(reversed(weights), self.biases, strict=True)):
            z = F.linear(z, weight[:, : len(bias)].mT, bias)  # an encoder may also see which entries are known
            z = z if i == last else self.between(z)
        return z


class AutoencoderNetwork(nn.Module):
    """Encoder f and decoder g, and how far g(f(x)) is from x.

    encoder: rows (n, width), with the mask of what is known (n, width) beside them when ``masked``, to codes.
    decoder: a module from codes to the outputs that ``observation`` reads, or a ``TiedDecoder``.
    NaN in x is a missing value: the encoder sees 0 there, and the entry does not count.
    """

    def __init__(
        self, encoder: nn.Module, decoder: nn.Module, observation: Observation, code: str, masked: bool = False
    ) -> None:
        super().__init__()
        self.encoder, self.decoder, self.observation = encoder, decoder, observation
        self.squash, self.masked = activation(code), masked

    def _seen(self, x: Tensor) -> Tensor | None:
        """Which entries are known, or None when all are; training asks only where the data have gaps."""
        if self.training and not self.masked:
            return None
        seen = ~torch.isnan(x)
        return None if not self.training and bool(seen.all()) else seen

    def encode(self, x: Tensor) -> Tensor:
        """Codes (n, d) of rows (n, width)."""
        seen = self._seen(x)
        inputs = x if seen is None else torch.where(seen, x, 0.0)
        if self.masked:
            known = torch.ones_like(x) if seen is None else seen.to(x.dtype)
            inputs = torch.cat([inputs, known], -1)
        found: Tensor = self.squash(self.encoder(inputs))
        return found

    def outputs(self, z: Tensor) -> Tensor:
        """What the decoder makes of codes."""
        if not isinstance(self.decoder, TiedDecoder):
            found: Tensor = self.decoder(z)
            return found
        mirrored: Tensor = self.decoder(z, self.weights())
        return mirrored

    def weights(self) -> list[Tensor]:
        """The matrices of a fully connected encoder."""
        if not isinstance(self.encoder, MLP):
            return []
        return [layer.weight for layer in self.encoder if isinstance(layer, nn.Linear)]

    def mean(self, z: Tensor) -> Tensor:
        """The rows that codes stand for."""
        return self.observation.mean(self.outputs(z))

    def misfit(self, x: Tensor, z: Tensor) -> Tensor:
        """How far the decoded codes are from x in every entry (n, width), 0 where x is missing."""
        seen = self._seen(x)
        target = x if seen is None else torch.where(seen, x, 0.0)
        found = self._terms(target, self.outputs(z))
        return found if seen is None else torch.where(seen, found, 0.0)

    def _terms(self, x: Tensor, outputs: Tensor) -> Tensor:
        """Squared errors of numbers, minus the log-probabilities of everything else."""
        law = self.observation
        if isinstance(law, GaussianObservation):
            return (x - law.mean(outputs)).square()
        found = -law.terms(x, outputs)
        if isinstance(law, MixedObservation) and len(law.numbers):
            squares = (x[:, law.numbers] - outputs[..., law.numbers]).square()
            found = found.index_copy(-1, law.numbers, squares)
        return found

    def forward(self, x: Tensor, shown: Tensor | None = None, contraction: float = 0.0) -> tuple[Tensor, Tensor]:
        """The loss of each row (n,) and its code (n, d); shown: what the encoder sees instead of x.

        contraction: weight of the squared norm of the encoder's Jacobian.
        """
        shown = x if shown is None else shown
        if not contraction:
            z = self.encode(shown)
            return self.misfit(x, z).sum(-1), z
        with torch.enable_grad():
            shown = shown.detach().requires_grad_()
            z = self.encode(shown)
            slope = squared_slope(z, shown)
        return self.misfit(x, z).sum(-1) + contraction * slope, z


def squared_slope(z: Tensor, x: Tensor) -> Tensor:
    r"""An unbiased estimate of :math:`\|\partial z / \partial x\|_F^2` of each row, from one random direction.

    .. math:: E\, \|J^\top \epsilon\|^2 = \|J\|_F^2, \qquad \epsilon \sim N(0, I)

    z: (n, d), rows of which depend on the same rows of x (n, width) alone.
    """
    (slope,) = torch.autograd.grad(z, x, normal_like(z), create_graph=True)
    return torch.where(torch.isnan(slope), 0.0, slope).square().sum(-1)


def kl_to_target(mean: Tensor, rho: float) -> Tensor:
    r"""How far the mean activations of units are from a target, summed over units.

    .. math:: \sum_j \rho \log \frac{\rho}{\hat\rho_j} + (1 - \rho) \log \frac{1 - \rho}{1 - \hat\rho_j}

    mean: (d,) in (0, 1).

    >>> float(kl_to_target(torch.tensor([0.1, 0.1]), 0.1))
    0.0
    """
    mean = mean.clamp(1e-6, 1 - 1e-6)
    return (rho * (math.log(rho) - torch.log(mean)) + (1 - rho) * (math.log(1 - rho) - torch.log1p(-mean))).sum()
