"""The kernel matrix of fixed rows as a function of the parameters, and the pull-back of a matrix to their gradients."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor

from benthic.kernels.covariance import Constant, White
from benthic.kernels.kernel import Kernel, Product, Sum
from benthic.kernels.products import fast_squared, squared_matrix
from benthic.kernels.stationary import RBF, Matern, _Distance


class Gram:
    r"""Kernel matrices of the same rows under changing parameters, with gradients of any weighted sum of entries.

    .. math:: \frac{\partial}{\partial \theta_j} \sum_{ab} G_{ab} K_{ab}(\theta) \qquad \theta = \log(\text{parameters})

    Distances that do not depend on the parameters are computed once; :class:`RBF` and :class:`Matern` are
    differentiated by formula (one matrix product for all length scales together), other kernels by autograd.

    kernel: what gives the structure and the first parameters. X: (n, d).

    >>> gram = Gram(2.0 * RBF(1.0), torch.tensor([[0.0], [1.0]]))
    >>> gram.matrix()
    tensor([[2.0000, 1.2131],
            [1.2131, 2.0000]])
    >>> gram.pull(torch.ones(2, 2))
    tensor([6.4261, 2.4261], dtype=torch.float64)
    """

    def __init__(self, kernel: Kernel, X: Tensor) -> None:
        self.kernel, self.X = kernel, kernel._check_columns(X)
        self._distances: Tensor | None = None
        self._node: _Node | None = None

    def matrix(self, theta: Tensor | None = None) -> Tensor:
        """K at the logarithms ``theta`` of the parameters, (n, n): a new tensor that the caller may overwrite."""
        kernel = self.kernel if theta is None else self.kernel.with_theta(theta)
        with torch.no_grad():
            self._node = _node(kernel, self)
            K, owned = self._node.value()
            n = len(self.X)
            if not isinstance(K, Tensor):
                return self.X.new_full((n, n), K)
            return K if owned else K.clone()

    def pull(self, G: Tensor) -> Tensor:
        """Gradient of the sum of G times the last K by the logarithms, (p,), float64 on the CPU. G: symmetric."""
        if self._node is None:
            self.matrix()
        with torch.no_grad():
            parts = self._node.pull(G, 1.0) if self._node is not None else []
            flat = [part.reshape(-1).double() for part in parts]
            return torch.cat(flat).cpu() if flat else torch.zeros(0, dtype=torch.float64)

    def distances(self) -> Tensor:
        """Squared distances of the rows, (n, n), computed once."""
        if self._distances is None:
            self._distances = squared_matrix(self.X, self.X)
        return self._distances


class _Node(ABC):
    """A kernel of the tree at one value of its parameters."""

    def __init__(self, kernel: Any, gram: Gram) -> None:
        self.kernel, self.gram = kernel, gram

    @abstractmethod
    def value(self) -> tuple[Any, bool]:
        """The matrix (or a number for all entries), and whether the caller may overwrite it."""

    @abstractmethod
    def pull(self, G: Tensor, scale: float) -> list[Tensor]:
        """Gradients by the logarithms of the parameters of the sum of scale * G * K, in their order."""


class _Number(_Node):
    def value(self) -> tuple[Any, bool]:
        return float(self.kernel.variance), True

    def pull(self, G: Tensor, scale: float) -> list[Tensor]:
        return [G.sum() * (scale * float(self.kernel.variance))]


class _Noise(_Node):
    def value(self) -> tuple[Any, bool]:
        X = self.gram.X
        return torch.eye(len(X), dtype=X.dtype, device=X.device) * float(self.kernel.variance), True

    def pull(self, G: Tensor, scale: float) -> list[Tensor]:
        return [G.diagonal().sum() * (scale * float(self.kernel.variance))]


class _OneScale(_Node):
    """A function of the distance with one length scale: the distance matrix is shared by all evaluations."""

    def value(self) -> tuple[Any, bool]:
        self.factor = float(self.kernel.lengthscale) ** -2 * (0.5 if isinstance(self.kernel, RBF) else 1.0)
        self.K = self.kernel._fast_profile(self.gram.distances() * -self.factor)
        return self.K, False

    def pull(self, G: Tensor, scale: float) -> list[Tensor]:
        D = self.gram.distances()
        if isinstance(self.kernel, RBF):
            W = G * self.K
            return [_inner(W, D) * (2 * self.factor * scale)]
        W = self.kernel._slope(D * self.factor, self.K).mul_(G)
        return [_inner(W, D) * (-2 * self.factor * scale)]


def _inner(A: Tensor, B: Tensor) -> Tensor:
    """The sum of products of entries of two symmetric matrices, whichever way each lies in memory."""
    flat = [(M if M.is_contiguous() else M.T).reshape(-1) for M in (A, B)]
    return torch.dot(*flat)


class _ManyScales(_Node):
    """A function of the distance with a length scale for each column."""

    def value(self) -> tuple[Any, bool]:
        X = self.gram.X
        self.A = self.kernel._centered(X, X)[0]
        if self.kernel._allows_fast(X, X):
            D = fast_squared(self.A, self.A).clamp_(max=0)
            D.diagonal().zero_()
        else:
            D = squared_matrix(self.A, self.A).neg_()
        self.D = None if isinstance(self.kernel, RBF) else D.neg()
        self.K = self.kernel._fast_profile(D)
        return self.K, False

    def pull(self, G: Tensor, scale: float) -> list[Tensor]:
        A = self.A
        W = self.kernel._slope(self.D, self.K).mul_(G)
        rows = W.sum(1, keepdim=True)
        return [(rows * A - W @ A).mul_(A).sum(0) * (-4 * scale)]


class _ByAutograd(_Node):
    def value(self) -> tuple[Any, bool]:
        X = self.gram.X
        self.logs = {name: value.detach().log().to(X).requires_grad_() for name, value in self.kernel.tensors()}
        with torch.enable_grad():
            self.K = self.kernel.with_parameters(self.logs)._matrix(X, X, 0)
        return self.K.detach(), False

    def pull(self, G: Tensor, scale: float) -> list[Tensor]:
        if not self.logs:
            return []
        found = torch.autograd.grad(self.K, list(self.logs.values()), G, retain_graph=True)
        return [slope * scale for slope in found]


class _Plus(_Node):
    def __init__(self, kernel: Sum, gram: Gram) -> None:
        super().__init__(kernel, gram)
        self.parts = [_node(part, gram) for part in kernel.parts]

    def value(self) -> tuple[Any, bool]:
        total, owned, number = None, False, 0.0
        noises = [part for part in self.parts if isinstance(part, _Noise)]
        for part in self.parts:
            if isinstance(part, _Noise):
                continue
            K, mine = part.value()
            if not isinstance(K, Tensor):
                number += K
            elif total is None:
                total, owned = K, mine
            else:
                total, owned = (total.add_(K) if owned else total + K), True
        if total is None and not noises:
            return number, True
        if total is None:
            total, owned = self.gram.X.new_full((len(self.gram.X),) * 2, 0.0), True
        if number or noises:
            total = total.add_(number) if owned else total + number
            total.diagonal().add_(sum(float(part.kernel.variance) for part in noises))
            owned = True
        return total, owned

    def pull(self, G: Tensor, scale: float) -> list[Tensor]:
        return [slope for part in self.parts for slope in part.pull(G, scale)]


class _Times(_Node):
    def __init__(self, kernel: Product, gram: Gram) -> None:
        super().__init__(kernel, gram)
        self.parts = [_node(part, gram) for part in kernel.parts]

    def value(self) -> tuple[Any, bool]:
        self.number, self.matrices = 1.0, {}
        total = None
        for i, part in enumerate(self.parts):
            K, _ = part.value()
            if isinstance(K, Tensor):
                self.matrices[i] = K
                total = K if total is None else total * K
            else:
                self.number *= K
        return (self.number, True) if total is None else (total * self.number, True)

    def pull(self, G: Tensor, scale: float) -> list[Tensor]:
        found: list[Tensor] = []
        for i, part in enumerate(self.parts):
            if i in self.matrices:
                found += part.pull(self._entries(G, i), scale * self.number)
            elif isinstance(part, _Number):
                found.append(self._total(G) * (scale * self.number))
            else:  # a sum of constants
                found += part.pull(self._entries(G, None), scale * self.number / part.value()[0])
        return found

    def _total(self, G: Tensor) -> Tensor:
        """The sum of G times all matrices."""
        if not self.matrices:
            return G.sum()
        last = next(reversed(self.matrices))
        return torch.dot(self._entries(G, last).reshape(-1), self.matrices[last].reshape(-1))

    def _entries(self, G: Tensor, without: int | None) -> Tensor:
        """G times all matrices but one."""
        for i, K in self.matrices.items():
            if i != without:
                G = G * K
        return G


def _node(kernel: Kernel, gram: Gram) -> _Node:
    if isinstance(kernel, Sum):
        return _Plus(kernel, gram)
    if isinstance(kernel, Product):
        return _Times(kernel, gram)
    if type(kernel) is Constant:
        return _Number(kernel, gram)
    if type(kernel) is White:
        return _Noise(kernel, gram)
    if type(kernel) in (RBF, Matern) and isinstance(kernel, _Distance):
        return (_ManyScales if kernel.lengthscale.ndim else _OneScale)(kernel, gram)
    return _ByAutograd(kernel, gram)
