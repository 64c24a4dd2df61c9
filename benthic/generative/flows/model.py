"""The network of a normalizing flow: noise for grids, an invertible map, a standard normal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benthic.base.seeds import normal_like, uniform_like
from benthic.generative.flows.network import log_normal
from benthic.generative.flows.row_noise import RowNoise
from benthic.nets.invertible.transform import Transform

_TOGETHER = 1 << 16  # numbers evaluated at once, over rows and draws
_EDGE = 1e-6  # of the unit interval before the logit


class Dequantizer(nn.Module):
    r"""Numbers of a grid as numbers of the line: a code k becomes k + u with u in [0, 1), then perhaps a logit.

    .. math:: \log P(k) \ge E_{q(u|k)}\left[\log p(k + u) - \log q(u|k)\right]

    Uria et al., 2013; Ho et al., 2019 for a learned q, the variational one; Theis et al., 2016 for why.

    where: the coordinates on a grid, (m,). levels: (m,) of each, 0 where the grid has no end. mean, scale: (m,) to
    standard units afterwards. posterior: a map from u (as a logit) to normal noise, given the codes; none: u uniform.
    """

    where: Tensor
    levels: Tensor
    mean: Tensor
    scale: Tensor

    def __init__(
        self,
        where: Sequence[int],
        levels: Sequence[int],
        mean: Tensor,
        scale: Tensor,
        width: int,
        posterior: Transform | None = None,
    ) -> None:
        super().__init__()
        self.all, self.posterior = len(where) == width, posterior
        self.register_buffer("where", torch.tensor(list(where), dtype=torch.long))
        self.register_buffer("levels", torch.tensor(list(levels), dtype=torch.get_default_dtype()))
        self.register_buffer("mean", mean.to(torch.get_default_dtype()))
        self.register_buffer("scale", scale.to(torch.get_default_dtype()))
        self.bounded = bool((self.levels > 0).all())
        self.free = bool((self.levels == 0).all())

    def noise(self, x: Tensor, normal: Tensor | None = None, uniform: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """u (n, m) in [0, 1) for rows x (n, d), and log q(u|x), (n,); drawn here unless its source is given."""
        codes = self.codes(x)
        if self.posterior is None:
            return uniform_like(codes) if uniform is None else uniform.expand_as(codes), codes.new_zeros(len(x))
        source = normal_like(codes) if normal is None else normal.expand_as(codes)
        logit, log = self.posterior.inverse(source, self.context(codes))
        u = torch.sigmoid(logit)
        squeezed = F.logsigmoid(logit) + F.logsigmoid(-logit)
        return u, log_normal(source) - log - squeezed.sum(1)

    def context(self, codes: Tensor) -> Tensor:
        """Codes in units that suit a network."""
        return codes / self.levels.clamp_min(1.0) * 2 - 1 if self.bounded else codes / (1 + codes.abs().sqrt())

    def codes(self, x: Tensor) -> Tensor:
        """The coordinates on a grid, (n, m)."""
        return x if self.all else x.index_select(1, self.where)

    def forward(self, x: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
        """x with its grids filled by noise u (n, m), and the log-determinant of u's way, (n,)."""
        y = self.codes(x) + u
        log = -self.scale.log().expand_as(y)
        if not self.free:
            share = _EDGE + (1 - 2 * _EDGE) * y / self.levels.clamp_min(1.0)
            inside = share.clamp(_EDGE, 1 - _EDGE)
            slope = -torch.log(inside) - torch.log1p(-inside) - self.levels.clamp_min(1.0).log()
            limited = self.levels > 0
            log = log + torch.where(limited, slope, 0.0)
            y = torch.where(limited, torch.logit(inside), y)
        y = (y - self.mean) / self.scale
        return (y if self.all else x.index_copy(1, self.where, y)), log.sum(1)

    def inverse(self, y: Tensor) -> Tensor:
        """The codes that filled grids came from, among the other coordinates."""
        values = self.codes(y) * self.scale + self.mean
        top = self.levels.clamp_min(1.0)
        share = (torch.sigmoid(values) - _EDGE) / (1 - 2 * _EDGE)
        codes = torch.where(self.levels > 0, (share * top).floor().clamp_min(0.0).minimum(top - 1), values.floor())
        return codes if self.all else y.index_copy(1, self.where, codes)


def without_labels(joint: Tensor) -> Tensor:
    r"""A bound on log p(x), (draws, n), from unbiased estimates of log p(x, y) of every label, (draws, n, k).

    .. math:: \log p(x) \ge \sum_y q(y) \left(\log p(x, y) - \log q(y)\right)

    The logarithm of the sum of estimates would lie too high. Here q comes from the other draws, two or more in all, so
    that each draw stays unbiased.

    >>> sure = torch.tensor([-1.0, -2.0]).expand(2, 1, 2)  # without noise the bound is the sum itself
    >>> torch.allclose(without_labels(sure), sure.logsumexp(-1))
    True
    """
    others = (joint.sum(0) - joint) / (len(joint) - 1)
    log_q = torch.log_softmax(others, -1)
    return (log_q.exp() * (joint - log_q)).sum(-1)


class FlowModel(nn.Module):
    r"""log p(x) of rows by an invertible map to a standard normal, perhaps given a context.

    .. math:: \log p(x) = \log N(T(x)) + \log\left|\det \partial T / \partial x\right|

    event: the shape of pictures, None for rows. Rows with grids are dequantized first. still: (d,) one for coordinates
    that never change, which are learned as noise of unit size: the map would be drawn into a singular one.
    """

    still: Tensor | None

    def __init__(
        self,
        transform: Transform,
        dequantizer: Dequantizer | None = None,
        event: Sequence[int] | None = None,
        still: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.transform, self.dequantizer = transform, dequantizer
        self.event = None if event is None else tuple(event)
        self.register_buffer("still", still, persistent=False)

    def rough(self) -> FlowModel:
        """The same model as accurate as a choice among candidates needs it, where that is cheaper."""
        rough: Any = getattr(self.transform, "rough", None)
        return self if rough is None else FlowModel(rough(), self.dequantizer, self.event).eval()

    def _stirred(self, x: Tensor) -> Tensor:
        return x if self.still is None else x + self.still * normal_like(x)

    def forward(self, x: Tensor, c: Tensor | None = None) -> Tensor:
        """−log p(x) of each row, or an estimate of its bound where there are grids."""
        x = self._stirred(x)
        y, gain = x, 0.0
        if self.dequantizer is not None:
            u, log_q = self.dequantizer.noise(x)
            y, log = self.dequantizer(x, u)
            gain = log - log_q
        special = getattr(self.transform, "loss", None)
        if special is not None and (self.training or self.estimated):
            found: Tensor = special(self._shaped(y), c)
            return found - gain
        return -self.log_density(y, c) - gain

    def log_density(self, y: Tensor, c: Tensor | None = None) -> Tensor:
        """log p of numbers (n, d) that were dequantized."""
        z, log = self.encode(y, c)
        return log_normal(z) + log

    @property
    def estimated(self) -> bool:
        """Whether the log-determinant can be estimated by random probes, which is far cheaper than to compute it."""
        return hasattr(self.transform, "estimate")

    def _shaped(self, y: Tensor) -> Tensor:
        return y if self.event is None else y.reshape(len(y), *self.event)

    def encode(self, y: Tensor, c: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Codes (n, d) and the log-determinant."""
        z, log = self.transform(self._shaped(y), c)
        return z.flatten(1), log

    def codes(self, y: Tensor, c: Tensor | None = None) -> Tensor:
        """Codes (n, d) alone."""
        return self.transform.encode(self._shaped(y), c).flatten(1)

    def numbers(self, z: Tensor, c: Tensor | None = None) -> Tensor:
        """Numbers (n, d) of codes, alone."""
        return self.transform.decode(z, c).flatten(1)

    def log_estimate(self, y: Tensor, probes: Tensor, c: Tensor | None = None) -> Tensor:
        """Estimates of log p, (n,), of numbers (n, d) by probes (n, d): an unbiased one of its log-determinant."""
        estimate: Any = self.transform.estimate
        z, log = estimate(self._shaped(y), probes[None], c)
        found: Tensor = log_normal(z.flatten(1)) + log[:, 0]
        return found

    def decode(self, z: Tensor, c: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Numbers (n, d) of codes, and the log-determinant."""
        y, log = self.transform.inverse(z, c)
        return y.flatten(1), log

    def bounds(self, x: Tensor, c: Tensor | None, draws: int, first: int = 0, exact: bool = True) -> Tensor:
        """Estimates of the bound of each row, (draws, n), by noise that belongs to the number of the row.

        first: the number of the first row, where these are some of many. exact: whether log-determinants are computed
        where they could be estimated, a probe for each draw.
        """
        if self.dequantizer is None:
            return self.log_density(x, c)[None]
        n, m = len(x), len(self.dequantizer.where)
        noise, found = RowNoise(first, n, m), []
        together = max(1, _TOGETHER // max(1, n * m))
        for begin in range(0, draws, together):
            some = range(begin, min(begin + together, draws))
            rows, given = x.repeat(len(some), 1), None if c is None else c.repeat(len(some), 1)
            learned = self.dequantizer.posterior is not None
            source = (noise.normal if learned else noise.uniform)(some, x).flatten(0, 1)
            u, log_q = self.dequantizer.noise(rows, source if learned else None, None if learned else source)
            y, log = self.dequantizer(rows, u)
            if self.estimated and not exact:
                value = self.log_estimate(y, noise.signs(some, x).flatten(0, 1), given)
            else:
                value = self.log_density(y, given)
            found.append((value + log - log_q).reshape(-1, n))
        return torch.cat(found)

    @torch.no_grad()
    def begin(self, x: Tensor, c: Tensor | None = None) -> None:
        """Let the map start where the data say."""
        y = x = self._stirred(x)
        if self.dequantizer is not None:
            y = self.dequantizer(x, uniform_like(self.dequantizer.codes(x)))[0]
        self.transform.begin(self._shaped(y), c)
