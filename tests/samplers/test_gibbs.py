"""Gibbs: known autocorrelations, enumerated discrete laws, Metropolis blocks, scans, bad input."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch.distributions import Bernoulli, Normal

from benthic.base.errors import InvalidInput
from benthic.samplers import Blocks, Gibbs, MetropolisBlock, SamplerStopped, run

pytestmark = pytest.mark.spec("C-03")
F64 = torch.float64
RHO = 0.8


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def z_of(values, truth):
    """z-scores of means over independent chains (chains, ...)."""
    return (values.mean(0) - truth) / (values.std(0) / math.sqrt(len(values)))


def bivariate(**options):
    """A normal pair of correlation RHO."""
    width = math.sqrt(1 - RHO**2)
    return Gibbs(
        {"a": lambda v, _: Normal(RHO * v["b"], width), "b": lambda v, _: Normal(RHO * v["a"], width)},
        {"a": 0.0, "b": 0.0},
        **options,
    )


def exact_pairs(n):
    z = torch.randn(n, 2, generator=generator(9), dtype=F64)
    return torch.stack([z[:, 0], RHO * z[:, 0] + math.sqrt(1 - RHO**2) * z[:, 1]], 1)


@pytest.mark.parametrize(
    ("scan", "lag"),
    # In turn: the autoregression of each coordinate is rho^2. At random, twice a step: the mean moves by the square of
    # [[1, rho], [rho, 1]] / 2, which makes the covariance of a with itself a step later (1 + 3 rho^2) / 4.
    [("systematic", RHO**2), ("random", (1 + 3 * RHO**2) / 4)],
)
def test_one_step_from_exact_draws_stays_exact_with_the_known_autocorrelation(scan, lag):
    n = 200_000
    before = exact_pairs(n)
    kernel = bivariate(scan=scan)
    state, info = kernel.step(kernel.init(before), generator(1))
    after = state.position
    assert z_of(after, 0.0).abs().max() < 4
    assert z_of(after.square(), 1.0).abs().max() < 4
    assert abs(float(z_of(after.prod(1), RHO))) < 4
    assert abs(float(z_of(before[:, 0] * after[:, 0], lag))) < 4
    assert (info.accepted == 1).all()


def test_autocorrelation_along_a_run_is_rho_squared():
    # 200 chains of 500: the error of a lag-one product is about 1 / sqrt(1e5 / 5) = 0.007.
    draws = run(bivariate(), chains=200, draws=500, warmup=50, seed=0)
    a = draws["a"]
    assert abs(float(z_of((a[:, 1:] * a[:, :-1]).mean(1), RHO**2))) < 4
    assert float(draws.summary().row("a")["ess_bulk"]) == pytest.approx(
        200 * 500 * (1 - RHO**2) / (1 + RHO**2), rel=0.1
    )


def test_random_scan_with_weights_is_exact():
    draws = run(bivariate(scan="random", weights=[1, 3]), chains=200, draws=300, warmup=50, seed=3)
    a, b = draws["a"], draws["b"]
    for value, truth in ((a, 0.0), (b, 0.0), (a * a, 1.0), (b * b, 1.0), (a * b, RHO)):
        assert abs(float(z_of(value.mean(1), truth))) < 4
    still = (a[:, 1:] == a[:, :-1]).double().mean(1)
    assert abs(float(z_of(still, (3 / 4) ** 2))) < 4  # chosen by none of two updates


# An Ising net of 2 x 3 spins

EDGES = [(0, 1), (1, 2), (3, 4), (4, 5), (0, 3), (1, 4), (2, 5)]
COUPLING, FIELD = 0.6, 0.2
NEIGHBORS = torch.zeros(6, 6, dtype=F64)
for i, j in EDGES:
    NEIGHBORS[i, j] = NEIGHBORS[j, i] = 1


def ising_energy(spins):
    s = spins.to(F64)
    return COUPLING * ((s @ NEIGHBORS) * s).sum(-1) / 2 + FIELD * s.sum(-1)


def ising_truth():
    states = torch.tensor(list(itertools.product([-1, 1], repeat=6)))
    return states, ising_energy(states).softmax(0)


def flip(members):
    """The conditional of spins that are not neighbors of one another, given all others."""

    def conditional(values, generator):
        spins = torch.cat([values["even"], values["odd"]], 1)
        order = torch.tensor([0, 2, 4, 1, 3, 5])
        whole = torch.empty_like(spins)
        whole[:, order] = spins
        up = torch.sigmoid(2 * (COUPLING * whole.to(F64) @ NEIGHBORS + FIELD))[:, members]
        return 2 * (torch.rand(up.shape, generator=generator, dtype=F64) < up).long() - 1

    return conditional


@pytest.mark.parametrize("scan", ["systematic", "random"])
def test_a_checkerboard_sampler_has_the_enumerated_law(scan):
    states, truth = ising_truth()
    kernel = Gibbs(
        {"even": flip([0, 2, 4]), "odd": flip([1, 3, 5])},
        {"even": torch.ones(3, dtype=torch.long), "odd": torch.ones(3, dtype=torch.long)},
        scan=scan,
    )
    draws = run(kernel, chains=300, draws=200, warmup=50, seed=0)
    whole = torch.empty(300, 200, 6, dtype=torch.long)
    whole[..., [0, 2, 4]], whole[..., [1, 3, 5]] = draws["even"], draws["odd"]
    code = ((whole + 1) // 2 * 2 ** torch.arange(5, -1, -1)).sum(-1)
    shares = torch.stack([(code == k).double().mean(1) for k in range(64)], 1)
    often = truth > 0.002
    assert z_of(shares, truth)[often].abs().max() < 4.5  # 40 states; 4.5 is a chance of 3e-4
    magnet = whole.double().mean(-1)
    assert abs(float(z_of(magnet.mean(1), (truth * states.double().mean(1)).sum()))) < 4


def sprinkler(v):
    """log p(rain, sprinkler, wet = yes)."""
    rain, on = v["rain"].to(F64), v["on"].to(F64)
    chance_on = torch.where(rain == 1, 0.01, 0.4)
    wet = torch.where(rain == 1, torch.where(on == 1, 0.99, 0.8), torch.where(on == 1, 0.9, 0.0001))
    return Bernoulli(0.2).log_prob(rain) + Bernoulli(chance_on).log_prob(on) + wet.log()


@pytest.mark.filterwarnings("ignore:.*chains disagree")  # it mixes slowly
def test_a_net_with_a_metropolis_block_has_the_exact_posterior():
    def conditional(v, generator):
        odds = sprinkler({**v, "on": torch.ones_like(v["on"])}) - sprinkler({**v, "on": torch.zeros_like(v["on"])})
        return Bernoulli(logits=odds)

    kernel = Gibbs(
        {"rain": MetropolisBlock(propose=lambda x, g: 1 - x), "on": conditional},
        {"rain": torch.tensor(0), "on": torch.tensor(1)},
        log_density=sprinkler,
    )
    draws = run(kernel, chains=500, draws=200, warmup=100, seed=0)
    grid = {"rain": torch.tensor([0, 0, 1, 1]), "on": torch.tensor([0, 1, 0, 1])}
    posterior = sprinkler(grid).softmax(0)
    assert abs(float(z_of(draws["rain"].double().mean(1), posterior[2:].sum()))) < 4
    assert abs(float(z_of(draws["on"].double().mean(1), posterior[[1, 3]].sum()))) < 4
    log_density = kernel.init(kernel.target.pack({"rain": torch.tensor([1]), "on": torch.tensor([0])})).log_density
    assert float(log_density) == pytest.approx(math.log(0.2 * 0.99 * 0.8), rel=1e-6)  # chances are float32


def test_metropolis_within_gibbs_on_a_banana():
    # x ~ N(0, 1), y = e + (x^2 - 1) / 2: y is drawn given x, x is walked; y has variance 1.5.
    def joint(v):
        return -0.5 * (v["x"] ** 2 + (v["y"] - (v["x"] ** 2 - 1) / 2) ** 2)

    kernel = Gibbs(
        {"x": MetropolisBlock(scale=0.01), "y": lambda v, _: Normal((v["x"] ** 2 - 1) / 2, 1.0)},
        {"x": 0.0, "y": 0.0},
        log_density=joint,
    )
    draws = run(kernel, chains=200, draws=400, warmup=300, seed=0)
    x, y = draws["x"], draws["y"]
    for value, truth in ((x, 0.0), (x * x, 1.0), (y, 0.0), (y * y, 1.5), (x * y, 0.0), (x * x * y, 1.0)):
        assert abs(float(z_of(value.mean(1), truth))) < 4
    assert float(draws.info["blocks"][..., 0].mean()) == pytest.approx(0.44, abs=0.08)


def test_blocks_drawn_together():
    width = math.sqrt(1 - RHO**2)

    def both(v, g):
        a = torch.randn(len(v["c"]), generator=g, dtype=F64)
        return {"a": a, "b": Normal(RHO * a, width)}

    kernel = Gibbs({("a", "b"): both, "c": lambda v, _: Normal(v["a"], 1.0)}, {"a": 0.0, "b": 0.0, "c": 0.0})
    draws = run(kernel, chains=300, draws=50, warmup=5, seed=0)
    assert abs(float(z_of((draws["a"] * draws["b"]).mean(1), RHO))) < 4
    assert abs(float(z_of((draws["a"] * draws["c"]).mean(1), 1.0))) < 4


@pytest.mark.filterwarnings("ignore:.*chains disagree")  # five draws
def test_start_and_seed_decide_the_run():
    kernel = bivariate(start=lambda n, g: {name: torch.full((n,), 5.0, dtype=F64) for name in "ab"})
    assert torch.equal(kernel.target.start(3, generator()), torch.full((3, 2), 5.0, dtype=F64))
    before = torch.get_rng_state()
    first, again = (run(kernel, chains=2, draws=5, warmup=0, seed=1)["a"] for _ in range(2))
    assert torch.equal(first, again) and torch.equal(torch.get_rng_state(), before)


ONE = {"a": lambda v, _: v["a"]}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Gibbs({"b": ONE["a"]}, {"a": 0.0}), "no block 'b'"),
        (lambda: Gibbs(ONE, {"a": 0.0, "c": 0.0}), "'c' has no conditional"),
        (lambda: Gibbs(ONE, {"a": 0.0}, scan="zigzag"), "'systematic' or 'random'"),
        (lambda: Gibbs(ONE, {"a": 0.0}, weights=[1, 2]), "one positive number for each of 1"),
        (lambda: Gibbs({"a": 3}, {"a": 0.0}), "must be a function"),
        (lambda: Gibbs({("a", "b"): MetropolisBlock()}, {"a": 0.0, "b": 0.0}), "moves one block"),
        (lambda: MetropolisBlock(scale=-1), "scale is -1"),
        (lambda: run(Gibbs({"a": lambda v, _: v["a"][:2]}, {"a": 0.0}), seed=0), r"gave \(2,\); a tensor \(4,\)"),
        (
            lambda: run(Gibbs({"a": lambda v, _: v["a"] * math.nan}, {"a": 0.0}), draws=5, seed=0),
            "'a' are not all finite",
        ),
        (lambda: run(Gibbs({"a": MetropolisBlock()}, {"a": 0.0}), seed=0), "'a' has no log density"),
        (
            lambda: run(Gibbs({"a": MetropolisBlock(lambda v: v["a"] * 1.0)}, {"a": torch.tensor(1)}), seed=0),
            "discrete",
        ),
        (lambda: Blocks({}), "holds no block"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()


def test_a_block_that_never_accepts_stops_with_its_name():
    kernel = Gibbs(
        {"a": MetropolisBlock(propose=lambda x, g: x + 1e6), "b": lambda v, _: Normal(v["a"], 1.0)},
        {"a": 0.0, "b": 0.0},
        log_density=lambda v: -0.5 * (v["a"] ** 2 + (v["b"] - v["a"]) ** 2),
    )
    with pytest.raises(SamplerStopped, match=r"no proposal for block 'a' was accepted in 300"):
        run(kernel, draws=300, warmup=0, seed=0)
