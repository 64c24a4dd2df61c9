"""Image operators: low- and high-pass filters, blur, edges, sharpening.

All take (h, w), (c, h, w) or (n, c, h, w) and act on each picture alone; all are linear or nearly so, and gradients
flow through them. At the border a picture is continued by its mirror image, so that no edge appears there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from benthic.base.errors import InvalidInput, nearest
from benthic.linalg.checks import floating, number
from benthic.linalg.convolution import correlate

_FILTERS = ("ideal", "gaussian", "butterworth")
_BOUNDARIES = ("mirror", "wrap")
_KERNELS = {
    "sobel": ((-1, 0, 1), (1, 2, 1)),
    "prewitt": ((-1, 0, 1), (1, 1, 1)),
    "scharr": ((-1, 0, 1), (3, 10, 3)),
}
_LAPLACIANS = {
    "laplacian": ((0, 1, 0), (1, -4, 1), (0, 1, 0)),
    "laplacian8": ((1, 1, 1), (1, -8, 1), (1, 1, 1)),
}


def picture(image: Any, where: str, name: str = "image") -> torch.Tensor:
    """The value as a float tensor of shape (h, w), (c, h, w) or (n, c, h, w)."""
    image = floating(image, where, name)
    if not 2 <= image.ndim <= 4 or 0 in image.shape:
        raise InvalidInput(f"{where}: {name} has shape {tuple(image.shape)}; give (h, w), (c, h, w) or (n, c, h, w)")
    return image


def _positive(value: Any, where: str, name: str) -> float:
    return number(value, where, name, lambda v: 0 < v < math.inf, "a positive number")


def _one_of(value: Any, choices: Any, where: str, name: str) -> str:
    if value not in choices:
        raise InvalidInput(
            f"{where}: {name} is {value!r}{nearest(str(value), choices)}; it is one of {', '.join(choices)}"
        )
    return str(value)


# ---------------------------------------------------------------------------------------------- by frequency


def transfer_function(
    size: tuple[int, int],
    cutoff: float,
    kind: str = "butterworth",
    order: float = 2,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str = "cpu",
) -> torch.Tensor:
    r"""What a low-pass filter multiplies each frequency by.

    .. math::
        H_{\text{ideal}} = [r \le c], \quad H_{\text{Gauss}} = e^{-r^2 / 2 c^2}, \quad
        H_{\text{Butterworth}} = \frac{1}{1 + (r / c)^{2 n}}, \quad r = \sqrt{f_y^2 + f_x^2}

    Butterworth, 1930, in the squared form usual for images (1/2 at the cutoff). Frequencies are in cycles a pixel,
    from 0 to 1/2 in each direction.

    size: (h, w). cutoff: c > 0. kind: "ideal", "gaussian" or "butterworth". order: n > 0 of the Butterworth filter;
    larger is steeper. Returns (h, w // 2 + 1), the half that ``torch.fft.rfft2`` keeps.

    >>> transfer_function((4, 4), 0.25, order=2)[:, 0]
    tensor([1.0000, 0.5000, 0.0588, 0.5000], dtype=torch.float64)
    """
    where = "transfer_function"
    c, n = _positive(cutoff, where, "cutoff"), _positive(order, where, "order")
    _one_of(kind, _FILTERS, where, "kind")
    if not isinstance(size, Sequence) or len(size) != 2 or min(size) < 1:
        raise InvalidInput(f"{where}: size is {size!r}; give (h, w)")
    fy = torch.fft.fftfreq(size[0], dtype=dtype, device=device)[:, None]
    fx = torch.fft.rfftfreq(size[1], dtype=dtype, device=device)[None, :]
    r = (fy.square() + fx.square()).sqrt() / c
    if kind == "ideal":
        return (r <= 1).to(dtype)
    return torch.exp(-r.square() / 2) if kind == "gaussian" else 1 / (1 + r ** (2 * n))


def _filtered(image: Any, cutoff: float, kind: str, order: float, boundary: str, where: str) -> Any:
    image = picture(image, where)
    _one_of(boundary, _BOUNDARIES, where, "boundary")
    h, w = image.shape[-2:]
    wide = image
    if boundary == "mirror":
        wide = torch.cat([wide, wide.flip(-1)], -1)
        wide = torch.cat([wide, wide.flip(-2)], -2)
    size = tuple(wide.shape[-2:])
    response = transfer_function(size, cutoff, kind, order, image.dtype, image.device)
    low = torch.fft.irfft2(torch.fft.rfft2(wide) * response, s=size)
    return image, low[..., :h, :w]


def low_pass(
    image: Any, cutoff: float, kind: str = "butterworth", order: float = 2, boundary: str = "mirror"
) -> torch.Tensor:
    r"""The image without its high frequencies: smoother.

    .. math:: \mathcal{F}^{-1}(H \cdot \mathcal{F} x)

    image: (h, w), (c, h, w) or (n, c, h, w). cutoff, kind, order: of the :func:`transfer_function`.
    boundary: "mirror", or "wrap" for pictures that repeat. Returns an image of the same shape.

    >>> low_pass(torch.ones(4, 4), 0.1).mean()
    tensor(1.)
    """
    return _filtered(image, cutoff, kind, order, boundary, "low_pass")[1]


def high_pass(
    image: Any, cutoff: float, kind: str = "butterworth", order: float = 2, boundary: str = "mirror"
) -> torch.Tensor:
    r"""What :func:`low_pass` takes away: edges and fine detail, of mean near zero.

    .. math:: \mathcal{F}^{-1}((1 - H) \cdot \mathcal{F} x)

    Arguments as in :func:`low_pass`; the two add up to the image.

    >>> high_pass(torch.ones(4, 4), 0.1).abs().max()
    tensor(0.)
    """
    image, low = _filtered(image, cutoff, kind, order, boundary, "high_pass")
    return image - low


# ---------------------------------------------------------------------------------------------- by neighborhood


def _mirrored(image: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    """The image continued by its mirror image on all sides (d c b a | a b c d | d c b a)."""
    for axis, reach in ((-2, rows), (-1, columns)):
        n = image.shape[axis]
        places = torch.arange(-reach, n + reach, device=image.device) % (2 * n)
        image = image.index_select(axis, torch.where(places < n, places, 2 * n - 1 - places))
    return image


def _slide(image: torch.Tensor, kernel: torch.Tensor) -> torch.Tensor:
    """Correlation with a kernel of odd size, to the size of the image."""
    return correlate(_mirrored(image, kernel.shape[0] // 2, kernel.shape[1] // 2), kernel)


def gaussian_blur(image: Any, sigma: float, truncate: float = 4.0) -> torch.Tensor:
    r"""The image averaged with Gaussian weights, one direction after the other.

    .. math:: w[i] \propto e^{-i^2 / 2 \sigma^2}, \quad |i| \le \text{truncate} \cdot \sigma

    image: (h, w), (c, h, w) or (n, c, h, w). sigma: standard deviation in pixels. truncate: where the kernel ends.

    >>> gaussian_blur(torch.eye(3), 0.5).sum()
    tensor(3.)
    """
    image = picture(image, "gaussian_blur")
    s = _positive(sigma, "gaussian_blur", "sigma")
    reach = int(_positive(truncate, "gaussian_blur", "truncate") * s + 0.5)
    i = torch.arange(-reach, reach + 1, dtype=image.dtype, device=image.device)
    w = torch.exp(-0.5 * (i / s).square())
    w = w / w.sum()
    return _slide(_slide(image, w[:, None]), w[None, :])


def edge_kernel(name: str) -> torch.Tensor:
    """The kernel of an edge detector, to be used with correlation.

    name: "sobel", "prewitt" or "scharr" give (2, 3, 3), the derivative down the rows and along the columns, summed,
    not averaged, over the neighborhood; "laplacian" and "laplacian8" give (3, 3). Float64.

    >>> edge_kernel("sobel")[1]
    tensor([[-1.,  0.,  1.],
            [-2.,  0.,  2.],
            [-1.,  0.,  1.]], dtype=torch.float64)
    """
    _one_of(name, [*_KERNELS, *_LAPLACIANS], "edge_kernel", "name")
    if name in _LAPLACIANS:
        return torch.tensor(_LAPLACIANS[name], dtype=torch.float64)
    derivative, smooth = (torch.tensor(values, dtype=torch.float64) for values in _KERNELS[name])
    return torch.stack([torch.outer(derivative, smooth), torch.outer(smooth, derivative)])


def image_gradient(image: Any, kernel: str = "sobel") -> torch.Tensor:
    r"""The slope of an image in both directions.

    .. math:: (g_y, g_x) = (x \star K_y,\ x \star K_x)

    image: (h, w), (c, h, w) or (n, c, h, w). kernel: "sobel", "prewitt" or "scharr" (normalized: a slope of one a
    pixel gives one). Returns (..., 2, h, w): down the rows, then along the columns.

    >>> image_gradient(torch.arange(9.0).reshape(3, 3))[:, 1, 1]
    tensor([3., 1.])
    """
    image = picture(image, "image_gradient")
    _one_of(kernel, _KERNELS, "image_gradient", "kernel")
    both = (edge_kernel(kernel) / (2 * sum(_KERNELS[kernel][1]))).to(image)
    return torch.stack([_slide(image, both[0]), _slide(image, both[1])], -3)


def edges(image: Any, kernel: str = "sobel") -> torch.Tensor:
    r"""How steep an image is at each pixel: large along edges.

    .. math:: \sqrt{g_y^2 + g_x^2}

    Arguments as in :func:`image_gradient`. Returns an image of the same shape.

    >>> edges(torch.arange(9.0).reshape(3, 3))[1, 1].square()
    tensor(10.0000)
    """
    return torch.linalg.vector_norm(image_gradient(image, kernel), dim=-3)


def image_laplacian(image: Any, neighbors: int = 4) -> torch.Tensor:
    """The sum of differences to the neighbors: zero on slopes, large at corners and thin lines.

    image: (h, w), (c, h, w) or (n, c, h, w). neighbors: 4, or 8 with the diagonal ones.

    >>> image_laplacian(torch.tensor([[0.0, 0, 0], [0, 1, 0], [0, 0, 0]]))[1, 1]
    tensor(-4.)
    """
    image = picture(image, "image_laplacian")
    if neighbors not in (4, 8):
        raise InvalidInput(f"image_laplacian: neighbors is {neighbors!r}; it is 4 or 8")
    return _slide(image, edge_kernel("laplacian" if neighbors == 4 else "laplacian8").to(image))


def sharpen(image: Any, amount: float = 1.0, sigma: float | None = None) -> torch.Tensor:
    r"""The image with its fine detail made stronger.

    .. math:: x - a\, \Delta x \quad \text{or, with a width,} \quad x + a\,(x - G_\sigma x)

    The first is the classical sharpening kernel (5 in the middle and -1 at the four neighbors for a = 1), the second
    an unsharp mask. Values may leave the range of the image; clamp them if it has one.

    image: (h, w), (c, h, w) or (n, c, h, w). amount: a, zero or more. sigma: width of the unsharp mask in pixels.

    >>> sharpen(torch.tensor([[0.0, 0, 0], [0, 1, 0], [0, 0, 0]]))
    tensor([[ 0., -1.,  0.],
            [-1.,  5., -1.],
            [ 0., -1.,  0.]])
    """
    image = picture(image, "sharpen")
    number(amount, "sharpen", "amount", lambda v: 0 <= v < math.inf, "zero or a positive number")
    if sigma is None:
        return image - amount * image_laplacian(image)
    return image + amount * (image - gaussian_blur(image, _positive(sigma, "sharpen", "sigma")))
