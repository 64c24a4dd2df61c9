"""EM for mixtures of any laws: one E step for all, and a weighted maximum likelihood that each law brings."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.base.threads import one_torch_thread, standing_crew
from benthic.data.batch import Batch
from benthic.mixture.common import Restarts
from benthic.mixture.expectation import responsibilities_
from benthic.mixture.law import Law, Parameters, Sums
from benthic.mixture.sticks import WeightRule, Weights
from benthic.training.learner import Again, Info, Learner, Stats, total_weight

_BLOCK_BYTES = {"cpu": 1 << 19, "cuda": 1 << 26}  # of the log-densities of a block: on a CPU it stays in the cache
_KEPT_BYTES = 2 << 30  # of rows that are kept as laws read them
_SHARED = 4  # blocks of a batch are a multiple of it, so that threads end together
_COMMON = ("log_likelihood", "count")  # sums that belong to no law
_MANY = 1 << 14  # shares for which a compiled function is worth loading


class Components(NamedTuple):
    """Weights and, for every law, the parameters of the k components; held: the rows they were made from."""

    weights: Weights
    parameters: tuple[Parameters, ...]
    held: Tensor

    def to(self, device: torch.device | str) -> Components:
        """The same on another device."""
        moved = tuple({name: value.to(device) for name, value in p.items()} for p in self.parameters)
        return Components(self.weights.to(device), moved, self.held)

    def sorted(self, order: Tensor) -> Components:
        """With the parameters in another order; weights follow in the next M step."""
        return self._replace(parameters=tuple({n: v[order] for n, v in p.items()} for p in self.parameters))

    def state(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {
            "weights": tuple(self.weights),
            "parameters": [dict(p) for p in self.parameters],
            "held": self.held,
        }

    @classmethod
    def of_state(cls, state: Mapping[str, Any]) -> Components:
        """From what ``state`` gave."""
        return cls(Weights(*state["weights"]), tuple(dict(p) for p in state["parameters"]), state["held"])


class Model(NamedTuple):
    """The laws of the columns, the rule of weights, and how many typical rows every component is given."""

    laws: tuple[Law, ...]
    rule: WeightRule
    prior: float

    def to(self, device: torch.device | str) -> Model:
        """The same on another device."""
        return self._replace(laws=tuple(law.to(device) for law in self.laws))

    def maximize(self, sums: Sums, old: Components | None, borrow: bool = True) -> Components:
        """The M step from sums named by law. borrow: whether a start gives small clusters typical rows."""
        begins = old is None and borrow
        prior, count = self.prior, sums["count"] + (1.0 if begins else 0.0)
        parameters = []
        for number, law in enumerate(self.laws):
            own = {name.partition(".")[2]: value for name, value in sums.items() if name.startswith(f"{number}.")}
            least = law.borrow if begins else prior
            parameters.append(law.maximize(own, least, None if old is None else old.parameters[number]))
        if self.rule.sorts:
            order = torch.argsort(count, descending=True, stable=True)
            count = count[order]
            parameters = [{name: value[order] for name, value in p.items()} for p in parameters]
        return Components(self.rule.maximize(count), tuple(parameters), count)

    def log_prior(self, components: Components) -> float:
        """What weights and parameters add to the log-likelihood in the objective."""
        total = self.rule.log_prior(components.held, components.weights)
        if self.prior > 0:
            pairs = zip(self.laws, components.parameters, strict=True)
            total += self.prior * sum(law.log_prior(parameters) for law, parameters in pairs)
        return total


def log_kernels(laws: Sequence[Law], components: Components, rows: Sequence[Any]) -> Tensor:
    """log p_k(x) without what does not depend on k, (k, n)."""
    triples = zip(laws, components.parameters, rows, strict=True)
    total, *others = (law.kernel(own, parameters) for law, parameters, own in triples)
    for other in others:
        total = total + other
    return total


def log_joint(laws: Sequence[Law], components: Components, X: Tensor) -> Tensor:
    """log w_k + log p_k(x) over the observed columns of rows (n, width), (k, n)."""
    found = log_kernels(laws, components, [law.read(X) for law in laws]) + components.weights.log[:, None]
    return found + sum(law.base(X) for law in laws)


def expectation(laws: Sequence[Law], components: Components, rows: Sequence[Any], weight: Tensor | None) -> Sums:
    """The E step on rows as the laws read them: the log-likelihood less its constant part, counts, and all sums."""
    if len(laws) == 1:
        swept = laws[0].step(rows[0], components.parameters[0], components.weights.log, weight)
        if swept is not None:
            return {name if name in _COMMON else f"0.{name}": value for name, value in swept.items()}
    shares = log_kernels(laws, components, rows)
    if shares.device.type == "cpu" and shares.is_contiguous() and shares.numel() >= _MANY:
        log_likelihood = _compiled_shares_(shares, components.weights.log, weight)
    else:
        log_likelihood = responsibilities_(shares.add_(components.weights.log[:, None]), weight)
    return {"log_likelihood": log_likelihood, **shared_sums(laws, components, rows, shares)}


def _compiled_shares_(joint: Tensor, log_weights: Tensor, weight: Tensor | None) -> Tensor:
    """As ``responsibilities_`` of log-densities without the weights of the components."""
    from benthic.mixture import student_kernels

    shares_of: Any = student_kernels.shares_of
    each = weight if weight is not None else log_weights[:0]
    found = shares_of(joint.numpy(), *(t.contiguous().numpy() for t in (log_weights, each)))
    return torch.tensor(found, dtype=torch.float64)


def shared_sums(laws: Sequence[Law], components: Components | None, rows: Sequence[Any], shares: Tensor) -> Sums:
    """What the M step needs of rows with weighted shares (k, n): names begin with the number of their law."""
    sums = {"count": shares.sum(1)}
    for number, (law, own) in enumerate(zip(laws, rows, strict=True)):
        parameters = None if components is None else components.parameters[number]
        sums.update({f"{number}.{name}": value for name, value in law.sums(own, shares, parameters).items()})
    return sums


Start = Callable[[int, Components | None], Components]


class Readings:
    """Rows as laws read them, kept from pass to pass where they fit: a block is known by the memory it lies in."""

    def __init__(self, laws: Sequence[Law], keep: bool) -> None:
        self._laws, self._room = laws, _KEPT_BYTES if keep else 0
        self._known: dict[tuple[int, int], tuple[Tensor, list[Any]]] = {}

    def __call__(self, X: Tensor) -> list[Any]:
        """What each law needs of the block."""
        key = (X.data_ptr(), len(X))
        if key in self._known:
            return self._known[key][1]
        rows = [law.read(X) for law in self._laws]
        size = 3 * 8 * X.numel()
        if size <= self._room:
            self._room -= size
            self._known[key] = X, rows  # the block is held, so that no other can come to lie there
        return rows


class LawEM(Learner):
    """Dempster, Laird & Rubin, 1977, for any laws.

    model: laws, weights and prior. start: the components that restart number i begins with, given the best so far.
    device: of the rows. keep: whether the same rows come in every pass from the same memory.
    """

    scope: ClassVar[Literal["batch", "pass"]] = "pass"

    def __init__(
        self, model: Model, start: Start, restarts: Restarts, *, device: torch.device, keep: bool = False
    ) -> None:
        self.model, self.restarts = model, restarts
        self._start, self._device = start, device
        self._laws = model.to(device).laws
        self._read = Readings(self._laws, keep)
        self.components = start(0, None)
        self._now = self.components.to(device)
        self._base: float | None = None  # the constant part of the log-likelihood, known after a pass
        self.bound = -math.inf

    # -- the E step --------------------------------------------------------------------------------------

    @one_torch_thread()  # here as in ``update``: threads that still wait for work would slow ours down
    def begin(self, phase: str) -> None:
        """Move the components to where the rows are."""
        now = self.components.to(self._device)
        pairs = zip(self._laws, now.parameters, strict=True)
        self._now = now._replace(parameters=tuple(law.ready(parameters) for law, parameters in pairs))

    def statistics(self, batch: Batch, phase: str, scale: float) -> Stats:
        """Sums over a batch, in blocks that threads share; they are added up in their order."""
        size = self._block_rows(len(batch.X))
        starts = range(0, len(batch.X), size)
        found: list[Sums] = [{}] * len(starts)

        def work(number: int) -> None:
            chosen = slice(starts[number], starts[number] + size)
            weight = None if batch.weight is None else batch.weight[chosen].double()
            found[number] = self._sums(batch.X[chosen], weight)

        threads = torch.get_num_threads() if self._device.type == "cpu" and len(starts) > 1 else 1
        with one_torch_thread() if threads > 1 else nullcontext():
            standing_crew(threads).each(work, range(len(starts)))
        total = Stats(total_weight(batch), {})
        for sums in found:
            total += Stats(0.0, sums)
        return total

    def _block_rows(self, n: int) -> int:
        """How large the blocks of n rows are; it does not depend on the threads, so that the sums do not either."""
        held = _BLOCK_BYTES.get(self._device.type, 1 << 26)
        size = max(1024, held // (8 * len(self.components.held)))
        return size if n <= size else math.ceil(n / (_SHARED * math.ceil(n / (_SHARED * size))))

    @torch.no_grad()
    def _sums(self, X: Tensor, weight: Tensor | None) -> Sums:
        sums = expectation(self._laws, self._now, self._read(X), weight)
        if self._base is None:
            sums["base"] = _base(self._laws, X, weight)
        return sums

    # -- the M step --------------------------------------------------------------------------------------

    @one_torch_thread()
    def update(self, stats: Stats, phase: str, again: Again) -> Info:
        """One M step; the next start when this one has converged or used up its steps."""
        sums = {name: value.cpu() for name, value in stats.sums.items()}
        objective = self._judge(sums, stats.weight)
        info = {"log_likelihood": self.bound, "objective": objective, "restart": self.restarts.number}
        if not math.isfinite(objective):
            return Info(-objective, logs=info)
        last = self.restarts.ends(objective)
        self.components = self.model.maximize(sums, self.components)
        if last:
            self._end_start()
        return Info(-objective, done=self.restarts.done, logs=info)

    def _judge(self, sums: Sums, weight: float) -> float:
        """The objective that the components of the E step had, a row; ``bound`` is the log-likelihood alone."""
        if self._base is None:
            self._base = float(sums["base"])
        log_likelihood = float(sums["log_likelihood"]) + self._base
        self.bound = log_likelihood / weight
        return (log_likelihood + self.model.log_prior(self.components)) / weight

    def _end_start(self) -> None:
        self._keep()
        if self.restarts.advance():
            best = Components.of_state(self.restarts.best["components"])
            self.components = self._start(self.restarts.number, best)

    def _keep(self) -> None:
        self.restarts.keep({"components": self.components.state(), "bound": self.bound})

    def finish(self) -> None:
        """Choose the best start, also when the budget ended in the middle of one."""
        if self.restarts.under_way:
            self._keep()
        self.components = Components.of_state(self.restarts.best["components"])

    def state_dict(self) -> dict[str, Any]:
        """The current start and the best one so far."""
        return {
            "components": self.components.state(),
            "bound": self.bound,
            "base": self._base,
            "restarts": self.restarts.state(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of ``state_dict``."""
        self.components = Components.of_state(state["components"])
        self.bound, self._base = state["bound"], state["base"]
        self.restarts.load(state["restarts"])


def _base(laws: Sequence[Law], X: Tensor, weight: Tensor | None) -> Tensor:
    each = torch.zeros(len(X), dtype=torch.float64, device=X.device)
    for law in laws:
        each = each + law.base(X)
    return each.sum() if weight is None else each @ weight


class Stepwise(LawEM):
    r"""EM that updates after every batch, by running means of the statistics.

    .. math:: s_{t+1} = s_t + \gamma_t \bigl( \bar s(\text{batch}; \theta_t) - s_t \bigr), \qquad
        \gamma_t = (t + 2)^{-\alpha}

    Cappé & Moulines, 2009. power: α, above 0.5 and at most 1; larger forgets less.
    """

    scope = "batch"

    def __init__(self, model: Model, start: Start, *, device: torch.device, power: float) -> None:
        super().__init__(model, start, Restarts(1, 0.0, 1), device=device)
        self._power = power
        self.means: Sums = {}
        self.steps, self.seen = 0, 0.0

    def resume(self, means: Mapping[str, Tensor], steps: int, seen: float) -> None:
        """Go on where an earlier stream ended."""
        self.means, self.steps, self.seen = dict(means), steps, seen

    @one_torch_thread()
    def update(self, stats: Stats, phase: str, again: Again) -> Info:
        """Blend the batch into the running means, and maximize as if all rows so far looked like them."""
        sums = {name: value.cpu() for name, value in stats.sums.items()}
        log_likelihood = float(sums.pop("log_likelihood")) + float(sums.pop("base"))
        if stats.weight <= 0:
            return Info(0.0, weight=1.0)
        self.bound = log_likelihood / stats.weight
        rate = 1.0 if not self.means else (self.steps + 2.0) ** -self._power
        for name, value in sums.items():
            mean = value / stats.weight
            self.means[name] = self.means[name].lerp(mean, rate) if name in self.means else mean
        self.steps, self.seen = self.steps + 1, self.seen + stats.weight
        if self.model.rule.sorts:  # as the M step will sort the components
            order = torch.argsort(self.means["count"], descending=True, stable=True)
            self.means = {name: value[order] for name, value in self.means.items()}
            self.components = self.components.sorted(order)
        self.components = self.model.maximize({n: v * self.seen for n, v in self.means.items()}, self.components)
        return Info(-log_likelihood, weight=stats.weight, logs={"log_likelihood": self.bound})

    def finish(self) -> None:
        """Nothing is left to choose."""
        self.restarts.best = {"objective": self.bound, "bound": self.bound, "iterations": self.steps, "converged": True}

    def state_dict(self) -> dict[str, Any]:
        """With the running means."""
        return {**super().state_dict(), "means": dict(self.means), "steps": self.steps, "seen": self.seen}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of ``state_dict``."""
        super().load_state_dict(state)
        self.resume(state["means"], state["steps"], state["seen"])


def refuse_empty(X: Tensor, names: Sequence[str]) -> None:
    """An error that names a column without a single value."""
    if not len(X) or not bool(torch.isnan(X.sum())):
        return
    empty = torch.isnan(X).all(0)
    if bool(empty.any()):
        raise InvalidInput(f"column {names[int(empty.nonzero()[0])]} of X has no observed value; drop it")
