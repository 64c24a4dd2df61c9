"""Run chains: starting points, warm-up, collection, and a first look at what came out."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput, nearest
from benthic.base.progress import Bar
from benthic.base.seeds import generator, seed_of
from benthic.base.settings import whole
from benthic.samplers.climbing import climb
from benthic.samplers.kernel import Kernel, SamplerStopped, Trail
from benthic.samplers.target import Target

if TYPE_CHECKING:
    from benthic.samplers.judging.draws import Draws

# name -> (module, class): kernels a person may ask for by name; each is built as Class(target).
NAMES = {
    "nuts": ("benthic.samplers.hamiltonian.nuts", "NUTS"),
    "hmc": ("benthic.samplers.hamiltonian.hmc", "HMC"),
    "chees": ("benthic.samplers.hamiltonian.ensemble", "ChEES"),
    "mala": ("benthic.samplers.langevin.overdamped", "MALA"),
    "random_walk": ("benthic.samplers.metropolis", "RandomWalk"),
}
FAR_RHAT = 1.1
ENOUGH = 100  # draws a chain below which R-hat is large for good chains too, so it is left to the summary
Tick = Callable[[int], None]


def run(
    kernel: Kernel | str,
    target: Target | None = None,
    *,
    chains: int = 4,
    draws: int = 1000,
    warmup: int = 1000,
    start: Any = None,
    thin: int = 1,
    seed: int | None = None,
    progress: bool = False,
    keep: Iterable[str] | None = None,
) -> Draws:
    """Run chains and return their ``Draws``: warm-up with adaptation, then collection.

    kernel: a kernel, or the name of one to build for ``target``: "nuts", "hmc", "chees" (many short chains),
    "mala", "random_walk". A kernel with an adapter is tuned during ``warmup`` transitions, which are dropped;
    tuning pools all chains, so with a hundred chains or more a warm-up of 100 to 200 is enough.
    target: the law, when the kernel is a name.
    chains, draws, thin: every ``thin``-th transition is kept until each chain has ``draws``.
    start: (chains, d) unconstrained rows, or a tree of parameters with a leading chain dimension; None searches, and
    where there is a warm-up to tune, chains that begin far out first move uphill (``meta["climbed"]``: by how many
    nats each).
    seed: decides everything random. progress: show a bar. keep: names of the parameters to return.

    Warns where chains of 100 draws or more disagree (split R-hat above 1.1), as they do on a density that cannot be
    normalized.

    >>> target = Target(lambda x: -0.5 * (x**2).sum(), torch.zeros(2, dtype=torch.float64))
    >>> draws = run("nuts", target, draws=500, warmup=200, seed=0)
    >>> draws["x"].shape, bool(draws["x"].mean().abs() < 0.1)
    (torch.Size([4, 500, 2]), True)
    """
    kernel = _kernel(kernel, target)
    target = kernel.target if target is None else target
    _check(chains, draws, warmup, thin)
    wanted = _wanted(target, keep)
    stream = generator(seed_of(seed), "samplers", device=target.device)
    rows = _start(target, start, chains, stream)
    gain = torch.zeros(chains, dtype=rows.dtype, device=rows.device)
    state = kernel.init(rows)
    if start is None and warmup and kernel.adapter() is not None and hasattr(state, "gradient"):
        rows, gain = climb(target, rows)
        state = kernel.init(rows)
    bar = Bar(type(kernel).__name__, warmup + draws * thin, progress, "transitions")
    begun = time.perf_counter()
    try:
        state, kernel = _warm(kernel, state, warmup, stream, bar.tick)
        warmed = time.perf_counter()
        state, trail = kernel.collect(state, draws, stream, thin=thin, tick=bar.tick)
    finally:
        bar.close()
    seconds = {"warmup": warmed - begun, "draws": time.perf_counter() - warmed}
    _look(trail, kernel)
    values = target.named(trail.positions)
    meta = {"kernel": kernel, "state": state, "seconds": seconds, "warmup": warmup, "thin": thin, "climbed": gain}
    from benthic.samplers.judging.draws import Draws

    return Draws({name: values[name] for name in wanted}, trail.info, meta=meta)


def _warm(kernel: Kernel, state: Any, warmup: int, stream: torch.Generator, tick: Tick) -> tuple[Any, Kernel]:
    """The state and kernel after warm-up."""
    tuner = kernel.adapter() if warmup else None
    if tuner is not None:
        return tuner.warm(state, warmup, stream, tick)
    if warmup:
        state, _ = kernel.collect(state, 1, stream, thin=warmup, tick=tick)
    return state, kernel


def _kernel(kernel: Kernel | str, target: Target | None) -> Kernel:
    """The kernel itself, or the one of that name for the target."""
    if isinstance(kernel, Kernel):
        return kernel
    if not isinstance(kernel, str):
        raise InvalidInput(f"run: kernel is a {type(kernel).__name__}; give a kernel or one of {sorted(NAMES)}")
    if kernel not in NAMES:
        raise InvalidInput(f"run: no kernel is called {kernel!r}; choose from {sorted(NAMES)}{nearest(kernel, NAMES)}")
    if not isinstance(target, Target):
        raise InvalidInput(f"run: the kernel {kernel!r} needs a target; give run({kernel!r}, Target(...))")
    module, name = NAMES[kernel]
    made: Kernel = getattr(import_module(module), name)(target)
    return made


def _check(chains: int, draws: int, warmup: int, thin: int) -> None:
    for name, value, least in (("chains", chains, 1), ("draws", draws, 1), ("warmup", warmup, 0), ("thin", thin, 1)):
        whole(f"run: {name}", value, least)


def _wanted(target: Any, keep: Iterable[str] | None) -> list[str]:
    """The parameters to return."""
    if keep is None:
        return list(target.leaves)
    wanted = [keep] if isinstance(keep, str) else list(keep)
    for name in wanted:
        if name not in target.leaves:
            hint = nearest(name, target.leaves)
            raise InvalidInput(f"run: keep has {name!r}; the parameters are {target.leaves}{hint}")
    return wanted


def _start(target: Any, start: Any, chains: int, stream: torch.Generator) -> Tensor:
    """(chains, d) starting rows."""
    if start is None:
        found: Tensor = target.start(chains, stream)
        return found
    rows = torch.as_tensor(start) if isinstance(start, Tensor) or hasattr(start, "__array__") else target.pack(start)
    rows = target.check_start(rows)
    if len(rows) != chains:
        raise InvalidInput(f"run: start has {len(rows)} rows and chains is {chains}; they must agree")
    return rows


def _look(trail: Trail, kernel: Kernel) -> None:
    """Stop where nothing was ever accepted, warn where chains disagree."""
    accepted = trail.info.get("accepted")
    name = type(kernel).__name__
    if accepted is not None and not bool((accepted > 1e-6).any()):
        raise SamplerStopped(
            f"{name}: not one proposal was accepted; allow a warm-up (warmup=1000), take a smaller step size, or "
            "check the density and its gradient where the chains start"
        )
    from benthic.samplers.judging.diagnostics import split_rhat

    if trail.positions.shape[1] < ENOUGH:
        return
    worst = float(split_rhat(trail.positions.double()).nan_to_num(nan=1.0).max())
    if worst > FAR_RHAT:
        warnings.warn(
            f"{name}: chains disagree, R-hat is {worst:.2f}; they need more warm-up or draws, or the density has "
            "separate modes or cannot be normalized (a prior is missing): see summary()",
            stacklevel=3,
        )
