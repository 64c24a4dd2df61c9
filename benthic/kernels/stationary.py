"""Stationary kernels: functions of the difference between two points.

Each is written on coordinates in which it needs only a squared or a Manhattan distance, so one matrix product, or one
pass over the columns, gives a whole block.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from benthic.base.errors import InvalidInput
from benthic.kernels.covariance import Scaled
from benthic.kernels.kernel import positive
from benthic.kernels.products import fast_squared, manhattan_matrix, squared_matrix

# A plain product may err by so much in the squared distance between scaled points.
_FAST_ERROR = {torch.float32: 1e-5, torch.float64: 1e-12}


class _Distance(Scaled):
    """A function of the squared distance between scaled coordinates."""

    @abstractmethod
    def _profile(self, D: Tensor) -> Tensor:
        """The kernel from squared distances, differentiable."""

    def _slope(self, D: Tensor, K: Tensor) -> Tensor:
        """The derivative of the kernel by the squared distance, given both; a new matrix."""
        with torch.enable_grad():
            leaf = D.detach().requires_grad_()
            (slope,) = torch.autograd.grad(self._profile(leaf).sum(), leaf)
        return slope

    def _fast_profile(self, minus: Tensor) -> Tensor:
        """The kernel from minus the squared distances, which it may overwrite."""
        return self._profile(minus.neg_().clamp_(min=0))

    def _matrix(self, X: Tensor, Y: Tensor, shift: int | None, fast: bool = False) -> Tensor:
        A, B = self._centered(X, Y)
        if fast:
            return self._fast_profile(fast_squared(A, B))
        return self._profile(squared_matrix(A, B))

    def _paired(self, X: Tensor, Y: Tensor, same: bool) -> Tensor:
        apart = X - Y
        return self._profile((self._coordinates(apart) - self._coordinates(torch.zeros_like(apart))).square().sum(-1))

    def _allows_fast(self, X: Tensor, Y: Tensor) -> bool:
        """Whether rounding in one plain matrix product moves no squared distance by more than it may."""
        if not self.gentle or (X.shape[-1] <= 4 and X.device.type == "cpu"):
            return False
        A, B = self._centered(X, Y)
        center = A.mean(0)
        largest = max(float((points - center).square().sum(1).max()) for points in (A, B))
        return 4 * torch.finfo(A.dtype).eps * largest < _FAST_ERROR[A.dtype]


class RBF(_Distance):
    r"""The squared-exponential kernel: very smooth functions.

    .. math:: k(x, y) = \exp\Bigl(-\tfrac{1}{2} \sum_k \frac{(x_k - y_k)^2}{\ell_k^2}\Bigr)

    lengthscale: a number, or (d,) one for each column.

    >>> RBF(1.0)([[0.0]], [[1.0]])
    tensor([[0.6065]], dtype=torch.float64)
    """

    def __init__(self, lengthscale: float | Tensor = 1.0) -> None:
        self._store(lengthscale=positive("RBF", "lengthscale", lengthscale))

    def _coordinates(self, X: Tensor) -> Tensor:
        return X / (self.lengthscale.to(X) * math.sqrt(2.0))

    def _profile(self, D: Tensor) -> Tensor:
        return torch.exp(-D)

    def _fast_profile(self, minus: Tensor) -> Tensor:
        return minus.exp_()

    def _slope(self, D: Tensor, K: Tensor) -> Tensor:
        return K.neg()


class Matern(_Distance):
    r"""The Matérn kernel: functions with as many derivatives as nu allows.

    .. math:: k = e^{-r}, \quad (1 + \sqrt{3} r)\, e^{-\sqrt{3} r}, \quad
        (1 + \sqrt{5} r + \tfrac{5}{3} r^2)\, e^{-\sqrt{5} r}, \qquad r = \|(x - y) / \ell\|

    for nu = 1/2, 3/2 and 5/2 (Rasmussen & Williams, 2006, section 4.2). Gradients at coinciding points are finite;
    at nu = 1/2, where the kernel has a kink there, they are 0.

    nu: 0.5, 1.5 or 2.5. lengthscale: a number, or (d,) one for each column.

    >>> Matern(1.5)([[0.0]], [[1.0]])
    tensor([[0.4834]], dtype=torch.float64)
    """

    def __init__(self, nu: float = 2.5, lengthscale: float | Tensor = 1.0) -> None:
        if nu not in (0.5, 1.5, 2.5):
            raise InvalidInput(f"Matern: nu is {nu}; it must be 0.5, 1.5 or 2.5, and RBF is the limit of large nu")
        self._store(nu=float(nu), lengthscale=positive("Matern", "lengthscale", lengthscale), gentle=nu > 0.5)

    def _profile(self, D: Tensor) -> Tensor:
        # At 2 nu times the squared distance, every member of the family is a polynomial in s times exp(-s).
        return _HalfInteger.apply(D * (2 * self.nu), int(self.nu - 0.5))

    def _fast_profile(self, minus: Tensor) -> Tensor:
        u = minus.mul_(-2 * self.nu).clamp_(min=0)
        s = u.sqrt()
        if self.nu == 0.5:
            return s.neg_().exp_()
        polynomial = u.div_(3).add_(s) if self.nu == 2.5 else u.copy_(s)
        return polynomial.add_(1).mul_(s.neg_().exp_())

    def _slope(self, D: Tensor, K: Tensor) -> Tensor:
        s = (D * (2 * self.nu)).sqrt_()
        if self.nu == 0.5:  # the kink at zero distance counts as flat
            return torch.where(s > 0, K.div(s).mul_(-0.5), torch.zeros_like(K))
        slope = s.neg().exp_().mul_(-self.nu / (2 * self.nu - 2 if self.nu == 2.5 else 1.0))
        return slope if self.nu == 1.5 else slope.mul_(s.add_(1))

    def __repr__(self) -> str:
        """The kernel as one would write it."""
        return super().__repr__().replace("(", f"(nu={self.nu:g}, ", 1)


class _HalfInteger(Function):
    """exp(-s) p(s) with s the root of u: p = 1, 1 + s, 1 + s + s^2/3 for orders 0, 1, 2.

    The derivative by u of order q is -1/(2 (2q - 1)) times order q - 1, with no root in it; order 0 has a kink at 0.
    """

    @staticmethod
    def forward(u: Tensor, order: int) -> Tensor:
        s = u.sqrt()
        if order == 0:
            return s.neg_().exp_()
        polynomial = 1 + s
        if order == 2:
            polynomial += u / 3
        return polynomial.mul_(s.neg_().exp_())

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, int], output: Tensor) -> None:
        ctx.order = inputs[1]
        ctx.save_for_backward(inputs[0])
        ctx.save_for_forward(inputs[0])

    @staticmethod
    def slope(ctx: Any) -> Tensor:
        (u,) = ctx.saved_tensors
        if ctx.order:
            return _HalfInteger.apply(u, ctx.order - 1) * (-0.5 / (2 * ctx.order - 1))
        apart = u > 0
        s = torch.where(apart, u, torch.ones_like(u)).sqrt()
        return torch.where(apart, torch.exp(-s) / (-2 * s), torch.zeros_like(u))

    @staticmethod
    def backward(ctx: Any, G: Tensor) -> tuple[Tensor, None]:
        return G * _HalfInteger.slope(ctx), None

    @staticmethod
    def jvp(ctx: Any, du: Tensor, _: None) -> Tensor:
        return du * _HalfInteger.slope(ctx)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, None], u: Tensor, order: int) -> tuple[Tensor, int | None]:
        return _HalfInteger.apply(u, order), in_dims[0]


class RationalQuadratic(_Distance):
    r"""A mixture of squared-exponential kernels of many length scales.

    .. math:: k(x, y) = \Bigl(1 + \frac{\|(x - y) / \ell\|^2}{2 \alpha}\Bigr)^{-\alpha}

    lengthscale: a number, or (d,) one for each column. alpha: a number; large ones approach :class:`RBF`.

    >>> RationalQuadratic(1.0, 1.0)([[0.0]], [[1.0]])
    tensor([[0.6667]], dtype=torch.float64)
    """

    alpha: Tensor
    names = ("lengthscale", "alpha")

    def __init__(self, lengthscale: float | Tensor = 1.0, alpha: float | Tensor = 1.0) -> None:
        self._store(
            lengthscale=positive("RationalQuadratic", "lengthscale", lengthscale),
            alpha=positive("RationalQuadratic", "alpha", alpha, vector=False),
        )

    def _profile(self, D: Tensor) -> Tensor:
        alpha = self.alpha.to(D)
        return torch.exp(-alpha * torch.log1p(D / (2 * alpha)))


class Periodic(_Distance):
    r"""A kernel of periodic functions.

    .. math:: k(x, y) = \exp\Bigl(-2 \sum_k \frac{\sin^2(\pi (x_k - y_k) / p_k)}{\ell_k^2}\Bigr)

    MacKay, 1998: column by column, which is positive definite in any dimension; in one dimension it is the usual one.
    lengthscale, period: numbers, or (d,) one for each column.

    >>> Periodic(1.0, period=2.0)([[0.0]], [[1.0], [2.0]])
    tensor([[0.1353, 1.0000]], dtype=torch.float64)
    """

    period: Tensor
    names = ("lengthscale", "period")

    def __init__(self, lengthscale: float | Tensor = 1.0, period: float | Tensor = 1.0) -> None:
        self._store(
            lengthscale=positive("Periodic", "lengthscale", lengthscale), period=positive("Periodic", "period", period)
        )

    def _columns(self) -> int | None:
        sizes = [len(value) for value in (self.lengthscale, self.period) if value.ndim]
        if len(set(sizes)) > 1:
            raise InvalidInput(f"Periodic: lengthscale and period are for {sizes} columns; they must agree")
        return sizes[0] if sizes else None

    def _coordinates(self, X: Tensor) -> Tensor:
        """Points on circles, whose squared chord is 2 sin^2 of half the angle between them, over the length scale."""
        angle = X * (2 * math.pi / self.period.to(X))
        radius = math.sqrt(0.5) / self.lengthscale.to(X)
        return torch.cat([angle.cos() * radius, angle.sin() * radius], -1)

    def _profile(self, D: Tensor) -> Tensor:
        return torch.exp(-D)

    def _fast_profile(self, minus: Tensor) -> Tensor:
        return minus.exp_()


class Laplace(Scaled):
    r"""The exponential of the Manhattan distance: rough along every coordinate.

    .. math:: k(x, y) = \exp\Bigl(-\sum_k \frac{|x_k - y_k|}{\ell_k}\Bigr)

    With the Euclidean distance instead it is ``Matern(0.5)``. lengthscale: a number, or (d,) one for each column.

    >>> Laplace(2.0)([[0.0, 0.0]], [[1.0, 1.0]])
    tensor([[0.3679]], dtype=torch.float64)
    """

    def __init__(self, lengthscale: float | Tensor = 1.0) -> None:
        self._store(lengthscale=positive("Laplace", "lengthscale", lengthscale))

    def _matrix(self, X: Tensor, Y: Tensor, shift: int | None, fast: bool = False) -> Tensor:
        return torch.exp(-manhattan_matrix(*self._centered(X, Y)))

    def _paired(self, X: Tensor, Y: Tensor, same: bool) -> Tensor:
        return torch.exp(-self._coordinates(X - Y).abs().sum(-1))
