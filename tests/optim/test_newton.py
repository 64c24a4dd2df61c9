"""Newton's methods: the trust-region problem solved to its optimality conditions, and no rest on saddles."""

from __future__ import annotations

import math

import pytest
import scipy.optimize
import torch

from benthic.optim import lanczos, minimize, trust_region_step
from benthic.optim.trust import conjugate_step
from tests.optim.problems import D, monkey, quadratic, rosenbrock, saddle

pytestmark = pytest.mark.spec("D-02")

NEWTON = ["newton", "newton-line", "newton-cg"]


def normal(*shape, seed=0):
    return torch.randn(*shape, dtype=D, generator=torch.Generator().manual_seed(seed))


def case(kind, n=200, d=5):
    """Hessians of any sign, with gradients that are plain, tiny, or orthogonal to the lowest eigenvector."""
    H = normal(n, d, d)
    H = H + H.mT
    if kind == "definite":
        H = H @ H.mT
    g = normal(n, d, seed=1)
    if kind == "tiny":
        g = 1e-13 * g
    if kind == "hard":
        lowest = torch.linalg.eigh(H).eigenvectors[:, :, 0]
        g = g - (g * lowest).sum(1, keepdim=True) * lowest
    if kind == "none":
        g = 0 * g
    radius = 10 ** (2 * torch.rand(n, dtype=D, generator=torch.Generator().manual_seed(2)) - 1)
    return H, g, radius


@pytest.mark.parametrize("kind", ["plain", "definite", "tiny", "hard", "none"])
def test_the_step_satisfies_the_optimality_conditions(kind):
    # p is a global solution iff (H + νI)p = -g, ν >= 0, ν(Δ - |p|) = 0 and H + νI is semidefinite
    # (Moré & Sorensen, 1983, lemma 2.4)
    H, g, radius = case(kind)
    p = trust_region_step(H, g, radius)
    length = p.norm(dim=1)
    assert bool((length <= radius * (1 + 1e-12)).all())
    Hp = (H @ p[..., None])[..., 0]
    nu = -((Hp + g) * p).sum(1) / (length**2).clamp(min=1e-300)
    nu = torch.where(length < radius * (1 - 1e-10), 0.0, nu)
    scale = torch.linalg.eigvalsh(H).abs().amax(1)
    residual = (Hp + nu[:, None] * p + g).norm(dim=1) / (scale * radius)
    assert float(residual.max()) < 1e-10
    assert float(((torch.linalg.eigvalsh(H)[:, 0] + nu) / scale).min()) > -1e-10
    assert float((nu / scale).min()) > -1e-10


def test_batches_of_any_shape():
    H, g, radius = case("plain", 12, 3)
    one = trust_region_step(H, g, radius)
    many = trust_region_step(H.reshape(3, 4, 3, 3), g.reshape(3, 4, 3), radius.reshape(3, 4))
    torch.testing.assert_close(many.reshape(12, 3), one)


def test_conjugate_gradients_do_at_least_as_well_as_the_gradient():
    # Steihaug's step lowers the model at least as much as the Cauchy point
    H, g, radius = case("plain")
    found = conjugate_step(lambda V: (H @ V[..., None])[..., 0], g, radius, 50)
    gg, gHg = (g * g).sum(1), (g * (H @ g[..., None])[..., 0]).sum(1)
    t = torch.where(gHg > 0, torch.minimum(gg / gHg, radius / gg.sqrt()), radius / gg.sqrt())
    cauchy = t * gg - 0.5 * t**2 * gHg
    assert bool((found.predicted >= cauchy * (1 - 1e-9)).all())
    assert bool((found.step.norm(dim=1) <= radius * (1 + 1e-9)).all())


@pytest.mark.parametrize("method", NEWTON)
@pytest.mark.parametrize("start", [(0.0, 0.0), (0.0, 1.0), (1e-9, 0.5), (-0.3, 1.0)])
def test_a_saddle_is_left(method, start):
    # from the first two starts plain Newton, and every descent along the gradient, ends on the saddle
    found = minimize(saddle, torch.tensor(start, dtype=D), method)
    assert found.converged and found.value == pytest.approx(-0.25, abs=1e-12)
    assert abs(float(found.point[0])) == pytest.approx(1.0, abs=1e-6)


def test_descent_along_the_gradient_stays_on_that_saddle():
    found = minimize(saddle, torch.tensor([0.0, 1.0], dtype=D), "lbfgs")
    assert found.converged and found.value == pytest.approx(0.0, abs=1e-12)  # a stationary point is all it promises


@pytest.mark.parametrize("method", NEWTON)
@pytest.mark.parametrize("start", [(0.1, 0.0), (1e-3, 0.0), (0.0, 0.1), (-1e-3, 1e-3)])
def test_a_monkey_saddle_is_left(method, start):
    found = minimize(monkey, torch.tensor(start, dtype=D), method)
    assert found.converged and found.value == pytest.approx(-27 / 256, abs=1e-12)
    assert float(found.point.norm()) == pytest.approx(0.75, abs=1e-6)


def test_plain_newton_would_end_on_the_monkey_saddle():
    x = torch.tensor([0.1, 0.0], dtype=D)
    for _ in range(25):
        H, g = torch.func.hessian(monkey)(x), torch.func.grad(monkey)(x)
        x = x - torch.linalg.lstsq(H, g[:, None]).solution[:, 0]
    assert float(x.norm()) < 1e-6


def test_on_the_monkey_saddle_itself_second_derivatives_see_nothing():
    found = minimize(monkey, torch.zeros(2, dtype=D), "newton")
    assert found.converged and found.iterations == 0 and float(found.point.norm()) == 0.0


@pytest.mark.parametrize("method", NEWTON)
def test_quadratics_take_a_step_or_a_few(method):
    A, b, f = quadratic(10, 4)
    found = minimize(f, torch.zeros_like(b), method, radius=100.0, tol=1e-6)
    limit = {"newton": 1, "newton-line": 1, "newton-cg": 20}[method]
    assert found.converged and found.iterations <= limit
    torch.testing.assert_close(found.point, torch.linalg.solve(A, b), rtol=1e-5, atol=1e-6)


def test_the_count_of_steps_is_that_of_scipys_exact_trust_region():
    x0 = torch.tensor([-1.2, 1.0] * 4, dtype=D)
    ours = minimize(rosenbrock, x0, "newton", tol=1e-6)
    peer = scipy.optimize.minimize(
        scipy.optimize.rosen,
        x0.numpy(),
        jac=scipy.optimize.rosen_der,
        hess=scipy.optimize.rosen_hess,
        method="trust-exact",
        options={"gtol": 1e-6},
    )
    assert ours.converged and ours.value == pytest.approx(peer.fun, abs=1e-9)
    assert ours.iterations <= 1.3 * peer.nit + 3


def test_conjugate_gradients_carry_many_dimensions():
    d = 3000
    curvatures = torch.logspace(0, 3, d, dtype=D)
    found = minimize(
        lambda x: 0.5 * (curvatures * x**2).sum() + (x**4).sum() - x.sum(), torch.ones(d, dtype=D), "newton-cg"
    )
    assert found.converged and found.iterations < 60


@pytest.mark.parametrize(
    "spectrum", [[3.0, -1.0, 2.0, 0.5], [2.0, 2.0, 2.0, 2.0], [1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]
)
def test_lanczos_gives_the_whole_spectrum_in_as_many_steps_as_dimensions(spectrum):
    basis = torch.linalg.qr(normal(4, 4)).Q
    A = basis @ torch.diag(torch.tensor(spectrum, dtype=D)) @ basis.T
    values, vectors = lanczos(lambda V: V @ A, normal(2, 4, seed=3), 10)
    expected = torch.tensor(sorted(spectrum), dtype=D).expand(2, 4)
    torch.testing.assert_close(values, expected, rtol=0, atol=1e-10)
    torch.testing.assert_close(vectors @ A, values[..., None] * vectors, rtol=0, atol=1e-9)
    torch.testing.assert_close(vectors @ vectors.mT, torch.eye(4, dtype=D).expand(2, 4, 4), rtol=0, atol=1e-9)
    assert math.isfinite(float(values.sum()))
