"""The restricted Boltzmann machine as a module: free energy, conditionals, and block Gibbs sampling."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benthic.base.seeds import stream


class BoltzmannNetwork(nn.Module):
    r"""Binary visible units v and hidden units h with an energy that couples only the two sides.

    .. math:: E(v, h) = -a^\top v - b^\top h - v^\top W h, \qquad
        F(v) = -\log \sum_h e^{-E(v, h)} = -a^\top v - \sum_j \log\left(1 + e^{b_j + (v^\top W)_j}\right)

    Smolensky, 1986; Hinton, 2002. visible, hidden: how many units there are.

    >>> _ = torch.manual_seed(0)
    >>> network = BoltzmannNetwork(3, 2)
    >>> network(torch.ones(5, 3)).shape, network.gibbs(torch.ones(5, 3)).unique().tolist()
    (torch.Size([5]), [0.0, 1.0])
    """

    def __init__(self, visible: int, hidden: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(0.01 * torch.randn(visible, hidden))  # small, as in Hinton, 2010
        self.visible_bias = nn.Parameter(torch.zeros(visible))
        self.hidden_bias = nn.Parameter(torch.zeros(hidden))

    def forward(self, v: Tensor) -> Tensor:
        """The free energy (n,) of rows (n, visible)."""
        return self.free_energy(v, self.drive(v))

    def free_energy(self, v: Tensor, drive: Tensor) -> Tensor:
        """The same, of rows whose hidden logits are known."""
        return -(v @ self.visible_bias) - F.softplus(drive).sum(-1)

    def drive(self, v: Tensor) -> Tensor:
        """The logits (n, hidden) of hidden units given visible ones."""
        return F.linear(v, self.weight.T, self.hidden_bias)

    def answer(self, h: Tensor) -> Tensor:
        """The logits (n, visible) of visible units given hidden ones."""
        return F.linear(h, self.weight, self.visible_bias)

    @torch.no_grad()
    def gibbs(self, v: Tensor, steps: int = 1, generator: torch.Generator | None = None) -> Tensor:
        """Rows (n, visible) after so many turns of drawing the hidden side and then the visible one."""
        for _ in range(steps):
            h = draw_bits(torch.sigmoid(self.drive(v)), generator)
            v = draw_bits(torch.sigmoid(self.answer(h)), generator)
        return v

    @torch.no_grad()
    def visible_of(self, h: Tensor, steps: int = 1, generator: torch.Generator | None = None) -> Tensor:
        """Visible rows drawn given hidden ones (n, hidden), so many turns on."""
        v = draw_bits(torch.sigmoid(self.answer(h)), generator)
        return self.gibbs(v, steps - 1, generator)

    @torch.no_grad()
    def fill(self, known: Tensor, steps: int, generator: torch.Generator, chains: int = 1) -> tuple[Tensor, Tensor]:
        """A draw of the gaps (NaN) of rows given the rest, and their mean over chains and the later half of the steps.

        Visible units that are known are held while the two sides are drawn in turn.
        """
        rows = known.repeat(chains, 1)
        gaps = torch.isnan(rows)
        v = torch.where(gaps, draw_bits(torch.sigmoid(self.visible_bias).expand_as(rows), generator), rows)
        total, kept = torch.zeros_like(rows), 0
        for step in range(steps):
            h = draw_bits(torch.sigmoid(self.drive(v)), generator)
            chance = torch.sigmoid(self.answer(h))
            v = torch.where(gaps, draw_bits(chance, generator), rows)
            if step >= steps // 2:
                total, kept = total + chance, kept + 1
        mean = torch.where(gaps, total / kept, rows).reshape(chains, *known.shape).mean(0)
        return v[: len(known)], mean

    @torch.no_grad()
    def pseudo_likelihood(self, v: Tensor, places: Tensor) -> Tensor:
        r"""Visible units times :math:`\log p(v_i \mid v_{-i})` of one unit i a row, places (n,): (n,).

        Over a uniform place its mean is the pseudo-log-likelihood (Besag, 1975).
        """
        flipped = v.clone()
        rows = torch.arange(len(v), device=v.device)
        flipped[rows, places] = 1 - v[rows, places]
        return v.shape[1] * F.logsigmoid(self(flipped) - self(v))


def draw_bits(chance: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Zeros and ones with these chances of a one."""
    uniform = torch.rand(
        chance.shape, generator=generator or stream(chance.device), dtype=chance.dtype, device=chance.device
    )
    return (uniform < chance).to(chance.dtype)
