"""Filling gaps and editing, against the exact conditional law of a Gaussian."""

from __future__ import annotations

import math

import pytest
import torch

from benthic.base.errors import InvalidInput
from benthic.generative.diffusion import AddedNoise, Denoiser, Guided, edit, exact_denoiser, inpaint, sample

pytestmark = pytest.mark.spec("N-05", "N-06")
CORRELATED = ([1.0], [[0.5, -0.5]], [[[1.0, 0.8], [0.8, 1.0]]])
MASK = torch.tensor([True, False])


def known_rows(value, count):
    return torch.tensor([[value, math.nan]], dtype=torch.float64).repeat(count, 1)


@pytest.mark.parametrize("on", ["vp", "edm", "straight"])
def test_repaint_finds_the_conditional_law(on):
    """x2 given x1 = 1.5 is N(-0.5 + 0.8, 0.36); tolerances: a first-order bias, four standard deviations."""
    truth = exact_denoiser(CORRELATED, on)
    x = inpaint(truth, known_rows(1.5, 1500), MASK, repeats=6, steps=120, seed=0)
    assert bool((x[:, 0] == 1.5).all()) and bool(x.isfinite().all())
    assert float(x[:, 1].mean()) == pytest.approx(0.3, abs=0.14)
    assert float(x[:, 1].var()) == pytest.approx(0.36, rel=0.3)


def test_replacement_is_rougher():
    """Without going back the unknown column hears less of the known one: its mean falls short of the right one."""
    truth = exact_denoiser(CORRELATED, "vp")
    rough = inpaint(truth, known_rows(2.5, 1500), MASK, method="replacement", steps=40, seed=0)[:, 1]
    fine = inpaint(truth, known_rows(2.5, 1500), MASK, repeats=8, steps=40, seed=0)[:, 1]
    right = -0.5 + 0.8 * 2.0
    assert abs(float(fine.mean()) - right) < abs(float(rough.mean()) - right)


def test_rows_may_have_different_gaps():
    truth = exact_denoiser(CORRELATED, "vp")
    known = torch.tensor([[1.0, math.nan], [math.nan, 2.0], [math.nan, math.nan], [3.0, 4.0]], dtype=torch.float64)
    x = inpaint(truth, known, known.isfinite(), steps=5, repeats=2, seed=0)
    assert bool(x.isfinite().all()) and torch.equal(x[known.isfinite()], known[known.isfinite()])


def test_edits_keep_as_much_as_their_strength_leaves():
    """Little noise gives the points back; all noise gives samples that know nothing of them."""
    truth = exact_denoiser(CORRELATED, "vp")
    x = truth.draw(800, seed=1)
    near, far = (edit(truth, x, strength=s, steps=40, seed=0) for s in (0.03, 1.0))
    assert float((near - x).square().mean()) < 0.1
    relation = torch.corrcoef(torch.stack([x[:, 0], far[:, 0]]))[0, 1]
    assert abs(float(relation)) < 4 / math.sqrt(800)
    for strength in (0.2, 0.5):  # samples of the data stay samples of the data
        moved = edit(truth, x, strength=strength, sampler="ancestral", steps=100, seed=0)
        assert float((moved.mean(0) - truth.mean).abs().max()) < 5 / math.sqrt(800)
        torch.testing.assert_close(torch.cov(moved.T), truth.covariance, rtol=0, atol=0.3)
    assert edit(truth, x, t_start=0.5, steps=3, seed=0).shape == x.shape


@pytest.mark.parametrize("process", ["vp", "edm", "poisson", "ve", "ddpm"])
def test_half_the_strength_leaves_something_of_the_data(process):
    """Half of the largest noise of EDM, 40 standard deviations, would leave a correlation of 1/40."""
    truth = exact_denoiser(CORRELATED, process)
    x = truth.draw(800, seed=1)
    moved = edit(truth, x, strength=0.5, steps=20, sampler="heun", seed=0)
    relation = torch.corrcoef(torch.stack([x[:, 0], moved[:, 0]]))[0, 1]
    assert 0.12 < float(relation) < 0.98  # four standard errors from nothing


def test_guidance_sharpens_a_conditional_law():
    """For normal laws guided scores are those of N with precision w/c - (w - 1)/c0 at little noise: narrower."""
    process = AddedNoise()
    conditional = exact_denoiser(([1.0], [[1.0]], [[[0.25]]]), process)
    marginal = exact_denoiser(([1.0], [[0.0]], [[[1.0]]]), process)
    plain, guided = (
        sample(Guided(conditional, marginal, w), (1000, 1), steps=30, seed=0, dtype=torch.float64) for w in (1.0, 2.0)
    )
    assert float(plain.mean()) == pytest.approx(1.0, abs=0.08)
    assert float(guided.mean()) > float(plain.mean()) + 0.1
    assert float(guided.var()) < 0.8 * float(plain.var())


TRUTH = exact_denoiser(CORRELATED, "vp")
ROWS = torch.zeros(2, 2)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: inpaint(TRUTH, ROWS, MASK, method="repant"), "did you mean 'repaint'"),
        (lambda: inpaint(TRUTH, ROWS, MASK, repeats=0), "repeats=0"),
        (lambda: inpaint(TRUTH, ROWS, MASK, sampler="dpm2m"), "remembers earlier points"),
        (lambda: inpaint(TRUTH, ROWS, MASK, sampler="ode"), "chooses its own steps"),
        (lambda: inpaint(TRUTH, ROWS, torch.ones(3).bool()), "does not go with points"),
        (lambda: inpaint(TRUTH, ROWS * math.nan, MASK), "is not finite"),
        (lambda: inpaint(TRUTH, torch.zeros(2), MASK), "floating points"),
        (lambda: inpaint(TRUTH, ROWS.numpy(), MASK), "known is a ndarray of shape"),
        (lambda: inpaint(TRUTH, ROWS, MASK, times=[0.3, 0.1]), "not noise alone"),
        (lambda: edit(TRUTH, ROWS.numpy(), strength=0.5), "x is a ndarray of shape"),
        (lambda: inpaint(exact_denoiser(CORRELATED, "poisson"), ROWS, MASK, sampler="ddim"), "no normal steps"),
        (lambda: edit(TRUTH, ROWS), "either strength"),
        (lambda: edit(TRUTH, ROWS, strength=0.5, t_start=0.5), "either strength"),
        (lambda: edit(TRUTH, ROWS, strength=1.5), "strength=1.5"),
        (lambda: edit(TRUTH, ROWS, t_start=3.0), "t_start=3.0"),
        (lambda: Guided(Denoiser("vp", abs), Denoiser("vp", abs), math.nan), "scale=nan"),
    ],
)
def test_wrong_input(call, words):
    with pytest.raises(InvalidInput, match=words):
        call()
