"""A target in coordinates where the mass is one: what Hamiltonian samplers move in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from benthic.base.compiling import compiled
from benthic.base.errors import InvalidInput
from benthic.samplers.target import Target, unchecked


def root_of(inverse_mass: Tensor | None, target: Target) -> Tensor | None:
    """The factor L of an inverse mass (d,) or (d, d): square roots, or a lower triangle; None stays None."""
    if inverse_mass is None:
        return None
    given = torch.as_tensor(inverse_mass, dtype=target.dtype, device=target.device)
    if tuple(given.shape) not in ((target.dim,), (target.dim, target.dim)):
        raise InvalidInput(f"inverse_mass has shape {tuple(given.shape)}; it must be ({target.dim},) or its square")
    if given.ndim == 1:
        if not bool((given > 0).all()):
            raise InvalidInput("inverse_mass has entries that are not positive; variances of the parameters would do")
        return given.sqrt().contiguous()
    factor, failed = torch.linalg.cholesky_ex(given)
    if bool(failed):
        raise InvalidInput("inverse_mass is not positive definite; a covariance of the parameters would do")
    return factor.contiguous()


@dataclass(frozen=True)
class Whitened:
    r"""A target seen from whitened rows z, with :math:`x = L z`: unit mass there is mass :math:`(L L^\top)^{-1}` here.

    root: None, (d,) a diagonal L, or (d, d) a lower triangle.
    """

    target: Target
    root: Tensor | None = None

    def out(self, z: Tensor) -> Tensor:
        """Positions of whitened rows (..., d)."""
        return _out(z, self.root)

    def back(self, position: Tensor) -> Tensor:
        """Whitened rows of positions (..., d)."""
        if self.root is None or self.root.ndim == 1:
            return position if self.root is None else position / self.root
        flat = position.reshape(-1, position.shape[-1])
        return torch.linalg.solve_triangular(self.root, flat.mT, upper=False).mT.reshape(position.shape)

    def slope(self, gradient: Tensor) -> Tensor:
        """The gradient by z of a gradient by x."""
        return _slope(gradient, self.root)

    def unslope(self, gradient: Tensor) -> Tensor:
        """The gradient by x of a gradient by z."""
        if self.root is None or self.root.ndim == 1:
            return gradient if self.root is None else gradient / self.root
        return torch.linalg.solve_triangular(self.root.mT, gradient.mT, upper=True).mT

    def value_and_grad(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """(chains,) log density and (chains, d) gradient by z."""
        if self.target.compile:
            with torch.no_grad():
                return self.caller(z)(z.contiguous())
        value, gradient = self.target.value_and_grad(self.out(z))
        return value, self.slope(gradient)

    def caller(self, z: Tensor) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
        """``value_and_grad`` for contiguous rows shaped like z, with all that can be looked up beforehand looked up."""
        if not self.target.compile:
            return self.value_and_grad
        program, root = _fused(self.target, z.contiguous(), self.root), self.root
        return program if root is None else lambda z: program(z, root)


def _out(z: Tensor, root: Tensor | None) -> Tensor:
    if root is None:
        return z
    return z * root if root.ndim == 1 else z @ root.mT


def _slope(gradient: Tensor, root: Tensor | None) -> Tensor:
    if root is None:
        return gradient
    return gradient * root if root.ndim == 1 else gradient @ root


def _fused(target: Target, z: Tensor, root: Tensor | None) -> Any:
    """Both maps, the density and its gradient as one compiled call, for contiguous rows of this shape."""
    key = (tuple(z.shape), 0 if root is None else root.ndim)
    if key not in target.programs:

        def both(z: Tensor, root: Tensor | None) -> tuple[Tensor, Tensor]:
            gradient, value = torch.func.grad(_summed(target), has_aux=True)(_out(z, root))
            return value, _slope(gradient, root)

        program = _compiled(lambda z: both(z, None), [z]) if root is None else _compiled(both, [z, root])
        target.programs[key] = program
    return target.programs[key]


def _compiled(call: Callable[..., Any], inputs: list[Tensor]) -> Any:
    """A call traced and compiled for inputs of these very shapes.

    What ``torch.compile`` looks up at each call, 20 microseconds for a small density, is left out.
    """
    from torch import _inductor as inductor
    from torch.fx.experimental.proxy_tensor import make_fx

    with unchecked(), torch.no_grad():
        flat = make_fx(call)(*inputs)
        device = inputs[0].device
        if compiled(flat, device, "Target") is flat:  # no compiler was found, and a warning said so
            return flat
        for node in flat.graph.nodes:
            node.meta.clear()
        options = {"cpp_wrapper": True} if device.type == "cpu" else {}
        return inductor.compile(flat, inputs, options=options)


def _summed(target: Target) -> Any:
    def call(position: Tensor) -> tuple[Tensor, Tensor]:
        value = target.pure(position)
        return value.sum(), value

    return call
