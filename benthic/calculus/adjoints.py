"""Linear operators that carry their adjoint, and the dot-product test that catches a wrong one."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Number
from typing import NamedTuple

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.base.seeds import generator

Map = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class LinearOperator:
    r"""A linear map between spaces of arrays together with its adjoint.

    .. math:: \langle A x, y \rangle = \langle x, A^* y \rangle

    forward: from (..., \*input_shape) to (..., \*output_shape); leading dimensions are a batch.
    backward: the adjoint, the other way. input_shape, output_shape: shapes of one array on each side.
    name: for messages. Operators compose with ``@``, add with ``+`` and scale with ``*``.

    >>> double = LinearOperator(lambda x: 2 * x, lambda y: 2 * y, (3,), (3,), "double")
    >>> (double @ double + double)(torch.ones(3))
    tensor([6., 6., 6.])
    """

    forward: Map
    backward: Map
    input_shape: tuple[int, ...]
    output_shape: tuple[int, ...]
    name: str = "operator"

    @property
    def input_size(self) -> int:
        """How many numbers one input holds."""
        return math.prod(self.input_shape)

    @property
    def output_size(self) -> int:
        """How many numbers one output holds."""
        return math.prod(self.output_shape)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the matrix :meth:`dense` would give."""
        return self.output_size, self.input_size

    def apply(self, x: Tensor) -> Tensor:
        r"""A x for x (..., \*input_shape)."""
        return self.forward(_fits(self.name, x, self.input_shape))

    def __call__(self, x: Tensor) -> Tensor:
        """The same as :meth:`apply`."""
        return self.apply(x)

    def adjoint(self, y: Tensor) -> Tensor:
        r"""A\* y for y (..., \*output_shape)."""
        return self.backward(_fits(f"adjoint of {self.name}", y, self.output_shape))

    def hermitian(self) -> LinearOperator:
        """The adjoint as an operator; also written ``A.H``."""
        return LinearOperator(
            self.backward, self.forward, self.output_shape, self.input_shape, f"adjoint of {self.name}"
        )

    def transpose(self) -> LinearOperator:
        """The adjoint without the complex conjugate; also written ``A.T``. For real operators both are the same."""
        return LinearOperator(
            lambda y: self.backward(y.conj()).conj(),
            lambda x: self.forward(x.conj()).conj(),
            self.output_shape,
            self.input_shape,
            f"transpose of {self.name}",
        )

    H = property(hermitian)
    T = property(transpose)

    def __matmul__(self, other: LinearOperator) -> LinearOperator:
        """First other, then self."""
        if not isinstance(other, LinearOperator):
            return NotImplemented
        if self.input_shape != other.output_shape:
            raise InvalidInput(
                f"{self.name} @ {other.name}: the first takes {self.input_shape} and the second gives "
                f"{other.output_shape}; these shapes must be the same"
            )
        return LinearOperator(
            lambda x: self.forward(other.forward(x)),
            lambda y: other.backward(self.backward(y)),
            other.input_shape,
            self.output_shape,
            f"({self.name} @ {other.name})",
        )

    def __add__(self, other: LinearOperator) -> LinearOperator:
        """The sum of two operators between the same spaces."""
        if not isinstance(other, LinearOperator):
            return NotImplemented
        if (self.input_shape, self.output_shape) != (other.input_shape, other.output_shape):
            raise InvalidInput(
                f"{self.name} + {other.name}: one maps {self.input_shape} to {self.output_shape}, the other "
                f"{other.input_shape} to {other.output_shape}; only operators between the same spaces add"
            )
        return LinearOperator(
            lambda x: self.forward(x) + other.forward(x),
            lambda y: self.backward(y) + other.backward(y),
            self.input_shape,
            self.output_shape,
            f"({self.name} + {other.name})",
        )

    def __mul__(self, scalar: complex) -> LinearOperator:
        """The operator times a number; the adjoint takes the conjugate number."""
        if not isinstance(scalar, Number):
            return NotImplemented
        conjugate = complex(scalar).conjugate() if isinstance(scalar, complex) else scalar
        return LinearOperator(
            lambda x: scalar * self.forward(x),
            lambda y: conjugate * self.backward(y),
            self.input_shape,
            self.output_shape,
            f"{scalar} * {self.name}",
        )

    __rmul__ = __mul__

    def __neg__(self) -> LinearOperator:
        """Minus the operator."""
        return self * -1

    def __sub__(self, other: LinearOperator) -> LinearOperator:
        """The difference of two operators between the same spaces."""
        if not isinstance(other, LinearOperator):
            return NotImplemented
        return self + (-other)

    def dense(self, dtype: torch.dtype = torch.float64, device: torch.device | str = "cpu") -> Tensor:
        """The matrix (output_size, input_size), one column for each basis array; for tests and small cases."""
        basis = torch.eye(self.input_size, dtype=dtype, device=device).reshape(-1, *self.input_shape)
        return self.forward(basis).reshape(self.input_size, self.output_size).mT


def identity_operator(shape: tuple[int, ...]) -> LinearOperator:
    """The operator that changes nothing.

    >>> identity_operator((2,))(torch.tensor([1.0, 2.0]))
    tensor([1., 2.])
    """
    return LinearOperator(lambda x: x, lambda y: y, tuple(shape), tuple(shape), "identity")


def matrix_operator(A: Tensor) -> LinearOperator:
    """A matrix (m, n) as an operator from (..., n) to (..., m).

    >>> matrix_operator(torch.tensor([[1.0, 2.0]]))(torch.tensor([3.0, 4.0]))
    tensor([11.])
    """
    if A.ndim != 2:
        raise InvalidInput(f"matrix_operator: A has shape {tuple(A.shape)}; a matrix (m, n) is needed")
    return LinearOperator(lambda x: x @ A.mT, lambda y: y @ A.conj(), (A.shape[1],), (A.shape[0],), "matrix")


class AdjointCheck(NamedTuple):
    """The largest relative defect met, what rounding explains, and the number of random pairs tried."""

    defect: float
    tolerance: float
    trials: int

    @property
    def passed(self) -> bool:
        """Whether rounding explains the defect."""
        return self.defect <= self.tolerance


def check_adjoint(
    A: LinearOperator | Map,
    A_star: LinearOperator | Map | None = None,
    x_like: Tensor | None = None,
    y_like: Tensor | None = None,
    *,
    trials: int = 4,
    seed: int = 0,
    tolerance: float | None = None,
) -> AdjointCheck:
    r"""The dot-product test: whether two maps are adjoint to each other, on random arrays.

    .. math:: \delta = \max \frac{|\langle A x, y \rangle - \langle x, A^* y \rangle|}
        {\|A x\| \|y\| + \|x\| \|A^* y\|}

    Claerbout, 1992. The inner product is conjugate-linear in its first argument. Where one side is real and the other
    complex the spaces are taken as real ones, so only the real part counts.

    A, A_star: the maps; A_star may be left out where A is a :class:`LinearOperator`.
    x_like, y_like: arrays with the shape, dtype and device of inputs and outputs; float64 ones of the operator's
    shapes when None. trials: random pairs. tolerance: 50 rounding units times the root of the size, when None.
    Returns the defect, the tolerance and ``passed``.

    >>> total, like = lambda x: x.cumsum(0), torch.zeros(5)
    >>> wrong = check_adjoint(total, total, like, like)
    >>> right = check_adjoint(total, lambda y: y.flip(0).cumsum(0).flip(0), like, like)
    >>> wrong.passed, right.passed
    (False, True)
    """
    x_like, y_like = _likes(A, x_like, y_like)
    backward = _backward(A, A_star)
    if trials < 1:
        raise InvalidInput(f"check_adjoint: trials is {trials}; at least one pair is needed")
    defect = max(_defect(A, backward, x_like, y_like, seed, trial) for trial in range(trials))
    if tolerance is None:
        eps = max(torch.finfo(x_like.dtype).eps, torch.finfo(y_like.dtype).eps)
        tolerance = 50 * eps * math.sqrt(max(x_like.numel(), y_like.numel(), 1))
    return AdjointCheck(defect, tolerance, trials)


def _defect(A: Map, backward: Map, x_like: Tensor, y_like: Tensor, seed: int, trial: int) -> float:
    x, y = (_random(like, seed, trial, side) for side, like in (("x", x_like), ("y", y_like)))
    Ax, Ay = A(x), backward(y)
    for what, got, like in (("A x", Ax, y_like), ("A* y", Ay, x_like)):
        if got.shape != like.shape:
            raise InvalidInput(
                f"check_adjoint: {what} has shape {tuple(got.shape)}; it must be {tuple(like.shape)}, as the other side"
            )
    gap = _dot(Ax, y) - _dot(x, Ay)
    if not (x_like.is_complex() and y_like.is_complex()):
        gap = gap.real
    scale = float(Ax.norm() * y.norm() + x.norm() * Ay.norm())
    size = float(abs(gap))
    return math.inf if math.isnan(size) else size / scale if scale else size


def _dot(a: Tensor, b: Tensor) -> Tensor:
    wide = torch.complex128 if a.is_complex() or b.is_complex() else torch.float64
    return torch.vdot(a.flatten().to(wide), b.flatten().to(wide))


def _random(like: Tensor, seed: int, trial: int, side: str) -> Tensor:
    source = generator(seed, "check_adjoint", side, trial, device=like.device)
    return torch.randn(like.shape, generator=source, dtype=like.dtype, device=like.device)


def _likes(A: LinearOperator | Map, x_like: Tensor | None, y_like: Tensor | None) -> tuple[Tensor, Tensor]:
    if isinstance(A, LinearOperator):
        x_like = torch.zeros(A.input_shape, dtype=torch.float64) if x_like is None else x_like
        y_like = A(x_like) if y_like is None else y_like
    if x_like is None or y_like is None:
        raise InvalidInput("check_adjoint: x_like and y_like are needed for plain functions, to know the two spaces")
    return x_like, y_like


def _backward(A: LinearOperator | Map, A_star: LinearOperator | Map | None) -> Map:
    if A_star is not None:
        return A_star
    if isinstance(A, LinearOperator):
        return A.adjoint
    raise InvalidInput("check_adjoint: A_star is missing; a plain function does not carry its adjoint, so give it")


def _fits(name: str, x: Tensor, shape: tuple[int, ...]) -> Tensor:
    if tuple(x.shape[x.ndim - len(shape) :]) != tuple(shape) or x.ndim < len(shape):
        raise InvalidInput(
            f"{name}: the array has shape {tuple(x.shape)}; (..., {', '.join(map(str, shape))}) is needed"
        )
    return x
