"""Matrix functions against SciPy, their inverses, closed forms and finite differences."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.linalg
import torch

from benthic.base.errors import InvalidInput
from benthic.linalg import SingularMatrix, matrix_exp, matrix_inverse_sqrt, matrix_log, matrix_sqrt
from benthic.linalg import functions as functions_module

pytestmark = pytest.mark.spec("A-01")

ALL = {
    "exp": (matrix_exp, scipy.linalg.expm),
    "log": (matrix_log, scipy.linalg.logm),
    "sqrt": (matrix_sqrt, scipy.linalg.sqrtm),
    "inverse sqrt": (matrix_inverse_sqrt, lambda A: np.linalg.inv(scipy.linalg.sqrtm(A))),
}
ROOTED = ["log", "sqrt", "inverse sqrt"]


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def definite(n, *batch, seed=0):
    G = normal(*batch, n, n, seed=seed)
    return G @ G.mT / n + 0.5 * torch.eye(n, dtype=G.dtype)


def stable(n, *batch, seed=0):
    """A general matrix with eigenvalues in the right half plane."""
    return normal(*batch, n, n, seed=seed) / n**0.5 + 2 * torch.eye(n, dtype=torch.float64)


def repeated():
    """A symmetric matrix with the eigenvalues 2, 2, 2, 5."""
    Q = torch.linalg.qr(normal(4, 4))[0]
    A = Q @ torch.diag(torch.tensor([2.0, 2, 2, 5]).double()) @ Q.mT
    return (A + A.mT) / 2


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("make", [definite, stable])
def test_against_scipy(name, make):
    ours, theirs = ALL[name]
    A = make(12, 3)
    wanted = np.stack([theirs(one) for one in A.numpy()])
    np.testing.assert_allclose(ours(A), wanted, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("kappa", [1e2, 1e6, 1e10])
def test_ill_conditioned_matrices_return_to_themselves(kappa):
    values = torch.logspace(0, -math.log10(kappa), 10, dtype=torch.float64)
    V = normal(10, 10)
    A = torch.linalg.solve(V, values[:, None] * V)  # general, with those eigenvalues
    size = torch.linalg.matrix_norm(A)
    root = matrix_sqrt(A)
    assert torch.linalg.matrix_norm(root @ root - A) < 1e-11 * size
    assert torch.linalg.matrix_norm(matrix_exp(matrix_log(A)) - A) < 1e-11 * size


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("kind", ["repeated", "identity", "definite", "general", "defective"])
def test_gradients_of_first_and_second_order(name, kind):
    A = {
        "repeated": repeated,
        "identity": lambda: 2 * torch.eye(3, dtype=torch.float64),
        "definite": lambda: definite(3, 2),
        "general": lambda: stable(3, 2),
        "defective": lambda: torch.tensor([[2.0, 1, 0], [0, 2, 1], [0, 0, 2]]).double(),
    }[kind]().requires_grad_()
    assert torch.autograd.gradcheck(ALL[name][0], A, rtol=1e-5, atol=1e-7)
    if kind in ("repeated", "defective"):
        assert torch.autograd.gradgradcheck(lambda A: ALL[name][0](A)[..., :2, :2], A, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ROOTED)
def test_both_ways_to_a_gradient_agree(name):
    """Divided differences of a symmetric matrix against the block matrix of a general one."""
    A = definite(6).requires_grad_()
    weight = normal(6, 6, seed=3)
    gradients = [torch.autograd.grad((ALL[name][0](A, symmetric=flag) * weight).sum(), A)[0] for flag in (True, False)]
    torch.testing.assert_close(*gradients, rtol=1e-10, atol=1e-11)


def test_gradients_survive_eigenvalues_near_zero():
    # the block matrix of the derivative is defective: its computed eigenvalues scatter by the root of the rounding
    # unit, across zero, though those of the matrix itself are all positive
    values = torch.tensor([1.0, 1e-3, 1e-10], dtype=torch.float64)
    V = stable(3)
    A = torch.linalg.solve(V, values[:, None] * V).requires_grad_()
    (gradient,) = torch.autograd.grad(matrix_sqrt(A).trace(), A)
    torch.testing.assert_close(gradient, 0.5 * matrix_inverse_sqrt(A).mT.detach(), rtol=1e-3, atol=0)


def test_divided_differences_of_the_logarithm():
    a = torch.tensor(2.0, dtype=torch.float64)
    for gap in (0.0, 1e-14, 1e-8, 1e-3, 0.0399, 0.0401, 1.0, 100.0):
        b = a + gap
        exact = math.log1p(gap / 2) / gap if gap else 0.5
        assert float(functions_module._log_differences(a, b)) == pytest.approx(exact, rel=1e-14 if gap > 1e-9 else 1e-8)


def test_complex_matrices():
    A = (stable(3) + 0.5j * normal(3, 3, seed=4)).requires_grad_()
    for name in ROOTED:
        ours, theirs = ALL[name]
        np.testing.assert_allclose(ours(A).detach(), theirs(A.detach().numpy()), rtol=1e-10, atol=1e-11)
    assert torch.autograd.gradcheck(matrix_sqrt, A)
    assert torch.autograd.gradcheck(matrix_log, A)


def test_a_complex_matrix_may_have_eigenvalues_on_the_cut():
    A = torch.tensor([[-1.0, 0.0], [0.0, 4.0]], dtype=torch.complex128)
    torch.testing.assert_close(matrix_sqrt(A).diagonal(), torch.tensor([1j, 2], dtype=torch.complex128))
    wanted = torch.tensor([1j * math.pi, math.log(4)], dtype=torch.complex128)
    torch.testing.assert_close(matrix_log(A).diagonal(), wanted)


def test_the_determinant_of_an_exponential_is_the_exponential_of_the_trace():
    A = normal(5, 5)
    torch.testing.assert_close(torch.linalg.det(matrix_exp(A)), A.trace().exp())


def rotation(angle):
    c, s = math.cos(angle), math.sin(angle)
    return torch.tensor([[c, -s], [s, c]], dtype=torch.float64)


def test_the_logarithm_of_a_product_is_a_sum_only_within_the_strip_and_for_commuting_matrices():
    J = torch.tensor([[0.0, -1.0], [1.0, 0.0]], dtype=torch.float64)
    # commuting, arguments add to 3 < π: the sum holds
    torch.testing.assert_close(matrix_log(rotation(1.2) @ rotation(1.8)), 3.0 * J)
    # commuting, arguments add to 4 > π: the principal logarithm turns the other way
    torch.testing.assert_close(matrix_log(rotation(2.0) @ rotation(2.0)), (4 - 2 * math.pi) * J)
    assert not torch.allclose(matrix_log(rotation(2.0) @ rotation(2.0)), 4 * J)
    # not commuting: the sum fails though all arguments vanish
    A, B = definite(2, seed=1), definite(2, seed=2)
    assert (matrix_log(A @ B) - matrix_log(A) - matrix_log(B)).abs().max() > 1e-2


def test_the_square_root_of_a_singular_symmetric_matrix():
    F = normal(5, 2)
    A = (F @ F.mT).requires_grad_()
    root = matrix_sqrt(A)
    torch.testing.assert_close(root @ root, A)
    with pytest.raises(SingularMatrix, match="no derivative"):
        root.sum().backward()


def test_types_and_batches_are_kept():
    A = stable(4, 2, 3).float()
    for name in ALL:
        result = ALL[name][0](A)
        assert result.dtype == torch.float32 and result.shape == A.shape
        torch.testing.assert_close(result[1, 2], ALL[name][0](A[1, 2].double()).float(), rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: matrix_log([[1.0, 2.0]]), InvalidInput, "matrix_log: A is 1 x 2; a square matrix"),
        (lambda: matrix_log([[1.0, 0.0], [0.0, -3.0]]), InvalidInput, "eigenvalue -3, and no real result"),
        (lambda: matrix_sqrt([[-2.0, 1.0], [0.0, 1.0]]), InvalidInput, "negative real eigenvalue -2.*complex128"),
        (lambda: matrix_log([[1.0, 1.0], [1.0, 1.0]]), SingularMatrix, "singular"),
        (lambda: matrix_sqrt([[0.0, 1.0], [0.0, 0.0]]), SingularMatrix, "singular"),
        (lambda: matrix_log([[1.0, 1.0], [0.0, 1.0]], symmetric=True), InvalidInput, "asymmetric by 1"),
        (lambda: matrix_exp([[1e4]]), InvalidInput, "overflows"),
        (lambda: matrix_exp([[float("nan")]]), InvalidInput, "not finite"),
        (lambda: matrix_sqrt([[[1.0, 0], [0, 1]], [[1, 0], [0, -1]]]), InvalidInput, "matrix 1 of the batch"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(call, error, words):
    with pytest.raises(error, match=words):
        call()
