"""Hamiltonian Monte Carlo: the integrator's properties, and a transition that leaves the law as it was."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.samplers.hamiltonian.hmc import HMC, leapfrog
from benthic.samplers.hamiltonian.whitening import Whitened
from benthic.samplers.running import run
from tests.samplers.known import banana, chain_z, gamma, gaussian, mixture, normals, worst_z

DOUBLE = torch.float64
pytestmark = pytest.mark.spec("C-03")


def quartic(x: Tensor) -> tuple[Tensor, Tensor]:
    return -(x**4).sum(-1) / 4, -(x**3)


def energy(x: Tensor, p: Tensor) -> Tensor:
    return 0.5 * (p**2).sum(-1) - quartic(x)[0]


def test_leapfrog_run_backward_returns() -> None:
    stream = torch.Generator().manual_seed(0)
    x, p = normals(5, 3, stream), normals(5, 3, stream)
    y, q, _, slope = leapfrog(quartic, x, p, quartic(x)[1], 0.1, 20)
    back, r, _, _ = leapfrog(quartic, y, -q, slope, 0.1, 20)
    torch.testing.assert_close(back, x, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(-r, p, rtol=1e-10, atol=1e-10)


def test_leapfrog_has_second_order() -> None:
    x, p = torch.ones(1, 1, dtype=DOUBLE), torch.full((1, 1), 0.5, dtype=DOUBLE)
    ends = [leapfrog(quartic, x, p, quartic(x)[1], 1.0 / n, n)[0] for n in (20, 40, 80, 20480)]
    errors = [float((end - ends[-1]).abs()) for end in ends[:-1]]
    orders = [torch.tensor(a / b).log2() for a, b in pairwise(errors)]
    assert all(abs(order - 2) < 0.05 for order in orders)


def test_leapfrog_preserves_volume() -> None:
    def flow(point: Tensor) -> Tensor:
        x, p = point[None, :2], point[None, 2:]
        y, q, _, _ = leapfrog(quartic, x, p, quartic(x)[1], 0.3, 5)
        return torch.cat([y[0], q[0]])

    jacobian = torch.autograd.functional.jacobian(flow, torch.tensor([0.3, -0.8, 1.0, 0.2], dtype=DOUBLE))
    torch.testing.assert_close(torch.linalg.det(jacobian), torch.ones((), dtype=DOUBLE), rtol=1e-10, atol=0)


def test_mass_is_a_change_of_coordinates() -> None:
    # velocity is the inverse mass times the momentum: one leapfrog of x with that mass, written out
    law, _, cov = gaussian()
    stream = torch.Generator().manual_seed(1)
    white = Whitened(law.target, torch.linalg.cholesky(cov))
    x, noise, h = law.exact(4, stream), normals(4, 3, stream), 0.3
    z, _, _, _ = leapfrog(white.value_and_grad, white.back(x), noise, white.value_and_grad(white.back(x))[1], h, 1)
    momentum = torch.linalg.solve(torch.linalg.cholesky(cov).mT, noise.mT).mT  # covariance is the mass
    expected = x + h * (momentum + 0.5 * h * law.target.value_and_grad(x)[1]) @ cov
    torch.testing.assert_close(white.out(z), expected)
    torch.testing.assert_close(white.unslope(white.slope(x)), x)


@pytest.mark.parametrize("make", [lambda: gaussian()[0], banana, mixture, gamma])
@pytest.mark.parametrize("jitter", [0.0, 0.5])
def test_transition_leaves_the_law_as_it_was(make, jitter: float) -> None:
    law = make()
    stream = torch.Generator().manual_seed(2)
    kernel = HMC(law.target, step_size=0.4, steps=4, jitter=jitter)
    state = kernel.init(law.exact(20_000, stream))
    for _ in range(3):
        state, info = kernel.step(state, stream)
    assert 0.3 < info.accepted.mean() < 0.999  # rejections matter to the test
    assert worst_z(state.position, law.exact(20_000, stream)) < 4.5
    torch.testing.assert_close(state.log_density, law.target.log_density(state.position))
    torch.testing.assert_close(state.gradient, law.target.value_and_grad(state.position)[1])


@pytest.mark.parametrize("mass", ["diagonal", "dense", "unit"])
def test_run_finds_moments(mass: str) -> None:
    law, mean, cov = gaussian()
    draws = run(HMC(law.target, mass=mass), chains=32, draws=200, warmup=200, seed=0)
    assert chain_z(draws["x"], mean, cov) < 4.5


def test_divergence_is_reported() -> None:
    law, _, _ = gaussian()
    kernel = HMC(law.target, step_size=30.0, steps=5, jitter=0.0)
    stream = torch.Generator().manual_seed(0)
    _, info = kernel.step(kernel.init(law.exact(10, stream)), stream)
    assert info.divergent.all()
    assert (info.steps == 5).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"step_size": 0.0}, "step_size"),
        ({"steps": 0}, "steps"),
        ({"jitter": 2.0}, "jitter"),
        ({"accept": 1.0}, "accept"),
        ({"mass": "dens"}, "did you mean 'dense'"),
        ({"inverse_mass": torch.ones(2)}, "inverse_mass has shape"),
        ({"inverse_mass": -torch.ones(3)}, "not positive"),
        ({"inverse_mass": -torch.eye(3)}, "positive definite"),
    ],
)
def test_bad_settings_are_refused(settings: dict, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        HMC(gaussian()[0].target, **settings)


def test_target_must_be_a_target() -> None:
    with pytest.raises(InvalidInput, match=r"give Target\(log_density, example\)"):
        HMC(lambda x: -(x**2).sum())
