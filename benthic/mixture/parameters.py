"""The parameters of a mixture of Gaussians, in the four shapes of covariance."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.base.settings import one_of

KINDS = ("full", "tied", "diag", "spherical")
LOG_TWO_PI = math.log(2 * math.pi)


def check_kind(kind: Any) -> str:
    """The covariance type, if it is one."""
    return str(one_of("covariance_type", kind, KINDS))


def covariance_shape(kind: str, k: int, d: int) -> tuple[int, ...]:
    """Shape of all covariances together, as scikit-learn has it.

    >>> covariance_shape("diag", 3, 2)
    (3, 2)
    """
    return {"full": (k, d, d), "tied": (d, d), "diag": (k, d), "spherical": (k,)}[kind]


@dataclass(frozen=True)
class Gaussians:
    r"""``k`` weighted Gaussians in ``d`` dimensions.

    kind: ``full``, ``tied``, ``diag`` or ``spherical``. weights: (k,). means: (k, d).
    root: L with covariance L Lᵀ, lower triangular, or standard deviations; shaped as ``covariance_shape``.
    factor: A with precision A Aᵀ, that is :math:`A = L^{-T}`, so :math:`y = (x - \mu) A` is white.
    """

    kind: str
    weights: Tensor
    means: Tensor
    root: Tensor
    factor: Tensor

    @classmethod
    def of_roots(cls, kind: str, weights: Tensor, means: Tensor, root: Tensor) -> Gaussians:
        """From Cholesky factors or standard deviations of the covariances."""
        return cls(kind, weights, means, root, _inverse_transposed(kind, root))

    @classmethod
    def of_covariances(cls, kind: str, weights: Tensor, means: Tensor, covariances: Tensor) -> Gaussians:
        """From covariances, which must be positive definite."""
        return cls.of_roots(kind, weights, means, _root(kind, covariances, "covariance"))

    @classmethod
    def of_precisions(cls, kind: str, weights: Tensor, means: Tensor, precisions: Tensor) -> Gaussians:
        """From precisions, the inverses of covariances."""
        if kind in ("diag", "spherical"):
            return cls.of_factors(kind, weights, means, _root(kind, precisions, "precision"))
        # the lower factor of the flipped precision, flipped back, is the upper one scikit-learn keeps
        factor = _root(kind, precisions.flip(-1, -2), "precision").flip(-1, -2)
        return cls.of_factors(kind, weights, means, factor)

    @classmethod
    def of_factors(cls, kind: str, weights: Tensor, means: Tensor, factor: Tensor) -> Gaussians:
        """From upper triangular factors of the precisions."""
        if kind in ("diag", "spherical"):
            return cls(kind, weights, means, 1 / factor, factor)
        root = _triangular_inverse(factor, upper=True).mT
        return cls(kind, weights, means, root, factor)

    @property
    def k(self) -> int:
        """Number of components."""
        return self.means.shape[0]

    @property
    def d(self) -> int:
        """Number of dimensions."""
        return self.means.shape[1]

    @property
    def diagonal(self) -> bool:
        """Whether no component correlates its columns."""
        return self.kind in ("diag", "spherical")

    @property
    def covariances(self) -> Tensor:
        """In the shape of the kind."""
        return self.root.square() if self.diagonal else self.root @ self.root.mT

    @property
    def matrices(self) -> Tensor:
        """Covariance matrices of the components, (k, d, d)."""
        if self.diagonal:
            return torch.diag_embed(self.deviations.square())
        return self.covariances.expand(self.k, self.d, self.d)

    @property
    def deviations(self) -> Tensor:
        """Standard deviations (k, d) of a diagonal kind."""
        return self.root.reshape(self.k, -1).expand(self.k, self.d)

    @property
    def log_constants(self) -> Tensor:
        """log w_k + log of the density of component k at its mean, (k,)."""
        if self.diagonal:
            log_det = -self.deviations.log().sum(1)
        else:
            log_det = self.factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        return self.weights.log() + log_det - 0.5 * self.d * LOG_TWO_PI

    @property
    def n_parameters(self) -> int:
        """Free parameters, for information criteria."""
        k, d = self.k, self.d
        shape = {"full": k * d * (d + 1) // 2, "tied": d * (d + 1) // 2, "diag": k * d, "spherical": k}
        return shape[self.kind] + k * d + k - 1

    def to(self, device: torch.device, dtype: torch.dtype) -> Gaussians:
        """The same on another device, in another type."""
        parts = (self.weights, self.means, self.root, self.factor)
        return Gaussians(self.kind, *(part.to(device, dtype) for part in parts))

    def state(self) -> dict[str, Any]:
        """For a checkpoint; the inverse of ``of_state``."""
        return {
            "kind": self.kind,
            "weights": self.weights,
            "means": self.means,
            "root": self.root,
            "factor": self.factor,
        }

    @classmethod
    def of_state(cls, state: Mapping[str, Any]) -> Gaussians:
        """From what ``state`` gave."""
        return cls(**state)


def _root(kind: str, matrices: Tensor, what: str) -> Tensor:
    if kind in ("diag", "spherical"):
        if not bool((matrices > 0).all()):
            raise InvalidInput(f"a {what} is not positive; every one must be greater than zero")
        return matrices.sqrt()
    root: Tensor
    root, failed = torch.linalg.cholesky_ex(matrices)
    if bool(failed.any()):
        raise InvalidInput(f"a {what} is not symmetric positive definite")
    return root


def _inverse_transposed(kind: str, root: Tensor) -> Tensor:
    if kind in ("diag", "spherical"):
        return 1 / root
    return _triangular_inverse(root, upper=False).mT.contiguous()


def _triangular_inverse(matrix: Tensor, upper: bool) -> Tensor:
    eye = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device).expand_as(matrix)
    inverse: Tensor = torch.linalg.solve_triangular(matrix, eye, upper=upper)
    return inverse
