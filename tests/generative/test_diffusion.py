"""Diffusion models through the contract's verbs: what they learn, what they refuse, what they keep."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pandas as pd
import pytest
import torch

import benthic
from benthic.base.errors import InvalidInput
from benthic.generative.diffusion import Ancestral, DiscreteChain
from benthic.generative.diffusion.fast import fast_call
from benthic.generative.diffusion.networks import NetworkPlan
from benthic.generative.diffusion.process import process_of
from benthic.generative.diffusion.solvers.base import SampleError

SMALL = {"hidden": 32, "depth": 1, "steps": 25, "random_state": 0}
FEW = {"steps": 12, "lr": 0.01, "verbose": False}
NETS = {"channels": 8, "multipliers": (1, 2), "blocks": 1}
RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(300, 2)) @ np.array([[1.0, 0.8], [0.0, 0.5]]) + np.array([3.0, -1.0])
LABELS = np.array(["left", "right"])[(np.arange(300) % 2)]
APART = np.where((LABELS == "right")[:, None], 4.0, -4.0) + 0.5 * RNG.normal(size=(300, 2))
PICTURES = RNG.random((40, 1, 8, 8)).astype(np.float32)


@pytest.fixture(scope="module")
def two_sides():
    settings = {**SMALL, "hidden": 64, "depth": 2, "trainer": {"steps": 400, "lr": 0.01, "verbose": False}}
    return benthic.EDM(**settings).fit(APART, LABELS)


@pytest.fixture(scope="module")
def small_pictures():
    return benthic.DDPM(unet=NETS, steps=5, trainer=FEW, random_state=0).fit(PICTURES)


def exact_log_density(X):
    mean, covariance = ROWS.mean(0), np.cov(ROWS.T, bias=True)
    away = X - mean
    squares = (away @ np.linalg.inv(covariance) * away).sum(1)
    return -0.5 * squares - 0.5 * np.linalg.slogdet(2 * np.pi * covariance)[1]


@pytest.mark.spec("N-06")
@pytest.mark.parametrize("name", ["EDM", "FlowMatching"])
def test_a_normal_law_is_learned_and_its_density_known(name):
    settings = {**SMALL, "hidden": 64, "trainer": {"steps": 300, "lr": 0.01, "verbose": False}}
    model = getattr(benthic, name)(**settings).fit(ROWS)
    X = ROWS[:40]
    found = model.likelihood(X)
    assert found.kind == "ode" and found.bound == "exact"
    # the mean gap is a divergence that a short training makes small; single rows stray by more
    assert abs((found.value - exact_log_density(X)).mean()) < 0.3
    np.testing.assert_allclose(model.log_prob(X), found.value, rtol=1e-6)
    bound = model.likelihood(X, "elbo(64)")
    assert bound.bound == "lower"
    assert bound.mean() < found.mean() + 4 * np.sqrt(np.square(bound.stderr).mean() / len(X)) + 0.05
    guess = model.likelihood(X, "hutchinson(3)")
    assert guess.bound == "estimate" and np.abs(guess.value - found.value).max() < 6 * guess.stderr.max() + 0.05
    # the score of nearly clean data is that of the law
    near = model.grad_log_prob(X, t=0.3 if name == "EDM" else 0.25)
    assert near.shape == X.shape and np.isfinite(near).all()
    codes = model.encode(X)
    np.testing.assert_allclose(model.decode(codes), X, atol=1e-3)


@pytest.mark.spec("N-05")
def test_conditions_guidance_and_the_null_condition(two_sides):
    for label, sign in (("left", -1), ("right", 1)):
        drawn = two_sides.sample(60, given=label, seed=1)
        assert (np.sign(drawn.mean(1)) == sign).mean() > 0.95
    mixed = two_sides.sample(4, given=["left", "right", "left", "right"], seed=1)
    assert (np.sign(mixed.mean(1)) == [-1, 1, -1, 1]).all()
    free = two_sides.sample(200, seed=2).mean(1)
    assert 0.25 < (free > 0).mean() < 0.75  # nothing given: both sides
    near = two_sides.likelihood(APART[:20], given=LABELS[:20]).mean()
    wrong = two_sides.likelihood(APART[:20], given=np.array(["right", "left"])[(LABELS[:20] == "right").astype(int)])
    assert near > wrong.mean() + 5
    plain = two_sides.sample(50, given="right", seed=3)
    np.testing.assert_allclose(two_sides.sample(50, given="right", seed=3, guidance=1.0), plain, atol=1e-6)
    pushed = two_sides.sample(50, given="right", seed=3, guidance=3.0)
    assert not np.allclose(pushed, plain) and np.isfinite(pushed).all()
    outside = two_sides.sample(50, given="right", seed=3, guidance=(3.0, 1e6, 2e6))
    np.testing.assert_allclose(outside, plain, atol=1e-5)  # an interval that no step lies in


def test_vectors_as_conditions():
    angle = RNG.uniform(-1, 1, size=200)
    X = np.stack([3 * angle, RNG.normal(size=200) * 0.1], 1)
    settings = {**SMALL, "trainer": {"steps": 500, "lr": 0.005, "verbose": False}}
    model = benthic.FlowMatching(**settings).fit(X, angle)
    assert model.condition_kind_.kind == "vectors"
    drawn = model.sample(100, given=[0.8], seed=0)
    assert abs(drawn[:, 0].mean() - 2.4) < 0.6
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a frame lends its numbers for reading only
        model.sample(2, given=pd.Series([0.1, 0.2]))
    with pytest.raises(InvalidInput, match="fitted on 1 numbers a row"):
        model.sample(2, given=[[1.0, 2.0]])


def test_bad_input(two_sides, small_pictures):
    plain = benthic.DDPM(**SMALL, trainer=FEW).fit(ROWS)
    for steps in (0, 1, 2.5, True):
        with pytest.raises(InvalidInput, match=r"DDPM.sample: steps is .*at least 2"):
            plain.sample(2, steps=steps)
    with pytest.raises(InvalidInput, match=r"DDPM.sample: times do not fall"):
        plain.sample(2, times=[1.0, 500.0])
    with pytest.raises(InvalidInput, match="leave the process"):
        plain.sample(2, times=[2000.0, 5.0])
    with pytest.raises(InvalidInput, match=r"guidance needs a conditional model"):
        plain.sample(2, guidance=2.0)
    with pytest.raises(InvalidInput, match=r"guidance goes with a condition"):
        two_sides.sample(2, guidance=2.0)
    for guidance in (-1.0, "strong", (1.0, 2.0), ("a", 0, 1), (1.0, 5.0, 0.1), True):
        with pytest.raises(InvalidInput, match="guidance is"):
            two_sides.sample(2, given="left", guidance=guidance)
    with pytest.raises(InvalidInput, match="label 'up', which fit has not seen"):
        two_sides.sample(2, given="up")
    with pytest.raises(InvalidInput, match="fitted without y"):
        plain.sample(2, given="left")
    with pytest.raises(InvalidInput, match="sampler 'ancestor' is unknown.*ancestral"):
        plain.sample(2, sampler="ancestor")
    with pytest.raises(InvalidInput, match="method 'exakt' is unknown"):
        plain.likelihood(ROWS, "exakt")
    assert two_sides.sample(2, given="left", guidance=np.float32(2)).shape == (2, 2)
    for t in (5000, "late", [1.0, 2.0], math.nan):
        with pytest.raises(InvalidInput, match=r"DDPM.grad_log_prob: t is .*between 1 and 1000"):
            plain.grad_log_prob(ROWS, t=t)
    for level in (0, -1.0, "fine"):
        with pytest.raises(InvalidInput, match=r"DDPM.bits_per_dim: level is"):
            plain.bits_per_dim(ROWS, level=level)
    charges = benthic.PoissonFlow(**SMALL, trainer=FEW).fit(ROWS)
    with pytest.raises(InvalidInput, match=r"PoissonFlow.likelihood: .*no bound; use 'ode'"):
        charges.likelihood(ROWS, "elbo")
    with pytest.raises(InvalidInput, match="strength='a'"):
        plain.edit(ROWS, strength="a")
    for strength in (0.05, 1e-4):  # of a chain there are then fewer levels than the 25 of sampling
        assert np.abs(plain.edit(ROWS[:5], strength, seed=0) - ROWS[:5]).max() < 1.0
    with pytest.raises(InvalidInput, match="strength"):
        plain.edit(ROWS, strength=1.5)
    with pytest.raises(InvalidInput, match="examples of shape"):
        small_pictures.encode(np.zeros((2, 1, 9, 9)))
    never = benthic.DDPM(**SMALL, condition_dropout=0.0, trainer=FEW).fit(APART, LABELS)
    with pytest.raises(InvalidInput, match="condition_dropout > 0"):
        never.sample(2, given="left", guidance=2.0)
    for ask in (lambda: never.sample(2), lambda: never.likelihood(APART), lambda: never.encode(APART)):
        with pytest.raises(InvalidInput, match="learned only with its labels; pass given"):
            ask()
    assert len(never.plot().axes) == 2  # without samples
    # what was asked for works with every verb that can be asked
    codes = never.encode(APART[:4], given=LABELS[:4])
    np.testing.assert_allclose(never.decode(codes, given=LABELS[:4]), APART[:4], atol=0.05)
    np.testing.assert_allclose(never.reconstruct(APART[:4], given=LABELS[:4]), APART[:4], atol=0.05)
    told = never.likelihood(APART[:4], given=LABELS[:4]).value
    np.testing.assert_array_equal(never.log_prob(APART[:4], given=LABELS[:4]), told)
    np.testing.assert_array_equal(never.anomaly(APART[:4], given=LABELS[:4]), -told)
    assert never.score(APART[:4], LABELS[:4]) == pytest.approx(told.mean())
    one, other = (never.grad_log_prob(APART[:4], given=label) for label in ("left", "right"))
    assert np.abs(one - other).max() > 1e-4
    assert never.sample(2, given="left").shape == (2, 2)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"process": "vpp"}, "process 'vpp' is unknown"),
        ({"target": "noises"}, "target='noises'"),
        ({"weighting": "smple"}, "weighting 'smple' is unknown"),
        ({"network": "unet"}, "needs pictures"),
        ({"network": "net"}, "network 'net' is unknown"),
        ({"network": 3}, "neither a name nor a module"),
        ({"condition": "label"}, "condition 'label' is unknown"),
        ({"condition": "labels"}, "there is no y"),
        ({"dropout": 1.0}, "a share"),
        ({"hidden": 0}, "at least 1"),
        ({"steps": 1}, "at least 2"),
        ({"steps": 2000}, "steps is 2000, but the chain has no more than 1000"),
        ({"process": DiscreteChain(1)}, "with a single step"),
        ({"process": "poisson"}, "take a sampler without noise"),
        ({"process": "poisson", "sampler": "heun", "matching": "exact"}, "matching='exact' learns the score"),
        ({"sampler": Ancestral("learned")}, "use learned_variance=True"),
        ({"network": torch.nn.Bilinear(2, 1, 2), "learned_variance": True}, "answers with a|does not take"),
        ({"matching": "sliding"}, "matching 'sliding' is unknown"),
        ({"learned_variance": True, "process": "vp"}, "steps of a chain"),
        ({"times": 3}, "times is 3; give a TimeLaw"),
        ({"times": "log_norm"}, "did you mean 'log_normal'"),
        ({"hidden": "wide"}, "hidden is 'wide'"),
        ({"depth": 1.5}, "whole numbers"),
        ({"dropout": "a"}, "a share"),
        ({"unet": 3}, "unet is 3; give a dict"),
        ({"unet": {"chanels": 8}}, "no setting 'chanels'.*did you mean 'channels'"),
    ],
)
def test_settings_that_cannot_be(settings, words):
    with pytest.raises(InvalidInput, match=rf"DDPM.fit: .*{words}"):
        benthic.DDPM(**{**SMALL, **settings}, trainer=FEW).fit(ROWS)


def test_a_short_chain_takes_as_many_steps_as_it_has():
    model = benthic.DDPM(hidden=8, depth=1, process=DiscreteChain(20), trainer=FEW, random_state=0).fit(ROWS)
    assert model.sample(2, seed=0).shape == (2, 2) and "20 steps" in model.summary()
    assert np.isfinite(model.impute([[3.0, np.nan]])).all()
    assert model.edit(ROWS[:2], steps=np.int64(3)).shape == (2, 2)


def test_guidance_goes_with_a_learned_variance():
    model = benthic.DDPM(**SMALL, learned_variance=True, trainer=FEW).fit(APART, LABELS)
    assert np.isfinite(model.sample(4, given="left", guidance=2.0, seed=0)).all()


def test_a_score_is_asked_for_where_the_network_can_tell_it():
    """By default at noise of 3 %: at the least noise of straight paths the error of a network is divided by 0.001."""
    model = benthic.FlowMatching(**SMALL, trainer=FEW).fit(ROWS)
    np.testing.assert_array_equal(model.grad_log_prob(ROWS[:4]), model.grad_log_prob(ROWS[:4], t=0.03 / 1.03))
    chain = benthic.DDPM(**SMALL, trainer=FEW).fit(ROWS)
    np.testing.assert_array_equal(chain.grad_log_prob(ROWS[:4]), chain.grad_log_prob(ROWS[:4], t=6))


def test_pictures_with_other_channels_are_shown():
    model = benthic.DDPM(unet=NETS, steps=3, trainer=FEW, random_state=0).fit(np.repeat(PICTURES, 2, 1))
    assert model.plot().axes[2].images[0].get_array().ndim == 2


def test_samples_that_are_not_finite_say_when(tmp_path):
    model = benthic.EDM(**SMALL, trainer=FEW).fit(ROWS)
    with torch.no_grad():
        model.network_.body.last.bias.fill_(math.nan)
    with pytest.raises(SampleError, match="step 1"):
        model.sample(3)
    charges = benthic.PoissonFlow(**SMALL, trainer=FEW).fit(ROWS)
    with torch.no_grad():
        charges.network_.body.last.bias.fill_(math.nan)
    with pytest.raises(SampleError, match="step 1"):
        charges.impute([[3.0, math.nan]])


@pytest.mark.spec("N-05")
def test_pictures_of_any_size_and_what_is_said_of_them(small_pictures):
    drawn = small_pictures.sample(3, seed=0)
    assert drawn.shape == (3, 1, 8, 8) and drawn.dtype == np.float32
    air = 0.05
    assert drawn.min() > PICTURES.min() - air and drawn.max() < PICTURES.max() + air  # clipped to what was seen
    assert "U-Net" in small_pictures.summary()
    odd = benthic.EDM(unet=NETS, steps=3, trainer=FEW, random_state=0).fit(RNG.random((20, 2, 9, 11)))
    assert odd.sample(2).shape == (2, 2, 9, 11)
    assert "padded from 9 x 11 to 10 x 12" in odd.summary()
    found = small_pictures.likelihood(PICTURES[:2], "hutchinson(2)")
    assert found.value.shape == (2,) and (found.stderr > 0).all()
    bits = small_pictures.bits_per_dim(PICTURES[:2], "elbo(2)")
    assert bits.shape == (2,) and np.isfinite(bits).all()
    assert small_pictures.grad_log_prob(PICTURES[:2], t=500).shape == (2, 1, 8, 8)
    edited = small_pictures.edit(PICTURES[:2], 0.3, seed=0)
    assert edited.shape == (2, 1, 8, 8)
    assert small_pictures.plot().axes[2].images  # samples are shown


def test_pictures_given_pictures():
    coarse = PICTURES.reshape(40, 1, 4, 2, 4, 2).mean((3, 5)).repeat(2, 2).repeat(2, 3)
    model = benthic.EDM(unet=NETS, steps=3, trainer=FEW, random_state=0).fit(PICTURES, coarse)
    assert model.condition_kind_.kind == "images"
    drawn = model.sample(2, given=coarse[:2], seed=0)
    assert drawn.shape == (2, 1, 8, 8) and not np.allclose(drawn, model.sample(2, given=coarse[2:4], seed=0))


class Own(torch.nn.Module):
    """A network of the user's."""

    def __init__(self, width=2):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(width + 1, 16), torch.nn.SiLU(), torch.nn.Linear(16, width))

    def forward(self, x, level):
        return self.body(torch.cat([x, level[:, None] / 1000], 1))


def test_a_network_of_ones_own(tmp_path):
    model = benthic.DDPM(network=Own(), steps=10, trainer=FEW, random_state=0).fit(ROWS)
    drawn = model.sample(4, seed=0)
    path = model.save(tmp_path / "own.safetensors", leave_out=["network"])
    loaded = benthic.load(path, modules={"network": Own()})
    np.testing.assert_array_equal(loaded.sample(4, seed=0), drawn)
    with pytest.raises(InvalidInput, match=r"does not take examples of shape \(2,\)"):
        benthic.DDPM(network=Own(5), trainer=FEW).fit(ROWS)


@pytest.mark.spec("N-05")
def test_learned_variance_is_sampled_with():
    model = benthic.DDPM(**SMALL, learned_variance=True, trainer=FEW).fit(ROWS)
    _, fraction = model.denoiser().answer(torch.zeros(3, 2), 500.0)
    assert fraction.shape == (3, 2) and ((fraction > 0) & (fraction < 1)).all()
    assert model._setting("sampler").variance == "learned"
    assert np.abs(model.sample(500, seed=0).mean(0) - ROWS.mean(0)).max() < 0.5


@pytest.mark.spec("N-04")
@pytest.mark.parametrize("matching", ["sliced", "exact"])
def test_score_matching_without_noise_targets(matching):
    settings = {**SMALL, "trainer": {"steps": 60, "lr": 0.01, "verbose": False}}
    model = benthic.NCSN(**settings, matching=matching).fit(ROWS)
    assert np.abs(model.sample(300, seed=0).mean(0) - ROWS.mean(0)).max() < 0.6


def test_variational_diffusion_keeps_the_schedule_it_found(tmp_path):
    model = benthic.VariationalDiffusion(**SMALL, trainer={**FEW, "steps": 40}).fit(ROWS)
    levels = np.array(model.process_.log_snrs)
    assert (np.diff(levels) < 0).all() and 9 < levels[0] < 11 and -9 < levels[-1] < -7  # where the ends began
    assert np.ptp(np.diff(levels)) > 0.01  # it moved
    loaded = benthic.load(model.save(tmp_path / "vdm.safetensors"))
    assert loaded.process_ == model.process_
    np.testing.assert_array_equal(loaded.likelihood(ROWS[:5], "elbo").value, model.likelihood(ROWS[:5], "elbo").value)


@pytest.mark.spec("N-07")
def test_poisson_flow_takes_samplers_without_noise_only():
    model = benthic.PoissonFlow(**SMALL, process="pfgm", trainer=FEW).fit(ROWS)
    assert np.isfinite(model.sample(20, seed=0)).all()
    with pytest.raises(InvalidInput, match="take a sampler without noise"):
        model.sample(2, sampler="ancestral")
    given = ROWS[:1].copy()
    given[0, 1] = np.nan
    drawn = model.sample(5, given=given, seed=0)
    assert (drawn[:, 0] == given[0, 0]).all() and np.isfinite(drawn).all()


@pytest.mark.spec("N-05")
def test_latent_diffusion_needs_an_autoencoder():
    quick = {"latent_dim": 2, "hidden_layer_sizes": (16,), "trainer": {"steps": 20, "verbose": False}}
    diffusion = {**SMALL, "trainer": FEW}
    with pytest.raises(InvalidInput, match=r"LatentDiffusion.fit: prefit=True, but the autoencoder VAE is not fitted"):
        benthic.LatentDiffusion(benthic.VAE(), prefit=True).fit(ROWS)
    with pytest.raises(InvalidInput, match="autoencoder is KMeans, which has no encode"):
        benthic.LatentDiffusion(benthic.KMeans()).fit(ROWS)
    wide = np.repeat(APART, 2, axis=1)
    coder = benthic.Autoencoder(**quick, random_state=0).fit(wide)
    model = benthic.LatentDiffusion(coder, prefit=True, diffusion=diffusion, random_state=0).fit(wide, LABELS)
    assert model.autoencoder_ is coder
    np.testing.assert_array_equal(model.encode(wide[:4]), coder.encode(wide[:4]))
    assert model.sample(5, given="left", seed=0).shape == (5, 4)
    assert not hasattr(model, "likelihood")


def test_frames_with_categories_come_back_as_frames():
    frame = pd.DataFrame(
        {"size": RNG.normal(size=60), "kind": pd.Categorical(np.array(["a", "b", "c"])[RNG.integers(0, 3, 60)])}
    )
    model = benthic.DDPM(**SMALL, trainer=FEW).fit(frame)
    drawn = model.sample(10, seed=0)
    assert list(drawn.columns) == ["size", "kind"] and set(drawn["kind"]) <= {"a", "b", "c"}
    with pytest.raises(InvalidInput, match="categories have no density"):
        model.likelihood(frame)


def test_gaps_are_drawn_from_the_rest():
    settings = {**SMALL, "hidden": 64, "trainer": {"steps": 300, "lr": 0.01, "verbose": False}}
    model = benthic.DDPM(**settings).fit(ROWS)
    holed = ROWS[:40].copy()
    holed[:, 1] = np.nan
    slope = np.cov(ROWS.T)[0, 1] / ROWS[:, 0].var()
    expected = ROWS[:, 1].mean() + slope * (ROWS[:40, 0] - ROWS[:, 0].mean())
    filled = model.impute(holed)[:, 1]
    # eight draws of standard deviation 0.5 each, and what the network has not learned
    assert np.sqrt(np.square(filled - expected).mean()) < 0.5 < 0.8 * np.std(ROWS[:, 1])


def test_what_is_averaged_and_shown(two_sides):
    assert two_sides.levels_.shape == two_sides.level_losses_.shape and (two_sides.level_losses_ > 0).all()
    assert len(two_sides.plot().axes) == 3
    assert "labels 2" in two_sides.summary() and "heun" in two_sides.summary()


def test_fast_calls_answer_the_same():
    plan = NetworkPlan("mlp", (3,), process_of("vp"), hidden=8, depth=1)
    network = plan.build().eval()
    x, level = torch.randn(4, 3), torch.rand(4)
    with torch.no_grad():
        plain = network(x, level)
        call = fast_call(network, torch.device("cpu"), compile_=False, capture=True, precision="bf16")
        assert call(x, level).dtype == torch.float32
        torch.testing.assert_close(call(x, level), plain, rtol=0.05, atol=0.05)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("name", ["DDPM", "EDM", "VariationalDiffusion"])
def test_on_a_gpu(name):
    settings = {"unet": NETS, "steps": 8, "random_state": 0}
    model = getattr(benthic, name)(**settings, trainer={**FEW, "precision": "bf16"}).fit(
        torch.tensor(PICTURES, device="cuda"), np.arange(40) % 3
    )
    drawn = model.sample(5, given=1, seed=0, guidance=2.0)
    assert drawn.is_cuda and drawn.shape == (5, 1, 8, 8) and torch.isfinite(drawn).all()
    rows = getattr(benthic, name)(**SMALL, trainer=FEW).fit(torch.tensor(ROWS, device="cuda"))
    assert torch.isfinite(rows.likelihood(torch.tensor(ROWS[:4], device="cuda")).value).all()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"autoencoder": "vae"}, "autoencoder is 'vae'; give a model"),
        ({"autoencoder": benthic.VAE}, "autoencoder is .*; give a model, such as VAE"),
        ({"prefit": True}, "prefit=True needs a fitted autoencoder"),
        ({"diffusion": benthic.VAE(2)}, "diffusion is VAE, which is no diffusion model"),
    ],
)
def test_latent_diffusion_needs_models_of_the_right_kind(settings, words):
    with pytest.raises(InvalidInput, match=f"LatentDiffusion.fit: {words}"):
        benthic.LatentDiffusion(**settings).fit(ROWS)


def test_latent_diffusion_fills_gaps_given_conditions_of_each_row():
    quick = {"latent_dim": 2, "hidden_layer_sizes": (32,), "trainer": {"steps": 300, "verbose": False}}
    settings = {**SMALL, "trainer": {"steps": 300, "lr": 0.01, "verbose": False}}
    model = benthic.LatentDiffusion(quick, diffusion=settings, random_state=0).fit(APART, LABELS)
    holed = APART[:6].copy()
    holed[:, 1] = np.nan
    for filled in (model.impute(holed), model.impute(holed, given=LABELS[:6])):
        np.testing.assert_array_equal(filled[:, 0], holed[:, 0])
        assert np.abs(filled[:, 1] - APART[:6, 1]).mean() < 3.5  # the sides are 8 apart
    drawn = model.sample(6, given={"y": LABELS[:6], "X": holed}, seed=0)
    assert np.abs(drawn[:, 1] - APART[:6, 1]).mean() < 3.5
    with pytest.raises(InvalidInput, match="2 labels for 6 rows"):
        model.impute(holed, given=LABELS[:2])
    far = 1e8 + APART[:4]  # squares would swallow the differences
    away = np.square((far[:, None] - far) / model._spread).sum(2)
    near = model._nearness(far, far)
    assert np.allclose(near / near.min(), away / away.max(), atol=1e-6)
    # a single row, and a column that never changes, have no spread to measure nearness by
    model._spread = np.array([0.0, 1.0])
    assert np.isfinite(model.sample(3, given=holed[:1], seed=0)).all()


def test_latent_diffusion_says_that_it_has_no_likelihood():
    model = benthic.LatentDiffusion()
    assert not hasattr(model, "likelihood")
    with pytest.raises(AttributeError, match="no attribute 'likelihood'; a decoder of codes gives no density"):
        model.likelihood(ROWS)
