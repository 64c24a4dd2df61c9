"""How far every limit in the tests stands from what is measured, over seeds and arithmetics.

    make test-margins [TESTS="tests/supervised tests/gp"]

runs the tests with each shift of the seeds and with each arithmetic of `make test-portable`, records both sides of
every comparison that a test makes (``assert a < b``, ``pytest.approx``, ``assert_allclose``, ``assert_close``), and
prints those whose limit stands less than four standard deviations from the mean of what was measured. What is the same
in every run (sizes, counts, closed forms) is not shown. From the third run on only the tests that vary are run.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent
NUMBER = r"(?<![\w.])[-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|inf)"
WRAPPED = rf"(?:(?:np\.float\d+|tensor|array|abs)\()?({NUMBER})(?:, dtype=[\w.]+)?\)?"
COMPARISON = re.compile(rf"{WRAPPED} (<|<=|>|>=) {WRAPPED}", re.I)
APPROXIMATE = re.compile(rf"{WRAPPED} == ({NUMBER}) ± ({NUMBER})", re.I)


# ---------------------------------------------------------------------- inside pytest: record (`-p tests.margins`)


class Recorder:
    """Writes a line a comparison: the test, the line, and the distance to the limit; above zero it holds."""

    def __init__(self, folder: Path) -> None:
        self.file = (folder / f"{os.getpid()}.jsonl").open("a")
        self.test = ""
        self.counts: Counter[int] = Counter()

    def __call__(self, line: int, text: str, margin: float) -> None:
        self.counts[line] += 1
        self.file.write(json.dumps([self.test, line, self.counts[line], text, margin]) + "\n")

    def begin(self, test: str) -> None:
        self.test = test
        self.counts.clear()
        self.file.flush()


record: Recorder | None = None


def pytest_configure(config: pytest.Config) -> None:
    """Record where the environment says so."""
    global record
    if folder := os.environ.get("MARGINS"):
        record = Recorder(Path(folder))
        np.testing.assert_allclose = _watched(np.testing.assert_allclose, _allclose_ratio)
        import torch

        torch.testing.assert_close = _watched(torch.testing.assert_close, _close_ratio)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """What is recorded from here on is of this test."""
    if record:
        record.begin(item.nodeid)


def pytest_assertion_pass(item: pytest.Item, lineno: int, orig: str, expl: str) -> None:
    """Both sides of each comparison of an assert that holds."""
    frame = sys._getframe(1)
    while frame.f_back and any(part in frame.f_code.co_filename for part in ("pluggy", "_pytest")):
        frame = frame.f_back
    if _of_tests(frame.f_code.co_filename):
        _read(lineno, orig, expl)


def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """And of one that does not."""
    if call.excinfo is not None and call.excinfo.errisinstance(AssertionError):
        place = call.excinfo.traceback[-1]
        _read(place.lineno + 1, str(place.statement).strip(), str(call.excinfo.value))


def _of_tests(path: str) -> bool:
    return "tests" in Path(path).parts  # plugins of pytest, hypothesis among them, assert too


def _read(line: int, text: str, explained: str) -> None:
    if record is None:
        return
    first = explained.split("\n", 1)[0]
    for left, sign, right in COMPARISON.findall(first):
        record(line, text, float(left) - float(right) if ">" in sign else float(right) - float(left))
    for value, expected, tolerance in APPROXIMATE.findall(first):
        if float(tolerance) > 0:
            record(line, text, 1 - abs(float(value) - float(expected)) / float(tolerance))


def _watched(check: Callable[..., None], ratio: Callable[..., float | None]) -> Callable[..., None]:
    def watched(actual: Any, expected: Any, *args: Any, **kwargs: Any) -> None:
        frame = sys._getframe(1)
        try:
            check(actual, expected, *args, **kwargs)
        finally:
            if record and _of_tests(frame.f_code.co_filename):
                value = ratio(actual, expected, *args, **kwargs)
                if value is not None:
                    record(frame.f_lineno, f"{check.__name__} in {frame.f_code.co_name}", 1 - value)

    return watched


def _largest_ratio(a: Any, b: Any, rtol: float, atol: float) -> float | None:
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape and a.ndim and b.ndim:
        return None
    if a.dtype.kind not in "fc" and b.dtype.kind not in "fc":
        return None
    with np.errstate(all="ignore"):
        ratios = np.abs(a - b) / (atol + rtol * np.abs(b))
    ratios = ratios[np.isfinite(ratios)]
    return float(ratios.max()) if ratios.size else None


def _allclose_ratio(a: Any, b: Any, rtol: float = 1e-7, atol: float = 0, **_: Any) -> float | None:
    return _largest_ratio(a, b, rtol, atol)


def _close_ratio(a: Any, b: Any, *, rtol: float | None = None, atol: float | None = None, **_: Any) -> float | None:
    import torch

    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return None
    default = 1e-7 if a.dtype == torch.float64 else 1.3e-6
    rtol, atol = default if rtol is None else rtol, default if atol is None else atol
    return _largest_ratio(a.detach().double().cpu().numpy(), b.detach().double().cpu().numpy(), rtol, atol)


# ------------------------------------------------------------------------------- outside pytest: run, then tell


def run(name: str, target: list[str], tests: list[str], folder: Path) -> int:
    """One run of the tests by a target of the Makefile, recorded under ``folder / name``; once."""
    place = folder / name
    if place.exists():
        return 0
    place.mkdir(parents=True, exist_ok=True)
    print(f"{name}: make {' '.join(target)}", flush=True)
    environment = {
        **os.environ,
        "MARGINS": str(place),
        "PYTEST_ADDOPTS": "-p tests.margins -o enable_assertion_pass_hook=true -o verbosity_assertions=2 -q",
        "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),  # asserts are compiled in another way than without the hook
    }
    with (place / "log").open("w") as log:
        command = ["make", *target, f"TESTS={' '.join(tests)}"]
        code = subprocess.run(command, cwd=ROOT, env=environment, stdout=log, stderr=subprocess.STDOUT).returncode
    for line in (place / "log").read_text().splitlines():
        if re.match(r"FAILED|ERROR|=* ?\d+ (passed|failed)", line):
            print("   " + line, flush=True)
    return code


def comparisons(folder: Path) -> Iterator[tuple[str, int, str, list[float]]]:
    """Each comparison with its distances to the limit, one a run."""
    found: dict[tuple[str, int, int], dict[str, float]] = defaultdict(dict)
    texts: dict[tuple[str, int, int], str] = {}
    for path in folder.glob("*/*.jsonl"):
        for row in path.read_text().splitlines():
            test, line, count, text, margin = json.loads(row)[:5]
            found[test, line, count][path.parent.name] = margin
            texts[test, line, count] = text
    for (test, line, count), margins in sorted(found.items()):
        yield test, line, texts[test, line, count], list(margins.values())


def varying(folder: Path) -> list[str]:
    """The tests in which a comparison came out otherwise, or that did not end, in one of the runs so far."""
    lines = [line for path in folder.glob("*/log") for line in path.read_text().splitlines()]
    failed = {line.split(" - ")[0].split(" ", 1)[1] for line in lines if line.startswith("FAILED ")}
    return sorted(failed | {test for test, _, _, margins in comparisons(folder) if len({*margins}) > 1})


def near(folder: Path, deviations: float = 4.0) -> list[tuple[float, str]]:
    """The comparisons whose limit is nearer than so many standard deviations, the nearest of each line of a test."""
    nearest: dict[tuple[str, int], tuple[float, str]] = {}
    for test, line, text, margins in comparisons(folder):
        mean, spread = float(np.mean(margins)), float(np.std(margins, ddof=1)) if len(margins) > 1 else 0.0
        if spread <= 1e-12 * abs(mean) or not math.isfinite(spread):
            continue
        distance = mean / spread
        shown = f"{distance:5.1f}  {test}:{line}  margin {mean:.3g} ± {spread:.2g} of {len(margins)}  {text}"
        if distance < deviations and distance < nearest.get((test, line), (math.inf, ""))[0]:
            nearest[test, line] = (distance, shown)
    return sorted(nearest.values())


def main() -> None:
    """Run, then print what stands too near."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tests", nargs="*", default=[])
    parser.add_argument("--shifts", nargs="*", default=["0", "1", "2", "3", "4", "5"])
    parser.add_argument("--arithmetics", nargs="*", default=["a", "b"])
    parser.add_argument("--folder", type=Path, help="keep the records here; runs that are there are not run again")
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="margins-"))
    runs = [(f"shift-{k}", ["test", f"SHIFT={k}"]) for k in options.shifts]
    runs += [(f"portable-{kind}", ["test-portable", f"ONLY={kind}"]) for kind in options.arithmetics]
    codes = [run(*one, options.tests, folder) for one in runs[:2]]
    some = folder / "some"
    some.write_text("\n".join(varying(folder)))
    codes += [run(*one, [f"@{some}"], folder) for one in runs[2:]]
    rows = near(folder)
    print(f"\n{len(rows)} comparisons stand less than four standard deviations from their limit")
    print("\n".join(shown for _, shown in rows))
    sys.exit(1 if rows or any(codes) else 0)


if __name__ == "__main__":
    main()
