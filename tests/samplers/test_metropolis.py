"""Metropolis–Hastings: detailed balance, invariance of exact draws, moments of long runs, tuning, bad input."""

from __future__ import annotations

import math

import pytest
import torch
from torch.distributions import MultivariateNormal, Normal, Poisson, StudentT, Uniform

from benthic.base.errors import InvalidInput
from benthic.samplers import Blocks, Independence, MetropolisHastings, RandomWalk, SamplerStopped, Target, run
from benthic.samplers.metropolis import MetropolisState, decide
from benthic.samplers.walking import Moments

pytestmark = pytest.mark.spec("C-03")
F64 = torch.float64
COVARIANCE = torch.tensor([[1.0, 1.2, 0.0], [1.2, 4.0, -0.5], [0.0, -0.5, 0.25]], dtype=F64)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def z_of(values, truth):
    """z-scores of means of (chains, ...): chains are independent, so no autocorrelation enters."""
    return (values.mean(0) - truth) / (values.std(0) / math.sqrt(len(values)))


def z_moments(x, mean, covariance):
    """z-scores of mean and all second moments of draws (chains, draws, d) about the true mean."""
    centered = x - mean
    products = torch.einsum("cni,cnj->cij", centered, centered) / x.shape[1]
    return torch.cat([z_of(x.mean(1), mean).flatten(), z_of(products, covariance).flatten()])


def gaussian():
    mean, precision = torch.tensor([1.0, -2.0, 0.5], dtype=F64), COVARIANCE.inverse()
    target = Target(
        lambda x: -0.5 * (((x - mean) @ precision) * (x - mean)).sum(1), torch.zeros(3, dtype=F64), batched=True
    )
    return target, mean, COVARIANCE


def banana():
    """x0 ~ N(0, 1) and x1 = e + (x0^2 - 1) / 2 with e ~ N(0, 1): mean 0, variances 1 and 1.5, no correlation."""

    def log_density(x):
        return -0.5 * (x[:, 0] ** 2 + (x[:, 1] - (x[:, 0] ** 2 - 1) / 2) ** 2)

    target = Target(log_density, torch.zeros(2, dtype=F64), batched=True)
    return target, torch.zeros(2, dtype=F64), torch.diag(torch.tensor([1, 1.5]))


def mixture():
    """0.3 N(-1.5, 0.25) + 0.7 N(1.5, 1): mean 0.6, second moment 0.3 * 2.5 + 0.7 * 3.25 = 3.025."""
    weights = torch.tensor([0.3 / 0.5, 0.7], dtype=F64).log()
    centers, scales = torch.tensor([-1.5, 1.5], dtype=F64), torch.tensor([0.5, 1.0], dtype=F64)

    def log_density(x):
        return torch.logsumexp(weights - 0.5 * ((x - centers) / scales) ** 2, 1)

    target = Target(log_density, torch.zeros(1, dtype=F64), batched=True)
    return target, torch.tensor([0.6], dtype=F64), torch.tensor([[3.025 - 0.36]], dtype=F64)


@pytest.mark.parametrize("make", [gaussian, banana, mixture])
def test_random_walk_has_the_moments_of_the_target(make):
    target, mean, covariance = make()
    draws = run(RandomWalk(target), chains=200, draws=500, warmup=500, seed=1)
    assert z_moments(draws["x"], mean, covariance).abs().max() < 4


def test_random_walk_learns_scale_and_covariance():
    target, _, covariance = gaussian()
    draws = run("random_walk", target, chains=20, draws=500, warmup=1000, seed=0)
    kernel = draws.meta["kernel"]
    assert float(draws.info["accepted"].mean()) == pytest.approx(0.234, abs=0.06)
    learned = kernel.root @ kernel.root.mT
    torch.testing.assert_close(learned, covariance, rtol=0.25, atol=0.1)
    one = Target(lambda x: -0.5 * ((x / 50) ** 2).sum(1), torch.zeros(1, dtype=F64), batched=True)
    assert float(run("random_walk", one, chains=20, draws=500, seed=0).info["accepted"].mean()) == pytest.approx(
        0.44, abs=0.06
    )


def test_random_walk_in_float32_with_variances_alone():
    scales = torch.tensor([0.01, 1.0, 100.0])
    target = Target(lambda x: -0.5 * (x / scales).square().sum(1), torch.zeros(3), batched=True)
    draws = run(RandomWalk(target, dense=False), chains=100, draws=500, warmup=1000, seed=0)
    assert draws["x"].dtype == torch.float32
    torch.testing.assert_close(draws.sd()["x"] / scales, torch.ones(3), rtol=0.1, atol=0)


def test_constrained_parameters_are_sampled_in_their_set():
    law = torch.distributions.Gamma(torch.tensor(3.0, dtype=F64), torch.tensor(2.0, dtype=F64))
    target = Target(lambda p: law.log_prob(p["rate"]), {"rate": 1.0}, constraints={"rate": law.support})
    draws = run(RandomWalk(target), chains=100, draws=500, warmup=500, seed=2)
    rates = draws["rate"]
    assert (rates > 0).all()
    assert abs(float(z_of(rates.mean(1), 1.5))) < 4 and abs(float(z_of((rates - 1.5).square().mean(1), 0.75))) < 4


@pytest.mark.parametrize("seed", [0, 1])
def test_independence_sampler_has_the_moments_of_the_target(seed):
    target, mean, covariance = mixture()
    law = StudentT(torch.tensor(3.0, dtype=F64), 0.0, 2.0)
    draws = run(Independence(target, law), chains=100, draws=400, warmup=50, seed=seed)
    assert z_moments(draws["x"], mean, covariance).abs().max() < 4


def test_acceptance_is_in_detailed_balance_for_every_pair():
    p, q = torch.tensor([0.1, 0.2, 0.7], dtype=F64), torch.tensor([0.5, 0.3, 0.2], dtype=F64)
    i, j = torch.cartesian_prod(torch.arange(3), torch.arange(3)).T
    here, there = (MetropolisState(k[:, None].double(), p[k].log()) for k in (i, j))
    _, info = decide(here, there, q[j].log() - q[i].log(), generator())
    flow = (p[i] * q[j] * info.accepted).reshape(3, 3)
    torch.testing.assert_close(flow, flow.T, rtol=1e-12, atol=0)


def faces(p):
    """A law on 0 .. k - 1 as a target without gradients."""
    return Blocks(torch.tensor(0), lambda x: p.log()[x.clamp(0, len(p) - 1)].where((x >= 0) & (x < len(p)), -torch.inf))


def test_one_step_from_exact_draws_is_exact_and_reversible():
    # 200000 chains at once: the pair (before, after) must be symmetric and its margins the target.
    p, n = torch.tensor([0.1, 0.2, 0.7], dtype=F64), 200_000
    before = torch.multinomial(p, n, replacement=True, generator=generator(1))

    def lopsided(x, g):  # up with probability 0.8, down with 0.2, around a circle
        up = torch.rand(x.shape, generator=g, dtype=x.dtype) < 0.8
        log_forward = torch.where(up, math.log(4), -math.log(4))[:, 0]
        return (x + torch.where(up, 1, -1)) % 3, log_forward

    for kernel in (MetropolisHastings(faces(p), lopsided), Independence(Blocks(torch.zeros(1), _table(p)), _uniform())):
        state, _ = kernel.step(kernel.init(before[:, None].to(kernel.target.dtype)), generator(2))
        after = state.position[:, 0].long()
        counts = torch.bincount(3 * before + after, minlength=9).reshape(3, 3).double()
        for share, truth in zip(counts.sum(0) / n, p, strict=True):
            assert abs(share - truth) < 4 * math.sqrt(truth * (1 - truth) / n)
        odd = (counts - counts.T) / (counts + counts.T).clamp(min=1).sqrt()
        assert odd.abs().max() < 4


def _table(p):
    return lambda x: p.log()[x[:, 0].clamp(0, 2).long()]


def _uniform():
    class Whole(Uniform):
        """Uniform on 0, 1, 2."""

        def sample(self, sample_shape=()):
            return super().sample(sample_shape).floor()

        def expand(self, batch_shape, _instance=None):
            return super().expand(batch_shape, self._get_checked_instance(Whole, _instance))

    return Whole(torch.zeros(1), 3.0)


def lean(x, g, sign=1.0):
    """Up by one with probability 0.7, down with 0.3."""
    up = torch.rand(x.shape, generator=g, dtype=x.dtype) < 0.7
    return x + torch.where(up, 1, -1), sign * torch.where(up, math.log(7 / 3), -math.log(7 / 3))[:, 0]


def poisson():
    law = Poisson(torch.tensor(4.0, dtype=F64))
    return Blocks(torch.tensor(3), lambda x: law.log_prob(x.clamp(min=0).double()).where(x >= 0, -torch.inf))


@pytest.mark.filterwarnings("ignore:.*chains disagree")  # 400 short chains
def test_asymmetric_proposals_on_a_discrete_law():
    draws = run(MetropolisHastings(poisson(), lean), chains=400, draws=300, warmup=200, seed=0)
    x = draws["x"]
    assert x.dtype == torch.int64
    truths = Poisson(4.0).log_prob(torch.arange(9.0)).exp()
    shares = torch.stack([(x == k).double().mean(1) for k in range(9)], 1)
    assert z_of(shares, truths).abs().max() < 4


@pytest.mark.filterwarnings("ignore:.*chains disagree")
def test_an_inverted_ratio_would_be_noticed():
    draws = run(MetropolisHastings(poisson(), lambda x, g: lean(x, g, -1.0)), chains=400, draws=300, warmup=200, seed=0)
    assert abs(float(z_of(draws["x"].double().mean(1), 4.0))) > 50


@pytest.mark.filterwarnings("ignore:.*chains disagree")
def test_the_same_seed_gives_the_same_draws_and_leaves_global_state_alone():
    target, *_ = gaussian()
    before = torch.get_rng_state()
    law = MultivariateNormal(torch.zeros(3, dtype=F64), 4 * torch.eye(3, dtype=F64))
    for kernel in (RandomWalk(target), Independence(target, law)):
        first, again, other = (run(kernel, chains=3, draws=20, warmup=20, seed=seed)["x"] for seed in (5, 5, 6))
        assert torch.equal(first, again) and not torch.equal(first, other)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_density_that_is_not_a_number_is_rejected():
    target = Target(lambda x: torch.where(x > 0, -x, torch.nan).sum(), torch.ones(1, dtype=F64))
    draws = run(RandomWalk(target), chains=100, draws=300, warmup=300, start=torch.ones(100, 1, dtype=F64), seed=0)
    assert (draws["x"] > 0).all()
    assert abs(float(z_of(draws["x"][..., 0].mean(1), 1.0))) < 4


def test_proposals_that_are_never_accepted_stop_with_advice():
    target, *_ = gaussian()

    def far(x, g):
        return x + 1e6

    for warmup in (0, 500):
        with pytest.raises(SamplerStopped, match=r"no proposal was accepted by any chain in 200.*smaller moves"):
            run(MetropolisHastings(target, far), draws=500, warmup=warmup, seed=0)
    elsewhere = Normal(torch.full((3,), 1e4, dtype=F64), 1.0)
    with pytest.raises(SamplerStopped, match="covers it, wider rather than narrower"):
        run(Independence(target, elsewhere), draws=500, seed=0)


def test_a_walk_that_is_stuck_stops_with_advice():
    # Only the starting point itself has mass.
    target = Blocks(torch.zeros(2, dtype=F64), lambda x: torch.where((x == 0).all(1), 0.0, -torch.inf))
    with pytest.raises(SamplerStopped, match="better starts"):
        run(RandomWalk(target), warmup=500, draws=10, seed=0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda t: RandomWalk(t, scale=0.0), "scale is 0.0"),
        (lambda t: RandomWalk(t, covariance=torch.eye(2)), r"\(3,\) or \(3, 3\) is due"),
        (lambda t: RandomWalk(t, covariance=-torch.eye(3)), "not positive definite"),
        (lambda t: RandomWalk(t, covariance=torch.tensor([1.0, 0.0, 1.0])), "not positive"),
        (lambda t: Independence(t, Normal(0.0, 1.0)), "rows have 3 numbers"),
        (lambda t: Independence(t, "normal"), "must be a torch distribution"),
        (lambda t: MetropolisHastings(t, 3), "must be a function"),
        (lambda t: run(MetropolisHastings(t, lambda x, g: x[:, :2]), seed=0), r"returned \(4, 2\); rows \(4, 3\)"),
        (lambda t: run(MetropolisHastings(t, lambda x, g: (x, x)), seed=0), "sum over the dimensions"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(InvalidInput, match=message):
        make(gaussian()[0])


def test_blocks_check_what_they_are_given():
    blocks = Blocks({"k": torch.tensor([1, 2]), "z": 0.5}, lambda v: v["z"].log())
    assert blocks.names == ["k[0]", "k[1]", "z"]
    rows = blocks.pack({"k": torch.tensor([[3, 4]]), "z": torch.tensor([0.1], dtype=F64)})
    back = blocks.unpack(rows)
    assert back["k"].tolist() == [[3, 4]] and back["k"].dtype == torch.int64
    for wrong, message in (
        ({"k": torch.tensor([1, 2])}, "the blocks are"),
        ({"k": torch.tensor([1, 2, 3]), "z": 0.5}, r"must end in \(2,\)"),
    ):
        with pytest.raises(InvalidInput, match=message):
            blocks.pack(wrong)
    with pytest.raises(InvalidInput, match="not finite at 4 of 4 starting points"):
        Blocks({"z": -1.0}, lambda v: v["z"].log()).start(4, generator())
    with pytest.raises(InvalidInput, match="one number a chain"):
        Blocks(torch.zeros(2), lambda x: x).start(4, generator())


def test_running_moments_are_those_of_all_rows():
    rows = torch.randn(7, 30, 4, generator=generator(), dtype=F64) + 100
    moments = Moments(4, dense=True)
    for part in rows:
        moments.add(part)
    torch.testing.assert_close(moments.mean, rows.reshape(-1, 4).mean(0))
    torch.testing.assert_close(moments.spread / 209, torch.cov(rows.reshape(-1, 4).T), rtol=1e-10, atol=1e-10)
