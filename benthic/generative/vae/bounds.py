"""Bounds on the log-likelihood of rows under a latent-variable model, with their Monte-Carlo errors."""

from __future__ import annotations

import math
import re
from typing import Any

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.nets.noise import draw_normal
from benthic.samplers.annealing.importance import annealed_importance

ELBO_DRAWS = 16
IMPORTANCE_DRAWS = 64
AIS_TEMPERATURES = 100
_AIS_CHAINS, _AIS_PILOT = 8, 2  # chains a row that count, and that tune the step size
_BLOCK = 1 << 16  # rows times draws evaluated at once
_HOST_DRAWS = 1 << 24  # so many numbers are drawn on the CPU, the same for every device; more are drawn in place


def parse_method(method: str | None) -> tuple[str, int]:
    """The kind of bound, and the number of draws, or of temperatures for ``ais``.

    >>> parse_method("importance(5000)"), parse_method("elbo"), parse_method("ais(1000)")
    (('importance', 5000), ('elbo', 16), ('ais', 1000))
    """
    usual = {"elbo": ELBO_DRAWS, "importance": IMPORTANCE_DRAWS, "ais": AIS_TEMPERATURES}
    method = "importance" if method is None else method
    if method in usual:
        return method, usual[method]
    match = re.fullmatch(r"(importance|elbo|ais)\((\d+)\)", str(method))
    if match is None:
        raise InvalidInput(f"method {method!r} is unknown; use 'elbo' or 'importance(k)', or 'ais(temperatures)'")
    if int(match[2]) < 1:
        raise InvalidInput(f"method {method!r} asks for no draws; k must be at least 1")
    return match[1], int(match[2])


@torch.no_grad()
def bound(
    network: Any, x: Tensor, kind: str, draws: int, c: Tensor | None = None, *, common: bool = False
) -> tuple[Tensor, Tensor]:
    """Value and standard error of the bound on log p(x) of each row (n, width) in the units of the network.

    The draws are the same at every call, so that scores can be compared. common: whether all rows share their draws,
    so that the value of a row does not depend on the others. kind ``ais``: annealed importance sampling of the code
    from q(z|x) to p(z|x), in the coordinates of the noise that q is drawn from, with ``draws`` temperatures (Neal,
    2001; Wu et al., 2017). All three are lower bounds in expectation.
    """
    if kind == "ais":
        return _annealed(network, x, draws, c)
    sizes = max(1, _BLOCK // draws)
    noise = torch.Generator().manual_seed(0)
    if len(x) * draws * network.noise_dim > _HOST_DRAWS and not common:
        noise = torch.Generator(x.device).manual_seed(0)
    shared = draw_normal((draws, 1, network.noise_dim), x, noise) if common else None
    parts = []
    for start in range(0, len(x), sizes):
        rows = x[start : start + sizes]
        given = None if c is None else c[start : start + sizes]
        parts.append(_of_block(network, rows, kind, draws, given, noise, shared))
    value, stderr = (torch.cat(column) for column in zip(*parts, strict=True))
    return value, stderr


def _of_block(
    network: Any, x: Tensor, kind: str, draws: int, c: Tensor | None, noise: torch.Generator, shared: Tensor | None
) -> tuple[Tensor, Tensor]:
    total: list[Tensor] = []
    step = max(1, _BLOCK // max(len(x), 1))
    for start in range(0, draws, step):
        shape = (min(step, draws - start), len(x), network.noise_dim)
        eps = _normal(shape, x, noise) if shared is None else shared[start : start + step]
        total.append(network.log_ratio(x, eps, c, closed=kind == "elbo"))
    ratios = torch.cat(total)
    if kind == "elbo":
        return ratios.mean(0), _spread(ratios)
    value = torch.logsumexp(ratios, 0) - math.log(draws)
    # delta method: the relative error of the mean weight is the error of its logarithm
    return value, _spread(torch.exp(ratios - value))


def _annealed(network: Any, x: Tensor, temperatures: int, c: Tensor | None) -> tuple[Tensor, Tensor]:
    chains = _AIS_CHAINS + _AIS_PILOT
    parts = []
    for start in range(0, len(x), max(1, _BLOCK // chains)):
        rows = slice(start, start + max(1, _BLOCK // chains))
        stream = torch.Generator(x.device).manual_seed(start)
        noise = torch.Generator().manual_seed(start)
        begin = draw_normal((chains, len(x[rows]), network.noise_dim), x, noise)
        parts.append(_annealed_block(network, x[rows], None if c is None else c[rows], temperatures, begin, stream))
    value, stderr = (torch.cat(column) for column in zip(*parts, strict=True))
    return value, stderr


def _annealed_block(
    network: Any, x: Tensor, c: Tensor | None, temperatures: int, begin: Tensor, stream: torch.Generator
) -> tuple[Tensor, Tensor]:
    def log_start(noise: Tensor) -> Tensor:
        return -0.5 * (noise.square() + math.log(2 * math.pi)).sum(-1)

    def log_target(noise: Tensor) -> Tensor:
        found: Tensor = log_start(noise) + network.log_ratio(x, noise, c)
        return found

    found = annealed_importance(
        log_start, log_target, begin, temperatures=temperatures, pilot=_AIS_PILOT, generator=stream
    )
    return found.value, found.stderr


def _normal(shape: tuple[int, ...], like: Tensor, noise: torch.Generator) -> Tensor:
    if noise.device.type == "cpu":
        return draw_normal(shape, like, noise)
    return torch.randn(shape, generator=noise, dtype=like.dtype, device=like.device)


def _spread(values: Tensor) -> Tensor:
    """The standard error of the mean over the first dimension."""
    if len(values) == 1:
        return torch.zeros_like(values[0])
    return values.std(0) / math.sqrt(len(values))
