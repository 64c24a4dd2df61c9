"""Parameters of equations from trajectories: exact data give them back, noisy data within their standard errors."""

from __future__ import annotations

import pytest
import torch

from benthic.base.errors import InvalidInput
from benthic.dynamics import LinearSystem, solve
from benthic.dynamics.recovery import recover

pytestmark = pytest.mark.spec("E-05")

TANKS = torch.tensor([[-0.03, 0.03], [0.03, -0.03]], dtype=torch.float64)
PREY = torch.tensor([1.0, 0.5, 0.8, 0.3], dtype=torch.float64)
SPRING = torch.tensor([4.0, 0.3], dtype=torch.float64)


def prey_and_predators(p):
    return lambda t, z: torch.stack(
        [p[0] * z[..., 0] - p[1] * z[..., 0] * z[..., 1], p[3] * z[..., 0] * z[..., 1] - p[2] * z[..., 1]], -1
    )


def spring(p):
    return lambda t, z: torch.stack([z[..., 1], -p[0] * z[..., 0] - p[1] * z[..., 1]], -1)


def grid(end, count):
    return torch.linspace(0, end, count, dtype=torch.float64)


def numbers(*values):
    return torch.tensor(values, dtype=torch.float64)


def noisy(states, sigma, seed=0):
    return states + sigma * torch.randn(states.shape, generator=torch.Generator().manual_seed(seed), dtype=states.dtype)


CASES = {
    "tanks": (LinearSystem, TANKS, numbers(-0.02, 0.02, 0.02, -0.02).reshape(2, 2), numbers(0, 100), grid(40, 13), 1),
    "prey": (prey_and_predators, PREY, numbers(0.7, 0.7, 0.7, 0.2), numbers(1, 1), grid(7, 19), 3),
    "spring": (spring, SPRING, numbers(3.0, 0.0), numbers(1, 0), grid(4, 13), 1),
}


def observed(name):
    field_of, truth, guess, first, times, segments = CASES[name]
    states = solve(field_of(truth), first, times, rtol=1e-9, atol=1e-9).y
    return field_of, truth, guess, times, states, segments


@pytest.mark.parametrize("name", CASES)
def test_exact_data_give_the_parameters_back(name):
    field_of, truth, guess, times, states, segments = observed(name)
    found = recover(field_of, guess, times, states, segments=segments)
    torch.testing.assert_close(found.parameters, truth, rtol=1e-4, atol=0)
    torch.testing.assert_close(found.initial, states[0], rtol=1e-4, atol=1e-4)
    assert found.noise < 1e-4 * float(states.std()) and found.minimum.converged


@pytest.mark.parametrize("name", CASES)
def test_noisy_data_give_them_within_four_standard_errors(name):
    field_of, truth, guess, times, states, segments = observed(name)
    sigma = 0.03 * float(states.std())
    found = recover(field_of, guess, times, noisy(states, sigma), segments=segments, rtol=1e-5, atol=1e-5)
    assert ((found.parameters - truth).abs() < 4 * found.stderr).all()
    # the estimate of sigma has relative spread 1/sqrt(2 n) with n >= 20 degrees of freedom, about 0.16
    assert 0.5 * sigma < found.noise < 1.5 * sigma
    torch.testing.assert_close(found.residuals, noisy(states, sigma) - found.solution.y)


def test_standard_errors_are_those_of_repeated_experiments():
    times, rate = grid(2, 11), 0.7
    states = 3 * torch.exp(-rate * times)[:, None]
    runs = [
        recover(lambda p: lambda t, z: -p * z, 1.0, times, noisy(states, 0.05, seed), rtol=1e-5, atol=1e-5)
        for seed in range(20)
    ]
    spread = torch.stack([run.parameters for run in runs]).std()
    stated = torch.stack([run.stderr for run in runs]).mean()
    # 20 runs: the spread is known to 1/sqrt(38) = 16 %, so three of those
    assert 0.5 < float(spread / stated) < 1.5


def test_several_trajectories_and_known_starts():
    field_of, truth, guess, times, _, _ = observed("spring")
    first = numbers(1, 0, 0, 2, -1, 1).reshape(3, 2)
    states = solve(field_of(truth), first, times, rtol=1e-9, atol=1e-9).y.movedim(0, 1)  # (3, m, 2)
    found = recover(field_of, guess, times, states, initial=first)
    torch.testing.assert_close(found.parameters, truth, rtol=1e-4, atol=0)
    torch.testing.assert_close(found.initial, first)
    assert found.residuals.shape == states.shape


def test_a_parameter_that_does_nothing_has_no_standard_error():
    times = grid(2, 9)
    states = noisy(3 * torch.exp(-0.7 * times)[:, None], 0.01)
    found = recover(lambda p: lambda t, z: -p[0] * z + 0 * p[1], numbers(1.0, 5.0), times, states)
    assert torch.isinf(found.stderr[1]) and float(found.stderr[0]) < 0.05
    assert abs(float(found.parameters[0]) - 0.7) < 4 * float(found.stderr[0])
    assert "±" in str(found)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"states": torch.zeros(5)}, "states are"),
        ({"states": torch.full((9, 1), torch.nan)}, "states has numbers that are not finite"),
        ({"times": grid(1, 8)}, "9 states at times"),
        ({"start": float("inf")}, "start has numbers"),
        ({"start": torch.zeros(20)}, "9 observations for 21 unknowns"),
        ({"segments": 9}, "segments is 9; 9 times can be cut in 1 to 8"),
        ({"scale": -1.0}, "scale has shape"),
        ({"initial": [1.0, 2.0]}, "initial has shape"),
        ({"times": torch.zeros(9)}, "the times must rise or fall"),
    ],
)
def test_bad_input(change, words):
    given = {"start": 1.0, "times": grid(2, 9), "states": torch.ones(9, 1, dtype=torch.float64), **change}
    start, times, states = (given.pop(name) for name in ("start", "times", "states"))
    with pytest.raises(InvalidInput, match=words):
        recover(lambda p: lambda t, z: -p.sum() * z, start, times, states, **given)
