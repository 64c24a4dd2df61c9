"""Gradient boosting: small trees, each a step down the slope of a loss."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from benthic.base.capabilities import Classifies, Predicts
from benthic.base.errors import InvalidInput, nearest
from benthic.base.threads import Crew
from benthic.base.validation import speaking
from benthic.trees.boosting_base import _GradientBoosting
from benthic.trees.boosting_objective import NamedObjective, Objective, SoftmaxObjective, TorchObjective
from benthic.trees.histogram_intake import (
    Table,
    all_or_nothing,
    class_factors,
    enter,
)
from benthic.trees.losses import LOGISTIC, Loss, named_loss


class GradientBoostingRegressor(Predicts, _GradientBoosting):
    r"""Numbers as a sum of small trees, each fitted to the slope of a loss at the sum so far.

    .. math:: F_m = F_{m-1} + \nu \sum_j \gamma_j 1[x \in R_j], \qquad
        \gamma_j = \arg\min_\gamma \sum_{x_i \in R_j} \ell(y_i, F_{m-1}(x_i) + \gamma)

    Friedman, 2001, with Newton's steps and cuts found in histograms (Ke et al., 2017). The best step of a leaf is a
    mean, a median or another quantile where the loss has one, and a few safeguarded Newton steps elsewhere.

    loss: ``"squared_error"``, ``"absolute_error"``, ``"huber"``, ``"quantile"``, ``"poisson"``, ``"gamma"`` (the last
    two give positive answers), or a torch function ``loss(raw, y)`` of scores and targets (n,) that returns (n,).
    quantile: level of ``"quantile"``. alpha: share of rows on which ``"huber"`` starts quadratic. learning_rate: ν.
    max_iter: rounds. max_leaf_nodes, max_depth, min_samples_leaf: limits of a tree. l2_regularization: λ, added to a
    leaf's curvature (quantiles do not use it). max_features: columns a node looks at (a share, a number or a name).
    max_bins: most bins of a column, 255 at most. categorical_features: ``"from_dtype"`` for the category columns of
    frames, or a mask, positions or names too. monotonic_cst: -1, 0 or 1 for each column, or a dict: the answer must
    fall, may do as it likes, must rise. subsample: share of rows a round learns from. growth: ``"leaf"`` cuts the leaf
    that gains most, ``"depth"`` level by level. early_stopping, validation_fraction, n_iter_no_change, tol: stop when
    the held-out loss (without a fraction, the training loss) has not fallen for so many rounds, and keep the rounds
    up to the best; ``"auto"`` does above 10,000 rows. warm_start: go on from the trees there are. n_jobs: threads; None
    for as many as torch uses; the trees do not depend on it. verbose: a bar on a terminal when it takes long.

    Missing values go to the better side; categories that were not seen go where missing ones go. There are no sample
    weights: a row that counts twice is not two rows to ``min_samples_leaf``.

    trees_: the parallel arrays of all trees. n_iter_: rounds kept. history_: a dict a round with its losses.
    feature_importances_: (p,) share of the gain.

    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = GradientBoostingRegressor(max_iter=50, max_leaf_nodes=4).fit(X[:300], y[:300])
    >>> model.score(X[300:], y[300:]) > 0.4
    True
    """

    def __init__(
        self,
        loss: str | Callable[..., Any] = "squared_error",
        *,
        quantile: float | None = None,
        alpha: float = 0.9,
        learning_rate: float = 0.1,
        max_iter: int = 100,
        max_leaf_nodes: int | None = 31,
        max_depth: int | None = None,
        min_samples_leaf: int = 20,
        l2_regularization: float = 0.0,
        max_features: Any = 1.0,
        max_bins: int = 255,
        categorical_features: Any = "from_dtype",
        monotonic_cst: Any = None,
        subsample: float = 1.0,
        growth: str = "leaf",
        warm_start: bool = False,
        early_stopping: bool | str = "auto",
        validation_fraction: float | None = 0.1,
        n_iter_no_change: int = 10,
        tol: float = 1e-7,
        n_jobs: int | None = None,
        verbose: bool = True,
        random_state: Any = None,
    ) -> None:
        self.loss = loss
        self.quantile = quantile
        self.alpha = alpha
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.max_leaf_nodes = max_leaf_nodes
        self.max_depth = max_depth
        self.min_samples_leaf = min_samples_leaf
        self.l2_regularization = l2_regularization
        self.max_features = max_features
        self.max_bins = max_bins
        self.categorical_features = categorical_features
        self.monotonic_cst = monotonic_cst
        self.subsample = subsample
        self.growth = growth
        self.warm_start = warm_start
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from rows (n, d) and targets (n,), or from a file: ``fit(path, 'column')``."""
        with all_or_nothing(self):
            with speaking(self, "fit"):
                self._check()
                if not callable(self.loss):
                    named_loss(self.loss, np.ones(1), 0.5 if self.quantile is None else self.quantile, self.alpha)
            table = enter(self, X, y, "numbers")
            with speaking(self, "fit"):
                if table.y.ndim > 1:
                    raise InvalidInput(
                        f"y has {table.y.shape[1]} columns; fit one model each, or use RandomForestRegressor"
                    )
                table = Table(table.X, table.y.astype(np.float64), None, table.categorical, table.names)
                self._boost(table, np.ones(1))
        return self

    def _objective(self, y: np.ndarray, weight: np.ndarray, crew: Crew) -> Objective:
        if callable(self.loss):
            self._positive = False
            return TorchObjective(self.loss, y)
        loss = named_loss(self.loss, y, self.quantile, self.alpha)
        self._positive = loss.positive
        return NamedObjective(loss, y, weight, crew)

    def _prediction(self, X: Tensor) -> Tensor:
        return self._answer(self._scores(X))

    def _answer(self, scores: Tensor) -> Tensor:
        return scores[:, 0].exp() if self._positive else scores[:, 0]

    def staged_predict(self, X: Any) -> Iterator[Any]:
        """The answers after one round, two rounds and so on."""
        tensor, origin = self._arrive(X, "staged_predict")
        for scores in self._staged_scores(tensor):
            yield origin.mirror(self._answer(scores))

    def _facts(self) -> dict[str, Any]:
        name = self.loss if isinstance(self.loss, str) else getattr(self.loss, "__name__", "a torch function")
        return {"objective": name, **super()._facts()}


class GradientBoostingClassifier(Classifies, _GradientBoosting):
    r"""Class probabilities from log-odds that are sums of small trees.

    .. math:: p(y = k \mid x) \propto e^{F_k(x)}

    For two classes one sum of trees gives the log-odds of the second; for more each class has its own, and a round
    grows a tree for each. Friedman, 2001; Newton's steps, halved where the loss of a leaf would rise.

    loss: ``"log_loss"``, or a torch function ``loss(raw, y)`` that returns (n,): scores (n,) with y in {0, 1} for two
    classes, (n, k) with codes 0..k-1 for more. class_weight: None, ``"balanced"`` or a dict of labels and weights.
    The other settings are those of ``GradientBoostingRegressor``. A sign of monotonic_cst is about the second class.

    trees_, n_iter_, history_, feature_importances_: as there. classes_: (k,).

    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> GradientBoostingClassifier(max_iter=30).fit(X[:400], y[:400]).score(X[400:], y[400:]) > 0.94
    True
    """

    def __init__(
        self,
        loss: str | Callable[..., Any] = "log_loss",
        *,
        learning_rate: float = 0.1,
        max_iter: int = 100,
        max_leaf_nodes: int | None = 31,
        max_depth: int | None = None,
        min_samples_leaf: int = 20,
        l2_regularization: float = 0.0,
        max_features: Any = 1.0,
        max_bins: int = 255,
        categorical_features: Any = "from_dtype",
        monotonic_cst: Any = None,
        subsample: float = 1.0,
        growth: str = "leaf",
        warm_start: bool = False,
        early_stopping: bool | str = "auto",
        validation_fraction: float | None = 0.1,
        n_iter_no_change: int = 10,
        tol: float = 1e-7,
        class_weight: Any = None,
        n_jobs: int | None = None,
        verbose: bool = True,
        random_state: Any = None,
    ) -> None:
        self.loss = loss
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.max_leaf_nodes = max_leaf_nodes
        self.max_depth = max_depth
        self.min_samples_leaf = min_samples_leaf
        self.l2_regularization = l2_regularization
        self.max_features = max_features
        self.max_bins = max_bins
        self.categorical_features = categorical_features
        self.monotonic_cst = monotonic_cst
        self.subsample = subsample
        self.growth = growth
        self.warm_start = warm_start
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from rows (n, d) and labels (n,), or from a file: ``fit(path, 'column')``."""
        with all_or_nothing(self):
            with speaking(self, "fit"):
                self._check()
                if not callable(self.loss) and self.loss != "log_loss":
                    hint = nearest(str(self.loss), ["log_loss"])
                    raise InvalidInput(f"loss {self.loss!r} is unknown{hint}; use 'log_loss' or a torch function")
            table = enter(self, X, y, "labels")
            with speaking(self, "fit"):
                self._check_classes(table)
                factors = class_factors(self.class_weight, table.y, self.classes_)
                if factors is not None and callable(self.loss):
                    raise InvalidInput("class_weight goes with 'log_loss'; let your loss function weigh the classes")
                self._boost(table, np.ones(1) if factors is None else factors[table.y])
        return self

    def _check_classes(self, table: Table) -> None:
        if table.classes is None:
            raise InvalidInput("the data have no labels")
        going_on = self.warm_start and hasattr(self, "trees_")
        if going_on and not np.array_equal(table.classes, self.classes_):
            raise InvalidInput("warm_start needs the classes of the last fit; set warm_start=False")
        if self.monotonic_cst is not None and len(table.classes) > 2:
            raise InvalidInput(f"monotonic_cst is for two classes; y has {len(table.classes)}")
        self.classes_ = table.classes

    def _objective(self, y: np.ndarray, weight: np.ndarray, crew: Crew) -> Objective:
        two = len(self.classes_) == 2
        if callable(self.loss):
            return TorchObjective(self.loss, y.astype(np.float64) if two else y, 1 if two else len(self.classes_))
        if two:
            return NamedObjective(Loss(LOGISTIC), y.astype(np.float64), weight, crew)
        return SoftmaxObjective(y, len(self.classes_), weight)

    def _probabilities(self, X: Tensor) -> Tensor:
        return self._shares(self._scores(X))

    @staticmethod
    def _shares(scores: Tensor) -> Tensor:
        if scores.shape[1] > 1:
            return scores.softmax(1)
        second = scores.sigmoid()
        return torch.cat([1 - second, second], 1)

    def decision_function(self, X: Any) -> Any:
        """Log-odds of the second of two classes, (n,), or the score of each class, (n, k)."""
        tensor, origin = self._arrive(X, "decision_function")
        scores = self._scores(tensor)
        return origin.mirror(scores[:, 0] if scores.shape[1] == 1 else scores)

    def staged_predict_proba(self, X: Any) -> Iterator[Any]:
        """The probabilities after one round, two rounds and so on."""
        tensor, origin = self._arrive(X, "staged_predict_proba")
        for scores in self._staged_scores(tensor):
            yield origin.mirror(self._shares(scores))

    def staged_predict(self, X: Any) -> Iterator[Any]:
        """The most probable classes after one round, two rounds and so on."""
        tensor, _ = self._arrive(X, "staged_predict")
        for scores in self._staged_scores(tensor):
            yield self.classes_[self._shares(scores).argmax(1).cpu().numpy()]

    def _facts(self) -> dict[str, Any]:
        return {"classes": len(self.classes_), **super()._facts()}
