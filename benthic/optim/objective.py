"""A torch function as a minimizer sees it: flat points in, value, gradient and curvature out, calls counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benthic.base.errors import InvalidInput

Function = Callable[[Tensor], Any]
Vector = Any  # a flat torch tensor, or a NumPy array where vectors are small and calls are what costs
SMALL = 10_000


class Objective:
    """A function of one point. ``objective(x)`` maps a flat point (d,) to its value and gradient (d,).

    f: maps a tensor of ``shape`` to a scalar tensor, or to (value, gradient) if ``pair``. Points and gradients are
    tensors, or NumPy arrays that share their memory with what f sees and gives.
    """

    def __init__(self, f: Function, shape: torch.Size, pair: bool = False) -> None:
        self.f, self.shape, self.pair = f, shape, pair
        self.flat = len(shape) == 1
        self.evaluations = 0

    def __call__(self, x: Vector) -> tuple[float, Vector]:
        """Value and gradient at a flat point."""
        self.evaluations += 1
        host = isinstance(x, np.ndarray)
        leaf = torch.from_numpy(x) if host else x.detach()
        if self.pair:
            value, gradient = self.f(leaf if self.flat else leaf.view(self.shape))
            gradient = gradient.detach().reshape(-1).clone()  # f may use one buffer for all of them
        else:
            leaf.requires_grad_()
            value = self.f(leaf if self.flat else leaf.view(self.shape))
            (gradient,) = torch.autograd.grad(value, leaf)
        return value.item() if isinstance(value, Tensor) else float(value), gradient.numpy() if host else gradient


class Batch:
    """A function of many points. ``batch(X)`` maps rows (B, d) to values (B,) and gradients (B, d).

    f: maps (B, d) to (B,), each row by itself, or to (values, gradients) if ``pair``. hessian: maps (B, d) to
    (B, d, d); without it autograd is asked. everything: the whole batch is passed to f every time, with
    finished rows left where they ended (for functions that hold something for each row).
    """

    def __init__(
        self,
        f: Function,
        start: Tensor,
        pair: bool = False,
        hessian: Callable[[Tensor], Tensor] | None = None,
        everything: bool = False,
    ) -> None:
        self.f, self.pair, self.given = f, pair, hessian
        self.everything = start.clone() if everything else None
        self.evaluations = torch.zeros(len(start), dtype=torch.long, device=start.device)
        self.rows = torch.arange(len(start), device=start.device)

    def keep(self, rows: Tensor) -> None:
        """Go on with these of the present rows."""
        self.rows = self.rows[rows]

    def __call__(self, X: Tensor, rows: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Values and gradients of all present rows, or of some of them (indices or a mask)."""
        which = self._count(rows)
        if self.pair:
            with torch.enable_grad():
                both = self.f(self._whole(X, which))
            value, gradient = (part.detach().to(X.dtype, copy=True) for part in both)
            return (value, gradient) if self.everything is None else (value[which], gradient[which])
        _, value, gradient = self._graph(X, which, create=False)
        return value.detach().to(X.dtype), gradient

    def values(self, X: Tensor, rows: Tensor | None = None) -> Tensor:
        """Values alone."""
        which = self._count(rows)
        with torch.set_grad_enabled(self.pair):  # a function that gives its gradient may ask autograd for it
            value = self.f(self._whole(X, which))
        value = value[0] if self.pair else value
        return (value if self.everything is None else value[which]).detach().to(X.dtype)

    def curvature(self, X: Tensor, rows: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Values (B,), gradients (B, d) and Hessians (B, d, d)."""
        if self.given is not None:
            value, gradient = self(X, rows)
            whole = self.given(self._whole(X, self._which(rows)))
            return value, gradient, (whole if self.everything is None else whole[self._which(rows)]).detach()
        leaf, value, gradient = self._graph(X, self._count(rows), create=True)
        return value.detach().to(X.dtype), gradient.detach(), _rows_of_hessian(gradient, leaf)

    def products(self, X: Tensor, rows: Tensor | None = None) -> tuple[Tensor, Tensor, Callable[[Tensor], Tensor]]:
        """Values, gradients, and the function that multiplies (B, d) by the Hessians."""
        if self.given is not None:
            value, gradient, hessian = self.curvature(X, rows)
            return value, gradient, lambda V: (hessian @ V[..., None])[..., 0]
        which = self._count(rows)
        leaf, value, gradient = self._graph(X, which, create=True)

        def multiply(V: Tensor) -> Tensor:
            self.evaluations[which] += 1
            if not gradient.requires_grad:
                return torch.zeros_like(V)
            (product,) = torch.autograd.grad(gradient, leaf, V, retain_graph=True, materialize_grads=True)
            return product

        return value.detach().to(X.dtype), gradient.detach(), multiply

    def _which(self, rows: Tensor | None) -> Tensor:
        return self.rows if rows is None else self.rows[rows]

    def _count(self, rows: Tensor | None) -> Tensor:
        which = self._which(rows)
        self.evaluations[which] += 1
        return which

    def _whole(self, X: Tensor, which: Tensor) -> Tensor:
        if self.everything is None:
            return X
        self.everything = self.everything.index_copy(0, which, X)
        return self.everything

    def _graph(self, X: Tensor, which: Tensor, create: bool) -> tuple[Tensor, Tensor, Tensor]:
        with torch.enable_grad():
            leaf = X.detach().requires_grad_()
            value = self.f(leaf) if self.everything is None else self.f(self._whole(leaf, which))[which]
            (gradient,) = torch.autograd.grad(value.sum(), leaf, create_graph=create, materialize_grads=True)
        if self.everything is not None:
            self.everything = self.everything.detach()
        return leaf, value, gradient


def vector_of(start: Tensor) -> Vector:
    """A flat copy of the start, as an array where it is small and on the host."""
    flat = start.reshape(-1).clone()
    small = flat.device.type == "cpu" and flat.dtype == torch.float64 and len(flat) <= SMALL
    return flat.numpy() if small else flat


def _rows_of_hessian(gradient: Tensor, leaf: Tensor) -> Tensor:
    n, d = leaf.shape
    if not gradient.requires_grad:  # a linear function
        return leaf.new_zeros(n, d, d)
    basis = torch.eye(d, dtype=leaf.dtype, device=leaf.device)[:, None].expand(d, n, d)
    (rows,) = torch.autograd.grad(gradient, leaf, basis, is_grads_batched=True, materialize_grads=True)
    hessian = rows.transpose(0, 1)  # (B, d, d)
    return 0.5 * (hessian + hessian.mT)


def check_start(x0: Any, batched: bool, name: str = "minimize") -> Tensor:
    """The start as a floating tensor, finite and not empty; (B, d) if batched."""
    start = torch.as_tensor(x0).detach()
    if start.is_complex():
        raise InvalidInput(f"{name}: x0 is complex; pass real and imaginary parts as one real tensor")
    if not start.is_floating_point():
        start = start.to(torch.float64)
    elif not isinstance(x0, Tensor) and isinstance(x0, list | tuple | float):
        start = torch.as_tensor(x0, dtype=torch.float64)
    if batched and start.ndim != 2:
        raise InvalidInput(
            f"{name}: x0 has shape {tuple(start.shape)}; with batched=True it must be (starts, dimensions)"
        )
    if start.numel() == 0:
        raise InvalidInput(f"{name}: x0 of shape {tuple(start.shape)} is empty; there is nothing to move")
    if not bool(start.isfinite().all()):
        raise InvalidInput(
            f"{name}: x0 has {int((~start.isfinite()).sum())} entries that are not finite; start at a finite point"
        )
    return start


def check_function(f: Function, start: Tensor, batched: bool, pair: bool, name: str = "minimize") -> None:
    """That f maps the start to what it should: a scalar (or one value a row), finite, and differentiable."""
    with torch.enable_grad():
        leaf = start.clone().requires_grad_(not pair)
        answer = f(leaf)
    value, gradient = _parts(answer, pair, name)
    expected = tuple(start.shape[:1]) if batched else ()
    what = f"{len(start)} values, one a row," if batched else "one number"
    wrong = tuple(value.shape) != expected if batched else value.numel() != 1
    if wrong:
        tip = "sum or average over the other dimensions" if batched else "sum or average it, or pass batched=True"
        raise InvalidInput(f"{name}: f(x0) has shape {tuple(value.shape)}; it must be {what} so {tip}")
    if gradient is None and not value.requires_grad:
        raise InvalidInput(
            f"{name}: f(x0) does not depend on x by torch operations, so it has no gradient; compute it in torch, or "
            "return (value, gradient) with value_and_gradient=True"
        )
    if gradient is not None and gradient.shape != start.shape:
        raise InvalidInput(
            f"{name}: the gradient has shape {tuple(gradient.shape)}, x0 {tuple(start.shape)}; they must agree"
        )
    if not bool(value.detach().isfinite().all()):
        raise InvalidInput(f"{name}: f(x0) is not finite; start where the function is defined")


def _parts(answer: Any, pair: bool, name: str) -> tuple[Tensor, Tensor | None]:
    if pair:
        if not (isinstance(answer, tuple | list) and len(answer) == 2 and isinstance(answer[1], Tensor)):
            raise InvalidInput(f"{name}: with value_and_gradient=True f must return (value, gradient tensor)")
        return torch.as_tensor(answer[0]), answer[1]
    if not isinstance(answer, Tensor):
        raise InvalidInput(
            f"{name}: f returned {type(answer).__name__}; it must return a tensor, or (value, gradient) with "
            "value_and_gradient=True"
        )
    return answer, None


def check_rows(f: Function, start: Tensor, pair: bool, name: str = "minimize") -> None:
    """That the first row alone has the value it has among the others, so that finished rows can be left out."""
    with torch.set_grad_enabled(pair):
        whole, alone = (_parts(f(X), pair, name)[0].detach().reshape(-1) for X in (start, start[:1]))
    tolerance = 1e3 * torch.finfo(start.dtype).eps
    if alone.numel() != 1 or not torch.allclose(whole[:1], alone, rtol=tolerance, atol=tolerance):
        raise InvalidInput(
            f"{name}: f of the first start alone is not what it is among the others; its rows must not depend on each "
            "other, or on their position (if on their position only, pass compact=False)"
        )
