"""Densities of the plane by diffusion, score and Poisson-flow models: nats above the truth, and modes reached."""

from __future__ import annotations

import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks.gan import grid_of_gaussians, judged
from benchmarks.harness import Interval, Timings
from benchmarks.report import Claim, Result

TITLE = "EDM, VP, VE, flow matching and Poisson flow on 2-D toys: test NLL beyond the truth, modes of 25 Gaussians"
GRID = "grid_of_gaussians"
TOYS = (GRID, "moons", "rings_of_gaussians")
# As they come: network, updates, schedule and the law of noise levels are the defaults of tables.
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "EDM": ("EDM", {}),
    "VP": ("ScoreSDE", {"process": "vp"}),
    "VE": ("ScoreSDE", {"process": "ve"}),
    "flow matching": ("FlowMatching", {}),
    "Poisson flow, D = 128": ("PoissonFlow", {}),
    "Poisson flow, D = 1": ("PoissonFlow", {"process": "pfgm"}),
}
CLAIMED = 0.03  # nats
TRAIN, TEST, DRAWS = 20_000, 4000, 10_000


class Found(NamedTuple):
    """What a fit came to: its seconds, nats above the truth with their standard error, and how its samples lie."""

    seconds: float
    beyond: float
    error: float
    modes: dict[str, float]


class Job(NamedTuple):
    """One fit: which model, on what, from which seed, at which size."""

    model: str
    toy: str
    seed: int
    quick: bool


def law_of(name: str) -> Any:
    """The toy of this name."""
    from benthic.data.toys import toy

    return grid_of_gaussians() if name == GRID else toy(name)


def work(job: Job) -> Found:
    """Fit on one thread and judge: the truth and the model are asked about the same test rows."""
    import benthic

    torch.set_num_threads(1)
    law, (name, settings) = law_of(job.toy), MODELS[job.model]
    train, test, draws = (500, 100, 500) if job.quick else (TRAIN, TEST, DRAWS)
    X, held = law.sample(train, seed=2 * job.seed), law.sample(test, seed=2 * job.seed + 1)
    trainer = {"verbose": False, **({"steps": 60} if job.quick else {})}
    start = time.perf_counter()
    model = getattr(benthic, name)(**settings, trainer=trainer, random_state=job.seed).fit(X)
    seconds = time.perf_counter() - start
    found = np.concatenate([model.log_prob(part) for part in np.array_split(held.astype(np.float32), 4)])
    beyond = law.log_prob(held) - found.astype(np.float64)
    modes = judged(model.sample(draws, seed=job.seed), law) if job.toy == GRID else {}
    return Found(seconds, float(beyond.mean()), float(beyond.std() / len(beyond) ** 0.5), modes)


def run(quick: bool = False) -> Result:
    """Every model on every toy, two fits at a time; the grid from two seeds."""
    seeds = {toy: 1 if quick or toy != GRID else 2 for toy in TOYS}
    jobs = [Job(name, toy, seed, quick) for name in MODELS for toy in TOYS for seed in range(seeds[toy])]
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        answers = dict(zip(jobs, pool.map(work, jobs), strict=True))
    found = {
        (name, toy): [answers[Job(name, toy, seed, quick)] for seed in range(seeds[toy])]
        for name in MODELS
        for toy in TOYS
    }
    timings = Timings(
        {f"{name}, {toy}": [one.seconds for one in fits] for (name, toy), fits in found.items()},
        {f"{name}, {toy}": quality(fits) for (name, toy), fits in found.items()},
    )
    settings = {"train": TRAIN, "test": TEST, "draws": DRAWS, "seeds": seeds, "threads of a fit": 1}
    return Result("diffusion_toys", TITLE, claims(found), timings, settings)


def claims(found: dict[tuple[str, str], list[Found]]) -> list[Claim]:
    """The gap of every model, and the modes of the grid."""
    made = []
    for (name, toy), fits in found.items():
        worst = max(fits, key=lambda one: one.beyond)
        reach = 1.96 * worst.error
        gap = Interval(worst.beyond, worst.beyond - reach, worst.beyond + reach)
        made.append(Claim(f"{name}, {toy}: test NLL beyond the truth, worst seed", gap, "<=", CLAIMED, " nats"))
        if toy == GRID:
            modes = 25 * min(one.modes["covered"] for one in fits)
            made.append(Claim(f"{name}: modes of 25, worst seed", Interval(modes, modes, modes), ">=", 25.0))
    return made


def quality(fits: list[Found]) -> dict[str, float]:
    """Means over seeds."""
    shown = {
        "beyond truth": float(np.mean([one.beyond for one in fits])),
        "s.e.": float(np.sqrt(np.mean([one.error**2 for one in fits]) / len(fits))),
    }
    shown |= {key: float(np.mean([one.modes[key] for one in fits])) for key in fits[0].modes}
    return {key: round(value, 4) for key, value in shown.items()}
