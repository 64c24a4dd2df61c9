"""Kernels by name, with first parameters taken from the data, and the noise that a kernel holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput, nearest
from benthic.kernels.covariance import Linear, LinearNetwork, White
from benthic.kernels.kernel import Kernel, Sum
from benthic.kernels.stationary import RBF, Laplace, Matern, Periodic, RationalQuadratic

Make = Callable[[Tensor], Kernel]

NAMES: dict[str, Make] = {
    "rbf": RBF,
    "matern": lambda scale: Matern(2.5, scale),
    "matern12": lambda scale: Matern(0.5, scale),
    "matern32": lambda scale: Matern(1.5, scale),
    "matern52": lambda scale: Matern(2.5, scale),
    "rational_quadratic": RationalQuadratic,
    "periodic": Periodic,
    "laplace": Laplace,
    "linear": Linear,
    "linear_network": lambda scale: LinearNetwork(),
}
_NOISE = 0.1  # share of the variance of the targets that the noise begins with


def kernel_of(setting: Any, X: Tensor, variance: float, *, ard: bool, noise: bool) -> Kernel:
    """The kernel of a setting: itself, or for a name a variance times the kernel plus noise, scaled to the data.

    X: (n, d). variance: of the targets. ard: a length scale for each column. noise: whether targets are noisy.
    """
    if isinstance(setting, Kernel):
        setting._check_columns(X)
        return setting
    name = "rbf" if setting is None else setting
    if not isinstance(name, str) or name not in NAMES:
        hint = nearest(name, NAMES) if isinstance(name, str) else ""
        raise InvalidInput(
            f"kernel is {setting!r}{hint}; use a kernel of benthic.kernels or one of {', '.join(map(repr, NAMES))}"
        )
    variance = variance if variance > 0 else 1.0
    kernel = variance * NAMES[name](_scales(X, ard))
    return kernel + White(_NOISE * variance) if noise else kernel


def _scales(X: Tensor, ard: bool) -> Tensor:
    """About the typical distance of two rows; with ``ard`` the spread of each column times the root of their number."""
    spread = X.std(0, correction=0) if len(X) > 1 else torch.ones_like(X[0])
    spread = torch.where(spread > 0, spread, torch.ones_like(spread)).double().cpu()
    scales: Tensor = spread * len(spread) ** 0.5 if ard else spread.square().sum().sqrt()
    return scales


def split_noise(kernel: Kernel) -> tuple[Kernel | None, Tensor]:
    """What is left of a sum without its White parts, and the sum of their variances."""
    parts = kernel.parts if isinstance(kernel, Sum) else (kernel,)
    noises = [part.variance for part in parts if type(part) is White]
    rest = [part for part in parts if type(part) is not White]
    total = torch.stack([noise.double() for noise in noises]).sum() if noises else torch.zeros((), dtype=torch.float64)
    if not rest:
        return None, total
    return (rest[0] if len(rest) == 1 else Sum(*rest)), total


def free_entries(kernel: Kernel, fixed: Any) -> Tensor:
    """Which entries of theta are learned, (p,) bool. fixed: True for none of them, or names of parameters."""
    names = [name for name, value in kernel.tensors() for _ in range(value.numel())]
    if fixed is True:
        return torch.zeros(len(names), dtype=torch.bool)
    wanted = tuple([] if fixed is None or fixed is False else fixed)
    for name in wanted:
        if name not in names:
            known = ", ".join(dict.fromkeys(names)) + nearest(str(name), names)
            raise InvalidInput(f"fixed names {name!r}, which the kernel {kernel!r} does not have; it has {known}")
    return torch.tensor([name not in wanted for name in names], dtype=torch.bool)
