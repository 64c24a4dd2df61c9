"""Expectation maximization as a learner: a pass sums, an update maximizes, restarts follow one another."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from benthic.data.batch import Batch
from benthic.mixture.common import Restarts
from benthic.mixture.expanded import prepare
from benthic.mixture.expectation import Blocks, Workspace
from benthic.mixture.maximization import Floor, maximize, split_heaviest
from benthic.mixture.missing import add_sums
from benthic.mixture.parameters import Gaussians
from benthic.training.learner import Again, Info, Learner, Stats, total_weight

Start = Callable[[int], Gaussians]


class EM(Learner):
    """Dempster, Laird & Rubin, 1977; rows with gaps as in Ghahramani & Jordan, 1994.

    start: the mixture that restart number i begins with, in float64 on the CPU. restarts: how many, and when
    each ends. center: (d,) a point amid the data. floor: least variances. dtype, device: of the rows.
    """

    scope = "pass"

    def __init__(
        self,
        start: Start,
        restarts: Restarts,
        *,
        reg_covar: float,
        center: Tensor,
        floor: Floor,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self._start, self.restarts, self._reg_covar = start, restarts, reg_covar
        self._center, self._floor, self._dtype, self._device = center, floor, dtype, device
        self._scratch = Workspace(dtype, device)
        self._blocks: dict[bool, Blocks] = {}
        self._warned: set[str] = set()
        self._revivals = 0  # of dead components in this restart
        self.mixture = start(0)

    # -- the E step ------------------------------------------------------------------------------------

    def begin(self, phase: str) -> None:
        """Forget what was prepared for the previous parameters."""
        self._blocks.clear()

    def _prepared(self, gaps: bool) -> Blocks:
        if gaps not in self._blocks:
            self._blocks[gaps] = prepare(
                self.mixture, self._center, self._dtype, self._device, gaps=gaps and self.mixture.diagonal
            )
        return self._blocks[gaps]

    @torch.no_grad()
    def statistics(self, batch: Batch, phase: str, scale: float) -> Stats:
        """Sums of the E step over a batch."""
        X, weight = batch.X.to(self._dtype), batch.weight
        weight = None if weight is None else weight.to(self._dtype)
        gaps = bool(torch.isnan(X.sum()))  # one NaN makes the sum one, and adding up is quick
        if not gaps or self.mixture.diagonal:
            sums = self._prepared(gaps).sums(X, weight, self._scratch)
        else:
            holed = torch.isnan(X).any(1)
            whole = ~holed
            sums = self._prepared(False).sums(X[whole], None if weight is None else weight[whole], self._scratch)
            wide = self.mixture.to(self._device, torch.float64)
            add_sums(sums, wide, X[holed], None if weight is None else weight[holed])
        return Stats(total_weight(batch), sums)

    # -- the M step ------------------------------------------------------------------------------------

    def update(self, stats: Stats, phase: str, again: Again) -> Info:
        """Maximize; stop a restart when the mean log-likelihood changes by less than its tolerance."""
        sums = {name: value.cpu() for name, value in stats.sums.items()}
        bound = float(sums["log_likelihood"]) / stats.weight
        info = {"log_likelihood": bound, "restart": self.restarts.number}
        if not math.isfinite(bound):
            return Info(-bound, logs=info)
        found = maximize(self.mixture, sums, self._reg_covar, self._floor)
        self.mixture = found.mixture
        ends = self.restarts.ends(bound)
        if found.narrow:
            self._warn_narrow(found.narrow)
        if found.dead and self._may_revive():
            self._revive(found.dead)
        elif ends:
            self._end_restart()
        return Info(-bound, done=self.restarts.done, logs=info)

    def _may_revive(self) -> bool:
        return self._revivals < self.mixture.k and self.restarts.iteration < self.restarts.max_iter

    def _revive(self, dead: list[int]) -> None:
        self._revivals += len(dead)
        self.mixture = split_heaviest(self.mixture, dead)
        self._warn(
            "dead",
            f"component {dead[0]} lost all its rows and was given half of the heaviest one; the start may be "
            "far from the data, or n_components too large",
        )

    def _warn_narrow(self, narrow: list[int]) -> None:
        self._warn(
            "narrow",
            f"component {narrow[0]} collapsed onto a point or a plane and its covariance was widened; raise "
            "reg_covar, use fewer components or another covariance_type",
        )

    def _warn(self, kind: str, text: str) -> None:
        if kind not in self._warned:
            self._warned.add(kind)
            warnings.warn(f"GaussianMixture.fit: {text}", stacklevel=2)

    def _end_restart(self) -> None:
        self.restarts.keep({"mixture": self.mixture.state()})
        if self.restarts.advance():
            self.mixture = self._start(self.restarts.number)
            self._revivals = 0

    def finish(self) -> None:
        """Choose the best restart, also when the budget ended in the middle of one."""
        if self.restarts.under_way:
            self.restarts.keep({"mixture": self.mixture.state()})
        self.mixture = Gaussians.of_state(self.restarts.best["mixture"])

    # -- state -----------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """The current restart and the best one so far."""
        return {
            "restarts": self.restarts.state(),
            "revivals": self._revivals,
            "mixture": self.mixture.state(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of ``state_dict``."""
        self.restarts.load(state["restarts"])
        self._revivals = state["revivals"]
        self.mixture = Gaussians.of_state(state["mixture"])
