"""Image operators against scipy.ndimage, their transfer functions and geometry."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.ndimage
import torch

from benthic.base.errors import InvalidInput
from benthic.linalg import (
    edge_kernel,
    edges,
    gaussian_blur,
    high_pass,
    image_gradient,
    image_laplacian,
    low_pass,
    morph,
    sharpen,
    signed_distance,
    transfer_function,
)
from benthic.linalg.morphing import _by_parabolas

pytestmark = pytest.mark.spec("A-06")
SHAPES = [(12, 9), (3, 12, 9), (2, 3, 12, 9)]
OPERATORS = {
    "low_pass": lambda x: low_pass(x, 0.1),
    "high_pass": lambda x: high_pass(x, 0.1),
    "gaussian_blur": lambda x: gaussian_blur(x, 1.3),
    "edges": edges,
    "image_laplacian": image_laplacian,
    "sharpen": lambda x: sharpen(x, 0.7),
    "unsharp": lambda x: sharpen(x, 0.7, sigma=1.0),
}


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def disk(size, center, radius):
    rows, columns = torch.meshgrid(*(torch.arange(n, dtype=torch.float64) for n in size), indexing="ij")
    return torch.hypot(rows - center[0], columns - center[1]) <= radius


# ------------------------------------------------------------------------------------------------ by frequency


@pytest.mark.parametrize("kind", ["ideal", "gaussian", "butterworth"])
@pytest.mark.parametrize("boundary", ["mirror", "wrap"])
def test_low_and_high_add_up_to_the_image(kind, boundary):
    image = normal(2, 12, 9)
    low, high = (f(image, 0.15, kind, boundary=boundary) for f in (low_pass, high_pass))
    torch.testing.assert_close(low + high, image)
    torch.testing.assert_close(low.mean((-2, -1)), image.mean((-2, -1)))  # the mean is of frequency zero
    assert low.square().sum() < image.square().sum()


@pytest.mark.parametrize(("kind", "gain"), [("ideal", 1.0), ("gaussian", np.exp(-0.5)), ("butterworth", 0.5)])
def test_a_wave_at_the_cutoff_is_damped_by_the_transfer_function(kind, gain):
    wave = torch.cos(2 * torch.pi * 4 * torch.arange(32, dtype=torch.float64) / 32).expand(32, 32)
    torch.testing.assert_close(low_pass(wave, 4 / 32, kind, boundary="wrap"), gain * wave)
    torch.testing.assert_close(low_pass(wave.mT, 4 / 32, kind, boundary="wrap"), gain * wave.mT)


def test_the_order_of_a_butterworth_filter_is_its_slope():
    for order in (1, 2, 5):
        H = transfer_function((256, 256), 0.01, order=order)[:, 0]
        octaves = torch.log2(H[32] / H[64])  # from frequency 1/8 to 1/4, far above the cutoff
        assert float(octaves) == pytest.approx(2 * order, abs=2e-2)
    steep = transfer_function((64, 64), 0.2, order=500)
    assert torch.equal(steep.round(), transfer_function((64, 64), 0.2, "ideal"))


def test_wrapped_filters_are_circular_convolutions():
    image, H = normal(16, 15), transfer_function((16, 15), 0.2)
    kernel = torch.fft.irfft2(H.to(torch.complex128), s=(16, 15))
    # scipy takes the kernel's center to be at half its size
    wanted = scipy.ndimage.convolve(image.numpy(), np.roll(kernel.numpy(), (8, 7), (0, 1)), mode="wrap")
    np.testing.assert_allclose(low_pass(image, 0.2, boundary="wrap"), wanted, atol=1e-12)


def test_the_mirror_keeps_a_slope_free_of_a_false_edge():
    slope = torch.linspace(0, 1, 64, dtype=torch.float64).expand(64, 64)
    wrapped, mirrored = (high_pass(slope, 0.05, boundary=b).abs().max() for b in ("wrap", "mirror"))
    assert mirrored < 0.15 * wrapped


def test_gaussian_low_pass_is_a_gaussian_blur():
    # the transform of a Gaussian of width sigma is a Gaussian of width 1 / (2 pi sigma)
    image = normal(40, 30)
    sigma = 2.0
    blurred = gaussian_blur(image, sigma, truncate=8.0)
    torch.testing.assert_close(low_pass(image, 1 / (2 * np.pi * sigma), "gaussian"), blurred, rtol=0, atol=1e-5)


# ------------------------------------------------------------------------------------------------ by neighborhood


@pytest.mark.parametrize("sigma", [0.4, 1.0, 3.0, 10.0])
def test_blur_against_scipy(sigma):
    image = normal(13, 9)  # at sigma 10 the kernel is wider than the picture, so mirrors repeat
    wanted = scipy.ndimage.gaussian_filter(image.numpy(), sigma, mode="reflect", truncate=4.0)
    np.testing.assert_allclose(gaussian_blur(image, sigma), wanted, atol=1e-12)


@pytest.mark.parametrize(("name", "scale"), [("sobel", 8), ("prewitt", 6)])
def test_gradients_against_scipy(name, scale):
    image = normal(13, 9)
    theirs = getattr(scipy.ndimage, name)
    wanted = np.stack([theirs(image.numpy(), axis=axis, mode="reflect") for axis in (0, 1)]) / scale
    np.testing.assert_allclose(image_gradient(image, name), wanted, atol=1e-13)
    np.testing.assert_allclose(edges(image, name), np.hypot(*wanted), atol=1e-13)


def test_laplacian_against_scipy():
    image = normal(13, 9)
    np.testing.assert_allclose(image_laplacian(image), scipy.ndimage.laplace(image.numpy(), mode="reflect"), atol=1e-13)
    wanted = scipy.ndimage.correlate(image.numpy(), edge_kernel("laplacian8").numpy(), mode="reflect")
    np.testing.assert_allclose(image_laplacian(image, 8), wanted, atol=1e-13)


@pytest.mark.parametrize("kernel", ["sobel", "prewitt", "scharr"])
def test_the_slope_of_a_plane_is_exact(kernel):
    rows, columns = torch.meshgrid(torch.arange(8.0), torch.arange(9.0), indexing="ij")
    slope = image_gradient(3 * rows - 2 * columns, kernel)[:, 1:-1, 1:-1]
    torch.testing.assert_close(slope[0], torch.full_like(slope[0], 3.0))
    torch.testing.assert_close(slope[1], torch.full_like(slope[1], -2.0))


def test_edges_are_where_the_disk_ends():
    size, center, radius = (41, 41), (20, 20), 12
    strength = edges(disk(size, center, radius).double())
    ring = disk(size, center, radius + 2) & ~disk(size, center, radius - 2)
    assert strength[~ring].max() == 0
    assert strength.max() > 0.4


def test_sharpening_undoes_some_blur():
    image = scipy.ndimage.zoom(normal(6, 6).numpy(), 8, order=1)
    blurred = gaussian_blur(image, 1.0)
    error = (blurred - torch.as_tensor(image)).norm()
    for sharp in (sharpen(blurred, 0.5), sharpen(blurred, 1.0, sigma=1.0)):
        assert (sharp - torch.as_tensor(image)).norm() < 0.75 * error
    torch.testing.assert_close(sharpen(blurred, 0.0), blurred)


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("shape", SHAPES)
def test_each_picture_is_treated_alone(name, shape):
    images = normal(*shape)
    result = OPERATORS[name](images)
    assert result.shape == images.shape
    flat = images.reshape(-1, 12, 9)
    torch.testing.assert_close(result.reshape(-1, 12, 9)[-1], OPERATORS[name](flat[-1]))
    assert OPERATORS[name](images.float()).dtype == torch.float32


@pytest.mark.parametrize("name", OPERATORS)
def test_gradients_flow(name):
    assert torch.autograd.gradcheck(OPERATORS[name], normal(5, 4).requires_grad_())


# ------------------------------------------------------------------------------------------------ shapes


def test_signed_distance_against_scipy():
    inside = gaussian_blur(normal(3, 30, 21), 2.0) > 0
    found = signed_distance(inside)
    for one, distance in zip(inside.numpy(), found, strict=True):
        edt = scipy.ndimage.distance_transform_edt
        np.testing.assert_allclose(distance, np.where(one, 0.5 - edt(one), edt(~one) - 0.5), atol=1e-12)


@pytest.mark.parametrize("at_once", [2**22, 7 * 3 * 30 * 21])
def test_the_envelope_of_parabolas_is_the_distance(monkeypatch, at_once):
    monkeypatch.setattr("benthic.linalg.morphing._AT_ONCE", at_once)  # whole, and in slices
    target = gaussian_blur(normal(3, 30, 21), 2.0) > 0
    wanted = np.stack([scipy.ndimage.distance_transform_edt(~one) for one in target.numpy()])
    np.testing.assert_allclose(_by_parabolas(target, torch.float64), wanted, atol=1e-12)


def test_the_ends_of_a_morph_are_the_shapes():
    a, b = gaussian_blur(normal(2, 25, 30), 2.0) > 0, gaussian_blur(normal(2, 25, 30, seed=1), 2.0) > 0
    for align in (False, True):
        ends = morph(a, b, [0.0, 1.0], align=align)
        torch.testing.assert_close(ends[0], a.double(), atol=1e-9, rtol=0)
        torch.testing.assert_close(ends[1], b.double(), atol=1e-9, rtol=0)


@pytest.mark.parametrize("t", [0.25, 0.5, 0.8])
def test_between_two_disks_is_the_disk_between(t):
    size, c0, c1 = (120, 140), (40.0, 40.0), (70.0, 95.0)
    between = morph(disk(size, c0, 12).double(), disk(size, c1, 28).double(), t)
    radius = (1 - t) * 12 + t * 28
    center = [(1 - t) * p + t * q for p, q in zip(c0, c1, strict=True)]
    # pixels quantize a border to about half a pixel, so the area may be off by half the perimeter
    assert float(between.sum()) == pytest.approx(np.pi * radius**2, abs=0.5 * 2 * np.pi * radius)
    assert (between > 0.5)[~disk(size, center, radius + 1)].sum() == 0
    assert (between > 0.5)[disk(size, center, radius - 1)].all()


def test_without_alignment_distant_shapes_vanish_on_the_way():
    a, b = disk((40, 80), (20, 15), 8), disk((40, 80), (20, 65), 8)
    assert morph(a, b, 0.5, align=False).sum() == 0
    torch.testing.assert_close(morph(a, b, 0.5), disk((40, 80), (20, 40), 8).double(), atol=1e-9, rtol=0)


def test_shapes_may_come_near_the_border():
    a, b = disk((40, 60), (10, 10), 9), disk((40, 60), (29, 49), 9)
    for frame in morph(a, b, [0.1, 0.5, 0.9]):
        assert float(frame.sum()) == pytest.approx(float(a.sum()), rel=0.08)


def test_a_dissolve_is_a_mean():
    a, b = normal(2, 3, 6, 5), normal(2, 3, 6, 5, seed=1)
    frames = morph(a, b, torch.tensor([0.0, 0.3, 1.0]), "dissolve")
    assert frames.shape == (3, 2, 3, 6, 5)
    torch.testing.assert_close(frames[1], 0.7 * a + 0.3 * b)
    torch.testing.assert_close(morph(a, b, 0.3, "dissolve"), frames[1])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: low_pass(torch.ones(5), 0.1), r"image has shape \(5,\); give \(h, w\)"),
        (lambda: low_pass(torch.ones(5, 5), 0), "cutoff is 0; it must be a positive number"),
        (lambda: low_pass(torch.ones(5, 5), 0.1, "butterwort"), "did you mean 'butterworth'"),
        (lambda: low_pass(torch.ones(5, 5), 0.1, order=-1), "order is -1"),
        (lambda: high_pass(torch.ones(5, 5), 0.1, boundary="zero"), "boundary is 'zero'; it is one of mirror, wrap"),
        (lambda: transfer_function((0, 3), 0.1), "size is"),
        (lambda: transfer_function(3, 0.1), "size is 3; give"),
        (lambda: morph(torch.eye(4), torch.eye(4), "half"), "t holds .* values; use numbers"),
        (lambda: gaussian_blur(torch.ones(5, 5), "wide"), "sigma is 'wide'"),
        (lambda: gaussian_blur(torch.full((2, 2), torch.nan), 1.0), "not finite"),
        (lambda: edges(torch.ones(5, 5), "sobol"), "did you mean 'sobel'"),
        (lambda: edge_kernel("canny"), "name is 'canny'"),
        (lambda: image_laplacian(torch.ones(5, 5), 6), "neighbors is 6; it is 4 or 8"),
        (lambda: sharpen(torch.ones(5, 5), -1.0), "amount is -1.0"),
        (lambda: signed_distance(torch.zeros(4, 4)), "nothing above 1/2"),
        (lambda: morph(torch.ones(4, 4), torch.eye(4), 0.5), "first has nothing below 1/2"),
        (lambda: morph(torch.eye(4), torch.eye(5), 0.5), "make them equal"),
        (lambda: morph(torch.eye(4), torch.eye(4), 1.5), "t is 1.5; it must be a number from 0 to 1"),
        (lambda: morph(torch.eye(4), torch.eye(4), 0.5, "disolve"), "did you mean 'dissolve'"),
        (lambda: morph(torch.eye(4), torch.eye(4).double(), 0.5), "differ in type or device"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(call, words):
    with pytest.raises(InvalidInput, match=words):
        call()
