"""What chains visited: tables, warnings, pictures, export."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from benthic.base.errors import InvalidInput, nearest
from benthic.samplers.judging import diagnostics

if TYPE_CHECKING:
    from benthic.samplers.judging.summary import Summary

_ARVIZ = {  # our names of what steps report, and ArviZ's
    "accepted": "acceptance_rate",
    "divergent": "diverging",
    "energy": "energy",
    "steps": "n_steps",
    "depth": "tree_depth",
    "log_density": "lp",
}


class Draws:
    """What chains visited, by parameter, with what their steps reported.

    values: name -> (chains, draws, ...). Nested dicts, tuples and lists become names with dots; a bare tensor
    is called "x". info: name -> (chains, draws, ...), such as "accepted", "divergent", "energy", "steps".
    meta: anything else worth keeping (the tuned kernel, seconds).

    >>> draws = Draws({"mu": torch.zeros(4, 100), "theta": torch.zeros(4, 100, 2)})
    >>> draws
    Draws(4 chains of 100 draws: mu, theta (2,))
    >>> draws.names
    ['mu', 'theta[0]', 'theta[1]']
    >>> draws["theta[1]"].shape
    torch.Size([4, 100])
    """

    def __init__(
        self, values: Any, info: Mapping[str, Any] | None = None, *, meta: Mapping[str, Any] | None = None
    ) -> None:
        self.values: dict[str, Tensor] = dict(_flattened(values))
        self.info: dict[str, Tensor] = {name: _tensor(value) for name, value in (info or {}).items()}
        self.meta: dict[str, Any] = dict(meta or {})
        if not self.values:
            raise InvalidInput("Draws: values hold no parameter; give name -> tensor (chains, draws, ...)")
        first, leading = next((name, tuple(value.shape[:2])) for name, value in self.values.items())
        for name, value in (self.values | self.info).items():
            if value.ndim < 2 or 0 in value.shape[:2]:
                raise InvalidInput(f"Draws: {name!r} has shape {tuple(value.shape)}; it must be (chains, draws, ...)")
            if tuple(value.shape[:2]) != leading:
                raise InvalidInput(
                    f"Draws: {name!r} has {tuple(value.shape[:2])} chains and draws and {first!r} has {leading}; "
                    "all must agree"
                )
        self.chains, self.draws = leading

    def __repr__(self) -> str:
        inside = ", ".join(
            f"{name} {tuple(value.shape[2:])}" if value.ndim > 2 else name for name, value in self.values.items()
        )
        return f"Draws({_many(self.chains, 'chain')} of {_many(self.draws, 'draw')}: {inside})"

    @property
    def names(self) -> list[str]:
        """One name a scalar: ``tau``, or ``theta[0]``, ``theta[1]``, ..."""
        return [entry for name, value in self.values.items() for entry in entries(name, value.shape[2:])]

    def __getitem__(self, name: str) -> Tensor:
        """The draws (chains, draws, ...) of a parameter, or (chains, draws) of one entry, as ``theta[0]``."""
        if name in self.values:
            return self.values[name]
        found = re.fullmatch(r"(.+)\[([\d,]+)\]", name)
        if found and found[1] in self.values:
            index = tuple(int(part) for part in found[2].split(",") if part)
            value = self.values[found[1]]
            if len(index) == value.ndim - 2 and all(i < n for i, n in zip(index, value.shape[2:], strict=True)):
                return value[(slice(None), slice(None), *index)]
            raise InvalidInput(f"Draws: {name!r} is outside {found[1]!r} of shape {tuple(value.shape[2:])}")
        choices = [*self.values]
        raise InvalidInput(f"Draws: there is no {name!r}; the parameters are {choices}{nearest(name, choices)}")

    def flat(self, name: str) -> Tensor:
        """All draws of a parameter, chain after chain: (chains * draws, ...)."""
        return self[name].flatten(0, 1)

    def scalars(self, names: str | Iterable[str] | None = None, limit: int | None = None) -> dict[str, Tensor]:
        """Entry name -> (chains, draws), of all parameters or the ones named; at most ``limit`` of them."""
        wanted = [names] if isinstance(names, str) else list(self.values if names is None else names)
        found: dict[str, Tensor] = {}
        for name in wanted:
            value = self[name]
            columns = value.reshape(self.chains, self.draws, -1)
            for place, entry in enumerate(entries(name, value.shape[2:])):
                if limit is not None and len(found) >= limit:
                    return found
                found[entry] = columns[:, :, place]
        return found

    # Fewer, other and more draws

    def select(
        self,
        names: str | Iterable[str] | None = None,
        *,
        chains: Sequence[int] | slice | None = None,
        draws: slice | None = None,
    ) -> Draws:
        """Some parameters, some chains, some draws: ``select("tau", chains=[0, 2], draws=slice(500, None))``."""
        wanted = [names] if isinstance(names, str) else list(self.values if names is None else names)
        rows = slice(None) if chains is None else chains
        some = slice(None) if draws is None else draws
        if not isinstance(rows, slice) and any(not -self.chains <= row < self.chains for row in rows):
            raise InvalidInput(f"Draws.select: chains is {list(rows)}; there are {self.chains}, counted from 0")
        return Draws(
            {name: self[name][rows][:, some] for name in wanted},
            {name: value[rows][:, some] for name, value in self.info.items()},
            meta=self.meta,
        )

    def thin(self, every: int) -> Draws:
        """Every so many-th draw of each chain.

        >>> Draws(torch.zeros(2, 10)).thin(3).draws
        4
        """
        if every < 1:
            raise InvalidInput(f"Draws.thin: every is {every}; it must be at least 1")
        return self.select(draws=slice(None, None, every))

    def combine(self, *others: Draws, along: str = "chains") -> Draws:
        """These draws and others of the same parameters, as more chains or as longer ones (along="draws")."""
        if along not in ("chains", "draws"):
            raise InvalidInput(f"Draws.combine: along is {along!r}; it must be 'chains' or 'draws'")
        axis = ("chains", "draws").index(along)
        for other in others:
            mine, theirs = _shapes(self, axis), _shapes(other, axis)
            if mine != theirs:
                raise InvalidInput(f"Draws.combine: {mine} does not join {theirs}; parameters and sizes must match")
        everyone = (self, *others)
        shared = [name for name in self.info if all(name in other.info for other in others)]
        return Draws(
            {name: torch.cat([one.values[name] for one in everyone], axis) for name in self.values},
            {name: torch.cat([one.info[name] for one in everyone], axis) for name in shared},
            meta=self.meta,
        )

    # Numbers

    def mean(self) -> dict[str, Tensor]:
        """Name -> mean over chains and draws."""
        return {name: _real(value).mean((0, 1)) for name, value in self.values.items()}

    def sd(self) -> dict[str, Tensor]:
        """Name -> standard deviation over chains and draws."""
        return {name: _real(value).flatten(0, 1).std(0) for name, value in self.values.items()}

    def quantiles(self, probs: Any = (0.05, 0.5, 0.95)) -> dict[str, Tensor]:
        """Name -> quantiles (k, ...) over chains and draws."""
        return {name: diagnostics.quantiles(value, probs) for name, value in self.values.items()}

    def rhat(self) -> dict[str, Tensor]:
        """Name -> rank-normalized R-hat of every entry; below 1.01 is good."""
        return {name: diagnostics.rhat(value) for name, value in self.values.items()}

    def ess(self, kind: str = "bulk") -> dict[str, Tensor]:
        """Name -> effective sample size of every entry; kind: "bulk", "tail" or "mean"."""
        kinds = {"bulk": diagnostics.ess_bulk, "tail": diagnostics.ess_tail, "mean": diagnostics.ess}
        if kind not in kinds:
            raise InvalidInput(f"Draws.ess: kind is {kind!r}; choose from {[*kinds]}{nearest(kind, kinds)}")
        return {name: kinds[kind](value) for name, value in self.values.items()}

    def mcse(self) -> dict[str, Tensor]:
        """Name -> Monte Carlo standard error of the mean of every entry."""
        return {name: diagnostics.mcse_mean(value) for name, value in self.values.items()}

    @property
    def divergences(self) -> int:
        """How many transitions diverged."""
        return int(self.info["divergent"].sum()) if "divergent" in self.info else 0

    def summary(self, probs: Sequence[float] = (0.05, 0.5, 0.95), names: str | Iterable[str] | None = None) -> Summary:
        """Mean, sd, error, quantiles, effective sizes and R-hat of every entry; and what to worry about."""
        from benthic.samplers.judging.summary import summarize

        return summarize(self if names is None else self.select(names), probs)

    # Pictures, files, other libraries

    def plot(self, kind: str = "trace", names: str | Iterable[str] | None = None) -> Any:
        """A figure: "trace", "rank", "pair" or "energy". names: parameters or entries to show."""
        from benthic.samplers.judging.portraits import KINDS

        if kind not in KINDS:
            raise InvalidInput(f"Draws.plot: kind is {kind!r}; choose from {[*KINDS]}{nearest(kind, KINDS)}")
        return KINDS[kind](self, names)

    def to_arviz(self) -> Any:
        """The draws as ArviZ keeps them: ``InferenceData``, or a ``DataTree`` from ArviZ 1.0 on."""
        try:
            import arviz
        except ImportError as error:
            raise InvalidInput("Draws.to_arviz: ArviZ is not installed; `pip install arviz` brings it") from error
        posterior = {name: _array(value) for name, value in self.values.items()}
        stats = {_ARVIZ.get(name, name): _array(value) for name, value in self.info.items()}
        if int(arviz.__version__.split(".")[0]) >= 1:
            return arviz.from_dict({"posterior": posterior, "sample_stats": stats})
        return arviz.from_dict(posterior=posterior, sample_stats=stats)

    def save(self, path: str | Path) -> Path:
        """Write values and info to one safetensors file; ``meta`` stays behind."""
        from safetensors.torch import save_file

        groups = {"values": self.values, "info": self.info}
        tensors = {f"{group}/{name}": value for group, part in groups.items() for name, value in part.items()}
        save_file({name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}, str(path))
        return Path(path)

    @classmethod
    def load(cls, path: str | Path) -> Draws:
        """Read what :meth:`save` wrote."""
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        try:
            tensors = load_file(str(path))
        except SafetensorError as error:
            raise InvalidInput(f"Draws.load: {path} is not a file of draws ({error})") from error
        parts: dict[str, dict[str, Tensor]] = {"values": {}, "info": {}}
        for key, value in tensors.items():
            group, _, name = key.partition("/")
            if group not in parts:
                raise InvalidInput(f"Draws.load: {path} holds {key!r}; it was not written by Draws.save")
            parts[group][name] = value
        return cls(parts["values"], parts["info"])


def _flattened(tree: Any, path: str = "") -> Iterator[tuple[str, Tensor]]:
    if isinstance(tree, Mapping):
        pairs: Iterable[tuple[Any, Any]] = tree.items()
    elif isinstance(tree, (tuple, list)) and all(isinstance(part, (Tensor, np.ndarray, Mapping)) for part in tree):
        pairs = enumerate(tree)
    else:
        yield path or "x", _tensor(tree)
        return
    for key, value in pairs:
        yield from _flattened(value, f"{path}.{key}" if path else str(key))


def _tensor(value: Any) -> Tensor:
    return value.detach() if isinstance(value, Tensor) else torch.as_tensor(np.asarray(value))


def _real(value: Tensor) -> Tensor:
    return value if value.dtype.is_floating_point else value.double()


def _array(value: Tensor) -> np.ndarray:
    return (value.float() if value.dtype == torch.bfloat16 else value).cpu().numpy()


def entries(name: str, shape: Iterable[int]) -> Iterator[str]:
    """The names of the scalars of a parameter of that shape."""
    for index in product(*(range(size) for size in shape)):
        yield f"{name}[{','.join(map(str, index))}]" if index else name


def _shapes(draws: Draws, axis: int) -> dict[str, tuple[int, ...]]:
    """The shape of every parameter without the dimension along which draws are joined."""
    return {name: tuple(n for i, n in enumerate(value.shape) if i != axis) for name, value in draws.values.items()}


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
