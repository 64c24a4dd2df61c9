"""Fits in processes: stopped when they take too long, kept when they are done, not done twice."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.mixture import GaussianMixture as TheirMixture
from sklearn.neighbors import KernelDensity

import benthic
from benthic.base.errors import InvalidInput
from benthic.data.toys import moons
from benthic.leaderboard.contest import keeping, sharing
from benthic.leaderboard.contest.baselines import OneGaussian, ResampledRows
from benthic.leaderboard.contest.crew import Crew, packable
from benthic.leaderboard.contest.jobs import Caught, Job, TimeUp, do_job, prepared, time_limit
from benthic.leaderboard.contest.material import Material, material_of
from benthic.leaderboard.contest.protocol import Split, split
from benthic.leaderboard.contest.records import Budget, Contestant, Outcome
from benthic.leaderboard.contest.running import Fits, run_jobs
from tests.leaderboard.contest.planted import Dying, Failing, Known, NotFinite, Slow


@pytest.fixture(scope="module")
def material() -> Material:
    rng = np.random.default_rng(0)
    return material_of(rng.normal(size=(200, 2)) @ np.array([[1.0, 0.8], [0.0, 0.5]]))


@pytest.fixture(scope="module")
def parts(material: Material) -> Split:
    return split(material)


def job(model: Any, folder: Path, seed: int = 0, budget: Any = 5, **rest: Any) -> Job:
    contestant = Contestant(type(model).__name__, model)
    return Job(contestant, seed, Budget.of(budget), "flat", folder / f"{contestant.name}-{seed}", **rest)


class Watch:
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []

    def started(self, name: str, seed: int) -> None:
        self.events.append(("started", name))

    def ended(self, outcome: Outcome) -> None:
        self.events.append((outcome.status, outcome.name))


def test_an_outcome_holds_what_was_measured(material: Material, parts: Split, tmp_path: Path) -> None:
    found = do_job(job(benthic.GaussianMixture(2), tmp_path), material, parts)
    assert found.status == "ok"
    assert found.samples.shape == (parts.n, 2)
    assert found.seconds > 0
    assert found.sample_seconds > 0
    assert found.memory >= 0 or math.isnan(found.memory)
    assert found.parameters is not None
    assert found.likelihood is not None
    assert len(found.likelihood.value) == parts.n
    assert found.likelihood.kind == "exact"
    kept = keeping.read_outcome(tmp_path / "GaussianMixture-0", "another name")
    assert kept is not None
    assert kept.name == "another name"
    np.testing.assert_array_equal(kept.samples, found.samples)
    np.testing.assert_array_equal(kept.likelihood.value, found.likelihood.value)
    model = benthic.load(tmp_path / "GaussianMixture-0" / "model.safetensors")
    np.testing.assert_allclose(model.log_prob(parts.first), found.likelihood.value, rtol=1e-9)


def test_a_seed_decides_fit_and_samples(material: Material, parts: Split, tmp_path: Path) -> None:
    a, b = (do_job(job(benthic.GaussianMixture(3), tmp_path / name), material, parts) for name in "ab")
    np.testing.assert_array_equal(a.samples, b.samples)
    other = do_job(job(benthic.GaussianMixture(3), tmp_path, seed=1), material, parts)
    assert not np.array_equal(a.samples, other.samples)


@pytest.mark.parametrize(
    ("model", "status", "text"),
    [
        (Failing(), "failed", "the fit failed: RuntimeError: no luck today"),
        (NotFinite(), "not finite", "% of its samples hold NaN"),
        (Slow(30), "out of budget", "the fit was stopped after"),
        (Slow(1.4), "out of budget", "the fit took"),
    ],
)
def test_what_goes_wrong_is_an_outcome(
    model: Any,
    status: str,
    text: str,
    material: Material,
    parts: Split,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Job, "limit", property(lambda self: 2.0))
    found = do_job(job(model, tmp_path, budget=0.2), material, parts)
    assert found.status == status
    assert text in found.reason
    assert found.folder is not None
    kept = keeping.read_outcome(found.folder, found.name)
    assert kept is not None
    assert kept.status == status
    assert kept.reason == found.reason


def test_a_fit_may_take_twice_its_budget_and_ten_seconds_before_it_is_stopped(tmp_path: Path) -> None:
    assert job(Slow(), tmp_path, budget=3).limit == 16
    assert job(Slow(), tmp_path, budget={"parameters": 3}).limit == math.inf


def test_sampling_that_takes_too_long_fails(material: Material, parts: Split, tmp_path: Path) -> None:
    class Late(Slow):
        def fit(self, X: Any, y: Any = None) -> Any:
            return self

        def sample(self, n: int, *, seed: int = 0) -> Any:
            return super().fit(np.zeros((2, 2)))

    found = do_job(job(Late(30), tmp_path, patience=0.3), material, parts)
    assert found.status == "failed"
    assert "sampling failed: TimeUp: it took longer than 0.3 s" in found.reason


def test_models_of_others_are_sampled_and_asked_for_likelihoods(
    material: Material, parts: Split, tmp_path: Path
) -> None:
    for model in (TheirMixture(2), KernelDensity(bandwidth=0.3)):
        one, two = (do_job(job(model, tmp_path, seed), material, parts) for seed in (0, 1))
        assert one.status == "ok"
        assert one.likelihood is not None
        assert (one.likelihood.kind, one.likelihood.measure) == ("exact", "density")
        assert not np.array_equal(one.samples, two.samples)


def test_budgets_reach_the_trainer() -> None:
    seconds = prepared(benthic.VAE(trainer={"lr": 0.01}), Budget("seconds", 7), 3)
    assert seconds.trainer == {"lr": 0.01, "seconds": 7.0, "verbose": False}
    assert seconds.random_state == 3
    evaluations = prepared(benthic.VAE(trainer={"batch_size": 50}), Budget("evaluations", 1000), 0)
    assert (evaluations.trainer["steps"], evaluations.trainer["batch_size"]) == (20, 50)
    plain = prepared(OneGaussian(), Budget("seconds", 7), 5)
    assert plain.random_state == 5


def test_a_budget_of_parameters_is_held_against_the_fit(material: Material, parts: Split, tmp_path: Path) -> None:
    found = do_job(job(benthic.GaussianMixture(3), tmp_path, budget={"parameters": 10}), material, parts)
    assert found.status == "out of budget"
    assert "parameters of 10 parameters a fit" in found.reason
    assert found.samples is not None


def test_keys_follow_model_seed_budget_and_data() -> None:
    def key(model: Any = None, seed: int = 0, budget: float = 5, data: str = "x") -> str:
        return keeping.key_of(Contestant("a", model or benthic.VAE()), seed, Budget.of(budget), data)

    assert key() == key(benthic.VAE())
    others = [
        key(benthic.VAE(latent_dim=3)),
        key(benthic.VAE(trainer={"lr": 0.1})),
        key(benthic.WGAN()),
        key(seed=1),
        key(budget=6),
        key(data="y"),
        key(Known(moons())),
        key(Known(moons(0.2))),
    ]
    assert len({key(), *others}) == len(others) + 1


def test_a_half_written_outcome_does_not_count(material: Material, parts: Split, tmp_path: Path) -> None:
    found = do_job(job(ResampledRows(), tmp_path), material, parts)
    folder = found.folder
    assert folder is not None
    (folder / "arrays.npz").write_bytes(b"PK broken")
    assert keeping.read_outcome(folder, "a") is None
    (folder / "outcome.json").write_text('{"name": ')
    assert keeping.read_outcome(folder, "a") is None
    assert keeping.read_outcome(tmp_path / "nowhere", "a") is None


def test_time_of_fitting_counts_overlaps_once(material: Material, parts: Split) -> None:
    fits = Fits([], material, parts)
    fits.spans = [(0.0, 2.0), (1.0, 3.0), (5.0, 6.0)]
    assert fits.fitting() == 4.0


def test_what_is_kept_is_not_fitted_again(material: Material, parts: Split, tmp_path: Path) -> None:
    jobs = [job(ResampledRows(), tmp_path, seed) for seed in range(2)]
    watch = Watch()
    first = run_jobs(jobs, material, parts, 0, watch)
    assert [event for event, _ in watch.events] == ["started", "ok"] * 2
    path = jobs[0].folder / "outcome.json"
    tree = json.loads(path.read_text())
    path.write_text(json.dumps({**tree, "seconds": 123.0}))
    again = Watch()
    second = run_jobs(jobs, material, parts, 0, again)
    assert second[0].seconds == 123.0
    assert [event for event, _ in again.events] == ["ok"] * 2
    np.testing.assert_array_equal(first[1].samples, second[1].samples)


@pytest.mark.seeds("a process of its own does not see the shift, and its samples are compared with those made here")
def test_processes_fit_stop_and_replace_each_other(material: Material, parts: Split, tmp_path: Path) -> None:
    """One process does all of it: a fit, one that dies, one that fails, then a fit again by the next process."""
    jobs = [
        job(benthic.GaussianMixture(2), tmp_path),
        job(Dying(), tmp_path),
        job(Failing(), tmp_path),
        job(ResampledRows(), tmp_path),
    ]
    watch = Watch()
    found = run_jobs(jobs, material, parts, 1, watch)
    assert [one.status for one in found] == ["ok", "failed", "failed", "ok"]
    assert "its process ended by code 3" in found[1].reason
    here = do_job(job(benthic.GaussianMixture(2), tmp_path / "here"), material, parts)
    np.testing.assert_allclose(found[0].samples, here.samples)
    assert watch.events[0] == ("started", "GaussianMixture")


@pytest.mark.slow
def test_a_fit_that_hears_nothing_is_ended_with_its_process(material: Material, parts: Split, tmp_path: Path) -> None:
    found = run_jobs(
        [job(Slow(120, deep=True), tmp_path, budget=0.2), job(ResampledRows(), tmp_path)], material, parts, 1
    )
    assert found[0].status == "out of budget"
    assert "the fit was stopped" in found[0].reason
    assert found[1].status == "ok"


_SCRIPT = """
import numpy as np, benthic
from tests.leaderboard.contest.planted import Slow
X = np.random.default_rng(0).normal(size=(100, 2))
found = benthic.compare([Slow(1.0)], X, budget=5, baselines=False, progress=False, folder={folder!r})
print(found.line("Slow").fits, found.overhead)
"""


@pytest.mark.slow
def test_a_run_that_is_killed_goes_on_from_what_it_kept(tmp_path: Path) -> None:
    """A script without main guard is killed after a fit: its worker goes too, and the next run does the rest."""
    command = [sys.executable, "-c", _SCRIPT.format(folder=str(tmp_path))]
    surroundings = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    process = subprocess.Popen(command, env=surroundings)
    end = time.monotonic() + 120
    while not list(tmp_path.glob("fits/*/outcome.json")) and time.monotonic() < end:
        time.sleep(0.02)
    process.kill()
    process.wait()
    time.sleep(3)  # a worker looks once a second whether anybody is there
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("fits/*/outcome.json")}
    assert 1 <= len(before) < 3
    subprocess.run(command, env=surroundings, check=True, timeout=300)
    after = {path: path.stat().st_mtime_ns for path in tmp_path.glob("fits/*/outcome.json")}
    assert len(after) == 3
    assert all(after[path] == when for path, when in before.items())
    assert json.loads((tmp_path / "comparison.json").read_text())["lines"][0]["status"] == "ok"


_SHARED = """
import numpy as np, benthic
from benthic.leaderboard.contest.baselines import OneGaussian, ResampledRows
X = np.random.default_rng(0).normal(size=(100, 2))
models = {{"a": OneGaussian(), "b": ResampledRows(), "c": benthic.GaussianMixture(2)}}
found = benthic.compare(models, X, budget=5, seeds=2, progress=False, folder={folder!r})
print([(line.name, line.quality) for line in found.lines])
"""


@pytest.mark.slow
def test_processes_of_torchrun_share_the_fits_and_agree(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _SHARED.format(folder=str(tmp_path))]
    runs = []
    for rank in range(2):
        place = {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank), "MASTER_ADDR": "127.0.0.1"}
        runs.append(subprocess.Popen(command, env={**os.environ, **place}, stdout=subprocess.PIPE, text=True))
    said = [run.communicate(timeout=300)[0] for run in runs]
    assert [run.returncode for run in runs] == [0, 0]
    assert said[0] == said[1]
    assert len(list(tmp_path.glob("fits/*/outcome.json"))) == 10  # with the baselines, each fitted once


def test_several_processes_need_a_folder_between_them(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(0).normal(size=(60, 2))
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InvalidInput, match="share the work through a folder"):
        benthic.compare([ResampledRows()], X, progress=False)
    with pytest.raises(InvalidInput, match="searched for by one process"):
        benthic.compare([ResampledRows()], X, progress=False, folder="unused", tune=3)
    with sharing.apart():
        assert "WORLD_SIZE" not in os.environ
        assert sharing.place_of() == (1, 2)
        assert [number for number in range(4) if sharing.is_ours(number)] == [1, 3]
    assert sharing.place_of() == (1, 2)
    assert os.environ["WORLD_SIZE"] == "2"


def test_what_cannot_be_sent_is_fitted_here(material: Material, parts: Split, tmp_path: Path) -> None:
    local = type("Local", (ResampledRows,), {})
    assert packable(job(ResampledRows(), tmp_path))
    assert packable(job(local(), tmp_path))  # by value
    held = local()
    held.lock = threading.Lock()
    assert not packable(job(held, tmp_path))
    found = run_jobs([job(held, tmp_path)], material, parts, 1)
    assert found[0].status == "ok"


@pytest.mark.parametrize("count", [-2, 1.5, True])
def test_what_is_no_number_of_processes_is_refused(count: Any, material: Material, parts: Split) -> None:
    with pytest.raises(InvalidInput, match="n_jobs is"):
        run_jobs([], material, parts, count)


def test_time_limits_end_python_and_leave_the_signal_as_it_was() -> None:
    import signal

    before = signal.getsignal(signal.SIGALRM)
    with Caught() as caught, time_limit(0.05):
        Slow(20).fit(np.zeros((2, 2)))
    assert isinstance(caught.error, TimeUp)
    assert signal.getsignal(signal.SIGALRM) is before
    with pytest.raises(KeyboardInterrupt), Caught():
        raise KeyboardInterrupt


def test_memory_of_a_fit_is_seen() -> None:
    # in a process of its own, as fits are: in this one, what other tests left may go meanwhile
    script = """
import numpy as np
from benthic.leaderboard.contest import resources

peak = resources.Peak()
held = np.ones(20_000_000)
print(peak.used() / held.nbytes)
"""
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert math.isnan(float(said)) or 0.9 < float(said) < 1.1


def test_a_process_takes_the_kinds_it_knows_and_leaves_others_to_others() -> None:
    crew = Crew(len, None, 2)
    one, two = SimpleNamespace(kinds=set()), SimpleNamespace(kinds=set())
    crew._hands = [one, two]
    waiting, taken = ["a0", "a1", "b0", "b1", "c0"], []
    for hand in (one, two, one, two, one):
        taken.append(waiting.pop(crew._choice(hand, waiting, lambda job: job[0])))
    assert taken == ["a0", "b0", "a1", "b1", "c0"]
    assert crew._choice(two, ["c1"], lambda job: job[0]) == 0  # rather another's kind than nothing
