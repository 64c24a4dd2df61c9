"""Linear support vector classification for many rows."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metaestimators import available_if
from torch import Tensor

from benthic.base.capabilities import Classifies
from benthic.base.errors import InvalidInput
from benthic.base.estimator import Estimator
from benthic.base.seeds import seed_of
from benthic.base.settings import flag, is_real, one_of, whole
from benthic.base.validation import speaking
from benthic.svm.certificate import gather, lines
from benthic.svm.descent import coordinate_descent
from benthic.svm.primal import newton
from benthic.svm.taking import take
from benthic.svm.votes import class_factors

_WIDE = 2000  # columns from which a Hessian costs more than passes over the rows
_LOSSES = ("hinge", "squared_hinge")


def _no_probability(machine: Any) -> bool:
    raise AttributeError("LinearSVC gives no probabilities; use LogisticRegression or SVC(probability=True)")


class LinearSVC(Classifies, Estimator):
    r"""Classification by the widest margin in the features themselves.

    .. math:: \min_w \; \tfrac12 \|w\|^2 + \sum_i C_i \, \ell(y_i w^T x_i), \qquad
        \ell(m) = \max(0, 1 - m) \;\text{or}\; \max(0, 1 - m)^2

    The intercept is the weight of one more column that holds ``intercept_scaling``, so it is penalized as the others
    are (scikit-learn's objective). More than two classes are each told from the rest, and :math:`C_i` is C times the
    weight of the row and of its own class in each of these problems, so that a class weight of 2 is every row of the
    class twice. (Liblinear weighs only the class that is told from the rest.)

    The dual is solved by coordinate descent (Hsieh et al., 2008), the squared hinge with few columns by Newton's
    method on the primal, which ends at the optimum to rounding.

    penalty: ``"l2"``. loss: ``"squared_hinge"`` or ``"hinge"``. dual: True for coordinate descent, False for Newton
    (squared hinge only), ``"auto"`` chooses. tol: spread of the projected gradient at the end of coordinate descent.
    C: price of errors. multi_class: ``"ovr"``. fit_intercept, intercept_scaling: the extra column. class_weight:
    None, ``"balanced"`` or a dict. random_state: of the order of coordinates. max_iter: most passes.

    coef_: (1, d) or (k, d). intercept_: (1,) or (k,). n_iter_: most passes or steps of any class. certificate_:
    primal and dual value, their gap, and the violation of optimality, a number a class.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LinearSVC().fit(X, y)
    >>> round(model.score(X, y), 2), bool(model.certificate_["relative_gap"].max() < 1e-9)
    (0.97, True)
    """

    def __init__(
        self,
        *,
        penalty: str = "l2",
        loss: str = "squared_hinge",
        dual: bool | str = "auto",
        tol: float = 1e-4,
        C: float = 1.0,
        multi_class: str = "ovr",
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        class_weight: Mapping[Any, float] | str | None = None,
        random_state: Any = None,
        max_iter: int = 1000,
    ) -> None:
        self.penalty = penalty
        self.loss = loss
        self.dual = dual
        self.tol = tol
        self.C = C
        self.multi_class = multi_class
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.random_state = random_state
        self.max_iter = max_iter

    # -- learning ----------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from rows and labels, or from a file or source: ``fit(path, 'column')``.

        sample_weight: (n,) factors of C; a whole number equals that many copies of the row.
        """
        with speaking(self, "fit"):
            self._check_settings()
            self._check_choices()
        taken = take(self, X, y, sample_weight, "labels")
        with speaking(self, "fit"):
            self._learn(taken.X.numpy(), taken.y, taken.weight, taken.classes)
        return self

    def _check_settings(self) -> None:
        for name in ("C", "tol", "intercept_scaling"):
            value = getattr(self, name)
            if not is_real(value) or not value > 0:
                hint = "; for a hard margin use SVC(kernel='linear', C=inf)" if value == math.inf else ""
                raise InvalidInput(f"{name} is {value!r}; it must be a positive number{hint}")
        whole("max_iter", self.max_iter)
        flag("fit_intercept", self.fit_intercept)

    def _check_choices(self) -> None:
        one_of("loss", self.loss, _LOSSES)
        if self.penalty != "l2":
            raise InvalidInput(f"penalty is {self.penalty!r}; use 'l2', or LogisticRegression(l1_ratio=1) for zeros")
        if self.multi_class != "ovr":
            raise InvalidInput(f"multi_class is {self.multi_class!r}; use 'ovr', or SVC for pairs of classes")
        if self.dual not in (True, False, "auto"):
            raise InvalidInput(f"dual is {self.dual!r}; use True, False or 'auto'")
        if self.loss == "hinge" and self.dual is False:
            raise InvalidInput("loss='hinge' has a kink where Newton's method fails; use dual=True or 'squared_hinge'")

    def _learn(self, X: np.ndarray, codes: np.ndarray, weight: np.ndarray, classes: np.ndarray) -> None:
        price = float(self.C) * class_factors(self.class_weight, classes, codes, weight)[codes] * weight
        used = weight > 0
        extra = np.full((int(used.sum()), int(self.fit_intercept)), float(self.intercept_scaling))
        Z = np.ascontiguousarray(np.concatenate([X[used], extra], 1))
        parts = [
            self._solve(Z, np.where(codes[used] == k, 1.0, -1.0), price[used], k)
            for k in (range(len(classes)) if len(classes) > 2 else [1])
        ]
        W = np.stack([w for w, _, _ in parts])
        self.classes_ = classes
        self.coef_ = W[:, : X.shape[1]].copy()
        self.intercept_ = W[:, -1] * self.intercept_scaling if self.fit_intercept else np.zeros(len(W))
        self.n_iter_ = max(1, *(steps for _, steps, _ in parts))
        self.certificate_ = gather([certificate for _, _, certificate in parts])

    def _solve(
        self, Z: np.ndarray, y: np.ndarray, price: np.ndarray, k: int
    ) -> tuple[np.ndarray, int, dict[str, float]]:
        """Weights of one class against the rest, passes or steps made, and the certificate."""
        squared = self.loss == "squared_hinge"
        if squared and (self.dual is False or (self.dual == "auto" and Z.shape[1] <= _WIDE)):
            w, steps, left = newton(Z, y, price, float(self.tol))
            alpha = 2 * price * np.maximum(1 - y * (Z @ w), 0.0)
            return w, steps, _certify(Z, y, price, w, alpha, squared, left)
        alpha, w = np.zeros(len(Z)), np.zeros(Z.shape[1])
        upper = np.full(len(Z), np.inf) if squared else price
        ridge = 0.5 / price if squared else np.zeros(len(Z))
        state = np.array([(seed_of(self.random_state) * 2 + 1 + k) % (1 << 62) or 1], dtype=np.uint64)
        steps, left = coordinate_descent(Z, y, upper, ridge, alpha, w, float(self.tol), int(self.max_iter), state)
        if left > self.tol:
            warnings.warn(
                f"LinearSVC.fit: coordinate descent stopped after {steps} passes with a violation of {left:.2g}, above "
                f"tol={self.tol:g}; raise max_iter, scale the features or lower C",
                ConvergenceWarning,
                stacklevel=4,
            )
        return w, int(steps), _certify(Z, y, price, w, alpha, squared, left)

    # -- answers -----------------------------------------------------------------------------------------

    def _scores(self, X: Tensor) -> Tensor:
        coef, intercept = (torch.as_tensor(part).to(X) for part in (self.coef_, self.intercept_))
        return X @ coef.T + intercept

    def decision_function(self, X: Any) -> Any:
        """Score of the second of two classes, (n,), or of each class against the rest, (n, k)."""
        tensor, origin = self._arrive(X, "decision_function")
        scores = self._scores(tensor)
        return origin.mirror(scores[:, 0] if scores.shape[1] == 1 else scores)

    def predict(self, X: Any) -> Any:
        """The class with the largest score."""
        tensor, origin = self._arrive(X, "predict")
        scores = self._scores(tensor)
        codes = ((scores[:, 0] > 0).long() if scores.shape[1] == 1 else scores.argmax(1)).cpu()
        if origin.kind == "torch" and self.classes_.dtype.kind in "biuf":
            return torch.as_tensor(self.classes_)[codes].to(origin.device)
        return self.classes_[codes.numpy()]

    @available_if(_no_probability)
    def predict_proba(self, X: Any) -> Any:
        """Not available: the scores are no log-odds."""
        raise NotImplementedError

    # -- words and pictures ------------------------------------------------------------------------------

    def _facts(self) -> dict[str, Any]:
        return {"classes": len(self.classes_), "passes": int(self.n_iter_), **lines(self.certificate_)}

    def plot(self, ax: Any = None) -> Any:
        """The weights as a picture: a bar a feature for two classes, a map of classes by features else."""
        from benthic.linear.picture import plot_coefficients

        names = getattr(getattr(self, "schema_", None), "encoded_names", None)
        if names is None:
            names = getattr(self, "feature_names_in_", None)
        labels = [str(i) for i in range(self.coef_.shape[1])] if names is None else [str(name) for name in names]
        figure = plot_coefficients(self.coef_, labels, [str(label) for label in self.classes_], ax)
        if len(self.coef_) == 1:
            figure.axes[0].set_xlabel(f"change of the score of {self.classes_[-1]} per unit")
        return figure


def _certify(
    Z: np.ndarray, y: np.ndarray, price: np.ndarray, w: np.ndarray, alpha: np.ndarray, squared: bool, left: float
) -> dict[str, float]:
    """Primal at w, dual at α, and their gap, which is at least the distance from the optimum."""
    slack = np.maximum(1 - y * (Z @ w), 0.0)
    primal = float(w @ w) / 2 + float(price @ (slack**2 if squared else slack))
    v = Z.T @ (alpha * y)
    dual = float(alpha.sum()) - float(v @ v) / 2 - (float((alpha**2 / price).sum()) / 4 if squared else 0.0)
    scale = max(abs(primal), abs(dual), 1e-300)
    gap = primal - dual
    gap = max(gap, 0.0) if abs(gap) < 1e-13 * scale else gap
    return {"kkt_violation": left, "primal": primal, "dual": dual, "gap": gap, "relative_gap": gap / scale}
