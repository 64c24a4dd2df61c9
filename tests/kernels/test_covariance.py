"""Every kernel gets the whole suite: scikit-learn's values, definiteness, gradients, tiles, algebra."""

from __future__ import annotations

import copy
import itertools

import numpy as np
import pytest
import torch
from sklearn.gaussian_process import kernels as gp
from sklearn.metrics.pairwise import laplacian_kernel, polynomial_kernel

from benthic.base.errors import InvalidInput
from benthic.calculus import hessian, jacobian
from benthic.kernels import (
    RBF,
    Constant,
    Laplace,
    Linear,
    Matern,
    Periodic,
    Polynomial,
    Product,
    RationalQuadratic,
    Sum,
    White,
)

SCALES = torch.tensor([0.7, 1.3, 2.0], dtype=torch.float64)


def points(n, d=3, seed=0):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


X, Y = points(9), points(7, seed=1)
X[3] = Y[2]  # a coinciding pair
X[5] = X[4]  # and a repeated row


def periodic_by_columns(A, B):
    """The kernel of each column by scikit-learn, multiplied."""
    scales, periods = [0.7, 1.3, 2.0], [1.0, 2.0, 3.0]
    parts = [
        gp.ExpSineSquared(s, p)(A[:, [i]], B[:, [i]]) for i, (s, p) in enumerate(zip(scales, periods, strict=True))
    ]
    return np.prod(parts, axis=0)


class KernelSuite:
    """Everything a kernel must do; a subclass gives the kernel and a peer (A, B) -> matrix."""

    kernel = None
    smooth_at_zero = True

    def peer(self, A, B):
        raise NotImplementedError

    def test_values_are_the_peers(self):
        want = self.peer(X.numpy(), Y.numpy())
        np.testing.assert_allclose(self.kernel(X, Y), want, rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(self.kernel(X.tolist(), Y.numpy()), want, rtol=1e-12, atol=1e-13)

    def test_float32_stays_float32(self):
        got = self.kernel(X.float(), Y.float())
        assert got.dtype == torch.float32
        np.testing.assert_allclose(got, self.kernel(X, Y), rtol=2e-5, atol=2e-5)

    def test_matrix_is_positive_semidefinite(self):
        K = self.kernel(points(40, seed=3))
        torch.testing.assert_close(K, K.T, rtol=1e-12, atol=1e-12)
        # Rounding of eigenvalues is bounded by n eps |K|.
        assert float(torch.linalg.eigvalsh(K).min()) >= -40 * 2.3e-16 * float(K.abs().sum(1).max())

    def test_diagonal_and_pairs_belong_to_the_matrix(self):
        torch.testing.assert_close(self.kernel.diagonal(X), self.kernel(X).diagonal(), rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(
            self.kernel.paired(X[:7], Y), self.kernel(X[:7], Y).diagonal(), rtol=1e-12, atol=1e-12
        )

    def test_batches(self):
        A, B = points(12, seed=4).reshape(2, 6, 3), points(4, seed=5)
        got = self.kernel(A, B)
        assert got.shape == (2, 6, 4)
        for i in range(2):
            torch.testing.assert_close(got[i], self.kernel(A[i], B))
            torch.testing.assert_close(self.kernel(A)[i], self.kernel(A[i]))

    def test_gradients_by_points_and_parameters(self):
        apart = points(4, seed=6)

        def of_points(A, B):
            return self.kernel(A, B)

        assert torch.autograd.gradcheck(of_points, (apart.clone().requires_grad_(), Y[:3].clone().requires_grad_()))
        names, logs = zip(*self.kernel.parameters().items(), strict=True)

        def of_parameters(*values):
            kernel = self.kernel.with_parameters(dict(zip(names, values, strict=True)))
            return kernel(apart, Y), kernel(apart), kernel.diagonal(apart), kernel.paired(apart, Y[:4])

        assert torch.autograd.gradcheck(of_parameters, [log.clone().requires_grad_() for log in logs])

    def test_no_nan_at_coinciding_points(self):
        A = X.clone().requires_grad_()
        (slope,) = torch.autograd.grad(self.kernel(A).sum() + self.kernel(A, Y).sum() + 0 * A.sum(), A)
        assert bool(torch.isfinite(slope).all())
        A = X[:2].clone()
        curved = torch.autograd.functional.hessian(lambda Z: self.kernel(Z, X).sum() + 0 * Z.square().sum(), A)
        assert bool(torch.isfinite(curved).all())

    def test_tiles_give_the_same_product_and_gradients(self):
        V = points(7, 2, seed=7)
        names, values = zip(*((name, value) for name, value in self.kernel.parameters().items()), strict=True)
        for B, elements in itertools.product((Y, None), (1, 12, 10**6)):
            results = []
            for tiled in (False, True):
                A, W = (
                    X.clone().requires_grad_(),
                    (V if B is not None else points(9, 2, seed=8)).clone().requires_grad_(),
                )
                free = [value.clone().requires_grad_() for value in values]
                kernel = self.kernel.with_parameters(dict(zip(names, free, strict=True)))
                C = None if B is None else B.clone().requires_grad_()
                out = kernel.matmul(A, C, W, elements=elements) if tiled else kernel(A, C) @ W
                inputs = [A, W, *free] + ([] if C is None else [C])
                slopes = torch.autograd.grad((out * out.detach().cos()).sum(), inputs, allow_unused=True)
                results.append(
                    [out, *(torch.zeros_like(i) if s is None else s for s, i in zip(slopes, inputs, strict=True))]
                )
            for plain, tiled in zip(*results, strict=True):
                torch.testing.assert_close(tiled, plain, rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(self.kernel.sum(X, Y, elements=10), self.kernel(X, Y).sum())
        torch.testing.assert_close(self.kernel.sum(X, elements=10), self.kernel(X).sum())
        vector = self.kernel.matmul(X, Y, V[:, 0])
        torch.testing.assert_close(vector, self.kernel(X, Y) @ V[:, 0])

    def test_wide_single_precision_tiles_are_right(self):
        d = 3 if any(value.ndim for _, value in self.kernel.tensors()) else 20
        A, B = points(50, d, seed=9).float(), points(60, d, seed=10).float()
        V = torch.ones(60)
        exact = self.kernel(A.double(), B.double()).sum(1)
        # 60 terms, each wrong by 1e-5 of the largest at most.
        scale = float(self.kernel(A.double(), B.double()).abs().max())
        torch.testing.assert_close(self.kernel.matmul(A, B, V).double(), exact, rtol=0, atol=6e-4 * scale)

    def test_parameters_come_and_go(self):
        again = self.kernel.with_parameters(self.kernel.parameters())
        torch.testing.assert_close(again(X, Y), self.kernel(X, Y))
        torch.testing.assert_close(copy.deepcopy(self.kernel)(X, Y), self.kernel(X, Y))
        with pytest.raises(InvalidInput, match="there is no 'length'"):
            self.kernel.with_parameters({"length": torch.tensor(0.0)})
        with pytest.raises(AttributeError, match="does not change"):
            self.kernel.lengthscale = 3.0


class TestRBF(KernelSuite):
    kernel = RBF(SCALES)

    def peer(self, A, B):
        return gp.RBF([0.7, 1.3, 2.0])(A, B)


class TestRBFOneScale(KernelSuite):
    kernel = RBF(1.7)

    def peer(self, A, B):
        return gp.RBF(1.7)(A, B)


class TestMaternHalf(KernelSuite):
    kernel = Matern(0.5, SCALES)

    def peer(self, A, B):
        return gp.Matern([0.7, 1.3, 2.0], nu=0.5)(A, B)


class TestMaternThreeHalves(KernelSuite):
    kernel = Matern(1.5, SCALES)

    def peer(self, A, B):
        return gp.Matern([0.7, 1.3, 2.0], nu=1.5)(A, B)


class TestMaternFiveHalves(KernelSuite):
    kernel = Matern(2.5, 1.4)

    def peer(self, A, B):
        return gp.Matern(1.4, nu=2.5)(A, B)


class TestRationalQuadratic(KernelSuite):
    kernel = RationalQuadratic(1.3, 0.6)

    def peer(self, A, B):
        return gp.RationalQuadratic(1.3, 0.6)(A, B)


class TestPeriodic(KernelSuite):
    kernel = Periodic(SCALES, torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64))

    def peer(self, A, B):
        return periodic_by_columns(A, B)


class TestLaplace(KernelSuite):
    kernel = Laplace(1.6)

    def peer(self, A, B):
        return laplacian_kernel(A, B, gamma=1 / 1.6)


class TestLinear(KernelSuite):
    kernel = Linear() + Constant(0.25)

    def peer(self, A, B):
        return gp.DotProduct(0.5)(A, B)


class TestLinearARD(KernelSuite):
    kernel = Linear(SCALES)

    def peer(self, A, B):
        scales = np.array([0.7, 1.3, 2.0])
        return (A / scales) @ (B / scales).T


class TestPolynomial(KernelSuite):
    kernel = Polynomial(3, 1.5, 0.7)

    def peer(self, A, B):
        return polynomial_kernel(A, B, degree=3, gamma=1.5**-2, coef0=0.7)


class TestHomogeneousPolynomial(KernelSuite):
    kernel = Polynomial(2, 1.5, 0)

    def peer(self, A, B):
        return polynomial_kernel(A, B, degree=2, gamma=1.5**-2, coef0=0)


class TestConstant(KernelSuite):
    kernel = Constant(2.5)

    def peer(self, A, B):
        return gp.ConstantKernel(2.5)(A, B)


class TestWhite(KernelSuite):
    kernel = White(0.3)

    def peer(self, A, B):
        return gp.WhiteKernel(0.3)(A, B)

    def test_noise_is_on_the_diagonal_of_one_sample(self):
        np.testing.assert_allclose(self.kernel(X), gp.WhiteKernel(0.3)(X.numpy()), rtol=1e-15)


class TestSum(KernelSuite):
    kernel = 2.0 * RBF(1.2) + Matern(1.5, SCALES) + White(0.1) + 0.5

    def peer(self, A, B):
        parts = 2.0 * gp.RBF(1.2) + gp.Matern([0.7, 1.3, 2.0], nu=1.5) + gp.WhiteKernel(0.1) + gp.ConstantKernel(0.5)
        return parts(A, B)


class TestProduct(KernelSuite):
    kernel = (RBF(2.0) + Linear()) * Matern(2.5, 3.0) * RationalQuadratic()

    def peer(self, A, B):
        return ((gp.RBF(2.0) + gp.DotProduct(1e-12)) * gp.Matern(3.0, nu=2.5) * gp.RationalQuadratic())(A, B)


@pytest.mark.parametrize("kernel", [Matern(1.5, 0.8), Matern(2.5, 0.8), RBF(0.8)], ids=repr)
def test_curvature_at_coinciding_points_is_the_limit(kernel):
    # k(x, y) = 1 - c |x - y|^2 / 2 + ..., with c = 3, 5/3, 1 over the squared length scale.
    c = {1.5: 3.0, 2.5: 5 / 3}.get(getattr(kernel, "nu", None), 1.0) / 0.8**2
    x = torch.zeros(1, 2, dtype=torch.float64)
    H = torch.autograd.functional.hessian(lambda z: kernel(z, x).sum(), x).reshape(2, 2)
    torch.testing.assert_close(H, -c * torch.eye(2, dtype=torch.float64))
    H = hessian(lambda z: kernel(z, x).sum(), x).reshape(2, 2)
    torch.testing.assert_close(H, -c * torch.eye(2, dtype=torch.float64))


@pytest.mark.parametrize("kernel", [RBF(), Matern(0.5), Matern(2.5), Laplace(), Periodic(), Linear()], ids=repr)
def test_second_derivatives_and_transforms_agree(kernel):
    A, B = points(3, seed=11), points(4, seed=12)
    if not isinstance(kernel, Laplace):
        assert torch.autograd.gradgradcheck(lambda a, b: kernel(a, b), (A.requires_grad_(), B.requires_grad_()))
    A, B = A.detach(), B.detach()
    forward = jacobian(lambda a: kernel(a, B), A, mode="forward")
    torch.testing.assert_close(forward, torch.func.jacrev(lambda a: kernel(a, B))(A))
    torch.testing.assert_close(forward, torch.autograd.functional.jacobian(lambda a: kernel(a, B), A))


def test_expressions_read_as_written():
    kernel = 2.0 * RBF(0.5) * (Linear() + White(0.1))
    assert repr(kernel) == "Constant(variance=2) * RBF(lengthscale=0.5) * (Linear(lengthscale=1) + White(variance=0.1))"
    assert isinstance(kernel, Product) and isinstance(RBF() + RBF() + RBF(), Sum)
    assert len((RBF() + RBF() + RBF()).parts) == 3
    assert list(kernel.parameters()) == ["0.variance", "1.lengthscale", "2.0.lengthscale", "2.1.variance"]
    assert repr(Matern(1.5, SCALES)) == "Matern(nu=1.5, lengthscale=[0.7, 1.3, 2])"


def test_parameters_can_be_learned():
    # The marginal likelihood of a sample from a known process is larger at its length scale than at others,
    # and gradient steps from afar come near it.
    inputs = torch.linspace(0, 10, 60, dtype=torch.float64)[:, None]
    true = RBF(0.8)(inputs) + 1e-6 * torch.eye(60, dtype=torch.float64)
    y = torch.linalg.cholesky(true) @ points(60, 1, seed=13)

    def loss(logs):
        K = RBF(1.0).with_parameters(logs)(inputs) + 1e-4 * torch.eye(60, dtype=torch.float64)
        L = torch.linalg.cholesky(K)
        return (torch.linalg.solve_triangular(L, y, upper=False) ** 2).sum() / 2 + L.diagonal().log().sum()

    log = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([log], lr=0.1)
    for _ in range(50):
        optimizer.zero_grad()
        loss({"lengthscale": log}).backward()
        optimizer.step()
    assert float(log.detach().exp()) == pytest.approx(0.8, rel=0.25)


def test_values_far_apart_and_tiny_scales_stay_right_in_tiles():
    # Small length scales and an offset of 1e4 would ruin a plain product in single precision.
    A = points(40, 8, seed=14) * 1e-3 + 1e4
    single = A.float()
    kernel = RBF(0.05)
    want = kernel(single.double()).sum(1)
    torch.testing.assert_close(kernel.matmul(single, None, torch.ones(40)).double(), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: RBF(0.0), "RBF: lengthscale is 0; it must be positive"),
        (lambda: Matern(1.5, torch.tensor([1.0, -2.0])), r"Matern: lengthscale is \[1, -2\]"),
        (lambda: Laplace(float("nan")), "Laplace: lengthscale is nan"),
        (lambda: Periodic(1.0, -1.0), "Periodic: period is -1"),
        (lambda: RationalQuadratic(1.0, [1.0, 2.0]), "alpha has shape"),
        (lambda: Matern(1.0), "nu is 1.0; it must be 0.5, 1.5 or 2.5"),
        (lambda: Polynomial(0), "degree is 0"),
        (lambda: Polynomial(2, 1.0, -1.0), "offset is -1"),
        (lambda: -1.0 * RBF(), "Constant: variance is -1"),
        (lambda: RBF(torch.ones(2, 2)), "lengthscale has shape"),
        (lambda: RBF(SCALES)(points(3, 2)), "X has 2 columns and the kernel a parameter for each of 3"),
        (lambda: (RBF() + RBF(SCALES))(points(3, 2)), "X has 2 columns and the kernel a parameter for each of 3"),
        (lambda: Periodic(SCALES, [1.0, 2.0])(X), "lengthscale and period are for"),
        (lambda: RBF()(X, points(3, 2)), "X has 3 columns and Y 2"),
        (lambda: RBF()(torch.zeros(0, 3)), "at least one point"),
        (lambda: RBF()(torch.zeros(3)), r"\(n, d\), is needed; write x\[:, None\]"),
        (lambda: RBF()(torch.full((2, 2), torch.nan)), "X holds NaN"),
        (lambda: RBF()(X, torch.full((2, 3), torch.inf)), "Y holds NaN or infinity"),
        (lambda: RBF()(X.half()), "convert it to float32"),
        (lambda: RBF().paired(X, Y), "rows come in pairs"),
        (lambda: RBF().matmul(X, Y, torch.ones(3)), "a tensor with 7 rows"),
        (lambda: RBF().matmul(X, Y, torch.ones(7), elements=0), "elements is 0"),
        (lambda: RBF().matmul(X[None], None, torch.ones(9)), r"\(n, d\), is needed"),
    ],
)
def test_bad_input_gets_a_sentence(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()


def test_a_word_is_no_kernel():
    with pytest.raises(TypeError):
        RBF() + "noise"
