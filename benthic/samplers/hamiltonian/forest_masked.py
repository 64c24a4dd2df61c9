"""The trees of all chains in tensor operations: on a GPU several leaves are one captured graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from benthic.base.compiling import compiled
from benthic.samplers.hamiltonian.hmc import HamiltonianState, Tune
from benthic.samplers.hamiltonian.trees import Grown, Limits, Trees, grow, plant, start_branches, tables
from benthic.samplers.hamiltonian.whitening import Whitened
from benthic.samplers.kernel import Trail

BLOCK = 8  # leaves between two looks at the counts


class MaskedForest:
    """Trees under way on any device: planted at a state, grown in blocks of leaves.

    kernel: a NUTS kernel. draws: to be kept by each chain, every ``thin``-th transition.
    """

    def __init__(
        self, kernel: Any, state: HamiltonianState, draws: int, generator: torch.Generator, thin: int = 1
    ) -> None:
        self._white: Whitened = kernel.white
        self._generator, self._thin = generator, thin
        self._limits = Limits(kernel.max_depth, kernel.max_rise, draws * thin)
        self._table = tables(kernel.max_depth, state.position.device)
        chains, d = state.position.shape
        options = {"dtype": state.position.dtype, "device": state.position.device}
        self._draws = torch.zeros(chains, draws + 1, d, **options)  # one more row takes what is not kept
        self._report = torch.zeros(chains, draws + 1, 6, **options)
        self._news = torch.zeros(4, dtype=torch.float64, device=options["device"])
        self._step = torch.full((), kernel.step_size, **options)
        self._normals = torch.empty(BLOCK + 1, chains, d, **options)
        self._uniforms = torch.empty(BLOCK, chains, 3, dtype=torch.float64, device=options["device"])
        self._refresh()
        trees = _seedlings(self._white, state, kernel.max_depth)
        everywhere = torch.ones(chains, dtype=torch.bool, device=options["device"])
        trees = plant(trees, everywhere, self._normals, self._step)
        self._trees = Trees(*(x.clone() for x in start_branches(trees, everywhere, self._uniforms[0, :, 2])))
        on_gpu = state.position.device.type == "cuda"
        fused = on_gpu and kernel.target.compile
        self._grow = compiled(_grow_flat, state.position.device, "NUTS") if fused else _grow_flat
        self._graph = self._captured() if on_gpu else None

    def _refresh(self) -> None:
        """New noise for a block of leaves."""
        self._normals.normal_(generator=self._generator)
        self._uniforms.uniform_(generator=self._generator)

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

        tune: called with the mean acceptance of at least ``round_`` transitions; gives the step size of new trees.
        heard: (chains,) whose acceptance counts, all if None; the others accept next to nothing.
        """
        made = told = 0
        lost = None if heard is None or bool(heard.all()) else ~heard
        before = self._trees.done.clone()
        while True:
            self._refresh()
            self._trees.used.zero_()
            if self._graph is None:
                self._block()
            else:
                self._graph.replay()
            accepted, count, _, working = self._news.tolist()
            if lost is not None:
                count -= int((self._trees.done - before)[lost].sum())
            if tick is not None:
                tick(int(made + count) // len(self._draws) - told)
                told = int(made + count) // len(self._draws)
            if count >= round_ or tune is None:
                if tune is not None:
                    self._step.fill_(tune(accepted / count))
                made += int(count)
                self._news.zero_()
                before = self._trees.done.clone()
            if working == 0 or (enough is not None and made >= enough):
                return

    def _block(self) -> None:
        """A block of leaves, in place."""
        for uniforms in self._uniforms:
            self._leaf(uniforms)

    def _leaf(self, uniforms: Tensor) -> None:
        """One leapfrog of every chain."""
        t = self._trees
        value, slope = self._white.value_and_grad(t.z)
        flat = self._grow(tuple(t), value, slope, uniforms, self._normals, self._step, self._table, self._limits)
        following, grown = Trees(*flat[0]), Grown(*flat[1])
        kept = grown.finished & (following.done % self._thin == 0)
        spare = self._draws.shape[1] - 1
        row = (following.done // self._thin - 1).masked_fill(~kept, spare)
        chains = torch.arange(len(row), device=row.device)
        self._draws[chains, row] = grown.proposal
        self._report[chains, row] = grown.report
        accepted = grown.report[:, 0].masked_fill(~grown.finished, 0).sum()
        counts = (accepted, grown.finished.sum(), grown.diverged.sum())
        self._news[:3] += torch.stack([number.double() for number in counts])
        self._news[3] = (following.done < self._limits.wanted).sum()
        for old, new in zip(t, following, strict=True):
            old.copy_(new)

    def _captured(self) -> Any:
        """The block as a CUDA graph; what its trial runs did is undone."""
        before = [x.clone() for x in (*self._trees, self._draws, self._report, self._news)]
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self._leaf(self._uniforms[0])
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._block()
        for now, then in zip((*self._trees, self._draws, self._report, self._news), before, strict=True):
            now.copy_(then)
        return graph

    def state(self) -> HamiltonianState:
        """Where the chains are: at the proposal of their last complete tree, or so far of the one under way."""
        t, white = self._trees, self._white
        return HamiltonianState(white.out(t.z_tree), t.density_tree.clone(), white.unslope(t.g_tree))

    def trail(self) -> Trail:
        """Draws and reports of complete transitions."""
        accepted, energy, steps, depth, divergent, density = self._report[:, :-1].unbind(-1)
        info = {
            "accepted": accepted,
            "divergent": divergent.bool(),
            "energy": energy,
            "steps": steps.long(),
            "depth": depth.long(),
            "log_density": density,
        }
        return Trail(self._white.out(self._draws[:, :-1]), info)

    def visited(self, heard: Tensor | None = None) -> Tensor:
        """(n, d) the positions stored so far, of all chains or of these."""
        places = torch.arange(self._draws.shape[1] - 1, device=self._draws.device)
        kept = places < (self._trees.done // self._thin)[:, None]
        kept &= True if heard is None else heard[:, None]
        return self._white.out(self._draws[:, :-1][kept])


def _grow_flat(trees: tuple[Tensor, ...], *rest: Any) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """``grow`` from and to plain tuples, which a compiler hands on as they are."""
    following, grown = grow(Trees(*trees), *rest)
    return tuple(following), tuple(grown)


def _seedlings(white: Whitened, state: HamiltonianState, depth: int) -> Trees:
    """Trees of nothing but their proposal."""
    z, slope = white.back(state.position), white.slope(state.gradient)
    zero = torch.zeros_like(state.log_density)
    whole = torch.zeros_like(zero, dtype=torch.int64)
    marks = torch.zeros(len(z), depth, z.shape[1], dtype=z.dtype, device=z.device)
    vectors = [torch.zeros_like(z) for _ in range(9)]
    return Trees(
        *vectors,
        z_tree=z,
        g_tree=slope,
        z_half=torch.zeros_like(z),
        g_half=torch.zeros_like(z),
        rho_tree=torch.zeros_like(z),
        rho_half=torch.zeros_like(z),
        mark_p=marks,
        mark_rho=marks,
        step=zero,
        root=zero,
        weight_tree=zero,
        weight_half=zero,
        density_tree=state.log_density,
        density_half=zero,
        energy_tree=zero,
        energy_half=zero,
        accept=zero,
        depth=whole,
        leaf=whole,
        way=whole,
        steps=whole,
        done=whole,
        used=whole,
    )
