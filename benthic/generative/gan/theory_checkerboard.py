"""Checkerboards in generated pictures: where they come from, and how strong they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import conv1d, conv_transpose1d, interpolate

from benthic.base.errors import InvalidInput
from benthic.base.estimate import Estimate, from_influence
from benthic.base.settings import whole

_NEAR, _FAR = 2, 3  # bins between a peak and the background it is compared with; a Hann window spreads peaks by one


def overlap_counts(
    kernel: int, stride: int, size: int = 8, *, padding: int = 0, output_padding: int = 0, resize: bool = False
) -> Tensor:
    """How many weights of a kernel reach each output pixel, along one side.

    A transposed convolution writes its kernel once for every input pixel, a stride apart; where the stride does not
    divide the kernel, some outputs are written to more often than others in a regular pattern. Resizing by nearest
    neighbors, followed by a convolution of stride 1, reads the whole kernel for every output. In the plane the counts
    are the outer product of those of the sides. Odena, Dumoulin & Olah, 2016.

    kernel, stride: in pixels. size: pixels of the input. padding, output_padding: of the transposed convolution (of
    the convolution after resizing, half the kernel is always added). Returns whole numbers (pixels,).

    >>> overlap_counts(3, 2, 4)
    tensor([1, 1, 2, 1, 2, 1, 2, 1, 1])
    >>> overlap_counts(4, 2, 4, padding=1)
    tensor([1, 2, 2, 2, 2, 2, 2, 1])
    """
    _check_counts("overlap_counts", kernel=kernel, stride=stride, size=size)
    ones, taps = torch.ones(1, 1, size, dtype=torch.float64), torch.ones(1, 1, kernel, dtype=torch.float64)
    if resize:
        wide = interpolate(ones, scale_factor=stride, mode="nearest")
        counts = conv1d(torch.nn.functional.pad(wide, ((kernel - 1) // 2, kernel // 2)), taps)
    else:
        counts = conv_transpose1d(ones, taps, stride=stride, padding=padding, output_padding=output_padding)
    return counts[0, 0].round().long()


def overlap_unevenness(kernel: int, stride: int, *, dimensions: int = 2) -> float:
    """How uneven the overlaps of a transposed convolution are inside a picture: (most − least) / mean.

    0 where the stride divides the kernel. dimensions: 2 for pictures, whose counts are products.

    >>> overlap_unevenness(3, 2), overlap_unevenness(4, 2)
    (1.3333333333333333, 0.0)
    """
    _check_counts("overlap_unevenness", kernel=kernel, stride=stride, dimensions=dimensions)
    counts = [len(range(phase, kernel, stride)) for phase in range(stride)]  # one period of the pattern
    mean = kernel / stride
    return (max(counts) ** dimensions - min(counts) ** dimensions) / mean**dimensions


class Checkerboard(NamedTuple):
    """How strong a regular pattern is.

    ratio: power at the frequencies of the pattern over that of frequencies around them, with the standard error over
    pictures; 1 where there is no pattern. share: the part of the pictures' variance that the pattern takes beyond
    what the frequencies around it would lead to expect, from 0 to 1. spectrum: (h, w), the mean power, frequency 0 in
    the middle.
    """

    ratio: Estimate
    share: float
    spectrum: Tensor


def checkerboard(images: Any, period: int = 2) -> Checkerboard:
    r"""Measure patterns of a period in pictures, as layers of that stride leave them.

    .. math:: \text{ratio} = \frac{\sum_{f \in F} P(f)}{\sum_{f \in F} \bar P(f)}, \qquad
        F = \{ (i/s, j/s) : 0 \le i, j < s \} \setminus \{0\}

    with P the power of the pictures under a Hann window and :math:`\bar P` its mean over the frequencies two and
    three bins away. Any texture without the pattern has a ratio near 1, whatever its spectrum.

    images: (n, c, h, w) or (n, h, w), with sides of at least eight periods. period: s, the stride of the last
    layer, or the product of the strides of the last few.

    >>> noise = torch.randn(64, 1, 32, 32, generator=torch.Generator().manual_seed(0))
    >>> board = torch.ones(32, 32)
    >>> board[1::2, ::2] = board[::2, 1::2] = -1.0
    >>> checkerboard(noise).ratio.value < 1.5, checkerboard(noise + 0.3 * board).ratio.value > 5
    (True, True)
    """
    pictures = _pictures(images, period)
    power = _power(pictures)  # (n, h, w), summed over channels
    peaks = _peaks(pictures.shape[-2:], period)
    there = torch.stack([power[:, u, v] for u, v in peaks], 1).sum(1)
    around = torch.stack([_around(power, u, v) for u, v in peaks], 1).sum(1)
    total = float(power.sum())
    if total == 0.0:
        raise InvalidInput("checkerboard: every picture is of one color, so there is no spectrum to look at")
    floor = torch.finfo(torch.float64).eps * total / len(power)  # a pattern on nothing has a finite ratio
    ratio = float(there.sum() / (around.sum() + floor))
    influence = (there - ratio * around) / (around.mean() + floor)
    # a peak of a Hann window lies in nine bins, of which the middle one has (4/6)² of the power
    excess = float((there - around).sum()) / (4 / 9) / total
    estimate = from_influence(ratio, influence.cpu().numpy())
    return Checkerboard(estimate, min(max(excess, 0.0), 1.0), torch.fft.fftshift(power.mean(0)))


def network_checkerboard(
    network: Callable[[Tensor], Tensor], inputs: Tensor, period: int = 2, *, gradient: bool = False
) -> Checkerboard:
    """The checkerboard that a network makes.

    network: from inputs to pictures (n, c, h, w); with ``gradient`` any network of pictures, such as a critic, of which
    the size of the gradient with respect to each pixel is looked at: what a generator learns from. inputs: noise or
    pictures.

    >>> layer = torch.nn.ConvTranspose2d(1, 1, 3, stride=2, bias=False)
    >>> layer.weight.data.fill_(1.0).shape
    torch.Size([1, 1, 3, 3])
    >>> noise = 1 + 0.1 * torch.randn(16, 1, 16, 16, generator=torch.Generator().manual_seed(0))
    >>> network_checkerboard(layer, noise).ratio.value > 10
    True
    """
    if not gradient:
        with torch.no_grad():
            return checkerboard(network(inputs), period)
    with torch.enable_grad():
        pictures = inputs.detach().requires_grad_()
        (slopes,) = torch.autograd.grad(network(pictures).sum(), pictures)
    return checkerboard(slopes.abs(), period)  # signs average out, where the weight lies does not


def plot_checkerboard(images: Mapping[str, Any], period: int = 2) -> Any:
    """One picture of each set, its mean spectrum below, the frequencies of the pattern circled.

    images: from name to pictures as in ``checkerboard``. Returns the figure.
    """
    from benthic.pictures.canvas import new_figure

    if not images:
        raise InvalidInput("plot_checkerboard: there are no pictures; pass a mapping from names to pictures")
    figure, axes = new_figure(2.5 * len(images), 5.2, 2, len(images), squeeze=False)
    for (name, pictures), (above, below) in zip(images.items(), axes.T, strict=True):
        found = checkerboard(pictures, period)
        first = _pictures(pictures, period)[0].mean(0).cpu().numpy()
        above.imshow(first, cmap="gray")
        above.set(title=f"{name}\nratio {found.ratio.value:.3g}", xticks=[], yticks=[])
        h, w = found.spectrum.shape
        shown = 10 * np.log10(found.spectrum.cpu().numpy() + 1e-12 * float(found.spectrum.max()))
        below.imshow(shown, cmap="magma", extent=(-0.5, 0.5, 0.5, -0.5), aspect="equal", vmin=shown.max() - 70)
        for u, v in _peaks((h, w), period):
            below.plot(*_centered(v / w, u / h), "o", markersize=11, markerfacecolor="none", markeredgecolor="c")
        below.set(xticks=[-0.5, 0, 0.5], yticks=[-0.5, 0, 0.5], xlim=(-0.54, 0.5), ylim=(0.5, -0.54))
        below.set_xlabel("cycles a pixel")
    return figure


def _check_counts(where: str, **counts: int) -> None:
    for name, value in counts.items():
        whole(f"{where}: {name}", value)


def _pictures(images: Any, period: int) -> Tensor:
    """(n, c, h, w) in float64, cut so that whole periods fit and each has its own bin."""
    whole("checkerboard: period", period, 2)
    found = torch.as_tensor(images).detach().double()
    found = found[:, None] if found.ndim == 3 else found
    if found.ndim != 4 or not len(found):
        raise InvalidInput(f"checkerboard: images have shape {tuple(found.shape)}; pictures are (n, c, h, w)")
    if min(found.shape[-2:]) < 8 * period:
        raise InvalidInput(
            f"checkerboard: pictures of {found.shape[-2]}x{found.shape[-1]} pixels are too small for a period of "
            f"{period}; sides of at least {8 * period} are needed"
        )
    if not bool(found.isfinite().all()):
        raise InvalidInput("checkerboard: images have NaN or infinite values; drop or fill them first")
    h, w = (side - side % period for side in found.shape[-2:])
    return found[..., :h, :w]


def _power(pictures: Tensor) -> Tensor:
    """Power at every frequency under a Hann window, summed over channels, (n, h, w)."""
    h, w = pictures.shape[-2:]
    rows, columns = (torch.hann_window(side, dtype=pictures.dtype, device=pictures.device) for side in (h, w))
    window = rows[:, None] * columns
    level = (pictures * window).sum((-2, -1), keepdim=True) / window.sum()
    scaled = (pictures - level) * window / window.square().sum().sqrt()
    return torch.fft.fft2(scaled).abs().square().sum(1)


def _peaks(size: tuple[int, ...], period: int) -> list[tuple[int, int]]:
    h, w = size
    return [(i * h // period, j * w // period) for i in range(period) for j in range(period) if i or j]


def _around(power: Tensor, u: int, v: int) -> Tensor:
    """Mean power of the bins from ``_NEAR`` to ``_FAR`` away, (n,)."""
    h, w = power.shape[-2:]
    reach = range(-_FAR, _FAR + 1)
    ring = [(du, dv) for du in reach for dv in reach if max(abs(du), abs(dv)) >= _NEAR]
    rows = torch.tensor([(u + du) % h for du, _ in ring], device=power.device)
    columns = torch.tensor([(v + dv) % w for _, dv in ring], device=power.device)
    return power[:, rows, columns].mean(1)


def _centered(*frequencies: float) -> tuple[float, ...]:
    """Frequencies from −1/2 up to 1/2."""
    return tuple(f - 1.0 if f >= 0.5 - 1e-9 else f for f in frequencies)
