"""The four adjoint pairs pass the dot-product test and equal their matrices' transposes, and wrong pairs fail."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.ndimage
import torch

from benthic.base.errors import InvalidInput
from benthic.calculus import (
    LinearOperator,
    check_adjoint,
    divergence_operator,
    fourier_operator,
    gradient_operator,
    identity_operator,
    interpolation_operator,
    laplacian_operator,
    matrix_operator,
    splatting_operator,
)

pytestmark = pytest.mark.spec("A-05")
BOUNDARIES = ["dirichlet", "neumann", "periodic"]
SHAPES = [(7,), (4, 5), (3, 4, 2), (1, 3)]


def source(seed=0):
    return torch.Generator().manual_seed(seed)


def scatter(shape, m=11, spread=1.0):
    unit = torch.rand(m, len(shape), generator=source(3), dtype=torch.float64)
    return (unit * (1 + spread) - spread / 2) * torch.tensor(shape)


def operators(shape, boundary):
    d = len(shape)
    return {
        "gradient": gradient_operator(shape, boundary, tuple(0.5 + a for a in range(d))),
        "divergence": divergence_operator(shape, boundary, 0.3),
        "laplacian": laplacian_operator(shape, boundary, 2.0),
        "interpolation": interpolation_operator(shape, scatter(shape), boundary),
        "splatting": splatting_operator(shape, scatter(shape), boundary),
    }


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_pair_passes_the_dot_product_test(shape, boundary):
    for name, A in operators(shape, boundary).items():
        assert check_adjoint(A).passed, name
        # ... and exactly: the adjoint's matrix is the transpose of the matrix.
        torch.testing.assert_close(A.H.dense(), A.dense().mT, rtol=0, atol=1e-14)
        small = torch.zeros(A.input_shape, dtype=torch.float32)
        if name in ("gradient", "divergence", "laplacian"):
            assert check_adjoint(A, x_like=small).passed, name
            assert A(small).dtype == torch.float32


@pytest.mark.parametrize("shape", [(8,), (4, 6), (3, 2, 5)])
def test_fourier_is_unitary(shape):
    A = fourier_operator(shape)
    x = torch.randn(2, *shape, generator=source(), dtype=torch.complex128)
    assert check_adjoint(A, x_like=x[0], y_like=x[1]).passed
    torch.testing.assert_close(A.adjoint(A(x)), x)
    torch.testing.assert_close(A(x).norm(), x.norm())
    np.testing.assert_allclose(A(x[0]), np.fft.fftn(x[0].numpy(), norm="ortho"), atol=1e-13)
    real = torch.zeros(shape, dtype=torch.float64)
    assert check_adjoint(A, x_like=real).passed  # from real arrays, by the real part
    dense = A.dense(torch.complex128)
    torch.testing.assert_close(dense.mH @ dense, torch.eye(A.input_size, dtype=torch.complex128), atol=1e-12, rtol=0)


def test_unscaled_fourier_and_mismatched_boundaries_fail():
    z = torch.zeros(6, dtype=torch.complex128)
    assert not check_adjoint(torch.fft.fft, torch.fft.ifft, z, z).passed
    neumann, periodic = (gradient_operator((6,), b) for b in ("neumann", "periodic"))
    result = check_adjoint(neumann, periodic.adjoint)
    assert not result.passed and result.defect > 1e-3
    f = torch.zeros(6, dtype=torch.float64)
    central = check_adjoint(lambda v: torch.gradient(v)[0], lambda g: -torch.gradient(g)[0], f, f)
    assert not central.passed  # central differences with one-sided ends are not antisymmetric


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("shape", SHAPES)
def test_laplacian_is_divergence_of_gradient(shape, boundary):
    h = tuple(0.5 + a for a in range(len(shape)))
    both = divergence_operator(shape, boundary, h) @ gradient_operator(shape, boundary, h)
    torch.testing.assert_close(both.dense(), laplacian_operator(shape, boundary, h).dense(), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_laplacian_has_the_known_eigenvalues(boundary):
    n, h = 9, 0.7
    angle = {
        "dirichlet": np.pi * np.arange(1, n + 1) / (2 * (n + 1)),
        "neumann": np.pi * np.arange(n) / (2 * n),
        "periodic": np.pi * np.arange(n) / n,
    }[boundary]
    one = -4 / h**2 * np.sin(angle) ** 2
    got = torch.linalg.eigvalsh(laplacian_operator((n,), boundary, h).dense())
    np.testing.assert_allclose(got, np.sort(one), atol=1e-12)
    got = torch.linalg.eigvalsh(laplacian_operator((n, n), boundary, h).dense())
    np.testing.assert_allclose(got, np.sort(np.add.outer(one, one).ravel()), atol=1e-12)


def test_gradient_and_laplacian_converge_to_the_continuous_ones():
    slopes = []
    for n in (32, 64):
        h = 2 * np.pi / n
        x = torch.arange(n, dtype=torch.float64) * h
        curved = laplacian_operator((n,), "periodic", h)(torch.sin(x))
        slopes.append(float((curved + torch.sin(x)).abs().max()))
        middle = gradient_operator((n,), "periodic", h)(torch.sin(x))[0]
        assert float((middle - torch.cos(x + h / 2)).abs().max()) < h**2
    assert slopes[0] / slopes[1] == pytest.approx(4.0, rel=0.02)  # second order


@pytest.mark.parametrize(
    ("boundary", "mode"), [("dirichlet", "grid-constant"), ("neumann", "nearest"), ("periodic", "grid-wrap")]
)
@pytest.mark.parametrize("shape", [(7,), (4, 5), (3, 4, 2)])
def test_interpolation_is_scipys(shape, boundary, mode):
    f = torch.randn(shape, generator=source(1), dtype=torch.float64)
    at = scatter(shape, 200)
    want = scipy.ndimage.map_coordinates(f.numpy(), at.numpy().T, order=1, mode=mode)
    np.testing.assert_allclose(interpolation_operator(shape, at, boundary)(f), want, atol=1e-12)


def test_interpolation_reproduces_lines_and_differentiates_by_points():
    x, y = torch.meshgrid(torch.arange(5.0), torch.arange(4.0), indexing="ij")
    f = (2 * x - 3 * y + 1).double()
    at = (torch.rand(9, 2, generator=source(2), dtype=torch.float64) * torch.tensor([4, 3])).requires_grad_()
    value = interpolation_operator((5, 4), at)(f)
    torch.testing.assert_close(value, 2 * at[:, 0] - 3 * at[:, 1] + 1)
    (slope,) = torch.autograd.grad(value.sum(), at)
    torch.testing.assert_close(slope, torch.tensor([2.0, -3.0], dtype=torch.float64).expand(9, 2))


@pytest.mark.parametrize("boundary", ["neumann", "periodic"])
def test_splatting_keeps_the_mass(boundary):
    mass = torch.rand(3, 11, generator=source(4), dtype=torch.float64)
    grid = splatting_operator((4, 5), scatter((4, 5)), boundary)(mass)
    torch.testing.assert_close(grid.sum((-1, -2)), mass.sum(-1))


def test_operators_are_an_algebra():
    A, B = (matrix_operator(torch.randn(3, 3, generator=source(s), dtype=torch.complex128)) for s in (1, 2))
    a, b = A.dense(torch.complex128), B.dense(torch.complex128)
    eye = identity_operator((3,))
    for operator, matrix in (
        (A @ B, a @ b),
        (A + B, a + b),
        (A - 2 * B, a - 2 * b),
        ((1 + 2j) * A, (1 + 2j) * a),
        (A * 0.5 + eye, 0.5 * a + torch.eye(3)),
        (A.T, a.mT),
        (A.H, a.mH),
        ((A @ B).T, (a @ b).mT),
        (-(A.H @ B), -(a.mH @ b)),
    ):
        torch.testing.assert_close(operator.dense(torch.complex128), matrix)
        torch.testing.assert_close(operator.H.dense(torch.complex128), matrix.mH)
        z = torch.zeros(3, dtype=torch.complex128)
        assert check_adjoint(operator, x_like=z).passed
    assert A.shape == (3, 3) and gradient_operator((4, 5)).shape == (40, 20)


def test_operators_take_batches():
    for A in operators((4, 5), "dirichlet").values():
        x = torch.randn(2, 3, *A.input_shape, generator=source(), dtype=torch.float64)
        one = torch.stack([A(x[i, j]) for i, j in itertools.product(range(2), range(3))])
        torch.testing.assert_close(A(x).reshape(one.shape), one)
        y = torch.randn(2, 3, *A.output_shape, generator=source(), dtype=torch.float64)
        one = torch.stack([A.adjoint(y[i, j]) for i, j in itertools.product(range(2), range(3))])
        torch.testing.assert_close(A.adjoint(y).reshape(one.shape), one)


def test_a_broken_adjoint_reads_as_infinite_not_as_passed():
    x = torch.zeros(3)
    assert not check_adjoint(lambda v: v, lambda v: v * torch.nan, x, x).passed


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gradient_operator((0,)), "positive integers"),
        (lambda: gradient_operator((3,), "neuman"), "did you mean 'neumann'"),
        (lambda: gradient_operator((3, 3), spacing=(1.0, 0.0)), "spacing is"),
        (lambda: gradient_operator((3,))(torch.zeros(4)), r"the array has shape \(4,\); \(..., 3\)"),
        (lambda: gradient_operator((3,)) @ gradient_operator((3,)), "these shapes must be the same"),
        (lambda: gradient_operator((3,)) + laplacian_operator((3,)), "only operators between the same spaces add"),
        (lambda: interpolation_operator((3, 3), torch.zeros(4, 3)), r"floating \(m, 2\)"),
        (lambda: interpolation_operator((3,), torch.tensor([[torch.nan]])), "NaN or infinity"),
        (lambda: matrix_operator(torch.zeros(3)), r"a matrix \(m, n\)"),
        (lambda: check_adjoint(torch.relu, None, torch.zeros(2), torch.zeros(2)), "A_star is missing"),
        (lambda: check_adjoint(torch.relu, torch.relu), "x_like and y_like are needed"),
        (lambda: check_adjoint(lambda x: x[:1], torch.relu, torch.zeros(2), torch.zeros(2)), r"A x has shape \(1,\)"),
        (lambda: check_adjoint(torch.relu, torch.relu, torch.zeros(2), torch.zeros(2), trials=0), "trials is 0"),
    ],
)
def test_bad_input_gets_a_sentence(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()


def test_operator_is_a_value():
    A = LinearOperator(lambda x: x, lambda y: y, (2,), (2,))
    with pytest.raises(AttributeError):
        A.name = "other"
