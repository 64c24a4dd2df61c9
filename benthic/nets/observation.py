"""Laws of an observation given the outputs of a decoder: numbers, bits, levels, and tables of mixed columns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benthic.nets.noise import draw_gumbel, draw_normal, draw_uniform

_LOG_2PI = math.log(2 * math.pi)


class Observation(nn.Module):
    """p(x|z) of rows x (n, width), from the outputs of a decoder, (..., n, outputs), with any leading dimensions.

    A column that is NaN in x is missing: it does not count. measure: whether x has a density or a mass.
    """

    measure: ClassVar[Literal["density", "mass"]] = "density"

    def __init__(self, width: int, outputs: int) -> None:
        super().__init__()
        self.width, self.outputs = width, outputs

    def terms(self, x: Tensor, outputs: Tensor) -> Tensor:
        """The log-probability of every column (or pixel) of x, which add up to that of the row."""
        raise NotImplementedError

    def log_prob(self, x: Tensor, outputs: Tensor, seen: Tensor | None = None) -> Tensor:
        """log p(x|z) of each row. seen: (n, width) whether an entry is known; None when all are."""
        if seen is None:
            return self.terms(x, outputs).sum(-1)
        return torch.where(seen, self.terms(torch.where(seen, x, 0.0), outputs), 0.0).sum(-1)

    def view(self, x: Tensor) -> Tensor:
        """What an encoder sees of x: the same, or levels scaled to (-1, 1)."""
        return x

    def start(self, mean: Tensor) -> Tensor | None:
        """Outputs under which every row has this mean (width,), for a decoder to begin with; None is zero everywhere.

        A decoder that has to travel there first saturates its units on the way.
        """
        return None

    def mean(self, outputs: Tensor) -> Tensor:
        """E[x|z]."""
        raise NotImplementedError

    def emit(self, outputs: Tensor, generator: torch.Generator) -> Tensor:
        """A draw of x given z; the generator lives on the CPU, so that every device draws the same."""
        raise NotImplementedError


class GaussianObservation(Observation):
    r"""Normal columns, :math:`x_j \sim N(\mu_j(z), \sigma_j^2)`.

    noise: ``column`` (one learned scale a column), ``shared`` (one for all columns), ``row`` (a scale for every row and
    column, from the decoder), or a fixed number. floor: smallest scale, which keeps the density of a perfectly
    predictable column finite.

    >>> law = GaussianObservation(1, noise=1.0)
    >>> round(float(law.log_prob(torch.zeros(1, 1), torch.zeros(1, 1))), 4)
    -0.9189
    """

    def __init__(self, width: int, noise: str | float = "column", floor: float = 1e-3) -> None:
        super().__init__(width, 2 * width if noise == "row" else width)
        self.noise, self._lowest = noise, math.log(floor)
        if noise in ("column", "shared"):
            self.log_noise = nn.Parameter(torch.full((width if noise == "column" else 1,), -0.7))
        elif noise != "row":
            self.register_buffer("fixed", torch.full((width,), math.log(float(noise))))

    def _split(self, outputs: Tensor) -> tuple[Tensor, Tensor]:
        if self.noise == "row":
            mean, log_noise = outputs.chunk(2, -1)
            return mean, log_noise.clamp(self._lowest, 10.0)
        if self.noise not in ("column", "shared"):
            return outputs, self.fixed
        return outputs, self.log_noise.clamp(min=self._lowest)

    def terms(self, x: Tensor, outputs: Tensor) -> Tensor:
        """See ``Observation``."""
        mean, log_noise = self._split(outputs)
        return -0.5 * (((x - mean) * torch.exp(-log_noise)).square() + (2 * log_noise + _LOG_2PI))

    def mean(self, outputs: Tensor) -> Tensor:
        """See ``Observation``."""
        return self._split(outputs)[0]

    def emit(self, outputs: Tensor, generator: torch.Generator) -> Tensor:
        """See ``Observation``."""
        mean, log_noise = self._split(outputs)
        return mean + torch.exp(log_noise) * draw_normal(mean.shape, mean, generator)


class BernoulliObservation(Observation):
    """Zeros and ones, whose logits the decoder gives."""

    measure = "mass"

    def __init__(self, width: int) -> None:
        super().__init__(width, width)

    def log_prob(self, x: Tensor, outputs: Tensor, seen: Tensor | None = None) -> Tensor:
        """See ``Observation``."""
        if outputs.is_cuda and seen is None and not x.requires_grad:
            from benthic.nets import fused

            if fused.serves(x, outputs):
                return fused.bits_log_prob(x, outputs)
        return super().log_prob(x, outputs, seen)

    def start(self, mean: Tensor) -> Tensor:
        """See ``Observation``."""
        return torch.logit(mean.clamp(0.01, 0.99))

    def terms(self, x: Tensor, outputs: Tensor) -> Tensor:
        """See ``Observation``."""
        return -F.binary_cross_entropy_with_logits(outputs, x.expand_as(outputs), reduction="none")

    def mean(self, outputs: Tensor) -> Tensor:
        """See ``Observation``."""
        return torch.sigmoid(outputs)

    def emit(self, outputs: Tensor, generator: torch.Generator) -> Tensor:
        """See ``Observation``."""
        return (draw_uniform(outputs.shape, outputs, generator) < torch.sigmoid(outputs)).to(outputs.dtype)


class CategoricalObservation(Observation):
    """Levels 0, 1, ..., levels - 1 of every column, each with a probability of its own: levels logits a column."""

    measure = "mass"

    def __init__(self, width: int, levels: int) -> None:
        super().__init__(width, levels * width)
        self.levels = levels

    def view(self, x: Tensor) -> Tensor:
        """See ``Observation``."""
        return x * (2.0 / (self.levels - 1)) - 1.0

    def _logits(self, outputs: Tensor) -> Tensor:
        return outputs.unflatten(-1, (self.levels, self.width))

    def terms(self, x: Tensor, outputs: Tensor) -> Tensor:
        """See ``Observation``."""
        logits = self._logits(outputs)  # (..., n, levels, width)
        index = x.round().long()[..., None, :].expand(*logits.shape[:-2], 1, self.width)
        return logits.gather(-2, index).squeeze(-2) - torch.logsumexp(logits, -2)

    def mean(self, outputs: Tensor) -> Tensor:
        """See ``Observation``."""
        logits = self._logits(outputs)
        values = torch.arange(self.levels, dtype=outputs.dtype, device=outputs.device)
        return (torch.softmax(logits, -2) * values[:, None]).sum(-2)

    def emit(self, outputs: Tensor, generator: torch.Generator) -> Tensor:
        """See ``Observation``."""
        logits = self._logits(outputs)
        return (logits + draw_gumbel(logits.shape, logits, generator)).argmax(-2).to(outputs.dtype)


class LogisticObservation(Observation):
    r"""Levels 0, 1, ..., levels - 1 as a logistic law cut into bins (Kingma et al., 2016; Salimans et al., 2017).

    .. math:: P(x = k) = F\!\left(\frac{k + 1/2 - \mu}{s}\right) - F\!\left(\frac{k - 1/2 - \mu}{s}\right)

    with F the logistic function; the lowest and highest level take what lies beyond them. The decoder gives
    μ on a scale where the levels span (-1, 1). noise: the scale s, learned for every ``column`` or ``shared`` by all.
    """

    measure = "mass"

    def __init__(self, width: int, levels: int, noise: str = "column") -> None:
        super().__init__(width, width)
        self.levels = levels
        self.log_scale = nn.Parameter(torch.full((1 if noise == "shared" else width,), -2.0))

    def view(self, x: Tensor) -> Tensor:
        """See ``Observation``."""
        return x * (2.0 / (self.levels - 1)) - 1.0

    def start(self, mean: Tensor) -> Tensor:
        """See ``Observation``."""
        return self.view(mean)

    def terms(self, x: Tensor, outputs: Tensor) -> Tensor:
        """See ``Observation``."""
        half = 1.0 / (self.levels - 1)  # half a bin, on the scale of (-1, 1)
        gap = x * (2 * half) - 1.0 - outputs
        sharp = torch.exp(-self.log_scale.clamp(-7.0, 4.0))
        above, below = (gap + half) * sharp, (gap - half) * sharp
        # log(F(a) - F(b)) = logσ(a) + logσ(-b) + log(1 - exp(b - a))
        inside = F.logsigmoid(above) + F.logsigmoid(-below) + torch.log(-torch.expm1(-2 * half * sharp))
        edge = torch.where(x < 0.5, F.logsigmoid(above), F.logsigmoid(-below))
        return torch.where((x < 0.5) | (x > self.levels - 1.5), edge, inside)

    def _level(self, place: Tensor) -> Tensor:
        return ((place + 1.0) * (0.5 * (self.levels - 1))).clamp(0.0, self.levels - 1.0)

    def mean(self, outputs: Tensor) -> Tensor:
        """The level of μ; it is the mean up to what the edges cut off."""
        return self._level(outputs)

    def emit(self, outputs: Tensor, generator: torch.Generator) -> Tensor:
        """See ``Observation``."""
        uniform = draw_uniform(outputs.shape, outputs, generator).clamp(1e-6, 1 - 1e-6)
        return self._level(outputs + torch.exp(self.log_scale) * torch.logit(uniform)).round()


@dataclass(frozen=True)
class Columns:
    """Which columns of an encoded table are numbers, bits, and the entries of which categories."""

    numbers: tuple[int, ...]
    bits: tuple[int, ...]
    categories: tuple[tuple[int, ...], ...]


class MixedObservation(Observation):
    """A table whose columns have laws of their own: normal numbers, Bernoulli bits and categories as entries 0 and 1.

    Given z the columns are independent. The entries of a category are one variable: exactly one of them is 1.
    """

    def __init__(self, width: int, columns: Columns, noise: str | float = "column", floor: float = 1e-3) -> None:
        super().__init__(width, width + (len(columns.numbers) if noise == "row" else 0))
        self.normal = GaussianObservation(max(len(columns.numbers), 1), noise, floor)
        self.register_buffer("numbers", _index(columns.numbers), persistent=False)
        self.register_buffer("bits", _index(columns.bits), persistent=False)
        self.groups = tuple(slice(group[0], group[-1] + 1) for group in columns.categories)

    def _normal_outputs(self, outputs: Tensor) -> Tensor:
        mean = outputs[..., self.numbers]
        if self.normal.noise != "row":
            return mean
        return torch.cat([mean, outputs[..., self.width :]], -1)

    def terms(self, x: Tensor, outputs: Tensor) -> Tensor:
        """See ``Observation``; the log-probability of a category stands at the entry that is 1."""
        found = torch.zeros(*outputs.shape[:-1], self.width, dtype=outputs.dtype, device=outputs.device)
        if len(self.numbers):
            terms = self.normal.terms(x[:, self.numbers], self._normal_outputs(outputs))
            found = found.index_copy(-1, self.numbers, terms)
        if len(self.bits):
            logits = outputs[..., self.bits]
            target = x[:, self.bits].expand_as(logits)
            bits = -F.binary_cross_entropy_with_logits(logits, target, reduction="none")
            found = found.index_copy(-1, self.bits, bits)
        for group in self.groups:
            found[..., group] = x[:, group] * torch.log_softmax(outputs[..., group], -1)
        return found

    def mean(self, outputs: Tensor) -> Tensor:
        """See ``Observation``."""
        found = outputs[..., : self.width].clone()
        if len(self.bits):
            found[..., self.bits] = torch.sigmoid(outputs[..., self.bits])
        for group in self.groups:
            found[..., group] = torch.softmax(outputs[..., group], -1)
        return found

    def emit(self, outputs: Tensor, generator: torch.Generator) -> Tensor:
        """See ``Observation``."""
        found = outputs[..., : self.width].clone()
        if len(self.numbers):
            found[..., self.numbers] = self.normal.emit(self._normal_outputs(outputs), generator)
        if len(self.bits):
            logits = outputs[..., self.bits]
            found[..., self.bits] = (draw_uniform(logits.shape, logits, generator) < torch.sigmoid(logits)).to(found)
        for group in self.groups:
            logits = outputs[..., group]
            best = (logits + draw_gumbel(logits.shape, logits, generator)).argmax(-1)
            found[..., group] = F.one_hot(best, logits.shape[-1]).to(found)
        return found


def _index(columns: Sequence[int]) -> Tensor:
    return torch.tensor(list(columns), dtype=torch.long)
