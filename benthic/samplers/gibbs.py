r"""Gibbs sampling over a batch of chains: one block at a time from its law given the others.

Geman and Geman, 1984; blocks whose conditional cannot be drawn from are moved by Metropolis steps (Tierney, 1994).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor
from torch.distributions import Distribution

from benthic.base.errors import InvalidInput
from benthic.distributions.drawing import draw
from benthic.samplers.blocks import Blocks
from benthic.samplers.kernel import Adapter, Kernel, SamplerStopped, Trail

Values = dict[str, Tensor]
Conditional = Callable[[Values, torch.Generator], Any]
_PATIENCE = 200


class GibbsState(NamedTuple):
    """Where chains are: position (chains, d), and log density (chains,), zero where only conditionals are known."""

    position: Tensor
    log_density: Tensor


class GibbsInfo(NamedTuple):
    """accepted: (chains,) mean over the updates, 1 for conditionals. blocks: (chains, k), NaN where not updated."""

    accepted: Tensor
    blocks: Tensor


class MetropolisBlock:
    r"""Moves a block of a Gibbs sampler whose conditional is known only up to a constant.

    log_density: function of all blocks with a leading chain dimension -> (chains,); factors without this block may
    be left out. None takes the joint density of the sampler.

    propose: function (value, generator) -> new value, or (new value, log q(y|x) - log q(x|y)), with a leading chain
    dimension. None takes normal steps of size ``scale``, tuned in warm-up.
    """

    def __init__(
        self,
        log_density: Callable[[Values], Tensor] | None = None,
        propose: Callable[[Tensor, torch.Generator], Any] | None = None,
        *,
        scale: float = 1.0,
    ) -> None:
        if not (math.isfinite(scale) and scale > 0):
            raise InvalidInput(f"MetropolisBlock: scale is {scale}; it must be positive and finite")
        self.log_density, self.propose, self.scale = log_density, propose, scale

    def tuned(self, scale: float, log_density: Callable[[Values], Tensor] | None = None) -> Self:
        """The same with another scale, perhaps another density."""
        other = copy.copy(self)
        other.scale = scale
        other.log_density = log_density or self.log_density
        return other

    def update(self, name: str, values: Values, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """The block after one step, and the acceptance probability (chains,)."""
        old = values[name]
        answer = self.propose(old, generator) if self.propose else self._walk(old, generator)
        new, log_forward = answer if isinstance(answer, tuple) else (answer, 0.0)
        new = _checked(name, new, old)
        if self.log_density is None:
            raise InvalidInput(
                f"Gibbs: the Metropolis block {name!r} has no log density; give it, or Gibbs the joint one"
            )
        log_ratio = self.log_density({**values, name: new}) - self.log_density(values) - log_forward
        probability = log_ratio.clamp(max=0.0).exp().nan_to_num(nan=0.0)
        if tuple(probability.shape) != (len(old),):
            raise InvalidInput(
                f"Gibbs: the log density for {name!r} has shape {tuple(probability.shape)}, not (chains,)"
            )
        moved = torch.rand(len(old), generator=generator, dtype=probability.dtype, device=old.device) < probability
        return torch.where(moved.reshape(-1, *[1] * (old.ndim - 1)), new, old), probability

    def _walk(self, old: Tensor, generator: torch.Generator) -> Tensor:
        if not old.dtype.is_floating_point:
            raise InvalidInput("MetropolisBlock: the block is discrete, where normal steps make no sense; give propose")
        return old + self.scale * torch.randn(old.shape, generator=generator, dtype=old.dtype, device=old.device)


class Gibbs(Kernel):
    r"""Draws each block from its law given the others, in turn or in random order.

    .. math:: x_b \sim p(x_b \mid x_{-b})

    conditionals: block name, or a tuple of names to be drawn together, -> function (values, generator). Values are
    the blocks with a leading chain dimension; the answer is the new block (chains, ...), a torch distribution of
    that shape to draw from, or, for several names, a dict of them. A ``MetropolisBlock`` may stand for a function.

    example: name -> one value of each block (any dtype), or ``Blocks``.

    scan: "systematic" updates all blocks in the order given (invariant, not reversible); "random" makes as many
    updates, each of a block that every chain draws for itself with probability ``weights``.

    log_density: joint log density of the blocks, where known: it is recorded, and serves Metropolis blocks.

    >>> from torch.distributions import Normal
    >>> from benthic.samplers.running import run
    >>> kernel = Gibbs(
    ...     {"a": lambda v, _: Normal(0.8 * v["b"], 0.6), "b": lambda v, _: Normal(0.8 * v["a"], 0.6)},
    ...     {"a": 0.0, "b": 0.0},
    ... )
    >>> draws = run(kernel, chains=200, draws=200, warmup=50, seed=0)
    >>> torch.corrcoef(torch.stack([draws.flat("a"), draws.flat("b")]))[0, 1]
    tensor(0.80, dtype=torch.float64)
    """

    def __init__(
        self,
        conditionals: Mapping[str | tuple[str, ...], Conditional | MetropolisBlock],
        example: Mapping[str, Any] | Blocks,
        *,
        scan: str = "systematic",
        weights: Sequence[float] | None = None,
        log_density: Callable[[Values], Tensor] | None = None,
        start: Callable[[int, torch.Generator], Any] | None = None,
    ) -> None:
        self.target = example if isinstance(example, Blocks) else Blocks(example, log_density, start=start)
        self.conditionals = {(key,) if isinstance(key, str) else tuple(key): one for key, one in conditionals.items()}
        _check_blocks(self.conditionals, self.target)
        if scan not in ("systematic", "random"):
            raise InvalidInput(f"Gibbs: scan is {scan!r}; it must be 'systematic' or 'random'")
        self.scan = scan
        self.weights = _weights(weights, len(self.conditionals))
        for key, one in self.conditionals.items():
            if isinstance(one, MetropolisBlock) and one.log_density is None:
                self.conditionals[key] = one.tuned(one.scale, self.target.joint)

    def init(self, position: Tensor) -> GibbsState:
        """The state of chains at ``position`` (chains, d)."""
        return GibbsState(position, self.target.log_density(position))

    @torch.no_grad()
    def step(self, state: GibbsState, generator: torch.Generator) -> tuple[GibbsState, GibbsInfo]:
        """As many block updates as there are conditionals."""
        values = self.target.named(state.position)
        accepted = state.position.new_full((len(state.position), len(self.conditionals)), math.nan)
        if self.scan == "systematic":
            for place, key in enumerate(self.conditionals):
                values, probability = self._update(key, values, generator)
                accepted[:, place] = probability
        else:
            self._random(values, accepted, generator)
        return self.init(self.target.pack(values)), GibbsInfo(accepted.nanmean(1), accepted)

    def _random(self, values: Values, accepted: Tensor, generator: torch.Generator) -> None:
        """Random updates, in place: every chain draws its own blocks."""
        chains, count = accepted.shape
        weights = self.weights.to(accepted.device).expand(chains, -1)
        chosen = torch.multinomial(weights, count, replacement=True, generator=generator)  # (chains, updates)
        for turn in chosen.T:
            for place, key in enumerate(self.conditionals):
                rows = (turn == place).nonzero()[:, 0]
                if not len(rows):
                    continue
                some = {name: value[rows] for name, value in values.items()}
                some, probability = self._update(key, some, generator)
                accepted[rows, place] = torch.as_tensor(probability, dtype=accepted.dtype, device=accepted.device)
                for name in key:
                    values[name] = values[name].index_copy(0, rows, some[name])

    def _update(self, key: tuple[str, ...], values: Values, generator: torch.Generator) -> tuple[Values, Any]:
        conditional = self.conditionals[key]
        if isinstance(conditional, MetropolisBlock):
            new, probability = conditional.update(key[0], values, generator)
            return {**values, key[0]: new}, probability
        answer = conditional(dict(values), generator)
        parts = answer if len(key) > 1 else {key[0]: answer}
        if not isinstance(parts, Mapping) or set(parts) != set(key):
            raise InvalidInput(f"Gibbs: the conditional of {key} must return a dict of these names")
        drawn = {name: _drawn(name, part, values[name], generator) for name, part in parts.items()}
        return {**values, **drawn}, 1.0

    def adapter(self) -> Adapter | None:
        """Tunes the steps of Metropolis blocks, where there are any."""
        own = [one for one in self.conditionals.values() if isinstance(one, MetropolisBlock) and one.propose is None]
        return GibbsAdapter(self) if own else None

    def collect(
        self,
        state: Any,
        draws: int,
        generator: torch.Generator,
        *,
        thin: int = 1,
        tick: Callable[[int], None] | None = None,
    ) -> tuple[Any, Trail]:
        """As every kernel does; blocks that are not finite, or never accept, are an error that names them."""
        state, trail = super().collect(state, draws, generator, thin=thin, tick=tick)
        for name, value in self.target.named(trail.positions).items():
            if not bool(value.isfinite().all()):
                raise InvalidInput(f"Gibbs: the draws of block {name!r} are not all finite; look at its conditional")
        dead = (trail.info["blocks"].nan_to_num(nan=0.0) == 0).all(0).all(0)
        if bool(dead.any()) and draws * thin >= _PATIENCE:
            names = [" and ".join(key) for key, gone in zip(self.conditionals, dead.tolist(), strict=True) if gone]
            raise SamplerStopped(
                f"Gibbs: no proposal for block {names[0]!r} was accepted in {draws * thin} transitions; propose "
                "smaller moves, or moves to where the law has mass"
            )
        return state, trail


class GibbsAdapter(Adapter):
    """Moves the scale of each Metropolis block until it accepts 0.44 of its proposals, 0.234 of a vector's."""

    def __init__(self, kernel: Gibbs) -> None:
        self.kernel, self.done = kernel, 0
        self.places = {
            place: key
            for place, (key, one) in enumerate(kernel.conditionals.items())
            if isinstance(one, MetropolisBlock) and one.propose is None
        }
        self.wanted = {place: _wanted(kernel.target.shapes[key[0]]) for place, key in self.places.items()}

    def begin(self, state: Any, transitions: int, generator: torch.Generator) -> Kernel:
        """The kernel as it is."""
        return self.kernel

    def update(self, state: Any, info: Any) -> Kernel:
        """Learn from one transition."""
        self.done += 1
        rates = info.blocks.nanmean(0).tolist()
        other = copy.copy(self.kernel)
        other.conditionals = dict(self.kernel.conditionals)
        for place, key in self.places.items():
            if math.isnan(rates[place]):
                continue
            block = other.conditionals[key]
            gain = min(1.0, 5 * self.done**-0.6)
            other.conditionals[key] = block.tuned(block.scale * math.exp(gain * (rates[place] - self.wanted[place])))
            if other.conditionals[key].scale < 1e-12:
                raise SamplerStopped(
                    f"Gibbs: the step of block {key[0]!r} fell to 0; its density may be -inf or NaN around"
                )
        self.kernel = other
        return other

    def finish(self) -> Kernel:
        """The kernel with the last scales."""
        return self.kernel


def _wanted(shape: tuple[int, ...]) -> float:
    return 0.44 if math.prod(shape) == 1 else 0.234


def _drawn(name: str, answer: Any, old: Tensor, generator: torch.Generator) -> Tensor:
    if isinstance(answer, Distribution):
        answer = draw(answer, generator=generator)
    return _checked(name, answer, old)


def _checked(name: str, new: Any, old: Tensor) -> Tensor:
    if not isinstance(new, Tensor) or new.shape != old.shape:
        got = tuple(new.shape) if isinstance(new, Tensor) else type(new).__name__
        raise InvalidInput(f"Gibbs: the update of block {name!r} gave {got}; a tensor {tuple(old.shape)} is due")
    return new.to(old.dtype)


def _check_blocks(conditionals: Mapping[tuple[str, ...], Any], blocks: Blocks) -> None:
    named = [name for key in conditionals for name in key]
    blocks.check_names(named, "Gibbs")
    missing = [name for name in blocks.leaves if name not in named]
    if missing:
        raise InvalidInput(f"Gibbs: the block {missing[0]!r} has no conditional; every block needs one")
    for key, one in conditionals.items():
        if not callable(one) and not isinstance(one, MetropolisBlock):
            raise InvalidInput(f"Gibbs: the conditional of {key[0]!r} is a {type(one).__name__}; it must be a function")
        if isinstance(one, MetropolisBlock) and len(key) > 1:
            raise InvalidInput(f"Gibbs: a MetropolisBlock moves one block; {key} are several, join them in one tensor")


def _weights(weights: Sequence[float] | None, count: int) -> Tensor:
    found = torch.ones(count, dtype=torch.float64) if weights is None else torch.as_tensor(weights, dtype=torch.float64)
    if tuple(found.shape) != (count,) or not bool((found > 0).all()):
        raise InvalidInput(f"Gibbs: weights are {weights}; one positive number for each of {count} conditionals is due")
    return found / found.sum()
