"""Metropolis moves in the space of codes, for the gaps of rows given the rest."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from benthic.nets.noise import draw_normal, draw_uniform

Way = Callable[[Tensor], tuple[Tensor, Tensor]]  # rows (n, d) to rows, and the log-determinant (n,)
_SPREAD = 0.3  # of the copies of what is known, in standard units


class LatentMoves:
    r"""Moves that change a code a little and take from its row what is missing.

    What is known gets a noisy copy :math:`y_o \sim N(x_o, s^2)`, so that :math:`(y_o, x_m)` is a whole row with a code
    z. A step of Crank and Nicolson, :math:`z' = \sqrt{1 - b^2}\, z + b\, \epsilon`, gives another whole row, of which
    the gaps and the copy are kept; it is accepted with the ratio of

    .. math:: p(x_o, x_m)\, N(y_o; x_o, s^2) / p(y_o, x_m)

    so that the gaps keep the law :math:`p(x_m | x_o)`. Cannella, Soltani & Tarokh, 2020 (projected latent MCMC).

    known: (n, d) with NaN for gaps. encode, decode: the flow both ways. density: log p of rows.
    """

    def __init__(
        self, known: Tensor, encode: Way, decode: Way, density: Callable[[Tensor], Tensor], generator: torch.Generator
    ) -> None:
        self._known, self._encode, self._decode, self._density = known, encode, decode, density
        self._generator = generator

    def __call__(self, rows: Tensor, log: Tensor) -> tuple[Tensor, Tensor]:
        """One move of rows (k, n, d) whose log-densities are log (k, n)."""
        chains, n, d = rows.shape
        known = self._known.repeat(chains, 1)
        gaps, x, log = torch.isnan(known), rows.reshape(-1, d), log.reshape(-1)
        # the copy is drawn from its own law given the rest: a step of Gibbs
        noise = draw_normal(known.shape, known, self._generator)
        y = torch.where(gaps, x, known + _SPREAD * noise)
        z, here = self._encode(y)
        size = 10 ** (-1.5 * draw_uniform((len(x), 1), x, self._generator))
        new_z = torch.sqrt(1 - size * size) * z + size * draw_normal(z.shape, z, self._generator)
        new_y, there = self._decode(new_z)
        new_x = torch.where(gaps, new_y, known)
        new_log = self._density(new_x)
        before = log + self._weight(y, known, gaps) - (_log_normal(z) + here)
        after = new_log + self._weight(new_y, known, gaps) - (_log_normal(new_z) - there)
        accepted = torch.log(draw_uniform(log.shape, log, self._generator)) < after - before
        x, log = torch.where(accepted[:, None], new_x, x), torch.where(accepted, new_log, log)
        return x.reshape(chains, n, d), log.reshape(chains, n)

    @staticmethod
    def _weight(y: Tensor, known: Tensor, gaps: Tensor) -> Tensor:
        """log N(y_o; x_o, s²) up to a constant."""
        return -0.5 * torch.where(gaps, 0.0, (y - known) / _SPREAD).square().sum(1)


def _log_normal(z: Tensor) -> Tensor:
    return -0.5 * z.square().sum(1)
