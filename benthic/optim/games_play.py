"""Plain games of two players: how a method plays them, and the picture of its way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from benthic.base.errors import InvalidInput, nearest
from benthic.base.settings import is_number, whole
from benthic.optim.build import Setting, optimizer_of
from benthic.optim.games import PastExtragradient, check_method, game_optimizer, game_round

Payoff = Callable[[Tensor, Tensor], Tensor]
Game = Payoff | Sequence[Payoff]


class GamePath(NamedTuple):
    """The points of both players, the first dimension the step, and the first player's loss there (steps + 1,)."""

    x: Tensor
    y: Tensor
    values: Tensor

    @property
    def points(self) -> Tensor:
        """Both players side by side, flat, (steps + 1, d)."""
        return torch.cat([part.reshape(len(part), -1) for part in (self.x, self.y)], 1)


def play(
    game: Game,
    start: Sequence[Any],
    method: str = "simultaneous",
    *,
    rate: float | Sequence[float] = 0.1,
    steps: int = 100,
    optimizer: Setting = "sgd",
) -> GamePath:
    """The way two players take.

    game: f(x, y), a scalar that the first player makes small and the second large; or two losses, each made small
    by its own player. start: where the players begin, (x, y). method: ``simultaneous`` or ``alternating`` gradient
    descent-ascent, ``extragradient``, ``past_extragradient`` (its points between look-aheads) or ``optimistic`` (its
    look-ahead points). rate: of both players, or one for each. optimizer: that the players use, as in
    ``optimizer_of``. The path ends early where a loss is no longer finite.

    >>> out = play(bilinear, (1.0, 0.0), rate=0.5, steps=2)
    >>> out.points.norm(dim=1)  # grows by the root of 1 + 0.25
    tensor([1.0000, 1.1180, 1.2500], dtype=torch.float64)
    >>> play(bilinear, (1.0, 0.0), "extragradient", rate=0.5, steps=200).points[-1].norm() < 1e-8
    tensor(True)
    """
    check_method(method, "play")
    whole("play: steps", steps, 0)
    players = _start(start)
    losses = [lambda loss=loss: loss(*players) for loss in _losses(game)]
    made = [
        game_optimizer(method, optimizer_of(optimizer, [player], lr))
        for player, lr in zip(players, _rates(rate), strict=True)
    ]
    path: list[list[Tensor]] = [[], [], []]
    for step in range(steps + 1):
        points = [_point(player, one, method) for player, one in zip(players, made, strict=True)]
        with torch.no_grad():
            value = _losses(game)[0](*points)
        if value.numel() != 1:
            raise InvalidInput(f"play: the game gives a tensor of shape {tuple(value.shape)}; a payoff is one number")
        for kept, tensor in zip(path, (*points, value.reshape(())), strict=True):
            kept.append(tensor)
        if step == steps or not bool(value.isfinite()):
            break
        game_round(made, losses, method)
    return GamePath(*map(torch.stack, path))


def bilinear(x: Tensor, y: Tensor) -> Tensor:
    r"""The game :math:`x^\top y`, whose equilibrium is 0; descent-ascent spirals away from it at every rate.

    >>> bilinear(torch.tensor(2.0), torch.tensor(3.0))
    tensor(6.)
    """
    return (x * y).sum()


def dirac_gan(loss: str = "minimax", *, r1: float = 0.0) -> tuple[Payoff, Payoff]:
    r"""The smallest adversarial model: a generator that is one point x, and a linear critic y of data at 0.

    .. math:: \min_x \max_y\; f(x y) + f(0) - \tfrac{\gamma}{2} y^2, \qquad f(t) = -\log(1 + e^{-t})

    Mescheder, Geiger & Nowozin, 2018. The equilibrium is (0, 0); around it the gradients only turn, so
    descent-ascent does not get there unless the critic's slope on data is penalized (R1).

    loss: ``minimax``, ``nonsaturating`` (the generator maximizes the chance that it is taken for data) or
    ``wasserstein``, :math:`f(t) = t`. r1: γ. Returns the losses of generator and critic, for ``play``.

    >>> generator, critic = dirac_gan("wasserstein")
    >>> generator(torch.tensor(1.0), torch.tensor(0.5)), critic(torch.tensor(1.0), torch.tensor(0.5))
    (tensor(0.5000), tensor(-0.5000))
    """
    kinds = ("minimax", "nonsaturating", "wasserstein")
    if loss not in kinds:
        raise InvalidInput(f"dirac_gan: loss {loss!r} is unknown{nearest(str(loss), kinds)}; use {', '.join(kinds)}")
    if not r1 >= 0:
        raise InvalidInput(f"dirac_gan: r1={r1!r}; a penalty is a number of at least 0")

    def value(x: Tensor, y: Tensor) -> Tensor:
        t = (x * y).sum()
        return t if loss == "wasserstein" else logsigmoid(t) + logsigmoid(torch.zeros_like(t))

    def generator(x: Tensor, y: Tensor) -> Tensor:
        return -logsigmoid(-(x * y).sum()) if loss == "nonsaturating" else value(x, y)

    def critic(x: Tensor, y: Tensor) -> Tensor:
        return 0.5 * r1 * y.square().sum() - value(x, y)

    return generator, critic


def game_paths(
    game: Game,
    paths: Mapping[str, GamePath],
    *,
    box: Sequence[float] | None = None,
    equilibrium: Sequence[float] | None = None,
    cells: int = 17,
    axes: Any = None,
) -> Any:
    """Ways of two players on a line each, over the arrows along which their gradients pull.

    game: as in ``play``. paths: from name to what ``play`` gives. box: (left, right, bottom, top), around the paths
    by default. equilibrium: a point marked by a star. cells: arrows along a side. axes: to draw into; a new figure
    otherwise. Returns the figure.
    """
    from benthic.pictures.canvas import new_figure
    from benthic.pictures.plane import box_around

    drawn = {name: _plane(path, name) for name, path in paths.items()}
    if not drawn and box is None:
        raise InvalidInput("game_paths: there is neither a path nor a box; pass at least one of them")
    left, right, bottom, top = box if box is not None else box_around(np.concatenate([*drawn.values()]), 0.15)
    figure, axes = (axes.figure, axes) if axes is not None else new_figure(5.0, 4.6)
    across, up = np.linspace(left, right, cells), np.linspace(bottom, top, cells)
    pull = _pull(_losses(game), *np.meshgrid(across, up))
    lengths = np.hypot(*pull).clip(min=1e-12)
    axes.quiver(across, up, *(part / lengths**0.6 for part in pull), color="0.78", width=0.003, pivot="mid")
    for name, points in drawn.items():
        (line,) = axes.plot(points[:, 0], points[:, 1], marker=".", markersize=3, linewidth=1.1, label=name)
        axes.plot(*points[0], "o", markersize=5, color=line.get_color())
    if equilibrium is not None:
        axes.plot(*equilibrium, "k*", markersize=10, linewidth=0)
    axes.set(xlim=(left, right), ylim=(bottom, top), xlabel="first player", ylabel="second player")
    if drawn:
        axes.legend(fontsize="small", loc="upper right", framealpha=0.9, edgecolor="none")
    return figure


def _losses(game: Game) -> tuple[Payoff, Payoff]:
    if callable(game):
        return game, lambda x, y: -game(x, y)
    if isinstance(game, Sequence) and len(game) == 2 and all(map(callable, game)):
        return game[0], game[1]
    raise InvalidInput("play: a game is a function f(x, y), or two of them, the losses of the two players")


def _start(start: Sequence[Any]) -> list[nn.Parameter]:
    if (isinstance(start, Tensor) and start.ndim == 0) or not hasattr(start, "__len__") or len(start) != 2:
        raise InvalidInput("play: start is where both players begin, a pair such as (1.0, 0.5)")
    players = []
    for part in start:
        value = part.detach() if isinstance(part, Tensor) else torch.as_tensor(np.asarray(part, dtype=np.float64))
        if not value.is_floating_point() or not bool(value.isfinite().all()):
            raise InvalidInput("play: start holds values that are not finite numbers with a fraction")
        players.append(nn.Parameter(value.clone()))
    return players


def _rates(rate: float | Sequence[float]) -> tuple[float, float]:
    rates = tuple(rate) if isinstance(rate, Sequence) else (rate, rate)
    if len(rates) != 2 or not all(is_number(one) and one > 0 for one in rates):
        raise InvalidInput(f"play: rate={rate!r}; it is a positive number, or one for each of the two players")
    return rates[0], rates[1]


def _point(player: Tensor, optimizer: Any, method: str) -> Tensor:
    settled = method == "past_extragradient" and isinstance(optimizer, PastExtragradient)
    return (optimizer.origins[0] if settled else player.detach()).clone()


def _plane(path: GamePath, name: str) -> np.ndarray:
    points = path.points.detach().cpu().double()
    if points.shape[1] != 2:
        raise InvalidInput(f"game_paths: path {name!r} has {points.shape[1]} coordinates; a picture shows one a player")
    return points[points.isfinite().all(1)].numpy()


def _pull(losses: tuple[Payoff, Payoff], x: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
    """Minus each player's gradient of its own loss, on points of the plane."""
    points = [torch.as_tensor(part.ravel()) for part in (x, y)]
    pulls = [
        torch.vmap(torch.func.grad(loss, argnums=player))(*points).neg().numpy() for player, loss in enumerate(losses)
    ]
    return [pull.reshape(x.shape) for pull in pulls]
