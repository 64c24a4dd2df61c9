"""What a task hands back, how it is printed and kept, and the table of docs/performance.md."""

from __future__ import annotations

import datetime
import json
import os
import platform
import re
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.harness import Interval, Timings

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
PACKAGES = (
    "benthic",
    "torch",
    "numpy",
    "scipy",
    "scikit-learn",
    "pomegranate",
    "skorch",
    "pyarrow",
    "zuko",
    "diffusers",
    "prdc",
    "torch-fidelity",
    "numpyro",
    "blackjax",
    "pyro-ppl",
    "torchdiffeq",
    "diffrax",
    "lightgbm",
    "gpytorch",
    "hmmlearn",
    "openTSNE",
    "tomotopy",
    "gensim",
    "pythae",
)
START, END = "<!-- table: start -->", "<!-- table: end -->"


@dataclass(frozen=True)
class Claim:
    """A measured number beside the limit it must keep.

    >>> Claim("ours / loop", Interval(1.02, 1.01, 1.04), "<=", 1.05).kept
    True
    """

    text: str
    measured: Interval
    relation: str
    limit: float
    unit: str = ""

    @property
    def kept(self) -> bool:
        """Whether the median is on the right side of the limit."""
        value = self.measured.value
        return value >= self.limit if self.relation == ">=" else value <= self.limit

    def cells(self) -> tuple[str, str, str, str, str]:
        """Text, measured, interval, limit, verdict."""
        shown = self.measured
        spread = "" if shown.low == shown.high else f"{number(shown.low)} to {number(shown.high)}"
        limit = f"{'≥' if self.relation == '>=' else '≤'} {number(self.limit)}{self.unit}"
        return self.text, number(shown.value) + self.unit, spread, limit, "kept" if self.kept else "missed"


@dataclass(frozen=True)
class Result:
    """One task's run: the times, the quality beside them, and the claims."""

    name: str
    title: str
    claims: list[Claim]
    timings: Timings = field(default_factory=lambda: Timings({}))
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def kept(self) -> bool:
        """Whether every claim is kept."""
        return all(claim.kept for claim in self.claims)


def exact(value: float) -> Interval:
    """Wrap a number that is not a sample: a memory peak, a largest difference, a count."""
    return Interval(float(value), float(value), float(value))


def number(value: float) -> str:
    """Three significant digits, without an exponent where none is needed.

    >>> number(5.4321), number(123456.0), number(3e-11), number(0.0)
    ('5.43', '123456', '3.0e-11', '0')
    """
    if value == 0 or abs(value) >= 100:
        return f"{value:.0f}"
    if abs(value) < 1e-3:
        return f"{value:.1e}"
    return f"{value:.3g}"


def machine() -> dict[str, Any]:
    """Return the processor, its cores that we may use, and the system."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        found = re.search(r"model name\s*:\s*(.+)", info.read_text(encoding="utf-8"))
        model = found.group(1).strip() if found else model
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"cpu": model, "cores": cores, "system": f"{platform.system()} {platform.machine()}"}


def versions() -> dict[str, str]:
    """Return the versions of Python, ours, and the peers that are installed."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "absent"
    return found


def show(result: Result, console: Console | None = None) -> None:
    """Print times with quartiles and quality, then the claims."""
    console = console or Console()
    console.rule(f"[bold]{result.name}[/bold]  {result.title}")
    if result.timings.seconds:
        console.print(times_table(result.timings))
    table = Table("claim", "measured", "95 % interval", "limit", "verdict")
    for claim in result.claims:
        table.add_row(*claim.cells(), style=None if claim.kept else "red")
    console.print(table)


def times_table(timings: Timings) -> Table:
    """One row a candidate: median, quartiles, and whatever quality it reported."""
    names = sorted({key for found in timings.quality.values() for key in found})
    table = Table("candidate", "median s", "quartiles s", *names)
    for name, seconds in timings.seconds.items():
        low, high = np.percentile(seconds, [25, 75])
        found = timings.quality.get(name, {})
        quality = [f"{found[key]:.10g}" if key in found else "" for key in names]
        table.add_row(name, f"{np.median(seconds):.4g}", f"{low:.4g} to {high:.4g}", *quality)
    return table


def keep(result: Result, folder: Path = RESULTS) -> Path:
    """Write a result to folder/NAME.json with the machine, the versions and the day."""
    tree = asdict(result)
    tree |= {"machine": machine(), "versions": versions(), "date": datetime.date.today().isoformat()}
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{result.name}.json"
    path.write_text(json.dumps(tree, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    return path


def load(path: Path) -> tuple[list[Claim], dict[str, Any]]:
    """Read the claims of a kept result, and the whole tree."""
    tree = json.loads(path.read_text(encoding="utf-8"))
    claims = [Claim(**{**claim, "measured": Interval(**claim["measured"])}) for claim in tree["claims"]]
    return claims, tree


def render(folder: Path = RESULTS) -> str:
    """Render the Markdown table of every kept result, then machine and versions."""
    lines = [
        "| task | claim | measured | 95 % interval | limit | verdict |",
        "|---|---|---|---|---|---|",
    ]
    notes: dict[str, None] = {}
    for path in sorted(folder.glob("*.json")):
        claims, tree = load(path)
        lines += [f"| {tree['name']} | {' | '.join(claim.cells())} |" for claim in claims]
        spelled = ", ".join(f"{name} {text}" for name, text in tree["versions"].items() if text != "absent")
        host = tree["machine"]
        notes[f"{tree['date']}, {host['cpu']}, {host['cores']} cores, {host['system']}; {spelled}."] = None
    if len(lines) == 2:
        return "No result is kept yet; `make bench` makes them."
    return "\n".join(lines) + "\n\nMeasured on:\n\n" + "\n".join(f"- {note}" for note in notes)


def write_table(page: Path = PAGE, folder: Path = RESULTS) -> None:
    """Replace what stands between the two marks of the page by the current table."""
    text = page.read_text(encoding="utf-8")
    before, _, rest = text.partition(START)
    _, mark, after = rest.partition(END)
    if not mark:
        raise ValueError(f"{page} has no '{START}' followed by '{END}'; the table goes between them")
    page.write_text(f"{before}{START}\n{render(folder)}\n{END}{after}", encoding="utf-8")
