"""SGLD and SGHMC: exact laws on conjugate posteriors, N/n scaling, preconditioning, schedules, resuming, bad input."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.linalg import solve_discrete_lyapunov

from benthic.base.errors import InvalidInput, NonFiniteLoss
from benthic.data.batch import Batch
from benthic.samplers import RMS, SGHMC, SGLD, Cyclic, MinibatchPosterior, Polynomial, psgld, run_minibatches
from benthic.samplers.langevin.stochastic import Force, Pace

pytestmark = pytest.mark.spec("C-04")
N, LAMBDA = 60, 4.0
DATA = torch.randn(N, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 1.5 + 2
A = N + LAMBDA  # posterior precision of the mean of unit-variance normals with prior N(0, 1/λ)
MEAN = float(DATA.sum()) / A


def gen(seed=0):
    return torch.Generator().manual_seed(seed)


def conjugate(seen=None):
    """y_i ~ N(θ, 1), θ ~ N(0, 1/λ), written over chains; ``seen`` collects the mean of every batch."""

    def rows(theta, batch):
        if seen is not None:
            seen.append(float(batch.X.mean()))
        return -0.5 * (batch.X[:, 0] - theta[:, None]) ** 2

    return MinibatchPosterior(
        rows, lambda theta: -0.5 * LAMBDA * theta**2, torch.tensor(0.0, dtype=torch.float64), batched=True
    )


def paths(rule, batches, start, velocity=0.0):
    """Means of the chains, given the means of their batches: the deterministic part of the recursion."""
    x, v, found = start, velocity, []
    eta = rule.step_size
    for b in batches:
        force = N * (b - x) - LAMBDA * x
        if isinstance(rule, SGLD):
            x = x + eta * force
        else:
            v = (1 - rule.friction) * v + eta * force
            x = x + v
        found.append(x)
    return np.array(found)


def sghmc_covariance(eta, alpha, precision, noise_variance):
    """Stationary covariance of (θ, v) when v' = (1-α) v - η A θ + w, θ' = θ + v'."""
    B = np.array([[1 - eta * precision, 1 - alpha], [-eta * precision, 1 - alpha]])
    return solve_discrete_lyapunov(B, noise_variance * np.ones((2, 2)))


@pytest.mark.parametrize("rule", [SGLD(0.4 / A), SGHMC(0.1 / A, friction=0.3)])
def test_chains_follow_the_exact_law_given_their_batches(rule):
    seen, chains, steps = [], 4000, 40
    start = torch.full((chains, 1), 1.0, dtype=torch.float64)
    found = run_minibatches(
        rule, conjugate(seen), DATA, chains=chains, draws=steps, warmup=0, batch_size=20, start=start, seed=0
    ).values["x"]
    means = paths(rule, seen, 1.0)
    if isinstance(rule, SGLD):
        a = 1 - rule.step_size * A
        variance = 2 * rule.step_size * (1 - a ** (2 * np.arange(1, steps + 1))) / (1 - a * a)
        late = slice(0, None)
    else:  # velocities start from N(0, η); the covariance is followed to where it stands still
        variance = np.full(steps, sghmc_covariance(rule.step_size, 0.3, A, 0.6 * rule.step_size)[0, 0])
        late = slice(30, None)  # (1 - 0.3)^30 is 2e-5
    z = (found.mean(0).numpy() - means) / np.sqrt(variance / chains)
    assert np.abs(z[late]).max() < 4.5  # 40 correlated numbers
    spread = found.var(0).numpy() / variance - 1
    assert np.abs(spread[late]).max() < 4.5 * math.sqrt(2 / chains)


def predicted_variance(eta, batch):
    """Over chains, passes and places in a pass: injected noise, and batches without replacement."""
    a, K = 1 - eta * A, N // batch
    between = float(DATA.var(correction=0)) / batch * (N - batch) / (N - 1)  # of a batch mean
    total = 0.0
    for place in range(1, K + 1):  # batches of the running pass, then of the passes before it
        blocks = [a ** np.arange(place)] + [a ** (place + K * e + np.arange(K)) for e in range(400)]
        total += sum((w @ w) - ((w.sum() ** 2) - w @ w) / (K - 1) for w in blocks) * between / K
    return 2 * eta / (1 - a * a) + (eta * N) ** 2 * total


def test_the_bias_of_sgld_is_the_predicted_one_and_shrinks():
    ratios = []
    for eta in (0.6 / A, 0.15 / A):
        found = run_minibatches(SGLD(eta), conjugate(), DATA, chains=100, draws=2400, warmup=60, batch_size=20, seed=1)
        variance = float((found.values["x"] - MEAN).square().mean())
        # 1000 passes of shared batches: about 4 % of chance on the part that batches make
        assert variance == pytest.approx(predicted_variance(eta, 20), rel=0.05)
        assert float(found.values["x"].mean()) == pytest.approx(MEAN, abs=0.01)
        ratios.append(variance * A - 1)
    assert 0 < ratios[1] < 0.3 * ratios[0]


def test_falling_steps_take_the_bias_away():
    found = run_minibatches(
        SGLD(0.8 / A), conjugate(), DATA, chains=500, draws=500, warmup=1500, batch_size=20, seed=2,
        schedule=Polynomial(power=0.6, offset=20.0),
    ).values["x"]  # fmt: skip
    # the step ends at 0.8 · (1 + 100)^-0.6 = 5 % of the start, a bias of about 2 %, and 3.8 ± 0.8 % over all draws;
    # the step of the start would give a variance of 4.4
    assert float((found - MEAN).square().mean()) * A == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize(("eta", "alpha", "V"), [(0.02, 0.3, 0.0), (0.02, 0.3, 20.0), (0.1, 0.5, 4.0)])
@pytest.mark.parametrize("known", [False, True])
def test_sghmc_with_independent_gradient_noise_has_the_law_of_its_recursion(eta, alpha, V, known):
    rule = SGHMC(eta, friction=alpha, noise=V if known else 0.0)
    n, precision, stream = 20_000, 2.0, gen(3)
    x = torch.zeros(n, 1, dtype=torch.float64)
    memory = rule.begin(x, stream)
    for _ in range(int(25 / alpha / min(1, eta * precision / alpha**2)) if eta < 0.1 else 200):
        noise = math.sqrt(V) * torch.randn(n, 1, generator=stream, dtype=torch.float64)
        force = Force(-precision * x + noise, -precision * x)
        x, memory = rule.move(x, memory, force, Pace(), stream)
    injected = 2 * (alpha - (0.5 * eta * V if known else 0.0)) * eta + eta * eta * V
    expected = sghmc_covariance(eta, alpha, precision, injected)[0, 0]
    assert abs(float(x.var()) / expected - 1) < 4 * math.sqrt(2 / n)
    if known:  # then the law is that without gradient noise
        assert injected == pytest.approx(2 * alpha * eta)


def test_full_friction_is_sgld():
    start, stream = torch.ones(5, 2, dtype=torch.float64), gen(4)
    slope = torch.randn(5, 2, generator=gen(5), dtype=torch.float64)
    force = Force(slope, slope)
    rule = SGHMC(0.03, friction=1.0)
    memory = rule.begin(start, gen(9))
    a, _ = rule.move(start, memory, force, Pace(), stream)
    b, _ = SGLD(0.03).move(start, {}, force, Pace(), gen(4))
    torch.testing.assert_close(a, b, rtol=1e-14, atol=1e-14)


def test_the_estimated_noise_is_the_variance_of_the_minibatch_gradient():
    posterior, n = conjugate(), 12
    at = torch.zeros(1, 1, dtype=torch.float64)
    found, slopes = [], []
    for i in range(1500):
        rows = torch.randperm(N, generator=gen(i))[:n]
        stats = posterior.statistics(at, Batch(DATA[rows]), scatter=True)
        found.append(float(stats["scatter"]) * (N / n) ** 2 * (1 - n / N))
        slopes.append(float(stats["gradient"]) * N / n)
    exact = N**2 * float(DATA.var()) / n * (1 - n / N)
    assert np.var(slopes) == pytest.approx(exact, rel=4 * math.sqrt(2 / 1500))
    assert np.mean(found) == pytest.approx(exact, rel=4 * math.sqrt(2 / 1500) + 0.02)


def test_minibatches_are_scaled_and_the_prior_counts_once():
    posterior = conjugate()
    at = torch.tensor([[0.3], [1.0]], dtype=torch.float64)
    whole = posterior.slope(at, Batch(DATA))
    parts = [posterior.slope(at, Batch(DATA[i : i + 15])) for i in range(0, N, 15)]
    torch.testing.assert_close(sum(parts), whole)  # sums over disjoint batches are the sum over all
    torch.testing.assert_close(whole, N * DATA.mean() - N * at)  # and hold no prior
    # one noiseless update with all rows: x + η (N ȳ - (N + λ) x)
    moved = run_minibatches(
        SGLD(1e-3), posterior, DATA, chains=2, draws=1, warmup=0, batch_size=N, start=at, seed=0,
        schedule=Cyclic(1, exploration=0.0),
    ).values["x"]  # fmt: skip
    noise = moved[:, 0] - (at[:, 0] + 1e-3 * (N * DATA.mean() - A * at[:, 0]))
    assert float(noise.abs().max()) < 5 * math.sqrt(2e-3)


def test_preconditioning_is_a_change_of_coordinates():
    scales = torch.tensor([0.5, 3.0], dtype=torch.float64)
    X = torch.randn(40, 2, generator=gen(6), dtype=torch.float64)

    def posterior(unit):
        return MinibatchPosterior(
            lambda w, batch: -0.5 * (batch.X - w * unit).square().sum(1),
            lambda w: -0.5 * (w * unit).square().sum(),
            torch.zeros(2, dtype=torch.float64),
        )

    options = {"chains": 3, "draws": 30, "warmup": 0, "batch_size": 10, "seed": 7}
    white = torch.randn(3, 2, generator=gen(8), dtype=torch.float64)
    for make in (SGLD, lambda eta, preconditioner=None: SGHMC(eta, 0.2, 0.0, preconditioner)):
        plain = run_minibatches(make(0.01), posterior(torch.ones(2)), X, start=white, **options)
        other = make(0.01, preconditioner=1 / scales**2)  # w = white / scales
        skew = run_minibatches(other, posterior(scales), X, start=white / scales, **options)
        torch.testing.assert_close(skew.values["x"] * scales, plain.values["x"], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("rule", [psgld(1e-4), SGHMC(1e-4, 0.3, preconditioner=RMS())])
def test_adaptive_preconditioning_evens_out_scales_and_keeps_the_law(rule):
    scales = torch.tensor([0.5, 2.0], dtype=torch.float64)
    X = torch.randn(100, 2, generator=gen(10), dtype=torch.float64) * scales
    posterior = MinibatchPosterior(
        lambda w, batch: -0.5 * ((batch.X - w) / scales).square().sum(1),
        lambda w: 0.0 * w.sum(),
        torch.zeros(2, dtype=torch.float64),
    )
    deviation = scales / 10  # of the posterior
    start = X.mean(0) + deviation * torch.randn(150, 2, generator=gen(11), dtype=torch.float64)
    found = run_minibatches(rule, posterior, X, chains=150, draws=200, warmup=300, batch_size=100, start=start, seed=11)
    ratio = (found.values["x"] - X.mean(0)).square().mean((0, 1)) / deviation**2
    # mean gradients are about 0.2 and 0.05, so η N G / scale² is 0.2 and 0.05: SGLD is off by 11 % and 3 %
    assert bool((ratio > 0.9).all()) and bool((ratio < 1.2).all())


def test_the_running_squares_stand_still_after_warm_up():
    rms, mean = RMS(decay=0.9, damping=0.5), torch.tensor([[2.0, 0.0]])
    memory, metric = rms.follow({}, mean, True)
    torch.testing.assert_close(metric, torch.tensor([[0.4, 2.0]]))  # 1 / (λ + |g|)
    moved, _ = rms.follow(memory, 2 * mean, True)
    torch.testing.assert_close(moved["squares"], torch.tensor([[0.9 * 4 + 0.1 * 16, 0.0]]))
    assert rms.follow(moved, 3 * mean, False)[0]["squares"] is moved["squares"]


def test_constrained_parameters_and_trees():
    from torch.distributions import Exponential, Normal, constraints

    data = 2.0 * torch.randn(400, 1, generator=gen(12), dtype=torch.float64) + 1
    posterior = MinibatchPosterior(
        lambda p, batch: Normal(p["mean"], p["scale"]).log_prob(batch.X[:, 0]),
        lambda p: Normal(0.0, 10.0).log_prob(p["mean"]) + Exponential(0.1).log_prob(p["scale"]),
        {"mean": torch.tensor(0.0, dtype=torch.float64), "scale": torch.tensor(1.0, dtype=torch.float64)},
        constraints={"scale": constraints.positive},
    )
    start = torch.tensor([1.0, 0.7], dtype=torch.float64).expand(64, 2)
    found = run_minibatches(
        SGHMC(5e-5, 0.1), posterior, data, chains=64, draws=600, warmup=300, batch_size=200, seed=13, start=start
    )
    mean, scale = found.values["mean"], found.values["scale"]
    assert bool((scale > 0).all())
    # posterior: mean ~ (ȳ, s/√n), scale ~ (s, s/√2n); within three tenths of a deviation, and the spread within 30 %
    s, n = float(data.std()), len(data)
    assert abs(float(mean.mean()) - float(data.mean())) < 0.3 * s / math.sqrt(n)
    assert abs(float(scale.mean()) - s) < 0.3 * s / math.sqrt(2 * n)
    assert float(mean.std()) == pytest.approx(s / math.sqrt(n), rel=0.3)


def test_schedules():
    falling = Polynomial(power=1.0, offset=10.0)
    assert falling(0, 5) == 1 and falling(10, 5) == 0.5
    cyclic = Cyclic(3, exploration=0.5)
    factors = [cyclic(t, 30) for t in range(30)]
    assert factors[:10] == factors[10:20] == factors[20:] and factors[5] == pytest.approx(0.5)
    assert [cyclic.sampling(t, 30) for t in range(10)] == [False] * 5 + [True] * 5
    found = run_minibatches(SGLD(1e-3), conjugate(), DATA, draws=30, warmup=0, seed=0, schedule=cyclic, batch_size=20)
    assert found.values["x"].shape == (4, 15)  # only the sampling halves are kept


def test_a_run_goes_on_where_it_stopped(tmp_path):
    options = {"chains": 3, "batch_size": 20, "warmup": 5, "seed": 14}
    rule = SGHMC(1e-3, noise="estimate")  # 15 updates are five passes
    whole = run_minibatches(rule, conjugate(), DATA, draws=20, **options)
    folder = {"checkpoint": {"folder": str(tmp_path), "every_steps": 4}, "verbose": False}
    run_minibatches(rule, conjugate(), DATA, draws=10, trainer=folder, **options)
    rest = run_minibatches(rule, conjugate(), DATA, draws=20, trainer={**folder, "resume": True}, **options)
    torch.testing.assert_close(rest.values["x"], whole.values["x"], rtol=0, atol=0)


def test_seeds_and_global_randomness():
    torch.manual_seed(0)
    before = torch.random.get_rng_state()
    options = {"draws": 5, "warmup": 0, "batch_size": 20}
    a, b, c = (run_minibatches(SGLD(1e-3), conjugate(), DATA, seed=s, **options).values["x"] for s in (1, 1, 2))
    assert bool((a == b).all()) and not bool((a == c).any())
    assert bool((torch.random.get_rng_state() == before).all())


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: SGLD(0.0), "SGLD: step_size is 0.0"),
        (lambda: SGLD(0.1, torch.tensor([1.0, -1.0])), "SGLD: the preconditioner"),
        (lambda: SGHMC(0.1, friction=2.0), "friction is 2.0"),
        (lambda: SGHMC(0.1, noise=-1.0), "variance; it must be >= 0"),
        (lambda: SGHMC(0.1, noise="guess"), "noise is 'guess'"),
        (lambda: RMS(decay=1.0), "decay is 1.0"),
        (lambda: RMS(damping=0.0), "damping is 0.0"),
        (lambda: Polynomial(power=2.0), "power is 2.0"),
        (lambda: Polynomial(offset=0.0), "offset is 0.0"),
        (lambda: Cyclic(0), "cycles is 0"),
        (lambda: Cyclic(2, exploration=1.0), "exploration is 1.0"),
    ],
)
def test_bad_settings_are_named(make, words):
    with pytest.raises(InvalidInput, match=words):
        make()


def test_bad_data_are_named():
    rule, posterior = SGLD(1e-3), conjugate()
    with pytest.raises(InvalidInput, match="X has 60 rows and y has 3"):
        run_minibatches(rule, posterior, DATA, torch.zeros(3))
    with pytest.raises(InvalidInput, match="X contains NaN"):
        run_minibatches(rule, posterior, torch.full((4, 1), math.nan))
    with pytest.raises(InvalidInput, match="at least one row"):
        run_minibatches(rule, posterior, DATA[:0])
    with pytest.raises(InvalidInput, match="draws is 0"):
        run_minibatches(rule, posterior, DATA, draws=0)
    with pytest.raises(InvalidInput, match=r"start has shape \(4, 2\)"):
        run_minibatches(rule, posterior, DATA, start=torch.zeros(4, 2))
    with pytest.raises(InvalidInput, match="2 numbers for 1 parameters"):
        run_minibatches(SGLD(1e-3, torch.ones(2)), posterior, DATA)
    with pytest.raises(InvalidInput, match="batches of at least 2 rows"):
        run_minibatches(SGHMC(1e-3, noise="estimate"), posterior, DATA, batch_size=1)
    summed = MinibatchPosterior(lambda w, batch: -(batch.X - w).square().sum(), lambda w: -(w**2), torch.tensor(0.0))
    with pytest.raises(InvalidInput, match=r"returned shape \(\) for 32 rows; it must be \(n,\)"):
        run_minibatches(rule, summed, DATA.float())


def test_chains_that_run_away_say_what_to_change():
    with pytest.raises(NonFiniteLoss, match="SGLD: chains ran away.*step size 1 is too large for 60 rows.*try 0.1"):
        run_minibatches(SGLD(1.0), conjugate(), DATA, draws=500, seed=0)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("rule", [SGLD(1e-3), psgld(5e-3), SGHMC(1e-3, noise="estimate")])
def test_chains_stay_on_their_device(rule):
    posterior = MinibatchPosterior(
        lambda m, batch: -0.5 * (batch.X[:, 0] - m) ** 2, lambda m: -0.5 * m**2, torch.tensor(0.0, device="cuda")
    )
    found = run_minibatches(rule, posterior, DATA.float(), draws=200, warmup=1000, chains=4, seed=0).values["x"]
    assert found.device.type == "cuda" and abs(float(found.mean()) - float(DATA.sum()) / (N + 1)) < 0.3
