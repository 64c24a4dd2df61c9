"""The perceptron and its theorem; margins against an independent solver; threshold units."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
from scipy.optimize import linprog
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

import benthic
from benthic.base.errors import InvalidInput
from benthic.linear import ThresholdUnit, find_unit, widest_margin
from benthic.linear.perceptron_kernel import mistakes

pytestmark = pytest.mark.spec("F-03")
IRIS = load_iris(return_X_y=True)


def separable(seed, n=60, d=4, gap=0.1, offset=0.0):
    """Rows on both sides of a random hyperplane, none nearer than ``gap``."""
    rng = np.random.default_rng(seed)
    w = rng.normal(size=d)
    w /= np.linalg.norm(w)
    X = rng.normal(size=(4 * n, d))
    side = X @ w - offset
    X, side = X[np.abs(side) > gap][:n], side[np.abs(side) > gap][:n]
    return X, (side > 0).astype(int)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("variant", ["plain", "pocket"])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_updates_stay_below_the_bound_and_weights_in_the_span(seed, variant, fit_intercept):
    X, y = separable(seed, offset=0.4 * fit_intercept)
    model = benthic.Perceptron(variant=variant, fit_intercept=fit_intercept, max_iter=5000, random_state=seed)
    model.fit(X, y)
    rows = np.column_stack([X, np.ones(len(X))]) if fit_intercept else X
    assert model.separable_ and model.converged_ and model.score(X, y) == 1.0
    np.testing.assert_allclose(model.radius_, np.linalg.norm(rows, axis=1).max(), rtol=1e-12)
    assert model.bound_ == np.ceil(model.radius_**2 / model.margin_**2)
    assert 0 < model.updates_ <= model.bound_
    assert 0 < model.found_margin_ <= model.margin_ * (1 + 1e-9)
    np.testing.assert_allclose(model.dual_coef_ @ X, model.coef_, atol=1e-9)
    assert np.abs(model.dual_coef_).sum() == model.updates_
    if fit_intercept:
        np.testing.assert_allclose(model.dual_coef_.sum(1), model.intercept_)
    else:
        assert model.intercept_ == 0


def test_the_length_of_the_weights_obeys_both_halves_of_the_proof():
    for seed in range(5):
        X, y = separable(seed, d=3)
        model = benthic.Perceptron(variant="plain", fit_intercept=False, shuffle=False, max_iter=5000).fit(X, y)
        length = np.linalg.norm(model.coef_)
        assert model.updates_ * model.margin_ <= length * (1 + 1e-9)
        assert length <= np.sqrt(model.updates_) * model.radius_ * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_the_widest_margin_is_that_of_a_hard_margin_machine(seed):
    # through the origin: mirror every row, so that the best intercept is zero
    X, y = separable(seed, d=3)
    Z = X * np.where(y == 1, 1.0, -1.0)[:, None]
    found = widest_margin(Z)
    machine = SVC(C=1e10, kernel="linear", tol=1e-10).fit(np.vstack([Z, -Z]), np.repeat([1, 0], len(Z)))
    np.testing.assert_allclose(found.margin, 1 / np.linalg.norm(machine.coef_), rtol=1e-5)
    np.testing.assert_allclose(found.margin, found.upper, rtol=1e-8)
    np.testing.assert_allclose(found.weights @ Z, found.upper * found.direction, atol=1e-9)
    assert found.weights.min() >= 0 and found.weights.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("seed", range(20))
def test_separability_is_decided_as_a_linear_program_decides_it(seed):
    rng = np.random.default_rng(seed)
    n = [4, 8, 12, 20][seed % 4]
    Z = np.column_stack([rng.normal(size=(n, 4)), np.ones(n)]) * rng.choice([-1.0, 1.0], size=(n, 1))
    program = linprog(np.zeros(5), A_ub=-Z, b_ub=-np.ones(n), bounds=(None, None))
    assert widest_margin(Z).separable == (program.status == 0)


def test_inseparable_classes_are_called_so():
    X, y = IRIS[0][50:], IRIS[1][50:]
    with pytest.warns(ConvergenceWarning, match="no hyperplane separates the classes"):
        plain = benthic.Perceptron(variant="plain", random_state=0).fit(X, y)
    assert plain.separable_ is False and plain.margin_ == 0 and plain.bound_ == np.inf and not plain.converged_
    pocket = benthic.Perceptron(random_state=0).fit(X, y)
    averaged = benthic.Perceptron(variant="averaged", random_state=0).fit(X, y)
    assert pocket.score(X, y) >= 0.94 and averaged.score(X, y) >= 0.9
    for model in (pocket, averaged):
        np.testing.assert_allclose(model.dual_coef_ @ X, model.coef_, rtol=1e-9)
        np.testing.assert_allclose(model.dual_coef_.sum(1), model.intercept_, rtol=1e-9)


def test_the_pocket_never_gets_worse_with_more_passes():
    X, y = IRIS[0][50:], IRIS[1][50:]
    scores = []
    for passes in (1, 5, 25, 125):
        model = benthic.Perceptron(max_iter=passes, n_iter_no_change=1000, random_state=3).fit(X, y)
        scores.append(model.score(X, y))
    assert scores == sorted(scores)


def test_averaged_weights_are_the_mean_over_rows_seen():
    X, y = separable(1, n=20)
    model = benthic.Perceptron(variant="averaged", shuffle=False, fit_intercept=False).fit(X, y)
    w, total, seen = np.zeros(4), np.zeros(4), 0
    while True:
        wrong = 0
        for x, sign in zip(X, 2 * y - 1, strict=True):
            if sign * (x @ w) <= 0:
                w = w + sign * x
                wrong += 1
            total, seen = total + w, seen + 1
        if not wrong:
            break
    np.testing.assert_allclose(model.coef_[0], total / seen, rtol=1e-10)


def test_several_classes_have_their_own_numbers():
    X, y = IRIS
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    model = benthic.Perceptron(random_state=0).fit(X, names)
    assert model.separable_.tolist() == [True, False, False] and model.coef_.shape == (3, 4)
    assert np.isfinite(model.bound_[0]) and np.isinf(model.bound_[1:]).all()
    assert model.decision_function(X).shape == (150, 3) and model.score(X, names) > 0.6
    assert "bound" in model.summary() and model.plot().axes


def test_a_file_gives_what_memory_gives(tmp_path):
    X, y = separable(0)
    np.save(tmp_path / "rows.npy", np.column_stack([X, y]))
    source = benthic.data.scan(tmp_path / "rows.npy", target=4)
    streamed = benthic.Perceptron(random_state=0).fit(source)
    np.testing.assert_array_equal(streamed.coef_, benthic.Perceptron(random_state=0).fit(X, y).coef_)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"variant": "average"}, "variant 'average' is unknown; did you mean 'averaged'"),
        ({"max_iter": 0}, "max_iter is 0"),
        ({"shuffle": 1}, "shuffle is 1"),
    ],
)
def test_settings_that_make_no_sense(settings, words):
    with pytest.raises(InvalidInput, match=f"Perceptron.fit: {words}"):
        benthic.Perceptron(**settings).fit(*IRIS)


def test_too_few_passes_are_said_with_the_bound():
    X, y = separable(2, gap=0.005)
    with pytest.warns(ConvergenceWarning, match="up to .* may be needed"):
        benthic.Perceptron(variant="plain", max_iter=1).fit(X, y)


def test_the_compiled_count_is_the_plain_one():
    Z, w = np.random.default_rng(0).normal(size=(30, 3)), np.array([1.0, -1.0, 0.5])
    assert mistakes(Z, w) == mistakes.py_func(Z, w) == int((Z @ w <= 0).sum())


# -- threshold units -----------------------------------------------------------------------------------------

TABLE = torch.tensor(list(product((0, 1), repeat=3)))


def test_units_for_and_or_and_not():
    assert torch.equal(ThresholdUnit.all_of(3)(TABLE), TABLE.all(1).long())
    assert torch.equal(ThresholdUnit.any_of(3)(TABLE), TABLE.any(1).long())
    assert torch.equal(ThresholdUnit.none_of(3)(TABLE), 1 - TABLE.any(1).long())
    assert ThresholdUnit.none_of(1)(torch.tensor([[0], [1]])).tolist() == [1, 0]
    majority = ThresholdUnit((1, 1, 1), 2)
    assert torch.equal(majority(TABLE), (TABLE.sum(1) >= 2).long())


def test_of_the_sixteen_functions_of_two_inputs_all_but_two_have_a_unit():
    inputs = torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1]])
    without = []
    for truth in product((0, 1), repeat=4):
        unit = find_unit(truth)
        if unit is None:
            without.append(truth)
        else:
            assert tuple(unit(inputs).tolist()) == truth
    assert without == [(0, 1, 1, 0), (1, 0, 0, 1)]  # XOR and its complement


def test_of_the_functions_of_three_inputs_104_have_a_unit():
    # the number of threshold functions of three variables (Muroga, 1971)
    found = [find_unit(truth) for truth in product((0, 1), repeat=8)]
    assert sum(unit is not None for unit in found) == 104


def test_units_refuse():
    with pytest.raises(InvalidInput, match="must be 0 or 1"):
        ThresholdUnit.any_of(2)(torch.tensor([[0.5, 1.0]]))
    with pytest.raises(InvalidInput, match=r"expected \(..., 2\)"):
        ThresholdUnit.any_of(2)(TABLE)
    with pytest.raises(InvalidInput, match="expected 2, 4, 8"):
        find_unit([0, 1, 1])
