"""The U-Net and the dense denoiser: shapes, conditions, sizes, and the published count of weights."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from benthic.base.errors import InvalidInput
from benthic.nets.denoising_mlp import DenoisingMLP
from benthic.nets.embedding import ConditionEmbedding, LevelEmbedding, forget, null_condition, sinusoids
from benthic.nets.unet import ResidualBlock, UNet, Upsample, default_unet, groups_of


def lively(network: nn.Module, seed: int = 0) -> nn.Module:
    """The network with every weight random, also those that start at zero."""
    torch.manual_seed(seed)
    for p in network.parameters():
        nn.init.normal_(p, std=0.1)
    return network.eval()


def small(shape=(1, 8, 8), **more) -> UNet:
    return UNet(shape, **{"channels": 8, "multipliers": (1, 2), "blocks": 1, "attention": (4,), **more})


@pytest.mark.spec("N-05")
def test_the_published_shape_has_the_published_weights():
    # Ho et al., 2020: 35.7 million; counted layer by layer
    width, e = 128, 512

    def conv(a, b, k=3):
        return a * b * k * k + b

    def block(a, b):
        return 2 * a + conv(a, b) + e * b + b + 2 * b + conv(b, b) + (conv(a, b, 1) if a != b else 0)

    def look(c):
        return 2 * c + 4 * (c * c + c)

    total = width * e + e + e * e + e + conv(3, width)
    sizes, now, skips = (128, 256, 256, 256), width, [width]
    for i, c in enumerate(sizes):
        for _ in range(2):
            total += block(now, c) + (look(c) if i == 1 else 0)
            now = c
            skips.append(c)
        if i < 3:
            total += conv(c, c)
            skips.append(c)
    total += 2 * block(256, 256) + look(256)
    for i, c in reversed(list(enumerate(sizes))):
        for _ in range(3):
            total += block(now + skips.pop(), c) + (look(c) if i == 1 else 0)
            now = c
        total += conv(c, c) if i else 0
    total += 2 * width + conv(width, 3)
    assert total == sum(p.numel() for p in UNet.cifar().parameters()) == 35_746_307


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 9, 7), (2, 28, 28), (1, 5, 12), (1, 1, 3)])
def test_any_size_comes_back_and_padding_is_said(shape):
    net = lively(small(shape))
    x = torch.randn(2, *shape)
    assert net(x, torch.rand(2)).shape == x.shape
    odd = shape[1] % 2 or shape[2] % 2
    assert bool(net.notes()) == bool(odd)
    if odd:
        assert f"padded from {shape[1]} x {shape[2]}" in net.notes()["pictures"]


def test_starts_at_zero_and_depends_on_everything_after():
    net = small()
    x, level = torch.randn(2, 1, 8, 8), torch.rand(2)
    assert not net(x, level).any()
    lively(net)
    assert not torch.allclose(net(x, level), net(x, level + 1))
    assert not torch.allclose(net(x, level), net(x + 1, level))


def test_one_level_serves_all_rows():
    net = lively(small()).double()
    x = torch.randn(3, 1, 8, 8, dtype=torch.float64)
    with torch.no_grad():
        torch.testing.assert_close(net(x, torch.tensor(0.3)), net(x, torch.full((3,), 0.3)), rtol=1e-6, atol=1e-8)


def test_rows_do_not_mix_and_layouts_agree():
    net = lively(small()).double()
    x, level = torch.randn(4, 1, 8, 8, dtype=torch.float64), torch.rand(4, dtype=torch.float64)
    whole = net(x, level)
    torch.testing.assert_close(net(x[1:2], level[1:2]), whole[1:2])
    last = copy.deepcopy(net).to(memory_format=torch.channels_last)
    torch.testing.assert_close(last(x.contiguous(memory_format=torch.channels_last), level), whole)


def test_upsampling_by_small_kernels_is_the_same():
    torch.manual_seed(0)
    layer, x = Upsample(5).double(), torch.randn(3, 5, 4, 6, dtype=torch.float64)
    plain = layer.conv(F.interpolate(x, scale_factor=2.0, mode="nearest"))
    with torch.no_grad():
        torch.testing.assert_close(layer(x), plain, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(layer(x), plain)


def test_with_and_without_gradients_agree():
    net = lively(small(scale_shift=False)).double()
    x, level = torch.randn(2, 1, 8, 8, dtype=torch.float64), torch.rand(2, dtype=torch.float64)
    with_gradients = net(x, level)
    with torch.no_grad():
        torch.testing.assert_close(net(x, level), with_gradients.detach(), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("scale_shift", [True, False])
def test_gradients_of_a_block(scale_shift):
    block = lively(ResidualBlock(2, 4, 3, scale_shift=scale_shift)).double()
    x = torch.randn(1, 2, 3, 3, dtype=torch.float64, requires_grad=True)
    e = torch.randn(1, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(block, (x, e))


@pytest.mark.parametrize(("kind", "size"), [("labels", 3), ("vectors", 2), ("images", 1)])
def test_conditions_and_the_null_condition(kind, size):
    net = lively(small(condition=kind, condition_size=size))
    x, level = torch.randn(4, 1, 8, 8), torch.rand(4)
    shape = (1, 8, 8) if kind == "images" else (size,)
    given = torch.tensor([0, 1, 2, 0]) if kind == "labels" else torch.randn(4, *shape)
    null = null_condition(kind, shape, 4, x)
    with torch.no_grad():
        known, unknown = net(x, level, given), net(x, level, null)
        assert torch.isfinite(unknown).all() and not torch.allclose(known, unknown)
        assert torch.equal(net(x, level), unknown)  # nothing given is the null condition
        mixed = given.clone()
        mixed[2] = null[2]
        found = net(x, level, mixed)
    torch.testing.assert_close(found[2], unknown[2])
    torch.testing.assert_close(found[:2], known[:2])


def test_a_share_of_the_conditions_is_forgotten():
    torch.manual_seed(0)
    labels = forget(torch.zeros(20_000, dtype=torch.long), "labels", 7, 0.1)
    share = (labels == 7).double().mean()
    assert abs(share - 0.1) < 4 * (0.1 * 0.9 / 20_000) ** 0.5
    vectors = forget(torch.zeros(1000, 3), "vectors", 0, 0.5)
    gone = torch.isnan(vectors)
    assert (gone.all(1) == gone.any(1)).all() and 400 < gone.all(1).sum() < 600


def test_waves():
    level = torch.tensor([0.0, 1.0, 250.0], dtype=torch.float64)
    waves = sinusoids(level, 8)
    frequencies = torch.tensor([1.0, 1e-4 ** (1 / 3), 1e-4 ** (2 / 3), 1e-4], dtype=torch.float64)
    expected = torch.cat([torch.sin(level[:, None] * frequencies), torch.cos(level[:, None] * frequencies)], 1)
    torch.testing.assert_close(waves, expected)
    for kind in ("sinusoidal", "fourier"):
        embed = LevelEmbedding(16, 8, kind, scale=10.0)
        found = embed(torch.tensor([0.1, 0.2]))
        assert found.shape == (2, 16) and not torch.allclose(found[0], found[1])


def test_dense_denoiser():
    net = DenoisingMLP(3, hidden=16, depth=2, condition="labels", condition_size=4)
    x, level = torch.randn(5, 3), torch.rand(5)
    assert not net(x, level).any()
    lively(net)
    labels = torch.tensor([0, 1, 2, 3, 4])
    found = net(x, level, labels)
    torch.testing.assert_close(found[4:], net(x[4:], level[4:]))
    torch.testing.assert_close(net(x, level[:1].expand(5), labels), net(x, level[:1].repeat(5), labels))
    assert DenoisingMLP(3, outputs=7, hidden=4)(x, level).shape == (5, 7)
    double = copy.deepcopy(net).double()
    torch.testing.assert_close(double(x.double(), level.double(), labels).float(), found, rtol=1e-4, atol=1e-5)


def test_groups_divide():
    for channels in range(1, 200):
        groups = groups_of(channels)
        assert channels % groups == 0 and groups <= 32 and (groups == 1 or channels // groups >= 4)
    assert groups_of(64, 32) == 32


def test_defaults_suit_sizes():
    for shape in ((1, 8, 8), (1, 28, 28), (3, 32, 32), (3, 64, 64)):
        net = default_unet(shape, channels=8)
        with torch.no_grad():
            assert net(torch.zeros(1, *shape), torch.tensor(1.0)).shape == (1, *shape)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: UNet((8, 8)), "pictures have"),
        (lambda: UNet((1, 4, 4), multipliers=(1, 1, 1, 1)), "allow fewer"),
        (lambda: UNet((1, 8, 8), multipliers=()), "multipliers"),
        (lambda: small(condition="words"), "condition is 'words'"),
        (lambda: small(condition="labels"), "of size 0"),
        (lambda: small(embedding="sines"), "unknown"),
        (lambda: LevelEmbedding(8, 3), "must be even"),
        (lambda: ConditionEmbedding("images", 3, 4), "use 'labels' or 'vectors'"),
        (lambda: DenoisingMLP(0), "at least 1"),
    ],
)
def test_bad_input(make, text):
    with pytest.raises(InvalidInput, match=text):
        make()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_on_a_gpu():
    net = lively(small((3, 9, 8), condition="labels", condition_size=3)).double()
    x, level, labels = torch.randn(4, 3, 9, 8).double(), torch.rand(4).double(), torch.tensor([0, 1, 2, 3])
    with torch.no_grad():
        here = net(x, level, labels)
        there = copy.deepcopy(net).cuda().to(memory_format=torch.channels_last)(x.cuda(), level.cuda(), labels.cuda())
    torch.testing.assert_close(there.cpu(), here, rtol=1e-8, atol=1e-8)
