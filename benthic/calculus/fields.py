"""Divergence, Laplacian and curl of fields over batches of points; traces of operators known by their products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput, nearest
from benthic.calculus.adjoints import LinearOperator
from benthic.calculus.forward import forward_product

METHODS = ("exact", "rademacher", "gaussian", "hutch++")
# Numbers that exact products along several basis vectors may hold together.
_BUDGET = 2**22


class TraceEstimate(NamedTuple):
    """A trace or divergence and its standard error: zero when exact, NaN when one probe leaves it unknown."""

    value: Tensor
    stderr: Tensor


def divergence(
    field: Callable[[Tensor], Tensor],
    x: Tensor,
    method: str = "exact",
    samples: int = 1,
    *,
    generator: torch.Generator | None = None,
    probes: Tensor | None = None,
    mode: str = "forward",
    chunk: int | None = None,
    stderr: bool = False,
) -> Any:
    r"""The divergence of a field at each point of a batch: the trace of its Jacobian.

    .. math:: \nabla \cdot F(x) = \sum_i \frac{\partial F_i}{\partial x_i} = \mathbb{E}_v\, v^\top J_F(x)\, v

    The exact sum takes one Jacobian product for each coordinate; the estimates take ``samples`` (Hutchinson, 1990;
    Hutch++: Meyer, Musco, Musco & Woodruff, 2021) and are unbiased, also after differentiation by parameters.
    Works under ``torch.func.vmap`` and inside ``torch.func.grad``.

    field: from (n, \*event) to (n, \*event), each row by itself. x: (n, \*event).
    method: "exact", "rademacher", "gaussian" or "hutch++". samples: products a point; Hutch++ needs at least 3.
    generator: where probes come from. probes: (samples, n, \*event) draws of :func:`probes` to use instead, for
    instance the same ones along a whole trajectory; Hutch++ takes the first half as its sketch.
    mode: "forward" products or "reverse" ones, for fields without forward derivatives. chunk: how many products run
    together. stderr: return a :class:`TraceEstimate` rather than the value alone.
    Returns (n,).

    >>> divergence(lambda x: x**2, torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([ 6., 14.])
    """
    _check_point("divergence", x)
    _check_method("divergence", method, samples, probes)
    product = _jacobian_product(_checked_field("divergence", field), x, mode)
    size = x.shape[1:].numel()
    if chunk is None and method == "exact":
        chunk = max(1, _BUDGET // max(1, x.numel()))
    if method == "exact":
        value = _exact_divergence(product, x, chunk)
        return TraceEstimate(value, torch.zeros_like(value)) if stderr else value
    if probes is None:
        probes = _draw(method, samples, x.shape, x, generator)
    _check_probes(probes, x)

    def apply(V: Tensor) -> Tensor:  # (k, n, size) -> (k, n, size)
        images = torch.func.vmap(product, chunk_size=chunk, randomness="same")(V.reshape(len(V), *x.shape))
        return images.reshape(V.shape)

    estimate = _estimate(apply, probes.reshape(len(probes), x.shape[0], size), method)
    return estimate if stderr else estimate.value


def laplacian(f: Callable[[Tensor], Tensor], x: Tensor, method: str = "exact", samples: int = 1, **options: Any) -> Any:
    r"""The Laplacian of a scalar function at each point of a batch, forward over reverse.

    .. math:: \Delta f(x) = \nabla \cdot \nabla f(x) = \operatorname{tr} H_f(x)

    f: from (n, \*event) to (n,), each row by itself. x: (n, \*event).
    method, samples and options: as in :func:`divergence` of the gradient; "hutchinson" means "rademacher".
    Returns (n,).

    >>> laplacian(lambda x: (x**2).sum(1), torch.zeros(2, 3))
    tensor([6., 6.])
    """
    _check_point("laplacian", x)

    def total(z: Tensor) -> Tensor:
        value = f(z)
        if value.shape != z.shape[:1]:
            raise InvalidInput(
                f"laplacian: f turned {tuple(z.shape)} into {tuple(value.shape)}; one number a row is needed"
            )
        return value.sum()

    method = "rademacher" if method == "hutchinson" else method
    return divergence(torch.func.grad(total), x, method, samples, **options)


def curl(field: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    r"""The curl of a field in the plane or in space at each point of a batch.

    .. math:: (\nabla \times F)_i = \partial_j F_k - \partial_k F_j, \quad (i, j, k) \text{ cyclic}

    field: from (n, d) to (n, d), each row by itself. x: (n, d) with d = 2 or 3.
    Returns (n, 3), or (n,) in the plane: the one component that is left.

    >>> curl(lambda x: torch.stack([-x[:, 1], x[:, 0]], 1), torch.zeros(2, 2))
    tensor([2., 2.])
    """
    _check_point("curl", x)
    if x.ndim != 2 or x.shape[1] not in (2, 3):
        raise InvalidInput(f"curl: x has shape {tuple(x.shape)}; curl lives in the plane (n, 2) or in space (n, 3)")
    product = _jacobian_product(_checked_field("curl", field), x, "forward")
    basis = torch.eye(x.shape[1], dtype=x.dtype, device=x.device)
    J = torch.func.vmap(lambda e: product(e.expand_as(x)))(basis)  # (input, n, output)
    if x.shape[1] == 2:
        return J[0, :, 1] - J[1, :, 0]
    return torch.stack([J[(i + 1) % 3, :, (i + 2) % 3] - J[(i + 2) % 3, :, (i + 1) % 3] for i in range(3)], 1)


def trace_estimate(
    matvec: Callable[[Tensor], Tensor] | Tensor | LinearOperator,
    dim: int | None = None,
    method: str = "hutch++",
    samples: int = 30,
    *,
    generator: torch.Generator | None = None,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str = "cpu",
) -> TraceEstimate:
    r"""The trace of a square matrix known by its products with vectors.

    .. math:: \operatorname{tr} A = \mathbb{E}\, v^\top A v, \quad
        \operatorname{Var} v^\top A v = \begin{cases} 2 (\|A\|_F^2 - \sum_i A_{ii}^2) & \text{Rademacher} \\
        2 \|A\|_F^2 & \text{Gaussian} \end{cases}

    for symmetric A (Hutchinson, 1990). Hutch++ takes the trace exactly on a sketched range of A and estimates only
    the rest, so its error falls like 1/samples where the spectrum decays (Meyer et al., 2021).

    matvec: a matrix (dim, dim), a :class:`LinearOperator`, or a function of a block of columns (dim, k).
    dim: the size, for a function. method: "exact", "rademacher", "gaussian" or "hutch++".
    samples: products with A in all. dtype, device: of the probes, for a function or an operator.
    Returns value and standard error; for Hutch++ the error is that of the estimated rest.

    >>> trace_estimate(torch.diag(torch.tensor([1.0, 2.0, 3.0])), method="rademacher", samples=2).value
    tensor(6.)
    """
    _check_method("trace_estimate", method, samples, None)
    if isinstance(matvec, Tensor):
        dtype, device = matvec.dtype, matvec.device
    apply, dim = _rows(matvec, dim)
    like = torch.empty(0, dtype=dtype, device=device)
    if method == "exact":
        value = apply(torch.eye(dim, dtype=dtype, device=device)).diagonal().sum()
        return TraceEstimate(value, torch.zeros_like(value))
    V = _draw(method, samples, (dim,), like, generator)
    return _estimate(apply, V, method)


def probes(
    method: str,
    samples: int,
    x: Tensor,
    *,
    generator: torch.Generator | None = None,
) -> Tensor:
    r"""Random directions for :func:`divergence` at points x: (samples, n, \*event), or what Hutch++ needs of them.

    >>> probes("rademacher", 2, torch.zeros(3, 4)).abs().unique()
    tensor([1.])
    """
    if method == "exact":
        raise InvalidInput("probes: the exact divergence has none; ask for 'rademacher', 'gaussian' or 'hutch++'")
    _check_method("probes", method, samples, None)
    return _draw(method, samples, x.shape, x, generator)


def _exact_divergence(product: Callable[[Tensor], Tensor], x: Tensor, chunk: int | None) -> Tensor:
    basis = torch.eye(x.shape[1:].numel(), dtype=x.dtype, device=x.device).reshape(-1, *x.shape[1:])

    def component(e: Tensor) -> Tensor:
        return (product(e.expand_as(x)) * e).flatten(1).sum(1)

    return torch.func.vmap(component, chunk_size=chunk, randomness="same")(basis).sum(0)  # (size, n) -> (n,)


def _jacobian_product(field: Callable[[Tensor], Tensor], x: Tensor, mode: str) -> Callable[[Tensor], Tensor]:
    """One product with the Jacobian, or its transpose, at every point; both have the same trace."""
    if mode == "forward":
        return lambda v: forward_product(field, x, v)[1]
    if mode == "reverse":
        pull = torch.func.vjp(field, x)[1]
        return lambda u: pull(u)[0]
    raise InvalidInput(f"divergence: mode is {mode!r}; it must be 'forward' or 'reverse'")


def _estimate(apply: Callable[[Tensor], Tensor], V: Tensor, method: str) -> TraceEstimate:
    """apply: (k, ..., d) -> (k, ..., d), a product for each of k vectors. V: (k, ..., d) probes."""
    if method != "hutch++":
        return _mean((V * apply(V)).sum(-1))
    half = len(V) // 2
    sketch, rest = V[:half], V[half:]
    # The estimate is unbiased for any fixed basis Q, so its derivative needs none of Q: no backward pass through QR.
    Q = torch.linalg.qr(apply(sketch).detach().movedim(0, -1))[0]  # (..., d, k)
    columns = Q.movedim(-1, 0)  # (k, ..., d)
    inside = (columns * apply(columns)).sum((0, -1))
    G = rest - (Q @ (Q.mT @ rest.movedim(0, -1))).movedim(-1, 0)
    outside = _mean((G * apply(G)).sum(-1))
    return TraceEstimate(inside + outside.value, outside.stderr)


def _mean(values: Tensor) -> TraceEstimate:
    if len(values) == 1:
        return TraceEstimate(values[0], torch.full_like(values[0], torch.nan))
    mean, count = values.mean(0), len(values)
    squares = (values - mean).detach().square().sum(0)
    return TraceEstimate(mean, (squares / (count * (count - 1))).sqrt())


def _draw(method: str, samples: int, shape: tuple[int, ...], like: Tensor, generator: torch.Generator | None) -> Tensor:
    count = 2 * (samples // 3) if method == "hutch++" else samples
    size = (count, *shape)
    if method == "gaussian":
        return torch.randn(size, generator=generator, dtype=like.dtype, device=like.device)
    coins = torch.randint(0, 2, size, generator=generator, device=like.device)
    return coins.to(like.dtype) * 2 - 1


def _rows(
    matvec: Callable[[Tensor], Tensor] | Tensor | LinearOperator, dim: int | None
) -> tuple[Callable[[Tensor], Tensor], int]:
    """The operator as a function of rows (k, dim), and its size."""
    if isinstance(matvec, LinearOperator):
        operator = matvec
        if operator.input_shape != operator.output_shape:
            raise InvalidInput(
                f"trace_estimate: the operator maps {operator.input_shape} to {operator.output_shape}; "
                "only a square one has a trace"
            )
        return lambda V: operator(V.reshape(-1, *operator.input_shape)).reshape(V.shape), operator.input_size
    if isinstance(matvec, Tensor):
        matrix = matvec
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
            raise InvalidInput(f"trace_estimate: the matrix has shape {tuple(matrix.shape)}; a square one is needed")
        return lambda V: V @ matrix.mT, len(matrix)
    if dim is None:
        raise InvalidInput("trace_estimate: dim is missing; a function does not tell its size, so give it")
    function = matvec

    def apply(V: Tensor) -> Tensor:
        image = function(V.mT)
        if image.shape != V.mT.shape:
            raise InvalidInput(
                f"trace_estimate: the function turned columns {tuple(V.mT.shape)} into {tuple(image.shape)}; "
                "it must keep the shape"
            )
        return image.mT

    return apply, dim


def _checked_field(where: str, field: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    def checked(z: Tensor) -> Tensor:
        value = field(z)
        if value.shape != z.shape:
            raise InvalidInput(
                f"{where}: the field turned {tuple(z.shape)} into {tuple(value.shape)}; it must return a vector "
                "shaped like each point"
            )
        return value

    return checked


def _check_point(where: str, x: Tensor) -> None:
    if not isinstance(x, Tensor) or x.ndim < 2:
        shape = tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__
        raise InvalidInput(f"{where}: x is {shape}; a tensor (n, ...) with a row for each point is needed")
    if not x.is_floating_point():
        raise InvalidInput(f"{where}: x has dtype {x.dtype}; derivatives need floating point numbers")


def _check_method(where: str, method: str, samples: int, given: Tensor | None) -> None:
    if method not in METHODS:
        raise InvalidInput(
            f"{where}: method is {method!r}; it must be one of {', '.join(METHODS)}{nearest(str(method), METHODS)}"
        )
    least = 3 if method == "hutch++" else 1
    if given is None and samples < least:
        raise InvalidInput(f"{where}: samples is {samples}; {method} needs at least {least}")


def _check_probes(V: Tensor, x: Tensor) -> None:
    if V.ndim != x.ndim + 1 or V.shape[1:] != x.shape:
        raise InvalidInput(
            f"divergence: probes have shape {tuple(V.shape)}; (samples, *{tuple(x.shape)}) is needed for these points"
        )
