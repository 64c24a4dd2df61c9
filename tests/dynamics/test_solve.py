"""Solutions agree with closed forms and with SciPy, whatever shape the state has."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from benthic.base.errors import InvalidInput
from benthic.dynamics import Control, SolveError, solve
from benthic.dynamics.packing import Packing

pytestmark = pytest.mark.spec("E-01")
ADAPTIVE = ("heun", "bogacki_shampine", "dormand_prince", "tsitouras")


def van_der_pol(t, y):
    return torch.stack([y[..., 1], (1 - y[..., 0] ** 2) * y[..., 1] - y[..., 0]], -1)


def plain_van_der_pol(t, y):
    return [y[1], (1 - y[0] ** 2) * y[1] - y[0]]


def reference(times, tol=1e-12):
    from scipy.integrate import solve_ivp

    return solve_ivp(plain_van_der_pol, (times[0], times[-1]), [2.0, 0.0], "DOP853", times, rtol=tol, atol=tol).y.T


START = torch.tensor([2.0, 0.0], dtype=torch.float64)


@pytest.mark.parametrize("method", ADAPTIVE)
def test_controlled_steps_keep_the_tolerance(method):
    times = np.linspace(0, 6, 11)
    tol = 1e-4 if method == "heun" else 1e-7
    found = solve(van_der_pol, START, times, method=method, rtol=tol, atol=tol)
    assert np.abs(found.y.numpy() - reference(times)).max() < 100 * tol
    assert found.statistics.reason == "reached the last time"


def test_no_less_accurate_than_scipy_at_the_same_tolerance():
    """Over several starts, since one error may be small by luck."""
    from scipy.integrate import solve_ivp

    ratios = []
    for start in ([2.0, 0.0], [0.5, -1.0], [-1.0, 2.0]):
        for tol in (1e-4, 1e-6, 1e-8):

            def by_scipy(tol, start=start, **options):
                return solve_ivp(plain_van_der_pol, (0, 10), start, rtol=tol, atol=tol, **options).y[:, -1]

            exact = by_scipy(1e-13, method="DOP853")
            ours = solve(van_der_pol, torch.tensor(start, dtype=torch.float64), [0.0, 10.0], rtol=tol, atol=tol)
            ratios.append(np.abs(ours.last.numpy() - exact).max() / np.abs(by_scipy(tol) - exact).max())
    assert np.exp(np.log(ratios).mean()) < 1.5


def test_requested_times_cost_no_steps():
    few = solve(van_der_pol, START, [0.0, 6.0])
    many = solve(van_der_pol, START, np.linspace(0, 6, 500))
    assert many.statistics.evaluations == few.statistics.evaluations
    torch.testing.assert_close(many.y[-1], few.y[-1], rtol=0, atol=0)


@pytest.mark.parametrize("method", ADAPTIVE)
def test_the_solution_between_steps(method):
    times = np.linspace(0, 3, 37)
    tol = 1e-5 if method == "heun" else 1e-8
    kept = solve(van_der_pol, START, [0.0, 3.0], method=method, rtol=tol, atol=tol, dense=True, max_steps=10**5)
    assert np.abs(kept.at(times).numpy() - reference(times)).max() < 100 * tol
    with pytest.raises(InvalidInput, match="between 0 and 3"):
        kept.at([3.5])
    with pytest.raises(InvalidInput, match="dense=True"):
        solve(van_der_pol, START, [0.0, 1.0]).at([0.5])


def test_backward_time_undoes_forward_time():
    there = solve(van_der_pol, START, [0.0, 3.0], rtol=1e-10, atol=1e-10).last
    back = solve(van_der_pol, there, [3.0, 2.0, 0.0], rtol=1e-10, atol=1e-10, dense=True)
    torch.testing.assert_close(back.last, START, atol=1e-7, rtol=0)
    torch.testing.assert_close(back.at([2.0])[0], back.y[1], atol=1e-12, rtol=0)


def test_complex_states():
    found = solve(lambda t, z: 1j * z, torch.ones(2, dtype=torch.complex128), [0.0, math.pi], rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(found.last, -torch.ones(2, dtype=torch.complex128), atol=1e-8, rtol=0)


def test_states_of_parts():
    def spring(t, state):
        return {"x": state["v"], "v": -state["x"]}

    start = {"x": torch.tensor([1.0, 2.0], dtype=torch.float64), "v": torch.zeros(2, dtype=torch.float64)}
    found = solve(spring, start, [0.0, 1.0, 2.0], rtol=1e-9, atol=1e-9)
    assert found.y["x"].shape == (3, 2)
    torch.testing.assert_close(found.last["x"], math.cos(2.0) * start["x"], atol=1e-8, rtol=0)
    torch.testing.assert_close(found.last["v"], -math.sin(2.0) * start["x"], atol=1e-8, rtol=0)


def test_packing_keeps_structure_and_values():
    state = (torch.rand(3, 2), [torch.rand(3), {"a": torch.rand(3, 1, 2)}])
    packing = Packing.of(state, batch=1)
    back = packing.unpack(packing.pack(state))
    assert isinstance(back, tuple) and isinstance(back[1], list)
    torch.testing.assert_close(back, state)


def test_fixed_steps_meet_the_requested_times():
    found = solve(
        lambda t, y: torch.ones_like(y) * t,
        torch.zeros(1, dtype=torch.float64),
        [0, 0.35, 1],
        method="midpoint",
        step=0.1,
    )
    torch.testing.assert_close(found.y[:, 0], torch.tensor([0, 0.35, 1.0], dtype=torch.float64) ** 2 / 2)
    assert found.statistics.steps == 4 + 7


@pytest.mark.parametrize("method", ADAPTIVE)
def test_a_row_with_its_own_steps_is_solved_as_if_alone(method):
    stiffness = torch.linspace(0.1, 5, 6, dtype=torch.float64)[:, None]

    def field(t, y, mu=stiffness):
        return torch.cat([y[:, 1:], mu * (1 - y[:, :1] ** 2) * y[:, 1:] - y[:, :1] + 0 * t], 1)

    start, times = START.repeat(6, 1), [0.0, 0.7, 2.0]
    options = {"method": method, "rtol": 1e-5, "atol": 1e-5}
    together = solve(field, start, times, per_row=True, **options)
    for i in range(6):
        alone = solve(lambda t, y, i=i: field(t, y, stiffness[i : i + 1]), start[i : i + 1], times, **options)
        torch.testing.assert_close(together.y[:, i], alone.y[:, 0], atol=1e-10, rtol=0)


def test_a_norm_of_ones_own():
    worst = Control(1e-6, 1e-6, norm=lambda x: x.abs().max())
    assert solve(van_der_pol, START, [0.0, 3.0], control=worst).statistics.steps > 0


# ------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"t": [0.0]}, "at least two times"),
        ({"t": [0.0, 0.0]}, "rise or fall"),
        ({"t": [0.0, 1.0, 0.5]}, "rise or fall"),
        ({"y0": torch.ones(2, dtype=torch.int64)}, "floating-point"),
        ({"y0": torch.tensor([float("nan")])}, "not finite"),
        ({"y0": {}}, "no tensors"),
        ({"y0": (torch.ones(1), "a")}, "holds a str"),
        ({"rtol": 1e-18, "atol": 1e-18}, "below what float64 resolves"),
        ({"rtol": -1.0}, "must be >= 0"),
        ({"method": "rk4"}, "give their length"),
        ({"method": "rk4", "adaptive": True, "step": 0.1}, "no error estimate"),
        ({"step": -1.0}, "positive"),
        ({"gradient": "adjiont"}, "did you mean 'adjoint'"),
        ({"field": lambda t, y: y[:1]}, "they must match"),
        ({"field": lambda t, y: y.float()}, "they must match"),
        ({"field": lambda t, y: 0}, "returned int"),
        ({"per_row": True, "dense": True}, "per_row goes with"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(options, message):
    whole = {"field": lambda t, y: -y, "y0": torch.ones(2, dtype=torch.float64), "t": [0.0, 1.0]} | options
    with pytest.raises(InvalidInput, match=message):
        solve(whole.pop("field"), whole.pop("y0"), whole.pop("t"), **whole)


def test_a_field_that_is_not_finite_says_where():
    def field(t, y):
        return torch.where(t > 0.5, torch.nan, 1.0) * torch.ones_like(y)

    with pytest.raises(SolveError, match=r"at t=0\.[45].*not finite"):
        solve(field, torch.zeros(1, dtype=torch.float64), [0.0, 1.0])
    with pytest.raises(SolveError, match=r"at t=0\.[45].* of row 0 .*not finite"):
        solve(field, torch.zeros(1, 1, dtype=torch.float64), [0.0, 1.0], per_row=True)
    with pytest.raises(SolveError, match="first time"):
        solve(lambda t, y: y / 0, torch.ones(1), [0.0, 1.0])


def test_a_solution_that_ends_says_where():
    with pytest.raises(SolveError, match="t=1,.*solution may end"):
        solve(lambda t, y: y**2, torch.ones(1, dtype=torch.float64), [0.0, 2.0])


@pytest.mark.parametrize("per_row", [False, True])
def test_a_stiff_problem_stops_after_its_budget_with_advice(per_row):
    with pytest.raises(SolveError, match="50 steps .*stiff"):
        solve(
            lambda t, y: -1e6 * (y - torch.cos(t)),
            torch.zeros(1, 1, dtype=torch.float64),
            [0.0, 10.0],
            per_row=per_row,
            max_steps=50,
        )
