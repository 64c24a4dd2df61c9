"""A convolutional vector field of pictures that depends on time and carries tangents along."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benthic.nets.invertible.images import squeeze, unsqueeze

_TANGENTS = 4096  # rows of tangents carried at once for an exact trace

# features, and their derivatives along some directions, which lie one below another
Pair = tuple[Tensor, Tensor | None]


class PictureField(nn.Module):
    r"""A field f(t, x) of pictures: convolutions at two resolutions, each scaled and shifted by the time.

    .. math:: h_{i+1} = h_i + \tanh\big(W_i * h_i \odot 2\,\sigma(g_i t + c_i + G_i y) + u_i t + b_i + U_i y\big),
              \qquad f = W_L * h_L + b_L

    The gated layers of Grathwohl et al., 2019, with skips, which also take a context y where there is one, a number
    for each channel as the time is; half of the layers see the picture at half its resolution.
    Pictures with even sides are squeezed first, so that 2 x 2 pixels are 4 channels. States are rows (n, chw), as
    solvers have them. The last layer begins at zero, and so does the field.

    event: (c, h, w) of the pictures. channels: features at full resolution; there are twice as many at half of it.
    depth: layers before, inside and after the coarse part. context: numbers that a picture is given besides.

    >>> field = PictureField((1, 8, 8), 4)
    >>> field(torch.tensor(0.5), torch.ones(2, 64)).shape
    torch.Size([2, 64])
    """

    def __init__(self, event: Sequence[int], channels: int = 64, depth: int = 2, context: int = 0) -> None:
        super().__init__()
        c, h, w = self.event = tuple(event)
        self.width, self.depth, self.context = c * h * w, depth, context
        self.squeezed = h % 2 == 0 and w % 2 == 0 and min(h, w) > 2
        if self.squeezed:
            c, h, w = 4 * c, h // 2, w // 2
        wide = 2 * channels
        shapes = [(c, channels, 1), *[(channels, channels, 1)] * depth]  # in, out, stride
        shapes += [(channels, wide, 2), *[(wide, wide, 1)] * depth]
        shapes += [(wide, channels, 1), *[(channels, channels, 1)] * depth]
        layers = [nn.Conv2d(a, b, 3, stride, padding=1, bias=False) for a, b, stride in shapes]
        for layer in layers:
            nn.init.xavier_uniform_(layer.weight)
        self.layers = nn.ModuleList(layers)
        self.sizes = [size for _, size, _ in shapes]
        self.times = nn.Linear(1, 2 * sum(self.sizes))  # gates and shifts of all layers
        self.places = nn.Parameter(torch.zeros(channels, h, w))  # what the first features know of where they are
        self.last = nn.Conv2d(channels, c, 3, padding=1)
        for part in self.last.parameters():
            nn.init.zeros_(part)
        self.contexts = nn.Linear(context, 2 * sum(self.sizes), bias=False) if context else None

    def forward(self, t: Tensor, x: Tensor, offsets: Tensor | None = None) -> Tensor:
        """The field at rows (n, width); t: () one time, or (n, 1) one for each. offsets: see ``offsets``."""
        return self._field(t, x, None, offsets)[0]

    def offsets(self, context: Tensor | None) -> Tensor | None:
        """What contexts (n, context) add to gates and shifts, at every time; it can be kept for a solve."""
        return None if self.contexts is None else self.contexts(context)

    def coupling(self) -> Tensor:
        """Nothing of the divergence is known from the weights alone."""
        return self.places[:0]

    def with_products(
        self, t: Tensor, x: Tensor, vectors: Tensor, offsets: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """The field (n, width) and its Jacobian times vectors (k, n, width)."""
        value, products = self._field(t, x, vectors.flatten(0, 1), offsets)
        return value, products.reshape(vectors.shape)  # type: ignore[union-attr]

    def with_divergence(
        self, t: Tensor, x: Tensor, coupling: Tensor | None = None, offsets: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """The field (n, width) and its exact divergence (n,), by one product for every coordinate."""
        value, total = self(t, x, offsets), x.new_zeros(len(x))
        places = torch.arange(self.width, device=x.device)
        for some in places.split(max(1, _TANGENTS // len(x))):
            vectors = F.one_hot(some, self.width).to(x)[:, None].expand(-1, len(x), -1)
            products = self.with_products(t, x, vectors, offsets)[1]
            total = total + (products * vectors).sum((0, 2))
        return value, total

    # -- layers ----------------------------------------------------------------------------------------

    def _field(self, t: Tensor, x: Tensor, v: Tensor | None, offsets: Tensor | None) -> Pair:
        """The field at rows x, and its derivatives along v, (k n, width)."""
        scales = self.times(t.reshape(-1, 1))  # (1 or n, gates and shifts)
        gates, shifts = (scales if offsets is None else scales + offsets).chunk(2, -1)
        gates = 2 * torch.sigmoid(gates)
        layers = list(zip(self.layers, gates.split(self.sizes, -1), shifts.split(self.sizes, -1), strict=True))
        cuts = [0, 1 + self.depth, 2 + 2 * self.depth, len(layers)]
        before, inside, after = (layers[a:b] for a, b in pairwise(cuts))
        pair = _layer(before[0], (self._pictures(x), None if v is None else self._pictures(v)), self.places)
        fine = _layers(before[1:], pair)
        coarse = _layers(inside[1:], _layer(inside[0], fine))
        pair = _layers(after[1:], _sum(fine, _grown(_layer(after[0], coarse), fine[0].shape[-2:])))
        value = self._rows(F.conv2d(pair[0], self.last.weight, self.last.bias, padding=1))
        return value, None if pair[1] is None else self._rows(F.conv2d(pair[1], self.last.weight, padding=1))

    def _pictures(self, rows: Tensor) -> Tensor:
        pictures = rows.reshape(len(rows), *self.event)
        pictures = squeeze(pictures) if self.squeezed else pictures
        return pictures.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)  # channels last, which GPUs prefer

    def _rows(self, pictures: Tensor) -> Tensor:
        return (unsqueeze(pictures) if self.squeezed else pictures).reshape(len(pictures), -1)


def _layers(layers: Sequence[tuple[Any, Tensor, Tensor]], pair: Pair) -> Pair:
    """Layers with skips, one after another."""
    for layer in layers:
        pair = _sum(pair, _layer(layer, pair))
    return pair


def _layer(layer: tuple[Any, Tensor, Tensor], pair: Pair, places: Tensor | None = None) -> Pair:
    """tanh of a convolution (n, c, h, w) by gate and shift, (1, c) for all or (n, c); tangents by its slope."""
    (conv, gate, shift), (h, v) = layer, pair
    how: dict[str, Any] = {"stride": conv.stride, "padding": 1}
    if len(gate) == 1:  # one time and context for all: the weights take it up
        weight = conv.weight * gate.reshape(-1, 1, 1, 1)
        a, d = F.conv2d(h, weight, shift.reshape(-1), **how), None if v is None else F.conv2d(v, weight, **how)
    else:
        gate, shift = gate[:, :, None, None], shift[:, :, None, None]
        a = torch.addcmul(shift, F.conv2d(h, conv.weight, **how), gate)
        d = None if v is None else (F.conv2d(v, conv.weight, **how).unflatten(0, (-1, len(h))) * gate).flatten(0, 1)
    h = torch.tanh(a if places is None else a + places)
    if d is None or len(d) == len(h):
        return h, None if d is None else torch.ops.aten.tanh_backward(d, h)  # d (1 - h²), in one kernel
    return h, torch.ops.aten.tanh_backward(d.unflatten(0, (-1, len(h))), h).flatten(0, 1)


def _sum(one: Pair, other: Pair) -> Pair:
    return one[0] + other[0], None if one[1] is None or other[1] is None else one[1] + other[1]


def _grown(pair: Pair, size: Sequence[int]) -> Pair:
    """Features (n, c, h, w) repeated to fill a larger picture."""
    h, v = (None if part is None else F.interpolate(part, size=tuple(size)) for part in pair)
    return h, v  # type: ignore[return-value]
