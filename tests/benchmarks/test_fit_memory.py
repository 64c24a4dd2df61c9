"""Fits need little memory beyond their data; in processes that do nothing else."""

from __future__ import annotations

import sys

import pytest

from benchmarks.harness import python


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc tells the memory")
@pytest.mark.parametrize(("task", "most"), [("boosting", 1.0), ("k-means", 1.1)])
def test_no_second_table_is_made(task, most):
    found = python("-m", "benchmarks.fit_memory", task, "benthic", "200000")
    assert found["share"] < most  # with a copy of the rows 1.5 and more
