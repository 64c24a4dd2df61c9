"""Posteriors too large to look at whole: chains that move by minibatches, through the training engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput, NonFiniteLoss
from benthic.base.seeds import derive, generator, seed_of
from benthic.base.settings import whole
from benthic.data.batch import Batch
from benthic.optim.schedules import schedule_of
from benthic.samplers.langevin.stochastic import Force, Pace, Rule
from benthic.samplers.target import Target, unchecked
from benthic.training.feed import ArrayFeed
from benthic.training.learner import Again, Info, Learner, Stats, clone, total_weight
from benthic.training.loop import Loop
from benthic.training.trainer import Trainer


class MinibatchPosterior:
    r"""A prior and a likelihood that is a product over rows, so that some of the rows estimate the whole.

    .. math:: \log p(\theta \mid x) = \log p(\theta) + \sum_{i=1}^N \log p(x_i \mid \theta) + \text{const}

    log_likelihood(params, batch): log-likelihood of each row of a ``Batch``, (n,), for one set of parameters; it is
    mapped over chains. With ``batched=True`` parameters have a leading chain dimension and the answer is (chains, n).
    log_prior(params): one number (batched: (chains,)).
    example, constraints: the tree of parameters and the sets they live in, as in ``Target``.

    >>> rows = lambda mean, batch: -0.5 * (batch.X[:, 0] - mean) ** 2
    >>> posterior = MinibatchPosterior(rows, lambda mean: -0.5 * mean ** 2, torch.tensor(0.0))
    >>> posterior.slope(torch.zeros(1, 1), Batch(torch.ones(4, 1)))
    tensor([[4.]])
    """

    def __init__(
        self,
        log_likelihood: Callable[[Any, Batch], Tensor],
        log_prior: Callable[[Any], Tensor],
        example: Any,
        *,
        constraints: Any = None,
        batched: bool = False,
    ) -> None:
        self._rows = log_likelihood
        self.prior = Target(log_prior, example, constraints=constraints, batched=batched)
        self.batched = batched

    def log_likelihood(self, position: Tensor, batch: Batch) -> Tensor:
        """(chains, n) log-likelihood of each row, times its weight where there are weights."""
        params = self.prior.unpack(position)
        with unchecked():
            if self.batched:
                rows = self._rows(params, batch)
            else:
                rows = torch.func.vmap(lambda one: self._rows(one, batch))(params)
        if tuple(rows.shape) != (len(position), len(batch.X)):
            found = tuple(rows.shape) if self.batched else tuple(rows.shape[1:])
            wanted = "(chains, n)" if self.batched else "(n,)"
            raise InvalidInput(
                f"MinibatchPosterior: log_likelihood returned shape {found} for {len(batch.X)} rows; it must be "
                f"{wanted}, one number a row and no sum over rows"
            )
        return rows if batch.weight is None else rows * batch.weight

    def slope(self, position: Tensor, batch: Batch) -> Tensor:
        """(chains, d) gradient of the log-likelihood summed over the rows of a batch; the prior is not in it."""
        return self._slopes(position, batch, False)[1]

    def statistics(self, position: Tensor, batch: Batch, scatter: bool) -> Stats:
        """Sums over a batch that add up over batches and processes.

        gradient: (chains, d). scatter: (chains, d) estimated variance of that sum over the choice of rows, from the
        two halves of the batch. loss: minus the log-likelihood, averaged over chains.
        """
        value, gradient, spread = self._slopes(position, batch, scatter)
        sums = {"loss": -value.mean(), "gradient": gradient}
        if spread is not None:
            sums["scatter"] = spread
        return Stats(total_weight(batch), sums)

    def _slopes(self, position: Tensor, batch: Batch, scatter: bool) -> tuple[Tensor, Tensor, Tensor | None]:
        n = len(batch.X)
        with torch.enable_grad():
            x = position.detach().requires_grad_()
            rows = self.log_likelihood(x, batch)
            value = rows.detach().sum(1)
            if not scatter or n < 2:
                (slope,) = torch.autograd.grad(rows.sum(), x)
                return value, slope, None
            a, b = n // 2, n - n // 2
            (first,) = torch.autograd.grad(rows[:, :a].sum(), x, retain_graph=True)
            (second,) = torch.autograd.grad(rows[:, a:].sum(), x)
        # a sum of n independent terms of variance s has variance n s, and the two means differ by s (1/a + 1/b)
        return value, first + second, (first / a - second / b).square() * (a * b)


class MinibatchSampler(Learner):
    """Chains as something that learns: a batch gives a summed gradient, an update moves every chain and adds noise.

    rows: N, the number (or weight) of rows in all. warmup, thin: which updates leave a draw. total: updates of the
    whole run, for the schedule. All chains see the same batches and have their own noise.
    """

    def __init__(
        self,
        posterior: MinibatchPosterior,
        rule: Rule,
        position: Tensor,
        stream: torch.Generator,
        *,
        rows: float,
        warmup: int,
        total: int,
        thin: int = 1,
        schedule: Any = None,
    ) -> None:
        self.posterior, self.rule, self.position, self.stream = posterior, rule, position, stream
        self.rows, self.warmup, self.total, self.thin = rows, warmup, total, thin
        self.schedule = schedule_of(schedule)
        self._sampling = getattr(schedule, "sampling", None)
        self.memory = rule.begin(position, stream)
        self.step = 0
        self.kept: list[Tensor] = []

    def statistics(self, batch: Batch, phase: str, scale: float) -> Stats:
        """The summed gradient of the log-likelihood of a batch at every chain."""
        return self.posterior.statistics(self.position, batch, self.rule.wants_noise)

    def update(self, stats: Stats, phase: str, again: Again) -> Info:
        """One move of every chain; the prior enters here, once."""
        likelihood = stats["gradient"] * (self.rows / stats.weight)
        _, prior = self.posterior.prior.value_and_grad(self.position)
        scatter = stats.sums.get("scatter")
        if scatter is not None:  # rows are drawn without replacement, so a batch of all of them has no noise
            scatter = scatter * (self.rows / stats.weight) ** 2 * max(0.0, 1 - stats.weight / self.rows)
        force = Force(prior + likelihood, likelihood / self.rows, scatter)
        sampling = self._sampling is None or self._sampling(self.step, self.total)
        pace = Pace(self.schedule(self.step, self.total), self.step < self.warmup, 1.0 if sampling else 0.0)
        self.position, self.memory = self.rule.move(self.position, self.memory, force, pace, self.stream)
        self.step += 1
        late = self.step - self.warmup
        if late > 0 and late % self.thin == 0 and sampling:
            self.kept.append(self.position)
        loss = stats["loss"]  # on an accelerator it stays there, so that the host runs ahead
        return Info(loss.item() if loss.device.type == "cpu" else loss, weight=stats.weight)

    @property
    def draws(self) -> Tensor:
        """(chains, draws, d) what was kept."""
        return torch.stack(self.kept, dim=1)

    def state_dict(self) -> dict[str, Any]:
        """Positions, memory, draws and the stream of noise."""
        return {
            "position": self.position,
            "memory": dict(self.memory),
            "step": self.step,
            "kept": torch.stack(self.kept) if self.kept else None,
            "stream": self.stream.get_state(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of ``state_dict``."""
        state = clone(state)
        self.position, self.memory, self.step = state["position"], dict(state["memory"]), state["step"]
        self.kept = [] if state["kept"] is None else list(state["kept"])
        self.stream.set_state(state["stream"])


def run_minibatches(
    rule: Rule,
    posterior: MinibatchPosterior,
    X: Any,
    y: Any = None,
    *,
    chains: int = 4,
    draws: int = 1000,
    warmup: int = 1000,
    thin: int = 1,
    batch_size: int = 32,
    schedule: Any = None,
    start: Tensor | None = None,
    seed: int | None = None,
    trainer: Any = None,
) -> Any:
    """Sample a posterior by minibatches and return the ``Draws``.

    rule: ``SGLD``, ``psgld`` or ``SGHMC``. X, y: rows (N, ...) and what goes with them, given to the likelihood in
    batches of ``batch_size``, every row once a pass, in a new random order each time.
    chains: moved together; they share batches and have their own noise. Since a pass takes each row once, the noise of
    its batches cancels in part: where chains forget more slowly than a pass goes by, less of it is felt than one batch
    alone would suggest (and ``SGHMC(noise="estimate")`` subtracts too much).
    draws, warmup, thin: after ``warmup`` updates every ``thin``-th is kept; with ``Cyclic`` only those in the sampling
    part of a cycle. schedule: None (constant), ``Polynomial()``, ``Cyclic()``, or as in ``benthic.optim.schedules``.
    start: (chains, d) unconstrained rows; None searches where the prior is finite.
    trainer: further settings of the engine, such as ``{"checkpoint": "runs/a", "resume": True}``.

    >>> from benthic.samplers.langevin.stochastic import SGLD
    >>> X = torch.randn(200, 1, generator=torch.Generator().manual_seed(0)) + 3
    >>> posterior = MinibatchPosterior(
    ...     lambda mean, batch: -0.5 * (batch.X[:, 0] - mean) ** 2, lambda mean: -0.5 * mean ** 2, torch.tensor(0.0))
    >>> found = run_minibatches(SGLD(2e-4), posterior, X, draws=400, warmup=100, seed=0)
    >>> bool((found.values["x"].mean() - X.sum() / 201).abs() < 0.05)
    True
    """
    from benthic.samplers.judging.draws import Draws

    data = _data(X, y, posterior)
    _check(chains, draws, warmup, thin, batch_size)
    seed = seed_of(seed)
    stream = generator(seed, "samplers", device=posterior.prior.device)
    position = posterior.prior.start(chains, stream) if start is None else posterior.prior.check_start(start)
    total = warmup + draws * thin
    quiet = Trainer(verbose=False) if trainer is None else trainer
    settings = replace(Trainer.of(quiet, batch_size=batch_size), steps=total, epochs=None)
    sampler = MinibatchSampler(
        posterior,
        rule,
        position,
        stream,
        rows=float(len(data.X)),
        warmup=warmup,
        total=total,
        thin=thin,
        schedule=schedule,
    )
    _loop(sampler, data, settings, seed)
    if not sampler.kept:
        raise InvalidInput("run_minibatches: no draw was kept; lower thin or warmup, or the schedule's exploration")
    return Draws(posterior.prior.named(sampler.draws), {}, meta={"rule": rule, "rows": len(data.X)})


def _loop(sampler: MinibatchSampler, data: Batch, trainer: Trainer, seed: int) -> None:
    """Run the engine; where chains run away, say what to change."""
    device = data.X.device
    size = min(trainer.batch_size or 32, len(data.X))
    feed = ArrayFeed(data, batch_size=size, seed=derive(seed, "rows"), device=device, shuffle=True)
    title = type(sampler.rule).__name__
    try:
        Loop(sampler, feed, trainer, seed=seed, device=device, title=title).run()
    except NonFiniteLoss as error:
        raise NonFiniteLoss(
            f"{title}: chains ran away at step {sampler.step}; the step size {sampler.rule.step_size:g} is too large "
            f"for {len(data.X)} rows (gradients grow with their number), try {sampler.rule.step_size / 10:.1g}"
        ) from error


def _data(X: Any, y: Any, posterior: MinibatchPosterior) -> Batch:
    rows = torch.as_tensor(X)
    target = None if y is None else torch.as_tensor(y)
    if rows.ndim == 0 or len(rows) == 0:
        raise InvalidInput(f"run_minibatches: X has shape {tuple(rows.shape)}; it needs at least one row")
    if target is not None and len(target) != len(rows):
        raise InvalidInput(f"run_minibatches: X has {len(rows)} rows and y has {len(target)}; they belong together")
    for name, value in (("X", rows), ("y", target)):
        if value is not None and value.is_floating_point() and not bool(value.isfinite().all()):
            raise InvalidInput(f"run_minibatches: {name} contains NaN or infinity; impute or drop those rows")
    return Batch(rows, target).map(lambda t: t.to(posterior.prior.device))


def _check(chains: int, draws: int, warmup: int, thin: int, batch_size: int) -> None:
    least = {"chains": 1, "draws": 1, "warmup": 0, "thin": 1, "batch_size": 1}
    for (name, low), value in zip(least.items(), (chains, draws, warmup, thin, batch_size), strict=True):
        whole(f"run_minibatches: {name}", value, low)
