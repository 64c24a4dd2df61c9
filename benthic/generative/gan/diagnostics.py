"""What to watch while two networks compete: the gap between them, the modes they cover, and copies of the data."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benthic.base.quiet import quiet
from benthic.generative.gan.density import squared_distances
from benthic.generative.gan.networks import drawn_rows
from benthic.training.gradient import GradientLearner

_ROWS_A_CLUSTER, _CLUSTERS = 20, 50
_SHARE = 0.25  # of its part of the data, from which on a cluster counts as covered
_REPORTS = 40  # in a run, at most about so many
COLLAPSED, NARROW, COPIED = 0.5, 0.1, 0.2


class Clusters:
    """Centers of the data, by k-means, and how much of the data each holds.

    >>> Clusters(torch.tensor([[0.0], [5.0]]).repeat(20, 1)).coverage(torch.zeros(40, 1))
    0.5
    """

    def __init__(self, rows: Tensor) -> None:
        from benthic.cluster.kmeans import KMeans

        rows = rows.detach().double().cpu()
        distinct = len(torch.unique(rows[:1000], dim=0))
        count = max(1, min(_CLUSTERS, len(rows) // _ROWS_A_CLUSTER, distinct))
        with quiet():
            model = KMeans(count, n_init=1, max_iter=30, random_state=0).fit(rows.numpy())
        self.centers = torch.as_tensor(np.asarray(model.cluster_centers_))
        self.shares = self._shares(rows)

    def _shares(self, rows: Tensor) -> Tensor:
        nearest = squared_distances(rows.double().cpu(), self.centers).argmin(1)
        return torch.bincount(nearest, minlength=len(self.centers)) / len(rows)

    def coverage(self, rows: Tensor) -> float:
        """The share of clusters that hold at least a quarter of the rows they should."""
        covered = self._shares(rows.detach()) >= _SHARE * self.shares
        return float(covered.double().mean())


class Watch:
    """Looks at a game now and then: see ``looks``. It is called at the end of epochs, with the learner and the step.

    network: with ``make`` and ``judge``. real, conditions: some rows in the units of the network. codes: fixed ones, as
    many. gap: what the difference of the critic's means is called. steps: of the whole run.
    """

    def __init__(
        self, network: Any, real: Tensor, conditions: Tensor | None, codes: Tensor, gap: str, steps: int
    ) -> None:
        self._network, self._real, self._conditions, self._codes = network, real, conditions, codes
        self._gap, self._every = gap, max(1, steps // _REPORTS)
        self.clusters = Clusters(real)

    def __call__(self, learner: GradientLearner, step: int) -> dict[str, float]:
        """Numbers to log, or none if the last are fresh."""
        if step // self._every == learner.reported // self._every:
            return {}
        norms = {f"{name}_gradient": learner.gradient_norm(name) for name in learner.players}
        return {**self.looks(), **norms}

    @torch.no_grad()
    def looks(self) -> dict[str, float]:
        """The critic's gap, the share of clusters covered, and the spread of generated rows against the data's."""
        network = self._network
        training = network.training
        network.eval()
        fake = drawn_rows(network, self._codes, self._conditions)
        gap = network.judge(self._real, self._conditions).mean() - network.judge(fake, self._conditions).mean()
        network.train(training)
        return {
            self._gap: float(gap),
            "coverage": self.clusters.coverage(fake),
            "spread": _ratio(_spread(fake), _spread(self._real)),
        }


def _spread(rows: Tensor) -> Tensor:
    return (rows - rows.mean(0)).square().sum(1).mean().sqrt()


def _ratio(top: Tensor, bottom: Tensor) -> float:
    return float(top / bottom) if float(bottom) > 0 else math.nan


@torch.no_grad()
def nearness(fake: Tensor, train: Tensor, held: Tensor | None) -> float:
    """How far generated rows lie from the training rows, against how far other rows of the data do: medians.

    Near 1 the generator makes new rows; near 0 it copies. held: rows that were not learned from; without them each
    training row is compared with the others.

    >>> train = torch.arange(100.0)[:, None]
    >>> nearness(train[:50] + 0.01, train, None) < 0.1
    True
    """
    found = squared_distances(fake, train).amin(1).sqrt().median()
    if held is not None:
        usual = squared_distances(held, train).amin(1).sqrt().median()
    else:
        between = squared_distances(train[:1000], train)
        between[torch.arange(len(between)), torch.arange(len(between))] = torch.inf
        usual = between.amin(1).sqrt().median()
    return _ratio(found, usual)


def complain(who: str, looks: dict[str, float], clusters: int) -> None:
    """Warn of a generator that has collapsed or learned rows by heart, with advice."""
    if math.isnan(looks["spread"]):  # rows that are all the same were spoken of before
        return
    if looks["coverage"] < COLLAPSED or looks["spread"] < NARROW:
        covered = round(looks["coverage"] * clusters)
        warnings.warn(
            f"{who}.fit: the generator has collapsed: its rows reach {covered} of {clusters} clusters of the data and "
            f"spread {looks['spread']:.2f} times as far; try penalty='r1' or 'gradient', a lower generator_lr, more "
            "critic_steps, a larger batch_size or more steps",
            stacklevel=4,
        )
    elif looks["nearness"] < COPIED:
        warnings.warn(
            f"{who}.fit: generated rows lie {looks['nearness']:.2f} times as far from the training rows as unseen rows "
            "do: they are copies; use more data, a smaller generator or fewer steps",
            stacklevel=4,
        )
