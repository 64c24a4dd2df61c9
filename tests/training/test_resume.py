"""A run that was killed and resumed ends bit-identical to one that was not."""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

import benthic
from benthic.base.errors import Interrupted, InvalidInput, ModelFileError
from benthic.base.modelfile import load_tree, save_tree
from benthic.base.seeds import drawing, streams
from benthic.data.batch import Batch
from benthic.nets.mlp import MLP
from benthic.training.callbacks import Callback
from benthic.training.checkpoint import CheckpointFolder
from benthic.training.distributed import World
from benthic.training.foreign import draws_by_itself
from benthic.training.gradient import GradientLearner, Player
from benthic.training.trainer import Checkpoint, Trainer
from tests.training.problems import feed_of, linear_learner, regression, run, weights

X = np.random.default_rng(0).normal(size=(300, 6)).astype(np.float32)
y = (X[:, 0] + X[:, 1] ** 2 > 0.5).astype(int)


class StopAt(Callback):
    """Raise in the middle of training, as a crash would."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step(self, moment, info):
        if moment.step == self.step:
            raise RuntimeError("crash")


def settings(folder, **more):
    return {
        "epochs": 6,
        "batch_size": 32,
        "lr": 0.01,
        "schedule": "warmup_cosine",
        "ema": 0.9,
        "clip": 1.0,
        "checkpoint": {"folder": str(folder), "every_steps": 7},
        **more,
    }


def mlp(folder, **more):
    return benthic.MLPClassifier((16,), dropout=0.3, trainer=settings(folder, **more), random_state=1)


def vae(folder, **more):
    return benthic.VAE(2, hidden_layer_sizes=(16,), trainer=settings(folder, **more), random_state=1)


def warm_vae(folder, **more):
    """A crash may come before, in and after the warm-up, which ends at step 30 of 60."""
    settled = settings(folder, **more)
    return benthic.VAE(2, hidden_layer_sizes=(16,), kl_warmup=0.5, trainer=settled, random_state=1)


def weights_of(model) -> dict[str, torch.Tensor]:
    return model.network_.state_dict()


@pytest.mark.parametrize("make", [mlp, vae, warm_vae])
@pytest.mark.parametrize("crash", [8, 20, 36])
def test_resume_in_the_middle_of_an_epoch_is_bit_exact(tmp_path, make, crash):
    whole = make(tmp_path / "whole").fit(X, y)
    with pytest.raises(RuntimeError, match="crash"):
        make(tmp_path / "cut", callbacks=(StopAt(crash),)).fit(X, y)
    resumed = make(tmp_path / "cut", resume=True).fit(X, y)
    for name, value in weights_of(whole).items():
        assert torch.equal(value, weights_of(resumed)[name]), name
    assert resumed.history_ == whole.history_
    assert (tmp_path / "cut/metrics.jsonl").read_text() == (tmp_path / "whole/metrics.jsonl").read_text()


def test_early_stopping_survives_a_resume(tmp_path):
    stopping = {"patience": 2, "fraction": 0.2}
    whole = mlp(tmp_path / "whole", epochs=12, early_stopping=stopping).fit(X, y)
    with pytest.raises(RuntimeError, match="crash"):
        mlp(tmp_path / "cut", epochs=12, early_stopping=stopping, callbacks=(StopAt(22),)).fit(X, y)
    resumed = mlp(tmp_path / "cut", epochs=12, early_stopping=stopping, resume=True).fit(X, y)
    assert all(torch.equal(v, weights_of(resumed)[k]) for k, v in weights_of(whole).items())


@pytest.mark.seeds("a seed that was read from a checkpoint is given again")
def test_a_run_without_random_state_resumes_with_its_own_seed(tmp_path):
    first = benthic.MLPClassifier((8,), trainer=settings(tmp_path, callbacks=(StopAt(20),)))
    with pytest.raises(RuntimeError, match="crash"):
        first.fit(X, y)
    seed = CheckpointFolder(Checkpoint(str(tmp_path)), World()).read()["seed"]
    resumed = benthic.MLPClassifier((8,), trainer=settings(tmp_path, resume=True)).fit(X, y)
    whole = benthic.MLPClassifier((8,), trainer=settings(tmp_path / "whole"), random_state=seed).fit(X, y)
    assert all(torch.equal(v, weights_of(resumed)[k]) for k, v in weights_of(whole).items())


def test_resume_without_a_checkpoint_starts_and_of_a_finished_run_ends_at_once(tmp_path):
    model = mlp(tmp_path, resume=True).fit(X, y)
    steps = []

    class Count(Callback):
        def on_step(self, moment, info):
            steps.append(moment.step)

    again = mlp(tmp_path, resume=True, callbacks=(Count(),)).fit(X, y)
    assert steps == []
    assert all(torch.equal(v, weights_of(again)[k]) for k, v in weights_of(model).items())


def test_resume_with_other_data_is_refused(tmp_path):
    mlp(tmp_path).fit(X, y)
    with pytest.raises(InvalidInput, match="started with rows 300, now it is 200"):
        mlp(tmp_path, resume=True).fit(X[:200], y[:200])


@pytest.mark.parametrize("change", ["one number of a sampled row", "one number elsewhere", "the order", "a label"])
def test_resume_with_other_data_of_the_same_length_is_refused(tmp_path, change):
    mlp(tmp_path, steps=20, epochs=None).fit(X, y)
    rows, labels = X.copy(), y.copy()
    if change == "the order":
        rows, labels = rows[::-1].copy(), labels[::-1].copy()
    elif change == "a label":
        labels[7] = 1 - labels[7]
    else:
        rows[0 if "sampled" in change else 150, 2] += 1e-3
    with pytest.raises(InvalidInput, match=r"started with other data .* new_data=True"):
        mlp(tmp_path, steps=40, epochs=None, resume=True).fit(rows, labels)
    known = mlp(tmp_path, steps=40, epochs=None, resume=True, new_data=True).fit(rows[:200], labels[:200])
    assert known.history_[-1]["step"] == 40
    with pytest.raises(InvalidInput, match="new_data goes with resume"):
        mlp(tmp_path, new_data=True).fit(X, y)


def test_a_checkpoint_that_does_not_know_its_data_is_taken(tmp_path):
    whole = mlp(tmp_path).fit(X, y)
    path = CheckpointFolder(Checkpoint(str(tmp_path)), World()).newest()
    state = load_tree(path)
    del state["data"]
    save_tree(path, state)
    resumed = mlp(tmp_path, resume=True).fit(X, y)
    assert all(torch.equal(v, weights_of(resumed)[k]) for k, v in weights_of(whole).items())


def test_a_file_is_known_by_some_of_its_rows(tmp_path):
    table = tmp_path / "rows.csv"

    def written(rows) -> str:
        table.write_text("a,b\n" + "".join(f"{a},{b}\n" for a, b in rows))
        return str(table)

    mixture = benthic.GaussianMixture(2, trainer={"checkpoint": str(tmp_path / "run")}, random_state=0)
    mixture.fit(written(X[:, :2]))
    again = mixture.set_params(trainer={"checkpoint": str(tmp_path / "run"), "resume": True})
    again.fit(written(X[:, :2]))
    with pytest.raises(InvalidInput, match="started with other data"):
        again.fit(written(X[::-1, :2]))


class Doubting(torch.nn.Module):
    """A person's own network, which draws by itself in training."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(6, 8)
        self.outer = torch.nn.Linear(8, 6)

    def forward(self, x):
        return self.outer(torch.nn.functional.dropout(torch.relu(self.inner(x)), 0.3, self.training))


def test_a_module_that_draws_by_itself_resumes_to_the_bit_and_leaves_torch_alone(tmp_path):
    def learner(folder, **more):
        trainer = Trainer.of(settings(folder, **more))
        with drawing(5):
            network = Doubting()
        player = Player(network, lambda batch: (network(batch.X) - batch.X).square().sum(), trainer)
        run(GradientLearner({"fit": player}, trainer), feed_of(Batch(torch.from_numpy(X)), trainer), trainer)
        return network.state_dict()

    before = torch.get_rng_state()
    whole = learner(tmp_path / "whole")
    torch.rand(3)
    assert all(torch.equal(value, whole[name]) for name, value in learner(tmp_path / "again").items())
    with pytest.raises(RuntimeError, match="crash"):
        learner(tmp_path / "cut", callbacks=(StopAt(20),))
    resumed = learner(tmp_path / "cut", resume=True)
    assert all(torch.equal(value, whole[name]) for name, value in resumed.items())
    torch.set_rng_state(before)


def test_modules_that_draw_by_themselves_are_trained_one_at_a_time():
    trainer = Trainer(epochs=3, batch_size=32, verbose=False)

    def fit(_: int = 0) -> dict[str, torch.Tensor]:
        with drawing(5):
            network = Doubting()
            player = Player(network, lambda batch: (network(batch.X) - batch.X).square().sum(), trainer)
        with streams(5):
            run(GradientLearner({"fit": player}, trainer), feed_of(Batch(torch.from_numpy(X)), trainer), trainer)
        return network.state_dict()

    alone, before = fit(), torch.get_rng_state()
    with ThreadPoolExecutor(4) as threads:
        for found in threads.map(fit, range(8)):
            assert all(torch.equal(value, alone[name]) for name, value in found.items())
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("module", "draws"),
    [
        (torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()), False),
        (torch.nn.LSTM(2, 2, num_layers=2), False),
        (torch.nn.LSTM(2, 2, num_layers=2, dropout=0.1), True),
        (torch.nn.MultiheadAttention(2, 1, dropout=0.1), True),
        (torch.nn.TransformerEncoderLayer(2, 1), True),
        (MLP([2, 3, 1], dropout=0.1), False),
        (Doubting(), True),
    ],
    ids=lambda value: type(value).__name__,
)
def test_which_modules_may_draw_by_themselves(module, draws):
    assert draws_by_itself(module) is draws


def test_a_damaged_newest_checkpoint_is_passed_over(tmp_path):
    mlp(tmp_path).fit(X, y)
    files = sorted((tmp_path / "checkpoints").glob("step-*"))
    assert len(files) == 2
    files[-1].write_bytes(files[-1].read_bytes()[:-50])
    assert load_tree(files[0])["step"] == CheckpointFolder(Checkpoint(str(tmp_path)), World()).read()["step"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_finishes_the_step_saves_and_says_how_to_go_on(tmp_path, request, number):
    class Press(Callback):
        def on_step(self, moment, info):
            if moment.step == 9:
                os.kill(os.getpid(), number)

    # a background job ignores Ctrl-C from the start; here somebody sits at the terminal
    usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
    before = signal.signal(number, usual)
    request.addfinalizer(lambda: signal.signal(number, before))
    whole = mlp(tmp_path / "whole").fit(X, y)
    with pytest.raises(Interrupted, match="stopped at step .* go on with `benthic resume"):
        mlp(tmp_path / "cut", callbacks=(Press(),)).fit(X, y)
    resumed = mlp(tmp_path / "cut", resume=True).fit(X, y)
    assert all(torch.equal(v, weights_of(resumed)[k]) for k, v in weights_of(whole).items())
    assert signal.getsignal(number) is usual


def test_a_folder_that_cannot_be_written_is_refused_before_training(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    with pytest.raises(InvalidInput, match="cannot be written"):
        mlp(blocked).fit(X, y)


def test_a_full_disk_keeps_the_last_good_checkpoint(tmp_path, monkeypatch):
    import benthic.training.checkpoint as module

    real, count = module.write_atomic, [0]

    def full(path, data):
        count[0] += 1
        if count[0] == 4:  # the probe, then two checkpoints, then no space
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(path, data)

    monkeypatch.setattr(module, "write_atomic", full)
    with pytest.raises(OSError, match="the disk is full; the last good checkpoint is .*step-0000000014"):
        mlp(tmp_path).fit(X, y)
    monkeypatch.undo()
    assert CheckpointFolder(Checkpoint(str(tmp_path)), World()).read()["step"] == 14


def test_checkpoints_by_time_take_a_small_share(tmp_path):
    trainer = Trainer(epochs=1, checkpoint={"folder": str(tmp_path), "every_seconds": 0.0})
    folder = CheckpointFolder(trainer.saving, World())
    start = time.perf_counter()
    folder.write({"a": np.zeros(100_000)}, 1)
    cost = time.perf_counter() - start
    assert not folder.due(2)
    assert folder._wait >= 0.9 * cost / 0.02


def test_pass_learners_resume_too(tmp_path):
    batch = regression()
    trainer = Trainer(epochs=3, batch_size=16, lr=0.01, checkpoint={"folder": str(tmp_path), "every_steps": 1})
    learner = linear_learner(trainer)
    run(learner, feed_of(batch, trainer), trainer)
    again = linear_learner(trainer)
    run(again, feed_of(batch, trainer), Trainer(**{**trainer.to_tree(), "resume": True}))
    np.testing.assert_array_equal(weights(again), weights(learner))


KILLED = """
import sys, numpy as np, benthic
rng = np.random.default_rng(0)
X = rng.normal(size=(400, 5)).astype(np.float32); y = (X[:, 0] > 0).astype(int)
model = benthic.MLPClassifier((16,), dropout=0.2, random_state=3, trainer=dict(
    epochs=16, batch_size=16, lr=0.01, checkpoint=dict(folder=sys.argv[1], every_steps=1), resume=True))
model.fit(X, y).save(sys.argv[1] + "/model.safetensors")
assert "torch._dynamo" not in sys.modules, "training loads a compiler, which takes a second, and does not use it"
"""


def _start(folder: Path) -> subprocess.Popen:
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([sys.executable, "-c", KILLED, str(folder)], env=env)


def test_kill_minus_nine_at_random_moments(tmp_path):
    assert _start(tmp_path / "whole").wait() == 0
    cut, rng = tmp_path / "cut", random.Random(0)
    kills = 0
    while kills < 4:
        process = _start(cut)
        before = _newest(cut)
        while process.poll() is None and _newest(cut) <= before + rng.randint(10, 60):
            time.sleep(0.005)
        if process.poll() is not None:
            break
        process.kill()
        process.wait()
        kills += 1
        for file in (cut / "checkpoints").glob("step-*.safetensors"):
            load_tree(file)  # never unreadable
    assert kills >= 3
    assert _start(cut).wait() == 0
    assert (cut / "model.safetensors").read_bytes() != b""
    a, b = benthic.load(tmp_path / "whole/model.safetensors"), benthic.load(cut / "model.safetensors")
    assert all(torch.equal(v, weights_of(b)[k]) for k, v in weights_of(a).items())
    assert not list((cut / "checkpoints").glob(".*partial"))


def _newest(folder: Path) -> int:
    steps = [int(p.stem.split("-")[1]) for p in (folder / "checkpoints").glob("step-*.safetensors")]
    return max(steps, default=0)


def forged(folder: Path, **changes: object) -> None:
    """The newest checkpoint with other entries; those that are None go."""
    path = sorted((folder / "checkpoints").glob("step-*"))[-1]
    state = {**load_tree(path), **changes}
    for old in (folder / "checkpoints").glob("step-*"):
        old.unlink()
    save_tree(path, {name: value for name, value in state.items() if value is not None})


@pytest.fixture(scope="module")
def stopped(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("stopped")
    with pytest.raises(RuntimeError, match="crash"):
        mlp(folder, callbacks=(StopAt(20),)).fit(X, y)
    return folder


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"step": "three"}, "step is 'three'"),
        ({"step": -3}, "step is -3"),
        ({"seed": None}, "has no seed"),
        ({"seed": [1]}, r"seed is \[1\]"),
        ({"history": 5}, "history is 5"),
        ({"random": []}, r"random is \[\]"),
        ({"random": [{"cpu": "word"}]}, "fits no such run"),
        ({"random": [{"cpu": torch.zeros(3, dtype=torch.uint8)}]}, "fits no such run"),
        ({"learner": 3}, "learner is 3"),
        ({"learner": {}}, "fits no such run"),
        ({"learner": {"fit": {"network": {"weight": 3}}}}, "fits no such run"),
        ({"learner": {"fit": {"network": {"layers": torch.zeros(2)}}}}, "fits no such run"),
        ({"surroundings": 3}, "surroundings is 3"),
        ({"done": np.zeros(3)}, "done is array"),
    ],
)
def test_a_forged_checkpoint_is_one_error(stopped, tmp_path, changes, words):
    shutil.copytree(stopped, tmp_path / "run")
    forged(tmp_path / "run", **changes)
    with pytest.raises(ModelFileError, match=words):
        benthic.MLPClassifier((16,), dropout=0.3, trainer=settings(tmp_path / "run", resume=True)).fit(X, y)


def test_a_checkpoint_that_is_none(tmp_path):
    (tmp_path / "checkpoints").mkdir()
    save_tree(tmp_path / "checkpoints/step-0000000003.safetensors", [1, 2])
    with pytest.raises(ModelFileError, match="is no checkpoint"):
        mlp(tmp_path, resume=True).fit(X, y)


def test_a_network_of_another_size_says_so(stopped, tmp_path):
    shutil.copytree(stopped, tmp_path / "run")
    with pytest.raises(ModelFileError, match="size mismatch.*resume with the same settings"):
        benthic.MLPClassifier((8,), trainer=settings(tmp_path / "run", resume=True), random_state=1).fit(X, y)
