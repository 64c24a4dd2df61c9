"""The multivariate normal law and what stays normal: parts, conditions, maps, sums and products."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.base.settings import is_whole
from benthic.linalg.factors import cholesky_of

_LOG_TWO_PI = math.log(2 * math.pi)


class MultivariateNormal(torch.distributions.MultivariateNormal):
    r"""The normal law of vectors, closed under marginals, conditions, affine maps, sums and products.

    .. math:: p(x) = (2\pi)^{-d/2} |\Sigma|^{-1/2} \exp\big(-\tfrac12 (x-\mu)^T \Sigma^{-1} (x-\mu)\big)

    Marginals, conditions and products: Petersen & Pedersen, 2012, section 8.1. Batches of means and of
    covariances broadcast as in torch, so one covariance can serve many means.

    loc: (..., d) mean. Exactly one of covariance_matrix, precision_matrix and scale_tril: (..., d, d).
    allow_singular: accept a covariance without full rank; the density is then with respect to the volume of
    the subspace that carries the law, and zero off it.

    >>> law = MultivariateNormal([0.0, 1.0], [[2.0, 1.0], [1.0, 2.0]])
    >>> law.conditional([1], [3.0]).loc
    tensor([1.], dtype=torch.float64)
    """

    _spectrum: tuple[Tensor, Tensor] | None = None

    def __init__(
        self,
        loc: Any,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
        *,
        allow_singular: bool = False,
        validate_args: bool | None = None,
    ) -> None:
        given = {"covariance_matrix": covariance_matrix, "precision_matrix": precision_matrix, "scale_tril": scale_tril}
        named = [name for name, value in given.items() if value is not None]
        if len(named) != 1:
            raise InvalidInput(
                f"MultivariateNormal: {' and '.join(named) or 'no matrix'} given; pass one of {', '.join(given)}"
            )
        name = named[0]
        loc, matrix = _pair(loc, given[name])
        if name == "scale_tril":
            super().__init__(loc, scale_tril=_checked_factor(matrix), validate_args=validate_args)
            return
        _refuse_asymmetric(matrix, name)
        if name == "precision_matrix":
            cholesky_of(matrix, 0.0, name, "MultivariateNormal")  # for its sentence
            super().__init__(loc, precision_matrix=matrix, validate_args=validate_args)
            return
        factor, spectrum = _factor_or_spectrum(matrix, allow_singular)
        if spectrum is None:
            super().__init__(loc, scale_tril=factor, validate_args=validate_args)
        else:
            super().__init__(loc, scale_tril=factor, validate_args=False)  # a zero on the diagonal is meant
            self._spectrum = spectrum

    @property
    def singular(self) -> bool:
        """Whether the law lives on a subspace."""
        return self._spectrum is not None

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> MultivariateNormal:
        """The same law for a larger batch."""
        new = super().expand(torch.Size(batch_shape), self._get_checked_instance(MultivariateNormal, _instance))
        new._spectrum = self._spectrum
        return new

    def log_prob(self, value: Tensor) -> Tensor:
        """The log-density of rows (..., d)."""
        if self._spectrum is None:
            return super().log_prob(value)
        values, vectors = self._spectrum
        kept = values > 0
        along = ((value - self.loc).unsqueeze(-2) @ vectors).squeeze(-2)  # (..., d) coordinates on the axes
        slack = 1e-7 if along.dtype == torch.float64 else 1e-3
        reach = slack * (values.amax(-1, keepdim=True).sqrt() + along.abs().amax(-1, keepdim=True))
        off = (~kept & (along.abs() > reach)).any(-1)
        safe = torch.where(kept, values, 1.0)
        terms = torch.where(kept, along.square() / safe + safe.log() + _LOG_TWO_PI, 0.0)
        return torch.where(off, -torch.inf, -0.5 * terms.sum(-1))

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        if self._spectrum is None:
            return super().entropy()
        values, _ = self._spectrum
        kept = values > 0
        total = torch.where(kept, torch.where(kept, values, 1.0).log() + 1 + _LOG_TWO_PI, 0.0).sum(-1)
        return (0.5 * total).expand(self.batch_shape)

    # -- laws from laws --------------------------------------------------------------------------------

    def marginal(self, indices: Sequence[int] | int) -> MultivariateNormal:
        """The law of some coordinates. indices: which, in the order wanted.

        >>> MultivariateNormal([0.0, 1.0], [[2.0, 1.0], [1.0, 3.0]]).marginal([1]).covariance_matrix
        tensor([[3.]], dtype=torch.float64)
        """
        kept = self._chosen(indices, "marginal")
        return self._like(self.loc[..., kept], self._covariance[..., kept, :][..., kept])

    def conditional(self, indices: Sequence[int] | int, values: Any) -> MultivariateNormal:
        r"""The law of the other coordinates where those at ``indices`` have ``values``.

        .. math:: \mu_a + \Sigma_{ab} \Sigma_{bb}^{-1} (x_b - \mu_b), \qquad
            \Sigma_{aa} - \Sigma_{ab} \Sigma_{bb}^{-1} \Sigma_{ba}

        values: (..., len(indices)); a batch of values gives a batch of laws that share one covariance.
        """
        known = self._chosen(indices, "conditional")
        values = torch.as_tensor(values, dtype=self.loc.dtype, device=self.loc.device)
        if values.ndim == 0 or values.shape[-1] != len(known):
            raise InvalidInput(
                f"MultivariateNormal.conditional: values have shape {tuple(values.shape)}; "
                f"their last size must be {len(known)}, one value for each of the indices"
            )
        free = [i for i in range(self.event_shape[0]) if i not in known]
        if not free:
            raise InvalidInput("MultivariateNormal.conditional: every coordinate is given; leave one free")
        whole = self._covariance
        cross, inner = whole[..., free, :][..., known], whole[..., known, :][..., known]
        gain = self._divide(cross, inner)  # (..., a, b)
        surprise = (values - self.loc[..., known]).unsqueeze(-1)
        loc = self.loc[..., free] + (gain @ surprise).squeeze(-1)
        rest = whole[..., free, :][..., free] - gain @ cross.mT
        return self._like(loc, _symmetric(rest))

    def affine(self, A: Any, b: Any = 0.0) -> MultivariateNormal:
        """The law of ``A x + b``. A: (..., k, d) with independent rows. b: (..., k)."""
        A = torch.as_tensor(A, dtype=self.loc.dtype, device=self.loc.device)
        b = torch.as_tensor(b, dtype=self.loc.dtype, device=self.loc.device)
        if A.ndim < 2 or A.shape[-1] != self.event_shape[0]:
            raise InvalidInput(
                f"MultivariateNormal.affine: A has shape {tuple(A.shape)}; "
                f"it must have {self.event_shape[0]} columns, the dimension of the law"
            )
        root = A @ self._unbroadcasted_scale_tril
        return self._like((A @ self.loc.unsqueeze(-1)).squeeze(-1) + b, root @ root.mT)

    def __add__(self, other: Any) -> MultivariateNormal:
        """The law of the sum with an independent normal vector, or of a shift by a constant."""
        if not isinstance(other, torch.distributions.MultivariateNormal):
            shift = torch.as_tensor(other, dtype=self.loc.dtype, device=self.loc.device)
            return self._like(self.loc + shift, self._covariance)
        self._same_dimension(other, "+")
        return self._like(self.loc + other.loc, self._covariance + _covariance_of(other))

    __radd__ = __add__

    def product(self, other: torch.distributions.MultivariateNormal) -> tuple[MultivariateNormal, Tensor]:
        r"""The normalized product of two densities, and the log of what normalizes it.

        .. math:: N(x; a, A)\, N(x; b, B) = N(a; b, A + B)\, N(x; c, C)

        Returns the law N(c, C) and log N(a; b, A + B).
        """
        self._same_dimension(other, "product")
        mine, theirs = self._covariance, _covariance_of(other)
        gain = self._divide(mine, mine + theirs)  # K = A (A + B)^-1
        rest = torch.eye(mine.shape[-1], dtype=mine.dtype, device=mine.device) - gain
        # (I − K) A (I − K)^T + K B K^T stays positive where A − K A would round below zero
        covariance = rest @ mine @ rest.mT + gain @ theirs @ gain.mT
        loc = self.loc + (gain @ (other.loc - self.loc).unsqueeze(-1)).squeeze(-1)
        constant = self._like(other.loc, mine + theirs).log_prob(self.loc)
        return self._like(loc, _symmetric(covariance)), constant

    # -- helpers ---------------------------------------------------------------------------------------

    @property
    def _covariance(self) -> Tensor:
        return _covariance_of(self)

    def _like(self, loc: Tensor, covariance: Tensor) -> MultivariateNormal:
        return MultivariateNormal(loc, covariance, allow_singular=self.singular)

    def _divide(self, left: Tensor, matrix: Tensor) -> Tensor:
        """Left times the inverse of a covariance."""
        if self.singular:
            return left @ torch.linalg.pinv(matrix, hermitian=True)
        factor, bad = torch.linalg.cholesky_ex(matrix)
        _refuse_indefinite(matrix, bad, "covariance_matrix")
        return torch.cholesky_solve(left.mT, factor).mT

    def _chosen(self, indices: Sequence[int] | int, verb: str) -> list[int]:
        d = self.event_shape[0]
        chosen = [int(i) for i in ([indices] if is_whole(indices) else indices)]
        wrong = [i for i in chosen if not -d <= i < d]
        chosen = [i % d for i in chosen]
        if wrong or not chosen or len(set(chosen)) < len(chosen):
            raise InvalidInput(
                f"MultivariateNormal.{verb}: indices are {indices if is_whole(indices) else list(indices)}; "
                f"they must be different and lie between 0 and {d - 1}"
            )
        return chosen

    def _same_dimension(self, other: torch.distributions.MultivariateNormal, verb: str) -> None:
        if other.event_shape != self.event_shape:
            raise InvalidInput(
                f"MultivariateNormal.{verb}: the laws have {self.event_shape[0]} and {other.event_shape[0]} "
                "dimensions; both must have the same"
            )


def _pair(loc: Any, matrix: Any) -> tuple[Tensor, Tensor]:
    """Mean and matrix as tensors of one type; Python numbers become float64."""
    matrix = matrix if isinstance(matrix, Tensor) else torch.as_tensor(matrix, dtype=torch.float64)
    loc = loc if isinstance(loc, Tensor) else torch.as_tensor(loc, dtype=matrix.dtype, device=matrix.device)
    if loc.ndim < 1:
        raise InvalidInput("MultivariateNormal: loc is one number; it must be a vector of d numbers")
    if matrix.ndim < 2 or matrix.shape[-1] != matrix.shape[-2] or matrix.shape[-1] != loc.shape[-1]:
        raise InvalidInput(
            f"MultivariateNormal: the matrix has shape {tuple(matrix.shape)} and loc {tuple(loc.shape)}; "
            f"a vector of {loc.shape[-1]} needs a matrix of {loc.shape[-1]} by {loc.shape[-1]}"
        )
    kind = torch.promote_types(loc.dtype, matrix.dtype)
    return loc.to(kind), matrix.to(kind)


def _refuse_asymmetric(matrix: Tensor, name: str) -> None:
    if not bool(torch.isfinite(matrix).all()):
        raise InvalidInput(f"MultivariateNormal: {name} has an entry that is not finite; remove NaN and infinity")
    gap = (matrix - matrix.mT).abs().detach()
    slack = 1e-8 if matrix.dtype == torch.float64 else 1e-4
    if bool((gap.amax((-2, -1)) > slack * matrix.abs().detach().amax((-2, -1))).any()):
        _, row, column = (int(i) for i in torch.unravel_index(gap.argmax(), (gap[..., 0, 0].numel(), *gap.shape[-2:])))
        raise InvalidInput(
            f"MultivariateNormal: {name} is not symmetric, entries [{row}, {column}] and [{column}, {row}] differ by "
            f"{float(gap.max()):.3g}; pass (C + C.T) / 2 if they should not"
        )


def _refuse_indefinite(matrix: Tensor, bad: Tensor, name: str) -> None:
    if not bool(bad.any()):
        return
    with torch.no_grad():
        values = torch.linalg.eigvalsh(matrix)
    least, most = float(values.min()), float(values.abs().max())
    slack = matrix.shape[-1] * torch.finfo(matrix.dtype).eps * most
    kind = "singular" if least > -8 * slack else "not positive definite"
    remedy = "add a small multiple of the identity, or pass allow_singular=True" if kind == "singular" else "check it"
    raise InvalidInput(f"MultivariateNormal: {name} is {kind}, its smallest eigenvalue is {least:.3g}; {remedy}")


def _factor_or_spectrum(matrix: Tensor, allow: bool) -> tuple[Tensor, tuple[Tensor, Tensor] | None]:
    """A Cholesky factor; where there is none and that is allowed, a triangular root and the eigenvalues."""
    matrix = _symmetric(matrix)
    factor, bad = torch.linalg.cholesky_ex(matrix)
    slack = matrix.shape[-1] * torch.finfo(matrix.dtype).eps
    diagonal = factor.detach().diagonal(dim1=-2, dim2=-1)
    # a pivot lost in rounding is a zero that rounding hid
    flat = diagonal.square() <= slack * matrix.detach().diagonal(dim1=-2, dim2=-1)
    bad = (bad > 0) | flat.any(-1)
    if not bool(bad.any()):
        return factor, None
    values, vectors = torch.linalg.eigh(matrix)
    least = 8 * slack * values.abs().amax(-1, keepdim=True)
    if not allow or bool((values < -least).any()):
        _refuse_indefinite(matrix, bad, "covariance_matrix")
    values = torch.where(values > least, values, 0.0)
    root = vectors * values.sqrt().unsqueeze(-2)
    return torch.linalg.qr(root.mT).R.mT, (values, vectors)


def _checked_factor(factor: Tensor) -> Tensor:
    diagonal = factor.detach().diagonal(dim1=-2, dim2=-1)
    if bool((diagonal <= 0).any()) or bool((factor.detach().triu(1) != 0).any()):
        raise InvalidInput(
            "MultivariateNormal: scale_tril must be lower triangular with a positive diagonal; "
            "pass torch.linalg.cholesky(covariance)"
        )
    return factor


def _symmetric(matrix: Tensor) -> Tensor:
    return 0.5 * (matrix + matrix.mT)


def _covariance_of(law: torch.distributions.MultivariateNormal) -> Tensor:
    factor = law._unbroadcasted_scale_tril
    return factor @ factor.mT
