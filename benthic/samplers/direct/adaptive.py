"""Adaptive rejection: exact draws from log-concave densities on the line, under an envelope that learns."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.distributions.tables import as_float_tensor
from benthic.samplers.direct.envelope import Envelope, knot_values, starting_knots
from benthic.samplers.direct.inversion import uniform_source

Function = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class AdaptiveRejection:
    """Draws of log-concave densities, and the envelope that was learned for each.

    draws: ``(n, *batch)``. acceptance: ``(*batch)`` share of proposals accepted. log_normalizer: ``(*batch)`` log of
    the integral of the density, with its standard error ``stderr``. envelope: tangents above the log density;
    ``envelope(x)`` evaluates them.
    """

    draws: Tensor
    acceptance: Tensor
    log_normalizer: Tensor
    stderr: Tensor
    envelope: Envelope

    def __str__(self) -> str:
        return (
            f"{len(self.draws)} draws of each of {self.acceptance.numel()} densities, "
            f"acceptance {float(self.acceptance.min()):.3f} or more, {self.envelope.x.shape[-1]} tangents"
        )


def adaptive_rejection(
    log_density: Function,
    n: int,
    *,
    batch_shape: Sequence[int] = (),
    support: Sequence[float] = (-math.inf, math.inf),
    start: Any = None,
    max_tangents: int = 40,
    max_rounds: int = 10_000,
    seed: int | None = None,
    generator: torch.Generator | None = None,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str = "cpu",
) -> AdaptiveRejection:
    r"""Exact draws from log-concave densities on the line, with an envelope made of tangents.

    .. math:: u(x) = \min_j \, h(x_j) + h'(x_j) (x - x_j) \geq h(x) = \log p'(x)

    Proposals come from :math:`\exp u`, a chain of exponentials, and are accepted with probability
    :math:`\exp(h - u)`; a proposal that was rejected becomes a tangent point, so acceptance goes to one. Gilks &
    Wild, 1992. Slopes come from automatic differentiation. Many densities are sampled at once.

    log_density: elementwise from x of shape ``(m, *batch)`` to the same shape; each place of the batch may have its own
    parameters. n: draws of each. support: an open interval that holds all of them. start: ``(j, *batch)``
    or (j,) first tangent points; by default they are searched. max_tangents: when the envelope stops growing.
    Returns an ``AdaptiveRejection``; an error says where a density is not log-concave.

    >>> shape = torch.tensor([2.0, 5.0], dtype=torch.float64)
    >>> gamma = adaptive_rejection(lambda x: (shape - 1) * x.log() - x, 4000, batch_shape=(2,),
    ...     support=(0, math.inf), seed=0)
    >>> bool(((gamma.draws.mean(0) - shape).abs() < 4 * (shape / 4000).sqrt()).all())
    True
    """
    if n < 1 or max_tangents < 3:
        raise InvalidInput(f"adaptive_rejection: n is {n}, max_tangents {max_tangents}; they must be at least 1 and 3")
    source = uniform_source("adaptive_rejection", seed, generator, device)
    density = _rows(log_density, tuple(batch_shape), dtype, source.device)
    rows = math.prod(batch_shape)
    ends = (float(support[0]), float(support[1]))
    first = None if start is None else _start(start, tuple(batch_shape)).to(source.device, torch.float64)
    tol = 1e-6 if dtype == torch.float64 else 1e-3  # what rounding may do to the density and its slope
    knots = starting_knots(density, rows, ends, first, source.device, tol)
    run = _Run(density, Envelope(*knots, ends), n, max_tangents, tol)
    for _ in range(max_rounds):
        run.round(source)
        if run.finished:
            return run.result(tuple(batch_shape), dtype)
    raise InvalidInput(
        f"adaptive_rejection: after {max_rounds} rounds a density still has {int(run.count.min())} of {n} draws; "
        "give start points near its mode"
    )


class _Run:
    """Draws so far for every row, and sums for the acceptance and the normalizer."""

    def __init__(self, density: Function, envelope: Envelope, n: int, max_tangents: int, tol: float) -> None:
        self.density, self.envelope, self.n, self.most, self.tol = density, envelope, n, max_tangents, tol
        rows, device = len(envelope.x), envelope.x.device
        self.draws = torch.full((rows, n), math.nan, dtype=torch.float64, device=device)
        self.count = torch.zeros(rows, dtype=torch.int64, device=device)
        self.accepted = torch.zeros(rows, dtype=torch.float64, device=device)
        self.proposed = 0
        # of each round: proposals, and (3, rows) log mass, sum of exp(h - u), sum of its square
        self.rounds: list[tuple[int, Tensor]] = []

    @property
    def finished(self) -> bool:
        return bool((self.count >= self.n).all())

    def round(self, source: torch.Generator) -> None:
        """Propose to every row, keep what is accepted, and add one tangent to every row."""
        growing = self.envelope.x.shape[-1] < self.most
        need = int((self.n - self.count).max())
        size = max(1, min(need, 4)) if growing else max(16, math.ceil(1.2 * need))
        if growing and need > 64:
            size = 8
        x = self.envelope.draw(size, source)  # (rows, size)
        h, slope = knot_values(self.density, x)
        gap = h - self.envelope(x)
        self._check(x, h, gap)
        u = torch.rand(x.shape, generator=source, dtype=x.dtype, device=source.device)
        yes = u.log() <= gap
        self._keep(x, yes)
        self._weigh(gap, yes)
        if growing:
            worst = torch.where(torch.isfinite(slope) & torch.isfinite(h), gap, math.inf).argmin(-1, keepdim=True)
            self.envelope = self.envelope.added(x.gather(1, worst), h.gather(1, worst), slope.gather(1, worst))

    def _check(self, x: Tensor, h: Tensor, gap: Tensor) -> None:
        bad = torch.isnan(h) | (gap > self.tol * (1 + h.abs()))
        if bool(bad.any()):
            raise InvalidInput(
                f"adaptive_rejection: the density is not log-concave or not a number near x = {float(x[bad][0]):.6g}; "
                "use rejection with a proposal, or a Markov chain"
            )

    def _keep(self, x: Tensor, yes: Tensor) -> None:
        """Put accepted draws (rows, size) behind those there are."""
        place = self.count[:, None] + yes.to(torch.int64).cumsum(-1) - 1
        fits = yes & (place < self.n)
        row = torch.arange(len(x), device=x.device)[:, None].expand_as(place)
        self.draws[row[fits], place[fits]] = x[fits]
        self.count += yes.sum(-1)

    def _weigh(self, gap: Tensor, yes: Tensor) -> None:
        share = gap.exp()
        sums = torch.stack([self.envelope.log_mass(), share.sum(-1), share.square().sum(-1)])
        self.rounds.append((gap.shape[-1], sums))
        self.accepted += yes.sum(-1)
        self.proposed += gap.shape[-1]

    def _normalizer(self) -> tuple[Tensor, Tensor]:
        """The log of the mean of mass times exp(h - u), and its relative error.

        Each round is weighted by its envelope's mass to the power -2, known before the round: the first, loose
        envelopes give rare and large terms.
        """
        sizes = torch.tensor([size for size, _ in self.rounds], dtype=torch.float64, device=self.draws.device)[:, None]
        log_mass, first, second = torch.stack([sums for _, sums in self.rounds], 1)  # each (rounds, rows)
        mass = (log_mass - log_mass[-1]).exp()
        total = (sizes / mass.square()).sum(0)
        mean = (first / mass).sum(0) / total
        # the sum of v^2 (w - mean)^2 with v = mass^-2 and w = mass exp(h - u)
        parts = second / mass.square() - 2 * mean * first / mass**3 + sizes * mean.square() / mass**4
        return mean.log() + log_mass[-1], parts.sum(0).clamp(min=0).sqrt() / (total * mean)

    def result(self, batch: tuple[int, ...], dtype: torch.dtype) -> AdaptiveRejection:
        """Everything in the shape of the batch."""
        log_normalizer, stderr = self._normalizer()

        def shaped(values: Tensor) -> Tensor:
            return values.reshape(batch).to(dtype)

        return AdaptiveRejection(
            self.draws.T.reshape(self.n, *batch).to(dtype),
            shaped(self.accepted / self.proposed),
            shaped(log_normalizer),
            shaped(stderr),
            self.envelope,
        )


def _rows(log_density: Function, batch: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Function:
    """The density as a function of (rows, m) in float64, elementwise."""

    def of_rows(x: Tensor) -> Tensor:
        given = x.T.reshape(x.shape[1], *batch).to(dtype)
        value = log_density(given)
        if not isinstance(value, Tensor) or value.shape != given.shape:
            shape = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
            raise InvalidInput(
                f"adaptive_rejection: log_density of x {tuple(given.shape)} gives {shape}; it must work elementwise"
            )
        return value.reshape(x.shape[1], -1).T.to(torch.float64)

    return of_rows


def _start(start: Any, batch: tuple[int, ...]) -> Tensor:
    """Start points as (rows, j)."""
    points = as_float_tensor(start)
    if points.ndim == 1:
        points = points.reshape(-1, *[1] * len(batch)).expand(-1, *batch)
    if points.shape[1:] != batch or len(points) < 2:
        raise InvalidInput(
            f"adaptive_rejection: start has shape {tuple(points.shape)}; at least two points for each of batch "
            f"{batch} are needed"
        )
    return points.reshape(len(points), -1).T
