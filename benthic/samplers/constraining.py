"""From all of space to the set a parameter lives in: bijections, beyond those torch registers."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.distributions import biject_to, constraints
from torch.distributions.transforms import ExpTransform, Transform, identity_transform

from benthic.base.errors import InvalidInput


class TriangleTransform(Transform):
    r"""A vector to a lower triangular matrix with positive diagonal (exponentials of the last d entries).

    >>> TriangleTransform()(torch.zeros(3))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain = constraints.real_vector
    codomain = constraints.lower_cholesky
    bijective = True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TriangleTransform)

    def __hash__(self) -> int:
        return hash(type(self))

    def _call(self, x: Tensor) -> Tensor:
        d = _side(x.shape[-1])
        below = torch.tril_indices(d, d, -1, device=x.device)
        strict = x.new_zeros((*x.shape[:-1], d, d))
        strict[..., below[0], below[1]] = x[..., :-d]
        return strict + torch.diag_embed(x[..., -d:].exp())

    def _inverse(self, y: Tensor) -> Tensor:
        d = y.shape[-1]
        below = torch.tril_indices(d, d, -1, device=y.device)
        return torch.cat([y[..., below[0], below[1]], y.diagonal(dim1=-2, dim2=-1).log()], -1)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """The sum of the log diagonal."""
        return x[..., -y.shape[-1] :].sum(-1)

    def forward_shape(self, shape: Any) -> torch.Size:
        """(..., d (d + 1) / 2) to (..., d, d)."""
        d = _side(shape[-1])
        return torch.Size((*shape[:-1], d, d))

    def inverse_shape(self, shape: Any) -> torch.Size:
        """(..., d, d) to (..., d (d + 1) / 2)."""
        return torch.Size((*shape[:-2], shape[-1] * (shape[-1] + 1) // 2))


class GramTransform(TriangleTransform):
    r"""A vector to a positive definite matrix, :math:`L L^\top` of the triangle above.

    The volume is measured on the lower half of the matrix, as densities of Wishart laws are.
    """

    codomain = constraints.positive_definite

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GramTransform)

    def __hash__(self) -> int:
        return hash(type(self))

    def _call(self, x: Tensor) -> Tensor:
        lower = super()._call(x)
        return lower @ lower.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return super()._inverse(torch.linalg.cholesky(y))

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Of the triangle, and of its product: 2^d times the product of diagonal i to the power d - i."""
        d = y.shape[-1]
        powers = torch.arange(d, 0, -1, device=x.device, dtype=x.dtype) + 1  # + 1 is the exponential's own
        return (x[..., -d:] * powers).sum(-1) + d * math.log(2)


def _side(entries: int) -> int:
    """The d with d (d + 1) / 2 entries."""
    return (math.isqrt(8 * entries + 1) - 1) // 2


def bijection(wanted: Any, name: str) -> Transform:
    """The bijection from all of space for a constraint; a transform is taken as it is, None is no constraint."""
    if wanted is None:
        return identity_transform
    if isinstance(wanted, Transform):
        if not wanted.bijective:
            raise InvalidInput(f"Target: the transform of {name!r} is not a bijection; a density cannot follow it")
        return wanted
    if not isinstance(wanted, constraints.Constraint):
        raise InvalidInput(
            f"Target: the constraint of {name!r} is {wanted!r}; give one of torch.distributions.constraints "
            "(positive, interval(0, 1), simplex, ...), a Transform or None"
        )
    if wanted.is_discrete:
        raise InvalidInput(
            f"Target: {name!r} is discrete; sum it out of the density, or sample it with Gibbs or Metropolis"
        )
    if wanted is constraints.lower_cholesky:
        return TriangleTransform()
    if wanted is constraints.positive_definite:
        return GramTransform()
    if wanted is constraints.positive:
        return ExpTransform()
    try:
        return biject_to(wanted)
    except NotImplementedError as error:
        raise InvalidInput(f"Target: no bijection is known for {wanted} of {name!r}; give a Transform") from error
