"""From pictures or rows to a score: critics of adversarial models, plain, residual or by projection."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

from torch import Tensor, nn

from benthic.base.errors import InvalidInput, nearest
from benthic.nets.conv import padding_of
from benthic.nets.generator import begin, check_channels, dense_layer, gan_channels, norm_of
from benthic.nets.minibatch import MinibatchDeviation, MinibatchDiscrimination
from benthic.nets.spectral import SpectralConv2d, SpectralEmbedding, SpectralLinear
from benthic.nets.twice import Conv2d

CRITIC_NORMS = ("batch", "spectral", "instance", "group", "virtual", "reference", "none")
MINIBATCH = ("discrimination", "deviation")


class ConvCritic(nn.Module):
    """Pictures to scores: convolutions that halve the picture, then a linear layer (Radford et al., 2016).

    event: (c, h, w). channels: one for each halving; pictures whose sides cannot be halved so often are padded with
    zeros at the far edges. norm: ``batch`` (as in the paper, not on the first layer), ``spectral`` (of all weights),
    ``instance``, ``group``, ``virtual`` or ``reference`` (with ``rows`` reference rows first, see ``Referenced``), or
    ``none``. Batch norm takes the mean and variance of the rows it is given: call the critic once for real and once
    for generated rows. minibatch: ``discrimination`` or ``deviation`` lets a row see how much its batch varies.
    residual: blocks with a way around them. dense: units of a fully connected layer before the score; 0 for none.
    outputs: scores a row.

    >>> import torch
    >>> ConvCritic((1, 28, 28))(torch.zeros(3, 1, 28, 28)).shape
    torch.Size([3, 1])
    """

    def __init__(
        self,
        event: tuple[int, int, int],
        channels: Sequence[int] | None = None,
        outputs: int = 1,
        *,
        norm: str = "batch",
        minibatch: str | None = None,
        residual: bool = False,
        dense: int = 0,
        rows: int = 0,
    ) -> None:
        super().__init__()
        check_critic(norm, minibatch)
        if residual and norm not in ("spectral", "none"):
            raise InvalidInput(f"ConvCritic: residual blocks have norm 'spectral' or 'none', not {norm!r}")
        chosen = check_channels(channels or gan_channels(*event[1:]), event[1:])
        self.event, self.norm = tuple(event), norm
        self.padding = padding_of(event[1:], len(chosen))
        spectral = norm == "spectral"
        self.body = _residual_body(event[0], chosen, spectral) if residual else _body(event[0], chosen, norm, rows)
        self.deviation = MinibatchDeviation(4) if minibatch == "deviation" else None
        small = [(side + pad) >> len(chosen) for side, pad in zip(event[1:], self.padding, strict=True)]
        self.features = (chosen[-1] + (self.deviation is not None)) * math.prod(small)
        self.closeness = MinibatchDiscrimination(self.features) if minibatch == "discrimination" else None
        self.features += 0 if self.closeness is None else self.closeness.measures
        narrow = [dense_layer(linear_of(spectral)(self.features, dense), norm == "batch", leaky())] if dense else []
        self.narrow = nn.Sequential(*narrow)
        self.features = dense or self.features
        self.head: nn.Module = linear_of(spectral)(self.features, outputs)
        begin(self, batch=norm in ("batch", "virtual", "reference"))

    def describe(self, x: Tensor) -> Tensor:
        """The flat features (n, features) that the score is taken from, of pictures or their rows."""
        x = x.reshape(-1, *self.event)
        if any(self.padding):
            x = nn.functional.pad(x, (0, self.padding[1], 0, self.padding[0]))
        found: Tensor = self.body(x)
        found = (found if self.deviation is None else self.deviation(found)).flatten(1)
        features: Tensor = self.narrow(found if self.closeness is None else self.closeness(found))
        return features

    def forward(self, x: Tensor) -> Tensor:
        """Pictures (n, c, h, w), or rows of their pixels (n, c * h * w), to scores (n, outputs)."""
        scores: Tensor = self.head(self.describe(x))
        return scores


class DenseCritic(nn.Module):
    """Rows to scores by fully connected layers, with the features that the score is taken from.

    widths: of the rows and of the hidden layers. spectral: whether layers have norm one.

    >>> import torch
    >>> DenseCritic([4, 16, 8])(torch.zeros(3, 4)).shape
    torch.Size([3, 1])
    """

    def __init__(self, widths: Sequence[int], outputs: int = 1, *, spectral: bool = False) -> None:
        super().__init__()
        make = linear_of(spectral)
        self.norm, self.features = "spectral" if spectral else "none", widths[-1]
        self.body = nn.Sequential(*(part for a, b in pairwise(widths) for part in (make(a, b), leaky())))
        self.head: nn.Module = make(self.features, outputs)
        begin(self, batch=False)

    def describe(self, x: Tensor) -> Tensor:
        """The features (n, features) of rows."""
        found: Tensor = self.body(x)
        return found

    def forward(self, x: Tensor) -> Tensor:
        """Rows (n, width) to scores (n, outputs)."""
        scores: Tensor = self.head(self.describe(x))
        return scores


class ProjectionCritic(nn.Module):
    r"""A score of a picture and its class (Miyato & Koyama, 2018).

    .. math:: f(x, y) = v_y^\top \phi(x) + \psi(\phi(x))

    body: a network with ``describe`` and ``features``, such as ``ConvCritic`` or ``DenseCritic``; its head is psi.
    classes: how many.

    >>> import torch
    >>> critic = ProjectionCritic(ConvCritic((1, 8, 8)), 3)
    >>> critic(torch.zeros(2, 64), torch.tensor([0, 2])).shape
    torch.Size([2, 1])
    """

    def __init__(self, body: ConvCritic | DenseCritic, classes: int) -> None:
        super().__init__()
        self.body, self.classes = body, classes
        table = SpectralEmbedding if body.norm == "spectral" else nn.Embedding
        self.places = table(classes, body.features)
        if not isinstance(self.places, SpectralEmbedding):
            nn.init.normal_(self.places.weight, std=body.features**-0.5)

    def forward(self, x: Tensor, codes: Tensor) -> Tensor:
        """Pictures or rows (n, ...) of classes (n,), or of weights (n, classes), to scores (n, 1)."""
        h = self.body.describe(x)
        if codes.is_floating_point():
            table = self.places.normalized() if isinstance(self.places, SpectralEmbedding) else self.places.weight
            directions = codes @ table
        else:
            directions = self.places(codes)
        scores: Tensor = self.body.head(h)
        return scores + (directions * h).sum(1, keepdim=True)


def check_critic(norm: str, minibatch: str | None) -> None:
    """Refuse names that a critic does not know."""
    if norm not in CRITIC_NORMS:
        raise InvalidInput(
            f"a critic has no norm {norm!r}{nearest(str(norm), CRITIC_NORMS)}; use one of {', '.join(CRITIC_NORMS)}"
        )
    if minibatch is not None and minibatch not in MINIBATCH:
        raise InvalidInput(f"minibatch is {minibatch!r}; use 'discrimination', 'deviation' or None")


def linear_of(spectral: bool) -> Callable[[int, int], nn.Module]:
    """Linear layers, of norm one or as they are."""
    return SpectralLinear if spectral else nn.Linear


def conv_of(norm: str) -> Callable[..., nn.Module]:
    """Convolutions of a critic with this norm; where rows do not see each other, slopes may be penalized."""
    if norm == "spectral":
        return SpectralConv2d
    return nn.Conv2d if norm in ("batch", "virtual", "reference") else Conv2d


def leaky() -> nn.Module:
    """The rectifier of critics, whose slope is 0.2 below zero."""
    return nn.LeakyReLU(0.2)


def _body(inputs: int, channels: Sequence[int], norm: str, rows: int) -> nn.Sequential:
    conv = conv_of(norm)
    layers: list[nn.Module] = [conv(inputs, channels[0], 4, 2, 1), leaky()]
    between = "none" if norm == "spectral" else norm
    for a, b in pairwise(channels):
        layers += [conv(a, b, 4, 2, 1), norm_of(between, b, rows=rows), leaky()]
    return nn.Sequential(*layers)


def _residual_body(inputs: int, channels: Sequence[int], spectral: bool) -> nn.Sequential:
    blocks = [_ResidualDown(a, b, spectral, first=i == 0) for i, (a, b) in enumerate(pairwise([inputs, *channels]))]
    return nn.Sequential(*blocks, leaky())


class _ResidualDown(nn.Module):
    """Two convolutions and a halving by averages, around which the halved picture goes."""

    def __init__(self, inputs: int, outputs: int, spectral: bool, first: bool) -> None:
        super().__init__()
        conv = conv_of("spectral" if spectral else "none")
        self.before = nn.Identity() if first else leaky()
        self.one, self.two = conv(inputs, outputs, 3, 1, 1), conv(outputs, outputs, 3, 1, 1)
        self.around, self.between, self.halve = conv(inputs, outputs, 1), leaky(), nn.AvgPool2d(2)

    def forward(self, x: Tensor) -> Tensor:
        inner = self.two(self.between(self.one(self.before(x))))
        return self.halve(inner) + self.around(self.halve(x))
