"""Variational diffusion: the bound itself as the loss, with a schedule of noise that is learned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from benthic.base.errors import InvalidInput
from benthic.generative.diffusion.estimator import DiffusionEstimator, Preset
from benthic.generative.diffusion.objectives import DenoisingObjective
from benthic.generative.diffusion.process import Process, Time, as_time
from benthic.generative.diffusion.times import even_uniforms
from benthic.nets.embedding import forget
from benthic.training.estimator import Session
from benthic.training.intake import Intake

_KNOTS = 32
_HIGH, _LOW = 10.0, -8.0  # the log signal-to-noise ratios that the schedule runs between


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
        t = as_time(t)
        knots = _table(self.log_snrs, t.device, t.dtype)
        pieces = len(knots) - 1
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
    and :meth:`regret` falls toward that. Kingma et al., 2021, section 4.

    >>> float(LearnedSchedule().shares().sum().detach())
    1.0
    """

    def __init__(self, knots: int = _KNOTS) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(knots))

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
    def log_snrs(self, high: float, low: float, count: int = _KNOTS) -> tuple[float, ...]:
        """The schedule as log signal-to-noise ratios at equally spaced times."""
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

    Kingma et al., 2021. The schedule is a monotone curve of straight pieces between fixed ends (log signal-to-noise
    ratios 10 and −8, in standard units); it changes the variance of training, not the bound. ``process_`` is the
    ``ScheduledVP`` that was found.

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
        hidden: int = 256,
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

    def _build_network(self, name: str) -> nn.Module:
        return ScheduledNetwork(super()._build_network(name))

    def _begin_network(self, network: nn.Module) -> None:
        super()._begin_network(network)
        self._schedule: Any = network.schedule

    def _optimize(self, intake: Intake, session: Session) -> None:
        super()._optimize(intake, session)
        del self._schedule
        self.process_ = ScheduledVP(log_snrs=self.network_.schedule.log_snrs(_HIGH, _LOW))

    def _losses(
        self, objective: DenoisingObjective, network: Callable[..., Tensor], x: Tensor, condition: Tensor | None
    ) -> Tensor:
        # the schedule of the objective is the straight one: time is the place along the levels
        if condition is not None and objective.forgets:
            condition = forget(condition, objective.condition_kind, objective.classes, objective.forgets)
        t, density = self._schedule.draw(even_uniforms(len(x), x))
        terms = objective.at(network, x, t, objective.process.draw_noise(x.shape, x), condition)
        losses: Tensor = terms / density.detach() + self._schedule.regret(terms, density)
        return losses
