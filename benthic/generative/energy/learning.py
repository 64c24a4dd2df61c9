"""How an energy learns: settings with nothing left open, the loss of a batch, and whether the chains kept up."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benthic.base.errors import InvalidInput
from benthic.base.seeds import alike, normal_like, stream
from benthic.base.settings import is_number, is_real, number, one_of, positive, whole
from benthic.data.batch import Batch
from benthic.generative.energy.chains import ACCEPTANCE, SAMPLERS, kernel_of, resized, target_of, walk
from benthic.generative.energy.networks import REFERENCES, EnergyNetwork, kind_of
from benthic.generative.energy.objectives import (
    OBJECTIVES,
    denoising,
    noise_contrastive,
    score_matching,
    sliced,
)
from benthic.generative.energy.replay import Replay
from benthic.nets.activations import activation
from benthic.training.trainer import Trainer

_STEPS = {"langevin": 0.05, "mala": 0.1, "hmc": 0.2}  # step sizes where rows are whitened
_PICTURE_TEMPERATURE = 1e-3
_ROW_NOISE, _PICTURE_NOISE, _LEVELED_NOISE = 0.1, (3.0, 0.05), (20.0, 0.1)
_LOG_LEVELS = -0.5, 1.2  # mean and spread of the logarithms of the levels learned from (Karras et al., 2022)
_LEVELS, _LEVELED_LEVELS = 10, 60
_ANNEALED_STEP = 0.1
_ANNEALED_STEPS, _LEVELED_STEPS = 100, 5  # at each noise level
_ROW_STEPS, _PICTURE_STEPS = 200, 500
_FOLLOW = 0.1  # by which the logarithm of the step size follows the acceptance
_WIDE_GAP = 3.0  # in standard deviations of the energies of rows
_STILL = 0.01  # of the spread of rows, below which a chain has gone nowhere
_ROUGH = ("relu", "leaky_relu", "identity")  # their second derivatives vanish


@dataclass(frozen=True)
class EnergySettings:
    """The settings of an ``EnergyModel`` with nothing left open.

    levels: largest and smallest noise and how many levels there are, or None. noise: added to rows, or the one level.
    leveled: whether the network is told the level.
    """

    objective: str
    reference: str
    sampler: str
    temperature: float
    step_size: float
    chain_steps: int
    sampling_steps: int
    buffer_size: int
    restart: float
    regularization: float
    noise: float
    levels: tuple[float, float, int] | None
    noise_ratio: int
    slices: int
    picture: bool
    leveled: bool = False

    @property
    def wall(self) -> float:
        """How fast the energy rises outside a box: one step of a chain leads half of the way back."""
        return 0.5 / self.step_size

    @property
    def adaptive(self) -> bool:
        """Whether the step size of chains follows their acceptance."""
        return self.by_chains and self.sampler in ACCEPTANCE

    @property
    def by_chains(self) -> bool:
        """Whether chains are run in training."""
        return self.objective in ("persistent", "contrastive_divergence")

    def first_points(
        self, n: int, width: int, limits: tuple[float, float], like: Tensor, noise: torch.Generator | None = None
    ) -> Tensor:
        """Noise (n, width) from which chains begin: normal, or uniform over the range of pictures."""
        place = alike(like) if noise is None else {**alike(like), "generator": noise}
        if self.reference == "box":
            return limits[0] + (limits[1] - limits[0]) * torch.rand(n, width, **place)
        return torch.randn(n, width, **place)

    def to_tree(self) -> dict[str, Any]:
        """Its fields."""
        return asdict(self)

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> EnergySettings:
        """The settings with these fields."""
        return cls(**tree)


def settings_of(model: Any, event: tuple[int, ...], trainer: Trainer) -> EnergySettings:
    """The settings of a model for examples of this shape, checked."""
    picture = len(event) == 3
    objective = _named("objective", model.objective, ("auto", *OBJECTIVES), "denoising" if picture else "persistent")
    by_chains = objective in ("persistent", "contrastive_divergence")
    usual = "normal" if not picture else "box" if by_chains else "none"
    reference = _named("reference", model.reference, REFERENCES, usual)
    sampler = _named("sampler", model.sampler, SAMPLERS, "langevin" if picture else "mala")
    _check_numbers(model)
    _check_together(model, objective, by_chains, trainer)
    hears = kind_of(model.network, event) == "conv" and reference == "none"
    noise, ends = _noise_of(model, objective, _LEVELED_NOISE if hears else _PICTURE_NOISE if picture else _ROW_NOISE)
    levels = None if ends is None else (*ends, model.noise_levels or (_LEVELED_LEVELS if hears else _LEVELS))
    leveled = hears and levels is not None
    temperature = model.temperature
    if leveled and temperature is not None:
        raise InvalidInput(
            f"temperature is {temperature!r}, but with several levels of noise convolutions have one for each; leave it"
        )
    if temperature is None:
        temperature = noise if objective == "denoising" else _PICTURE_TEMPERATURE if picture and by_chains else 1.0
    return EnergySettings(
        objective=objective,
        reference=reference,
        sampler=sampler,
        temperature=float(temperature),
        step_size=_step_of(model, sampler, picture, float(temperature), noise, levels is not None),
        chain_steps=model.chain_steps,
        sampling_steps=_sampling_steps(model, picture, levels, leveled),
        buffer_size=model.buffer_size,
        restart=float(model.restart),
        regularization=float(model.regularization),
        noise=noise,
        levels=levels,
        noise_ratio=model.noise_ratio,
        slices=model.slices,
        picture=picture,
        leveled=leveled,
    )


def _named(name: str, value: Any, known: tuple[str, ...], usual: str) -> str:
    return usual if one_of(name, value, known) == "auto" else str(value)


def _check_numbers(model: Any) -> None:
    counts = ("chain_steps", "buffer_size", "noise_levels", "noise_ratio", "slices", "sampling_steps")
    for name in counts:
        whole(name, getattr(model, name), optional=name in ("sampling_steps", "noise_levels"))
    for name in ("step_size", "temperature"):
        positive(name, getattr(model, name), optional=True)
    number("restart", model.restart, 0, 1, ends="[]")
    number("regularization", model.regularization)


def _check_together(model: Any, objective: str, by_chains: bool, trainer: Trainer) -> None:
    if not isinstance(model.network, nn.Module):
        activation(model.activation)
        if objective in ("score_matching", "sliced") and model.activation in _ROUGH:
            raise InvalidInput(
                f"objective={objective!r} takes second derivatives, which activation={model.activation!r} does not "
                "have; use 'silu', 'softplus', 'tanh' or 'gelu'"
            )
    if by_chains and trainer.stopping is not None and trainer.stopping.fraction > 0:
        raise InvalidInput(
            f"early stopping needs a loss that can be held against others, but that of objective={objective!r} is a "
            "difference of energies; set the trainer's epochs, or use another objective"
        )


def _noise_of(model: Any, objective: str, usual: Any) -> tuple[float, tuple[float, float] | None]:
    """The (smallest) noise, and the largest and smallest where there are several levels."""
    value = model.noise
    if value is None:
        value = usual if objective == "denoising" else 0.0
    parts = [value] if is_number(value) else list(value)
    good = len(parts) in (1, 2) and all(is_real(part) and part >= 0 for part in parts)
    if not good or (objective == "denoising" and not all(parts)) or (len(parts) == 2 and not parts[0] > parts[1] > 0):
        raise InvalidInput(f"noise is {model.noise!r}; give a positive number, or (largest, smallest) with 'denoising'")
    if len(parts) == 2 and objective != "denoising":
        raise InvalidInput(f"noise has two levels, which go with objective='denoising', not with {objective!r}")
    if len(parts) == 1 or model.noise_levels == 1:
        return float(parts[-1]), None
    return float(parts[1]), (float(parts[0]), float(parts[1]))


def _step_of(model: Any, sampler: str, picture: bool, temperature: float, noise: float, annealed: bool) -> float:
    if model.step_size is not None:
        return float(model.step_size)
    if annealed:
        return _ANNEALED_STEP
    if picture:
        return 0.1 * noise**2 if noise else 0.5 * temperature
    return _STEPS[sampler]


def _sampling_steps(model: Any, picture: bool, levels: tuple[float, float, int] | None, leveled: bool) -> int:
    if model.sampling_steps is not None:
        return int(model.sampling_steps)
    if levels is not None:
        return (_LEVELED_STEPS if leveled else _ANNEALED_STEPS) * levels[2]
    return _PICTURE_STEPS if picture else _ROW_STEPS


class Course:
    """One course of training: the loss of batches, and the chains that it needs."""

    def __init__(
        self, settings: EnergySettings, width: int, limits: tuple[float, float], still: np.ndarray | None = None
    ) -> None:
        self.settings, self.width, self.limits = settings, width, limits
        self._still = torch.as_tensor(still).float() if still is not None and still.any() else None
        self.replay: Replay | None = None
        self._kernel: Any = None

    def begin(self, network: nn.Module, trainer: Trainer) -> None:
        """Set up chains for this network."""
        settings = self.settings
        self._like = next(network.parameters()).detach()
        self._still = None if self._still is None else self._still.to(self._like)
        if not settings.by_chains:
            return
        self._kernel = kernel_of(settings.sampler, target_of(network, self.width), settings.step_size)
        count = max(settings.buffer_size, trainer.batch_size or 1) if settings.objective == "persistent" else 0
        self.replay = Replay(self._fresh(count), settings.step_size)

    def _fresh(self, n: int) -> Tensor:
        return self.settings.first_points(n, self.width, self.limits, self._like)

    def loss(self, network: Any, batch: Batch) -> Tensor:
        """The loss of a batch, summed, weights applied."""
        losses = self._losses(network, batch.X)
        return losses.sum() if batch.weight is None else (losses * batch.weight).sum()

    def stirred(self, x: Tensor) -> Tensor:
        """Rows with noise of unit size in the columns that never change."""
        return x if self._still is None else x + self._still * normal_like(x)

    def _losses(self, network: EnergyNetwork, x: Tensor) -> Tensor:
        settings, x = self.settings, self.stirred(x)
        if settings.objective == "denoising":
            return self._denoising(network, x)
        if settings.noise:
            x = x + settings.noise * normal_like(x)
        if settings.by_chains:
            return self._contrast(network, x, self.chains(network, x))
        if settings.objective == "score_matching":
            return score_matching(network, x)
        if settings.objective == "sliced":
            return sliced(network, x, settings.slices)
        noise = torch.randn(len(x), settings.noise_ratio, x.shape[1], **alike(x))
        return noise_contrastive(lambda u: _over_normal(network, u), x, noise)

    def _denoising(self, network: EnergyNetwork, x: Tensor) -> Tensor:
        sigma = self._sigma(network, x)
        losses = denoising(lambda rows: network(rows, sigma), x, sigma)
        # errors of clean pictures count alike where noise hides them and where it does not
        return losses * (1 + sigma[:, 0].square()) if network.leveled else losses

    def _sigma(self, network: EnergyNetwork, x: Tensor) -> Tensor:
        """The noise of each row, (n, 1)."""
        levels = self.settings.levels
        if levels is None:
            return torch.full((len(x), 1), self.settings.noise, dtype=x.dtype, device=x.device)
        largest, smallest, count = levels
        if network.leveled:
            mean, spread = _LOG_LEVELS
            drawn = torch.randn(len(x), 1, **alike(x))
            return (mean + spread * drawn).exp().clamp(smallest, largest)
        powers = torch.randint(count, (len(x), 1), **alike(x)) / (count - 1)
        return largest * (smallest / largest) ** powers

    def _contrast(self, network: EnergyNetwork, rows: Tensor, drawn: Tensor) -> Tensor:
        raw, energies = network.parts(torch.cat([rows, drawn]))
        real, fake = energies.chunk(2)
        if not self.settings.regularization:
            return real - fake
        one, two = raw.chunk(2)
        return real - fake + self.settings.regularization / self.settings.temperature * (one.square() + two.square())

    def chains(self, network: nn.Module, rows: Tensor) -> Tensor:
        """Draws of the model by short chains, one for each row, from the rows or from the store."""
        if self.replay is None or not len(self.replay.points):
            return self._walk(rows)
        count = min(len(rows), len(self.replay.points))
        places = self.replay.pick(count)
        start = self.replay.points[places]
        if self.settings.restart:
            anew = torch.rand(count, 1, **alike(start)) < self.settings.restart
            start = torch.where(anew, self._fresh(count), start)
        found = self._walk(start)
        self.replay.put(places, found)
        return found

    def _walk(self, start: Tensor) -> Tensor:
        """Chains with a step size that follows how often they are accepted, where they can be refused."""
        settings, noise, replay = self.settings, stream(start.device), self.replay
        if replay is None or not settings.adaptive:
            return walk(self._kernel, start, settings.chain_steps, noise)[0]
        kernel = resized(self._kernel, replay.step_size)
        found, accepted = walk(kernel, start, settings.chain_steps, noise)
        replay.step_size *= math.exp(_FOLLOW * (float(accepted) - ACCEPTANCE[settings.sampler]))
        return found


def _over_normal(network: EnergyNetwork, x: Tensor) -> Tensor:
    """The log-density with the learned normalizer, minus that of a standard normal law."""
    normal = -0.5 * (x.square() + math.log(2 * math.pi)).sum(-1)
    ratio: Tensor = -network(x) - network.log_normalizer - normal
    return ratio


@torch.no_grad()
def energy_gap(network: nn.Module, rows: Tensor, drawn: Tensor) -> float:
    """By how many standard deviations of the energies of rows those of chains lie above; a wide gap is said.

    Chains that follow the model meet the energies of the data; those that do not have learned nothing of it.
    """
    real, fake = network(rows).double(), network(drawn).double()
    spread = float(real.std(correction=0)) or float(fake.std(correction=0)) or 1.0  # rows may be all alike
    gap = float(fake.mean() - real.mean()) / spread
    if not math.isfinite(gap):
        warnings.warn(
            "the chains of training ran away to energies that are not finite; lower step_size or the trainer's lr, or "
            "use sampler='mala'",
            stacklevel=5,
        )
    elif gap > _WIDE_GAP:
        warnings.warn(
            f"the chains of training end at energies {gap:.1f} standard deviations above those of the data, which they "
            "do not reach: raise chain_steps or step_size, or lower the trainer's lr",
            stacklevel=5,
        )
    elif gap < -_WIDE_GAP:
        warnings.warn(
            f"the chains of training end at energies {-gap:.1f} standard deviations below those of the data: the model "
            "is diverging; lower the trainer's lr, or raise chain_steps, noise or regularization",
            stacklevel=5,
        )
    return gap


def chain_reach(rows: Tensor, drawn: Tensor) -> float:
    """How far chains that begin at rows get from them, over the spread of the rows; chains that stay are said.

    Their energies are those of the data whatever the network has learned, so that no gap tells of it.

    >>> chain_reach(torch.tensor([[0.0], [2.0]]), torch.tensor([[1.0], [3.0]]))
    1.0
    """
    spread = max(float((rows - rows.mean(0)).double().square().mean().sqrt()), 1e-12)
    reach = float((drawn - rows).double().square().mean().sqrt()) / spread
    if reach < _STILL:
        warnings.warn(
            f"the chains of training get only {reach:.1g} of the spread of the data away from the rows they begin at, "
            "and so tell nothing of the model: raise step_size or chain_steps",
            stacklevel=5,
        )
    return reach
