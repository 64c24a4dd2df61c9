"""The loop: exact accumulation, averaging, clipping, schedules, stopping, players, errors."""

from __future__ import annotations

import json
import math
import re
import time
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn

from benthic.base.errors import InvalidInput, NonFiniteLoss
from benthic.data.batch import Batch
from benthic.training.callbacks import Callback
from benthic.training.gradient import GradientLearner, Player
from benthic.training.loop import Loop
from benthic.training.trainer import EarlyStopping, Trainer
from tests.training.problems import CPU, MeanLearner, feed_of, linear_learner, regression, run, weights


def trained(batch: Batch, **settings) -> np.ndarray:
    trainer = Trainer(**{"epochs": 5, "batch_size": 16, "lr": 0.05, "precision": "float64", **settings})
    learner = linear_learner(trainer)
    run(learner, feed_of(batch, trainer), trainer)
    return weights(learner)


def test_gradient_descent_matches_a_hand_written_loop():
    batch = regression()
    network = nn.Linear(3, 1).double()
    nn.init.zeros_(network.weight)
    nn.init.zeros_(network.bias)
    trainer = Trainer(epochs=5, batch_size=16, lr=0.05, optimizer="sgd", precision="float64")
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05)
    for epoch in range(5):
        for part in feed_of(batch, trainer).open(epoch):
            optimizer.zero_grad()
            loss = (network(part.batch.X)[:, 0] - part.batch.y).square().mean()
            loss.backward()
            optimizer.step()
    by_hand = torch.cat([p.detach().reshape(-1) for p in network.parameters()]).numpy()
    np.testing.assert_allclose(trained(batch, optimizer="sgd"), by_hand, rtol=1e-12)


def test_accumulated_batches_equal_one_batch():
    np.testing.assert_allclose(trained(regression(), accumulate=3), trained(regression()), rtol=1e-10)


def test_accumulation_is_exact_for_unequal_weights():
    batch = regression()
    weighted = batch._replace(weight=torch.linspace(0.0, 3.0, 64, dtype=torch.float64))
    np.testing.assert_allclose(trained(weighted, accumulate=4), trained(weighted), rtol=1e-10)


def test_a_weight_of_two_equals_a_repeated_row_in_a_full_batch():
    batch = regression(20)
    weight = torch.ones(20, dtype=torch.float64)
    weight[:5] = 2.0
    repeated = Batch(torch.cat([batch.X, batch.X[:5]]), torch.cat([batch.y, batch.y[:5]]))
    by_weight = trained(batch._replace(weight=weight), batch_size=64)
    np.testing.assert_allclose(by_weight, trained(repeated, batch_size=64), rtol=1e-10)


def test_the_average_of_weights_follows_its_recursion():
    batch = regression()
    trainer = Trainer(steps=3, batch_size=64, lr=0.1, optimizer="sgd", ema=0.9, precision="float64")
    learner = linear_learner(trainer)
    seen = []

    class Watch(Callback):
        def on_step(self, moment, info):
            seen.append(weights(learner))

    run(learner, feed_of(batch, trainer), Trainer(**{**trainer.to_tree(), "callbacks": (Watch(),)}))
    shares = np.array([0.81, 0.9, 1.0])  # the weights before the first step have no share
    np.testing.assert_allclose(weights(learner), shares @ np.array(seen) / shares.sum(), rtol=1e-12)


def test_clipping_bounds_the_step():
    batch = regression()
    moved = trained(batch, steps=1, epochs=None, optimizer="sgd", lr=1.0, clip=0.01)
    assert np.linalg.norm(moved) == pytest.approx(0.01, rel=1e-4)


def test_cosine_schedule_with_warmup_reaches_its_ends():
    trainer = Trainer(steps=10, batch_size=64, lr=0.2, schedule={"name": "cosine", "warmup": 2})
    rates = []

    class Watch(Callback):
        def on_step(self, moment, info):
            rates.append(moment.rate())

    run(
        linear_learner(trainer),
        feed_of(regression(), trainer),
        Trainer(**{**trainer.to_tree(), "callbacks": (Watch(),)}),
    )
    assert rates[0] == pytest.approx(0.1) and rates[2] == pytest.approx(0.2)
    assert rates[-1] < 0.02 and all(a >= b for a, b in pairwise(rates[2:]))


def test_early_stopping_goes_back_to_the_best_epoch():
    batch, held = regression(64), regression(64)
    trainer = Trainer(epochs=200, batch_size=64, lr=0.3, optimizer="sgd", early_stopping=EarlyStopping(3))
    # a rate that overshoots: the held-out loss falls, then the schedule drives it up again
    trainer = Trainer(**{**trainer.to_tree(), "schedule": lambda step, total: 1.0 if step < 20 else -1.0})
    learner = linear_learner(trainer)
    loop = run(learner, feed_of(batch, trainer), trainer, validation=feed_of(held, trainer))
    losses = [entry["val_loss"] for entry in loop.history]
    assert len(losses) < 200 and losses[-1] > min(losses)
    after = learner.evaluate(held)
    assert float(after["loss"]) / after.weight == pytest.approx(min(losses), rel=1e-12)


def test_pass_scope_sums_over_all_data_and_stops_when_done():
    batch = regression(50)
    learner = MeanLearner(3)
    trainer = Trainer(steps=10, batch_size=7)
    loop = run(learner, feed_of(batch, trainer, shuffle=False), trainer)
    np.testing.assert_allclose(learner.mean.numpy(), batch.X.numpy().mean(0), rtol=1e-12)
    assert loop.step == 2  # the second pass finds nothing to change
    assert loop.history[-1]["loss"] == pytest.approx(batch.X.numpy().var(0).sum())


def test_players_take_turns_and_leave_each_other_alone():
    critic, maker = nn.Linear(1, 1), nn.Linear(1, 1)
    trainer = Trainer(steps=12, batch_size=4, lr=0.01, optimizer="sgd")
    moves = []

    def snapshot():
        return [float(p.detach().sum()) for p in (*critic.parameters(), *maker.parameters())]

    class Watch(Callback):
        def on_start(self, moment):
            self.before = snapshot()

        def on_step(self, moment, info):
            now = snapshot()
            moves.append([a != b for a, b in zip(now, self.before, strict=True)])
            self.before = now

    def critic_loss(batch):
        return -critic(maker(batch.X)).sum()

    def maker_loss(batch):
        return critic(maker(batch.X)).sum()

    players = {"critic": Player(critic, critic_loss, trainer), "maker": Player(maker, maker_loss, trainer)}
    learner = GradientLearner(players, trainer, phases=("critic",) * 5 + ("maker",))
    data = Batch(torch.ones(8, 1))
    run(learner, feed_of(data, trainer), Trainer(**{**trainer.to_tree(), "callbacks": (Watch(),)}))
    critic_moves = [any(move[:2]) for move in moves]
    maker_moves = [any(move[2:]) for move in moves]
    assert critic_moves == [True] * 5 + [False] + [True] * 5 + [False]
    assert maker_moves == [not moved for moved in critic_moves]


def test_a_loss_that_is_not_finite_stops_with_step_and_advice():
    trainer = Trainer(epochs=50, batch_size=16, lr=1e6, optimizer="sgd")
    with pytest.raises(NonFiniteLoss, match=r"at step \d+.*try lr=.*no checkpoint was written"):
        run(linear_learner(trainer), feed_of(regression(), trainer), trainer)


def test_a_loss_that_is_not_finite_names_the_last_good_checkpoint(tmp_path):
    trainer = Trainer(
        epochs=200,
        batch_size=16,
        lr=1e3,
        optimizer="sgd",
        checkpoint={"folder": str(tmp_path), "every_steps": 1},
    )
    with pytest.raises(NonFiniteLoss, match=r"last good checkpoint is .*step-"):
        run(linear_learner(trainer), feed_of(regression(), trainer), trainer)


def far_away(trainer: Trainer) -> Loop:
    """A loop on the CPU that reads losses as seldom as on an accelerator."""
    learner, feed = linear_learner(trainer), feed_of(regression(), trainer)
    loop = Loop(learner, feed, trainer, seed=0, device=CPU)
    loop._reads = learner._reads = False
    loop.loss_sum = loop._zero()
    return loop


def test_where_losses_are_seldom_read_the_steps_in_question_are_named():
    """The same run reads at every step, and so knows which one it was; passes are of four steps."""
    trainer = Trainer(epochs=50, batch_size=16, lr=1e6, optimizer="sgd")
    with pytest.raises(NonFiniteLoss) as exact:
        run(linear_learner(trainer), feed_of(regression(), trainer), trainer)
    with pytest.raises(NonFiniteLoss) as later:
        far_away(trainer).run()
    step = int(re.search(r"at step (\d+) ", str(exact.value))[1])
    first, last = map(int, re.search(r"at step (\d+) to (\d+) ", str(later.value)).groups())
    assert first <= step <= last and (first, last) == (step - (step - 1) % 4, step + -step % 4)


def test_no_checkpoint_is_written_after_a_loss_that_is_not_finite(tmp_path):
    checkpoint = {"folder": str(tmp_path), "every_steps": 3, "keep": 100}
    trainer = Trainer(steps=50, batch_size=4, lr=1e6, optimizer="sgd", checkpoint=checkpoint)
    with pytest.raises(NonFiniteLoss, match=r"last good checkpoint is .*step-") as later:
        far_away(trainer).run()
    first, last = map(int, re.search(r"at step (\d+) to (\d+) ", str(later.value)).groups())
    kept = sorted(int(path.stem.removeprefix("step-")) for path in tmp_path.glob("checkpoints/*"))
    assert (first, last) == (kept[-1] + 1, kept[-1] + 3)


def test_bf16_trains_close_to_float32():
    batch = regression(dtype=torch.float32)
    results = []
    for precision in ("float32", "bf16"):
        trainer = Trainer(epochs=30, batch_size=16, lr=0.05, precision=precision)
        learner = linear_learner(trainer, dtype=torch.float32)
        run(learner, feed_of(batch, trainer), trainer)
        assert learner.players["fit"].network.weight.dtype == torch.float32
        results.append(weights(learner))
    np.testing.assert_allclose(results[1], results[0], atol=0.1)


def test_metrics_are_one_json_line_an_epoch(tmp_path):
    trainer = Trainer(epochs=4, batch_size=16, lr=0.05, checkpoint=str(tmp_path))
    loop = run(linear_learner(trainer), feed_of(regression(), trainer), trainer)
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert lines == loop.history
    assert [line["step"] for line in lines] == [4, 8, 12, 16]


def test_a_shuffled_epoch_visits_every_row_once_and_skip_drops_batches():
    data = Batch(torch.arange(50.0)[:, None])
    feed = feed_of(data, Trainer(batch_size=8))
    first = [part.batch.X[:, 0] for part in feed.open(3)]
    assert sorted(torch.cat(first).tolist()) == list(range(50))
    again = [part.batch.X[:, 0] for part in feed.open(3, skip=2)]
    assert all(torch.equal(a, b) for a, b in zip(first[2:], again, strict=True))
    assert not torch.equal(torch.cat(first), torch.cat([p.batch.X[:, 0] for p in feed.open(4)]))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"epochs": 3, "steps": 3}, "both given"),
        ({"epochs": 0}, "at least 1"),
        ({"seconds": 0.0}, "must be positive"),
        ({"lr": -1.0}, "positive"),
        ({"ema": 1.5}, "between 0 and 1"),
        ({"precision": "flaot32"}, "float32"),
        ({"schedule": "cosin"}, "did you mean 'cosine'"),
        ({"resume": True}, "needs checkpoint"),
    ],
)
def test_wrong_settings_say_what_would_work(settings, words):
    with pytest.raises(InvalidInput, match=words):
        Trainer(**settings)


def test_an_unknown_optimizer_suggests_the_nearest():
    trainer = Trainer(epochs=1, optimizer="addam")
    with pytest.raises(InvalidInput, match="did you mean 'adam'"):
        linear_learner(trainer)


def test_a_dict_with_a_wrong_setting_suggests_the_nearest():
    with pytest.raises(InvalidInput, match="did you mean 'epochs'"):
        Trainer.of({"epoch": 3})


def test_progress_is_silent_off_a_terminal(capsys):
    trainer = Trainer(epochs=3, batch_size=16, lr=0.01, verbose=True)
    run(linear_learner(trainer), feed_of(regression(), trainer), trainer)
    out = capsys.readouterr()
    assert out.out == "" and out.err == ""


def test_global_random_state_is_untouched_by_a_fit():
    import benthic

    torch.manual_seed(5)
    np.random.seed(5)
    before = torch.random.get_rng_state(), np.random.get_state()[1].copy()
    X = np.random.default_rng(0).normal(size=(40, 3))
    benthic.VAE(latent_dim=1, trainer={"steps": 3}).fit(X).sample(3)
    assert torch.equal(before[0], torch.random.get_rng_state())
    assert (before[1] == np.random.get_state()[1]).all()


def test_compile_falls_back_without_a_compiler(monkeypatch):
    from benthic.base import compiling

    monkeypatch.setattr(compiling.shutil, "which", lambda name: None)
    network = nn.Linear(2, 1)
    with pytest.warns(UserWarning, match="no C\\+\\+ compiler was found; training goes on"):
        assert compiling.compiled(network, torch.device("cpu"), "training") is network


def test_the_device_must_exist():
    import benthic

    with pytest.raises(InvalidInput, match="device 'tpu:7' is not available"):
        benthic.MLPClassifier(trainer={"device": "tpu:7"}).fit(np.eye(4), [0, 1, 0, 1])


def test_math_of_total_steps():
    trainer = Trainer(epochs=3, batch_size=10)
    learner, feed = linear_learner(trainer), feed_of(regression(64), trainer)
    loop = run(learner, feed, trainer)
    assert loop.step == 3 * math.ceil(64 / 10) and CPU.type == "cpu"


class Rates(Callback):
    """The rate of every step."""

    def __init__(self):
        self.seen = []

    def on_step(self, moment, info):
        self.seen.append(moment.rate())


def test_a_budget_of_time_ends_the_run_and_schedules_follow_it():
    rates = Rates()
    trainer = Trainer(seconds=0.5, batch_size=16, lr=0.01, schedule="linear", callbacks=(rates,))
    begun = time.perf_counter()
    loop = run(linear_learner(trainer), feed_of(regression(), trainer), trainer)
    assert 0.45 < time.perf_counter() - begun < 5.0
    assert loop.step == len(rates.seen) > 4
    assert rates.seen[0] == pytest.approx(0.01, rel=0.05) and rates.seen[-1] < 0.001
    middle = rates.seen[len(rates.seen) // 2]
    assert 0.001 < middle < 0.009  # of 0.005 that a steady pace would give


def test_of_two_budgets_the_first_to_end_ends_the_run():
    trainer = Trainer(seconds=60.0, steps=7, batch_size=16, lr=0.01)
    assert run(linear_learner(trainer), feed_of(regression(), trainer), trainer).step == 7


def test_a_resumed_run_has_spent_its_time(tmp_path):
    trainer = Trainer(seconds=0.3, batch_size=16, lr=0.01, checkpoint=str(tmp_path))
    first = run(linear_learner(trainer), feed_of(regression(), trainer), trainer)
    again = replace(trainer, resume=True)
    assert run(linear_learner(again), feed_of(regression(), again), again).step == first.step
    longer = replace(again, seconds=0.6)
    assert run(linear_learner(longer), feed_of(regression(), longer), longer).step > first.step
