"""`python -m benchmarks [NAME ...] [--quick] | --list | --table`."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Sequence
from types import ModuleType

from benchmarks import report

TASKS = (
    "import_time",
    "training_overhead",
    "gaussian_mixture",
    "logistic_regression",
    "distributed",
    "resume",
    "streaming_memory",
    "fit_memory",
    "sinkhorn",
    "minimize",
    "ode",
    "detest",
    "continuous_flow",
    "neural_ode",
    "nuts",
    "posteriors",
    "bayesian_regression",
    "lasso",
    "svc",
    "knn",
    "gaussian_process",
    "decision_tree",
    "random_forest",
    "gradient_boosting",
    "classical",
    "numba_cache",
    "kmeans",
    "pca",
    "tsne",
    "mixtures",
    "topics",
    "hidden_markov",
    "vae",
    "generative_metrics",
    "gan",
    "diffusion_toys",
    "diffusion_digits",
    "unet",
    "flows",
    "energy",
)


def task(name: str) -> ModuleType:
    """Import one task's module: it has a TITLE and a function run(quick) -> Result."""
    return importlib.import_module(f"benchmarks.{name}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run tasks, print and keep their results; 1 if a claim was missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Benthic beside its peers.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="tasks to run; all of them if none is named")
    parser.add_argument("--list", action="store_true", help="name the tasks and stop")
    parser.add_argument("--table", action="store_true", help="render docs/performance.md from kept results")
    parser.add_argument("--quick", action="store_true", help="small sizes, to try the tasks; keeps nothing")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in TASKS]
    if unknown:
        parser.error(f"no task {', '.join(unknown)}; there are {', '.join(TASKS)}")
    if options.list:
        for name in TASKS:
            print(f"{name:22}{task(name).TITLE}")
        return 0
    if options.table:
        report.write_table()
        return 0
    return run(options.names or TASKS, options.quick)


def run(names: Sequence[str], quick: bool) -> int:
    """Run the named tasks one after another."""
    missed = []
    for name in names:
        result = task(name).run(quick=quick)
        report.show(result)
        if not result.kept:
            missed.append(name)
        if not quick:
            print(f"kept in {report.keep(result)}")
    if missed:
        print(f"missed: {', '.join(missed)}")
    return int(bool(missed))


if __name__ == "__main__":
    raise SystemExit(main())
