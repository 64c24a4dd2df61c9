"""What the kernel machines share: settings, the kernel, the training problem and the expansion."""

from __future__ import annotations

import math
import sys
import warnings
from typing import Any

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from benthic.base.errors import InvalidInput, nearest
from benthic.base.estimator import Estimator
from benthic.base.settings import flag, is_number, is_real, is_whole, number, positive, whole
from benthic.kernels.kernel import Kernel
from benthic.svm.gram import Gram, MatrixGram, make_gram
from benthic.svm.similarity import Custom, Similarity, expand
from benthic.svm.solve import Options, Solution

NAMES = ("linear", "poly", "rbf", "sigmoid", "precomputed")
_DOUBLE = 2896  # rows up to which the matrix is cached in double precision: 64 MB
_SHARED = 1500  # rows up to which several problems share one matrix
_JUDGED = 500  # rows on which the eigenvalues of a doubtful matrix are looked at
_NEGATIVE = -1e-8  # relative curvature below which rounding is not to blame


class KernelMachine(Estimator):
    """Base of ``SVC`` and ``SVR``: a kernel expansion over support vectors."""

    kernel: Any
    degree: int
    gamma: Any
    coef0: float
    tol: float
    shrinking: bool
    cache_size: float
    max_iter: int
    support_: np.ndarray
    support_vectors_: np.ndarray
    dual_coef_: np.ndarray
    intercept_: np.ndarray

    # -- settings ----------------------------------------------------------------------------------------

    def _check_machine(self) -> None:
        """Refuse settings that mean nothing, in one sentence each."""
        if isinstance(self.kernel, str) and self.kernel not in NAMES:
            raise InvalidInput(
                f"kernel {self.kernel!r} is unknown{nearest(self.kernel, NAMES)}; use {', '.join(map(repr, NAMES))}, a "
                "kernel of benthic.kernels, or a function of two arrays of rows"
            )
        if not isinstance(self.kernel, str) and not callable(self.kernel):
            raise InvalidInput(f"kernel is {self.kernel!r}; use a name, a kernel of benthic.kernels, or a function")
        C: Any = getattr(self, "C", 1.0)
        if not is_number(C) or not C > 0:
            raise InvalidInput(f"C is {C!r}; it must be positive, and infinity asks for a hard margin")
        whole("degree", self.degree)
        number("tol", self.tol, sys.float_info.epsilon, ends="[)")
        positive("cache_size", self.cache_size)
        number("coef0", self.coef0, -math.inf, ends="()")
        if not is_whole(self.max_iter, -1):
            raise InvalidInput(f"max_iter is {self.max_iter!r}; it must be a whole number, -1 for no limit")
        flag("shrinking", self.shrinking)
        if self.gamma not in ("scale", "auto") and not (is_real(self.gamma) and self.gamma >= 0):
            raise InvalidInput(f"gamma is {self.gamma!r}; use 'scale', 'auto' or a number of at least 0")

    def _find_gamma(self, X: Tensor, weight: np.ndarray) -> float:
        """The width of the kernel; the variance counts rows by their weights."""
        if self.gamma == "auto":
            return 1.0 / X.shape[1]
        if self.gamma != "scale":
            return float(self.gamma)
        share = torch.from_numpy(weight / weight.sum())
        largest = float(X.abs().max()) or 1.0
        rows = X / largest
        variance = float((share @ (rows - (share @ rows).mean()).square()).mean())
        if not variance > 1e-30:  # rounding
            return 1.0
        gamma = 1.0 / (X.shape[1] * variance) / largest / largest
        if math.isinf(gamma):
            raise InvalidInput(f"X has values up to {largest:.3g} only, so that gamma='scale' overflows; rescale X")
        return gamma

    def _options(self) -> Options:
        return Options(float(self.tol), int(self.max_iter), bool(self.shrinking), int(self.cache_size * (1 << 20)))

    # -- the kernel --------------------------------------------------------------------------------------

    def _similarity(self) -> Any:
        """The kernel as a similarity of rows; None where only matrices of it are known."""
        if isinstance(self.kernel, Kernel):
            return Custom(self.kernel)
        if isinstance(self.kernel, str) and self.kernel != "precomputed":
            return Similarity(self.kernel, self._gamma, float(self.coef0), self.degree)
        return None

    def _gram(self, X: Tensor, problems: int) -> Gram:
        """The kernel matrix of the training rows, checked where it may not be positive definite.

        problems: how many will be solved on parts of it; a small matrix is then computed once for all.
        """
        similarity = self._similarity()
        if similarity is None:
            gram: Gram = MatrixGram(self._given_matrix(X))
        else:
            gram = make_gram(similarity, X, len(X) > _DOUBLE)
            if problems > 1 and len(X) <= _SHARED:
                everything = np.arange(len(X))
                gram = MatrixGram(gram.block(everything, everything))
        if not np.isfinite(gram.diagonal).all():
            raise InvalidInput(
                f"the kernel {self.kernel!r} is not finite on these rows; scale them or lower the degree"
            )
        if self._doubtful():
            some = np.unique(np.linspace(0, len(X) - 1, min(len(X), _JUDGED)).astype(np.int64))
            self._judge(gram.block(some, some))
        return gram

    def _doubtful(self) -> bool:
        """Whether the kernel may not be positive definite; those of ``benthic.kernels`` always are."""
        if isinstance(self.kernel, Kernel):
            return False
        return self.kernel not in ("linear", "rbf", "poly") or (self.kernel == "poly" and self.coef0 < 0)

    def _given_matrix(self, X: Tensor) -> np.ndarray:
        rows = X.numpy()
        if self.kernel == "precomputed":
            what, K = "X, the precomputed kernel matrix,", rows
        else:
            what, K = "the kernel function's matrix", np.asarray(self.kernel(rows, rows), dtype=np.float64)
        if K.shape != (len(X), len(X)):
            raise InvalidInput(f"{what} should be a square matrix of {len(X)} x {len(X)}, but has shape {K.shape}")
        if not np.isfinite(K).all():
            raise InvalidInput(f"{what} holds NaN or infinity")
        if np.abs(K - K.T).max() > 1e-6 * np.abs(K).max():
            raise InvalidInput(f"{what} is not symmetric; a kernel has k(x, y) = k(y, x)")
        return np.ascontiguousarray(K, dtype=np.float64)

    def _judge(self, K: np.ndarray) -> None:
        least = float(np.linalg.eigvalsh(K)[0])
        scale = float(np.abs(np.diag(K)).max()) or 1.0
        if least < _NEGATIVE * scale * len(K):
            self._say_indefinite(f"its matrix on training rows has an eigenvalue of {least:.3g}")

    def _say_indefinite(self, evidence: str) -> None:
        self.positive_definite_ = False
        warnings.warn(
            f"{type(self).__name__}.fit: the kernel is not positive definite: {evidence}; the dual is not convex, so "
            "the solution is stationary but need not be the optimum; use an 'rbf' or 'poly' kernel, or other settings",
            UserWarning,
            stacklevel=5,
        )

    def _take_note(self, solutions: list[Solution], gram: Gram) -> None:
        """Warn where a solver ran out of steps or met negative curvature."""
        scale = float(np.abs(gram.diagonal).max()) or 1.0
        bend = min(solution.curvature for solution in solutions)
        if self.positive_definite_ and bend < -1e-5 * scale:
            self._say_indefinite(f"two rows have curvature k(x,x) + k(y,y) - 2k(x,y) = {bend:.3g}")
        worst = max(solutions, key=lambda solution: solution.violation)
        if not all(solution.converged for solution in solutions):
            warnings.warn(
                f"{type(self).__name__}.fit: the solver stopped after {worst.steps} steps with a violation of "
                f"{worst.violation:.2g}, above tol={self.tol:g}; raise max_iter, scale the features or lower C",
                ConvergenceWarning,
                stacklevel=4,
            )

    # -- answers -----------------------------------------------------------------------------------------

    def _expand(self, X: Tensor, weights: np.ndarray) -> Tensor:
        """Kernel expansions (n, c) over the support vectors; weights: (support vectors, c)."""
        coefficients = torch.as_tensor(weights).to(X)
        if self.kernel == "precomputed":
            return X[:, torch.as_tensor(self.support_, dtype=torch.long, device=X.device)] @ coefficients
        similarity = self._similarity()
        vectors = torch.as_tensor(self.support_vectors_)
        if similarity is None:
            values = self.kernel(X.detach().cpu().numpy(), vectors.numpy())
            return torch.as_tensor(np.asarray(values)).to(X) @ coefficients
        return expand(similarity, X, vectors.to(X), coefficients)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags

    @property
    def coef_(self) -> np.ndarray:
        """Weights of the features, for the linear kernel only."""
        if self.kernel != "linear":
            raise AttributeError("coef_ is only available with kernel='linear'")
        return np.asarray(self._weights().T @ self.support_vectors_)

    def _weights(self) -> np.ndarray:
        """Coefficients (support vectors, problems)."""
        return np.asarray(self.dual_coef_.T)
