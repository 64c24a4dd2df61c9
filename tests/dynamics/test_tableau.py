"""The coefficients satisfy the order conditions, and errors fall with the declared order."""

from __future__ import annotations

from math import cos, exp, sin

import numpy as np
import pytest
import torch

from benthic.base.errors import InvalidInput
from benthic.dynamics import solve
from benthic.dynamics.tableau import BOGACKI_SHAMPINE, DORMAND_PRINCE, TABLEAUX, Tableau, tableau_of

pytestmark = pytest.mark.spec("E-01")


def matrices(tableau: Tableau) -> tuple[np.ndarray, np.ndarray]:
    A = np.zeros((tableau.stages, tableau.stages))
    for i, row in enumerate(tableau.a):
        A[i, : len(row)] = row
        A[i, i] = tableau.diagonal if i else 0.0
    return A, A.sum(1)


def conditions(A: np.ndarray, c: np.ndarray, w: np.ndarray, theta: float = 1.0) -> list[tuple[int, float]]:
    """(order, defect) of every rooted tree with up to five nodes, for weights that end at θ."""
    trees = [
        (1, np.ones_like(c), 1.0),
        (2, c, 2.0),
        (3, c**2, 3.0),
        (3, A @ c, 6.0),
        (4, c**3, 4.0),
        (4, c * (A @ c), 8.0),
        (4, A @ c**2, 12.0),
        (4, A @ A @ c, 24.0),
        (5, c**4, 5.0),
        (5, c**2 * (A @ c), 10.0),
        (5, c * (A @ c**2), 15.0),
        (5, c * (A @ A @ c), 30.0),
        (5, (A @ c) ** 2, 20.0),
        (5, A @ c**3, 20.0),
        (5, A @ (c * (A @ c)), 40.0),
        (5, A @ A @ c**2, 60.0),
        (5, A @ A @ A @ c, 120.0),
    ]
    return [(order, abs(float(w @ tree) - theta**order / density)) for order, tree, density in trees]


@pytest.mark.parametrize("name", TABLEAUX)
def test_order_conditions(name):
    tableau = TABLEAUX[name]
    A, c = matrices(tableau)
    found = conditions(A, c, np.array(tableau.b))
    assert max(defect for order, defect in found if order <= tableau.order) < 2e-14
    if tableau.order < 5:
        assert max(defect for order, defect in found if order == tableau.order + 1) > 1e-3


@pytest.mark.parametrize("name", [name for name, tableau in TABLEAUX.items() if tableau.adaptive])
def test_the_embedded_solution_has_its_order_and_no_more(name):
    tableau = TABLEAUX[name]
    A, c = matrices(tableau)
    found = conditions(A, c, np.array(tableau.b) - np.array(tableau.error))
    assert max(defect for order, defect in found if order <= tableau.error_order) < 2e-14
    assert max(defect for order, defect in found if order == tableau.error_order + 1) > 1e-4


@pytest.mark.parametrize("name", [name for name, tableau in TABLEAUX.items() if tableau.dense])
def test_the_interpolant_has_one_order_less_and_meets_the_ends(name):
    tableau = TABLEAUX[name]
    A, c = matrices(tableau)
    P = np.array(tableau.dense)
    powers = np.arange(1, P.shape[1] + 1)
    order = min(tableau.order, 4)
    for theta in (0.2, 0.5, 0.9):
        found = conditions(A, c, P @ theta**powers, theta)
        assert max(defect for k, defect in found if k <= order) < 2e-14
    np.testing.assert_allclose(P.sum(1), tableau.b, atol=2e-14)
    np.testing.assert_allclose(P[:, 0], np.eye(tableau.stages)[0], atol=1e-14)  # slope at the start
    np.testing.assert_allclose(P @ powers, np.eye(tableau.stages)[-1], atol=1e-13)  # slope at the end


@pytest.mark.parametrize(("tableau", "name"), [(DORMAND_PRINCE, "RK45"), (BOGACKI_SHAMPINE, "RK23")])
def test_the_same_numbers_as_scipy(tableau, name):
    import scipy.integrate

    peer = getattr(scipy.integrate, name)
    np.testing.assert_allclose(np.array(tableau.dense), peer.P, rtol=1e-14)
    np.testing.assert_allclose(np.abs(tableau.error), np.abs(peer.E), rtol=1e-12, atol=1e-16)


def field(t, y):
    """Five equations with known solutions: driven, logistic, an oscillator, a rational one."""
    return torch.stack([y[0] * torch.cos(t), y[1] * (1 - y[1]), 2 * y[3], -2 * y[2], -2 * t * y[4] ** 2])


START = torch.tensor([1.0, 0.1, 1.0, 0.0, 1.0], dtype=torch.float64)
END = 3.0
EXACT = [exp(sin(END)), 1 / (1 + 9 * exp(-END)), cos(2 * END), -sin(2 * END), 1 / (1 + END**2)]


@pytest.mark.parametrize("name", TABLEAUX)
def test_the_error_falls_with_the_declared_order(name):
    sizes = np.array([0.05, 0.025, 0.0125]) / (10 if TABLEAUX[name].order == 1 else 1)
    exact = torch.tensor(EXACT, dtype=torch.float64)
    errors = [
        float((solve(field, START, [0.0, END], method=name, step=size, adaptive=False).last - exact).norm())
        for size in sizes
    ]
    slope = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    assert abs(slope - TABLEAUX[name].order) < 0.15


def test_an_unknown_method_is_refused_with_a_hint():
    with pytest.raises(InvalidInput, match="did you mean 'tsitouras'"):
        tableau_of("tsituras")
