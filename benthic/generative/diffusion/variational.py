"""Variational diffusion: the bound itself as the loss, with a schedule of noise that is learned."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from benthic.base.errors import InvalidInput
from benthic.generative.diffusion.estimator import DiffusionEstimator, Preset
from benthic.generative.diffusion.objectives import DenoisingObjective
from benthic.generative.diffusion.process import Process, Time, as_time, plain_time
from benthic.generative.diffusion.times import even_uniforms
from benthic.nets.embedding import forget
from benthic.training.estimator import Session
from benthic.training.intake import Intake

_KNOTS = 32
_HIGH, _LOW = 10.0, -8.0  # the log signal-to-noise ratios between which the schedule begins to learn
_HIGHEST, _LOWEST = (4.0, 20.0), (-16.0, -3.0)  # where its ends may move
_WIDE = 40.0  # half the length of the axis of log signal-to-noise ratios on which training is done
_END_SHARE = 16  # one in so many examples is also looked at where the schedule ends


@dataclass(frozen=True)
class ScheduledVP(Process):
    r"""The variance-preserving process with any falling log signal-to-noise ratio, given at equally spaced times.

    .. math:: \alpha^2 = \mathrm{sigmoid}(\lambda(t)), \qquad \sigma^2 = \mathrm{sigmoid}(-\lambda(t))

    Kingma et al., 2021. log_snrs: falling, the first at time 0 and the last at time 1; straight lines between them.

    >>> ScheduledVP(log_snrs=(4.0, -4.0)).log_snr(0.25)
    tensor(2., dtype=torch.float64)
    """

    t_min: float = 0.0
    t_max: float = 1.0
    log_snrs: tuple[float, ...] = (_HIGH, _LOW)

    def check(self) -> None:
        """Refuse what does not fall."""
        super().check()
        object.__setattr__(self, "log_snrs", tuple(float(value) for value in self.log_snrs))
        if len(self.log_snrs) < 2 or any(a <= b for a, b in zip(self.log_snrs, self.log_snrs[1:], strict=False)):
            raise InvalidInput("ScheduledVP: log_snrs must be two or more falling numbers")

    def _lines(self, t: Time) -> tuple[Tensor, Tensor]:
        """The log signal-to-noise ratio and its slope."""
        t, pieces = as_time(t), len(self.log_snrs) - 1
        one = plain_time(t)
        if one is not None:  # plain numbers cost a tenth
            at = min(max(math.floor(one * pieces), 0), pieces - 1)
            left, fall = self.log_snrs[at], self.log_snrs[at + 1] - self.log_snrs[at]
            return torch.tensor(left + fall * (one * pieces - at), dtype=t.dtype), t.new_tensor(fall * pieces)
        knots = _table(self.log_snrs, t.device, t.dtype)
        piece = (t * pieces).floor().clamp(0, pieces - 1).long()
        first, second = knots.take(piece), knots.take(piece + 1)
        return first + (second - first) * (t * pieces - piece), (second - first) * pieces

    def log_snr(self, t: Time) -> Tensor:
        """The log signal-to-noise ratio."""
        return self._lines(t)[0]

    def log_snr_rate(self, t: Time) -> Tensor:
        """Its derivative by time."""
        return self._lines(t)[1]

    def noise_level(self, t: Time) -> Tensor:
        r""":math:`\log \sigma / \alpha`."""
        return -0.5 * self.log_snr(t)

    def alpha(self, t: Time) -> Tensor:
        """How much of the data is left."""
        return torch.sigmoid(self.log_snr(t)).sqrt()

    def sigma(self, t: Time) -> Tensor:
        """How much noise there is."""
        return torch.sigmoid(-self.log_snr(t)).sqrt()

    def alpha_rate(self, t: Time) -> Tensor:
        """The derivative of ``alpha`` by time."""
        value, slope = self._lines(t)
        return 0.5 * slope * torch.sigmoid(-value) * torch.sigmoid(value).sqrt()

    def sigma_rate(self, t: Time) -> Tensor:
        """The derivative of ``sigma`` by time."""
        value, slope = self._lines(t)
        return -0.5 * slope * torch.sigmoid(value) * torch.sigmoid(-value).sqrt()

    def time_of_log_snr(self, value: Time) -> Tensor:
        """The time at which the log signal-to-noise ratio has this value."""
        value = as_time(value)
        knots = _table(self.log_snrs, value.device, value.dtype)
        pieces = len(knots) - 1
        piece = (torch.searchsorted(-knots, -value.contiguous()) - 1).clamp(0, pieces - 1)
        first, second = knots.take(piece), knots.take(piece + 1)
        return (piece + (value - first) / (second - first)) / pieces

    def prior_scale(self) -> float:
        """One: the variance is kept."""
        return 1.0


@lru_cache(maxsize=64)
def _table(values: tuple[float, ...], device: torch.device, dtype: torch.dtype) -> Tensor:
    """Numbers on a device; kept, so that nothing is sent there twice."""
    return torch.tensor(values, dtype=torch.float64).to(device, dtype)


class LearnedSchedule(nn.Module):
    r"""How training times are shared out among noise levels, so that the loss has little variance.

    The bound does not depend on the schedule between its ends, but the variance of its estimate does: with the share
    p(λ) of times near a level λ it is least where :math:`p \propto \sqrt{E[\|\epsilon - \hat\epsilon\|^4 | \lambda]}`,
    and :meth:`regret` falls toward that. Its ends, the highest and the lowest log signal-to-noise ratio, change the
    bound itself and follow the gradient of that. Kingma et al., 2021, section 4.

    >>> float(LearnedSchedule().shares().sum().detach())
    1.0
    """

    def __init__(self, knots: int = _KNOTS) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(knots))
        self.limits = nn.Parameter(torch.tensor([_HIGH, _LOW]))

    def ends(self) -> tuple[Tensor, Tensor]:
        """The highest and the lowest log signal-to-noise ratio."""
        return self.limits[0].clamp(*_HIGHEST), self.limits[1].clamp(*_LOWEST)

    def shares(self) -> Tensor:
        """The share of times in each of the equal parts of the levels, from little noise to much, (knots,)."""
        return torch.softmax(self.logits, 0)

    def draw(self, u: Tensor) -> tuple[Tensor, Tensor]:
        """Places (n,) in [0, 1] along the levels for uniform numbers u (n,), and the density there, with gradient."""
        shares = self.shares()
        fixed = shares.detach()
        ends = fixed.cumsum(0)
        part = torch.searchsorted(ends, u.contiguous()).clamp(max=len(ends) - 1)
        inside = ((u - (ends - fixed)[part]) / fixed[part]).clamp(0, 1)
        return (part + inside) / len(ends), shares[part] * len(ends)

    @staticmethod
    def regret(terms: Tensor, density: Tensor) -> Tensor:
        """The second moment (n,) of an estimate by these terms, over its scale, with the gradient by the density."""
        fixed, terms = density.detach(), terms.detach()
        scale = (terms / fixed).mean().square() + torch.finfo(terms.dtype).tiny
        return terms.square() / (fixed * density) / scale

    @torch.no_grad()
    def log_snrs(self, count: int = _KNOTS) -> tuple[float, ...]:
        """The schedule as log signal-to-noise ratios at equally spaced times."""
        high, low = (float(end) for end in self.ends())
        places, _ = self.draw(torch.linspace(0, 1, count + 1, dtype=self.logits.dtype, device=self.logits.device))
        return tuple((high + (low - high) * places.double()).tolist())


class ScheduledNetwork(nn.Module):
    """A denoising network together with a schedule."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body, self.schedule = body, LearnedSchedule()

    def forward(self, x: Tensor, level: Tensor, condition: Tensor | None = None) -> Tensor:
        """The body's answer."""
        found: Tensor = self.body(x, level, condition) if condition is not None else self.body(x, level)
        return found


class VariationalDiffusion(DiffusionEstimator):
    r"""Diffusion trained on the variational bound in continuous time, with a schedule that is learned.

    .. math:: -\log p(x) \le \text{prior} + \text{reconstruction} - \tfrac12 E_{t, \epsilon}\, \lambda'(t)\,
              \| \epsilon - \hat\epsilon(x_t, \lambda(t)) \|^2

    Kingma et al., 2021. The schedule is a monotone curve of straight pieces, which changes the variance of training
    and not the bound; its ends, which do change that, begin at the log signal-to-noise ratios 10 and −8, in standard
    units, and are learned from the bound. ``process_`` is the ``ScheduledVP`` that was found.

    Arguments: those of ``DDPM`` but process, weighting, times, matching and learned_variance, which are what the method
    is; target ``noise``, sampler ``dpm2m`` and 50 steps.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(200, 2)) + 5
    >>> model = VariationalDiffusion(hidden=16, trainer={"steps": 20}, random_state=0).fit(X)
    >>> model.sample(4).shape, model.likelihood(X, "elbo").bound
    ((4, 2), 'lower')
    """

    preset = Preset(ScheduledVP(), "noise", "variational", "dpm2m", 50)
    network_: ScheduledNetwork

    def __init__(
        self,
        *,
        target: str | None = None,
        sampler: Any = None,
        steps: int | None = None,
        network: Any = "auto",
        hidden: int = 128,
        depth: int = 3,
        unet: Any = None,
        dropout: float = 0.0,
        condition: str = "auto",
        condition_dropout: float = 0.1,
        clip: bool = True,
        trainer: Any = None,
        random_state: Any = None,
    ) -> None:
        self.target = target
        self.sampler = sampler
        self.steps = steps
        self.network = network
        self.hidden = hidden
        self.depth = depth
        self.unet = unet
        self.dropout = dropout
        self.condition = condition
        self.condition_dropout = condition_dropout
        self.clip = clip
        self.trainer = trainer
        self.random_state = random_state

    # what the method fixes
    process = None
    weighting = None
    times = None
    matching = "denoising"
    learned_variance = False

    def _facts(self) -> dict[str, Any]:
        ends = self.process_.log_snr(0.0), self.process_.log_snr(1.0)
        named = f"ScheduledVP, log signal-to-noise {float(ends[0]):.3g} to {float(ends[1]):.3g}"
        return {**super()._facts(), "process": named}

    def _build_network(self, name: str) -> nn.Module:
        return ScheduledNetwork(super()._build_network(name))

    def _begin_network(self, network: nn.Module) -> None:
        super()._begin_network(network)
        self._schedule: Any = network.schedule

    def _optimize(self, intake: Intake, session: Session) -> None:
        self._axis = replace(self._objective(), process=ScheduledVP(log_snrs=(_WIDE, -_WIDE)))
        super()._optimize(intake, session)
        del self._schedule, self._axis
        self.process_ = ScheduledVP(log_snrs=self.network_.schedule.log_snrs())

    def _losses(
        self, objective: DenoisingObjective, network: Callable[..., Tensor], x: Tensor, condition: Tensor | None
    ) -> Tensor:
        if condition is not None and objective.forgets:
            condition = forget(condition, objective.condition_kind, objective.classes, objective.forgets)
        high, low = self._schedule.ends()
        place, density = self._schedule.draw(even_uniforms(len(x), x))
        level = (high + (low - high) * place).detach()
        terms = self._errors(network, x, level, condition) * (high - low).detach()
        losses: Tensor = terms / density.detach() + self._schedule.regret(terms, density)
        return losses + self._at_ends(network, x, condition)

    def _errors(self, network: Callable[..., Tensor], x: Tensor, level: Tensor, condition: Tensor | None) -> Tensor:
        """Half the mean square of the errors of the noise at these log signal-to-noise ratios, (n,)."""
        t = (_WIDE - level) / (2 * _WIDE)  # the place on the axis of training
        noise = self._axis.process.draw_noise(x.shape, x)
        return self._axis.at(network, x, t, noise, condition) / (2 * _WIDE)

    def _at_ends(self, network: Callable[..., Tensor], x: Tensor, condition: Tensor | None) -> Tensor:
        r"""What the ends add to the bound, for an entry, with its gradient by them.

        .. math:: \tfrac12 E_{\lambda_{high}} \|\epsilon - \hat\epsilon\|^2 - \tfrac12 \lambda_{high} + KL(q \,\|\, p)

        The first two are the reconstruction. The integral between the ends has the integrand as its slope by them.
        """
        count = max(1, len(x) // _END_SHARE)
        high, low = self._schedule.ends()
        some = x[:count]
        given = None if condition is None else torch.cat([condition[:count]] * 2)
        levels = torch.cat([high.expand(count), low.detach().expand(count)])
        errors = self._errors(network, torch.cat([some, some]), levels, given)
        first, last = errors[:count].mean(), errors[count:].mean().detach()
        moved = (high - high.detach()) * first.detach() - (low - low.detach()) * last
        kept = torch.sigmoid(low)  # of the variance of the data, where the prior begins
        prior = 0.5 * (kept * (some.square().mean() - 1) - nn.functional.logsigmoid(-low))
        found: Tensor = first - 0.5 * high + moved + prior
        return found
