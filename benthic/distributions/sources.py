"""What an information measure may be asked about: laws with a density, and samples with or without one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution

from benthic.base.errors import InvalidInput
from benthic.base.seeds import drawing, seed_of
from benthic.distributions.tables import as_float_tensor, as_tensor


@dataclass(frozen=True)
class Samples:
    """Draws from a law, told apart from an array of probabilities by this wrapper.

    x: (n,) or (n, d). Floating values are measurements of a continuous law; integers and booleans are labels
    of a discrete one. log_prob: the log-density of the law, a function from (n, ...) to (n,), where it is
    known; what can be estimated from a density is then not estimated from neighbors.

    >>> len(Samples([0.5, 1.5, 2.5]))
    3
    """

    x: Any
    log_prob: Callable[[Tensor], Tensor] | None = None

    def __post_init__(self) -> None:
        x = as_tensor(self.x)
        if x.ndim == 0 or not x.numel():
            raise InvalidInput(f"Samples: x has shape {tuple(x.shape)}; at least one draw, (n,) or (n, d), is needed")
        if x.is_floating_point():
            x = as_float_tensor(x)
            if not bool(torch.isfinite(x).all()):
                raise InvalidInput("Samples: x has NaN or infinite values; drop or impute them first")
        object.__setattr__(self, "x", x)

    def __len__(self) -> int:
        return len(self.x)

    @property
    def discrete(self) -> bool:
        """Whether the draws are labels."""
        return not self.x.is_floating_point()

    @property
    def rows(self) -> Tensor:
        """The draws as a matrix (n, d)."""
        return self.x.reshape(len(self.x), -1)

    def labels(self) -> Tensor:
        """One integer from 0 a row, (n,), equal for equal rows."""
        return torch.unique(self.rows, dim=0, return_inverse=True)[1]


def log_density(law: Distribution | Samples, x: Tensor, where: str) -> Tensor:
    """The log-density of ``law`` at x (n, ...), −∞ outside its support."""
    if isinstance(law, Distribution):
        return masked_log_prob(law, x if x.is_floating_point() else x.double())
    if law.log_prob is None:
        raise InvalidInput(f"{where}: these samples have no density; give one with Samples(x, log_prob=f)")
    values = law.log_prob(x)
    if values.shape != x.shape[:1]:
        raise InvalidInput(
            f"{where}: log_prob of {len(x)} draws has shape {tuple(values.shape)}; one number a draw is needed"
        )
    return values


def masked_log_prob(law: Distribution, x: Tensor) -> Tensor:
    """``law.log_prob(x)``, and −∞ instead of an error or a NaN where x is outside the support."""
    inside = law.support.check(x)  # x without its event dimensions
    if bool(inside.all()):
        return law.log_prob(x)
    stand_in = draws(law, 1, 0)[0].to(x.dtype)  # any point of the support
    event = inside[(..., *[None] * len(law.event_shape))]
    return torch.where(inside, law.log_prob(torch.where(event, x, stand_in)), -torch.inf)


def draws(law: Distribution, n: int, seed: int | None) -> Tensor:
    """n draws of ``law`` that do not touch the global random state."""
    with drawing(seed_of(seed), device_of(law)):
        return law.sample((n,))


def device_of(law: Distribution) -> torch.device:
    """Where the parameters of a law lie."""
    for value in vars(law).values():
        if isinstance(value, Tensor):
            return value.device
        if isinstance(value, Distribution):
            return device_of(value)
    return torch.device("cpu")


def sample_of(law: Distribution | Samples, n: int, seed: int | None) -> Tensor:
    """The draws that were given, or n new ones."""
    return law.x if isinstance(law, Samples) else draws(law, n, seed)


def shape_of(law: Distribution | Samples) -> tuple[int, ...]:
    """The shape of one draw."""
    return tuple(law.x.shape[1:] if isinstance(law, Samples) else law.event_shape)


def rows_of(law: Distribution | Samples, n: int, seed: int | None) -> Tensor:
    """Given draws, or n new ones, as a matrix (n, d), in integers where they are labels."""
    x = sample_of(law, n, seed)
    x = x.reshape(len(x), -1)
    labels = isinstance(law, Distribution) and law.support.is_discrete
    return x.long() if labels else x


def comparable(where: str, x: Tensor, y: Tensor) -> None:
    """Refuse matrices of draws that cannot come from laws of one kind on one space."""
    if x.shape[1] != y.shape[1]:
        raise InvalidInput(f"{where}: the draws have {x.shape[1]} and {y.shape[1]} columns; they must be the same")
    if x.is_floating_point() != y.is_floating_point():
        raise InvalidInput(
            f"{where}: one sample is of labels (integers) and the other of measurements (floats); make them the same"
        )


def scores(law: Distribution | Samples, x: Tensor, where: str, differentiable: bool = False) -> Tensor:
    """The gradient of the log-density at every x (n, ...), differentiable in the law's parameters if asked."""
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        value = log_density(law, x, where)
        if value.grad_fn is None:  # a density that is flat as far as autograd can see
            return torch.zeros_like(x)
        gradient = torch.autograd.grad(value.sum(), x, create_graph=differentiable, allow_unused=True)[0]
    return torch.zeros_like(x) if gradient is None else gradient
