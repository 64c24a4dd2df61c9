"""How Gaussian-process regression is fitted: all rows, the collapsed bound, or minibatches."""

from __future__ import annotations

from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.base.seeds import np_generator
from benthic.data.batch import Batch
from benthic.gp.estimator import _GaussianProcess, detached
from benthic.gp.evidence import Evidence
from benthic.gp.factor import check_positive_definite
from benthic.gp.naming import free_entries, kernel_of, split_noise
from benthic.gp.search import Level
from benthic.gp.sparse import collapsed_bound, optimal_inducing
from benthic.gp.variational import Gaussian
from benthic.kernels.kernel import Kernel
from benthic.optim.minimizer import minimize
from benthic.training.estimator import Session
from benthic.training.intake import Intake

_EXACT = {"cpu": 8_000, "cuda": 30_000}  # rows up to which "auto" is exact
_COLLAPSED = 200_000  # rows up to which "auto" looks at all of them in every step
_INDUCING = 500
_SUBSET = 500  # rows on which hyper-parameters begin when there are inducing points


class Rows(NamedTuple):
    """X: (n, d). Y: (n, k), normalized if asked for."""

    X: Tensor
    Y: Tensor


class _FitsRegression(_GaussianProcess):
    """The ways to fit; each leaves what predictions need."""

    alpha: Any
    normalize_y: bool
    learn_inducing: bool
    _single: bool
    _y_mean: Tensor
    _y_std: Tensor

    def _choose(self, intake: Intake, device: torch.device) -> str:
        method, rows = self.method, intake.rows
        if method == "auto":
            limit = _EXACT.get(device.type, _EXACT["cpu"])
            if self.inducing is None and rows <= limit:
                method = "exact"
            else:
                method = "sgpr" if rows <= _COLLAPSED and intake.data is not None else "svgp"
        if method == "exact":
            if self.inducing is not None:
                raise InvalidInput("inducing is for methods 'sgpr' and 'svgp'; drop it, or change the method")
            self._check_memory(rows, device, 4 if device.type == "cpu" else 6)
        elif np.ndim(self.alpha):
            raise InvalidInput(f"alpha has a value for each row, which needs method='exact', not {method!r}")
        return method

    def _scaled(self, batch: Batch, device: torch.device, learn: bool = False) -> Rows:
        """Rows (n, d) and targets (n, k) in float64, normalized if asked for."""
        X = batch.X.to(device, torch.float64)
        y = batch.y if batch.y is not None else X.new_zeros(len(X))
        Y = y.to(device, torch.float64).reshape(len(X), -1)
        if learn:
            self._single = y.ndim == 1
            self._y_mean, self._y_std = torch.zeros_like(Y[0]), torch.ones_like(Y[0])
            if self.normalize_y:
                self._y_mean, spread = Y.mean(0), Y.std(0, correction=0)
                self._y_std = torch.where(spread > 0, spread, torch.ones_like(spread))
        return Rows(X, (Y - self._y_mean) / self._y_std)

    def _fit_exact(self, data: Rows, session: Session) -> None:
        X, Y = data
        noise = self._alpha(len(X)).to(X.device)
        kernel = self._first_kernel(X, Y)
        self._check_repeated(kernel, X, noise)
        order = torch.from_numpy(np_generator(0, "levels").permutation(len(X))).to(X.device)

        def level(rows: int) -> Any:
            some = order[:rows] if rows < len(X) else slice(None)
            return Evidence(kernel, X[some], Y[some], noise[some] if noise.ndim else noise).value_and_gradient

        found = self._search(level, len(X), kernel, session.seed)
        self.kernel_ = detached(kernel.with_theta(found.theta))
        self.X_train_, self.y_train_, self._noise = X, Y, noise
        factor = Evidence(self.kernel_, X, Y, noise).factor()
        self.alpha_ = factor.solve(Y).contiguous()
        self.log_marginal_likelihood_value_ = float(found.value)
        self.n_iter_ = max(found.evaluations.values())
        self.evaluations_ = found.evaluations
        self._note(len(X))

    def _fit_sgpr(self, data: Rows, session: Session) -> None:
        X, Y = data
        alpha = float(self._alpha(len(X)))
        kernel = self._begin(X, Y, session)
        count = int(min(self.inducing or _INDUCING, len(X)))
        for _ in range(2 if self.optimizer is not None else 1):  # again with the points that the first kernel asks for
            Z = self._points(kernel, X, count)
            found = self._search(self._bound(kernel, X, Y, Z, alpha), 1, kernel, session.seed)
            kernel = detached(kernel.with_theta(found.theta))
        if self.learn_inducing:
            kernel, Z = self._move_points(kernel, X, Y, Z, alpha)
        self._keep_inducing(kernel, optimal_inducing(kernel, X, Y, Z, alpha))
        with torch.no_grad():
            self.log_marginal_likelihood_value_ = float(collapsed_bound(kernel, X, Y, Z, alpha))
        self.n_iter_ = max(found.evaluations.values())
        self.evaluations_ = {len(X): self.n_iter_}
        self._note(len(X))

    def _bound(self, kernel: Kernel, X: Tensor, Y: Tensor, Z: Tensor, alpha: float) -> Level:
        """The collapsed bound of all rows, whatever the level."""

        def objective(theta: Tensor) -> tuple[float, Tensor]:
            with torch.enable_grad():
                leaf = theta.clone().requires_grad_()
                value = collapsed_bound(kernel.with_theta(leaf), X, Y, Z, alpha)
                (slope,) = torch.autograd.grad(value, leaf)
            return float(value.detach()), slope

        return lambda rows: objective

    def _move_points(self, kernel: Kernel, X: Tensor, Y: Tensor, Z: Tensor, alpha: float) -> tuple[Kernel, Tensor]:
        first, size = kernel.theta, Z.numel()
        free = free_entries(kernel, True if self.optimizer is None else self.fixed)

        def loss(flat: Tensor) -> Tensor:
            theta = torch.where(free, flat[size:].cpu(), first)
            return -collapsed_bound(kernel.with_theta(theta), X, Y, flat[:size].reshape(Z.shape), alpha)

        start = torch.cat([Z.reshape(-1), first.to(Z)])
        found = minimize(loss, start, tol=float(self.tol), max_iter=int(self.max_iter)).point
        theta = torch.where(free, found[size:].cpu(), first)
        return detached(kernel.with_theta(theta)), found[:size].reshape(Z.shape)

    def _fit_svgp(self, intake: Intake, session: Session) -> None:
        some = self._scaled(self._candidates(intake, session.seed), session.device, learn=True)
        alpha = float(self._alpha(1))
        kernel = self._begin(some.X, some.Y, session)
        Z = self._points(kernel, some.X, int(min(self.inducing or _INDUCING, len(some.X))))
        start = optimal_inducing(kernel, some.X, some.Y, Z, alpha)
        network = self._fit_variational(
            intake, session, kernel, start, Gaussian(), lambda b: Batch(*self._scaled(b, session.device)), alpha
        )
        self._keep_inducing(network.kernel(), network.inducing())
        self.log_marginal_likelihood_value_ = -float(self.history_[-1]["loss"]) * intake.rows
        self.evaluations_ = {}

    def _first_kernel(self, X: Tensor, Y: Tensor) -> Kernel:
        variance = float(Y.square().mean())
        kernel = kernel_of(self.kernel, X, variance, ard=self.ard, noise=True)
        check_positive_definite(kernel, X, f"{type(self).__name__}.fit")
        return kernel

    def _begin(self, X: Tensor, Y: Tensor, session: Session) -> Kernel:
        """The kernel that the exact evidence of some rows prefers."""
        kernel = self._first_kernel(X, Y)
        chosen = torch.from_numpy(np_generator(0, "begin").permutation(len(X))[:_SUBSET].copy()).to(X.device)
        alpha = float(self._alpha(1)) + 1e-10
        found = self._search(
            lambda rows: Evidence(kernel, X[chosen[:rows]], Y[chosen[:rows]], alpha).value_and_gradient,
            len(chosen),
            kernel,
            session.seed,
        )
        return detached(kernel.with_theta(found.theta))

    def _alpha(self, rows: int) -> Tensor:
        alpha = self.alpha
        if isinstance(alpha, Real) or (isinstance(alpha, Tensor) and not alpha.ndim):
            values = torch.tensor(float(alpha), dtype=torch.float64)
        else:
            values = torch.as_tensor(np.asarray(alpha, dtype=np.float64))
            if values.shape != (rows,):
                raise InvalidInput(
                    f"alpha must be a scalar or an array with one value for each of {rows} rows; it has "
                    f"shape {tuple(values.shape)}"
                )
        if not bool((values >= 0).all() & torch.isfinite(values).all()):
            raise InvalidInput(f"alpha is {alpha!r}; a noise variance is finite and not negative")
        return values

    def _check_repeated(self, kernel: Kernel, X: Tensor, noise: Tensor) -> None:
        """Refuse rows that occur twice where nothing could explain that their targets differ."""
        if float(noise.min()) > 0 or float(split_noise(kernel)[1]) > 0:
            return
        _, group, counts = torch.unique(X, dim=0, return_inverse=True, return_counts=True)
        if len(counts) < len(X):
            rows = (group == int((counts > 1).nonzero()[0])).nonzero()[:2, 0].tolist()
            raise InvalidInput(
                f"rows {rows[0]} and {rows[1]} of X are equal and there is no noise; give alpha a positive number, or "
                "add White() to the kernel"
            )
