"""What every mixture does once its components can be evaluated."""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from sklearn.base import DensityMixin
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from benthic.base.arrays import Origin
from benthic.base.capabilities import HasExactDensity, Samples
from benthic.base.settings import number, whole
from benthic.base.validation import speaking
from benthic.mixture.common import check_rows
from benthic.training.estimator import Session, TrainedEstimator
from benthic.training.intake import Intake, Prepare
from benthic.training.learner import Learner
from benthic.uses.verbs import Uses

_BATCH_BYTES = 8 << 20  # rows read at once; they are worked on in smaller blocks
_DEVICE_BYTES = 256 << 20  # the same on a GPU, where each block costs launches


class MixtureEstimator(Uses, Samples, HasExactDensity, DensityMixin, TrainedEstimator):
    """Base of mixtures fitted by EM; a subclass gives a learner and the log-densities of its components."""

    accepts_missing = True
    least_rows: ClassVar[int] = 1
    advice: ClassVar[str] = "raise max_iter or tol"
    n_components: Any

    # -- what a mixture adds ---------------------------------------------------------------------------

    @abstractmethod
    def _check_settings(self) -> None:
        """Refuse settings that make no sense."""

    @abstractmethod
    def _learner(self, intake: Intake, session: Session) -> tuple[Learner, int]:
        """The EM learner, and the numbers it works on for each row."""

    @abstractmethod
    def _keep(self, learner: Any, origin: Origin) -> None:
        """Set the learned attributes."""

    @abstractmethod
    def _log_joint(self, X: Tensor) -> Tensor:
        """log w_k + log p_k(x) of each row and component, (n, k)."""

    @abstractmethod
    def _n_parameters(self) -> int:
        """Free parameters of the fitted mixture."""

    def _prepare(self, intake: Intake) -> Prepare | None:
        """What to do with rows before they are learned from."""
        return None

    def _order(self, session: Session, numbers: int) -> dict[str, Any]:
        """How rows are dealt out: blocks in their order."""
        held = _DEVICE_BYTES if session.device.type == "cuda" else _BATCH_BYTES
        return {"batch_size": session.trainer.batch_size or max(1024, held // (8 * numbers))}

    # -- learning --------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from rows ``X`` (array, frame, path or source), NaN for missing values.

        y: ignored; for a file, the name of a column to leave out. sample_weight: how often each row counts.
        """
        with self._session(X) as session:
            with speaking(self, "fit"):
                self._check_settings()
            leave_out = y if isinstance(X, (str, Path)) else None
            intake = Intake(self, X, leave_out, sample_weight=sample_weight)
            with speaking(self, "fit"):
                check_rows(intake, self.n_components, self.least_rows)
                learner, numbers = self._learner(intake, session)
                feed = intake.feed(
                    seed=session.seed,
                    device=session.device,
                    world=session.world,
                    prepare=self._prepare(intake),
                    **self._order(session, numbers),
                )
            self._train(learner, feed, session)
        self._keep(learner, intake.origin)
        if not self.converged_:
            warnings.warn(
                f"{type(self).__name__}.fit: the best start did not converge in {self.n_iter_} steps; {self.advice}",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def _check_numbers(self, counts: Sequence[str], amounts: Sequence[str]) -> None:
        """Refuse counts below one and amounts below zero."""
        for name in counts:
            whole(name, getattr(self, name))
        for name in amounts:
            number(name, getattr(self, name), ends="[]")

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """``fit``, then the most probable component of each row."""
        return self.fit(X, y, sample_weight=sample_weight).predict(X)

    # -- components ------------------------------------------------------------------------------------

    def predict_proba(self, X: Any) -> Any:
        """Probability that each row came from each component, (n, k); gaps are integrated out."""
        tensor, origin = self._arrive(X, "predict_proba")
        return origin.mirror(torch.softmax(self._log_joint(tensor), 1))

    def predict(self, X: Any) -> Any:
        """The most probable component of each row, (n,)."""
        tensor, origin = self._arrive(X, "predict")
        return origin.mirror(self._log_joint(tensor).argmax(1))

    # -- density ---------------------------------------------------------------------------------------

    def _log_prob(self, X: Tensor) -> Tensor:
        return torch.logsumexp(self._log_joint(X), 1)

    def score_samples(self, X: Any) -> Any:
        """The same as ``log_prob``, under scikit-learn's name."""
        return self.log_prob(X)

    def bic(self, X: Any) -> float:
        """Bayesian information criterion on ``X``; lower is better."""
        values = self.log_prob(X)
        return float(-2 * values.sum() + self._n_parameters() * math.log(len(values)))

    def aic(self, X: Any) -> float:
        """Akaike information criterion on ``X``; lower is better."""
        return float(-2 * self.log_prob(X).sum() + 2 * self._n_parameters())

    def _facts(self) -> dict[str, Any]:
        return {
            "weights": ", ".join(f"{float(w):.3f}" for w in self.weights_),
            "mean log-likelihood": self.lower_bound_,
            "EM steps": f"{self.n_iter_}{'' if self.converged_ else ', not converged'}",
        }
