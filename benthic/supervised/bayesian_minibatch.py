"""Bayesian networks from minibatches: stochastic-gradient chains, and mean-field variational inference."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from benthic.base.errors import InvalidInput
from benthic.base.seeds import normal_like
from benthic.data.batch import Batch
from benthic.samplers.langevin.minibatches import MinibatchPosterior, MinibatchSampler
from benthic.samplers.langevin.stochastic import SGHMC, SGLD, Rule
from benthic.samplers.target import Target
from benthic.supervised.bayesian_posterior import (
    NOISE_RATE,
    NOISE_SHAPE,
    PRIOR_RATE,
    PRIOR_SHAPE,
    Hyper,
    Posterior,
)
from benthic.supervised.bayesian_stack import Stack

Rows = Callable[[Tensor, Tensor, Tensor], Tensor]  # outputs, targets, noise -> (members, n)


def log_prior(posterior: Posterior, weights: Tensor, hyper: Hyper) -> Tensor:
    """(members,) log density of weights and precisions, without the data; a precision that is set adds nothing."""
    group = posterior.stack.group_of.to(weights.device)
    each = hyper.prior[:, group]
    value = 0.5 * (each.log() - each * weights.square()).sum(1)
    if posterior.prior is None:
        value = value + ((PRIOR_SHAPE - 1) * hyper.prior.log() - PRIOR_RATE * hyper.prior).sum(1)
    if posterior.noise is None:
        value = value + ((NOISE_SHAPE - 1) * hyper.noise.log() - NOISE_RATE * hyper.noise).sum(1)
    return value


class Tree:
    """Weights and those precisions that are learned, as the parameters of a target."""

    def __init__(self, posterior: Posterior) -> None:
        from torch.distributions import constraints

        self.posterior, self.k = posterior, posterior.likelihood.columns
        self.learns_prior, self.learns_noise = posterior.prior is None, posterior.noise is None and self.k > 0
        new = posterior.X.new_ones
        self.example = {"weights": new(posterior.stack.size)}
        self.constraints = {}
        if self.learns_prior:
            self.example["prior"], self.constraints["prior"] = new(posterior.stack.groups), constraints.positive
        if self.learns_noise:
            self.example["noise"], self.constraints["noise"] = new(self.k), constraints.positive

    def hyper(self, params: dict[str, Tensor]) -> Hyper:
        """All precisions, learned or set, of parameters with leading dimensions."""
        weights = params["weights"]
        lead = weights.shape[:-1]
        prior = params.get("prior")
        noise = params.get("noise")
        if prior is None:
            prior = weights.new_full((*lead, self.posterior.stack.groups), self.posterior.prior or 1.0)
        if noise is None:
            noise = weights.new_full((*lead, self.k), self.posterior.noise or 1.0)
        return Hyper(prior, noise)

    def prior(self, params: dict[str, Tensor]) -> Tensor:
        """(members,) log prior."""
        return log_prior(self.posterior, params["weights"], self.hyper(params))

    def start(self, weights: Tensor, hyper: Hyper) -> dict[str, Tensor]:
        """Parameters with these values."""
        values = {"weights": weights, "prior": hyper.prior, "noise": hyper.noise}
        return {name: values[name] for name in self.example}

    def target(self) -> Target:
        """The whole posterior as a density of one tree, for kernels that take every row."""

        def density(params: dict[str, Tensor]) -> Tensor:
            hyper = self.hyper(params)
            outputs = self.posterior.stack.outputs(params["weights"], self.posterior.X)
            likelihood = self.posterior.likelihood
            return likelihood.rows(outputs, likelihood.y, hyper.noise).sum(1) + self.prior(params)

        return Target(density, self.example, constraints=self.constraints, batched=True)


def chains_of(
    posterior: Posterior,
    method: str,
    start: tuple[Tensor, Hyper],
    stream: torch.Generator,
    *,
    rate: float,
    rows: int,
    batch_size: int,
    steps: int,
    draws: int,
) -> tuple[MinibatchSampler, Tree]:
    """Chains of SGLD or SGHMC over weights and precisions, ready for the training loop.

    rate: the step size in units of the inverse curvature, which is about the rows times the precision of their noise.
    Where batches are small beside all rows, steps are smaller, so that the noise of batches stays a tenth or so of the
    noise that the chains add.
    """
    tree = Tree(posterior)
    likelihood = posterior.likelihood

    def rows_of(params: dict[str, Tensor], batch: Batch) -> Tensor:
        outputs = posterior.stack.outputs(params["weights"], batch.X)
        return likelihood.rows(outputs, targets_of(batch), tree.hyper(params).noise)

    law = MinibatchPosterior(rows_of, tree.prior, tree.example, constraints=tree.constraints, batched=True)
    position = law.prior.pack(tree.start(*start))
    sharpness = float(start[1].noise.mean()) if tree.k else 0.25
    eta = rate / (rows * max(sharpness, 0.25) * (1 + 5 * (rows / batch_size - 1)))
    rule: Rule = SGLD(eta) if method == "sgld" else SGHMC(eta, friction=0.1)
    warmup = steps // 2
    thin = max(1, (steps - warmup) // draws)
    warmup = max(0, steps - thin * draws)
    sampler = MinibatchSampler(law, rule, position, stream, rows=float(rows), warmup=warmup, total=steps, thin=thin)
    return sampler, tree


class MeanField(nn.Module):
    r"""Independent normal laws of all weights, several fits at once.

    .. math:: \mathrm{ELBO} = \sum_i E_q \log p(y_i \mid x_i, v) - \mathrm{KL}\big(q(v) \,\|\, N(0, 1/\lambda)\big)

    Outputs are drawn layer by layer from the normal law that independent weights give them, which has less variance
    than drawing the weights (Kingma, Salimans & Welling, 2015). Precisions of groups are at their optimum given q,
    that of the noise is learned along.

    The divergence is let in slowly, over the first ``ramp`` updates: with all of it from the beginning, weights that
    are still vague are switched off before they have found their use (Bowman et al., 2016).

    posterior: shapes, and precisions that are set. start: weights (members, size) and precisions. rows: N.
    """

    updates: Tensor

    def __init__(self, posterior: Posterior, start: tuple[Tensor, Hyper], rows: int, ramp: int = 0) -> None:
        super().__init__()
        weights, hyper = start
        self.posterior, self.rows, self.ramp = posterior, rows, ramp
        self.register_buffer("updates", torch.zeros((), device=weights.device))
        self.mean = nn.Parameter(weights.clone())
        self.log_scale = nn.Parameter(torch.full_like(weights, -4.0))
        self.log_noise = nn.Parameter(hyper.noise.log().clone(), requires_grad=posterior.noise is None)

    def forward(self, X: Tensor) -> Tensor:
        """(members, n, k) outputs, drawn by local reparametrization."""
        stack: Stack = self.posterior.stack
        h = X.expand(len(self.mean), *X.shape)
        variances = (2 * self.log_scale).exp()
        for i, layer in enumerate(stack.layers):
            shape = (len(self.mean), layer.inputs, layer.outputs)
            at, on = layer.weights, layer.biases
            middle = torch.baddbmm(
                self.mean[:, on][:, None], h, self.mean[:, at].reshape(shape), alpha=layer.inputs**-0.5
            )
            spread = torch.baddbmm(
                variances[:, on][:, None], h.square(), variances[:, at].reshape(shape), alpha=1 / layer.inputs
            )
            h = middle + spread.clamp(min=1e-16).sqrt() * normal_like(middle)
            if i < len(stack.layers) - 1:
                h = stack.activate(h)
        return h

    def divergence(self) -> Tensor:
        """(members,) KL to the prior, its precisions at their best given q."""
        group = self.posterior.stack.group_of.to(self.mean.device)
        second = self.mean.square() + (2 * self.log_scale).exp()
        precision = self.precisions(second.detach())[:, group]
        return 0.5 * (precision * second - precision.log() - 2 * self.log_scale - 1).sum(1)

    def precisions(self, second: Tensor) -> Tensor:
        """(members, groups) precisions that maximize the bound, given second moments of the weights."""
        stack = self.posterior.stack
        group = stack.group_of.to(second.device)
        if self.posterior.prior is not None:
            return second.new_full((len(second), stack.groups), self.posterior.prior)
        sums = second.new_zeros(len(second), stack.groups).index_add_(1, group, second)
        counts = torch.bincount(group, minlength=stack.groups).to(second)
        return (0.5 * counts + PRIOR_SHAPE - 1) / (0.5 * sums + PRIOR_RATE)

    def objective(self, batch: Batch) -> Tensor:
        """Minus the bound, averaged over fits and shared out among rows, summed over a batch."""
        noise = self.log_noise.exp()
        rows = self.posterior.likelihood.rows(self(batch.X), targets_of(batch), noise)
        if self.training:
            self.updates += 1
        share = self.divergence() * (self.updates / max(self.ramp, 1)).clamp(max=1.0)
        if self.posterior.noise is None:
            share = share - ((NOISE_SHAPE - 1) * self.log_noise - NOISE_RATE * noise).sum(1)
        return (share * (len(batch.X) / self.rows) - rows.sum(1)).mean()

    @torch.no_grad()
    def draw(self, draws: int, stream: torch.Generator) -> tuple[Tensor, Hyper]:
        """Weights (members, draws, size) from q, and the precisions that belong to them."""
        noise = torch.randn(
            len(self.mean), draws, self.mean.shape[1], generator=stream, dtype=self.mean.dtype, device=self.mean.device
        )
        weights = self.mean[:, None] + self.log_scale.exp()[:, None] * noise
        prior = self.precisions(self.mean.square() + (2 * self.log_scale).exp())
        spread = (len(self.mean), draws, -1)
        return weights, Hyper(prior[:, None].expand(spread), self.log_noise.exp()[:, None].expand(spread))


def targets_of(batch: Batch) -> Tensor:
    """The targets of a batch."""
    if batch.y is None:
        raise InvalidInput("requires y to be passed, but the target y is None")
    return batch.y


def default_steps(rows: int, batch_size: int, trainer: Any) -> int:
    """Updates of a run: what the trainer says, else some 4000."""
    if trainer.steps is not None:
        return int(trainer.steps)
    per_epoch = max(1, math.ceil(rows / batch_size))
    return per_epoch * int(trainer.epochs) if trainer.epochs is not None else max(4000, 4 * per_epoch)
