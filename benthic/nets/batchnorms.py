"""Batch normalizations that do not look at the batch: by a fixed reference batch, or by the class of a row."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from benthic.base.errors import InvalidInput


def _channelwise(values: Tensor, like: Tensor) -> Tensor:
    """Numbers (..., c) with as many trailing dimensions as pictures or rows ``like`` (n, c, ...) have."""
    return values.reshape(*values.shape, *(1,) * (like.ndim - 2))


class VirtualBatchNorm(nn.Module):
    r"""Batch norm of each row by a reference batch and the row itself (Salimans et al., 2016).

    .. math:: \mu = \frac{r\, \mu_{ref} + \mu_x}{r + 1}, \qquad
        s = \frac{r\, s_{ref} + s_x}{r + 1}, \qquad \hat x = \frac{x - \mu}{\sqrt{s - \mu^2 + \epsilon}}

    where s are mean squares. The first ``rows`` rows of every input are the reference batch, which travels through the
    network with the others: see ``Referenced``. Rows do not see each other. own: whether a row counts in its own
    statistics; without it the norm is by the reference alone.

    >>> norm = VirtualBatchNorm(1, 2)
    >>> norm(torch.tensor([[-1.0], [1.0], [0.0]])).flatten().round(decimals=2).tolist()
    [-1.0, 1.0, 0.0]
    """

    def __init__(self, channels: int, rows: int, own: bool = True, eps: float = 1e-5) -> None:
        super().__init__()
        self.rows, self.own, self.eps = rows, own, eps
        self.weight, self.bias = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        """Rows (rows + n, c) or pictures (rows + n, c, h, w), the reference first, to the same."""
        pixels = tuple(range(2, x.ndim))
        mean = x.mean(pixels) if pixels else x  # (rows + n, c)
        square = x.square().mean(pixels) if pixels else x.square()
        center, power = mean[: self.rows].mean(0), square[: self.rows].mean(0)  # (c,)
        if self.own:
            share = 1.0 / (self.rows + 1.0)
            own_center = torch.lerp(center.expand_as(mean[self.rows :]), mean[self.rows :], share)
            own_power = torch.lerp(power.expand_as(square[self.rows :]), square[self.rows :], share)
            center = torch.cat([center.expand(self.rows, -1), own_center])
            power = torch.cat([power.expand(self.rows, -1), own_power])
        scale = self.weight * torch.rsqrt((power - center.square()).clamp_min(0.0) + self.eps)
        shift = self.bias - center * scale
        if not self.own:
            scale, shift = scale[None], shift[None]
        return x * _channelwise(scale, x) + _channelwise(shift, x)


class ReferenceBatchNorm(VirtualBatchNorm):
    """Batch norm by the mean and variance of a fixed reference batch alone; see ``VirtualBatchNorm``."""

    def __init__(self, channels: int, rows: int, eps: float = 1e-5) -> None:
        super().__init__(channels, rows, own=False, eps=eps)


class Referenced(nn.Module):
    """A network that meets the same reference batch at every call, ahead of the rows it is asked about.

    network: with norms by reference inside. shape: of the reference batch, (rows, ...). It is zeros until
    ``remember`` is told which batch, and is kept with the weights.
    """

    reference: Tensor

    def __init__(self, network: nn.Module, shape: Sequence[int]) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("reference", torch.zeros(tuple(shape)))

    @torch.no_grad()
    def remember(self, batch: Tensor) -> None:
        """Make these rows the reference, over and again where they are too few."""
        if batch[0].numel() != self.reference[0].numel() or not len(batch):
            raise InvalidInput(
                f"Referenced: the reference batch has shape {tuple(batch.shape)}; "
                f"it must be (n, {', '.join(map(str, self.reference.shape[1:]))}) with n of at least 1"
            )
        places = torch.arange(len(self.reference), device=batch.device) % len(batch)
        self.reference.copy_(batch[places].reshape(self.reference.shape))

    def forward(self, x: Tensor) -> Tensor:
        """What the network makes of rows (n, ...)."""
        rows = len(self.reference)
        found: Tensor = self.network(torch.cat([self.reference, x.reshape(-1, *self.reference.shape[1:])]))
        return found[rows:]


class ConditionalBatchNorm(nn.Module):
    """Batch norm with a scale and a shift for each class (de Vries et al., 2017; Dumoulin et al., 2017).

    >>> ConditionalBatchNorm(4, 3)(torch.zeros(2, 4, 5, 5), torch.tensor([0, 2])).shape
    torch.Size([2, 4, 5, 5])
    """

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(channels, affine=False)
        self.scale, self.shift = nn.Embedding(classes, channels), nn.Embedding(classes, channels)
        nn.init.ones_(self.scale.weight)
        nn.init.zeros_(self.shift.weight)

    def forward(self, x: Tensor, codes: Tensor) -> Tensor:
        """Pictures (n, c, h, w) of classes ``codes`` (n,), or (n, classes) as weights that sum to one."""
        x = self.norm(x)
        if codes.is_floating_point():
            scale, shift = codes @ self.scale.weight, codes @ self.shift.weight
        else:
            scale, shift = self.scale(codes), self.shift(codes)
        return x * _channelwise(scale, x) + _channelwise(shift, x)
