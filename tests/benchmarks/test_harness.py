"""The harness measures what it says: pairs, medians, intervals, and a table that follows the results."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks import report
from benchmarks.__main__ import TASKS, main, task
from benchmarks.harness import Interval, Timings, alternate, median_interval, python
from benchmarks.report import Claim, Result, exact


class Clock:
    """A clock that candidates move by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def spend(self, seconds: float) -> None:
        self.now += seconds


def test_alternate_times_each_candidate_and_drops_the_warm_up():
    clock, order = Clock(), []

    def candidate(name, seconds):
        def work():
            order.append(name)
            clock.spend(seconds if len(order) > 2 else 100.0)
            return {"loss": seconds}

        return work

    timings = alternate({"a": candidate("a", 1.0), "b": candidate("b", 3.0)}, repeats=3, clock=clock)
    assert timings.seconds == {"a": [1.0] * 3, "b": [3.0] * 3}
    assert timings.quality == {"a": {"loss": 1.0}, "b": {"loss": 3.0}}
    assert order == ["a", "b", "b", "a", "a", "b", "b", "a"]


def test_a_candidate_that_measures_itself_is_believed():
    timings = alternate({"own": lambda: {"seconds": 7.0, "peak": 1.0}}, repeats=2, warmup=0)
    assert timings.seconds["own"] == [7.0, 7.0]
    assert timings.quality["own"] == {"peak": 1.0}


def test_the_ratio_is_paired_so_that_common_noise_cancels():
    noise = np.random.default_rng(0).lognormal(sigma=1.0, size=9)
    timings = Timings({"slow": list(3 * noise), "fast": list(noise)})
    ratio = timings.ratio("slow", "fast")
    np.testing.assert_allclose([ratio.value, ratio.low, ratio.high], 3.0)


def test_the_bootstrap_interval_covers_the_true_median():
    rng = np.random.default_rng(1)
    found = [median_interval(rng.normal(size=25), draws=500) for _ in range(200)]
    covered = np.mean([interval.low <= 0.0 <= interval.high for interval in found])
    assert 0.90 <= covered <= 0.99  # 95 % nominal; three standard errors of 200 trials are 0.046


@pytest.mark.parametrize(("relation", "limit", "kept"), [("<=", 1.0, False), (">=", 1.0, True), ("<=", 2.0, True)])
def test_a_claim_is_judged_by_its_median(relation, limit, kept):
    assert Claim("x", Interval(1.5, 0.5, 2.5), relation, limit).kept is kept


def test_the_table_is_rendered_from_kept_results_and_replaces_the_old_one(tmp_path):
    result = Result("demo", "a title", [Claim("peer / ours", Interval(5.43, 5.1, 5.8), ">=", 5.0, "x")])
    path = report.keep(result, tmp_path)
    assert json.loads(path.read_text())["machine"]["cores"] >= 1
    claims, _ = report.load(path)
    assert claims == result.claims
    page = tmp_path / "page.md"
    page.write_text(f"before\n{report.START}\nold\n{report.END}\nafter\n")
    for _ in range(2):
        report.write_table(page, tmp_path)
    text = page.read_text()
    assert "| demo | peer / ours | 5.43x | 5.1 to 5.8 | ≥ 5x | kept |" in text
    assert text.startswith("before\n") and text.endswith("after\n") and "old" not in text
    assert text.count(report.START) == 1


def test_a_page_without_marks_is_refused(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("nothing here")
    with pytest.raises(ValueError, match="the table goes between them"):
        report.write_table(page, tmp_path)


def test_a_failing_subprocess_tells_why():
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        python("-c", "1 / 0")


def test_a_missed_claim_makes_the_run_fail(monkeypatch, capsys):
    import benchmarks.import_time as stand_in

    for value, code in ((1.0, 0), (3.0, 1)):
        claim = Claim("seconds", exact(value), "<=", 2.0)
        monkeypatch.setattr(stand_in, "run", lambda quick, claim=claim: Result("import_time", "", [claim]))
        assert main(["import_time", "--quick"]) == code
    assert "missed: import_time" in capsys.readouterr().out


def test_every_task_has_a_title_and_an_unknown_one_is_named(capsys):
    assert all(task(name).TITLE for name in TASKS)
    with pytest.raises(SystemExit):
        main(["no_such_task"])
    assert "no task no_such_task" in capsys.readouterr().err
