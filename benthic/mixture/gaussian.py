"""The mixture of Gaussians."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from benthic.base.arrays import Origin
from benthic.base.capabilities import to_numpy
from benthic.base.errors import InvalidInput, nearest
from benthic.base.seeds import generator, np_generator
from benthic.base.validation import speaking
from benthic.data.batch import Batch
from benthic.mixture import density
from benthic.mixture.common import Restarts, column_names
from benthic.mixture.em import EM, Start
from benthic.mixture.estimator import MixtureEstimator
from benthic.mixture.maximization import Floor
from benthic.mixture.parameters import Gaussians, check_kind, covariance_shape
from benthic.mixture.picture import draw_mixture
from benthic.mixture.start import ALIASES, SAMPLE_ROWS, WAYS, Columns, Plan, Starter, columns_of, read_given
from benthic.training.estimator import Session
from benthic.training.intake import Intake
from benthic.uses.verbs import conditions

_SAMPLE_BYTES = 32 << 20  # rows of a file that a start is made from


class GaussianMixture(MixtureEstimator):
    r"""Weighted sum of Gaussians, fitted by expectation maximization.

    .. math:: p(x) = \sum_k w_k\, N(x; \mu_k, C_k)

    Dempster, Laird & Rubin, 1977; missing values (NaN) by their conditional expectations and covariances
    (Ghahramani & Jordan, 1994), so that densities are those of what is observed.

    n_components: number of Gaussians. covariance_type: ``full``, ``tied`` (one for all), ``diag`` or
    ``spherical``. tol: stop when the mean log-likelihood changes by less. reg_covar: least variance in
    any direction (scikit-learn adds it to variances, which can lower the likelihood).
    max_iter: EM steps of a start. n_init: starts, of which the best is kept.
    init_params: ``kmeans++`` (seeds and a few rounds of k-means), ``kmeans`` (k-means to the end) or
    ``random`` (rows drawn at random, each as wide as the data).
    weights_init, means_init, precisions_init: parts of the start to use instead.
    warm_start: begin where the last ``fit`` ended. trainer: device, block rows (``batch_size``), checkpoint.

    Learned: ``weights_``, ``means_``, ``covariances_``, ``precisions_cholesky_`` in scikit-learn's shapes,
    ``converged_``, ``n_iter_``, ``lower_bound_`` (mean log-likelihood of the last E step), ``history_``.

    >>> import numpy as np
    >>> X = np.concatenate([np.random.default_rng(0).normal(m, 1.0, size=(200, 2)) for m in (-4, 4)])
    >>> model = GaussianMixture(2, random_state=0).fit(X)
    >>> sorted(model.means_[:, 0].round().tolist())
    [-4.0, 4.0]
    >>> model.impute([[4.0, np.nan]]).round()
    array([[4., 4.]])
    """

    least_rows = 2
    advice = "raise max_iter or tol, or try other init_params"

    def __init__(
        self,
        n_components: int = 1,
        *,
        covariance_type: str = "full",
        tol: float = 1e-3,
        reg_covar: float = 1e-6,
        max_iter: int = 100,
        n_init: int = 1,
        init_params: str = "kmeans++",
        weights_init: Any = None,
        means_init: Any = None,
        precisions_init: Any = None,
        warm_start: bool = False,
        random_state: Any = None,
        trainer: Any = None,
    ) -> None:
        self.n_components = n_components
        self.covariance_type = covariance_type
        self.tol = tol
        self.reg_covar = reg_covar
        self.max_iter = max_iter
        self.n_init = n_init
        self.init_params = init_params
        self.weights_init = weights_init
        self.means_init = means_init
        self.precisions_init = precisions_init
        self.warm_start = warm_start
        self.random_state = random_state
        self.trainer = trainer

    # -- learning --------------------------------------------------------------------------------------

    def _check_settings(self) -> None:
        check_kind(self.covariance_type)
        self._check_numbers(("n_components", "max_iter", "n_init"), ("tol", "reg_covar"))
        if self._way() not in WAYS:
            raise InvalidInput(
                f"init_params {self.init_params!r} is unknown{nearest(str(self.init_params), WAYS)}; "
                f"use {', '.join(WAYS)}"
            )

    def _way(self) -> str:
        return ALIASES.get(self.init_params, self.init_params)

    def _learner(self, intake: Intake, session: Session) -> tuple[EM, int]:
        before = self._earlier(intake.width)
        fitting = _SAMPLE_BYTES // (8 * intake.width)  # of a file, where rows may be wide
        rows = intake.data or intake.sample(min(SAMPLE_ROWS, max(fitting, 20 * self.n_components)), session.seed)
        columns = columns_of(rows.X, rows.weight)
        start, fixed = self._start(rows, columns, session.seed, before)
        restarts = Restarts(1 if fixed else self.n_init, self.tol, self.max_iter)
        if before is not None:
            restarts.objective = self.lower_bound_
        learner = EM(
            start,
            restarts,
            reg_covar=self.reg_covar,
            center=columns.mean,
            floor=Floor(columns.variance, rows.X.dtype),
            dtype=rows.X.dtype,
            device=session.device,
        )
        return learner, intake.width

    def _start(self, rows: Batch, columns: Columns, seed: int, before: Gaussians | None) -> tuple[Start, bool]:
        """The start of each restart, and whether it is always the same."""
        kind, k, d = self.covariance_type, self.n_components, rows.X.shape[1]
        if before is not None:
            return lambda restart: before, True
        given = read_given(self.weights_init, self.means_init, self.precisions_init, k=k, d=d, kind=kind)
        weights, means, precisions = given
        if weights is not None and means is not None and precisions is not None:
            start = Gaussians.of_precisions(kind, weights, means, precisions)
            return lambda restart: start, True
        plan = Plan(k, kind, self._way(), self.reg_covar, given)
        starter = Starter(rows.X, rows.weight, columns, plan)
        return lambda restart: starter(np_generator(seed, "start", restart)), False

    def _earlier(self, width: int) -> Gaussians | None:
        """What a warm start begins with: the last fit, if its shape is still the right one."""
        if not self.warm_start or not hasattr(self, "precisions_cholesky_"):
            return None
        shape = covariance_shape(self.covariance_type, self.n_components, width)
        same = (tuple(self.precisions_cholesky_.shape), len(self.means_)) == (shape, self.n_components)
        return self._mixture() if same else None

    def _keep(self, learner: EM, origin: Origin) -> None:
        """Set the learned attributes: arrays for arrays, tensors for tensors."""
        mixture, best = learner.mixture, learner.restarts.best
        dtype = torch.float64 if origin.dtype == "float64" else torch.float32

        def kept(tensor: Tensor) -> Any:
            tensor = tensor.to(dtype).contiguous()
            return tensor.to(origin.device) if origin.kind == "torch" else tensor.numpy()

        self.weights_, self.means_ = kept(mixture.weights), kept(mixture.means)
        self.covariances_ = kept(mixture.covariances)
        self.precisions_cholesky_ = kept(mixture.factor)
        self.converged_, self.n_iter_ = bool(best["converged"]), int(best["iterations"])
        self.lower_bound_ = float(best["objective"])

    # -- components ------------------------------------------------------------------------------------

    def _mixture(self, device: torch.device | str = "cpu") -> Gaussians:
        """The fitted parameters, in float64."""
        parts = (self.weights_, self.means_, self.precisions_cholesky_)
        wide = (torch.as_tensor(part).to(device, torch.float64) for part in parts)
        return Gaussians.of_factors(self.covariance_type, *wide)

    @property
    def precisions_(self) -> Any:
        """Inverses of the covariances, in the same shape."""
        factor = self.precisions_cholesky_
        return factor * factor if self.covariance_type in ("diag", "spherical") else factor @ factor.swapaxes(-1, -2)

    def _log_joint(self, X: Tensor) -> Tensor:
        return density.log_joint(self._mixture(X.device), X)

    def _n_parameters(self) -> int:
        return self._mixture().n_parameters

    def grad_log_prob(self, X: Any, t: Any = None) -> Any:
        """Gradient of the log-density with respect to each complete row (the Stein score), like ``X``."""
        tensor, origin = self._arrive(X, "grad_log_prob", missing=False)
        return origin.mirror(density.gradient(self._mixture(tensor.device), tensor))

    # -- draws -----------------------------------------------------------------------------------------

    def sample(self, n: int = 1, *, given: Any = None, seed: Any = None) -> Any:
        """``n`` new rows; given: rows with NaN (one or ``n``) whose gaps are drawn given the rest, exactly."""
        self._check_draws(n)
        noise = generator(self._sampling_seed(seed), "sample")
        if given is None:
            return self._data_out(density.draw(self._mixture(), n, noise))
        known, origin = self._arrive(given, "sample")
        with speaking(self, "sample"):
            known = conditions(known, n)
        drawn = density.draw_given(self._mixture(known.device), known, noise)
        return self._data_out(drawn, replace(origin, index=None))  # new rows have no labels

    def _impute(self, X: Tensor) -> Tensor:
        return density.expectations(self._mixture(X.device), X)

    # -- words and pictures ------------------------------------------------------------------------------

    def _facts(self) -> dict[str, Any]:
        return {
            "components": f"{self.n_components}, {self.covariance_type} covariances",
            **super()._facts(),
        }

    def plot(self, X: Any = None, *, features: tuple[int, int] = (0, 1)) -> Any:
        """The components over two columns as ellipses of one and two standard deviations.

        X: rows to show under them. features: which two encoded columns; a model of one column is drawn as
        a curve.
        """
        check_is_fitted(self)
        points = None if X is None else to_numpy(self._arrive(X, "plot")[0])
        return draw_mixture(self._mixture(), points, features, column_names(self, self.means_.shape[1]))
