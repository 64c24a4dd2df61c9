"""The kernel: a positive definite function of two points, with sums, products and products in blocks."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from numbers import Real
from typing import Any, Self

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput, nearest
from benthic.kernels.blockwise import block_product
from benthic.kernels.points import as_pair, as_points


class Kernel(ABC):
    r"""A positive semi-definite function of two points.

    .. math:: \sum_{ij} c_i c_j\, k(x_i, x_j) \ge 0 \quad \text{for all } x, c

    Kernels are values: they never change, add with ``+``, multiply with ``*`` and scale by positive numbers. Their
    parameters are tensors that may require gradients; ``parameters()`` gives them as unconstrained logarithms and
    ``with_parameters(...)`` makes the kernel that has other ones, so any optimizer can move them.

    A new kernel stores its parameters with ``positive`` under the names in ``names`` and writes ``_matrix`` and
    ``_paired``; everything else follows.

    >>> from benthic.kernels import RBF, Constant
    >>> k = 2.0 * RBF(0.5) + Constant(1.0)
    >>> k([[0.0]], [[0.0], [0.5]])
    tensor([[3.0000, 2.2131]], dtype=torch.float64)
    """

    names: tuple[str, ...] = ()
    # Whether a kernel's value moves in proportion to the squared distance near 0, so that rounding of it is harmless.
    gentle = True

    # ------------------------------------------------------------------------------------------ evaluation

    def __call__(self, X: Any, Y: Any = None) -> Tensor:
        """The matrix of values, (..., n, d) and (..., m, d) to (..., n, m); of X with itself when Y is None.

        White noise counts only where Y is None: two samples with equal values are still two samples.
        """
        where = type(self).__name__
        if Y is None:
            X = self._check_columns(as_points(where, X, batched=True))
            return self._matrix(X, X, 0)
        X, Y = as_pair(where, X, Y, batched=True)
        return self._matrix(self._check_columns(X), Y, None)

    def diagonal(self, X: Any) -> Tensor:
        """k(x, x) for every row, (..., n, d) to (..., n), noise included."""
        X = self._check_columns(as_points(type(self).__name__, X, batched=True))
        return self._paired(X, X, same=True)

    def paired(self, X: Any, Y: Any) -> Tensor:
        """k(x_i, y_i) row by row, (..., n, d) and (..., n, d) to (..., n)."""
        X, Y = as_pair(type(self).__name__, X, Y, batched=True)
        if X.shape[-2] != Y.shape[-2]:
            raise InvalidInput(
                f"{type(self).__name__}.paired: X has {X.shape[-2]} rows and Y {Y.shape[-2]}; rows come in pairs"
            )
        return self._paired(self._check_columns(X), Y, same=False)

    def matmul(self, X: Any, Y: Any, V: Tensor, *, elements: int | None = None) -> Tensor:
        """The kernel matrix times V in tiles, so that (n, m) numbers are never held, also not for the gradient.

        X: (n, d). Y: (m, d), or None for X itself. V: (m,) or (m, c). elements: entries of a tile.
        Differentiable once by X, Y, V and the parameters; the backward pass computes the tiles again.
        Returns (n,) or (n, c).

        >>> from benthic.kernels import Linear
        >>> Linear().matmul([[1.0], [2.0]], None, torch.ones(2, dtype=torch.float64))
        tensor([3., 6.], dtype=torch.float64)
        """
        where = f"{type(self).__name__}.matmul"
        same = Y is None
        X, Y = as_pair(where, X, X if same else Y)
        self._check_columns(X)
        if not isinstance(V, Tensor) or V.ndim not in (1, 2) or len(V) != len(Y):
            shape = tuple(V.shape) if isinstance(V, Tensor) else type(V).__name__
            raise InvalidInput(f"{where}: V is {shape}; a tensor with {len(Y)} rows, one for each of Y, is needed")
        out = block_product(self, same, elements, X, Y, V.to(X).reshape(len(Y), -1))
        return out.reshape(len(X), *V.shape[1:])

    def sum(self, X: Any, Y: Any = None, *, elements: int | None = None) -> Tensor:
        """The sum of all entries of the kernel matrix, in tiles; differentiable as :meth:`matmul`.

        >>> from benthic.kernels import Linear
        >>> Linear().sum([[1.0], [2.0]])
        tensor(9., dtype=torch.float64)
        """
        X = as_points(f"{type(self).__name__}.sum", X)
        other = X if Y is None else as_points(f"{type(self).__name__}.sum", Y, "Y")
        ones = torch.ones(len(other), dtype=X.dtype, device=X.device)
        return self.matmul(X, Y, ones, elements=elements).sum()

    # ------------------------------------------------------------------------------------------ parameters

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Name and value of every parameter, in a fixed order."""
        for name in self.names:
            yield name, getattr(self, name)

    def parameters(self) -> dict[str, Tensor]:
        """The logarithm of every positive parameter by name: any real numbers are allowed here.

        >>> from benthic.kernels import RBF
        >>> RBF(1.0).parameters()
        {'lengthscale': tensor(0., dtype=torch.float64)}
        """
        return {name: value.log() for name, value in self.tensors()}

    def with_parameters(self, parameters: Mapping[str, Tensor]) -> Kernel:
        """The same kernel with other values of the logarithms of :meth:`parameters`; those not named stay.

        >>> from benthic.kernels import RBF
        >>> RBF(1.0).with_parameters({"lengthscale": torch.tensor(0.6931)})
        RBF(lengthscale=2)
        """
        known = [name for name, _ in self.tensors()]
        for name in parameters:
            if name not in known:
                choices = (", ".join(known) or "none") + nearest(name, known)
                raise InvalidInput(f"{type(self).__name__}.with_parameters: there is no {name!r}; known are {choices}")
        values = [parameters[name].exp() if name in parameters else value for name, value in self.tensors()]
        return self._rebuilt(iter(values))

    @property
    def theta(self) -> Tensor:
        """The logarithms of all parameters as one vector, float64, in the order of :meth:`tensors`.

        >>> from benthic.kernels import RBF
        >>> (2.0 * RBF(1.0)).theta
        tensor([0.6931, 0.0000], dtype=torch.float64)
        """
        logs = [value.log().double().reshape(-1) for _, value in self.tensors()]
        return torch.cat(logs) if logs else torch.zeros(0, dtype=torch.float64)

    def with_theta(self, theta: Tensor) -> Kernel:
        """The same kernel with the vector of logarithms ``theta``, (p,).

        >>> from benthic.kernels import RBF
        >>> RBF(1.0).with_theta(torch.tensor([0.6931]))
        RBF(lengthscale=2)
        """
        sizes = [value.numel() for _, value in self.tensors()]
        if tuple(theta.shape) != (sum(sizes),):
            raise InvalidInput(
                f"{type(self).__name__}.with_theta: theta has shape {tuple(theta.shape)}; the kernel has {sum(sizes)} "
                "parameters, so it must be a vector of as many logarithms"
            )
        pieces = zip(theta.exp().split(sizes), self.tensors(), strict=True)
        return self._rebuilt(piece.reshape(value.shape) for piece, (_, value) in pieces)

    def to_tree(self) -> dict[str, Any]:
        """What a model file keeps: the parameters, settings and parts."""
        return {name: value.detach() if isinstance(value, Tensor) else value for name, value in vars(self).items()}

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> Self:
        """The kernel a model file kept, made by the constructor, which checks it."""
        moving = tree.get("names", cls.names)
        kept = {name: value for name, value in tree.items() if name not in ("names", "gentle")}  # which follow
        fixed = {name: value.item() for name, value in kept.items() if name not in moving and isinstance(value, Tensor)}
        return cls(**{**kept, **fixed})

    def _rebuilt(self, values: Iterator[Tensor]) -> Kernel:
        """A copy whose parameters are the next of ``values``, unchecked."""
        other = copy.copy(self)
        for name in self.names:
            object.__setattr__(other, name, next(values))
        return other

    def _store(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is a value and does not change; use with_parameters for a new one")

    # ------------------------------------------------------------------------------------------ for subclasses

    @abstractmethod
    def _matrix(self, X: Tensor, Y: Tensor, shift: int | None, fast: bool = False) -> Tensor:
        """(..., n, m). shift: row i and column i + shift are the same sample; None when there are none.

        fast: the caller wants no gradient and :meth:`_allows_fast` said that a plain matrix product is enough.
        """

    @abstractmethod
    def _paired(self, X: Tensor, Y: Tensor, same: bool) -> Tensor:
        """(..., n): the kernel of rows that belong together. same: whether they are the same samples."""

    def _columns(self) -> int | None:
        """How many columns the parameters are made for; None when any."""
        return None

    def _allows_fast(self, X: Tensor, Y: Tensor) -> bool:
        return True

    def _check_columns(self, X: Tensor) -> Tensor:
        wanted = self._columns()
        if wanted is not None and X.shape[-1] != wanted:
            raise InvalidInput(
                f"{type(self).__name__}: X has {X.shape[-1]} columns and the kernel a parameter for each of {wanted}; "
                "give one for each column, or a single number"
            )
        return X

    # ------------------------------------------------------------------------------------------ algebra

    def __add__(self, other: Kernel | float) -> Kernel:
        """The sum of two kernels; a positive number counts as a constant kernel."""
        return _combined(Sum, self, other)

    def __radd__(self, other: Kernel | float) -> Kernel:
        """The sum of a number and a kernel."""
        return _combined(Sum, other, self)

    def __mul__(self, other: Kernel | float) -> Kernel:
        """The product of two kernels, or a kernel times a positive number."""
        return _combined(Product, self, other)

    def __rmul__(self, other: Kernel | float) -> Kernel:
        """A positive number times a kernel."""
        return _combined(Product, other, self)

    def __repr__(self) -> str:
        """The kernel as one would write it."""
        return f"{type(self).__name__}({', '.join(f'{name}={_shown(value)}' for name, value in self.tensors())})"


class _Composite(Kernel):
    """Several kernels under one operation; nested ones of the same kind are flattened."""

    parts: tuple[Kernel, ...]

    def __init__(self, *parts: Kernel) -> None:
        flat = [piece for part in parts for piece in (part.parts if isinstance(part, type(self)) else (part,))]
        self._store(parts=tuple(flat))

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> Self:
        """The kernel a model file kept."""
        if not all(isinstance(part, Kernel) for part in tree["parts"]):
            raise InvalidInput(f"{cls.__name__}: its parts are {tree['parts']!r:.60}; they must be kernels")
        return cls(*tree["parts"])

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Parameters of part i under names that begin with "i."."""
        for i, part in enumerate(self.parts):
            for name, value in part.tensors():
                yield f"{i}.{name}", value

    def _rebuilt(self, values: Iterator[Tensor]) -> Kernel:
        other = copy.copy(self)
        object.__setattr__(other, "parts", tuple(part._rebuilt(values) for part in self.parts))
        return other

    def _check_columns(self, X: Tensor) -> Tensor:
        for part in self.parts:
            part._check_columns(X)
        return X

    def _allows_fast(self, X: Tensor, Y: Tensor) -> bool:
        return all(part._allows_fast(X, Y) for part in self.parts)

    def _fold(self, values: Iterator[Tensor], join: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        total = next(values)
        for value in values:
            total = join(total, value)
        return total


class Sum(_Composite):
    """The sum of kernels: a function made of independent pieces.

    >>> from benthic.kernels import RBF, White
    >>> RBF(1.0) + White(0.1)
    RBF(lengthscale=1) + White(variance=0.1)
    """

    def _matrix(self, X: Tensor, Y: Tensor, shift: int | None, fast: bool = False) -> Tensor:
        return self._fold((part._matrix(X, Y, shift, fast) for part in self.parts), torch.add)

    def _paired(self, X: Tensor, Y: Tensor, same: bool) -> Tensor:
        return self._fold((part._paired(X, Y, same) for part in self.parts), torch.add)

    def __repr__(self) -> str:
        """The parts with plus signs."""
        return " + ".join(map(repr, self.parts))


class Product(_Composite):
    """The product of kernels: a function that is alike only where all of them say so.

    >>> from benthic.kernels import RBF, Periodic
    >>> RBF(5.0) * Periodic(1.0)
    RBF(lengthscale=5) * Periodic(lengthscale=1, period=1)
    """

    def _matrix(self, X: Tensor, Y: Tensor, shift: int | None, fast: bool = False) -> Tensor:
        return self._fold((part._matrix(X, Y, shift, fast) for part in self.parts), torch.mul)

    def _paired(self, X: Tensor, Y: Tensor, same: bool) -> Tensor:
        return self._fold((part._paired(X, Y, same) for part in self.parts), torch.mul)

    def __repr__(self) -> str:
        """The parts with times signs."""
        return " * ".join(f"({part!r})" if isinstance(part, Sum) else repr(part) for part in self.parts)


def positive(where: str, name: str, value: Any, vector: bool = True) -> Tensor:
    """A parameter as a tensor: a positive number, or where ``vector`` one for each column."""
    tensor = value if isinstance(value, Tensor) else torch.as_tensor(value, dtype=torch.float64)
    tensor = tensor if tensor.is_floating_point() else tensor.double()
    if tensor.ndim > int(vector) or not tensor.numel():
        raise InvalidInput(
            f"{where}: {name} has shape {tuple(tensor.shape)}; a number{', or one for each column,' if vector else ''} "
            "is needed"
        )
    if not bool(((tensor > 0) & torch.isfinite(tensor)).all()):
        raise InvalidInput(f"{where}: {name} is {_shown(tensor)}; it must be positive and finite")
    return tensor


def _combined(kind: type[_Composite], left: Any, right: Any) -> Any:
    from benthic.kernels.covariance import Constant

    parts = []
    for side in (left, right):
        if isinstance(side, Kernel):
            parts.append(side)
        elif isinstance(side, (Real, Tensor)):
            parts.append(Constant(side))
        else:
            return NotImplemented
    return kind(*parts)


def _shown(value: Tensor) -> str:
    numbers = value.detach().flatten().tolist()
    return f"{numbers[0]:.4g}" if not value.ndim else "[" + ", ".join(f"{number:.4g}" for number in numbers) + "]"
