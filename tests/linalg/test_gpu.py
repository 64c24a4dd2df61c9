"""Linear algebra on CUDA: the answers of the CPU, on the device of the input."""

from __future__ import annotations

import pytest
import torch

from benthic.linalg import (
    LowRank,
    MatrixFree,
    PositiveDefinite,
    Toeplitz,
    cholesky,
    compress,
    convolution_matrix,
    convolve,
    convolve_backward,
    edges,
    least_squares,
    low_pass,
    matrix_exp,
    matrix_inverse_sqrt,
    matrix_log,
    matrix_sqrt,
    morph,
    randomized_svd,
    sharpen,
    solve,
    truncated_svd,
)

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def definite():
    return normal(6, 6) @ normal(6, 6).mT + 6 * torch.eye(6, dtype=torch.float64)


def general():
    return normal(6, 6) / 3 + 2 * torch.eye(6, dtype=torch.float64)


COLUMN = 0.5 ** torch.arange(6, dtype=torch.float64)
SHAPE = (torch.hypot(*torch.meshgrid(torch.arange(20.0), torch.arange(20.0), indexing="ij")) < 12).double()
CASES = {
    "solve general": (lambda A, b: solve(A, b), lambda: (general(), normal(6))),
    "solve symmetric": (lambda A, b: solve(A, b), lambda: (definite(), normal(6, 2))),
    "solve triangular": (lambda A, b: solve(A, b), lambda: (general().tril(), normal(6))),
    "solve diagonal": (lambda A, b: solve(A, b), lambda: (torch.diag(COLUMN), normal(6))),
    "least squares": (lambda A, b: least_squares(A, b).solution, lambda: (normal(8, 3), normal(8))),
    "positive definite": (lambda A, b: PositiveDefinite(A).solve(b), lambda: (definite(), normal(6))),
    "low rank": (lambda d, F, b: LowRank(d, F).solve(b), lambda: (COLUMN, normal(6, 2), normal(6))),
    "low rank logdet": (lambda d, F: LowRank(d, F).logdet(), lambda: (COLUMN, normal(6, 2))),
    "Toeplitz": (lambda c, b: Toeplitz(c).solve(b), lambda: (COLUMN, normal(6))),
    "Toeplitz logdet": (lambda c: Toeplitz(c).logdet(), lambda: (COLUMN,)),
    "cholesky": (cholesky, lambda: (definite(),)),
    "exp": (matrix_exp, lambda: (general(),)),
    "log": (matrix_log, lambda: (general(),)),
    "log symmetric": (matrix_log, lambda: (definite(),)),
    "sqrt": (matrix_sqrt, lambda: (general(),)),
    "inverse sqrt": (matrix_inverse_sqrt, lambda: (general(),)),
    "truncated svd": (lambda A: truncated_svd(A, 2).dense(), lambda: (normal(6, 5),)),
    "compress": (lambda A: compress(A, 2).reconstruct(), lambda: (normal(3, 6, 5),)),
    "convolve": (lambda x, w: convolve(x, w, 1, 2, method="direct"), lambda: (normal(2, 3, 9, 8), normal(4, 3, 3, 2))),
    "convolve by fft": (
        lambda x, w: convolve(x, w, 1, 2, method="fft"),
        lambda: (normal(2, 3, 9, 8), normal(4, 3, 3, 2)),
    ),
    "backward": (lambda g, x, w: torch.cat(convolve_backward(g, x, w)), lambda: (normal(6), normal(8), normal(3))),
    "matrix": (lambda w: convolution_matrix(w, (5, 4), 1), lambda: (normal(2, 3, 2, 2),)),
    "low pass": (lambda x: low_pass(x, 0.1), lambda: (normal(9, 8),)),
    "edges": (edges, lambda: (normal(9, 8),)),
    "sharpen": (lambda x: sharpen(x, 1.0, 1.0), lambda: (normal(9, 8),)),
}


@pytest.mark.parametrize("name", CASES)
def test_the_gpu_gives_the_answers_and_gradients_of_the_cpu(name):
    function, make = CASES[name]
    answers = []
    for device in ("cpu", "cuda"):
        inputs = [x.to(device).requires_grad_() for x in make()]
        result = function(*inputs)
        assert result.device.type == device
        gradients = torch.autograd.grad(result.square().sum(), inputs)
        answers.append([result.detach().cpu(), *(g.cpu() for g in gradients)])
    torch.testing.assert_close(answers[1], answers[0], rtol=1e-8, atol=1e-9)


def test_shapes_morph_on_the_gpu():
    a, b = SHAPE, SHAPE.flip(0, 1)
    there = morph(a.cuda(), b.cuda(), [0.0, 0.4, 1.0])
    assert there.is_cuda
    torch.testing.assert_close(there.cpu(), morph(a, b, [0.0, 0.4, 1.0]), rtol=0, atol=1e-9)


def test_sketches_on_the_gpu():
    A = (normal(50, 4) @ normal(4, 30, seed=1)).cuda()
    free = MatrixFree((50, 30), lambda x: A @ x, lambda x: A.mT @ x, device="cuda")
    for found in (randomized_svd(A, 4, seed=0), randomized_svd(free, 4, seed=0)):
        assert found.U.is_cuda
        torch.testing.assert_close(found.dense(), A, rtol=1e-9, atol=1e-9)
