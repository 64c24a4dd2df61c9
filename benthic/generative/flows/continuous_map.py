"""Continuous flows as invertible maps, of rows and of pictures."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from benthic.base.seeds import generator
from benthic.base.threads import Together
from benthic.generative.flows.network import FlowNetwork, rademacher
from benthic.nets.invertible.linear import ActNorm
from benthic.nets.invertible.transform import Transform
from benthic.nets.picture_field import PictureField

PICTURE_METHOD, PICTURE_STEPS = "rk4", 4  # of training, as Finlay et al., 2020
PICTURE_TOLERANCE = 1e-5
_ROUGH, _ROUGH_PROBES = 1e-3, 8
_LEAST_SPREAD = 0.5  # of a pixel at first, over that of all pixels


class ContinuousTransform(Transform):
    """The map of a continuous flow, with its own loss for training; see ``FlowNetwork`` and ``ContinuousFlow``.

    The context of a row, (n, k), is told to the field at every time, where the field was built for one.
    """

    def __init__(self, network: FlowNetwork, tolerance: float = 1e-6, regularization: float = 0.01) -> None:
        super().__init__()
        self.network, self.tolerance, self.regularization = network, tolerance, regularization

    def loss(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        """−log p of each row by the solver of training, with the penalty on the energy of paths."""
        found: Tensor = self.network(x, self.regularization, context)
        return found

    def forward(self, x: Tensor, context: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Codes, and minus the integral of the trace."""
        z, change = self.network.backward_flow(x, self.tolerance, self.tolerance, context=context)
        return z, change[:, 0]

    def inverse(self, z: Tensor, context: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Rows, and the integral of the trace."""
        x, change = self.network.forward_flow(z, self.tolerance, self.tolerance, context=context)
        return x, change[:, 0]

    def rough(self) -> ContinuousTransform:
        """The same map, solved as accurately as a choice among candidates needs it."""
        return ContinuousTransform(self.network, max(self.tolerance, _ROUGH))

    def encode(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        """Codes, without the trace."""
        return self.network.carry(x, [1.0, 0.0], self.tolerance, self.tolerance, context)[-1]

    def decode(self, z: Tensor, context: Tensor | None = None) -> Tensor:
        """Rows, without the trace."""
        return self.network.carry(z, [0.0, 1.0], self.tolerance, self.tolerance, context)[-1]

    @torch.no_grad()
    def begin(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        """Nothing depends on the data."""
        return x


class ContinuousPictures(Transform):
    r"""A continuous flow of pictures (n, c, h, w), after scale and shift of every pixel.

    .. math:: \log p(x) = \log N(z(0)) - \int_0^1 \operatorname{tr} \frac{\partial f}{\partial z}\, dt + \sum_i s_i

    Grathwohl et al., 2019. Training takes a few equal steps, estimates the trace by one probe a picture, and has
    penalties on the kinetic energy of paths and on the Jacobian of the field (Finlay et al., 2020). Everything else
    is solved to the tolerance, by the exact trace, one product for each pixel, or by the probes of ``estimate``.

    event: (c, h, w). channels, context: of the field, see ``PictureField``. steps, method: of training.
    """

    def __init__(
        self,
        event: Sequence[int],
        channels: int = 64,
        *,
        context: int = 0,
        steps: int = PICTURE_STEPS,
        method: str = PICTURE_METHOD,
        tolerance: float = PICTURE_TOLERANCE,
        regularization: float = 0.01,
    ) -> None:
        super().__init__()
        field = PictureField(event, channels, context=context)
        network = FlowNetwork(field, exact=False, method=method, steps=steps, ahead=True, smooth=True)
        self.event, self.norm = tuple(event), ActNorm(field.width)
        self.body = ContinuousTransform(network, tolerance, regularization)

    def loss(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        """An estimate of −log p of each picture by the solver of training, with its penalties."""
        y, log = self.norm(x.flatten(1))
        found: Tensor = self.body.loss(y, context) - log
        return found

    def forward(self, x: Tensor, context: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Codes (n, chw) and the log-determinant."""
        y, log = self.norm(x.flatten(1))
        with unrounded():
            z, change = self.body(y, context)
        return z, log + change

    def estimate(self, x: Tensor, probes: Tensor, context: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Codes (n, chw), and estimates (n, k) of the log-determinant by probes (k, n, chw)."""
        y, log = self.norm(x.flatten(1))
        with unrounded():
            z, change = self.body.network.backward_flow(y, self.body.tolerance, self.body.tolerance, probes, context)
        return z, log[:, None] + change

    def inverse(self, z: Tensor, context: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Pictures and the log-determinant."""
        with unrounded():
            y, change = self.body.inverse(z, context)
        x, log = self.norm.inverse(y)
        return x.reshape(-1, *self.event), change + log

    def encode(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        """Codes, without the trace."""
        with unrounded():
            return self.body.encode(self.norm(x.flatten(1))[0], context)

    def decode(self, z: Tensor, context: Tensor | None = None) -> Tensor:
        """Pictures, without the trace."""
        with unrounded():
            return self.norm.inverse(self.body.decode(z, context))[0].reshape(-1, *self.event)

    def rough(self) -> RoughPictures:
        """The same map, as accurate as a choice among candidates needs it."""
        return RoughPictures(self)

    @torch.no_grad()
    def begin(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        """Standardize the pixels; those that hardly ever change keep some of the spread of all."""
        rows = x.flatten(1)
        self.norm.begin(rows)
        least = _LEAST_SPREAD * float(rows.std())
        if least > 0:
            self.norm.log_scale.clamp_(max=-math.log(least))
        z: Tensor = self.norm(rows)[0]
        return z


class RoughPictures(Transform):
    """A map of pictures for choices among candidates: steps are larger, and a few probes estimate the trace.

    The probes are the same for all pictures and calls, so that log-densities can be held against one another.
    """

    probes: Tensor

    def __init__(self, exact: ContinuousPictures) -> None:
        super().__init__()
        self.exact = exact
        shape, like = (_ROUGH_PROBES, exact.body.network.field.width), exact.norm.center
        self.register_buffer("probes", rademacher(shape, like, generator(0, "rough")), persistent=False)

    def _signs(self, count: int) -> Tensor:
        return self.probes[:, None].expand(-1, count, -1)  # (k, n, chw)

    def forward(self, x: Tensor, context: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Codes (n, chw) and the estimated log-determinant."""
        y, log = self.exact.norm(x.flatten(1))
        with unrounded():
            z, changes = self.exact.body.network.backward_flow(y, _ROUGH, _ROUGH, self._signs(len(y)), context)
        return z, log + changes.mean(1)

    def inverse(self, z: Tensor, context: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Pictures and the estimated log-determinant."""
        with unrounded():
            y, changes = self.exact.body.network.forward_flow(z, _ROUGH, _ROUGH, self._signs(len(z)), context)
        x, log = self.exact.norm.inverse(y)
        return x.reshape(-1, *self.exact.event), changes.mean(1) + log

    def decode(self, z: Tensor, context: Tensor | None = None) -> Tensor:
        """Pictures, without the trace."""
        with unrounded():
            y = self.exact.body.network.carry(z, [0.0, 1.0], _ROUGH, _ROUGH, context)[-1]
        return self.exact.norm.inverse(y)[0].reshape(-1, *self.exact.event)


@contextmanager
def _full_float32() -> Iterator[None]:
    held = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    try:
        yield
    finally:
        torch.backends.cudnn.allow_tf32 = held


_FULL = Together(_full_float32)


def unrounded() -> Together:
    """Convolutions of CUDA in full float32, since rounded ones would keep controlled steps short."""
    return _FULL
