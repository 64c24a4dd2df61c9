"""Many starts at once: each goes as it would alone, stops for itself, and costs nothing afterwards."""

from __future__ import annotations

import pytest
import torch

from benthic.base.errors import InvalidInput
from benthic.optim import minimize
from benthic.optim.minimizer import FIRST_ORDER, METHODS
from tests.optim.problems import HIMMELBLAU_MINIMA, D, beale, himmelblau, logistic, random_points, rosenbrock, saddle

pytestmark = pytest.mark.spec("D-02")


@pytest.mark.parametrize("compact", [True, False])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("f", [himmelblau, saddle])
def test_each_start_ends_where_it_ends_alone(f, method, compact):
    slow = method in FIRST_ORDER
    X, tol = random_points(3 if slow else 12, 2, 3.0), 1e-5 if slow else 1e-7
    many = minimize(f, X, method, batched=True, compact=compact, tol=tol, memory=10)
    alone = [minimize(f, x, method, tol=tol, memory=10) for x in X]
    assert many.converged.tolist() == [one.converged for one in alone]
    assert many.reason == tuple(one.reason for one in alone)
    # rounding may tip a trial of a search, hence a step or two
    difference = (many.iterations - torch.tensor([one.iterations for one in alone])).abs()
    assert int(difference.max()) <= 2
    torch.testing.assert_close(many.point, torch.stack([one.point for one in alone]), rtol=0, atol=10 * tol)
    torch.testing.assert_close(many.value, f(many.point), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("method", ["lbfgs", "bfgs"])
def test_steps_and_evaluations_are_those_of_each_start_alone(method):
    X = random_points(25, 6)
    many = minimize(rosenbrock, X, method, batched=True, tol=1e-5, memory=10)
    alone = [minimize(rosenbrock, x, method, tol=1e-5, memory=10) for x in X]
    same = many.evaluations == torch.tensor([one.evaluations for one in alone])
    assert float(same.double().mean()) >= 0.9  # the others differ by the rounding of one trial
    torch.testing.assert_close(many.value, torch.tensor([one.value for one in alone], dtype=D), rtol=0, atol=1e-8)


def test_all_minima_are_found_and_named():
    many = minimize(himmelblau, random_points(200, 2, 5.0), batched=True)
    assert bool(many.converged.all())
    nearest = torch.cdist(many.point, HIMMELBLAU_MINIMA)
    assert float(nearest.amin(1).max()) < 1e-7
    assert set(nearest.argmin(1).tolist()) == {0, 1, 2, 3}
    assert many.best().value == float(many.value.min()) and "200 of 200" in str(many)


def test_endings_are_told_row_by_row():
    def f(x):  # a bowl, a plane without a floor, and a gradient that is not finite, by the second column
        bowl, plane, root = x[:, 0] ** 2, -x[:, 0], (x[:, 0] - 3).abs().sqrt()
        kind = x[:, 1].detach()
        return torch.where(kind == 0, bowl, torch.where(kind == 1, plane, root))

    many = minimize(f, torch.tensor([[1.0, 0.0], [1.0, 1.0], [3.0, 2.0]], dtype=D), batched=True, max_iter=5)
    assert many.reason == ("gradient small", "max_iter reached", "value or gradient not finite")
    assert many.converged.tolist() == [True, False, False]


def test_finished_rows_cost_nothing():
    seen = []

    def f(x):
        seen.append(len(x))
        return rosenbrock(x)

    X = torch.cat((torch.ones(90, 2, dtype=D), random_points(10, 2)))
    many = minimize(f, X, batched=True)
    assert bool(many.converged.all())
    assert max(seen[4:]) <= 10
    assert int(many.evaluations[:90].max()) == 1


def test_rows_with_their_own_data_stay_in_place():
    targets = random_points(8, 3)
    many = minimize(lambda x: ((x - targets) ** 2).sum(1), torch.zeros(8, 3, dtype=D), batched=True, compact=False)
    torch.testing.assert_close(many.point, targets, rtol=0, atol=1e-7)
    with pytest.raises(InvalidInput, match="rows must not depend on each other.*compact=False"):
        minimize(lambda x: ((x - targets[: len(x)] * len(x)) ** 2).sum(1), torch.zeros(8, 3, dtype=D), batched=True)


def test_one_row_is_a_batch_too():
    many = minimize(beale, torch.tensor([[1.0, 1.0]], dtype=D), batched=True)
    assert many.point.shape == (1, 2) and many.reason == ("gradient small",)


def test_a_model_from_many_starts_in_single_precision():
    _, _, loss = logistic()
    many = minimize(loss, random_points(6, 12), batched=True, tol=1e-6)
    assert bool(many.converged.all())
    assert float(many.value.max() - many.value.min()) < 1e-9  # convex: one minimum
    single = minimize(himmelblau, random_points(6, 2).float(), batched=True, tol=1e-2)
    assert single.point.dtype == torch.float32 and bool(single.converged.all())
