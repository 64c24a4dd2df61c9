"""Principal component analysis, with the Gaussian law that belongs to it."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from benthic.base.capabilities import Encodes, HasExactDensity, Samples, to_numpy
from benthic.base.errors import InvalidInput
from benthic.base.seeds import generator
from benthic.base.settings import is_number, is_whole, one_of
from benthic.base.validation import speaking
from benthic.linear.moments import Moments, Summing
from benthic.manifold.picture import draw_spectrum
from benthic.manifold.spectrum import SOLVERS, Spectrum, choose_solver, of_scatter, spectrum
from benthic.mixture import density
from benthic.mixture.gaussian import GaussianMixture
from benthic.mixture.parameters import Gaussians
from benthic.training.estimator import Session, TrainedEstimator
from benthic.training.intake import Intake
from benthic.uses.verbs import Uses, conditions

_FLOOR = 1e-10  # of the largest variance: the least variance of any direction in the density


class PCA(Uses, Samples, HasExactDensity, Encodes, TrainedEstimator):
    r"""Orthogonal directions of largest variance, and the Gaussian they are the best model of.

    .. math:: z = V (x - \mu), \qquad x \sim N\bigl(\mu,\; V^T (\Lambda - \sigma^2 I) V + \sigma^2 I\bigr)

    Rows are centered; each direction is orthogonal to those before it. The density is probabilistic PCA's (Tipping &
    Bishop, 1999) with σ² the mean variance of the directions left out, so ``log_prob``, ``sample`` and ``impute``
    come with it. The optimum of a linear autoencoder spans the same space.

    n_components: how many directions, the share of variance to keep (between 0 and 1), or None for all.
    whiten: give each direction unit variance. svd_solver: ``"covariance"`` (eigenvectors, quickest for many rows),
    ``"full"``, ``"randomized"`` (a sketch, for few directions of a large table) or ``"auto"``. trainer: device and
    block rows. Missing values are integrated out by EM. Files and sources are summed up block by block, and
    ``partial_fit`` adds rows.

    Learned: ``components_`` (k, d), ``explained_variance_``, ``explained_variance_ratio_``, ``singular_values_``,
    ``mean_``, ``noise_variance_``, ``n_components_``.

    >>> import numpy as np
    >>> X = np.array([[0.0, 0.0], [1.0, 1.1], [2.0, 1.9], [3.0, 3.0]])
    >>> model = PCA(1).fit(X)
    >>> model.explained_variance_ratio_.round(3), model.impute([[1.5, np.nan]]).round(2)
    (array([0.999]), array([[1.5, 1.5]]))
    """

    accepts_missing = True

    def __init__(
        self,
        n_components: int | float | None = None,
        *,
        whiten: bool = False,
        svd_solver: str = "auto",
        random_state: Any = None,
        trainer: Any = None,
    ) -> None:
        self.n_components = n_components
        self.whiten = whiten
        self.svd_solver = svd_solver
        self.random_state = random_state
        self.trainer = trainer

    # -- learning ------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the directions of rows ``X`` (array, frame, path or source), NaN for missing values.

        y: ignored; for a file, the name of a column to leave out.
        """
        with speaking(self, "fit"):
            self._check_settings()
        with self._session(X) as session:
            intake = Intake(self, X, y if isinstance(X, (str, Path)) else None)
            with speaking(self, "fit"):
                self._check_size(intake.rows, intake.width)
            found = self._found(intake, session)
            self._keep(found, intake.origin)
        return self

    def _found(self, intake: Intake, session: Session) -> Spectrum:
        self.__dict__.pop("moments_", None)
        if intake.data is None:
            learner = Summing(intake.width)
            size = session.trainer.batch_size or 1 << 16
            feed = intake.feed(batch_size=size, seed=session.seed, device=session.device, world=session.world)
            self._train(learner, feed, session)
            return self._of_moments(learner.moments)
        X = intake.data.X.to(session.device)
        solver = self.svd_solver
        if solver == "auto":
            solver = choose_solver(*X.shape, self.n_components)
        count = int(self.n_components) if is_whole(self.n_components) else None
        found = spectrum(X, solver, count, session.seed)
        return self._with_gaps(X) if found is None else found

    def _with_gaps(self, X: Tensor) -> Spectrum:
        """Mean and covariance of rows with gaps by EM."""
        model = GaussianMixture(1, reg_covar=0.0, tol=1e-7, max_iter=1000, random_state=0).fit(X.double().cpu())
        return of_scatter(model.means_[0].double(), model.covariances_[0].double() * len(X), float(len(X)))

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Add rows to those learned from before; needs complete rows."""
        with speaking(self, "partial_fit"):
            self._check_settings()
        if not hasattr(self, "moments_"):
            tensor, origin = self._arrive(X, "partial_fit", reset=True, missing=False)
            moments = Moments.of(tensor)
        else:
            tensor, origin = self._arrive(X, "partial_fit", missing=False)
            moments = Moments.from_tree(self.moments_).merge(Moments.of(tensor))
        with speaking(self, "partial_fit"):
            self._check_size(int(moments.weight), tensor.shape[1])
        self._keep(self._of_moments(moments), origin)
        return self

    def _of_moments(self, moments: Moments) -> Spectrum:
        self.moments_ = moments.to_tree()
        return of_scatter(moments.mean.cpu(), moments.scatter.cpu(), moments.weight)

    def _keep(self, found: Spectrum, origin: Any) -> None:
        """Set the learned attributes: arrays for arrays, tensors for tensors."""
        k = self._count(found)
        origin = replace(origin, dtype=origin.dtype if origin.dtype == "float64" else "float32", index=None)
        d, left = len(found.mean), found.total - float(found.variances[:k].sum())
        self.n_components_ = self._n_features_out = k
        self.n_samples_ = found.weight
        self.noise_variance_ = max(left, 0.0) / (d - k) if d > k else 0.0
        ratio = found.variances[:k] / max(found.total, math.ulp(0.0))
        self.components_ = origin.mirror(found.directions[:k].cpu())
        self.mean_ = origin.mirror(found.mean.cpu())
        self.explained_variance_ = origin.mirror(found.variances[:k].cpu())
        self.explained_variance_ratio_ = origin.mirror(ratio.cpu())
        self.singular_values_ = origin.mirror((found.variances[:k] * max(found.weight - 1, 1.0)).sqrt().cpu())

    def _count(self, found: Spectrum) -> int:
        available = len(found.variances)
        if self.n_components is None:
            return available
        if not is_whole(self.n_components):
            share = torch.cumsum(found.variances, 0) / max(found.total, math.ulp(0.0))
            return min(int((share < self.n_components - 1e-12).sum()) + 1, available)
        return min(int(self.n_components), available)

    # -- settings ------------------------------------------------------------------------------------------

    def _check_settings(self) -> None:
        wanted: Any = self.n_components
        whole = is_whole(wanted, 1)
        share = is_number(wanted) and 0 < wanted < 1
        if wanted is not None and not whole and not share:
            raise InvalidInput(
                f"n_components is {wanted!r}; give a whole number of at least 1, a share of variance between 0 and 1, "
                "or None"
            )
        one_of("svd_solver", self.svd_solver, SOLVERS)
        if self.svd_solver == "randomized" and not whole:
            raise InvalidInput("svd_solver 'randomized' needs a whole number of components")

    def _check_size(self, n: int | None, d: int) -> None:
        most = d if n is None else min(n, d)
        if is_whole(self.n_components) and self.n_components > most:
            raise InvalidInput(
                f"n_components={self.n_components} must be between 1 and min(n_samples, n_features)={most}"
            )

    # -- codes ---------------------------------------------------------------------------------------------

    def _parts(self, like: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Directions, mean and the scale of codes, beside rows."""
        names = (self.components_, self.mean_, self.explained_variance_)
        directions, mean, variances = (torch.as_tensor(part).to(like) for part in names)
        scale = variances.sqrt().clamp(min=torch.finfo(like.dtype).tiny ** 0.5) if self.whiten else None
        return directions, mean, torch.ones_like(variances) if scale is None else scale

    def _encode(self, X: Tensor) -> Tensor:
        wide = X if X.dtype == torch.float64 else X.float()
        if bool(torch.isnan(wide.sum())):
            wide = torch.where(torch.isnan(wide), self._impute(wide).to(wide), wide)
        directions, mean, scale = self._parts(wide)
        return ((wide - mean) @ directions.T / scale).to(X.dtype)

    def _decode(self, Z: Tensor) -> Tensor:
        wide = Z if Z.dtype == torch.float64 else Z.float()
        directions, mean, scale = self._parts(wide)
        return ((wide * scale) @ directions + mean).to(Z.dtype)

    # -- density -------------------------------------------------------------------------------------------

    def get_covariance(self) -> Any:
        """The covariance of the Gaussian model, (d, d)."""
        check_is_fitted(self)
        law = self._law("cpu")
        return self._fit_origin.mirror(law.root[0] @ law.root[0].T)

    def _law(self, device: torch.device | str) -> Gaussians:
        """The Gaussian, in float64; directions without any variance are given a very small one."""
        directions, mean, variances = (
            torch.as_tensor(part).to(device, torch.float64)
            for part in (self.components_, self.mean_, self.explained_variance_)
        )
        largest = float(variances.max()) if len(variances) else 0.0
        least = max(_FLOOR * largest, 1e-300 if largest else 1e-12)
        noise = max(self.noise_variance_, least)
        excess = (variances.clamp(min=least) - noise).clamp(min=0.0)
        covariance = (directions.T * excess) @ directions
        covariance += noise * torch.eye(len(mean), dtype=torch.float64, device=device)
        one = torch.ones(1, dtype=torch.float64, device=device)
        return Gaussians.of_covariances("full", one, mean[None], covariance[None])

    def _log_prob(self, X: Tensor) -> Tensor:
        return density.log_joint(self._law(X.device), X)[:, 0]

    def score_samples(self, X: Any) -> Any:
        """The same as ``log_prob``, under scikit-learn's name."""
        return self.log_prob(X)

    def sample(self, n: int = 1, *, given: Any = None, seed: Any = None) -> Any:
        """``n`` new rows; given: rows with NaN (one or ``n``) whose gaps are drawn given the rest, exactly."""
        self._check_draws(n)
        noise = generator(self._sampling_seed(seed), "sample")
        if given is None:
            return self._data_out(density.draw(self._law("cpu"), n, noise))
        known, origin = self._arrive(given, "sample")
        with speaking(self, "sample"):
            known = conditions(known, n)
        drawn = density.draw_given(self._law(known.device), known, noise)
        return self._data_out(drawn, replace(origin, index=None))  # new rows have no labels

    def _impute(self, X: Tensor) -> Tensor:
        return density.expectations(self._law(X.device), X)

    # -- words and pictures --------------------------------------------------------------------------------

    def _facts(self) -> dict[str, Any]:
        kept = float(np.sum(to_numpy(self.explained_variance_ratio_)))
        return {"components": self.n_components_, "variance kept": f"{100 * kept:.2f} %", "noise": self.noise_variance_}

    def plot(self, X: Any = None) -> Any:
        """The share of variance of each direction, and rows ``X`` in the plane of the first two if given."""
        check_is_fitted(self)
        codes = None if X is None else to_numpy(self.transform(X))
        return draw_spectrum(to_numpy(self.explained_variance_ratio_), None if codes is None else np.asarray(codes))
