"""Threads that share work: every part is done once, answers keep their order, errors arrive."""

from __future__ import annotations

import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
import torch

from benthic.base.quiet import quiet
from benthic.base.threads import Crew, Together, one_torch_thread, standing_crew, threads


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("n", [0, 1, 2, 7, 100])
def test_parts_cover_all_rows_once(size, n):
    with Crew(size) as crew:
        found = crew.parts(n, lambda part, start, stop: list(range(start, stop)))
    assert [row for rows in found for row in rows] == list(range(n)) and len(found) <= size


@pytest.mark.parametrize("size", [1, 2])
def test_an_error_in_a_thread_is_raised_where_it_is_awaited(size):
    def work(item):
        if item == 3:
            raise KeyError("three")

    with Crew(size) as crew:
        with pytest.raises(KeyError, match="three"):
            crew.each(work, range(6))
        seen = []
        crew.each(seen.append, range(6))
    assert sorted(seen) == list(range(6))


def test_a_standing_crew_is_kept():
    assert standing_crew(2) is standing_crew(2)


def test_torch_gets_its_threads_back():
    before = torch.get_num_threads()
    with one_torch_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before


def test_torch_gets_its_threads_back_whoever_leaves_last():
    before, inside, leave = torch.get_num_threads(), threading.Barrier(2), threading.Barrier(2)
    torch.set_num_threads(2)

    def other() -> int:
        with one_torch_thread():
            inside.wait()
            leave.wait()
        return torch.get_num_threads()

    with ThreadPoolExecutor(1) as pool:
        with one_torch_thread():  # left first
            found = pool.submit(other)
            inside.wait()
        assert torch.get_num_threads() == 2
        leave.wait()
        assert found.result() == 2
    with ThreadPoolExecutor(1) as pool:  # a new thread begins with what was set last
        assert pool.submit(torch.get_num_threads).result() == 2
    torch.set_num_threads(before)


def test_the_first_makes_a_change_and_the_last_takes_it_back():
    seen = []

    @contextmanager
    def change():
        seen.append("made")
        yield
        seen.append("back")

    shared = Together(change)
    with shared, shared:
        assert seen == ["made"]
    with shared:
        assert seen == ["made", "back", "made"]
    filters = list(warnings.filters)
    first, second = quiet(), quiet(UserWarning)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    warnings.warn("nobody hears", UserWarning, stacklevel=1)
    second.__exit__(None, None, None)
    assert warnings.filters == filters


def test_how_many():
    assert threads(None) == 1 and threads(None, 1) == 1 and threads(2) == 2 and threads(-1) >= 1
    with pytest.raises(ValueError, match="n_jobs is 0"):
        threads(0)
