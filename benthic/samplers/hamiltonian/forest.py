"""The trees of all chains on a CPU: gradients from torch, branches compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benthic.samplers.hamiltonian import trees_cpu as trees
from benthic.samplers.hamiltonian.hmc import HamiltonianState, Tune
from benthic.samplers.hamiltonian.whitening import Whitened
from benthic.samplers.kernel import Trail

BLOCK = 128  # leapfrogs whose uniforms are drawn together
NORMALS = 1 << 20  # momenta drawn together hold at most about this many numbers


class Forest:
    """Trees under way: planted at a state, grown leaf by leaf in all chains, each storing draws as it completes them.

    kernel: a NUTS kernel. draws: to be kept by each chain, every ``thin``-th transition.
    """

    def __init__(
        self, kernel: Any, state: HamiltonianState, draws: int, generator: torch.Generator, thin: int = 1
    ) -> None:
        self._white: Whitened = kernel.white
        chains, d = state.position.shape
        kind = state.position.numpy().dtype
        self._generator, self._dtype = generator, state.position.dtype
        self._vec = np.zeros((trees.VECTORS, chains, d), kind)
        self._num = np.zeros((trees.NUMBERS, chains))
        self._cnt = np.zeros((trees.COUNTS, chains), np.int64)
        self._mark = np.zeros((2, chains, kernel.max_depth, d), kind)
        self._draws = np.zeros((chains, draws, d), kind)
        self._report = np.zeros((trees.REPORTS, chains, draws))
        self._settings = np.array([kernel.step_size, kernel.max_depth, kernel.max_rise, draws * thin, thin])
        self._news = np.zeros(5)
        self._told = np.zeros(chains, np.int64)
        self._vec[trees.ZT] = self._white.back(state.position).numpy()
        self._vec[trees.GT] = self._white.slope(state.gradient).numpy()
        self._num[trees.LP_T] = state.log_density.numpy()
        self._normals = self._momenta(min(64, draws * thin + 1))
        self._leaves = torch.from_numpy(self._vec[trees.Z])
        self._gradient = self._white.caller(self._leaves)
        trees.plant(self._vec, self._num, self._cnt, self._normals, kernel.step_size, self._uniforms(1)[0])

    def _momenta(self, most: int) -> np.ndarray:
        """(n, chains, d) standard normals."""
        chains, d = self._vec.shape[1:]
        rows = max(2, min(most, NORMALS // (chains * d)))
        return torch.randn(rows, chains, d, generator=self._generator, dtype=self._dtype).numpy()

    def _uniforms(self, rows: int) -> np.ndarray:
        """(rows, chains, 3) uniforms."""
        shape = (rows, self._vec.shape[1], 3)
        return torch.rand(shape, generator=self._generator, dtype=torch.float64).numpy()

    @torch.no_grad()
    def grow(
        self,
        *,
        enough: int | None = None,
        tune: Tune | None = None,
        round_: int = 1,
        heard: Tensor | None = None,
        tick: Callable[[int], None] | None = None,
    ) -> None:
        """Grow until every chain has its draws, or until all together have made ``enough`` transitions.

        tune: called with the mean acceptance of every ``round_`` transitions; gives the step size of new trees.
        heard: (chains,) whose acceptance counts, all if None.
        """
        made = 0
        while True:
            for uniforms in self._uniforms(BLOCK):
                self._leaf(uniforms)
                if tune is not None and self._news[1] >= round_ and self._told_by(heard) >= round_:
                    self._settings[0] = tune(self._news[0] / self._news[1])
                    made += int(self._news[1])
                    self._news[:3] = 0
                if self._news[3] == 0 or (enough is not None and made >= enough):
                    return
            if tick is not None:
                tick(self._since())

    def _told_by(self, heard: Tensor | None) -> float:
        """Transitions since the step was last tuned, of chains that are heard; the others accept next to nothing."""
        if heard is not None and not bool(heard.all()):
            done = self._cnt[trees.DONE].copy()
            self._news[1] -= (done - self._told)[~heard.numpy()].sum()
            self._told = done
        return float(self._news[1])

    def _since(self) -> int:
        """Transitions of a chain, on the average, since last asked."""
        whole = int(self._news[1]) // self._vec.shape[1]
        self._news[1] -= whole * self._vec.shape[1]
        return whole

    def _leaf(self, uniforms: np.ndarray) -> None:
        """One leapfrog of every chain."""
        value, slope = self._gradient(self._leaves)
        trees.grow(
            self._vec,
            self._num,
            self._cnt,
            self._mark,
            value.numpy(),
            slope.numpy(),
            self._normals,
            uniforms,
            self._draws,
            self._report,
            self._settings,
            self._news,
        )
        if self._news[4] >= len(self._normals):
            self._normals = self._momenta(len(self._normals))
            self._cnt[trees.USED] = 0

    def state(self) -> HamiltonianState:
        """Where the chains are: at the proposal of their last complete tree, or so far of the one under way."""
        z, slope = torch.from_numpy(self._vec[trees.ZT]), torch.from_numpy(self._vec[trees.GT])
        density = torch.from_numpy(self._num[trees.LP_T]).to(self._dtype)
        return HamiltonianState(self._white.out(z), density, self._white.unslope(slope))

    def trail(self) -> Trail:
        """Draws and reports of complete transitions."""
        accepted, energy, steps, depth, divergent, density = torch.from_numpy(self._report)
        info = {
            "accepted": accepted.to(self._dtype),
            "divergent": divergent.bool(),
            "energy": energy.to(self._dtype),
            "steps": steps.long(),
            "depth": depth.long(),
            "log_density": density.to(self._dtype),
        }
        return Trail(self._white.out(torch.from_numpy(self._draws)), info)

    def visited(self, heard: Tensor | None = None) -> Tensor:
        """(n, d) the positions stored so far, of all chains or of these."""
        kept = np.arange(self._draws.shape[1]) < self._cnt[trees.DONE][:, None]
        kept &= True if heard is None else heard.numpy()[:, None]
        return self._white.out(torch.from_numpy(self._draws[kept]))
