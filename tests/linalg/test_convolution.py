"""Convolution: direct, by FFT and as a matrix agree; theorems of convolution; SciPy, NumPy and torch as witnesses."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import scipy.signal
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from benthic.base.errors import InvalidInput
from benthic.linalg import (
    convolution_matrix,
    convolve,
    convolve_backward,
    correlate,
    correlate_backward,
    output_size,
)

pytestmark = pytest.mark.spec("A-04")
KINDS = {"correlate": (correlate, correlate_backward), "convolve": (convolve, convolve_backward)}


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@st.composite
def configurations(draw):
    """A kernel, an input and settings that fit together."""
    dims = draw(st.integers(1, 2))
    channels = draw(st.booleans())
    taps = [draw(st.integers(1, 4)) for _ in range(dims)]
    dilation = [draw(st.integers(1, 3)) for _ in range(dims)]
    stride = [draw(st.integers(1, 3)) for _ in range(dims)]
    padding = draw(st.one_of(st.lists(st.integers(0, 4), min_size=dims, max_size=dims), st.just("full")))
    if padding == "full" or draw(st.booleans()):
        size = [d * (k - 1) + 1 + draw(st.integers(0, 6)) for k, d in zip(taps, dilation, strict=True)]
    else:
        size = [
            max(1, d * (k - 1) + 1 - 2 * p) + draw(st.integers(0, 4))
            for k, d, p in zip(taps, dilation, padding, strict=True)
        ]
    c_in, c_out, batch = (draw(st.integers(1, 3)) for _ in range(3))
    seed = draw(st.integers(0, 1000))
    kernel = normal(*((c_out, c_in) if channels else ()), *taps, seed=seed)
    x = normal(batch, *((c_in,) if channels else ()), *size, seed=seed + 1)
    kind = draw(st.sampled_from(sorted(KINDS)))
    return kind, x, kernel, {"padding": padding, "stride": stride, "dilation": dilation}


@settings(max_examples=150, deadline=None, derandomize=True)
@given(configurations())
def test_direct_fft_and_matrix_agree_forward_and_backward(configuration):
    kind, x, kernel, how = configuration
    forward, backward = KINDS[kind]
    dims = 1 if kernel.ndim in (1, 3) else 2
    direct = forward(x, kernel, **how, method="direct")
    torch.testing.assert_close(forward(x, kernel, **how, method="fft"), direct, rtol=0, atol=1e-12)
    T = convolution_matrix(kernel, list(x.shape[-dims:]), **how, kind=kind)
    torch.testing.assert_close((T @ x.reshape(len(x), -1).mT).mT.reshape(direct.shape), direct, rtol=0, atol=1e-12)
    taps = kernel.shape[-dims:]
    sizes = output_size(list(x.shape[-dims:]), list(taps), how["padding"], how["stride"], how["dilation"])
    assert tuple(direct.shape[-dims:]) == sizes

    grad = normal(*direct.shape, seed=7)
    x, kernel = x.requires_grad_(), kernel.requires_grad_()
    wanted = torch.autograd.grad((forward(x, kernel, **how, method="direct") * grad).sum(), (x, kernel))
    for method in ("direct", "fft"):
        found = backward(grad, x.detach(), kernel.detach(), **how, method=method)
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-11)
    transposed = (T.mT @ grad.reshape(len(x), -1).mT).mT.reshape(x.shape)
    torch.testing.assert_close(transposed, wanted[0], rtol=0, atol=1e-11)


def test_the_example_of_three_by_three_and_two_by_two():
    x, w = torch.arange(9.0).reshape(3, 3), torch.arange(4.0).reshape(2, 2)
    assert correlate(x, w).tolist() == [[19, 25], [37, 43]]
    assert convolve(x, w.flip(0, 1)).tolist() == [[19, 25], [37, 43]]
    assert convolve(x, w).tolist() != [[19, 25], [37, 43]]


def test_the_example_of_two_channels():
    x = torch.stack([torch.arange(9.0), torch.arange(1.0, 10.0)]).reshape(2, 3, 3)
    w = torch.stack([torch.arange(4.0), torch.arange(1.0, 5.0)]).reshape(1, 2, 2, 2)
    assert correlate(x, w).tolist() == [[[56, 72], [104, 120]]]
    assert correlate(x, w, method="fft").round().tolist() == [[[56, 72], [104, 120]]]


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("k", [1, 2, 3, 4, 5])
def test_against_numpy_and_scipy(mode, k):
    x, w, image, mask = normal(9), normal(k, seed=1), normal(9, 8), normal(k, 3, seed=2)
    np.testing.assert_allclose(convolve(x, w, padding=mode), np.convolve(x.numpy(), w.numpy(), mode), atol=1e-13)
    np.testing.assert_allclose(
        convolve(image, mask, padding=mode), scipy.signal.convolve2d(image, mask, mode), atol=1e-13
    )
    if mode != "same":
        np.testing.assert_allclose(correlate(x, w, padding=mode), np.correlate(x.numpy(), w.numpy(), mode), atol=1e-13)
    else:
        padded = F.pad(image[None, None], (1, 1, (k - 1) // 2, k // 2))  # what torch's "same" does
        wanted = F.conv2d(padded, mask[None, None])[0, 0]
        np.testing.assert_allclose(correlate(image, mask, padding=mode), wanted, atol=1e-13)


def test_convolution_commutes_and_correlation_does_not():
    x, w = normal(6, 5), normal(3, 4, seed=1)
    torch.testing.assert_close(convolve(x, w, padding="full"), convolve(w, x, padding="full"))
    assert not torch.allclose(correlate(x, w, padding="full"), correlate(w, x, padding="full"))
    a, b, c = normal(4), normal(3, seed=1), normal(2, seed=2)  # and it is associative
    left = convolve(convolve(a, b, padding="full"), c, padding="full")
    torch.testing.assert_close(left, convolve(a, convolve(b, c, padding="full"), padding="full"))


def test_transforms_multiply():
    x, w = normal(6, 5), normal(3, 4, seed=1)
    y = convolve(x, w, padding="full", method="direct")
    product = torch.fft.fft2(x, s=y.shape) * torch.fft.fft2(w, s=y.shape)
    torch.testing.assert_close(torch.fft.fft2(y), product)


def test_shifts_pass_through():
    x = F.pad(normal(5), (4, 4))
    shifted = x.roll(2)
    torch.testing.assert_close(convolve(shifted, normal(3, seed=1))[2:], convolve(x, normal(3, seed=1))[:-2])


@pytest.mark.parametrize("k", [2, 3, 4])
@pytest.mark.parametrize("padding", ["same", 1])
def test_correlation_is_the_adjoint_of_convolution(k, padding):
    x, w = normal(8, 7), normal(k, k, seed=1)
    y = convolve(x, w, padding=padding)
    v = normal(*y.shape, seed=2)
    back, _ = convolve_backward(v, x, w, padding=padding)
    torch.testing.assert_close((y * v).sum(), (x * back).sum())
    if padding == "same":  # the backward of a convolution is a correlation with the same kernel
        torch.testing.assert_close(back, correlate(v, w, padding="same"))
    else:
        torch.testing.assert_close(back, correlate(v, w, padding=k - 2))


def test_the_matrix_is_toeplitz():
    h, n = normal(3), 6
    T = convolution_matrix(h, n, padding="full")
    np.testing.assert_allclose(T, scipy.linalg.convolution_matrix(h.numpy(), n, "full"))
    np.testing.assert_allclose(T, scipy.linalg.toeplitz([*h, *[0] * 5], [h[0], *[0] * 5]))
    # in two dimensions: Toeplitz blocks in a Toeplitz pattern
    blocks = convolution_matrix(normal(2, 3), (4, 5), padding="full").reshape(5, 7, 4, 5)
    for u in range(1, 5):
        for i in range(1, 4):
            assert torch.equal(blocks[u, :, i], blocks[u - 1, :, i - 1])
    assert torch.equal(blocks[0, 1:, 0, 1:], blocks[0, :-1, 0, :-1])


def test_the_sparse_matrix_is_the_dense_one():
    kernel = normal(2, 3, 3, 2)
    how = {"padding": 1, "stride": 2, "dilation": (1, 2)}
    sparse = convolution_matrix(kernel, (6, 7), **how, sparse=True)
    assert torch.equal(sparse.to_dense(), convolution_matrix(kernel, (6, 7), **how))
    assert len(sparse.values()) < 0.3 * sparse.numel()


def test_gradients_flow_by_every_way():
    x, w = normal(2, 3, 5, 4).requires_grad_(), normal(2, 3, 2, 2, seed=1).requires_grad_()
    how = {"padding": 1, "stride": 2}
    assert torch.autograd.gradcheck(lambda x, w: convolve(x, w, **how, method="fft"), (x, w))
    assert torch.autograd.gradcheck(lambda w: convolution_matrix(w, (5, 4), **how), (w,))
    assert torch.autograd.gradcheck(lambda x, w: correlate_backward(normal(2, 2, 3, 3), x, w, **how), (x, w))


@pytest.mark.parametrize(
    ("size", "kernel", "padding", "stride", "dilation"),
    [(5, 3, 0, 1, 1), (224, 7, 3, 2, 1), (32, 3, 2, 1, 2), (10, 4, 1, 3, 3), (7, 7, 0, 5, 1)],
)
def test_the_size_rule(size, kernel, padding, stride, dilation):
    wanted = F.conv1d(torch.zeros(1, 1, size), torch.zeros(1, 1, kernel), None, stride, padding, dilation).shape[-1]
    assert output_size(size, kernel, padding, stride, dilation) == wanted
    assert output_size((size, size), kernel, padding, stride, dilation) == (wanted, wanted)
    assert wanted == int(np.floor((size + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1))


def test_large_kernels_go_by_fft_and_small_ones_do_not(monkeypatch):
    from benthic.linalg import convolution

    seen = []
    monkeypatch.setattr(convolution, "_by_fft", lambda *a: seen.append(1) or F.conv2d(a[0], a[1]))
    correlate(torch.rand(128, 128), torch.rand(3, 3))
    assert not seen
    correlate(torch.rand(128, 128), torch.rand(61, 61))
    assert seen


def test_types_lists_and_leading_dimensions():
    assert correlate(torch.rand(2, 3, 9), torch.rand(3)).shape == (2, 3, 7)
    assert correlate(torch.rand(2, 4, 3, 9), torch.rand(5, 3, 2)).shape == (2, 4, 5, 8)
    assert correlate(torch.rand(9), [1.0, 2.0], method="fft").dtype == torch.float32
    assert convolve(range(4), [1, 1]).tolist() == [1, 3, 5]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: correlate(torch.ones(3), torch.ones(5)), "reaches over 5 values and the padded input has 3"),
        (lambda: correlate(torch.ones(3), torch.ones(2, 2)), r"x has shape \(3,\); a kernel \(2, 2\) needs"),
        (lambda: correlate(torch.ones(2, 5, 5), torch.ones(1, 3, 2, 2)), "x has 2 channels .* takes 3"),
        (lambda: correlate(torch.ones(5), torch.ones(())), "kernel has shape"),
        (lambda: correlate(torch.ones(5), torch.ones(2), stride=0), "stride is 0; .*at least 1"),
        (lambda: correlate(torch.ones(5), torch.ones(2), padding=-1), "padding is -1"),
        (lambda: correlate(torch.ones(5), torch.ones(2), padding="some"), "padding is 'some'; did you mean 'same'"),
        (
            lambda: correlate(torch.ones(5), torch.ones(2), padding="same", stride=2),
            "'same' keeps the size at stride 1",
        ),
        (lambda: correlate(torch.ones(5), torch.ones(2), dilation=1.5), "dilation is 1.5"),
        (lambda: correlate(torch.ones(5, 5), torch.ones(2, 2), stride=(1, 2, 3)), "or 2 of them"),
        (lambda: convolve(torch.ones(5), torch.ones(2), method="ftt"), "method is 'ftt'; did you mean 'fft'"),
        (lambda: convolve(torch.ones(5), torch.ones(2).double()), "kernel is float64"),
        (lambda: convolve(torch.ones(5) / 0, torch.ones(2)), "x has 5 values that are not finite"),
        (lambda: convolve_backward(torch.ones(3), torch.ones(5), torch.ones(2)), r"the result has shape \(4,\)"),
        (lambda: convolution_matrix([1.0], 3, kind="corelate"), "did you mean 'correlate'"),
        (lambda: convolution_matrix([1.0], (3, 3)), "give 1 positive whole numbers"),
        (lambda: output_size(3, 5), "reaches over 5"),
        (lambda: output_size(3, 0), "kernel is 0"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(call, words):
    with pytest.raises(InvalidInput, match=words):
        call()
