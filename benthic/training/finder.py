"""A learning rate from one short run in which the rate rises from tiny to huge."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from benthic.base.errors import InvalidInput, NonFiniteLoss
from benthic.pictures.canvas import new_figure
from benthic.training.callbacks import Callback, Moment
from benthic.training.learner import Info
from benthic.training.trainer import Trainer


@dataclass(frozen=True)
class RateSearch:
    """What the search saw: smoothed losses at rising rates, and the rate to use."""

    rates: np.ndarray
    losses: np.ndarray
    best: float

    def plot(self) -> Any:
        """Loss against rate, as a matplotlib figure."""
        figure, axes = new_figure(5.0, 3.2)
        axes.plot(self.rates, self.losses, linewidth=1.2)
        axes.axvline(self.best, color="0.5", linestyle="--", label=f"best {self.best:.2g}")
        axes.set(xscale="log", xlabel="learning rate", ylabel="smoothed loss")
        axes.legend(frameon=False)
        return figure


class _Record(Callback):
    def __init__(self) -> None:
        self.rates: list[float] = []
        self.losses: list[float] = []

    def on_step(self, moment: Moment, info: Info) -> None:
        """Keep rate and loss of every update."""
        self.rates.append(moment.rate() or 0.0)
        self.losses.append(info.mean())


def find_lr(model: Any, X: Any, y: Any = None, *, low: float = 1e-6, high: float = 1.0, steps: int = 200) -> RateSearch:
    """Try learning rates from ``low`` to ``high`` on a copy of ``model`` (Smith, 2017).

    The best rate is a tenth of the one at which the smoothed loss is lowest, well before it rises again. The
    model is not changed.

    >>> import numpy as np, benthic
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> 1e-6 < find_lr(benthic.MLPRegressor(random_state=0), X, X.sum(1)).best < 1
    True
    """
    if not 0 < low < high:
        raise InvalidInput(f"find_lr: low is {low} and high {high}; rates must satisfy 0 < low < high")
    record = _Record()
    trainer = Trainer.of(model.trainer)
    settings = {
        **trainer.to_tree(),
        "epochs": None,
        "steps": steps,
        "lr": high,
        "schedule": lambda step, total: (low / high) ** (1.0 - step / max(total - 1, 1)),
        "callbacks": (record,),
        "early_stopping": None,
        "checkpoint": None,
        "resume": False,
        "verbose": False,
    }
    try:
        clone(model).set_params(trainer=Trainer(**settings)).fit(X, y)
    except NonFiniteLoss:
        record.rates, record.losses = record.rates[:-1], record.losses[:-1]
    rates, losses = np.array(record.rates), _smooth(np.array(record.losses))
    # beyond the first blow-up the curve says nothing
    blown = np.flatnonzero(losses > 2 * np.minimum.accumulate(losses) + abs(losses[0]))
    end = int(blown[0]) if len(blown) else len(losses)
    if end < 3:
        raise InvalidInput(f"find_lr: the loss blew up at once; start below low={low}")
    lowest = int(np.argmin(losses[:end]))
    return RateSearch(rates[:end], losses[:end], max(low, float(rates[lowest]) / 10))


def _smooth(losses: np.ndarray, decay: float = 0.9) -> np.ndarray:
    """Bias-corrected exponential average."""
    average, out = 0.0, []
    for i, loss in enumerate(losses):
        average = decay * average + (1 - decay) * (loss if math.isfinite(loss) else average)
        out.append(average / (1 - decay ** (i + 1)))
    return np.array(out)
