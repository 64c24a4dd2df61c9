"""Logistic regression: class log-odds linear in the features."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from benthic.base.capabilities import Classifies
from benthic.base.errors import InvalidInput
from benthic.base.settings import flag, is_number, number, one_of, whole
from benthic.base.validation import speaking
from benthic.linear.class_weight import class_weighting
from benthic.linear.descent import Descent, Goal
from benthic.linear.newton import Newton
from benthic.linear.proximal import ProximalNewton
from benthic.linear.quasi_newton import QuasiNewton
from benthic.linear.scores import probabilities, scores
from benthic.training.estimator import Session, TrainedEstimator
from benthic.training.intake import Intake, Prepare
from benthic.training.trainer import Trainer

_SOLVERS: dict[str, type[Descent]] = {"newton": Newton, "lbfgs": QuasiNewton, "proximal-newton": ProximalNewton}
_NEWTON_WORK = 5e9  # multiplications in one Hessian up to which Newton's few passes are the cheaper way
_NEWTON_SIZE = 2000  # parameters up to which their Hessian is held and factored
_BLOCK = {"cpu": 1 << 18, "cuda": 1 << 25}  # numbers in a block of rows: what a cache holds, or a device keeps busy
_PENALTIES = {"l2": 0.0, "l1": 1.0}


class LogisticRegression(Classifies, TrainedEstimator):
    r"""Class probabilities from linear log-odds, with an L2, L1 or elastic-net penalty.

    .. math:: \min_{W, b} \; C \sum_i w_i \ell(y_i, W x_i + b) + \rho \|W\|_1 + \tfrac{1 - \rho}{2} \|W\|_2^2

    For two classes the log-odds of the second are :math:`+\theta^T x + b`; more classes share a softmax. The
    objective is scikit-learn's, the intercept is not penalized.

    C: inverse strength of the penalty; infinity is none. l1_ratio: ρ, 0 for L2, 1 for L1, between for elastic
    net. tol: largest entry of the (sub)gradient of the mean objective at the end; half the squared Newton
    decrement, the distance from the least value, then is below tol². class_weight: None, ``"balanced"`` or
    ``{label: weight}``. solver: ``"newton"`` (few passes, each costs n p²; p parameters) or ``"lbfgs"`` (more and
    cheaper passes, preconditioned) for L2, ``"proximal-newton"`` with L1; ``"auto"`` chooses. max_iter: most
    steps. warm_start: begin at the last solution. trainer: block size, device, checkpoints (``Trainer``).
    penalty: scikit-learn's older spelling: ``"l2"``, ``"l1"``, ``"elasticnet"`` or None; say ``l1_ratio`` or
    ``C=inf`` instead.

    coef_: (1, d) or (k, d). intercept_: (1,) or (k,). classes_: (k,). n_iter_: (1,). history_: one dict a pass.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> round(LogisticRegression().fit(X, y).score(X, y), 3)
    0.973
    """

    n_iter_: Any

    def __init__(
        self,
        *,
        C: float = 1.0,
        l1_ratio: float = 0.0,
        tol: float = 1e-4,
        fit_intercept: bool = True,
        class_weight: Mapping[Any, float] | str | None = None,
        solver: str = "auto",
        max_iter: int = 100,
        warm_start: bool = False,
        random_state: Any = None,
        trainer: Any = None,
        penalty: str | None = "deprecated",
    ) -> None:
        self.C = C
        self.l1_ratio = l1_ratio
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.solver = solver
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.random_state = random_state
        self.trainer = trainer
        self.penalty = penalty

    # -- learning --------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from rows and labels, or from a file or source: ``fit(path, 'column')``.

        sample_weight: (n,) how often each row counts.
        """
        with speaking(self, "fit"):
            C, l1_ratio = self._penalty()
            self._check_solver(l1_ratio)
            self._check_settings()
        with self._session(X) as session:
            previous = self._previous() if self.warm_start else None
            intake = Intake(self, X, y, target="labels", sample_weight=sample_weight)
            with speaking(self, "fit"):
                prepare = class_weighting(self.class_weight, intake)
                start = self._start(intake, previous)
            goal = Goal(C, l1_ratio, self.fit_intercept, self.tol, self.max_iter, _precision(intake))
            solver = self._choose(intake.rows, start, l1_ratio)
            learner = _SOLVERS[solver](start, goal)
            self._descend(learner, intake, prepare, session)
            if not learner.converged:
                self._complain(solver, learner)
            self._keep(learner, intake)
            self.solver_ = solver
        return self

    def _descend(self, learner: Descent, intake: Intake, prepare: Prepare | None, session: Session) -> None:
        budget = _BLOCK.get(session.device.type, _BLOCK["cpu"])
        rows = min(max(budget // (intake.width + 4 * len(learner.theta)), 256), 1 << 16)
        session = replace(session, trainer=Trainer.of(session.trainer, batch_size=rows))
        feed = intake.feed(
            batch_size=session.trainer.batch_size or rows,
            seed=session.seed,
            device=session.device,
            world=session.world,
            prepare=prepare,
        )
        self._train(learner, feed, session)

    def _complain(self, solver: str, learner: Descent) -> None:
        warnings.warn(
            f"LogisticRegression.fit: {solver} stopped after {learner.iterations} steps with a gradient of "
            f"{learner.residual:.2g}, above tol={self.tol:g}; raise max_iter, scale the features or lower C",
            ConvergenceWarning,
            stacklevel=3,
        )

    def _keep(self, learner: Descent, intake: Intake) -> None:
        """The solution in scikit-learn's shapes, as arrays like those it was learned from."""
        theta, origin = learner.theta, intake.origin
        origin = replace(origin, dtype=origin.dtype if origin.dtype == "float64" else "float32")
        intercept = theta[:, -1] if self.fit_intercept else theta.new_zeros(len(theta))
        self.classes_ = _classes(intake)
        self.coef_ = origin.mirror(theta[:, : intake.width].contiguous())
        self.intercept_ = origin.mirror(intercept.contiguous())
        self.n_iter_ = np.array([max(learner.iterations, 1)], dtype=np.int32)

    # -- settings ----------------------------------------------------------------------------------------

    def _penalty(self) -> tuple[float, float]:
        """C and l1_ratio, from the older ``penalty`` too."""
        if not is_number(self.C) or not self.C > 0:
            raise InvalidInput(f"C is {self.C!r}; it must be positive, and infinity means no penalty")
        if not is_number(self.l1_ratio) or not 0 <= self.l1_ratio <= 1:
            raise InvalidInput(f"l1_ratio is {self.l1_ratio!r}; it must lie in [0, 1]: 0 is L2, 1 is L1")
        if self.penalty == "deprecated":
            return float(self.C), 0.0 if math.isinf(self.C) else float(self.l1_ratio)
        if self.penalty not in ("l1", "l2", "elasticnet", None):
            raise InvalidInput(f"penalty is {self.penalty!r}; leave it out and say l1_ratio, from 0 (L2) to 1 (L1)")
        warnings.warn(
            "penalty is scikit-learn's older spelling: use l1_ratio=0 for 'l2', l1_ratio=1 for 'l1', a number between "
            "for 'elasticnet', and C=inf for None",
            FutureWarning,
            stacklevel=4,
        )
        if self.penalty is None:
            return math.inf, 0.0
        return float(self.C), _PENALTIES.get(self.penalty, float(self.l1_ratio))

    def _check_settings(self) -> None:
        number("tol", self.tol, ends="(]")
        whole("max_iter", self.max_iter)
        for name in ("fit_intercept", "warm_start"):
            flag(name, getattr(self, name))
        weights = self.class_weight
        if weights is not None and weights != "balanced" and not isinstance(weights, Mapping):
            raise InvalidInput(f"class_weight is {weights!r}; use None, 'balanced' or a dict of labels and weights")

    def _check_solver(self, l1_ratio: float) -> None:
        one_of("solver", self.solver, ("auto", *_SOLVERS))
        if self.solver in ("newton", "lbfgs") and l1_ratio > 0:
            raise InvalidInput(
                f"solver {self.solver!r} needs an L2 penalty (l1_ratio=0), but l1_ratio is {l1_ratio:g}; use "
                "'proximal-newton' or 'auto'"
            )
        if self.solver == "proximal-newton" and l1_ratio == 0:
            raise InvalidInput("solver 'proximal-newton' is for l1_ratio > 0; use 'newton', 'lbfgs' or 'auto'")

    def _choose(self, rows: int, start: Tensor, l1_ratio: float) -> str:
        """The solver, after a look at sizes and penalty."""
        if self.solver != "auto":
            return self.solver
        if l1_ratio > 0:
            return "proximal-newton"
        parameters = max(len(start) - 1, 1) * start.shape[1]
        small = parameters <= _NEWTON_SIZE and rows * parameters**2 <= _NEWTON_WORK
        return "newton" if small else "lbfgs"

    def _previous(self) -> tuple[np.ndarray, Tensor] | None:
        """Classes and parameters of the last fit."""
        return (self.classes_, self._theta("cpu")) if hasattr(self, "coef_") else None

    def _start(self, intake: Intake, previous: tuple[np.ndarray, Tensor] | None) -> Tensor:
        classes = _classes(intake)
        rows = 1 if len(classes) == 2 else len(classes)
        zeros = torch.zeros(rows, intake.width + int(self.fit_intercept), dtype=torch.float64)
        if previous is None:
            return zeros
        labels, theta = previous
        if not np.array_equal(labels, classes) or theta.shape[1] - 1 != intake.width:
            raise InvalidInput(
                f"warm_start needs the classes and features of the last fit, {len(labels)} and {theta.shape[1] - 1}; "
                f"here are {len(classes)} and {intake.width}; set warm_start=False to begin anew"
            )
        zeros += theta[:, : zeros.shape[1]]
        return zeros

    # -- answers -----------------------------------------------------------------------------------------

    def _theta(self, device: Any) -> Tensor:
        """The parameters (r, d + 1) as float64."""
        coef, intercept = (torch.as_tensor(part).to(device, torch.float64) for part in (self.coef_, self.intercept_))
        return torch.cat([coef, intercept[:, None]], 1)

    def _probabilities(self, X: Tensor) -> Tensor:
        return probabilities(self._theta(X.device), X)

    def predict_log_proba(self, X: Any) -> Any:
        """Logarithm of the probability of each class, (n, k)."""
        tensor, origin = self._arrive(X, "predict_log_proba")
        return origin.mirror(probabilities(self._theta(tensor.device), tensor, log=True))

    def decision_function(self, X: Any) -> Any:
        """Log-odds of the second of two classes, (n,), or the score of each class, (n, k)."""
        tensor, origin = self._arrive(X, "decision_function")
        found = scores(self._theta(tensor.device), tensor)
        return origin.mirror(found[:, 0] if found.shape[1] == 1 else found)

    # -- words and pictures --------------------------------------------------------------------------------

    def _facts(self) -> dict[str, Any]:
        coef = self._theta("cpu")[:, :-1]
        return {
            "classes": len(self.classes_),
            "solver": f"{self.solver_}, {int(self.n_iter_[0])} steps",
            "coefficients": f"{int((coef != 0).sum())} of {coef.numel()} not zero",
            "largest": float(coef.abs().max()),
            "objective": float(self.history_[-1]["loss"]),
        }

    def plot(self, ax: Any = None) -> Any:
        """The coefficients as a picture: a bar a feature for two classes, a map of classes by features else."""
        from benthic.linear.picture import plot_coefficients

        names = getattr(getattr(self, "schema_", None), "encoded_names", None)
        if names is None:
            names = getattr(self, "feature_names_in_", None)
        coef = self._theta("cpu")[:, :-1].numpy()
        labels = [str(i) for i in range(coef.shape[1])] if names is None else [str(name) for name in names]
        return plot_coefficients(coef, labels, [str(label) for label in self.classes_], ax)


def _classes(intake: Intake) -> np.ndarray:
    if intake.classes is None:
        raise InvalidInput("the data have no labels")
    return intake.classes


def _precision(intake: Intake) -> float:
    """Relative rounding error of the type the rows arrive in."""
    dtype = intake.data.X.dtype if intake.data is not None else getattr(torch, intake.origin.dtype)
    return float(torch.finfo(dtype).eps)
