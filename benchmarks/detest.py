"""How accurate solutions are for a tolerance: the DETEST problems and three stiff ones, beside SciPy."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from benchmarks.harness import Quality, alternate, median_interval
from benchmarks.problems import NON_STIFF, STIFF, Problem, by_scipy, reference
from benchmarks.report import Claim, Result
from benchmarks.report import exact as exact_value

TITLE = "dormand_prince and radau beside SciPy's RK45 and Radau: global errors on DETEST A1-E5 and stiff problems"
TOLERANCES = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9)
METHODS = {"dormand_prince": "RK45", "radau": "Radau"}
FLOOR = 1e-11  # below it the references and rounding are compared, not the methods


def ours(problem: Problem, method: str, tolerance: float, times: np.ndarray) -> np.ndarray:
    """The solution (m, d) by benthic."""
    import torch

    from benthic.dynamics import solve

    start = torch.tensor(problem.start, dtype=torch.float64)
    options = {"method": method, "rtol": tolerance, "atol": tolerance * problem.small, "max_steps": 1_000_000}
    with torch.no_grad():
        return solve(problem.field, start, times, **options).y.numpy()


def errors(problem: Problem, found: np.ndarray) -> np.ndarray:
    """Errors (m,) at the printed times, the largest over components, relative to 1 + |y| as tolerances are."""
    exact = reference(problem, len(found))
    return (np.abs(found - exact) / (1 + np.abs(exact))).max(1)


def ratios(problem: Problem, method: str, tolerances: tuple[float, ...] = TOLERANCES) -> dict[str, np.ndarray]:
    """Benthic's error over SciPy's at each tolerance: at the end, and the largest over 20 printed times."""
    times = problem.times()
    pairs = [
        (
            errors(problem, ours(problem, method, tolerance, times)),
            errors(problem, by_scipy(problem, METHODS[method], tolerance, times)),
        )
        for tolerance in tolerances
    ]
    mine, theirs = (np.maximum(np.array(part), FLOOR) for part in zip(*pairs, strict=True))
    return {"end": mine[:, -1] / theirs[:, -1], "largest": mine.max(1) / theirs.max(1)}


def table(problems: Mapping[str, Problem], method: str, tolerances: tuple[float, ...]) -> dict[str, np.ndarray]:
    """Ratios (problem, tolerance) at the end and over the printed times."""
    rows = [ratios(problem, method, tolerances) for problem in problems.values()]
    return {key: np.stack([row[key] for row in rows]) for key in ("end", "largest")}


def claims(problems: Mapping[str, Problem], method: str, found: dict[str, np.ndarray]) -> list[Claim]:
    """The median, the worst problem over its tolerances, and how many single runs exceed twice SciPy's error."""
    peer, out = METHODS[method], []
    for key, words in (("end", "error at the end"), ("largest", "largest error")):
        grid = found[key]
        mean = np.exp(np.log(grid).mean(1))
        worst = list(problems)[int(mean.argmax())]
        what = f"{method}, {words} / SciPy {peer}'s"
        out += [
            Claim(f"{what}: median of {grid.size} runs", median_interval(grid.reshape(-1)), "<=", 2.0, "x"),
            Claim(
                f"{what}: geometric mean over tolerances, worst problem ({worst})",
                exact_value(mean.max()),
                "<=",
                2.0,
                "x",
            ),
            Claim(f"{what}: runs above 2x, of {grid.size}", exact_value((grid > 2).sum()), "<=", 0),
        ]
    return out


def run(quick: bool = False) -> Result:
    """Solve every problem at every tolerance by both; the times are those of all problems at 1e-6."""
    tolerances = TOLERANCES[::3] if quick else TOLERANCES
    sets = {"dormand_prince": NON_STIFF, "radau": STIFF}
    found, every, worst = [], {}, {}
    for method, problems in sets.items():
        grids = table(problems, method, tolerances)
        found += claims(problems, method, grids)
        every[method] = {
            name: {key: [round(x, 3) for x in grids[key][i].tolist()] for key in grids}
            for i, name in enumerate(problems)
        }
        worst[method] = {key: float(grids[key].max()) for key in grids}

    def sweep(solver: str) -> Quality:
        for problem in NON_STIFF.values():
            if solver == "benthic":
                ours(problem, "dormand_prince", 1e-6, problem.times())
            else:
                by_scipy(problem, "RK45", 1e-6, problem.times())
        return {}

    candidates = {name: partial(sweep, name) for name in ("benthic", "scipy")}
    timings = alternate(candidates, repeats=1 if quick else 5, warmup=0 if quick else 1)
    return Result("detest", TITLE, found, timings, {"tolerances": list(tolerances), "ratios": every, "worst": worst})
