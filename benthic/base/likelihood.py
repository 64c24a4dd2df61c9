"""How likely data are under a model, with the kind of estimate declared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Bound = Literal["exact", "lower", "upper", "estimate"]
Measure = Literal["density", "mass"]


@dataclass(frozen=True)
class Likelihood:
    """Log-likelihood of each example in nats, in the data's own units.

    value: (n,) log-likelihoods. stderr: (n,) Monte-Carlo standard errors, zero where exact.
    kind: ``exact``, ``ode``, ``importance(k)``, ``elbo`` or ``ais``. bound: whether ``value`` is exact,
    a lower or upper bound in expectation, or an estimate. measure: a ``density`` or a ``mass``.
    """

    value: Any
    stderr: Any
    kind: str
    bound: Bound
    measure: Measure

    def mean(self) -> float:
        """Average log-likelihood over the examples."""
        return float(self.value.mean())

    def __repr__(self) -> str:
        return (
            f"Likelihood(n={len(self.value)}, mean={self.mean():.4f} nats, kind={self.kind!r}, "
            f"bound={self.bound!r}, measure={self.measure!r})"
        )
