"""Bagging: one kind of model fitted to many resamples of the rows, and averaged."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from benthic.base.capabilities import Classifies, Predicts, to_numpy
from benthic.base.errors import InvalidInput
from benthic.base.quiet import load
from benthic.base.validation import check_labels, check_targets, speaking
from benthic.data.read import read
from benthic.data.scan import as_source
from benthic.trees.bags import _Bagging
from benthic.trees.decision_tree import DecisionTreeClassifier, DecisionTreeRegressor


class BaggingClassifier(Classifies, _Bagging):
    r"""The mean of the class probabilities of many models, each fitted to a resample of the rows.

    .. math:: \hat p(x) = \frac1B \sum_{b=1}^B \hat p_b(x)

    Averaging takes away variance and leaves bias, so it pays for models that change much from sample to sample
    (Breiman, 1996). The rows that a resample leaves out, about 37 %, judge the model fitted to it.

    estimator: any classifier, of this library or of scikit-learn; None is ``DecisionTreeClassifier()``.
    n_estimators: B. max_samples, max_features: rows and features drawn for each, a number or a share.
    bootstrap, bootstrap_features: whether they are drawn with replacement. A draw of rows with one class only is
    repeated. oob_score: whether to keep ``oob_score_`` and ``oob_decision_function_``. n_jobs: threads; None is one,
    -1 all. random_state: decides the draws, and the models' own.

    classes_: (k,). estimators_: the models. estimators_features_: the columns each was given.
    estimators_samples_: the rows each was given. oob_score_: accuracy on rows left out, over the trees that left them
    out. A model file holds the models if they are of this library.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = BaggingClassifier(n_estimators=25, oob_score=True, random_state=0).fit(X, y)
    >>> 0.9 < model.oob_score_ < 1
    True
    """

    def __init__(
        self,
        estimator: Any = None,
        n_estimators: int = 10,
        *,
        max_samples: float = 1.0,
        max_features: float = 1.0,
        bootstrap: bool = True,
        bootstrap_features: bool = False,
        oob_score: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.n_estimators = n_estimators
        self.max_samples = max_samples
        self.max_features = max_features
        self.bootstrap = bootstrap
        self.bootstrap_features = bootstrap_features
        self.oob_score = oob_score
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the models to resamples of rows and labels, or of a file: ``fit(path, 'column')``."""
        with self._whole():
            with speaking(self, "fit"):
                self._check()
                X, y = _read(X, y)
            tensor, _ = self._arrive(X, "fit", reset=True)
            with speaking(self, "fit"):
                self.classes_, codes = check_labels(y, len(tensor))
                self._fit_all(X, len(tensor), codes, DecisionTreeClassifier())
            self._mean, self._answers = np.bincount(codes) / len(codes), len(self.classes_)
            if self.oob_score:
                self.oob_decision_function_ = self._out_of_bag(X)
                judged = ~np.isnan(self.oob_decision_function_[:, 0])
                self.oob_score_ = float((self.oob_decision_function_.argmax(1) == codes)[judged].mean())
        return self

    def _one(self, model: Any, X: Any) -> Tensor:
        """Probabilities (n, k) of one model, zero for classes it has not seen."""
        seen = np.asarray(model.classes_, dtype=np.int64)
        if hasattr(model, "predict_proba"):
            found = torch.as_tensor(model.predict_proba(X)).double()
        else:
            votes = torch.as_tensor(to_numpy(model.predict(X)).astype(np.int64))
            found = (votes[:, None] == torch.as_tensor(seen)).double()
        out = found.new_zeros(len(found), self._answers)
        out[:, torch.as_tensor(seen, device=found.device)] = found
        return out

    def _probabilities(self, X: Any) -> Tensor:
        return self._average(X)

    def predict_proba(self, X: Any) -> Any:
        """Mean of the class probabilities of the models, (n, k), columns in the order of ``classes_``."""
        _, origin = self._arrive(X, "predict_proba")
        return origin.mirror(self._average(X))

    def predict(self, X: Any) -> Any:
        """The class of the largest mean probability."""
        _, origin = self._arrive(X, "predict")
        codes = self._average(X).argmax(1).cpu()
        if origin.kind == "torch" and self.classes_.dtype.kind in "biuf":
            return torch.as_tensor(self.classes_)[codes].to(origin.device)
        return self.classes_[codes.numpy()]

    def _facts(self) -> dict[str, Any]:
        return {"classes": len(self.classes_), **super()._facts()}


class BaggingRegressor(Predicts, _Bagging):
    r"""The mean of many models for numbers, each fitted to a resample of the rows (Breiman, 1996).

    .. math:: \hat y(x) = \frac1B \sum_{b=1}^B \hat y_b(x)

    estimator: any regressor, of this library or of scikit-learn; None is ``DecisionTreeRegressor()``. The other
    settings are those of ``BaggingClassifier``; ``oob_score_`` is the coefficient of determination on rows left out,
    and ``oob_prediction_`` the answers there.

    >>> import numpy as np
    >>> X = np.linspace(0, 6, 200)[:, None]
    >>> model = BaggingRegressor(n_estimators=50, random_state=0).fit(X, np.sin(X[:, 0]))
    >>> bool(abs(model.predict([[1.5]])[0] - np.sin(1.5)) < 0.02)
    True
    """

    def __init__(
        self,
        estimator: Any = None,
        n_estimators: int = 10,
        *,
        max_samples: float = 1.0,
        max_features: float = 1.0,
        bootstrap: bool = True,
        bootstrap_features: bool = False,
        oob_score: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.n_estimators = n_estimators
        self.max_samples = max_samples
        self.max_features = max_features
        self.bootstrap = bootstrap
        self.bootstrap_features = bootstrap_features
        self.oob_score = oob_score
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the models to resamples of rows and targets (n,) or (n, m), or of a file: ``fit(path, 'column')``."""
        with self._whole():
            with speaking(self, "fit"):
                self._check()
                X, y = _read(X, y)
            tensor, _ = self._arrive(X, "fit", reset=True)
            with speaking(self, "fit"):
                targets = check_targets(y, len(tensor)).double().numpy()
                self._fit_all(X, len(tensor), targets, DecisionTreeRegressor())
            table = targets.reshape(len(targets), -1)
            self._one_target, self._mean, self._answers = targets.ndim == 1, table.mean(0), table.shape[1]
            if self.oob_score:
                self._judge_left_out(X, table)
        return self

    def _judge_left_out(self, X: Any, targets: np.ndarray) -> None:

        found = self._out_of_bag(X)
        judged = ~np.isnan(found[:, 0])
        if judged.sum() < 2:
            raise InvalidInput("oob_score needs at least two rows left out of a resample; raise n_estimators")
        self.oob_prediction_ = found[:, 0] if self._one_target else found
        self.oob_score_ = float(load("sklearn.metrics").r2_score(targets[judged], found[judged]))

    def _one(self, model: Any, X: Any) -> Tensor:
        found = torch.as_tensor(model.predict(X)).double()
        return found.reshape(len(found), -1)

    def predict(self, X: Any) -> Any:
        """The mean of the answers of the models, shaped as the targets were."""
        _, origin = self._arrive(X, "predict")
        found = self._average(X)
        return origin.mirror(found[:, 0] if self._one_target else found)


def _read(X: Any, y: Any) -> tuple[Any, Any]:
    """Rows and targets in memory: a file is read as a whole; other sources are refused."""
    if isinstance(X, (str, Path)):
        if not isinstance(y, (str, int)):
            raise InvalidInput("X is a file, so y must be the name of its target column")
        data = read(X, y)
        return data.X, data.y
    if as_source(X) is not None:
        raise InvalidInput("X is a source of batches, but resamples need the rows in memory; pass a path or a frame")
    return X, y
