"""minimize from one start: beside SciPy, at the speed the theory says, with honest endings."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import scipy.optimize
import torch

import benthic.optim
from benthic.optim import minimize
from benthic.optim.minimizer import METHODS
from tests.optim.problems import HIMMELBLAU_MINIMA, D, beale, himmelblau, logistic, quadratic, rosenbrock

pytestmark = pytest.mark.spec("D-02")

SECOND = ["lbfgs", "bfgs", "newton", "newton-line", "newton-cg"]
PROBLEMS = {
    "rosenbrock": (rosenbrock, [-1.2, 1.0]),
    "rosenbrock in ten": (rosenbrock, [0.5] * 10),
    "beale": (beale, [1.0, 1.0]),
    "himmelblau": (himmelblau, [0.1, 0.2]),
    "quadratic": (quadratic(20, 4)[2], [1.0] * 20),
    "logistic": (logistic()[2], [0.0] * 12),
}


def with_scipy(f, x0, method="BFGS", tol=1e-10):
    def both(x):
        t = torch.from_numpy(x).requires_grad_()
        value = f(t)
        (gradient,) = torch.autograd.grad(value, t)
        return value.item(), gradient.numpy()

    return scipy.optimize.minimize(both, np.array(x0), jac=True, method=method, options={"gtol": tol, "maxiter": 5000})


@pytest.mark.parametrize("method", SECOND)
@pytest.mark.parametrize("name", PROBLEMS)
def test_the_minimum_is_that_of_scipy(name, method):
    f, x0 = PROBLEMS[name]
    found = minimize(f, x0, method, tol=1e-7)
    peer = with_scipy(f, x0)
    assert found.converged and found.reason == "gradient small", str(found)
    assert found.gradient_norm <= 1e-7
    # both stop at gradients below 1e-7; curvatures are at least 1e-3, so values agree to 1e-11 beside rounding
    if name == "himmelblau":  # one of four minima, all zero
        assert float((HIMMELBLAU_MINIMA - found.point).norm(dim=1).min()) < 1e-7
    assert found.value == pytest.approx(peer.fun, rel=1e-10, abs=1e-11)
    if name in ("rosenbrock", "beale", "logistic"):
        np.testing.assert_allclose(found.point.numpy(), peer.x, atol=1e-4, rtol=0)


@pytest.mark.parametrize("method", ["gradient", "heavy_ball", "nesterov"])
def test_first_order_methods_reach_the_same_minimum(method):
    _, _, loss = logistic(ridge=0.01)
    found = minimize(loss, torch.zeros(12, dtype=D), method, tol=1e-7)
    assert found.converged
    assert found.value == pytest.approx(minimize(loss, torch.zeros(12, dtype=D)).value, abs=1e-11)


def test_acceleration_pays_where_curvatures_differ():
    # condition 100: log(1e6) times 100, and times its root, or twice that root with the gradient looked at ahead
    _, b, f = quadratic(10, 2)
    steps = {
        "gradient": (0.01, None),
        "nesterov": (0.01, 9 / 11),  # (√100 - 1)/(√100 + 1)
        "heavy_ball": (4 / 121, (9 / 11) ** 2),  # Polyak's choice
    }
    taken = {m: minimize(f, torch.zeros_like(b), m, step=s, momentum=p, tol=1e-6) for m, (s, p) in steps.items()}
    assert all(found.converged for found in taken.values())
    assert taken["nesterov"].iterations < 0.25 * taken["gradient"].iterations
    assert taken["heavy_ball"].iterations < 0.15 * taken["gradient"].iterations


def errors(path, target):
    return (path - target).norm(dim=1)


@pytest.mark.parametrize("method", ["newton", "newton-line"])
def test_newton_converges_quadratically(method):
    found = minimize(rosenbrock, torch.tensor([-1.2, 1.0], dtype=D), method, tol=1e-12, path=True)
    e = errors(found.path, torch.ones(2, dtype=D))
    last = [(a, b) for a, b in zip(e[:-1].tolist(), e[1:].tolist(), strict=True) if 1e-7 < a < 0.05]
    assert len(last) >= 2
    assert all(b <= 20 * a**2 for a, b in last), last  # the third derivative over the curvature bounds the factor


@pytest.mark.parametrize("method", ["bfgs", "lbfgs"])
def test_quasi_newton_converges_superlinearly(method):
    found = minimize(rosenbrock, torch.tensor([-1.2, 1.0], dtype=D), method, tol=1e-11, path=True)
    e = errors(found.path, torch.ones(2, dtype=D))
    ratios = (e[1:] / e[:-1])[e[1:] > 1e-14]
    assert float(ratios[-3:].mean()) < 0.15 < float(ratios[:10].mean())


@pytest.mark.parametrize("method", ["bfgs", "newton", "newton-line", "newton-cg"])
@pytest.mark.parametrize("seed", range(8))  # rounding hides the last decreases of the value in most of them
def test_a_million_between_the_curvatures(method, seed):
    A, b, f = quadratic(20, 6, seed)
    found = minimize(f, torch.ones_like(b), method, tol=1e-7)
    assert found.converged
    torch.testing.assert_close(found.point, torch.linalg.solve(A, b), rtol=0, atol=1e-6)


def test_lbfgs_goes_on_where_values_drown_in_rounding():
    # half the digits of the value say nothing below a gradient of 1e-3; SciPy stops at 2e-5 in this problem
    A, b, f = quadratic(20, 5)
    found = minimize(f, torch.ones_like(b), tol=1e-7, max_iter=5000)
    assert found.converged
    torch.testing.assert_close(found.point, torch.linalg.solve(A, b), rtol=0, atol=2e-7)


def test_bfgs_needs_no_more_steps_than_dimensions_on_a_quadratic():
    A, b, f = quadratic(15, 1.0)
    found = minimize(f, torch.zeros_like(b), "bfgs", curvature=1e-3 + 1e-4, tol=1e-9)  # lines searched nearly exactly
    assert found.converged and found.iterations <= 17
    torch.testing.assert_close(found.point, torch.linalg.solve(A, b), rtol=0, atol=1e-8)


def test_evaluations_keep_up_with_scipy():
    x0 = torch.tensor([-1.2, 1.0] * 25, dtype=D)
    ours = minimize(rosenbrock, x0, tol=1e-5)
    peer = with_scipy(rosenbrock, x0.numpy(), "L-BFGS-B", 1e-5)
    assert ours.converged
    assert ours.evaluations <= 1.5 * peer.nfev


@pytest.mark.parametrize("method", METHODS)
def test_points_of_any_shape(method):
    target = torch.arange(6, dtype=D).reshape(2, 3)
    found = minimize(lambda x: ((x - target) ** 2).sum() + 1, torch.zeros(2, 3, dtype=D), method, path=True)
    assert found.converged and found.gradient.shape == found.point.shape == (2, 3)
    torch.testing.assert_close(found.point, target, rtol=0, atol=1e-7)
    torch.testing.assert_close(found.path[-1], found.point)
    assert found.path.shape[1:] == (2, 3)
    assert isinstance(found.value, float) and isinstance(found.iterations, int)


@pytest.mark.parametrize("method", METHODS)
def test_a_number_is_a_point_too(method):
    found = minimize(lambda x: (x - 2) ** 2, torch.tensor(5.0, dtype=D), method)
    assert found.point.shape == () and float(found.point) == pytest.approx(2.0, abs=1e-7)


@pytest.mark.parametrize("method", METHODS)
def test_single_precision_stays_single(method):
    found = minimize(himmelblau, torch.tensor([3.5, 1.0]), method, tol=1e-3)
    assert found.converged and found.point.dtype == found.gradient.dtype == torch.float32
    assert float((HIMMELBLAU_MINIMA.float() - found.point).norm(dim=1).min()) < 1e-3


@pytest.mark.parametrize("method", [m for m in METHODS if not m.startswith("newton")])
def test_values_and_gradients_given_by_hand(method):
    def both(x):
        return float(((x - 1) ** 2).sum()), 2 * (x - 1)

    found = minimize(both, torch.zeros(3, dtype=D), method, value_and_gradient=True)
    assert found.converged
    torch.testing.assert_close(found.point, torch.ones(3, dtype=D), rtol=0, atol=1e-7)


@pytest.mark.parametrize("method", ["newton", "newton-line", "newton-cg"])
def test_hessians_given_by_hand(method):
    A, b, _ = quadratic(5, 2)
    found = minimize(
        lambda x: (0.5 * x @ A @ x - b @ x, A @ x - b),
        torch.zeros_like(b),
        method,
        value_and_gradient=True,
        hessian=lambda x: A,
        tol=1e-8,
    )
    assert found.converged
    torch.testing.assert_close(found.point, torch.linalg.solve(A, b), rtol=0, atol=1e-8)


def test_it_works_where_gradients_are_off():
    with torch.no_grad():
        for method in METHODS:
            assert minimize(lambda x: (x**2).sum(), torch.ones(2, dtype=D), method).converged


@pytest.mark.parametrize("method", METHODS)
def test_running_out_of_steps_is_said(method):
    found = minimize(rosenbrock, torch.tensor([-1.2, 1.0], dtype=D), method, max_iter=3)
    assert not found.converged and found.reason == "max_iter reached" and found.iterations == 3
    assert found.value < float(rosenbrock(torch.tensor([-1.2, 1.0], dtype=D)))


@pytest.mark.parametrize("method", SECOND)
def test_a_tolerance_below_rounding_ends_honestly(method):
    found = minimize(
        lambda x: ((x - 1) ** 2).sum() + (x - 1).cosh().sum() + 1e6, torch.zeros(4, dtype=D), method, tol=0.0
    )
    assert found.converged == (found.gradient_norm == 0.0)
    assert found.reason in ("gradient small", "no further decrease possible at this precision"), str(found)
    assert float((found.point - 1).abs().max()) < 1e-7


@pytest.mark.parametrize("method", ["lbfgs", "bfgs"])
def test_a_gradient_that_lies_fails_the_line_search(method):
    found = minimize(lambda x: (float((x**2).sum()), -2 * x), torch.ones(2, dtype=D), method, value_and_gradient=True)
    assert not found.converged and found.reason == "line search failed"


@pytest.mark.parametrize("method", SECOND)
def test_a_function_without_a_floor_is_not_called_converged(method):
    found = minimize(lambda x: -(x**3).sum(), torch.ones(2, dtype=D), method, max_iter=60)
    assert not found.converged


@pytest.mark.parametrize("method", SECOND)
def test_domains_with_an_edge_are_respected(method):
    # x - log x is defined for x > 0 only, with its minimum at 1
    found = minimize(lambda x: (x - x.log()).sum(), torch.tensor([30.0, 0.01], dtype=D), method)
    assert found.converged
    torch.testing.assert_close(found.point, torch.ones(2, dtype=D), rtol=0, atol=1e-6)


def test_a_gradient_that_is_not_finite_is_said():
    found = minimize(lambda x: x.abs().sqrt().sum(), torch.zeros(2, dtype=D))
    assert not found.converged and found.reason == "value or gradient not finite"


def test_the_record_speaks():
    found = minimize(rosenbrock, torch.tensor([-1.2, 1.0], dtype=D))
    assert "gradient small" in str(found) and str(found.iterations) in str(found)
    assert found.best() is found


@pytest.mark.parametrize("batched", [False, True])
def test_gradients_may_come_in_one_buffer(batched):
    buffer = torch.empty(5, 2, dtype=D) if batched else torch.empty(2, dtype=D)

    def both(x):
        leaf = x.clone().requires_grad_()
        value = rosenbrock(leaf)
        (gradient,) = torch.autograd.grad(value.sum(), leaf)
        buffer[: len(x)] = gradient
        return value.detach(), buffer[: len(x)]

    x0 = torch.tensor([[-1.2, 1.0]] * 5, dtype=D) if batched else torch.tensor([-1.2, 1.0], dtype=D)
    for method in ("lbfgs", "bfgs"):
        found = minimize(both, x0, method, value_and_gradient=True, batched=batched)
        plain = minimize(rosenbrock, x0, method, batched=batched)
        torch.testing.assert_close(found.point, plain.point)


@pytest.mark.parametrize("method", METHODS)
def test_a_value_of_lower_precision_than_the_point(method):
    found = minimize(lambda x: ((x - 1) ** 2).sum().float(), torch.zeros(2, dtype=D), method, tol=1e-4)
    assert found.converged and found.point.dtype == D


def test_the_room_opens_without_torch():
    code = "import sys, benthic.optim; dir(benthic.optim); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_name_is_where_it_is_said_to_be():
    for name in benthic.optim.__all__:
        assert getattr(benthic.optim, name).__doc__
