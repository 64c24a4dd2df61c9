r"""Samplers that remember answers of the steps before: DPM-Solver++ and UniPC.

Both solve, between two values of :math:`\lambda = \log \alpha / \sigma`,

.. math:: x_t = \frac{\sigma_t}{\sigma_s} x_s + \sigma_t \int_{\lambda_s}^{\lambda_t} e^\lambda\,
    \hat x_0(\lambda)\, d\lambda

with a polynomial in λ for the expected data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.generative.diffusion.denoiser import Denoising
from benthic.generative.diffusion.solvers.base import Normal, Point, Sampler

Answers = tuple[tuple[float, Tensor], ...]  # half log signal-to-noise ratios and expected data, newest first
_WIDE = 1.0  # a step of half the log-SNR beyond which a parabola is not believed
_WIDER = 1.25  # and by how much it may be wider than the one before


def _first_order(here: Point, there: Point, x: Tensor, x0: Tensor) -> Tensor:
    """The step for expected data that do not change; also from where there is no signal."""
    kept = there.sigma / here.sigma
    return kept * x + (there.alpha - kept * here.alpha) * x0


def _ahead(x0: Tensor, last: tuple[float, Tensor], level: float, h: float, reach: float) -> Tensor:
    """The expected data half a step ahead, on the line through this and the last answer.

    A step that is wider than the last one leads far beyond what the two answers tell; it counts for at most ``reach``
    times as wide.
    """
    return x0 + (x0 - last[1]) * (min(h / (level - last[0]), reach) / 2)


def _bends(past: Answers, level: float, h: float, reach: float) -> bool:
    """Whether a parabola through the last answers is believed for this step."""
    return math.isinf(reach) or h <= min(_WIDE, _WIDER * (level - past[0][0]))


def _check_reach(name: str, reach: float) -> None:
    if not reach > 0:
        raise InvalidInput(f"{name}: reach={reach!r}; it is a positive number, and math.inf for the published steps")


@dataclass(frozen=True)
class DPMSolver(Sampler):
    r"""DPM-Solver++ with two or three answers: one evaluation a step, second or third order.

    Lu et al., 2022, "2M" and "3M". The very first step of the third order takes two evaluations, and its quadratic
    term has the whole second derivative, not the half that common code takes: otherwise the error would be of second
    order. Steps that divide the noise by more than e, or are wider than the last by more than a quarter, take two
    answers all the same, since a parabola through three leads astray so far beyond them.

    answers: 2 or 3. reach: how many times as wide as the last step one may count where it goes on along a line
    through two answers; infinity gives the published steps, which on grids whose steps widen have about twice the
    error. The order is the same, since steps become equal as they become many.
    """

    answers: int = 2
    reach: float = 1.0

    one_step: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.answers not in (2, 3):
            raise InvalidInput(f"DPMSolver: answers={self.answers!r}; 2 and 3 are there")
        _check_reach("DPMSolver", self.reach)

    @property
    def order(self) -> int:
        """That of its polynomial."""
        return self.answers

    def step(
        self, denoiser: Denoising, here: Point, there: Point, x: Tensor, memory: Any, normal: Normal
    ) -> tuple[Tensor, Answers]:
        """One step back."""
        past: Answers = memory or ()
        level, h = here.half_log_snr, there.half_log_snr - here.half_log_snr
        x0 = denoiser.data(x, here.t)
        known = ((level, x0), *past)
        if not math.isfinite(h):
            return _first_order(here, there, x, x0), ()
        if not past:
            return self._begin(denoiser, here, there, x, x0), known[: self.answers - 1]
        if len(past) == 1 or not _bends(past, level, h, self.reach):
            moved = _first_order(here, there, x, _ahead(x0, past[0], level, h, self.reach))
            return moved, known[: self.answers - 1]
        first, second = (level - past[0][0]) / h, (past[0][0] - past[1][0]) / h
        slope, before = (x0 - past[0][1]) / first, (past[0][1] - past[1][1]) / second
        bend = (slope - before) / (first + second)
        linear = math.expm1(-h) / h + 1
        square = 2 * (math.expm1(-h) + h) / h**2 - 1
        moved = _first_order(here, there, x, x0)
        moved = moved + there.alpha * (linear * (slope + first * bend) - square * bend)
        return moved, known[: self.answers - 1]

    def _begin(self, denoiser: Denoising, here: Point, there: Point, x: Tensor, x0: Tensor) -> Tensor:
        """The first step: with one answer, or for the third order with a second one half-way ("2S")."""
        if self.answers == 2:
            return _first_order(here, there, x, x0)
        process = denoiser.process
        t = float(process.time_of_log_snr(here.half_log_snr + there.half_log_snr))
        middle = Point(t, float(process.alpha(t)), float(process.sigma(t)))
        return _first_order(here, there, x, denoiser.data(_first_order(here, middle, x, x0), t))


class _Seen(NamedTuple):
    """Where the last step of UniPC began, and the answers until then."""

    point: Point
    x: Tensor
    answers: Answers


@dataclass(frozen=True)
class UniPC(Sampler):
    r"""A predictor and a corrector that costs no evaluation.

    Zhao et al., 2023, in terms of the expected data and with :math:`B(h) = e^{-h} - 1`. answers: p, of the predictor;
    the corrector raises the order to p + 1 (for p = 3 the first step, which has no past, keeps it at 3). reach, and
    wide steps of the predictor: as of ``DPMSolver``.
    """

    answers: int = 2
    reach: float = 1.0

    one_step: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.answers not in (1, 2, 3):
            raise InvalidInput(f"UniPC: answers={self.answers!r}; 1, 2 and 3 are there")
        _check_reach("UniPC", self.reach)

    @property
    def order(self) -> int:
        """One more than the predictor has, at most 3."""
        return min(self.answers + 1, 3)

    def step(
        self, denoiser: Denoising, here: Point, there: Point, x: Tensor, memory: Any, normal: Normal
    ) -> tuple[Tensor, _Seen | None]:
        """Correct the points of the step before, then predict."""
        x0 = denoiser.data(x, here.t)
        level = here.half_log_snr
        if not (math.isfinite(level) and math.isfinite(there.half_log_snr)):
            return _first_order(here, there, x, x0), None
        if memory is not None:
            x = self._move(memory.point, here, memory.x, (*memory.answers, (level, x0)))
        past = () if memory is None else memory.answers
        answers = ((level, x0), *past)[: self.answers]
        return self._predicted(here, there, x, answers), _Seen(here, x, answers)

    def _predicted(self, here: Point, there: Point, x: Tensor, answers: Answers) -> Tensor:
        """The step from ``here`` by the answers until now."""
        (level, x0), *past = answers
        h = there.half_log_snr - level
        if past and (len(past) == 1 or not _bends(tuple(past), level, h, self.reach)):
            return _first_order(here, there, x, _ahead(x0, past[0], level, h, self.reach))
        return self._move(here, there, x, answers)

    @staticmethod
    def _move(here: Point, there: Point, x: Tensor, answers: Answers) -> Tensor:
        """The step from ``here``, where the first answer is from, by a polynomial through all of them."""
        (level, x0), *others = answers
        h = there.half_log_snr - level
        moved = _first_order(here, there, x, x0)
        if not others:
            return moved
        places = [(other - level) / h for other, _ in others]
        weights = _weights(places, h)
        change = sum(w / r * (value - x0) for w, r, (_, value) in zip(weights, places, others, strict=True))
        return moved - there.alpha * math.expm1(-h) * change


def _weights(places: list[float], h: float) -> list[float]:
    """Weights of the differences at relative places such that polynomials of their degree are integrated.

    With a single difference the weight is 1/2, as in the paper, which leaves the order as it is.
    """
    if len(places) == 1:
        return [0.5]
    size, value, factorial, wanted = len(places), math.expm1(-h) / -h - 1, 1.0, []
    for k in range(1, size + 1):
        wanted.append(value * factorial / math.expm1(-h))
        factorial *= k + 1
        value = value / -h - 1 / factorial
    rows = np.vander(np.asarray(places), size, increasing=True).T
    return list(np.linalg.solve(rows, np.asarray(wanted)))
