"""One-dimensional exponential families: what one is, and how its parameters follow from expectations."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from benthic.base.likelihood import Measure


@dataclass(frozen=True)
class Support:
    """The numbers a family gives mass to: an interval, with its ends or without, perhaps only whole numbers.

    >>> str(Support(0.0, open=True))
    'numbers > 0'
    >>> Support(0.0, 1.0).contains(torch.tensor([0.0, 0.5, 2.0]))
    tensor([ True,  True, False])
    """

    low: float = -math.inf
    high: float = math.inf
    open: bool = False
    whole: bool = False

    def contains(self, x: Tensor) -> Tensor:
        """Which values are allowed."""
        inside = (x > self.low) & (x < self.high) if self.open else (x >= self.low) & (x <= self.high)
        return inside & (x == x.round()) if self.whole else inside

    def pull_in(self, x: Tensor) -> Tensor:
        """Values that rounding put on or past an end, moved inside it."""
        low, high = self._ends(x.dtype)
        return x.clamp(min=low, max=high)

    def _ends(self, dtype: torch.dtype) -> tuple[float, float]:
        """The least and the greatest allowed number of a type."""
        info = torch.finfo(dtype)
        if not self.open:
            return max(self.low, info.min), min(self.high, info.max)
        low = self.low + max(abs(self.low) * info.eps, info.tiny) if math.isfinite(self.low) else info.min
        high = self.high - max(abs(self.high) * info.eps, info.tiny) if math.isfinite(self.high) else info.max
        return low, high

    def __str__(self) -> str:
        kind = "whole numbers" if self.whole else "numbers"
        low, high = math.isfinite(self.low), math.isfinite(self.high)
        if low and high:
            return f"{kind} from {self.low:g} to {self.high:g}{', ends excluded' if self.open else ''}"
        if low:
            return f"{kind} {'>' if self.open else '>='} {self.low:g}"
        if high:
            return f"{kind} {'<' if self.open else '<='} {self.high:g}"
        return f"all {kind}"


class Family(ABC):
    r"""A one-dimensional exponential family.

    .. math:: p(x) = h(x) \exp(\langle \eta, T(x) \rangle - A(\eta))

    A subclass gives what is abstract here, for float64 tensors of any shape (...,), with s statistics in a
    last dimension (..., s); A must be written in torch, for its derivatives are the moments of T. What has a
    default may be replaced by something shorter or closer to the data.

    name: what errors and summaries call it. support: where h is positive. measure: whether p is a
    ``density`` or a ``mass``. reference: the natural parameters (s,) of a plain member, from which searches
    start and which stands for a column that says nothing.
    """

    name: str
    support: Support
    measure: Measure = "density"
    reference: tuple[float, ...]

    @abstractmethod
    def statistics(self, x: Tensor) -> Tensor:
        """T(x), (..., s)."""

    @abstractmethod
    def log_base(self, x: Tensor) -> Tensor:
        """log h(x), (...)."""

    @abstractmethod
    def log_partition(self, eta: Tensor) -> Tensor:
        """A(η) for η (..., s), differentiable twice."""

    @abstractmethod
    def mean(self, eta: Tensor) -> Tensor:
        """E[x] for η (..., s)."""

    @abstractmethod
    def draw(self, eta: Tensor, generator: torch.Generator) -> Tensor:
        """One x for each η (..., s), all on the CPU."""

    @property
    def size(self) -> int:
        """Number of statistics, s."""
        return len(self.reference)

    def domain(self, eta: Tensor) -> Tensor:
        """Which η (..., s) are natural parameters, that is, have a finite A."""
        return torch.isfinite(eta).all(-1)

    def parameters(self, eta: Tensor) -> dict[str, Tensor]:
        """Parameters as people know them, by name."""
        return {f"eta_{i}": eta[..., i] for i in range(self.size)}

    def log_prob(self, x: Tensor, eta: Tensor) -> Tensor:
        """Log-density or log-mass of x (...) for η (..., s)."""
        return self.log_base(x) + (eta * self.statistics(x)).sum(-1) - self.log_partition(eta)

    def expected_statistics(self, eta: Tensor) -> Tensor:
        """E[T(x)] = ∇A(η), (..., s)."""
        return _derivatives(self, eta.reshape(-1, self.size), order=1)[1].reshape(eta.shape)

    def natural(self, expected: Tensor, start: Tensor | None = None) -> Tensor:
        """The η with E[T(x)] = ``expected`` (..., s): the maximum-likelihood estimate from mean statistics.

        start: where to begin to search; a good guess if there is no closed form.
        """
        return natural_by_newton(self, expected, start)

    # -- what keeps numbers moderate -------------------------------------------------------------------

    def units(self, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Shift and scale, (c,) each, such that (x − shift) / scale is of this family and of moderate size.

        x: (n, c) with NaN for gaps. weight: (n,). The default leaves x as it is.
        """
        return x.new_zeros(x.shape[1]), x.new_ones(x.shape[1])

    def in_units(self, eta: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
        """Natural parameters of shift + scale · x, where x has η (..., s)."""
        return eta

    def normal_view(self, x: Tensor) -> Tensor:
        """A monotone function of x that is nearly normal, in which distances between rows mean something."""
        return x

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


_ARMIJO = 1e-4
_SETTLED = 1e-16  # a Newton decrement after which one more step ends at rounding
_ROUNDING = 32 * torch.finfo(torch.float64).eps  # a gradient so small, beside the means, is rounding


@torch.no_grad()
def natural_by_newton(family: Family, expected: Tensor, start: Tensor | None = None, *, max_iter: int = 100) -> Tensor:
    r"""The natural parameters with given expected statistics, by damped Newton steps on a convex function.

    .. math:: \eta(m) = \arg\min_\eta A(\eta) - \langle \eta, m \rangle

    Steps are halved until they stay in the domain and decrease the function enough (Armijo), so that every
    iterate is at least as likely as the one before.

    expected: m (..., s), a mean of T(x). start: (..., s), or None for the reference of the family.
    Returns η (..., s).
    """
    m = expected.reshape(-1, family.size)
    eta = m.new_tensor(family.reference).expand_as(m).clone()
    if start is not None:
        begin = start.reshape(-1, family.size)
        eta = torch.where(family.domain(begin)[:, None], begin, eta)
    moving = torch.ones(len(m), dtype=torch.bool, device=m.device)
    for _ in range(max_iter):
        now = moving.nonzero()[:, 0]
        partition, mean, covariance = _derivatives(family, eta[now], order=2)
        target = m[now]
        gradient = mean - target
        step = _newton_step(covariance, gradient)
        decrement = (gradient * step).sum(-1)
        value = partition - (eta[now] * target).sum(-1)
        there = _backtrack(family, eta[now], step, target, value, decrement)
        stuck = (there == eta[now]).all(-1) | (gradient.abs() <= _ROUNDING * (1 + target.abs())).all(-1)
        eta[now] = there
        moving[now[stuck | (decrement < _SETTLED)]] = False
        if not bool(moving.any()):
            break
    return eta.reshape(expected.shape)


def _derivatives(family: Family, eta: Tensor, order: int) -> tuple[Tensor, Tensor, Tensor]:
    """A (n,), ∇A (n, s) and, if order is 2, the Hessian of A (n, s, s), at η (n, s)."""
    with torch.enable_grad():
        leaf = eta.detach().requires_grad_()
        value = family.log_partition(leaf)
        (first,) = torch.autograd.grad(value.sum(), leaf, create_graph=order == 2)
        rows = [
            torch.autograd.grad(first[:, i].sum(), leaf, retain_graph=True, materialize_grads=True)[0]
            for i in range(family.size if order == 2 else 0)
        ]
    second = torch.stack(rows, 1) if rows else first.new_empty(0)
    return value.detach(), first.detach(), second


def _newton_step(covariance: Tensor, gradient: Tensor) -> Tensor:
    """Covariance⁻¹ gradient, (n, s); the gradient itself where the covariance is singular."""
    step = torch.linalg.solve_ex(covariance, gradient[..., None])[0][..., 0]
    descends = torch.isfinite(step).all(-1) & ((gradient * step).sum(-1) >= 0)
    return torch.where(descends[:, None], step, gradient)


def _backtrack(family: Family, eta: Tensor, step: Tensor, target: Tensor, value: Tensor, decrement: Tensor) -> Tensor:
    """η minus the longest of step, step / 2, step / 4, ... that decreases the function enough."""
    length = torch.ones_like(value)
    slack = 1e-14 * (1 + value.abs())  # what rounding may add
    result, waiting = eta.clone(), torch.ones_like(value, dtype=torch.bool)
    for _ in range(60):
        trial = eta - length[:, None] * step
        inside = family.domain(trial)
        trial = torch.where(inside[:, None], trial, eta)
        there = family.log_partition(trial) - (trial * target).sum(-1)
        good = inside & (there <= value - _ARMIJO * length * decrement + slack)
        result = torch.where((waiting & good)[:, None], trial, result)
        waiting = waiting & ~good
        if not bool(waiting.any()):
            break
        length = torch.where(waiting, length / 2, length)
    return result
