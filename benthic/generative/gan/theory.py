"""What the theory of adversarial models promises, on laws whose densities are known."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.distributions import Distribution
from torch.nn.functional import logsigmoid

from benthic.base.errors import InvalidInput
from benthic.base.estimate import Estimate
from benthic.base.seeds import derive, seed_of
from benthic.distributions.divergences import dense, js
from benthic.distributions.laws import Average, evaluate, ratio
from benthic.distributions.sources import Samples, log_density

LogDensity = Callable[[Tensor], Tensor]
Law = Distribution | Samples
Logit = Callable[[Tensor], Tensor]


class OptimalDiscriminator:
    r"""The best that any discriminator can do between data p and a generator q.

    .. math:: D^*(x) = \frac{p(x)}{p(x) + q(x)}, \qquad \operatorname{logit} D^*(x) = \log p(x) - \log q(x)

    Goodfellow et al., 2014, proposition 1. Where neither law has mass it is undecided, 1/2.

    p, q: distributions, ``Samples(x, log_prob=f)``, or functions from points (n, ...) to log-densities (n,).

    >>> normal = torch.distributions.Normal
    >>> best = OptimalDiscriminator(normal(0.0, 1.0), normal(1.0, 1.0))
    >>> best(torch.tensor([-10.0, 0.5, 1.5]))  # even where the densities cross; the logit is 1/2 - x
    tensor([1.0000, 0.5000, 0.2689])
    """

    def __init__(self, p: Law | LogDensity, q: Law | LogDensity) -> None:
        self._laws = [_log_density(law, name) for law, name in ((p, "p"), (q, "q"))]

    def logit(self, x: Any) -> Tensor:
        """log p(x) − log q(x) of points (n, ...), (n,); infinite where only one of the laws has mass."""
        points = torch.as_tensor(x)
        first, second = (law(points) for law in self._laws)
        neither = (first == -math.inf) & (second == -math.inf)
        return torch.where(neither, 0.0, first - torch.where(neither, 0.0, second))

    def __call__(self, x: Any) -> Tensor:
        """The probability that a point is data, (n,)."""
        return torch.sigmoid(self.logit(x))


def adversarial_value(
    p: Law,
    q: Law,
    logit: Logit | None = None,
    *,
    method: str | None = None,
    n: int = 10_000,
    seed: int | None = None,
) -> Tensor | Estimate:
    r"""The value of the adversarial game for data p, a generator q and a discriminator D.

    .. math:: V(G, D) = E_p \log D(x) + E_q \log (1 - D(x))

    Goodfellow et al., 2014. The discriminator ascends it and the generator descends it.

    p, q: distributions, or ``Samples(x, log_prob=f)``. logit: the discriminator, from points (n, ...) to the
    logits (n,) of being data; None is the optimal one. method: ``quadrature`` (laws of one dimension) or
    ``monte_carlo``; None for the first that applies. n: draws of Monte Carlo. Returns a tensor by quadrature, and an
    ``Estimate`` with its standard error by draws.

    >>> normal = torch.distributions.Normal
    >>> adversarial_value(normal(0.0, 1.0), normal(0.0, 1.0))  # nothing to tell apart: - log 4
    tensor(-1.3863)
    >>> adversarial_value(normal(0.0, 1.0), normal(1.0, 1.0), lambda x: torch.zeros_like(x))  # and nothing told apart
    tensor(-1.3863)
    """
    for law, name in ((p, "p"), (q, "q")):
        if not isinstance(law, Distribution | Samples) or not dense(law):
            raise InvalidInput(
                f"adversarial_value: {name} must be a distribution, or draws with a density, Samples(x, log_prob=f)"
            )
    base = seed_of(seed)
    halves = [
        evaluate("adversarial_value", Average(_gain(logit, sign)), laws, method, n, derive(base, side))
        for side, (sign, laws) in enumerate(((1, [p, q]), (-1, [q, p])))
    ]
    if all(isinstance(half, Tensor) for half in halves):
        return halves[0] + halves[1]
    pairs = [half if isinstance(half, Estimate) else Estimate(float(half), 0.0) for half in halves]
    return Estimate(sum(pair.value for pair in pairs), math.hypot(*(pair.stderr for pair in pairs)))


class JSIdentity(NamedTuple):
    """Both sides of the identity: the value of the game, and 2 JS − log 4."""

    value: Tensor | Estimate
    js: Tensor | Estimate
    promised: Tensor | Estimate

    @property
    def gap(self) -> float:
        """How far the sides are apart; for batches the most."""
        return float((_number(self.value) - _number(self.promised)).abs().max())

    @property
    def stderr(self) -> float:
        """Of the gap; 0 by quadrature."""
        return math.hypot(*(s.stderr if isinstance(s, Estimate) else 0.0 for s in (self.value, self.promised)))


def js_identity(p: Law, q: Law, *, method: str | None = None, n: int = 10_000, seed: int | None = None) -> JSIdentity:
    r"""What the generator descends when the discriminator is always the best: the Jensen–Shannon divergence.

    .. math:: \max_D V(G, D) = V(G, D^*) = -\log 4 + 2\, \mathrm{JS}(p, q)

    Goodfellow et al., 2014, theorem 1. The left side is measured as expectations of D*, the right side as the
    divergence itself, with draws of its own. Arguments as for ``adversarial_value``.

    >>> normal = torch.distributions.Normal
    >>> sides = js_identity(normal(0.0, 1.0), normal(1.0, 2.0))
    >>> sides.gap < 1e-6
    True
    """
    base = seed_of(seed)
    value = adversarial_value(p, q, method=method, n=n, seed=derive(base, 0))
    divergence = js(p, q, method=method, n=n, seed=derive(base, 1))
    if isinstance(divergence, Estimate):
        promised: Tensor | Estimate = Estimate(2 * divergence.value - math.log(4), 2 * divergence.stderr)
    else:
        promised = 2 * divergence - math.log(4)
    return JSIdentity(value, divergence, promised)


def _number(side: Tensor | Estimate) -> Tensor:
    return torch.as_tensor(side.value if isinstance(side, Estimate) else side.detach(), dtype=torch.float64)


def _gain(logit: Logit | None, sign: int) -> Callable[[Tensor, list[Tensor]], Tensor]:
    """log D under the first law where the sign is 1, log (1 − D) where it is −1."""

    def gain(x: Tensor, logs: list[Tensor]) -> Tensor:
        if logit is None:
            return logsigmoid(ratio(logs))  # the first of the laws is the one averaged over, so the sign is in it
        values = torch.as_tensor(logit(x))
        if values.shape not in (logs[0].shape, x.shape[:1]):
            raise InvalidInput(
                f"adversarial_value: the discriminator gives shape {tuple(values.shape)} for {len(x)} points; "
                "one logit a point is needed"
            )
        return logsigmoid(sign * values)

    return gain


def _log_density(law: Law | LogDensity, name: str) -> LogDensity:
    if isinstance(law, Distribution | Samples):
        if not dense(law):
            raise InvalidInput(f"OptimalDiscriminator: {name} has no density; give one with Samples(x, log_prob=f)")
        return lambda x: log_density(law, x, "OptimalDiscriminator")
    if callable(law):
        return law
    raise InvalidInput(
        f"OptimalDiscriminator: {name} is a {type(law).__name__}; pass a distribution or a function that gives "
        "log-densities"
    )
