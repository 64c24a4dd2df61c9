"""Simulation-based calibration: right samplers pass, wrong ones fail, and the tests of uniformity hold their level."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from benthic.base.errors import InvalidInput
from benthic.samplers import (
    Blocks,
    Calibration,
    MetropolisHastings,
    Target,
    calibrate,
    ecdf_p_value,
    histogram_p_value,
    run,
)
from benthic.samplers.judging.uniformity import ecdf_band

pytestmark = pytest.mark.spec("C-03")
F64 = torch.float64
N = 5  # observations a simulation


def prior(count, generator):
    """A mean N(0, 1) and a variance that is inverse gamma (3, 3)."""
    rate = torch._standard_gamma(torch.full((count,), 3.0, dtype=F64), generator=generator)
    return {"mean": torch.randn(count, generator=generator, dtype=F64), "variance": 3 / rate}


def simulate(p, generator):
    noise = torch.randn(len(p["mean"]), N, generator=generator, dtype=F64)
    return p["mean"][:, None] + p["variance"].sqrt()[:, None] * noise


def joint(data):
    """Log posterior of means and variances (chains, S) for data (S, N)."""

    def log_density(p):
        mean, variance = p["mean"], p["variance"]
        before = -0.5 * mean**2 - 4 * variance.log() - 3 / variance
        sums = (data - mean[..., None]).square().sum(-1)
        return (before - 0.5 * sums / variance - N / 2 * variance.log()).sum(-1)

    return log_density


def everything_at_once(name, **options):
    """All posteriors as one law over 2 S numbers: chains that sample S independent problems."""

    def infer(data, seed):
        ones = torch.ones(len(data), dtype=F64)
        target = Target(
            joint(data),
            {"mean": 0 * ones, "variance": ones},
            constraints={"variance": torch.distributions.constraints.positive},
            batched=True,
        )
        return by_simulation(run(name, target, seed=seed, **options))

    return infer


def by_simulation(draws):
    """(chains, draws, S) -> (S, draws * chains), draws of the same moment side by side."""
    return {name: value.movedim(2, 0).transpose(1, 2).flatten(1) for name, value in draws.values.items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["hmc", "nuts"])
def test_hamiltonian_samplers_are_calibrated_for_mean_and_variance(name):
    infer = everything_at_once(name, chains=4, draws=300, warmup=300)
    found = calibrate(prior, simulate, infer, simulations=300, levels=63, together=True, seed=1)
    assert found.names == ["mean", "variance"]
    assert found.calibrated(1e-5, "chi2"), found.summary()


@pytest.mark.slow
def test_nuts_is_calibrated_one_set_at_a_time():
    def infer(data, seed):
        return everything_at_once("nuts", chains=4, draws=60, warmup=100)(data[None], seed)

    found = calibrate(prior, simulate, infer, simulations=40, levels=31, seed=0)
    assert found.calibrated(1e-5, "chi2"), found.summary()


# A normal mean seen once with noise 1: the posterior is N(y / 2, 1 / 2).


def means(count, generator):
    return torch.randn(count, generator=generator, dtype=F64)


def seen(mean, generator):
    return mean + torch.randn(len(mean), generator=generator, dtype=F64)


def hamiltonian(power=1.0):
    """NUTS on all posteriors together, the likelihood to a power."""

    def infer(data, seed):
        def log_density(mean):
            return -0.5 * (mean**2 + power * (data - mean) ** 2).sum(1)

        target = Target(log_density, torch.zeros(len(data), dtype=F64), batched=True)
        return by_simulation(run("nuts", target, chains=8, draws=40, warmup=100, seed=seed))

    return infer


def test_nuts_is_calibrated_and_a_likelihood_counted_four_times_is_noticed():
    right, wrong = (
        calibrate(means, seen, hamiltonian(power), simulations=300, levels=31, together=True, seed=1)
        for power in (1.0, 4.0)
    )
    assert right.calibrated(1e-5, "chi2"), right.summary()
    assert not wrong.calibrated(0.001)
    assert "posteriors are too narrow" in wrong.summary()


def walk(sign):
    """A sampler with lopsided proposals; sign -1 inverts their part of the acceptance ratio."""

    def propose(x, g):
        step = 0.3 + 0.8 * torch.randn(x.shape, generator=g, dtype=F64)
        forward = -0.5 * ((step - 0.3) / 0.8) ** 2
        backward = -0.5 * ((-step - 0.3) / 0.8) ** 2
        return x + step, sign * (forward - backward).sum(1)

    def infer(data, seed):  # every chain has its own data
        target = Blocks(torch.tensor(0.0, dtype=F64), lambda x: -((x - data / 2) ** 2))
        return run(MetropolisHastings(target, propose), chains=len(data), draws=600, warmup=50, seed=seed)

    return infer


def test_metropolis_is_calibrated_and_an_inverted_ratio_is_not():
    right, wrong = (
        calibrate(means, seen, walk(sign), simulations=400, levels=31, together=True, seed=0) for sign in (1.0, -1.0)
    )
    assert right.calibrated(1e-5, "chi2"), right.summary()
    assert not wrong.calibrated(0.001) and not wrong.calibrated(0.001, "chi2")
    assert "posteriors lie too high" in wrong.summary()


def normal(shift=0.0, scale=1.0):
    def infer(data, seed):
        noise = torch.randn(len(data), 63, generator=torch.Generator().manual_seed(seed), dtype=F64)
        return {"x": data[:, None] / 2 + shift + scale * noise / math.sqrt(2)}

    return infer


@pytest.mark.parametrize(
    ("infer", "words"),
    [
        (normal(), ""),
        (normal(scale=0.7), "too narrow"),
        (normal(scale=1.5), "too wide"),
        (normal(shift=0.3), "too high"),
        (normal(shift=-0.3), "too low"),
    ],
)
def test_the_shape_of_ranks_is_put_in_words(infer, words):
    found = calibrate(means, seen, infer, simulations=1000, together=True, seed=3)
    assert found.calibrated(1e-5, "chi2") == (not words)
    text = found.summary()
    assert words in text and ("posteriors" in text) == bool(words)


def test_ranks_count_draws_below_and_split_ties():
    def exactly(data, seed):
        return {"x": torch.arange(7.0).expand(len(data), 7)}

    def three(count, generator):
        return torch.full((count,), 2.5)

    found = calibrate(three, lambda p, g: p, exactly, simulations=4, levels=7, together=True, seed=0)
    assert found.ranks["x"].tolist() == [3, 3, 3, 3]
    tied = calibrate(
        lambda n, g: torch.zeros(n),
        lambda p, g: p,
        lambda d, s: {"x": torch.zeros(len(d), 7)},
        simulations=4000,
        levels=7,
        together=True,
        seed=0,
    )
    assert histogram_p_value(tied.ranks["x"], 7) > 1e-5  # uniform on 0 .. 7


@pytest.mark.parametrize("test", [ecdf_p_value, histogram_p_value])
def test_p_values_of_uniform_ranks_are_uniform(test):
    rng = np.random.default_rng(0)
    found = np.array([test(rng.integers(0, 32, 60), 31) for _ in range(400)])
    for level in (0.05, 0.25, 0.5):
        assert abs((found <= level).mean() - level) < 4 * math.sqrt(level * (1 - level) / 400)


def test_chi_square_is_that_of_scipy():
    from scipy.stats import chisquare

    ranks = np.random.default_rng(1).integers(0, 60, 300)
    counts = np.bincount(ranks // 6, minlength=10)
    assert histogram_p_value(torch.as_tensor(ranks), 59, bins=10) == pytest.approx(chisquare(counts).pvalue)
    # Bins of 4 and 3 values expect 4 / 7 and 3 / 7.
    ranks = torch.tensor([0] * 30 + [6] * 40)
    expected = chisquare([30, 40], [40, 30]).pvalue
    assert histogram_p_value(ranks, 6, bins=2) == pytest.approx(expected)


def test_the_band_holds_whole_curves_as_often_as_it_says():
    low, high = (end.numpy() for end in ecdf_band(100, 31, 0.9))
    rng = np.random.default_rng(5)
    counts = rng.multinomial(100, np.full(32, 1 / 32), size=2000)
    curves = np.cumsum(counts, 1)[:, :-1] / 100
    inside = ((curves >= low) & (curves <= high)).all(1).mean()
    assert 0.87 < inside < 0.95  # 0.9; steps of a hundredth leave it a little above


def test_few_effective_draws_are_mentioned():
    def sticky(data, seed):
        steps = torch.randn(len(data), 200, generator=torch.Generator().manual_seed(seed), dtype=F64)
        return {"x": steps.cumsum(1)}

    assert "take more" in calibrate(means, seen, sticky, simulations=50, together=True, seed=0).summary()


def test_pictures_show_ranks():
    found = Calibration({"x": torch.arange(64).repeat(4)}, 63)
    bars = found.plot("histogram").axes[0].patches
    assert sum(bar.get_height() for bar in bars) == 256
    curve = found.plot().axes[0].lines[0].get_ydata()
    np.testing.assert_allclose(curve, 0, atol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"simulations": 1}, "simulations is 1"),
        ({"prior": lambda n, g: torch.zeros(3)}, "leading dimension of 20"),
        ({"infer": lambda d, s: {"y": torch.zeros(20, 99)}}, "the prior's 'x' is not among them"),
        ({"infer": lambda d, s: {"x": torch.zeros(20, 9)}}, "63 are needed"),
        ({"infer": lambda d, s: {"x": torch.zeros(5, 99)}}, "gave 5 chains"),
        ({"infer": lambda d, s: {"x": torch.zeros(20, 99, 2)}}, "draws of shape"),
    ],
)
def test_bad_input(arguments, message):
    settings = {"prior": means, "simulate": lambda p, g: p, "infer": normal(), "simulations": 20, "together": True}
    with pytest.raises(InvalidInput, match=message):
        calibrate(**(settings | arguments), seed=0)


def test_bad_choices():
    found = Calibration({"x": torch.arange(4)}, 3)
    with pytest.raises(InvalidInput, match="'ecdf' or 'chi2'"):
        found.p_values("ks")
    with pytest.raises(InvalidInput, match="'ecdf' or 'histogram'"):
        found.plot("bars")
    with pytest.raises(InvalidInput, match="between 0 and 2"):
        ecdf_p_value(torch.tensor([3]), 2)
