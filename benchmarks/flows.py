"""Neural spline flows beside zuko's of equal size: test likelihood, seconds to train, seconds to sample."""

from __future__ import annotations

import gzip
import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks.continuous_flow import mean_interval, train_by_hand
from benchmarks.harness import Interval, Timings, alternate, data_folder
from benchmarks.report import Claim, Result

TITLE = "NormalizingFlow (autoregressive splines, 3 x (64, 64), 8 bins): test NLL and speed beside zuko's NSF"
TOYS = ("rings_of_gaussians", "spirals")
TABLES = ("california_housing", "covertype_92962_minmax", "higgs_small", "phoneme", "winequality-white")
SIZE: dict[str, Any] = {"transforms": 3, "hidden": (64, 64), "bins": 8}
BATCH, RATE, TOY_RATE = 512, 1e-3, 5e-3  # of both; toys have few columns and sharp edges
# updates: tables of few rows are learned by heart beyond these, by both
UPDATES = {"phoneme": 2000, "winequality-white": 500, "higgs_small": 500}
USUAL = 1500
SEEDS, MORE_SEEDS = 3, {"covertype_92962_minmax": 6}  # where fits of one flow from several seeds differ by 0.25 nats
ROWS, DRAWS = 8192, 4096


class Found(NamedTuple):
    """What one fit came to: seconds to train, mean NLL of the test rows in nats, weights."""

    seconds: float
    nll: float
    weights: int


class Job(NamedTuple):
    """One fit: who, on what, from which seed, at which size."""

    who: str
    what: str
    seed: int
    quick: bool


def read(name: str) -> np.ndarray:
    """The numeric columns of a table, rows with gaps left out."""
    folder = data_folder("uci")
    if name == "higgs_small":
        parts = [np.loadtxt(folder / f"higgs_small_{part}.tsv.gz") for part in ("train", "test")]
        return np.concatenate(parts)[:, 1:]
    with gzip.open(folder / f"{name}.csv.gz", "rt") as file:
        lines = [line.strip().split(",") for line in file]
    if name in ("california_housing", "covertype_92962_minmax"):
        lines = [line[:9] if name == "california_housing" else line[:10] for line in lines[1:]]
    else:
        lines = [line[:-1] for line in lines if line[0].replace(".", "").replace("-", "").isdigit()]
    return np.array([[float(v) for v in line] for line in lines if all(line)])


def table(name: str) -> tuple[np.ndarray, dict[str, float]]:
    """Standardized columns with more than 20 different values, with uniform noise as wide as their rounding.

    Columns are rounded, and without noise a density on them has no upper bound. Also returns the widths of the noise,
    in the units of each column.
    """
    rng = np.random.default_rng(0)
    X = read(name)
    columns, widths = [], {}
    for i, column in enumerate(X.T):
        values = np.unique(column)
        if len(values) > 20:
            step = float(np.diff(values).min())
            widths[f"column {i}"] = step
            columns.append(column + step * rng.random(len(column)))
    rows = np.stack(columns, 1)
    return (rows - rows.mean(0)) / rows.std(0), widths


def split(what: str, seed: int, quick: bool) -> tuple[np.ndarray, np.ndarray]:
    """Rows to train on and to test on."""
    from benthic.data.toys import toy

    if what in TOYS:
        law, share = toy(what), 10 if quick else 1
        return law.sample(5000 // share, seed=2 * seed), law.sample(10_000 // share, seed=2 * seed + 1)
    rows = table(what)[0]
    rows = rows[np.random.default_rng(seed).permutation(len(rows))][: 1000 if quick else None]
    cut = len(rows) * 8 // 10
    return rows[:cut], rows[cut:]


def updates_of(job: Job) -> int:
    """How many updates a fit takes."""
    return 20 if job.quick else UPDATES.get(job.what, USUAL)


def work(job: Job) -> Found:
    """Fit and judge, on one thread; both candidates get the same rows."""
    torch.set_num_threads(1)
    train, test = split(job.what, job.seed, job.quick)
    start = time.perf_counter()
    nll, weights = CANDIDATES[job.who](train, updates_of(job), job.seed, TOY_RATE if job.what in TOYS else RATE)
    return Found(time.perf_counter() - start, nll(test), weights)


def ours(X: np.ndarray, updates: int, seed: int, rate: float = RATE) -> tuple[Callable[[np.ndarray], float], int]:
    """Benthic's flow of autoregressive splines."""
    import benthic

    trainer = {"steps": updates, "batch_size": BATCH, "lr": rate, "schedule": "cosine", "verbose": False}
    model = benthic.NormalizingFlow(
        "nsf",
        transforms=SIZE["transforms"],
        hidden_layer_sizes=SIZE["hidden"],
        bins=SIZE["bins"],
        trainer=trainer,
        random_state=seed,
    ).fit(X.astype(np.float32))
    return lambda test: -model.score(test.astype(np.float32)), sum(p.numel() for p in model.network_.parameters())


def zuko_flow(width: int) -> Any:
    """The peer of equal size."""
    from zuko.flows import NSF

    return NSF(width, transforms=SIZE["transforms"], hidden_features=SIZE["hidden"], bins=SIZE["bins"])


def zuko(X: np.ndarray, updates: int, seed: int, rate: float = RATE) -> tuple[Callable[[np.ndarray], float], int]:
    """Zuko's flow, trained by hand."""
    torch.manual_seed(seed)
    return train_by_hand(zuko_flow(X.shape[1]), X, updates, rate, BATCH)


CANDIDATES: dict[str, Callable[..., tuple[Callable[[np.ndarray], float], int]]] = {
    "benthic": ours,
    "zuko": zuko,
}


def speed(quick: bool) -> Timings:
    """Both on two threads, in turn: updates on 8 columns, and samples of 2, 8 and 28 columns."""
    import benthic

    torch.set_num_threads(2)
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(ROWS, 8)) @ rng.normal(size=(8, 8))).astype(np.float32)
    updates = 10 if quick else 60
    candidates: dict[str, Any] = {
        "train, benthic": lambda: ours(X, updates, 0) and None,
        "train, zuko": lambda: zuko(X, updates, 0) and None,
    }
    for width in (2, 8) if quick else (2, 8, 28):
        rows = X[:600, :width] if width <= 8 else np.tile(X[:600], 4)[:, :28] + rng.normal(size=(600, 28))
        flow = zuko_flow(width)
        settings = {"transforms": SIZE["transforms"], "hidden_layer_sizes": SIZE["hidden"], "bins": SIZE["bins"]}
        model = benthic.NormalizingFlow("nsf", **settings, trainer={"steps": 1}).fit(rows.astype(np.float32))
        draws = DRAWS // 8 if quick else DRAWS
        often = range(max(1, 20 // width))  # a draw of few columns takes milliseconds
        candidates[f"sample {width} columns, benthic"] = lambda model=model, n=draws, often=often: [
            model.sample(n, seed=0) for _ in often
        ]
        candidates[f"sample {width} columns, zuko"] = lambda flow=flow, n=draws, often=often: [
            _sampled(flow, n) for _ in often
        ]
    return alternate({k: _quiet(v) for k, v in candidates.items()}, repeats=2 if quick else 5)


def _quiet(candidate: Callable[[], Any]) -> Callable[[], None]:
    def run_it() -> None:
        candidate()

    return run_it


@torch.no_grad()
def _sampled(flow: Any, n: int) -> None:
    flow().sample((n,))


def likelihoods(quick: bool, what: tuple[str, ...] = (*TOYS, *TABLES)) -> dict[tuple[str, str], list[Found]]:
    """Every candidate on every set from several seeds, two at a time."""
    seeds = {name: range(1 if quick else MORE_SEEDS.get(name, SEEDS)) for name in what}
    jobs = [Job(who, name, seed, quick) for name in what for seed in seeds[name] for who in CANDIDATES]
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        answers = dict(zip(jobs, pool.map(work, jobs), strict=True))
    return {
        (who, name): [answers[Job(who, name, s, quick)] for s in seeds[name]] for name in what for who in CANDIDATES
    }


def run(quick: bool = False) -> Result:
    """Likelihoods first, two fits at a time on one thread each; then speed on two threads."""
    found = likelihoods(quick)
    clock = speed(quick)
    behind = {
        name: np.array([a.nll - b.nll for a, b in zip(found["benthic", name], found["zuko", name], strict=True)])
        for name in (*TOYS, *TABLES)
    }
    claims = [
        Claim(f"test NLL beyond zuko's, {name}", _interval(gap), "<=", 0.02, " nats") for name, gap in behind.items()
    ]
    claims.append(Claim("training, zuko / benthic", clock.ratio("train, zuko", "train, benthic"), ">=", 1.3))
    names = [key.removesuffix(", zuko") for key in clock.seconds if key.startswith("sample") and "zuko" in key]
    claims += [
        Claim(f"{name}, zuko / benthic", clock.ratio(f"{name}, zuko", f"{name}, benthic"), ">=", 3.0) for name in names
    ]
    quality = {
        f"{who}, {name}": {"NLL": round(float(np.mean([f.nll for f in fits])), 4), "weights": fits[0].weights}
        for (who, name), fits in found.items()
    }
    seconds = {f"{who}, {name}": [f.seconds for f in fits] for (who, name), fits in found.items()} | clock.seconds
    settings = {
        **SIZE,
        "batch": BATCH,
        "rate": RATE,
        "rate on toys": TOY_RATE,
        "updates": {"usual": USUAL, **UPDATES},
        "seeds": {"usual": SEEDS, **MORE_SEEDS},
        "noise widths (columns are standardized after)": {name: table(name)[1] for name in TABLES},
    }
    return Result("flows", TITLE, claims, Timings(seconds, quality), settings)


def _interval(values: np.ndarray) -> Interval:
    if len(values) > 1:
        return mean_interval(values)
    return Interval(float(values[0]), float(values[0]), float(values[0]))
