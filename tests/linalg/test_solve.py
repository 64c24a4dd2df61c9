"""Solves by structure against dense solves, SciPy and finite differences."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import torch

from benthic.base.errors import InvalidInput
from benthic.linalg import (
    Diagonal,
    LowRank,
    PositiveDefinite,
    SingularMatrix,
    Toeplitz,
    Triangular,
    cholesky,
    condition,
    least_squares,
    logdet,
    solve,
)
from benthic.linalg.factors import Lu, reciprocal_condition
from benthic.linalg.solving import detect

pytestmark = pytest.mark.spec("A-01")


def normal(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def definite(n, *batch, seed=0):
    G = normal(*batch, n, n, seed=seed)
    return G @ G.mT + n * torch.eye(n, dtype=G.dtype)


def well(n, *batch, seed=0):
    """A general matrix with condition number of a few units."""
    return normal(*batch, n, n, seed=seed) / n**0.5 + 3 * torch.eye(n, dtype=torch.float64)


MATRICES = {
    "diagonal": lambda: torch.diag(torch.arange(1.0, 7.0, dtype=torch.float64)),
    "lower triangular": lambda: well(6).tril(),
    "upper triangular": lambda: well(6).triu(),
    "symmetric": lambda: definite(6),
    "indefinite": lambda: torch.diag(torch.tensor([1.0, -2, 3, -4, 5, -6], dtype=torch.float64)) + 0.1,
    "general": lambda: well(6),
}
STRUCTURES = {
    "Diagonal": lambda *batch: Diagonal(normal(*batch, 6).abs() + 1),
    "Lower": lambda *batch: Triangular(well(6, *batch)),
    "Upper": lambda *batch: Triangular(well(6, *batch), upper=True),
    "PositiveDefinite": lambda *batch: PositiveDefinite(definite(6, *batch), jitter=0.5),
    "LowRank": lambda *batch: LowRank(normal(*batch, 6).abs() + 0.5, normal(*batch, 6, 2, seed=1)),
    "LowRank of both signs": lambda *batch: LowRank(normal(*batch, 6) + 0.1, normal(*batch, 6, 2, seed=1)),
    "Toeplitz": lambda *batch: Toeplitz(
        torch.cat([3 + normal(*batch, 1).abs(), 0.4 * normal(*batch, 5, seed=2)], -1), 0.4 * normal(*batch, 6, seed=3)
    ),
    "symmetric Toeplitz": lambda *batch: Toeplitz(
        torch.cat([3 + normal(*batch, 1).abs(), 0.4 * normal(*batch, 5, seed=2)], -1)
    ),
}


@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize("shape", [(6,), (6, 3), (2, 6, 3)])
def test_dense_matrices_are_solved_whatever_their_structure(name, shape):
    A, b = MATRICES[name](), normal(*shape, seed=5)
    assert detect(A) == ("symmetric" if name == "indefinite" else name)
    torch.testing.assert_close(solve(A, b), torch.linalg.solve(A, b), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", MATRICES)
def test_the_gradient_is_that_of_a_general_matrix(name):
    # a diagonal matrix that happens to be diagonal still has derivatives off its diagonal
    A, b = MATRICES[name]().requires_grad_(), normal(6, 2, seed=5).requires_grad_()
    wanted = torch.autograd.grad(torch.linalg.solve(A, b).square().sum(), (A, b))
    torch.testing.assert_close(torch.autograd.grad(solve(A, b).square().sum(), (A, b)), wanted, rtol=1e-9, atol=1e-11)


def test_gradients_of_first_and_second_order():
    A, b = well(4, 2).requires_grad_(), normal(2, 4, 2).requires_grad_()
    assert torch.autograd.gradcheck(solve, (A, b))
    assert torch.autograd.gradgradcheck(solve, (A, b))
    assert torch.autograd.gradcheck(lambda A: solve(A, b[0, :, 0].detach()), (A,))  # b broadcasts


@pytest.mark.parametrize("name", STRUCTURES)
@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
def test_a_structure_agrees_with_its_dense_form(name, batch):
    S = STRUCTURES[name](*batch)
    A = S.dense()
    assert tuple(A.shape) == S.shape
    for b in (normal(6, seed=7), normal(*batch, 6, 2, seed=7), normal(*batch, 6, seed=7)):
        wanted = torch.linalg.solve(A, b)
        torch.testing.assert_close(solve(S, b), wanted, rtol=1e-10, atol=1e-11)
        torch.testing.assert_close(S @ solve(S, b), b.expand(wanted.shape), rtol=1e-10, atol=1e-11)
    torch.testing.assert_close(logdet(S), torch.linalg.slogdet(A).logabsdet, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(S.transpose().dense(), A.mT)
    torch.testing.assert_close(condition(S), torch.linalg.cond(A))
    assert type(S).__name__ in repr(S)


def parameters(name):
    return {
        "Diagonal": (lambda d: Diagonal(d), (normal(4).abs() + 1,)),
        "Triangular": (lambda A: Triangular(A), (well(4),)),
        "PositiveDefinite": (lambda G: PositiveDefinite(G @ G.mT, 0.5), (well(4),)),
        "LowRank": (LowRank, (normal(4).abs() + 1, normal(4, 2, seed=1))),
        "Toeplitz": (Toeplitz, (torch.tensor([4.0, 1, 0.5, -0.3]).double(), normal(4, seed=3))),
        "batch of Toeplitz": (Toeplitz, (torch.tensor([[4.0, 1, 0.5], [5, 0.1, 1]]).double(), normal(2, 3))),
    }[name]


@pytest.mark.parametrize(
    "name", ["Diagonal", "Triangular", "PositiveDefinite", "LowRank", "Toeplitz", "batch of Toeplitz"]
)
def test_gradients_flow_to_what_a_structure_is_made_of(name):
    build, made_of = parameters(name)
    made_of = tuple(x.clone().requires_grad_() for x in made_of)
    b = normal(build(*made_of).shape[-1], 2, seed=9).requires_grad_()

    def answers(b, *made_of):
        S = build(*made_of)
        return S.solve(b), S.logdet(), S.matmul(b)

    assert torch.autograd.gradcheck(answers, (b, *made_of))
    assert torch.autograd.gradgradcheck(lambda *x: answers(*x)[0].sum() + answers(*x)[1].sum(), (b, *made_of))


@pytest.mark.parametrize("name", ["diagonal", "triangular", "lower triangular", "upper triangular", "toeplitz"])
def test_a_named_structure_reads_only_its_entries(name):
    A, b = well(5), normal(5)
    if name == "triangular":
        A = A.triu()
    read = {
        "diagonal": lambda: torch.diag(A.diagonal()),
        "triangular": lambda: A,
        "lower triangular": A.tril,
        "upper triangular": A.triu,
        "toeplitz": lambda: torch.tensor(scipy.linalg.toeplitz(A[:, 0], A[0])),
    }[name]()
    torch.testing.assert_close(solve(A, b, name), torch.linalg.solve(read, b), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", ["symmetric", "positive definite", "general", "least squares"])
def test_names_for_the_same_matrix_give_the_same_solution(name):
    A, b = definite(5), normal(5)
    torch.testing.assert_close(solve(A, b, name), torch.linalg.solve(A, b), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex128])
def test_types_are_kept(dtype):
    A = well(5).to(dtype)
    if dtype.is_complex:
        A = A + 0.3j * normal(5, 5, seed=4)
    b = normal(5).to(dtype)
    x = solve(A, b)
    assert x.dtype == dtype
    torch.testing.assert_close(A @ x, b)


def test_complex_gradients():
    A = (well(3) + 0.3j * normal(3, 3, seed=4)).requires_grad_()
    assert torch.autograd.gradcheck(solve, (A, normal(3).to(A.dtype).requires_grad_()))


def test_units_do_not_make_a_matrix_singular():
    # rows and columns in wildly different units; the condition number of the matrix as it stands is beyond 1e30
    scale_r, scale_c = torch.tensor([1e-20, 1.0, 1e15]).double(), torch.tensor([1e10, 1e-12, 1.0]).double()
    core, x = well(3), torch.ones(3, dtype=torch.float64)
    A = scale_r[:, None] * core * scale_c
    torch.testing.assert_close(solve(A, scale_r * (core @ x)) * scale_c, x, rtol=1e-12, atol=0)
    assert float(solve(torch.diag(torch.tensor([1.0, 1e-30])).double(), torch.ones(2).double())[1]) == pytest.approx(
        1e30
    )


@pytest.mark.parametrize("scale", [1e-310, 1e-200, 1e200, 1e305])
def test_very_small_and_very_large_matrices(scale):
    A = torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64) * scale
    torch.testing.assert_close(solve(A, A @ torch.ones(2).double()), torch.ones(2).double(), rtol=1e-10, atol=0)


def test_batches_broadcast():
    b = normal(2, 3, 4, 2)
    for A in (well(4, 3), well(4, 3).tril(), definite(4, 3)):
        torch.testing.assert_close(solve(A, b), torch.linalg.solve(A.expand(2, 3, 4, 4), b))


@pytest.mark.parametrize("size", [3, 50])
def test_the_condition_estimate_is_within_ten_of_the_truth(size):
    for seed in range(20):
        A = normal(size, size, seed=seed)
        factor = Lu(A)
        true = 1 / torch.linalg.cond(A, p=1)
        estimate = reciprocal_condition(A, factor)
        assert true * (1 - 1e-8) <= estimate <= 10 * true


SINGULAR = {
    "diagonal": torch.diag(torch.tensor([1.0, 0.0, 2.0])),
    "triangular": torch.tensor([[1.0, 0, 0], [2, 0, 0], [1, 1, 1]]),
    "nearly singular triangular": torch.eye(80) - torch.ones(80, 80).tril(-1),
    "symmetric": torch.ones(3, 3),
    "general": torch.tensor([[1.0, 2, 3], [4, 5, 6], [7, 8, 9]]),
    "zero": torch.zeros(3, 3),
    "Hilbert": torch.as_tensor(scipy.linalg.hilbert(16)),
}


@pytest.mark.parametrize("name", SINGULAR)
def test_singular_systems_are_refused_with_what_would_work(name):
    A = SINGULAR[name].double()
    with pytest.raises(SingularMatrix, match="singular .*reciprocal condition number .*least squares") as caught:
        solve(A, torch.ones(len(A)).double())
    assert 0 <= caught.value.rcond < 2.3e-16
    assert torch.isfinite(solve(A, torch.ones(len(A)).double(), "least squares")).all()


def test_the_singular_matrix_of_a_batch_is_named():
    A = well(3, 2, 2)
    A[1, 0] = 0
    with pytest.raises(SingularMatrix, match=r"matrix 1, 0 of the batch"):
        solve(A, normal(3))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Diagonal([1.0, 0.0]).solve([1.0, 1.0]),
        lambda: Triangular([[1.0, 0.0], [1.0, 0.0]]).solve([1.0, 1.0]),
        lambda: PositiveDefinite([[1.0, 1.0], [1.0, 1.0]]),
        lambda: Toeplitz([1.0, 1.0]).solve([1.0, 2.0]),
        lambda: Toeplitz([0.0, 0.0, 1.0], [0.0, 0.0, 0.0]).solve([1.0, 2.0, 3.0]),
        lambda: LowRank([1.0, -1.0], [[0.0], [1.0]]).solve([1.0, 1.0]),
    ],
)
def test_singular_structures_say_so(make):
    with pytest.raises(SingularMatrix, match="singular"):
        make()


def test_the_logarithm_of_a_vanishing_determinant():
    assert logdet(torch.ones(2, 2)) == -torch.inf
    assert Diagonal([1.0, 0.0]).logdet() == -torch.inf
    assert Toeplitz([1.0, 1.0, 1.0]).logdet() < -30


# ------------------------------------------------------------------------------------------------ Toeplitz


@pytest.mark.parametrize("n", [1, 2, 7, 200])
def test_toeplitz_against_scipy(n):
    rng = np.random.default_rng(n)
    c, r = 0.9 ** np.arange(n) + 0.01 * rng.normal(size=n), 0.7 ** np.arange(n)
    b = rng.normal(size=(n, 3))
    T, A = Toeplitz(c, r), scipy.linalg.toeplitz(c, r)
    np.testing.assert_allclose(T.dense(), scipy.linalg.toeplitz(c, [c[0], *r[1:]]))
    np.testing.assert_allclose(T @ b, scipy.linalg.toeplitz(c, [c[0], *r[1:]]) @ b, atol=1e-12)
    bound = 1e2 * np.finfo(float).eps * np.linalg.cond(A)
    x = scipy.linalg.solve(T.dense().numpy(), b)
    assert np.abs(T.solve(b).numpy() - x).max() <= bound * np.abs(x).max()


@pytest.mark.parametrize("kappa", [1e3, 1e6, 1e9])
def test_toeplitz_is_accurate_to_its_condition_number(kappa):
    # the covariance of a smooth stationary process with a little noise: condition number near kappa
    lag = torch.arange(120, dtype=torch.float64)
    c = torch.exp(-((lag / 4) ** 2))
    c[0] += c.sum() / kappa
    T = Toeplitz(c)
    x = normal(120)
    b = T.dense() @ x
    error = (T.solve(b) - x).norm() / x.norm()
    assert error <= 50 * 2.2e-16 * condition(T)


@pytest.mark.parametrize("width", [4.0, 8.0])
def test_a_wide_blur_is_singular_to_working_precision(width):
    blur = Toeplitz(torch.exp(-0.5 * (torch.arange(200, dtype=torch.float64) / width) ** 2))
    for _ in range(2):  # the second time as well
        with pytest.raises(SingularMatrix, match="reciprocal condition number") as caught:
            blur.solve(normal(200))
        assert caught.value.rcond < 2.3e-16


def test_toeplitz_with_a_singular_leading_block_falls_back():
    T = Toeplitz([0.0, 1.0, 2.0], [0.0, 3.0, 1.0])
    torch.testing.assert_close(T.dense() @ T.solve([1.0, 2.0, 3.0]), torch.tensor([1.0, 2, 3]).double())
    torch.testing.assert_close(T.logdet(), torch.linalg.slogdet(T.dense()).logabsdet)


def test_low_rank_stays_accurate_when_the_diagonal_is_small():
    F, d = normal(300, 3), torch.full((300,), 1e-6).double()
    M, x = LowRank(d, F), normal(300, seed=2)
    error = (M.solve(M @ x) - x).norm() / x.norm()
    assert error < 10 * 2.2e-16 * condition(M)


# ------------------------------------------------------------------------------------------------ least squares


@pytest.mark.parametrize(("m", "n", "rank"), [(8, 3, 3), (3, 8, 3), (6, 6, 4), (8, 5, 2)])
def test_least_squares_is_the_pseudoinverse(m, n, rank):
    A, b = normal(2, m, rank) @ normal(2, rank, n, seed=1), normal(2, m, 3, seed=2)
    found = least_squares(A, b)
    wanted = torch.linalg.pinv(A) @ b
    torch.testing.assert_close(found.solution, wanted, rtol=1e-10, atol=1e-10)
    assert found.rank.tolist() == [rank, rank]
    torch.testing.assert_close(found.residual, (b - A @ wanted).norm(dim=-2), rtol=1e-10, atol=1e-10)
    if m != n:
        torch.testing.assert_close(solve(A, b), wanted, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("m", "n", "rank"), [(5, 3, 3), (3, 5, 3), (4, 4, 2)])
def test_least_squares_gradients(m, n, rank):
    left, right = normal(m, rank).requires_grad_(), normal(rank, n, seed=1).requires_grad_()
    b = normal(m, seed=2).requires_grad_()

    def answer(left, right, b):  # the product keeps its rank however it is moved
        return least_squares(left @ right, b).solution

    assert torch.autograd.gradcheck(answer, (left, right, b))
    assert torch.autograd.gradgradcheck(answer, (left, right, b), rtol=1e-2, atol=1e-3)


# ------------------------------------------------------------------------------------------------ Cholesky


def test_cholesky_gives_the_factor_and_its_gradient():
    A = definite(4, 2)
    torch.testing.assert_close(cholesky(A, 0.3), torch.linalg.cholesky(A + 0.3 * torch.eye(4)))
    assert torch.autograd.gradcheck(lambda G: cholesky(G @ G.mT, 0.1), well(3).requires_grad_())


@pytest.mark.parametrize(
    ("A", "words"),
    [
        ([[1.0, 2.0]], "covariance is 1 x 2; a square matrix is needed"),
        ([[1.0, 0.5], [0.2, 1.0]], r"covariance is asymmetric by 0.3 .*symmetric part"),
        ([[1.0, 2.0], [2.0, 1.0]], "covariance is not positive definite: its smallest eigenvalue is -1 .*jitter of 2"),
        ([[1.0, 1.0], [1.0, 1.0]], "singular, so not positive definite"),
        ([[[1.0]], [[-1.0]]], r"matrix 1 of the batch"),
        ([[float("nan")]], "covariance has 1 values that are not finite"),
    ],
)
def test_cholesky_says_why_there_is_no_factor(A, words):
    with pytest.raises(InvalidInput, match=words):
        cholesky(A, name="covariance")


# ------------------------------------------------------------------------------------------------ trace, determinant


def test_trace_is_the_sum_and_determinant_the_product_of_eigenvalues():
    A = normal(7, 7)
    values = torch.linalg.eigvals(A)
    torch.testing.assert_close(values.sum().real, A.trace())
    torch.testing.assert_close(values.prod().real, torch.linalg.det(A))
    torch.testing.assert_close(values.abs().log().sum(), logdet(A))


# ------------------------------------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: solve([1.0], [1.0]), r"A has shape \(1,\); a matrix"),
        (lambda: solve([[1.0, 2.0], [3.0]], [1.0]), "not a rectangular array"),
        (lambda: solve([["a"]], [1.0]), "use numbers"),
        (lambda: solve(torch.eye(2).half(), [1.0, 1.0]), "type float16; use float32 or float64"),
        (lambda: solve(torch.zeros(0, 0), torch.zeros(0)), "empty"),
        (lambda: solve(torch.eye(2), [float("inf"), 1.0]), "b has 1 values that are not finite"),
        (lambda: solve(torch.eye(2), [1.0, 1.0, 1.0]), r"b has shape \(3,\) .*rows must be 2"),
        (lambda: solve(torch.eye(2).expand(3, 2, 2), torch.ones(4, 2, 1)), "do not broadcast"),
        (lambda: solve(torch.eye(2), torch.ones(2).double()), "b is float64 and the matrix float32"),
        (lambda: solve(torch.eye(2), [1.0, 1.0], "posdef"), "structure is 'posdef'.*one of"),
        (lambda: solve(torch.eye(2), [1.0, 1.0], "positive definit"), "did you mean 'positive definite'"),
        (lambda: solve(torch.ones(2, 3), [1.0, 1.0], "general"), "A is 2 x 3; a square matrix"),
        (lambda: solve([[1.0, 2.0], [3.0, 4.0]], [1.0, 1.0], "triangular"), "both sides of its diagonal"),
        (lambda: solve([[1.0, 2.0], [3.0, 4.0]], [1.0, 1.0], "symmetric"), "asymmetric by 1"),
        (lambda: solve(Diagonal([1.0]), [1.0], "diagonal"), "A is a Diagonal already"),
        (lambda: solve(torch.eye(2) * 1j, [1.0, 1.0], "toeplitz"), "'toeplitz' is for real matrices"),
        (lambda: Diagonal([]), "at least one value"),
        (lambda: LowRank([1.0, 1.0], [[1.0]]), r"must be \(..., n\) and \(..., n, k\)"),
        (lambda: LowRank(torch.ones(2, 3), torch.ones(4, 3, 1)), "do not broadcast"),
        (lambda: LowRank([1.0, 0.0], [[1.0], [1.0]]).solve([1.0, 1.0]), "1 zeros, by which the Woodbury"),
        (lambda: Toeplitz([1.0, 2.0], [1.0]), r"both must be \(..., n\)"),
        (lambda: least_squares([[1.0]], [1.0], rtol=2), "rtol is 2"),
        (lambda: least_squares([[1.0]], [1.0], rtol="no"), "rtol is 'no'"),
        (lambda: cholesky([[1.0]], jitter=-1.0), "jitter is -1.0"),
        (lambda: cholesky([[1.0]], jitter="much"), "jitter is 'much'; it must be a finite number"),
        (lambda: PositiveDefinite([[-1.0]]), "PositiveDefinite: entries is not positive definite"),
        (lambda: logdet([[1.0, 2.0]]), "logdet: A is 1 x 2"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(call, words):
    with pytest.raises(InvalidInput, match=words):
        call()
