"""A posterior as a sampler sees it: a log density of packed, unconstrained rows, and its gradient."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution
from torch.distributions.constraints import Constraint
from torch.distributions.transforms import identity_transform
from torch.utils import _pytree as trees

from benthic.base.errors import InvalidInput, nearest
from benthic.base.threads import Together
from benthic.samplers.constraining import bijection

START_TRIES = 100


@contextmanager
def _without_checks() -> Iterator[None]:
    before = Distribution._validate_args
    Distribution.set_default_validate_args(False)
    try:
        yield
    finally:
        Distribution.set_default_validate_args(before)


_UNCHECKED = Together(_without_checks)


def unchecked() -> Together:
    """Distributions made inside take values outside their support as they come: nan or -inf, not an error.

    Their checks look at numbers, which vmap and compilation forbid.
    """
    return _UNCHECKED


class Target:
    r"""A log density over a tree of parameters, seen as a function of packed unconstrained rows (chains, d).

    A parameter :math:`\theta = f(x)` that lives in a set (positive, a simplex, ...) is reached through a
    bijection f from all of space, and the density follows it:

    .. math:: \log p_x(x) = \log p_\theta(f(x)) + \log |\det f'(x)|

    log_density: a function of one set of parameters shaped like ``example`` that returns one number; it is
    mapped over chains. With ``batched=True`` it takes parameters with a leading chain dimension and returns
    (chains,) itself. The density need not be normalized. Distributions built inside do not check their values.

    example: a tensor, number, or a dict, tuple or list of them (nested): the shapes, dtype and device.

    constraints: None, a constraint for a bare tensor, or a dict from names ("tau", "a.b" in nested dicts) to
    ``torch.distributions.constraints`` or a ``Transform``.

    compile: Hamiltonian samplers compile the density and its gradient for the number of chains (seconds, once).

    >>> from torch.distributions import Gamma, constraints
    >>> target = Target(lambda p: Gamma(2.0, 1.0).log_prob(p["rate"]), {"rate": 1.0},
    ...                 constraints={"rate": constraints.positive})
    >>> target.log_density(torch.zeros(1, 1, dtype=torch.float64))  # log(1 e^-1) + log|e^0|
    tensor([-1.], dtype=torch.float64)
    >>> target.names
    ['rate']
    """

    def __init__(
        self,
        log_density: Callable[[Any], Tensor],
        example: Any,
        *,
        constraints: Any = None,
        batched: bool = False,
        compile: bool = False,
    ) -> None:
        paths, self._spec = trees.tree_flatten_with_path(example)
        if not paths:
            raise InvalidInput("Target: example holds no parameters; give a tensor or a dict of tensors")
        self.leaves = [_name(path) for path, _ in paths]
        leaves = _tensors([leaf for _, leaf in paths], self.leaves)
        self.dtype, self.device = leaves[0].dtype, leaves[0].device
        self.shapes = [tuple(leaf.shape) for leaf in leaves]
        self._sets = _constraints(constraints, self.leaves)
        self._maps = [bijection(wanted, name) for wanted, name in zip(self._sets, self.leaves, strict=True)]
        self._plain = all(map_ is identity_transform for map_ in self._maps)
        self._raw_shapes = [_raw_shape(*parts) for parts in zip(self._maps, self.shapes, self.leaves, strict=True)]
        self._sizes = [torch.Size(shape).numel() for shape in self._raw_shapes]
        self.dim = sum(self._sizes)
        self.names = [name for leaf, shape in zip(self.leaves, self.shapes, strict=True) for name in _each(leaf, shape)]
        self._user, self.batched, self.compile = log_density, batched, compile
        self._example = self._packed(leaves)
        self._check()
        self.programs: dict[Any, Callable[..., Any]] = {}  # compiled calls by shape, for samplers

    # Shapes

    def unpack(self, position: Tensor) -> Any:
        """The tree of constrained parameters of packed rows (..., d), each with the leading shape of the rows."""
        return trees.tree_unflatten([value for value, _ in self._unpacked(position)], self._spec)

    def named(self, position: Tensor) -> dict[str, Tensor]:
        """Constrained parameters of packed rows (..., d) by name: a flat dict, a bare tensor is called "x"."""
        return dict(zip(self.leaves, (value for value, _ in self._unpacked(position)), strict=True))

    def pack(self, params: Any) -> Tensor:
        """Packed unconstrained rows (..., d) of a tree of constrained parameters with leading shape ..."""
        paths, spec = trees.tree_flatten_with_path(params)
        if spec != self._spec:
            raise InvalidInput(f"Target.pack: got {[_name(p) for p, _ in paths]}, the target has {self.leaves}")
        return self._packed([torch.as_tensor(leaf, dtype=self.dtype, device=self.device) for _, leaf in paths])

    def _packed(self, leaves: list[Tensor]) -> Tensor:
        flat = []
        for value, map_, wanted, name, shape in zip(
            leaves, self._maps, self._sets, self.leaves, self.shapes, strict=True
        ):
            inside = wanted if isinstance(wanted, Constraint) else map_.codomain
            if tuple(value.shape[value.ndim - len(shape) :]) != shape or value.ndim < len(shape):
                raise InvalidInput(f"Target.pack: {name!r} has shape {tuple(value.shape)}; it must end in {shape}")
            if not bool(inside.check(value).all()):
                raise InvalidInput(f"Target.pack: {name!r} is outside its set, {inside}")
            raw = map_.inv(value)
            keep = len(shape) - map_.codomain.event_dim + map_.domain.event_dim
            flat.append(raw.reshape(*raw.shape[: raw.ndim - keep], -1))
        lead = torch.broadcast_shapes(*(piece.shape[:-1] for piece in flat))
        return torch.cat([piece.expand(*lead, piece.shape[-1]) for piece in flat], -1)

    def _unpacked(self, position: Tensor) -> Iterator[tuple[Tensor, Tensor | None]]:
        """Each parameter, and its raw value where a bijection made it."""
        if position.shape[-1] != self.dim:
            raise InvalidInput(f"Target: a position has {position.shape[-1]} columns; the target has {self.dim}")
        lead = position.shape[:-1]
        pieces = position.split(self._sizes, -1) if len(self._sizes) > 1 else (position,)
        for piece, map_, shape in zip(pieces, self._maps, self._raw_shapes, strict=True):
            raw = piece.reshape(*lead, *shape)
            yield (raw, None) if map_ is identity_transform else (map_(raw), raw)

    # The density

    def pure(self, position: Tensor) -> Tensor:
        """(chains,) log density of packed rows (chains, d); the bare function, for other code to trace."""
        pieces = list(self._unpacked(position))
        params = trees.tree_unflatten([value for value, _ in pieces], self._spec)
        value = self._user(params) if self.batched else torch.func.vmap(self._user)(params)
        if self._plain:
            return value
        for (constrained, raw), map_ in zip(pieces, self._maps, strict=True):
            if raw is not None:
                value = value + map_.log_abs_det_jacobian(raw, constrained).reshape(len(position), -1).sum(-1)
        return value

    def log_density(self, position: Tensor) -> Tensor:
        """(chains,) log density of packed rows (chains, d), up to the constant the user left out."""
        with unchecked():
            return self.pure(position)

    def value_and_grad(self, position: Tensor) -> tuple[Tensor, Tensor]:
        """(chains,) log density and (chains, d) gradient, from one backward pass of the sum over chains."""
        with unchecked(), torch.enable_grad():
            x = position.detach().requires_grad_()
            value = self.pure(x)
            (slope,) = torch.autograd.grad(value.sum(), x)
        return value.detach(), slope

    def _check(self) -> None:
        """The function runs on the example and returns numbers of the right shape."""
        rows = self._example.expand(2, self.dim)
        with unchecked(), torch.no_grad():
            params = trees.tree_unflatten([value for value, _ in self._unpacked(rows)], self._spec)
            value = self._user(params) if self.batched else torch.func.vmap(self._user)(params)
        if not isinstance(value, Tensor):
            raise InvalidInput(f"Target: log_density returned {type(value).__name__}; it must return a tensor")
        if tuple(value.shape) != (2,):
            asked = "(chains,) of parameters with a leading chain dimension" if self.batched else "one number, ()"
            got = tuple(value.shape) if self.batched else tuple(value.shape[1:])
            raise InvalidInput(f"Target: log_density returned shape {got}; it must be {asked}: sum over the data")

    # Starting points

    def start(self, chains: int, generator: torch.Generator, *, radius: float = 2.0) -> Tensor:
        """(chains, d) points with a finite density and gradient, uniform in [-radius, radius] in unconstrained space.

        Points that fail are drawn again, the last tries near the example; if none is found an error names the
        parameter to blame.
        """
        if chains < 1:
            raise InvalidInput(f"Target.start: chains is {chains}; at least one is needed")
        found = torch.zeros(chains, self.dim, dtype=self.dtype, device=self.device)
        missing = torch.arange(chains, device=self.device)
        for attempt in range(START_TRIES):
            noise = torch.rand(len(missing), self.dim, generator=generator, dtype=self.dtype, device=self.device)
            rows = radius * (2 * noise - 1)
            if attempt >= START_TRIES // 2:
                rows = self._example + rows * 0.1
            good = self.usable(rows)
            found[missing[good]] = rows[good]
            missing = missing[~good]
            if len(missing) == 0:
                return found
        raise InvalidInput(self._blame(rows[~good], "no starting point was found"))

    def usable(self, position: Tensor) -> Tensor:
        """(chains,) whether density and gradient are finite there."""
        value, slope = self.value_and_grad(position)
        return value.isfinite() & slope.isfinite().all(-1)

    def check_start(self, position: Tensor) -> Tensor:
        """Starting points given by a person, checked: (chains, d), finite density and gradient."""
        rows = torch.as_tensor(position, dtype=self.dtype, device=self.device)
        if rows.ndim != 2 or rows.shape[1] != self.dim or len(rows) == 0:
            raise InvalidInput(f"start has shape {tuple(rows.shape)}; it must be (chains, {self.dim})")
        good = self.usable(rows)
        if not bool(good.all()):
            raise InvalidInput(self._blame(rows[~good], f"start: {int((~good).sum())} of {len(rows)} points"))
        return rows

    def _blame(self, rows: Tensor, where: str) -> str:
        """What is wrong at points that cannot be used, and the parameter that is the likely cause."""
        value, slope = self.value_and_grad(rows)
        kind = "nan" if value.isnan().any() else ("infinite" if value.isinf().any() else "finite, its gradient is not")
        columns = (~slope.isfinite()).any(0).split(self._sizes)
        bad = [name for name, column in zip(self.leaves, columns, strict=True) if bool(column.any())]
        if not bad or len(bad) == len(self.leaves) > 1:
            bad = self._rescued(rows) or bad
        named = "no single parameter" if not bad else " and ".join(repr(name) for name in bad)
        return (
            f"Target: {where}; the log density is {kind}, and {named} is to blame; give it a constraint "
            "(constraints={...}), or pass start= with points where the density is finite"
        )

    def _rescued(self, rows: Tensor) -> list[str]:
        """The parameters that make the density finite once they alone are moved."""
        found, offset = [], 0
        for name, size in zip(self.leaves, self._sizes, strict=True):
            for value in (0.0, 0.5, -0.5, 1.0, -1.0, 3.0, -3.0, 10.0, -10.0, 100.0, -100.0, 1000.0, -1000.0):
                moved = rows.clone()
                moved[:, offset : offset + size] = value
                if bool(self.usable(moved).any()):
                    found.append(name)
                    break
            offset += size
        return found


def _tensors(leaves: list[Any], names: list[str]) -> list[Tensor]:
    """Leaves as tensors of one floating dtype on one device."""
    given = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    device = given[0].device if given else torch.device("cpu")
    floats = [leaf.dtype for leaf in given if leaf.dtype.is_floating_point]
    dtype = floats[0] if floats else torch.float64
    for leaf, name in zip(leaves, names, strict=True):
        if isinstance(leaf, Tensor) and leaf.dtype.is_floating_point and leaf.dtype != dtype:
            raise InvalidInput(f"Target: {name!r} is {leaf.dtype} and another is {dtype}; use one dtype")
        if isinstance(leaf, str) or leaf is None:
            raise InvalidInput(f"Target: {name!r} of the example is {leaf!r}; it must be a number or a tensor")
    return [torch.as_tensor(leaf, dtype=dtype, device=device).detach() for leaf in leaves]


def _constraints(wanted: Any, leaves: list[str]) -> list[Any]:
    """One constraint or None a leaf, from a dict of names or a bare constraint."""
    if wanted is None:
        wanted = {}
    if not isinstance(wanted, dict):
        if len(leaves) > 1:
            raise InvalidInput("Target: constraints must be a dict from parameter names when there are several")
        wanted = {leaves[0]: wanted}
    flat = {_name(path): leaf for path, leaf in trees.tree_flatten_with_path(wanted, is_leaf=_is_leaf)[0]}
    for name in flat:
        if name not in leaves:
            raise InvalidInput(f"Target: constraints has {name!r}; the parameters are {leaves}{nearest(name, leaves)}")
    return [flat.get(name) for name in leaves]


def _is_leaf(node: Any) -> bool:
    return not isinstance(node, (dict, list, tuple))


def _raw_shape(map_: Any, shape: tuple[int, ...], name: str) -> tuple[int, ...]:
    """The shape of the unconstrained parameter."""
    if len(shape) < map_.codomain.event_dim:
        raise InvalidInput(f"Target: {name!r} has shape {shape}; {map_.codomain} needs {map_.codomain.event_dim} axes")
    return tuple(map_.inverse_shape(torch.Size(shape)))


def _name(path: Any) -> str:
    """A parameter's name from its path in the tree; a bare tensor is "x"."""
    keys = [str(getattr(part, "key", getattr(part, "idx", getattr(part, "name", part)))) for part in path]
    return ".".join(keys) or "x"


def _each(leaf: str, shape: tuple[int, ...]) -> Iterator[str]:
    """One name a scalar: tau, or theta[0], theta[1], ..."""
    for index in product(*(range(size) for size in shape)):
        yield f"{leaf}[{','.join(map(str, index))}]" if index else leaf
