"""From weighted draws to equal ones: multinomial, stratified, systematic and residual resampling."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput, nearest
from benthic.samplers.direct.inversion import uniform_source
from benthic.samplers.direct.pareto import check_log_weights

METHODS = ("multinomial", "stratified", "systematic", "residual")


def resample(
    log_weights: Any,
    n: int | None = None,
    method: str = "systematic",
    *,
    seed: int | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    r"""Places of draws, each drawn as often as its weight says on average.

    .. math:: E\,\#\{j : i_j = i\} = n w_i

    Multinomial places are independent. Stratified ones use one uniform number in each of n equal parts of
    [0, 1], systematic ones the same number in all parts (Kitagawa, 1996), residual ones take
    :math:`\lfloor n w_i \rfloor` copies and draw only the rest (Liu & Chen, 1998). The variance falls in the order
    multinomial, residual, stratified (Douc, Cappé & Moulines, 2005); systematic is cheapest and usually lowest.

    log_weights: (..., m), up to a constant. n: how many, by default m. Returns (..., n) whole numbers below m.

    >>> resample(torch.tensor([0.5, 0.25, 0.25]).log(), 4, seed=0)
    tensor([0, 0, 1, 2])
    """
    raw = check_log_weights(log_weights, "resample")
    count = raw.shape[-1] if n is None else n
    if count < 1:
        raise InvalidInput(f"resample: n is {n}; at least one draw is needed")
    if method not in METHODS:
        raise InvalidInput(
            f"resample: method is {method!r}{nearest(str(method), METHODS)}; it is one of {', '.join(METHODS)}"
        )
    source = uniform_source("resample", seed, generator, raw.device)
    weights = torch.softmax(raw.detach().double(), -1)
    if method == "residual":
        return _residual(weights, count, source)
    return _places(weights, _levels(weights, count, method, source))


def _levels(weights: Tensor, n: int, method: str, source: torch.Generator) -> Tensor:
    """Ascending or independent uniform numbers, (..., n)."""
    lead = weights.shape[:-1]
    one = method == "systematic"
    u = torch.rand(*lead, 1 if one else n, generator=source, dtype=weights.dtype, device=source.device)
    u = u.to(weights.device)
    if method == "multinomial":
        return u
    return (torch.arange(n, dtype=weights.dtype, device=weights.device) + u) / n


def _places(weights: Tensor, levels: Tensor) -> Tensor:
    """Where the cumulative weight passes each level."""
    total = weights.cumsum(-1)
    places = torch.searchsorted(total, levels.contiguous() * total[..., -1:], right=True)
    # a level rounded to the very end must not choose a weight of zero
    last = (weights > 0).to(torch.int64).cumsum(-1).argmax(-1, keepdim=True)
    return torch.minimum(places, last)


def _residual(weights: Tensor, n: int, source: torch.Generator) -> Tensor:
    scaled = n * weights
    # n w that is whole but for rounding counts as whole
    copies = torch.where((scaled - scaled.round()).abs() < 1e-9, scaled.round(), scaled.floor())
    rest = (scaled - copies).clamp(min=0)
    fixed = copies.sum(-1, keepdim=True)  # (..., 1)
    slots = torch.arange(n, dtype=weights.dtype, device=weights.device).expand(*weights.shape[:-1], n).contiguous()
    sure = torch.searchsorted(copies.cumsum(-1), slots, right=True)
    spare = torch.where(rest.sum(-1, keepdim=True) > 0, rest, weights)
    free = _places(spare / spare.sum(-1, keepdim=True), _levels(weights, n, "multinomial", source))
    return torch.where(slots < fixed, sure.clamp(max=weights.shape[-1] - 1), free)
