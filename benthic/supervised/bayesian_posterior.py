"""The posterior of a Bayesian network: likelihoods, Gamma hyperpriors, and Hamiltonian steps with Gibbs in between."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from benthic.samplers.hamiltonian.adaptation import DualAveraging
from benthic.samplers.hamiltonian.hmc import leapfrog
from benthic.samplers.kernel import Adapter, Kernel, SamplerStopped
from benthic.samplers.langevin.overdamped import normal_like
from benthic.supervised.bayesian_stack import Stack

PRIOR_SHAPE, PRIOR_RATE = 1.0, 1.0  # Gamma law of a precision of weights
NOISE_SHAPE, NOISE_RATE = 1.0, 0.05  # of the noise, in units of the target's spread


class Normal:
    """Targets (n, k) are outputs plus normal noise of precision (members, k)."""

    def __init__(self, targets: Tensor) -> None:
        self.y = targets
        self.columns = targets.shape[1]

    def slope(self, outputs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Log-likelihood (members,) and its gradient with respect to outputs."""
        gap = self.y - outputs
        back = gap * noise[:, None]
        value = 0.5 * (len(self.y) * noise.log().sum(1) - (gap * back).sum((1, 2)))
        return value, back

    def misfit(self, outputs: Tensor) -> Tensor:
        """(members, k) squared errors summed over rows."""
        return (self.y - outputs).square().sum(1)

    @staticmethod
    def rows(outputs: Tensor, y: Tensor, noise: Tensor) -> Tensor:
        """(members, n) log-likelihood of each row."""
        precision = noise[:, None]  # (members, 1, k)
        return 0.5 * (precision.log() - precision * (y - outputs).square() - 1.8378770664093453).sum(2)


class Classes:
    """Targets (n,) are classes drawn with the softmax of outputs as probabilities."""

    columns = 0

    def __init__(self, targets: Tensor) -> None:
        self.y = targets

    def slope(self, outputs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Log-likelihood (members,) and its gradient with respect to outputs."""
        logs = torch.log_softmax(outputs, 2)
        back = F.one_hot(self.y, outputs.shape[2]) - logs.exp()
        return self._chosen(logs, self.y).sum(1), back

    def misfit(self, outputs: Tensor) -> Tensor:
        """Nothing: there is no noise to learn."""
        return outputs.new_zeros(len(outputs), 0)

    @staticmethod
    def _chosen(logs: Tensor, y: Tensor) -> Tensor:
        return logs.gather(2, y.expand(len(logs), -1)[..., None])[..., 0]

    @classmethod
    def rows(cls, outputs: Tensor, y: Tensor, noise: Tensor) -> Tensor:
        """(members, n) log-likelihood of each row."""
        return cls._chosen(torch.log_softmax(outputs, 2), y)


class Hyper(NamedTuple):
    """Precisions beside the weights: of every group of weights (members, groups), of the noise (members, k)."""

    prior: Tensor
    noise: Tensor


@dataclass(frozen=True)
class Posterior:
    r"""Weights and precisions given all rows.

    .. math:: v_i \sim N(0, 1/\lambda_{g(i)}), \qquad \lambda_g \sim \Gamma(1, 1), \qquad
        y \sim N(f_v(x), 1/\gamma), \qquad \gamma \sim \Gamma(1, 0.05)

    as in Neal, 1996. prior, noise: precisions that are set rather than learned, or None.
    """

    stack: Stack
    X: Tensor
    likelihood: Normal | Classes
    prior: float | None = None
    noise: float | None = None

    def slope(self, weights: Tensor, hyper: Hyper) -> tuple[Tensor, Tensor]:
        """Log density of weights (members, size) given the precisions, up to their own terms, and its gradient."""
        value, gradient = self.stack.slope(weights, self.X, lambda out: self.likelihood.slope(out, hyper.noise))
        pull = weights * hyper.prior[:, self.stack.group_of.to(weights.device)]
        return value - 0.5 * (weights * pull).sum(1), gradient - pull

    def first(self, members: int, generator: torch.Generator) -> tuple[Tensor, Hyper]:
        """Weights drawn from their prior, biases and the last layer smaller, and precisions of one."""
        weights = normal_like(self.X.new_empty(members, self.stack.size), generator)
        for layer in self.stack.layers:
            weights[:, layer.biases] *= 0.3
        weights[:, self.stack.layers[-1].weights] *= 0.3
        ones = weights.new_ones(members, self.stack.groups)
        hyper = Hyper(ones * (self.prior or 1.0), weights.new_ones(members, self.likelihood.columns))
        return weights, hyper if self.noise is None else hyper._replace(noise=hyper.noise * self.noise)

    def gammas(self, weights: Tensor) -> tuple[tuple[Any, Tensor], tuple[float, Tensor]]:
        """Shape and rate of the conditional Gamma laws of the precisions, of weights and of noise."""
        group = self.stack.group_of.to(weights.device)
        squares = weights.new_zeros(len(weights), self.stack.groups).index_add_(1, group, weights.square())
        counts = torch.bincount(group, minlength=self.stack.groups).to(weights)
        misfit = self.likelihood.misfit(self.stack.outputs(weights, self.X)) if self._noisy else weights.new_zeros(1)
        prior = (PRIOR_SHAPE + 0.5 * counts, PRIOR_RATE + 0.5 * squares)
        return prior, (NOISE_SHAPE + 0.5 * len(self.X), NOISE_RATE + 0.5 * misfit)

    @property
    def _noisy(self) -> bool:
        return self.likelihood.columns > 0 and self.noise is None

    def gibbs(self, weights: Tensor, hyper: Hyper, generator: torch.Generator | None) -> Hyper:
        """Precisions drawn from their laws given the weights; without a generator, the means of those laws."""
        prior, noise = self.gammas(weights)

        def law(shape: Any, rate: Tensor) -> Tensor:
            shapes = torch.as_tensor(shape).to(rate).expand_as(rate).contiguous()
            return (shapes if generator is None else torch._standard_gamma(shapes, generator=generator)) / rate

        return Hyper(
            hyper.prior if self.prior is not None else law(*prior), law(*noise) if self._noisy else hyper.noise
        )

    def climb(self, members: int, steps: int, generator: torch.Generator) -> tuple[Tensor, Hyper]:
        """A start near modes, one a member: Adam on the log density, the noise following along.

        Precisions of weights that are learned stay small on the way: at a mode they would grow without end and take
        the weights with them.
        """
        weights, hyper = self.first(members, generator)
        if self.prior is None:
            hyper = hyper._replace(prior=hyper.prior * 0.1)
        optimizer = torch.optim.Adam([weights], lr=0.1)
        for step in range(steps):
            if step % 10 == 9:
                hyper = hyper._replace(noise=self.gibbs(weights, hyper, None).noise)
            _, gradient = self.slope(weights, hyper)
            weights.grad = -gradient
            optimizer.step()
        weights.grad = None
        return weights, self.gibbs(weights, hyper, None)


class WeightState(NamedTuple):
    """Weights, their log density and gradient given the precisions, and the precisions."""

    position: Tensor
    log_density: Tensor
    gradient: Tensor
    prior: Tensor
    noise: Tensor


class WeightInfo(NamedTuple):
    """Acceptance probability (members,) and the precisions that stood."""

    accepted: Tensor
    prior: Tensor
    noise: Tensor


@dataclass(frozen=True)
class WeightKernel(Kernel):
    """Precisions by Gibbs, then weights by a Hamiltonian trajectory given them (Neal, 1996).

    steps: leapfrog steps of a trajectory, jittered by a half. accept: what the step size is tuned to.
    """

    posterior: Posterior
    step_size: float = 0.01
    steps: int = 30
    accept: float = 0.8

    def init(self, position: Tensor) -> WeightState:
        """Chains at weights (members, size), precisions at the means of their laws."""
        members = len(position)
        ones = Hyper(
            position.new_ones(members, self.posterior.stack.groups) * (self.posterior.prior or 1.0),
            position.new_ones(members, self.posterior.likelihood.columns) * (self.posterior.noise or 1.0),
        )
        hyper = self.posterior.gibbs(position, ones, None)
        return WeightState(position, *self.posterior.slope(position, hyper), *hyper)

    def step(self, state: WeightState, generator: torch.Generator) -> tuple[WeightState, WeightInfo]:
        """One sweep: all precisions, then all weights."""
        posterior = self.posterior
        hyper = posterior.gibbs(state.position, Hyper(state.prior, state.noise), generator)
        value, gradient = posterior.slope(state.position, hyper)
        p = normal_like(state.position, generator)
        low, high = max(1, self.steps // 2), max(1, self.steps * 3 // 2)
        steps = int(torch.randint(low, high + 1, (), generator=generator, device=generator.device))
        x, q, end, slope = leapfrog(
            lambda w: posterior.slope(w, hyper), state.position, p, gradient, self.step_size, steps
        )
        rise = 0.5 * (q.square() - p.square()).sum(1) + value - end
        accepted = torch.nan_to_num(-rise, nan=-torch.inf).clamp(max=0).exp()
        draw = torch.rand(accepted.shape, generator=generator, dtype=accepted.dtype, device=accepted.device)
        take = draw < accepted
        rows = take[:, None]
        moved = WeightState(
            torch.where(rows, x, state.position),
            torch.where(take, end, value),
            torch.where(rows, slope, gradient),
            *hyper,
        )
        return moved, WeightInfo(accepted, *hyper)

    def adapter(self) -> Adapter:
        """Dual averaging of the step size."""
        return WeightAdapter(self)


class WeightAdapter(Adapter):
    """Tunes the step size of ``WeightKernel`` to its acceptance, pooled over chains."""

    def __init__(self, kernel: WeightKernel) -> None:
        self.kernel = kernel
        self._rule = DualAveraging(kernel.step_size, kernel.accept, push=2.0)

    def begin(self, state: Any, transitions: int, generator: torch.Generator) -> Kernel:
        """Start with the kernel as it is."""
        return self.kernel

    def update(self, state: Any, info: WeightInfo) -> Kernel:
        """Follow the acceptance."""
        return replace(self.kernel, step_size=self._rule.update(float(info.accepted.mean())))

    def finish(self) -> Kernel:
        """The averaged step."""
        if not self._rule.average > 1e-8:
            raise SamplerStopped(
                f"the step size of HMC collapsed to {self._rule.average:.1g}; rows or targets may hold extreme values"
            )
        return replace(self.kernel, step_size=self._rule.average)
