"""Coupling maps: one part of the columns or channels stays, and decides how the other is transformed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from benthic.base.errors import InvalidInput
from benthic.nets.activations import activation
from benthic.nets.invertible.laws import Law
from benthic.nets.invertible.transform import Transform, check_shape, sum_rows, with_context
from benthic.nets.mlp import MLP


class Coupling(Transform):
    r"""One half of the columns is transformed by a law whose parameters the other half decides.

    .. math:: z_a = x_a, \qquad z_b = f(x_b;\, h(x_a)), \qquad \log\left|\det\right| = \sum_{i \in b} \log f'(x_i)

    Dinh et al., 2017; with splines Durkan et al., 2019. Both ways take one pass.

    width: columns. law: of each number. hidden: widths of hidden layers. context: numbers given besides.
    swap: transform the first part instead of the second.
    """

    def __init__(
        self,
        width: int,
        law: Law,
        hidden: Sequence[int] = (64, 64),
        nonlinearity: str = "relu",
        *,
        context: int = 0,
        swap: bool = False,
    ) -> None:
        super().__init__()
        if width < 1:
            raise InvalidInput(f"Coupling: width is {width}; at least one column is needed")
        self.width, self.context = width, context
        self.law, self.kept, self.moved, self.swap = law, width // 2, width - width // 2, swap and width > 1
        if self.swap:
            self.kept, self.moved = self.moved, self.kept
        inputs = self.kept + context
        self.network: Any = MLP([max(1, inputs), *hidden, self.moved * law.outputs], nonlinearity)
        self._blind = inputs == 0
        with torch.no_grad():
            self.network[-1].weight.mul_(0.1)
            self.network[-1].bias.zero_()

    def _parts(self, x: Tensor) -> tuple[Tensor, Tensor]:
        if self.swap:
            return x[:, self.moved :], x[:, : self.moved]
        return x[:, : self.kept], x[:, self.kept :]

    def _joined(self, kept: Tensor, moved: Tensor) -> Tensor:
        return torch.cat([moved, kept] if self.swap else [kept, moved], 1)

    def _raw(self, kept: Tensor, context: Tensor | None) -> Tensor:
        inputs = kept.new_ones(len(kept), 1) if self._blind else with_context(kept, context)
        raw: Tensor = self.network(inputs)
        return raw.reshape(len(kept), self.moved, self.law.outputs)

    def forward(self, x: Tensor, context: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """z and the log-determinant."""
        check_shape("Coupling", x, self.width, context, self.context, rank=2)
        kept, moved = self._parts(x)
        moved, log = self.law.forward(moved, self._raw(kept, context))
        return self._joined(kept, moved), log.sum(1)

    def inverse(self, z: Tensor, context: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """x and the log-determinant."""
        check_shape("Coupling", z, self.width, context, self.context, rank=2)
        kept, moved = self._parts(z)
        moved, log = self.law.inverse(moved, self._raw(kept, context))
        return self._joined(kept, moved), log.sum(1)


class ConvBlock(nn.Module):
    """Two convolutions of 3x3 with one of 1x1 between them, from (n, a, h, w) to (n, b, h, w); nearly zero at first.

    Kingma & Dhariwal, 2018.
    """

    def __init__(self, inputs: int, hidden: int, outputs: int, nonlinearity: str = "relu") -> None:
        super().__init__()
        self.enter = nn.Conv2d(inputs, hidden, 3, padding=1)
        self.mix = nn.Conv2d(hidden, hidden, 1)
        self.leave = nn.Conv2d(hidden, outputs, 3, padding=1)
        self.curve = activation(nonlinearity)
        with torch.no_grad():
            for parameter in self.leave.parameters():
                parameter.zero_()

    def forward(self, x: Tensor) -> Tensor:
        """(n, outputs, h, w)."""
        found: Tensor = self.leave(self.curve(self.mix(self.curve(self.enter(x)))))
        return found


class ImageCoupling(Transform):
    """Coupling of the two halves of the channels of pictures (n, c, h, w); c must be even.

    context: numbers given to every pixel, or channels of a picture of the same size. network: from the first half of
    the channels and the context to ``outputs`` numbers for each of the other half; a ``ConvBlock`` if not given.
    """

    def __init__(
        self,
        channels: int,
        law: Law,
        hidden: int = 64,
        nonlinearity: str = "relu",
        *,
        context: int = 0,
        network: nn.Module | None = None,
    ) -> None:
        super().__init__()
        if channels < 2 or channels % 2:
            raise InvalidInput(
                f"ImageCoupling: {channels} channels have no two halves; squeeze the picture first, or use "
                "CheckerboardCoupling"
            )
        self.channels, self.context = channels, context if network is None else None
        self.kept, self.law = channels // 2, law
        self.network = network or ConvBlock(self.kept + context, hidden, self.kept * law.outputs, nonlinearity)

    def _raw(self, kept: Tensor, context: Tensor | None) -> Tensor:
        raw: Tensor = self.network(with_context(kept, context))  # (n, half * outputs, h, w)
        n, _, h, w = kept.shape
        return raw.reshape(n, self.law.outputs, self.kept, h, w).movedim(1, -1)

    def forward(self, x: Tensor, context: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """z and the log-determinant."""
        check_shape("ImageCoupling", x, self.channels, context, self.context, rank=4)
        kept, moved = x[:, : self.kept], x[:, self.kept :]
        moved, log = self.law.forward(moved, self._raw(kept, context))
        return torch.cat([kept, moved], 1), sum_rows(log)

    def inverse(self, z: Tensor, context: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """x and the log-determinant."""
        check_shape("ImageCoupling", z, self.channels, context, self.context, rank=4)
        kept, moved = z[:, : self.kept], z[:, self.kept :]
        moved, log = self.law.inverse(moved, self._raw(kept, context))
        return torch.cat([kept, moved], 1), sum_rows(log)


class CheckerboardCoupling(Transform):
    """Coupling of the pixels of pictures (n, c, h, w) on the black and the white squares of a checkerboard.

    Dinh et al., 2017. Any number of channels and any sides will do.

    context: numbers given to every pixel. swap: transform the squares of the first corner's color, not the others.
    """

    def __init__(
        self,
        channels: int,
        law: Law,
        hidden: int = 64,
        nonlinearity: str = "relu",
        *,
        context: int = 0,
        swap: bool = False,
    ) -> None:
        super().__init__()
        self.channels, self.context, self.law, self.swap = channels, context, law, swap
        self.network = ConvBlock(channels + context, hidden, channels * law.outputs, nonlinearity)

    def _moved(self, x: Tensor) -> Tensor:
        """Which pixels are transformed, (h, w)."""
        h, w = x.shape[-2:]
        squares = torch.arange(h, device=x.device)[:, None] + torch.arange(w, device=x.device)
        return squares % 2 == (0 if self.swap else 1)

    def _raw(self, x: Tensor, moved: Tensor, context: Tensor | None) -> Tensor:
        raw: Tensor = self.network(with_context(torch.where(moved, 0.0, x), context))  # (n, c * outputs, h, w)
        n, c, h, w = x.shape
        return raw.reshape(n, self.law.outputs, c, h, w).movedim(1, -1)

    def forward(self, x: Tensor, context: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """z and the log-determinant."""
        check_shape("CheckerboardCoupling", x, self.channels, context, self.context, rank=4)
        moved = self._moved(x)
        z, log = self.law.forward(x, self._raw(x, moved, context))
        return torch.where(moved, z, x), sum_rows(torch.where(moved, log, 0.0))

    def inverse(self, z: Tensor, context: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """x and the log-determinant."""
        check_shape("CheckerboardCoupling", z, self.channels, context, self.context, rank=4)
        moved = self._moved(z)
        x, log = self.law.inverse(z, self._raw(z, moved, context))
        return torch.where(moved, x, z), sum_rows(torch.where(moved, log, 0.0))
