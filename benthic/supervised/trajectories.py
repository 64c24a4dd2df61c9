"""Laws of motion from trajectories: a field whose curves pass what was seen, fitted by multiple shooting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Self

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from benthic.base.arrays import Origin, to_tensor
from benthic.base.capabilities import to_numpy
from benthic.base.compiling import compiled
from benthic.base.errors import InvalidInput
from benthic.base.quiet import load
from benthic.base.seeds import np_generator, supplied
from benthic.base.settings import is_whole
from benthic.base.validation import speaking
from benthic.data.batch import Batch
from benthic.data.standardize import Standardizer
from benthic.nets.mlp import MLP
from benthic.nets.ode_block import ODEBlock
from benthic.optim.minimizer import minimize
from benthic.training.estimator import Session
from benthic.training.feed import ArrayFeed
from benthic.training.gradient import GradientLearner, Player
from benthic.training.network import NetworkEstimator, training_dtype
from benthic.training.trainer import Trainer

_GAP = 10.0  # weight of what lies between the end of a piece and the beginning of the next
_SOME, _ITERATIONS = 4096, 200  # differences looked at before shooting, and iterations spent on them
_BATCH, _STEPS = 64, 500  # pieces in a batch and updates, unless the trainer says otherwise


class Motion(nn.Module):
    r"""A field of states by a fully connected network, and the curves that follow it.

    .. math:: \dot z = s \odot f_\theta(z)

    size: of the state. hidden, nonlinearity: of the network. The speeds :math:`s` are set by ``pace``, so that what
    the network gives is near 1. flow: settings of ``ODEBlock``, for the way from one observation to the next.

    >>> Motion(2, (8,), steps=1).path(torch.zeros(3, 2), torch.ones(3, 4)).shape
    torch.Size([3, 5, 2])
    """

    speed: Tensor

    def __init__(self, size: int, hidden: Sequence[int], nonlinearity: str = "tanh", **flow: Any) -> None:
        super().__init__()
        self.layers = MLP([size, *hidden, size], nonlinearity)
        self.settings = flow
        self.register_buffer("speed", torch.ones(size))

    def forward(self, t: Tensor, z: Tensor) -> Tensor:
        """The slope of states (..., size); the time does not matter."""
        slope: Tensor = self.speed * self.layers(z)
        return slope

    def pace(self, seen: Tensor, gaps: Tensor) -> None:
        """Set the speeds from differences of observations (n, m, size) that are gaps (m - 1,) apart."""
        rates = seen.diff(dim=1) / gaps[:, None]
        speed = rates.square().mean((0, 1)).sqrt()
        self.speed.copy_(torch.where(speed > 0, speed, 1 / gaps.mean()))

    def path(self, z: Tensor, gaps: Tensor, per_row: bool = False) -> Tensor:
        """States (n, m + 1, size) on the curves that begin at z (n, size), at times that are gaps (n, m) apart."""
        states = [z]
        for gap in gaps.unbind(1):
            block = ODEBlock(_Paced(self, gap[:, None]), 1.0, **self.settings)
            states.append(block(states[-1], per_row))
        return torch.stack(states, 1)


class _Paced(nn.Module):
    """A field as it is over a time of one, however long (n, 1) the rows take."""

    def __init__(self, field: Motion, gap: Tensor) -> None:
        super().__init__()
        self.field, self.gap = field, gap

    def forward(self, t: Tensor, z: Tensor) -> Tensor:
        slope: Tensor = self.gap * self.field(t, z)
        return slope


class Shooting(nn.Module):
    r"""What is minimized over pieces of trajectories: squared errors of a piece, and its gap to the next one.

    .. math:: \frac{1}{m + 1} \Big(\sum_{k=0}^{m} \tfrac12 \|z_k - x_{i+k}\|^2 + \tfrac{w}{2} \|z_m - s_{i+m}\|^2\Big),
        \qquad z_0 = s_i

    Every piece of m steps begins at an unknown state :math:`s_i`, learned beside the field and first taken from what
    was seen, :math:`x_i` (Bock, 1983). So noise in where a curve begins does not bend the field, and pieces are short
    enough to follow whatever the field is at first.

    motion: the field. seen: (n, T, d) standardized observations at times (T,). steps: m, of a piece.

    >>> shooting = Shooting(Motion(2, (8,), steps=1), torch.zeros(3, 6, 2), torch.arange(6.0), 4)
    >>> shooting.pieces.tolist()
    [[0], [1], [6], [7], [12], [13]]
    """

    seen: Tensor
    gaps: Tensor

    def __init__(self, motion: Motion, seen: Tensor, times: Tensor, steps: int) -> None:
        super().__init__()
        n, length, size = seen.shape
        self.motion, self.steps = motion, steps
        self.register_buffer("seen", seen.reshape(-1, size))
        self.register_buffer("gaps", torch.nn.functional.pad(times.diff(), (0, 1)).repeat(n))
        self.offsets = nn.Parameter(torch.zeros_like(self.seen))
        first = torch.arange(length - steps)
        self.pieces = (length * torch.arange(n)[:, None] + first).reshape(-1, 1)  # where pieces begin, in the flat rows

    def forward(self, pieces: Tensor) -> Tensor:
        """The sum over pieces, given by where they begin, (b, 1)."""
        rows = pieces + torch.arange(self.steps + 1, device=pieces.device)  # (b, m + 1)
        first, last = rows[:, 0], rows[:, -1]
        path = self.motion.path(self.seen[first] + self.offsets[first], self.gaps[rows[:, :-1]])
        errors = (path - self.seen[rows]).square().sum()
        gap = (path[:, -1] - self.seen[last] - self.offsets[last]).square().sum()
        loss: Tensor = 0.5 * (errors + _GAP * gap) / (self.steps + 1)
        return loss


def collocate(motion: Motion, seen: Tensor, gaps: Tensor, l2: float = 0.0) -> None:
    r"""Fit a field to differences of neighbors, without solving anything: where shooting begins.

    .. math:: \frac{x_1 - x_0}{h} = \frac{f(x_0) + 4 f(x_m) + f(x_1)}{6}, \qquad
        x_m = \frac{x_0 + x_1}{2} + \frac h8 (f(x_0) - f(x_1))

    Hermite–Simpson collocation (Hargraves & Paris, 1987), by some iterations of L-BFGS.
    seen: (n, T, d). gaps: (T - 1,). l2: weight of the penalty on the weights.
    """
    n, _, size = seen.shape
    ends = torch.stack([seen[:, :-1], seen[:, 1:]]).reshape(2, -1, size)
    chosen = torch.linspace(0, ends.shape[1] - 1, min(ends.shape[1], _SOME), device=seen.device).long()
    (before, after), h = ends[:, chosen], gaps.repeat(n)[chosen, None]
    named = {name: value.detach() for name, value in motion.named_parameters()}
    sizes = [value.numel() for value in named.values()]
    now = torch.zeros((), dtype=seen.dtype, device=seen.device)

    def misfit(flat: Tensor) -> Tensor:
        parts = zip(named.items(), flat.split(sizes), strict=True)
        weights = {name: part.reshape(value.shape) for (name, value), part in parts}

        def field(x: Tensor) -> Tensor:
            slope: Tensor = torch.func.functional_call(motion, weights, (now, x))
            return slope

        first, last = field(before), field(after)
        middle = field((before + after) / 2 + h / 8 * (first - last))
        errors = ((after - before) / h - (first + 4 * middle + last) / 6) / motion.speed
        return 0.5 * (errors.square().sum(1).mean() + l2 * flat.square().sum())

    found = minimize(misfit, torch.cat([value.reshape(-1) for value in named.values()]), max_iter=_ITERATIONS)
    for parameter, part in zip(motion.parameters(), found.point.split(sizes), strict=True):
        parameter.detach().copy_(part.reshape(parameter.shape))


def times_of(times: Any, length: int) -> np.ndarray:
    """Checked times (length,) of observations; 0, 1, 2, ... if none are given.

    >>> times_of(None, 3)
    array([0., 1., 2.])
    """
    if times is None:
        return np.arange(float(length))
    found = np.asarray(times, dtype=np.float64)
    if found.shape != (length,):
        raise InvalidInput(f"times have shape {found.shape}, but trajectories have {length} observations each")
    if not np.isfinite(found).all() or (np.diff(found) <= 0).any():
        raise InvalidInput("times do not rise from each observation to the next")
    return found


def subdivided(times: Sequence[float], longest: float) -> tuple[np.ndarray, list[int]]:
    """Gaps between times, from 0 on and none longer than wanted, and after how many of them each time comes.

    >>> gaps, places = subdivided([0.0, 1.0, 1.5], 0.5)
    >>> gaps.tolist(), places
    ([0.5, 0.5, 0.5], [0, 2, 3])
    """
    gaps: list[float] = []
    places = []
    for a, b in pairwise([0.0, *times]):
        parts = int(np.ceil(abs(b - a) / longest * (1 - 1e-9)))
        gaps += [(b - a) / parts] * parts if parts else []
        places.append(len(gaps))
    return np.array(gaps), places


class _Moves(NetworkEstimator):
    """What a regressor does with trajectories: learn their law of motion, follow it, and say where it points."""

    times: Any
    segment: int | None
    alpha: float
    scales_: Standardizer
    _size: int

    @property
    def _moving(self) -> bool:
        """Whether the model was fitted on trajectories."""
        return not hasattr(self, "schema_") and len(getattr(self, "_event_shape", None) or ()) == 2

    def _fit_motion(self, X: Any, y: Any) -> Self:
        """Learn from trajectories (n, T, d)."""
        with self._session(X) as session:
            with speaking(self, "fit"):
                if y is not None:
                    raise InvalidInput("trajectories are learned from themselves; y must be None")
                _, length, size = X.shape
                if length < 2:
                    raise InvalidInput("trajectories of one observation do not move; at least 2 are needed")
                self._check_segment(length)
                self.times_ = times_of(self.times, length)
            rows, _ = self._arrive(X, "fit", reset=True)
            seen = rows.reshape(-1, length, size)
            self.scales_ = Standardizer().fit(seen.reshape(-1, size))
            self._size = size
            dtype = training_dtype(session)
            scaled = self.scales_.transform(seen.reshape(-1, size)).reshape(seen.shape).to(session.device, dtype)
            times = torch.as_tensor(self.times_, dtype=dtype, device=session.device)
            with supplied():
                motion = self._build_network("network_").to(session.device, dtype)
            motion.pace(scaled, times.diff())
            collocate(motion, scaled, times.diff(), self.alpha)
            self._shoot(Shooting(motion, scaled, times, min(self.segment or length, length - 1)), seen, session)
            self.network_ = motion
        return self

    def _shoot(self, shooting: Shooting, seen: Tensor, session: Session) -> None:
        """Train the field and the states at which pieces begin."""
        n = len(seen)
        trainer = _with_budget(session.trainer)
        session = replace(session, trainer=trainer)
        shooting = shooting.to(session.device)
        pieces, held = shooting.pieces.reshape(n, -1, 1), None
        if trainer.stopping is not None and trainer.stopping.fraction > 0:
            count = max(1, round(trainer.stopping.fraction * n))
            if count >= n:
                raise self._fail("fit", f"early stopping cannot hold out {count} of {n} trajectories; use fraction=0")
            order = torch.from_numpy(np_generator(session.seed, "hold-out").permutation(n))
            held, pieces = pieces[order[:count]], pieces[order[count:]]
        forward = compiled(shooting, session.device, "training") if trainer.compile else shooting
        player = Player(shooting, lambda batch: forward(batch.X), trainer, l2=self.alpha)
        options: dict[str, Any] = {"seed": session.seed, "device": session.device, "world": session.world}
        feed = ArrayFeed(
            Batch(pieces.reshape(-1, 1)),
            origin=Batch(seen),
            batch_size=trainer.batch_size or _BATCH,
            shuffle=True,
            **options,
        )
        validation = None if held is None else ArrayFeed(Batch(held.reshape(-1, 1)), batch_size=4096, **options)
        self._train(GradientLearner({"fit": player}, trainer, world=session.world), feed, session, validation)

    def _check_segment(self, length: int) -> None:
        segment: Any = self.segment
        if segment is not None and (not is_whole(segment, 1)):
            raise InvalidInput(f"segment is {segment!r}; pieces have 1 or more steps, or None for all {length - 1}")

    def _followed(self, states: Tensor, gaps: np.ndarray) -> Tensor:
        """States (n, m + 1, d) in units of the data on the curves through states (n, d)."""
        steps = torch.as_tensor(gaps, dtype=states.dtype)

        def follow(network: Motion, rows: Tensor) -> Tensor:
            path = network.path(self.scales_.transform(rows), steps.to(rows.device).expand(len(rows), -1), per_row=True)
            return self.scales_.inverse(path.reshape(-1, rows.shape[1])).reshape(path.shape)

        return self._evaluate(follow, states)

    def forecast(self, X: Any, times: Sequence[float]) -> Any:
        """States (n, m, d) at times (m,) after the states X (n, d), or before them if the times fall below 0."""
        states, origin = self._arrive_states(X, "forecast")
        wanted = [float(t) for t in times]
        steps = np.diff([0.0, *wanted])
        if not wanted or not np.isfinite(steps).all() or not ((steps[1:] > 0).all() or (steps[1:] < 0).all()):
            raise self._fail("forecast", f"times are {wanted}; they must rise from 0 on, or fall")
        if len(steps) > 1 and steps[0] * steps[1] < 0:
            raise self._fail("forecast", f"times are {wanted}; they must lie on one side of 0")
        gaps, places = subdivided(wanted, float(np.diff(self.times_).max()))
        return origin.mirror(self._followed(states, gaps)[:, places])

    def velocity(self, X: Any) -> Any:
        """The learned time derivative (n, d) of states X (n, d)."""
        states, origin = self._arrive_states(X, "velocity")

        def slope(network: Motion, rows: Tensor) -> Tensor:
            standard = self.scales_.transform(rows)
            scale = torch.as_tensor(self.scales_.scale, dtype=rows.dtype, device=rows.device)
            return network(torch.zeros((), dtype=rows.dtype), standard) * scale

        return origin.mirror(self._evaluate(slope, states))

    def _arrive_states(self, X: Any, method: str) -> tuple[Tensor, Origin]:
        check_is_fitted(self)
        if not self._moving:
            raise self._fail(method, "the model was not fitted on trajectories; fit(X) with X of shape (n, T, d) first")
        with speaking(self, method):
            states, origin = to_tensor(X)
        size = self._size
        if states.ndim != 2 or states.shape[1] != size:
            raise self._fail(method, f"states have shape {tuple(states.shape)}; expected (n, {size})")
        if not bool(torch.isfinite(states).all()):
            raise self._fail(method, "states contain NaN or infinity")
        return states, origin

    def _predicted_motion(self, X: Tensor) -> Tensor:
        """The curves (n, T, d) through the first states of flat trajectories (n, T d)."""
        first = X.reshape(len(X), len(self.times_), -1)[:, 0]
        return self._followed(first, np.diff(self.times_))

    def _score_of_motion(self, X: Any, sample_weight: Any) -> float:

        seen, found = to_numpy(X)[:, 1:], to_numpy(self.predict(X))[:, 1:]
        size = seen.shape[2]
        weight = None if sample_weight is None else np.repeat(to_numpy(sample_weight), seen.shape[1])
        return float(
            load("sklearn.metrics").r2_score(seen.reshape(-1, size), found.reshape(-1, size), sample_weight=weight)
        )


def _with_budget(trainer: Trainer) -> Trainer:
    """The trainer with batch size and length filled in."""
    trainer = replace(trainer, batch_size=trainer.batch_size or _BATCH)
    return trainer if trainer.limited else replace(trainer, steps=_STEPS)
