"""One sentence for each thing that cannot be minimized."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from benthic.base.errors import InvalidInput
from benthic.optim import check_gradient_descent, minimize, pl_constant, plot_paths, smoothness, trajectory
from benthic.optim.constants import least_squares_constants, logistic_constants, quadratic_constants

pytestmark = pytest.mark.spec("D-02")


def bowl(x):
    return (x**2).sum()


@pytest.mark.parametrize(
    ("f", "x0", "options", "match"),
    [
        (lambda x: x**2, [1.0, 2.0], {}, r"f\(x0\) has shape \(2,\); it must be one number"),
        (bowl, [1.0, float("nan")], {}, "x0 has 1 entries that are not finite"),
        (bowl, [], {}, r"x0 of shape \(0,\) is empty"),
        (bowl, torch.ones(2, dtype=torch.complex64), {}, "x0 is complex"),
        (bowl, [1.0], {"method": "lbgfs"}, "method 'lbgfs' is unknown; did you mean 'lbfgs'"),
        (bowl, [1.0], {"method": "simplex"}, "method 'simplex' is unknown.*use one of lbfgs, bfgs, newton"),
        (bowl, [1.0], {"batched": True}, r"x0 has shape \(1,\); with batched=True"),
        (bowl, [[1.0], [2.0]], {"batched": True}, r"f\(x0\) has shape \(\); it must be 2 values, one a row"),
        (lambda x: float(bowl(x).detach()), [1.0], {}, "f returned float; it must return a tensor"),
        (lambda x: torch.tensor(1.0), [1.0], {}, "does not depend on x by torch operations"),
        (lambda x: bowl(x.detach()), [1.0], {}, "does not depend on x by torch operations"),
        (lambda x: -x.log().sum(), [-1.0], {}, r"f\(x0\) is not finite"),
        (bowl, [1.0], {"value_and_gradient": True}, "must return .value, gradient tensor"),
        (lambda x: (bowl(x), x[:1]), [1.0, 2.0], {"value_and_gradient": True}, "gradient has shape"),
        (lambda x: (bowl(x), x), [1.0], {"value_and_gradient": True, "method": "newton"}, "needs hessian="),
        (bowl, [1.0, 2.0], {"method": "newton", "hessian": lambda x: torch.ones(3)}, "must have 2 x 2 entries"),
        (bowl, [1.0], {"tol": -1.0}, "tol=-1.0; it must be at least 0"),
        (bowl, [1.0], {"max_iter": -1}, "max_iter=-1; it must be at least 0"),
        (bowl, [1.0], {"memory": 0}, "memory=0; it must be at least 1"),
        (bowl, [1.0], {"curvature": 1.0}, "curvature=1.0; it must be between"),
        (bowl, [1.0], {"radius": 0.0}, "radius=0.0; it must be positive"),
        (bowl, [1.0], {"step": -0.1, "method": "gradient"}, "step=-0.1; it must be positive"),
        (bowl, [1.0], {"momentum": 1.0, "method": "heavy_ball"}, "momentum=1.0; it must be at least 0 and below 1"),
        (bowl, [1.0], {"inverse": lambda g: g, "method": "bfgs"}, "inverse= is for method='lbfgs'"),
        (lambda x: (x**2).sum(1), [[1.0]], {"batched": True, "path": True}, "path=True is for one start"),
    ],
)
def test_minimize_says_what_is_wrong(f, x0, options, match):
    with pytest.raises(InvalidInput, match=f"^minimize: .*{match}") as caught:
        minimize(f, x0, **options)
    assert "\n" not in str(caught.value)


def test_integers_lists_and_arrays_become_double_precision():
    for x0 in ([3, 4], np.array([3, 4]), torch.tensor([3, 4]), [3.0, 4.0], np.array([3.0, 4.0])):
        found = minimize(bowl, x0)
        assert found.converged and found.point.dtype == torch.float64


def test_the_start_is_not_changed():
    for method in ("lbfgs", "newton", "nesterov"):
        x0 = torch.ones(2, dtype=torch.float64)
        minimize(bowl, x0, method)
        assert x0.tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: trajectory(bowl, [1.0], "sgdd"), "optimizer 'sgdd' is unknown; did you mean 'sgd'"),
        (lambda: trajectory(bowl, [1.0], steps=-1), "trajectory: steps=-1"),
        (lambda: trajectory(lambda x: x, [1.0, 2.0]), "trajectory: f.x0. has shape"),
        (lambda: plot_paths(bowl, {}), "neither a path nor a box"),
        (lambda: plot_paths(bowl, {"a": torch.zeros(4, 3)}), "path 'a' has shape"),
        (lambda: smoothness(bowl, [1.0], radius=-1.0), "smoothness: radius=-1.0"),
        (lambda: smoothness(lambda x: x, [1.0, 2.0]), "smoothness: f.x0. has shape"),
        (lambda: pl_constant(bowl, [[1.0]], 2.0), "below minimum=2"),
        (lambda: pl_constant(bowl, [[0.0]], 0.0), "at its minimum at every point"),
        (lambda: quadratic_constants([[1.0, 2.0], [0.0, 1.0]]), "symmetric square"),
        (lambda: quadratic_constants([[-1.0]]), "has the eigenvalue -1"),
        (lambda: least_squares_constants([1.0, 2.0]), "least_squares_constants: X has shape"),
        (lambda: logistic_constants([[1.0]], ridge=-1.0), "ridge=-1.0"),
        (lambda: check_gradient_descent(bowl, [1.0], L=0.0), "check_gradient_descent: L=0.0"),
        (lambda: check_gradient_descent(bowl, [1.0], L=1.0, mu=2.0), "0 <= mu <= L"),
    ],
)
def test_the_other_functions_say_so_too(call, match):
    with pytest.raises(InvalidInput, match=match):
        call()
