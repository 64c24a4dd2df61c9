"""Logistic regression: class log-odds linear in the features."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from benthic.base.capabilities import Classifies
from benthic.base.errors import InvalidInput, nearest
from benthic.base.validation import speaking
from benthic.data.batch import Batch
from benthic.linear.descent import Descent, Goal
from benthic.linear.newton import Newton
from benthic.linear.proximal import ProximalNewton
from benthic.linear.quasi_newton import QuasiNewton
from benthic.linear.scores import probabilities, scores
from benthic.training.distributed import World
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
            self._check_settings()
        with self._session(X) as session:
            previous = self._previous() if self.warm_start else None
            intake = Intake(self, X, y, target="labels", sample_weight=sample_weight)
            with speaking(self, "fit"):
                prepare = self._class_weights(intake)
                start = self._start(intake, previous)
            goal = Goal(C, l1_ratio, self.fit_intercept, self.tol, self.max_iter, _precision(intake))
            self.solver_ = self._choose(intake, start, l1_ratio)
            learner = _SOLVERS[self.solver_](start, goal)
            self._run(learner, intake, prepare, session)
        return self

    def _run(self, learner: Descent, intake: Intake, prepare: Prepare | None, session: Session) -> None:
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
        if not learner.converged:
            warnings.warn(
                f"LogisticRegression.fit: {self.solver_} stopped after {learner.iterations} steps with a gradient of "
                f"{learner.residual:.2g}, above tol={self.tol:g}; raise max_iter, scale the features or lower C",
                ConvergenceWarning,
                stacklevel=3,
            )
        self.classes_ = intake.classes
        self.n_iter_ = np.array([max(learner.iterations, 1)], dtype=np.int32)
        self._keep(learner.theta, intake)

    def _keep(self, theta: Tensor, intake: Intake) -> None:
        """The solution in scikit-learn's shapes, as arrays like those it was learned from."""
        origin = replace(self._fit_origin, dtype=str(intake_dtype(intake)).removeprefix("torch."))
        intercept = theta[:, -1] if self.fit_intercept else theta.new_zeros(len(theta))
        self.coef_ = origin.mirror(theta[:, : intake.width].contiguous())
        self.intercept_ = origin.mirror(intercept.contiguous())

    # -- settings ----------------------------------------------------------------------------------------

    def _penalty(self) -> tuple[float, float]:
        """C and l1_ratio, from the older ``penalty`` too."""
        if not _is_real(self.C) or not self.C > 0:
            raise InvalidInput(f"C is {self.C!r}; it must be positive, and infinity means no penalty")
        if not _is_real(self.l1_ratio) or not 0 <= self.l1_ratio <= 1:
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
        if self.solver not in ("auto", *_SOLVERS):
            raise InvalidInput(
                f"solver {self.solver!r} is unknown{nearest(str(self.solver), _SOLVERS)}; use 'auto', "
                + ", ".join(map(repr, _SOLVERS))
            )
        if not _is_real(self.tol) or not self.tol > 0:
            raise InvalidInput(f"tol is {self.tol!r}; it must be positive")
        if not isinstance(self.max_iter, Integral) or isinstance(self.max_iter, bool) or self.max_iter < 1:
            raise InvalidInput(f"max_iter is {self.max_iter!r}; it must be a whole number of at least 1")
        for name in ("fit_intercept", "warm_start"):
            if not isinstance(getattr(self, name), (bool, np.bool_)):
                raise InvalidInput(f"{name} is {getattr(self, name)!r}; it must be True or False")
        weights = self.class_weight
        if weights is not None and weights != "balanced" and not isinstance(weights, Mapping):
            raise InvalidInput(f"class_weight is {weights!r}; use None, 'balanced' or a dict of labels and weights")

    def _choose(self, intake: Intake, start: Tensor, l1_ratio: float) -> str:
        """The solver, after a look at sizes and penalty."""
        if l1_ratio > 0:
            if self.solver not in ("auto", "proximal-newton"):
                raise self._fail(
                    "fit",
                    f"solver {self.solver!r} needs l1_ratio=0, but it is {l1_ratio:g}; use 'proximal-newton' or 'auto'",
                )
            return "proximal-newton"
        if self.solver == "proximal-newton":
            raise self._fail("fit", "solver 'proximal-newton' is for l1_ratio > 0; use 'newton', 'lbfgs' or 'auto'")
        if self.solver != "auto":
            return self.solver
        parameters = max(len(start) - 1, 1) * start.shape[1]
        small = parameters <= _NEWTON_SIZE and intake.rows * parameters**2 <= _NEWTON_WORK
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

    def _class_weights(self, intake: Intake) -> Prepare | None:
        """What multiplies the weight of each row by that of its class."""
        if self.class_weight is None:
            return None
        classes = _classes(intake)
        if isinstance(self.class_weight, Mapping):
            factors = _from_labels(self.class_weight, classes)
        else:
            counts = _count(intake, len(classes))
            factors = torch.where(counts > 0, counts.sum() / (len(classes) * counts), 0.0)
        return _weighing(factors)

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


def _is_real(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _classes(intake: Intake) -> np.ndarray:
    if intake.classes is None:
        raise InvalidInput("the data have no labels")
    return intake.classes


def intake_dtype(intake: Intake) -> torch.dtype:
    """The floating type the rows arrive in."""
    if intake.data is not None:
        return intake.data.X.dtype
    return torch.float32 if intake.origin.dtype == "float32" else torch.float64


def _precision(intake: Intake) -> float:
    return float(torch.finfo(intake_dtype(intake)).eps)


def _from_labels(weights: Mapping[Any, float], classes: np.ndarray) -> Tensor:
    unknown = [label for label in weights if label not in classes]
    if unknown:
        raise InvalidInput(f"class_weight names {unknown[0]!r}, which is not among the classes {list(classes)}")
    factors = torch.tensor([float(weights.get(label, 1.0)) for label in classes], dtype=torch.float64)
    if not bool((factors >= 0).all()) or float(factors.sum()) == 0:
        raise InvalidInput("class_weight has negative weights or only zeros; weights must be >= 0")
    return factors


def _count(intake: Intake, classes: int) -> Tensor:
    """Weight of the rows of each class, over all data."""
    feed = intake.feed(batch_size=1 << 16, seed=0, device=torch.device("cpu"), world=World())
    total = torch.zeros(classes, dtype=torch.float64)
    for part in feed.open(0):
        _, y, weight = part.batch
        if y is not None:
            total += torch.bincount(y, None if weight is None else weight.double(), minlength=classes)
    return total


def _weighing(factors: Tensor) -> Callable[[Batch], Batch]:
    def prepare(batch: Batch) -> Batch:
        X, y, weight = batch
        if y is None:
            return batch
        own = factors.to(X)[y]
        return Batch(X, y, own if weight is None else own * weight)

    return prepare
