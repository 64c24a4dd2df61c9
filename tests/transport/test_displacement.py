"""Displacement interpolation: geodesics, and their picture."""

from __future__ import annotations

import pytest
import torch

from benthic.transport import displacement, plot_displacement, sinkhorn, wasserstein
from tests.transport.problems import clouds

pytestmark = pytest.mark.spec("B-04")


def test_constant_speed_between_weighted_clouds():
    X, Y, a, b = clouds(9, 11)
    whole = float(wasserstein(X, Y, 2, a, b))
    times = (0.0, 0.25, 0.6, 1.0)
    way = [displacement(X, Y, t, a, b) for t in times]
    for (s, P), (t, Q) in zip(zip(times, way, strict=True), list(zip(times, way, strict=True))[1:], strict=False):
        between = wasserstein(P.points, Q.points, 2, P.masses, Q.masses)
        assert abs(float(between) - (t - s) * whole) < 1e-8


def test_equal_masses_move_as_points():
    X, Y, _, _ = clouds(12, 12)
    half = displacement(X, Y, 0.5)
    assert half.points.shape == (12, 2)
    torch.testing.assert_close(half.masses, torch.full((12,), 1 / 12, dtype=torch.float64))
    torch.testing.assert_close(displacement(X, Y, 0.0).points, X)


def test_entropic_plan_keeps_the_mean_and_blurs():
    X, Y, a, b = clouds(9, 11)
    found = sinkhorn(a, b, (X, Y), 0.05, tol=1e-12)
    half = displacement(X, Y, 0.5, plan=found)
    mean = (half.masses[:, None] * half.points).sum(0)
    torch.testing.assert_close(mean, (a @ X + b @ Y) / 2, rtol=0, atol=1e-4)
    assert len(half.points) > 9 + 11 - 1  # an exact plan has at most n + m - 1 pairs


@pytest.mark.parametrize("d", [1, 2, 3])
def test_picture_has_one_panel_a_time(d):
    X, Y, _, _ = clouds(20, 20, d)
    figure = plot_displacement(X, Y, times=4)
    assert [axes.get_title() for axes in figure.axes] == ["t = 0", "t = 0.33", "t = 0.67", "t = 1"]
    for axes in figure.axes:
        drawn = axes.patches if d == 1 else axes.collections[0].get_offsets()
        assert len(drawn) >= 20
