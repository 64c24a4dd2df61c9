"""NUTS: invariance of its transitions, two independent implementations of its trees, moments of known laws."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
import torch
from torch import Tensor
from torch.distributions import constraints

from benthic.base.errors import InvalidInput
from benthic.samplers.hamiltonian import trees_cpu
from benthic.samplers.hamiltonian.forest import Forest
from benthic.samplers.hamiltonian.forest_masked import MaskedForest
from benthic.samplers.hamiltonian.nuts import NUTS
from benthic.samplers.hamiltonian.trees import tables
from benthic.samplers.hamiltonian.whitening import Whitened
from benthic.samplers.judging.diagnostics import mcse_mean
from benthic.samplers.running import run
from benthic.samplers.target import Target
from tests.samplers.known import banana, chain_z, gamma, gaussian, mixture, worst_z

DOUBLE = torch.float64
pytestmark = pytest.mark.spec("C-03")


@pytest.mark.parametrize("make", [lambda: gaussian()[0], banana, mixture, gamma])
@pytest.mark.parametrize("step_size", [0.15, 0.9])
def test_transitions_leave_the_law_as_it_was(make, step_size: float) -> None:
    """Chains that start from exact draws have exact draws after: what a biased tree would break."""
    law = make()
    stream = torch.Generator().manual_seed(3)
    kernel = NUTS(law.target, step_size=step_size)
    state, trail = kernel.collect(kernel.init(law.exact(8_000, stream)), 3, stream)
    fresh = law.exact(8_000, stream)
    for index in range(3):
        assert worst_z(trail.positions[:, index], fresh) < 4.5
    for column in range(fresh.shape[1]):
        found = scipy.stats.ks_2samp(state.position[:, column].numpy(), fresh[:, column].numpy())
        assert found.pvalue > 1e-5
    torch.testing.assert_close(state.position, trail.positions[:, -1])
    torch.testing.assert_close(state.log_density, law.target.log_density(state.position))
    torch.testing.assert_close(state.gradient, law.target.value_and_grad(state.position)[1])


def test_masked_trees_leave_the_law_as_it_was() -> None:
    law = banana()
    stream = torch.Generator().manual_seed(4)
    kernel = NUTS(law.target, step_size=0.5)
    forest = MaskedForest(kernel, kernel.init(law.exact(6000, stream)), 4, stream, 2)
    forest.grow()
    assert worst_z(forest.trail().positions[:, -1], law.exact(6000, stream)) < 4.5
    assert forest.visited().shape == (6000 * 4, 2)


def test_both_trees_agree_leaf_by_leaf(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiled branches and the masks, fed the same noise, make the same draws."""
    law, _, cov = gaussian(4)
    stream = torch.Generator().manual_seed(5)
    kernel = NUTS(law.target, step_size=0.2, inverse_mass=cov.diagonal(), max_depth=5)
    state = kernel.init(law.exact(6, stream))
    momenta = torch.randn(80, 6, 4, generator=stream, dtype=DOUBLE)
    noise = torch.rand(900, 6, 3, generator=stream, dtype=DOUBLE)
    monkeypatch.setattr(Forest, "_momenta", lambda self, most: momenta.numpy())
    monkeypatch.setattr(Forest, "_uniforms", lambda self, rows: noise.numpy())

    def refresh(self: MaskedForest) -> None:
        self._normals, self._uniforms = momenta, noise

    monkeypatch.setattr(MaskedForest, "_refresh", refresh)
    one, other = (kind(kernel, state, 30, stream, 2) for kind in (Forest, MaskedForest))
    for uniforms in noise:
        one._leaf(uniforms.numpy())
        other._leaf(uniforms)
    assert (one._cnt[trees_cpu.DONE] == other._trees.done.numpy()).all()
    a, b = one.trail(), other.trail()
    assert a.info["depth"].unique().numel() > 2
    torch.testing.assert_close(a.positions, b.positions, rtol=1e-9, atol=1e-9)
    for name in a.info:
        torch.testing.assert_close(a.info[name].double(), b.info[name].double(), rtol=1e-9, atol=1e-9)
    for x, y in zip(one.state(), other.state(), strict=True):
        torch.testing.assert_close(x, y, rtol=1e-9, atol=1e-9)


def test_checkpoint_tables_are_those_of_a_recursive_tree() -> None:
    """A leaf completes the subtrees that end with it; its checkpoint slot is free of those still open."""
    opened, completed = tables(4, torch.device("cpu"))
    for leaf in range(16):
        ends = [size for size in (2, 4, 8, 16) if (leaf + 1) % size == 0]
        assert completed[leaf] == len(ends)
        if leaf % 2 == 0:  # subtrees of even size begun before this leaf that go on after it
            begun = {leaf // size * size for size in (4, 8, 16)} - {leaf}
            assert opened[leaf] == len(begun)


def test_trajectory_ends_after_half_a_turn() -> None:
    """On a standard normal of many dimensions momenta turn after half a period: pi, met by a doubling."""
    target = Target(lambda x: -0.5 * (x**2).sum(-1), torch.zeros(200, dtype=DOUBLE), batched=True)
    stream = torch.Generator().manual_seed(0)
    for step in (0.05, 0.11):
        kernel = NUTS(target, step_size=step)
        position = torch.randn(40, 200, generator=stream, dtype=DOUBLE)
        _, info = kernel.step(kernel.init(position), stream)
        expected = 2 ** math.ceil(math.log2(math.pi / step)) - 1
        assert (info.steps == expected).double().mean() > 0.9


def test_chains_agree_however_many_run_beside_them() -> None:
    law, mean, cov = gaussian()
    for chains, draws in ((1, 800), (7, 300), (300, 20)):
        found = run("nuts", law.target, chains=chains, draws=draws, warmup=150, seed=chains)
        assert chain_z(found["x"].reshape(1, -1, 3) if chains == 300 else found["x"], mean, cov) < 5


def test_a_seed_decides_everything_and_global_state_is_left_alone() -> None:
    law, _, _ = gaussian()
    before = torch.get_rng_state()
    one, same, other = (run("nuts", law.target, chains=3, draws=20, warmup=40, seed=seed)["x"] for seed in (7, 7, 8))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert torch.equal(before, torch.get_rng_state())


def within(draws: Tensor, exact: float, limit: float = 4.5) -> bool:
    """Whether the mean of (chains, draws) is the exact one to its Monte Carlo error."""
    return bool((draws.mean() - exact).abs() < limit * mcse_mean(draws))


def test_funnel_without_centre() -> None:
    """Neal's funnel: v ~ N(0, 9), x = exp(v/2) z; the draws of x have the variance E exp(v) of a lognormal."""

    def density(p: dict[str, Tensor]) -> Tensor:
        return -0.5 * (p["v"] / 3) ** 2 - 0.5 * (p["z"] ** 2).sum()

    target = Target(density, {"v": torch.zeros((), dtype=DOUBLE), "z": torch.zeros(4, dtype=DOUBLE)})
    draws = run("nuts", target, chains=64, draws=60, warmup=60, seed=1)
    assert within(draws["v"], 0.0)
    assert within(draws["v"] ** 2, 9.0)
    x = torch.exp(draws["v"] / 2)[..., None] * draws["z"]
    # P(|x| < 1) by quadrature over v
    v = torch.linspace(-24, 24, 4001, dtype=DOUBLE)
    inside = torch.erf(torch.exp(-v / 2) / math.sqrt(2)) * torch.exp(-0.5 * (v / 3) ** 2) / math.sqrt(18 * math.pi)
    assert within((x[..., 0].abs() < 1).double(), float(torch.trapezoid(inside, v)))


def test_centred_funnel_diverges_and_is_told() -> None:
    def density(p: Tensor) -> Tensor:
        return -0.5 * (p[0] / 3) ** 2 - 0.5 * (p[1:] ** 2).sum() * torch.exp(-p[0]) - 2 * p[0]

    target = Target(density, torch.zeros(5, dtype=DOUBLE))
    draws = run(NUTS(target, max_depth=6), chains=64, draws=100, warmup=40, seed=0)
    assert draws.divergences > 0  # 62 ± 15


def test_constrained_posterior() -> None:
    """Rate and shares: a Gamma and a Dirichlet law, means and variances known."""
    shape = torch.tensor([2.0, 3.0, 5.0], dtype=DOUBLE)

    def density(p: dict[str, Tensor]) -> Tensor:
        return ((shape - 1) * p["share"].log()).sum() + 2 * p["rate"].log() - 2 * p["rate"]

    example = {"share": torch.full((3,), 1 / 3, dtype=DOUBLE), "rate": torch.ones((), dtype=DOUBLE)}
    limits = {"share": constraints.simplex, "rate": constraints.positive}
    draws = run("nuts", Target(density, example, constraints=limits), chains=64, draws=60, warmup=60, seed=2)
    assert within(draws["rate"], 1.5)
    assert within(draws["rate"] ** 2, 3.0)  # shape 3, rate 2: variance 3/4
    for index, mean in enumerate((0.2, 0.3, 0.5)):
        assert within(draws["share"][..., index], mean)
        assert within((draws["share"][..., index] - mean) ** 2, mean * (1 - mean) / 11)


def test_moments_of_banana_and_mixture() -> None:
    bent = run("nuts", banana().target, chains=64, draws=60, warmup=80, seed=0)["x"]
    assert within(bent[..., 0] ** 2, 1.0)
    assert within(bent[..., 1], 0.5)
    assert within((bent[..., 1] - 0.5) ** 2, 1.5)
    two = run("nuts", mixture().target, chains=64, draws=60, warmup=80, seed=0)["x"][..., 0]
    assert within(two, -0.25)
    assert within(two**2, 0.3 * 3.25 + 0.7 * 2.0)


def test_thinning_and_report() -> None:
    law, _, _ = gaussian()
    kernel = NUTS(law.target, step_size=0.5)
    stream = torch.Generator().manual_seed(0)
    state = kernel.init(law.exact(5, stream))
    _, trail = kernel.collect(state, 10, stream, thin=3)
    assert trail.positions.shape == (5, 10, 3)
    torch.testing.assert_close(
        trail.info["log_density"], law.target.log_density(trail.positions.reshape(-1, 3)).reshape(5, 10)
    )
    assert (trail.info["energy"] >= -trail.info["log_density"]).all()  # kinetic energy is not negative
    assert (2 ** trail.info["depth"] - 1 <= trail.info["steps"]).all()


def test_single_precision_stays_single() -> None:
    law, mean, cov = gaussian(dtype=torch.float32)
    draws = run("nuts", law.target, chains=16, draws=200, warmup=150, seed=0)["x"]
    assert draws.dtype == torch.float32
    assert chain_z(draws, mean, cov) < 4.5


@pytest.mark.parametrize("kind", [Forest, MaskedForest])
def test_nan_beside_the_law_is_a_wall(kind: type) -> None:
    """A density that is nan outside its support keeps chains inside: a half normal."""
    target = Target(lambda x: -0.5 * x[..., 0] ** 2 + 0 * x[..., 0].sqrt(), torch.ones(1, dtype=DOUBLE), batched=True)
    kernel = NUTS(target, step_size=0.2)
    stream = torch.Generator().manual_seed(0)
    exact, fresh = (torch.randn(6000, 1, generator=stream, dtype=DOUBLE).abs() for _ in range(2))
    forest = kind(kernel, kernel.init(exact), 2, stream)
    forest.grow()
    trail = forest.trail()
    assert (trail.positions > 0).all()
    assert trail.info["divergent"].any()
    assert worst_z(forest.state().position, fresh) < 4.5


def test_depth_limit_and_bad_depth() -> None:
    law, _, _ = gaussian()
    stream = torch.Generator().manual_seed(0)
    kernel = NUTS(law.target, step_size=1e-3, max_depth=3)
    _, info = kernel.step(kernel.init(law.exact(5, stream)), stream)
    assert (info.steps == 7).all()
    with pytest.raises(InvalidInput, match="max_depth"):
        NUTS(law.target, max_depth=0)


def test_turning_by_hand() -> None:
    forward, back, none = np.array([1.0, 0.0]), np.array([-1.0, 0.1]), np.zeros(2)
    assert not trees_cpu._turning(forward, forward, 2 * forward, none, none)
    assert trees_cpu._turning(forward, back, np.array([0.5, 0.0]), none, none)


@pytest.mark.slow
def test_compiled_density_gives_the_same_gradients_for_any_mass() -> None:
    def density(p: dict[str, Tensor]) -> Tensor:
        return -p["rate"] + 2 * p["rate"].log() - (p["b"] ** 4).sum()

    example = {"rate": torch.ones((), dtype=DOUBLE), "b": torch.zeros(3, dtype=DOUBLE)}
    limits = {"rate": constraints.positive}
    plain, fast = (Target(density, example, constraints=limits, compile=on) for on in (False, True))
    stream = torch.Generator().manual_seed(0)
    z = torch.randn(5, 4, generator=stream, dtype=DOUBLE)
    lower = torch.tril(torch.randn(4, 4, generator=stream, dtype=DOUBLE)) + 2 * torch.eye(4, dtype=DOUBLE)
    for root in (None, lower.diagonal().contiguous(), lower):
        for rows in (z, (2 * z).mT.contiguous().mT):  # strides must not matter
            expected, found = (Whitened(target, root).value_and_grad(rows) for target in (plain, fast))
            for a, b in zip(expected, found, strict=True):
                torch.testing.assert_close(a, b)
    draws = run("nuts", fast, chains=32, draws=100, warmup=60, seed=0)
    assert within(draws["rate"], 3.0)
