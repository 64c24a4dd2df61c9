"""Exact Gaussian-process regression in float64, from one start: beside scikit-learn and GPyTorch's Cholesky."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from scipy.linalg import cho_solve, cholesky

from benchmarks.harness import alternate
from benchmarks.report import Claim, Result, exact

TITLE = "GaussianProcessRegressor exact, n=2000 d=8, RBF and noise from one start, no restarts"


def problem(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """A smooth function of some of the columns with noise."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(n, d))
    f = np.sin(1.5 * X[:, 0]) + np.cos(X[:, 1] + X[:, 2]) + 0.5 * np.sin(2 * X[:, 3]) * X[:, 4]
    y = f + 0.2 * rng.normal(size=n)
    return X, y - y.mean()


def evidence(X: np.ndarray, y: np.ndarray, variance: float, scale: float, noise: float) -> float:
    """The log marginal likelihood by one function for all candidates."""
    squares = (X**2).sum(1)
    D = np.maximum(squares[:, None] + squares - 2 * X @ X.T, 0)
    L = cholesky(variance * np.exp(-0.5 * D / scale**2) + noise * np.eye(len(X)), lower=True)
    alpha = cho_solve((L, True), y)
    return float(-0.5 * y @ alpha - np.log(np.diag(L)).sum() - 0.5 * len(X) * np.log(2 * np.pi))


def fit_benthic(X: np.ndarray, y: np.ndarray) -> tuple[float, float, float]:
    """Ours; variance, length scale and noise at the end."""
    import benthic
    from benthic.kernels import RBF, White

    model = benthic.GaussianProcessRegressor(1.0 * RBF(1.0) + White(0.1), method="exact").fit(X, y)
    variance, scale, noise = model.kernel_.theta.exp().tolist()
    return variance, scale, noise


def fit_sklearn(X: np.ndarray, y: np.ndarray) -> tuple[float, float, float]:
    """scikit-learn's, with its L-BFGS-B."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = GaussianProcessRegressor(ConstantKernel(1.0) * RBF(1.0) + WhiteKernel(0.1)).fit(X, y)
    variance, scale, noise = np.exp(model.kernel_.theta)
    return float(variance), float(scale), float(noise)


def gpytorch_model(X: torch.Tensor, y: torch.Tensor) -> tuple[Any, Any]:
    """GPyTorch's exact model with the same kernel and start, in the type and place of X."""
    import gpytorch

    class Model(gpytorch.models.ExactGP):
        def __init__(self, likelihood: Any) -> None:
            super().__init__(X, y, likelihood)
            self.mean = gpytorch.means.ZeroMean()
            self.kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, rows: torch.Tensor) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean(rows), self.kernel(rows))

    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = Model(likelihood).to(X)
    model.kernel.outputscale, model.kernel.base_kernel.lengthscale, likelihood.noise = 1.0, 1.0, 0.1
    return model, likelihood


def fit_gpytorch(X: torch.Tensor, y: torch.Tensor, ftol: float = 2.2e-9) -> tuple[float, float, float]:
    """GPyTorch with dense Cholesky factors and SciPy's L-BFGS-B on its gradients, stopped as scikit-learn stops."""
    import gpytorch
    from scipy.optimize import minimize

    model, likelihood = gpytorch_model(X, y)
    model.train()
    likelihood.train()
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    parameters = list(model.parameters())

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        with torch.no_grad():
            for parameter, value in zip(parameters, flat, strict=True):
                parameter.fill_(float(value))
        model.zero_grad()
        value = -objective(model(X), y) * len(X)
        value.backward()
        return float(value.detach()), np.array([float(p.grad) for p in parameters])

    start = np.array([float(p.detach()) for p in parameters])
    with (
        gpytorch.settings.fast_computations(covar_root_decomposition=False, log_prob=False, solves=False),
        gpytorch.settings.cholesky_max_tries(6),
        gpytorch.settings.max_cholesky_size(10**9),
    ):
        found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"ftol": ftol})
    with torch.no_grad():
        for parameter, value in zip(parameters, found.x, strict=True):
            parameter.fill_(float(value))
    kernel = model.kernel
    return kernel.outputscale.item(), kernel.base_kernel.lengthscale.item(), likelihood.noise.item()


def run(quick: bool = False) -> Result:
    """Measure the three in turn; the evidence of what they found is computed once, after the clock has stopped."""
    n, d, repeats = (300, 5, 2) if quick else (2000, 8, 5)
    X, y = problem(n, d)
    rows, targets = torch.from_numpy(X), torch.from_numpy(y)
    found: dict[str, tuple[float, float, float]] = {}
    fits = {
        "benthic": lambda: fit_benthic(X, y),
        "scikit-learn": lambda: fit_sklearn(X, y),
        "gpytorch": lambda: fit_gpytorch(rows, targets),
    }
    timings = alternate(
        {name: lambda name=name, fit=fit: found.update({name: fit()}) for name, fit in fits.items()}, repeats=repeats
    )
    for name, parameters in found.items():
        timings.quality[name]["log marginal likelihood"] = evidence(X, y, *parameters)
    value = {name: quality["log marginal likelihood"] for name, quality in timings.quality.items()}
    best = max(value["scikit-learn"], value["gpytorch"])
    behind = max(best - value["benthic"], 0.0)
    claims = [
        Claim("scikit-learn / benthic", timings.ratio("scikit-learn", "benthic"), ">=", 2.5, "x"),
        Claim("gpytorch / benthic", timings.ratio("gpytorch", "benthic"), ">=", 1.0, "x"),
        Claim("nats behind the better peer, relative", exact(behind / abs(best)), "<=", 1e-4),
    ]
    settings = {"n": n, "d": d, "threads": torch.get_num_threads()}
    return Result("gaussian_process", TITLE, claims, timings, settings)
