"""Information in tables of probabilities: exact, batched, differentiable, with zeros treated as limits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benthic.base.arrays import from_numpy
from benthic.base.errors import InvalidInput


def as_tensor(values: Any) -> Tensor:
    """A tensor as it is, or one of anything array-like, where Python's floats are float64."""
    return values if isinstance(values, Tensor) else from_numpy(np.asarray(values))


def as_float_tensor(values: Any) -> Tensor:
    """A floating tensor of anything array-like; whatever is neither float32 nor float64 becomes float64."""
    tensor = as_tensor(values)
    return tensor if tensor.dtype in (torch.float32, torch.float64) else tensor.to(torch.float64)


def probabilities(values: Any, where: str, name: str = "p", variables: int = 1) -> Tensor:
    """``values`` as probabilities over the last ``variables`` dimensions, or one clear sentence.

    They must be finite, not negative, and sum to one within the square root of the type's precision.

    >>> probabilities([0.25, 0.75], "entropy")
    tensor([0.2500, 0.7500], dtype=torch.float64)
    """
    p = as_float_tensor(values)
    if p.ndim < variables or not p.numel():
        raise InvalidInput(
            f"{where}: {name} has shape {tuple(p.shape)}; probabilities over {variables} dimension(s) are needed"
        )
    if not bool(torch.isfinite(p).all()) or bool((p < 0).any()):
        raise InvalidInput(
            f"{where}: {name} has negative or non-finite entries; probabilities are needed, "
            "and samples are wrapped in Samples(x)"
        )
    total = p.detach().sum(tuple(range(-variables, 0)))
    worst = total.flatten()[(total - 1).abs().argmax()]
    if float((worst - 1).abs()) > math.sqrt(torch.finfo(p.dtype).eps):
        raise InvalidInput(
            f"{where}: {name} sums to {float(worst):.6g} instead of 1; divide it by its sum, "
            "or wrap samples in Samples(x)"
        )
    return p


def pair(p: Any, q: Any, where: str) -> tuple[Tensor, Tensor]:
    """Two probability arrays over the same number of outcomes, in the wider of their types."""
    p, q = probabilities(p, where, "p"), probabilities(q, where, "q")
    if p.shape[-1] != q.shape[-1]:
        raise InvalidInput(f"{where}: p has {p.shape[-1]} outcomes and q has {q.shape[-1]}; they must be the same")
    dtype = torch.promote_types(p.dtype, q.dtype)
    return p.to(dtype), q.to(dtype)


def entropy(p: Tensor) -> Tensor:
    """H(p) = −Σ p log p over the last dimension, with 0 log 0 = 0 and no gradient through zeros."""
    return -(p * _log_where(p > 0, p)).sum(-1)


def cross_entropy(p: Tensor, q: Tensor) -> Tensor:
    """H(p, q) = −Σ p log q over the last dimension; infinite where q forbids what p allows."""
    return _unless_forbidden(p, q, -(p * _log_where((p > 0) & (q > 0), q)).sum(-1))


def kl(p: Tensor, q: Tensor) -> Tensor:
    """KL(p‖q) = Σ p log p/q over the last dimension; infinite where q forbids what p allows."""
    both = (p > 0) & (q > 0)
    # term by term: a difference of two sums would lose nearly equal p and q
    return _unless_forbidden(p, q, (p * (_log_where(both, p) - _log_where(both, q))).sum(-1))


def js(p: Tensor, q: Tensor) -> Tensor:
    """Half of KL(p‖m) plus half of KL(q‖m), m the mean of p and q; from 0 to log 2."""
    middle = 0.5 * (p + q)
    return 0.5 * (kl(p, middle) + kl(q, middle))


def total_variation(p: Tensor, q: Tensor) -> Tensor:
    """Half of Σ|p − q|."""
    return 0.5 * (p - q).abs().sum(-1)


def hellinger(p: Tensor, q: Tensor) -> Tensor:
    """The Euclidean distance of √p and √q, divided by √2."""
    gap = _root(p) - _root(q)
    return _root(0.5 * gap.square().sum(-1))


def mutual_information(table: Tensor) -> Tensor:
    """I(X;Y) = KL of a joint table (..., K, L) from the product of its margins."""
    product = table.sum(-1, keepdim=True) * table.sum(-2, keepdim=True)
    return kl(table.flatten(-2), product.flatten(-2))


def conditional_entropy(table: Tensor) -> Tensor:
    """H(X|Y) = Σ_y p(y) H(X|Y=y) for a joint table (..., K, L) of X in rows and Y in columns."""
    margin = table.sum(-2, keepdim=True)
    return -(table * (_log_where(table > 0, table) - _log_where(table > 0, margin))).sum((-2, -1))


def _log_where(mask: Tensor, values: Tensor) -> Tensor:
    """The logarithm of ``values`` under a mask, and 0, without a gradient, elsewhere."""
    return torch.where(mask, values, 1.0).log()


def _unless_forbidden(p: Tensor, q: Tensor, value: Tensor) -> Tensor:
    return torch.where(((p > 0) & (q == 0)).any(-1), math.inf, value)


def _root(values: Tensor) -> Tensor:
    """The square root, with gradient 0 instead of ∞ at 0."""
    positive = values > 0
    return torch.where(positive, torch.where(positive, values, 1.0).sqrt(), 0.0)
