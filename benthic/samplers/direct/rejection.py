"""Rejection sampling: exact draws from a density that lies under a multiple of a proposal's."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.distributions import Distribution

from benthic.base.errors import InvalidInput
from benthic.base.estimate import Estimate
from benthic.distributions.drawing import draw
from benthic.samplers.direct.importance import check_proposal, density_at
from benthic.samplers.direct.inversion import uniform_source

_BLOCK = 1 << 16
_PILOT = 2000


@dataclass(frozen=True)
class Rejection:
    """Accepted draws and what they cost.

    draws: (n, ...). acceptance: the share of proposals accepted, without bias. log_k: the logarithm of the
    envelope constant. n_proposed: proposals drawn up to the last one accepted. normalizer: the integral of the
    density, k times the acceptance. raised: how often an estimated constant had to be raised; ``exact`` says
    that the constant was given, and never exceeded.
    """

    draws: Tensor
    acceptance: Estimate
    log_k: float
    n_proposed: int
    raised: int = 0
    exact: bool = True

    @property
    def normalizer(self) -> Estimate:
        """The integral of the unnormalized density: acceptance = normalizer / k."""
        k = math.exp(self.log_k)
        return Estimate(k * self.acceptance.value, k * self.acceptance.stderr)

    def __str__(self) -> str:
        kind = "given" if self.exact else f"estimated, raised {self.raised} times"
        return (
            f"{len(self.draws)} draws of {self.n_proposed} proposals, acceptance {self.acceptance}, "
            f"k = {math.exp(self.log_k):.4g} ({kind}), normalizer {self.normalizer}"
        )


def rejection_sampling(
    log_density: Callable[[Tensor], Tensor],
    proposal: Distribution,
    n: int,
    *,
    log_k: float | None = None,
    safety: float = 1.2,
    max_proposals: int = 10_000_000,
    seed: int | None = None,
    generator: torch.Generator | None = None,
) -> Rejection:
    r"""Draws from an unnormalized density p', by accepting proposals x of q with probability p'(x) / (k q(x)).

    .. math:: P(\mathrm{accept}) = \frac{1}{k} \int p'(x)\,dx, \qquad k\,q(x) \geq p'(x)

    von Neumann, 1951. With log_k the draws are exact, and an error says where the envelope is too low. Without it
    k is estimated: ``safety`` times the largest ratio seen in a first round, raised whenever a larger one appears;
    every proposal is then judged again with its own uniform number, so all draws belong to the last k (Caffo,
    Booth & Davis, 2002). Such draws are exact only if k ends above the true maximum, and a warning says when
    it had to be raised.

    log_density: from (m, ...) to (m,), up to a constant; -inf where the density is zero. proposal: a distribution
    with empty batch shape. n: how many draws. max_proposals: when to give up. Returns a ``Rejection``.

    >>> from torch.distributions import Uniform
    >>> hill = lambda x: torch.log(x * (1 - x))
    >>> got = rejection_sampling(hill, Uniform(0.0, 1.0), 5000, log_k=math.log(0.25), seed=0)
    >>> abs(got.acceptance.value - 4 / 6) < 4 * got.acceptance.stderr  # the integral is 1/6, and k is 1/4
    True
    """
    check_proposal(proposal, "rejection_sampling")
    if n < 2 or safety < 1:
        raise InvalidInput(
            f"rejection_sampling: n is {n} and safety {safety:g}; n must be at least 2 and safety at least 1"
        )
    source = uniform_source("rejection_sampling", seed, generator, "cpu")
    run = _Run(log_density, proposal, log_k, safety)
    if log_k is None:
        run.pilot(source)
    while run.accepted < n:
        if run.proposed >= max_proposals:
            raise InvalidInput(_advice(run, n))
        run.block(_size(run, n, max_proposals), source)
    return run.result(n)


class _Run:
    """Proposals so far: those accepted under the constant as it stands, with their place, ratio and uniform."""

    def __init__(
        self,
        log_density: Callable[[Tensor], Tensor],
        proposal: Distribution,
        log_k: float | None,
        safety: float,
    ) -> None:
        self.log_density, self.proposal = log_density, proposal
        self.given = log_k is not None
        self.log_k = -math.inf if log_k is None else float(log_k)
        self.slack = math.log(safety)
        self.proposed = self.accepted = self.raised = 0
        self.kept: list[tuple[Tensor, Tensor, Tensor]] = []  # draws, log ratio - log uniform, place

    def pilot(self, source: torch.Generator) -> None:
        """A first constant from proposals that are not used again."""
        _, ratio = self._propose(_PILOT, source)
        if float(ratio.max()) == -math.inf:
            raise InvalidInput(
                f"rejection_sampling: the density is zero at all of {_PILOT} proposals; the proposal must cover it"
            )
        self.log_k = float(ratio.max()) + self.slack

    def block(self, size: int, source: torch.Generator) -> None:
        """Propose, raise the constant if it was exceeded, and keep what is accepted."""
        x, ratio = self._propose(size, source)
        top = float(ratio.max())
        if top > self.log_k + 1e-9 * max(1.0, abs(self.log_k)):
            self._exceeded(x, ratio, top)
        u = torch.rand(size, generator=source, dtype=torch.float64, device=source.device).to(ratio.device)
        margin = ratio - u.log()
        place = torch.arange(self.proposed, self.proposed + size, device=ratio.device)
        self.kept.append(_select((x, margin, place), margin >= self.log_k))
        self.accepted = sum(len(part[1]) for part in self.kept)
        self.proposed += size

    def result(self, n: int) -> Rejection:
        """The first n accepted; (n - 1) / (N - 1) is without bias where N is the place of the n-th (Haldane, 1945)."""
        draws = torch.cat([part[0] for part in self.kept])[:n]
        place = torch.cat([part[2] for part in self.kept])
        proposals = int(place[n - 1]) + 1
        rate = (n - 1) / (proposals - 1)
        if self.raised:
            warnings.warn(
                f"rejection_sampling: the estimated envelope constant was raised {self.raised} times, to "
                f"{math.exp(self.log_k):.4g}; the density may be higher still where no proposal has been, so use a "
                "proposal with heavier tails, or give log_k",
                stacklevel=3,
            )
        stderr = math.sqrt(rate * (1 - rate) / max(proposals - 2, 1))
        return Rejection(draws, Estimate(rate, stderr), self.log_k, proposals, self.raised, self.given)

    def _propose(self, size: int, source: torch.Generator) -> tuple[Tensor, Tensor]:
        x = draw(self.proposal, size, generator=source)
        value = density_at(self.log_density, x, "rejection_sampling").detach()
        return x, (value - self.proposal.log_prob(x)).double()

    def _exceeded(self, x: Tensor, ratio: Tensor, top: float) -> None:
        if self.given:
            point = x[int(ratio.argmax())].flatten()[:4].tolist()
            raise InvalidInput(
                f"rejection_sampling: at x = {point} the density is {math.exp(top - self.log_k):.4g} times k q(x); "
                f"log_k must be at least {top:.4g}, or left out to be estimated"
            )
        self.raised += 1
        self.log_k = top + self.slack
        self.kept = [_select(part, part[1] >= self.log_k) for part in self.kept]


def _select(part: tuple[Tensor, Tensor, Tensor], keep: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return part[0][keep], part[1][keep], part[2][keep]


def _size(run: _Run, n: int, max_proposals: int) -> int:
    """How many to propose next: about what is still needed."""
    share = max(run.accepted, 1) / max(run.proposed, 1)
    wanted = 1.1 * (n - run.accepted) / share + 100 if run.proposed else 2 * n + 100
    return int(max(1, min(wanted, _BLOCK, max_proposals - run.proposed)))


def _advice(run: _Run, n: int) -> str:
    tails = f"k was raised {run.raised} times, so the proposal's tails are too light; " if run.raised else ""
    return (
        f"rejection_sampling: {run.accepted} of {run.proposed} proposals were accepted and {n} draws were asked for; "
        f"{tails}choose a proposal closer to the density, a smaller log_k (it is {run.log_k:.4g}), or more proposals"
    )
