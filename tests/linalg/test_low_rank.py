"""Low-rank approximation against Eckart and Young's theorem, the bounds of randomized sketches, and NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from benthic.base.errors import InvalidInput
from benthic.linalg import Diagonal, LowRank, MatrixFree, Toeplitz, compress, randomized_svd, truncated_svd


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def with_values(values, m=80, n=60):
    """A matrix with given singular values and random singular vectors."""
    U, V = torch.linalg.qr(normal(m, n))[0], torch.linalg.qr(normal(n, n, seed=1))[0]
    return U * values @ V.mT


@pytest.mark.spec("A-02")
def test_no_matrix_of_rank_k_is_closer():
    A = normal(3, 12, 9)
    exact = np.linalg.svd(A.numpy(), compute_uv=False)
    for k in (1, 4, 9):
        found = truncated_svd(A, k)
        np.testing.assert_allclose(found.S, exact[:, :k], rtol=1e-12)
        error = torch.linalg.matrix_norm(A - found.dense()).numpy()
        np.testing.assert_allclose(error, np.sqrt((exact[:, k:] ** 2).sum(1)), rtol=1e-10, atol=1e-12)
        assert torch.linalg.matrix_rank(found.dense()).tolist() == [k] * 3
        for seed in range(20):  # any other matrix of that rank is at least as far
            other = A @ (Q := torch.linalg.qr(normal(9, k, seed=seed))[0]) @ Q.mT
            assert (torch.linalg.matrix_norm(A - other).numpy() >= error - 1e-12).all()


def test_signs_do_not_depend_on_the_library():
    A = normal(7, 5)
    U = truncated_svd(A, 5).U
    assert (U.gather(0, U.abs().argmax(0, keepdim=True)) > 0).all()
    torch.testing.assert_close(truncated_svd(-A, 5).U, U)


def test_the_gradient_of_singular_values():
    assert torch.autograd.gradcheck(lambda A: truncated_svd(A, 2).S, normal(5, 4).requires_grad_())
    assert torch.autograd.gradcheck(lambda A: truncated_svd(A, 2).dense(), normal(4, 4).requires_grad_())


@pytest.mark.parametrize("power", [0, 1, 2])
def test_the_mean_error_is_within_the_bound(power):
    # slowly falling singular values, the hard case; Halko, Martinsson & Tropp (2011), theorems 10.5 and 10.6,
    # corollary 10.10. Truncation from k + p to k adds at most sigma_{k+1} (theorem 9.3).
    k, p = 8, 6
    sigma = 1 / torch.arange(1, 61, dtype=torch.float64)
    A = with_values(sigma)
    tail = sigma[k:]
    two, frobenius = [], []
    for seed in range(30):
        rest = A - randomized_svd(A, k, p, power, seed=seed).dense()
        two.append(float(torch.linalg.matrix_norm(rest, 2)))
        frobenius.append(float(torch.linalg.matrix_norm(rest)))
    grown = tail ** (2 * power + 1)
    bound = (1 + (k / (p - 1)) ** 0.5) * grown[0] + np.e * (k + p) ** 0.5 / p * grown.square().sum().sqrt()
    assert float(tail[0]) <= np.mean(two) <= float(bound ** (1 / (2 * power + 1)) + tail[0])
    best = float(tail.square().sum().sqrt())
    assert best <= np.mean(frobenius) <= (1 + k / (p - 1)) ** 0.5 * best + float(tail[0])


def test_power_iterations_reach_the_best_error():
    A = with_values(1 / torch.arange(1, 61, dtype=torch.float64))
    errors = [torch.linalg.matrix_norm(A - randomized_svd(A, 8, 4, q, seed=0).dense()) for q in (0, 1, 4, 8)]
    best = torch.linalg.matrix_norm(A - truncated_svd(A, 8).dense())
    assert errors[0] > errors[1] > errors[2]
    assert errors[3] < best * (1 + 1e-4)


def test_a_matrix_of_low_rank_is_found_exactly():
    A = normal(2, 50, 4) @ normal(2, 4, 30, seed=1)
    found = randomized_svd(A, 4, seed=0)
    torch.testing.assert_close(found.dense(), A, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(found.S, torch.linalg.svdvals(A)[:, :4], rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(found.U.mT @ found.U, torch.eye(4).double().expand(2, 4, 4))


def test_a_matrix_known_by_its_products():
    A = with_values(0.5 ** torch.arange(60, dtype=torch.float64))
    free = MatrixFree((80, 60), lambda x: A @ x, lambda x: A.mT @ x)
    torch.testing.assert_close(randomized_svd(free, 5, seed=3), randomized_svd(A, 5, seed=3))
    T = Toeplitz(0.8 ** torch.arange(40.0).double(), 0.5 ** torch.arange(40.0).double())
    torch.testing.assert_close(randomized_svd(T, 30, seed=3).S[:3], torch.linalg.svdvals(T.dense())[:3])
    M = LowRank(torch.full((40,), 1e-3).double(), normal(40, 3))
    torch.testing.assert_close(randomized_svd(M, 3, seed=3).S, torch.linalg.svdvals(M.dense())[:3])


def test_the_seed_decides_and_nothing_else_is_touched():
    A = normal(20, 15)
    before = torch.random.get_rng_state()
    first, again, other = (randomized_svd(A, 3, 2, 0, seed=s).S for s in (1, 1, 2))
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert not torch.equal(randomized_svd(A, 3, 2, 0).S, randomized_svd(A, 3, 2, 0).S)
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.spec("A-02")
def test_the_stored_count_of_an_image():
    small = compress(normal(450, 333), k=50)
    assert small.stored == 39_200 and small.original == 149_850
    assert round(100 * small.ratio) == 26
    assert "39,200 of 149,850 numbers (26%)" in repr(small)
    assert compress(normal(3, 45, 33), k=5).stored == 3 * (1 + 45 + 33) * 5


@pytest.mark.spec("A-02")
@pytest.mark.parametrize("shape", [(20, 15), (3, 20, 15), (2, 3, 20, 15)])
def test_the_reported_error_is_that_of_the_reconstruction(shape):
    image = normal(*shape)
    errors = []
    for k in (1, 5, 15):
        small = compress(image, k)
        assert small.reconstruct().shape == image.shape
        errors.append(float((small.reconstruct() - image).norm() / image.norm()))
        assert small.error == pytest.approx(errors[-1], abs=1e-12)
    assert errors[0] > errors[1] > errors[2]


def test_the_rank_for_an_error():
    image = with_values(0.7 ** torch.arange(60, dtype=torch.float64))
    small = compress(image, error=0.05)
    assert small.error <= 0.05 < compress(image, small.k - 1).error
    assert compress(image, error=0.0).k == 60
    assert compress(torch.zeros(4, 4), error=0.1).k == 1


def test_whole_numbers_and_types():
    pixels = np.arange(12, dtype=np.uint8).reshape(3, 4)
    np.testing.assert_allclose(compress(pixels, 2).reconstruct(), pixels, atol=1e-12)
    assert compress(torch.rand(4, 4), 2).reconstruct().dtype == torch.float32


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: truncated_svd(torch.ones(3, 2), 3), "k is 3; for a 3 x 2 matrix .* from 1 to 2"),
        (lambda: truncated_svd(torch.ones(3, 2), 1.5), "k is 1.5"),
        (lambda: truncated_svd(torch.ones(3), 1), "a matrix"),
        (lambda: randomized_svd(torch.ones(3, 2), 0), "k is 0"),
        (lambda: randomized_svd(torch.ones(3, 2), 1, oversampling=-1), "oversampling is -1"),
        (lambda: randomized_svd(torch.ones(3, 2), 1, power_iterations=0.5), "power_iterations is 0.5"),
        (lambda: randomized_svd(MatrixFree((3, 0), torch.sin, torch.sin), 1), "the shape of A is"),
        (lambda: randomized_svd(MatrixFree((3, 2), lambda x: x, lambda x: x), 1), "matmul gave shape .*rows must be 3"),
        (lambda: randomized_svd(Diagonal([1.0, 2.0]), 5), "k is 5"),
        (lambda: compress(torch.ones(5), 1), "give .h, w., .c, h, w."),
        (lambda: compress(np.ones((50, 40, 3)), 1), "channels come first"),
        (lambda: compress(torch.ones(5, 5)), "either k, the rank, or error"),
        (lambda: compress(torch.ones(5, 5), 2, 0.1), "either k, the rank, or error"),
        (lambda: compress(torch.ones(5, 5), error=1.5), "error is 1.5"),
        (lambda: compress(torch.ones(5, 5), error="small"), "error is 'small'; it must be at least 0"),
        (lambda: randomized_svd(torch.ones(3, 2), 1, seed=-1), "seed is -1"),
        (lambda: compress(torch.full((5, 5), torch.nan), 2), "25 values that are not finite"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(call, words):
    with pytest.raises(InvalidInput, match=words):
        call()
