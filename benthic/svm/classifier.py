"""Support vector classification: the widest margin between two classes, pair by pair for more."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import combinations
from typing import Any, Self

import numpy as np
import torch
from sklearn.exceptions import NotFittedError
from sklearn.utils.metaestimators import available_if
from torch import Tensor

from benthic.base.capabilities import Classifies
from benthic.base.errors import InvalidInput
from benthic.base.seeds import seed_of
from benthic.base.validation import speaking
from benthic.svm.certificate import certify, gather, lines
from benthic.svm.gram import Gram
from benthic.svm.machine import KernelMachine
from benthic.svm.platt import couple, fit_sigmoid, held_out
from benthic.svm.separable import check_separable, inseparable, outgrown
from benthic.svm.solve import Dual, Options, Solution, solve
from benthic.svm.taking import take
from benthic.svm.votes import class_factors, one_against_rest, pair_weights, winners


def _has_probability(machine: Any) -> bool:
    if machine.probability:
        return True
    raise AttributeError("predict_proba is not available when probability=False; say SVC(probability=True)")


class SVC(Classifies, KernelMachine):
    r"""Classification by the widest margin, in the feature space of a kernel.

    .. math:: \min_{w, b, \xi \ge 0} \; \tfrac12 \|w\|^2 + \sum_i C_i \xi_i
        \quad \text{with} \quad y_i (w^T \phi(x_i) + b) \ge 1 - \xi_i

    Cortes & Vapnik, 1995. The saddle point of the Lagrangian is a minimum over (w, b) and a maximum over the
    multipliers α ≥ 0; b drops out of the dual because Σ α_i y_i = 0:

    .. math:: \max_\alpha \; \sum_i \alpha_i - \tfrac12 \sum_{ij} \alpha_i \alpha_j y_i y_j k(x_i, x_j),
        \qquad 0 \le \alpha_i \le C_i, \quad \sum_i \alpha_i y_i = 0

    It is solved by sequential minimal optimization with second-order working sets (Fan, Chen & Lin, 2005), shrinking
    and a cache of kernel rows; on small problems the last digits come from a linear system. More than two classes
    are told apart pair by pair.

    C: price of a row inside the margin; infinity asks for a hard margin. kernel: ``"rbf"``, ``"linear"``, ``"poly"``,
    ``"sigmoid"``, ``"precomputed"``, a kernel of ``benthic.kernels``, or a function of two arrays of rows. degree,
    gamma, coef0: of the named kernels; gamma ``"scale"`` is one over features times variance, ``"auto"`` one over
    features; that variance, and class_weight ``"balanced"``, count rows by sample_weight, so that whole weights are
    copies (scikit-learn's count every row once). shrinking: set rows aside that stay at their bounds. probability: fit
    sigmoids by an inner five-fold cross-validation, for ``predict_proba``; its folds are rows, so these alone tell a
    weight from copies. tol: largest violation of the optimality conditions. cache_size: megabytes for kernel rows, in
    double precision while the whole matrix takes less than 64 MB, else in single precision. class_weight: None,
    ``"balanced"`` or a dict.
    max_iter: most steps, -1 for no limit. decision_function_shape: ``"ovr"`` or ``"ovo"``. break_ties: among equal
    votes take the largest score. random_state: of the inner folds.

    support_, support_vectors_, n_support_, dual_coef_, intercept_, n_iter_: as scikit-learn has them. certificate_:
    primal and dual value, their gap, and the violation of the optimality conditions, a number a pair of classes.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SVC().fit(X, y)
    >>> round(model.score(X, y), 3), bool(model.certificate_["relative_gap"].max() < 1e-9)
    (0.973, True)
    """

    def __init__(
        self,
        *,
        C: float = 1.0,
        kernel: Any = "rbf",
        degree: int = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        shrinking: bool = True,
        probability: bool = False,
        tol: float = 1e-3,
        cache_size: float = 200,
        class_weight: Mapping[Any, float] | str | None = None,
        max_iter: int = -1,
        decision_function_shape: str = "ovr",
        break_ties: bool = False,
        random_state: Any = None,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.shrinking = shrinking
        self.probability = probability
        self.tol = tol
        self.cache_size = cache_size
        self.class_weight = class_weight
        self.max_iter = max_iter
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.random_state = random_state

    # -- learning ----------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from rows and labels, or from a file or source: ``fit(path, 'column')``.

        sample_weight: (n,) factors of C; a whole number equals that many copies of the row.
        """
        with speaking(self, "fit"):
            self._check_machine()
            self._check_shape()
        taken = take(self, X, y, sample_weight, "labels")
        with speaking(self, "fit"):
            self._learn(*taken)
        return self

    def _check_shape(self) -> None:
        if self.decision_function_shape not in ("ovr", "ovo"):
            raise InvalidInput(f"decision_function_shape is {self.decision_function_shape!r}; use 'ovr' or 'ovo'")
        if self.break_ties and self.decision_function_shape == "ovo":
            raise InvalidInput("break_ties must be False when decision_function_shape is 'ovo'")

    def _learn(self, X: Tensor, codes: np.ndarray, weight: np.ndarray, classes: np.ndarray) -> None:
        factors = class_factors(self.class_weight, classes, codes, weight)
        self._gamma = self._find_gamma(X, weight)
        self.positive_definite_ = True
        pairs = list(combinations(range(len(classes)), 2))
        gram = self._gram(X, len(pairs) * (1 + 5 * bool(self.probability)))
        found, certificates, sigmoids = [], [], []
        beta = np.zeros((len(X), len(pairs)))
        price = float(self.C) * factors[codes] * np.where(weight > 0, weight, 1.0)
        for column, (a, b) in enumerate(pairs):
            rows = np.flatnonzero(((codes == a) | (codes == b)) & (weight > 0))
            # of two classes the second counts as positive, of more the first of each pair, as scikit-learn has it
            sign = np.where(codes[rows] == (b if len(classes) == 2 else a), 1.0, -1.0)
            names = f"{classes.tolist()[a]!r} from {classes.tolist()[b]!r}"
            dual = _dual(gram if len(rows) == len(gram) else gram.restrict(rows), sign, price[rows])
            solution = self._solve_pair(dual, names, X, rows)
            found.append(solution)
            beta[rows, column] = solution.beta
            certificates.append(certify(dual, solution))
            if self.probability:
                sigmoids.append(self._sigmoid(gram, rows, sign, price, column))
        self._take_note(found, gram)
        self.classes_ = classes
        self._keep(X, codes, beta, pairs, found)
        self.class_weight_ = factors
        self.certificate_ = gather(certificates)
        self.probA_, self.probB_ = np.array(sigmoids).reshape(-1, 2).T.copy()

    def _solve_pair(self, dual: Dual, names: str, X: Tensor, rows: np.ndarray) -> Solution:
        if math.isfinite(self.C):
            return solve(dual, self._options())
        if self.kernel == "linear":
            check_separable(X.numpy()[rows], dual.z, names)
        options = self._options()
        limit = options.max_iter if options.max_iter >= 0 else 100_000 + 200 * len(rows)
        found = solve(dual, Options(options.tol, limit, options.shrinking, options.cache_bytes), outgrown)
        if outgrown(found.beta, dual.gram.diagonal) or (options.max_iter < 0 and not found.converged):
            raise inseparable(names)
        return found

    def _sigmoid(
        self, gram: Gram, rows: np.ndarray, sign: np.ndarray, price: np.ndarray, column: int
    ) -> tuple[float, float]:
        """The sigmoid of one pair, from decision values of rows left out."""

        def values(train: np.ndarray, test: np.ndarray) -> np.ndarray:
            part = gram.restrict(rows[train])
            found = solve(_dual(part, sign[train], price[rows[train]]), self._options())
            return gram.product(rows[test], rows[train], found.beta) + found.intercept

        out = held_out(sign > 0, seed_of(self.random_state) + column, values)
        return fit_sigmoid(out, sign > 0)

    def _keep(
        self, X: Tensor, codes: np.ndarray, beta: np.ndarray, pairs: list[tuple[int, int]], found: list[Solution]
    ) -> None:
        """The solution in scikit-learn's layout: support vectors by class, coefficients against the other classes."""
        order = np.flatnonzero(beta.any(1))
        order = order[np.argsort(codes[order], kind="stable")]
        k = len(self.classes_)
        coefficients = np.zeros((k - 1, len(order)))
        for column, (a, b) in enumerate(pairs):
            first, second = codes[order] == a, codes[order] == b
            coefficients[b - 1, first] = beta[order[first], column]
            coefficients[a, second] = beta[order[second], column]
        self.support_ = order.astype(np.int32)
        self.support_vectors_ = X.numpy()[order if self.kernel != "precomputed" else []].copy()
        self.n_support_ = np.bincount(codes[order], minlength=k).astype(np.int32)
        self.dual_coef_ = coefficients
        self.intercept_ = np.array([solution.intercept for solution in found])
        self.n_iter_ = np.array([max(solution.steps, 1) for solution in found], dtype=np.int32)
        self.fit_status_ = int(not all(solution.converged for solution in found))
        self.shape_fit_ = tuple(X.shape)

    # -- answers -----------------------------------------------------------------------------------------

    def _weights(self) -> np.ndarray:
        return pair_weights(self.dual_coef_, self.n_support_)

    def _pair_values(self, X: Tensor) -> Tensor:
        """Decision values (n, pairs)."""
        return self._expand(X, self._weights()) + torch.as_tensor(self.intercept_).to(X)

    def decision_function(self, X: Any) -> Any:
        """Signed distance to the margin's middle in units of half its width, (n,); for more classes (n, k) or a pair.

        With ``decision_function_shape="ovr"`` these are votes refined by scores, with ``"ovo"`` the values of all
        pairs, positive for the first class of a pair.
        """
        tensor, origin = self._arrive(X, "decision_function")
        values = self._pair_values(tensor)
        if len(self.classes_) == 2:
            return origin.mirror(values[:, 0])
        return origin.mirror(values if self.decision_function_shape == "ovo" else one_against_rest(values))

    def predict(self, X: Any) -> Any:
        """The class of each row, by the votes of all pairs."""
        tensor, origin = self._arrive(X, "predict")
        values = self._pair_values(tensor)
        if len(self.classes_) == 2:
            codes = (values[:, 0] > 0).long()
        else:
            codes = one_against_rest(values).argmax(1) if self.break_ties else winners(values)
        codes = codes.cpu()
        if origin.kind == "torch" and self.classes_.dtype.kind in "biuf":
            return torch.as_tensor(self.classes_)[codes].to(origin.device)
        return self.classes_[codes.numpy()]

    def _probabilities(self, X: Tensor) -> Tensor:
        if not self.probA_.size:
            raise NotFittedError(
                "This SVC instance is not fitted yet for probabilities: probability=True was set after fit. Call 'fit' "
                "again."
            )
        A, B = (torch.as_tensor(part).to(X) for part in (self.probA_, self.probB_))
        first = torch.sigmoid(-(self._pair_values(X) * A + B))
        if len(self.classes_) == 2:
            first = 1 - first
        return couple(first, len(self.classes_)).to(X.dtype)

    @available_if(_has_probability)
    def predict_proba(self, X: Any) -> Any:
        """Probability of each class, (n, k), by sigmoids of the pairs; needs ``probability=True``."""
        return super().predict_proba(X)

    @available_if(_has_probability)
    def predict_log_proba(self, X: Any) -> Any:
        """Logarithm of the probability of each class, (n, k); needs ``probability=True``."""
        tensor, origin = self._arrive(X, "predict_log_proba")
        return origin.mirror(self._probabilities(tensor).log())

    # -- words and pictures ------------------------------------------------------------------------------

    def _facts(self) -> dict[str, Any]:
        return {
            "classes": len(self.classes_),
            "kernel": self.kernel,
            "support vectors": f"{len(self.support_)} of {self.shape_fit_[0]} rows",
            "steps": int(self.n_iter_.sum()),
            **lines(self.certificate_),
        }

    def plot(self, X: Any = None, y: Any = None, ax: Any = None) -> Any:
        """Support vectors with the boundary and the margins, in the plane or the plane of most variance.

        X, y: rows and labels to draw too. ax: the axes to draw on; without it a new figure is made.
        """
        from benthic.svm.picture import plot_margins

        return plot_margins(self, X, y, ax)


def _dual(gram: Gram, sign: np.ndarray, price: np.ndarray) -> Dual:
    """The dual of one pair in signed multipliers."""
    return Dual(gram, sign, np.where(sign > 0, 0.0, -price), np.where(sign > 0, price, 0.0))
