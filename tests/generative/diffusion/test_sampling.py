"""Grids, seeds, paths, progress, non-finite points and wrong input of sampling."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch

from benthic.base.errors import InvalidInput
from benthic.generative.diffusion import (
    DDIM,
    ODE,
    VP,
    AddedNoise,
    Ancestral,
    Clipped,
    Denoiser,
    DiscreteChain,
    DPMSolver,
    Guided,
    Heun,
    SampleError,
    StraightPath,
    UniPC,
    decode,
    encode,
    exact_denoiser,
    log_likelihood,
    sample,
    time_grid,
    trajectory,
)
from benthic.generative.diffusion.grids import GRIDS
from benthic.generative.diffusion.sampling import drawing, grid_for
from benthic.generative.diffusion.solvers import SAMPLERS
from benthic.generative.diffusion.solvers.base import Watch
from tests.generative.diffusion.cases import ALL, MIXTURE

pytestmark = pytest.mark.spec("N-06")


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("kind", GRIDS)
@pytest.mark.parametrize("steps", [2, 3, 17])
def test_grids_fall_from_end_to_end(name, kind, steps):
    process = ALL[name]
    times = time_grid(process, steps, kind)
    assert times.shape == (steps,) and times.dtype == torch.float64
    assert float(times[0]) == process.t_max and float(times[-1]) == process.t_min
    assert bool((times.diff() < 0).all())


def test_spacings_are_what_they_are_called():
    process = AddedNoise()
    roots = time_grid(process, 9, "karras", rho=5.0) ** (1 / 5)
    torch.testing.assert_close(roots.diff(), torch.full((8,), float(roots.diff()[0]), dtype=torch.float64))
    levels = VP().log_snr(time_grid(VP(), 9, "log_snr"))
    torch.testing.assert_close(levels.diff(), torch.full((8,), float(levels.diff()[0]), dtype=torch.float64))
    whole = time_grid(DiscreteChain(1000), 1000)
    assert whole.tolist() == list(range(1000, 0, -1))
    assert bool((time_grid(DiscreteChain(1000), 37) % 1 == 0).all())


def test_a_seed_decides_and_nothing_else_changes():
    denoiser = exact_denoiser(MIXTURE, "vp")
    state = torch.random.get_rng_state()
    first, second = (sample(denoiser, (5, 2), sampler="ancestral", steps=5, seed=4) for _ in range(2))
    assert torch.equal(first, second) and torch.equal(state, torch.random.get_rng_state())
    assert not torch.equal(first, sample(denoiser, (5, 2), sampler="ancestral", steps=5, seed=5))
    stream = torch.Generator().manual_seed(0)
    assert sample(denoiser, (5, 2), steps=5, generator=stream, dtype=torch.float64).dtype == torch.float64


def test_single_precision_is_near_double():
    denoiser = exact_denoiser(MIXTURE, "edm")
    start = 80 * torch.randn(50, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for sampler in ("heun", "dpm3m", "unipc", "ode"):
        exact = sample(denoiser, start=start, sampler=sampler, steps=20)
        single = sample(denoiser, start=start.float(), sampler=sampler, steps=20)
        assert single.dtype == torch.float32
        assert float((single.double() - exact).abs().median()) < 2e-3


def test_paths_begin_with_noise_and_end_with_samples():
    denoiser = exact_denoiser(MIXTURE, "edm")
    for sampler in ("heun", "dpm2m", "ode"):
        path = trajectory(denoiser, (6, 2), sampler=sampler, steps=9, seed=1)
        assert path.states.shape == (10, 6, 2) and path.times[0] == 80 and path.times[-1] == 0
        torch.testing.assert_close(path.states[-1], sample(denoiser, (6, 2), sampler=sampler, steps=9, seed=1))
    thin = trajectory(denoiser, (6, 2), sampler="heun", steps=9, seed=1, every=4)
    assert thin.states.shape[0] == 4  # the start, moves 4 and 8, and the last


def test_progress_is_told_every_move():
    told = []
    denoiser = exact_denoiser(MIXTURE, "vp")
    x = sample(denoiser, (3, 2), steps=7, seed=0, progress=lambda i, n, t, x: told.append((i, n, t, x)))
    assert [row[0] for row in told] == list(range(1, 8)) and {row[1] for row in told} == {7}
    assert told[-1][2] == 0 and told[-1][3] is x


@pytest.mark.parametrize("check_every", [0, 1, 3])
def test_points_that_are_not_finite_stop_it(check_every):
    """The message names the step after which it began; with questions in between it stops early."""
    calls = []

    def network(x, level):
        calls.append(1)
        return x if len(calls) < 5 else x * math.nan

    denoiser = Denoiser("edm", network, "data")
    with pytest.raises(SampleError, match="after step 5 of 10"):
        sample(denoiser, (3, 2), sampler="ddim", steps=10, check_every=check_every)
    assert len(calls) == {0: 10, 1: 5, 3: 6}[check_every]


def test_learned_variances_lie_between_the_bounds():
    """Fractions 0 and 1 are the smallest and the largest variance."""
    exact = exact_denoiser(MIXTURE, "vp")
    for fraction in (0.0, 0.25, 1.0):
        learned = Denoiser(
            "vp",
            lambda x, t, f=fraction: (exact.data(x, t), torch.full_like(x, f)),
            "data",
            sees="time",
            learned_variance=True,
        )
        options = {"steps": 6, "seed": 2, "dtype": torch.float64}
        one = sample(learned, (4, 2), sampler=Ancestral("learned"), **options)
        torch.testing.assert_close(one, sample(exact, (4, 2), sampler=Ancestral(fraction), **options))


def test_pictures_are_points_too():
    denoiser = Denoiser("straight", lambda x, level: torch.zeros_like(x), "data")
    x = sample(denoiser, (2, 3, 8, 8), sampler="heun", steps=4, seed=0)
    assert x.shape == (2, 3, 8, 8) and float(x.abs().max()) < 1e-3


class _Everywhere(torch.nn.Module):
    """A network whose numbers can lie on any device."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 2, device="meta")

    def forward(self, x, level):
        return self.layer(x) + level[:, None]


def run_without_numbers(process, sampler):
    """All moves but the question at the end, on the meta device: to ask a tensor there for its numbers is an error."""
    plain = Denoiser(process, _Everywhere(), "edm", sees="time")
    denoiser = Clipped(Guided(plain, plain, 2.0, (0.1, 5.0)), -1.0, 1.0)
    grid = grid_for(process, sampler, 4, None, None, True, denoiser.t_first)
    with torch.no_grad():
        return sampler.run(denoiser, grid, torch.empty(4, 2, device="meta"), drawing(torch.Generator()), Watch(4))


@pytest.mark.parametrize("on", ALL)
def test_the_loop_reads_no_number_back(on, monkeypatch):
    """The host never waits for a device while steps are taken whose lengths are known beforehand.

    Solvers of ordinary equations look at the first state and slope and at the last state, and not in between.
    """
    for module in ("ode", "joint"):
        monkeypatch.setattr(f"benthic.dynamics.{module}.all_finite", lambda x: True)
    choosing = ("adaptive_sde", "ode", "poisson_ode")
    fixed = [sampler for name, sampler in SAMPLERS.items() if name not in choosing]
    for sampler in (*fixed, Heun(churn=5.0), DDIM(1.0), ODE("rk4"), ODE("rk4", variable="log_snr")):
        if ALL[on].gaussian or not sampler.stochastic:
            assert run_without_numbers(ALL[on], sampler).shape == (4, 2), sampler


def test_samplers_that_choose_their_steps_do_read():
    with pytest.raises(RuntimeError, match="item"):
        run_without_numbers(VP(), SAMPLERS["ode"])


@pytest.mark.parametrize(("process", "times"), [(AddedNoise(), [20.0, 80.0]), (DiscreteChain(1000), [800, 1000])])
def test_sampling_begins_with_the_noise_of_its_first_time(process, times):
    """Times of one's own may begin below t_max, and the noise is then that of the first of them."""
    starts = [
        trajectory(exact_denoiser(MIXTURE, process), (4000, 2), times=[t, *time_grid(process, 20, t_start=t)[1:]])
        for t in times
    ]
    for t, path in zip(times, starts, strict=True):
        assert float(path.states[0].std()) == pytest.approx(float(process.sigma(t)), rel=0.05)
        assert float(path.states[-1].mean(0)[0]) == pytest.approx(0.1, abs=0.15)  # 0.3 of -2 and 0.7 of 1


def test_a_process_of_ones_own_may_end_with_some_signal():
    x = sample(exact_denoiser(MIXTURE, AddedNoise(t_max=5.0)), (20, 2), steps=5, seed=0)
    assert bool(torch.isfinite(x).all())


EXACT = exact_denoiser(MIXTURE, "vp")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: sample(EXACT, (3, 2), steps=0), "steps=0; at least 2"),
        (lambda: sample(EXACT, (3, 2), steps=1), "steps=1; at least 2"),
        (lambda: sample(EXACT, (3, 2), steps=2.5), "steps=2.5"),
        (lambda: sample(EXACT, (3, 2), times=[0.1, 0.9]), "fall strictly"),
        (lambda: sample(EXACT, (3, 2), times=[2.0, 0.1]), "leave the process"),
        (lambda: sample(EXACT, (3, 2), times=[1.0, 1e-9]), "leave the process"),
        (lambda: sample(EXACT, (3, 2), times=[1.0]), "at least two"),
        (lambda: sample(EXACT, (3, 2), times=["a", "b"]), "give falling numbers"),
        (lambda: sample(EXACT, (3, 2), times=[0.4, 0.1]), "begin at t=0.4, where points are not noise alone"),
        (lambda: sample(EXACT, (3.0, 2)), r"shape is \(3.0, 2\)"),
        (lambda: sample(EXACT, "ab"), "shape is 'ab'"),
        (lambda: sample(Denoiser("vp", abs, condition=torch.zeros(3)), (4, 2)), "3 conditions for 4 points"),
        (lambda: sample(EXACT, (3, 2), times="karas"), "did you mean 'karras'"),
        (lambda: sample(EXACT, (3, 2), sampler="dpm2"), "did you mean 'dpm2m'"),
        (lambda: sample(EXACT, (3,)), r"give \(n, \*event\)"),
        (lambda: sample(EXACT), r"give \(n, \*event\)"),
        (lambda: sample(EXACT, (3, 2), t_start=0.5), "t_start goes with start"),
        (lambda: sample(EXACT, start=torch.zeros(3, 2), t_start=1e-5), "to little|leave the process"),
        (lambda: sample(EXACT, (4, 2), start=torch.zeros(3, 2)), "not that of start"),
        (lambda: sample(EXACT, (3, 2), seed=1, generator=torch.Generator()), "pass one of them"),
        (lambda: sample(exact_denoiser(MIXTURE, "poisson"), (3, 2), sampler="ancestral"), "adds normal noise"),
        (lambda: sample(EXACT, (3, 2), sampler=Ancestral("learned"), steps=3), "says nothing of it"),
        (lambda: trajectory(EXACT, (3, 2), every=0), "every=0"),
        (lambda: time_grid(DiscreteChain(5), 9), "do not all differ"),
        (lambda: time_grid(VP(), 5, rho=-1.0), "rho=-1.0"),
        (lambda: time_grid(VP(), 5, t_start=0.1, t_end=0.4), "much noise to little"),
        (lambda: Ancestral(2.0), "between 0 and 1"),
        (lambda: DDIM(1.5), "eta=1.5"),
        (lambda: Heun(churn=-1.0), "churn=-1.0"),
        (lambda: Heun(low=2.0, high=1.0), "must rise"),
        (lambda: DPMSolver(4), "answers=4"),
        (lambda: ODE(variable="tim"), "did you mean 'time'"),
    ],
)
def test_wrong_input(call, words):
    with pytest.raises(InvalidInput, match=words):
        call()


def test_a_straight_path_begins_with_pure_noise():
    denoiser = exact_denoiser(MIXTURE, StraightPath())
    for sampler in ("dpm2m", "dpm3m", "unipc", "heun", "ancestral", "ddim", "ode"):
        assert bool(sample(denoiser, (8, 2), sampler=sampler, steps=8, seed=0).isfinite().all())


@pytest.mark.parametrize("process", ["straight", "ddpm_cosine"])
def test_an_answer_in_noise_is_not_asked_for_where_no_signal_is_left(process):
    """There alpha is 0, or 5e-5: data that follow from noise with an error of 0.01 would lie 200 and more away."""
    truth = exact_denoiser(([1.0], [[0.0]], [[[1.0]]]), process)
    levels = truth.process

    def network(x, level):
        return truth.noise(x, levels.time_of_log_snr(-2 * level)) + 0.01

    biased = Denoiser(levels, network, "noise")
    for sampler in ("ddim", "heun", "dpm2m"):
        x = sample(biased, (1000, 1), sampler=sampler, steps=25, seed=0, dtype=torch.float64)
        # the bias moves samples by 0.01 times the change of log sigma/alpha, which is about 12
        assert abs(float(x.mean())) < 0.3 and float(x.std()) == pytest.approx(1.0, abs=0.1)
    codes = encode(biased, x[:2])
    torch.testing.assert_close(decode(biased, codes), x[:2], rtol=0, atol=1e-3)
    found = log_likelihood(biased, x[:2]).value
    torch.testing.assert_close(found, truth.log_prob(x[:2]), rtol=0, atol=0.5)


def test_stochastic_samplers_begin_below_the_singular_end_in_any_number_of_steps():
    """With 1200 steps the second time of a straight path lies above the last finite one."""
    normal = exact_denoiser(([1.0], [[0.0]], [[[1.0]]]), "straight")
    x = sample(normal, (1000, 1), sampler="euler_maruyama", steps=1200, seed=0, dtype=torch.float64)
    assert float(x.std()) == pytest.approx(1.0, abs=0.1)
    with pytest.raises(InvalidInput, match="no time lies below"):
        sample(normal, (5, 1), sampler="euler_maruyama", times=[1.0, 0.9995], seed=0)


def test_wide_steps_of_the_third_order_are_no_worse_than_the_second():
    """Nine steps from noise 80 to 0.002: a parabola through three answers would miss by a quarter more."""
    truth = exact_denoiser(MIXTURE, AddedNoise())
    start = 80 * torch.randn(200, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))

    def ends(sampler, steps):
        return sample(truth, start=start, sampler=sampler, steps=steps)

    fine = ends("heun", 400)
    errors = {n: float((ends(DPMSolver(n), 9) - fine).square().mean().sqrt()) for n in (2, 3)}
    assert errors[3] < 1.1 * errors[2]


@pytest.mark.spec("N-05")
@pytest.mark.parametrize("process", ["ddpm", "edm", "straight"])
@pytest.mark.parametrize("kind", [DPMSolver, UniPC])
def test_steps_that_widen_lean_on_no_longer_a_slope_than_was_measured(kind, process):
    """On these grids the steps of half the log-SNR widen; the published ones overshoot the data."""
    truth = exact_denoiser(MIXTURE, process)
    fine = sample(truth, (500, 2), sampler="ode", steps=50, seed=0, dtype=torch.float64)

    def error(steps, **settings):
        found = sample(truth, (500, 2), sampler=kind(2, **settings), steps=steps, seed=0, dtype=torch.float64)
        return float((found - fine).square().mean().sqrt())

    assert error(10) < 0.75 * error(10, reach=math.inf)
    assert error(10, reach=100.0) == pytest.approx(error(10, reach=math.inf))


def test_without_a_reach_the_second_order_is_the_published_one():
    """Lu et al., 2022, algorithm 2, written out for three steps."""
    truth, times = exact_denoiser(MIXTURE, "edm"), [10.0, 4.0, 1.0, 0.2]
    x = 10 * torch.randn(20, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = sample(truth, start=x, t_start=10.0, sampler=DPMSolver(2, reach=math.inf), times=times, denoise=False)
    last = None
    for t, s in pairwise(times):
        data, h = truth.data(x, t), math.log(t / s)
        ahead = data if last is None else data + h / (2 * last[0]) * (data - last[1])
        x, last = s / t * x - math.expm1(-h) * ahead, (h, data)
    torch.testing.assert_close(found, x)
    for wrong in (0.0, -1.0, math.nan):
        with pytest.raises(InvalidInput, match="reach="):
            DPMSolver(2, reach=wrong)
