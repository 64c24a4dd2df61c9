"""Generators and critics of pictures: shapes, where the norms are, what real and generated batches do to each other."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from benthic.base.errors import InvalidInput
from benthic.nets.batchnorms import Referenced
from benthic.nets.critic import CRITIC_NORMS, ConvCritic, ProjectionCritic
from benthic.nets.generator import UPSAMPLINGS, ConvGenerator, gan_channels
from benthic.nets.jitter import jitter
from benthic.nets.patches import PatchCritic, SkipNet, translator_channels
from benthic.nets.spectral import SpectralConv2d, SpectralLinear

pytestmark = pytest.mark.spec("N-02")
EVENTS = [(1, 8, 8), (3, 28, 28), (1, 27, 31), (2, 5, 9), (3, 64, 64)]


@pytest.fixture(autouse=True)
def _seed():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def narrow(event, base=4):
    return gan_channels(*event[1:], base)


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("upsampling", UPSAMPLINGS)
@pytest.mark.parametrize("residual", [False, True])
def test_pictures_of_any_size_come_and_go(event, upsampling, residual):
    generator = ConvGenerator(5, event, narrow(event), upsampling=upsampling, residual=residual)
    critic = ConvCritic(event, narrow(event), norm="spectral", residual=residual)
    pictures = generator(torch.randn(3, 5))
    assert pictures.shape == (3, *event) and pictures.abs().max() <= 1
    assert critic(pictures).shape == (3, 1)
    torch.testing.assert_close(critic.eval()(pictures), critic(pictures.flatten(1)))
    odd = any(side % (1 << len(narrow(event))) for side in event[1:])
    assert bool(generator.cropped) == odd


def test_every_pixel_depends_on_the_noise_and_reaches_the_score():
    for event in EVENTS[:4]:
        generator, critic = ConvGenerator(5, event, narrow(event)), ConvCritic(event, narrow(event), norm="none")
        assert (generator(torch.randn(16, 5)).std(0) > 0).all()
        x = torch.randn(2, *event, requires_grad=True)
        (slope,) = torch.autograd.grad(critic(x).sum(), x)
        assert (slope != 0).all()


def test_batch_norm_is_neither_at_the_output_of_the_generator_nor_at_the_input_of_the_critic():
    generator, critic = ConvGenerator(5, (1, 32, 32)), ConvCritic((1, 32, 32))
    inner = [m for m in generator.modules() if isinstance(m, (nn.BatchNorm2d, nn.ConvTranspose2d))]
    assert isinstance(inner[0], nn.BatchNorm2d) and isinstance(inner[-1], nn.ConvTranspose2d)
    assert [type(m).__name__ for m in critic.body] == ["Conv2d", "LeakyReLU"] + 2 * [
        "Conv2d",
        "BatchNorm2d",
        "LeakyReLU",
    ]
    norms = [m for m in generator.modules() if isinstance(m, nn.BatchNorm2d)]
    assert len(norms) == len([m for m in generator.modules() if isinstance(m, nn.ConvTranspose2d)])


def test_real_and_generated_batches_are_normalized_apart():
    critic = ConvCritic((1, 8, 8), (4, 8))
    real, fake, other = torch.randn(3, 6, 1, 8, 8)
    first = critic(real)
    critic(fake)
    assert torch.equal(critic(real), first)  # whatever was judged in between
    assert not torch.allclose(critic(torch.cat([real, other * 9]))[:6], first)


@pytest.mark.parametrize("norm", CRITIC_NORMS)
def test_norms_of_critics(norm):
    rows = 8 if norm in ("virtual", "reference") else 0
    critic: nn.Module = ConvCritic((1, 8, 8), (4, 8), norm=norm, rows=rows)
    if rows:
        critic = Referenced(critic, (rows, 1, 8, 8))
        critic.remember(torch.randn(rows, 64))
    if norm == "spectral":  # its vectors move at every call in training
        critic.eval()
    x = torch.randn(6, 1, 8, 8)
    scores = critic(x)
    alone = torch.cat([critic(row[None]) for row in x])
    assert scores.shape == (6, 1)
    assert torch.allclose(scores, alone, rtol=1e-3, atol=1e-4) == (norm != "batch")
    if norm == "spectral":
        kinds = [m for m in critic.modules() if isinstance(m, (nn.Conv2d, nn.Linear))]
        assert all(isinstance(m, (SpectralConv2d, SpectralLinear)) for m in kinds)


@pytest.mark.parametrize("minibatch", ["discrimination", "deviation"])
def test_a_critic_can_see_that_a_batch_is_all_one_picture(minibatch):
    critic = ConvCritic((1, 8, 8), (4,), norm="none", minibatch=minibatch).eval()
    one, many = torch.randn(1, 1, 8, 8).expand(8, -1, -1, -1), torch.randn(8, 1, 8, 8)
    assert not torch.allclose(critic(one)[0], critic(torch.cat([one[:1], many[1:]]))[0])


def test_projection_is_a_score_and_an_inner_product():
    body = ConvCritic((1, 8, 8), (4,), norm="none")
    critic, x, codes = ProjectionCritic(body, 3), torch.randn(5, 64), torch.tensor([0, 2, 1, 1, 0])
    features = body.describe(x)
    expected = body(x)[:, 0] + torch.stack([critic.places.weight[c] @ f for c, f in zip(codes, features, strict=True)])
    torch.testing.assert_close(critic(x, codes)[:, 0], expected)
    torch.testing.assert_close(critic(x, nn.functional.one_hot(codes, 3).float())[:, 0], expected)
    spectral = ProjectionCritic(ConvCritic((1, 8, 8), (4,), norm="spectral"), 3).eval()
    soft = nn.functional.one_hot(codes, 3).float()
    torch.testing.assert_close(spectral(x, codes), spectral(x, soft))


def test_generators_given_a_class_or_a_reference():
    conditional = ConvGenerator(4, (1, 8, 8), (4, 8), norm="conditional", classes=3)
    z, codes = torch.randn(6, 4), torch.arange(6) % 3
    assert conditional(z, codes).shape == (6, 1, 8, 8)
    with pytest.raises(InvalidInput, match="needs the classes"):
        conditional(z)
    inner = ConvGenerator(4, (1, 8, 8), (4, 8), norm="virtual", rows=5)
    virtual = Referenced(inner, (5, 4))
    virtual.remember(torch.randn(5, 4))
    torch.testing.assert_close(virtual(z)[:1], virtual(z[:1]))


def test_a_gradient_penalty_goes_twice_through_the_critic():
    for norm in ("none", "spectral", "instance", "group"):
        critic = ConvCritic((1, 8, 8), (4, 8), norm=norm).double()
        x = torch.randn(3, 1, 8, 8, dtype=torch.float64, requires_grad=True)
        (slope,) = torch.autograd.grad(critic(x).sum(), x, create_graph=True)
        slope.square().sum().backward()
        assert all(p.grad is None or torch.isfinite(p.grad).all() for p in critic.parameters())
        assert critic.body[0].weight.grad.abs().max() > 0


@pytest.mark.parametrize("size", [(8, 8), (28, 28), (13, 9), (5, 4)])
def test_a_translator_keeps_the_size_and_uses_its_skips(size):
    network = SkipNet(2, 3, size, translator_channels(*size, 4))
    x = torch.randn(3, 2, *size)
    assert network(x).shape == (3, 3, *size)
    inner = network.down[-1][0]
    with torch.no_grad():  # without what goes through the bottom, pixels still arrive by the skips
        inner.weight.zero_()
        network.eval()
    if len(network.down) > 1:
        assert not torch.allclose(network(x)[0], network(x)[1])
    torch.testing.assert_close(network(x), network(x.flatten(1)))


def test_a_patch_critic_sees_patches():
    critic = PatchCritic(1, (64, 64), (4, 8, 8), norm="none")
    x = torch.randn(1, 1, 64, 64, requires_grad=True)
    scores = critic(x)
    assert scores.shape == (1, 1, 6, 6)
    (slope,) = torch.autograd.grad(scores[0, 0, 0, 0], x)
    seen = slope[0, 0] != 0
    assert seen.any() and not seen[47:].any() and not seen[:, 47:].any()  # 70 pixels around (12, 12), cut at the edge
    for size in ((8, 8), (5, 7), (4, 4)):
        assert PatchCritic(2, size, (4,))(torch.randn(2, 2, *size)).shape[:2] == (2, 1)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ConvGenerator(4, (1, 8, 8), upsampling="resise"), "did you mean 'resize'"),
        (lambda: ConvGenerator(4, (1, 8, 8), (4, 4, 4, 4, 4)), "halve the picture 5 times"),
        (lambda: ConvGenerator(4, (1, 8, 8), (4, 0)), "whole numbers of at least 1"),
        (lambda: ConvCritic((1, 8, 8), norm="bach"), "did you mean 'batch'"),
        (lambda: ConvCritic((1, 8, 8), minibatch="std"), "'discrimination', 'deviation' or None"),
        (lambda: ConvCritic((1, 8, 8), residual=True), "residual blocks have norm"),
        (lambda: ConvGenerator(4, (1, 8, 8), norm="layer"), "norm 'layer' is unknown"),
    ],
)
def test_settings_that_cannot_be(make, words):
    with pytest.raises(InvalidInput, match=words):
        make()


def test_jitter_is_an_affine_map_of_each_picture():
    """Beside SciPy's, about the middle of pictures that are not square."""
    ndimage = pytest.importorskip("scipy.ndimage")
    pictures = torch.rand(4, 2, 9, 14, dtype=torch.float64)
    with torch.random.fork_rng():
        torch.manual_seed(5)
        found = jitter(pictures, shift=0.1, turn=0.4, stretch=0.3, slant=0.5)
        torch.manual_seed(5)
        amounts = (2 * torch.rand(6, 4, dtype=torch.float64) - 1).numpy()
    middle = np.array([4.0, 6.5])
    for picture, copy, (angle, across, down, right, low, aside) in zip(pictures, found, amounts.T, strict=True):
        c, s = np.cos(0.4 * angle), np.sin(0.4 * angle)
        slanted = np.array([[1.0, 0.0], [0.5 * aside, 1.0]])  # of (row, column)
        matrix = np.array([[c, s], [-s, c]]) @ slanted * [1 + 0.3 * down, 1 + 0.3 * across]
        offset = middle - matrix @ middle + [0.1 * low * 9, 0.1 * right * 14]
        for plane, made in zip(picture, copy, strict=True):
            expected = ndimage.affine_transform(plane.numpy(), matrix, offset, order=1, mode="nearest")
            np.testing.assert_allclose(made.numpy(), expected, atol=1e-9)
