"""The law of one variable given its parents: tables, linear-Gaussian, any distribution, networks."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Bernoulli, Categorical, Distribution, Normal

from benthic.base.errors import InvalidInput
from benthic.base.seeds import drawing
from benthic.base.settings import is_whole
from benthic.distributions.drawing import device_of, draw
from benthic.distributions.tables import as_float_tensor


class Conditional(ABC):
    """The law of a variable given its parents, for many rows at once.

    given: names of the parents. states: how many values a discrete variable has, or their names; None says that
    it is continuous. Discrete values are whole numbers from 0.
    """

    def __init__(self, given: str | Sequence[str] = (), states: int | Sequence[Any] | None = None) -> None:
        self.given = (given,) if isinstance(given, str) else tuple(given)
        if states is not None and (states < 1 if is_whole(states) else not len(states)):
            raise InvalidInput(f"{type(self).__name__}: states is {states!r}; a variable has at least one state")
        self.size = states if states is None or is_whole(states) else len(states)
        self.labels = None if states is None or is_whole(states) else list(states)

    @abstractmethod
    def law(self, parents: Sequence[Tensor]) -> Distribution:
        """The distribution for rows of the parents, each (n, ...): batch shape (n,), or () where rows do not matter."""

    @property
    def device(self) -> torch.device | None:
        """Where the law keeps its numbers, if it has any."""
        return None

    def check(self, name: str, sizes: Sequence[int | None]) -> None:
        """Refuse parents that do not fit. sizes: states of each parent, None for a continuous one."""

    def draw(self, parents: Sequence[Tensor], n: int, source: torch.Generator) -> Tensor:
        """n draws, one a row of the parents."""
        law = self.law(parents)
        x = draw(law, () if law.batch_shape else n, generator=source)
        return x if self.size is None else x.to(torch.int64)

    def log_prob(self, value: Tensor, parents: Sequence[Tensor]) -> Tensor:
        """The log probability or density of n values, (n,)."""
        law = self.law(parents)
        if self.size is not None and not isinstance(law, Categorical):
            value = value.to(torch.get_default_dtype())
        return law.log_prob(value)


class Table(Conditional):
    """A discrete variable by a table of probabilities.

    probs: (states of each parent, states), where each row sums to one; the parents' dimensions stand in the order
    of ``given``. states: names of the values, optional.

    >>> Table([[0.9, 0.1], [0.2, 0.8]], given="rain").size
    2
    """

    def __init__(self, probs: Any, given: str | Sequence[str] = (), states: Sequence[Any] | None = None) -> None:
        self.probs = as_float_tensor(probs)
        if self.probs.ndim < 1:
            raise InvalidInput("Table: probs is a number; a table (*states of the parents, states) is needed")
        super().__init__(given, self.probs.shape[-1] if states is None else states)

    @classmethod
    def empty(cls, sizes: Sequence[int], given: str | Sequence[str] = (), states: Sequence[Any] | None = None) -> Table:
        """A table of equal probabilities, to be learned. sizes: states of each parent, then of the variable."""
        return cls(torch.full(tuple(sizes), 1 / sizes[-1], dtype=torch.float64), given, states)

    @property
    def device(self) -> torch.device:
        """Where the table lies."""
        return self.probs.device

    def check(self, name: str, sizes: Sequence[int | None]) -> None:
        """Refuse a table that does not fit its parents or whose rows do not sum to one."""
        for parent, size in zip(self.given, sizes, strict=True):
            if size is None:
                raise InvalidInput(
                    f"BayesianNetwork: {name!r} has a table, but its parent {parent!r} is continuous; "
                    "use a function or a network of the parents"
                )
        if tuple(self.probs.shape) != (*sizes, self.size):
            raise InvalidInput(
                f"BayesianNetwork: the table of {name!r} has shape {tuple(self.probs.shape)}; with parents "
                f"{list(self.given)} it must be {(*sizes, self.size)}"
            )
        if not bool((torch.isfinite(self.probs) & (self.probs >= 0)).all()):
            raise InvalidInput(f"BayesianNetwork: the table of {name!r} has negative or non-finite probabilities")
        total = self.probs.sum(-1)
        worst = (total - 1).abs().flatten().argmax()
        if float((total.flatten()[worst] - 1).abs()) > math.sqrt(torch.finfo(self.probs.dtype).eps):
            row = tuple(int(i) for i in torch.unravel_index(worst, total.shape)) if total.ndim else ()
            where = f" for parents {dict(zip(self.given, row, strict=True))}" if row else ""
            raise InvalidInput(
                f"BayesianNetwork: the row of {name!r}{where} sums to {float(total.flatten()[worst]):.6g}; "
                "each row of a table must sum to 1"
            )

    def law(self, parents: Sequence[Tensor]) -> Distribution:
        """The categorical law of each row."""
        probs = self.probs if not parents else self.probs.to(parents[0].device)[tuple(parents)]
        return Categorical(probs=probs, validate_args=False)

    def log_prob(self, value: Tensor, parents: Sequence[Tensor]) -> Tensor:
        """Logarithms of entries of the table; an impossible value has -inf."""
        return self.probs.to(value.device)[(*parents, value)].log()


class LinearGaussian(Conditional):
    r"""A continuous variable whose mean is linear in its parents.

    .. math:: x \mid \mathrm{pa} \sim N(b + w^T \mathrm{pa},\; s^2)

    weights: one a parent. bias: b. scale: the standard deviation s.
    """

    def __init__(
        self, weights: Any = (), bias: float = 0.0, scale: float = 1.0, given: str | Sequence[str] = ()
    ) -> None:
        super().__init__(given)
        self.weights = as_float_tensor(weights).reshape(-1)
        self.bias, self.scale = float(bias), float(scale)
        if len(self.weights) != len(self.given):
            raise InvalidInput(
                f"LinearGaussian: there are {len(self.weights)} weights and {len(self.given)} parents; give one each"
            )
        if not self.scale > 0 or not math.isfinite(self.scale):
            raise InvalidInput(f"LinearGaussian: scale is {scale}; it must be positive")

    @property
    def device(self) -> torch.device:
        """Where the weights lie."""
        return self.weights.device

    def law(self, parents: Sequence[Tensor]) -> Distribution:
        """The normal law of each row."""
        if not parents:
            return Normal(self.weights.new_tensor(self.bias), self.weights.new_tensor(self.scale))
        rows = torch.stack([p.to(torch.promote_types(p.dtype, self.weights.dtype)) for p in parents], -1)
        mean = rows @ self.weights.to(rows) + self.bias
        return Normal(mean, torch.full_like(mean, self.scale))


class Given(Conditional):
    """A variable by any function of its parents that gives a distribution, for example an ``nn.Module``.

    function: from the parents' values, each (n, ...), to a distribution of batch shape (n,); of no parents, a
    distribution or a function without arguments. states: for a discrete variable, how many values it has.

    >>> law = Given(lambda x: Normal(x.sin(), 0.1), given="x")
    """

    def __init__(
        self,
        function: Distribution | Callable[..., Distribution],
        given: str | Sequence[str] = (),
        states: int | Sequence[Any] | None = None,
    ) -> None:
        super().__init__(given, states)
        if isinstance(function, Distribution):
            if self.given:
                raise InvalidInput("Given: a fixed distribution cannot depend on parents; give a function of them")
            if states is None and isinstance(function, Categorical):
                self.size = function.probs.shape[-1]
            if states is None and isinstance(function, Bernoulli):
                self.size = 2
        elif not callable(function):
            raise InvalidInput(f"Given: function is a {type(function).__name__}; a distribution or function is needed")
        self.function = function

    @property
    def device(self) -> torch.device | None:
        """Where a network has its weights, or a distribution its parameters."""
        if isinstance(self.function, Distribution):
            return device_of(self.function)
        parameters = self.function.parameters() if isinstance(self.function, nn.Module) else iter(())
        return next((parameter.device for parameter in parameters), None)

    @property
    def module(self) -> nn.Module | None:
        """The network to train, where the function is one."""
        trains = isinstance(self.function, nn.Module) and any(p.requires_grad for p in self.function.parameters())
        return self.function if trains else None

    def law(self, parents: Sequence[Tensor]) -> Distribution:
        """What the function gives."""
        law = self.function if isinstance(self.function, Distribution) else self.function(*parents)
        if not isinstance(law, Distribution):
            raise InvalidInput(
                f"BayesianNetwork: the function of parents {list(self.given)} gives a {type(law).__name__}; "
                "it must give a torch distribution"
            )
        n = len(parents[0]) if parents else None
        if law.batch_shape not in ((), (n,)):
            raise InvalidInput(
                f"BayesianNetwork: the function of parents {list(self.given)} gives batch shape "
                f"{tuple(law.batch_shape)} for {n} rows; one law a row is needed, so wrap it in Independent"
            )
        return law


class NeuralConditional(nn.Module):
    r"""A network of the parents that gives a categorical or a normal law; put it into ``Given``.

    .. math:: p(x \mid \mathrm{pa}) = \mathrm{Categorical}(\mathrm{softmax}(g_\theta(\mathrm{pa})))
        \quad\text{or}\quad N(\mu_\theta(\mathrm{pa}), \sigma_\theta(\mathrm{pa})^2)

    sizes: for each parent its number of states, which enter one-hot, or None for a number. states: of the variable;
    None gives a normal law. hidden: widths of the hidden layers, with SiLU between them.

    >>> NeuralConditional([2, None], states=3)(torch.tensor([0, 1]), torch.randn(2)).probs.shape
    torch.Size([2, 3])
    """

    def __init__(
        self, sizes: Sequence[int | None], states: int | None = None, hidden: Sequence[int] = (32,), seed: int = 0
    ) -> None:
        super().__init__()
        self.sizes, self.states = tuple(sizes), states
        widths = [sum(size or 1 for size in sizes), *hidden, states or 2]
        layers: list[nn.Module] = []
        with drawing(seed):
            for a, b in pairwise(widths):
                layers += [nn.Linear(a, b), nn.SiLU()]
        self.net = nn.Sequential(*layers[:-1])

    def forward(self, *parents: Tensor) -> Distribution:
        """The law of each row of the parents, each (n,)."""
        weight = next(self.parameters())
        parts = [
            p[:, None].to(weight) if size is None else nn.functional.one_hot(p.long(), size).to(weight)
            for p, size in zip(parents, self.sizes, strict=True)
        ]
        out = self.net(torch.cat(parts, -1))
        if self.states is not None:
            return Categorical(logits=out)
        return Normal(out[:, 0], 1e-4 + nn.functional.softplus(out[:, 1]))
