"""What every naive Bayes classifier does once the log-probabilities of its features are known."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from benthic.base.capabilities import Classifies, to_numpy
from benthic.base.errors import InvalidInput
from benthic.base.settings import flag
from benthic.base.validation import check_weights, speaking
from benthic.bayes.tally import Tally
from benthic.data.batch import Batch
from benthic.linear.keeping import keeping
from benthic.training.estimator import TrainedEstimator
from benthic.training.intake import Intake

_BLOCK = 1 << 21  # numbers in a block of rows
_LEAST_ALPHA = 1e-10


class _NaiveBayes(Classifies, TrainedEstimator):
    r"""Base of naive Bayes: :math:`p(c \mid x) \propto p(c) \prod_j p(x_j \mid c)`, over the features observed."""

    accepts_missing = True
    class_count_: np.ndarray
    class_log_prior_: np.ndarray

    # -- what a model adds -----------------------------------------------------------------------------

    def _check_settings(self) -> None:
        """Refuse settings that make no sense."""

    @abstractmethod
    def _tally(self, classes: int) -> Tally:
        """What sums over the rows of each class."""

    def _merge(self, old: Mapping[str, Tensor], new: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The sums of both parts of the data."""
        return {name: old[name].to(value) + value for name, value in new.items()}

    @abstractmethod
    def _finish(self, sums: Mapping[str, Tensor]) -> None:
        """Set the learned attributes from the sums."""

    @abstractmethod
    def _log_joint(self, X: Tensor) -> Tensor:
        """log p(c) + log p(x | c) of each row and class, (n, k), float64."""

    def _check_rows(self, X: Tensor) -> None:
        """Refuse values that the features' law does not have."""

    def _look(self, intake: Intake) -> None:
        """A look at the data before they are counted."""

    def _priors(self) -> Any:
        """Priors that were given, or None."""
        return None

    # -- learning --------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from rows and labels, or from a file or source: ``fit(path, 'column')``; NaN is a missing value.

        sample_weight: (n,) how often each row counts.
        """
        with self._session(X) as session:
            with speaking(self, "fit"):
                self._check_settings()
            intake = Intake(self, X, y, target="labels", sample_weight=sample_weight)
            with speaking(self, "fit"):
                if intake.classes is None:
                    raise InvalidInput("the data have no labels")
                self.classes_ = intake.classes
                self._look(intake)
                if intake.data is not None:
                    self._check_rows(intake.data.X)
                learner = self._tally(len(intake.classes))
                feed = intake.feed(
                    batch_size=session.trainer.batch_size or max(_BLOCK // intake.width, 256),
                    seed=session.seed,
                    device=session.device,
                    world=session.world,
                    prepare=self._checked if intake.data is None else None,
                )
                self._train(learner, feed, session)
                self._settle({name: value.cpu() for name, value in learner.sums.items()})
        return self

    def _checked(self, batch: Batch) -> Batch:
        self._check_rows(batch.X)
        return batch

    def partial_fit(self, X: Any, y: Any = None, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from more rows: the result is that of one ``fit`` on all rows so far.

        classes: all labels there will be, needed at the first call.
        """
        with keeping(self):
            first = not hasattr(self, "_sums")
            with speaking(self, "partial_fit"):
                self._check_settings()
                if first and classes is None:
                    raise InvalidInput("classes must be passed on the first call to partial_fit.")
            tensor, _ = self._arrive(X, "partial_fit", reset=first)
            with speaking(self, "partial_fit"):
                known = np.unique(np.asarray(to_numpy(classes))) if classes is not None else self.classes_
                if not first and not np.array_equal(known, self.classes_):
                    raise InvalidInput(f"classes is {known.tolist()}, but the first call had {self.classes_.tolist()}")
                batch = Batch(
                    tensor, _codes(y, known, len(tensor)).to(tensor.device), check_weights(sample_weight, tensor)
                )
                self.classes_ = known
                if first:
                    self._look_at(batch)
                self._check_rows(tensor)
                new = {name: value.cpu() for name, value in self._tally(len(known)).run(batch).items()}
                old = {} if first else {name: torch.as_tensor(value) for name, value in self._sums.items()}
                self._settle(new if first else self._merge(old, new))
        return self

    def _look_at(self, batch: Batch) -> None:
        """A look at the first rows of ``partial_fit``."""

    def _settle(self, sums: dict[str, Tensor]) -> None:
        self._sums = {name: value.numpy() for name, value in sums.items()}
        weight = sums["class"]
        self.class_count_ = weight.numpy().copy()
        given = self._priors()
        prior = weight / weight.sum() if given is None else self._given(given, len(weight))
        self.class_log_prior_ = prior.log().numpy()
        self._finish(sums)

    def _given(self, given: Any, k: int) -> Tensor:
        prior = torch.as_tensor(np.asarray(to_numpy(given), dtype=np.float64))
        if prior.shape != (k,):
            raise InvalidInput(f"there are {prior.numel()} priors for {k} classes; the numbers must be the same")
        if bool((prior < 0).any()) or abs(float(prior.sum()) - 1.0) > 1e-8:
            raise InvalidInput(f"priors are {prior.tolist()}; they must be >= 0 and sum to 1")
        return prior

    # -- answers -----------------------------------------------------------------------------------------

    def _probabilities(self, X: Tensor) -> Tensor:
        self._check_rows(X)
        return torch.softmax(_relative(self._log_joint(X), X), 1)

    def predict_log_proba(self, X: Any) -> Any:
        """Logarithm of the probability of each class, (n, k)."""
        tensor, origin = self._arrive(X, "predict_log_proba")
        self._check_rows(tensor)
        return origin.mirror(torch.log_softmax(_relative(self._log_joint(tensor), tensor), 1))

    def predict_joint_log_proba(self, X: Any) -> Any:
        """Logarithm of the probability (density) of each row and class together, (n, k)."""
        tensor, origin = self._arrive(X, "predict_joint_log_proba")
        self._check_rows(tensor)
        return origin.mirror(self._log_joint(tensor))

    # -- words -------------------------------------------------------------------------------------------

    def _names(self, width: int) -> list[str]:
        names = getattr(getattr(self, "schema_", None), "encoded_names", None)
        if names is None or len(names) != width:
            names = getattr(self, "feature_names_in_", None)
        return [str(name) for name in (range(width) if names is None or len(names) != width else names)]

    def _facts(self) -> dict[str, Any]:
        prior = np.exp(self.class_log_prior_)
        shown = [f"{label} {share:.3f}" for label, share in zip(self.classes_, prior, strict=True)][:12]
        return {"classes": len(self.classes_), "priors": ", ".join(shown), "rows": f"{self.class_count_.sum():g}"}


class _CountingBayes(_NaiveBayes):
    """Base of naive Bayes with counts, smoothed by ``alpha`` more of each."""

    alpha: Any
    fit_prior: bool
    class_prior: Any
    feature_log_prob_: Any

    def _priors(self) -> Any:
        if self.class_prior is not None:
            return self.class_prior
        return None if self.fit_prior else np.full(len(self.classes_), 1 / len(self.classes_))

    def _check_settings(self) -> None:
        flag("fit_prior", self.fit_prior)
        alpha = np.asarray(self.alpha)
        if alpha.dtype.kind not in "iuf" or alpha.ndim > 1 or not (alpha >= 0).all() or not np.isfinite(alpha).all():
            raise InvalidInput(f"alpha is {self.alpha!r}; it must be a number >= 0, or one for each feature")

    def _smoothing(self, width: int) -> Tensor:
        alpha = torch.as_tensor(np.atleast_1d(np.asarray(self.alpha, dtype=np.float64)))
        if len(alpha) not in (1, width):
            raise InvalidInput(f"alpha has {len(alpha)} numbers for {width} features; give one, or one for each")
        return alpha.clamp(min=_LEAST_ALPHA).expand(width)

    def _table(self, name: str, X: Tensor) -> Tensor:
        return torch.as_tensor(getattr(self, name)).to(X.device, torch.float64)

    def _map(self, ax: Any, what: str) -> Any:
        from benthic.bayes.picture import plot_table

        check_is_fitted(self)
        table = self.feature_log_prob_
        return plot_table(table, self._names(table.shape[1]), [str(c) for c in self.classes_], what, ax)


def _relative(joint: Tensor, X: Tensor) -> Tensor:
    """Log-probabilities less those of the best class, in the type of ``X``."""
    return (joint - joint.amax(1, keepdim=True)).to(X.dtype)


def _codes(y: Any, classes: np.ndarray, n: int) -> Tensor:
    """Labels as positions among known classes."""
    if y is None:
        raise InvalidInput("requires y to be passed, but the target y is None")
    labels = np.asarray(to_numpy(y))
    if labels.shape != (n,):
        raise InvalidInput(f"Found input variables with inconsistent numbers of samples: [{n}, {len(labels)}]")
    unknown = ~np.isin(labels, classes)
    if unknown.any():
        raise InvalidInput(
            f"y has the label {labels[unknown].tolist()[0]!r}, which is not among the classes {classes.tolist()}"
        )
    return torch.from_numpy(np.searchsorted(classes, labels))
