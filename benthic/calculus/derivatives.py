"""Derivatives of functions of tensors: forward and reverse products, Jacobians, Hessians, one-sided slopes.

Everything runs on ``torch.func``, so the functions compose with each other, with ``torch.func.vmap`` and with
ordinary autograd: a derivative taken here can itself be trained through.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from benthic.base.errors import InvalidInput, nearest
from benthic.calculus.forward import forward_product, load_rules

Function = Callable[..., Any]


def jvp(f: Function, x: Any, v: Any) -> tuple[Any, Any]:
    r"""Forward mode: the value of f at x and its derivative along v.

    .. math:: (f, x, v) \mapsto \bigl(f(x),\; J_f(x)\, v\bigr)

    f: a function of one tensor or tree of tensors. x: the point. v: the direction, shaped like x.
    Costs about two evaluations of f, whatever the size of x.

    >>> jvp(lambda x: x**2, torch.tensor([1.0, 3.0]), torch.tensor([1.0, 0.0]))
    (tensor([1., 9.]), tensor([2., 0.]))
    """
    _same_shape("jvp", x, v)
    return forward_product(f, x, v)


def vjp(f: Function, x: Any) -> tuple[Any, Callable[[Any], Any]]:
    r"""Reverse mode: the value of f at x and the function that pulls a covector back.

    .. math:: u \mapsto J_f(x)^\top u

    f: a function of one tensor or tree of tensors. x: the point.
    Returns f(x) and a function from something shaped like f(x) to something shaped like x.

    >>> value, pull = vjp(lambda x: x.prod(), torch.tensor([2.0, 5.0]))
    >>> pull(torch.tensor(1.0))
    tensor([5., 2.])
    """
    value, pull = torch.func.vjp(f, x)
    return value, lambda u: pull(u)[0]


def gradient(f: Function, x: Any) -> Any:
    r"""The gradient of a scalar function, shaped like x.

    .. math:: \nabla f(x) = J_f(x)^\top 1

    f must return a tensor without dimensions; a function with more outputs has a Jacobian, not a gradient.

    >>> gradient(lambda x: (x**3).sum(), torch.tensor([1.0, 2.0]))
    tensor([ 3., 12.])
    """
    return torch.func.grad(_scalar(f, "gradient"))(x)


def value_and_gradient(f: Function, x: Any) -> tuple[Tensor, Any]:
    """The value of a scalar function and its gradient, from one pass.

    >>> value_and_gradient(lambda x: (x**3).sum(), torch.tensor([1.0, 2.0]))
    (tensor(9.), tensor([ 3., 12.]))
    """
    slope, value = torch.func.grad_and_value(_scalar(f, "value_and_gradient"))(x)
    return value, slope


def jacobian(f: Function, x: Any, mode: str = "auto", chunk: int | None = None) -> Any:
    r"""All first derivatives of f at x.

    .. math:: J_{ij} = \partial f_i / \partial x_j

    f: a function of one tensor or tree of tensors. x: the point.
    mode: "forward" costs one product for each input, "reverse" one for each output, "auto" takes the fewer.
    chunk: how many products run together; fewer need less memory (trees in forward mode run all at once).
    Returns (\*shape of f(x), \*shape of x).

    >>> jacobian(lambda x: torch.stack([x.sum(), x.prod()]), torch.tensor([2.0, 5.0]))
    tensor([[1., 1.],
            [5., 2.]])
    """
    if mode not in ("auto", "forward", "reverse"):
        hint = nearest(str(mode), ["auto", "forward", "reverse"])
        raise InvalidInput(f"jacobian: mode is {mode!r}; it must be 'auto', 'forward' or 'reverse'{hint}")
    if mode == "auto":
        mode = _cheaper_mode(f, x)
    if mode == "reverse":
        return torch.func.jacrev(f, chunk_size=chunk)(x)
    load_rules()
    if chunk is None or not isinstance(x, Tensor):
        return torch.func.jacfwd(f)(x)
    basis = torch.eye(x.numel(), dtype=x.dtype, device=x.device).reshape(-1, *x.shape)
    columns = torch.func.vmap(lambda e: forward_product(f, x, e)[1], chunk_size=chunk)(basis)  # (inputs, *outputs)
    return columns.movedim(0, -1).unflatten(-1, x.shape) if x.ndim else columns[0]


def hessian(f: Function, x: Any) -> Any:
    r"""All second derivatives of a scalar function, forward over reverse.

    .. math:: H_{ij} = \partial^2 f / \partial x_i \partial x_j

    Returns (\*shape of x, \*shape of x).

    >>> hessian(lambda x: x.prod(), torch.tensor([2.0, 5.0]))
    tensor([[0., 1.],
            [1., 0.]])
    """
    load_rules()
    return torch.func.jacfwd(torch.func.grad(_scalar(f, "hessian")))(x)


def hvp(f: Function, x: Any, v: Any) -> Any:
    r"""The Hessian of a scalar function times a vector, forward over reverse; the Hessian is never formed.

    .. math:: H_f(x)\, v = \frac{d}{dt} \nabla f(x + t v) \Big|_{t=0}

    Pearlmutter, 1994. v: shaped like x. Returns something shaped like x, at the cost of a few gradients.

    >>> hvp(lambda x: (x**3).sum(), torch.tensor([1.0, 2.0]), torch.tensor([1.0, 1.0]))
    tensor([ 6., 12.])
    """
    _same_shape("hvp", x, v)
    return forward_product(torch.func.grad(_scalar(f, "hvp")), x, v)[1]


def per_example_gradients(
    loss: Function, params: Any, batch: Tensor | tuple[Tensor, ...], chunk: int | None = None
) -> Any:
    r"""The gradient of the loss of each example, all in one vectorized pass.

    .. math:: g_i = \nabla_\theta \ell(\theta; x_i)

    loss: called as ``loss(params, *example)`` and returns a scalar; each example arrives as a batch of one, so the
    function one trains with can be passed as it is.
    params: a tree of tensors, or an ``nn.Module``, which arrives at ``loss`` as a callable model.
    batch: a tensor (n, ...) or a tuple of them. chunk: how many examples run together.
    Returns the gradients, each (n, \*shape of the parameter); for a module a dict by parameter name.

    >>> loss = lambda w, x, y: ((x @ w - y) ** 2).mean()
    >>> x, y = torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.tensor([1.0, 1.0])
    >>> per_example_gradients(loss, torch.zeros(2), (x, y))
    tensor([[-2.,  0.],
            [ 0., -4.]])
    """
    parts = batch if isinstance(batch, tuple) else (batch,)
    _same_length(parts)
    if isinstance(params, nn.Module):
        loss, params = _functional(loss, params)
    single = torch.func.grad(_scalar(loss, "per_example_gradients"))

    def one(*example: Tensor) -> Any:
        return single(params, *(part.unsqueeze(0) for part in example))

    return torch.func.vmap(one, randomness="different", chunk_size=chunk)(*parts)


class OneSided(NamedTuple):
    """The slopes of a function along a line on the two sides of a point; at a smooth point they agree."""

    left: Tensor
    right: Tensor


def directional_derivatives(f: Function, x: Tensor, v: Tensor, step: float | None = None) -> OneSided:
    r"""The slope of t ↦ f(x + t v) just before and just after t = 0.

    .. math:: f'_\pm = \lim_{t \to 0^\pm} \frac{d}{dt} f(x + t v)

    The derivative is taken exactly at two points on each side and extrapolated to x, so the error is of second
    order in the step. A kink nearer than the step is taken for one at x.

    f: from a tensor to a tensor. x: the point. v: the direction, shaped like x.
    step: the distance in t; the cube root of the rounding unit, scaled by x and v, when None.

    >>> directional_derivatives(torch.abs, torch.tensor(0.0), torch.tensor(1.0))
    OneSided(left=tensor(-1.), right=tensor(1.))
    """
    _same_shape("directional_derivatives", x, v)
    if step is None:
        step = _default_step(x) / max(float(v.abs().max()), torch.finfo(x.dtype).tiny)

    def slope(t: float) -> Tensor:
        return forward_product(f, x + t * v, v)[1]

    return OneSided(2 * slope(-step) - slope(-2 * step), 2 * slope(step) - slope(2 * step))


class Subdifferential(NamedTuple):
    """What autograd answers at a point, and the interval of one-sided slopes of each coordinate."""

    chosen: Tensor
    lower: Tensor
    upper: Tensor

    def smooth(self, tolerance: float = 1e-4) -> Tensor:
        """Where the two one-sided slopes agree, so that the function has a derivative along that coordinate."""
        return self.upper - self.lower <= tolerance * (1 + self.upper.abs())

    def contains_choice(self, tolerance: float = 1e-4) -> Tensor:
        """Where autograd's answer lies between the one-sided slopes."""
        slack = tolerance * (1 + self.upper.abs() + self.lower.abs())
        return (self.chosen >= self.lower - slack) & (self.chosen <= self.upper + slack)


def subdifferential(f: Function, x: Tensor, step: float | None = None) -> Subdifferential:
    r"""The gradient autograd takes at x beside the interval it had to choose from, coordinate by coordinate.

    For a convex f the i-th components of all subgradients at x fill exactly the interval between the one-sided
    slopes along coordinate i,

    .. math:: \{ g_i : g \in \partial f(x) \} = \bigl[ f'_-(x; e_i),\; f'_+(x; e_i) \bigr],

    (Rockafellar, 1970, theorem 23.4). At kinks autograd chooses

    - ``relu`` at 0: 0; ``leaky_relu`` at 0: the negative slope; ``abs`` at 0: 0; a norm at 0: 0;
    - ``maximum`` and ``minimum`` of two equal numbers: one half each;
    - ``amax``, ``amin`` and ``max()`` with ties: equal shares; ``max(dim)`` and ``sort``: all to one winner;
    - ``clamp`` at a bound: 1; ``hardtanh`` and ``relu6`` at a bound: 0.

    Each is a subgradient of its own function, but the chain rule does not keep that promise: ``relu(x) - relu(-x)``
    is x, and autograd answers 0 for its slope at 0. ``contains_choice`` shows such a point.

    f: a scalar function. x: the point. step: as in :func:`directional_derivatives`.
    Returns tensors shaped like x.

    >>> at = subdifferential(lambda x: torch.relu(x).sum(), torch.tensor([-1.0, 0.0, 2.0]))
    >>> at.chosen, at.lower, at.upper
    (tensor([0., 0., 1.]), tensor([0., 0., 1.]), tensor([0., 1., 1.]))
    """
    scalar = _scalar(f, "subdifferential")
    chosen = torch.func.grad(scalar)(x)
    h = _default_step(x) if step is None else step
    basis = torch.eye(x.numel(), dtype=x.dtype, device=x.device).reshape(-1, *x.shape)

    def both(e: Tensor) -> tuple[Tensor, Tensor]:
        return tuple(directional_derivatives(scalar, x, e, h))

    left, right = torch.func.vmap(both)(basis)
    low, high = torch.minimum(left, right), torch.maximum(left, right)
    return Subdifferential(chosen, low.reshape(x.shape), high.reshape(x.shape))


def _scalar(f: Function, where: str) -> Function:
    def checked(*args: Any) -> Tensor:
        value = f(*args)
        if not isinstance(value, Tensor):
            raise InvalidInput(f"{where}: the function returned {type(value).__name__}; a scalar tensor is needed")
        if value.ndim:
            raise InvalidInput(
                f"{where}: the function returned shape {tuple(value.shape)}, and only a scalar has a gradient; "
                "sum it to one number, or ask for jacobian"
            )
        return value

    return checked


def _same_shape(where: str, x: Any, v: Any) -> None:
    if isinstance(x, Tensor) and isinstance(v, Tensor) and x.shape != v.shape:
        raise InvalidInput(
            f"{where}: x has shape {tuple(x.shape)} and v {tuple(v.shape)}; a direction is shaped like the point"
        )


def _same_length(parts: tuple[Tensor, ...]) -> None:
    lengths = [part.shape[0] if part.ndim else 0 for part in parts]
    if not parts or len(set(lengths)) > 1 or not lengths[0]:
        raise InvalidInput(
            f"per_example_gradients: the parts of the batch have {lengths} rows; each needs the same number, at least 1"
        )


def _cheaper_mode(f: Function, x: Any) -> str:
    with torch.no_grad():
        value = f(x)
    both = isinstance(x, Tensor) and isinstance(value, Tensor)
    return "forward" if both and x.numel() < value.numel() else "reverse"


def _functional(loss: Function, module: nn.Module) -> tuple[Function, dict[str, Tensor]]:
    for name, part in module.named_modules():
        if isinstance(part, nn.modules.batchnorm._BatchNorm) and part.training:
            raise InvalidInput(
                f"per_example_gradients: batch norm {name!r} mixes the examples of a batch, so none has a gradient of "
                "its own; call eval() on the module, or use group or layer norm"
            )
    trained = {name: value for name, value in module.named_parameters() if value.requires_grad}
    kept = {name: value for name, value in module.named_parameters() if not value.requires_grad}
    kept |= dict(module.named_buffers())

    def pure(params: dict[str, Tensor], *example: Tensor) -> Tensor:
        def model(*args: Any, **options: Any) -> Any:
            return torch.func.functional_call(module, {**kept, **params}, args, options)

        return loss(model, *example)

    return pure, {name: value.detach() for name, value in trained.items()}


def _default_step(x: Tensor) -> float:
    size = max(1.0, float(x.abs().max())) if x.numel() else 1.0
    return torch.finfo(x.dtype).eps ** (1 / 3) * size
