"""Gaussian-process classification: Laplace's method, or inducing points by minibatches."""

from __future__ import annotations

from typing import Any, ClassVar, Self
from weakref import WeakKeyDictionary

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from benthic.base.capabilities import Classifies
from benthic.base.errors import InvalidInput
from benthic.base.seeds import np_generator
from benthic.base.validation import speaking
from benthic.data.batch import Batch
from benthic.gp.estimator import _GaussianProcess, detached
from benthic.gp.factor import check_positive_definite
from benthic.gp.laplace import LaplaceEvidence, expected_sigmoid, inner_factor
from benthic.gp.naming import kernel_of
from benthic.gp.posterior import blocks_of
from benthic.gp.sparse import Inducing, inducing_moments
from benthic.gp.variational import Bernoulli
from benthic.kernels.kernel import Kernel
from benthic.training.estimator import Session
from benthic.training.intake import Intake

_EXACT = {"cpu": 3_000, "cuda": 20_000}  # rows up to which "auto" uses Laplace's method
_INDUCING, _SUBSET = 200, 300
_FACTORS: WeakKeyDictionary[Any, list[Tensor]] = WeakKeyDictionary()  # kept beside the models, not in their files


class GaussianProcessClassifier(Classifies, _GaussianProcess):
    r"""Class probabilities from latent functions with a Gaussian-process prior.

    .. math:: p(y_* = 1) = \int \sigma(f_*)\, q(f_* \mid y)\, df_*, \qquad q \approx p(f_* \mid y)

    Rasmussen & Williams, 2006, chapter 3. Two classes have one latent function whose logistic is the probability of
    the second; more classes have one each against the rest, and probabilities are divided by their sum.

    kernel: a kernel of ``benthic.kernels``, or a name (``"rbf"``, ``"matern32"``, ...) for variance × kernel, begun at
    the scales of the data. optimizer: ``"lbfgs"``, or None to keep the kernel. n_restarts_optimizer: more random
    starts. ard: one length scale a column (for names). fixed: names of parameters that are not learned. bounds: factors
    on the first value that each may reach. tol: largest entry of the gradient at the end. max_iter: most steps.
    method: ``"laplace"``, ``"svgp"`` (inducing points by minibatches, Hensman et al., 2015; classes share the kernel)
    or ``"auto"`` by size. inducing: how many points. trainer: settings of svgp.

    kernel_: with learned parameters; a list, one for each class, with more than two. classes_: (k,).
    log_marginal_likelihood_value_: approximate, or a lower bound; the mean over classes with more than two.
    X_train_: (n, d) of Laplace's method. inducing_points_: (m, d). method_: the one used.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> GaussianProcessClassifier().fit(X, y).score(X, y) > 0.96
    True
    """

    methods: ClassVar[tuple[str, ...]] = ("laplace", "svgp")

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        optimizer: str | None = "lbfgs",
        n_restarts_optimizer: int = 0,
        ard: bool = False,
        fixed: Any = (),
        bounds: Any = (1e-5, 1e5),
        tol: float = 1e-2,
        max_iter: int = 100,
        method: str = "auto",
        inducing: int | None = None,
        random_state: Any = None,
        trainer: Any = None,
    ) -> None:
        self.kernel = kernel
        self.optimizer = optimizer
        self.n_restarts_optimizer = n_restarts_optimizer
        self.ard = ard
        self.fixed = fixed
        self.bounds = bounds
        self.tol = tol
        self.max_iter = max_iter
        self.method = method
        self.inducing = inducing
        self.random_state = random_state
        self.trainer = trainer

    # -- learning --------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from rows and labels, or from a file or source: ``fit(path, 'column')``."""
        with speaking(self, "fit"):
            self._check_settings()
        with self._session(X) as session:
            intake = Intake(self, X, y, target="labels")
            if intake.classes is None:
                raise self._fail("fit", "the data have no labels")
            self.classes_ = intake.classes
            with speaking(self, "fit"):
                method = self._choose(intake, session.device)
                for name in ("X_train_", "_labels", "_slopes", "_roots", "inducing_points_", "_mean", "_root"):
                    self.__dict__.pop(name, None)
                (self._fit_laplace if method == "laplace" else self._fit_svgp)(intake, session)
            self.method_ = method
        return self

    def _choose(self, intake: Intake, device: torch.device) -> str:
        method = self.method
        if method == "auto":
            small = intake.rows <= _EXACT.get(device.type, _EXACT["cpu"])
            method = "laplace" if self.inducing is None and small else "svgp"
        if method == "laplace":
            if self.inducing is not None:
                raise InvalidInput("inducing is for method 'svgp'; drop it, or change the method")
            self._check_memory(intake.rows, device, 5)
        return method

    def _ready_rows(self, batch: Batch, device: torch.device) -> tuple[Tensor, Tensor]:
        """Rows in float64, and (n, k) zeros and ones, with k = 1 for two classes."""
        codes = batch.y.to(device) if batch.y is not None else torch.zeros(len(batch.X), device=device)
        k = len(self.classes_)
        hot = codes[:, None] == torch.arange(k, device=device)
        return batch.X.to(device, torch.float64), (hot[:, 1:] if k == 2 else hot).double()

    def _first_kernel(self, X: Tensor) -> Kernel:
        kernel = kernel_of(self.kernel, X, 1.0, ard=self.ard, noise=False)
        check_positive_definite(kernel, X, f"{type(self).__name__}.fit")
        return kernel

    def _fit_laplace(self, intake: Intake, session: Session) -> None:
        X, Y = self._ready_rows(intake.sample(intake.rows, 0), session.device)
        kernel = self._first_kernel(X)
        kernels, modes, counts = [], [], [1]
        for labels in Y.T:
            found = self._learned(kernel, X, labels, session.seed)
            counts.append(max(found[1].values()))
            kernels.append(found[0])
            modes.append(LaplaceEvidence(found[0], X, labels).mode())
        self.X_train_, self._labels = X, Y.T.contiguous()
        self.kernel_ = kernels[0] if len(kernels) == 1 else kernels
        self._slopes = torch.stack([mode.slope for mode in modes])
        self._roots = torch.stack([mode.root for mode in modes])
        self.log_marginal_likelihood_value_ = float(np.mean([mode.value for mode in modes]))
        self.n_iter_ = max(counts)
        self._note(len(X))

    def _learned(self, kernel: Kernel, X: Tensor, labels: Tensor, seed: int) -> tuple[Kernel, dict[int, int]]:
        """The kernel whose approximate evidence of these labels is largest."""
        order = torch.from_numpy(np_generator(0, "levels").permutation(len(X))).to(X.device)

        def level(rows: int) -> Any:
            some = order[:rows] if rows < len(X) else slice(None)
            return LaplaceEvidence(kernel, X[some], labels[some]).value_and_gradient

        found = self._search(level, len(X), kernel, seed)
        return detached(kernel.with_theta(found.theta)), found.evaluations

    def _fit_svgp(self, intake: Intake, session: Session) -> None:
        X, Y = self._ready_rows(self._candidates(intake, session.seed), session.device)
        few = torch.from_numpy(np_generator(0, "begin").permutation(len(X))[:_SUBSET].copy()).to(session.device)
        kernel = self._first_kernel(X)
        outputs = Y.shape[1]
        mixed = [j for j in range(outputs) if 0 < float(Y[few, j].mean()) < 1]
        if self.optimizer is not None and mixed:
            kernel, _ = self._learned(kernel, X[few], Y[few, mixed[0]], session.seed)
        Z = self._points(kernel, X, int(min(self.inducing or _INDUCING, len(X))))
        eye = torch.eye(len(Z), dtype=Z.dtype, device=Z.device)
        start = Inducing(Z, Z.new_zeros(outputs, len(Z)), eye[None])
        network = self._fit_variational(
            intake, session, kernel, start, Bernoulli(), lambda b: Batch(*self._ready_rows(b, session.device))
        )
        self._keep_inducing(network.kernel(), network.inducing())
        self.log_marginal_likelihood_value_ = -float(self.history_[-1]["loss"]) * intake.rows / outputs

    # -- answers -----------------------------------------------------------------------------------------

    def _kernels(self) -> list[Kernel]:
        return self.kernel_ if isinstance(self.kernel_, list) else [self.kernel_]

    def _factor(self, place: int) -> Tensor:
        """The factor of one latent function, made when first needed."""
        held = _FACTORS.get(self)
        if held is None or held[0] is not self.X_train_:
            kernels = self._kernels()
            made = [inner_factor(k, self.X_train_, root) for k, root in zip(kernels, self._roots, strict=True)]
            held = [self.X_train_, *made]
            _FACTORS[self] = held
        return held[1 + place]

    def _moments(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of the latent functions, (n, k) each, k = 1 for two classes."""
        if self.method_ == "svgp":
            place = self.inducing_points_
            found = [
                inducing_moments(self._kernels()[0], self._inducing(), block)
                for block in blocks_of(X.to(place.device, torch.float64), len(place))
            ]
            return torch.cat([part[0] for part in found], 1).T, torch.cat([part[1] for part in found], 1).T
        X = X.to(self.X_train_.device, torch.float64)
        found = [self._latent_moments(i, kernel, X) for i, kernel in enumerate(self._kernels())]
        return torch.stack([part[0] for part in found], 1), torch.stack([part[1] for part in found], 1)

    def _latent_moments(self, place: int, kernel: Kernel, X: Tensor) -> tuple[Tensor, Tensor]:
        L, slope, root = self._factor(place), self._slopes[place], self._roots[place]
        means, variances = [], []
        for block in blocks_of(X, len(self.X_train_)):
            cross = kernel._matrix(self.X_train_, block, None)
            means.append(slope @ cross)
            half = torch.linalg.solve_triangular(L, root[:, None] * cross, upper=False)
            variances.append(kernel._paired(block, block, same=True) - half.square().sum(0))
        return torch.cat(means), torch.cat(variances).clamp_(min=0)

    def _probabilities(self, X: Tensor) -> Tensor:
        p = expected_sigmoid(*self._moments(X))
        if p.shape[1] == 1:
            return torch.cat([1 - p, p], 1)
        return p / p.sum(1, keepdim=True)

    def latent_mean_and_variance(self, X: Any) -> tuple[Any, Any]:
        """Mean and variance of the latent functions: (n,) each for two classes, else (n, k)."""
        tensor, origin = self._arrive(X, "latent_mean_and_variance")
        mean, variance = self._moments(tensor)
        parts = (mean[:, 0], variance[:, 0]) if mean.shape[1] == 1 else (mean, variance)
        return origin.mirror(parts[0]), origin.mirror(parts[1])

    def log_marginal_likelihood(self, theta: Any = None, eval_gradient: bool = False) -> Any:
        """Laplace's approximate log marginal likelihood of the training labels, the mean over latent functions.

        theta: logarithms of the parameters, (p,), shared by all latent functions; None for ``kernel_``.
        eval_gradient: return the gradient by theta too, a NumPy array (p,); needs theta, or two classes.
        """
        check_is_fitted(self)
        if self.method_ != "laplace":
            raise self._fail("log_marginal_likelihood", f"this needs method='laplace'; the model is {self.method_!r}")
        kernels = self._kernels()
        if eval_gradient and theta is None and len(kernels) > 1:
            raise self._fail("log_marginal_likelihood", "kernels differ between classes; give theta for the gradient")
        point = None if theta is None else torch.as_tensor(np.asarray(theta, dtype=np.float64))
        with speaking(self, "log_marginal_likelihood"):
            found = [
                LaplaceEvidence(kernel, self.X_train_, labels).value_and_gradient(point, eval_gradient)
                for kernel, labels in zip(kernels, self._labels, strict=True)
            ]
        value = float(np.mean([one[0] for one in found]))
        return (value, torch.stack([one[1] for one in found]).mean(0).numpy()) if eval_gradient else value

    # -- words and pictures --------------------------------------------------------------------------------

    def _facts(self) -> dict[str, Any]:
        kernels = self._kernels()
        named = dict(zip(self.classes_ if len(kernels) > 1 else [""], kernels, strict=True))
        facts: dict[str, Any] = {"classes": len(self.classes_), "method": self.method_}
        facts |= {f"kernel {label}".strip(): repr(kernel) for label, kernel in named.items()}
        if self.method_ == "svgp":
            facts["inducing points"] = len(self.inducing_points_)
        return {**facts, "log marginal likelihood, about": self.log_marginal_likelihood_value_}

    def plot(self) -> Any:
        """Probabilities over the plane of two columns; else the learned parameters."""
        from benthic.gp.picture import plot_classification

        check_is_fitted(self)
        return plot_classification(self)
