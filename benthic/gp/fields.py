"""Gaussian random fields on a grid of the plane."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.base.seeds import generator as stream
from benthic.base.seeds import seed_of
from benthic.base.settings import is_whole, whole
from benthic.gp.factor import leaves
from benthic.gp.posterior import spd_root
from benthic.kernels.covariance import Constant, White
from benthic.kernels.kernel import Kernel
from benthic.kernels.stationary import RBF, Laplace, Matern, RationalQuadratic

_STATIONARY = (RBF, Matern, RationalQuadratic, Laplace, Constant, White)
_METHODS = ("auto", "circulant", "cholesky")
_SLACK = 1e-9  # negative eigenvalues up to this share of the largest count as rounding
_LARGEST = 1 << 22  # points of the largest torus that is tried, or four times the smallest
_TOGETHER = 1 << 20  # points of tori transformed at once
_DENSE = 6000  # points of a grid up to which a dense factor is made without being asked for


def random_field(
    kernel: Kernel,
    shape: tuple[int, int],
    n: int = 1,
    *,
    spacing: float | tuple[float, float] = 1.0,
    method: str = "auto",
    seed: Any = None,
    device: torch.device | str = "cpu",
) -> Tensor:
    r"""Draws of a Gaussian random field with mean zero at the points of a grid.

    .. math:: \operatorname{Cov}\bigl(f(x), f(x')\bigr) = k(x, x'), \qquad x = (i\, s_1, j\, s_2)

    For stationary kernels the covariance of the grid is a corner of a block-circulant matrix of a torus, whose spectrum
    one fast Fourier transform gives (Dietrich & Newsam, 1997; Wood & Chan, 1994): exact, at little more than the
    cost of the noise. The torus grows until no eigenvalue is negative. Other kernels take a dense Cholesky factor.

    kernel: of ``benthic.kernels``. shape: (h, w). n: fields. spacing: distance of neighbors along both axes.
    method: ``"circulant"``, ``"cholesky"`` or ``"auto"``. seed: decides the draw. Returns (n, h, w), float64.

    >>> from benthic.kernels import RBF
    >>> random_field(RBF(5.0), (32, 48), 3, seed=0).shape
    torch.Size([3, 32, 48])
    """
    h, w, steps = _checked(kernel, shape, n, spacing, method)
    draws = stream(seed_of(seed), "field", device=device)
    stationary = all(isinstance(leaf, _STATIONARY) for leaf in leaves(kernel))
    if method == "circulant" and not stationary:
        raise InvalidInput(f"random_field: {kernel!r} is not stationary on a grid; use method='cholesky'")
    if method != "cholesky" and stationary:
        spectrum = _spectrum(kernel, h, w, steps, device)
        if spectrum is not None:
            return _from_torus(spectrum, h, w, n, draws)
        if method == "circulant" or h * w > _DENSE:
            raise InvalidInput(
                f"random_field: no torus of a few million points has a positive definite covariance for {kernel!r}; "
                "its length is too long for the grid: use a shorter one, a coarser grid, or method='cholesky'"
            )
    elif method == "auto" and h * w > _DENSE:
        raise InvalidInput(
            f"random_field: {h} x {w} points with a kernel that is not stationary need a dense factor of "
            f"{8 * (h * w) ** 2 / 2**30:.1f} GiB; use fewer points, or say method='cholesky'"
        )
    return _dense(kernel, h, w, steps, n, draws)


def _checked(kernel: Any, shape: Any, n: Any, spacing: Any, method: str) -> tuple[int, int, tuple[float, float]]:
    if not isinstance(kernel, Kernel):
        raise InvalidInput(f"random_field: kernel is {kernel!r}; use one of benthic.kernels, for example RBF(5.0)")
    if len(tuple(shape)) != 2 or not all(is_whole(side, 1) for side in shape):
        raise InvalidInput(f"random_field: shape is {shape!r}; it must be two whole numbers, (h, w)")
    whole("random_field: n", n)
    steps = (float(spacing),) * 2 if not hasattr(spacing, "__len__") else tuple(float(step) for step in spacing)
    if len(steps) != 2 or not all(step > 0 and math.isfinite(step) for step in steps):
        raise InvalidInput(f"random_field: spacing is {spacing!r}; it must be a positive number, or two")
    if method not in _METHODS:
        raise InvalidInput(f"random_field: method is {method!r}; use {', '.join(map(repr, _METHODS))}")
    return shape[0], shape[1], (steps[0], steps[1])


def _spectrum(kernel: Kernel, h: int, w: int, steps: tuple[float, float], device: Any) -> Tensor | None:
    """Eigenvalues of the covariance of the smallest torus that has no negative ones, (H, W); None if none is found."""
    H, W = _even(2 * h - 2), _even(2 * w - 2)
    largest = max(_LARGEST, 4 * H * W)
    while largest >= H * W:
        first = torch.fft.fftfreq(H, 1.0 / H, dtype=torch.float64, device=device) * steps[0]
        second = torch.fft.fftfreq(W, 1.0 / W, dtype=torch.float64, device=device) * steps[1]
        lags = torch.stack(torch.meshgrid(first, second, indexing="ij"), -1).reshape(-1, 2)
        row = kernel._matrix(torch.zeros_like(lags[:1]), lags, 0)[0].reshape(H, W)
        values: Tensor = torch.fft.fft2(row).real
        if float(values.min()) >= -_SLACK * float(values.max()):
            return values.clamp_(min=0)
        H, W = (2 * H, W) if H * steps[0] <= W * steps[1] else (H, 2 * W)
    return None


def _even(size: int) -> int:
    """The next number of at least ``size`` that is twice a product of small primes."""
    size = max(size, 2)
    while True:
        rest = size
        for prime in (2, 3, 5):
            while rest % prime == 0:
                rest //= prime
        if rest == 1 and size % 2 == 0:
            return size
        size += 1


def _from_torus(spectrum: Tensor, h: int, w: int, n: int, draws: torch.Generator) -> Tensor:
    """Real and imaginary parts of each transform are two independent fields."""
    H, W = spectrum.shape
    options: dict[str, Any] = {"generator": draws, "dtype": torch.float64, "device": spectrum.device}
    root = (spectrum / (H * W)).sqrt()
    together = max(1, _TOGETHER // (H * W))
    fields: list[Tensor] = []
    for first in range(0, n, 2 * together):
        pairs = min(together, (n - first + 1) // 2)
        noise = torch.complex(torch.randn(pairs, H, W, **options), torch.randn(pairs, H, W, **options))
        made = torch.fft.fft2(root * noise)[:, :h, :w]
        fields += [made.real, made.imag]
    return torch.cat(fields)[:n].clone()


def _dense(kernel: Kernel, h: int, w: int, steps: tuple[float, float], n: int, draws: torch.Generator) -> Tensor:
    device = draws.device
    axes = [
        torch.arange(size, dtype=torch.float64, device=device) * step for size, step in zip((h, w), steps, strict=True)
    ]
    points = torch.stack(torch.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 2)
    noise = torch.randn(h * w, n, generator=draws, dtype=torch.float64, device=device)
    return (spd_root(kernel(points)) @ noise).T.reshape(n, h, w)
