"""What is said while fits run."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from benthic.leaderboard.contest.records import Budget, Outcome
from benthic.leaderboard.contest.showing.watching import Watch


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(watch: Watch) -> str:
    console = Console(width=110, file=io.StringIO(), record=True)
    console.print(watch.table())
    return console.export_text()


def test_without_a_terminal_every_end_is_a_line():
    stream = io.StringIO()
    with Watch(["VAE", "GAN"], 2, Budget.of("5s"), stream=stream) as watch:
        watch.started("VAE", 0)
        watch.ended(Outcome("VAE", 0, seconds=4.96))
        watch.started("GAN", 1)
        watch.ended(Outcome("GAN", 1, "out of budget", "it took 11 s", 11.0))
        watch.ended(Outcome("VAE", 1, seconds=5.0))
    assert stream.getvalue().splitlines() == [
        "comparing 2 models with 2 seeds, 5 s a fit; at most about 20 s of fitting",
        "[1/4] VAE, seed 0: fitted in 5.0 s",
        "[2/4] GAN, seed 1: out of budget: it took 11 s",
        "[3/4] VAE, seed 1: fitted in 5.0 s (kept from an earlier run)",
    ]


def test_quiet_means_quiet():
    stream = io.StringIO()
    with Watch(["VAE"], 1, enabled=False, stream=stream) as watch:
        watch.started("VAE", 0)
        watch.ended(Outcome("VAE", 0))
    assert stream.getvalue() == ""


def broken_off(watch: Watch) -> None:
    with watch:
        watch.started("VAE", 3)
        watch.ended(Outcome("VAE", 3, seconds=4.0))
        watch.started("GAN", 3)
        watch.ended(Outcome("GAN", 4, "failed", "it broke", 1.0))
        raise RuntimeError("an error of the comparison")


def test_the_live_table_shows_every_model_and_stops_after_an_error():
    stream = Terminal()
    watch = Watch(["VAE", "GAN"], [3, 4], Budget.of("5s"), stream=stream)
    with pytest.raises(RuntimeError, match="of the comparison"):
        broken_off(watch)
    text = shown(watch)
    assert watch._live is None
    vae, gan = (next(line for line in text.splitlines() if line.startswith(name)) for name in ("VAE", "GAN"))
    assert "● ·" in vae and "4.0" in vae
    assert "◐ ✗" in gan and "seed 3: 0 s" in gan and "failed: it broke" in gan
    assert "2 of 4 fits" in text
    assert "VAE" in stream.getvalue()


def test_the_time_left_is_that_of_fits_like_those_done_shared_by_jobs():
    watch = Watch(["a", "b"], 3, Budget.of("10s"), enabled=False, jobs=2)
    assert watch.left() != watch.left()  # nothing is known yet
    watch.ended(Outcome("a", 0, seconds=500.0))  # kept, so it says nothing about this run
    assert watch.left() != watch.left()
    watch.started("a", 1)
    watch.ended(Outcome("a", 1, seconds=8.0))
    assert watch.left() == pytest.approx(4 * 8.0 / 2)
