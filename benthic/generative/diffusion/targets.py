r"""What a network may predict, and how one answer becomes another without loss.

With :math:`x = \alpha x_0 + \sigma \epsilon` any two of x, x₀, ε fix the third, and with them

.. math:: v = \alpha \epsilon - \sigma x_0, \qquad u = \alpha' x_0 + \sigma' \epsilon, \qquad s = -\epsilon / \sigma
"""

from __future__ import annotations

from functools import cache
from typing import Protocol, cast

from torch import Tensor

from benthic.base.errors import InvalidInput, nearest
from benthic.generative.diffusion.process import Process, Time, expand_like

TARGETS = ("noise", "data", "velocity", "score", "flow")
# What a network may answer in: the above, or with a preconditioner around it, or the two parts of a Poisson field.
NETWORK_TARGETS = (*TARGETS, "edm", "field")


class TellsNoise(Protocol):
    """A process whose noise has heavy tails, so that a point tells how much of it there is."""

    def likely_noise(self, x: Tensor, t: Time, sigma_data: float) -> Tensor:
        """The likely standard deviation (n,) of the noise in points."""
        ...


def convert(process: Process, value: Tensor, x: Tensor, t: Time, source: str, target: str) -> Tensor:
    r"""One prediction as another.

    ``noise`` ε, ``data`` x₀, ``velocity`` v (Salimans & Ho, 2022), ``score`` ∇ log p (Tweedie: Efron, 2011) and
    ``flow`` u = dx/dt (Lipman et al., 2023). value, x: (n, \*event). t: one time, or (n,).

    >>> import torch
    >>> from benthic.generative.diffusion import StraightPath
    >>> x0, noise = torch.randn(2, 3, dtype=torch.float64), torch.randn(2, 3, dtype=torch.float64)
    >>> x = StraightPath().mix(x0, noise, 0.3)
    >>> torch.allclose(convert(StraightPath(), noise - x0, x, 0.3, "flow", "data"), x0)
    True
    """
    for name in (source, target):
        if name not in TARGETS:
            raise InvalidInput(f"convert: {name!r} is no target{nearest(str(name), TARGETS)}; use {', '.join(TARGETS)}")
    if source == target:
        return value
    if {source, target} == {"noise", "score"}:
        sigma = expand_like(process.sigma(t), x)
        return -value / sigma if target == "score" else -sigma * value
    x0, noise = parts(process, value, x, t, source)
    return assemble(process, x0, noise, t, target)


def parts(process: Process, value: Tensor, x: Tensor, t: Time, source: str) -> tuple[Tensor, Tensor]:
    """Data and noise in x according to one prediction."""
    alpha, sigma = expand_like(process.alpha(t), x), expand_like(process.sigma(t), x)
    if source == "data":
        return value, (x - alpha * value) / sigma
    if source == "noise":
        return (x - sigma * value) / alpha, value
    if source == "score":
        return (x + sigma * sigma * value) / alpha, -sigma * value
    if source == "velocity":
        total = alpha * alpha + sigma * sigma
        return (alpha * x - sigma * value) / total, (sigma * x + alpha * value) / total
    falls, rises = expand_like(process.alpha_rate(t), x), expand_like(process.sigma_rate(t), x)
    total = alpha * rises - sigma * falls
    return (rises * x - sigma * value) / total, (alpha * value - falls * x) / total


def assemble(process: Process, x0: Tensor, noise: Tensor, t: Time, target: str) -> Tensor:
    """The prediction that data and noise, both (n, ...), amount to: what a network of that target has to learn."""
    if target == "data":
        return x0
    if target == "noise":
        return noise
    if target == "flow":
        return process.velocity(x0, noise, t)
    alpha, sigma = expand_like(process.alpha(t), x0), expand_like(process.sigma(t), x0)
    return -noise / sigma if target == "score" else alpha * noise - sigma * x0


def preconditioner(
    process: Process, t: Time, sigma_data: float, x: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    r"""The factors of a preconditioned network F, for which inputs and answers have unit variance.

    .. math:: \hat x_0 = c_{skip}\, x / \alpha + c_{out}\, F(c_{in}\, x / \alpha), \quad
        c_{skip} = \frac{s^2}{\tilde\sigma^2 + s^2}, \quad c_{out} = \frac{\tilde\sigma s}{\sqrt{\tilde\sigma^2 + s^2}},
        \quad c_{in} = \frac{1}{\sqrt{\tilde\sigma^2 + s^2}}

    with :math:`\tilde\sigma = \sigma / \alpha` and s = sigma_data, the standard deviation of the data. Karras et al.,
    2022, table 1. Returns (skip, out, in) as factors of x itself, that is with the 1/α taken in; they stay finite where
    α is zero. x: noisy points (n, \*event), from which a process whose noise has heavy tails tells how much of it
    there is in each.
    """
    alpha, sigma = process.alpha(t), process.sigma(t)
    if x is not None and _tells_noise(type(process)):
        sigma = cast(TellsNoise, process).likely_noise(x, t, sigma_data)
    total = sigma * sigma + alpha * alpha * sigma_data**2
    root = total.sqrt()
    return alpha * sigma_data**2 / total, sigma * sigma_data / root, 1 / root


@cache
def _tells_noise(kind: type[Process]) -> bool:
    return hasattr(kind, "likely_noise")


def network_target(
    process: Process, x0: Tensor, noise: Tensor, t: Time, target: str, sigma_data: float = 0.5
) -> Tensor:
    """What a network of a ``Denoiser`` with this target has to answer, from data and noise (n, ...)."""
    if target != "edm":
        return assemble(process, x0, noise, t, target)
    x = process.mix(x0, noise, t)
    skip, out, _ = (expand_like(c, x0) for c in preconditioner(process, t, sigma_data, x))
    return (x0 - skip * x) / out
