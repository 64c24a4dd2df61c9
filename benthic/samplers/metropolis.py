r"""Metropolis–Hastings over a batch of chains: random walk, independence, and any proposal.

A proposal y drawn from :math:`q(y \mid x)` is accepted with probability

.. math:: \min\left(1, \frac{p(y)\, q(x \mid y)}{p(x)\, q(y \mid x)}\right)

Metropolis et al., 1953; Hastings, 1970.
"""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor
from torch.distributions import Distribution

from benthic.base.errors import InvalidInput
from benthic.distributions.drawing import draw
from benthic.samplers.kernel import Adapter, Kernel, SamplerStopped, Trail
from benthic.samplers.walking import WalkAdapter

Proposal = Callable[[Tensor, torch.Generator], Tensor | tuple[Tensor, Tensor]]
_PATIENCE = 200  # transitions without one accepted proposal in any chain before giving up


class MetropolisState(NamedTuple):
    """Where chains are: position (chains, d) and log density (chains,)."""

    position: Tensor
    log_density: Tensor


class MetropolisInfo(NamedTuple):
    """accepted: (chains,) acceptance probability. moved: (chains,) whether the proposal was taken."""

    accepted: Tensor
    moved: Tensor


class Metropolis(Kernel):
    """What the kernels share: the accept step, and giving up with advice where nothing is accepted."""

    advice = "propose smaller moves, or moves to where the law has mass"

    def __init__(self, target: Any) -> None:
        self.target = target

    def init(self, position: Tensor) -> MetropolisState:
        """The state of chains at ``position`` (chains, d)."""
        return MetropolisState(position, self.target.log_density(position))

    @abstractmethod
    def propose(self, position: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor | float]:
        """New positions (chains, d) and log q(y|x) - log q(x|y), (chains,) or 0 where symmetric."""

    @torch.no_grad()
    def step(self, state: MetropolisState, generator: torch.Generator) -> tuple[MetropolisState, MetropolisInfo]:
        """One proposal for every chain, taken or not."""
        proposed, log_forward = self.propose(state.position, generator)
        return decide(state, MetropolisState(proposed, self.target.log_density(proposed)), log_forward, generator)

    def adapter(self) -> Adapter | None:
        """Tunes nothing, but stops a warm-up in which no proposal is accepted."""
        return Watch(self)

    def collect(
        self,
        state: Any,
        draws: int,
        generator: torch.Generator,
        *,
        thin: int = 1,
        tick: Callable[[int], None] | None = None,
    ) -> tuple[Any, Trail]:
        """As every kernel does; where no chain moved in the first transitions it stops with advice."""
        first = min(draws, math.ceil(_PATIENCE / thin))
        state, trail = super().collect(state, first, generator, thin=thin, tick=tick)
        if first * thin >= _PATIENCE and not bool((trail.info["accepted"] > 0).any()):
            raise stopped(self, first * thin)
        if first == draws:
            return state, trail
        state, more = super().collect(state, draws - first, generator, thin=thin, tick=tick)
        info = {name: torch.cat([trail.info[name], more.info[name]], 1) for name in trail.info}
        return state, Trail(torch.cat([trail.positions, more.positions], 1), info)


class RandomWalk(Metropolis):
    r"""Metropolis with normal steps, :math:`y = x + s L z`; scale and covariance are learned in warm-up.

    The scale is moved until a share of 0.234 of the proposals (0.44 in one dimension; Roberts, Gelman and Gilks,
    1997) is accepted; :math:`L L^\top` follows the covariance of the chains (Haario, Saksman and Tamminen, 2001).
    Both rest while draws are collected.

    target: a ``Target``, or ``Blocks`` of real numbers. scale: s, None for :math:`2.38 / \sqrt d`.
    covariance: (d, d), or (d,) variances; None is the identity. adapt: tune in warm-up.
    dense: learn a full covariance; None does so up to 100 dimensions.

    >>> from benthic.samplers.running import run
    >>> from benthic.samplers.target import Target
    >>> target = Target(lambda x: -0.5 * (x / torch.tensor([1.0, 10.0])).square().sum(), torch.zeros(2))
    >>> draws = run(RandomWalk(target), chains=50, draws=500, warmup=500, seed=0)
    >>> [round(value) for value in draws.sd()["x"].tolist()]
    [1, 10]
    """

    advice = "the density may be -inf almost everywhere around the chains; give a smaller scale, or better starts"

    def __init__(
        self,
        target: Any,
        scale: float | None = None,
        covariance: Tensor | None = None,
        *,
        adapt: bool = True,
        dense: bool | None = None,
    ) -> None:
        super().__init__(target)
        if scale is not None and not (math.isfinite(scale) and scale > 0):
            raise InvalidInput(f"RandomWalk: scale is {scale}; it must be positive and finite")
        self.scale = 2.38 / math.sqrt(target.dim) if scale is None else float(scale)
        self.root = None if covariance is None else _root(covariance, target)
        self.adapt = adapt
        self.dense = target.dim <= 100 if dense is None else dense

    def tuned(self, scale: float, covariance: Tensor | None = None) -> Self:
        """The same kernel with another scale, perhaps another covariance."""
        other = copy.copy(self)
        other.scale = scale
        if covariance is not None:
            other.root = _root(covariance, self.target)
        return other

    def propose(self, position: Tensor, generator: torch.Generator) -> tuple[Tensor, float]:
        """A normal step; symmetric."""
        z = torch.randn(position.shape, generator=generator, dtype=position.dtype, device=position.device)
        if self.root is not None:
            z = z * self.root if self.root.ndim == 1 else z @ self.root.mT
        return position + self.scale * z, 0.0

    def adapter(self) -> Adapter | None:
        """Tunes scale and covariance."""
        return WalkAdapter(self) if self.adapt else Watch(self)


class Independence(Metropolis):
    r"""Proposals that do not look at where the chain is: :math:`\alpha = \min(1, w(y) / w(x))`, :math:`w = p / q`.

    It mixes fast where q is like p with heavier tails, and gets stuck where p / q is large; the chain converges
    geometrically exactly when that ratio is bounded (Mengersen and Tweedie, 1996).

    target: a ``Target`` or ``Blocks``. proposal: a distribution over packed rows: event shape (d,), or batch
    shape (d,) of independent scalars (d = 1: a scalar law will do).

    >>> from benthic.samplers.target import Target
    >>> target = Target(lambda x: -x.abs().sum(), torch.zeros(1, dtype=torch.float64))
    >>> kernel = Independence(target, torch.distributions.Normal(torch.zeros(1, dtype=torch.float64), 3.0))
    >>> state, info = kernel.step(kernel.init(torch.zeros(4, 1).double()), torch.Generator().manual_seed(0))
    >>> info.accepted.shape
    torch.Size([4])
    """

    advice = "the proposal hardly meets the law; take one that covers it, wider rather than narrower"

    def __init__(self, target: Any, proposal: Distribution) -> None:
        super().__init__(target)
        self.proposal = _over_rows(proposal, target.dim)
        self._inside = draw(self.proposal, seed=0)  # stands in for points where the proposal has no density

    def propose(self, position: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """A draw for every chain; log q(y) - log q(x)."""
        drawn = draw(self.proposal, len(position), generator=generator).to(position)
        return drawn, self._log_q(drawn) - self._log_q(position)

    def _log_q(self, position: Tensor) -> Tensor:
        inside = self.proposal.support.check(position)  # (chains,)
        safe = torch.where(inside[:, None], position, self._inside)
        return torch.where(inside, self.proposal.log_prob(safe), -torch.inf).to(position.dtype)


class MetropolisHastings(Metropolis):
    r"""Any proposal, symmetric or not.

    proposal: function (x, generator) -> y where moves to and fro are equally likely, or -> (y, log_forward)
    with :math:`\log q(y \mid x) - \log q(x \mid y)`, (chains,), which is subtracted:

    .. math:: \log \alpha = \log p(y) - \log p(x) - [\log q(y \mid x) - \log q(x \mid y)]

    x and y are packed rows (chains, d) of the target's unconstrained space; every random number must come from
    the generator. target: a ``Target``, or ``Blocks`` where the space is discrete.

    >>> from benthic.samplers.blocks import Blocks
    >>> def loaded(face):
    ...     return torch.log1p(face.double()).where((face >= 0) & (face < 6), -torch.inf)
    >>> def neighbor(x, generator):
    ...     return x + 2 * torch.randint(2, x.shape, generator=generator) - 1
    >>> from benthic.samplers.running import run
    >>> draws = run(MetropolisHastings(Blocks(torch.tensor(0), loaded), neighbor), chains=100, draws=1000, seed=0)
    >>> torch.bincount(draws.flat("x")).double().div(1e5 / 21).round().tolist()  # shares 1 : 2 : ... : 6
    [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    """

    def __init__(self, target: Any, proposal: Proposal) -> None:
        super().__init__(target)
        if not callable(proposal):
            raise InvalidInput(f"MetropolisHastings: proposal is a {type(proposal).__name__}; it must be a function")
        self.proposal = proposal

    def propose(self, position: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor | float]:
        """What the user's function proposes, its shapes checked."""
        answer = self.proposal(position, generator)
        proposed, log_forward = answer if isinstance(answer, tuple) else (answer, 0.0)
        if not isinstance(proposed, Tensor) or proposed.shape != position.shape:
            got = tuple(proposed.shape) if isinstance(proposed, Tensor) else type(proposed).__name__
            raise InvalidInput(f"MetropolisHastings: the proposal returned {got}; rows {tuple(position.shape)} are due")
        if isinstance(log_forward, Tensor) and tuple(log_forward.shape) not in ((), (len(position),)):
            raise InvalidInput(
                f"MetropolisHastings: log q(y|x) - log q(x|y) has shape {tuple(log_forward.shape)}; "
                f"one number a chain, ({len(position)},), is due: sum over the dimensions"
            )
        return proposed.to(position.dtype), log_forward


class Watch(Adapter):
    """Tunes nothing and stops a warm-up in which no chain accepts anything."""

    def __init__(self, kernel: Metropolis) -> None:
        self.kernel, self.seen, self.alive = kernel, 0, False

    def begin(self, state: Any, transitions: int, generator: torch.Generator) -> Kernel:
        """The kernel as it is."""
        return self.kernel

    def update(self, state: Any, info: Any) -> Kernel:
        """The kernel as it is, unless it is time to give up."""
        self.seen += 1
        if not self.alive and self.seen % 50 == 0:
            self.alive = bool((info.accepted > 0).any()) or self.seen < _PATIENCE
            if not self.alive:
                raise stopped(self.kernel, self.seen)
        return self.kernel

    def finish(self) -> Kernel:
        """The kernel as it is."""
        return self.kernel


def decide(
    state: Any, proposed: Any, log_forward: Tensor | float, generator: torch.Generator
) -> tuple[Any, MetropolisInfo]:
    """Take or leave proposed states (named tuples of the same kind), chain by chain.

    log_forward: log q(y|x) - log q(x|y). A density that is not a number counts as zero.
    """
    log_ratio = proposed.log_density - state.log_density - log_forward
    probability = log_ratio.clamp(max=0.0).exp().nan_to_num(nan=0.0)
    uniform = torch.rand(probability.shape, generator=generator, dtype=probability.dtype, device=probability.device)
    moved = uniform < probability
    kept = [
        torch.where(moved.reshape(-1, *[1] * (new.ndim - 1)), new, old)
        for new, old in zip(proposed, state, strict=True)
    ]
    return type(state)(*kept), MetropolisInfo(probability, moved)


def stopped(kernel: Metropolis, transitions: int) -> SamplerStopped:
    """The error for chains that accept nothing."""
    return SamplerStopped(
        f"{type(kernel).__name__}: no proposal was accepted by any chain in {transitions} transitions; {kernel.advice}"
    )


def _root(covariance: Tensor, target: Any) -> Tensor:
    """What turns white noise into noise of that covariance: a vector of deviations, or a Cholesky factor."""
    dim = target.dim
    if tuple(covariance.shape) not in ((dim,), (dim, dim)):
        raise InvalidInput(
            f"RandomWalk: covariance has shape {tuple(covariance.shape)}; ({dim},) or ({dim}, {dim}) is due"
        )
    if covariance.ndim == 1:
        if not bool((covariance > 0).all()):
            raise InvalidInput("RandomWalk: covariance has variances that are not positive")
        return covariance.sqrt().to(target.device, target.dtype)
    root, wrong = torch.linalg.cholesky_ex(covariance)
    if bool(wrong):
        raise InvalidInput("RandomWalk: covariance is not positive definite; add a small multiple of the identity")
    return root.to(target.device, target.dtype)


def _over_rows(proposal: Distribution, dim: int) -> Distribution:
    """The proposal as a law of rows (d,)."""
    if not isinstance(proposal, Distribution):
        raise InvalidInput(f"Independence: proposal is a {type(proposal).__name__}; it must be a torch distribution")
    batch, event = tuple(proposal.batch_shape), tuple(proposal.event_shape)
    if (batch, event) == ((), (dim,)):
        return proposal
    if not event and (batch == (dim,) or (batch == () and dim == 1)):
        return torch.distributions.Independent(proposal.expand((dim,)), 1)
    raise InvalidInput(
        f"Independence: the proposal has batch shape {batch} and event shape {event}; rows have {dim} numbers"
    )
