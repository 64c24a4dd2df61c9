"""Gaussian-process regression: exact, or with inducing points."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar, Self
from weakref import WeakKeyDictionary

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from benthic.base.arrays import to_tensor
from benthic.base.capabilities import Predicts
from benthic.base.seeds import generator, seed_of
from benthic.base.settings import is_number, whole
from benthic.base.validation import speaking
from benthic.gp.evidence import Evidence, LeaveOneOut
from benthic.gp.naming import kernel_of, split_noise
from benthic.gp.posterior import exact_covariance, exact_mean, exact_variance, normal_draws
from benthic.gp.regression_fit import _FitsRegression
from benthic.gp.sparse import inducing_covariance, inducing_moments
from benthic.kernels.kernel import Kernel
from benthic.training.intake import Intake

_FACTORS: WeakKeyDictionary[Any, tuple[Tensor, Tensor]] = (
    WeakKeyDictionary()
)  # kept beside the models, not in their files


class GaussianProcessRegressor(Predicts, _FitsRegression):
    r"""A normal law over functions, conditioned on the data; hyper-parameters maximize the marginal likelihood.

    .. math:: f_* \mid y \sim N\bigl(K_{*X} A^{-1} y,\; K_{**} - K_{*X} A^{-1} K_{X*}\bigr), \qquad A = K + \sigma^2 I

    Rasmussen & Williams, 2006, chapters 2 and 5. Computed in float64. The search looks at a quarter of the rows first.

    kernel: a kernel of ``benthic.kernels``, taken as it is, or a name (``"rbf"``, ``"matern32"``, ``"periodic"``, ...)
    for variance × kernel + learned noise, begun at the scales of the data. alpha: added to the diagonal, a number or
    one for each row. optimizer: ``"lbfgs"``, or None to keep the kernel. n_restarts_optimizer: more random starts.
    normalize_y: center and scale the targets. n_targets: outputs of prior samples. ard: one length scale a column (for
    names). fixed: names of parameters that are not learned, as in ``kernel.parameters()``. bounds: factors on the first
    value that each may reach. tol: largest entry of the gradient at the end. max_iter: most steps.
    method: ``"exact"``, ``"sgpr"`` (inducing points, collapsed bound of Titsias, 2009), ``"svgp"`` (minibatches,
    Hensman et al., 2013) or ``"auto"`` by size. inducing: how many points. learn_inducing: whether sgpr moves them.
    trainer: settings of svgp.

    kernel_: with learned parameters. log_marginal_likelihood_value_: or its lower bound. X_train_, y_train_, alpha_:
    (n, d), (n, k), (n, k) of the exact method. inducing_points_: (m, d). method_: the one used. evaluations_: of the
    evidence, by number of rows.

    >>> X = np.linspace(0, 6, 20)[:, None]
    >>> model = GaussianProcessRegressor().fit(X, np.sin(X[:, 0]))
    >>> model.predict([[1.0], [2.0]]).round(3)
    array([0.841, 0.909])
    """

    methods: ClassVar[tuple[str, ...]] = ("exact", "sgpr", "svgp")

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        alpha: Any = 1e-10,
        optimizer: str | None = "lbfgs",
        n_restarts_optimizer: int = 0,
        normalize_y: bool = False,
        n_targets: int | None = None,
        ard: bool = False,
        fixed: Any = (),
        bounds: Any = (1e-5, 1e5),
        tol: float = 1e-2,
        max_iter: int = 200,
        method: str = "auto",
        inducing: int | None = None,
        learn_inducing: bool = False,
        random_state: Any = None,
        trainer: Any = None,
    ) -> None:
        self.kernel = kernel
        self.alpha = alpha
        self.optimizer = optimizer
        self.n_restarts_optimizer = n_restarts_optimizer
        self.normalize_y = normalize_y
        self.n_targets = n_targets
        self.ard = ard
        self.fixed = fixed
        self.bounds = bounds
        self.tol = tol
        self.max_iter = max_iter
        self.method = method
        self.inducing = inducing
        self.learn_inducing = learn_inducing
        self.random_state = random_state
        self.trainer = trainer

    # -- learning --------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from rows and numbers, (n,) or (n, k), or from a file or source: ``fit(path, 'column')``."""
        with speaking(self, "fit"):
            self._check_settings()
        with self._session(X) as session:
            intake = Intake(self, X, y, target="numbers")
            with speaking(self, "fit"):
                method = self._choose(intake, session.device)
                for name in ("X_train_", "y_train_", "alpha_", "inducing_points_", "_mean", "_root", "_noise"):
                    self.__dict__.pop(name, None)
                if method == "svgp":
                    self._fit_svgp(intake, session)
                else:
                    data = self._scaled(intake.sample(intake.rows, 0), session.device, learn=True)
                    (self._fit_exact if method == "exact" else self._fit_sgpr)(data, session)
            self.method_ = method
        return self

    # -- answers -----------------------------------------------------------------------------------------

    def _factor(self) -> Tensor:
        """The Cholesky factor of the covariance of the training rows, made when first needed."""
        held = _FACTORS.get(self)
        if held is None or held[0] is not self.X_train_:  # fitted again since
            made = Evidence(self.kernel_, self.X_train_, self.y_train_, self._noise).factor().lower
            held = _FACTORS[self] = (self.X_train_, made)
        return held[1]

    def _ready(self, X: Tensor) -> Tensor:
        place = self.X_train_ if self.method_ == "exact" else self.inducing_points_
        return X.to(place.device, torch.float64)

    def _latent(self) -> tuple[Kernel, float]:
        latent, noise = split_noise(self.kernel_)
        return (latent if latent is not None else self.kernel_), float(noise)

    def _prediction(self, X: Tensor) -> Tensor:
        new = self._ready(X)
        if self.method_ == "exact":
            mean = exact_mean(self.kernel_, self.X_train_, self.alpha_, new)
        else:
            mean = inducing_moments(self._latent()[0], self._inducing(), new)[0].T
        return self._shaped(mean * self._y_std + self._y_mean)

    def _variance(self, X: Tensor) -> Tensor:
        """(n, k) predictive variances in the units of the targets; White parts count, alpha does not."""
        new = self._ready(X)
        if self.method_ == "exact":
            variance = exact_variance(self.kernel_, self.X_train_, self._factor(), new)[:, None]
        else:
            latent, noise = self._latent()
            variance = inducing_moments(latent, self._inducing(), new)[1].T + noise
        return variance * self._y_std.square()

    def _covariances(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Means (k, n) and covariances (k or 1, n, n) in normalized units."""
        new = self._ready(X)
        if self.method_ == "exact":
            mean = exact_mean(self.kernel_, self.X_train_, self.alpha_, new).T
            return mean, exact_covariance(self.kernel_, self.X_train_, self._factor(), new)[None]
        latent, noise = self._latent()
        mean, covariance = inducing_covariance(latent, self._inducing(), new)
        return mean, covariance + noise * torch.eye(len(new), dtype=new.dtype, device=new.device)

    def _shaped(self, values: Tensor) -> Tensor:
        """(n,) for targets that were given so, else (n, k)."""
        return values[:, 0] if self._single else values

    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False) -> Any:
        """The expected target of each row; with it, if asked, standard deviations or the whole covariance.

        Returns (n,) or (n, k); std the same shape; cov (n, n), or (n, n, k). Both are of noisy targets where the kernel
        has White parts.
        """
        if return_std and return_cov:
            raise self._fail("predict", "at most one of return_std and return_cov can be requested")
        tensor, origin = self._arrive(X, "predict")
        mean = origin.mirror(self._prediction(tensor))
        if return_std:
            return mean, origin.mirror(self._shaped(self._variance(tensor).sqrt()))
        if return_cov:
            covariance = self._covariances(tensor)[1] * self._y_std.square()[:, None, None]  # (k, n, n)
            return mean, origin.mirror(covariance[0] if self._single else covariance.permute(1, 2, 0))
        return mean

    def predict_interval(self, X: Any, level: Any = 0.9) -> Any:
        """Central interval that holds the noisy target with probability ``level``: (n, 2), or (n, k, 2)."""
        if not is_number(level) or not 0 < level < 1:
            raise self._fail("predict_interval", f"level is {level}; a probability lies between 0 and 1")
        tensor, origin = self._arrive(X, "predict_interval")
        mean = self._prediction(tensor).reshape(len(tensor), -1)
        noise = float(self.alpha) if isinstance(self.alpha, Real) else 0.0
        half = (self._variance(tensor) + noise * self._y_std.square()).sqrt()
        half = half * float(torch.special.ndtri(torch.tensor(0.5 + 0.5 * float(level), dtype=torch.float64)))
        return origin.mirror(self._shaped(torch.stack([mean - half, mean + half], -1)))

    def sample_y(self, X: Any, n_samples: Any = 1, random_state: Any = 0) -> Any:
        """Functions drawn at the rows: from the prior before ``fit``, from the posterior after it.

        Returns (n, n_samples), or (n, k, n_samples) for k targets.
        """
        whole(f"{type(self).__name__}.sample_y: n_samples", n_samples)
        if not hasattr(self, "kernel_"):
            return self._sample_prior(X, int(n_samples), random_state)
        tensor, origin = self._arrive(X, "sample_y")
        mean, covariance = self._covariances(tensor)
        drawn = normal_draws(mean, covariance, int(n_samples), self._stream(random_state, mean.device))
        drawn = drawn * self._y_std[:, None] + self._y_mean[:, None]
        return origin.mirror(drawn[:, 0] if self._single else drawn)

    def _sample_prior(self, X: Any, count: int, random_state: Any) -> Any:
        with speaking(self, "sample_y"):
            tensor, origin = to_tensor(X)
        if tensor.ndim != 2:
            raise self._fail("sample_y", f"X has shape {tuple(tensor.shape)}; a row for each point, (n, d), is needed")
        with speaking(self, "sample_y"):
            kernel = kernel_of(self.kernel, tensor, 1.0, ard=self.ard, noise=False)
            K = kernel(tensor.double())
        mean = K.new_zeros(self.n_targets or 1, len(K))
        drawn = normal_draws(mean, K[None], count, self._stream(random_state, K.device))
        return origin.mirror(drawn[:, 0] if self.n_targets in (None, 1) else drawn)

    def _stream(self, random_state: Any, device: torch.device) -> torch.Generator:
        return generator(seed_of(random_state), "draws", device=device)

    # -- evidence ----------------------------------------------------------------------------------------

    def log_marginal_likelihood(self, theta: Any = None, eval_gradient: bool = False) -> Any:
        """The log marginal likelihood of the training targets, at ``kernel_`` or at other logarithms ``theta`` (p,).

        eval_gradient: return its gradient by theta too, a NumPy array (p,).
        """
        evidence = self._evidence("log_marginal_likelihood")
        point = self.kernel_.theta if theta is None else torch.as_tensor(np.asarray(theta, dtype=np.float64))
        with speaking(self, "log_marginal_likelihood"):
            value, gradient = evidence.value_and_gradient(point, eval_gradient)
        return (value, gradient.numpy()) if eval_gradient else value

    def leave_one_out(self) -> LeaveOneOut:
        """What each training target would be predicted to be from all the others, in closed form."""
        found = self._evidence("leave_one_out").leave_one_out()
        mean, std = found.mean * self._y_std + self._y_mean, found.std * self._y_std
        origin = self._fit_origin
        parts = (mean, std, found.log_density - self._y_std.log())
        return LeaveOneOut(*(origin.mirror(self._shaped(part)) for part in parts))

    def _evidence(self, method: str) -> Evidence:
        check_is_fitted(self)
        if self.method_ != "exact":
            raise self._fail(method, f"this needs method='exact'; the model was fitted by {self.method_!r}")
        return Evidence(self.kernel_, self.X_train_, self.y_train_, self._noise)

    # -- words and pictures --------------------------------------------------------------------------------

    def _facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {"method": self.method_, "kernel": repr(self.kernel_)}
        if self.method_ != "exact":
            facts["inducing points"] = len(self.inducing_points_)
        name = "log marginal likelihood" + ("" if self.method_ == "exact" else ", bound")
        return {**facts, name: self.log_marginal_likelihood_value_, "iterations": self.n_iter_}

    def plot(self) -> Any:
        """Mean and 90 % interval along the only column; else targets beside what the other rows predict."""
        from benthic.gp.picture import plot_regression

        check_is_fitted(self)
        return plot_regression(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
