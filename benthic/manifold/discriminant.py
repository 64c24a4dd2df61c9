"""Linear discriminant analysis: classes as Gaussians with one covariance, and the directions that part them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from benthic.base.capabilities import Classifies, to_numpy
from benthic.base.errors import InvalidInput
from benthic.base.settings import is_number, whole
from benthic.base.validation import speaking
from benthic.data.batch import Batch
from benthic.linalg.scatter import scatter_matrix
from benthic.manifold.picture import draw_plane
from benthic.training.estimator import TrainedEstimator
from benthic.training.intake import Intake
from benthic.training.learner import Again, Info, Learner, Stats, total_weight

_BLOCK = 1 << 16
_EPS = torch.finfo(torch.float64).eps
_RANK = 1e-5  # of the largest standard deviation: below it a direction within classes counts as empty


class ClassSums(Learner):
    """Weights and means of classes in one pass, their common scatter about the means in a second."""

    scope: ClassVar[Literal["batch", "pass"]] = "pass"
    phases = ("look", "sum")

    def __init__(self, classes: int, width: int, noise: bool = False) -> None:
        self.noise = noise  # whether the shrinkage is to be found from how much the products of gaps vary
        self.weights = torch.zeros(classes, dtype=torch.float64)
        self.means = torch.zeros(classes, width, dtype=torch.float64)
        self.scatter = torch.zeros(width, width, dtype=torch.float64)
        self.fourth = torch.zeros(width, width, dtype=torch.float64)  # scatter of the squared gaps, for the shrinkage

    def statistics(self, batch: Batch, phase: str, scale: float) -> Stats:
        """Sums over one block."""
        if batch.y is None:
            raise InvalidInput("LinearDiscriminantAnalysis learns from labels; give y")
        X, label = batch.X.double(), batch.y.long().to(batch.X.device)
        w = X.new_ones(len(X)) if batch.weight is None else batch.weight.double()
        if phase == "look":
            weights = torch.zeros(len(self.weights), dtype=torch.float64, device=X.device).index_add_(0, label, w)
            sums = torch.zeros(self.means.shape, dtype=torch.float64, device=X.device).index_add_(
                0, label, X * w[:, None]
            )
            return Stats(total_weight(batch), {"weights": weights, "sums": sums})
        gaps = X - self.means.to(X.device)[label]
        scatter = scatter_matrix(gaps, None, batch.weight)
        fourth = scatter_matrix(gaps.square(), None, batch.weight) if self.noise else torch.zeros_like(scatter)
        return Stats(total_weight(batch), {"scatter": scatter, "fourth": fourth})

    def update(self, stats: Stats, phase: str, again: Again) -> Info:
        """Keep the sums."""
        if phase == "look":
            self.weights = stats["weights"].cpu()
            self.means = stats["sums"].cpu() / self.weights.clamp(min=math.ulp(0.0))[:, None]
            return Info(0.0)
        self.scatter, self.fourth = stats["scatter"].cpu(), stats["fourth"].cpu()
        return Info(0.0, done=True)

    def state_dict(self) -> dict[str, Any]:
        """All sums."""
        return {"weights": self.weights, "means": self.means, "scatter": self.scatter, "fourth": self.fourth}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of ``state_dict``."""
        self.weights, self.means, self.scatter = state["weights"], state["means"], state["scatter"]
        self.fourth = state["fourth"]


class LinearDiscriminantAnalysis(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Classifies, TrainedEstimator):
    r"""Classes as Gaussians that share a covariance; the boundary between two of them is linear.

    .. math:: \log p(k \mid x) = \mu_k^T \Sigma^{-1} x - \tfrac12 \mu_k^T \Sigma^{-1} \mu_k + \log \pi_k + \text{const}

    Fisher, 1936; Rao, 1948. ``transform`` projects on the directions in which class means lie far apart compared
    with the spread within classes, at most one less than there are classes.

    n_components: directions that ``transform`` gives, all if None. priors: (k,) class probabilities, the shares in
    the data if None. shrinkage: how much of the covariance is replaced by its mean variance times the identity, from
    0 to 1; ``"auto"`` is Ledoit & Wolf's (2004) best for the sample, found and used on columns of unit variance; None
    is 0. trainer: device and block rows. Files and sources are read twice.

    Learned: ``coef_`` (k, d; one row for two classes), ``intercept_``, ``means_`` (k, d), ``priors_``,
    ``covariance_`` (d, d), ``scalings_`` (d, m), ``xbar_``, ``explained_variance_ratio_``, ``classes_``.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LinearDiscriminantAnalysis().fit(X, y)
    >>> model.transform(X).shape, round(model.score(X, y), 2)
    ((150, 2), 0.98)
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        priors: Sequence[float] | None = None,
        shrinkage: float | str | None = None,
        trainer: Any = None,
    ) -> None:
        self.n_components = n_components
        self.priors = priors
        self.shrinkage = shrinkage
        self.trainer = trainer

    random_state = None

    # -- learning ------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from rows and labels, or from a file or source: ``fit(path, 'column')``.

        sample_weight: how often each row counts.
        """
        with speaking(self, "fit"):
            self._check_settings()
        with self._session(X) as session:
            intake = Intake(self, X, y, target="labels", sample_weight=sample_weight)
            if intake.classes is None:
                raise self._fail("fit", "labels are needed")
            learner = ClassSums(len(intake.classes), intake.width, self.shrinkage == "auto")
            size = session.trainer.batch_size or _BLOCK
            feed = intake.feed(batch_size=size, seed=session.seed, device=session.device, world=session.world)
            self._train(learner, feed, session)
            with speaking(self, "fit"):
                self._solve(learner, intake)
        return self

    def _solve(self, sums: ClassSums, intake: Intake) -> None:
        classes = np.asarray(intake.classes)
        weights, means = sums.weights, sums.means
        present = weights > 0
        if int(present.sum()) < 2:
            raise InvalidInput("y has one class of positive weight only; at least 2 are needed")
        classes, weights, means = classes[present.numpy()], weights[present], means[present]
        total, k = float(weights.sum()), len(classes)
        if total <= k:
            raise InvalidInput(
                f"The number of samples must be more than the number of classes, but there are {total:g} and {k}"
            )
        priors = self._priors(weights / total, k)
        floor = total * _EPS * means.abs().amax(0)  # what rounding leaves of the spread of a constant column
        varies = (sums.scatter.diagonal() / total).sqrt() > floor
        if not bool(varies.any()) and bool((means.amax(0) - means.amin(0) > floor).any()):
            raise InvalidInput("no column varies within a class, so there is no spread to measure distances by")
        covariance = self._shrunk(sums, total, varies)
        mean = priors @ means
        white = _whitener(covariance)  # (d, r)
        spread = (priors * total / max(k - 1, 1)).sqrt()[:, None] * (means - mean) @ white
        _, singular, directions = torch.linalg.svd(spread, full_matrices=False)
        rank = min(int((singular > 1e-10 * singular[:1]).sum()), k - 1)
        self._keep(intake, classes, priors, means, covariance, mean, white @ directions[:rank].T, singular[:rank])

    def _keep(self, intake: Intake, classes: Any, priors: Tensor, means: Tensor, *found: Tensor) -> None:
        covariance, mean, scalings, singular = found
        origin = replace(intake.origin, dtype=intake.origin.dtype if intake.origin.dtype == "float64" else "float32")
        most = min(len(classes) - 1, intake.width)
        asked = most if self.n_components is None else self.n_components
        if asked > most:
            raise InvalidInput(f"n_components={asked} cannot be larger than min(n_features, n_classes - 1) = {most}")
        codes = (means - mean) @ scalings  # (k, r)
        coef = codes @ scalings.T
        intercept = priors.log() - 0.5 * codes.square().sum(1) - coef @ mean
        if len(classes) == 2:
            coef, intercept = coef[1:] - coef[:1], intercept[1:] - intercept[:1]
        share = singular.square() / max(float(singular.square().sum()), math.ulp(0.0))
        self.classes_ = classes
        self._n_features_out = min(asked, scalings.shape[1]) or 1
        kept = {
            "coef_": coef,
            "intercept_": intercept,
            "priors_": priors,
            "means_": means,
            "covariance_": covariance,
            "scalings_": scalings if scalings.shape[1] else torch.zeros(len(mean), 1, dtype=torch.float64),
            "xbar_": mean,
            "explained_variance_ratio_": share[:asked],
        }
        for name, value in kept.items():
            setattr(self, name, origin.mirror(value.contiguous()))

    def _priors(self, shares: Tensor, k: int) -> Tensor:
        if self.priors is None:
            return shares
        priors = torch.as_tensor(np.asarray(self.priors, dtype=np.float64))
        if priors.shape != (k,) or bool((priors < 0).any()) or abs(float(priors.sum()) - 1) > 1e-5:
            raise InvalidInput(f"priors must be {k} numbers of at least 0 that sum to 1, but are {self.priors!r}")
        return priors.clamp(min=math.ulp(0.0))

    def _shrunk(self, sums: ClassSums, total: float, varies: Tensor) -> Tensor:
        """The covariance within classes, drawn towards a multiple of the identity; constant columns have none.

        Ledoit and Wolf's share is found, and used, on columns scaled to unit variance, so that no unit decides.
        """
        covariance = sums.scatter / total * torch.outer(varies, varies)
        if self.shrinkage is None or self.shrinkage == 0:
            return covariance
        variances = covariance.diagonal()
        target = torch.diag(variances)
        share = self.shrinkage
        if share == "auto":
            units = torch.where(varies, 1 / variances, 0.0)
            square = float(units @ covariance.square() @ units)
            apart = square - int(varies.sum())  # d times the squared distance to the target
            noise = (float(units @ sums.fourth @ units) / total - square) / total
            share = min(max(noise, 0.0), apart) / apart if apart > 0 else 0.0
        else:
            target = torch.eye(len(variances), dtype=torch.float64) * variances.mean()
        self.shrinkage_ = float(share)
        return (1 - self.shrinkage_) * covariance + self.shrinkage_ * target

    def _check_settings(self) -> None:
        whole("n_components", self.n_components, optional=True)
        share = self.shrinkage
        if share not in (None, "auto") and not (is_number(share) and 0 <= share <= 1):
            raise InvalidInput(f"shrinkage is {share!r}; use None, 'auto' or a number from 0 to 1")

    # -- use -----------------------------------------------------------------------------------------------

    def _scores(self, X: Tensor) -> Tensor:
        """log p(k | x) up to what all classes share, (n, k), or of the second class over the first, (n, 1)."""
        wide = X if X.dtype == torch.float64 else X.float()
        coef, intercept = (torch.as_tensor(part).to(wide) for part in (self.coef_, self.intercept_))
        return wide @ coef.T + intercept

    def _probabilities(self, X: Tensor) -> Tensor:
        found = self._scores(X)
        if found.shape[1] == 1:
            found = torch.cat([torch.zeros_like(found), found], 1)
        return torch.softmax(found, 1).to(X.dtype)

    def decision_function(self, X: Any) -> Any:
        """Log-odds of the second of two classes, (n,), or unnormalized log-probabilities of all, (n, k)."""
        tensor, origin = self._arrive(X, "decision_function")
        found = self._scores(tensor)
        return origin.mirror(found[:, 0] if found.shape[1] == 1 else found)

    def transform(self, X: Any) -> Any:
        """Rows in the directions that part the classes, (n, m); the spread within classes there is one."""
        tensor, origin = self._arrive(X, "transform")
        wide = tensor if tensor.dtype == torch.float64 else tensor.float()
        scalings, mean = (torch.as_tensor(part).to(wide) for part in (self.scalings_, self.xbar_))
        return origin.mirror((wide - mean) @ scalings[:, : self._n_features_out])

    # -- words and pictures --------------------------------------------------------------------------------

    def _facts(self) -> dict[str, Any]:
        shares = to_numpy(self.explained_variance_ratio_)
        shown = ", ".join(f"{100 * share:.1f} %" for share in shares[:4])
        return {"classes": len(self.classes_), "separation by direction": shown}

    def plot(self, X: Any = None, y: Any = None) -> Any:
        """Rows ``X`` in the first two directions by label ``y`` (or by predicted class); class means without rows."""
        check_is_fitted(self)
        if X is None:
            X, y = self.means_, self.classes_
        labels = to_numpy(self.predict(X) if y is None else y)
        return draw_plane(np.asarray(to_numpy(self.transform(X))), np.asarray(labels), "discriminant directions")


def _whitener(covariance: Tensor) -> Tensor:
    """A with AᵀΣA = I on the space where Σ is not empty, (d, r)."""
    scale = covariance.diagonal().clamp(min=0).sqrt()
    scale = torch.where(scale > 0, scale, 1.0)
    values, vectors = torch.linalg.eigh(covariance / torch.outer(scale, scale))
    kept = values > (_RANK**2) * max(float(values[-1]), 0.0)
    return (vectors[:, kept] / values[kept].sqrt()) / scale[:, None]
