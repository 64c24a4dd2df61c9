"""Learners that descend a gradient: one player or several, each with its own optimizer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from benthic.data.batch import Batch
from benthic.optim.build import optimizer_of
from benthic.optim.games import PastExtragradient
from benthic.optim.schedules import constant, schedule_of
from benthic.training.average import Average
from benthic.training.distributed import World
from benthic.training.learner import Again, Info, Learner, Stats, clone, total_weight
from benthic.training.trainer import Trainer

Objective = Callable[[Batch], Tensor]
Report = Callable[["GradientLearner", int], Mapping[str, float]]


class Turn(NamedTuple):
    """Who moves in a phase, all from where they stand: a ``step``, or a ``look`` that the next step takes back."""

    players: tuple[str, ...]
    move: Literal["step", "look"] = "step"


class Player:
    """A network with the optimizer, clipping and averaging that train it.

    objective: the loss summed over a batch, weights applied. l2: see ``optimizer_of``. lr: its own rate, else that of
    the trainer. averaged: whether the trainer's average of weights is taken. wrap: what to make of the optimizer, such
    as one that looks ahead. after: called when a step has been taken, for example to clip weights.
    """

    def __init__(
        self,
        network: nn.Module,
        objective: Objective,
        trainer: Trainer,
        *,
        l2: float = 0.0,
        lr: float | None = None,
        averaged: bool = True,
        wrap: Callable[[Optimizer], Any] | None = None,
        after: Callable[[], None] | None = None,
    ) -> None:
        self.network = network
        self.objective = objective
        self.lr = lr or trainer.lr or 1e-3
        optimizer = optimizer_of(trainer.optimizer or "adam", network.parameters(), self.lr, l2)
        self.optimizer: Any = optimizer if wrap is None else wrap(optimizer)
        self._after = after
        self.parameters = [p for p in network.parameters() if p.requires_grad]
        self._held_rate: Tensor | None = None
        self.clip = trainer.clip
        self.average = Average(network, trainer.ema) if averaged and trainer.ema else None
        self._schedule = schedule_of(trainer.schedule)
        self.scheduled = self._schedule is not constant

    def set_rate(self, step: int, total: int) -> None:
        """The learning rate of this step, of ``total``."""
        rate = self.lr * self._schedule(step, total)
        if self._held_rate is not None:
            self._held_rate.fill_(rate)
            return
        for group in self.optimizer.param_groups:
            group["lr"] = rate

    def prepare_capture(self) -> bool:
        """Keep the rate and the optimizer's counts on the device, as graphs need it; False where that cannot be."""
        groups = self.optimizer.param_groups
        if self.optimizer.state or not all("capturable" in group or group.get("fused") for group in groups):
            return False
        self._held_rate = torch.tensor(self.lr, device=self.parameters[0].device)
        self._hold_rate()
        return True

    def _hold_rate(self) -> None:
        for group in self.optimizer.param_groups:
            if self._held_rate is not None:
                self._held_rate.fill_(group["lr"])
                group["lr"] = self._held_rate
                group.update({"capturable": True} if "capturable" in group else {})

    @property
    def rate(self) -> float:
        """The current learning rate."""
        return float(self.optimizer.param_groups[0]["lr"])

    def look(self) -> None:
        """Go where a step would lead, only to look at the gradients there; the next ``step`` begins where this did."""
        self._clip()
        self.optimizer.extrapolate()

    def _clip(self) -> None:
        if self.clip is not None:
            torch.nn.utils.clip_grad_norm_(self.parameters, self.clip, foreach=True)

    def step(self) -> None:
        """One step of the optimizer on the gradients that stand, then the average follows."""
        self._clip()
        self.optimizer.step()
        if self._after is not None:
            self._after()
        if self.average is not None:
            self.average.follow(self.network)

    def state_dict(self) -> dict[str, Any]:
        """Weights, buffers, optimizer state and average."""
        return {
            "network": dict(self.network.state_dict()),
            "optimizer": self.optimizer.state_dict(),
            "average": None if self.average is None else self.average.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of ``state_dict``."""
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self._hold_rate()
        if self.average is not None:
            self.average.load_state_dict(state["average"])


class _Loss(nn.Module):
    """A player's objective as a module, so that DDP sees the call that uses its network."""

    def __init__(self, player: Player) -> None:
        super().__init__()
        self.network = player.network
        self._objective = player.objective

    def forward(self, batch: Batch) -> Tensor:
        return self._objective(batch)


class GradientLearner(Learner):
    """Players taking turns by phase; one player with one phase is ordinary training.

    turns: who moves in each phase; a phase that is not named is a step of the player of its name. capturable: whether
    the objectives neither wait for the device nor draw on the host, so that updates can become CUDA graphs.
    before: called with (step, total) ahead of each update, to set what changes in the course of a run.
    watch: called with this learner and the step at the end of an epoch, for more numbers to log; it draws no number
    from the stream of training. Of several players each one's mean loss is logged too.
    """

    scope = "batch"

    def __init__(
        self,
        players: Mapping[str, Player],
        trainer: Trainer,
        *,
        phases: tuple[str, ...] | None = None,
        turns: Mapping[str, Turn] | None = None,
        world: World | None = None,
        capturable: bool = False,
        before: Callable[[int, int], None] | None = None,
        watch: Report | None = None,
    ) -> None:
        self.players = dict(players)
        self.capturable, self.before, self._watch = capturable, before, watch
        self.phases = phases or tuple(players)
        self._turns = {phase: Turn((phase,)) for phase in players} | dict(turns or {})
        self.world = world or World()
        self._autocast = trainer.precision == "bf16"
        self._device = next(iter(players.values())).parameters[0].device
        self._reads = self._device.type == "cpu"
        self._scales: dict[float, Tensor] = {}
        self._losses: dict[str, Any] = {name: player.objective for name, player in players.items()}
        if self.world.size > 1:
            ids = [self._device.index] if self._device.type == "cuda" else None
            self._losses = {
                name: DistributedDataParallel(_Loss(player), device_ids=ids) for name, player in players.items()
            }
        self.last_part = True
        self._moving: str | None = None
        self._norms: dict[str, float] = {}
        self.reported = 0  # the step of the last report in which ``watch`` saw something
        # summed loss and weight of each of several players, where the losses are
        self._tallies = {name: self._zeros() for name in players} if len(players) > 1 else {}

    def _zeros(self) -> Tensor:
        return torch.zeros(2, dtype=torch.float64, device=self._device)

    def begin(self, phase: str) -> None:
        """Clear the gradients of the players whose turn it is."""
        for name in self._turns[phase].players:
            for parameter in self.players[name].parameters:
                parameter.grad = None

    def _move_alone(self, name: str) -> None:
        """Let a backward pass reach the weights of this player only."""
        if self._moving == name or len(self.players) == 1:
            return
        for other, player in self.players.items():
            for parameter in player.parameters:
                parameter.requires_grad_(other == name)
        self._moving = name

    def statistics(self, batch: Batch, phase: str, scale: float | Tensor) -> Stats:
        """Add this batch's gradient to ``.grad`` and report the summed loss; the scale may lie on the device."""
        first, *rest = self._turns[phase].players
        stats = self._statistics_of(first, batch, scale)
        if self._tallies:
            stats.sums[first] = stats.sums["loss"]
        for name in rest:
            loss = self._statistics_of(name, batch, scale).sums["loss"]
            stats.sums[name] = loss
            stats.sums["loss"] = stats.sums["loss"] + loss
        return stats

    def _statistics_of(self, name: str, batch: Batch, scale: float | Tensor) -> Stats:
        self._move_alone(name)
        loss_of = self._losses[name]
        if self.world.size > 1 and not self.last_part:
            with loss_of.no_sync():
                return self._backward(loss_of, batch, scale)
        return self._backward(loss_of, batch, scale)

    def _backward(self, loss_of: Any, batch: Batch, scale: float | Tensor) -> Stats:
        if self._autocast:
            with torch.autocast(self._device.type, torch.bfloat16):
                loss = loss_of(batch)
        else:
            loss = loss_of(batch)
        # the scale enters as the seed of the backward pass: no extra multiplication in the graph
        loss.backward(scale.to(loss.dtype) if isinstance(scale, Tensor) else self._seed(scale, loss))
        weight = float(len(batch.X)) if isinstance(scale, Tensor) else total_weight(batch)
        return Stats(weight, {"loss": loss.detach()})

    def _seed(self, scale: float, loss: Tensor) -> Tensor:
        seed = self._scales.get(scale)
        if seed is None or seed.dtype != loss.dtype:
            if len(self._scales) > 64:
                self._scales.clear()
            seed = self._scales[scale] = torch.tensor(scale, dtype=loss.dtype, device=loss.device)
        return seed

    def update(self, stats: Stats, phase: str, again: Again) -> Info:
        """Move the players; on the CPU the loss is read here, elsewhere it stays where it is."""
        turn = self._turns[phase]
        for name in turn.players:
            move = self.players[name].step if turn.move == "step" else self.players[name].look
            move()
            if self._tallies:
                self._tallies[name][0].add_(stats.sums[name])
                self._tallies[name][1].add_(stats.weight)
        loss = stats.sums["loss"]
        return Info(loss.item() if self._reads else loss, weight=stats.weight)

    def report(self, step: int) -> dict[str, float]:
        """The mean loss of each of several players since the last report, and what ``watch`` sees."""
        found: dict[str, float] = {}
        for name, tally in self._tallies.items():
            loss, weight = tally.tolist()
            if weight:
                found[f"{name}_loss"] = loss / weight
            tally.zero_()
        seen = self._watch(self, step) if self._watch is not None else {}
        self.reported = step if seen else self.reported
        return found | dict(seen)

    def gradient_norm(self, name: str) -> float:
        """The norm of the gradient that a player followed last; 0 before its first move."""
        gradients = [p.grad for p in self.players[name].parameters if p.grad is not None]
        if not gradients:
            return self._norms.get(name, 0.0)  # of the checkpoint that the run goes on from
        return float(torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients))))

    @torch.no_grad()
    def evaluate(self, batch: Batch) -> Stats:
        """The first player's summed loss in evaluation mode, with averaged weights if there are any."""
        player = self.players[self._turns[self.phases[0]].players[0]]
        player.network.eval()
        kept = clone(dict(player.network.state_dict())) if player.average is not None else None
        if player.average is not None:
            player.network.load_state_dict(player.average.weights(player.network))
        loss = player.objective(batch).detach()
        if kept is not None:
            player.network.load_state_dict(kept)
        player.network.train()
        return Stats(total_weight(batch), {"loss": loss})

    def state_dict(self) -> dict[str, Any]:
        """Every player's state, and the losses of the epoch so far."""
        state: dict[str, Any] = {name: player.state_dict() for name, player in self.players.items()}
        if self._tallies:
            norms = {name: self.gradient_norm(name) for name in self.players}
            state["game"] = {"tallies": dict(self._tallies), "reported": self.reported, "norms": norms}
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of ``state_dict``."""
        for name, player in self.players.items():
            player.load_state_dict(state[name])
        if self._tallies:
            game = state["game"]
            self.reported, self._norms = int(game["reported"]), dict(game["norms"])
            for name, tally in self._tallies.items():
                tally.copy_(game["tallies"][name])

    def best_state(self) -> dict[str, Any]:
        """Every player's weights and average; the optimizer is of no more use."""
        kept = {}
        for name, player in self.players.items():
            average = None if player.average is None else player.average.state_dict()
            kept[name] = clone({"network": dict(player.network.state_dict()), "average": average})
        return kept

    def load_best(self, state: Mapping[str, Any]) -> None:
        """The inverse of ``best_state``."""
        for name, player in self.players.items():
            player.network.load_state_dict(state[name]["network"])
            if player.average is not None:
                player.average.load_state_dict(state[name]["average"])

    def finish(self) -> None:
        """Averaged weights take their place; gradients are dropped."""
        for player in self.players.values():
            if isinstance(player.optimizer, PastExtragradient):
                player.optimizer.settle()
            if player.average is not None:
                player.network.load_state_dict(player.average.weights(player.network))
            player.optimizer.zero_grad(set_to_none=True)
            for parameter in player.parameters:
                parameter.requires_grad_(True)
            player.network.eval()
        self._moving = None
